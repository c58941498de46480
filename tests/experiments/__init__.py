"""The papers' experiments, run again: `make papers`, with FULL=1 over the papers' whole grids.

Tables and plots go to `build/papers`, which git ignores; the figures that the docs quote come from here.
"""

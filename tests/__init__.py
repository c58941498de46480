"""The tests of ppdm; `tests.experiments.bench` and `tests.docs` are scripts of their own."""

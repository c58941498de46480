"""Algorithm 2 as a transport plan: how many records of each published value get each original one.

Sorting the records by the published value and dealing out the estimated counts in order needs no
sort: it is the monotone plan between both counts (north-west corner rule, maths 4), a staircase of
at most N + N - 1 steps.
"""

from __future__ import annotations

import numpy as np

from ppdm_cli.repeatable import Staircase


def monotone(published: np.ndarray, original: np.ndarray) -> Staircase:
    """Return the plan between counts of one sum, with row sums `published` and column sums `original`."""
    ends = np.union1d(np.cumsum(published), np.cumsum(original))
    ends = ends[ends > 0]
    starts = np.concatenate([[0], ends])[: len(ends)]
    # the records from `starts` to `ends` in sorted order share a source and a target
    source = np.searchsorted(np.cumsum(published), starts, side="right")
    target = np.searchsorted(np.cumsum(original), starts, side="right")
    return Staircase(source, target, ends - starts)

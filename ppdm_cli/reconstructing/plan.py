"""Algorithm 2 as a transport plan: how many records of each published value get each original one.

Sorting the records by the published value and dealing out the estimated counts in order needs no
sort: it is the monotone plan between both counts (north-west corner rule, maths 4), a staircase of
at most N + N - 1 steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Staircase:
    """The plan's steps: `amount` records of published code `source` get the original code `target`."""

    source: np.ndarray
    target: np.ndarray
    amount: np.ndarray


def monotone(published: np.ndarray, original: np.ndarray) -> Staircase:
    """The plan between two counts of the same sum: row sums are `published`, column sums `original`."""
    ends = np.union1d(np.cumsum(published), np.cumsum(original))
    ends = ends[ends > 0]
    starts = np.concatenate([[0], ends])[: len(ends)]
    # the records from `starts` to `ends` in sorted order share a source and a target
    source = np.searchsorted(np.cumsum(published), starts, side="right")
    target = np.searchsorted(np.cumsum(original), starts, side="right")
    return Staircase(source, target, ends - starts)


def split(plan: Staircase, parts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The plan's amounts divided among parts with `parts[p, source]` records of each published code.

    Multivariate hypergeometric, part by part: as if all records of a source had been shuffled, so that
    ties are broken at random whatever the order of the file. Returns amounts[p, step]; over the steps
    of a source they sum to the part's records, over the parts to the plan's amount.
    """
    left = plan.amount.astype(np.int64).copy()
    dealt = np.zeros((len(parts), len(left)), np.int64)
    if not len(left):
        return dealt
    first = np.flatnonzero(np.r_[True, plan.source[1:] != plan.source[:-1]])
    ranks = np.arange(len(left)) - np.repeat(first, np.diff(np.r_[first, len(left)]))
    sources = plan.source[first]
    by_rank = [np.flatnonzero(ranks == r) for r in range(int(ranks.max()) + 1)]
    group_of = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(left)]))
    for part, counts in zip(dealt, parts, strict=True):
        need = counts[sources].astype(np.int64)
        rest = np.add.reduceat(left, first)
        for steps in by_rank:  # steps of different sources at once, those of one source in turn
            groups = group_of[steps]
            rest[groups] -= left[steps]
            drawn = rng.hypergeometric(left[steps], rest[groups], need[groups])
            part[steps] = drawn
            need[groups] -= drawn
        left -= part
    return dealt

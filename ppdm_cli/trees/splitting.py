"""Gains for growing: how good every test is, gain and gain ratio of one attribute at many nodes at once.

C4.5 release 8 (Quinlan 1993, 1996) as Weka's J48 does it, with its tolerance of 1e-6 for equal
numbers. The counts come as rows (node, code) that occur, so dense histograms and sorted records are
judged by the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

TINY = 1e-6
"""By less than this, numbers are equal."""


@dataclass(frozen=True)
class CodeCounts:
    """The codes that occur at each slot (an open node), ordered by slot and code, and their weights.

    `by_class` gives the weights of one class after the other, so that not all need be in memory.
    """

    slot: np.ndarray
    code: np.ndarray
    total: np.ndarray
    by_class: Callable[[], Iterable[np.ndarray]]


@dataclass(frozen=True)
class BestTests:
    """The best_tests test of one attribute at every slot; a gain of 0 or less where there is none."""

    gain: np.ndarray
    ratio: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """The codes that a numeric test separates: they occur at the slot, none between them does."""


def entropy_sum(counts: np.ndarray) -> np.ndarray:
    """Return the sum of x log2 x, 0 at 0: entropies are differences of such sums."""
    positive = counts > TINY
    return counts * np.log2(counts, out=np.zeros(counts.shape), where=positive)


def best_tests(
    numeric: bool, rows: CodeCounts, total: np.ndarray, classes: int, min_records: float, mdl: bool
) -> BestTests:
    """Return the best test of an attribute, at slots of the given total weights (missing values
    included)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if numeric:
            return _numeric(rows, total, classes, min_records, mdl)
        return _nominal(rows, total, min_records)


def _numeric(rows: CodeCounts, total: np.ndarray, classes: int, min_records: float, mdl: bool) -> BestTests:
    slots = len(total)
    gain, ratio = np.zeros(slots), np.zeros(slots)
    low, high = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    nothing = BestTests(gain, ratio, low, high)
    if len(rows.slot) < 2:
        return nothing
    first = np.searchsorted(rows.slot, np.arange(slots + 1))
    running = _running(rows.total)
    start = running.take(first)
    known = np.diff(start)
    least = 0.1 * known / classes
    least = np.where(least <= min_records + TINY, min_records, np.minimum(least, 25.0)) - TINY
    # the rows of a slot with enough records on both sides are next to each other
    lowest, highest = (start[:-1] + least).take(rows.slot), (start[1:] - least).take(rows.slot)
    fits = (running[1:] >= lowest) & (running[1:] <= highest)
    fits[:-1] &= rows.slot[1:] == rows.slot[:-1]
    fits[-1] = False
    tried = np.flatnonzero(fits)
    if not tried.size:
        return nothing
    at = rows.slot.take(tried)
    left_all = running.take(tried + 1) - start.take(at)
    after = entropy_sum(left_all) + entropy_sum(known.take(at) - left_all)
    before = entropy_sum(known)
    for counts in rows.by_class():
        running = _running(counts)
        start = running.take(first)
        whole = np.diff(start)
        left = np.maximum(running.take(tried + 1) - start.take(at), 0.0)
        after -= entropy_sum(left) + entropy_sum(np.maximum(whole.take(at) - left, 0.0))
        before -= entropy_sum(whole)
    saved = before.take(at) - after
    share = known / total
    saved = np.where(np.abs(saved * share.take(at)) < TINY, 0.0, saved) / total.take(at)
    # the lowest threshold among those within 1e-6 of the highest gain
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    top = np.zeros(slots)
    top[at[starts]] = np.maximum.reduceat(saved, starts)
    good = np.flatnonzero((saved >= top.take(at) - TINY) & (top.take(at) > TINY))
    here = at.take(good)
    new = np.diff(here, prepend=-1) > 0
    good, here = good[new], here[new]
    value = saved.take(good)
    if mdl:
        value = value - np.log2(np.bincount(at, minlength=slots)[here]) / total[here]
    useful = value >= TINY
    good, here, value = good[useful], here[useful], value[useful]
    chosen, left = tried.take(good), left_all.take(good)
    gain[here] = value
    low[here], high[here] = rows.code.take(chosen), rows.code.take(chosen + 1)
    spread = entropy_sum(total[here]) - entropy_sum(left) - entropy_sum(known[here] - left)
    lost = np.maximum(total[here] - known[here], 0.0)
    ratio[here] = _ratio(value, spread - entropy_sum(lost), total[here])
    return nothing


def _running(counts: np.ndarray) -> np.ndarray:
    """Return the running sums of all that comes before."""
    sums = np.zeros(len(counts) + 1)
    np.cumsum(counts, out=sums[1:])
    return sums


def _nominal(rows: CodeCounts, total: np.ndarray, min_records: float) -> BestTests:
    slots = len(total)

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(rows.slot, values, slots)

    filled = summed((rows.total >= min_records - TINY).astype(float)) > 1
    known = summed(rows.total)
    branches = summed(entropy_sum(rows.total))
    saved = entropy_sum(known) - branches
    for counts in rows.by_class():
        saved += summed(entropy_sum(counts)) - entropy_sum(summed(counts))
    saved = saved / total
    gain = np.where(filled & (np.abs(saved * known) >= TINY), saved, 0.0)
    spread = entropy_sum(total) - branches - entropy_sum(np.maximum(total - known, 0.0))
    ratio = np.where(filled, _ratio(gain, spread, total), -1.0)
    none = np.zeros(slots, np.int64)
    return BestTests(np.where(filled, gain, -1.0), ratio, none, none)


def _ratio(gain: np.ndarray, spread: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.where(np.abs(spread) < TINY, 0.0, gain * total / spread)

"""How good every test is: gain and gain ratio of one attribute at many nodes at once.

C4.5 release 8 (Quinlan 1993, 1996) as Weka's J48 does it, with its tolerance of 1e-6 for equal
numbers. The counts come as rows (node, code) that occur, so dense histograms and sorted records are
judged by the same formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppdm_cli.trees.records import Column

SMALL = 1e-6


@dataclass(frozen=True)
class Rows:
    """The codes that occur at each slot (an open node), ordered by slot and code; counts by class."""

    slot: np.ndarray
    code: np.ndarray
    counts: np.ndarray
    """(classes, rows), float64"""


@dataclass(frozen=True)
class Best:
    """The best test of one attribute at every slot; a gain of 0 where there is none."""

    gain: np.ndarray
    ratio: np.ndarray
    cut: np.ndarray
    """The last code of the first child, for a numeric attribute."""


def entropy_sum(counts: np.ndarray) -> np.ndarray:
    """x log2 x, 0 at 0: entropies are differences of sums of it."""
    positive = counts > SMALL
    return counts * np.log2(counts, out=np.zeros(counts.shape), where=positive)


def best(column: Column, rows: Rows, total: np.ndarray, min_records: float, mdl: bool) -> Best:
    """The best test of an attribute, at slots of the given total weights (missing values included)."""
    test = _numeric if column.feature.numeric else _nominal
    with np.errstate(divide="ignore", invalid="ignore"):
        return test(column, rows, total, min_records, mdl)


def _numeric(column: Column, rows: Rows, total: np.ndarray, min_records: float, mdl: bool) -> Best:
    slots, classes = len(total), len(rows.counts)
    gain, ratio, cut = np.zeros(slots), np.zeros(slots), np.zeros(slots, np.int64)
    nothing = Best(gain, ratio, cut)
    if len(rows.slot) < 2:
        return nothing
    first = np.searchsorted(rows.slot, np.arange(slots + 1))
    running = np.zeros((classes, len(rows.slot) + 1))
    np.cumsum(rows.counts, axis=1, out=running[:, 1:])
    base, known_class = running[:, first[:-1]], np.diff(running[:, first], axis=1)
    known = known_class.sum(axis=0)
    least = 0.1 * known / classes
    least = np.where(least <= min_records + SMALL, min_records, np.minimum(least, 25.0))
    left_all = running[:, 1:].sum(axis=0) - base.sum(axis=0)[rows.slot]
    right_all = known[rows.slot] - left_all
    least_here = least[rows.slot] - SMALL
    fits = (left_all >= least_here) & (right_all >= least_here)
    fits[:-1] &= rows.slot[1:] == rows.slot[:-1]
    fits[-1] = False
    tried = np.flatnonzero(fits)
    if not tried.size:
        return nothing
    at = rows.slot[tried]
    left = np.maximum(running[:, 1:][:, tried] - base[:, at], 0.0)
    right = np.maximum(known_class[:, at] - left, 0.0)
    after = entropy_sum(left_all[tried]) + entropy_sum(right_all[tried])
    for one, other in zip(left, right, strict=True):
        after -= entropy_sum(one) + entropy_sum(other)
    before = entropy_sum(known) - entropy_sum(known_class).sum(axis=0)
    saved = before[at] - after
    share = known / total
    saved = np.where(np.abs(saved * share[at]) < SMALL, 0.0, saved) / total[at]
    # the lowest threshold among those within SMALL of the highest gain
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    highest = np.zeros(slots)
    highest[at[starts]] = np.maximum.reduceat(saved, starts)
    good = np.flatnonzero((saved >= highest[at] - SMALL) & (highest[at] > SMALL))
    here, which = np.unique(at[good], return_index=True)
    chosen = tried[good[which]]
    value = saved[good[which]]
    if mdl:
        value = value - np.log2(np.bincount(at, minlength=slots)[here]) / total[here]
    useful = value >= SMALL
    here, chosen, value = here[useful], chosen[useful], value[useful]
    gain[here] = value
    low, high = rows.code[chosen].astype(np.int64), rows.code[chosen + 1].astype(np.int64)
    middle = column.values[low] / 2 + column.values[high] / 2
    cut[here] = np.clip(np.searchsorted(column.values, middle, side="right") - 1, low, high - 1)
    lost = total[here] - known[here]
    spread = entropy_sum(total[here]) - entropy_sum(left_all[chosen]) - entropy_sum(right_all[chosen])
    ratio[here] = _ratio(value, spread - entropy_sum(np.maximum(lost, 0.0)), total[here])
    return nothing


def _nominal(column: Column, rows: Rows, total: np.ndarray, min_records: float, mdl: bool) -> Best:
    slots = len(total)
    branch = rows.counts.sum(axis=0)

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(rows.slot, values, slots)

    filled = summed((branch >= min_records - SMALL).astype(float)) > 1
    known_class = np.array([summed(c) for c in rows.counts])
    known = known_class.sum(axis=0)
    branches = summed(entropy_sum(branch))
    after = branches - sum(summed(entropy_sum(c)) for c in rows.counts)
    saved = (entropy_sum(known) - entropy_sum(known_class).sum(axis=0) - after) / total
    gain = np.where(filled & (np.abs(saved * known) >= SMALL), saved, 0.0)
    spread = entropy_sum(total) - branches - entropy_sum(np.maximum(total - known, 0.0))
    ratio = np.where(filled, _ratio(gain, spread, total), -1.0)
    return Best(np.where(filled, gain, -1.0), ratio, np.zeros(slots, np.int64))


def _ratio(gain: np.ndarray, spread: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.where(np.abs(spread) < SMALL, 0.0, gain * total / spread)

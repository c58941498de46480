"""Counts for growing, by (slot, code, class): dense histograms where records are many, else sorted records.

A node with fewer records than an attribute has codes sorts its own records instead. Of the children of
a node all but the largest are counted, and the largest is what is left of the parent's histogram, where
that is less work; only whole numbers are subtracted, so what is left is exact. All dense histograms
together stay under 64 MB.

How good every test is (gain, gain ratio) is as in C4.5 release 8 (Quinlan 1993, 1996) as Weka's J48 does it,
with its tolerance of 1e-6 for equal numbers. Counts come as rows (node, code) that occur, so dense histograms
and sorted records are judged by the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ppdm_cli.engine import threads
from ppdm_cli.trees.records import CodedRecords

MOST_HISTOGRAM_BYTES = 64 << 20
_AT_ONCE = 1 << 17
"""The number of records that are sorted at once, over several attributes."""


@dataclass(frozen=True)
class Entries:
    """Records at slots; without weights each has 1."""

    record: np.ndarray
    slot: np.ndarray
    weight: np.ndarray | None

    def weights(self) -> np.ndarray:
        return np.ones(len(self.record)) if self.weight is None else self.weight

    def at(self, where: np.ndarray) -> Entries:
        return Entries(
            self.record.take(where),
            self.slot.take(where),
            None if self.weight is None else self.weight.take(where),
        )

    def only(self, slots: np.ndarray) -> Entries:
        """Return the entries of some slots, numbered anew."""
        if slots.all():
            return self
        number = np.cumsum(slots) - 1
        kept = self.at(np.flatnonzero(slots.take(self.slot)))
        return Entries(kept.record, number.take(kept.slot), kept.weight)

    def divided(self, slots: int) -> list[Entries]:
        """Return each slot's own entries, at a slot 0."""
        order = np.argsort(self.slot.astype(np.uint16) if slots <= 1 << 16 else self.slot, kind="stable")
        record = self.record.take(order)
        weight = None if self.weight is None else self.weight.take(order)
        ends = np.cumsum(np.bincount(self.slot, minlength=slots)).tolist()
        zero = np.zeros(len(record), np.int64)
        return [
            Entries(record[a:b], zero[a:b], None if weight is None else weight[a:b])
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
        ]


@dataclass(frozen=True)
class OpenLevel:
    """The nodes of a level: their entries, the open ones, and their parents."""

    entries: Entries
    open_: np.ndarray
    parent: np.ndarray


@dataclass(frozen=True)
class Task:
    """Attributes to be counted together at some slots; the rows' slots go through the attributes."""

    attributes: tuple[int, ...]
    slots: np.ndarray
    rows: Callable[[], CodeCounts]


class _Part:
    """The entries of some slots, numbered anew, with the common part of their keys."""

    def __init__(self, records: CodedRecords, entries: Entries, slots: np.ndarray) -> None:
        self.records, self.entries, self.size = records, entries.only(slots), int(slots.sum())
        # then they are all records, in order: nothing was split off, and missing values make copies
        self._all = not records.has_missing and len(self.entries.record) == records.rows
        self.classes = records.classes if self._all else records.classes.take(self.entries.record)

    def codes(self, attribute: int) -> np.ndarray:
        codes = self.records.columns[attribute].codes
        return codes if self._all else codes.take(self.entries.record)


class LevelCounter:
    """Counts the open nodes of one level after the other."""

    def __init__(self, records: CodedRecords) -> None:
        self.records = records
        self.classes = len(records.labels)
        # half for what is counted, by all threads together; half for what is kept for the children
        self.most, self.most_kept = MOST_HISTOGRAM_BYTES // 2 // (threads() + 1), MOST_HISTOGRAM_BYTES // 4
        self.subtracts = records.weights is None and not records.has_missing
        self._groups: dict[float, list[int]] = {}
        for attribute, column in enumerate(records.columns):
            if column.size > 1:
                least = 16.0
                while least < column.size:
                    least *= 4
                if (column.size + 1) * self.classes * 8 > self.most:
                    least = np.inf
                self._groups.setdefault(least, []).append(attribute)
        self._kept: dict[int, np.ndarray] = {}
        self._rows: dict[float, np.ndarray] = {}

    def tasks(self, level: OpenLevel) -> Iterator[Task]:
        """Yield the tasks that count everything at a level."""
        entries, open_ = level.entries, level.open_
        held = np.bincount(entries.slot, minlength=len(open_))
        before, rows_before = self._kept, self._rows
        self._kept, self._rows = {}, {}
        room = self.most_kept
        few: dict[bytes, tuple[np.ndarray, list[int]]] = {}
        for least, attributes in self._groups.items():
            many = open_ & (held >= least)
            if not many.all():
                rest = open_ & ~many
                if rest.any():
                    few.setdefault(rest.tobytes(), (rest, []))[1].extend(attributes)
            if not many.any():
                continue
            slots = np.flatnonzero(many)
            widest = max(self.records.columns[p].size + 1 for p in attributes) * self.classes * 8
            if len(slots) * widest > self.most:
                yield from self._in_pieces(entries, slots, attributes, max(1, self.most // widest))
                continue
            need = sum(len(slots) * self.records.columns[p].size * self.classes * 8 for p in attributes)
            keeps = self.subtracts and need <= room
            room -= need if keeps else 0
            if keeps:
                row = np.full(len(open_), -1, np.int64)
                row[slots] = np.arange(len(slots))
                self._rows[least] = row
            taken = None
            if least in rows_before:
                taken = _subtraction(level.parent, held, many, rows_before[least], widest // 8)
            part = _Part(self.records, entries, many if taken is None else taken.counted)
            for attribute in attributes:
                yield Task(
                    (attribute,), slots, self._dense(part, attribute, taken, before.get(attribute), keeps)
                )
        for rest, attributes in few.values():
            part, slots = _Part(self.records, entries, rest), np.flatnonzero(rest)
            together = max(1, _AT_ONCE // max(len(part.entries.record), 1))
            for numeric in (True, False):
                alike = [p for p in attributes if self.records.columns[p].feature.numeric == numeric]
                for i in range(0, len(alike), together):
                    some = tuple(alike[i : i + together])
                    yield Task(some, slots, self._sorted(part, some))

    def _in_pieces(
        self, entries: Entries, slots: np.ndarray, attributes: list[int], together: int
    ) -> Iterator[Task]:
        for i in range(0, len(slots), together):
            some = slots[i : i + together]
            which = np.zeros(int(entries.slot.max()) + 1, bool)
            which[some] = True
            part = _Part(self.records, entries, which)
            for attribute in attributes:
                yield Task((attribute,), some, self._dense(part, attribute, None, None, False))

    def _dense(
        self, part: _Part, attribute: int, taken: _Subtraction | None, before: np.ndarray | None, keeps: bool
    ) -> Callable[[], CodeCounts]:
        column = self.records.columns[attribute]
        size, width = column.size, column.size + column.missing

        def rows() -> CodeCounts:
            key = part.classes * part.size
            key += part.entries.slot
            key *= width
            key += part.codes(attribute)
            counts = np.bincount(key, part.entries.weight, self.classes * part.size * width)
            counts = counts.reshape(self.classes, part.size, width)
            if taken is not None and before is not None:
                counts = taken.completed(counts, before)
            if keeps:
                self._kept[attribute] = counts
            total = counts.sum(axis=0)[:, :size].ravel()
            there = np.flatnonzero(total)
            slot = there // size
            code = there - slot * size
            cell = there + slot if column.missing else there
            return CodeCounts(slot, code, total.take(there), lambda: (c.ravel().take(cell) for c in counts))

        return rows

    def _sorted(self, part: _Part, attributes: tuple[int, ...]) -> Callable[[], CodeCounts]:
        def rows() -> CodeCounts:
            widest = max(self.records.columns[p].size for p in attributes)
            keys, weights = [], []
            for i, attribute in enumerate(attributes):
                code = part.codes(attribute)
                key = part.entries.slot + i * part.size
                key *= widest
                key += code
                key *= self.classes
                key += part.classes
                weight = part.entries.weight
                if self.records.columns[attribute].missing:
                    known = np.flatnonzero(code != self.records.columns[attribute].size)
                    key = key.take(known)
                    weight = None if weight is None else weight.take(known)
                keys.append(key)
                if weight is not None:
                    weights.append(weight)
            key = keys[0] if len(keys) == 1 else np.concatenate(keys)
            if part.entries.weight is None:
                key.sort()
                return self._counted(key, None, widest)
            order = np.argsort(key, kind="stable")
            return self._counted(key.take(order), np.concatenate(weights).take(order), widest)

        return rows

    def _counted(self, key: np.ndarray, weight: np.ndarray | None, widest: int) -> CodeCounts:
        cell = key // self.classes
        class_ = key - cell * self.classes
        new = np.ones(len(key), bool)
        new[1:] = cell[1:] != cell[:-1]
        starts, row = np.flatnonzero(new), np.cumsum(new) - 1
        total = np.bincount(row, weight, len(starts)).astype(np.float64)
        there = cell.take(starts)
        slot = there // widest

        def by_class() -> Iterator[np.ndarray]:
            together = max(1, self.most // (8 * max(len(starts), 1)))
            for first in range(0, self.classes, together):
                some = min(together, self.classes - first)
                chosen: np.ndarray | slice = slice(None)
                if some < self.classes:
                    chosen = np.flatnonzero((class_ >= first) & (class_ < first + some))
                at = (class_[chosen] - first) * len(starts) + row[chosen]
                held = None if weight is None else weight[chosen]
                yield from np.bincount(at, held, some * len(starts)).reshape(some, len(starts))

        return CodeCounts(slot, there - slot * widest, total, by_class)


@dataclass(frozen=True)
class _Subtraction:
    """The slots to count, and the way in which the histograms of all dense slots follow from them."""

    counted: np.ndarray
    own: np.ndarray
    """Row of each dense slot among the counted slots; -1 if its histogram is found by subtraction."""
    left: np.ndarray
    """The dense slots whose histograms are found by subtraction, by their rank among the dense ones."""
    of: np.ndarray
    """The rows of their parents, in the histograms of the level before."""
    starts: np.ndarray
    ends: np.ndarray
    """The end of each one's siblings among the counted slots; `starts` has their start."""

    def completed(self, counts: np.ndarray, before: np.ndarray) -> np.ndarray:
        classes, _, width = counts.shape
        whole = np.empty((classes, len(self.own), width), counts.dtype)
        known = np.flatnonzero(self.own >= 0)
        whole[:, known] = counts[:, self.own[known]]
        for at, of, a, b in zip(
            self.left.tolist(), self.of.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True
        ):
            whole[:, at] = before[:, of]
            for sibling in range(a, b):
                whole[:, at] -= counts[:, sibling]
        return whole


def _subtraction(
    parent: np.ndarray, held: np.ndarray, many: np.ndarray, rows: np.ndarray, cells: int
) -> _Subtraction | None:
    """Return the slots to count: the largest children are left out if that saves more records than cells."""
    slots = len(parent)
    starts = np.flatnonzero(np.diff(parent, prepend=-1))
    of = rows.take(parent.take(starts))
    ends = np.append(starts[1:], slots)
    brood = np.add.reduceat(held, starts)
    largest = np.lexsort((held, parent)).take(ends - 1)
    direct = np.add.reduceat(np.where(many, held, 0), starts)
    spared = direct - (brood - held.take(largest))
    good = many.take(largest) & (of >= 0) & (spared > 2 * cells * (ends - starts))
    if not good.any():
        return None
    counted = many | np.repeat(good, ends - starts)
    counted[largest[good]] = False
    own = np.where(counted, np.cumsum(counted) - 1, -1)
    first = np.cumsum(counted) - counted  # counted slots before each slot
    rank = np.cumsum(many) - 1
    after = np.append(first, counted.sum())
    return _Subtraction(
        counted, own[many], rank[largest[good]], of[good], after[starts[good]], after[ends[good]]
    )


TINY = 1e-6
"""The difference below which numbers count as equal."""


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
    """Return the best test of an attribute at slots of these total weights, missing values included."""
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

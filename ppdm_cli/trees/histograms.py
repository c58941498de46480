"""Counting (slot, code, class): dense histograms where records are many, sorted records where few.

Dense histograms stay under 64 MB at a time; a node with fewer records than the attribute has codes
sorts its own records instead. Both give the rows that occur, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ppdm_cli.trees.records import Records
from ppdm_cli.trees.splitting import Rows

MOST_BYTES = 64 << 20


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
            self.record[where], self.slot[where], None if self.weight is None else self.weight[where]
        )

    def only(self, slots: np.ndarray) -> Entries:
        """The entries of some slots, numbered anew."""
        if slots.all():
            return self
        number = np.cumsum(slots) - 1
        kept = self.at(np.flatnonzero(slots[self.slot]))
        return Entries(kept.record, number[kept.slot], kept.weight)

    def divided(self, slots: int) -> list[Entries]:
        """Each slot's own entries, at a slot 0."""
        order = np.argsort(self.slot.astype(np.uint16) if slots <= 1 << 16 else self.slot, kind="stable")
        record = self.record[order]
        weight = None if self.weight is None else self.weight[order]
        ends = np.cumsum(np.bincount(self.slot, minlength=slots)).tolist()
        zero = np.zeros(len(record), np.int64)
        return [
            Entries(record[a:b], zero[a:b], None if weight is None else weight[a:b])
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
        ]


class Counter:
    """Counts one attribute after the other, at the open nodes of a level."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.classes = len(records.labels)

    def rows(self, place: int, entries: Entries, slots: int) -> Iterator[tuple[np.ndarray, Rows]]:
        """The rows of an attribute, for some slots at a time; missing values are left out."""
        column = self.records.columns[place]
        each = column.size * self.classes * 8
        held = np.bincount(entries.slot, minlength=slots)
        dense = (held >= column.size) & (each <= MOST_BYTES)
        code = column.codes[entries.record]
        if column.missing:
            known = np.flatnonzero(code != column.size)
            entries, code = entries.at(known), code[known]
        cost = np.where(dense, each, held * self.classes * 8)
        for form, count in ((True, self._dense), (False, self._sorted)):
            which = np.flatnonzero(dense == form)
            if not which.size:
                continue
            group = np.cumsum(cost[which]) // (MOST_BYTES // 2)
            for part in np.split(which, np.flatnonzero(np.diff(group)) + 1):
                if len(part) == slots:
                    yield part, count(entries, code, slots, column.size)
                    continue
                number = np.full(slots, -1, np.int64)
                number[part] = np.arange(len(part))
                slot = number[entries.slot]
                kept = np.flatnonzero(slot >= 0)
                weight = None if entries.weight is None else entries.weight[kept]
                some = Entries(entries.record[kept], slot[kept], weight)
                yield part, count(some, code[kept], len(part), column.size)

    def _dense(self, entries: Entries, code: np.ndarray, slots: int, size: int) -> Rows:
        cells = slots * size
        key = entries.slot * size
        key += code
        key += self.records.classes[entries.record] * cells
        counts = np.bincount(key, entries.weight, self.classes * cells).reshape(self.classes, cells)
        there = np.flatnonzero(counts.any(axis=0))
        return Rows(there // size, there % size, counts[:, there].astype(np.float64))

    def _sorted(self, entries: Entries, code: np.ndarray, slots: int, size: int) -> Rows:
        key = (entries.slot * size + code) * self.classes + self.records.classes[entries.record]
        if entries.weight is None:
            key.sort()
            weight: np.ndarray | None = None
        else:
            order = np.argsort(key, kind="stable")
            key, weight = key[order], entries.weight[order]
        cell = key // self.classes
        new = np.flatnonzero(np.diff(cell, prepend=-1))
        row = np.zeros(len(key), np.int64)
        row[new] = 1
        row = np.cumsum(row) - 1
        at = (key - cell * self.classes) * len(new) + row
        counts = np.bincount(at, weight, self.classes * len(new)).reshape(self.classes, len(new))
        there = cell[new]
        return Rows(there // size, there % size, counts.astype(np.float64))

"""The class-wise joint table of a few attributes: likelihoods and posteriors of records, and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats, code_type, joined
from ppdm_cli.estimating import Tables, forward

TINY = 1e-300
MOST_SUMS = 1 << 20
"""The most cumulated weights of an attribute that are held at a time: 8 to 16 MiB."""
RANGES = 8
"""The number of ranges of numbers, for each value, whose values are looked up."""
NEAR = 1e-6
"""The part of a range by which rounding may move a sum."""
Uniform = Callable[[int, np.ndarray], Floats]
"""A function that gives numbers in [0, 1) for an attribute (its place) and records (their rows)."""


def normalised(weights: Floats) -> Floats:
    """Return each row divided by its sum."""
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), TINY))


def picked(weights: Floats, uniform: Floats) -> np.ndarray:
    """Return a column for each row, drawn in proportion to its weights; a row of zeros gives the last."""
    return _reached(np.cumsum(weights, axis=1), uniform)


def _reached(sums: Floats, uniform: Floats) -> np.ndarray:
    target = uniform * sums[:, -1]
    return np.minimum((sums <= target[:, None]).sum(axis=1), sums.shape[1] - 1)


@dataclass(frozen=True, eq=False)
class Sums:
    """The cumulated weights of a value, for all that may be known of a record: `picked` for many of them."""

    sums: Floats
    """The cumulated weights, a row for each."""
    sizes: tuple[int, ...]
    """The number of values of each known column."""

    @classmethod
    def of(cls, weights: Floats) -> Sums:
        """Return those of weights by all that is known; the last axis has the values."""
        return cls(np.cumsum(weights, axis=-1).reshape(-1, weights.shape[-1]), weights.shape[:-1])

    def picked(self, known: Sequence[np.ndarray], uniform: Floats) -> np.ndarray:
        """Return a value for each record: by its range of numbers, or by the sums where a range has several."""
        rows = joined(known, self.sizes).astype(np.intp)
        ranges = self._values.shape[1]
        found = self._values.ravel().take(rows * ranges + (uniform * ranges).astype(np.intp))
        several = np.flatnonzero(found == self.sums.shape[1])
        found[several] = _reached(self.sums.take(rows[several], axis=0), uniform[several])
        return found

    @cached_property
    def _values(self) -> Codes:
        """Return the value of each range of numbers by row, or one value too many if it has several."""
        (rows, values), ranges = self.sums.shape, RANGES * self.sums.shape[1]
        ends = self.sums[:, :-1] / np.maximum(self.sums[:, -1:], TINY) * ranges
        first, kind = np.arange(0, rows * ranges, ranges)[:, None], code_type(values + 1)

        def ended(ends: Floats) -> Codes:
            at = np.clip(ends, 0, ranges - 1).astype(np.intp) + first
            counts = np.bincount(at.ravel(), minlength=rows * ranges).reshape(rows, ranges)
            return np.cumsum(counts, axis=1, dtype=kind)

        within, before = ended(ends - NEAR), np.zeros((rows, ranges), kind)
        before[:, 1:] = ended(ends + NEAR)[:, :-1]
        return np.where(within == before, within, kind(values))


@dataclass(frozen=True, eq=False)
class JointTable:
    """p(original values of `places` | original class)."""

    places: tuple[int, ...]
    matrices: tuple[Floats, ...]
    """The matrices, one for each of the places."""
    table: Floats
    """The table, (classes, cells ...); each class sums to 1."""

    @cached_property
    def _silent(self) -> list[np.ndarray]:
        """Return the published codes of each place that are the same whatever the original was: *withheld*."""
        return [np.asarray((m == 1).all(axis=1)) for m in self.matrices]

    @cached_property
    def _tables(self) -> dict[int, tuple[list[int], Tables]]:
        """Return the tables that `_informative` has made so far."""
        return {}

    def _informative(self, silent: int) -> tuple[list[int], Tables]:
        """Return the informative places, and the expected table of their published codes.

        `silent` has a bit set for each place that isn't.
        """
        if silent not in self._tables:
            informative = [i for i in range(len(self.places)) if not silent >> i & 1]
            hidden = tuple(1 + i for i in range(len(self.places)) if i not in informative)
            table = forward(self.table.sum(axis=hidden), [self.matrices[i] for i in informative])
            self._tables[silent] = informative, table
        return self._tables[silent]

    def likelihood(self, codes: Sequence[Codes]) -> Floats:
        """Return p(published codes | class), (records, classes)."""
        own = [codes[p] for p in self.places]
        if not any(s.any() for s in self._silent):
            table = self._informative(0)[1]  # by class in memory, where sums over the classes are quick
            return table.reshape(len(table), -1).take(joined(own, table.shape[1:]), axis=1).T
        which = np.zeros(len(own[0]), np.intp)
        for place, (code, silent) in enumerate(zip(own, self._silent, strict=True)):
            which += silent[code].astype(np.intp) << place
        found = np.empty((len(which), len(self.table)))
        for pattern in np.flatnonzero(np.bincount(which)).tolist():
            informative, table = self._informative(pattern)
            rows = np.flatnonzero(which == pattern)
            cells: tuple[Any, ...] = (slice(None), *(own[i][rows] for i in informative))
            found[rows] = table[cells].T if informative else table
        return found

    def logs(self, codes: Sequence[Codes]) -> Floats:
        """Return log p(published codes | class), (records, classes)."""
        return np.asarray(np.log(np.maximum(self.likelihood(codes), TINY)))

    @cached_property
    def _folded(self) -> list[Floats]:
        """Return the table with more and more last axes published: (class, original ..., published ...)."""
        tables = [self.table]
        for axis in range(len(self.places) - 1, 0, -1):
            moved = np.tensordot(tables[-1], self.matrices[axis], axes=([1 + axis], [1]))
            tables.append(np.moveaxis(moved, -1, 1 + axis))
        return tables[::-1]

    def draw(self, codes: Sequence[Codes], labels: Codes, uniform: Uniform) -> list[np.ndarray]:
        """Return original codes drawn from their posterior, given the published codes and the label.

        Attributes are drawn one after the other, given those drawn before and the published codes of the rest.
        """
        published, rows = [codes[p] for p in self.places], np.arange(len(labels))
        drawn: list[np.ndarray] = []
        for axis, (matrix, table, sums) in enumerate(zip(self.matrices, self._folded, self._sums, strict=True)):
            known = (labels, *drawn, *published[axis + 1 :])
            numbers = uniform(self.places[axis], rows)
            if sums is not None:
                drawn.append(sums.picked((*known, published[axis]), numbers))
            else:
                prior = np.moveaxis(table, 1 + axis, -1)[known]
                drawn.append(picked(prior * matrix[published[axis]], numbers))
        return drawn

    @cached_property
    def _sums(self) -> list[Sums | None]:
        """Return the sums by which each axis's values are drawn; None if they are too many to hold."""
        return [
            Sums.of(np.moveaxis(table, 1 + axis, -1)[..., None, :] * matrix)
            if table.size * len(matrix) <= MOST_SUMS
            else None
            for axis, (matrix, table) in enumerate(zip(self.matrices, self._folded, strict=True))
        ]

    @cached_property
    def _open(self) -> list[Floats]:
        """Return the table of each axis with all others published, (class, published ..., original)."""
        tables = []
        for own in range(len(self.places)):
            table = self.table
            for axis, matrix in enumerate(self.matrices):
                if axis != own:
                    table = np.moveaxis(np.tensordot(matrix, table, (1, 1 + axis)), 0, 1 + axis)
            tables.append(np.moveaxis(table, 1 + own, -1))
        return tables

    def marginals(self, codes: Sequence[Codes], labels: Codes) -> list[Floats]:
        """Return the posterior of each place's original codes, up to a factor a record."""
        published = [codes[p] for p in self.places]
        found = []
        for own, (matrix, table) in enumerate(zip(self.matrices, self._open, strict=True)):
            others = published[:own] + published[own + 1 :]
            found.append(np.asarray(table[(labels, *others)] * matrix[published[own]], np.float64))
        return found

    def sampled(self, label: int, records: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Draw records of one class from the table."""
        sums = np.cumsum(self.table[label])
        cells = np.searchsorted(sums, rng.random(records) * sums[-1], side="right")
        return list(np.unravel_index(np.minimum(cells, len(sums) - 1), self.table.shape[1:]))

"""Dealing original values to records so that totals are exact, whatever the order of the file.

The records of one published value are counted through the whole table. A repeatable random permutation of
these ranks, another for each attribute and value, says which step of the plan each record gets: every
assignment is equally likely, and none depends on how the table is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Codes, code_type
from ppdm_cli.repeatable import Permutations

RUN_BITS = 13
"""The logarithm of how many runs are looked up at once: they fit a core's cache."""


@dataclass(frozen=True)
class Staircase:
    """The steps of a plan: `amount` records of code `source` get the code `target`."""

    source: np.ndarray
    target: np.ndarray
    amount: np.ndarray


@dataclass(frozen=True, eq=False)
class Deal:
    """How to deal one attribute, by the codes that records are told apart by."""

    before: np.ndarray
    """For each partition, how many records of each code come before it."""
    places: Permutations
    targets: Codes
    """The original code of each step of the plan."""
    ends: np.ndarray
    """Where each step ends, in the records sorted by code."""
    shift: int
    runs: np.ndarray
    """The original code of each run of `1 << shift` records sorted by code, or -1 where they get several."""

    @classmethod
    def of(cls, parts: np.ndarray, stairs: Sequence[Staircase], size: int, purpose: object) -> Deal:
        """Deal by the plans of consecutive groups of codes; `parts` are counts by (partition, code)."""
        targets = np.concatenate([s.target for s in stairs]).astype(code_type(size))
        ends = np.cumsum(np.concatenate([s.amount for s in stairs]))
        before = np.cumsum(parts, axis=0) - parts
        records = int(parts.sum())
        shift = max(records.bit_length() - RUN_BITS, 0)
        starts = np.arange(0, records, 1 << shift)
        lasts = np.minimum(starts + (1 << shift), records) - 1
        first, last = (np.searchsorted(ends, p, side="right") for p in (starts, lasts))
        runs = np.where(first == last, targets[first].astype(np.int32), np.int32(-1))
        return cls(before, Permutations.of(parts.sum(axis=0), purpose), targets, ends, shift, runs)

    def __call__(self, codes: np.ndarray, partition: int) -> Codes:
        sizes = self.places.sizes
        counts = np.bincount(codes, minlength=len(sizes))
        places = self.places(counts, self.before[partition])
        places += np.repeat(np.cumsum(sizes) - sizes, counts)
        found = self.runs.take(places >> self.shift)
        mixed = np.flatnonzero(found < 0)
        found[mixed] = self.targets[np.searchsorted(self.ends, places[mixed], side="right")]
        out = np.empty(len(codes), self.targets.dtype)
        out[np.argsort(codes, kind="stable")] = found
        return out

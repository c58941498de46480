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
from ppdm_cli.reconstructing.transport import Staircase
from ppdm_cli.repeatable import Permutations


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

    @classmethod
    def of(cls, parts: np.ndarray, stairs: Sequence[Staircase], size: int, purpose: object) -> Deal:
        """Deal by the plans of consecutive groups of codes; `parts` are counts by (partition, code)."""
        targets = np.concatenate([s.target for s in stairs]).astype(code_type(size))
        ends = np.cumsum(np.concatenate([s.amount for s in stairs]))
        before = np.cumsum(parts, axis=0) - parts
        return cls(before, Permutations.of(parts.sum(axis=0), purpose), targets, ends)

    def __call__(self, codes: np.ndarray, partition: int) -> Codes:
        sizes = self.places.sizes
        counts = np.bincount(codes, minlength=len(sizes))
        places = self.places(counts, self.before[partition])
        places += np.repeat(np.cumsum(sizes) - sizes, counts)
        out = np.empty(len(codes), self.targets.dtype)
        out[np.argsort(codes, kind="stable")] = self.targets[np.searchsorted(self.ends, places, side="right")]
        return out

"""Computes where each published cell lies in its law: uniform on [0, 1) if the release is honest.

That holds whatever the original, the matrix and the other cells are, so every test of the audit is one of
independent uniform numbers. Values published as they were come first, then the others in the order of their
codes; within a code, or a group of them, the place is drawn repeatably, by the release's public id.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.attacked_attribute import Rows, Target
from ppdm_cli.channels import Matrix, Noisy
from ppdm_cli.coins import Coins, uniform

GROUPS = 64
"""The most groups of published codes that are distinguished, and the number of cells for noise."""
MOST_GROUPS = 512
"""The most groups of original codes; null is a group by itself."""
_LARGEST = 1 << 20
"""The most entries of a law that is held in memory."""
_LEAST_NOISE = 1 / 16
"""Noise counts as absent where it is among so many of the smallest values."""

_LEAST_KEPT = 1 / 64
"""The least share of places that counts as kept: a matrix may rule it out that a value stays."""


class Law:
    """One attribute's law."""

    def __init__(self, target: Target, release: UUID) -> None:
        self._target, self._noise = target, target.channel.noise
        matrix = target.matrix
        self._key = hashlib.blake2b(target.name.encode(), key=release.bytes, digest_size=32).digest()
        self._per_row = -(-matrix.inputs // MOST_GROUPS)
        self._null = matrix.inputs - 1 if target.domain.nulls else matrix.inputs
        self.rows = -(-self._null // self._per_row) + target.domain.nulls
        if self._noise is None:
            self.stays = matrix.stays()
            self._build(matrix)
        else:
            self.stays = np.full(matrix.inputs, _LEAST_NOISE)
        self.kept = max(float(self.stays.min()), _LEAST_KEPT)
        """Places below it count as kept: the same share of every code's cells."""
        own = self.row(np.arange(matrix.inputs))
        self.staying = np.bincount(own, self.stays) / np.bincount(own)
        """The probability of each row to be published unchanged."""
        moved = min(matrix.outputs, GROUPS) - 1 if self._noise is None else round(GROUPS * (1 - _LEAST_NOISE))
        self._moved = moved
        self.cells = np.concatenate([[self.kept], np.full(moved, (1 - self.kept) / moved)])
        """The chances of the cells that places are counted in."""

    def _build(self, matrix: Matrix) -> None:
        groups = min(matrix.outputs, GROUPS, max(2, _LARGEST // matrix.inputs))
        self._group = np.arange(matrix.outputs) * groups // matrix.outputs
        law = matrix.backward(np.eye(groups)[self._group])
        law[np.arange(matrix.inputs), self._group[matrix.unchanged]] -= self.stays
        self._shares = np.concatenate([self.stays[:, None], np.maximum(law, 0.0)], axis=1)
        self._below = np.cumsum(self._shares, axis=1) - self._shares

    def places(self, rows: Rows) -> tuple[Floats, int]:
        """Return each record's place, and how many lie where the law never is."""
        published, original = rows.codes[self._target.name], rows.known[self._target.name]
        within = uniform(Coins(self._key), rows.addresses, np.zeros(len(published), np.uint8))
        if self._noise is not None:
            return self._of_noise(self._noise, rows.noisy[self._target.name], original.numbers, within)
        group = self._group[published] + 1
        group[published == self._target.matrix.unchanged[original.codes]] = 0
        shares = self._shares[original.codes, group]
        places = self._below[original.codes, group] + within * shares
        return np.minimum(places, 1 - 2.0**-53), int(np.count_nonzero(shares <= 0))

    @staticmethod
    def _of_noise(noise: Noisy, published: Floats, original: Floats, within: Floats) -> tuple[Floats, int]:
        """Return the places of noise in its law; rounding blurs it by half a unit of the last digit."""
        apart, half = published - original, np.spacing(np.abs(published)) / 2
        beyond = int(np.count_nonzero(np.abs(apart) > noise.reach * (1 + 1e-9) + 2 * half))

        def below(x: Floats) -> Floats:
            return np.clip(noise.share_below(x), 0, 1)

        low = below(apart - half)
        return (low + within * (below(apart + half) - low) - 0.5 + _LEAST_NOISE / 2) % 1, beyond

    def cell(self, places: Floats) -> np.ndarray:
        """Return the cells of places: the first for those that were kept."""
        moved = (places - self.kept) * (self._moved / (1 - self.kept))
        return np.where(places < self.kept, 0, 1 + np.clip(moved.astype(np.int64), 0, self._moved - 1))

    def row(self, codes: np.ndarray) -> np.ndarray:
        """Return the rows of original codes in tables of counts."""
        return np.where(codes == self._null, self.rows - 1, codes.astype(np.int64) // self._per_row)

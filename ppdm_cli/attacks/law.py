"""Computes where each published cell lies in its law: uniform on [0, 1) if the release is honest.

That holds whatever the original, the matrix and the other cells are, so every test of the audit is one of
independent uniform numbers. Values published as they were come first, then the others in the order of their
codes; within a code, or a group of them, the place is drawn repeatably, by the release's public id.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any
from uuid import UUID

import numpy as np

from ppdm_cli.arrays import Floats, binomial_p, clopper_pearson
from ppdm_cli.attacks import evidence
from ppdm_cli.attacks.attacked_attribute import Rows, Target
from ppdm_cli.attacks.numbers import Level, Numbers
from ppdm_cli.channels import Channel, Matrix, Noisy
from ppdm_cli.coins import Coins, uniform
from ppdm_cli.domain import Domain

GROUPS = 64
"""The most groups of published codes that are distinguished, and the number of cells for noise."""
MOST_GROUPS = 512
"""The most groups of original codes; null is a group by itself."""
_LARGEST = 1 << 20
"""The most entries of a law that is held in memory."""
_LEAST_NOISE = 1 / 16
"""Noise counts as absent where it is among so many of the smallest values."""

LEAST_KEPT = 1 / 64
"""The least share of places that counts as kept: a matrix may rule it out that a value stays."""


class Grouped:
    """Original codes in few groups, null in one of its own."""

    def __init__(self, codes: int, nulls: bool) -> None:
        self._per_row = -(-codes // MOST_GROUPS)
        self._null = codes - nulls
        self.rows = -(-self._null // self._per_row) + nulls

    @classmethod
    def of(cls, domain: Domain) -> Grouped:
        return cls(domain.size, domain.nulls)

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        return np.where(codes == self._null, self.rows - 1, codes.astype(np.int64) // self._per_row)


def cells(kept: float, moved: int) -> Floats:
    """Return the chances of the cells that places are counted in: kept ones first, then so many others."""
    return np.concatenate([[kept], np.full(moved, (1 - kept) / moved)])


@dataclass(frozen=True, eq=False)
class Placed:
    """Some records as the audit sees them: uniform places, what they are to be independent of, and levels."""

    own: Floats
    """(records, columns): each cell's place by itself; NaN where there is none."""
    joint: Floats
    """Places that are independent within a record too."""
    kinds: np.ndarray
    numbers: np.ndarray
    exposed: Floats
    """The chance that each record, were it unperturbed, would count as kept."""
    rows: list[np.ndarray]
    """For each attribute the rows of its law's table."""
    groups: list[np.ndarray]
    """Original codes, in groups."""
    recipes: np.ndarray
    """The group of each record's recipe; of no records where there is one recipe."""
    extra: list[np.ndarray]
    """Further counts for the attributes' own tests."""
    first_row: int


class Places(ABC):
    """How records are placed; columns are the attributes, and with several recipes the coin and the recipe."""

    names: list[str]
    kept: Floats
    """The places below which each column's cells count as kept."""
    tables: list[tuple[int, Floats]]
    """For each attribute the rows of its law's table, and the chances of its cells."""
    groups: list[tuple[str, int, int | None]]
    """Names and numbers of the original values, and the column that shows them."""
    numbers: Numbers
    recipes: Floats = np.zeros(0)
    """The chances of groups of recipes, where there are several."""

    @abstractmethod
    def placed(self, *records: Any) -> Placed: ...

    @abstractmethod
    def attribute(
        self, column: int, table: np.ndarray, extra: Sequence[np.ndarray], level: float
    ) -> dict[str, Any]:
        """Return the verdict on an attribute's own law."""


class Law:
    """One attribute's law."""

    def __init__(self, target: Target, release: UUID) -> None:
        self._target, self._noise = target, target.channel.noise
        matrix = target.matrix
        self._key = hashlib.blake2b(target.name.encode(), key=release.bytes, digest_size=32).digest()
        self.row = Grouped(matrix.inputs, target.domain.nulls)
        """The rows of original codes in tables of counts."""
        if self._noise is None:
            self.stays = matrix.stays()
            self._build(matrix)
        else:
            self.stays = np.full(matrix.inputs, _LEAST_NOISE)
        self.kept = max(float(self.stays.min()), LEAST_KEPT)
        """Places below it count as kept: the same share of every code's cells."""
        own = self.row(np.arange(matrix.inputs))
        self.staying = np.bincount(own, self.stays) / np.bincount(own)
        """The probability of each row to be published unchanged."""
        moved = min(matrix.outputs, GROUPS) - 1 if self._noise is None else round(GROUPS * (1 - _LEAST_NOISE))
        self.cells = cells(self.kept, moved)
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


class PlacesOfAll(Places):
    """The places of a release with one recipe: an attribute is a channel, and a value stayed or did not."""

    def __init__(self, targets: Sequence[Target], release: UUID, kept: Sequence[Channel]) -> None:
        self._targets, self._others = targets, kept
        self._laws = [Law(t, release) for t in targets]
        self.names, self.kept = [t.name for t in targets], np.array([law.kept for law in self._laws])
        self.tables = [(law.row.rows, law.cells) for law in self._laws]
        own = [(j, d) for j, t in enumerate(targets) for d in t.domain.parts]
        names = [n for t in targets for n in t.channel.attributes]
        self._grouped = [Grouped.of(d) for _, d in own] + [Grouped.of(c.domain) for c in kept]
        columns = [*(j for j, _ in own), *(None for _ in kept)]
        each = zip([*names, *(c.name for c in kept)], self._grouped, columns, strict=True)
        self.groups = [(n, g.rows, j) for n, g, j in each]
        levels = [_level(t, law.kept) for t, law in zip(targets, self._laws, strict=True)]
        self.numbers = Numbers([levels], np.ones(1), np.ones(1, bool))

    def placed(self, rows: Rows) -> Placed:
        n, d = rows.count, len(self._targets)
        places, exposed = np.empty((n, d)), np.ones(n)
        own, groups, beyond, around, stayed = [], [], [], [], []
        for j, (target, law) in enumerate(zip(self._targets, self._laws, strict=True)):
            places[:, j], outside = law.places(rows)
            true = rows.known[target.name].codes
            exposed *= law.kept / np.maximum(law.stays[true], law.kept)
            own.append(law.row(true))
            groups += target.domain.split(true)
            beyond.append(outside)
            shown = target.matrix.around(true, rows.codes[target.name])
            around.append(np.count_nonzero(shown) if target.channel.noise is None else 0)
            stayed.append(np.bincount(own[-1][places[:, j] < law.stays[true]], minlength=law.row.rows))
        groups += [rows.codes[c.name] for c in self._others]
        number = (places < self.kept).sum(axis=1)
        grouped = [g(c) for g, c in zip(self._grouped, groups, strict=True)]
        extra = [np.array(beyond), np.array(around), *stayed]
        kinds = np.zeros(n, np.int64)
        return Placed(places, places, kinds, number, exposed, own, grouped, kinds[:0], extra, rows.first_row)

    def attribute(
        self, column: int, table: np.ndarray, extra: Sequence[np.ndarray], level: float
    ) -> dict[str, Any]:
        target, law, n = self._targets[column], self._laws[column], int(table.sum())
        beyond, around, stayed = int(extra[0][column]), int(extra[1][column]), extra[2 + column]
        transitions = 0.0 if beyond else evidence.table_p(table, law.cells)
        row: dict[str, Any] = {"attribute": target.name, "records": n}
        if target.channel.noise is not None:
            p = transitions
            row |= {"declared_sd": target.channel.noise.noise_variance**0.5}
        else:
            each = zip(stayed.tolist(), table.sum(axis=1).tolist(), law.staying.tolist(), strict=True)
            codes_p = min(1.0, len(stayed) * min(binomial_p(k, m, s) for k, m, s in each))
            p = min(1.0, 2 * min(transitions, codes_p))
            row |= {"codes_p": codes_p}
        declared = _declared(target.matrix)
        if declared is not None:
            chance, odds = declared
            low, high = clopper_pearson(around, n)
            staying_p = binomial_p(around, n, chance)
            p = min(1.0, 3 * min(transitions, staying_p, codes_p))
            row |= {
                "declared_gamma": target.matrix.amplification,
                "gamma": _gamma(around / n, odds),
                "gamma_low": _gamma(low, odds),
                "gamma_high": _gamma(high, odds),
                "gamma_unseen": _gamma(evidence.betraying(n, chance, level / 6), odds),
                "stayed": around / n,
                "stayed_declared": chance,
                "stayed_p": staying_p,
            }
        return row | {"transitions_p": transitions, "p": p}


def _level(target: Target, kept: float) -> Level:
    declared = None if target.channel.noise is not None else _declared(target.matrix)
    return Level(kept, kept, kept if declared is None else declared[0], declared is not None)


def _declared(matrix: Matrix) -> tuple[float, float] | None:
    """Return the chance p of the outputs that gamma applies to, and o with p = gamma / (gamma + o), if any."""
    if matrix.own_outputs is None:
        return None
    own, others = matrix.own_outputs
    gamma, odds = matrix.amplification, others / own
    return gamma / (gamma + odds), odds


def _gamma(share: float, odds: float) -> float:
    """Return the gamma that corresponds to a share of values that stayed."""
    return inf if share >= 1 else share * odds / (1 - share)

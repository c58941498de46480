"""Positions in laws, for the audit: each published cell's place in its law is uniform if the release is honest.

That holds whatever the original, the matrix and the other cells are, so every test of the audit is one of
independent uniform numbers. Values published as they were come first, then those near them, then the others;
within a code, or a group of codes, the position is drawn repeatably, by the release's public id.

Attributes that a record publishes together are revealed together, or are noise together: their coin. Its law
follows from lam and the widths alone. Given the coin, and which of the cells before are near their values, each
cell has a law of its own, and so a position that is independent of these. A record's recipe is a draw too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import NamedTuple
from uuid import UUID

import numpy as np

from ppdm_cli.arrays import Floats, binomial_p, clopper_pearson
from ppdm_cli.attacks import evidence
from ppdm_cli.attacks.adversary import AttackedAttribute, Records
from ppdm_cli.attacks.evidence import Level, Numbers
from ppdm_cli.attacks.report import LawVerdict
from ppdm_cli.channels import Channel, Matrix, Noisy, blended
from ppdm_cli.coins import Coins, uniform_cells
from ppdm_cli.domain import Domain
from ppdm_cli.releases import Exposure, Strata
from ppdm_cli.repeatable import hashed, uniform

COIN, RECIPE = "the record's random choice", "the recipe"
GROUPS = 64
"""The most groups of published codes that are distinguished, and the number of cells for noise."""
MOST_GROUPS = 512
"""The most groups of original codes; null is a group by itself."""
_LARGEST = 1 << 20
"""The most entries of a law that is held in memory."""
_LEAST_NOISE = 1 / 16
"""Noise counts as absent where it is among so many of the smallest values."""

LEAST_KEPT = 1 / 64
"""The least share of positions that counts as kept: a matrix may rule it out that a value stays."""
_MOST_KINDS = 16
_ALIKE = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0, 1e9)
"""Factors within which probabilities count as equal; the first that leaves few kinds is used."""
_BELOW_ONE = 1 - 2.0**-53


class GroupedCodes:
    """Original codes in few groups, null in one of its own."""

    def __init__(self, codes: int, nulls: bool) -> None:
        self._per_row = -(-codes // MOST_GROUPS)
        self._null = codes - nulls
        self.rows = -(-self._null // self._per_row) + nulls

    @classmethod
    def of(cls, domain: Domain) -> GroupedCodes:
        return cls(domain.size, domain.nulls)

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        if self._per_row == 1:
            return codes
        return np.where(codes == self._null, self.rows - 1, codes // self._per_row)


def _chances(kept: float, moved: int) -> Floats:
    """Return the chances of the cells that positions are counted in: kept ones first, then so many others."""
    return np.concatenate([[kept], np.full(moved, (1 - kept) / moved)])


@dataclass(frozen=True, eq=False)
class PlacedRecords:
    """Some records for the audit: uniform positions, the values that these are independent of, and levels."""

    own: Floats
    """The position of each cell alone, (records, columns); NaN without one."""
    joint: Floats
    """Positions that are independent within a record too."""
    kinds: np.ndarray
    numbers: np.ndarray
    exposed: Floats
    """The chance that each record, were it unperturbed, would count as kept."""
    rows: list[np.ndarray]
    """The rows of its law's table, for each attribute."""
    groups: list[np.ndarray]
    """Original codes, in groups."""
    recipes: np.ndarray
    """The group of each record's recipe; empty if there is one recipe."""
    extra: list[np.ndarray]
    """Further counts for the attributes' own tests."""
    first_row: int


class SeparateLaw:
    """The law of an attribute that every record publishes separately."""

    noisy = False

    def __init__(self, target: AttackedAttribute, release: UUID) -> None:
        self._target, self._noise = target, target.channel.noise
        matrix = target.matrix
        self._key = hashlib.blake2b(target.name.encode(), key=release.bytes, digest_size=32).digest()
        self.row = GroupedCodes(matrix.inputs, target.domain.nulls)
        """The rows of original codes in tables of counts."""
        if self._noise is None:
            self.stays = matrix.stays()
            self._build(matrix)
        else:
            self.stays = np.full(matrix.inputs, _LEAST_NOISE)
        self.kept = max(float(self.stays.min()), LEAST_KEPT)
        """The position below which cells count as kept: the same share of every code's cells."""
        own = self.row(np.arange(matrix.inputs))
        self.staying = np.bincount(own, self.stays) / np.bincount(own)
        """The probability of each row to be published unchanged."""
        moved = min(matrix.outputs, GROUPS) - 1 if self._noise is None else round(GROUPS * (1 - _LEAST_NOISE))
        self.cells = _chances(self.kept, moved)
        """The chances of the cells that positions are counted in."""

    def _build(self, matrix: Matrix) -> None:
        groups = min(matrix.outputs, GROUPS, max(2, _LARGEST // matrix.inputs))
        group = np.arange(matrix.outputs) * groups // matrix.outputs
        law = matrix.backward(np.eye(groups)[group])
        law[np.arange(matrix.inputs), group[matrix.unchanged]] -= self.stays
        self._group = group + 1
        self._shares = np.concatenate([self.stays[:, None], np.maximum(law, 0.0)], axis=1)
        self._below = np.cumsum(self._shares, axis=1) - self._shares

    def positions(self, records: Records) -> tuple[Floats, int]:
        """Return each record's position, and the number of records that the law never gives."""
        published, original = records.codes[self._target.name], records.known[self._target.name]
        within = uniform_cells(Coins(self._key), records.addresses, np.zeros(len(published), np.uint8))
        if self._noise is not None:
            return self._of_noise(self._noise, records.noisy[self._target.name], original.numbers, within)
        group = self._group.take(published)
        group[published == self._target.matrix.unchanged.take(original.codes)] = 0
        at = original.codes * np.intp(self._shares.shape[1]) + group
        shares = self._shares.take(at)
        positions = self._below.take(at) + within * shares
        return np.minimum(positions, _BELOW_ONE), int(np.count_nonzero(shares <= 0))

    @staticmethod
    def _of_noise(noise: Noisy, published: Floats, original: Floats, within: Floats) -> tuple[Floats, int]:
        """Return the positions of noise in its law; rounding blurs it by half a unit of the last digit."""
        apart, half = published - original, np.spacing(np.abs(published)) / 2
        beyond = int(np.count_nonzero(np.abs(apart) > noise.reach * (1 + 1e-9) + 2 * half))

        def below(x: Floats) -> Floats:
            return np.clip(noise.share_below(x), 0, 1)

        low = below(apart - half)
        return (low + within * (below(apart + half) - low) - 0.5 + _LEAST_NOISE / 2) % 1, beyond

    def stayed(self, own: np.ndarray, positions: Floats, true: np.ndarray, output: np.ndarray) -> np.ndarray:
        """Count the cells that gamma makes more likely, then by row of the law's table those that stayed."""
        around = 0 if self._noise is not None else np.count_nonzero(self._target.matrix.around(true, output))
        stayed = np.bincount(own[positions < self.stays[true]], minlength=self.row.rows)
        return np.array([around, *stayed])

    def verdict(self, table: np.ndarray, beyond: int, counts: np.ndarray, level: float) -> LawVerdict:
        """Return the verdict on what was published of each original value."""
        target, n, (around, *stayed) = self._target, int(table.sum()), counts.tolist()
        transitions = 0.0 if beyond else evidence.table_p(table, self.cells)
        if target.channel.noise is not None:
            sd = target.channel.noise.noise_variance**0.5
            about = target.name, n, transitions, transitions, transitions >= level
            return LawVerdict(*about, declared_sd=sd)
        each = zip(stayed, table.sum(axis=1).tolist(), self.staying.tolist(), strict=True)
        codes_p = min(1.0, len(stayed) * min(binomial_p(k, m, s) for k, m, s in each))
        p, declared = min(1.0, 2 * min(transitions, codes_p)), _declared(target.matrix)
        if declared is None:
            return LawVerdict(target.name, n, transitions, p, p >= level, codes_p=codes_p)
        chance, odds = declared
        low, high = clopper_pearson(around, n)
        stayed_p = binomial_p(around, n, chance)
        p = min(1.0, 3 * min(transitions, stayed_p, codes_p))
        return LawVerdict(
            target.name,
            n,
            transitions,
            p,
            p >= level,
            codes_p=codes_p,
            stayed_p=stayed_p,
            declared_gamma=target.matrix.amplification,
            gamma=_gamma(around / n, odds),
            gamma_low=_gamma(low, odds),
            gamma_high=_gamma(high, odds),
            gamma_unseen=_gamma(evidence.betraying(n, chance, level / 6), odds),
            stayed=around / n,
            stayed_declared=chance,
        )

    @property
    def level(self) -> Level:
        declared = None if self._noise is not None else _declared(self._target.matrix)
        return Level(self.kept, self.kept, self.kept if declared is None else declared[0], declared is not None)


class ExposedLaw:
    """The law of one exposure: for each value its own output first, then those near it."""

    def __init__(self, exposure: Exposure) -> None:
        inputs = exposure.matrix.shape[1]
        every = np.arange(inputs)
        self.noisy, self._law, self._inputs = exposure.noise is not None, exposure.matrix, inputs
        self._noise = (
            exposure.matrix
            if exposure.noise is None
            else np.broadcast_to(exposure.noise[:, None], exposure.matrix.shape)
        )
        own = exposure.unchanged
        self._away = (exposure.matrix <= 0).astype(np.int8) + 1
        self._away[own, every] = 0
        order = np.argsort(self._away, axis=0, kind="stable")
        self._law_below, self._noise_below = _below(self._law, order), _below(self._noise, order)
        self.near = (self._noise * (self._away < 2)).sum(axis=0)
        """The probability for each value that noise is near it."""
        self.own_law, self.own_noise = self._law[own, every], self._noise[own, every]

    def cells(self, rows: np.ndarray, output: np.ndarray, true: np.ndarray, within: Floats) -> _CellsRevealed:
        at = output.astype(np.int64) * self._inputs + true
        law, noise = self._law.take(at), self._noise[output, true]
        return _CellsRevealed(
            rows,
            self._away.take(at),
            self._law_below.take(at) + within * law,
            self._noise_below.take(at) + within * noise,
            self.near.take(true),
            int(np.count_nonzero((law <= 0) & (noise <= 0))),
        )


def _below(law: Floats, order: np.ndarray) -> Floats:
    """Return the probability of all that comes before each output."""
    found: Floats = np.empty(law.shape, np.float32)
    ordered = np.take_along_axis(law, order, 0)
    np.put_along_axis(found, order, np.cumsum(ordered, axis=0) - ordered, 0)
    return found


class _CellsRevealed(NamedTuple):
    """Cells of some records: their distances, their positions by U and by noise, and more."""

    rows: np.ndarray
    away: np.ndarray
    law: Floats
    noise: Floats
    near: Floats
    """The chance of noise to be near."""
    beyond: int
    """The number of cells that the law never publishes."""


class _RecordCoins:
    """The evidence of some records' cells about their random choices."""

    def __init__(self, lam: Floats) -> None:
        self.lam, n = lam, len(lam)
        self.any, self.own, self.near = np.zeros(n, bool), np.ones(n, bool), np.ones(n, bool)
        self._own_law, self._own_noise, self._near_noise = np.ones(n), np.ones(n), np.ones(n)

    def take(self, output: _CellsRevealed, law: ExposedLaw, true: np.ndarray) -> None:
        rows = output.rows
        self.any[rows] = True
        self.own[rows] &= output.away == 0
        self.near[rows] &= output.away < 2
        self._own_law[rows] *= law.own_law[true]
        self._own_noise[rows] *= law.own_noise[true]
        self._near_noise[rows] *= output.near

    def positions(self, within: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the coins' positions, others whose first are of cells that are the values, their chances."""
        own = blended(self.lam, self._own_law, self._own_noise)
        near = blended(self.lam, np.ones(1), self._near_noise)
        found = np.where(self.near, near * within, near + (1 - near) * within)
        first = np.where(self.own, own * within, np.where(self.near, own + (near - own) * within, found))
        return np.where(self.any, found, np.nan), first, own

    def of_cells(self, each: Sequence[tuple[int, _CellsRevealed]], joint: Floats) -> None:
        """Fill in positions that are independent of the coin and of the record's cells before."""
        left, before = self._near_noise.copy(), np.ones(len(self.lam), bool)
        for column, cell in each:
            rows, near, some = cell.rows, cell.away < 2, left[cell.rows]
            left[rows] = rest = some / cell.near
            first_away = cell.near * (1 - rest) / np.maximum(1 - some, 1e-300)
            chance = np.where(before[rows], first_away, cell.near)
            chance = np.where(self.near[rows], 1.0, np.clip(chance, 0, 1))
            away = (cell.noise - cell.near) / np.maximum(1 - cell.near, 1e-300)
            joint[rows, column] = np.where(near, chance * cell.law, chance + (1 - chance) * away)
            before[rows] &= near


class Positions:
    """Places of records: columns are the attributes, then the coin and the recipe if there are any."""

    def __init__(
        self,
        targets: Sequence[AttackedAttribute],
        strata: Strata,
        kept: Sequence[Channel],
        release: str,
    ) -> None:
        self._targets, self._others, self._release, self._strata = targets, kept, release, strata
        columns = {a.name: p for p, a in enumerate(strata.axes)}
        self._numbers = strata.numbers[:, [columns[t.name] for t in targets]]
        self._laws: list[list[SeparateLaw | ExposedLaw]] = [
            [SeparateLaw(t, UUID(release))] if t.separate else [ExposedLaw(e) for e in t.exposures.each]
            for t in targets
        ]
        self._grouped = [GroupedCodes.of(t.domain) for t in targets]
        coins, recipes = any(law.noisy for laws in self._laws for law in laws), len(strata.lam) > 1
        self.names = [*(t.name for t in targets), *[COIN] * coins, *[RECIPE] * recipes]
        domains = [(n, d, j) for j, t in enumerate(targets) for n, d in t.channel.each()]
        original = [(n, GroupedCodes.of(d), j) for n, d, j in domains]
        self._originals = [*(g for _, g, _ in original), *(GroupedCodes.of(c.domain) for c in kept)]
        self.groups: list[tuple[str, int, int | None]] = [(n, g.rows, j) for n, g, j in original]
        """Names and numbers of the original values, and the column that publishes them."""
        self.groups += [(c.name, GroupedCodes.of(c.domain).rows, None) for c in kept]
        self._chances = strata.shares
        self._before = np.cumsum(self._chances) - self._chances
        many = len(strata.lam)
        self._group = np.arange(many) * min(many, GROUPS) // many
        self.recipes = np.bincount(self._group, self._chances).astype(np.float64)[: GROUPS * recipes]
        """The chances of groups of recipes, where there are several."""
        self._set_kinds(strata.rounds == 1)
        each = [self._kept(j) for j in range(len(targets))]
        near = [float(np.clip(self._chances @ self._near, LEAST_KEPT, 0.5))] if coins else []
        self.kept = np.array([*each, *near, *[0.5] * recipes])
        """The positions below which each column's cells count as kept."""
        self.tables = [self._table(j) for j in range(len(targets))]
        """The rows of each attribute's law, and the probabilities of its cells."""

    def _kept(self, column: int) -> float:
        recipes = np.flatnonzero(self._numbers[:, column]).tolist()
        kept = [self._level(r, [column]).kept for r in recipes]
        return max(float(np.mean(kept)), LEAST_KEPT) if kept else 0.5

    def _table(self, column: int) -> tuple[int, Floats]:
        law, target = self._laws[column][0], self._targets[column]
        if isinstance(law, SeparateLaw):
            return law.row.rows, law.cells
        outputs = min(max(e.outputs for e in target.exposures.each), GROUPS)
        return self._grouped[column].rows, _chances(self.kept[column], outputs - 1)

    # -- levels

    def _law(self, recipe: int, column: int) -> SeparateLaw | ExposedLaw:
        return self._laws[column][self._numbers[recipe, column] - 1]

    def _level(self, recipe: int, columns: Sequence[int]) -> Level:
        """Return the least chances of some attributes of a recipe, of all records that have it."""
        laws, lam = [self._law(recipe, c) for c in columns], float(self._strata.lam[recipe])
        if isinstance(laws[0], SeparateLaw):
            return laws[0].level
        exposed = [law for law in laws if isinstance(law, ExposedLaw)]
        own, noise = prod(c.own_law.min() for c in exposed), prod(c.own_noise.min() for c in exposed)
        kept = float(blended(lam, own, noise))
        near = float(blended(lam, np.ones(()), prod(c.near.min() for c in exposed))) if laws[0].noisy else kept
        return Level(kept, max(near, kept), near)

    def _channels(self, recipe: int) -> list[list[int]]:
        """Return the attributes of each of a recipe's channels, those published together first."""
        axes = np.flatnonzero(self._numbers[recipe]).tolist()
        coin = [c for c in axes if self._law(recipe, c).noisy]
        return [*([coin] if coin else []), *([c] for c in axes if c not in coin)]

    def _set_kinds(self, first_round: np.ndarray) -> None:
        """Group recipes into kinds by their channels' levels; a kind has the least chances of its recipes."""
        channels = [self._channels(r) for r in range(len(self._numbers))]
        levels = [np.array([self._level(r, c) for c in own]) for r, own in enumerate(channels)]
        for alike in _ALIKE:
            keys = [np.floor(np.log(one[:, :2]) / np.log(alike) + 1e-6) for one in levels]
            known: dict[tuple[bytes, bytes], int] = {}
            flat = [(one[:, 1] > one[:, 0] * (1 + 1e-9)).tobytes() for one in levels]
            each = zip(keys, flat, strict=True)
            self._kind = np.array([known.setdefault((k.tobytes(), f), len(known)) for k, f in each])
            if len(known) <= _MOST_KINDS:
                break
        members = [np.flatnonzero(self._kind == kind) for kind in range(len(known))]
        least = [np.min([levels[r] for r in some], axis=0).tolist() for some in members]
        kinds = [[Level(a, b if b > a * (1 + 1e-9) else a, c, bool(d)) for a, b, c, d in k] for k in least]
        shares = np.bincount(self._kind, self._chances).astype(np.float64)
        self.numbers = Numbers(kinds, shares, np.array([first_round[some].any() for some in members]))
        self._own, self._near = np.zeros(len(levels)), np.zeros(len(levels))
        self._alone = np.zeros(self._numbers.shape)
        for recipe, own in enumerate(channels):
            for level, columns in zip(kinds[self._kind[recipe]], own, strict=True):
                if self._law(recipe, columns[0]).noisy:
                    self._own[recipe], self._near[recipe] = level.kept, level.near
                else:
                    self._alone[recipe, columns] = level.kept

    # -- records

    def placed(self, records: Records) -> PlacedRecords:
        """Return the positions of some records, and the values that these should be independent of."""
        n, recipes, every = records.count, records.recipes, records.first_row + np.arange(records.count)
        own = np.full((len(self.names), n), np.nan).T  # a column's positions are beside each other
        number, exposed = np.zeros(n, np.int64), np.ones(n)
        beyond, stayed, rows_of = np.zeros(len(self._targets), np.int64), list[np.ndarray](), []
        coins, under = _RecordCoins(records.lam), list[tuple[int, int, ExposedLaw, _CellsRevealed]]()
        for column, target in enumerate(self._targets):
            true, codes = records.known[target.name].codes, records.codes[target.name]
            rows_of.append(self._grouped[column](true))
            stayed.append(np.zeros(0, np.int64))
            for index, law in enumerate(self._laws[column]):
                if isinstance(law, SeparateLaw):
                    rows, values = np.arange(n), true
                    own[:, column], outside = law.positions(records)
                    stayed[-1] = law.stayed(rows_of[-1], own[:, column], true, codes)
                    stays = law.stays[true]
                else:
                    rows = np.flatnonzero(self._numbers[recipes, column] == index + 1)
                    values, lam = true[rows], records.lam[rows]
                    within = uniform(every[rows], hashed([self._release, column]))
                    cell = law.cells(rows, codes[rows] - target.exposures.first[index], values, within)
                    own[rows, column] = np.minimum(blended(lam, cell.law, cell.noise), _BELOW_ONE)
                    outside, stays = cell.beyond, law.own_law[values]
                    if law.noisy:
                        coins.take(cell, law, values)
                        under.append((column, index, law, cell))
                beyond[column] += outside
                if not law.noisy:
                    kept = self._alone[recipes[rows] if len(self._alone) > 1 else slice(1), column]
                    number[rows] += own[rows, column] < kept
                    exposed[rows] *= kept / np.maximum(stays, kept)
        joint = own
        if COIN in self.names:
            joint = own.copy()
            of_coin, first, chance = coins.positions(uniform(every, hashed([self._release, COIN])))
            coins.of_cells([(column, cell) for column, _, _, cell in under], joint)
            kept, near = self._own[recipes], self._near[recipes]
            number += coins.any * ((first < kept).astype(np.int64) + ((first < near) & (near > kept)))
            exposed *= np.where(coins.any, kept / np.maximum(chance, kept), 1)
            own[:, len(self._targets)] = joint[:, len(self._targets)] = of_coin
        if RECIPE in self.names:
            drawn = uniform(every, hashed([self._release, RECIPE]))
            own[:, -1] = joint[:, -1] = self._before[recipes] + drawn * self._chances[recipes]
        originals = [p for t in self._targets for p in t.domain.split(records.known[t.name].codes)]
        originals += [records.codes[c.name] for c in self._others]
        groups = [g(c) for g, c in zip(self._originals, originals, strict=True)]
        of_recipe = self._group[recipes] if len(self.recipes) else recipes[:0]
        kinds = self._kind[recipes]
        extra = [beyond, *stayed]
        return PlacedRecords(
            own, joint, kinds, number, exposed, rows_of, groups, of_recipe, extra, records.first_row
        )

    def verdict(self, column: int, table: np.ndarray, extra: Sequence[np.ndarray], level: float) -> LawVerdict:
        """Return the verdict on an attribute's own law."""
        first, beyond = self._laws[column][0], int(extra[0][column])
        if isinstance(first, SeparateLaw):
            return first.verdict(table, beyond, extra[1 + column], level)
        law, records = self.tables[column][1], int(table.sum())
        stayed, kept = table[:, 0], float(law[0])
        each = zip(stayed.tolist(), table.sum(axis=1).tolist(), strict=True)
        codes_p = min(1.0, len(stayed) * min(binomial_p(k, m, kept) for k, m in each))
        stayed_p = binomial_p(int(stayed.sum()), records, kept)
        transitions = 0.0 if beyond else evidence.table_p(table, law)
        p = min(1.0, 3 * min(transitions, codes_p, stayed_p))
        name = self._targets[column].name
        return LawVerdict(name, records, transitions, p, p >= level, codes_p=codes_p, stayed_p=stayed_p)


def _declared(matrix: Matrix) -> tuple[float, float] | None:
    """Return the probability p of the outputs that gamma applies to, and o with p = gamma / (gamma + o)."""
    if matrix.own_outputs is None:
        return None
    own, others = matrix.own_outputs
    gamma, odds = matrix.amplification, others / own
    return gamma / (gamma + odds), odds


def _gamma(share: float, odds: float) -> float:
    """Return the gamma that corresponds to a share of values that stayed."""
    return inf if share >= 1 else share * odds / (1 - share)

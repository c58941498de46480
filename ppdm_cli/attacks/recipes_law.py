"""Places for records that show a few attributes by one coin; in an honest release all are independent.

A record's recipe is a draw by the weights. Either all of its cells are near their values, or some are away:
that is the coin, whose law follows from lam and the widths alone. Given the coin, and which of the cells before
are near, each cell has a law of its own, and so a place that is independent of all of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ppdm_cli.arrays import Codes, Floats, binomial_p
from ppdm_cli.attacks import evidence
from ppdm_cli.attacks.attacked_attribute import Truth
from ppdm_cli.attacks.law import GROUPS, LEAST_KEPT, Grouped, Placed, Places, cells
from ppdm_cli.attacks.numbers import Level, Numbers
from ppdm_cli.channels import Channel
from ppdm_cli.estimating import Recipes, Way
from ppdm_cli.releases import RecipeInUse
from ppdm_cli.repeatable import hashed, uniform

COIN, RECIPE = "the record's coin", "the recipe"
_MOST_KINDS = 16
_ALIKE = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0, 1e9)
"""Chances that differ by such a factor count as one; the first is taken by which there are few kinds."""


class _Cells:
    """The law of one way to show an attribute: for each value its own output first, then those near it."""

    def __init__(self, way: Way) -> None:
        inputs = way.told.shape[1]
        every = np.arange(inputs)
        self.coin, self._told, self._inputs = way.noise is not None, way.told, inputs
        self._noise = way.told if way.noise is None else np.broadcast_to(way.noise[:, None], way.told.shape)
        own = every if way.unchanged is None else way.unchanged
        self._away = (way.told <= 0).astype(np.int8) + 1
        self._away[own, every] = 0
        order = np.argsort(self._away, axis=0, kind="stable")
        self._told_below, self._noise_below = _below(self._told, order), _below(self._noise, order)
        self.near = (self._noise * (self._away < 2)).sum(axis=0)
        """For each value the chance that noise is near it."""
        self.own_told, self.own_noise = self._told[own, every], self._noise[own, every]

    def cells(self, rows: np.ndarray, shown: np.ndarray, true: np.ndarray, within: Floats) -> _Shown:
        at = shown.astype(np.int64) * self._inputs + true
        told, noise = self._told.take(at), self._noise[shown, true]
        return _Shown(
            rows,
            self._away.take(at),
            self._told_below.take(at) + within * told,
            self._noise_below.take(at) + within * noise,
            self.near.take(true),
            int(np.count_nonzero((told <= 0) & (noise <= 0))),
        )


def _below(law: Floats, order: np.ndarray) -> Floats:
    """Return the chance of what comes before each output."""
    found: Floats = np.empty(law.shape, np.float32)
    ordered = np.take_along_axis(law, order, 0)
    np.put_along_axis(found, order, np.cumsum(ordered, axis=0) - ordered, 0)
    return found


class _Shown(NamedTuple):
    """Cells of some records: how far away, their places where the coin tells and where not, and more."""

    rows: np.ndarray
    away: np.ndarray
    told: Floats
    noise: Floats
    near: Floats
    """The chance of noise to be near."""
    beyond: int
    """How many of them the law never shows."""


class _Coins:
    """What the cells of some records say together of their coins."""

    def __init__(self, lam: Floats) -> None:
        self.lam, n = lam, len(lam)
        self.any, self.own, self.near = np.zeros(n, bool), np.ones(n, bool), np.ones(n, bool)
        self._own_told, self._own_noise, self._near_noise = np.ones(n), np.ones(n), np.ones(n)

    def take(self, shown: _Shown, law: _Cells, true: np.ndarray) -> None:
        rows = shown.rows
        self.any[rows] = True
        self.own[rows] &= shown.away == 0
        self.near[rows] &= shown.away < 2
        self._own_told[rows] *= law.own_told[true]
        self._own_noise[rows] *= law.own_noise[true]
        self._near_noise[rows] *= shown.near

    def places(self, within: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the coins' places, places whose first are of cells that are the values, and these' chances."""
        own = self.lam * self._own_told + (1 - self.lam) * self._own_noise
        near = self.lam + (1 - self.lam) * self._near_noise
        found = np.where(self.near, near * within, near + (1 - near) * within)
        first = np.where(self.own, own * within, np.where(self.near, own + (near - own) * within, found))
        return np.where(self.any, found, np.nan), first, own

    def of_cells(self, each: Sequence[tuple[int, _Shown]], joint: Floats) -> None:
        """Fill in places that are independent of the coin and of the record's cells before."""
        left, before = self._near_noise.copy(), np.ones(len(self.lam), bool)
        for column, cell in each:
            rows, near, some = cell.rows, cell.away < 2, left[cell.rows]
            left[rows] = rest = some / cell.near
            first_away = cell.near * (1 - rest) / np.maximum(1 - some, 1e-300)
            chance = np.where(before[rows], first_away, cell.near)
            chance = np.where(self.near[rows], 1.0, np.clip(chance, 0, 1))
            away = (cell.noise - cell.near) / np.maximum(1 - cell.near, 1e-300)
            joint[rows, column] = np.where(near, chance * cell.told, chance + (1 - chance) * away)
            before[rows] &= near


class PlacesByRecipe(Places):
    """The places of a release with several recipes."""

    def __init__(
        self, recipes: Recipes, dealt: Sequence[RecipeInUse], axes: Sequence[Channel], release: str
    ) -> None:
        self._ways, self._lam, self._release = recipes.ways, recipes.lam, release
        self._places = [p for p, a in enumerate(axes) if not a.kept]
        self._cells = {p: [_Cells(w) for w in recipes.attributes[p].each] for p in self._places}
        self._first = [a.first for a in recipes.attributes]
        self._grouped = [Grouped.of(a.domain) for a in axes]
        weights = np.array([d.weight for d in dealt], np.float64)
        self._chances = weights / weights.sum()
        self._before = np.cumsum(self._chances) - self._chances
        self.names = [*(axes[p].name for p in self._places), COIN, RECIPE]
        columns = {p: j for j, p in enumerate(self._places)}
        each = enumerate(zip(axes, self._grouped, strict=True))
        self.groups = [(a.name, g.rows, columns.get(p)) for p, (a, g) in each]
        self._group = np.arange(len(dealt)) * min(len(dealt), GROUPS) // len(dealt)
        self.recipes = np.bincount(self._group, self._chances).astype(np.float64)
        self._set_kinds(recipes.rounds == 1)
        kept = []
        for p in self._places:
            each_kept = [self._level(r, [p]).kept for r in np.flatnonzero(self._ways[:, p]).tolist()]
            kept.append(max(float(np.mean(each_kept)), LEAST_KEPT) if each_kept else 0.5)
        self.kept = np.array([*kept, float(np.clip(self._chances @ self._near, LEAST_KEPT, 0.5)), 0.5])
        outputs = [min(max(len(w.told) for w in recipes.attributes[p].each), GROUPS) for p in self._places]
        self.tables = [
            (self._grouped[p].rows, cells(k, size - 1))
            for p, k, size in zip(self._places, kept, outputs, strict=True)
        ]

    # -- levels

    def _level(self, recipe: int, places: Sequence[int]) -> Level:
        """Return the least chances of some attributes of a recipe, of all records that it is dealt to."""
        laws = [self._cells[p][self._ways[recipe, p] - 1] for p in places]
        lam = float(self._lam[recipe])
        told, noise = prod(c.own_told.min() for c in laws), prod(c.own_noise.min() for c in laws)
        kept = float(lam * told + (1 - lam) * noise)
        near = float(lam + (1 - lam) * prod(c.near.min() for c in laws)) if laws[0].coin else kept
        return Level(kept, max(near, kept), near)

    def _channels(self, recipe: int) -> list[list[int]]:
        """Return the attributes of each of a recipe's channels, those under its coin first."""
        shown = [p for p in self._places if self._ways[recipe, p]]
        coin = [p for p in shown if self._cells[p][self._ways[recipe, p] - 1].coin]
        return [*([coin] if coin else []), *([p] for p in shown if p not in coin)]

    def _set_kinds(self, first_round: np.ndarray) -> None:
        """Group recipes into kinds by their channels' levels; a kind has the least chances of its recipes."""
        channels = [self._channels(r) for r in range(len(self._lam))]
        levels = [np.array([self._level(r, c) for c in own]) for r, own in enumerate(channels)]
        for alike in _ALIKE:
            keys = [np.floor(np.log(one[:, :2]) / np.log(alike) + 1e-6) for one in levels]
            known: dict[Any, int] = {}
            flat = [(one[:, 1] > one[:, 0] * (1 + 1e-9)).tobytes() for one in levels]
            each = zip(keys, flat, strict=True)
            self._kind = np.array([known.setdefault((k.tobytes(), f), len(known)) for k, f in each])
            if len(known) <= _MOST_KINDS:
                break
        members = [np.flatnonzero(self._kind == kind) for kind in range(len(known))]
        least = [np.min([levels[r] for r in some], axis=0) for some in members]
        kinds = [[Level(a, b if b > a * (1 + 1e-9) else a, c) for a, b, c, _ in k.tolist()] for k in least]
        shares = np.bincount(self._kind, self._chances).astype(np.float64)
        self.numbers = Numbers(kinds, shares, np.array([first_round[some].any() for some in members]))
        self._own, self._near = np.zeros(len(levels)), np.zeros(len(levels))
        self._alone = np.zeros(self._ways.shape)
        for recipe, own in enumerate(channels):
            for level, places in zip(kinds[self._kind[recipe]], own, strict=True):
                if self._cells[places[0]][self._ways[recipe, places[0]] - 1].coin:
                    self._own[recipe], self._near[recipe] = level.kept, level.near
                else:
                    self._alone[recipe, places] = level.kept

    # -- records

    def placed(
        self, numbers: np.ndarray, codes: Sequence[Codes], truths: Sequence[Truth | None], first_row: int
    ) -> Placed:
        n, every = len(numbers), first_row + np.arange(len(numbers))
        own, beyond = np.full((n, len(self.names)), np.nan), np.zeros(len(self._places), np.int64)
        joint, number, exposed = own.copy(), np.zeros(n, np.int64), np.ones(n)
        coins, under, rows_of = _Coins(self._lam[numbers]), list[tuple[int, _Shown]](), []
        for column, p in enumerate(self._places):
            truth, which = truths[p], self._ways[numbers, p]
            assert truth is not None
            rows_of.append(self._grouped[p](truth.codes))
            for way, law in enumerate(self._cells[p]):
                rows = np.flatnonzero(which == way + 1)
                true, lam = truth.codes[rows], coins.lam[rows]
                within = uniform(every[rows], hashed([self._release, column]))
                cell = law.cells(rows, codes[p][rows] - self._first[p][way], true, within)
                own[rows, column] = np.minimum(lam * cell.told + (1 - lam) * cell.noise, 1 - 2.0**-53)
                beyond[column] += cell.beyond
                if law.coin:
                    coins.take(cell, law, true)
                    under.append((column, cell))
                    continue
                joint[rows, column], kept = own[rows, column], self._alone[numbers[rows], p]
                number[rows] += own[rows, column] < kept
                exposed[rows] *= kept / np.maximum(law.own_told[true], kept)
        of_coin, first, chance = coins.places(uniform(every, hashed([self._release, COIN])))
        coins.of_cells(under, joint)
        kept, near = self._own[numbers], self._near[numbers]
        number += coins.any * ((first < kept).astype(np.int64) + ((first < near) & (near > kept)))
        exposed *= np.where(coins.any, kept / np.maximum(chance, kept), 1)
        drawn = uniform(every, hashed([self._release, RECIPE]))
        of_recipe = self._before[numbers] + drawn * self._chances[numbers]
        for found in (own, joint):
            found[:, -2], found[:, -1] = of_coin, of_recipe
        groups = [
            g(codes[p] if t is None else t.codes)
            for p, (g, t) in enumerate(zip(self._grouped, truths, strict=True))
        ]
        return Placed(own, joint, self._kind[numbers], number, exposed, rows_of, groups,
                      self._group[numbers], [beyond], first_row)  # fmt: skip

    def attribute(
        self, column: int, table: np.ndarray, extra: Sequence[np.ndarray], level: float
    ) -> dict[str, Any]:
        law, records = self.tables[column][1], int(table.sum())
        stayed, kept = table[:, 0], float(law[0])
        each = zip(stayed.tolist(), table.sum(axis=1).tolist(), strict=True)
        codes_p = min(1.0, len(stayed) * min(binomial_p(k, m, kept) for k, m in each))
        stayed_p = binomial_p(int(stayed.sum()), records, kept)
        transitions = 0.0 if extra[0][column] else evidence.table_p(table, law)
        return {
            "attribute": self.names[column],
            "records": records,
            "transitions_p": transitions,
            "codes_p": codes_p,
            "stayed_p": stayed_p,
            "p": min(1.0, 3 * min(transitions, codes_p, stayed_p)),
        }

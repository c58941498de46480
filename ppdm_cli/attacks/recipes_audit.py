"""The audit of a release with several recipes: laws of what is shown, one coin a record, and recipes by a coin.

Three families of tests with a third of `LEVEL` each, which their tests share equally (Bonferroni); all p-values
hold for every shape of data (`evidence`). A cell's law under its recipe is tested, code by code. Of a record it
is tested which cells show their value or its neighbourhood: under one coin all do, or as many as of noise. And
the recipes' numbers are to be draws by their weights, whatever the originals, the kept columns and the place in
the file: else what is withheld would tell something. Rounds are such a draw, and within each its recipes are:
those of later ones hang on what earlier ones published, so each round is tested by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks import evidence
from ppdm_cli.attacks.attacked_attribute import Truth
from ppdm_cli.attacks.audit import LEVEL
from ppdm_cli.channels import Channel
from ppdm_cli.estimating import Recipes, Way
from ppdm_cli.sidecar_recipes import Dealt

_FAMILY = LEVEL / 3
BLOCKS = 64
"""The stretches of the file in which recipes are counted."""
MOST_GROUPS = 64
"""The groups of recipes that are counted apart where they are crossed with something."""


@dataclass(frozen=True, eq=False)
class Draw:
    """A draw by a coin that nothing may hang on: of rounds, or of a round's recipes."""

    where: str
    group: np.ndarray
    """What each recipe counts as; -1 where it is not among those drawn from."""
    chances: Floats
    """Of each group."""


def _draw(where: str, among: np.ndarray, chances: Floats) -> Draw:
    """Return the draw of one of these recipes, in few groups."""
    some = np.flatnonzero(among)
    group = np.full(len(among), -1)
    group[some] = np.arange(len(some)) * min(len(some), MOST_GROUPS) // len(some)
    own = np.bincount(group[some], chances[some]).astype(np.float64)
    return Draw(where, group, own / own.sum())


class RecipesAudit:
    """The audit of a release of so many records, as a fold over a list of tables of counts."""

    def __init__(self, recipes: Recipes, dealt: Sequence[Dealt], axes: Sequence[Channel], records: int) -> None:
        self._recipes, self._axes, self._records = recipes, axes, records
        self._places = [p for p, a in enumerate(axes) if not a.kept]
        weights = np.array([d.weight for d in dealt], np.float64)
        self._chances = weights / weights.sum()
        self._draws = [_draw("", np.ones(len(dealt), bool), self._chances)]
        if len(rounds := np.unique(recipes.rounds).tolist()) > 1:
            of_rounds = np.bincount(recipes.rounds - 1, self._chances).astype(np.float64)
            self._draws = [Draw(" by round", recipes.rounds - 1, of_rounds)]
            self._draws += [_draw(f" in round {r}", recipes.rounds == r, self._chances) for r in rounds]
        # what is shown of an attribute has one law for each way and lam
        found = np.column_stack([recipes.lam.round(12), recipes.rounds])
        lams, lam_of = np.unique(found, axis=0, return_inverse=True)
        self._lams: list[float] = lams[:, 0].tolist()
        self._lam_of = lam_of.ravel()
        self._shown = (recipes.ways > 0) & np.array([not a.kept for a in axes])
        self._near = [[w.told > w.told.min(axis=1, keepdims=True) for w in a.each] for a in recipes.attributes]

    def counted(
        self, numbers: np.ndarray, codes: Sequence[Codes], truths: Sequence[Truth | None], first: int
    ) -> list[np.ndarray]:
        """Return the counts of a batch: of each law, of each recipe's pattern, of recipes by all else."""
        found: list[np.ndarray] = []
        near = np.zeros((len(numbers), len(self._axes)), bool)
        for place in self._places:
            truth, ways = truths[place], self._recipes.attributes[place]
            assert truth is not None
            which = self._recipes.ways[numbers, place]
            for number, way in enumerate(ways.each):
                rows = np.flatnonzero(which == number + 1)
                own, original = codes[place][rows].astype(np.int64) - ways.first[number], truth.codes[rows]
                near[rows, place] = self._near[place][number][own, original]
                shape = (len(self._lams), way.told.shape[1], len(way.told))
                joint = np.ravel_multi_index((self._lam_of[numbers[rows]], original, own), shape)
                found.append(np.bincount(joint, minlength=int(np.prod(shape))).reshape(shape))
        powers = 1 << np.cumsum(self._recipes.ways > 0, axis=1) - 1
        pattern = (near * np.where(self._recipes.ways > 0, powers, 0)[numbers]).sum(axis=1)
        widest = int((self._recipes.ways > 0).sum(axis=1).max())
        shape2 = (len(self._chances), 1 << widest)
        found.append(
            np.bincount(numbers * shape2[1] + pattern, minlength=shape2[0] * shape2[1]).reshape(shape2)
        )
        for codes_, size in self._others(codes, truths, first):
            for draw in self._draws:
                group, groups = draw.group[numbers], len(draw.chances)
                joint = (codes_.astype(np.int64) * groups + group)[group >= 0]
                found.append(np.bincount(joint, minlength=size * groups).reshape(size, -1))
        return found

    def _others(
        self, codes: Sequence[Codes], truths: Sequence[Truth | None], first: int
    ) -> Iterator[tuple[np.ndarray, int]]:
        """Yield what recipes must not hang on: originals, what was kept, the place."""
        for place, axis in enumerate(self._axes):
            truth = truths[place]
            yield (codes[place] if truth is None else truth.codes), axis.domain.size
        rows = first + np.arange(len(codes[0]))
        yield rows * BLOCKS // max(self._records, 1), BLOCKS

    def verdicts(
        self, tables: list[np.ndarray]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
        """Return a row an attribute, a row a family of further tests, and what they could not have seen."""
        left = iter(tables)
        rows: list[dict[str, Any]] = []
        for place in self._places:
            ways = self._recipes.attributes[place].each
            p, records = 1.0, 0
            tests = [t for way in ways for t in self._laws(way, next(left))]
            for counts, law in tests:
                p, records = min(p, len(tests) * evidence.table_p(counts, law)), records + int(counts.sum())
            rows.append({"attribute": self._axes[place].name, "records": records, "transitions_p": p, "p": p})
        for row in rows:
            row["honest"] = row["p"] >= _FAMILY / len(rows)
        together = self._together(next(left))
        names = [a.name for a in self._axes] + ["the place in the file"]
        crossed = [(n + draw.where, draw.chances) for n in names for draw in self._draws]
        hang = {n: evidence.table_p(t, chances) for (n, chances), t in zip(crossed, left, strict=True)}
        families = [_family("together", together), _family("recipes", hang)]
        return rows, [f for f in families if f["tests"]], self._unseen()

    def _laws(self, way: Way, counts: np.ndarray) -> Iterator[tuple[np.ndarray, Floats]]:
        """Yield tables of one law, original codes whose outputs have the same chances as rows."""
        for lam, table in zip(self._lams, counts, strict=True):
            law = way.told if way.noise is None else lam * way.told + (1 - lam) * way.noise[:, None]
            order = np.argsort(-law, axis=0, kind="stable")
            chances, table = np.take_along_axis(law, order, 0).T, np.take_along_axis(table, order.T, 1)
            alike, which = np.unique(chances.round(12), axis=0, return_inverse=True)
            for number in range(len(alike)):
                own = table[which.ravel() == number]
                if own.any():
                    yield own, alike[number] / alike[number].sum()

    def _together(self, patterns: np.ndarray) -> dict[str, float]:
        """Return a p-value for each law of which cells of a record show their value: (recipe, pattern)."""
        by_law: dict[bytes, list[int]] = {}
        laws: dict[bytes, Floats] = {}
        for recipe, row in enumerate(self._shown):
            places = np.flatnonzero(row).tolist()
            ways = [self._recipes.attributes[p].each[self._recipes.ways[recipe, p] - 1] for p in places]
            if sum(w.noise is not None for w in ways) < 2:
                continue
            chances = self._pattern(recipe, places, patterns.shape[1])
            key = chances.round(12).tobytes() + bytes([self._recipes.rounds[recipe]])
            laws[key] = chances
            by_law.setdefault(key, []).append(recipe)
        return {
            f"recipe {recipes[0]}" + " and others" * (len(recipes) > 1): evidence.table_p(
                patterns[recipes], laws[key]
            )
            for key, recipes in by_law.items()
        }

    def _pattern(self, recipe: int, places: Sequence[int], size: int) -> Floats:
        """Return the chance of each pattern of a recipe's cells that show their value."""
        told, noise = np.ones(1), np.ones(1)
        for place in places:  # the first has the lowest bit
            number = self._recipes.ways[recipe, place] - 1
            way, near = self._recipes.attributes[place].each[number], self._near[place][number]
            own = float((way.told * near).sum(axis=0)[0])
            other = own if way.noise is None else float(way.noise @ near[:, 0])
            told = np.multiply.outer(np.array([1 - own, own]), told).ravel()
            noise = np.multiply.outer(np.array([1 - other, other]), noise).ravel()
        lam, found = float(self._recipes.lam[recipe]), np.zeros(size)
        found[: len(told)] = lam * told + (1 - lam) * noise
        return found

    def _unseen(self) -> dict[str, Any]:
        chance = float(self._chances @ self._recipes.lam)
        share = (evidence.betraying(self._records, chance, _FAMILY) - chance) / max(1 - chance, 1e-300)
        return {
            "records": self._records,
            "power": evidence.POWER,
            "unperturbed": min(share, 1.0),
            "gamma_factor": inf,
        }


def _family(name: str, found: dict[str, float]) -> dict[str, Any]:
    """Return the least p-value of a family, by which all its tests are judged, and where it was."""
    where = min(found, key=lambda n: found[n], default="")
    p = min(1.0, len(found) * found.get(where, 1.0))
    return {"test": name, "tests": len(found), "where": where, "p": p, "honest": p >= _FAMILY}

"""What each record of a release with several recipes shows: read from the release, by its sidecar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Codes, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch
from ppdm_cli.errors import RefusedError
from ppdm_cli.estimating.recipes import Recipes, Way, Ways
from ppdm_cli.releases import RecipeInUse, encoded, opened, published
from ppdm_cli.sidecar import COLUMN, Sidecar


@dataclass(frozen=True, eq=False)
class Showing:
    """Some attributes of a release with several recipes, and how their codes are read."""

    axes: tuple[Channel, ...]
    sidecar: Sidecar
    recipes: Recipes
    own: tuple[np.ndarray, ...]
    """For each attribute the code over all its ways, by way, counted from 1, and the column's code."""

    @classmethod
    def of(cls, sidecar: Sidecar, axes: Sequence[Channel]) -> Showing:
        """Return what the recipes show of these attributes; what was kept is shown by all."""
        dealt = opened(sidecar).recipes
        lam, ways = np.ones(len(dealt)), np.zeros((len(dealt), len(axes)), np.uint16)
        found: list[dict[object, Way]] = [{} for _ in axes]
        shown: list[dict[object, Channel]] = [{} for _ in axes]
        numbers: list[dict[object, int]] = [{} for _ in axes]
        places = {axis.name: place for place, axis in enumerate(axes) if not axis.kept}
        for place, axis in enumerate(axes):
            if axis.kept:
                found[place][None], ways[:, place] = Way.of(axis), 1
        for recipe in dealt:
            lam[recipe.number], laws = _laws(recipe)
            for name in laws.keys() & places:
                place, way = places[name], laws[name]
                if way.key not in found[place]:
                    numbers[place][way.key] = 1 + len(found[place])
                    found[place][way.key], shown[place][way.key] = way, recipe.through[name]
                ways[recipe.number, place] = numbers[place][way.key]
        attributes = tuple(Ways(tuple(f.values())) for f in found)
        own = []
        for axis, all_ways, channels in zip(axes, attributes, shown, strict=True):
            rows = [np.full(0 if axis.kept else opened(sidecar).wide(axis.name).domain.size, all_ways.withheld)]
            each = zip(all_ways.first, channels.values(), strict=False)
            rows += [first + opened(sidecar).wide(axis.name).own_codes(c) for first, c in each]
            own.append(np.stack(rows).astype(code_type(all_ways.withheld + 1)))
        rounds = np.array([d.round for d in dealt])
        return cls(tuple(axes), sidecar, Recipes(attributes, ways, lam, rounds), tuple(own))

    @property
    def columns(self) -> list[str]:
        return [*(a.name for a in self.axes), COLUMN]

    def __call__(self, batch: Batch) -> tuple[np.ndarray, list[Codes]]:
        """Return the number of each record's recipe, and codes over all the ways in which they are shown."""
        names = [a.name for a in self.axes if not a.kept]
        seen = published(batch, self.sidecar, names)
        found = []
        for place, axis in enumerate(self.axes):
            if axis.kept:
                found.append(encoded(batch, axis))
                continue
            found.append(self.own[place][self.recipes.ways[seen.recipes, place], seen.codes[axis.name]])
        return seen.recipes, found


def _together(what: object) -> RefusedError:
    return RefusedError(
        f"{what} is published together with others in another way than by one box",
        "ask the owner for a release whose recipes have one box each",
    )


def _laws(recipe: RecipeInUse) -> tuple[float, dict[str, Way]]:
    """Return the chance that the recipe's coin tells, 1 where it has none, and how it shows each attribute."""
    lam, laws, coins = 1.0, dict[str, Way](), 0
    for channel in recipe.channels:
        if len(channel.attributes) == 1:
            laws[channel.name] = Way(channel.matrix)
            continue
        coin, coins = channel.matrix.coin, coins + 1
        if coin is None or coins > 1:
            raise _together(f"what recipe {recipe.number} shows")
        lam = coin[0]
        laws |= {n: Way(side) for n, side in zip(channel.attributes, coin[1], strict=True)}
    return lam, laws

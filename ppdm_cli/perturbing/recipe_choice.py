"""Recipes for records that publish a few attributes (`publish`, `rounds`): from domains and a budget.

Every set of k attributes is equally likely; the class, if it isn't kept, is in every one. This uses nothing of
the data but their domains and, to choose k, the number of records.

With rounds, a coin that depends neither on values nor on row numbers decides the round of each record. Later
rounds' recipes follow from the records published in earlier ones, and from coins. So each record has one
recipe, which is fixed given what the others published, and costs its epsilon once (docs/technical/method.md has
the proof).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, exp, lcm
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ppdm_cli.channels import Beyond, BoxSpec, continued
from ppdm_cli.domain import Domain
from ppdm_cli.errors import RefusedError, UsageError, argument
from ppdm_cli.perturbing.record_design import ChooseBy, Round, Setting, recommended, scheduled
from ppdm_cli.sidecar import MOST_RECIPES, Recipe

if TYPE_CHECKING:
    from ppdm_cli.joint import Tells

Known = Mapping[str, tuple[Domain, bool]]
"""Domains by attribute, with a flag whether their values are in order."""


def chosen_number(setting: Setting) -> int:
    """Return the number of attributes that a record publishes under `--publish auto`."""
    k, q = recommended(setting).k, len(setting.sizes)
    assert k is not None
    return next(n for n in range(k, 0, -1) if comb(q, n) <= MOST_RECIPES or n == 1)


@dataclass(frozen=True, eq=False)
class RecipeMaker:
    """The basis of all recipes, except for the attributes that each publishes."""

    known: Known
    """Domains by attribute; without an order if no values can be published beyond them."""
    class_: str | None
    epsilon: float

    @classmethod
    def of(cls, known: Known, class_: str | None, epsilon: float) -> RecipeMaker:
        known = {n: (d, o and n != class_ and _has_room(d)) for n, (d, o) in known.items()}
        return cls(known, class_, epsilon)

    @property
    def names(self) -> list[str]:
        """Return the attributes to choose from."""
        return [n for n in self.known if n != self.class_]

    @property
    def always_published(self) -> list[str]:
        """Return the class, if every record publishes it."""
        return [n for n in self.known if n == self.class_]

    def number(self, k: int | str, records: int) -> int:
        """Return the number of attributes that a record publishes, if all sets are equally likely."""
        names = self.names
        number = k if isinstance(k, int) else self._best(records)
        if not 1 <= number <= len(names):
            raise UsageError(
                "too-many-published",
                f"a record cannot publish {number} of {len(names)} attributes",
                f"use {argument('publish', 1)} to {len(names)}, or auto",
            )
        if comb(len(names), number) > MOST_RECIPES:
            raise RefusedError(
                "too-many-recipes",
                f"{comb(len(names), number):,} sets of {number} of {len(names)} attributes are more than the "
                f"{MOST_RECIPES:,} recipes that a release may have",
                "publish fewer of them, or drop some attributes",
            )
        return number

    def _best(self, records: int) -> int:
        names, always_published = self.names, self.always_published
        sizes = tuple((self.known[n][0].size, self.known[n][1]) for n in names)
        labels = self.known[always_published[0]][0].size if always_published else 0
        return chosen_number(Setting(self.epsilon, records, sizes, labels))

    def recipes(self, sets: Sequence[Sequence[str]]) -> list[Recipe]:
        """Return recipes of one weight: a family if the sets are all of some attributes and alike."""
        specs = [self._box([*chosen, *self.always_published]) for chosen in sets]
        widths: dict[str, set[int]] = {}
        for spec in specs:
            for name, b in zip(spec.attributes, spec.half_width, strict=True):
                widths.setdefault(name, set()).add(b)
        names, k = [n for n in widths if n != self.class_], len(sets[0])
        alike = len({s.gamma for s in specs}) == 1 and all(len(w) == 1 for w in widths.values())
        if len(specs) > 1 and alike and [*sets] == [*combinations(names, k)]:
            every = [*names, *self.always_published]
            half_width = [widths[n].pop() for n in every]
            channel: dict[str, Any] = {"kind": BoxSpec.kind, "gamma": specs[0].gamma, "half_width": half_width}
            return [Recipe(weight=1, choose=k, of=names, with_=self.always_published or UNSET, channel=channel)]
        return [Recipe([s], weight=1 if len(specs) > 1 else UNSET) for s in specs]

    def _box(self, names: Sequence[str]) -> BoxSpec:
        domains, ordered = zip(*(self.known[n] for n in names), strict=True)
        gamma = exp(min(self.epsilon, 700.0))
        return BoxSpec.of(names, domains, ordered, gamma, always_published=len(self.always_published))

    def beyond(self, recipes: Sequence[Recipe]) -> dict[str, Beyond | UnsetType]:
        """Return the values beyond its domain that each attribute publishes, in any of the recipes."""
        reach = dict.fromkeys(self.known, 0)
        for spec in (s for r in recipes for s in r.specs):
            for name, b in zip(spec.attributes, spec.reach or [], strict=True):
                reach[name] = max(reach[name], b)
        return {n: continued(self.known[n][0], b) if b else UNSET for n, b in reach.items()}


def _has_room(domain: Domain) -> bool:
    """Return whether values can be published beyond the domain: a type may have none there."""
    try:
        continued(domain, max(1, domain.ordinary // 2))
    except RefusedError:
        return False
    return domain.ordinary >= 2


def digested(recipes: Sequence[Recipe], facts: Sequence[object]) -> str:
    """Return a digest of all that determines the recipe of a record."""
    text = msgspec.json.encode([[r.encode().decode() for r in recipes], facts])
    return hashlib.blake2b(text, digest_size=32).hexdigest()


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of a release, and all that determines their recipes except published records."""

    maker: RecipeMaker
    schedule: tuple[Round, ...]

    @classmethod
    def of(cls, maker: RecipeMaker, number: int, k: int | str) -> Rounds:
        """Return so many rounds for the budget; records of the last one publish `k` attributes."""
        most = len(maker.names) - 1
        if most < 2:
            raise RefusedError(
                "few-for-rounds",
                f"rounds choose among attributes, but there are {most + 1}",
                f"leave out {argument('rounds')}",
            )
        *first, last = scheduled(number, maker.epsilon)
        if isinstance(k, int):
            last = Round(last.share, maker.number(k, 0), last.by, max(last.most, k))
        first = [Round(r.share, min(r.k, most), r.by, r.most) for r in first]
        maker.number(first[0].k, 0)
        found = cls(maker, (*first, last))
        if (many := sum(found.most_recipes(r) for r in found.schedule)) > MOST_RECIPES:
            raise RefusedError(
                "recipes-for-rounds",
                f"so many attributes may need {many:,} recipes, but a release has at most {MOST_RECIPES:,}",
                f"drop some attributes, or leave out {argument('rounds')}",
            )
        return found

    def most_recipes(self, asked: Round) -> int:
        """Return the number of sets of attributes that a round may publish."""
        q = len(self.maker.names)
        if asked.by is ChooseBy.MAIN:
            return comb(q, asked.k) - comb(max(q - asked.most, 0), asked.k)
        return comb(q if asked.by is ChooseBy.EVERY else min(q, asked.most), asked.k)

    @property
    def shares(self) -> list[int]:
        return [r.share for r in self.schedule]

    def first(self) -> list[Recipe]:
        """Return the recipes of the first round."""
        return self._joined([self.maker.recipes([*combinations(self.maker.names, self.schedule[0].k)])])

    def further(self, recipes: Sequence[Recipe], tells: Tells) -> list[Recipe]:
        """Return the recipes with those of one more round, from the records published in the rounds before."""
        done = 1 + max(r.round for r in recipes if isinstance(r.round, int))
        before = [[r for r in recipes if r.round == n] for n in range(1, done)]
        return self._joined([*before, self.maker.recipes(self._sets(self.schedule[done - 1], tells))])

    def _sets(self, asked: Round, tells: Tells) -> list[tuple[str, ...]]:
        ranked, told = tells.ranked()
        ranked += [n for n in self.maker.names if n not in told]
        names = set(ranked)
        if asked.by is ChooseBy.MAIN:
            strongest = set(sorted(tells.alone, key=lambda n: -tells.alone[n])[: asked.most])
        else:
            best = ranked[: asked.most]
            if asked.by is ChooseBy.EFFECT:
                some = [n for n in best if told.get(n, 0) > 0]
                best = some if len(some) > 1 else best[:2]
            strongest = names = set(best)
        ordered = [n for n in self.maker.names if n in names]
        return [s for s in combinations(ordered, min(asked.k, len(ordered))) if strongest & set(s)]

    def _joined(self, rounds: Sequence[Sequence[Recipe]]) -> list[Recipe]:
        """Return the recipes with their rounds, and weights that give each round its share."""
        whole = lcm(*(len(r) for r in rounds))
        return [
            replace(recipe, weight=share * whole // len(recipes), round=number)
            for number, (share, recipes) in enumerate(zip(self.shares, rounds, strict=False), 1)
            for recipe in recipes
        ]

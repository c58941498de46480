"""Records in rounds (--rounds): what a later round publishes is chosen by what earlier ones published.

Who is in which round is decided by a coin that sees neither values nor places. A round's recipes are a function
of published records of earlier rounds, and of coins; so each record goes through one recipe, which is fixed
given what the others published, and costs its epsilon once (docs/method.md has the proof).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, lcm

from msgspec.structs import replace

from ppdm_cli.errors import RefusedError
from ppdm_cli.joint import Tells
from ppdm_cli.perturbing.publishing import Publisher
from ppdm_cli.record_design import Round, scheduled
from ppdm_cli.sidecar import MOST_RECIPES, Recipe


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of a release, and all that their recipes follow from besides published records."""

    publisher: Publisher
    schedule: tuple[Round, ...]

    @classmethod
    def of(cls, publisher: Publisher, number: int, k: int | str) -> Rounds:
        """Return so many rounds by the budget; `k`: how many attributes the last one's records publish."""
        most = len(publisher.names) - 1
        if most < 2:
            raise RefusedError(
                f"rounds choose among attributes, and there are {most + 1}", "leave out --rounds"
            )
        *first, last = scheduled(number, publisher.epsilon)
        if isinstance(k, int):
            last = Round(last.share, publisher.number(k, 0), last.what, max(last.most, k))
        first = [Round(r.share, min(r.k, most), r.what, r.most) for r in first]
        publisher.number(first[0].k, 0)
        found = cls(publisher, (*first, last))
        if (many := sum(found.most_recipes(r) for r in found.schedule)) > MOST_RECIPES:
            raise RefusedError(
                f"{many:,} recipes may be needed for so many attributes, and a release has at most "
                f"{MOST_RECIPES:,}",
                "--drop some attributes, or leave out --rounds",
            )
        return found

    def most_recipes(self, asked: Round) -> int:
        """Return how many sets of attributes a round may publish."""
        q = len(self.publisher.names)
        if asked.what == "main":
            return comb(q, asked.k) - comb(max(q - asked.most, 0), asked.k)
        return comb(q if asked.what == "every" else min(q, asked.most), asked.k)

    @property
    def shares(self) -> list[int]:
        return [r.share for r in self.schedule]

    def first(self) -> list[Recipe]:
        """Return the recipes of the first round."""
        return self._joined([self.publisher.recipes([*combinations(self.publisher.names, self.schedule[0].k)])])

    def further(self, recipes: Sequence[Recipe], tells: Tells) -> list[Recipe]:
        """Return the recipes with those of one round more, by what was published in the rounds before."""
        done = 1 + max(r.round for r in recipes if isinstance(r.round, int))
        before = [[r for r in recipes if r.round == n] for n in range(1, done)]
        return self._joined([*before, self.publisher.recipes(self._sets(self.schedule[done - 1], tells))])

    def _sets(self, asked: Round, tells: Tells) -> list[tuple[str, ...]]:
        ranked, told = tells.ranked()
        ranked += [n for n in self.publisher.names if n not in told]
        names = set(ranked)
        if asked.what == "main":
            strongest = set(sorted(tells.alone, key=lambda n: -tells.alone[n])[: asked.most])
        else:
            best = ranked[: asked.most]
            if asked.what == "telling":
                some = [n for n in best if told.get(n, 0) > 0]
                best = some if len(some) > 1 else best[:2]
            strongest = names = set(best)
        ordered = [n for n in self.publisher.names if n in names]
        return [s for s in combinations(ordered, min(asked.k, len(ordered))) if strongest & set(s)]

    def _joined(self, rounds: Sequence[Sequence[Recipe]]) -> list[Recipe]:
        """Return the recipes with their rounds, and weights such that each round has its share."""
        whole = lcm(*(len(r) for r in rounds))
        return [
            replace(recipe, weight=share * whole // len(recipes), round=number)
            for number, (share, recipes) in enumerate(zip(self.shares, rounds, strict=False), 1)
            for recipe in recipes
        ]

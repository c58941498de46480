"""Recipes for records that publish a few attributes (`publish`, `rounds`): from domains and a budget.

Designs are compared before any data is seen. Each record publishes k of q attributes by one box at the whole
budget, or all of them with an equal part each; or the records are split into rounds, and later ones publish the
attributes that earlier ones found to matter. A record's information about one attribute (e1) and about a pair
(e2) is Fisher information, as a share of an unperturbed record's (docs/technical/method.md), times the share of
records that publish them: n e1 and n e2 are at most the effective numbers of records.

Every set of k attributes is equally likely; the class, if it isn't kept, is in every one. With rounds, a coin
that depends neither on values nor on row numbers decides the round of each record. Later rounds' recipes follow
from the records published in earlier ones, and from coins. So each record has one recipe, which is fixed given
what the others published, and costs its epsilon once (docs/technical/method.md has the proof).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from math import comb, exp, inf, lcm, prod, sqrt
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ppdm_cli.channels import Beyond, BoxSpec, best_widths, continued, information
from ppdm_cli.domain import MOST_COMBINATIONS, Domain
from ppdm_cli.errors import RefusedError, UsageError, argument
from ppdm_cli.perturbing.count_errors import relative_error
from ppdm_cli.privacy import believed_after, row_found
from ppdm_cli.sidecar import MOST_RECIPES, Recipe

if TYPE_CHECKING:
    from ppdm_cli.joint import AttributeScores

MOST_CHOSEN = 3
"""The most attributes of one record that are considered; more are less informative, and costly for a miner."""
MOST_SETS = 1 << 10
"""The most sets of sizes that are tried; of more, which needs 17 different sizes, some in even steps."""
FEW_CLEAN = 10.0
"""The effective number of records below which a pair's interaction cannot be learned, only main effects."""
LEAST_PAIRS = 3.0
"""The effective number of records below which pairs are not worth publishing either, as measured."""
NEARLY = 1.2
"""The factor by which a larger k must be more informative about a pair."""
Size = tuple[int, bool]


class ChooseBy(Enum):
    """The choice of attributes for a round's sets."""

    EVERY = "all attributes"
    MAIN = "one of the strongest main effects, and any"
    BEST = "the best"
    EFFECT = "the best that have any effect"


@dataclass(frozen=True)
class Round:
    """The sets of attributes that the records of a round publish."""

    share: int
    """The share of the records, over the sum of all rounds'."""
    k: int
    by: ChooseBy
    """The choice of sets of so many."""
    most: int = 0
    """The number of the strongest, or of the best."""


EVERY1, EVERY2 = Round(3, 1, ChooseBy.EVERY), Round(2, 2, ChooseBy.EVERY)
SCHEDULES: dict[int, list[tuple[float, tuple[Round, ...]]]] = {
    2: [
        (1.75, (EVERY2, Round(3, 2, ChooseBy.BEST, 3))),
        (3.2, (EVERY2, Round(3, 3, ChooseBy.EFFECT, 3))),
        (5.5, (Round(3, 2, ChooseBy.EVERY), Round(7, 3, ChooseBy.EFFECT, 4))),
        (inf, (Round(3, 3, ChooseBy.EVERY), Round(17, 3, ChooseBy.EFFECT, 4))),
    ],
    3: [
        (1.75, (EVERY1, Round(9, 2, ChooseBy.MAIN, 1), Round(8, 2, ChooseBy.BEST, 3))),
        (3.2, (EVERY1, Round(5, 2, ChooseBy.MAIN, 2), Round(12, 3, ChooseBy.EFFECT, 3))),
        (5.5, (Round(3, 2, ChooseBy.EVERY), Round(3, 2, ChooseBy.MAIN, 2), Round(14, 3, ChooseBy.EFFECT, 4))),
        (inf, (Round(3, 3, ChooseBy.EVERY), Round(3, 3, ChooseBy.BEST, 6), Round(14, 3, ChooseBy.EFFECT, 4))),
    ],
}
"""The best schedules for trees of synthetic functions, by number of rounds and up to an epsilon."""
TWO_FROM = 5.5
"""Above this epsilon two rounds are as good as three."""
WORTH = 8000.0
"""The effective number of records of a pair above which, or below FEW_CLEAN, rounds add nothing to trees."""


def scheduled(rounds: int, epsilon: float) -> tuple[Round, ...]:
    return next(schedule for upto, schedule in SCHEDULES[rounds] if epsilon <= upto)


@dataclass(frozen=True)
class Setting:
    """The attributes to protect and publish: nothing of it comes from the data."""

    epsilon: float
    records: int
    sizes: tuple[Size, ...]
    """Each attribute's number of codes, with a flag whether they are in order."""
    labels: int = 0
    """The number of labels of a class inside the budget, or 0."""
    for_class: bool = False
    """True if the release is for learning one class."""


@dataclass(frozen=True)
class Design:
    """One way to publish, with its figures."""

    setting: Setting
    k: int | None
    """The number of attributes that a record publishes; None: all, each with an equal part of the budget."""
    schedule: tuple[Round, ...] = ()
    """The rounds, if there are any; then the figures are for the attributes that the last one chooses."""

    @property
    def rounds(self) -> int:
        return max(len(self.schedule), 1)

    @property
    def _records(self) -> float:
        shares = [r.share for r in self.schedule] or [1]
        return self.setting.records * shares[-1] / sum(shares)

    @property
    def published(self) -> float:
        """Return the share of the attributes' cells that are published."""
        if self.schedule:
            whole = sum(r.share for r in self.schedule) * len(self.setting.sizes)
            return sum(r.share * r.k for r in self.schedule) / whole
        return 1.0 if self.k is None else self.k / len(self.setting.sizes)

    @cached_property
    def _sets(self) -> Counter[tuple[Size, ...]]:
        """Return the sizes of sets of k attributes, and the number of sets of each."""
        assert self.k is not None
        labels, kinds = ((self.setting.labels, False),) * (self.setting.labels > 0), Counter(self.setting.sizes)
        found = Counter[tuple[Size, ...]]()
        for sizes in combinations_with_replacement(sorted(kinds, reverse=True), self.k):
            found[*sizes, *labels] = prod(comb(kinds[s], many) for s, many in Counter(sizes).items())
        every = [*(+found).items()]
        return Counter(dict(every[:: -(-len(every) // MOST_SETS)]))

    @cached_property
    def widths(self) -> tuple[int, int]:
        """Return the least and the largest half-width of an attribute in order."""
        found = [0]
        if self.k is not None:
            for sizes in self._sets:
                widths = best_widths(exp(self.setting.epsilon), sizes, self._riding)
                found += [b for b, (_, ordered) in zip(widths, sizes, strict=True) if ordered]
            found = found[1:] or found
        return min(found, default=0), max(found, default=0)

    @property
    def _riding(self) -> int:
        return int(self.setting.labels > 0)

    @property
    def _part(self) -> float:
        """Return the gamma of each attribute, if all are published with an equal part."""
        return exp(self.setting.epsilon / (len(self.setting.sizes) + self._riding))

    def _information(self, order: int) -> float:
        """Return a record's information about so many attributes, mean over all sets, coverage included."""
        q, k = len(self.setting.sizes), self.k
        if k is None:
            alone = [information(self._part, [s], [0], 1) for s in self.setting.sizes]  # gamma-diagonal
            mean = sum(prod(c) for c in combinations(alone, order)) / comb(q, order)
            label = self.setting.labels
            return mean * (information(self._part, [(label, False)], [0], 1) if label > 0 else 1.0)
        if order > k:
            return 0.0
        gamma, total = exp(self.setting.epsilon), 0.0
        for sizes, many in self._sets.items():
            widths = best_widths(gamma, sizes, self._riding)
            total += many * information(gamma, sizes, widths, order, self._riding)
        chosen_from = min([q, *(r.most for r in self.schedule[-1:])])
        return total / self._sets.total() * comb(k, order) / comb(chosen_from, order)

    @cached_property
    def of_one(self) -> float:
        """Return n e1, the effective number of records for one attribute."""
        return self._records * self._information(1)

    @cached_property
    def of_pair(self) -> float:
        """Return n e2, the effective number of records for a pair."""
        return self._records * self._information(2)

    def count_error(self, N: int) -> float:
        """Return the expected error of a value's count, of N values, over the mean count."""
        if self.k is None:
            return relative_error(self._part, N, self.setting.records)
        return sqrt((N - 1) / self.of_one)

    @property
    def share_error(self) -> float:
        """Return the standard error of the share of half a domain, at least."""
        return 0.5 / sqrt(max(self.of_one, 1e-12))

    @property
    def difference_error(self) -> float:
        """Return the standard error of the difference of such shares between two halves of the records."""
        return 1.0 / sqrt(max(self.of_one, 1e-12))

    @property
    def cell_error(self) -> float | None:
        """Return the standard error of the share of a pair's quarter; None if no record publishes a pair."""
        if not self.of_pair:
            return None
        return sqrt(2 / max(self.of_one, 1e-12) + 1 / self.of_pair) / 4

    @cached_property
    def row_found(self) -> float:
        """Return a bound on how often the original row that fits a published record best is its own."""
        epsilon, n = self.setting.epsilon, self.setting.records
        if self.schedule:  # its sets follow from the data: for any law
            return believed_after(epsilon, 1 / n)
        if self.k is None:
            sizes = [N for N, _ in self.setting.sizes] + [self.setting.labels] * self._riding
            return row_found(self._part, [1 / N for N in sizes], n)
        total = 0.0
        for chosen, many in self._sets.items():
            widths = best_widths(exp(epsilon), chosen, self._riding)
            near = prod((2 * b + 1) / (N + 2 * b) for b, (N, _) in zip(widths, chosen, strict=True))
            total += many * row_found(exp(epsilon), [near], n)
        return total / self._sets.total()


def possible(setting: Setting) -> list[Design]:
    """Return the designs to choose from: k attributes a record, and last all with an equal part each."""
    found = []
    for k in range(1, min(MOST_CHOSEN, len(setting.sizes)) + 1):
        largest = sorted((n for n, _ in setting.sizes), reverse=True)[:k]
        if prod(largest) * max(setting.labels, 1) <= MOST_COMBINATIONS:
            found.append(Design(setting, k))
    return [*found, Design(setting, None)]


def design_in_rounds(setting: Setting) -> Design | None:
    """Return the best design in rounds for trees; None if there is nothing to choose from."""
    if len(setting.sizes) < 3:
        return None
    schedule = scheduled(3 if setting.epsilon <= TWO_FROM else 2, setting.epsilon)
    return Design(setting, schedule[-1].k, schedule)


def recommended(setting: Setting) -> Design:
    """Return the best design: rounds for one class, if they improve much on one pass."""
    one, several = _of_one_pass(setting), design_in_rounds(setting) if setting.for_class else None
    return several if several is not None and FEW_CLEAN <= one.of_pair < WORTH else one


def _of_one_pass(setting: Setting) -> Design:
    """Return the most informative design of one pass: for pairs, or if none can be learned, for one."""
    boxes = [d for d in possible(setting) if d.k is not None]
    if not boxes:
        what = "the attributes have too many values for any design"
        raise RefusedError("no-design", what, "group them, or give them fewer bins")
    best = boxes[0]
    for design in boxes[1:]:
        if design.of_pair >= LEAST_PAIRS and design.of_pair > NEARLY * best.of_pair:
            best = design
    return best


def ranked(setting: Setting) -> Sequence[Design]:
    """Return all designs, the recommended one first, the others by information."""
    first = recommended(setting)
    others = [d for d in (*possible(setting), design_in_rounds(setting)) if d is not None]
    others = [d for d in others if (d.k, d.rounds) != (first.k, first.rounds)]
    return [first, *sorted(others, key=lambda d: (-d.of_pair, -d.of_one))]


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
        names, number = self.names, k
        if not isinstance(number, int):
            sizes = tuple((self.known[n][0].size, self.known[n][1]) for n in names)
            labels = sum(self.known[n][0].size for n in self.always_published)
            number = chosen_number(Setting(self.epsilon, records, sizes, labels))
        if not 1 <= number <= len(names):
            what = f"a record cannot publish {number} of {len(names)} attributes"
            step = f"use {argument('publish', 1)} to {len(names)}, or auto"
            raise UsageError("too-many-published", what, step)
        if comb(len(names), number) > MOST_RECIPES:
            raise RefusedError(
                "too-many-recipes",
                f"{comb(len(names), number):,} sets of {number} of {len(names)} attributes are more than the "
                f"{MOST_RECIPES:,} recipes that a release may have",
                "publish fewer of them, or drop some attributes",
            )
        return number

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
            what = f"rounds choose among attributes, but there are {most + 1}"
            raise RefusedError("few-for-rounds", what, f"leave out {argument('rounds')}")
        *first, last = scheduled(number, maker.epsilon)
        if isinstance(k, int):
            last = Round(last.share, maker.number(k, 0), last.by, max(last.most, k))
        first = [Round(r.share, min(r.k, most), r.by, r.most) for r in first]
        maker.number(first[0].k, 0)
        found = cls(maker, (*first, last))
        if (many := sum(found.most_recipes(r) for r in found.schedule)) > MOST_RECIPES:
            what = f"so many attributes may need {many:,} recipes, but a release has at most {MOST_RECIPES:,}"
            step = f"drop some attributes, or leave out {argument('rounds')}"
            raise RefusedError("recipes-for-rounds", what, step)
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
        return self._joined([self.maker.recipes([*combinations(self.maker.names, self.schedule[0].k)])])

    def further(self, recipes: Sequence[Recipe], scores: AttributeScores) -> list[Recipe]:
        """Return the recipes with those of one more round, from the records published in the rounds before."""
        done = 1 + max(r.round for r in recipes if isinstance(r.round, int))
        before = [[r for r in recipes if r.round == n] for n in range(1, done)]
        return self._joined([*before, self.maker.recipes(self._sets(self.schedule[done - 1], scores))])

    def _sets(self, asked: Round, scores: AttributeScores) -> list[tuple[str, ...]]:
        ranked, best_scores = scores.ranked()
        ranked += [n for n in self.maker.names if n not in best_scores]
        names = set(ranked)
        if asked.by is ChooseBy.MAIN:
            strongest = set(sorted(scores.alone, key=lambda n: -scores.alone[n])[: asked.most])
        else:
            best = ranked[: asked.most]
            if asked.by is ChooseBy.EFFECT:
                some = [n for n in best if best_scores.get(n, 0) > 0]
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

"""Designs for a record's epsilon, compared before any data is seen: how many attributes of it to publish.

Each record publishes k of q attributes by one box at the whole budget, or all of them with an equal part each;
or the records are dealt to rounds, and later ones publish what earlier ones have shown to matter.
What a record tells of one attribute (e1) and of a pair (e2) is Fisher information, as a share of a clean
record's (maths 11), times the share of records that publish them: n e1 and n e2 are at most the clean records
that would say as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from math import comb, exp, inf, prod, sqrt

from ppdm_cli.channels import best_widths, information
from ppdm_cli.domain import MOST_COMBINATIONS
from ppdm_cli.errors import RefusedError
from ppdm_cli.perturbing.count_errors import relative_error
from ppdm_cli.privacy import believed_after, row_found

MOST_CHOSEN = 3
"""The most attributes of one record that are considered; more than that tell less, and cost a miner much."""
MOST_SETS = 1 << 10
"""The most sets of sizes that are looked at; of more, which takes 17 different sizes, some in even steps."""
FEW_CLEAN = 10.0
"""Below so many clean records a pair's interaction cannot be learnt: main effects are all that can be had."""
LEAST_PAIRS = 3.0
"""Below so many pairs are not worth publishing either
(docs/technical/experiments.md has what was measured, on functions)."""
NEARLY = 1.2
"""A larger k must tell so many times as much of a pair, because lower frequencies are learnt last."""
Size = tuple[int, bool]


class ChooseBy(Enum):
    """Which attributes a round's sets are made of."""

    EVERY = "all attributes"
    MAIN = "one of the strongest main effects, and any"
    BEST = "the best"
    EFFECT = "the best that have any effect"


@dataclass(frozen=True)
class Round:
    """Which sets of attributes the records of a round publish."""

    share: int
    """Of the records, over the sum of all rounds'."""
    k: int
    """How many attributes a record publishes."""
    by: ChooseBy
    """Which sets of so many."""
    most: int = 0
    """How many are the strongest, or the best."""


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
"""By the number of rounds: up to which epsilon what served trees of made-up functions best
(docs/technical/experiments.md)."""
TWO_FROM = 5.5
"""Above this epsilon two rounds are as good as three."""
WORTH = 8000.0
"""Rounds add nothing to trees where one pass reveals a pair as so many clean records do, or as FEW_CLEAN."""


def scheduled(rounds: int, epsilon: float) -> tuple[Round, ...]:
    """Return so many rounds by the budget."""
    return next(schedule for upto, schedule in SCHEDULES[rounds] if epsilon <= upto)


@dataclass(frozen=True)
class Setting:
    """What is to be protected and published: nothing of it comes from the data."""

    epsilon: float
    records: int
    sizes: tuple[Size, ...]
    """Each attribute's number of codes, and whether they are in order."""
    labels: int = 0
    """The number of labels of a class inside the budget, or 0."""
    for_class: bool = False
    """Whether what is learnt is to serve one class."""


@dataclass(frozen=True)
class Design:
    """One way to publish, and what it gives."""

    setting: Setting
    k: int | None
    """How many attributes a record publishes; None: all, each with an equal part of the budget."""
    schedule: tuple[Round, ...] = ()
    """Where records are dealt to rounds; then the figures are for the attributes that the last one chooses."""

    @property
    def rounds(self) -> int:
        return max(len(self.schedule), 1)

    @property
    def _records(self) -> float:
        """Return how many records tell it."""
        shares = [r.share for r in self.schedule] or [1]
        return self.setting.records * shares[-1] / sum(shares)

    @property
    def _chosen_from(self) -> int:
        return min([len(self.sizes), *(r.most for r in self.schedule[-1:])])

    @property
    def sizes(self) -> tuple[Size, ...]:
        return self.setting.sizes

    @property
    def published(self) -> float:
        """Return the share of the attributes' cells that are published."""
        if self.schedule:
            whole = sum(r.share for r in self.schedule) * len(self.sizes)
            return sum(r.share * r.k for r in self.schedule) / whole
        return 1.0 if self.k is None else self.k / len(self.setting.sizes)

    @cached_property
    def _sets(self) -> Counter[tuple[Size, ...]]:
        """Return the sizes of sets of k attributes, and of how many sets."""
        assert self.k is not None
        labels, kinds = ((self.setting.labels, False),) * (self.setting.labels > 0), Counter(self.sizes)
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
        """Return the gamma of each attribute, where all are published with an equal part."""
        return exp(self.setting.epsilon / (len(self.setting.sizes) + self._riding))

    def _told(self, order: int) -> float:
        """Return what a record says of `order` attributes, mean over all sets of so many, coverage included."""
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
        return total / self._sets.total() * comb(k, order) / comb(self._chosen_from, order)

    @cached_property
    def of_one(self) -> float:
        """Return n e1, the clean records that would say as much of one attribute."""
        return self._records * self._told(1)

    @cached_property
    def of_pair(self) -> float:
        """Return n e2, the clean records that would say as much of a pair."""
        return self._records * self._told(2)

    def count_error(self, N: int) -> float:
        """Return the error to expect of a value's count, over the mean count, of an attribute of so many."""
        if self.k is None:
            return relative_error(self._part, N, self.setting.records)
        return sqrt((N - 1) / self.of_one)

    @property
    def share_error(self) -> float:
        """Return the standard error of the share of half a domain, at least."""
        return 0.5 / sqrt(max(self.of_one, 1e-12))

    @property
    def difference_error(self) -> float:
        """Return the same of the difference of such shares between two halves of the records."""
        return 1.0 / sqrt(max(self.of_one, 1e-12))

    @property
    def cell_error(self) -> float | None:
        """Return the same of the share of a pair's quarter; None where no record publishes a pair."""
        if not self.of_pair:
            return None
        return sqrt(2 / max(self.of_one, 1e-12) + 1 / self.of_pair) / 4

    @cached_property
    def row_found(self) -> float:
        """Return at most how often the original row that fits a published record best is its own."""
        epsilon, n = self.setting.epsilon, self.setting.records
        if self.schedule:  # its sets follow from the data: for any law
            return believed_after(epsilon, 1 / n)
        if self.k is None:
            sizes = [N for N, _ in self.sizes] + [self.setting.labels] * self._riding
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
    """Return the design in rounds that serves trees best; None where there is nothing to choose from."""
    if len(setting.sizes) < 3:
        return None
    schedule = scheduled(3 if setting.epsilon <= TWO_FROM else 2, setting.epsilon)
    return Design(setting, schedule[-1].k, schedule)


def recommended(setting: Setting) -> Design:
    """Return the design that serves best: for one class rounds, where one pass leaves much to be had."""
    one, several = _of_one_pass(setting), design_in_rounds(setting) if setting.for_class else None
    return several if several is not None and FEW_CLEAN <= one.of_pair < WORTH else one


def _of_one_pass(setting: Setting) -> Design:
    """Return the design of one pass that tells most: of pairs, or where none can be had, of one attribute."""
    boxes = [d for d in possible(setting) if d.k is not None]
    if not boxes:
        raise RefusedError(
            "no-design",
            "the attributes have too many values for any design",
            "group them, or give them fewer bins",
        )
    best = boxes[0]
    for design in boxes[1:]:
        if design.of_pair >= LEAST_PAIRS and design.of_pair > NEARLY * best.of_pair:
            best = design
    return best


def ranked(setting: Setting) -> Sequence[Design]:
    """Return all designs, the recommended one first, the others by what they tell."""
    first = recommended(setting)
    others = [d for d in (*possible(setting), design_in_rounds(setting)) if d is not None]
    others = [d for d in others if (d.k, d.rounds) != (first.k, first.rounds)]
    return [first, *sorted(others, key=lambda d: (-d.of_pair, -d.of_one))]

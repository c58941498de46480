"""Designs for a record's epsilon, compared before any data is seen: how many attributes of it to publish.

Each record publishes k of q attributes by one box at the whole budget, or all of them with an equal part each;
or the records are split into rounds, and later ones publish the attributes that earlier ones have shown to
matter. The information of a record about one attribute (e1) and about a pair (e2) is Fisher information, as a
share of an unperturbed record's (docs/technical/method.md), times the share of records that publish them: n e1
and n e2 are at most the effective numbers of records.
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
    """The number of attributes that a record publishes."""
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
    """Return so many rounds for the budget."""
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
        """Return the number of records that publish the attributes."""
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
        """Return the sizes of sets of k attributes, and the number of sets of each."""
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
        """Return the gamma of each attribute, if all are published with an equal part."""
        return exp(self.setting.epsilon / (len(self.setting.sizes) + self._riding))

    def _told(self, order: int) -> float:
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
        return total / self._sets.total() * comb(k, order) / comb(self._chosen_from, order)

    @cached_property
    def of_one(self) -> float:
        """Return n e1, the effective number of records for one attribute."""
        return self._records * self._told(1)

    @cached_property
    def of_pair(self) -> float:
        """Return n e2, the effective number of records for a pair."""
        return self._records * self._told(2)

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
    """Return all designs, the recommended one first, the others by information."""
    first = recommended(setting)
    others = [d for d in (*possible(setting), design_in_rounds(setting)) if d is not None]
    others = [d for d in others if (d.k, d.rounds) != (first.k, first.rounds)]
    return [first, *sorted(others, key=lambda d: (-d.of_pair, -d.of_one))]

"""The search for a person's row, by someone who knows some or all of the person's attributes.

A row is the person's with a chance that grows with p(row | the person) / p(row | anyone): the first by the
channels, exactly, the second by a model that is learned from the release. Kept columns that are known must fit.
People are drawn from the release's rows; without the original their values are drawn from the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from ppdm_cli.arrays import Codes, Floats, wilson
from ppdm_cli.attacks.adversary import LARGEST_DOMAIN, Adversary, AttackedAttribute, Records
from ppdm_cli.attacks.likelihood import CellReader, Likelihoods
from ppdm_cli.attacks.population import Population
from ppdm_cli.attacks.report import Attacked, FoundFigures, LinkReport, ReadFigures
from ppdm_cli.attacks.run import Attack
from ppdm_cli.attacks.search import FIRST, Aim, RowRanks, Search
from ppdm_cli.channels import Channel
from ppdm_cli.engine import fold
from ppdm_cli.releases import Strata, opened
from ppdm_cli.repeatable import hashed, uniform

PEOPLE, FEWEST, SAMPLE = 1000, 30, 48 << 10
"""The numbers of people to look for, the fewest, and of records that the model is learned from."""
MOST_ENTRIES = 1 << 27
"""The most chances of cells that are held: with very many values fewer people are looked for."""


@dataclass(frozen=True)
class SampledRecords:
    """Records drawn from a release, each with the number that drew it; adds up over partitions."""

    parts: tuple[tuple[Floats, Records], ...]

    def __add__(self, other: SampledRecords) -> SampledRecords:
        return SampledRecords(self.parts + other.parts)

    def joined(self) -> tuple[Floats, Records]:
        coins, records = zip(*self.parts, strict=True)
        return np.concatenate(coins), Records.made(np.concatenate, records)


class Link(Attack):
    """The attack on people whose attributes are known: it looks for their rows."""

    name = "link"
    about = "Someone who knows a person's attributes, all or some, looks for the person's row."
    needs_every_record = True

    def __init__(self, adversary: Adversary, people: int) -> None:
        sidecar, self._targets, self._people = adversary.sidecar, adversary.targets, people
        self.closed = [*self._targets]
        self._knows = set(adversary.knows or sidecar.by_name)
        self._known = [t for t in self._targets.values() if self._knows.intersection(t.channel.attributes)]
        rest = [t for t in self._targets.values() if t not in self._known]
        self._rest = [t for t in rest if t.domain.size <= LARGEST_DOMAIN]
        unknown = [a.name for a in sidecar.kept if a.has_domain and a.name not in self._knows]
        kept = [opened(sidecar).axis(n) for n in unknown]
        self._kept = [c for c in kept if c.published.size <= LARGEST_DOMAIN]
        adversary.kept += tuple(self._kept)
        adversary.fitting = tuple(a.name for a in sidecar.kept if a.name in self._knows)
        self._strata = Strata.of_axes(sidecar, [t.channel for t in self._known])
        self._every = Strata.of_axes(sidecar, [t.channel for t in (*self._known, *self._rest)])
        self._adversary, self._reader, self._records = adversary, adversary.reader(), adversary.records
        self._gamma, self._purpose = adversary.gamma, f"{sidecar.release} link"

    @classmethod
    def learn(cls, adversary: Adversary) -> Self | None:
        entries = sum(t.matrix.outputs + t.matrix.inputs for t in adversary.targets.values())
        people = min(PEOPLE, MOST_ENTRIES // max(entries, 1))
        if people < FEWEST:
            adversary.remarks.append("link: left out, because the attributes have too many values.")
            return None
        return cls(adversary, people)

    def counted(self, records: Records) -> SampledRecords:
        """Return the records to learn from, the people among them."""
        coins = uniform(records.addresses, hashed(self._purpose))
        rows = np.flatnonzero(coins < SAMPLE / self._records)
        return SampledRecords(((coins[rows], records.part(rows)),))

    def conclude(self, counted: object, done: Attacked) -> None:
        assert isinstance(counted, SampledRecords)
        modelled, known = [*self._known, *self._rest], len(self._known)
        coins, sample = counted.joined()
        population = Population.learned(modelled, self._every, [sample.codes[t.name] for t in modelled])
        people = sample.part(np.argsort(coins)[: self._people])
        known_codes, recipes = [people.codes[t.name] for t in modelled], people.recipes
        if people.truths is not None:
            originals = [people.truths[t.name].codes for t in modelled]
        else:
            originals = population.drawn(self._every, known_codes, recipes, self._purpose)
        groups = [self._groups(t) for t in self._known]
        laws = [_law(t, g, x) for t, g, x in zip(self._known, groups, originals, strict=False)]
        tables = Likelihoods.of(self._strata, laws, people.count)
        aim = Aim(tables, population.first(self._strata, known))
        cells, names = CellReader.of(self._strata), [t.name for t in self._known]
        own = np.diagonal(aim.scores(cells(known_codes[:known], recipes))).copy()
        read: list[AttackedAttribute | Channel] = [*self._rest, *self._kept]
        everyone = np.ones(people.count, bool)
        search = Search(self._reader, cells, aim, names, own, people.fitting, read, everyone).narrowed(sample)
        found = fold(self._adversary.released, search, RowRanks.__add__, doing="looking for rows")
        assert found is not None
        unusual = population.unusual(originals, groups) - np.log(found.fits / self._records)
        true = [*originals[known:], *(people.codes[c.name] for c in self._kept)]
        priors = [*(t.prior for t in self._rest), *(np.bincount(sample.codes[c.name]) for c in self._kept)]
        each = zip(read, found.beliefs, true, priors, strict=True)
        done.link = LinkReport(
            [a.name for a in done.sidecar.attributes if a.name in self._knows],
            self._records,
            [_figures(who, found, rows, self._gamma) for who, rows in _by_unusualness(unusual)],
            [_read(a.name, belief.argmax(axis=1) == x, x == p.argmax()) for a, belief, x, p in each],
        )

    def _groups(self, target: AttackedAttribute) -> np.ndarray:
        """Return for each original code of an axis what is known of it, as a number."""
        codes = np.arange(target.domain.size, dtype=np.uint32)
        parts = target.domain.split(codes) if len(target.channel.attributes) > 1 else [codes]
        group = np.zeros(len(codes), np.int64)
        for name, part in zip(target.channel.attributes, parts, strict=True):
            if name in self._knows:
                group = group * (int(part.max()) + 1) + part
        return np.unique(group, return_inverse=True)[1]


def _read(attribute: str, right: np.ndarray, by_prior: np.ndarray) -> ReadFigures:
    """Return how often an attribute that was not known is named, beside its most common value."""
    low, high = wilson(float(right.sum()), len(right))
    return ReadFigures(attribute, float(right.mean()), low, high, float(by_prior.mean()))


def _law(target: AttackedAttribute, groups: np.ndarray, originals: Codes) -> Floats:
    """Return p(original | what is known) of each person, (originals, people)."""
    own = groups[originals]
    found = np.zeros((target.domain.size, len(own)))
    if len(np.unique(groups)) == len(groups):
        found[originals, np.arange(len(own))] = 1
        return found
    found += np.where(groups[:, None] == own, target.prior[:, None], 0)
    return np.asarray(found / found.sum(axis=0))


def _by_unusualness(unusual: Floats) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the people by how unusual they are."""
    order, count = np.argsort(unusual), len(unusual)
    yield "everyone", order
    if count < 2:
        return
    yield "the more usual half", order[: count // 2]
    yield "the more unusual half", order[count // 2 :]
    yield "the most unusual tenth", order[count - max(count // 10, 1) :]


def _figures(who: str, found: RowRanks, rows: np.ndarray, gamma: float) -> FoundFigures:
    """Return how often the row comes first, or among the first ten; of equal rows each is as likely to."""
    above, ties, fits = found.above[rows], found.ties[rows], found.fits[rows]
    figures: dict[str, float] = {}
    for name, many in (("first", 1), ("ten", FIRST)):
        hits = float(np.clip((many - above) / np.maximum(ties, 1), 0, 1).sum())
        low, high = wilson(hits, len(rows))
        chance = np.minimum(many / fits, 1)
        figures |= {name: hits / len(rows), f"{name}_low": low, f"{name}_high": high}
        figures |= {f"{name}_chance": float(chance.mean())}
        figures |= {f"{name}_bound": float(np.minimum(gamma * chance, 1).mean())}
    return FoundFigures(who, len(rows), **figures)

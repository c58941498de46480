"""The law of perturbed columns given kept ones: one column after the other, each by its own boosted law.

Each is drawn given all kept columns, the class if it was kept, and the columns drawn already; a perturbed class
comes last. The class is one of the columns that may be tested: it only adds to the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.joint.boosting import AskedColumn, Boosted, boosted
from ppdm_cli.joint.joint_table import TINY, Uniform, normalised, picked
from ppdm_cli.joint.sample import LABEL, Sample
from ppdm_cli.repeatable import hashed, uniform

SEED = 20262
LEVEL = 0.03
"""The probability that a dependence is found by chance, for all columns together."""
READ_AT_ONCE = 1 << 13
"""The number of records that are read at a time: their probabilities stay in the processor's cache."""
DRAWS = 8
"""The number of draws of the other columns for the posterior of one."""


@dataclass(frozen=True, eq=False)
class OwnLaw:
    """The law of the column at a place, given those before it."""

    place: int
    law: Boosted
    matrix: Floats
    """p(published code | original value)."""

    def seen(self, asked: Sequence[Codes], published: Codes) -> Floats:
        """Return p(published code, original value | those before it), (records, values)."""
        return np.asarray(self.law.chances(asked, len(published)) * self.matrix[published])

    def read(self, asked: Sequence[Codes], published: Codes, numbers: Uniform) -> tuple[Floats, np.ndarray]:
        """Return log p(published code | those before it), and a draw of the original value, by record."""
        logs, values, rows = (
            np.empty(len(published)),
            np.empty(len(published), np.intp),
            np.arange(len(published)),
        )
        for start in range(0, len(published), READ_AT_ONCE):
            part = slice(start, start + READ_AT_ONCE)
            seen = self.seen([a[part] for a in asked], published[part])
            logs[part] = np.log(np.maximum(seen.sum(axis=1), TINY))
            values[part] = picked(seen, numbers(self.place, rows[part]))
        return logs, values


@dataclass(frozen=True, eq=False)
class GivenKept:
    """p(original values of perturbed columns | kept columns)."""

    kept: tuple[int, ...]
    label_kept: bool
    laws: tuple[OwnLaw, ...]

    table, coin = None, None

    @property
    def places(self) -> tuple[int, ...]:
        return (*sorted(own.place for own in self.laws if own.place != LABEL), *self.kept)

    def _read(
        self, codes: Sequence[Codes], labels: Codes, numbers: Uniform
    ) -> Iterator[tuple[int, Floats, np.ndarray]]:
        """Yield place, log p(published code | those before) and a draw of each perturbed column."""
        asked = self._certain(codes, labels)
        for own in self.laws:
            logs, values = own.read(asked, labels if own.place == LABEL else codes[own.place], numbers)
            asked.append(values)
            yield own.place, logs, values

    def _certain(self, codes: Sequence[Codes], labels: Codes) -> list[Codes]:
        """Return the kept columns, and the class if it was kept."""
        return [codes[p] for p in self.kept] + [labels] * self.label_kept

    def drawn(
        self, codes: Sequence[Codes], labels: Codes, numbers: Uniform
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return original classes and codes drawn from their posterior, given the published record."""
        found = {place: values for place, _, values in self._read(codes, labels, numbers)}
        return found.get(LABEL, labels), [found.get(p, codes[p]) for p in self.places]

    def published(self, codes: Sequence[Codes], labels: Codes) -> Floats:
        """Return log p(published codes of perturbed columns | kept columns), by record."""
        read = self._read(codes, labels, own_numbers(np.arange(len(labels)), 0))
        return np.asarray(sum(logs for _, logs, _ in read))

    def alone(self, codes: Sequence[Codes], labels: Codes, places: Collection[int] | None = None) -> Floats:
        """Return log p(published code) of each perturbed column separately, by record."""
        found = np.zeros(len(labels))
        for own in self.laws:
            if places is None or own.place in places:
                shares = np.exp(own.law.start.astype(np.float64))
                chances = own.matrix @ (shares / shares.sum())
                found += np.log(np.maximum(chances, TINY))[labels if own.place == LABEL else codes[own.place]]
        return found

    def posteriors(self, codes: Sequence[Codes], labels: Codes) -> dict[int, Floats]:
        """Return p(original value | published record) by place, as the mean over draws of those before."""
        found, rows = dict[int, Floats](), np.arange(len(labels))
        for copy in range(DRAWS):
            asked, numbers = self._certain(codes, labels), own_numbers(rows, copy)
            for own in self.laws:
                seen = own.seen(asked, labels if own.place == LABEL else codes[own.place])
                asked.append(picked(seen, numbers(own.place, rows)))
                found[own.place] = found.get(own.place, 0.0) + normalised(seen) / DRAWS
        return found

    def blind(self) -> GivenKept:
        """Return the law without the published codes of perturbed columns."""
        laws = [replace(own, matrix=np.ones_like(own.matrix)) for own in self.laws]
        return replace(self, laws=tuple(laws))

    @property
    def tested(self) -> tuple[int, ...]:
        """Return the perturbed places that depend on the class, or that the class depends on."""
        own = [law for law in self.laws if law.place != LABEL]
        first = len(self.kept) + self.label_kept
        if self.label_kept:
            return tuple(law.place for law in own if first - 1 in law.law.asked)
        (label,) = (law for law in self.laws if law.place == LABEL)
        return tuple(law.place for n, law in enumerate(own) if first + n in label.law.asked)


def own_numbers(rows: np.ndarray, copy: int) -> Uniform:
    """Return repeatable numbers for records: the same whatever the model."""
    return lambda place, some: uniform(rows[some], hashed([SEED, copy, place]))


def learn_given_kept(sample: Sample, rows: np.ndarray) -> GivenKept:
    """Learn the law from some records of a sample."""
    kept = tuple(p for p, c in enumerate(sample.channels) if c.kept)
    perturbed = sorted(
        set(range(len(sample.channels))) - set(kept), key=lambda p: sample.channel(p).domain.size
    )
    codes, labels = [c[rows] for c in sample.codes], sample.labels[rows]
    features = [_feature(sample, p, codes[p]) for p in kept]
    if sample.label.kept:
        features.append(_feature(sample, LABEL, labels))
    laws, numbers = list[OwnLaw](), own_numbers(rows, 0)
    order = [*perturbed, *[LABEL] * (not sample.label.kept)]
    for place in order:
        published = labels if place == LABEL else codes[place]
        matrix = sample.law(place)
        counts = np.bincount(published, minlength=len(matrix)).astype(np.float64)
        alone, domain = sample.shares(counts, place), sample.channel(place).domain

        def halves(number: int, place: int = place) -> np.ndarray:
            return np.asarray(uniform(rows, hashed([SEED, "half", number, place])) < 0.5)

        law = boosted(features, published, matrix, alone, domain.ordered, halves, len(kept), LEVEL / len(order))
        laws.append(OwnLaw(place, law, matrix))
        _, values = laws[-1].read([f.codes for f in features], published, numbers)
        features.append(_feature(sample, place, values))
    return GivenKept(kept, sample.label.kept, tuple(laws))


def _feature(sample: Sample, place: int, codes: Codes) -> AskedColumn:
    domain = sample.channel(place).domain
    return AskedColumn(codes, domain.size, domain.ordered)

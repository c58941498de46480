"""The Bayes adversary who sees a whole published record and its class; the prior is learnt from the release.

The joint model gives p(originals | published class). The posterior of one attribute given all published
ones is its marginal: of a joint table by summing the others out, of a forest by messages up and down.
Attributes outside the model are guessed by class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.attacked_attribute import Guess, Rows, Target
from ppdm_cli.attacks.posterior import Answers, answers
from ppdm_cli.attacks.scoring import expected
from ppdm_cli.estimating import maximum_likelihood
from ppdm_cli.joint import Learnt, unseeing
from ppdm_cli.privacy import worst_posterior

ROWS = 1 << 13
"""The number of records that are processed at a time."""


@dataclass
class Beliefs:
    """Sums of what the adversary believes of the own guesses; adds up over partitions."""

    sums: Floats
    largest: float
    bound: float

    def __add__(self, other: Beliefs) -> Beliefs:
        top = self if self.largest >= other.largest else other
        return Beliefs(self.sums + other.sums, top.largest, top.bound)


class Record:
    """The attack, on every perturbed attribute but the class."""

    name = "record"

    def __init__(
        self, learnt: Learnt, targets: Mapping[str, Target], by_class: Mapping[str, Floats], gamma: float
    ):
        """Take the published counts (class, code) of each attribute, `by_class`, and the record's gamma."""
        label = learnt.sample.label.name
        self._targets = {n: t for n, t in targets.items() if n != label}
        self._gamma = gamma
        channels = learnt.sample.channels
        self._names = [a.name for a in channels]
        self._model = learnt.linked
        self._modelled: list[str] = []
        if self._model is not None:
            kept = [c.kept for c in channels]
            self._before = unseeing(self._model, kept, learnt.sample.label.kept)
            self._modelled = [self._names[p] for p in self._model.places]
        self.inside = [n for n in self._modelled if n in self._targets]
        self._outside = {n: by_label(t, by_class[n]) for n, t in self._targets.items() if n not in self.inside}

    def guesses(self, rows: Rows) -> dict[str, Guess]:
        codes, labels = rows.codes, rows.labels
        assert labels is not None
        found = {n: self._by_class(n, codes[n], labels) for n in self._outside}
        if self._model is not None:
            parts: dict[str, list[Guess]] = {n: [] for n in self.inside}
            for posteriors in self._posteriors(codes, labels):
                for name, beliefs in zip(self._modelled, posteriors, strict=True):
                    if name in parts:
                        parts[name].append(self._targets[name].guessed(beliefs))
            for name, guesses in parts.items():
                found[name] = Guess(*(np.concatenate(c) for c in zip(*guesses, strict=True)))
        return found

    def _posteriors(self, codes: Mapping[str, Codes], labels: Codes) -> Iterator[list[Floats]]:
        assert self._model is not None
        for start in range(0, max(len(labels), 1), ROWS):
            part = slice(start, start + ROWS)
            # attributes outside the model have codes too: places count over all of them
            yield self._model.marginals([codes[n][part] for n in self._names], labels[part])

    def _by_class(self, name: str, codes: Codes, labels: Codes) -> Guess:
        tables = [a.guess for a in self._outside[name]]
        return Guess(*(np.stack(columns)[labels, codes] for columns in zip(*tables, strict=True)))

    def believed(self, guesses: Mapping[str, Guess], rows: Rows) -> dict[str, Beliefs]:
        """Return how strongly the adversary believes in these guesses."""
        found, labels = {}, rows.labels
        assert labels is not None
        for name, guess in guesses.items():
            assert guess.belief is not None and guess.near_belief is not None and guess.variance is not None
            sums = np.array([len(labels), guess.belief.sum(), guess.near_belief.sum(), guess.variance.sum()])
            largest, bound = 0.0, 1.0
            if len(labels):
                top = int(guess.belief.argmax())
                prior = self._prior(name, rows, top, int(guess.exact[top]))
                largest, bound = float(guess.belief[top]), worst_posterior(self._gamma, prior)
            found[name] = Beliefs(sums, largest, bound)
        return found

    def _prior(self, name: str, rows: Rows, row: int, code: int) -> float:
        """Return the chance of a code by what is known of a record without its perturbed values."""
        assert rows.labels is not None
        one = slice(row, row + 1)
        if name in self.inside:
            found = self._before.marginals([rows.codes[n][one] for n in self._names], rows.labels[one])
            own = found[self._modelled.index(name)][0]
            return float(own[code] / own.sum())
        return float(self._outside[name][int(rows.labels[row])].prior[code])

    def expected(self, beliefs: Mapping[str, Beliefs]) -> dict[str, dict[str, Any]]:
        found = {}
        for name, b in beliefs.items():
            n = max(float(b.sums[0]), 1.0)
            exact, near, variance = (float(s) / n for s in b.sums[1:])
            found[name] = expected(
                self._targets[name], exact, near, variance if self._targets[name].ordered else None
            )
        return found


@dataclass(frozen=True, eq=False)
class ByLabel:
    """An attribute's answers within one class."""

    prior: Floats
    share: float
    answers: Answers

    @property
    def guess(self) -> Guess:
        return self.answers.guess


def by_label(target: Target, counts: Floats) -> list[ByLabel]:
    """Return the estimated prior of each label; a label that nobody has gets that of all records."""
    total, found = max(float(counts.sum()), 1.0), []
    for own in counts:
        n = float(own.sum())
        prior = maximum_likelihood(own, [target.matrix]) / n if n else target.prior
        found.append(ByLabel(prior, n / total, answers(target, prior)))
    return found


def told_by_class(target: Target, counts: Floats) -> dict[str, float]:
    """Return what a kept class tells about an attribute: shares of exact guesses without and with it."""
    labels = by_label(target, counts)
    return {
        "exact_prior": float(target.prior.max()),
        "exact_class": sum(x.share * float(x.prior.max()) for x in labels),
        "exact_answer": answers(target).exact,
        "exact_both": sum(x.share * x.answers.exact for x in labels),
    }

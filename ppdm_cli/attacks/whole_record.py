"""The Bayes adversary who sees a whole published record, kept columns and class too.

Of each attribute there are up to three opinions, all learnt from the release: by its own answer alone, by naive
Bayes over all other columns, and by the joint model of the class. The one under which held-out answers are
likeliest is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks import expectation
from ppdm_cli.attacks.attacked_attribute import Guess, Rows, Target
from ppdm_cli.attacks.naive_bayes import Columns, NaiveBayes, judged, judges, learnt
from ppdm_cli.attacks.posterior import Posterior, answers
from ppdm_cli.attacks.scoring import Worth, expected
from ppdm_cli.estimating import TINY, maximum_likelihood, shares
from ppdm_cli.joint import FOLDS, Learnt, Model, unseeing
from ppdm_cli.privacy import worst_posterior

READ_AT_ONCE = 1 << 13
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
    """The attack, on every perturbed attribute."""

    name = "record"

    def __init__(
        self, found: Learnt, targets: Mapping[str, Target], posterior: Posterior, gamma: float, known: bool
    ) -> None:
        """Take the record's gamma, what guesses attributes that stand alone, and if originals are known."""
        columns = Columns.of(found.sample)
        self._gamma, self._posterior, self._model = gamma, posterior, found.model
        self.channels = columns.channels
        self._targets, self._places = targets, {c.name: i for i, c in enumerate(self.channels)}
        self._answers = {n: columns.matrix(p) for n, p in self._places.items() if n in targets}
        self._bayes: dict[str, NaiveBayes] = {}
        self._joint: list[str] = []
        rows = judges(columns)
        by_model = dict[str, Floats]()
        if self._model is not None and 0 in found.held and len(rows):
            by_model = self._opinions(found.held[0], [c[rows] for c in columns.codes])
        for place, (bayes, scores) in learnt(columns, [self._places[n] for n in self._answers]).items():
            name = self.channels[place].name
            alone = judged(columns, place, rows, columns.prior(place)[None])
            joint = judged(columns, place, rows, by_model[name]) if name in by_model else alone
            if joint.sum() > scores.sum() and _clear(joint - alone):
                self._joint.append(name)
            elif _clear(scores - alone):
                self._bayes[name] = bayes
        self.alone = [n for n in targets if n not in self._joint and n not in self._bayes]
        self._worth = {} if known else self._told(found)

    def _opinions(self, model: Model, codes: Sequence[Codes], blind: bool = False) -> dict[str, Floats]:
        """Return p(original | all but the own answer) of each attribute that the class's joint model has.

        A `blind` model sees no answers, so its opinions hold no own answer to take out.
        """
        names = [self.channels[p].name for p in model.places]
        found = dict(zip(names, model.marginals(codes[:-1], codes[-1]), strict=True))
        found[self.channels[-1].name] = model.chances(codes[:-1], codes[-1])
        return {
            n: shares(b if blind else b / np.maximum(self._answers[n][codes[self._places[n]]], TINY))
            for n, b in found.items()
            if n in self._answers
        }

    def _likely(self, codes: Sequence[Codes], kept_only: bool = False) -> Iterator[tuple[str, Floats]]:
        """Yield p(original | all but the own answer) of each attribute that does not stand alone."""
        for name, bayes in self._bayes.items():
            yield name, bayes.likely(codes, len(codes[0]), kept_only)
        if self._joint:
            assert self._model is not None
            model = self._model
            if kept_only:
                kept = [c.kept for c in self.channels]
                model = unseeing(model, kept[:-1], kept[-1])
            opinions = self._opinions(model, codes, kept_only)
            yield from ((n, opinions[n]) for n in self._joint)

    def _codes(self, rows: Rows, which: Any) -> list[Codes]:
        return [rows.codes[c.name][which] for c in self.channels]

    def guesses(self, rows: Rows) -> dict[str, Guess]:
        found = {n: self._posterior.answers[n].guesses(rows.codes[n]) for n in self.alone}
        parts: dict[str, list[Guess]] = {}
        for start in range(0, max(rows.count, 1), READ_AT_ONCE):
            codes = self._codes(rows, slice(start, start + READ_AT_ONCE))
            for name, likely in self._likely(codes):
                beliefs = likely * self._answers[name][codes[self._places[name]]]
                parts.setdefault(name, []).append(self._targets[name].guessed(beliefs))
        for name, guesses in parts.items():
            found[name] = Guess(*(np.concatenate(c) for c in zip(*guesses, strict=True)))
        return found

    def believed(self, guesses: Mapping[str, Guess], rows: Rows) -> dict[str, Beliefs]:
        """Return how strongly the adversary believes in these guesses."""
        found = {}
        for name in (*self._bayes, *self._joint):
            guess = guesses[name]
            assert guess.belief is not None and guess.near_belief is not None and guess.variance is not None
            sums = np.array([rows.count, guess.belief.sum(), guess.near_belief.sum(), guess.variance.sum()])
            found[name] = Beliefs(sums, 0.0, 1.0)
            if rows.count:
                top = int(guess.belief.argmax())
                prior = dict(self._likely(self._codes(rows, slice(top, top + 1)), kept_only=True))[name]
                bound = worst_posterior(self._gamma, float(prior[0, guess.exact[top]]))
                found[name] = Beliefs(sums, float(guess.belief[top]), bound)
        return found

    def _told(self, found: Learnt) -> dict[str, Worth]:
        """Return what guesses are worth, of records that the models were learnt with and without."""
        worth: dict[str, Worth] = {}
        every = (*found.sample.codes, found.sample.labels)
        for fold in range(FOLDS):
            rows = np.flatnonzero(found.sample.folds == fold)
            bayes = learnt(Columns.of(found.sample, fold), {self._places[n] for n in self._bayes})
            for name, own in self._bayes.items():
                few = expectation.enough([self._targets[name]], rows)
                codes = [c[few] for c in every]
                both = [b.likely(codes, len(few)) for b in (own, bayes[self._places[name]][0])]
                self._add(worth, name, both, codes)
            if self._joint and fold in found.held:
                assert self._model is not None
                codes = [c[expectation.enough([self._targets[n] for n in self._joint], rows)] for c in every]
                opinions = [self._opinions(m, codes) for m in (self._model, found.held[fold])]
                for name in self._joint:
                    self._add(worth, name, [o[name] for o in opinions], codes)
        return worth

    def _add(self, worth: dict[str, Worth], name: str, both: list[Floats], codes: list[Codes]) -> None:
        target, own = self._targets[name], codes[self._places[name]]
        if expectation.tellable(target):
            told = Worth(*(expectation.told(target, likely, own) for likely in both))
            worth[name] = worth.get(name, Worth()) + told

    def expected(self, beliefs: Mapping[str, Beliefs]) -> dict[str, dict[str, Any]]:
        found = {n: f for n, f in self._posterior.expected().items() if n in self.alone}
        for name, b in beliefs.items():
            target, n = self._targets[name], max(float(b.sums[0]), 1.0)
            exact, near, variance = (float(s) / n for s in b.sums[1:])
            if name in self._worth:
                found[name] = self._worth[name].figures(target)
            else:
                found[name] = expected(target, exact, near, variance if target.ordered else None)
        return found

    def largest(self, beliefs: Mapping[str, Beliefs]) -> dict[str, dict[str, Any]]:
        """Return the largest belief in a guess, and the bound of the record's gamma for it."""
        answers = {n: self._posterior.answers[n] for n in self.alone}
        found = {n: (a.largest, worst_posterior(self._gamma, a.before)) for n, a in answers.items()}
        found |= {n: (b.largest, b.bound) for n, b in beliefs.items()}
        return {n: {"largest_posterior": largest, "bound": bound} for n, (largest, bound) in found.items()}


def _clear(rise: Floats) -> bool:
    """Return whether held-out answers are likelier beyond chance: by two standard errors."""
    return bool(rise.sum() > 2 * np.sqrt(len(rise)) * rise.std())


def told_by_class(target: Target, counts: Floats) -> dict[str, float]:
    """Return what a kept class tells about an attribute: shares of exact guesses without and with it.

    `counts` are (label, published code); a label that nobody has says nothing.
    """
    total, by_class, both = float(counts.sum()), 0.0, 0.0
    for own in counts[counts.sum(axis=1) > 0]:
        n = float(own.sum())
        prior = maximum_likelihood(own, [target.matrix]) / n
        by_class += n / total * float(prior.max())
        both += n / total * answers(target, prior).exact
    return {
        "exact_prior": float(target.prior.max()),
        "exact_class": by_class,
        "exact_answer": answers(target).exact,
        "exact_both": both,
    }

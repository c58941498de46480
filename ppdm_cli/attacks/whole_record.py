"""The Bayes attack on a whole published record, with its kept columns and class.

Where attributes are published separately there are up to five opinions of each, all learned from the release:
by its own answer alone, by naive Bayes over all other columns, by latent classes, by both of these together,
and by the joint model of the class. The one that makes held-out answers most likely is taken. Where records
publish some of their attributes together it is the joint model's, which knows how likely each record's values
are revealed.

For naive Bayes EM learns of each pair of columns the joint distribution of their originals, stopped where the
pair's held-out records are most likely; a kept column is its own original. The evidence of an answer about an
original value follows from the answer's own matrix, so no belief exceeds what gamma allows. Columns that say
the same would count twice: each is weighed, in the order of what it says alone, by how likely held-out answers
of the attribute become.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Self

import numpy as np
from scipy.special import softmax

from ppdm_cli import joint
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.adversary import (
    BELIEFS_AT_ONCE,
    RECORDS_AT_ONCE,
    Adversary,
    AttackedAttribute,
    Guess,
    Records,
)
from ppdm_cli.attacks.latent_classes import (
    FEWEST_COLUMNS,
    LatentClasses,
    SampleColumns,
    judged,
    judges,
    learn_classes,
)
from ppdm_cli.attacks.posterior import Posterior, learn_kept
from ppdm_cli.attacks.report import Belief
from ppdm_cli.attacks.run import Attack
from ppdm_cli.attacks.scoring import Beliefs, Measures, Worth, enough, estimable, estimated_worth
from ppdm_cli.engine import step
from ppdm_cli.errors import UsageError, argument, listed
from ppdm_cli.estimating import TINY, Part, Steps, Stop, Tables, shares
from ppdm_cli.joint import FOLDS, LABEL, Law, LearnedModel

MOST_MODEL_WORK = 1 << 24
"""The most multiplications, about, by which the model guesses a record whose cells are withheld."""
LARGEST_PAIR, CELLS_AT_ONCE = 1 << 14, 1 << 22
"""Cells of a pair's published table: what a pair may have, and what is learned at a time."""
PAIR_STOP = Stop(enough=0.05, patience=2, more=5, most=200)
MOST_PAIRS = 1 << 12
"""The most pairs that are learned: those with the class and kept columns first."""
WEIGHTS = (1.0, 0.5, 0.25)
LEAST_RISE = 3.0
"""Nats by which held-out answers must become more likely for another column to count."""

Likely = Callable[..., Floats]
"""A function of an attribute from `(codes, kept_only=False)` to p(original | the other columns)."""


class Record(Attack):
    """The attack on every perturbed attribute by the whole record."""

    name = "record"
    about = (
        "Bayes' rule on the whole record, including kept columns and the class, all learned from the release."
    )

    def __init__(self, adversary: Adversary, found: LearnedModel) -> None:
        self._targets, self._record_gamma = adversary.targets, adversary.gamma
        self._posterior = adversary.once(Posterior)
        self.strength = 2 if adversary.noisy else 7
        self.channels = (*found.sample.channels, found.sample.label)
        self._width = len(found.sample.codes)
        self._columns = {c.name: i for i, c in enumerate(self.channels)}
        self._model = found.model if adversary.separate else found.linked
        self._others: dict[str, Likely] = {}
        self._chosen: dict[str, str] = {}
        self._joint = [n for n in self._targets if n in self._modelled]
        self._worth: dict[str, Worth] = {}
        if adversary.separate:
            columns = SampleColumns.of(found.sample)
            self._answers = {n: columns.matrix(p) for n, p in self._columns.items() if n in self._targets}
            self._choose(found, columns)
        self.alone = [n for n in self._targets if n not in self._joint and n not in self._others]
        self.closed = [n for n in self.alone if n in self._posterior.closed]
        if adversary.separate and not adversary.known:
            self._worth = self._measure(found)

    @classmethod
    def learn(cls, adversary: Adversary) -> Self | None:
        label = adversary.label
        adversary.once(learn_kept)
        if label is None:
            adversary.remarks.append(
                "record: left out, because there is neither a class nor another attribute with few values."
            )
            return None
        try:
            sample = joint.read(adversary.table, adversary.sidecar, label)
        except UsageError:
            adversary.remarks.append("record: left out, because no column besides the class is small enough.")
            return None
        work = label.domain.size * sum(c.domain.size * c.published.size for c in sample.channels)
        if not adversary.separate and work > MOST_MODEL_WORK:
            if "record" in adversary.named:
                raise UsageError(
                    "too-much-work",
                    f"the attack record needs {work:.1e} multiplications for each record, too many",
                    f"leave it out: {argument('attacks', ['posterior'])}",
                )
            adversary.remarks.append(
                "Left out, because the attributes and the class have too many values: record."
            )
            return None
        with step("learning"):
            found = cls(adversary, joint.learn(sample))
        adversary.kept += tuple(c for c in found.channels if c.kept)
        for names, why in (
            ([n for n in found.alone if n in found._columns], "the other columns say nothing certain about"),
            (
                [n for n in found.alone if n not in found._columns],
                "too many values, or too many attributes, to study",
            ),
        ):
            if names:
                adversary.remarks.append(f"record: {why} {listed(names)}. It guesses them as posterior does.")
        return found

    # -- learning

    @property
    def _modelled(self) -> list[str]:
        """Return the columns that the joint model has, the class last."""
        if self._model is None:
            return []
        return [*(self.channels[p].name for p in self._model.places), self.channels[-1].name]

    def _name(self, place: int) -> str:
        return self.channels[-1 if place == LABEL else place].name

    def _posteriors(self, model: Law, codes: Sequence[Codes]) -> dict[str, Floats]:
        """Return p(original | record) of each attribute in the joint model."""
        found = model.posteriors(codes[: self._width], codes[self._width])
        return {self._name(p): b for p, b in found.items() if self._name(p) in self._targets}

    def _opinions(self, model: Law, codes: Sequence[Codes]) -> dict[str, Floats]:
        """Return p(original | all but the own answer) of each attribute that the joint model has."""
        return {
            n: shares(b / np.maximum(self._answers[n][codes[self._columns[n]]], TINY))
            for n, b in self._posteriors(model, codes).items()
        }

    def _choose(self, found: LearnedModel, columns: SampleColumns) -> None:
        """Choose the model of each attribute that predicts held-out answers best."""
        rows, by_model = judges(columns), dict[str, Floats]()
        codes = [c[rows] for c in columns.codes]
        if self._model is not None and 0 in found.held and len(rows):
            by_model = self._opinions(found.held[0], codes)
        self._joint = []
        latent = learn_classes(columns) if len(columns.channels) >= FEWEST_COLUMNS else None
        for place, bayes, held in learned_bayes(columns, [self._columns[n] for n in self._answers]):
            name, tried = self.channels[place].name, {"bayes": held}
            if latent is not None:
                tried["latent"] = latent[0].likely(place, codes)
                tried["both"] = shares(np.sqrt(held * tried["latent"]))
            if name in by_model:
                tried["joint"] = by_model[name]
            scores = {k: judged(columns, place, rows, likely) for k, likely in tried.items()}
            alone = judged(columns, place, rows, columns.prior(place)[None])
            clear = [k for k, score in scores.items() if _clear(score - alone)]
            best = max(clear, key=lambda k: float(scores[k].sum()), default=None)
            if best == "joint":
                self._joint.append(name)
            elif best is not None:
                self._chosen[name] = best
                self._others[name] = _likely(best, place, bayes, latent and latent[1])

    def _without(self, columns: SampleColumns) -> dict[str, Likely]:
        """Return the predictions of naive Bayes and latent classes, learned from other records."""
        _, latent = learn_classes(columns) if {"latent", "both"} & {*self._chosen.values()} else (None, None)
        places = [self._columns[n] for n in self._chosen]
        return {
            self._name(p): _likely(self._chosen[self._name(p)], p, bayes, latent)
            for p, bayes, _ in learned_bayes(columns, places)
        }

    def _measure(self, found: LearnedModel) -> dict[str, Worth]:
        """Estimate the scores of guesses for records that the models were learned with and without."""
        worth: dict[str, Worth] = {}
        every = (*found.sample.codes, found.sample.labels)
        for fold in range(FOLDS):
            rows = np.flatnonzero(found.sample.folds == fold)
            without = self._without(SampleColumns.of(found.sample, fold))
            for name, own in self._others.items():
                few = enough([self._targets[name]], rows)
                codes = [c[few] for c in every]
                self._add(worth, name, [likely(codes) for likely in (own, without[name])], codes)
            if self._joint and fold in found.held:
                assert self._model is not None
                codes = [c[enough([self._targets[n] for n in self._joint], rows)] for c in every]
                opinions = [self._opinions(m, codes) for m in (self._model, found.held[fold])]
                for name in self._joint:
                    self._add(worth, name, [o[name] for o in opinions], codes)
        return worth

    def _add(self, worth: dict[str, Worth], name: str, both: list[Floats], codes: list[Codes]) -> None:
        target, own = self._targets[name], codes[self._columns[name]]
        if estimable(target):
            worth[name] = worth.get(name, Worth()) + Worth(
                *(estimated_worth(target, likely, own) for likely in both)
            )

    # -- guessing

    def _codes(self, records: Records) -> list[Codes]:
        """Return some records of a sample: codes, the recipes' numbers if there are several, and labels."""
        *codes, labels = (records.codes[c.name] for c in self.channels)
        return [*[*codes, records.recipes][: self._width], labels]

    def guesses(self, records: Records) -> dict[str, Guess]:
        found = {n: self._posterior.guess(n, records) for n in self.alone}
        if not (self._others or self._joint):
            return found
        size = max((self._targets[n].domain.size for n in (*self._others, *self._joint)), default=1)
        rows, parts = max(1, min(RECORDS_AT_ONCE, BELIEFS_AT_ONCE // size)), dict[str, list[Guess]]()
        every = self._codes(records)
        for start in range(0, max(records.count, 1), rows):
            codes = [c[start : start + rows] for c in every]
            for name, likely in self._others.items():
                beliefs = likely(codes) * self._answers[name][codes[self._columns[name]]]
                parts.setdefault(name, []).append(self._targets[name].guessed(beliefs))
            posteriors = self._posteriors(self._model, codes) if self._joint and self._model is not None else {}
            for name in self._joint:
                parts.setdefault(name, []).append(self._targets[name].guessed(posteriors[name]))
        return found | {n: Guess.joined(guesses) for n, guesses in parts.items()}

    def before(self, records: Records, names: Sequence[str]) -> dict[str, Floats]:
        """Return the beliefs that follow from kept columns alone."""
        codes = self._codes(records)
        found = self._posterior.before(records, [n for n in names if n in self.alone])
        for name in (n for n in names if n in self._others):
            found[name] = self._others[name](codes, kept_only=True)
        if any(n in self._joint for n in names):
            assert self._model is not None
            blind = self._posteriors(self._model.blind(), codes)
            found |= {n: shares(b) for n, b in blind.items() if n in self._joint}
        return found

    def gamma(self, attribute: AttackedAttribute) -> float:
        return self._record_gamma

    def expected(self, beliefs: Mapping[str, Beliefs]) -> dict[str, Measures]:
        found = {n: f for n, f in self._posterior.expected({}).items() if n in self.alone}
        for name, own in beliefs.items():
            worth = self._worth.get(name)
            found[name] = own.measures() if worth is None else worth.figures(self._targets[name])
        return found

    def largest(self, beliefs: Mapping[str, Beliefs]) -> dict[str, Belief]:
        """Return the largest belief in a guess, and the bound of the record's gamma for it."""
        answers = {n: self._posterior.answers[n] for n in self.closed}
        found = {n: a.belief(self._record_gamma) for n, a in answers.items()}
        return found | {n: Belief(b.largest, b.before, b.bound) for n, b in beliefs.items()}


def _clear(rise: Floats) -> bool:
    """Return whether held-out answers are more likely beyond chance: by two standard errors."""
    return bool(rise.sum() > 2 * np.sqrt(len(rise)) * rise.std())


def _likely(chosen: str, place: int, bayes: NaiveBayes, latent: LatentClasses | None) -> Likely:
    """Return the chosen prediction: of naive Bayes, of latent classes, or the mean of their logarithms."""
    if latent is None or chosen == "bayes":
        return bayes.likely
    classes = partial(latent.likely, place)
    return classes if chosen == "latent" else partial(_pooled, bayes.likely, classes)


def _pooled(one: Likely, other: Likely, codes: Sequence[Codes], kept_only: bool = False) -> Floats:
    return shares(np.sqrt(one(codes, kept_only=kept_only) * other(codes, kept_only=kept_only)))


# -- naive Bayes


@dataclass(frozen=True, eq=False)
class PairEvidence:
    """The evidence of a column's published codes about an attribute's originals: log p, (codes, originals)."""

    place: int
    prior: Floats
    """The shares of the originals in the table that this is from."""
    logs: Floats
    weight: float
    kept: bool


@dataclass(frozen=True, eq=False)
class NaiveBayes:
    """An attribute's prior, and the evidence about it from all other columns."""

    prior: Floats
    evidence: tuple[PairEvidence, ...]

    def likely(self, codes: Sequence[Codes], kept_only: bool = False) -> Floats:
        """Return p(original | the other columns), (records, originals)."""
        logs = np.repeat(np.log(self.prior)[None], len(codes[0]), axis=0)
        for e in self.evidence:
            if e.kept or not kept_only:
                logs += e.weight * e.logs[codes[e.place]]
        return np.asarray(softmax(logs, axis=1))


def learned_bayes(columns: SampleColumns, places: Collection[int]) -> Iterator[tuple[int, NaiveBayes, Floats]]:
    """Yield the naive Bayes of each of these columns, and the beliefs about held-out records without them."""
    places = set(places)
    evidence: dict[int, list[tuple[float, PairEvidence, PairEvidence]]] = {p: [] for p in places}
    for pair, gain, tables in _pairs(columns, places):
        for (own, other), turned in zip((pair, pair[::-1]), (tables, tables.swapaxes(-1, -2)), strict=True):
            if own in places:
                held, whole = (_evidence(columns, other, table) for table in turned)
                evidence[own].append((gain, held, whole))
    for p, found in evidence.items():
        yield p, *_weighed(columns, p, sorted(found, key=lambda s: -s[0]))


def _pairs(columns: SampleColumns, places: Collection[int]) -> Iterator[tuple[tuple[int, int], float, Tables]]:
    """Yield each pair that is not independent, its held-out gain, its tables without them and with."""
    alike: dict[tuple[tuple[int, ...], ...], list[tuple[int, int]]] = {}
    matrices = [columns.matrix(p) for p in range(len(columns.channels))]
    priors = [columns.prior(p) for p in range(len(matrices))]
    known = {len(matrices) - 1, *(p for p, c in enumerate(columns.channels) if c.kept)}
    wanted = [
        (a, b)
        for a, b in combinations(range(len(matrices)), 2)
        if (a in places or b in places) and len(matrices[a]) * len(matrices[b]) <= LARGEST_PAIR
    ]
    for a, b in sorted(wanted, key=known.isdisjoint)[:MOST_PAIRS]:
        alike.setdefault((matrices[a].shape, matrices[b].shape), []).append((a, b))
    for (one, other), pairs in alike.items():
        step = max(1, CELLS_AT_ONCE // (one[0] * other[0]))
        for start in range(0, len(pairs), step):
            part = pairs[start : start + step]
            first, second = (np.stack([matrices[p[i]] for p in part]) for i in (0, 1))
            alone = np.stack([np.outer(priors[a], priors[b]) for a, b in part])
            gains, tables = _fitted(np.stack([columns.counts(*p) for p in part]), [first, second], alone)
            yield from ((p, float(g), t) for p, g, t in zip(part, gains, tables, strict=True) if g > LEAST_RISE)


def _fitted(counts: np.ndarray, matrices: list[Tables], alone: Tables) -> tuple[Floats, Tables]:
    """Return the gain of held-out records over independence, and the tables (pair, without and with, cells)."""
    held = counts[:, 1].astype(np.float32)

    def judge(expected: Sequence[Tables], which: np.ndarray) -> Floats:
        logs = np.log(np.maximum(expected[0], TINY))
        return np.asarray((held[which] * logs).sum(axis=(-1, -2), dtype=np.float64))[:, None]

    every = np.arange(len(alone))
    steps = Steps(Part(matrices, counts[:, 0]))
    # EM multiplies: what begins at almost nothing would stay there
    fit = steps.stopped((alone + 1 / alone[0].size) / 2, judge, PAIR_STOP)
    base = judge(steps.expected(alone.astype(np.float32)), every)
    more = max(3, int(np.median(fit.steps)) // 4)
    whole = Steps(Part(matrices, counts.sum(axis=1)))(fit.table, more, every)
    return (fit.scores - base)[:, 0], np.stack([fit.table, whole], axis=1)


def _evidence(columns: SampleColumns, place: int, table: Tables) -> PairEvidence:
    """Return the evidence of a column's answers, from the joint table (attribute, column) of originals."""
    joint = np.maximum(table.astype(np.float64), 1e-12)
    prior = joint.sum(axis=1)
    chances = joint @ columns.matrix(place).T / prior[:, None]
    logs = np.log(np.maximum(chances, TINY)).T
    return PairEvidence(place, prior / prior.sum(), logs, 1.0, columns.channels[place].kept)


def _weighed(
    columns: SampleColumns, place: int, evidence: list[tuple[float, PairEvidence, PairEvidence]]
) -> tuple[NaiveBayes, Floats]:
    """Return the attribute's model, with the weights that make held-out answers most likely."""
    rows = judges(columns)
    prior, chosen = columns.prior(place), list[PairEvidence]()
    best, logs = judged(columns, place, rows, prior[None]), np.zeros((len(rows), 1))
    for _, held, whole in evidence:
        own = held.logs[columns.codes[held.place][rows]]
        before = logs if chosen else np.log(held.prior)[None]
        tried = {w: judged(columns, place, rows, softmax(before + w * own, axis=1)) for w in WEIGHTS}
        weight = max(tried, key=lambda w: float(tried[w].sum()))
        if tried[weight].sum() > best.sum() + LEAST_RISE:
            best, logs = tried[weight], before + weight * own
            prior = prior if chosen else whole.prior
            chosen.append(replace(whole, weight=weight))
    likely = softmax(logs, axis=1) if chosen else np.repeat(columns.prior(place)[None], len(rows), axis=0)
    return NaiveBayes(prior, tuple(chosen)), likely

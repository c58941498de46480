"""The joint distribution of attributes and class, learned from a release alone.

Four models are tried: the classes' shares alone, naive Bayes, the joint table of a grown set of attributes, and
class-wise forests over all of them. The original class is an axis of each, with its own channel. All are judged
by how likely held-out published records make their published label, and the simplest within one standard error
of the best is taken (docs/technical/method.md); the joint table is taken if no other gains much more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Floats, of_small_products
from ppdm_cli.joint.attribute_search import CELLS, THRESHOLD, Found, Growing, fitted
from ppdm_cli.joint.forest import Forest, learn_bayes, learn_forests, spanning
from ppdm_cli.joint.given_kept import GivenKept, learn_given_kept
from ppdm_cli.joint.joint_table import JointTable, picked
from ppdm_cli.joint.marginals import Marginals, learn_marginals
from ppdm_cli.joint.model import COIN, Model, alone, table_model
from ppdm_cli.joint.sample import (
    FOLDS,
    LABEL,
    LARGEST_DOMAIN,
    MOST_CHANNELS,
    Sample,
    class_of,
    departure,
    kept_channels,
    read,
    usable,
)
from ppdm_cli.joint.screening import AttributeScores, screened

__all__ = [
    "CELLS", "COIN", "FOLDS", "LABEL", "LARGEST_DOMAIN", "MOST_CHANNELS", "AttributeScores", "Forest",
    "GivenKept", "JointTable", "Law", "LearnedModel", "Model", "Sample", "alone", "class_of", "departure",
    "kept_channels", "learn", "picked", "read", "screened", "spanning", "usable",
]  # fmt: skip

LEAST = 2.0
"""Nats by which naive Bayes or a forest must make the published labels more likely, over all records."""
CHOSEN = 4.0
"""The same if records differ in what they reveal: then the records that judge have also chosen the strength."""
ALIKE = 0.05
"""The share of its gain by which a model may be better than a joint table that is still preferred.

If records reveal only some attributes it is the table's own gain, divided by the labels less one: with fewer
labels, a few attributes distinguish them better (docs/technical/experiments.md, "Whole records").
"""
CLEARLY = 2.0
"""Standard errors by which a model of perturbed columns alone must be better than their law given kept ones."""
JUDGING = 0
"""The fold that judges between the law given kept columns and a joint table of perturbed ones."""
TEMPERS = (0.25, 0.5, 0.75, 1.0)
"""The scales that are tried for the log-odds of naive Bayes and of a forest."""


Law = Model | GivenKept
"""A law of a record's original values, given all that it shows."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model of all records, and the same learned without some folds, by fold."""

    name: str
    model: Model
    held: dict[int, Model]

    scores: Floats
    """The gain of each record's label from attributes, in a fold that was held back; otherwise NaN."""

    @classmethod
    def judged(
        cls, name: str, sample: Sample, model: Model, held: dict[int, Model], tempers: Sequence[float] = (1.0,)
    ) -> Candidate:
        """Return the candidate with the temper that makes held-out labels most likely."""
        found = np.full((len(tempers), sample.records), np.nan)
        for fold, own in held.items():
            rows = np.flatnonzero(sample.folds == fold)
            likelihoods = own.likelihoods([c[rows] for c in sample.codes])
            for n, temper in enumerate(tempers):
                found[n, rows] = replace(own, temper=temper).rise(likelihoods, sample.labels[rows])
        best = int(np.nansum(found, axis=1).argmax())
        temper = tempers[best]
        by_fold = {f: replace(m, temper=temper) for f, m in held.items()}
        return cls(name, replace(model, temper=temper), by_fold, found[best])


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """A learned joint distribution of a release."""

    sample: Sample
    name: str
    model: Law | None
    gain: float
    """The gain of the published label in nats a record, on held-out records."""
    gains: dict[str, float]
    held: Mapping[int, Law]
    """The same model learned without each fold, which shows how certain it is."""
    linked: Law | None
    """The model that records are drawn from: the same, or the forest if records withhold cells."""
    careful: LearnedModel | None = None
    """Naive Bayes, to be called not confirmed, if held-out records confirm no model of a perturbed class."""
    confirmed: bool = True

    @property
    def totals(self) -> Floats:
        """Return the totals of the original classes, as the published labels alone show them."""
        published = self.sample.published.astype(np.float64)
        return self.sample.shares(published) * published.sum()


@of_small_products
def learn(sample: Sample, cells: int = CELLS) -> LearnedModel:
    """Learn the simplest model within one standard error of the best, or none if nothing is confirmed.

    With kept columns that is the law of what was perturbed given what was kept, unless a joint table of
    perturbed columns makes the records of a fold that was held back more likely.
    """
    if not sample.records:
        return LearnedModel(sample, "none", None, 0.0, {}, {}, None)
    if any(c.kept for c in sample.channels):
        return _with_kept(sample, cells)
    growing = Growing(sample, cells)
    marginals = learn_marginals(sample)
    simple = [_by_fold("bayes", sample, growing, learn_bayes(sample, m)) for m in marginals]
    candidates = _candidates(sample, growing, marginals, max(simple, key=lambda c: float(np.nansum(c.scores))))
    gains = {c.name: float(np.nanmean(c.scores)) for c in candidates}
    linked = candidates[-1].model if sample.varies else None

    def of(taken: Candidate) -> LearnedModel:
        gain, last = float(np.nanmean(taken.scores)), linked or taken.model
        return LearnedModel(sample, taken.name, taken.model, gain, gains, taken.held, last)

    confirmed = [c for c in candidates if _stands_out(c, sample)]
    if confirmed:
        return of(_taken(sample, confirmed))
    careful = replace(of(simple[0]), confirmed=False) if not sample.label.kept else None
    return LearnedModel(sample, "none", None, 0.0, gains, {}, linked, careful)


def _taken(sample: Sample, confirmed: Sequence[Candidate]) -> Candidate:
    """Return the first of these that is hardly worse than the best."""
    best = max(confirmed, key=lambda c: float(np.nanmean(c.scores)))
    for c in confirmed:
        short, allowed = best.scores - c.scores, _error(best.scores - c.scores)
        if c.name == "joint":  # the better ground for a tree: it knows what three attributes say together
            gained = ALIKE * np.nanmean(best.scores)
            if sample.varies:
                gained = np.nanmean(c.scores) / max(sample.label.domain.ordinary - 1, 1)
            allowed = max(allowed, float(gained))
        if np.nanmean(short) <= allowed:
            return c
    return best


def _with_kept(sample: Sample, cells: int) -> LearnedModel:
    """Learn the law given kept columns, and take a joint table of perturbed ones only if it is better."""
    rows, judges = (np.flatnonzero((sample.folds == JUDGING) == held) for held in (False, True))
    without, codes = learn_given_kept(sample, rows), [c[judges] for c in sample.codes]
    law = learn_given_kept(sample, np.arange(sample.records))
    labels = sample.labels[judges]
    given = without.published(codes, labels)
    gain = float((given - without.alone(codes, labels)).mean())
    gains, held = {"kept": gain}, {JUDGING: without}
    table = _joint_table(sample, cells)
    if table is None:
        return LearnedModel(sample, "kept", law, gain, gains, held, law)
    left = {own.place for own in law.laws} - {*table.model.places, LABEL}
    better = table.held[JUDGING].published(codes, labels) + without.alone(codes, labels, left) - given
    if better.mean() <= CLEARLY * _error(better):
        return LearnedModel(sample, "kept", law, gain, gains, held, law)
    # withheld cells of the other attributes are drawn too, and only the law has all of them
    linked = law if sample.varies else table.model
    return LearnedModel(
        sample, "joint", table.model, float(np.nanmean(table.scores)), gains, table.held, linked
    )


def _joint_table(sample: Sample, cells: int) -> Candidate | None:
    """Return a joint table of perturbed columns that depends on the class, if there is one."""
    perturbed = sample.only([p for p, c in enumerate(sample.channels) if not c.kept])  # they come first
    grown = Growing(perturbed, cells).grown() if perturbed.channels else None
    found = None if grown is None else _table(perturbed, grown)
    return found if found is not None and _stands_out(found, sample) else None


def _candidates(
    sample: Sample, growing: Growing, marginals: Sequence[Marginals], simple: Candidate
) -> list[Candidate]:
    """Return the models that are tried, the first to be preferred first."""
    found, grown = [simple], growing.grown()
    if grown is not None:
        found.insert(0 if sample.varies else 1, _table(sample, grown))
    if len(sample.channels) > 1:
        order = sorted(range(len(sample.channels)), key=lambda p: -growing.singles[p].gain)
        found.append(_by_fold("forest", sample, growing, learn_forests(sample, order, marginals)))
    return found


def _stands_out(candidate: Candidate, sample: Sample) -> bool:
    """Return whether labels became more likely than chance makes them; a searched model must show more."""
    gain = float(np.nanmean(candidate.scores))
    least = THRESHOLD if candidate.name == "joint" else LEAST
    if sample.varies:
        least += CHOSEN
    return gain * sample.records >= least and gain >= _error(candidate.scores)


def _error(rise: Floats) -> float:
    """Return the standard error of a mean over the records that have one."""
    there = rise[~np.isnan(rise)]
    return float(there.std() / np.sqrt(max(len(there), 1)))


def _table(sample: Sample, grown: Found) -> Candidate:
    seen, start = sample.sub_tables(grown.places), grown.tables.mean(axis=0)
    whole = fitted(seen, [s.counts.sum(axis=0) for s in seen], start, max(3, grown.steps // 4))
    held = {f: table_model(sample, grown.places, t) for f, t in zip(grown.folds, grown.tables, strict=True)}
    return Candidate.judged("joint", sample, table_model(sample, grown.places, whole), held)


def _by_fold(
    name: str, sample: Sample, growing: Growing, models: tuple[Forest, dict[int, Forest]]
) -> Candidate:
    whole, held = models
    known, label = sample.shares(sample.label_counts.sum(axis=0)), sample.label_matrix
    coin = sample.coin
    by_fold = {f: Model(label, growing.shares[f], forest, coin=coin) for f, forest in held.items()}
    tempers = TEMPERS if coin is None else (1.0,)
    return Candidate.judged(name, sample, Model(label, known, whole, coin=coin), by_fold, tempers)

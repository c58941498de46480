"""The joint distribution of attributes and class, learnt from a release alone.

Four models are tried: the classes' shares alone, naive Bayes, the joint table of a grown set of attributes, and
class-wise forests over all of them. The original class is an axis of each, with its own channel. All are
judged by how likely held-out published records make their published label, and the simplest within one
standard error of the best is taken (maths 10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.joint.attribute_search import CELLS, THRESHOLD, Found, Growing, fitted
from ppdm_cli.joint.forest import Forest, learn_bayes, learn_forests, learn_marginals, spanning
from ppdm_cli.joint.given_kept import GivenKept, learn_given_kept
from ppdm_cli.joint.joint_table import JointTable, picked
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
from ppdm_cli.joint.screening import Tells, screened

__all__ = [
    "CELLS", "COIN", "FOLDS", "LABEL", "LARGEST_DOMAIN", "MOST_CHANNELS", "Forest", "GivenKept", "JointTable",
    "Law", "Learnt", "Model",
    "Sample", "Tells", "alone", "class_of", "departure", "kept_channels", "learn", "picked",
    "read", "screened", "spanning", "usable",
]  # fmt: skip

LEAST = 2.0
"""Nats by which naive Bayes or a forest must make the published labels likelier, over all records."""
ALIKE = 0.05
"""By this share of what it gains may a model be better than a joint table that is still taken."""
CLEARLY = 2.0
"""Standard errors by which a model of perturbed columns alone must be better than their law given kept ones."""
JUDGING = 0
"""The fold that judges between what was kept and what perturbed columns say of each other."""
TEMPERS = (0.25, 0.5, 0.75, 1.0)
"""By the best of these the log-odds of naive Bayes and of a forest are scaled."""


Law = Model | GivenKept
"""What a record's original values may have been, given all that it shows."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model of all records, and the same learnt without some folds, by fold."""

    name: str
    model: Model
    held: dict[int, Model]

    scores: Floats
    """By how much attributes make the label of each record in a fold that was held back likelier; else NaN."""

    @classmethod
    def judged(
        cls, name: str, sample: Sample, model: Model, held: dict[int, Model], tempers: Sequence[float] = (1.0,)
    ) -> Candidate:
        """Return the candidate with the temper that makes held-out labels likeliest."""
        found = np.full((len(tempers), sample.records), np.nan)
        for fold, own in held.items():
            rows = np.flatnonzero(sample.folds == fold)
            said = own.said([c[rows] for c in sample.codes])
            for n, temper in enumerate(tempers):
                found[n, rows] = replace(own, temper=temper).rise(said, sample.labels[rows])
        best = int(np.nansum(found, axis=1).argmax())
        temper = tempers[best]
        by_fold = {f: replace(m, temper=temper) for f, m in held.items()}
        return cls(name, replace(model, temper=temper), by_fold, found[best])


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a release says of the joint distribution."""

    sample: Sample
    name: str
    model: Law | None
    gain: float
    """Nats a record by which the published label became likelier, on records held out."""
    gains: dict[str, float]
    held: Mapping[int, Law]
    """The same model learnt without a fold, by fold: what shows how certain it is."""
    linked: Law | None
    """The model that records are drawn from: the same, but where records withhold cells the forest."""

    @property
    def totals(self) -> Floats:
        """Return the totals of the original classes, as the published labels alone show them."""
        published = self.sample.published.astype(np.float64)
        return self.sample.shares(published) * published.sum()


def learn(sample: Sample, cells: int = CELLS, every: bool = True) -> Learnt:
    """Learn the simplest model within one standard error of the best, or none where nothing shows.

    With kept columns that is the law of what was perturbed given what was kept, unless a joint table of
    perturbed columns makes the records of a fold that was held back likelier. Where records differ in what they
    reveal a model of all attributes is learnt only if `every` is wanted.
    """
    if not sample.records:
        return Learnt(sample, "none", None, 0.0, {}, {}, None)
    if any(c.kept for c in sample.channels):
        return _with_kept(sample, cells)
    growing = Growing(sample, cells)
    candidates = _candidates(sample, growing, every)
    rises = {c.name: c.scores for c in candidates}
    gains = {n: float(np.nanmean(r)) for n, r in rises.items()}
    linked = candidates[-1].model if sample.varies and candidates else None
    told = [c for c in candidates if _stands_out(c, sample.records)]
    for c in told:
        best = max(told, key=lambda c: gains[c.name])
        short = rises[best.name] - rises[c.name]
        allowed = _error(short)
        if c.name == "joint":  # the better ground for a tree: it knows what three attributes say together
            allowed = max(allowed, ALIKE * gains[best.name])
        if c is best or np.nanmean(short) <= allowed:
            return Learnt(sample, c.name, c.model, gains[c.name], gains, c.held, linked or c.model)
    return Learnt(sample, "none", None, 0.0, gains, {}, linked)


def _with_kept(sample: Sample, cells: int) -> Learnt:
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
        return Learnt(sample, "kept", law, gain, gains, held, law)
    left = {own.place for own in law.laws} - {*table.model.places, LABEL}
    better = table.held[JUDGING].published(codes, labels) + without.alone(codes, labels, left) - given
    if better.mean() <= CLEARLY * _error(better):
        return Learnt(sample, "kept", law, gain, gains, held, law)
    # withheld cells of the other attributes are drawn too, and only the law has all of them
    linked = law if sample.varies else table.model
    return Learnt(sample, "joint", table.model, float(np.nanmean(table.scores)), gains, table.held, linked)


def _joint_table(sample: Sample, cells: int) -> Candidate | None:
    """Return a joint table of perturbed columns that says something of the class, if there is one."""
    perturbed = sample.only([p for p, c in enumerate(sample.channels) if not c.kept])  # they come first
    grown = Growing(perturbed, cells).grown() if perturbed.channels else None
    found = None if grown is None else _table(perturbed, grown)
    return found if found is not None and _stands_out(found, sample.records) else None


def _candidates(sample: Sample, growing: Growing, every: bool) -> list[Candidate]:
    """Return the models that are tried, the first to be preferred first."""
    grown, found = growing.grown(), list[Candidate]()
    one = not sample.varies
    if grown is not None and not one:
        found.append(_table(sample, grown))
    marginals = learn_marginals(sample, growing.singles)
    if one or every or grown is None or len(grown.places) == 1:
        simple = [_by_fold("bayes", sample, growing, learn_bayes(sample, m)) for m in marginals]
        found.append(max(simple, key=lambda c: float(np.nansum(c.scores))))
    if grown is not None and one:
        found.append(_table(sample, grown))
    if len(sample.channels) > 1 and (one or every):
        order = sorted(range(len(sample.channels)), key=lambda p: -growing.singles[p].gain)
        found.append(_by_fold("forest", sample, growing, learn_forests(sample, order, marginals)))
    return found


def _stands_out(candidate: Candidate, records: int) -> bool:
    """Return whether labels became likelier than chance makes them; a searched table must show more."""
    gain = float(np.nanmean(candidate.scores))
    least = THRESHOLD if candidate.name == "joint" else LEAST
    return gain * records >= least and gain >= _error(candidate.scores)


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
    name: str, sample: Sample, growing: Growing, learnt: tuple[Forest, dict[int, Forest]]
) -> Candidate:
    whole, held = learnt
    known, label = sample.shares(sample.label_counts.sum(axis=0)), sample.label_matrix
    coin = sample.coin
    by_fold = {f: Model(label, growing.shares[f], forest, coin=coin) for f, forest in held.items()}
    tempers = TEMPERS if coin is None else (1.0,)
    return Candidate.judged(name, sample, Model(label, known, whole, coin=coin), by_fold, tempers)

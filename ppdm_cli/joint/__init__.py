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
from ppdm_cli.joint.attribute_search import CELLS, THRESHOLD, Found, Growing, steps_of
from ppdm_cli.joint.fold_alone import alone, table_model
from ppdm_cli.joint.forest import Forest, learn_bayes, learn_forests, learn_marginals
from ppdm_cli.joint.joint_table import TINY, JointTable, picked
from ppdm_cli.joint.model import Model, unseeing
from ppdm_cli.joint.raking import raked
from ppdm_cli.joint.sample import FOLDS, Sample, matrix_of, published_codes, read, usable

__all__ = [
    "CELLS", "FOLDS", "Forest", "JointTable", "Learnt", "Model", "Sample", "alone", "learn", "matrix_of",
    "picked", "published_codes", "read", "unseeing", "usable",
]  # fmt: skip

LEAST = 2.0
"""Nats by which naive Bayes or a forest must make the published labels likelier, over all records."""
ALIKE = 0.05
"""By this share of what it gains may a model be better than a joint table that is still taken."""
TEMPERS = (0.25, 0.5, 0.75, 1.0)
"""By the best of these the log-odds of naive Bayes and of a forest are scaled."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model of all records, and the same learnt without some folds, by fold."""

    name: str
    model: Model
    held: dict[int, Model]

    scores: Floats
    """log p(label | attributes) of every record in a fold that was held back; NaN of others."""

    @classmethod
    def judged(
        cls, name: str, sample: Sample, model: Model, held: dict[int, Model], tempers: Sequence[float] = (1.0,)
    ) -> Candidate:
        """Return the candidate with the temper that makes held-out labels likeliest."""
        found = np.full((len(tempers), sample.records), np.nan)
        for fold, own in held.items():
            rows = np.flatnonzero(sample.folds == fold)
            likelihood = own.within.likelihood([c[rows] for c in sample.codes])
            for n, temper in enumerate(tempers):
                found[n, rows] = replace(own, temper=temper).scores(likelihood, sample.labels[rows])
        best = int(np.nansum(found, axis=1).argmax())
        temper = tempers[best]
        by_fold = {f: replace(m, temper=temper) for f, m in held.items()}
        return cls(name, replace(model, temper=temper), by_fold, found[best])


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a release says of the joint distribution."""

    sample: Sample
    name: str
    model: Model | None
    gain: float
    """Nats a record by which the published label became likelier, on records held out."""
    gains: dict[str, float]
    held: Mapping[int, Model]
    """The same model learnt without a fold, by fold: what shows how certain it is."""
    linked: Model | None
    """The model that records are drawn from: with kept columns the forest, else the same."""

    @property
    def totals(self) -> Floats:
        """Return the totals of the original classes, as the published labels alone show them."""
        published = self.sample.published.astype(np.float64)
        return self.sample.shares(published) * published.sum()

    def drawn_from(self, model: Model) -> Model:
        """Return one of the models so that the classes' totals are to be expected as estimated."""
        return raked(model, self.sample, self.totals)


def learn(sample: Sample, cells: int = CELLS) -> Learnt:
    """Return the simplest model within one standard error of the best, or none with nothing to learn."""
    if not sample.records:
        return Learnt(sample, "none", None, 0.0, {}, {}, None)
    growing = Growing(sample, cells)
    marginals = learn_marginals(sample)
    simple = [_by_fold("bayes", sample, growing, learn_bayes(sample, m)) for m in marginals]
    candidates = [max(simple, key=lambda c: float(np.nansum(c.scores)))]
    grown = growing.grown()
    if grown is not None:
        candidates.append(_table(sample, grown))
    if len(sample.channels) > 1:
        order = sorted(range(len(sample.channels)), key=lambda p: -growing.singles[p].gain)
        candidates.append(_by_fold("forest", sample, growing, learn_forests(sample, order, marginals)))
    base = np.log(np.maximum(growing.shares @ sample.label_matrix.T, TINY))[sample.folds, sample.labels]
    rises = {c.name: c.scores - base for c in candidates}
    gains = {n: float(np.nanmean(r)) for n, r in rises.items()}
    # what was kept is linked to all else by a forest only
    linked = candidates[-1].model if any(c.kept for c in sample.channels) else None
    told = [c for c in candidates if _stands_out(c.name, rises[c.name], sample.records)]
    for c in told:
        best = max(told, key=lambda c: gains[c.name])
        short = rises[best.name] - rises[c.name]
        allowed = _error(short)
        if c.name == "joint":  # the better ground for a tree: it knows what three attributes say together
            allowed = max(allowed, ALIKE * gains[best.name])
        if c is best or np.nanmean(short) <= allowed:
            return Learnt(sample, c.name, c.model, gains[c.name], gains, c.held, linked or c.model)
    return Learnt(sample, "none", None, 0.0, gains, {}, linked)


def _stands_out(name: str, rise: Floats, records: int) -> bool:
    """Return whether labels became likelier than chance makes them; a searched table must show more."""
    gain = float(np.nanmean(rise))
    return gain * records >= (THRESHOLD if name == "joint" else LEAST) and gain >= _error(rise)


def _error(rise: Floats) -> float:
    """Return the standard error of a mean over the records that have one."""
    there = rise[~np.isnan(rise)]
    return float(there.std() / np.sqrt(max(len(there), 1)))


def _table(sample: Sample, grown: Found) -> Candidate:
    observed = sample.counts(grown.places).sum(axis=0)
    start = grown.tables.mean(axis=0)
    whole = steps_of(sample, grown.places, observed[None])(start[None], max(3, grown.steps // 4))[0]
    held = {f: table_model(sample, grown.places, t) for f, t in zip(grown.folds, grown.tables, strict=True)}
    return Candidate.judged("joint", sample, table_model(sample, grown.places, whole), held)


def _by_fold(
    name: str, sample: Sample, growing: Growing, learnt: tuple[Forest, dict[int, Forest]]
) -> Candidate:
    whole, held = learnt
    known, label = sample.shares(sample.label_counts.sum(axis=0)), sample.label_matrix
    by_fold = {f: Model(label, growing.shares[f], forest) for f, forest in held.items()}
    return Candidate.judged(name, sample, Model(label, known, whole), by_fold, TEMPERS)

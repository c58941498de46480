"""What an adversary learns from a release before guessing: distributions, covariances, the joint model.

Never from the original. What does not apply is said, and the rest goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ppdm_cli import joint
from ppdm_cli.arrays import Floats
from ppdm_cli.attacks import bayes_linear, pca, spectral
from ppdm_cli.attacks.attacked_attribute import Target
from ppdm_cli.attacks.linear import (
    Linear,
    Moments,
    Scored,
    constant,
    noise_variance,
    scores_of,
    unbiased_scores,
)
from ppdm_cli.attacks.pairing import Paired
from ppdm_cli.attacks.posterior import Posterior
from ppdm_cli.attacks.reading import Reader
from ppdm_cli.attacks.scoring import prior_variance
from ppdm_cli.attacks.whole_record import Record, told_by_class
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch, fold, step
from ppdm_cli.errors import DataError, UsageError, listed
from ppdm_cli.estimating import MOST_CELLS, count, maximum_likelihood
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

LINEAR = {"spectral": spectral.estimator, "pca": pca.estimator, "bayes-linear": bayes_linear.estimator}
MOST_CORRELATED = 1 << 9
"""The most attributes of the linear attacks, whose time grows with the cube of their number."""
MOST_CLASS_VALUES = 32
"""The most published values of an attribute that may take the place of a missing class in `record`."""


class Adversary:
    """Holds what was learnt, and the attacks that guess."""

    def __init__(self, table: Table, sidecar: Sidecar, asked: Sequence[str], known: bool) -> None:
        self._table, self._sidecar, self._asked, self._known = table, sidecar, asked, known
        self._released = Paired(table, None, sidecar)
        self.remarks: list[str] = []
        self.kept: list[dict[str, Any]] = []
        self.guessers: dict[str, Any] = {}
        self.gamma = prod(c.matrix.amplification for c in opened(sidecar).channels)
        self.label = self._class()

    def _class(self) -> Channel | None:
        """Return the class, or an attribute with few values that takes its place for the attack on records."""
        named = self._sidecar.by_name.get(str(self._sidecar.class_))
        if named is not None and named.has_domain:
            label = opened(self._sidecar).through(named.name)
            outputs = sum(c.matrix.outputs for c in opened(self._sidecar).channels)
            if label.published.size * outputs <= MOST_CELLS:
                return label
        few = [c for c in opened(self._sidecar).channels if c.matrix.outputs <= MOST_CLASS_VALUES]
        if "record" not in self._asked or not few or len(self._sidecar.attributes) < 2:
            return None
        label = min(few, key=lambda c: c.matrix.outputs)
        lists = "no class" if named is None or not named.has_domain else "too many labels of the class"
        self.remarks.append(
            f"record: the sidecar lists {lists}; {label.name}, which has few values, takes its place."
        )
        return label

    def learn(self) -> None:
        perturbed, label = opened(self._sidecar).channels, self.label
        others = [a for a in perturbed if label is None or a.name != label.name]
        by_class = [(label, a) for a in others] if label is not None and label.kept else []
        found = count(self._table, [*((a,) for a in perturbed), *by_class])
        self.counts = dict(zip((a.name for a in perturbed), found, strict=False))
        self._by_class = dict(zip((a.name for a in others), found[len(perturbed) :], strict=False))
        self.records = int(found[0].sum())
        if not self.records:
            raise DataError("the release has no records: there is nothing to attack", "give one that has")
        self.targets = {
            a.name: Target(a, maximum_likelihood(self.counts[a.name], [a.matrix]) / self.records)
            for a in perturbed
        }
        self.reader = Reader(self.targets, label)
        posterior = Posterior(list(self.targets.values()), self.counts)
        if set(self._asked) & set(LINEAR):
            self._learn_linear()
        if "posterior" in self._asked:
            self.guessers["posterior"] = posterior
        if "record" in self._asked:
            self._learn_record(posterior)
        if label is not None and {"posterior", "record"} & set(self._asked):
            self.kept = [
                {"attribute": n, "kept": label.name} | told_by_class(self.targets[n], c)
                for n, c in self._by_class.items()
            ]

    def _learn_linear(self) -> None:
        chosen: list[Target] = []
        out = dict[str, list[str]]()
        for target in self.targets.values():
            if not target.ordered or target.domain.nulls:
                why = "not numbers" if not target.ordered else "with nulls"
            elif not target.measurable:
                why = "with numbers too large or too small for their squares"
            elif constant(target, self.counts[target.name]):
                why = "constant as far as the release shows"
            elif len(chosen) == MOST_CORRELATED:
                why = f"beyond the first {MOST_CORRELATED}"
            else:
                chosen.append(target)
                continue
            out.setdefault(why, []).append(target.name)
        self.remarks += [f"Left out of the linear attacks, {w}: {listed(n)}." for w, n in out.items()]
        if not chosen:
            self.remarks.append("No attribute is left for the linear attacks.")
            return
        values = [t.values for t in chosen]
        scores = [unbiased_scores(t) for t in chosen]
        middle = np.array([u.mean() for u in values])
        noise = np.array([noise_variance(t, w) for t, w in zip(chosen, scores, strict=True)])
        task = partial(_moments, self.reader, chosen, scores, middle)
        moments = fold(self._released, task, Moments.__add__, doing="correlating")
        assert moments is not None
        variances = np.array([prior_variance(t) for t in chosen])
        scored = Scored(moments, middle, noise, variances)
        rank = scored.rank
        if rank < len(chosen) > 1:
            self.remarks.append(
                "For the linear attacks the estimated covariance is singular "
                f"({rank} of {len(chosen)} directions)."
            )
        for name, estimator in LINEAR.items():
            if name not in self._asked:
                continue
            if len(chosen) == 1 and name != "bayes-linear":
                self.remarks.append(f"{name}: only one attribute is a number, so there are no correlations.")
                continue
            self.guessers[name] = Linear(name, chosen, scores, scored, estimator(scored))

    def _learn_record(self, posterior: Posterior) -> None:
        label = self.label
        if label is None:
            self.remarks.append(
                "record: left out, because there is neither a class nor another attribute with few values."
            )
            return
        try:
            sample = joint.read(self._table, self._sidecar, label)
        except UsageError:
            self.remarks.append("record: left out, because no column besides the class is small enough.")
            return
        with step("learning"):
            found = Record(joint.learn(sample), self.targets, posterior, self.gamma, self._known)
        read = {c.name for c in found.channels}
        for names, why in (
            ([n for n in found.alone if n in read], "the other columns say nothing certain about"),
            ([n for n in found.alone if n not in read], "too many values, or too many attributes, to study"),
        ):
            if names:
                self.remarks.append(f"record: {why} {listed(names)}; it guesses as posterior does.")
        self.reader = replace(self.reader, kept=tuple(c for c in found.channels if c.kept))
        self.guessers["record"] = found


def _moments(
    reader: Reader, targets: list[Target], scores: list[Floats], middle: Floats, batch: Batch
) -> Moments:
    return Moments.of(scores_of(targets, scores, reader.published(batch)) - middle)

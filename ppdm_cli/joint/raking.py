"""Shares of the classes with which their totals are to be expected as they were estimated.

A model that is not the very law of the data expects other totals of the classes, given all that was published,
than the published labels alone show. Its shares are multiplied by weights that mend this: the totals to expect
are the gradient of a convex function of the weights' logarithms, so that Newton's method finds them. Its steps
are shortened so that it arrives from anywhere (Sun and Tran-Dinh 2019, on self-concordant functions).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.joint.model import Model
from ppdm_cli.joint.sample import Sample

NEAR = 0.1
"""What may be left between expected and wanted totals, in standard deviations of drawing."""

FEW_LABELS = 64
"""Of so few labels the sum of products is not worth the threads that BLAS would start for it."""


MOST_CHANCES = 1 << 22
MOST_STEPS = 100
LEAST_CHANCE = 1e-6
"""At least this share of what the label's share alone would make a chance: any totals can then be had."""


def raked(model: Model, sample: Sample, wanted: Floats) -> Model:
    """Return the model with shares with which the classes' totals are to be expected as `wanted`."""
    if sample.label.kept or sample.varies or not sample.records:
        return model
    some = slice(None, None, -(-sample.records * len(wanted) // MOST_CHANCES))
    labels = sample.labels[some]
    counts = np.bincount(labels, minlength=len(sample.published))
    numbers = (sample.published / np.maximum(counts, 1))[labels]
    chances = model.chances([c[some] for c in sample.codes], labels)
    chances = chances + LEAST_CHANCE * wanted / wanted.sum() * model.label[labels]
    weights, done, steps = (wanted > 0).astype(float), False, 0
    while not done and steps < MOST_STEPS:
        weights, done = step(weights, Expected.of(weighted(chances, weights), numbers), wanted)
        steps += 1
    shares = np.maximum(model.shares, LEAST_CHANCE * wanted / wanted.sum()) * weights
    return replace(model, shares=shares / shares.sum())


@dataclass(frozen=True)
class Expected:
    """The totals to expect when each record's label is drawn, and the covariance of those drawn."""

    totals: Floats
    covariance: Floats

    @classmethod
    def of(cls, chances: Floats, numbers: Floats) -> Expected:
        """Return what to expect of chances (records, labels), where each stands for a number of records."""
        totals, times = numbers @ chances, chances * numbers[:, None]
        few = chances.shape[1] <= FEW_LABELS
        products = np.einsum("rk,rl->kl", times, chances) if few else times.T @ chances
        return cls(totals, np.diag(totals) - products)


def weighted(chances: Floats, weights: Floats) -> Floats:
    """Return the chances multiplied by the weights of their labels, each record's of sum 1."""
    product = chances * weights
    return np.asarray(product / product.sum(axis=1, keepdims=True))


def step(weights: Floats, expected: Expected, wanted: Floats) -> tuple[Floats, bool]:
    """Return better weights, and whether what is then left is less than drawing adds (`NEAR`)."""
    deviations = np.sqrt(np.maximum(np.diag(expected.covariance), 0.0))
    scale = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    missing = wanted - expected.totals
    # one weight is free: least squares take the shortest of the solutions
    newton = scale * np.linalg.lstsq(scale[:, None] * expected.covariance * scale, scale * missing)[0]
    length = float(np.ptp(newton))
    shortened = newton * (np.log1p(length) / length if length > 0 else 1.0)
    return weights * np.exp(shortened), bool((np.abs(missing) * length <= NEAR * deviations).all())

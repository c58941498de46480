"""Weights of the labels with which their totals are to be expected as they were estimated.

A record has a chance of each label; weighted, a label's chance is multiplied by its weight and the record's
chances are scaled to 1 again. The sums of these over the records, the totals to expect, are the gradient of
a convex function of the weights' logarithms, so that Newton's method finds the weights. Its steps are
shortened so that it arrives from anywhere (Sun and Tran-Dinh 2019, on generalised self-concordant functions).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Floats

NEAR = 0.1
"""What may be left between expected and wanted totals, in standard deviations of drawing."""

FEW = 64
"""Of so few labels the sum of products is not worth the threads that BLAS would start for it."""


@dataclass(frozen=True)
class Expected:
    """The totals to expect when each record's label is drawn, and the covariance of those drawn."""

    totals: Floats
    covariance: Floats

    @classmethod
    def of(cls, chances: Floats) -> Expected:
        """From each record's chances of the labels, of shape (records, labels)."""
        totals = chances.sum(axis=0)
        few = chances.shape[1] <= FEW
        products = np.einsum("rk,rl->kl", chances, chances) if few else chances.T @ chances
        return cls(totals, np.diag(totals) - products)

    def __add__(self, other: Expected) -> Expected:
        return Expected(self.totals + other.totals, self.covariance + other.covariance)


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

"""What follows from the numbers of a matrix alone: products along an axis, and the unbiased estimate."""

from __future__ import annotations

import numpy as np

from ppdm_cli.arrays import Floats

STEPS = 100
"""Steps of EM: what is published is smooth, and soon fitted."""


def applied(matrix: Floats, table: Floats, axis: int) -> Floats:
    """Return the matrix times a table, along one axis."""
    return np.moveaxis(np.tensordot(matrix, table, (1, axis)), 0, axis)


def left_inverse(matrix: Floats, published: Floats | None = None) -> Floats:
    """Return A with A M = I: least squares, weighted by the variances that equal counts would give.

    With V = diag(M X) for equal X, A = (M^T V^-1 M)^-1 M^T V^-1. Its columns sum to 1, so that the
    estimates sum to n: M^T V^-1 M X = M^T 1 = 1, hence 1^T A = X^T M^T V^-1 = 1^T. `published` is M X of
    another X.
    """
    sums = matrix.sum(axis=1) if published is None else published
    weights = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
    weighted = matrix.T * weights
    inverse: Floats = np.linalg.solve(weighted @ matrix, weighted)
    return inverse


def likeliest(matrix: Floats, observed: Floats) -> Floats:
    """Return shares X of which M X is near the observed counts, by a few steps of EM; equal ones of none."""
    found = np.full(matrix.shape[1], 1 / matrix.shape[1])
    for _ in range(STEPS if observed.any() else 0):
        fitted = matrix @ found
        found *= matrix.T @ np.divide(observed, fitted, out=np.zeros_like(fitted), where=fitted > 0)
        found /= found.sum()
    return found

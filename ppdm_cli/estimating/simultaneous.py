"""How large the largest error of all cells of a table may be: for intervals that hold together."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ppdm_cli.arrays import Floats, normal_quantile
from ppdm_cli.estimating.estimators import Matrices, perturbed_axes

DRAWS = 20_000
MOST_CELLS_TOGETHER = 1 << 10
"""The most cells whose correlations are computed; of more each is taken by itself, which covers no less."""
_CHUNK = 1_000
_SEED = 20_061_106
"""Everyone who asks gets the same intervals; nothing private hangs on these draws."""


def largest_error(
    possible: Floats, matrices: Matrices, variance: Floats, level: float, sampled: float
) -> float:
    """Return how many standard errors hold the errors of all cells together with a probability of `level`.

    By the maximum of correlated normal variables, simulated: Cov(Xhat) = A diag(M X) A^T - diag(X), or
    - X X^T / n of a population's, or between them where a share is `sampled`. Cells of a variance of 0 do not
    count. Errors in different slices of a kept attribute are independent, or correlated in a population, where
    to take them as independent covers no less (Royen 2014); so does it of cells that are too many (Sidak 1967).
    """
    cells = max(int(np.count_nonzero(variance)), 1)
    alone = normal_quantile((1 + level ** (1 / cells)) / 2)
    axes = perturbed_axes(matrices)
    laws = [m for m in matrices if m is not None]
    size = prod(max(m.inputs, m.outputs) for m in laws)
    if possible.size > 4 * MOST_CELLS_TOGETHER or size > MOST_CELLS_TOGETHER or not variance.any():
        return alone
    A, M = _product([law.inverse for law in laws]), _product([law.dense() for law in laws])
    slices, spreads = (
        np.moveaxis(t, axes, range(len(axes))).reshape(len(A), -1).T for t in (possible, variance)
    )
    rng, largest = np.random.default_rng(_SEED), np.zeros(DRAWS)
    for X, spread in zip(slices, spreads, strict=True):
        counts = spread > 0
        known = sampled * np.diag(X) + (1 - sampled) * np.outer(X, X) / possible.sum()
        covariance = (A * (M @ X)) @ A.T - known
        sd = np.sqrt(spread[counts])
        correlation = covariance[np.ix_(counts, counts)] / np.outer(sd, sd)
        root = np.linalg.cholesky(correlation + 1e-6 * np.eye(len(sd)))
        for start in range(0, DRAWS if len(sd) else 0, _CHUNK):
            part = largest[start : start + _CHUNK]
            errors = root @ rng.standard_normal((len(sd), _CHUNK))
            np.maximum(part, np.abs(errors).max(axis=0), out=part)
    return min(alone, float(np.quantile(largest, level)))


def _product(matrices: Sequence[Floats]) -> Floats:
    """Return what acts on a flattened table as the matrices do along its axes."""
    whole: Floats = np.ones((1, 1))
    for matrix in matrices:
        whole = np.asarray(np.kron(whole, matrix), np.float64)
    return whole

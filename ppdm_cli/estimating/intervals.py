"""Standard errors and 95 % intervals of the original counts, about these records (maths 1 and 2).

Var(Xhat_i) = [(A o A) M X]_i - X_i, which is linear in X_i; the score interval solves for the X_i at
which the unbiased estimate is 1.96 standard deviations away. Always centred on the inverse, never on
an estimator that is biased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.errors import counted
from ppdm_cli.estimating.estimators import Matrices, blurred, inverse, perturbed_axes, set_scale
from ppdm_cli.shown import Shown
from ppdm_cli.stats import Z


@dataclass(frozen=True, repr=False)
class Interval(Shown):
    std_error: Floats
    low: Floats
    high: Floats

    def _words(self) -> list[str]:
        return [counted(self.low.size, "interval")]

    def possible(self, n: Floats | float) -> Interval:
        """Return the interval cut to [0, n]; a value that nobody has is then covered with 97.5 %, not 95."""
        return Interval(self.std_error, np.clip(self.low, 0.0, n), np.clip(self.high, 0.0, n))

    def without(self, estimate: Floats) -> int:
        """Return how many cells' estimates lie outside their intervals, by more than rounding shows."""
        return int(((estimate < self.low - 0.5) | (estimate > self.high + 0.5)).sum())


def no_intervals(shape: Sequence[int]) -> Interval:
    """Return NaN for every cell."""
    return Interval(*(np.full(shape, np.nan) for _ in range(3)))


def intervals(observed: Floats, matrices: Matrices) -> Interval:
    """Return the interval of every cell of a table of counts; NaN if noise allows no unbiased estimate."""
    if any(m is not None and not m.invertible for m in matrices):
        shape = [size if m is None else m.inputs for size, m in zip(observed.shape, matrices, strict=True)]
        return no_intervals(shape)
    records = observed.sum(axis=perturbed_axes(matrices), keepdims=True)
    return score_interval(observed, matrices).possible(records)


def score_interval(observed: Floats, matrices: Matrices) -> Interval:
    """Return the score interval of every cell of a table of counts."""
    axes = perturbed_axes(matrices)
    estimate = inverse(observed, matrices)
    squared = observed
    own = np.ones((1,) * observed.ndim)
    for axis in axes:
        matrix = matrices[axis]
        assert matrix is not None
        squared = matrix.solve_squared(squared, axis)
        own = own * np.expand_dims(matrix.own_variance(), [i for i in range(observed.ndim) if i != axis])
    n = np.broadcast_to(observed.sum(axis=axes, keepdims=True), estimate.shape)
    # squared estimates [(A o A) M X]; of it a record of the cell itself adds `own`, any other `others`
    # (for one gamma-diagonal exactly; a band's estimate is too wild to part the two, a possible one does)
    possible = set_scale(observed, matrices) if blurred(matrices) else estimate
    rest = n - possible
    told = np.abs(rest) > 1e-9 * n
    others = np.divide(squared - own * possible, rest, out=np.zeros_like(rest), where=told)
    others = np.clip(others, 0.0, None)
    # a cell that seems to hold all records tells nothing of the others: it takes the other cells' mean,
    # which for one gamma-diagonal is exact
    mean = others.sum(axis=axes, keepdims=True) / np.maximum(told.sum(axis=axes, keepdims=True), 1)
    others = np.where(told, others, mean)
    at_zero = np.maximum(n * others, 0.0)
    slope = own - 1 - others
    middle = estimate + Z**2 * slope / 2
    half = np.sqrt(np.maximum(middle**2 - estimate**2 + Z**2 * at_zero, 0.0))
    at_estimate = np.clip(estimate, 0.0, n)
    return Interval(
        std_error=np.sqrt(np.maximum(at_zero + slope * at_estimate, 0.0)), low=middle - half, high=middle + half
    )

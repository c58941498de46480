"""Estimators for tables of counts: the original ones from those observed, along any number of axes.

A table has one axis an attribute. The matrices act along the axes and are never multiplied out. An
axis without a matrix was not perturbed: its slices are problems of their own, each with its records.
Dowd 3.2 and 3.3; docs/technical/method.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Law
from ppdm_cli.estimating.em import better

Matrices = Sequence[Law | None]
EM_STEPS = 20_000
EM_TOLERANCE = 1e-9
"""EM ends when a step adds less log-likelihood a record than this."""


def inverse(observed: Floats, matrices: Matrices) -> Floats:
    """Return the unbiased estimate, which may be negative (Dowd, eq. 1)."""
    for axis, matrix in enumerate(matrices):
        if matrix is not None:
            observed = matrix.solve(observed, axis)
    return observed


def set_scale(observed: Floats, matrices: Matrices) -> Floats:
    """Return the paper's heuristic: negatives to zero, then scaled to the number of records.

    Biased down for large counts when N is large.
    """
    raised = np.maximum(inverse(observed, matrices), 0.0)
    axes = perturbed_axes(matrices)
    sums, totals = (t.sum(axis=axes, keepdims=True) for t in (raised, observed))
    return raised * np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0)


def simplex(observed: Floats, matrices: Matrices) -> Floats:
    """Return the nearest table to the inverse with no negative count and the right number of records."""
    return _by_slice(inverse(observed, matrices), observed, matrices, project)


def maximum_likelihood(observed: Floats, matrices: Matrices) -> Floats:
    """Return the most likely original counts: in closed form where one matrix has one, else by EM.

    With a matrix that blurs, EM ends early, before it reaches them.
    """
    perturbed = [m for m in matrices if m is not None]
    if len(perturbed) == 1 and (closed := perturbed[0].closed_form) is not None:
        return _by_slice(observed, observed, matrices, closed)
    return expectation_maximisation(observed, matrices)


ESTIMATORS: dict[str, Callable[[Floats, Matrices], Floats]] = {
    "inverse": inverse,
    "set-scale": set_scale,
    "simplex": simplex,
    "ml": maximum_likelihood,
}
DEFAULT = "ml"


def perturbed_axes(matrices: Matrices) -> tuple[int, ...]:
    return tuple(i for i, m in enumerate(matrices) if m is not None)


def _by_slice(
    table: Floats, observed: Floats, matrices: Matrices, work: Callable[[Floats, float], Floats]
) -> Floats:
    """Apply `work` to each slice along the axes that were not perturbed, flattened."""
    axes = perturbed_axes(matrices)
    first = range(len(axes))
    moved = np.moveaxis(table, axes, first)
    shape = moved.shape
    flat = moved.reshape(int(np.prod(shape[: len(axes)])), -1)
    records = np.moveaxis(observed, axes, first).reshape(-1, flat.shape[1]).sum(axis=0)
    done = np.stack([work(column, n) for column, n in zip(flat.T, records, strict=True)], axis=1)
    return np.moveaxis(done.reshape(shape), first, axes)


def project(values: Floats, n: float) -> Floats:
    """Project on the counts that sum to n, in the Euclidean norm: one constant off all, negatives to zero."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - n) / np.arange(1, len(values) + 1)
    above = np.flatnonzero(falling - excess > 0)
    return np.maximum(values - excess[above[-1]], 0.0) if above.size else np.zeros(len(values))


def expectation_maximisation(
    observed: Floats, matrices: Matrices, start: Floats | None = None, least: float = 0.0
) -> Floats:
    """Run EM from equal shares (or `start`), along the axes, to a likelihood tolerance.

    It ends when a step adds fewer than `least` nats.
    """
    axes = perturbed_axes(matrices)
    cells = int(np.prod([m.inputs for m in matrices if m is not None]))
    shape = tuple(observed.shape[i] if m is None else m.inputs for i, m in enumerate(matrices))
    totals = observed.sum(axis=axes, keepdims=True)
    estimate = np.broadcast_to(totals / cells, shape) if start is None else start
    tolerance, before = EM_TOLERANCE * max(observed.sum(), 1.0), -np.inf
    least = max(least, *(m.stop_gain for m in matrices if m is not None), 0.0)
    tolerance = max(tolerance, least * int((totals > 0).sum()))
    for _ in range(EM_STEPS):
        expected = _along(estimate, matrices, "forward")
        likelihood = float((observed * np.log(np.where(expected > 0, expected, 1.0))).sum())
        estimate = better(estimate, observed, expected, lambda r: _along(r, matrices, "backward"))
        if likelihood - before < tolerance:
            break
        before = likelihood
    return estimate


def _along(table: Floats, matrices: Matrices, how: str) -> Floats:
    for axis, matrix in enumerate(matrices):
        if matrix is not None:
            table = getattr(matrix, how)(table, axis)
    return table


def largest_remainder(estimate: Floats, total: int) -> np.ndarray:
    """Return the whole numbers nearest to the estimate that sum to exactly `total`."""
    records = float(estimate.sum())
    if records >= 1:
        scaled = estimate * (total / records)
    else:  # hardly anything, or nothing: without a factor that overflows
        scaled = estimate / records * total if records > 0 else np.full(len(estimate), total / len(estimate))
    whole = np.floor(scaled).astype(np.int64)
    missing = total - int(whole.sum())
    # stable, so that equal remainders go to the first: the result is a function of the estimate
    order = np.argsort(-(scaled - whole), kind="stable")
    whole[order[:missing]] += 1
    return whole

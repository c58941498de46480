"""Entropy surfaces: H(M) and its companions over gammas and numbers of bins, or for a release."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import log2
from typing import Any, Literal

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.engine import Progress
from ppdm_cli.errors import UsageError
from ppdm_cli.estimating import count, maximum_likelihood
from ppdm_cli.matrices import Additive, Band, GammaDiagonal, Matrix, best_half_width
from ppdm_cli.matrices.exact import checked_gamma
from ppdm_cli.privacy import epsilon, worst_posterior
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

MOST_GAMMAS = 1 << 12


def row(matrix: Matrix, rho1: float, records: float | None, prior: Floats | None) -> dict[str, Any]:
    """The figures of one matrix.

    `information` is what one answer tells of the value under the prior: H(y) - H(M), in bits.
    `expected_error` is sqrt(E||Xhat - X||^2)/n, of a band under the prior, else whatever X is;
    `kang_bound` bounds sigma/||X||, and there is none for a band.
    """
    N = matrix.inputs
    p = np.full(N, 1 / N) if prior is None else prior
    published = matrix.forward(p)
    entropy = matrix.entropy(prior)
    gamma = matrix.amplification
    band = matrix if isinstance(matrix, Band) else None
    figures = {
        "matrix": "gamma-diagonal" if band is None else "band",
        "gamma": gamma,
        "N": N,
        "half_width": None if band is None else band.half_width,
        "entropy": entropy,
        "entropy_share": entropy / log2(matrix.outputs),
        "information": max(0.0, float(-(published * np.log2(published)).sum()) - entropy),
        "condition_number": matrix.condition_number,
        "epsilon": epsilon(gamma),
        "staying": matrix.staying,
        "neighbourhood": None if band is None else band.neighbourhood,
        "rho1": rho1,
        "rho2": worst_posterior(gamma, rho1),
    }
    if records:
        figures |= {"records": records, "expected_error": _error(matrix, records, p) / records}
        figures["kang_bound"] = matrix.kang_bound(records) if isinstance(matrix, GammaDiagonal) else None
    return figures


def _error(matrix: Matrix, records: float, prior: Floats) -> float:
    """sqrt(E||Xhat - X||^2) of the unbiased estimate: the root of the sum of its variances (maths 2)."""
    if isinstance(matrix, GammaDiagonal):
        return matrix.expected_error(records)
    return float(np.sqrt(records * (matrix.solve_squared(matrix.forward(prior)).sum() - prior.sum())))


def of_grid(
    gammas: Sequence[Decimal],
    sizes: Sequence[int],
    *,
    rho1: float = 0.05,
    records: int | None = None,
    prior: Sequence[float] | None = None,
    kind: Literal["gamma-diagonal", "band"] = "gamma-diagonal",
) -> list[dict[str, Any]]:
    """A row for every gamma and N; a given prior has as many shares as N.

    Bands have the half-width that `perturb` would choose; where that is 0 they are gamma-diagonal.
    """
    shares = None if prior is None else checked_prior(prior)
    if shares is not None:
        if list(sizes) not in ([], [len(shares)]):
            raise UsageError(
                f"the prior has {len(shares)} shares, which does not fit the bins",
                "leave --bins away: the prior says how many there are",
            )
        sizes = [len(shares)]
    if len(gammas) > MOST_GAMMAS or any(n > MOST_VALUES + 1 for n in sizes):
        raise UsageError(
            f"a grid has at most {MOST_GAMMAS} gammas, and matrices at most {MOST_VALUES} values",
            "such as --gamma 2:21 --bins 5,10,20",
        )

    def matrix(gamma: Decimal, N: int) -> Matrix:
        b = best_half_width(gamma, N) if kind == "band" else 0
        return Band(gamma, N, b) if b else GammaDiagonal(gamma, N)

    return _told([row(matrix(checked_gamma(g), n), rho1, records, shares) for g in gammas for n in sizes])


def of_release(
    table: Table, sidecar: Sidecar, *, rho1: float = 0.05, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """A row for every perturbed attribute, under the prior estimated from the release itself."""
    observed = count(table, [(a,) for a in sidecar.perturbed], progress=progress)
    rows = []
    for attribute, counts in zip(sidecar.perturbed, observed, strict=True):
        matrix = attribute.built_matrix
        if isinstance(matrix, Additive):
            raise UsageError(
                "additive noise publishes numbers, not values of a domain: it has no H(M)",
                "inspect says how wide the noise is; entropy is for random substitution",
            )
        n = float(counts.sum())
        prior = maximum_likelihood(counts, [matrix]) / n if n else None
        rows.append({"attribute": attribute.name} | row(matrix, rho1, n, prior))
    return _told(rows)


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the figures that none of them has."""
    told = {k for r in rows for k, v in r.items() if v is not None}
    return [{k: v for k, v in r.items() if k in told} for r in rows]


def checked_prior(prior: Sequence[float]) -> Floats:
    shares = np.array(prior, float)
    if len(shares) < 2 or not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise UsageError("a prior is two or more shares, none of them negative", "such as --prior 0.7,0.2,0.1")
    if abs(shares.sum() - 1) > 1e-6:
        raise UsageError("the shares of the prior do not sum to 1", "such as --prior 0.7,0.2,0.1")
    return shares / shares.sum()

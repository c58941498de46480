"""Entropy surfaces: H(M) and its companions over gammas and numbers of bins, or for a release."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import log2
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.engine import Progress
from ppdm_cli.errors import UsageError
from ppdm_cli.estimating import count, maximum_likelihood
from ppdm_cli.matrices import GammaDiagonal
from ppdm_cli.matrices.gamma_diagonal import checked_gamma
from ppdm_cli.privacy import epsilon, worst_posterior
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

MOST_GAMMAS = 1 << 12


def row(matrix: GammaDiagonal, rho1: float, records: float | None, prior: Floats | None) -> dict[str, Any]:
    """The figures of one matrix.

    `information` is what one answer tells of the value under the prior: H(y) - H(M), in bits.
    `expected_error` is sqrt(E||Xhat - X||^2)/n, whatever X is; `kang_bound` bounds sigma/||X||.
    """
    p = np.full(matrix.N, 1 / matrix.N) if prior is None else prior
    published = matrix.lam * p + (1 - matrix.lam) / matrix.N
    entropy = matrix.entropy(prior)
    gamma = matrix.amplification
    figures = {
        "gamma": gamma,
        "N": matrix.N,
        "entropy": entropy,
        "entropy_share": entropy / log2(matrix.N),
        "information": max(0.0, float(-(published * np.log2(published)).sum()) - entropy),
        "condition_number": matrix.condition_number,
        "epsilon": epsilon(gamma),
        "staying": matrix.staying,
        "rho1": rho1,
        "rho2": worst_posterior(gamma, rho1),
    }
    if records:
        figures |= {
            "records": records,
            "expected_error": matrix.expected_error(records) / records,
            "kang_bound": matrix.kang_bound(records),
        }
    return figures


def of_grid(
    gammas: Sequence[Decimal],
    sizes: Sequence[int],
    *,
    rho1: float = 0.05,
    records: int | None = None,
    prior: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """A row for every gamma and N; a given prior has as many shares as N."""
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
    return [row(GammaDiagonal(checked_gamma(g), n), rho1, records, shares) for g in gammas for n in sizes]


def of_release(
    table: Table, sidecar: Sidecar, *, rho1: float = 0.05, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """A row for every perturbed attribute, under the prior estimated from the release itself."""
    observed = count(table, [(a,) for a in sidecar.perturbed], progress=progress)
    rows = []
    for attribute, counts in zip(sidecar.perturbed, observed, strict=True):
        matrix = attribute.built_matrix
        assert isinstance(matrix, GammaDiagonal)
        n = float(counts.sum())
        prior = maximum_likelihood(counts, [matrix]) / n if n else None
        rows.append({"attribute": attribute.name} | row(matrix, rho1, n, prior))
    return rows


def checked_prior(prior: Sequence[float]) -> Floats:
    shares = np.array(prior, float)
    if len(shares) < 2 or not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise UsageError("a prior is two or more shares, none of them negative", "such as --prior 0.7,0.2,0.1")
    if abs(shares.sum() - 1) > 1e-6:
        raise UsageError("the shares of the prior do not sum to 1", "such as --prior 0.7,0.2,0.1")
    return shares / shares.sum()

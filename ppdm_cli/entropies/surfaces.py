"""Figures of matrices for `entropy`: over gammas and bins, for a release, and for an error to reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from math import inf, log2, sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import DEFAULT_KIND, FIGURES, KINDS, Channel, Matrix, Request, checked_gamma
from ppdm_cli.domain import MOST_VALUES, Categories
from ppdm_cli.errors import RefusedError, UsageError, argument
from ppdm_cli.estimating import DEFAULT as DEFAULT_ESTIMATOR
from ppdm_cli.estimating import Coverage, count, estimated_tables, maximum_likelihood
from ppdm_cli.privacy import believed_after, epsilon, worst_posterior
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

MOST_GAMMAS = 1 << 12
MOST_GAMMA = 1 << 30
"""The largest gamma times N that can be drawn exactly, about."""
COPIES = (1, 2, 4, 8)
"""The numbers of independent releases of the same records that are tried."""


def row(
    channel: Channel, rho1: float, records: float | None = None, prior: Floats | None = None
) -> dict[str, Any]:
    """Return the figures of one channel.

    `information` is that of one answer about the value under the prior: H(y) - H(M), in bits. `expected_error`
    is sqrt(E||Xhat - X||^2)/n, for a band under the prior, else for any X; `kang_bound` bounds sigma/||X||, but
    not for a band.
    """
    matrix, spec = channel.matrix, channel.spec
    kind = None if spec is None else spec.kind
    gamma, entropy = matrix.amplification, matrix.entropy(prior)
    figures = {
        "matrix": kind,
        "gamma": gamma,
        "N": matrix.inputs,
        "entropy": entropy,
        "entropy_share": entropy / log2(matrix.outputs),
        "information": matrix.information(prior),
        "condition_number": matrix.condition_number,
        "epsilon": epsilon(gamma),
        "staying": matrix.staying,
        **(dict.fromkeys(FIGURES) | channel.figures),
        "rho1": rho1,
        "rho2": worst_posterior(gamma, rho1),
    }
    if records:
        figures |= {"records": records, "expected_error": matrix.expected_error(records, prior) / records}
        figures["kang_bound"] = matrix.kang_bound(records)
    return figures


def of_grid(
    gammas: Sequence[Decimal],
    sizes: Sequence[int],
    *,
    rho1: float = 0.05,
    records: int | None = None,
    prior: Sequence[float] | None = None,
    kind: str = DEFAULT_KIND,
) -> list[dict[str, Any]]:
    """Return a row for every gamma and N, or the prior's size, of the channel that `perturb` would choose."""
    shares = None if prior is None else checked_prior(prior)
    if shares is not None:
        if list(sizes) not in ([], [len(shares)]):
            what = f"the prior has {len(shares)} shares, which don't fit the bins"
            step = f"leave out {argument('bins')}: the prior sets how many there are"
            raise UsageError("prior-of-another-size", what, step)
        sizes = [len(shares)]
    if len(gammas) > MOST_GAMMAS or any(n > MOST_VALUES + 1 for n in sizes):
        what = f"a grid has at most {MOST_GAMMAS} gammas, and matrices at most {MOST_VALUES} values"
        raise UsageError("too-large-a-grid", what, f"try {argument('gamma', 9)} {argument('bins', 20)}")

    def channel(gamma: Decimal, N: int) -> Channel:
        domain = Categories(pa.int64(), list(range(min(max(N, 1), MOST_VALUES))), N > MOST_VALUES)
        spec, beyond = KINDS[kind].asked("value", domain, Request(checked_gamma(gamma)))
        matrix = spec.matrix(domain)
        return Channel("value", domain, spec.published(domain, matrix, beyond), spec, matrix)

    return _without_empty([row(channel(g, n), rho1, records, shares) for g in gammas for n in sizes])


def of_release(table: Table, sidecar: Sidecar, *, rho1: float = 0.05) -> list[dict[str, Any]]:
    """Return a row for every exposure of a perturbed attribute, under the prior that the release shows."""
    release = opened(sidecar)
    if any(c.noise is not None for c in release.channels):
        what = "additive noise publishes numbers, not values of a domain, so it has no H(M)"
        raise UsageError("noise-has-no-entropy", what, "use `ppdm inspect`, which shows how wide the noise is")
    channels = [c for c in release.channels if c.attributes[0] in release.alone]
    names = [a.name for a in sidecar.perturbed if a.name not in release.alone]
    rows = [*_by_channel(table, sidecar, channels, rho1), *_by_exposure(table, sidecar, names, rho1)]
    return _without_empty(rows)


def _by_channel(
    table: Table, sidecar: Sidecar, channels: Sequence[Channel], rho1: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of channels that every record goes through."""
    observed = count(table, [(c,) for c in channels]) if channels else []
    for channel, counts in zip(channels, observed, strict=True):
        n = float(counts.sum())
        prior = maximum_likelihood(counts, [channel.matrix]) / n if n else None
        own = row(channel, rho1, n, prior)
        own["rho2"] = believed_after(sidecar.times * own["epsilon"], rho1)
        yield {"attribute": channel.name} | own


def _by_exposure(table: Table, sidecar: Sidecar, names: Sequence[str], rho1: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each exposure; gamma is of all that share a coin, and rho2 of the whole record."""
    if not names:
        return
    whole = believed_after(sidecar.times * max(d.epsilon for d in opened(sidecar).recipes), rho1)
    done, records = estimated_tables(table, sidecar, [(n,) for n in names], DEFAULT_ESTIMATOR, Coverage())
    total = sum(d.weight for d in opened(sidecar).recipes)
    for name, found in zip(names, done, strict=True):
        prior = np.maximum(found.estimate, 0) + 1e-12
        exposures: dict[tuple[Matrix, float], tuple[Channel, int]] = {}
        for recipe in (d for d in opened(sidecar).recipes if name in d.through):
            if (axis := recipe.marginal([name])) is not None:
                key = (axis.matrix, recipe.through[name].matrix.amplification)
                exposures[key] = (axis, exposures.get(key, (axis, 0))[1] + recipe.weight)
        for (_, gamma), (axis, weight) in exposures.items():
            n = records * weight / total
            own = row(axis, rho1, n, prior / prior.sum())
            own |= {"gamma": gamma, "epsilon": epsilon(gamma), "rho2": whole}
            yield {"attribute": name, "published": weight / total} | own


def _without_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    filled = {k for r in rows for k, v in r.items() if v is not None}
    return [{k: v for k, v in r.items() if k in filled} for r in rows]


def checked_prior(prior: Sequence[float]) -> Floats:
    shares = np.array(prior, float)
    if len(shares) < 2 or not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        what = "a prior is two or more shares, none of them negative"
        raise UsageError("bad-prior", what, f"try {argument('prior', '0.7,0.2,0.1')}")
    if abs(shares.sum() - 1) > 1e-6:
        what = "the shares of the prior do not sum to 1"
        raise UsageError("prior-sums-to-another", what, f"try {argument('prior', '0.7,0.2,0.1')}")
    return shares / shares.sum()


def reaching(
    error: float, records: int, sizes: Sequence[int], gamma_max: float | None, rho1: float
) -> list[dict[str, Any]]:
    """Return the designs whose expected error is at most so large, the most private first.

    With t = gamma - 1 the error is E = sqrt((N-1)(N + 2t) / (n k)) / t for k copies, so that t is the positive
    root of E^2 n k t^2 - 2 (N-1) t - (N-1) N = 0; their price together is gamma^k.
    """
    if not 0 < error < 1:
        what = "the error to reach must lie between 0 and 1"
        raise UsageError("error-out-of-range", what, f"try {argument('error', 0.01)}")
    found = []
    for N in sizes:
        for k in COPIES:
            a, b = error**2 * records * k, N - 1
            four_digits = Context(prec=4, rounding=ROUND_CEILING)  # that are not below it
            gamma = four_digits.create_decimal(repr(1 + (b + sqrt(b * b + a * b * N)) / a))
            if float(gamma) <= MOST_GAMMA / N and (gamma_max or inf) >= float(gamma) ** k:
                row = of_grid([gamma], [N], rho1=rho1, records=records)[0]
                row["expected_error"] /= sqrt(k)
                row["kang_bound"] /= sqrt(k)
                together = float(gamma) ** k
                rho2 = together * rho1 / (1 - rho1 + together * rho1)
                row |= {"copies": k, "gamma_together": together, "rho2": rho2, "epsilon": k * row["epsilon"]}
                found.append(row)
    if not found:
        raise RefusedError(
            "no-design",
            f"no design reaches an error of {error:g} with {records} records"
            + (f" and a gamma of at most {gamma_max:g}" if gamma_max else ""),
            "allow a larger error or gamma, or fewer values",
        )
    return sorted(found, key=lambda r: (r["gamma_together"], r["N"]))

"""Designs: which gamma, N and number of copies reach an error, or an accuracy that was measured.

The error is exact for a gamma-diagonal matrix, whatever the data are (maths 1); accuracies are looked up in a
table of runs, as Dowd et al. section 7 does.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from math import inf, sqrt
from typing import Any

from ppdm_cli.entropies.surfaces import of_grid
from ppdm_cli.errors import DataError, RefusedError, UsageError, quoted
from ppdm_cli.tables import loaded, open_table

MOST_GAMMA = 1 << 30
"""The largest gamma times N that can be drawn exactly, about."""
COPIES = (1, 2, 4, 8)
"""The numbers of independent releases of the same records that are tried."""

DIGITS = 9
"""A mean of runs has so many: it is not to miss an accuracy by its rounding."""


def reaching(
    error: float, records: int, sizes: Sequence[int], gamma_max: float | None, rho1: float
) -> list[dict[str, Any]]:
    """Return the designs whose expected error is at most so large, the most private first.

    With t = gamma - 1 the error is E = sqrt((N-1)(N + 2t) / (n k)) / t for k copies, so that t is the positive
    root of E^2 n k t^2 - 2 (N-1) t - (N-1) N = 0; their price together is gamma^k.
    """
    if not 0 < error < 1:
        raise UsageError("the error to reach must lie between 0 and 1", "such as --error 0.01")
    found = []
    for N in sizes:
        for k in COPIES:
            a, b = error**2 * records * k, N - 1
            gamma = _rounded_up(1 + (b + sqrt(b * b + a * b * N)) / a)
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
            f"no design reaches an error of {error:g} with {records} records"
            + (f" and a gamma of at most {gamma_max:g}" if gamma_max else ""),
            "allow a larger error or gamma, or fewer values",
        )
    return sorted(found, key=lambda r: (r["gamma_together"], r["N"]))


def _rounded_up(gamma: float) -> Decimal:
    """Return four digits that are not below it."""
    return Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(gamma))


def measured(data: Any) -> list[dict[str, Any]]:
    """Read a table of runs: the mean accuracy for each gamma and N."""
    import polars as pl

    table = open_table(data)
    columns = ["gamma", "N", "accuracy"]
    if missing := [c for c in columns if c not in table.schema.names]:
        raise DataError(
            f"the table has no column {quoted(missing[0])}", "give one with the columns gamma, N and accuracy"
        )
    parts = [pl.DataFrame(pl.from_arrow(batch)) for _, _, batch in loaded(table, columns)]
    frame = pl.concat([pl.DataFrame({c: [] for c in columns}), *parts], how="vertical_relaxed")
    frame = frame.select(pl.col(columns).cast(pl.Float64, strict=False))
    if (
        frame.is_empty()
        or frame.null_count().sum_horizontal().item()
        or not frame["N"].is_between(2, 1e6).all()
    ):
        raise DataError("the table has no runs, or a gamma, N or accuracy that isn't a number", "fix it")
    means = (
        frame.group_by("gamma", pl.col("N").cast(pl.Int64))
        .agg(pl.col("accuracy").mean().round(DIGITS))
        .sort("gamma", "N")
    )
    return means.to_dicts()


def best(
    runs: list[dict[str, Any]], gammas: Sequence[float] | None, at_least: float | None, gamma_max: float | None
) -> list[dict[str, Any]]:
    """Return the designs to choose from, the paper's choice first.

    Without an accuracy to reach (its section 7.1): for each gamma the N of the highest accuracy, and of these
    the smallest N. With one (7.2): of all designs that reach it, or else have the highest accuracy there is,
    those with a gamma that is allowed; of these the smallest N, then the smallest gamma.
    """
    allowed = [r for r in runs if (gammas is None or r["gamma"] in gammas) and r["gamma"] <= (gamma_max or inf)]
    if at_least is None:
        tops = {
            g: max((r for r in allowed if r["gamma"] == g), key=lambda r: r["accuracy"])
            for g in dict.fromkeys(r["gamma"] for r in allowed)
        }
        found = list(tops.values())
    else:
        enough = min(at_least, max(r["accuracy"] for r in runs))
        found = [r for r in allowed if r["accuracy"] >= enough]
    if not found:
        raise RefusedError("no run of the table fits these gammas and this accuracy", "allow more, or run more")
    return sorted(found, key=lambda r: (r["N"], r["gamma"]))

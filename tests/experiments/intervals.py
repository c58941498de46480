"""Do the intervals cover what they say? Coverage by table, matrices, gamma and number of records.

The truths are drawn from counts of Adult, without replacement, or are tables that are hard: all records in
cells of their own rows and columns. Published counts are drawn from a truth exactly, so that only `intervals`
itself is measured. Beside the plug-in of the variance that is used, the most likely counts, stand two others.
A cell of true count 0 can be missed on one side only, so that 97.5 % are to be expected there.

Last, how often simultaneous intervals of a table crossed with a kept column hold all of its counts, in releases
of 4,000 records with three kept values and four others: of all cells together, 95 in 100 times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import estimate, perturb
from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Matrix
from ppdm_cli.channels.additive import Additive
from ppdm_cli.channels.band import Band, best_half_width
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.domain import Bins
from ppdm_cli.estimating.estimators import (
    Coverage,
    Interval,
    Matrices,
    intervals,
    inverse,
    maximum_likelihood,
    set_scale,
)
from tests.experiments.common import DATA, saved

RELEASES = 1_000
PLUG_INS = {"ml": maximum_likelihood, "set-scale": set_scale, "inverse": inverse}
SPREAD = (0.95 * 0.05) ** 0.5


@dataclass(frozen=True)
class Case:
    """A table of so many records, and the matrix of each axis: gamma-diagonal, band, noise, or kept."""

    table: str
    records: int
    gamma: float
    kinds: tuple[str, ...]

    def matrices(self, shape: Sequence[int]) -> list[Matrix | None]:
        return [self._matrix(kind, N) for kind, N in zip(self.kinds, shape, strict=True)]

    def _matrix(self, kind: str, N: int) -> Matrix | None:
        gamma = Decimal(str(self.gamma))
        if kind == "kept":
            return None
        if kind == "noise":  # uniform; its standard deviation is 1 / gamma of the domain
            import pyarrow as pa

            extents = Bins(pa.float64(), np.linspace(0, 1, N + 1).tolist(), False).extents()
            return Additive("uniform", 1 / self.gamma, extents)
        b = best_half_width(gamma, N) if kind == "band" else 0
        return Band.of(gamma, N, b) if b else GammaDiagonal(gamma, N)

    @property
    def truth(self) -> np.ndarray:
        whole = counts(self.table)
        if whole.sum() <= self.records:
            return whole
        rng = np.random.default_rng(self.records)
        return rng.multivariate_hypergeometric(whole.ravel(), self.records).reshape(whole.shape)


GD, BAND, KEPT, NOISE = "gamma-diagonal", "band", "kept", "noise"
CASES = [
    Case("education x native_country", 10_000, 2, (GD, GD)),
    Case("sex x workclass", 200, 2, (GD, GD)),
    Case("education x occupation", 2_000, 3, (GD, GD)),
    Case("education x occupation", 20_000, 2, (GD, GD)),
    Case("education x native_country", 20_000, 5, (GD, GD)),
    Case("education x occupation", 20_000, 1.5, (GD, GD)),
    Case("education x native_country", 5_500, 1.5, (GD, GD)),
    Case("class x education", 5_000, 1.5, (GD, GD)),
    Case("class x native_country", 1_000, 2, (GD, GD)),
    Case("class x native_country", 5_000, 5, (GD, GD)),
    Case("class x native_country", 5_000, 2, (KEPT, GD)),
    Case("race x education x marital_status", 20_000, 3, (GD, GD, GD)),
    Case("education", 2_000, 1.5, (GD,)),
    Case("occupation", 150, 19, (GD,)),
    Case("age in 20", 1_000, 2, (BAND,)),
    Case("age in 100", 1_000, 2, (BAND,)),
    Case("age in 100", 1_000, 9, (BAND,)),
    Case("capital_gain in 100", 1_000, 9, (BAND,)),
    Case("capital_gain in 100", 5_000, 5, (BAND,)),
    Case("hours_per_week in 20 x age in 20", 20_000, 2, (BAND, BAND)),
    Case("hours_per_week in 20 x age in 20", 20_000, 5, (BAND, BAND)),
    Case("hours_per_week in 20 x age in 20", 20_000, 5, (KEPT, BAND)),
    Case("diagonal of 20 x 20", 5_000, 2, (GD, GD)),
    Case("diagonal of 20 x 20", 5_000, 9, (GD, GD)),
    Case("diagonal of 20 x 20", 5_000, 9, (BAND, BAND)),
    Case("age in 20", 5_000, 10, (NOISE,)),
    Case("hours_per_week in 20 x age in 20", 20_000, 20, (NOISE, NOISE)),
]


@cache
def counts(table: str) -> np.ndarray:
    """How often each cell occurs; those of Adult are in tests/data."""
    if table.startswith("diagonal"):
        weights = 1 / np.arange(1, 21)
        return np.diag(np.floor(5_000 * weights / weights.sum()).astype(int))
    found = json.loads((DATA / "adult_counts.json").read_text())[table]
    return np.array(found["counts"]).reshape(found["shape"])


def releases(truth: np.ndarray, matrices: Matrices, rng: np.random.Generator, times: int) -> Floats:
    """Published counts of many releases, exactly: records go through the matrices one axis after the other."""
    table = np.broadcast_to(truth, (times, *truth.shape))
    for axis, matrix in enumerate(matrices, 1):
        if matrix is not None:
            law = matrix.dense() / matrix.dense().sum(axis=0)
            moved = np.moveaxis(table, axis, 0)
            out = sum(np.moveaxis(rng.multinomial(n, p), -1, 0) for n, p in zip(moved, law.T, strict=True))
            table = np.moveaxis(np.asarray(out), 0, axis)
    return table.astype(np.float64)


def covered(found: Interval, truth: np.ndarray) -> Floats:
    """The share of releases whose interval holds a cell; NaN where hardly any prints one."""
    printed = ~np.isnan(found.low)
    holds = printed & (found.low <= truth + 1e-6) & (truth <= found.high + 1e-6)
    often = printed.mean(axis=0) > 0.5
    return np.where(often, holds.sum(axis=0) / np.maximum(printed.sum(axis=0), 1), np.nan)


def beyond(share: Floats, truth: np.ndarray, times: int) -> int:
    """How many cells are covered too little or too often, by 3 binomial standard deviations."""
    three = 3 * SPREAD / times**0.5
    low, high = np.where(truth > 0, 0.94, 0.97) - three, np.where(truth > 0, 0.96, 0.98) + three
    return int(((share < low) | (share > high)).sum())


def one(case: Case, plug_in: str, times: int, seed: int = 1) -> dict[str, Any]:
    truth = case.truth
    matrices = case.matrices(truth.shape)
    observed = releases(truth, matrices, np.random.default_rng(seed), times)
    laws = [None, *matrices]
    found = intervals(observed, laws, Coverage(), PLUG_INS[plug_in](observed, laws))
    share = covered(found, truth)
    some, none = share[(truth > 0) & ~np.isnan(share)], share[(truth == 0) & ~np.isnan(share)]
    return {
        "table": case.table, "records": int(truth.sum()), "gamma": case.gamma, "matrices": " ".join(case.kinds),
        "plug-in": plug_in, "cells": truth.size, "printed": 1 - np.isnan(found.low).mean(),
        "covered": some.mean() if some.size else np.nan, "least": some.min(initial=1),
        "most": some.max(initial=0), "of 0": none.mean() if none.size else np.nan,
        "beyond": beyond(share, truth, times),
    }  # fmt: skip


DESIGNS: dict[str, dict[str, Any]] = {
    "gamma 5": {"gamma": 5},
    "recipes": {"record_epsilon": 4, "publish": 2},
    "rounds": {"record_epsilon": 4, "publish": "auto", "rounds": 3, "class_": "ward"},
}
CROSSED, KEPT_RECORDS = 250, 4_000


def people(seed: int) -> pl.DataFrame:
    """Records of three wards, of which the grade depends on the ward."""
    rng = np.random.default_rng([seed, 77])
    ward = rng.choice(["u", "v", "w"], KEPT_RECORDS, p=[0.5, 0.3, 0.2])
    grades = [rng.choice(4, KEPT_RECORDS, p=p) for p in ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])]
    others = {name: rng.choice(["x", "y", "z"], KEPT_RECORDS) for name in "bcd"}
    return pl.DataFrame({"ward": ward, "grade": np.where(ward == "u", *grades), **others})


def crossed(design: str) -> dict[str, Any]:
    """Of releases by a design, the share in which all counts by ward are in simultaneous intervals."""
    domains: dict[str, Any] = {"grade": {"domain": [0, 3]}, **{n: {"domain": "x|y|z"} for n in "bcd"}}
    held: dict[str, list[bool]] = {"together": [], "alone": []}
    for seed in range(1, 1 + CROSSED):
        table = people(seed)
        release = perturb(
            table, keep=["ward"], attributes=domains, seed=seed, keep_order=True, **DESIGNS[design]
        )
        for how, hits in held.items():
            frame = estimate(release.frame, sidecar=release.sidecar, attributes=["grade"], by="ward",
                             simultaneous=how == "together", truth=table).frame  # fmt: skip
            low, true, high = (frame[name].to_numpy() for name in ("low", "true", "high"))
            hits.append(bool(((low - 1e-6 <= true) & (true <= high + 1e-6)).all()))
    return {"design": design, **{how: float(np.mean(hits)) for how, hits in held.items()}}


def main() -> None:
    saved("intervals_crossed", pl.DataFrame([crossed(design) for design in DESIGNS]), digits=3)
    rows = [one(case, plug_in, RELEASES) for case in CASES for plug_in in PLUG_INS]
    saved("intervals", pl.DataFrame(rows), digits=3)


if __name__ == "__main__":
    main()

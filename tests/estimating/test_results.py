"""Intervals under additive noise: none that contradict their own estimate, and never any without a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import estimate, perturb

NOISE: dict[str, Any] = {
    "scheme": "additive",
    "noise": "uniform",
    "sd": "5%",
    "bins": 20,
    "keep_order": True,
    "seed": 1,
}


def hours(n: int = 10_000) -> pl.DataFrame:
    """Working hours as people tell them, in tens; and the same spread evenly."""
    rng = np.random.default_rng(1)
    told = np.clip(rng.normal(40, 12, n), 0, 99.9)
    return pl.DataFrame({"heaped": told.round(-1), "even": rng.random(n) * 100})


@pytest.fixture(scope="module")
def noisy() -> Any:
    plan = {n: {"domain": [0, 100]} for n in ("heaped", "even")}
    return perturb(hours(), attributes=plan, **NOISE)


@pytest.mark.parametrize("estimator", ["ml", "inverse", "set-scale", "simplex"])
def test_intervals_are_of_all_values_or_of_none(noisy: Any, estimator: str) -> None:
    done = estimate(noisy.frame, sidecar=noisy.sidecar, estimator=estimator, truth=hours())
    heaped, even = done.tables
    for kind in ("std_error", "low", "high"):
        assert np.isnan(getattr(heaped.interval, kind)).all()
        rows = done.frame.filter(pl.col("attribute") == "heaped")
        assert rows[kind].null_count() == len(rows)
    assert not np.isnan(even.interval.low).any() and not even.interval.without(np.maximum(even.estimate, 0))
    assert even.truth is not None and even.interval.without(even.truth) <= 3
    said = " ".join(done.remarks)
    assert "No intervals for heaped: some would exclude their own estimate, so none can be trusted." in said
    assert "The intervals for even hold if the originals are spread evenly" in said


def test_by_class_and_jointly_too() -> None:
    data = hours().with_columns(group=pl.Series(["A", "B"] * 5_000))
    plan = {n: {"domain": [0, 100], "bins": 10} for n in ("heaped", "even")}
    hidden = perturb(data, attributes=plan, **NOISE | {"sd": "10%"}, class_="group", keep=["group"])
    by = estimate(hidden.frame, sidecar=hidden.sidecar, by="group")
    joint = estimate(hidden.frame, sidecar=hidden.sidecar, joint=["heaped", "even"])
    for table in (by.tables[0], joint.tables[0]):
        assert np.isnan(table.interval.low).all(), table.name


def test_estimates_outside_their_intervals_are_told_of() -> None:
    """Of a gamma-diagonal matrix the intervals are right: it is the likeliest counts that are not unbiased."""
    rng = np.random.default_rng(3)
    shares = np.array([0.9] + [0.1 / 199] * 199)
    data = pl.DataFrame({"icd": rng.choice(200, 20_000, p=shares).astype(str)})
    domain = {"icd": {"categories": [str(i) for i in range(200)]}}
    release = perturb(data, gamma=2, attributes=domain, seed=1)
    done = estimate(release.frame, sidecar=release.sidecar)
    outside = done.tables[0].interval.without(done.tables[0].estimate)
    assert outside and done.remarks[0].startswith(
        f"Estimates outside their interval: icd ({outside}). Intervals belong"
    )
    plain = estimate(release.frame, sidecar=release.sidecar, estimator="inverse")
    below = int((plain.tables[0].estimate < -0.5).sum())
    said = f"Estimates outside their interval: icd ({below}). Unbiased estimates may be below 0, and"
    assert plain.remarks[0].startswith(said)

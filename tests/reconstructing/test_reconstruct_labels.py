"""A perturbed class that is drawn jointly, kept ones, and attributes that the model lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import estimate, perturb, reconstruct, running
from ppdm_cli.tables import base


def lettered(labels: int, n: int = 12_000, nulls: bool = False) -> pl.DataFrame:
    """A skewed class in order, and attributes that tell of it."""
    rng = np.random.default_rng([labels, n])
    shares = 0.8 ** np.arange(labels) if labels > 2 else np.array([0.9, 0.1])
    y = rng.choice(labels, n, p=shares / shares.sum())
    data = {
        f"x{j}": np.clip(np.round(y * s + rng.normal(0, 1.5, n)), 0, 11) for j, s in enumerate((0.4, 0.8, 0.2))
    }
    frame = pl.DataFrame(data).cast(pl.Int64).with_columns(y=pl.Series(y))
    some = pl.Series(np.random.default_rng(11).random(n) < 1 / 11)
    return frame.with_columns(pl.when(some).then(None).otherwise("y").alias("y")) if nulls else frame


PLAN: dict[str, Any] = {f"x{j}": {"domain": [0, 11], "bins": 12} for j in range(3)}


def test_a_reconstruction_has_the_same_totals_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    label = {"class_": "y", "attributes": PLAN, "rare": "publish"}
    release = perturb(lettered(5, nulls=True), gamma=5, seed=4, **label)  # type: ignore[arg-type]
    monkeypatch.setattr(base, "MOST_ROWS", 1_024)
    with running(threads=1):
        once = reconstruct(release.frame, sidecar=release.sidecar)
    with running(threads=2):
        twice = reconstruct(release.frame, sidecar=release.sidecar)
    assert once.how.method == "joint" and once.frame.equals(twice.frame)
    wanted = estimate(release.frame, sidecar=release.sidecar, attributes=["y"]).tables[0].estimate
    assert once.totals == twice.totals and set(once.totals) == {"x0", "x1", "x2", "y"}
    found = np.bincount(once.frame["y"].fill_null(5), minlength=6)
    assert once.totals["y"] == found.tolist()
    assert (np.abs(found - wanted) < 3 * np.sqrt(wanted)).all()


def test_a_kept_class_is_as_it_was() -> None:
    data = lettered(5)
    release = perturb(data, gamma=9, keep=["y"], class_="y", attributes=PLAN, seed=4)
    done = reconstruct(release.frame, sidecar=release.sidecar)
    assert done.how.method == "joint" and done.frame["y"].equals(data["y"])


def test_kept_columns_are_evidence_while_what_the_model_lacks_is_dealt() -> None:
    data = lettered(2, 3_000).with_columns(wide=pl.Series(np.random.default_rng(3).integers(0, 100_000, 3_000)))
    plan = {n: PLAN[n] for n in ("x0", "x2")} | {"wide": {"bins": 2_000, "domain": "0:100000"}}
    release = perturb(data, gamma=19, keep=["x1"], class_="y", attributes=plan, seed=4, rare="publish")
    done = reconstruct(release.frame, sidecar=release.sidecar)
    assert done.how.method == "joint" and done.drawn == ["x0", "x2"] and done.frame["x1"].equals(data["x1"])
    assert set(done.totals) == {"x0", "x2", "y", "wide"}

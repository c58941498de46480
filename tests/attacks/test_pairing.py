"""--truth with what is not the original: the release itself, a copy of it, a reconstruction, other records."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import MismatchError, Release, attack, estimate, perturb, reconstruct
from tests.vocabulary import Run

ROWS = 4000


def people(rows: int = ROWS, seed: int = 1, older: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": np.clip(rng.normal(45 + older, 12, rows), 18, 89).astype(int),
            "sex": rng.choice(["F", "M"], rows, p=[0.5, 0.5]).tolist(),
            "smoker": rng.choice(["no", "yes"], rows, p=[0.9, 0.1]).tolist(),
            "site": rng.choice(["A", "B"], rows).tolist(),
        }
    )


def released(data: pl.DataFrame, **settings: Any) -> Release:
    domains: dict[str, Any] = {"age": {"domain": [10, 90], "bins": 8}}
    own = {"gamma": 9, "keep": ["site"], "keep_order": True, "attributes": domains, "seed": 3}
    return perturb(data, **own | settings)


@pytest.fixture(scope="module")
def release() -> Release:
    return released(people())


def test_the_release_itself_is_not_its_truth(release: Release) -> None:
    frame = release.frame
    asked: list[dict[str, Any]] = [
        {}, {"attributes": ["age"]}, {"joint": ["age", "smoker"]}, {"by": "site"}, {"by": "smoker"},
        {"joint": ["sex", "site"], "estimator": "inverse"}, {"population": True}, {"level": 0.5},
    ]  # fmt: skip
    for truth in (frame, frame.sample(fraction=1, shuffle=True, seed=2), frame.select(sorted(frame.columns))):
        for settings in asked:
            if settings.get("joint") == ["sex", "site"]:  # four counts may be equal by chance
                said = estimate(frame, sidecar=release.sidecar, truth=truth, **settings).remarks
                assert any("may be the release itself" in r for r in said)
                continue
            with pytest.raises(MismatchError, match="truth= names the release itself: its counts"):
                estimate(frame, sidecar=release.sidecar, truth=truth, **settings)
    for attacks in ([], ["posterior"], ["record"], ["known"], ["audit"]):
        with pytest.raises(MismatchError, match="truth= names the release itself: its values"):
            attack(frame, sidecar=release.sidecar, truth=frame, attacks=attacks)


def test_any_path_to_the_release_is_refused(ppdm: Run, tmp_path: Path) -> None:
    people().write_csv(tmp_path / "people.csv")
    settings = ("--gamma", "9", "--keep", "site", "--keep-order", "--domain", "age=10:90")
    ppdm("perturb", "people.csv", "-o", "release.csv", *settings)
    shutil.copy(tmp_path / "release.csv", tmp_path / "copy.csv")
    os.link(tmp_path / "release.csv", tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(tmp_path / "release.csv")
    pl.read_csv(tmp_path / "release.csv").write_parquet(tmp_path / "copy.parquet")
    for name in ("copy.csv", "hard.csv", "soft.csv", "copy.parquet", "release.csv"):
        for command in ("estimate", "attack"):
            said = ppdm(command, "release.csv", "--truth", name, code=3).stderr.decode()
            assert "the release's own original" in said and said.count("\n") == 1
    assert b"E, the paper's error" in ppdm("estimate", "release.csv", "--truth", "people.csv").stdout


def remarks(release: Release, truth: pl.DataFrame, **settings: Any) -> str:
    return " ".join(estimate(release.frame, sidecar=release.sidecar, truth=truth, **settings).remarks)


@pytest.mark.parametrize("method", ["global", "by-class"])
def test_a_reconstruction_is_not_taken_for_the_truth(method: Any) -> None:
    release = released(people(), class_="site", seed=1)  # no estimate is below 0 there
    usable = reconstruct(release.frame, sidecar=release.sidecar, method=method).frame
    by = {} if method == "global" else {"by": "site"}
    assert "they may be a reconstruction's" in remarks(release, usable, **by)
    assert "true counts" not in remarks(release, people(), **by)


def test_other_records_do_not_fit(release: Release) -> None:
    said = remarks(release, people(seed=2, older=8))
    assert "The true counts of age don't fit" in said
    copies = [perturb(people(), gamma=9, drop=["age", "site"], seed=s, keep_order=True) for s in (1, 2)]
    assert "The true counts of smoker don't fit" in remarks(copies[0], copies[1].frame)


@pytest.mark.parametrize("estimator", ["ml", "inverse", "simplex", "set-scale"])
def test_an_original_is_never_doubted(estimator: str) -> None:
    """Each run doubts an original with a chance of about 1e-9: none of these may."""
    for seed in range(12):
        rows = [40, 400, 4000][seed % 3]
        data = people(rows, seed).drop(["smoker"] * (rows < 4000))
        made = released(data, seed=seed, gamma=[1.5, 9, 1000, 10**6][seed % 4], bins=[2, 10][seed % 2])
        for settings in ({}, {"attributes": ["sex"]}, {"by": "site"}, {"level": 0.5, "population": True}):
            said = remarks(made, data, estimator=estimator, **settings)
            if "may be the release itself" in said:
                assert rows * 3 < 2000 or seed % 4 > 1, "few values change there"
            else:
                assert "true counts" not in said, (seed, settings, said)


def test_a_table_that_did_not_change_is_its_own_truth() -> None:
    """At a gamma at which nothing changes the original equals the release, and nothing is said of that."""
    data = people(200)
    made = released(data.drop("age"), gamma=10**9, attributes={})
    assert made.frame.equals(data.drop("age"))
    assert "true counts" not in remarks(made, data)
    attack(made.frame, sidecar=made.sidecar, truth=data.drop("age"), attacks=["posterior"])

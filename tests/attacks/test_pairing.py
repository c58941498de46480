"""An original that is none: the release itself, a copy of it, a reconstruction, other rows or records."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import Release, attack, estimate, reconstruct
from tests.vocabulary import Run, raises, released, table

SETTINGS: dict[str, Any] = {"keep": ["site"], "attributes": {"age": {"domain": [10, 90], "bins": 8}}, "seed": 3}


def private(rows: int = 4000, seed: int = 1, older: int = 0) -> pl.DataFrame:
    def age(rng: np.random.Generator, _: Any) -> np.ndarray:
        return np.clip(rng.normal(45 + older, 12, rows), 18, 89).astype(int)

    shares = {"no": 0.9, "yes": 0.1}
    return table(rows, seed, age=age, sex=["F", "M"], smoker=shares, site=["A", "B"])


@pytest.fixture(scope="module", params=[{}, {"record_epsilon": 4, "publish": 2}], ids=["whole", "recipes"])
def release(request: pytest.FixtureRequest) -> Release:
    return released(private(), **SETTINGS, **request.param)


def remarks(release: Release, truth: pl.DataFrame, **settings: Any) -> str:
    return " ".join(estimate(release.frame, sidecar=release.sidecar, truth=truth, **settings).remarks)


@pytest.mark.parametrize("what", ["rows", "records", "kept"])
def test_rows_that_do_not_pair_are_refused(release: Release, what: str) -> None:
    frame, truth = release.frame, private()
    if what == "rows":
        frame = frame.sample(fraction=1, shuffle=True, seed=1)
    elif what == "records":
        truth = private(seed=9).with_columns(truth["site"])
    else:
        truth = truth.with_columns(truth["site"].reverse())
    with raises("rows-do-not-pair"):
        attack(frame, sidecar=release.sidecar, truth=truth)


@pytest.mark.parametrize("attacks", [[], ["posterior"], ["record"], ["audit"]])
def test_the_release_itself_is_not_what_it_is_attacked_with(attacks: list[str]) -> None:
    made = released(private(), **SETTINGS)
    with raises("original-is-release"):
        attack(made.frame, sidecar=made.sidecar, truth=made.frame, attacks=attacks)


@pytest.mark.parametrize(
    "settings", [{}, {"attributes": ["age"]}, {"joint": ["age", "smoker"]}, {"by": "smoker"}, {"level": 0.5}]
)
def test_the_release_itself_is_not_its_truth(settings: dict[str, Any]) -> None:
    made = released(private(), **SETTINGS)
    for truth in (made.frame, made.frame.sample(fraction=1, shuffle=True, seed=2)):
        with raises("truth-is-the-release"):
            remarks(made, truth, **settings)
    four = {"joint": ["sex", "site"], "estimator": "inverse"}  # four counts may be equal by chance
    assert "may be the release itself" in remarks(made, made.frame, **four)


def test_any_path_to_the_release_is_refused(ppdm: Run, tmp_path: Path) -> None:
    private().write_csv(tmp_path / "people.csv")
    settings = ("--gamma", "9", "--keep", "site", "--keep-order", "--domain", "age=10:90")
    ppdm("perturb", "people.csv", "-o", "release.csv", *settings)
    shutil.copy(tmp_path / "release.csv", tmp_path / "copy.csv")
    os.link(tmp_path / "release.csv", tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(tmp_path / "release.csv")
    pl.read_csv(tmp_path / "release.csv").write_parquet(tmp_path / "copy.parquet")
    for name in ("copy.csv", "hard.csv", "soft.csv", "copy.parquet", "release.csv"):
        for command in ("estimate", "attack"):
            assert ppdm(command, "release.csv", "--truth", name, code=3).stderr.count(b"\n") == 1


@pytest.mark.parametrize("method", ["global", "by-class"])
def test_a_reconstruction_is_not_taken_for_the_truth(method: Any) -> None:
    made = released(private(), **SETTINGS | {"class_": "site", "seed": 1})  # no estimate is below 0 there
    usable = reconstruct(made.frame, sidecar=made.sidecar, method=method).frame
    by = {} if method == "global" else {"by": "site"}
    assert "they may be a reconstruction's" in remarks(made, usable, **by)
    assert "true counts" not in remarks(made, private(), **by)


def test_other_records_do_not_fit(release: Release) -> None:
    assert "the true counts of age don't fit" in remarks(release, private(seed=2, older=8))


@pytest.mark.parametrize("estimator", ["ml", "inverse", "simplex", "set-scale"])
def test_an_original_is_never_doubted(estimator: str) -> None:
    """Each run doubts an original with a chance of about 1e-9: none of these may."""
    for seed in range(12):
        rows = [40, 400, 4000][seed % 3]
        data = private(rows, seed).drop(["smoker"] * (rows < 4000))
        own = {"seed": seed, "gamma": [1.5, 9, 1000, 10**6][seed % 4], "bins": [2, 10][seed % 2]}
        made = released(data, **SETTINGS | own)
        for settings in ({}, {"attributes": ["sex"]}, {"by": "site"}, {"level": 0.5, "population": True}):
            said = remarks(made, data, estimator=estimator, **settings)
            if "may be the release itself" in said:
                assert rows * 3 < 2000 or seed % 4 > 1, "few values change there"
            else:
                assert "true counts" not in said, (seed, settings, said)


def test_a_table_that_did_not_change_is_its_own_truth() -> None:
    """At a gamma at which nothing changes the original equals the release, and nothing is said of that."""
    data = private(200).drop("age")
    made = released(data, gamma=10**9, keep=["site"], seed=3)
    assert made.frame.equals(data) and "true counts" not in remarks(made, data)
    attack(made.frame, sidecar=made.sidecar, truth=data, attacks=["posterior"])


@pytest.mark.parametrize("rows", [1, 2])
def test_rows_taken_find_a_persons_release_in_its_original(tmp_path: Path, ppdm: Run, rows: int) -> None:
    """Only with them do a release and its original pair; the file is the owner's alone, and of one release."""
    private(6000).with_columns(who=pl.int_range(6000) * 7 % 2500).write_csv(tmp_path / "o.csv")
    perturbs = ("--gamma", "9", "--keep", "site", "--person", "who", "--rows-per-person", rows, "--keep-order")
    ppdm("perturb", "o.csv", "-o", "r.csv", *perturbs, "--rows-taken", "taken")
    ppdm("perturb", "o.csv", "-o", "other.csv", *perturbs)
    assert (tmp_path / "taken").stat().st_mode & 0o777 == 0o600
    numbers = [*map(int, (tmp_path / "taken").read_text().splitlines()[1:])]
    original = pl.read_csv(tmp_path / "o.csv")[[n - 1 for n in numbers]]
    assert original["site"].to_list() == pl.read_csv(tmp_path / "r.csv")["site"].to_list()
    assert original["who"].value_counts()["count"].max() == rows
    made, truth = tmp_path / "r.csv", ("--truth", "o.csv")
    told = estimate(made, truth=tmp_path / "o.csv", rows_taken=tmp_path / "taken", attributes="sex").frame
    assert told["true"].to_list() == [(original["sex"] == v).sum() for v in ("F", "M")]
    ppdm("attack", "r.csv", *truth, "--rows-taken", "taken")
    assert b"--rows-taken FILE" in ppdm("attack", "r.csv", *truth, code=3).stderr
    assert b"another release" in ppdm("estimate", "other.csv", *truth, "--rows-taken", "taken", code=3).stderr
    pl.read_csv(tmp_path / "o.csv").head(max(numbers) - 1).write_csv(tmp_path / "cut.csv")
    cut = ppdm("estimate", "r.csv", "--truth", "cut.csv", "--rows-taken", "taken", code=3).stderr.decode()
    assert f"has {max(numbers) - 1:,} records, but 'taken' lists row {max(numbers):,}" in cut
    head, first, second, *rest = (tmp_path / "taken").read_text().splitlines()
    for edited in (["0", second], [first, first], [second, first], ["9" * 30, second], ["one", second]):
        (tmp_path / "edited").write_text("\n".join([head, *edited, *rest]))
        assert b"does not list" in ppdm("estimate", "r.csv", *truth, "--rows-taken", "edited", code=2).stderr
    ppdm("estimate", "r.csv", "--rows-taken", "taken", code=2)
    ppdm("estimate", "r.csv", *truth, "--rows-taken", "o.csv", code=2)
    ppdm("perturb", "o.csv", "-o", "x.csv", "--gamma", "9", "--rows-taken", "y", code=2)
    assert not (tmp_path / "y").exists() and not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("person", [True, False])
@pytest.mark.parametrize("key", [True, False])
def test_rows_taken_pair_a_shuffled_release_with_its_original(
    person: bool, key: bool, tmp_path: Path, ppdm: Run
) -> None:
    """The list is in the release's order, whatever the coins are addressed by."""
    rows = pl.int_range(6000)
    private(6000).with_columns(id=rows, who=rows * 7 % 2500).write_csv(tmp_path / "o.csv")
    perturbs = ["--gamma", "9", "--keep", "site", "--shuffle", "--rows-taken", "taken"]
    perturbs += ["--person", "who", "--rows-per-person", "1"] if person else ["--drop", "who"]
    perturbs += ["--key-file", "key", "--id", "id"] if key else ["--drop", "id"]
    ppdm("perturb", "o.csv", "-o", "r.csv", *perturbs)
    numbers = [int(n) - 1 for n in (tmp_path / "taken").read_text().splitlines()[1:]]
    original, release = pl.read_csv(tmp_path / "o.csv")[numbers], pl.read_csv(tmp_path / "r.csv")
    assert numbers != sorted(numbers) and len(numbers) == (2500 if person else 6000)
    assert original["site"].to_list() == release["site"].to_list()
    truth = ("--truth", "o.csv", "--with", "posterior", "--json")
    found = json.loads(ppdm("attack", "r.csv", *truth, "--rows-taken", "taken").stdout)["attacks"]
    sex = next(r for r in found if r["attribute"] == "sex")
    assert sex["exact"] == pytest.approx(0.9, abs=0.03), "gamma 9 keeps 90% of two values"
    assert b"--rows-taken FILE" in ppdm("attack", "r.csv", *truth, code=3).stderr

"""Kept columns in estimates: crossed with perturbed ones, exact along their own axis."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from ppdm_cli import Release, estimate, perturb
from ppdm_cli.releases import read_sidecar
from tests.vocabulary import Run, raises

ROWS = 6_000


@pytest.fixture(scope="module")
def original() -> pl.DataFrame:
    """Husbands are men; a number, a date, a name for each record and an empty column stay as they are."""
    rng = np.random.default_rng(1)
    sex = rng.choice(["woman", "man"], ROWS)
    relationship = np.where(rng.random(ROWS) < 0.5, "none", np.where(sex == "man", "husband", "wife"))
    age = rng.integers(17, 91, ROWS)
    return pl.DataFrame(
        {
            "relationship": relationship,
            "smoker": rng.choice(["no", "yes"], ROWS),
            "sex": sex,
            "age": pl.Series(age).cast(pl.Int32),
            "weight": pl.Series(rng.normal(70, 10, ROWS)).set(pl.Series(age < 20), None),
            "since": [date(2000 + int(a) % 20, 1 + int(a) % 12, 1) for a in age],
            "name": [f"n{i}" for i in range(ROWS)],
            "empty": pl.Series([None] * ROWS, dtype=pl.String),
        }
    )


KEPT = ["sex", "age", "weight", "since", "name", "empty"]


@pytest.fixture(scope="module")
def release(original: pl.DataFrame) -> Release:
    return perturb(original, gamma=5, keep=KEPT, shuffle=True, seed=1)


def estimated(release: Release, **wishes: Any) -> pl.DataFrame:
    return estimate(release.frame, sidecar=release.sidecar, **wishes).frame


def test_what_no_woman_is_is_estimated_as_nothing(release: Release, original: pl.DataFrame) -> None:
    found = estimated(release, joint=["relationship", "sex"], truth=original)
    assert found.columns[:2] == ["relationship", "sex"] and len(found) == 6
    assert (found["low"] <= found["true"]).all() and (found["true"] <= found["high"]).all()
    husbands = found.filter((pl.col("relationship") == "husband") & (pl.col("sex") == "woman"))
    assert husbands["true"].item() == 0 and husbands["estimate"].item() < 120


@pytest.mark.parametrize("estimator", ["inverse", "set-scale", "simplex", "ml"])
def test_counts_along_a_kept_column_are_exact(estimator: str, release: Release, original: pl.DataFrame) -> None:
    found = estimated(release, by="sex", attributes=["relationship"], estimator=estimator)
    true = dict(original["sex"].value_counts().rows())
    assert {k: round(v, 6) for k, v in found.group_by("class").agg(pl.col("estimate").sum()).rows()} == true
    assert found["class"].unique(maintain_order=True).to_list() == ["man", "woman"]
    alone = estimate(_only(release, "woman"), sidecar=_few(release, "woman"))
    women = alone.frame.filter(pl.col("attribute") == "relationship")
    expected = found.filter(pl.col("class") == "woman")
    if estimator == "ml":
        assert women["estimate"].to_list() == pytest.approx(expected["estimate"].to_list())
        assert women["high"].to_list() == pytest.approx(expected["high"].to_list())


def _only(release: Release, sex: str) -> pl.DataFrame:
    assert release.frame is not None
    return release.frame.filter(pl.col("sex") == sex)


def _few(release: Release, sex: str) -> Any:
    return msgspec.structs.replace(release.sidecar, records=_only(release, sex).height)


def test_a_listed_class_and_a_kept_column_are_the_same(release: Release, original: pl.DataFrame) -> None:
    named = perturb(original, gamma=5, keep=KEPT, class_="sex", keep_order=True, seed=2)
    plain = perturb(original, gamma=5, keep=KEPT, keep_order=True, seed=2)
    assert not plain.sidecar.by_name["sex"].has_domain and named.sidecar.by_name["sex"].has_domain
    assert estimated(named, by="sex").equals(estimated(plain, by="sex"))


def test_numbers_are_binned_on_request(release: Release, original: pl.DataFrame) -> None:
    found = estimated(release, by="age", attributes=["smoker"], bins=5)
    bins = found["class"].unique(maintain_order=True).to_list()
    assert bins == ["[0, 20)", "[20, 40)", "[40, 60)", "[60, 80)", "[80, 100]"]
    assert found.filter(pl.col("class") == "[20, 40)")["estimate"].sum() == pytest.approx(
        original["age"].is_between(20, 39).sum()
    )
    assert estimated(release, by="age", attributes=["smoker"])["class"].n_unique() == original["age"].n_unique()
    weights = estimated(release, joint=["weight", "smoker"], bins=4)["weight"].unique(maintain_order=True)
    assert weights[-1] == "null" and 3 <= len(weights) <= 5
    dates = estimated(release, joint=["since", "smoker"], bins=4)["since"].unique(maintain_order=True)
    assert 2 <= len(dates) <= 4 and dates[0].startswith("[")


@pytest.mark.parametrize(
    ("wishes", "id"),
    [
        ({"by": "name"}, "too-many-kept-values"),
        ({"by": "weight"}, "too-many-kept-values"),
        ({"by": "empty"}, "no-values"),
        ({"by": "sex", "bins": 5}, "bins-not-usable"),
        ({"by": "age", "bins": 1}, "bins-not-usable"),
        ({"by": "relationship", "bins": 5}, "bins-not-usable"),
        ({"joint": ["sex", "age"]}, "nothing-to-estimate"),
        ({"by": "sex", "attributes": ["age"]}, "nothing-to-estimate"),
    ],
)
def test_what_cannot_be_crossed_is_refused(wishes: dict[str, Any], id: str, release: Release) -> None:
    with raises(id) as refused:
        estimate(release.frame, sidecar=release.sidecar, **wishes)
    assert not re.search(r"\bn\d", refused.value.what), "no value is told"


def test_a_kept_column_by_a_perturbed_one(release: Release) -> None:
    one = estimated(release, by="relationship", attributes=["sex"])
    other = estimated(release, joint=["relationship", "sex"])
    assert one["estimate"].to_list() == other["estimate"].to_list() and set(one["attribute"]) == {"sex"}


def test_the_command_says_what_the_library_does_and_writes_the_domain(
    original: pl.DataFrame, ppdm: Run, tmp_path: Path
) -> None:
    perturb(original.drop("name"), tmp_path / "r.parquet", gamma=5, keep=[k for k in KEPT if k != "name"],
            shuffle=True, seed=1)  # fmt: skip
    args = ("--by", "age", "--bins", "3", "--attribute", "smoker", "--level", "0.9", "--simultaneous")
    said = json.loads(ppdm("estimate", "r.parquet", *args, "--json", "-o", "e.csv", "--plot", "e.svg").stdout)
    asked: dict[str, Any] = {"by": "age", "bins": 3, "attributes": ["smoker"]}
    expected = estimate(tmp_path / "r.parquet", level=0.9, simultaneous=True, **asked)
    assert [r["high"] for r in said["rows"]] == expected.frame["high"].to_list()
    sidecar = read_sidecar(tmp_path / "e.csv.ppdm.json", None, "e.csv")
    assert sidecar.by_name["age"].has_domain and not sidecar.by_name["weight"].has_domain
    assert ">estimated, 90% interval<" in (tmp_path / "e.svg").read_text()

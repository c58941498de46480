"""A class of numbers keeps its numbers: they are labels, and labels in bins teach nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec import UNSET

from ppdm_cli import Release, perturb, predict, reconstruct, train_tree
from ppdm_cli.errors import RefusedError, UsageError
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Attribute
from tests.vocabulary import Run


def digits(n: int = 6_000) -> pl.DataFrame:
    """Strokes of a pen, and which of ten digits they are."""
    rng = np.random.default_rng(1)
    digit = rng.integers(0, 10, n)
    strokes = {f"stroke{j}": np.clip(digit * 10 + rng.normal(0, 6, n), 0, 100).round() for j in range(3)}
    return pl.DataFrame(strokes).with_columns(digit=pl.Series(digit))


STROKES: dict[str, Any] = {f"stroke{j}": {"domain": [0, 100]} for j in range(3)}


def label(release: Release) -> Attribute:
    return next(a for a in release.sidecar.attributes if a.name == release.sidecar.class_)


@pytest.mark.parametrize("domain", [{}, {"digit": {"domain": "0:9"}}])
@pytest.mark.parametrize("bins", [2, 5, 10, "auto", None])
def test_a_class_of_digits_keeps_its_ten(bins: Any, domain: dict[str, Any]) -> None:
    release = perturb(digits(), gamma=5, bins=bins, class_="digit", attributes=STROKES | domain, seed=1)
    assert label(release).categories == list(range(10)) and label(release).edges is UNSET
    assert next(a for a in release.sidecar.attributes if a.name == "stroke0").type == "continuous"


def test_what_is_learnt_of_it_are_the_ten_digits() -> None:
    release = perturb(digits(), gamma=9, bins="auto", class_="digit", attributes=STROKES, seed=1)
    usable = reconstruct(release.frame, sidecar=release.sidecar)
    assert set(usable.frame["digit"]) == set(range(10))
    guessed = predict(train_tree(usable.frame, "digit"), digits())["predicted"]
    assert set(guessed) == set(range(10)) and (guessed == digits()["digit"]).mean() > 0.3


def test_the_command_takes_the_rule_from_a_plan_and_from_an_earlier_release(ppdm: Run, tmp_path: Path) -> None:
    data = digits()
    data[:3_000].write_parquet(tmp_path / "a.parquet")
    data[3_000:].write_csv(tmp_path / "b.csv")
    strokes = "".join(f"[attributes.stroke{j}]\ndomain = [0, 100]\n" for j in range(3))
    (tmp_path / "plan.toml").write_text(f'gamma = 9\nbins = "auto"\nclass = "digit"\n{strokes}')
    ppdm("perturb", "a.parquet", "-o", "ra.parquet", "--plan", "plan.toml")
    ppdm("perturb", "b.csv", "-o", "rb.csv", "--like", "ra.parquet", "--type", "digit=int64")
    assert set(pl.read_parquet(tmp_path / "ra.parquet")["digit"]) == set(range(10))
    ppdm("reconstruct", "ra.parquet", "rb.csv", "-o", "both.csv")
    assert set(pl.read_csv(tmp_path / "both.csv")["digit"]) == set(range(10))
    ppdm("train-tree", "ra.parquet", "-o", "tree.json")


def numbers(values: int) -> pl.DataFrame:
    return pl.DataFrame({"y": np.random.default_rng(1).permutation(np.arange(values * 10) % values)})


def test_a_thousand_labels_are_the_most() -> None:
    assert label(perturb(numbers(1_000), gamma=9, class_="y", seed=1)).N == 1_000
    with pytest.raises(RefusedError, match="'y' has more than 1000 values, and a class is never binned; name"):
        perturb(numbers(1_001), gamma=9, class_="y", bins=20)


@pytest.mark.parametrize("domain", ["0:1000", "2020-01-01:2024-01-01", "0:1"])
def test_a_declared_range_of_too_many_labels_is_refused(domain: str, ppdm: Run, tmp_path: Path) -> None:
    columns = {
        "0:1000": pl.int_range(50, eager=True),
        "0:1": pl.int_range(50, eager=True) / 50,
        "2020-01-01:2024-01-01": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 2, 19), eager=True),
    }
    pl.DataFrame({"y": columns[domain]}).write_parquet(tmp_path / "t.parquet")
    wanted = [
        "perturb",
        "t.parquet",
        "-o",
        "r.parquet",
        "--gamma",
        9,
        "--class",
        "y",
        "--domain",
        f"y={domain}",
    ]
    said = ppdm(*wanted, code=4).stderr.decode()
    assert said.count("\n") == 1 and "a class is never binned" in said and "make a column of its groups" in said
    assert not (tmp_path / "r.parquet").exists()


@pytest.mark.parametrize("own", [{"bins": 5}, {"edges": [0, 5, 10]}, {"bins": 5, "domain": [0, 9]}])
def test_bins_of_a_class_are_no_wish_that_can_be_granted(own: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the class 'digit' is given bins, and a class is never binned"):
        perturb(digits(), gamma=9, class_="digit", attributes={"digit": own})


def test_a_rare_label_is_refused_as_any_rare_category() -> None:
    data = digits().with_columns(digit=pl.when(pl.int_range(pl.len()) < 3).then(77).otherwise("digit"))
    with pytest.raises(RefusedError, match=r"occur in fewer than 10 records: 'digit' \(1 of 11\)"):
        perturb(data, gamma=9, class_="digit", bins=5, attributes=STROKES)


def test_nulls_and_few_fractions_are_labels_too() -> None:
    halves = digits().with_columns(digit=pl.when(pl.col("digit") > 7).then(None).otherwise(pl.col("digit") / 2))
    found = label(perturb(halves, gamma=9, class_="digit", bins=4, attributes=STROKES, seed=1))
    assert found.N == 9 and found.nulls and found.categories == [v / 2 for v in range(8)]


def test_a_band_of_labels_is_asked_for_by_name() -> None:
    """Digits have an order that a reader of numbers sees, and a reader of handwriting does not."""
    for own, kind in (({}, "gamma-diagonal"), ({"matrix": "band", "half_width": 1}, "band")):
        plan = STROKES | {"digit": {"domain": [0, 9], **own}}
        release = perturb(digits(), gamma=5, matrix="band", class_="digit", attributes=plan, seed=1)
        assert opened(release.sidecar).axis("digit").spec.kind == kind  # type: ignore[union-attr]

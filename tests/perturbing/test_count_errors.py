"""What a release will tell, said before it is published: errors as estimates have them, for all budgets.

The figure is the standard error of a value's count over the mean count, for even shares. It is compared with
the errors of many releases, and with what `estimate` says of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import estimate, perturb
from ppdm_cli.perturbing import relative_error
from ppdm_cli.perturbing.count_errors import expected_errors
from ppdm_cli.releases import opened
from tests.vocabulary import raises

OWN: dict[str, Any] = {
    "age": {"domain": [0, 79], "bins": 8},
    "pay": {"domain": [0, 99], "bins": 5, "nulls": True},
    "town": {"domain": "a|b|c|d"},
    "sex": {"domain": "f|m"},
}


def even(rows: int = 2400, seed: int = 0) -> pl.DataFrame:
    """Each attribute has its values equally often, and a class is kept beside them."""
    rng = np.random.default_rng(seed)
    pay: list[Any] = [10, 30, 50, 70, 90, None]
    cells = {"age": [*range(5, 80, 10)], "pay": pay, "town": list("abcd"), "sex": list("fm"), "ill": list("ny")}
    whole = {n: np.array(v * (rows // len(v)), object) for n, v in cells.items()}
    return pl.DataFrame({n: rng.permutation(v).tolist() for n, v in whole.items()})


KEPT: dict[str, Any] = {"attributes": OWN, "keep": ["ill"], "class_": "ill", "keep_order": True}
DESIGNS: dict[str, dict[str, Any]] = {
    "gamma": {"gamma": 5},
    "all at epsilon 2": {"record_epsilon": 2, "publish": "all"},
    "one at epsilon 1": {"record_epsilon": 1, "publish": 1},
    "two at epsilon 2": {"record_epsilon": 2, "publish": 2},
    "three at epsilon 4": {"record_epsilon": 4, "publish": 3},
    "one box at epsilon 4": {"record_epsilon": 4, "publish": 4},
    "rounds at epsilon 3": {"record_epsilon": 3, "rounds": 2},
    "the class in the budget": {"record_epsilon": 3, "publish": 1, "class_in_budget": True, "keep": []},
    "bands": {"gamma": 3, "matrix": "band"},
}


def ratio(design: dict[str, Any], releases: int) -> tuple[float, int]:
    """Return the mean squared error over the expected one, of all values, and of how many it is the mean."""
    data, found = even(), []
    for seed in range(releases):
        made = perturb(data, **KEPT | design, seed=seed)
        for name in OWN:
            told = estimate(made.frame, sidecar=made.sidecar, attributes=[name], estimator="inverse")
            counts = told.frame["estimate"].to_numpy()
            found.append(np.mean((counts * len(counts) / data.height - 1) ** 2) / made.errors[name] ** 2)
    return float(np.mean(found)), len(found)


@pytest.mark.parametrize("releases", [12, pytest.param(330, marks=pytest.mark.long)])
@pytest.mark.parametrize("design", [n for n in DESIGNS if "rounds" not in n])
def test_estimates_miss_by_what_was_expected(design: str, releases: int) -> None:
    """At four standard errors of at most sqrt(2/(N-1)) each; an expectation 5% off exceeds those of many."""
    found, errors = ratio(DESIGNS[design], releases)
    bound = 4 * np.sqrt(2 * np.mean([1 / 7, 1 / 5, 1 / 3, 1]) / errors)
    assert abs(found - 1) < bound and (releases == 12 or bound < 1.05**2 - 1)


@pytest.mark.parametrize("design", DESIGNS)
def test_the_expected_error_is_the_one_that_an_estimate_states(design: str) -> None:
    """Its standard errors are at the estimated shares, which are near even ones of many records."""
    made = perturb(even(96_000), **KEPT | DESIGNS[design], seed=1)
    for name in OWN:
        told = estimate(made.frame, sidecar=made.sidecar, attributes=[name]).frame["std_error"].to_numpy()
        stated = np.sqrt(np.mean(told**2)) * len(told) / made.sidecar.records
        shown = made.frame.height / made.frame[name].count()
        assert made.errors[name] == pytest.approx(stated, rel=0.05 + 0.002 * shown), name


def test_records_copies_and_persons_make_the_error_smaller_as_they_should() -> None:
    design = opened(perturb(even(), **KEPT, record_epsilon=2, publish=2, seed=1).sidecar).recipes
    small, large = (expected_errors(design, n) for n in (1000, 4000))
    copied = expected_errors(design, 1000, 4)
    for name in OWN:
        assert small[name].value == pytest.approx(2 * large[name].value)
        assert small[name].range == pytest.approx(2 * copied[name].range)
    who = even().with_columns(who=pl.Series([f"p{i // 4}" for i in range(2400)]))
    one = perturb(who, **KEPT, gamma=5, person="who", rows_per_person=1).errors
    assert one["age"] == pytest.approx(2 * perturb(even(), **KEPT, gamma=5).errors["age"])
    assert relative_error(5.0, 8, 2400) == pytest.approx(perturb(even(), **KEPT, gamma=5).errors["age"])


def wide(rows: int, columns: int) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    return pl.DataFrame({f"x{i}": rng.integers(0, 100, rows) for i in range(columns)})


LOST: dict[str, tuple[int, int, dict[str, Any]]] = {
    "a tiny budget of many records": (100_000, 7, {"record_epsilon": 0.1}),
    "nine of ten attributes": (10_000, 10, {"record_epsilon": 4, "publish": 9, "bins": 5}),
    "an equal part each": (10_000, 10, {"record_epsilon": 1, "publish": "all"}),
    "rounds": (3_000, 4, {"record_epsilon": 0.2, "rounds": 2, "class_": "x0", "keep": ["x0"]}),
    "a gamma": (2_000, 2, {"gamma": 1.05}),
    "a band": (2_000, 2, {"gamma": 1.05, "matrix": "band"}),
    "several copies": (2_000, 2, {"gamma": 1.02, "copies": 2}),
}


@pytest.mark.parametrize("case", LOST)
def test_nothing_to_be_learnt_is_said_and_refused_by_strict(case: str, tmp_path: Path) -> None:
    rows, columns, asked = LOST[case]
    data, out = wide(rows, columns), tmp_path / "r.parquet"
    asked = {"attributes": {f"x{i}": {"domain": [0, 99]} for i in range(columns)}, "keep_order": True} | asked
    if "rounds" in asked:
        data, asked["attributes"] = data.with_columns(x0=(pl.col("x0") % 2).cast(pl.String)), {}
    released = perturb(data, out, **asked, force=True)
    assert released.unlearnable and min(released.errors[n] for n in released.unlearnable) > 1
    with raises("nothing-learnable"):
        perturb(data, tmp_path / "s.parquet", **asked, strict=True)
    assert not (tmp_path / "s.parquet").exists()


def test_one_box_for_all_has_an_error_of_each_and_shows_the_largest() -> None:
    made = perturb(even(), **KEPT, record_epsilon=4, publish=4)
    assert {*made.errors} == {*OWN} and not opened(made.sidecar).beside
    assert made.error(" x ".join(OWN)) == max(made.errors.values())


def test_a_budget_that_serves_ranges_is_said_to_and_not_refused() -> None:
    own = {f"x{i}": {"domain": [0, 99]} for i in range(10)}
    made = perturb(wide(20_000, 10), attributes=own, keep_order=True, record_epsilon=1, publish=2, strict=True)
    assert made.in_ranges == [f"x{i}" for i in range(10)] and not made.unlearnable
    assert min(made.errors.values()) > 1


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"gamma": 1000}, ["a", "b"]),
        ({"gamma": 9, "attributes": {"a": {"gamma": 100}}}, ["a"]),
        ({"record_epsilon": 14, "publish": "all"}, ["a", "b"]),
        ({"record_epsilon": 4, "publish": 1, "class_": "a", "class_in_budget": True}, []),
        ({"gamma": 19, "attributes": {"a": {"bins": 2}}}, []),
    ],
)
def test_what_is_hardly_perturbed_is_said_and_refused_by_strict(
    asked: dict[str, Any], names: list[str]
) -> None:
    rng = np.random.default_rng(1)
    data = pl.DataFrame({"a": rng.choice(["x", "y"], 3000), "b": rng.choice(["u", "v", "w"], 3000)})
    if "bins" in str(asked):
        data = data.with_columns(a=pl.Series(rng.uniform(0, 1, 3000)))
    assert perturb(data, **asked).unchanged == names
    if names:
        with raises("hardly-perturbed"):
            perturb(data, **asked, strict=True)
    else:
        perturb(data, **asked, strict=True)


@pytest.mark.parametrize("parts", [1, 5])
@pytest.mark.parametrize(("largest", "crowded"), [(9e8, ["cost"]), (100, [])])
def test_nearly_all_values_in_one_bin_are_warned_of(parts: int, largest: float, crowded: list[str]) -> None:
    cost = np.r_[np.random.default_rng(1).uniform(0, 100, 1000), [largest] * 5]
    frame = wide(1005, 2).with_columns(cost=pl.Series(cost))
    frame = pl.concat([frame[i::parts] for i in range(parts)], rechunk=False)
    made = perturb(frame, gamma=9, shuffle=True)
    assert made.crowded == crowded
    assert any("nearly all values of cost are in one bin" in s for s in made.sentences) == bool(crowded)
    declared = {"cost": {"domain": [0, largest], "bins": 40}}
    assert perturb(frame, gamma=9, shuffle=True, attributes=declared).crowded == []  # nobody looked at the data


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (lambda i: f"p{i}", True),
        (lambda i: f"p{i // 2}", True),
        (lambda i: i * 17, True),
        (lambda i: f"town {i % 40}", False),
        (lambda i: i % 90, False),
        (lambda i: i / 7, False),
    ],
)
@pytest.mark.parametrize("parts", [1, 4])
def test_a_kept_identifier_is_warned_about(cells: Any, found: bool, parts: int) -> None:
    frame = wide(1200, 2).with_columns(id=pl.Series([cells(i) for i in range(1200)]))
    rows = 1200 // parts
    frame = pl.concat([frame[i * rows : (i + 1) * rows] for i in range(parts)], rechunk=False)
    for budget in ({"gamma": 9}, {"record_epsilon": 1, "publish": 1}):
        made = perturb(frame, **budget, keep=["id"], shuffle=True)
        assert made.identifying == ["id"] * found

"""The next batch has all that protected the earlier release, or is refused by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from ppdm_cli import Sidecar, perturb
from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing.input_checks import MovedValues
from tests.experiments import batches
from tests.vocabulary import Run, raises


def visits(rows: int = 600, seed: int = 1, **changes: Any) -> pl.DataFrame:
    """Six rows of each patient, in the order of their patients."""
    r = np.random.default_rng(seed)
    start = np.datetime64("2024-01-01")
    frame = pl.DataFrame(
        {
            "patient": [f"p{i // 6:04}" for i in range(rows)],
            "age": r.integers(0, 100, rows),
            "pay": r.uniform(0, 900, rows).round(1),
            "ward": r.choice(["a1", "a2", "b1", "c1"], rows),
            "day": start + r.integers(0, 300, rows).astype("timedelta64[D]"),
            "ill": r.choice(["yes", "no"], rows),
            "secret": r.choice(["x", "y"], rows),
        }
    )
    return frame.with_columns(**changes)


FIRST: dict[str, Any] = {
    "gamma": 9, "drop": ["patient", "secret"], "keep": ["ill"], "class_": "ill",
    "attributes": {"age": {"domain": "0:100"}},
}  # fmt: skip
BUDGET: dict[str, Any] = {**FIRST, "gamma": None, "record_epsilon": 2, "publish": 2}


@pytest.fixture(scope="module")
def firsts() -> dict[str, Sidecar]:
    return {n: perturb(visits(), **p).sidecar for n, p in (("gamma", FIRST), ("budget", BUDGET))}


def test_a_column_that_the_plan_drops_needs_no_type(tmp_path: Path, firsts: dict[str, Sidecar]) -> None:
    visits().write_csv(tmp_path / "january.csv")
    made = perturb(tmp_path / "january.csv", gamma=9, drop=["patient", "secret", "day", "pay"], shuffle=True)
    mixed = visits(secret=pl.when(pl.int_range(600) == 7).then(pl.lit("two")).otherwise(pl.lit("1")))
    mixed.write_csv(tmp_path / "february.csv")
    again = perturb(tmp_path / "february.csv", like=made.sidecar)
    assert {"secret", "patient"} <= {*again.dropped}


def test_rare_labels_go_on_being_merged() -> None:
    asked: dict[str, Any] = {"gamma": 9, "drop": ["patient", "secret", "day", "pay"], "shuffle": True}
    wards = ["a1", "a2"] * 294
    first = perturb(visits(ward=pl.Series([*wards, *"qrst" * 3])), rare="merge", **asked)
    assert first.merged == {"ward": MovedValues(12, 12 / 600)}
    again = perturb(visits(ward=pl.Series([*wards, *"uvwx" * 3])), like=first.sidecar)
    assert again.merged == first.merged and set(again.frame["ward"]) == {"a1", "a2", "(other)"}


def test_a_plan_that_perturbs_nothing_is_refused(firsts: dict[str, Sidecar]) -> None:
    sidecar = firsts["gamma"]
    aside = [replace(a, role="kept") for a in sidecar.attributes if a.name == "ill"]
    privacy = replace(sidecar.privacy, perturbed_gamma=1, perturbed_epsilon=0, kept=["ill"])
    kept = replace(sidecar, attributes=aside, recipes=[], privacy=privacy, class_=None)
    with raises("nothing-perturbed"):
        perturb(visits(), like=kept)


@pytest.mark.parametrize("beside", [["--plan", "plan.toml"], [], ["--person", "patient", "--drop", "secret"]])
def test_a_person_has_as_many_rows_in_the_next_batch_and_no_order(
    tmp_path: Path, ppdm: Run, beside: list[str]
) -> None:
    visits().write_csv(tmp_path / "jan.csv")
    visits(seed=2).write_csv(tmp_path / "feb.csv")
    plan = 'shuffle = true\nperson = "patient"\nrows_per_person = 1\ndrop = ["secret", "day"]\n'
    (tmp_path / "plan.toml").write_text(plan + "record_epsilon = 1\n")
    ledger = ("--ledger", "l", "--people", "patients")
    ppdm("perturb", "jan.csv", "-o", "jan-r.csv", "--plan", "plan.toml", *ledger)
    ppdm("perturb", "feb.csv", "-o", "feb-r.csv", "--like", "jan-r.csv", *beside, *ledger)
    january, february = (json.loads((tmp_path / f"{m}-r.csv.ppdm.json").read_text()) for m in ("jan", "feb"))
    assert january["privacy"] == february["privacy"]
    assert january["privacy"]["person"] == "patient" and january["privacy"]["shuffled"] is True
    assert (february["records"], february["recipes"]) == (100, january["recipes"])
    entries = [json.loads(line) for line in (tmp_path / "l").read_text().splitlines()[1:]]
    assert [(e["unit"], e["epsilon"]) for e in entries] == [("person", 1.0)] * 2


def test_rows_are_in_a_random_order_again() -> None:
    january = perturb(visits(), gamma=9, keep=["patient"], drop=["day"], shuffle=True).sidecar
    february = perturb(visits(seed=2), like=january)
    assert february.shuffled and not february.frame["patient"].is_sorted()
    plain = perturb(visits(), gamma=9, keep=["patient"], drop=["day"])
    assert not plain.sidecar.privacy.shuffled and plain.frame["patient"].is_sorted()
    for plan in ({"keep_order": True}, {"keep_order": True, "shuffle": False}):
        with raises("unlike-earlier"):
            perturb(visits(seed=2), like=january, plan=plan)
    more = {"person": "patient", "rows_per_person": 2}
    added = perturb(visits(seed=2), like=plain.sidecar, plan={"shuffle": True}, **more)
    assert (added.sidecar.privacy.unit, added.sidecar.privacy.rows, added.left_out) == ("person", 2, 400)


def test_a_person_is_found_by_the_same_column() -> None:
    """Also where it is a number, is kept, or is the identifier; without it nothing is published."""
    asked: dict[str, Any] = {"gamma": 9, "person": "patient", "rows_per_person": 2, "drop": ["day"]}
    numbers = {"patient": pl.int_range(600) // 6}
    for given, frame in (({}, visits(**numbers)), ({"keep": ["patient"]}, visits())):
        first = perturb(frame, **asked, **given).sidecar
        assert perturb(frame, like=first).sidecar.records == 200
        with raises("column-missing"):
            perturb(frame.drop("patient"), like=first)
    fewer = perturb(visits(), like=first, rows_per_person=1)
    assert (fewer.sidecar.records, fewer.sidecar.privacy.rows) == (100, 1), "what protects more is taken"


ALIKE: dict[str, dict[str, Any]] = {
    "gamma": {"gamma": 9, "bins": 8, "class": "ill", "keep": ["ill"]},
    "bins auto": {"gamma": 9, "bins": "auto", "attributes": {"age": {"domain": "0:120"}}},
    "rhos": {"rho1": 0.05, "rho2": 0.5, "attributes": {"age": {"domain": "0:99", "gamma": 3}}},
    "band": {"gamma": 9, "matrix": "band", "attributes": {"pay": {"domain": "0:1000", "bins": 12}}},
    "a budget": {"record_epsilon": 3},
    "a budget, two of each": {"record_epsilon": 3, "publish": 2, "class": "ill", "class_in_budget": True},
    "a budget, all": {"record_epsilon": 3, "publish": "all", "attributes": {"age": {"gamma": 2}}},
    "rounds": {"record_epsilon": 4, "rounds": 2, "class": "ill", "keep": ["ill"],
               "attributes": {"pay": {"bins": 20}}},
    "together": {"gamma": 9, "together": [["age", "ill"]],
                 "attributes": {"age": {"domain": "0:100", "bins": 4}}},
    "a matrix given": {"gamma": 9, "attributes": {"ill": {"matrix": "symmetric", "each": 0.2}}},
    "groups": {"gamma": 9, "clip": True, "attributes": {"ward": {"prefix": 1, "other": True},
               "day": {"scale": "quarter"}, "pay": {"domain": [0, 1000], "core": [0, 500]}}},
    "rare ones": {"gamma": 9, "rare": "merge", "representative": "random"},
    "noise": {"scheme": "additive", "noise": "normal", "sd": "25%", "drop": ["ward", "day", "ill"]},
    "order": {"gamma": 9, "keep_order": True, "attributes": {"ward": {"domain": "a1|a2|b1|c1", "nulls": True}}},
    "a scale": {"gamma": 9, "attributes": {"pay": {"domain": [0, 1000], "scale": "sqrt", "bins": 6}}},
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_the_plan_that_made_a_release_goes_beside_it_unchanged(name: str) -> None:
    plan = {**ALIKE[name], "drop": ["patient", "secret", *ALIKE[name].get("drop", [])]}
    first = perturb(visits(3000), plan=plan).sidecar
    again = perturb(visits(900, seed=2), plan=plan, like=first).sidecar
    alone = perturb(visits(900, seed=2), like=first).sidecar
    for sidecar in (again, alone):
        assert (sidecar.attributes, sidecar.recipes) == (first.attributes, first.recipes)
    assert replace(again.privacy, shuffled=False) == first.privacy


ELSE: list[tuple[str, dict[str, Any]]] = [
    ("gamma", {"gamma": 5}),
    ("gamma", {"rho1": 0.05, "rho2": 0.3}),
    ("gamma", {"record_epsilon": 0.5}),
    ("gamma", {"attributes": {"pay": {"gamma": 3}}, "gamma": 9}),
    ("gamma", {"gamma": 9, "matrix": "band"}),
    ("gamma", {"gamma": 9, "together": [["age", "ward"]]}),
    ("gamma", {"keep": ["age"]}),
    ("gamma", {"keep": ["secret"]}),
    ("gamma", {"drop": ["ward"]}),
    ("gamma", {"drop": ["ill"]}),
    ("gamma", {"attributes": {"ill": {"nulls": True, "domain": "yes|no"}}}),
    ("gamma", {"class_": "ward"}),
    ("gamma", {"attributes": {"age": {"domain": "0:120"}}}),
    ("gamma", {"attributes": {"age": {"domain": "0:100", "bins": 5}}}),
    ("gamma", {"attributes": {"age": {"domain": "0:100", "nulls": True}}}),
    ("gamma", {"attributes": {"ward": {"domain": "a1|b1"}}}),
    ("gamma", {"attributes": {"ward": {"prefix": 1}}}),
    ("gamma", {"attributes": {"ward": {"other": True}}}),
    ("gamma", {"attributes": {"day": {"scale": "year"}}}),
    ("gamma", {"bins": 3}),
    ("gamma", {"representative": "left"}),
    ("gamma", {"copies": 2}),
    ("budget", {"record_epsilon": 2, "publish": 1}),
    ("budget", {"record_epsilon": 2, "publish": "all"}),
    ("budget", {"record_epsilon": 3}),
    ("budget", {"gamma": 9}),
    ("budget", {"record_epsilon": 2, "rounds": 2, "class_": "ill"}),
]


@pytest.mark.parametrize(("first", "asked"), ELSE)
def test_what_contradicts_the_earlier_release_is_refused(
    firsts: dict[str, Sidecar], first: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    """As an option, and (but for --copies) in a plan."""
    frame, out = visits(seed=2), tmp_path / "r.parquet"
    with raises("unlike-earlier"):
        perturb(frame, out, like=firsts[first], **asked)
    assert not out.exists()
    if "copies" not in asked:
        with raises("unlike-earlier"):
            perturb(frame, out, like=firsts[first], plan={k: v for k, v in asked.items() if v is not None})


def test_laws_need_a_budget_beside_an_earlier_release(firsts: dict[str, Sidecar]) -> None:
    with raises("laws-without-budget"):
        perturb(visits(), like=firsts["gamma"], matrix="band")
    with pytest.raises(UsageError):
        perturb(visits(), like=firsts["gamma"], rounds=2)


def test_what_a_sidecar_cannot_hold_goes_beside_it(firsts: dict[str, Sidecar]) -> None:
    for asked in (
        {"shuffle": True}, {"clip": True}, {"drop": ["secret"]}, {"keep": ["ill"]}, {"class_": "ill"},
        {"gamma": 9}, {"bins": 40}, {"rare": "publish"}, {"attributes": {"age": {"domain": "0:100"}}},
        {"person": "patient", "rows_per_person": 3}, {"person": ""}, {"plan": {"gamma": "?"}, "gamma": 9},
    ):  # fmt: skip
        made = perturb(visits(seed=2), like=firsts["gamma"], **asked).sidecar
        assert made.recipes == firsts["gamma"].recipes and "secret" not in made.by_name


def test_a_release_under_a_key_goes_on_under_that_key(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"id": "who", "keep_order": True}
    frame = visits().with_columns(who=pl.int_range(600))
    mine, other = {"key_file": tmp_path / "k", **asked}, {"key_file": tmp_path / "k2", **asked}
    first = perturb(frame, gamma=9, drop=["patient"], **mine)
    assert first.sidecar.privacy.key is not UNSET and len(first.sidecar.privacy.key) == 16
    for given in ({}, other):
        with raises("other-key"):
            perturb(frame, like=first.sidecar, **given)
        assert not (tmp_path / "k2").exists()
    with raises("other-identifier"):
        perturb(frame.with_columns(row=pl.int_range(pl.len())), like=first.sidecar, **mine | {"id": "row"})
    assert perturb(frame, like=first.sidecar, **mine).frame.equals(first.frame)
    assert perturb(frame, like=first.sidecar, seed=1).sidecar.privacy.perturbed_gamma is None
    perturb(frame, like=perturb(frame, gamma=9, drop=["patient", "who"]).sidecar, **other)


def test_copies_of_the_earlier_release_share_its_budget(tmp_path: Path) -> None:
    """A budget is for all copies together; as many copies, and no more, are made of the next batch."""
    plan = {"record_epsilon": 2, "publish": "all", "drop": ["patient", "secret"], "keep_order": True}
    perturb(visits(), tmp_path / "jan.parquet", plan=plan, copies=3)
    january = tmp_path / "jan.1.parquet"
    for made in (
        perturb(visits(seed=2), tmp_path / "feb.parquet", plan=plan, copies=3, like=january),
        perturb(visits(seed=3), tmp_path / "mar.parquet", copies=3, like=january),
    ):
        assert 2 - 1e-4 < made.sidecar.privacy.perturbed_epsilon <= 2
    one = perturb(visits(seed=2), like=january, plan=plan).sidecar
    assert one.privacy.perturbed_epsilon == pytest.approx(2 / 3, abs=1e-4)
    with raises("unlike-earlier"):
        perturb(visits(), tmp_path / "x.parquet", copies=4, like=january)


def test_values_that_are_moved_are_counted_and_most_of_a_column_is_refused() -> None:
    """February's days are all after January's; at exactly half it is still published."""
    plan = {"gamma": 9, "clip": True, "shuffle": True, "drop": ["patient", "secret", "pay"],
            "attributes": {"age": {"domain": "0:49"}}}  # fmt: skip
    ages = pl.Series([*range(40), *range(60, 80)] * 10)
    january = perturb(visits(age=ages), plan=plan)
    assert january.clipped == {"age": MovedValues(200, 1 / 3)}
    assert any("age 200 (33.3%)" in s for s in january.sentences)
    assert any(s.startswith("Warning: over 5%") and "FROM:TO" in s for s in january.sentences)
    february = visits(age=ages, day=pl.col("day") + pl.duration(days=400))
    with raises("most-moved") as refused:
        perturb(february, like=january.sidecar)
    wider = re.search(r"Leave out like= and .*'(\d{4}-\d\d-\d\d:\d{4}-12-31)'", str(refused.value))
    assert wider is not None
    again = perturb(february, plan=plan, attributes={"day": {"domain": wider[1]}})
    assert again.clipped.keys() == {"age"}, "the hint can be followed"
    assert perturb(february, like=january.sidecar, clip=True).clipped["day"].share == 1
    half = perturb(visits(age=pl.Series([1, 99] * 300)), like=january.sidecar)
    assert half.clipped == {"age": MovedValues(300, 0.5)}
    none = perturb(visits(age=pl.lit(1, pl.Int64)), like=january.sidecar)
    assert none.clipped == {} and none.merged == {}
    with raises("most-moved"):
        perturb(visits(age=pl.lit(70, pl.Int64)), plan=plan)
    assert perturb(visits(age=pl.lit(70, pl.Int64)), plan=plan, clip=True).clipped["age"].share == 1


def test_what_is_merged_is_counted() -> None:
    asked: dict[str, Any] = {"gamma": 9, "drop": ["patient", "secret", "day", "pay"], "shuffle": True}
    new = visits(900, ward=pl.Series(["a1", "a2", "b1", "zz", None, None] * 150))
    first = perturb(
        visits(ward=pl.Series(["a1", "a2", None] * 200)), attributes={"ward": {"other": True}}, **asked
    )
    assert first.merged == {}
    assert perturb(new, like=first.sidecar).merged["ward"].share == 0.5, "of four values, two are new"
    nulls = {"attributes": {"ward": {"domain": "a1|a2|b1", "nulls": True}}, "clip": True}
    assert perturb(new, plan=nulls, **asked).clipped["ward"].share == 0.25


def test_open_domains_have_a_place_for_what_later_batches_bring(tmp_path: Path) -> None:
    """First nulls, new labels and new groups fit; the plan goes beside --like, and noise refuses it."""
    groups = tmp_path / "groups.csv"
    groups.write_text("ward,floor\na1,1\na2,1\nb1,2\nc1,3\n")
    plan = {"gamma": 9, "drop": ["patient"], "open_domains": True, "clip": True, "shuffle": True,
            "attributes": {"ward": {"mapping": str(groups)}, "age": {"domain": "0:99"}}}  # fmt: skip
    january = perturb(visits(), plan=plan)
    assert "Grouped before perturbation: ward (file of groups)." in january.sentences
    assert all(a.nulls for a in january.sidecar.perturbed)
    labels = {a.name: a.categories for a in january.sidecar.perturbed if a.dtype == "string"}
    assert labels.keys() == {"ward", "ill", "secret"} and all("(other)" in v for v in labels.values())
    new = pl.when(pl.int_range(600) % 9 == 0).then(None)
    february = visits(**{n: new.otherwise(pl.col(n)) for n in ("age", "pay", "ward", "day", "ill")})
    february = february.with_columns(ill=pl.col("ill").replace("yes", "perhaps"))
    with raises("outside-domain") as refused:
        closed = plan | {"open_domains": False}
        perturb(february, like=perturb(visits(), plan=closed).sidecar, plan=closed)
    assert "the column 'age' has" in str(refused.value) and "(so have 'pay', 'ward'" in str(refused.value)
    made = perturb(february, like=january.sidecar, plan=plan)
    assert made.sidecar.attributes == january.sidecar.attributes and {*made.merged} == {"ill"}
    with raises("open-domains-of-noise"):
        perturb(visits(), scheme="additive", noise="normal", sd=1, open_domains=True)


@pytest.mark.parametrize("budget", batches.BUDGETS.values(), ids=[*batches.BUDGETS])
def test_one_plan_serves_a_year_of_batches(tmp_path: Path, budget: dict[str, Any]) -> None:
    """With growth, new wards, first nulls and dates that go on; tests/experiments/batches.py has more years."""
    months, year, moved = batches.year(budget, 1, tmp_path)
    assert moved < 0.05 and months[0] < 0.08 * months[1] and year[0] < 0.15 * year[1]


@pytest.mark.parametrize(
    ("name", "own", "value", "helps"),
    [
        ("age", {"domain": "0:99"}, 200, True),
        ("age", {"domain": "0:99"}, None, False),
        ("ward", {"domain": "a1|a2|b1|c1"}, "new", False),
        ("ward", {"domain": "a1|a2|b1|c1"}, None, False),
        ("ward", {"domain": "a1|a2|b1|c1", "nulls": True}, "new", True),
    ],
)
def test_hints_beside_like_can_be_followed(name: str, own: dict[str, Any], value: Any, helps: bool) -> None:
    """Moving values is offered where it helps, and nowhere else."""
    first = perturb(visits(), gamma=9, drop=["patient", "secret"], attributes={name: own}).sidecar
    frame = visits(seed=2)
    frame = frame.with_columns(pl.Series(name, [value, *frame[name].to_list()[1:]], frame[name].dtype))
    with raises("outside-domain") as refused:
        perturb(frame, like=first)
    assert ("clip=True" in str(refused.value)) == helps
    if helps:
        assert perturb(frame, like=first, clip=True).clipped[name].count == 1
    else:
        assert "Leave out like= and add open_domains=True" in str(refused.value)
        perturb(frame, gamma=9, drop=["patient", "secret"], attributes={name: own}, open_domains=True)
    if helps:
        perturb(frame, like=first, clip=True)
    elif value == "new":
        with raises("outside-domain") as refused:
            perturb(frame, gamma=9, drop=["patient", "secret"], attributes={name: own})
        assert "nearest bin" not in str(refused.value)
        perturb(frame, gamma=9, drop=["patient", "secret"], attributes={name: own | {"other": True}})


def test_a_sidecar_that_names_no_person_promises_none(firsts: dict[str, Sidecar]) -> None:
    for fields in ({"unit": "person"}, {"unit": "person", "rows": 1}, {"person": "who"}, {"key": "5e" * 8}):
        with pytest.raises(ValueError, match=r"a promise for a person|a digest and an identifier"):
            replace(firsts["gamma"].privacy, **fields)

"""The next batch has all that protected the earlier release, or is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from ppdm_cli import Sidecar, perturb
from ppdm_cli.errors import DataError, MismatchError, RefusedError, UsageError
from tests.vocabulary import Run


def table(path: Path, towns: str, notes: list[str]) -> Path:
    rows = [f"{i % 5},{t},{notes[i % len(notes)]}" for i, t in enumerate(towns)]
    path.write_text("\n".join(["a,town,note", *rows]) + "\n")
    return path


def test_a_column_that_the_plan_drops_needs_no_type(tmp_path: Path) -> None:
    first = table(tmp_path / "first.csv", "xyzx" * 50, ["1"])
    perturb(first, tmp_path / "january.csv", gamma=9, drop=["note"], shuffle=True)
    mixed = table(tmp_path / "mixed.csv", "xyzx" * 50, ["1", "two"])
    done = perturb(mixed, tmp_path / "february.csv", like=tmp_path / "january.csv", shuffle=True)
    assert done.dropped == ["note"]


def test_rare_labels_go_on_being_merged(tmp_path: Path) -> None:
    first = table(tmp_path / "first.csv", "xy" * 100 + "qrs" * 4, ["1"])
    made = perturb(first, tmp_path / "january.csv", gamma=9, drop=["note"], rare="merge", shuffle=True)
    assert list(made.merged) == ["town"] and made.merged["town"] == pytest.approx(12 / 212)
    second = table(tmp_path / "second.csv", "xy" * 100 + "tuv" * 4, ["1"])
    done = perturb(second, like=made.sidecar, shuffle=True)
    assert done.merged == made.merged
    assert set(done.frame["town"]) == {"x", "y", "(other)"}


def test_a_plan_that_perturbs_nothing_is_refused(tmp_path: Path) -> None:
    made = perturb(table(tmp_path / "first.csv", "xyzx" * 50, ["1"]), gamma=9, drop=["note"], shuffle=True)
    text = made.sidecar.encode().decode()
    assert '"role":"perturbed"' in text
    kept = tmp_path / "kept.json"
    kept.write_text(
        '{"format": "ppdm-sidecar", "version": 1, "tool": "ppdm 0", "stage": "perturbed", "records": 1,'
        f'"release": "{made.sidecar.release}", "privacy": {{"unit": "record",'
        '"perturbed_gamma": 1, "perturbed_epsilon": 0,'
        '"kept": ["a"], "coins": "system"}, "attributes": [{"name": "a", "role": "kept",'
        '"type": "continuous", "dtype": "int64"}]}'
    )
    with pytest.raises(RefusedError, match="nothing would be perturbed"):
        perturb(tmp_path / "first.csv", like=kept)


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


PERSON = """shuffle = true
person = "patient"
rows_per_person = 1
drop = ["secret", "day"]
record_epsilon = 1
"""


@pytest.fixture
def months(tmp_path: Path) -> Path:
    visits().write_csv(tmp_path / "jan.csv")
    visits(seed=2).write_csv(tmp_path / "feb.csv")
    (tmp_path / "plan.toml").write_text(PERSON)
    return tmp_path


def described(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.ppdm.json").read_text())
    return found


@pytest.mark.parametrize("beside", [["--plan", "plan.toml"], [], ["--person", "patient", "--drop", "secret"]])
def test_a_person_has_as_many_rows_in_the_next_batch_and_no_order(
    months: Path, ppdm: Run, beside: list[str]
) -> None:
    ledger = ("--ledger", "l", "--people", "patients")
    ppdm("perturb", "jan.csv", "-o", "jan-r.csv", "--plan", "plan.toml", *ledger)
    said = ppdm("perturb", "feb.csv", "-o", "feb-r.csv", "--like", "jan-r.csv", *beside, *ledger).stderr
    assert b"Left out: 500 records" in said
    january, february = (described(months, f"{m}-r.csv") for m in ("jan", "feb"))
    assert january["privacy"] == february["privacy"]
    assert january["privacy"]["person"] == "patient" and january["privacy"]["shuffled"] is True
    assert (february["records"], february["recipes"]) == (100, january["recipes"])
    entries = [json.loads(line) for line in (months / "l").read_text().splitlines()[1:]]
    assert [(e["unit"], e["epsilon"]) for e in entries] == [("person", 1.0)] * 2


def test_rows_are_in_a_random_order_again() -> None:
    january = perturb(visits(), gamma=9, keep=["patient"], drop=["day"], shuffle=True).sidecar
    february = perturb(visits(seed=2), like=january)
    assert february.shuffled and not february.frame["patient"].is_sorted()
    plain = perturb(visits(), gamma=9, keep=["patient"], drop=["day"])
    assert not plain.sidecar.privacy.shuffled and plain.frame["patient"].is_sorted()
    for plan in ({"keep_order": True}, {"keep_order": True, "shuffle": False}):
        with pytest.raises(UsageError, match="the order of the rows is random"):
            perturb(visits(seed=2), like=january, plan=plan)
    more = {"person": "patient", "rows_per_person": 2}
    added = perturb(visits(seed=2), like=plain.sidecar, plan={"shuffle": True}, **more)
    assert (added.sidecar.privacy.unit, added.sidecar.privacy.rows, added.left_out) == ("person", 2, 400)


def test_a_person_is_found_by_the_same_column(months: Path) -> None:
    """Also where it is a number, is kept, or is the identifier; without it nothing is published."""
    asked: dict[str, Any] = {"gamma": 9, "person": "patient", "rows_per_person": 2, "drop": ["day"]}
    numbers = {"patient": pl.int_range(600) // 6}
    for given, frame in (({}, visits(**numbers)), ({"keep": ["patient"]}, visits())):
        first = perturb(frame, **asked, **given).sidecar
        assert perturb(frame, like=first).sidecar.records == 200
        with pytest.raises(MismatchError, match="'patient', which the data does not have"):
            perturb(frame.drop("patient"), like=first)
    fewer = perturb(visits(), like=first, rows_per_person=1)
    assert (fewer.sidecar.records, fewer.sidecar.privacy.rows) == (100, 1), "what protects more is taken"
    for none in (0, -1):
        with pytest.raises(UsageError, match="from 1 to 65,536"):
            perturb(visits(), like=first, rows_per_person=none)


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
               "day": {"scale": "quarter", "data": True}, "pay": {"domain": [0, 1000], "core": [0, 500]}}},
    "rare ones": {"gamma": 9, "rare": "merge", "representative": "random"},
    "noise": {"scheme": "additive", "noise": "normal", "sd": "25%", "drop": ["ward", "day", "ill"]},
    "order": {"gamma": 9, "keep_order": True, "attributes": {"ward": {"domain": "a1|a2|b1|c1", "nulls": True}}},
    "a scale": {"gamma": 9, "attributes": {"pay": {"domain": [0, 1000], "scale": "sqrt", "bins": 6}}},
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_the_plan_that_made_a_release_goes_beside_it_unchanged(name: str) -> None:
    plan = {**ALIKE[name], "drop": ["patient", "secret", *ALIKE[name].get("drop", [])]}
    if "data" in plan.get("attributes", {}).get("day", {}):
        plan["attributes"]["day"] = {"scale": "quarter"}
    first = perturb(visits(3000), plan=plan).sidecar
    again = perturb(visits(900, seed=2), plan=plan, like=first).sidecar
    assert (again.attributes, again.recipes) == (first.attributes, first.recipes)
    assert replace(again.privacy, shuffled=False) == first.privacy
    alone = perturb(visits(900, seed=2), like=first).sidecar
    assert (alone.attributes, alone.recipes) == (first.attributes, first.recipes)


FIRST: dict[str, Any] = {
    "gamma": 9, "drop": ["patient", "secret"], "keep": ["ill"], "class_": "ill",
    "attributes": {"age": {"domain": "0:100"}},
}  # fmt: skip
BUDGET: dict[str, Any] = {**FIRST, "gamma": None, "record_epsilon": 2, "publish": 2}
ELSE: list[tuple[str, dict[str, Any], str]] = [
    ("gamma", {"gamma": 5}, "the law of 'age' is gamma 9 in the earlier release, and cannot be gamma 5"),
    ("gamma", {"rho1": 0.05, "rho2": 0.3}, "the law of 'age'"),
    ("gamma", {"record_epsilon": 0.5}, "gamma 9 in the earlier release, and cannot be gamma 1.13"),
    ("gamma", {"attributes": {"pay": {"gamma": 3}}, "gamma": 9}, "the law of 'pay'"),
    ("gamma", {"gamma": 9, "matrix": "band"}, "the law of 'age'"),
    ("gamma", {"matrix": "band"}, "without a gamma"),
    ("gamma", {"gamma": 9, "together": [["age", "ward"]]}, "the law of 'age'"),
    ("gamma", {"keep": ["age"]}, "the column 'age' is perturbed in the earlier release, and cannot be kept"),
    ("gamma", {"keep": ["secret"]}, "the column 'secret' is dropped"),
    ("gamma", {"drop": ["ward"]}, "'ward' is perturbed in the earlier release, and cannot be dropped"),
    ("gamma", {"drop": ["ill"]}, "the column 'ill' is kept in the earlier release, and cannot be dropped"),
    ("gamma", {"attributes": {"ill": {"nulls": True, "domain": "yes|no"}}}, "the column 'ill' is kept"),
    ("gamma", {"class_": "ward"}, "the class is 'ill'"),
    ("gamma", {"class_": "ill", "class_in_budget": True, "record_epsilon": 2}, "'ill' is kept"),
    ("gamma", {"attributes": {"age": {"domain": "0:120"}}}, "edges of the column 'age'"),
    ("gamma", {"attributes": {"age": {"domain": "0:100", "bins": 5}}}, "N of the column 'age' is 10"),
    ("gamma", {"attributes": {"age": {"domain": "0:100", "nulls": True}}}, "N of the column 'age'"),
    ("gamma", {"attributes": {"ward": {"domain": "a1|b1"}}}, "the column 'ward'"),
    ("gamma", {"attributes": {"ward": {"prefix": 1}}}, "group of the column 'ward'"),
    ("gamma", {"attributes": {"ward": {"other": True}}}, "column 'ward'"),
    ("gamma", {"attributes": {"day": {"scale": "year"}}}, "scale=year for the column 'day'"),
    ("gamma", {"bins": 3}, "the number of bins of 'age' is 10"),
    ("gamma", {"representative": "left"}, "representative of the column 'age' is center"),
    ("gamma", {"rounds": 2}, "rounds"),
    ("gamma", {"copies": 2}, "copies= is 1"),
    ("budget", {"record_epsilon": 2, "publish": 1}, "epsilon 2 for 2 attributes of a record in the earlier"),
    ("budget", {"record_epsilon": 2, "publish": "all"}, "for 4 attributes of a record beside"),
    ("budget", {"record_epsilon": 3}, "cannot be epsilon 3 for 2"),
    ("budget", {"gamma": 9}, "the budget of a record"),
    ("budget", {"record_epsilon": 2, "rounds": 2, "class_": "ill"}, "rounds"),
]  # fmt: skip


@pytest.fixture(scope="module")
def firsts() -> dict[str, Sidecar]:
    return {n: perturb(visits(), **p).sidecar for n, p in (("gamma", FIRST), ("budget", BUDGET))}


@pytest.mark.parametrize(("first", "asked", "says"), ELSE)
def test_what_contradicts_the_earlier_release_is_refused_by_name(
    firsts: dict[str, Sidecar], first: str, asked: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """As an option, and (but for --copies) in a plan."""
    frame, out = visits(seed=2), tmp_path / "r.parquet"
    with pytest.raises(UsageError) as refused:
        perturb(frame, out, like=firsts[first], **asked)
    assert says in str(refused.value) and not out.exists()
    if "copies" not in asked:
        with pytest.raises(UsageError):
            perturb(frame, out, like=firsts[first], plan={k: v for k, v in asked.items() if v is not None})


def test_what_a_sidecar_cannot_hold_goes_beside_it(firsts: dict[str, Sidecar]) -> None:
    for asked in (
        {"shuffle": True}, {"clip": True}, {"drop": ["secret"]}, {"keep": ["ill"]}, {"class_": "ill"},
        {"gamma": 9}, {"bins": 40}, {"rare": "publish"}, {"attributes": {"age": {"domain": "0:100"}}},
        {"person": "patient", "rows_per_person": 3}, {"person": ""}, {"plan": {"gamma": "?"}, "gamma": 9},
    ):  # fmt: skip
        made = perturb(visits(seed=2), like=firsts["gamma"], **asked).sidecar
        assert made.recipes == firsts["gamma"].recipes
        assert "secret" not in made.by_name


def test_a_release_under_a_key_goes_on_under_that_key(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"id": "who", "keep_order": True}
    frame = visits().with_columns(who=pl.int_range(600))
    mine, other = {"key_file": tmp_path / "k", **asked}, {"key_file": tmp_path / "k2", **asked}
    first = perturb(frame, gamma=9, drop=["patient"], **mine)
    assert first.sidecar.privacy.key is not UNSET and len(first.sidecar.privacy.key) == 16
    for given in ({}, other):
        with pytest.raises(RefusedError, match="the earlier release has another key"):
            perturb(frame, like=first.sidecar, **given)
        assert not (tmp_path / "k2").exists()
    with pytest.raises(RefusedError, match=r"knows records by 'who'.*id='who'"):
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
        assert made.sidecar.privacy.perturbed_epsilon == pytest.approx(2, abs=1e-4)
        assert made.sidecar.privacy.perturbed_epsilon <= 2
    one = perturb(visits(seed=2), like=january, plan=plan).sidecar
    assert one.privacy.perturbed_epsilon == pytest.approx(2 / 3, abs=1e-4)
    with pytest.raises(UsageError, match="copies= is 3 in the earlier release"):
        perturb(visits(), tmp_path / "x.parquet", copies=4, like=january)


def test_values_that_are_moved_are_counted_and_most_of_a_column_is_refused(
    tmp_path: Path, ppdm: Run
) -> None:
    """February's days are all after January's; at exactly half it is still published."""
    plan = 'gamma = 9\nclip = true\nshuffle = true\ndrop = ["patient", "secret", "pay"]\n'
    plan += '[attributes.age]\ndomain = "0:49"\n'
    (tmp_path / "plan.toml").write_text(plan)
    ages = [*range(40), *range(60, 80)] * 10
    visits(age=pl.Series(ages)).write_parquet(tmp_path / "jan.parquet")
    later = {"day": pl.col("day") + pl.duration(days=400)}
    visits(age=pl.Series(ages), **later).write_parquet(tmp_path / "feb.parquet")
    visits(age=pl.Series([1, 99] * 300)).write_parquet(tmp_path / "half.parquet")
    said = ppdm("perturb", "jan.parquet", "-o", "r.parquet", "--plan", "plan.toml", "--json")
    assert json.loads(said.stdout)["clipped"] == {"age": pytest.approx(1 / 3)}
    like = ("--like", "r.parquet", "--force")
    said = ppdm("perturb", "feb.parquet", "-o", "f.parquet", *like, code=4)
    assert b"more than half of the values of 'day'" in said.stderr and b"--clip" in said.stderr
    assert not (tmp_path / "f.parquet").exists()
    text = " ".join(ppdm("perturb", "feb.parquet", "-o", "f.parquet", *like, "--clip").stderr.decode().split())
    assert "moved to its nearest bin, or to null: age 33.3%, day 100%." in text and "Rare" not in text
    half = perturb(tmp_path / "half.parquet", like=tmp_path / "r.parquet")
    assert half.clipped == {"age": 0.5}
    none = perturb(visits(age=pl.lit(1, pl.Int64)), like=tmp_path / "r.parquet")
    assert none.clipped == {} and none.merged == {}
    with pytest.raises(RefusedError, match=r"'age' .*; widen it, or add clip=True"):
        perturb(visits(age=pl.lit(70, pl.Int64)), plan=tmp_path / "plan.toml")
    made = perturb(visits(age=pl.lit(70, pl.Int64)), plan=tmp_path / "plan.toml", clip=True)
    assert made.clipped == {"age": 1.0}


def test_what_is_merged_is_counted() -> None:
    asked: dict[str, Any] = {"gamma": 9, "drop": ["patient", "secret", "day", "pay"]}
    new = visits(900, ward=pl.Series(["a1", "a2", "b1", "zz", None, None] * 150))
    plan = {"attributes": {"ward": {"other": True}}, "shuffle": True}
    first = perturb(visits(ward=pl.Series(["a1", "a2", None] * 200)), plan=plan, **asked)
    assert first.merged == {}
    assert perturb(new, like=first.sidecar).merged == {"ward": 0.5}, "of four values, two are new"
    nulls = {"attributes": {"ward": {"domain": "a1|a2|b1", "nulls": True}}, "clip": True}
    assert perturb(new, plan=nulls, shuffle=True, **asked).clipped == {"ward": 0.25}


HINTS: list[tuple[str, dict[str, Any], Any, str, dict[str, Any] | None]] = [
    ("age", {"domain": "0:99"}, 200, "add clip=True to move them to its nearest bin", {"clip": True}),
    ("age", {"domain": "0:99"}, None, "fill or remove them, or use a new plan", None),
    ("ward", {"domain": "a1|a2|b1|c1"}, "new", "fix the data, or use a new plan", None),
    ("ward", {"domain": "a1|a2|b1|c1"}, None, "fill or remove them", None),
    ("ward", {"domain": "a1|a2|b1|c1", "nulls": True}, "new", "clip=True to move them to null", {"clip": True}),
    ("pay", {"domain": [0, 1000]}, float("inf"), "add clip=True", None),
]


@pytest.mark.parametrize(("name", "own", "value", "says", "way"), HINTS)
def test_hints_beside_like_can_be_followed(
    name: str, own: dict[str, Any], value: Any, says: str, way: dict[str, Any] | None
) -> None:
    first = perturb(visits(), gamma=9, drop=["patient", "secret"], attributes={name: own}).sidecar
    frame = visits(seed=2)
    cells = [value, *frame[name].to_list()[1:]]
    frame = frame.with_columns(pl.Series(name, cells, frame[name].dtype))
    with pytest.raises(DataError) as refused:
        perturb(frame, like=first)
    assert says in str(refused.value)
    if way is not None:
        perturb(frame, like=first, **way)
    if value == float("inf"):
        with pytest.raises(DataError, match="fix the data, or make these values null"):
            perturb(frame, like=first, clip=True)


def test_a_category_that_is_not_declared_has_a_way_out_without_like() -> None:
    own: dict[str, Any] = {"ward": {"domain": "a1|a2|b1"}}
    asked: dict[str, Any] = {"gamma": 9, "drop": ["patient", "secret"]}
    with pytest.raises(DataError, match="add them to the domain") as refused:
        perturb(visits(), attributes=own, **asked)
    assert "nearest bin" not in str(refused.value)
    perturb(visits(), attributes={"ward": {**own["ward"], "other": True}}, **asked)


def test_a_sidecar_that_names_no_person_promises_none(firsts: dict[str, Sidecar]) -> None:
    for fields in ({"unit": "person"}, {"unit": "person", "rows": 1}, {"person": "who"}, {"key": "5e" * 8}):
        with pytest.raises(ValueError, match=r"a promise for a person|a key has a digest"):
            replace(firsts["gamma"].privacy, **fields)

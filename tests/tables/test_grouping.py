"""Values grouped before they are perturbed, and the same done to the next batch and to the original."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import CsvOptions, dtypes, perturb, train_tree
from ppdm_cli.domain import CALENDAR, OTHER, Bins, calendar_edges
from ppdm_cli.errors import DataError, MismatchError, PpdmError, UsageError
from ppdm_cli.estimating import estimate
from ppdm_cli.tables import read_mapping
from ppdm_cli.trees import load_tree
from tests.vocabulary import Run, raises, read_table

RNG = np.random.default_rng(3)
CODES = [f"{c}{i:02d}" for c in "ABC" for i in range(40)]


def table(rows: int = 900, extra: int = 0) -> pl.DataFrame:
    codes = RNG.choice(CODES, rows).tolist()
    for place in RNG.choice(rows, extra, replace=False):
        codes[place] = "Z99"
    return pl.DataFrame({"code": codes, "pay": RNG.gamma(2, 500, rows)})


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    path = tmp_path / "groups.csv"
    path.write_text("code,chapter\n" + "".join(f"{c},{'first' if c < 'B' else 'rest'}\n" for c in CODES))
    return path


def plan_of(groups: Path) -> dict[str, Any]:
    own = {"code": {"mapping": str(groups), "other": True}, "pay": {"domain": [0, 1000]}}
    return {"gamma": 9, "clip": True, "attributes": own}


def test_a_prefix_makes_few_of_many_and_other_takes_the_rest() -> None:
    release = perturb(table(extra=3), gamma=9, attributes={"code": {"prefix": 1, "other": True}})
    (code, _) = release.sidecar.attributes
    assert (code.categories, code.group.prefix, code.outside) == ([OTHER, "A", "B", "C"], 1, "other")
    assert set(release.frame["code"].cast(pl.String)) <= {OTHER, "A", "B", "C"}


def test_a_later_batch_never_stops_at_a_new_category(groups: Path) -> None:
    """The trial's fourteenth run: one new category stopped --like for good."""
    for own in ({"prefix": 1, "other": True}, {"mapping": str(groups), "other": True}):
        plan = {"gamma": 9, "clip": True, "attributes": {"code": own}}
        first = perturb(table(), plan=plan)
        later = table(extra=400).with_columns(pay=pl.col("pay") * 100)
        again = perturb(later, like=first.sidecar, plan=plan, clip=True)
        assert again.sidecar.attributes == first.sidecar.attributes
    with pytest.raises(DataError, match="outside its domain"):
        perturb(later, like=perturb(table(), gamma=9, attributes={"code": {"prefix": 1}}).sidecar)


def test_the_original_is_treated_as_the_release_was(groups: Path) -> None:
    frame = table(extra=20)
    release = perturb(frame, plan=plan_of(groups))
    done = estimate(release.frame, sidecar=release.sidecar, truth=frame, mappings=[read_mapping(groups)])
    true = {(t.names[0], i): n for t in done.tables for i, n in enumerate(t.truth.tolist())}
    counts = [sum(c == "Z99" for c in frame["code"]), sum(c < "B" for c in frame["code"])]
    assert [true["code", 0], true["code", 1]] == counts
    assert true["pay", 9] == int((frame["pay"] >= 900).sum())
    with pytest.raises(MismatchError, match="which is missing here"):
        estimate(release.frame, sidecar=release.sidecar, truth=frame)
    groups.write_text(groups.read_text() + "D00,rest\n")
    with pytest.raises(MismatchError, match="which is missing here"):
        estimate(release.frame, sidecar=release.sidecar, truth=frame, mappings=[read_mapping(groups)])


@pytest.mark.parametrize(
    "text",
    ["", "code\n", "code,chapter\nA,\n", "code,chapter\nA,x\nA,y\n", "code,chapter\nA,x,y\n", 'a,b\n"A,x\n'],
)
def test_a_file_that_is_no_list_of_groups_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(text)
    with pytest.raises(DataError, match="file of groups"):
        read_mapping(tmp_path / "g.csv")


def test_what_cannot_be_grouped_is_refused(groups: Path) -> None:
    for own in (
        {"prefix": 0},
        {"prefix": 1, "mapping": str(groups)},
        {"mapping": str(groups), "domain": "a|b"},
        {"scale": "month", "bins": 5},
        {"scale": "month"},
    ):
        with pytest.raises(PpdmError):
            perturb(table(), gamma=9, attributes={"code": own})
    with pytest.raises(UsageError, match="no prefix"):
        perturb(table(), gamma=9, rare="merge", attributes={"pay": {"prefix": 1}})
    frame = table(extra=1)
    with pytest.raises(DataError, match="file of groups does not have"):
        perturb(frame, gamma=9, attributes={"code": {"mapping": str(groups)}})


# -- calendar

KINDS = [pa.date32(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns")]
DAYS = st.integers(-200_000, 200_000)


@given(
    DAYS, st.integers(0, 40_000), st.sampled_from(KINDS), st.sampled_from([None, *CALENDAR]), st.integers(2, 30)
)
def test_calendar_edges_begin_periods_and_hold_all(
    day: int, span: int, kind: pa.DataType, period: str | None, bins: int
) -> None:
    ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.get(getattr(kind, "unit", ""), 0) * 86_400 or 1
    lowest, highest = dtypes.limits(kind)
    low, high = max(day * ticks, lowest), min((day + span) * ticks + ticks // 2, highest)
    if low > high:
        return
    edges = calendar_edges(low, high, bins, kind, period)
    domain = Bins(kind, edges, False)
    assert domain.encode(dtypes.from_carrier(np.array([low, high]), kind)).outside.size == 0
    assert period is not None or domain.ordinary <= max(bins, 2)
    if period is not None:
        for edge in (e for e in edges[:-1] if e != lowest):
            first = np.datetime64(edge // ticks, "D").astype(object)
            assert edge % ticks == 0 and first.day == 1
            assert ((first.year * 12 + first.month - 1) % CALENDAR[period]) == 0


def test_dates_from_data_are_cut_at_the_calendar() -> None:
    days = pl.Series(np.arange(2000)).cast(pl.Date)
    frame = pl.DataFrame({"day": days.sample(2000, shuffle=True, seed=1), "x": RNG.random(2000)})
    (day, _) = perturb(frame, gamma=9).sidecar.attributes
    assert all(str(e).endswith("-01") for e in day.edges[:-1]) and str(day.edges[-1])[8:] >= "28"
    (day, _) = perturb(frame, gamma=9, attributes={"day": {"scale": "year"}}).sidecar.attributes
    assert day.edges == [*(f"{y}-01-01" for y in range(1970, 1976)), "1975-12-31"][: len(day.edges)]


# -- cells of a CSV


def read(tmp_path: Path, text: str, **csv: Any) -> pa.Table:
    (tmp_path / "t.csv").write_text(text)
    return read_table(tmp_path / "t.csv", **csv)


def test_decimal_commas_dates_and_own_nulls(tmp_path: Path) -> None:
    text = 'a;b;c;d\n1.234,56;31.12.2020;-9;"x,y"\n-0,5;2021-01-02;7;z\n;;3;z\n'
    csv: dict[str, Any] = {"delimiter": ";", "decimal": ",", "formats": {"b": ["%d.%m.%Y", "%Y-%m-%d"]}}
    found = read(tmp_path, text, **csv, types={"c": "int"}, nulls_of={"c": "-9"})
    assert found.column("a").to_pylist() == [1234.56, -0.5, None]
    assert [str(d) for d in found.column("b").to_pylist()] == ["2020-12-31", "2021-01-02", "None"]
    assert found.column("c").to_pylist() == [None, 7, 3]
    csv = {"decimal": ",", "types": {"a": "double"}, "formats": {"b": "%d.%m.%y %H:%M"}}
    (row,) = read(tmp_path, "a;b\n1,5;01.02.03 4:05\n", delimiter=";", **csv).to_pylist()
    assert (row["a"], row["b"].isoformat()) == (1.5, "2003-02-01T04:05:00")


@pytest.mark.parametrize(
    ("cell", "csv"),
    [
        ("1.23,4", {"decimal": ",", "types": {"a": "double"}}),
        ("1,2,3", {"decimal": ",", "types": {"a": "double"}}),
        ("1.5", {"decimal": ",", "types": {"a": "int"}}),
        ("31.02.2020", {"formats": {"a": "%d.%m.%Y"}}),
        ("1.2.20", {"formats": {"a": "%d.%m.%Y"}}),
        ("01/13/2020", {"formats": {"a": "%d/%m/%Y"}}),
        ("x", {"types": {"a": "int"}, "nulls_of": {"a": ["-9"]}}),
    ],
)
def test_a_cell_that_does_not_fit_is_an_error_with_its_row(
    cell: str, csv: dict[str, Any], tmp_path: Path
) -> None:
    fits = {"double": "1,5", "int": "-9"}.get(next(iter(csv.get("types", {"": ""}).values())), "01.02.2020")
    fits = "01/02/2020" if "/" in cell else fits
    with pytest.raises(DataError, match="row 3 of"):
        read(tmp_path, f"a;b\n{fits};1\n{fits};1\n{cell};1\n", delimiter=";", **csv)


@pytest.mark.parametrize("wrong", ["%d.%m", "%d.%d.%Y", "%Y-%j", "%B %d %Y", "x"])
def test_formats_that_are_none(wrong: str) -> None:
    with raises("bad-date-format", UsageError):
        CsvOptions(formats={"a": wrong})
    with raises("null-without-type", UsageError):
        CsvOptions(nulls_of={"x": ["-9"]})


def test_zeros_before_digits_stay_and_the_report_says_so(tmp_path: Path, ppdm: Run) -> None:
    rows = "".join(f"{z:05d},{i % 7}\n" for i, z in enumerate(RNG.integers(995, 1005, 500)))
    (tmp_path / "z.csv").write_text("zip,n\n" + rows)
    said = ppdm(
        *["perturb", "z.csv", "-o", "r.csv", "--gamma", "9", "--rare", "merge", "--shuffle"]
    ).stderr.decode()
    assert "Read as text, because digits begin with zeros: zip." in said
    assert read(tmp_path, "a,b\n0,0.5\n10,07\n").schema.types == [pa.int64(), pa.float64()]
    assert "error" in said


def test_a_tree_makes_the_groups_that_it_was_taught(tmp_path: Path, ppdm: Run) -> None:
    data = table(6000, extra=30)
    data = data.with_columns(sick=pl.col("code").str.starts_with("A").cast(pl.String))
    data.write_csv(tmp_path / "o.csv")
    own = ("--attribute", "code:prefix=1,other=true", "--attribute", "pay:domain=0:1000")
    kept = ("--class", "sick", "--keep", "sick", "--clip", "--seed", "1")
    ppdm("perturb", "o.csv", "-o", "r.csv", "--gamma", "19", *kept, *own)
    ppdm("train-tree", "r.csv", "-o", "t.json")
    ppdm("reconstruct", "r.csv", "-o", "u.csv")
    ppdm("train-tree", "u.csv", "-o", "t2.json", "--export", "t2.sql")
    assert "code by 1" in (tmp_path / "t2.sql").read_text()
    for tree in ("t.json", "t2.json"):
        found = json.loads(ppdm("predict", tree, "o.csv", "-o", "p.csv", "--force", "--json").stdout)
        assert found["test"]["accuracy"] > 0.99, "by their first letter, and Z99 as one of the others"
        assert pl.read_csv(tmp_path / "p.csv")["code"].equals(data["code"]), "the records stay as they are"
        assert {f.name: f.prefix for f in load_tree(tmp_path / tree).features}["code"] == 1


def test_a_tree_of_a_files_groups_says_what_it_needs(groups: Path) -> None:
    data = table(3000).with_columns(sick=(pl.col("code") < "B").cast(pl.String))
    release = perturb(data, plan=plan_of(groups) | {"class": "sick", "keep": ["sick"]})
    taught = train_tree(release.frame, sidecar=release.sidecar)
    assert any("'code' grouped by a file" in r for r in taught.remarks)

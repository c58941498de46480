"""Channels that are given whole, and blocks: figures, commands, errors, and files of other tools."""

from __future__ import annotations

import json
import random
from collections import Counter
from contextlib import nullcontext
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import attack, estimate, perturb
from ppdm_cli.channels import KINDS, Request
from ppdm_cli.channels.dense import Weights, scaled_columns
from ppdm_cli.domain import Categories
from tests.vocabulary import Run, people, raises

PLAN = """
class = "group"
gamma = 9
rare = "publish"
[attributes.region]
matrix = "dense"
table = "region.csv"
[attributes.smoker]
matrix = "binary"
flips = [0.1, 0.25]
[attributes.code]
matrix = "block"
blocks = [["x1", "x2"], ["y1", "y2", "y3"]]
[attributes.group]
matrix = "symmetric"
each = 0.1
"""
REGION = ",n,e,s,w\nn,.8,.1,.1,.05\ne,.1,.8,.1,.05\ns,.05,.05,.7,.1\nw,.05,.05,.1,.8\n"


def whole(kind: str, values: list[str], gamma: int | None = None, **options: Any) -> Any:
    domain = Categories(pa.string(), sorted(values), False)
    asked = Request(None if gamma is None else Decimal(gamma), options)
    return KINDS[kind].asked("x", domain, asked)[0].matrix(domain)


@pytest.mark.parametrize(
    ("kind", "values", "options", "gamma", "K"),
    [
        ("symmetric", "ab", {"each": 0.25}, 3, 2),  # A, D
        ("symmetric", "abc", {"each": 0.15}, 0.7 / 0.15, 3),  # L, B
        ("symmetric", "ab", {"each": 0.2}, 4, 2),  # E, X
        ("binary", "ab", {"flips": [0.1, 0.25]}, 7.5, 2),  # C, F: the paper prints 9 (maths 8)
    ],
)
def test_ma_and_sivakumars_table_1(
    kind: str, values: str, options: dict[str, Any], gamma: float, K: int
) -> None:
    matrix = whole(kind, list(values), **options)
    assert matrix.amplification == pytest.approx(gamma) and matrix.candidates == K
    assert matrix.invertible


def test_a_block_tells_its_block_and_no_more() -> None:
    matrix = whole("block", list("abcde"), 9, blocks=(("a", "c"), ("b", "d", "e")))
    assert (matrix.amplification, matrix.candidates) == (inf, 2)
    inside = matrix.dense()[np.ix_([1, 3, 4], [1, 3, 4])]
    assert inside.max() / inside.min() == pytest.approx(9) and matrix.dense()[0, 1] == 0
    assert whole("block", list("ab"), 9, blocks=(("a", "b"),)).amplification == 9


@given(st.integers(2, 9), st.data())
def test_alias_tables_hold_each_weight_to_the_last_integer(N: int, data: st.DataObject) -> None:
    columns = [data.draw(st.lists(st.integers(0, 99), min_size=N, max_size=N).filter(any)) for _ in range(N)]
    rounded, scale = scaled_columns([[Decimal(w) / sum(c) for w in c] for c in columns])
    matrix = Weights(np.array(rounded).T, scale)
    for column, found in zip(columns, rounded, strict=True):
        assert sum(found) == scale
        assert [w > 0 for w in column] == [w > 0 for w in found], "0 stays 0, positive stays positive"
        if min(w for w in column if w) / sum(column) * scale > 1:
            assert np.abs(np.array(found) - np.array(column) / sum(column) * scale).max() < 1 + 1e-6
    first, other = matrix._aliases
    drawn = np.zeros((N, N), np.int64)
    for k in range(N):
        np.add.at(drawn[:, k], np.arange(N), first[k].astype(np.int64))
        np.add.at(drawn[:, k], other[k].astype(np.intp), scale - first[k].astype(np.int64))
    assert (drawn == N * matrix.weights).all()


@pytest.fixture
def data(tmp_path: Path) -> pl.DataFrame:
    rng, n = np.random.default_rng(3), 12_000
    group = rng.choice(["a", "b"], n, p=[0.7, 0.3])
    region = np.where(group == "a", rng.choice(list("nesw"), n, p=[0.5, 0.2, 0.2, 0.1]), "w")
    smoker = np.where(rng.random(n) < np.where(group == "a", 0.2, 0.6), "yes", "no")
    code = rng.choice(["x1", "x2", "y1", "y2", "y3"], n)
    frame = pl.DataFrame({"region": region, "smoker": smoker, "code": code, "group": group})
    frame.write_parquet(tmp_path / "o.parquet")
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "region.csv").write_text(REGION)
    return frame


def test_a_plan_of_every_kind_is_published_inspected_and_estimated(
    data: pl.DataFrame, tmp_path: Path, ppdm: Run
) -> None:
    ppdm("perturb", "o.parquet", "-o", "r.parquet", "--plan", "plan.toml", "--keep-order")
    shown = json.loads(ppdm("inspect", "r.parquet", "--json").stdout)
    assert shown["record"]["perturbed_gamma"] == "inf"
    by_name = {a["attribute"]: a for a in shown["attributes"]}
    assert by_name["smoker"]["gamma"] == pytest.approx(7.5) and by_name["code"]["gamma"] == "inf"
    assert [by_name[n]["candidates"] for n in ("region", "smoker", "code", "group")] == [4, 2, 2, 2]
    exact = {(c, r): n for c, r, n in data.group_by("group", "region").len().iter_rows()}
    found = estimate(tmp_path / "r.parquet", by="group").frame
    for row in found.filter(pl.col("attribute") == "region").iter_rows(named=True):
        true = exact.get((row["class"], row["label"]), 0)
        assert abs(row["estimate"] - true) < 5 * row["std_error"] + 1
    assert attack(tmp_path / "r.parquet", truth=data, attacks=["audit"]).honest


def test_the_audit_catches_a_swapped_matrix(data: pl.DataFrame, tmp_path: Path) -> None:
    """One column is another than the sidecar says: w stays in 85 of 100 records and not in 80."""
    frame = data.select("region")
    laws = {
        "told": REGION,
        "done": REGION.replace("s,.05,.05,.7,.1\nw,.05,.05,.1,.8", "s,.05,.05,.7,.05\nw,.05,.05,.1,.85"),
    }
    made = {}
    for name, law in laws.items():
        (tmp_path / f"{name}.csv").write_text(law)
        settings = {"matrix": "dense", "table": str(tmp_path / f"{name}.csv")}
        made[name] = perturb(frame, attributes={"region": settings}, seed=1, keep_order=True)
    honest, other = (
        attack(m.frame, sidecar=made["told"].sidecar, truth=frame, attacks=["audit"]) for m in made.values()
    )
    assert honest.audit[0].honest and not other.audit[0].honest


SETTINGS: dict[str, dict[str, Any]] = {
    "binary-domain-size": {"matrix": "binary", "flips": "0.1:0.2"},
    "missing-flips": {"matrix": "binary"},
    "symmetric-chance-too-large": {"matrix": "symmetric", "each": 0.25},
    "gamma-of-whole-matrix": {"matrix": "symmetric", "each": 0.05, "gamma": 9},
    "missing-matrix": {"matrix": "dense"},
    "missing-file": {"matrix": "dense", "table": "missing.csv"},
    "blocks-miss-values": {"matrix": "block", "gamma": 9, "blocks": "n|e;s"},
}
FILES = {
    "matrix-column-sum": REGION.replace(".8,.1,.1,.05", ".8,.1,.1,.06", 1),
    "matrix-labels": REGION.replace("n,e", "n,x", 1),
    "matrix-entry": REGION.replace(".8", "x", 1),
    "matrix-file-not-square": REGION + "z,0,0,0,0\n",
    "matrix-label-twice": REGION.replace("e,s", "n,s", 1),
}


@pytest.mark.parametrize("cause", [*SETTINGS, *FILES])
def test_a_matrix_that_cannot_be_is_refused(cause: str, data: pl.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(FILES.get(cause, ""))
    settings = SETTINGS.get(cause, {"matrix": "dense", "table": str(tmp_path / "bad.csv")})
    with raises(cause):
        perturb(data.select("region"), attributes={"region": settings})


@pytest.mark.parametrize(
    ("matrix", "null", "refused"),
    [("block", "null", True), ("dense", "", True), ("together", "null", True), ("dense", "null", False)],
)
def test_a_label_that_names_two_values_is_refused(
    matrix: str, null: str, refused: bool, tmp_path: Path
) -> None:
    """A text that is written as null is: which of them a block or a row is about could not be known."""
    frame = pl.DataFrame({"x": ["a", null, None, "b"] * 500, "y": ["no", "no", "yes", "yes"] * 500})
    labels = list(dict.fromkeys(["a", "b", null, ""]))
    rows = [f"{h}," + ",".join(".7" if h == k else ".1" for k in labels) for h in labels]
    (tmp_path / "law.csv").write_text("\n".join([f",{','.join(labels)}", *rows, ""]))
    halves = [[f"{x} x {y}" for x in ["a", "b", "null", "null"]] for y in ("no", "yes")]
    block = {"matrix": "block", "gamma": 9, "blocks": [["a", "b"], ["null", "null"]]}
    asked: dict[str, dict[str, Any]] = {
        "block": {"attributes": {"x": block}, "keep": ["y"]},
        "dense": {"attributes": {"x": {"matrix": "dense", "table": str(tmp_path / "law.csv")}}, "keep": ["y"]},
        "together": {"together": [{**block, "attributes": ["x", "y"], "blocks": halves}]},
    }
    with raises("label-of-two-values") if refused else nullcontext():
        perturb(frame, seed=1, keep_order=True, **asked[matrix])


def test_a_singular_matrix_is_published_but_not_estimated_from(tmp_path: Path, ppdm: Run) -> None:
    pl.DataFrame({"x": ["a", "b"] * 500}).write_parquet(tmp_path / "s.parquet")
    (tmp_path / "half.csv").write_text(",a,b\na,.5,.5\nb,.5,.5\n")
    (tmp_path / "p.toml").write_text('[attributes.x]\nmatrix = "dense"\ntable = "half.csv"\ndomain = "a|b"\n')
    ppdm("perturb", "s.parquet", "-o", "r.parquet", "--plan", "p.toml", "--shuffle")
    assert b"condition number inf" in ppdm("estimate", "r.parquet", "--estimator", "inverse", code=4).stderr


def test_a_file_of_another_tool_is_mined_by_a_sidecar_made_for_it(tmp_path: Path, ppdm: Run) -> None:
    """The textbook loop of post-randomisation (as sdcMicro's pram): the 95 % intervals hold the truth."""
    rng = random.Random(5)
    law = {"a": [0.8, 0.15, 0.05], "b": [0.1, 0.85, 0.05], "c": [0.2, 0.2, 0.6]}
    true = rng.choices("abc", [0.6, 0.3, 0.1], k=20_000)
    published = [rng.choices("abc", law[t])[0] for t in true]
    (tmp_path / "pram.csv").write_text("kind\n" + "\n".join(published) + "\n")
    rows = [f"{h}," + ",".join(str(law[k][i]) for k in "abc") for i, h in enumerate("abc")]
    (tmp_path / "law.csv").write_text(",a,b,c\n" + "\n".join(rows) + "\n")
    (tmp_path / "plan.toml").write_text(
        '[attributes.kind]\nmatrix = "dense"\ntable = "law.csv"\ndomain = "a|b|c"\n'
    )
    told = ppdm("inspect", "pram.csv", "--describe", "plan.toml", "-o", "pram.csv.ppdm.json").stdout
    assert b"its random numbers are unknown" in told
    truth = Counter(true)
    for row in estimate(tmp_path / "pram.csv").frame.iter_rows(named=True):
        assert row["low"] <= truth[row["label"]] <= row["high"]
    assert (
        b"exists"
        in ppdm("inspect", "pram.csv", "--describe", "plan.toml", "-o", "pram.csv.ppdm.json", code=2).stderr
    )
    assert b"need each other" in ppdm("inspect", "pram.csv", "--describe", "plan.toml", code=2).stderr
    (tmp_path / "other.csv").write_text("kind\na\nd\n")
    told = ppdm("inspect", "other.csv", "--describe", "plan.toml", "-o", "o.ppdm.json", code=3).stderr
    assert b"row 2 of" in told and b"never publishes" in told


def test_a_plan_of_a_few_attributes_a_record_describes_nobody_elses_file(tmp_path: Path, ppdm: Run) -> None:
    """Which ones each record publishes would stand in a column that no other tool writes."""
    people(100).write_parquet(tmp_path / "f.parquet")
    domains = "[attributes]\nage = { domain = [0, 120] }\n"
    for asked, said in (
        ("record_epsilon = 4", "which attributes a record publishes"),
        ("record_epsilon = 4\nrounds = 9\nclass = 'group'", "rounds must be from 2 to 3"),
    ):
        (tmp_path / "plan.toml").write_text(f"{asked}\nrare = 'publish'\n{domains}")
        done = ppdm("inspect", "f.parquet", "--describe", "plan.toml", "-o", "f.parquet.ppdm.json", code=2)
        assert said in done.stderr.decode() and not (tmp_path / "f.parquet.ppdm.json").exists()

"""Attributes perturbed together: one channel over the product of their domains (Ma and Sivakumar 3 and 5)."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import attack, estimate, perturb, reconstruct, train_tree
from ppdm_cli.channels import KINDS, Request
from ppdm_cli.domain import Bins, Categories, Product
from ppdm_cli.errors import RefusedError, UsageError
from ppdm_cli.releases import opened
from tests.vocabulary import Run

SEXES, PREGNANT = ["F", "M"], ["no", "yes"]
LAW = """\
,F x no,F x yes,M x no,M x yes
F x no,.70,.15,.15,0
F x yes,.15,.70,.05,0
M x no,.15,.15,.80,0
M x yes,0,0,0,1
"""
"""Nobody who is not M and pregnant is published so."""


def table(n: int = 8_000, seed: int = 5) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    pair = rng.choice(3, n, p=[0.4, 0.15, 0.45])  # F no, F yes, M no
    sex, pregnant = np.where(pair < 2, "F", "M"), np.where(pair == 1, "yes", "no")
    ward = np.where(rng.random(n) < np.where(pair == 1, 0.8, 0.3), "north", rng.choice(["east", "west"], n))
    group = np.where(rng.random(n) < np.where(pair == 1, 0.9, 0.2), "a", "b")
    return pl.DataFrame({"ward": ward, "sex": sex, "group": group, "pregnant": pregnant})


def within(found: pl.DataFrame, truth: pl.DataFrame, names: list[str], errors: float = 5.0) -> None:
    """Every estimate lies within so many standard errors of the true count."""
    exact = truth.group_by(names).len()
    joined = found.join(exact, on=names, how="left").with_columns(pl.col("len").fill_null(0))
    assert len(joined) == len(found)
    apart = (joined["estimate"] - joined["len"]).abs() / (joined["std_error"] + 0.2)
    assert apart.max() < errors


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    (tmp_path / "law.csv").write_text(LAW)
    table().write_parquet(tmp_path / "o.parquet")
    return tmp_path


def test_what_the_matrix_forbids_is_never_published(dense: Path, ppdm: Run) -> None:
    together = "sex,pregnant:matrix=dense,table=law.csv"
    told = ppdm("perturb", "o.parquet", "-o", "r.parquet", "--gamma", "9", "--together", together).stderr
    assert b"sex x pregnant" in told and b"No gamma holds for sex x pregnant" in told
    published = pl.read_parquet(dense / "r.parquet")
    assert published.columns == table().columns
    assert not len(published.filter((pl.col("sex") == "M") & (pl.col("pregnant") == "yes")))
    changed = (published["sex"] != table()["sex"]).mean()
    assert 0.1 < float(changed or 0) < 0.3, "not for want of noise"
    back = reconstruct(dense / "r.parquet").frame
    assert back is not None and back.columns == table().columns
    assert not len(back.filter((pl.col("sex") == "M") & (pl.col("pregnant") == "yes")))


@pytest.mark.parametrize("names", [["ward", "group"], ["ward", "sex", "pregnant"], ["pregnant", "sex"]])
def test_cases_a_b_and_c(dense: Path, names: list[str]) -> None:
    """Independent attributes (a); two of three together (b, c); and the pair in another order."""
    release = {("sex", "pregnant"): {"matrix": "dense", "table": str(dense / "law.csv")}}
    together = [{"attributes": list(n), **w} for n, w in release.items()]
    done = perturb(table(), gamma=6, together=together, seed=4)
    found = estimate(done.frame, sidecar=done.sidecar, joint=names, estimator="inverse")
    within(found.frame, table(), names)


@pytest.mark.parametrize("law", [{"gamma": 5}, {"matrix": "dense"}, {"matrix": "symmetric", "each": 0.05}])
def test_case_d_some_of_those_together(dense: Path, law: dict[str, Any]) -> None:
    """By a law of its own where the attribute has one, else by sums; by class and with others too."""
    law = law | ({"table": str(dense / "law.csv")} if law.get("matrix") == "dense" else {})
    done = perturb(table(), gamma=6, together=[{"attributes": ["pregnant", "sex"][::-1], **law}], seed=4)
    for ask in ({"attributes": ["pregnant"]}, {"by": "group", "attributes": ["sex"]}, {"by": "sex"}):
        found = estimate(done.frame, sidecar=done.sidecar, estimator="inverse", **ask).frame  # type: ignore[arg-type]
        by = {"class": ask["by"]} if "by" in ask else {}
        for attribute, part in found.group_by("attribute"):
            names = {"label": str(attribute[0]), **by}
            within(part.rename(names), table(), list(names.values()))
    assert estimate(done.frame, sidecar=done.sidecar, attributes=["sex"]).frame[
        "estimate"
    ].sum() == pytest.approx(8_000)


def test_intervals_of_sums_cover(dense: Path) -> None:
    """95 % of 160 intervals of sums over a matrix without marginal laws; 90 % would be off by 3 errors."""
    law = {"attributes": ["sex", "pregnant"], "matrix": "dense", "table": str(dense / "law.csv")}
    held = []
    for seed in range(40):
        frame = table(2_000, seed)
        done = perturb(frame, gamma=4, together=[law], keep=["ward", "group"], seed=seed)
        for name in ("sex", "pregnant"):
            exact = dict(frame[name].value_counts().iter_rows())
            found = estimate(done.frame, sidecar=done.sidecar, attributes=[name]).frame
            held += [r["low"] <= exact[r["label"]] <= r["high"] for r in found.iter_rows(named=True)]
    assert 0.91 < np.mean(held) <= 1 and len(held) == 160


def test_a_marginal_is_the_sum_of_the_joint() -> None:
    done = perturb(table(), gamma=4, together=[["sex", "pregnant", "ward"]], keep=["group"], seed=1)
    ask = {"sidecar": done.sidecar, "estimator": "inverse"}
    joint = estimate(done.frame, joint=["sex", "pregnant", "ward"], **ask).frame  # type: ignore[arg-type]
    pair = estimate(done.frame, joint=["ward", "sex"], **ask).frame  # type: ignore[arg-type]
    summed = joint.group_by("ward", "sex").agg(pl.col("estimate").sum())
    both = pair.join(summed, on=["ward", "sex"])
    assert np.allclose(both["estimate"], both["estimate_right"]) and len(both) == 6
    assert opened(done.sidecar).axis("sex").matrix.amplification == pytest.approx((4 + 5) / 6)


@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), st.data())
def test_marginal_laws(sizes: list[int], data: st.DataObject) -> None:
    """Of a gamma-diagonal matrix the closed form; of any other the sums, where they hang on nothing else."""
    parts = [Categories(pa.string(), list("abcd")[:n], False) for n in sizes]
    domain = Product(parts)
    places = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, unique=True).map(sorted))
    spec, _ = KINDS["gamma-diagonal"].asked("x", domain, Request(7.5))  # type: ignore[arg-type]
    matrix = spec.matrix(domain)
    found = matrix.marginal(places, sizes, sizes)
    whole = matrix.dense().reshape(*sizes, *sizes)
    rest = tuple(i for i in range(len(sizes)) if i not in places)
    summed = whole.sum(axis=rest).mean(axis=tuple(len(places) + i for i in rest))
    assert found is not None and np.allclose(found.dense(), summed.reshape(found.inputs, -1))


@given(st.data())
def test_codes_and_columns_of_a_product(data: st.DataObject) -> None:
    parts = [Categories(pa.string(), ["a", 'b"', "c x d"], True), Bins(pa.int64(), [0, 5, 9], False)]
    domain = Product(parts)
    assert len(set(domain.labels())) == domain.size == 8
    rows = st.tuples(st.sampled_from(["a", 'b"', "c x d", None]), st.integers(0, 9))
    some = data.draw(st.lists(rows, min_size=1, max_size=20))
    columns = [pa.array([r[0] for r in some], pa.string()), pa.array([r[1] for r in some], pa.int64())]
    found = domain.encode(pa.StructArray.from_arrays(columns, ["0", "1"]))
    assert not found.outside.size
    for own, part, column in zip(domain.split(found.codes), parts, columns, strict=True):
        assert (own == part.encode(column).codes).all()
    again = domain.encode(domain.column(found.codes)).codes
    assert (again == found.codes).all() and (domain.joined(domain.split(again)) == again).all()


def test_every_command_knows_it(tmp_path: Path, ppdm: Run) -> None:
    table().write_parquet(tmp_path / "o.parquet")
    ppdm(
        *("perturb", "o.parquet", "-o", "r.csv", "--gamma", "8", "--class", "group"),
        *("--together", "sex,pregnant:gamma=12"),
    )
    shown = json.loads(ppdm("inspect", "r.csv", "--json").stdout)
    assert [a["attribute"] for a in shown["attributes"]] == ["ward", "sex x pregnant", "group"]
    assert shown["record"]["perturbed_gamma"] == 8 * 12 * 8
    assert b"sex x pregnant" in ppdm("entropy", "r.csv").stdout
    tree = json.loads(ppdm("train-tree", "r.csv", "-o", "t.json", "--test", "o.parquet", "--json").stdout)
    assert tree["test"]["accuracy"] > 0.75 and "pregnant" in json.dumps(tree)
    ppdm("reconstruct", "r.csv", "-o", "back.parquet")
    methods = [reconstruct(tmp_path / "r.csv", method=m).frame for m in ("by-class", "global")]  # type: ignore[arg-type]
    for back in (pl.read_parquet(tmp_path / "back.parquet"), *methods):
        assert back is not None
        exact = table().group_by("sex", "pregnant").len().sort("sex", "pregnant")
        found = back.group_by("sex", "pregnant").len().join(exact, on=["sex", "pregnant"])
        assert ((found["len"].cast(int) - found["len_right"]).abs() < 400).all()
    told = ppdm("attack", "r.csv", "--truth", "o.parquet", "--recovered", "best.parquet").stdout
    assert b"passes" in told and b"sex x pregnant" in told
    assert pl.read_parquet(tmp_path / "best.parquet").columns == table().columns
    again = ppdm("perturb", "o.parquet", "-o", "next.csv", "--like", "r.csv")
    assert b"sex x pregnant" in again.stderr
    both = estimate([tmp_path / "r.csv", tmp_path / "next.csv"], attributes=["sex"])
    assert both.frame["estimate"].sum() == pytest.approx(16_000)


def test_copies_of_attributes_together(tmp_path: Path, ppdm: Run) -> None:
    table().write_parquet(tmp_path / "o.parquet")
    plan = '[[together]]\nattributes = ["sex", "pregnant"]\ngamma = 5\nmatrix = "block"\n'
    plan += 'blocks = [["F x no", "F x yes"], ["M x no", "M x yes"]]\n'
    (tmp_path / "plan.toml").write_text("gamma = 4\nkeep = ['group']\nclass = 'group'\n" + plan)
    ppdm("perturb", "o.parquet", "-o", "c.parquet", "--plan", "plan.toml", "--copies", "2")
    files = [tmp_path / f"c.{i}.parquet" for i in (1, 2)]
    for names in (["sex", "pregnant"], ["pregnant", "ward"]):
        within(estimate(files, joint=names, estimator="inverse").frame, table(), names)
    assert [s["sex"] == table()["sex"] for s in map(pl.read_parquet, files)], "the block is published"
    ppdm("reconstruct", *map(str, files), "-o", "back.parquet")
    train_tree(files)


def test_a_class_together_with_another(tmp_path: Path, ppdm: Run) -> None:
    table().write_parquet(tmp_path / "o.parquet")
    ppdm(
        "perturb",
        "o.parquet",
        "-o",
        "r.parquet",
        "--gamma",
        "9",
        "--class",
        "group",
        "--together",
        "group,ward",
    )
    told = ppdm("train-tree", "r.parquet", "-o", "t.json").stdout
    assert b"perturbed together with the class: 'ward'" in told
    ppdm("reconstruct", "r.parquet", "-o", "back.parquet")
    back = pl.read_parquet(tmp_path / "back.parquet")
    pairs = [
        back.filter((pl.col("group") == g) & (pl.col("ward") == w)).height
        for g, w in product("ab", ["north", "east", "west"])
    ]
    exact = [
        table().filter((pl.col("group") == g) & (pl.col("ward") == w)).height
        for g, w in product("ab", ["north", "east", "west"])
    ]
    assert np.abs(np.array(pairs) - exact).max() < 400


def test_bins_of_both_are_placed_at_random() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"x": rng.uniform(0, 10, 5_000), "y": rng.uniform(0, 10, 5_000)})
    domain = {n: {"domain": [0, 10], "bins": 2} for n in "xy"}
    done = perturb(frame, gamma=9, representative="random", attributes=domain, together=[["x", "y"]], seed=1)
    assert done.frame is not None and done.frame["x"].n_unique() > 4_900 < done.frame["y"].n_unique()
    inside = done.frame.select(pl.all() % 5)
    assert abs(float(np.corrcoef(inside["x"], inside["y"])[0, 1])) < 0.06, "4 errors; one number for both: 1"


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"together": [["sex"]]}, UsageError, "two or more"),
        ({"together": [["sex", "sex"]]}, UsageError, "each once"),
        ({"together": [["sex", "ward"], ["ward", "group"]]}, UsageError, "each once"),
        ({"together": [["sex", "nobody"]]}, UsageError, "'nobody'"),
        ({"together": [["sex", "ward"]], "keep": ["ward"]}, UsageError, "'ward'"),
        ({"together": [["sex", "ward"]], "attributes": {"sex": {"gamma": 3}}}, UsageError, "one gamma"),
        ({"together": [{"attributes": ["sex", "ward"], "bins": 3}]}, UsageError, "one gamma"),
        (
            {"together": [{"attributes": ["sex", "ward"], "matrix": "binary", "flips": [0.1, 0.2]}]},
            RefusedError,
            "two values",
        ),
        ({"together": [{"attributes": ["sex", "ward"], "matrix": "band"}]}, UsageError, "no order"),
    ],
)
def test_what_cannot_be_together(settings: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error) as raised:
        perturb(table(1_000), gamma=5, **settings)
    assert told in str(raised.value)


def test_their_name_may_not_be_anothers() -> None:
    frame = table(1_000).with_columns(pl.col("ward").alias("sex x pregnant"))
    with pytest.raises(RefusedError, match="rename"):
        perturb(frame, gamma=5, together=[["sex", "pregnant"]])


def test_a_budget_is_shared_by_attributes() -> None:
    done = perturb(table(), record_epsilon=4, together=[["sex", "pregnant"]])
    spent = [np.log(c.matrix.amplification) for c in opened(done.sidecar).channels]
    assert spent == pytest.approx([1, 2, 1], abs=1e-4)


def test_the_audit_catches_a_swapped_matrix(dense: Path) -> None:
    """M is turned into pregnant F at 5 in 100 as the sidecar says, and at 12 in truth."""
    other = LAW.replace("F x yes,.15,.70,.05,0", "F x yes,.15,.70,.12,0").replace(".15,.15,.80", ".15,.15,.73")
    (dense / "other.csv").write_text(other)
    laws = [
        {"attributes": ["sex", "pregnant"], "matrix": "dense", "table": str(dense / f)}
        for f in ("law.csv", "other.csv")
    ]
    told, made = (perturb(table(), keep=["ward", "group"], together=[w], seed=3) for w in laws)
    for release, honest in ((told, True), (made, False)):
        done = attack(release.frame, truth=table(), sidecar=told.sidecar, attacks=["audit"])
        assert done.honest is honest

"""What becomes of each attribute: bands, labels of a class, and attributes perturbed together."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from ppdm_cli import Release, attack, estimate, perturb, predict, reconstruct, train_tree
from ppdm_cli.channels import KINDS, Request
from ppdm_cli.channels.band import Band, best_half_width
from ppdm_cli.domain import Bins, Categories, Product
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Attribute
from tests.vocabulary import raises, table

# -- bands


def numbers(rows: int = 4_000) -> pl.DataFrame:
    return table(
        rows, age=(0.0, 99.9), pay=(0.0, 119.9), children=range(10), town=["a", "b", "c"], missing={"pay": 0.1}
    )


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, "gamma-diagonal"),  # single numbers from the data may be codes
        ({"matrix": "band"}, "band"),
        ({"categories": [*range(10)], "half_width": 1}, "band"),
        ({"half_width": 0}, "gamma-diagonal"),
        ({"domain": "0:9"}, "band"),
        ({"domain": "0:9", "gamma": 30}, "gamma-diagonal"),  # the best half-width is 0
        ({"domain": "0:9", "matrix": "gamma-diagonal"}, "gamma-diagonal"),
    ],
)
def test_single_numbers_get_a_band_where_the_owner_says_that_they_are_in_order(
    wish: dict[str, Any], expected: str
) -> None:
    own = {"children": wish}
    sidecar = perturb(
        numbers().select("children"), gamma=2, matrix="band", rare="publish", attributes=own
    ).sidecar
    assert opened(sidecar).channels[0].spec.kind == expected  # type: ignore[union-attr]
    assert (sidecar.perturbed[0].beyond is UNSET) == (expected != "band")


def test_bands_go_where_they_can_with_their_best_half_width() -> None:
    plan = {"age": {"domain": [0, 100]}, "pay": {"domain": [0, 120], "nulls": True}}
    at = pl.Series("at", np.arange(4_000) % 1440).cast(pl.Int64) * 60_000_000_000
    frame = numbers().select("age", "pay", "town").with_columns(at.cast(pl.Time))
    own = plan | {"at": {"domain": ["00:00", "23:59"]}}
    asked: dict[str, Any] = {"record_epsilon": 4, "matrix": "band", "bins": 30, "keep_order": True}
    made = opened(perturb(frame, attributes=own, **asked).sidecar)
    kinds = {c.name: c.spec.kind for c in made.channels}  # type: ignore[union-attr]
    assert kinds == {"age": "band", "pay": "band", "town": "gamma-diagonal", "at": "gamma-diagonal"}
    for channel in made.channels[:2]:
        assert isinstance(channel.matrix, Band)
        assert channel.matrix.half_width == best_half_width(
            channel.matrix.gamma, channel.matrix.sides[0].ordered
        )
        assert 2.71 < channel.matrix.amplification < np.e
    with raises("nothing-beyond"):
        perturb(frame, attributes=own | {"at": own["at"] | {"matrix": "band"}}, **asked)


@pytest.mark.parametrize(
    ("name", "wish", "id"),
    [
        ("town", {"matrix": "band"}, "no-order"),
        ("age", {"half_width": 11}, "wrong-half-width"),
        ("age", {"half_width": -1}, "negative-half-width"),
        ("age", {"matrix": "gamma-diagonal", "half_width": 2}, "option-of-other-matrix"),
        ("age", {"matrix": "nosuch"}, "unknown-kind-of-matrix"),
        ("age", {"bins": 5000, "matrix": "band"}, "band-of-unordered"),
        ("age", {"gamma": 9.00001, "bins": 2000, "half_width": 900}, "gamma-too-fine-for-band"),
    ],
)
def test_what_can_have_no_band_is_refused(name: str, wish: dict[str, Any], id: str) -> None:
    plan: dict[str, Any] = {"age": {"domain": [0, 100]}, "town": {"categories": ["a", "b", "c"]}}
    with raises(id):
        perturb(
            numbers(100).select("age", "town"), gamma=5, bins=20, attributes=plan | {name: plan[name] | wish}
        )


# -- a class of numbers keeps its numbers: they are labels, and labels in bins teach nothing


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
@pytest.mark.parametrize("bins", [2, "auto", None])
def test_a_class_of_digits_keeps_its_ten(bins: Any, domain: dict[str, Any]) -> None:
    release = perturb(digits(), gamma=5, bins=bins, class_="digit", attributes=STROKES | domain, seed=1)
    assert label(release).categories == list(range(10)) and label(release).edges is UNSET
    assert release.sidecar.by_name["stroke0"].type == "continuous"


def test_the_ten_digits_are_learnt_of_a_class_that_was_perturbed() -> None:
    release = perturb(digits(), gamma=9, bins="auto", class_="digit", attributes=STROKES, seed=1)
    usable = reconstruct(release.frame, sidecar=release.sidecar)
    assert set(usable.frame["digit"]) == set(range(10))
    guessed = predict(train_tree(usable.frame, "digit"), digits())["predicted"]
    assert set(guessed) == set(range(10)) and (guessed == digits()["digit"]).mean() > 0.3


def in_turn(values: int) -> pl.DataFrame:
    return pl.DataFrame({"y": np.random.default_rng(1).permutation(np.arange(values * 10) % values)})


DAYS = pl.DataFrame({"y": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 2, 19), eager=True)})


@pytest.mark.parametrize(
    ("frame", "own", "id"),
    [
        (in_turn(1_001), {}, "class-of-many-values"),
        (in_turn(5), {"domain": "0:1000"}, "class-of-many-values"),
        (in_turn(5).cast(float) / 50, {"domain": "0:1"}, "class-of-many-values"),
        (DAYS, {"domain": "2020-01-01:2024-01-01"}, "class-of-many-values"),
        (in_turn(5), {"bins": 5}, "class-with-bins"),
        (in_turn(5), {"edges": [0, 5, 10]}, "class-with-bins"),
        (in_turn(5), {"bins": 5, "domain": [0, 9]}, "class-with-bins"),
        (in_turn(5), {"scale": "sqrt", "domain": [0, 9]}, "class-with-bins"),
        (in_turn(5), {"core": [0, 4], "domain": [0, 9]}, "class-with-bins"),
        (in_turn(50)[:60], {}, "rare-categories"),
    ],
)
def test_a_class_is_never_binned(frame: pl.DataFrame, own: dict[str, Any], id: str) -> None:
    with raises(id):
        perturb(frame, gamma=9, class_="y", bins=20, attributes={"y": own} if own else {})


def test_a_thousand_labels_nulls_and_few_fractions_are_labels_too() -> None:
    assert label(perturb(in_turn(1_000), gamma=9, class_="y", seed=1)).N == 1_000
    halves = digits().with_columns(digit=pl.when(pl.col("digit") > 7).then(None).otherwise(pl.col("digit") / 2))
    found = label(perturb(halves, gamma=9, class_="digit", bins=4, attributes=STROKES, seed=1))
    assert found.N == 9 and found.nulls and found.categories == [v / 2 for v in range(8)]


def test_a_band_of_labels_is_asked_for_by_name() -> None:
    """Digits have an order that a reader of numbers sees, and a reader of handwriting does not."""
    for own, kind in (({}, "gamma-diagonal"), ({"matrix": "band", "half_width": 1}, "band")):
        plan = STROKES | {"digit": {"domain": [0, 9], **own}}
        release = perturb(digits(), gamma=5, matrix="band", class_="digit", attributes=plan, seed=1)
        assert opened(release.sidecar).axis("digit").spec.kind == kind  # type: ignore[union-attr]


# -- attributes together: one channel over the product of their domains (Ma and Sivakumar 3 and 5)

LAW = """\
,F x no,F x yes,M x no,M x yes
F x no,.70,.15,.15,0
F x yes,.15,.70,.05,0
M x no,.15,.15,.80,0
M x yes,0,0,0,1
"""
"""Nobody who is not M and pregnant is published so."""


def wards(n: int = 8_000, seed: int = 5) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    pair = rng.choice(3, n, p=[0.4, 0.15, 0.45])  # F no, F yes, M no
    sex, pregnant = np.where(pair < 2, "F", "M"), np.where(pair == 1, "yes", "no")
    ward = np.where(rng.random(n) < np.where(pair == 1, 0.8, 0.3), "north", rng.choice(["east", "west"], n))
    group = np.where(rng.random(n) < np.where(pair == 1, 0.9, 0.2), "a", "b")
    return pl.DataFrame({"ward": ward, "sex": sex, "group": group, "pregnant": pregnant})


@pytest.fixture
def law(tmp_path: Any) -> dict[str, Any]:
    (tmp_path / "law.csv").write_text(LAW)
    return {"attributes": ["sex", "pregnant"], "matrix": "dense", "table": str(tmp_path / "law.csv")}


def within(found: pl.DataFrame, truth: pl.DataFrame, names: list[str], errors: float = 5.0) -> None:
    """Every estimate lies within so many standard errors of the true count."""
    exact = truth.group_by(names).len()
    joined = found.join(exact, on=names, how="left").with_columns(pl.col("len").fill_null(0))
    assert len(joined) == len(found)
    apart = (joined["estimate"] - joined["len"]).abs() / (joined["std_error"] + 0.2)
    assert apart.max() < errors


def test_what_the_matrix_forbids_is_never_published(law: dict[str, Any]) -> None:
    made = perturb(wards(), gamma=9, together=[law], seed=1)
    impossible = (pl.col("sex") == "M") & (pl.col("pregnant") == "yes")
    assert made.frame.columns == wards().columns and not len(made.frame.filter(impossible))
    assert 0.1 < float((made.frame["sex"] != wards()["sex"]).mean() or 0) < 0.3, "not for want of noise"
    for method in ("global",):
        back = reconstruct(made.frame, sidecar=made.sidecar, method=method).frame  # type: ignore[arg-type]
        assert back.columns == wards().columns and not len(back.filter(impossible))


@pytest.mark.parametrize("names", [["ward", "group"], ["ward", "sex", "pregnant"], ["pregnant", "sex"]])
def test_cases_a_b_and_c(law: dict[str, Any], names: list[str]) -> None:
    """Independent attributes (a); two of three together (b, c); and the pair in another order."""
    done = perturb(wards(), gamma=6, together=[law], seed=4)
    found = estimate(done.frame, sidecar=done.sidecar, joint=names, estimator="inverse")
    within(found.frame, wards(), names)


@pytest.mark.parametrize("other", [{"gamma": 5}, {"matrix": "dense"}, {"matrix": "symmetric", "each": 0.05}])
def test_case_d_some_of_those_together(law: dict[str, Any], other: dict[str, Any]) -> None:
    """By a law of its own where the attribute has one, else by sums; by class and with others too."""
    own = law if other.get("matrix") == "dense" else {"attributes": law["attributes"], **other}
    done = perturb(wards(), gamma=6, together=[own | {"attributes": ["sex", "pregnant"]}], seed=4)
    for ask in ({"attributes": ["pregnant"]}, {"by": "group", "attributes": ["sex"]}, {"by": "sex"}):
        found = estimate(done.frame, sidecar=done.sidecar, estimator="inverse", **ask).frame  # type: ignore[arg-type]
        by = {"class": ask["by"]} if "by" in ask else {}
        for attribute, part in found.group_by("attribute"):
            names = {"label": str(attribute[0]), **by}
            within(part.rename(names), wards(), list(names.values()))


def test_intervals_of_sums_cover(law: dict[str, Any]) -> None:
    """95 % of 160 intervals of sums over a matrix without marginal laws; 90 % would be off by 3 errors."""
    held = []
    for seed in range(40):
        frame = wards(2_000, seed)
        done = perturb(frame, gamma=4, together=[law], keep=["ward", "group"], seed=seed)
        for name in ("sex", "pregnant"):
            exact = dict(frame[name].value_counts().iter_rows())
            found = estimate(done.frame, sidecar=done.sidecar, attributes=[name]).frame
            held += [r["low"] <= exact[r["label"]] <= r["high"] for r in found.iter_rows(named=True)]
    assert 0.91 < np.mean(held) <= 1 and len(held) == 160


def test_a_marginal_is_the_sum_of_the_joint() -> None:
    done = perturb(wards(), gamma=4, together=[["sex", "pregnant", "ward"]], keep=["group"], seed=1)
    ask = {"sidecar": done.sidecar, "estimator": "inverse"}
    joint = estimate(done.frame, joint=["sex", "pregnant", "ward"], **ask).frame  # type: ignore[arg-type]
    pair = estimate(done.frame, joint=["ward", "sex"], **ask).frame  # type: ignore[arg-type]
    both = pair.join(joint.group_by("ward", "sex").agg(pl.col("estimate").sum()), on=["ward", "sex"])
    assert np.allclose(both["estimate"], both["estimate_right"]) and len(both) == 6
    assert opened(done.sidecar).axis("sex").matrix.amplification == pytest.approx((4 + 5) / 6)


@given(st.lists(st.integers(2, 4), min_size=2, max_size=3), st.data())
def test_marginal_laws(sizes: list[int], data: st.DataObject) -> None:
    """Of a gamma-diagonal matrix the closed form; of any other the sums, where they hang on nothing else."""
    parts = [Categories(pa.string(), list("abcd")[:n], False) for n in sizes]
    domain = Product(parts)
    axes = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, unique=True).map(sorted))
    spec, _ = KINDS["gamma-diagonal"].asked("x", domain, Request(7.5))  # type: ignore[arg-type]
    matrix = spec.matrix(domain)
    found = matrix.marginal(axes, sizes, sizes)
    whole = matrix.dense().reshape(*sizes, *sizes)
    rest = tuple(i for i in range(len(sizes)) if i not in axes)
    summed = whole.sum(axis=rest).mean(axis=tuple(len(axes) + i for i in rest))
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


@pytest.mark.parametrize("pair", [["sex", "pregnant"], ["group", "ward"]])
def test_reading_knows_attributes_together_with_and_without_the_class(pair: list[str]) -> None:
    done = perturb(wards(), gamma=9, class_="group", together=[pair], seed=1)
    tree = train_tree(done.frame, sidecar=done.sidecar)
    assert ("ward" not in tree.attributes) == ("group" in pair)
    back = reconstruct(done.frame, sidecar=done.sidecar).frame
    counts = back.group_by(pair).len().join(wards().group_by(pair).len(), on=pair)
    assert ((counts["len"].cast(int) - counts["len_right"]).abs() < 400).all()
    again = perturb(wards(seed=6), like=done.sidecar, seed=2)
    assert opened(again.sidecar).channels == opened(done.sidecar).channels


def test_values_in_bins_of_both_are_drawn_separately() -> None:
    frame, domain = table(5_000, x=(0.0, 10.0), y=(0.0, 10.0)), {"domain": [0, 10], "bins": 2}
    own = {"x": domain, "y": domain}
    done = perturb(frame, gamma=9, representative="random", attributes=own, together=[["x", "y"]], seed=1)
    assert done.frame["x"].n_unique() > 4_900 < done.frame["y"].n_unique()
    inside = done.frame.select(pl.all() % 5)
    assert abs(float(np.corrcoef(inside["x"], inside["y"])[0, 1])) < 0.06, "4 errors; one number for both: 1"


@pytest.mark.parametrize(
    ("settings", "id"),
    [
        ({"together": [["sex"]]}, "bad-together"),
        ({"together": [["sex", "sex"]]}, "bad-together"),
        ({"together": [["sex", "ward"], ["ward", "group"]]}, "bad-together"),
        ({"together": [["sex", "nobody"]]}, "unknown-column"),
        ({"together": [["sex", "ward"]], "keep": ["ward"]}, "together-and-aside"),
        ({"together": [["sex", "ward"]], "attributes": {"sex": {"gamma": 3}}}, "settings-of-one-together"),
        ({"together": [{"attributes": ["sex", "ward"], "bins": 3}]}, "settings-of-one-together"),
        (
            {"together": [{"attributes": ["sex", "ward"], "matrix": "binary", "flips": [0.1, 0.2]}]},
            "binary-domain-size",
        ),
        ({"together": [{"attributes": ["sex", "ward"], "matrix": "band"}]}, "no-order"),
        ({"together": [["ward", "sex"]]}, "name-taken"),
    ],
)
def test_what_cannot_be_together_is_refused(settings: dict[str, Any], id: str) -> None:
    frame = wards(1_000).with_columns(pl.col("ward").alias("ward x sex"))
    with raises(id):
        perturb(frame, gamma=5, **settings)


def test_a_budget_is_shared_by_attributes() -> None:
    done = perturb(wards(), record_epsilon=4, together=[["sex", "pregnant"]])
    spent = [np.log(c.matrix.amplification) for c in opened(done.sidecar).channels]
    assert spent == pytest.approx([1, 2, 1], abs=1e-4)


def test_the_audit_catches_a_swapped_matrix(law: dict[str, Any], tmp_path: Any) -> None:
    """M is turned into pregnant F at 5 in 100 as the sidecar says, and at 12 in truth."""
    other = LAW.replace("F x yes,.15,.70,.05,0", "F x yes,.15,.70,.12,0").replace(".15,.15,.80", ".15,.15,.73")
    (tmp_path / "other.csv").write_text(other)
    both = (law, law | {"table": str(tmp_path / "other.csv")})
    stated, made = (perturb(wards(), keep=["ward", "group"], together=[w], seed=3) for w in both)
    for release, honest in ((stated, True), (made, False)):
        done = attack(release.frame, truth=wards(), sidecar=stated.sidecar, attacks=["audit"])
        assert done.honest is honest

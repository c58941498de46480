"""Bins that later rounds publish as one: their law, which ones, what a reader takes and what it refuses."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import attack, estimate, perturb, query, reconstruct, train_tree
from ppdm_cli.channels import BoxSpec
from ppdm_cli.channels.blur import Blur
from ppdm_cli.domain import Bins, Categories, Product
from ppdm_cli.errors import MismatchError, RefusedError, UsageError
from ppdm_cli.estimating import Showing, axis_of
from ppdm_cli.joint import read, screened
from ppdm_cli.releases import open_release
from ppdm_cli.sidecar import decode
from ppdm_cli.sidecar_recipes import COLUMN, Recipe
from tests.chances import LEVEL, binomial, chi_square
from tests.conftest import Run

ROWS, BINS = 40_000, 16
MOST = {"pay": 1000, "age": 80, "size": 2}


def table(rows: int = ROWS, seed: int = 1) -> pl.DataFrame:
    """Most pay is in few of the bins; pay and age decide of the class together."""
    rng = np.random.default_rng(seed)
    pay, age = 1000 * rng.random(rows) ** 6, rng.uniform(0, 80, rows)
    ill = (pay > 60) ^ (age > 40)
    return pl.DataFrame(
        {"pay": pay, "age": age, "size": rng.uniform(0, 2, rows)}
        | {"ill": np.where(ill ^ (rng.random(rows) < 0.05), "yes", "no")}
    )


def released(rows: int = ROWS, seed: int = 1, epsilon: float = 4, unite: bool = True) -> Any:
    attributes = {n: {"domain": [0, most], "bins": BINS, "unite": unite} for n, most in MOST.items()}
    return perturb(table(rows), record_epsilon=epsilon, class_="ill", keep=["ill"], attributes=attributes,
                   rounds=3, seed=seed, keep_order=True)  # fmt: skip


@cache
def release() -> Any:
    return released()


def uniting(made: Any) -> list[Any]:
    """The recipes that publish united bins, which are those of pay."""
    return [d for d in made.sidecar.dealt if any(any(c.spec.united) for c in d.channels)]


@st.composite
def blurs(draw: st.DrawFn) -> Blur:
    size = draw(st.integers(3, 12))
    starts = tuple(sorted({0, *draw(st.sets(st.integers(1, size - 1), min_size=1))}))
    return Blur(size, draw(st.integers(0, len(starts) // 2)), draw(st.booleans()), starts)


@given(blurs())
def test_a_code_is_blurred_as_its_union_is(blur: Blur) -> None:
    unions = Blur(len(blur.starts), blur.half_width, blur.nulls).dense()
    of = [np.searchsorted(blur.starts, k, side="right") - 1 for k in range(blur.ordered)]
    expected = unions[:, [*of, *[len(blur.starts)] * blur.nulls]]
    np.testing.assert_allclose(blur.dense(), expected, atol=1e-15)
    np.testing.assert_allclose(blur.backward(np.eye(blur.outputs)), expected.T, atol=1e-15)
    offsets = np.arange(blur.width)
    for k in range(blur.inputs):
        near = blur.near(np.full(blur.width, k, np.uint8), offsets)
        assert {*near.tolist()} == {*np.flatnonzero(expected[:, k]).tolist()}
    assert blur.noise.sum() == pytest.approx(1) and len(blur.noise) == len(expected)


def test_bins_that_few_records_have_are_united_and_others_are_not() -> None:
    recipes = uniting(release())
    assert recipes and {d.round for d in recipes} <= {2, 3}
    for recipe in recipes:
        for channel in recipe.channels:
            united = dict(zip(channel.attributes, channel.spec.united, strict=True))
            assert united["pay"][:2] == [0, 1] and len(united["pay"]) < 12
            assert not any(united[n] for n in united if n != "pay")
            # the last union is the long tail
            assert united["pay"][-1] < BINS - 2


@pytest.mark.parametrize("rows", [500, 2000])
def test_chance_unites_no_bins_and_nobody_who_was_not_asked_does(rows: int) -> None:
    """Of a few hundred answers some bins have hardly any."""
    rng = np.random.default_rng(rows)
    data = pl.DataFrame({n: rng.random(rows) for n in "abcd"} | {"ill": rng.choice(["yes", "no"], rows)})
    attributes = {n: {"domain": [0, 1], "bins": BINS, "unite": True} for n in "abcd"}
    for seed in range(4):
        made = perturb(data, record_epsilon=4, class_="ill", keep=["ill"], attributes=attributes, rounds=2,
                       seed=seed, keep_order=True)  # fmt: skip
        assert not uniting(made)
    assert not uniting(released(unite=False))


def test_unions_are_asked_for_with_rounds_and_of_bins() -> None:
    asked: dict[str, Any] = {"record_epsilon": 4, "class_": "ill", "keep": ["ill"], "keep_order": True}
    with pytest.raises(UsageError, match="there are no rounds"):
        perturb(table(200), attributes={"pay": {"domain": [0, 1000], "unite": True}}, **asked)
    with pytest.raises(UsageError, match="'size' has no bins in order"):
        whole = table(200).with_columns(pl.lit(1).alias("size"))
        attributes: Any = {n: {"domain": [0, most]} for n, most in MOST.items()}
        attributes["size"]["unite"] = True
        perturb(whole, attributes=attributes, rounds=3, **asked)


def test_what_is_published_of_united_bins_has_the_law_of_the_sidecar() -> None:
    """By code where that has records enough; and a coin that tells 5 % less often is rejected."""
    made, original = release(), table()
    codes = made.sidecar.by_name["pay"].domain.encode(original["pay"].to_arrow()).codes
    showing = Showing.of(made.sidecar, [axis_of(made.sidecar, "pay")])
    [ways] = showing.recipes.attributes
    column = made.sidecar.by_name["pay"].column.encode(made.frame["pay"].to_arrow()).codes
    worst, near, chances, less = 1.0, 0, list[float](), list[float]()
    for recipe in uniting(made):
        rows = np.flatnonzero(made.frame[COLUMN].to_numpy() == recipe.number)
        number = int(showing.recipes.ways[recipe.number, 0])
        way, lam = ways.each[number - 1], float(showing.recipes.lam[recipe.number])
        own, true = showing.own[0][number, column[rows]] - ways.first[number - 1], codes[rows]
        law = lam * way.told + (1 - lam) * way.noise[:, None]
        for code in range(BINS):
            found = np.bincount(own[true == code], minlength=len(law))
            if (found.sum() * law[:, code] >= 5).all():
                worst = min(worst, chi_square(found, law[:, code]))
        close = way.told > 0
        near += int(close[own, true].sum())
        by_chance = (way.noise @ close)[true]
        chances += (lam + (1 - lam) * by_chance).tolist()
        less += (0.95 * lam + (1 - 0.95 * lam) * by_chance).tolist()
    assert worst > LEVEL and len(chances) > ROWS / 3
    assert binomial(near, len(chances), np.mean(chances)) > LEVEL > binomial(near, len(less), np.mean(less))


def test_a_reader_takes_of_a_union_its_middle_bin_and_nothing_else() -> None:
    """Where in its union a record lies would be told by any other bin."""
    made = release()
    attribute, recipe = made.sidecar.by_name["pay"], uniting(made)[0]
    [starts] = [u for u in recipe.channels[0].spec.united if u]
    beyond = (attribute.column.ordinary - BINS) // 2
    middles = [beyond + (a + b - 1) // 2 for a, b in zip(starts, [*starts[1:], BINS], strict=True)]
    assert attribute.places(recipe.through["pay"]).tolist() == middles, "without a half-width nothing is beyond"
    column = attribute.column
    possible = set(attribute.places(recipe.through["pay"]).tolist())
    other = next(c for c in range(column.ordinary - 1, -1, -1) if c not in possible)
    rows = np.flatnonzero(made.frame[COLUMN].to_numpy() == recipe.number)
    assert {*column.encode(made.frame["pay"].to_arrow()).codes[rows].tolist()} <= possible
    values = made.frame["pay"].to_list()
    values[int(rows[0])] = column.decode(np.array([other], np.uint8))[0].as_py()
    changed = made.frame.with_columns(pl.Series("pay", values, made.frame["pay"].dtype))
    with pytest.raises(MismatchError, match="a value that its recipe never publishes"):
        estimate(changed, sidecar=made.sidecar)


def test_estimates_come_from_a_round_that_unites_nothing_and_cover() -> None:
    """Of 16 releases: standardized errors of counts have mean 0 and a spread of 1, within 4 errors of each."""
    rows = 8000
    truth = np.histogram(table(rows)["pay"].to_numpy(), bins=BINS, range=(0, 1000))[0]
    errors = []
    for seed in range(16):
        made = released(rows, seed)
        done = estimate(made.frame, sidecar=made.sidecar, attributes=["pay"], estimator="inverse")
        [told] = done.tables
        whole = [d for d in made.sidecar.dealt if "pay" in d.attributes and d not in uniting(made)]
        last = max(d.round for d in whole)
        assert told.all_records == made.frame[COLUMN].is_in([d.number for d in whole if d.round == last]).sum()
        errors.append((told.estimate - truth) / told.interval.std_error)
    z = np.array(errors)
    assert abs(z.mean(axis=0)).max() < 4 / np.sqrt(16)
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / z.size)


def test_what_was_published_together_on_unions_alone_has_no_unbiased_answer() -> None:
    """At epsilon 2 the first round's records publish one attribute each, and pairs come later."""
    pytest.importorskip("sqlglot")
    made = released(epsilon=2)
    assert uniting(made) and not [d for d in made.sidecar.dealt if d.round == 1 and len(d.attributes) > 1]
    asked = query(made.frame, sidecar=made.sidecar)
    for ask in (
        lambda: estimate(made.frame, sidecar=made.sidecar, joint=["pay", "age"]),
        lambda: asked.select("select mean(pay) filter (where age > 40)"),
        lambda: asked.select("select linear(age, pay)"),
    ):
        with pytest.raises(RefusedError, match="never published together"):
            ask()


def test_every_command_of_the_miner_reads_united_bins() -> None:
    made, original = release(), table()
    assert train_tree(made.frame, sidecar=made.sidecar).model == "joint"
    assert reconstruct(made.frame, sidecar=made.sidecar).frame.height == ROWS
    asked = query(made.frame, sidecar=made.sidecar)
    for name, width in (("age", 80 / BINS), ("pay", 1000 / BINS)):
        [row] = asked.mean(name).rows
        binned = (original[name].to_numpy() // width + 0.5).mean() * width
        assert abs(row.value - binned) < 4 * row.std_error
    done = attack(made.frame, sidecar=made.sidecar, truth=original)
    assert done.honest, "the audit finds the law that the sidecar promises"


@pytest.mark.parametrize(
    ("unions", "domain"),
    [
        ([[1, 3]], None),
        ([[0, 3, 3]], None),
        ([[0, 5]], None),
        ([[0]], None),
        ([[0, 2], [0, 1]], None),
        ([[0, 2]], Categories(pa.int64(), [1, 2, 3, 4, 5], False)),
    ],
)  # fmt: skip
def test_unions_that_are_none_are_refused(unions: list[list[int]], domain: Any) -> None:
    domain = domain or Bins(pa.float64(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], False)
    fields = {"kind": "box", "attributes": ["a"], "gamma": 3, "half_width": [0], "unions": unions}
    with pytest.raises(ValueError):
        msgspec.convert(fields, BoxSpec).matrix(domain)


def test_a_category_that_nobody_has_declared_does_not_fit() -> None:
    """Neither in a column that recipes withhold nor in a class that was kept."""
    data = table(300).with_columns(pl.Series("town", ["x", "y", "z"] * 100))
    domains: dict[str, Any] = {n: {"domain": [0, most]} for n, most in MOST.items()}
    domains["town"] = {"domain": "x|y|z"}
    made = perturb(data, record_epsilon=4, publish=2, class_="ill", keep=["ill"], attributes=domains, seed=1,
                   keep_order=True)  # fmt: skip
    row = int(made.frame["town"].is_not_null().arg_max() or 0)
    for name in ("town", "ill"):
        values = made.frame[name].to_list()
        values[row] = "elsewhere"
        changed = made.frame.with_columns(pl.Series(name, values))
        with pytest.raises(MismatchError, match=f"the column '{name}' has"):
            train_tree(changed, sidecar=made.sidecar)


def test_unions_alone_are_no_release() -> None:
    """Nothing would tell the values of the attribute, and every question would fail in a way of its own."""
    made = release()
    alone = [msgspec.structs.replace(r, round=1) for r in made.sidecar.recipes if r.round == 3]
    with pytest.raises(ValueError, match="is published on united bins alone"):
        msgspec.structs.replace(made.sidecar, recipes=alone)


def test_more_ways_to_show_an_attribute_than_a_byte_counts() -> None:
    made = release()
    [first] = [r for r in made.sidecar.recipes if r.round == 1]
    starts = [[0, *(j for j in range(1, BINS) if i >> j & 1)] for i in range(2, 2 * 301, 2)]
    channels = [
        [{"kind": "box", "attributes": ["pay", "age"], "gamma": 3 + i, "half_width": [0, 0], "unions": [u, []]}]
        for i, u in enumerate(starts)
    ]
    recipes = [first, *(Recipe(msgspec.convert(c, list[BoxSpec]), weight=1, round=1) for c in channels)]
    many = decode(msgspec.structs.replace(made.sidecar, recipes=recipes).encode(), "of the test")
    showing = Showing.of(many, [axis_of(many, "pay")])
    assert showing.recipes.ways.max() == len(showing.recipes.attributes[0].each) < 1 << 16
    assert showing.recipes.ways.max() > 255


def test_what_a_design_costs_is_told_of_united_bins_too(tmp_path: Path, ppdm: Run) -> None:
    """By the command line: `entropy RELEASE`, `inspect`, and the statement."""
    path = tmp_path / "r.parquet"
    table(8000).write_parquet(tmp_path / "t.parquet")
    asked = ["--record-epsilon", 4, "--rounds", 3, "--class", "ill", "--keep", "ill", "--bins", BINS]
    domains = [a for n, most in MOST.items() for a in ("--attribute", f"{n}:domain=0:{most},unite=true")]
    said = ppdm("perturb", tmp_path / "t.parquet", "-o", path, "--seed", 1, *asked, *domains).stderr.decode()
    assert "bins were united in some recipes: 'pay' on" in " ".join(said.split())
    told = json.loads(ppdm("inspect", path, "--json").stdout)["record"]["united_bins"]
    assert [*told] == ["pay"] and told["pay"] < 8
    rows = json.loads(ppdm("entropy", path, "--json").stdout)
    assert rows, "also of laws that cannot be undone"
    ppdm("inspect", path, "--report", tmp_path / "r.html")


def test_other_unions_are_another_law_with_other_coins() -> None:
    fields = {"kind": "box", "attributes": ["a", "b"], "gamma": 3, "half_width": [1, 0]}
    plain, united = (msgspec.convert(fields | more, BoxSpec) for more in ({}, {"unions": [[0, 2], []]}))
    assert plain.decides != united.decides and "unions" not in plain.decides
    assert united.of_some([1]) == plain.of_some([1]) and united.of_some([0]).united == [[0, 2]]
    bins = Bins(pa.float64(), [0.0, 1.0, 2.0, 3.0, 4.0], False)
    assert united.matrix(Product([bins, bins])).amplification == 3


def test_rare_categories_are_no_signal_of_a_class() -> None:
    """Of 40 categories most are of a handful of records, and the class hangs on nothing: none stands out."""
    rng = np.random.default_rng(3)
    weights = np.r_[0.9, np.full(39, 0.1 / 39)]
    found = []
    for seed in range(4):
        data = pl.DataFrame(
            {"country": rng.choice([f"c{i:02}" for i in range(40)], 6000, p=weights),
             "job": rng.choice([f"j{i:02}" for i in range(15)], 6000),
             "sex": rng.choice(["f", "m"], 6000), "ill": rng.choice(["yes", "no"], 6000, p=[0.2, 0.8])}
        )  # fmt: skip
        domains = {n: {"domain": "|".join(sorted(data[n].unique()))} for n in ("country", "job", "sex")}
        made = perturb(data, record_epsilon=4, publish=2, keep=["ill"], class_="ill", attributes=domains,
                       seed=seed, keep_order=True)  # fmt: skip
        opened, sidecar = open_release(made.frame.to_arrow(), made.sidecar, withholding=True)
        tells = screened(read(opened, sidecar, axis_of(sidecar, "ill")))
        found += [*tells.alone.values(), *tells.together.values()]
    assert max(found) < 6, "nats; what tells something has dozens"

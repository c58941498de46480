"""Records that publish a few of their attributes: recipes and rounds, their coins and their whole promise."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from math import log
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import perturb
from ppdm_cli.coins import Key
from ppdm_cli.domain import Bins, Categories
from ppdm_cli.errors import MismatchError
from ppdm_cli.perturbing import Plan
from ppdm_cli.perturbing.next_batch import like
from ppdm_cli.perturbing.recipe_choice import RecipeMaker, Rounds
from ppdm_cli.perturbing.substitution import Withholder
from ppdm_cli.releases import decode, inspection, opened
from ppdm_cli.sidecar import COLUMN, Recipe
from tests.chances import LEVEL, chi_square, independent
from tests.channels.test_box import enumerated
from tests.vocabulary import raises

DOMAINS: dict[str, Any] = {
    "age": {"domain": [0, 120], "bins": 12},
    "pay": {"domain": [0, 100], "bins": 8, "nulls": True},
    "town": {"domain": "a|b|c"},
    "level": {"domain": "0|1|2|3"},
}


def table(rows: int = 4000, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    pay = rng.uniform(0, 100, rows)
    return pl.DataFrame(
        {
            "who": [f"p{i}" for i in range(rows)],
            "age": rng.integers(0, 121, rows),
            "pay": [None if p < 20 else p for p in pay],
            "town": rng.choice(["a", "b", "c"], rows),
            "level": rng.integers(0, 4, rows),
            "ill": rng.choice(["no", "yes"], rows, p=[0.8, 0.2]),
        }
    )


def released(rows: int = 4000, **given: Any) -> Any:
    asked = {"record_epsilon": 2, "publish": 2, "drop": ["who"], "keep": ["ill"], "class_": "ill", "seed": 1}
    return perturb(table(rows), attributes=DOMAINS, **asked | given)


RELEASE = released()


def test_each_record_publishes_what_its_recipe_lists() -> None:
    frame, sidecar = RELEASE.frame, RELEASE.sidecar
    assert frame.columns == ["age", "pay", "town", "level", "ill", COLUMN]
    assert [d.attributes for d in opened(sidecar).recipes] == [*combinations(DOMAINS, 2)]
    for recipe in opened(sidecar).recipes:
        part = frame.filter(pl.col(COLUMN) == recipe.number)
        for name in DOMAINS:
            nulls = part[name].null_count()
            if name not in recipe.attributes:
                assert nulls == part.height
            else:
                assert (0 < nulls < part.height) if name == "pay" else nulls == 0
    assert frame["ill"].to_list() == table()["ill"].to_list()
    assert chi_square(frame[COLUMN].value_counts()["count"].to_numpy(), np.ones(6)) > LEVEL
    privacy = released(seed=None).sidecar.privacy
    assert 2 - 1e-4 < privacy.perturbed_epsilon <= 2 + 1e-5 >= log(privacy.perturbed_gamma)


def test_a_family_is_written_once_where_its_members_are_alike() -> None:
    frame = pl.DataFrame({n: np.arange(600) % 100 for n in "abcdef"} | {"c0": ["x", "y"] * 300})
    own: dict[str, Any] = {n: {"domain": [0, 99], "bins": 10} for n in "abcdef"} | {"c0": {"domain": "x|y"}}
    asked: dict[str, Any] = {"record_epsilon": 3, "publish": 3, "class_": "c0", "seed": 1, "keep_order": True}
    release = perturb(frame, attributes=own, **asked)
    written = json.loads(release.sidecar.encode())["recipes"]
    assert len(written) == 1 and written[0]["choose"] == 3 and written[0]["with"] == ["c0"]
    assert set(written[0]["channel"]) == {"kind", "gamma", "half_width"}
    recipes = opened(decode(release.sidecar.encode(), "x")).recipes
    assert [d.attributes for d in recipes] == [(*c, "c0") for c in combinations("abcdef", 3)]
    assert release.frame["c0"].null_count() == 0, "the class is in every recipe"


def test_the_whole_release_keeps_its_promise_by_the_samplers_own_integers() -> None:
    """Every record to every (recipe, answers): recipes by their weights, channels by each of their draws."""
    small = {"a": {"domain": [0, 40], "bins": 4}, "b": {"domain": "x|y|z"}, "c": {"domain": [0, 20], "bins": 2}}
    frame = pl.DataFrame({"a": [1, 30] * 50, "b": ["x", "z"] * 50, "c": [1, 15] * 50})
    sidecar = perturb(frame, record_epsilon=log(4) + 1e-7, publish=2, attributes=small, keep_order=True).sidecar
    names = list(small)
    records = list(product(*(range(sidecar.by_name[n].domain.size) for n in names)))

    def law(weights: Callable[[Any], Any]) -> np.ndarray:
        rows = []
        for recipe in opened(sidecar).recipes:
            [channel] = recipe.channels
            box: Any = channel.matrix
            where = [names.index(n) for n in channel.attributes]
            at = [int(np.ravel_multi_index([r[p] for p in where], channel.domain.sizes)) for r in records]
            rows.append(enumerated(box)[:, at] / box.range * [weights(r)[recipe.number] for r in records])
        return np.concatenate(rows)

    total = sum(d.weight for d in opened(sidecar).recipes)
    whole = law(lambda record: [d.weight / total for d in opened(sidecar).recipes])
    np.testing.assert_allclose(whole.sum(axis=0), 1)
    found = (whole.max(axis=1) / whole.min(axis=1)).max()
    assert found == pytest.approx(sidecar.privacy.perturbed_gamma) == 4
    leaning = law(lambda record: [0.5, 0.25, 0.25] if record[0] else [0.25, 0.5, 0.25])
    found = (leaning.max(axis=1) / leaning.min(axis=1)).max()
    assert found == pytest.approx(8), "a pattern that depends on a value is caught"


def counted(values: np.ndarray, recipes: np.ndarray) -> np.ndarray:
    found = np.zeros((int(values.max()) + 1, int(recipes.max()) + 1))
    np.add.at(found, (values.astype(int), recipes), 1)
    return found


def test_the_recipe_sees_no_value_and_no_row_number() -> None:
    """At level `LEVEL`: against every column and the row's number; and a coin that sees a value is caught."""
    rows = 40_000
    original, recipes = table(rows), released(rows, seed=5).frame[COLUMN].to_numpy()
    town = (original["town"] == "a").to_numpy()
    columns = (
        np.arange(rows) * 8 // rows,
        np.arange(rows) % 7,
        original["ill"].to_numpy() == "yes",
        original["age"].to_numpy() // 30,
        original["pay"].is_null().to_numpy(),
    )
    assert all(independent(counted(values, recipes)) > LEVEL for values in columns)
    leaning = np.where(town & (np.arange(rows) % 4 == 0), 0, recipes)
    assert independent(counted(town, leaning)) < LEVEL


def keyed(folder: Path, frame: pl.DataFrame, **given: Any) -> Any:
    asked: dict[str, Any] = {"record_epsilon": 2, "publish": 2, "keep": ["ill"], "attributes": DOMAINS}
    return perturb(frame, key_file=folder / "k", id="who", keep_order=True, **asked | given)


def test_under_a_key_file_recipe_and_answers_are_the_same_again(tmp_path: Path) -> None:
    first, frame = keyed(tmp_path, table()).frame, table()
    lines = (tmp_path / "k").read_text().split()
    assert [len(line) for line in lines] == [64, 64] and stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    order = np.random.default_rng(3).permutation(frame.height).tolist()
    assert keyed(tmp_path, frame[order]).frame.equals(first[order])
    changed = keyed(tmp_path, frame.with_columns(age=(pl.col("age") + 60) % 121)).frame
    assert (changed[COLUMN] == first[COLUMN]).all(), "a changed value leaves the recipe"
    sidecar = keyed(tmp_path, frame).sidecar
    withage = [d.number for d in opened(sidecar).recipes if "age" in d.attributes]
    same = ~pl.col(COLUMN).is_in(withage)
    assert changed.filter(same).equals(first.filter(same))
    level = next(d.number for d in opened(sidecar).recipes if set(d.attributes) == {"age", "level"})
    of_both = [f.filter(pl.col(COLUMN) == level)["level"] for f in (first, changed)]
    assert (of_both[0] != of_both[1]).mean() > 0.3, "and redraws all that is published with it"
    fewer: dict[str, Any] = {"drop": ["town"], "attributes": {n: d for n, d in DOMAINS.items() if n != "town"}}
    others: list[dict[str, Any]] = [{"publish": 1}, {"record_epsilon": 3}, {"publish": "all"}, fewer]
    for other in others:
        with raises("other-design"):
            keyed(tmp_path, frame, **other)
    assert (tmp_path / "k").read_text().split() == lines, "what is refused leaves the key file as it was"
    again = perturb(frame, like=sidecar, key_file=tmp_path / "k", id="who", keep_order=True)
    assert again.frame.equals(first), "--like takes the design"


def test_a_cells_coins_depend_on_the_channel_and_not_on_the_recipes_number() -> None:
    own = {n: DOMAINS[n] for n in ("age", "level")}
    asked: dict[str, Any] = {"keep": ["ill"], "drop": ["who", "pay", "town"], "seed": 1, "keep_order": True}
    base = perturb(table(200), record_epsilon=2, publish=1, attributes=own, **asked).sidecar
    settled = like(base, pa.schema([(a.name, a.kind) for a in base.attributes]), Plan())
    specs = [d.channels[0].spec for d in opened(base).recipes]
    turned = replace(settled, recipes=[Recipe([s], weight=1) for s in specs[::-1]])  # type: ignore[list-item]
    codes = {"age": np.zeros(500, np.uint8), "level": np.zeros(500, np.uint8)}
    addresses = np.arange(500, dtype=np.uint64)
    one, other = (Withholder(p, Key.from_seed(4)).published(codes, None, addresses) for p in (settled, turned))
    pairs = zip(one["age"].to_pylist(), other["age"].to_pylist(), strict=True)
    both = [(a, b) for a, b in pairs if None not in (a, b)]
    assert len(both) > 50 and all(a == b for a, b in both)


def test_a_release_has_no_more_recipes_than_there_may_be() -> None:
    known = {str(i): (Bins(pa.float64(), list(range(17)), False), True) for i in range(40)}
    publisher = RecipeMaker.of(known, None, 8.0)
    for k in ("auto", 2):
        [family] = publisher.recipes([*combinations(known, publisher.number(k, 10**6))])
        assert family.members == 780
    with raises("too-many-recipes"):
        publisher.number(3, 10**6)
    labels = {str(i): (Categories(pa.string(), ["0", "1"], False), False) for i in range(91)}
    with raises("recipes-for-rounds"):
        Rounds.of(RecipeMaker.of(labels, None, 4.0), 3, "auto")


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        ({"publish": 9}, "too-many-published"),
        ({"publish": 0}, "bad-publish"),
        ({"publish": 2, "record_epsilon": None, "gamma": 9}, "publish-without-budget"),
        ({"publish": 2, "matrix": "band"}, "publish-without-budget"),
        ({"class_in_budget": True}, "no-class-in-budget"),
        ({"copies": 2, "output": "x.parquet"}, "copies-of-recipes"),
        ({"rounds": 1}, "bad-rounds"),
        ({"rounds": 4}, "bad-rounds"),
        ({"rounds": 2, "class_": None}, "rounds-without-choice"),
        ({"rounds": 2, "publish": "all"}, "rounds-without-choice"),
        ({"rounds": 2, "publish": None, "record_epsilon": None, "gamma": 9}, "rounds-without-choice"),
        ({"rounds": 2, "publish": 9}, "too-many-published"),
        ({"rounds": 2, "publish": None, "class_": "town", "drop": ["who", "age", "pay"]}, "few-for-rounds"),
        ({"rounds": 2, "publish": None, "class_": "pay", "keep": ["pay", "ill"]}, "class-without-labels"),
    ],
)
def test_what_cannot_be_published_is_refused(
    asked: dict[str, Any], id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    aside = {*asked.get("keep", ()), *asked.get("drop", ())}
    with raises(id):
        own = {n: d for n, d in DOMAINS.items() if n not in aside}
        perturb(table(1500), **{"attributes": own, "record_epsilon": 2, "publish": 2, "drop": ["who"],
                "keep": ["ill"], "class_": "ill", "keep_order": True} | asked)  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_that_name_is_not_overwritten() -> None:
    with raises("recipe-column-taken"):
        frame = table(100).with_columns(pl.lit(1).alias(COLUMN))
        perturb(frame, record_epsilon=2, publish=2, attributes=DOMAINS, keep=["ill", COLUMN], drop=["who"])


VALUES = st.sampled_from([0, -1, 3, 1 << 40, [], ["age"], ["age", "age"], [9999, 1], "x", None])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_sidecar_with_recipes_is_read_or_refused(data: st.DataObject) -> None:
    raw = json.loads(RELEASE.sidecar.encode())
    recipes = opened(RELEASE.sidecar).recipes
    listed = [{"weight": 1, "channels": [msgspec.to_builtins(d.channels[0].spec)]} for d in recipes]
    raw["recipes"] = data.draw(st.sampled_from([raw["recipes"], listed]))
    entry = raw["recipes"][0]
    change = data.draw(st.sampled_from(["twice", "choose", "of", "with", *entry]))
    if change == "twice":
        raw["recipes"].append(entry)
    elif change in ("channel", "channels"):
        channel = entry["channel"] if change == "channel" else entry["channels"][0]
        channel[data.draw(st.sampled_from([*channel, "other"]))] = data.draw(VALUES)
    else:
        entry[change] = data.draw(VALUES)
    try:
        found = decode(json.dumps(raw).encode(), "x")
    except MismatchError as error:
        assert "\n" not in str(error)
        return
    assert decode(found.encode(), "again") == found
    inspection.sentences(found)

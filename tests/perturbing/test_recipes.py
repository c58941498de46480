"""Records that publish a few of their attributes: the design, its coins, the file, the promise, the reading."""

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

from ppdm_cli import inspection, perturb
from ppdm_cli.coins import Key
from ppdm_cli.domain import Bins
from ppdm_cli.errors import MismatchError, PpdmError, RefusedError
from ppdm_cli.perturbing import Plan
from ppdm_cli.perturbing.next_batch import like
from ppdm_cli.perturbing.recipe_choice import RecipeMaker
from ppdm_cli.perturbing.substitution import Withholder
from ppdm_cli.releases import decode, opened
from ppdm_cli.sidecar import COLUMN, Recipe
from tests.chances import LEVEL, chi_square, independent
from tests.channels.test_box import enumerated
from tests.vocabulary import Run

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
    assert frame.columns == ["age", "pay", "town", "level", "ill", COLUMN] and opened(sidecar).withholding
    assert [d.attributes for d in opened(sidecar).recipes] == list(
        combinations(["age", "pay", "town", "level"], 2)
    )
    for recipe in opened(sidecar).recipes:
        part = frame.filter(pl.col(COLUMN) == recipe.number)
        for name in ("age", "pay", "town", "level"):
            nulls = part[name].null_count()
            if name not in recipe.attributes:
                assert nulls == part.height
            else:
                assert (0 < nulls < part.height) if name == "pay" else nulls == 0
    assert frame["ill"].to_list() == table()["ill"].to_list()
    counts = frame[COLUMN].value_counts()["count"].to_numpy()
    assert chi_square(counts, np.ones(6)) > LEVEL


def test_the_sidecar_survives_a_round_trip_and_says_the_whole_record() -> None:
    data = RELEASE.sidecar.encode()
    assert decode(data, "x").encode() == data and decode(data, "x") == RELEASE.sidecar
    system = released(seed=None).sidecar.privacy
    assert log(system.perturbed_gamma) <= 2 + 1e-5 and system.perturbed_epsilon == pytest.approx(2, abs=1e-4)


def test_a_family_is_written_once_where_its_members_are_alike() -> None:
    frame = pl.DataFrame({n: np.arange(600) % 100 for n in "abcdef"} | {"c0": ["x", "y"] * 300})
    domains = {n: {"domain": [0, 99], "bins": 10} for n in "abcdef"} | {"c0": {"domain": "x|y"}}
    release = perturb(
        frame, record_epsilon=3, publish=3, class_="c0", attributes=domains, seed=1, keep_order=True
    )
    written = json.loads(release.sidecar.encode())["recipes"]
    assert len(written) == 1 and written[0]["choose"] == 3 and written[0]["with"] == ["c0"]
    assert set(written[0]["channel"]) == {"kind", "gamma", "half_width"}
    dealt = opened(decode(release.sidecar.encode(), "x")).recipes
    assert [d.attributes for d in dealt] == [(*c, "c0") for c in combinations("abcdef", 3)]
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
            places = [names.index(n) for n in channel.attributes]
            at = [int(np.ravel_multi_index([r[p] for p in places], channel.domain.sizes)) for r in records]
            rows.append(enumerated(box)[:, at] / box.range * [weights(r)[recipe.number] for r in records])
        return np.concatenate(rows)

    total = sum(d.weight for d in opened(sidecar).recipes)
    whole = law(lambda record: [d.weight / total for d in opened(sidecar).recipes])
    np.testing.assert_allclose(whole.sum(axis=0), 1)
    found = (whole.max(axis=1) / whole.min(axis=1)).max()
    assert found == pytest.approx(sidecar.privacy.perturbed_gamma) == 4
    telling = law(lambda record: [0.5, 0.25, 0.25] if record[0] else [0.25, 0.5, 0.25])
    found = (telling.max(axis=1) / telling.min(axis=1)).max()
    assert found == pytest.approx(8), "a pattern that depends on a value is caught"


def dealt_of(frame: pl.DataFrame) -> np.ndarray:
    return frame[COLUMN].to_numpy()


def test_the_recipe_sees_no_value_and_no_place() -> None:
    """At level `LEVEL`: against every column and the row's place; and a coin that sees a value is caught."""
    rows = 40_000
    original, release = table(rows), released(rows, seed=5)
    recipes = dealt_of(release.frame)
    columns = {
        "place": np.arange(rows) * 8 // rows,
        "parity": np.arange(rows) % 7,
        "ill": original["ill"].to_numpy() == "yes",
        "age": original["age"].to_numpy() // 30,
        "null": original["pay"].is_null().to_numpy(),
    }
    for values in columns.values():
        found = np.zeros((int(values.max()) + 1, 6))
        np.add.at(found, (values.astype(int), recipes), 1)
        assert independent(found) > LEVEL
    leaning = np.where((original["town"] == "a").to_numpy() & (np.arange(rows) % 4 == 0), 0, recipes)
    found = np.zeros((2, 6))
    np.add.at(found, ((original["town"] == "a").to_numpy().astype(int), leaning), 1)
    assert independent(found) < LEVEL


def keyed(folder: Path, frame: pl.DataFrame, **given: Any) -> Any:
    asked: dict[str, Any] = {"record_epsilon": 2, "publish": 2, "keep": ["ill"], "attributes": DOMAINS}
    return perturb(frame, key_file=folder / "k", id="who", keep_order=True, **asked | given)


def test_under_a_key_file_recipe_and_answers_are_the_same_again(tmp_path: Path) -> None:
    first, frame = keyed(tmp_path, table()).frame, table()
    lines = (tmp_path / "k").read_text().split()
    assert [len(line) for line in lines] == [64, 64] and stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    order = np.random.default_rng(3).permutation(frame.height)
    again = keyed(tmp_path, frame[order.tolist()]).frame
    assert again.equals(first[order.tolist()])
    older = frame.with_columns(age=(pl.col("age") + 60) % 121)
    changed = keyed(tmp_path, older).frame
    assert (changed[COLUMN] == first[COLUMN]).all(), "a changed value leaves the recipe"
    sidecar = keyed(tmp_path, frame).sidecar
    withage = [d.number for d in opened(sidecar).recipes if "age" in d.attributes]
    same = ~pl.col(COLUMN).is_in(withage)
    assert changed.filter(same).equals(first.filter(same))
    level = next(d.number for d in opened(sidecar).recipes if set(d.attributes) == {"age", "level"})
    of_both = [f.filter(pl.col(COLUMN) == level)["level"] for f in (first, changed)]
    assert (of_both[0] != of_both[1]).mean() > 0.3, "and redraws all that is published with it"
    others: list[dict[str, Any]] = [{"publish": 1}, {"record_epsilon": 3}, {"publish": "all"}]
    fewer = {n: d for n, d in DOMAINS.items() if n != "town"}
    for other in [*others, {"drop": ["town"], "attributes": fewer}]:
        with pytest.raises(RefusedError, match="another design"):
            keyed(tmp_path, frame, **other)
    assert (tmp_path / "k").read_text().split() == lines, "what is refused leaves the key file as it was"
    again = perturb(frame, like=sidecar, key_file=tmp_path / "k", id="who", keep_order=True)
    assert again.frame.equals(first), "--like takes the design"


def test_a_cells_coins_hang_on_the_channel_and_not_on_the_recipes_number() -> None:
    plan = {n: DOMAINS[n] for n in ("age", "level")}
    base = perturb(
        table(200),
        record_epsilon=2,
        publish=1,
        attributes=plan,
        keep=["ill"],
        drop=["who", "pay", "town"],
        seed=1,
        keep_order=True,
    ).sidecar
    settled = like(base, pa.schema([(a.name, a.kind) for a in base.attributes]), Plan())
    first, second = opened(base).recipes
    turned = replace(
        settled,
        recipes=[Recipe([second.channels[0].spec], weight=1), Recipe([first.channels[0].spec], weight=1)],
    )
    key = Key.from_seed(4)
    codes = {"age": np.zeros(500, np.uint8), "level": np.zeros(500, np.uint8)}
    addresses = np.arange(500, dtype=np.uint64)
    one, other = (Withholder(p, key).published(codes, None, addresses) for p in (settled, turned))
    both = [
        (a, b)
        for a, b in zip(one["age"].to_pylist(), other["age"].to_pylist(), strict=True)
        if None not in (a, b)
    ]
    assert len(both) > 50 and all(a == b for a, b in both)


def test_auto_takes_no_more_recipes_than_there_may_be() -> None:
    known = {str(i): (Bins(pa.float64(), list(range(17)), False), True) for i in range(40)}
    publisher = RecipeMaker.of(known, None, 8.0)
    for k, sets in (("auto", 780), (2, 780)):
        [family] = publisher.recipes([*combinations(known, publisher.number(k, 10**6))])
        assert family.members == sets
    with pytest.raises(RefusedError, match="more than the 4,096 recipes"):
        publisher.number(3, 10**6)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"publish": 9}, "cannot publish 9 of 4"),
        ({"publish": 0}, "1 attribute or more"),
        ({"publish": 2, "record_epsilon": None, "gamma": 9}, "for the whole record alone"),
        ({"publish": 2, "matrix": "band"}, "for the whole record alone"),
        ({"class_in_budget": True}, "is kept"),
        ({"copies": 2, "output": "x.parquet"}, "copies of a release with several recipes"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    asked: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PpdmError, match=said):
        released(100, keep_order=True, **asked)
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_that_name_is_not_overwritten() -> None:
    with pytest.raises(PpdmError, match=COLUMN):
        perturb(
            table(100).with_columns(pl.lit(1).alias(COLUMN)),
            record_epsilon=2,
            publish=2,
            attributes=DOMAINS,
            keep=["ill", COLUMN],
            drop=["who"],
            keep_order=True,
        )


def test_the_command_line_makes_shows_and_refuses(ppdm: Run, tmp_path: Path) -> None:
    table(4000).write_csv(tmp_path / "t.csv")
    domains = [
        a for n, d in (("age", "0:120"), ("pay", "0:100"), ("town", "a|b|c")) for a in ("--domain", f"{n}={d}")
    ]
    asked = (
        "--record-epsilon",
        2,
        "--publish",
        2,
        "--class",
        "ill",
        "--keep",
        "ill",
        "--drop",
        "who",
        *domains,
    )
    own = ("--attribute", "pay:domain=0:100,nulls=true")
    made = ppdm("perturb", "t.csv", "-o", "r.csv", *asked, *own, "--keep-order")
    said = made.stderr.decode()
    assert "Each record publishes 2 of 4 attributes" in said.replace("\n", " ") and "published" in said
    shown = json.loads(ppdm("inspect", "r.csv", "--json").stdout)
    assert shown["record"]["published_cells"] == 0.5 and shown["record"]["recipes"] == 6
    gamma = shown["record"]["perturbed_gamma"]
    assert shown["record"]["worst_posterior"] == pytest.approx(0.05 * gamma / (0.95 + 0.05 * gamma))
    assert all(np.exp(2) >= a["gamma"] > 0.99 * gamma for a in shown["attributes"])
    assert shown["attributes"][0]["published"] == 0.5
    rows = json.loads(ppdm("entropy", "r.csv", "--json").stdout)["rows"]
    by_attribute = {r["attribute"]: r for r in rows}
    assert set(by_attribute) == {"age", "pay", "town"} | {"level"} & set(by_attribute)
    for name in by_attribute:
        published = sum(r["published"] for r in rows if r["attribute"] == name)
        assert published == pytest.approx(0.5), "a row for each way in which it is published"
    assert all(0.99 * gamma < r["gamma"] <= np.exp(2) and r["records"] == 4000 * r["published"] for r in rows)
    header = (tmp_path / "r.csv").read_text().split("\n")
    assert header[0].endswith(f",ill,{COLUMN}") and ",," in "".join(header[1:5])


VALUES = st.sampled_from([0, -1, 3, 1 << 40, [], ["age"], ["age", "age"], [9999, 1], "x", None])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_sidecar_with_recipes_is_read_or_refused(data: st.DataObject) -> None:
    raw = json.loads(RELEASE.sidecar.encode())
    listed = [
        {"weight": 1, "channels": [msgspec.to_builtins(d.channels[0].spec)]}
        for d in opened(RELEASE.sidecar).recipes
    ]
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

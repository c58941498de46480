"""A record may not be a person: at most so many rows of each, by a coin, and the promise for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.domain import OTHER
from ppdm_cli.errors import RefusedError
from tests.chances import LEVEL, chi_square
from tests.perturbing.test_recipe_choice import DOMAINS, table
from tests.vocabulary import raises


def test_a_person_is_promised_all_of_their_rows(tmp_path: Path) -> None:
    frame = table(3000).with_columns(who=pl.Series([f"p{i % 700}" for i in range(3000)]))
    asked: dict[str, Any] = {"record_epsilon": 1, "publish": 2, "keep": ["ill"], "attributes": DOMAINS}
    release = perturb(frame, person="who", rows_per_person=2, keep_order=True, **asked)
    privacy = release.sidecar.privacy
    assert release.frame.height == release.sidecar.records == 1400 and release.left_out == 1600
    assert (privacy.unit, privacy.rows) == ("person", 2) and privacy.perturbed_epsilon == pytest.approx(
        2, abs=1e-4
    )
    assert "who" not in release.frame.columns
    kept = perturb(frame, person="who", rows_per_person=2, seed=1, **asked | {"keep": ["ill", "who"]})
    assert kept.frame["who"].value_counts()["count"].max() == 2
    shuffled = frame.sample(fraction=1, shuffle=True, seed=2)
    other = perturb(shuffled, person="who", rows_per_person=2, keep_order=True, seed=1, **asked)
    assert other.frame.height == 1400
    with raises("person-without-rows"):
        perturb(frame, person="who", **asked)
    for rows in (0, -1, 65_537):
        with raises("bad-rows-per-person"):
            perturb(frame, person="who", rows_per_person=rows, **asked)


def test_which_rows_of_a_person_stay_is_chance(tmp_path: Path) -> None:
    """At level `LEVEL`, by the row's place among the person's; the first ones would be told."""
    frame = table(9000).with_columns(
        who=pl.Series([f"p{i % 3000}" for i in range(9000)]), place=pl.int_range(9000) // 3000
    )
    release = perturb(
        frame,
        person="who",
        rows_per_person=1,
        record_epsilon=1,
        publish=1,
        seed=1,
        attributes=DOMAINS,
        keep=["ill", "place"],
        keep_order=True,
    )
    counts = release.frame["place"].value_counts().sort("place")["count"].to_numpy()
    assert chi_square(counts, np.ones(3)) > LEVEL


ALONE = "Z99-of-one-person"
ONE_EACH = {"record_epsilon": 1, "publish": 1, "keep_order": True, "seed": 1}


def visits(rows: int = 12, persons: int = 1000) -> pl.DataFrame:
    """Two visits of each person, and one person whose code nobody else has, in so many rows, far apart."""
    rng = np.random.default_rng(5)
    others = pl.DataFrame(
        {
            "who": [f"p{i % persons}" for i in range(2 * persons)],
            "code": rng.choice(["A", "B", "C"], 2 * persons),
            "sex": rng.choice(["f", "m"], 2 * persons),
            "cost": rng.integers(0, 90, 2 * persons),
        }
    )
    own = {"who": ["one"] * rows, "code": [ALONE] * rows, "sex": ["f"] * rows, "cost": [40] * rows}
    both = pl.concat([others, pl.DataFrame(own)])
    return both.with_columns(n=pl.int_range(both.height) * 7919 % both.height).sort("n").drop("n")


@pytest.mark.parametrize("most", [1, 2, 12])
@pytest.mark.parametrize("identified", [False, True])
def test_a_code_of_one_person_is_rare_however_often_it_occurs(
    most: int, identified: bool, tmp_path: Path
) -> None:
    """Of threads' and files' cuts nothing depends, nor on identifiers and their key."""
    frame = visits().with_row_index("id").with_columns(pl.col("id").cast(pl.String))
    (tmp_path / "d").mkdir()
    for i in range(4):
        frame[i * 503 : (i + 1) * 503].write_parquet(tmp_path / "d" / f"{i}.parquet", row_group_size=100)
    asked: dict[str, Any] = {**ONE_EACH, "person": "who", "rows_per_person": most}
    if identified:
        asked |= {"key_file": tmp_path / "key", "id": "id", "seed": None}
    else:
        asked |= {"drop": ["id"]}
    data = str(tmp_path / "d")
    with pytest.raises(RefusedError, match=r"'code' \(1 of 4\)") as error:
        perturb(data, **asked)
    assert "10 persons" in str(error.value) and ALONE not in str(error.value)
    merged = perturb(data, **asked, rare="merge").sidecar
    assert ALONE.encode() not in merged.encode() and OTHER in merged.by_name["code"].categories
    asked |= {"key_file": tmp_path / "another"} if identified else {}
    pooled = perturb(data, **asked, attributes={"code": {"domain": "data", "other": True}}).sidecar
    assert pooled.by_name["code"].categories == [OTHER, "A", "B", "C"]


def test_ten_persons_are_enough_for_a_code_and_nine_are_not() -> None:
    frame = visits(0)
    for persons in (9, 10):
        some = pl.DataFrame({"who": [f"s{i % persons}" for i in range(40)], "code": [ALONE] * 40}).with_columns(
            sex=pl.lit("f"), cost=pl.lit(3, pl.Int64)
        )
        data = pl.concat([frame[:900], some, frame[900:]])
        asked: dict[str, Any] = {**ONE_EACH, "person": "who", "rows_per_person": 4}
        if persons == 10:
            assert ALONE in perturb(data, **asked).sidecar.by_name["code"].categories
        else:
            with pytest.raises(RefusedError, match="'code'"):
                perturb(data, **asked)


def test_nulls_numbers_and_a_pool_are_of_ten_persons_too() -> None:
    asked: dict[str, Any] = {**ONE_EACH, "person": "who", "rows_per_person": 12}
    nulls = visits().with_columns(
        code=pl.lit("A"), cost=pl.when(pl.col("who") == "one").then(None).otherwise(pl.col("cost"))
    )
    with pytest.raises(RefusedError, match=r"'cost' \(null\)"):
        perturb(nulls.drop("code"), **asked)
    few = visits().with_columns(cost=pl.when(pl.col("who") == "one").then(777).otherwise(pl.col("cost") % 4))
    with pytest.raises(RefusedError, match=r"'cost' \(1 of 5\)") as error:
        perturb(few.drop("code"), **asked)
    assert "777" not in str(error.value)
    two = pl.concat([visits(), visits().filter(pl.col("who") == "one").with_columns(code=pl.lit("Z98"))])
    categories = perturb(two, **asked, rare="merge").sidecar.by_name["code"].categories
    assert len(categories) == 3 and OTHER in categories, "the pool is of ten persons: a common code joins it"


@pytest.mark.parametrize(
    "settings", [{"gamma": 9}, {"record_epsilon": 2, "publish": 2}, {"record_epsilon": 2, "rounds": 2}]
)
@pytest.mark.parametrize("most", [1, 2])
def test_rows_that_are_left_out_teach_nothing(settings: dict[str, Any], most: int) -> None:
    """Other labels, ranges, nulls and rare codes in these rows change no byte of release or sidecar."""
    label = pl.Series(np.random.default_rng(2).choice(["no", "yes"], 2400))
    plain = visits(400).with_columns(pl.col("code").replace(ALONE, "A"), label=label)
    asked: dict[str, Any] = {"person": "who", "rows_per_person": most, "class_": "label", "seed": 1}
    asked |= {"keep": ["label"], "keep_order": True} | settings
    # which rows are left out hangs on persons and places alone
    stays = perturb(plain.with_row_index(), **asked | {"keep": ["label", "index"]}, rare="merge").frame
    hidden = ~pl.int_range(2400).is_in(stays["index"].to_list())
    leaks = {"label": "leaked", "cost": 10**6, "code": "Z", "sex": None}
    other = plain.with_columns(pl.when(hidden).then(pl.lit(v)).otherwise(n).alias(n) for n, v in leaks.items())
    one, two = (perturb(data, **asked) for data in (plain, other))
    assert other["label"].n_unique() == 3 and one.left_out == (1399 if most == 1 else 398)
    assert one.sidecar.encode() == two.sidecar.encode() and one.frame.equals(two.frame)


@pytest.mark.parametrize("settings", [{"gamma": 9, "bins": "auto"}, {"record_epsilon": 1, "publish": "auto"}])
def test_a_number_that_follows_from_the_records_follows_from_the_published_ones(settings: Any) -> None:
    """A person with many rows makes neither more bins nor more attributes a record; more persons do."""
    rng = np.random.default_rng(1)
    base = pl.DataFrame({"who": [f"p{i % 500}" for i in range(1000)]})
    base = base.with_columns(pl.Series(c, rng.uniform(0, 100, 1000)) for c in "abc")
    asked: dict[str, Any] = {"person": "who", "rows_per_person": 2, "keep_order": True, "seed": 1} | settings
    asked["attributes"] = {c: {"domain": [0.0, 100.0]} for c in "abc"}

    def design(whose: list[str]) -> Any:
        more = base[[0]].with_columns(who=pl.lit("one")).select(pl.all().repeat_by(len(whose)).explode())
        sidecar = perturb(pl.concat([base, more.with_columns(who=pl.Series(whose))]), **asked).sidecar
        return [a.N for a in sidecar.perturbed], sidecar.recipes

    assert design(["one"] * 40_000) == design(["one"] * 2)
    assert design([f"q{i // 2}" for i in range(40_000)]) != design(["one"] * 2)

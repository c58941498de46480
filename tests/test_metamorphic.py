"""One record more, less or other: with declared domains and one key, nothing else that is published changes.

Runs of the real command on neighbouring tables. Every other cell is the same, and so is whatever a release has
besides its cells: messages, the sidecar, dictionaries, statistics. `DEPENDS` lists what does depend on the
data, each with tables that show it; docs/explanation/limits.md names each.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli.coins import Coins
from ppdm_cli.domain import Categories
from ppdm_cli.engine import on_spark, running
from ppdm_cli.perturbing import record_keys, substitution
from tests.engine.cluster import needs_spark
from tests.metamorphic import (
    CHANGES,
    DOMAINS,
    ID,
    NULLS,
    PLACES,
    ROWS,
    SEED,
    VARIANTS,
    Published,
    Variant,
    changed,
    others,
    publish,
    read,
    records,
)
from tests.vocabulary import Run

LIMITS = Path(__file__).parents[1] / "docs" / "explanation" / "limits.md"
Runner = Callable[[pl.DataFrame], Published]


def key_of(frame: pl.DataFrame, row: int, variant: Variant) -> Any:
    return frame["id"][row] if variant.by_id else row


def check_changes(variant: Variant, run: Runner, changes: dict[str, dict[str, Any]] = CHANGES) -> None:
    """Check that a change of one record changes nothing but its own cells."""
    frame = records()
    before = run(frame)
    for place, (what, values) in zip(PLACES * 2, changes.items(), strict=False):
        after = run(changed(frame, place, **values))
        key = key_of(frame, place, variant)
        assert others(before, key) == others(after, key), what
        shuffled = "--shuffle" in variant.options  # by other coins each time
        assert shuffled or before.order == after.order, what
        assert (before.said, before.sidecar, before.dictionaries) == (
            after.said,
            after.sidecar,
            after.dictionaries,
        ), what
        if before.cells == after.cells and not shuffled:
            assert before.files == after.files, what


def check_one_more_or_less(variant: Variant, run: Runner) -> None:
    """Check that a record that comes or goes changes no other's cells."""
    frame = records()
    before = run(frame)
    new = changed(records(1, 9), 0, region="w", age=99).with_columns(id=pl.lit("new"))
    for place in (0, ROWS // 3, ROWS) if variant.by_id else (ROWS,):
        after = run(pl.concat([frame[:place], new, frame[place:]]))
        assert others(after, "new" if variant.by_id else ROWS) == before.cells
        assert before.dictionaries == after.dictionaries
    for place in PLACES if variant.by_id else PLACES[-1:]:
        after = run(frame.filter(pl.int_range(pl.len()) != place))
        assert after.cells == others(before, key_of(frame, place, variant))
    if variant.by_id:
        after = run(frame.sample(fraction=1, shuffle=True, seed=4))
        assert after.cells == before.cells and after.order != before.order


@pytest.fixture(autouse=True)
def _one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every release the same number, which is random otherwise."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=1))


@pytest.fixture
def runner(ppdm: Run, tmp_path: Path) -> Callable[[Variant], Runner]:
    return lambda variant: lambda frame: publish(frame, variant, tmp_path, ppdm)


@pytest.mark.parametrize("name", VARIANTS)
def test_one_record_changes_no_other_cell_and_no_message(
    name: str, runner: Callable[[Variant], Runner]
) -> None:
    check_changes(VARIANTS[name], runner(VARIANTS[name]))


@pytest.mark.parametrize("name", VARIANTS)
def test_one_record_more_or_less_changes_no_other_cell(name: str, runner: Callable[[Variant], Runner]) -> None:
    check_one_more_or_less(VARIANTS[name], runner(VARIANTS[name]))


def test_next_batch_gives_every_other_record_the_same_answers(ppdm: Run, tmp_path: Path) -> None:
    variant = VARIANTS["by identifier"]
    january = publish(records(), variant, tmp_path, ppdm)
    for suffix in ("parquet", "parquet.ppdm.json"):
        shutil.copy(tmp_path / f"out.{suffix}", tmp_path / f"jan.{suffix}")
    like = ("--like", "jan.parquet", "--key-file", "release.key", "--id", "id")
    again = [lambda frame: publish(frame, variant, tmp_path, ppdm, *like)]
    assert again[0](records()).cells == january.cells
    check_changes(variant, again[0])
    check_one_more_or_less(variant, again[0])


ROUNDS = Variant(("--record-epsilon", "4", "--rounds", "2", "--class", "ill", *SEED))


@pytest.mark.parametrize("variant", [VARIANTS["recipes"], ROUNDS], ids=["recipes", "rounds"])
def test_withheld_value_changes_not_one_byte(variant: Variant, ppdm: Run, tmp_path: Path) -> None:
    """A release is a function of its published codes: what a recipe leaves out is nowhere in its files."""
    check_withheld(variant, ppdm, tmp_path)


def check_withheld(variant: Variant, ppdm: Run, tmp_path: Path) -> None:
    frame = records()
    before = publish(frame, variant, tmp_path, ppdm)
    shown = pl.read_parquet(tmp_path / "out.parquet")
    hidden = [
        (row, n, v)
        for n, v in (("age", 99), ("region", "w"), ("pay", 1000.0), ("age", None))
        for row in range(0, ROWS, 97)
        if recipe_withholds(shown, row, n)
    ]
    assert len(hidden) > 4
    for row, n, v in hidden[:6]:
        assert publish(changed(frame, row, **{n: v}), variant, tmp_path, ppdm) == before, n


def recipe_withholds(shown: pl.DataFrame, row: int, name: str) -> bool:
    """Return whether no record of this one's recipe has a value of an attribute."""
    alike = shown.filter(pl.col("ppdm_recipe") == shown["ppdm_recipe"][row])
    return alike[name].null_count() == len(alike)


def test_equal_answers_leave_equal_files_whatever_the_values_are(ppdm: Run, tmp_path: Path) -> None:
    """Of many changed records some get the answer that they had: then no byte of the files is another."""
    variant = Variant(("--gamma", "1.5", *SEED))
    frame, same = records(), 0
    before = publish(frame, variant, tmp_path, ppdm)
    for row in range(12):
        after = publish(changed(frame, row, region="w"), variant, tmp_path, ppdm)
        if after.cells == before.cells:
            same += 1
            assert after.files == before.files
    assert same


@needs_spark
@pytest.mark.long
def test_one_record_changes_no_other_cell_on_spark(ppdm: Run, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

    def run(frame: pl.DataFrame) -> Published:
        for name in ("in", "out"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
        (tmp_path / "in").mkdir()
        for part in range(3):
            frame[len(frame) * part // 3 : len(frame) * (part + 1) // 3].write_parquet(
                tmp_path / f"in/p{part}.parquet"
            )
        with running(engine=on_spark(session)):
            done = ppdm("perturb", "in", "-o", "out", *DOMAINS, *NULLS, "--gamma", "9", *ID)
        parts = sorted((tmp_path / "out").glob("*.parquet"))
        pl.concat([pl.read_parquet(p) for p in parts]).write_parquet(tmp_path / "one.parquet")
        shutil.copy(tmp_path / "out" / "_ppdm.json", tmp_path / "one.parquet.ppdm.json")
        return read(tmp_path, ["one.parquet"], done.stdout + done.stderr, True)

    check_changes(VARIANTS["by identifier"], run)
    check_one_more_or_less(VARIANTS["by identifier"], run)
    session.stop()


# -- what does depend on the data


def undeclared(name: str) -> tuple[str, ...]:
    at = next(DOMAINS.index(d) for d in DOMAINS if d.startswith(f"{name}="))
    return (*DOMAINS[: at - 1], *DOMAINS[at + 1 :])


def ran(
    frame: pl.DataFrame,
    ppdm: Run,
    folder: Path,
    *options: str,
    domains: tuple[str, ...] = DOMAINS,
    code: int = 0,
) -> Published:
    frame.write_csv(folder / "in.csv")
    done = ppdm("perturb", "in.csv", "-o", "out.csv", "--force", *domains, *NULLS, *options, code=code)
    said = done.stdout + done.stderr
    return Published({}, [], said, b"", [], ()) if code else read(folder, ["out.csv"], said, False)


Shown = Callable[[Run, Path], bool]


def other_sidecar(values: dict[str, Any], *options: str, domains: tuple[str, ...]) -> Shown:
    def shown(ppdm: Run, folder: Path) -> bool:
        frame = records()
        first, second = (
            ran(f, ppdm, folder, *options, domains=domains) for f in (frame, changed(frame, 5, **values))
        )
        return first.sidecar != second.sidecar

    return shown


def refused(change: Callable[[pl.DataFrame], pl.DataFrame], code: int, *options: str) -> Shown:
    def shown(ppdm: Run, folder: Path) -> bool:
        ran(records(), ppdm, folder, *options)
        ran(change(records()), ppdm, folder, *options, code=code)
        return True

    return shown


def rare(ppdm: Run, folder: Path) -> bool:
    common = changed(records(), 5, region="s")
    ran(common, ppdm, folder, "--gamma", "9", *SEED, domains=undeclared("region"))
    one_west = changed(records(), 5, region="w")
    ran(one_west, ppdm, folder, "--gamma", "9", *SEED, domains=undeclared("region"), code=4)
    return True


def other_type(ppdm: Run, folder: Path) -> bool:
    text = records().with_columns(pl.col("age").cast(pl.String))
    first, second = (ran(changed(text, 5, age=v), ppdm, folder, *GAMMA) for v in ("34", "34.5"))
    return first.sidecar != second.sidecar


def other_words(values: dict[str, Any], *options: str, every: bool = False) -> Shown:
    def shown(ppdm: Run, folder: Path) -> bool:
        frame = records()
        other = (
            frame.with_columns(**{n: pl.lit(v) for n, v in values.items()})
            if every
            else changed(frame, 5, **values)
        )
        first, second = (ran(f, ppdm, folder, *options) for f in (frame, other))
        return first.said != second.said

    return shown


def other_rounds(ppdm: Run, folder: Path) -> bool:
    """What the first round published chooses what the second one publishes."""
    frame = records(6_000)
    ill = frame["ill"] == "yes"
    found = {
        publish(f, ROUNDS, folder, ppdm).sidecar
        for f in (
            frame.with_columns(region=pl.Series(np.where(ill, "n", "s"))),
            frame.with_columns(pay=pl.Series(np.where(ill, 900.0, 60.0))),
        )
    }
    return len(found) == 2


GAMMA = ("--gamma", "9", *SEED)
DEPENDS: dict[str, Shown] = {
    "a domain that you don't declare": other_sidecar({"age": 99}, *GAMMA, domains=undeclared("age")),
    "rare categories of a domain that you don't declare": rare,
    "the type of a column in a CSV": other_type,
    "a value outside a declared domain": refused(lambda f: changed(f, 5, age=100), 1, *GAMMA),
    "the order of the rows": refused(lambda f: f.sort("age"), 4, *GAMMA),
    "an identifier that is missing or there twice": refused(
        lambda f: changed(f, 5, id=f["id"][6]), 4, "--gamma", "9", *ID
    ),
    "values that are moved into a domain": other_words({"age": 120}, "--clip", *GAMMA),
    "most values in one bin": other_words({"pay": 3.0}, *GAMMA, every=True),
    "which attributes a later round publishes": other_rounds,
}


@pytest.mark.parametrize("what", DEPENDS)
def test_what_depends_on_the_data_does_and_is_named_on_the_page(what: str, ppdm: Run, tmp_path: Path) -> None:
    assert DEPENDS[what](ppdm, tmp_path)
    assert what in " ".join(LIMITS.read_text("utf-8").split()), f"{LIMITS.name} names it"


# -- the power of these tests: commands made wrong are seen


def by_appearance(patch: pytest.MonkeyPatch) -> None:
    """Number categories in the order in which the data have them, as others have done."""
    real = Categories.encode

    def encode(self: Categories, array: Any, clip: bool = False) -> Any:
        found = real(self, array, clip)
        _, first, codes = np.unique(found.codes, return_index=True, return_inverse=True)
        found.codes[:] = np.argsort(np.argsort(first))[codes]
        return found

    patch.setattr(Categories, "encode", encode)


def by_a_stream(patch: pytest.MonkeyPatch) -> None:
    """Give each row the coins that come next in a stream from which nulls take none."""
    real = record_keys.addresses

    def addresses(batch: Any, identifier: str | None, key: Any) -> Any:
        found = real(batch, identifier, key)
        return found + np.cumsum(batch.column("age").is_null().to_numpy(zero_copy_only=False)).astype(np.uint64)

    for module in (record_keys, substitution):
        if hasattr(module, "addresses"):
            patch.setattr(module, "addresses", addresses)


def by_place_among_equals(patch: pytest.MonkeyPatch) -> None:
    """Draw by how many records before have the same value: one key serves no other record."""
    real = Coins.words

    def words(self: Coins, addresses: Any, codes: Any, retry: Any = 0) -> Any:
        if np.ndim(codes) and len(codes) > 500:
            order = np.argsort(codes, kind="stable")
            addresses = np.empty_like(addresses)
            addresses[order] = np.arange(len(order), dtype=np.uint64)
        return real(self, addresses, codes, retry)

    patch.setattr(Coins, "words", words)


def with_a_warning(patch: pytest.MonkeyPatch) -> None:
    """Say something of a column by how many values are in its fourth bin."""
    from ppdm_cli.perturbing.input_checks import InputChecks

    real = InputChecks.found

    def found(self: Any, identifier: str | None) -> dict[str, Any]:
        facts = real(self, identifier)
        return facts | {"crowded": ["age"] * int(self.checks.bins["age"][3] % 2)}

    patch.setattr(InputChecks, "found", found)


WRONG: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    by_appearance: "by place",
    by_a_stream: "by identifier",
    by_place_among_equals: "by identifier",
    with_a_warning: "by place",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_command_is_seen(
    wrong: Callable[[pytest.MonkeyPatch], None],
    runner: Callable[[Variant], Runner],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variant = VARIANTS[WRONG[wrong]]
    wrong(monkeypatch)
    with pytest.raises(AssertionError):
        check_changes(variant, runner(variant))


def test_recipe_that_a_value_chooses_is_seen(
    ppdm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = substitution.Withholder.published

    def published(self: Any, codes: Any, batch: Any, addresses: Any) -> Any:
        return real(self, codes, batch, addresses ^ codes["age"].astype(np.uint64))

    monkeypatch.setattr(substitution.Withholder, "published", published)
    with pytest.raises(AssertionError):
        check_withheld(VARIANTS["recipes"], ppdm, tmp_path)


def test_dictionary_of_values_that_occur_is_seen(
    runner: Callable[[Variant], Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write into each file the entries that some row of the original has."""
    variant = VARIANTS["by place"]
    run = runner(variant)

    def of_the_original(frame: pl.DataFrame) -> Published:
        found = run(frame)
        return replace(found, dictionaries=[*found.dictionaries, sorted(set(frame["region"].drop_nulls()))])

    with pytest.raises(AssertionError):
        check_changes(variant, of_the_original)

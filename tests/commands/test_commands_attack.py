"""`ppdm attack`: the report, its files, and what does not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from msgspec import to_builtins

from ppdm_cli import attack, perturb
from ppdm_cli.errors import DataError
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.releases import read_sidecar
from tests.made_releases import DOMAINS, made
from tests.vocabulary import NUMBER, WORD, Run, listing, people, read_table, seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("attack"))


@pytest.fixture
def here_made(folder: Path, tmp_path: Path) -> Path:
    for file in folder.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path


def test_json_is_what_the_library_gives(here_made: Path, ppdm: Run) -> None:
    done = ppdm("attack", "r.parquet", "--truth", "original.parquet", "--json")
    assert done.stderr == b""
    found = json.loads(done.stdout)
    theirs = attack(str(here_made / "r.parquet"), truth=str(here_made / "original.parquet"))
    assert found["attacks"] == to_builtins(theirs.rows) and found["audit"] == to_builtins(theirs.audit)
    assert found["honest"] is True and found["measured"] is True
    assert found["remarks"] == theirs.remarks and found["sentences"] == theirs.sentences
    attacks = {r["attack"] for r in found["attacks"]}
    assert attacks == {"spectral", "pca", "bayes-linear", "posterior", "record"}
    assert found["record"]["gamma"] == 9**5 and found["record"]["unbounded"] == ["group"]
    assert {k["attribute"] for k in found["kept"]} == {"age", "income", "region", "member", "since"}
    for row in found["attacks"]:
        assert row["exact_low"] <= row["exact"] <= row["exact_high"]
        assert row["exact_gain"] == pytest.approx(row["exact"] - row["exact_prior"])
        if row["attack"] in ("posterior", "record"):
            assert row["largest_posterior"] <= row["bound"] + 1e-12
            gamma = row["gamma"] if row["attack"] == "posterior" else found["record"]["gamma"]
            assert row["bound"] == pytest.approx(worst_posterior(gamma, row["largest_prior"]))


def test_link_shows_how_often_a_row_is_found(here_made: Path, ppdm: Run) -> None:
    args = ("attack", "r.parquet", "--with", "link", "--knows", "age", "--knows", "region")
    found = json.loads(ppdm(*args, "--json").stdout)
    assert found["link"]["knows"] == ["age", "region"] and found["attacks"] == []
    for row in found["link"]["found"]:
        assert row["first_low"] <= row["first"] <= row["first_high"] and row["first"] <= row["ten"]
    shown = ppdm(*args).stdout.decode()
    assert "People whose row is found, as expected from the release alone" in shown
    assert found["sentences"][-1].startswith("Someone who knows 'age', 'region' of a person can be expected to")
    assert [r["attribute"] for r in found["link"]["learnt"]] == ["income", "member", "since", "group"]
    measured = ppdm(*args, "--truth", "original.parquet").stdout.decode()
    assert "measured against the original" in measured and "ranks the person's row first in" in measured
    refused = ppdm("attack", "r.parquet", "--with", "link", "--knows", "regoin", code=2).stderr.decode()
    assert "Did you mean 'region'?" in refused


def test_risks_of_a_release_are_one_table(here_made: Path, ppdm: Run) -> None:
    args = ("attack", "r.parquet", "--with", "risks", "--truth", "original.parquet")
    found = json.loads(ppdm(*args, "--json").stdout)["risks"]
    assert [r["risk"] for r in found[:3]] == ["singling out", "linkability", "inference of age"]
    shown = ppdm(*args).stdout.decode()
    assert "Risks: percent of the tries that succeed" in shown and "add --truth OTHERS" not in shown
    assert "Add --truth ORIGINAL" in ppdm(*args[:4], code=2).stderr.decode()


def test_files_and_their_sidecars(here_made: Path, ppdm: Run) -> None:
    args = ("attack", "r.parquet", "--truth", "original.parquet")
    ppdm(*args, "-o", "a.parquet", "--recovered", "guessed.csv", "--plot", "a.svg")
    table = read_table(here_made / "a.parquet")
    said = read_sidecar(here_made / "a.parquet.ppdm.json", None, "a")
    assert said.stage == "evaluated" and said.records == table.num_rows
    assert set(table["attack"].to_pylist()) == {"spectral", "pca", "bayes-linear", "posterior", "record"}
    guessed, original = pl.read_csv(here_made / "guessed.csv"), pl.read_csv(here_made / "original.csv")
    assert guessed.columns == original.columns and len(guessed) == len(original)
    by = {(r["attack"], r["attribute"]): r for r in table.to_pylist()}
    named = (guessed["region"] == original["region"]).mean()
    assert named == pytest.approx(by["record", "region"]["exact"])
    assert guessed["group"].equals(original["group"])
    assert b"<svg" in (here_made / "a.svg").read_bytes()
    before = listing(here_made)
    for option in ("-o", "--recovered"):
        ppdm(*args, option, "original.parquet", "--force", code=2)
    ppdm(*args, "-o", "b.csv", "--recovered", "b.csv", code=2)
    assert listing(here_made) == before


def test_noise_from_end_to_end(tmp_path: Path, ppdm: Run) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(50, 10, 3000)
    original = pl.DataFrame({"x": x, "y": x + rng.normal(0, 2, 3000)})
    original.write_parquet(tmp_path / "o.parquet")
    perturb(original, tmp_path / "n.parquet", scheme="additive", noise="normal", sd="5", bins=20, seed=1)
    files = ("--plot", "n.svg", "-o", "a.csv", "--recovered", "g.parquet")
    found = json.loads(ppdm("attack", "n.parquet", "--truth", "o.parquet", "--json", *files).stdout)
    assert found["honest"] is True and found["record"]["gamma"] == "inf"
    named = {(r["attack"], r["attribute"]): r["rmse"] for r in found["attacks"]}
    assert named["bayes-linear", "x"] < named["posterior", "x"] < 5
    guessed = pl.read_parquet(tmp_path / "g.parquet")["x"]
    assert ((guessed - original["x"]) ** 2).mean() ** 0.5 == pytest.approx(named["bayes-linear", "x"], rel=0.1)
    expected = json.loads(ppdm("attack", "n.parquet", "--json").stdout)
    assert expected["measured"] is False and len(expected["attacks"]) == len(found["attacks"])
    assert b"no gamma holds for" in ppdm("attack", "n.parquet", "--with", "posterior").stdout


@pytest.mark.parametrize(
    "more", ["--with audit", "--with repeat --recovered x.csv", "--with repeat -o x.csv", "--truth -"]
)
def test_what_has_no_result_is_refused(more: str, here_made: Path, ppdm: Run) -> None:
    ppdm("attack", "r.parquet", *more.split(), code=2)
    assert not list(here_made.glob("x.*"))


def test_a_release_that_lies_ends_with_3(here_made: Path, ppdm: Run) -> None:
    table = pl.read_parquet(here_made / "r.parquet")
    lie = table.with_columns(pl.read_parquet(here_made / "original.parquet")["member"])
    lie.write_parquet(here_made / "lie.parquet")
    shutil.copy(here_made / "r.parquet.ppdm.json", here_made / "lie.parquet.ppdm.json")
    done = ppdm("attack", "lie.parquet", "--truth", "original.parquet", "--with", "audit", code=3)
    assert b"rejected" in done.stdout and b"member did not go through" in done.stdout
    assert b"the audit rejects the release" in done.stderr


WRONG: dict[str, tuple[Any, str]] = {
    "fewer rows": (lambda t: t.head(3999), "the original has 3,999 records, but the release has 4,000"),
    "more rows": (
        lambda t: pl.concat([t, t.head(1)]),
        "the original has 4,001 records, but the release has 4,000",
    ),
    "a missing column": (lambda t: t.drop("age", "since"), "lacks the columns 'age', 'since'"),
    "another type": (
        lambda t: t.with_columns(pl.col("age").cast(pl.Float64)),
        "'age' is of type double, but in the release it was int64",
    ),
    "a word outside": (
        lambda t: t.with_columns(pl.Series("region", [*t["region"][:-1], WORD])),
        "'region' has a value outside its domain in row 4000 of the original",
    ),
    "a number outside": (
        lambda t: t.with_columns(pl.Series("age", [NUMBER, *t["age"][1:]])),
        "'age' has a value outside its domain in row 1 of the original",
    ),
    "another order": (lambda t: t.reverse(), "the rows do not pair"),
}


CASES = [(w, s) for w in WRONG for s in ("parquet", "csv")]
CASES.remove(("another type", "csv"))  # a CSV is read in the release's types, so it has no other


@pytest.mark.parametrize(("wrong", "suffix"), CASES)
def test_a_truth_that_does_not_fit_is_exit_3_with_the_difference(
    wrong: str, suffix: str, here_made: Path, ppdm: Run
) -> None:
    change, said = WRONG[wrong]
    table = change(people(4000))
    table.write_csv(here_made / "t.csv") if suffix == "csv" else table.write_parquet(here_made / "t.parquet")
    done = ppdm("attack", "r.parquet", "--truth", f"t.{suffix}", code=3)
    assert said in done.stderr.decode() and not seen(done.stdout + done.stderr)


def test_columns_that_were_dropped_may_be_in_the_original() -> None:
    release = perturb(people(2000), gamma=9, drop=["group"], attributes=DOMAINS, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=people(2000), attacks=["posterior"])
    assert done.measured and len(done.rows) == 5


def test_a_stream_and_many_partitions_are_the_same(here_made: Path, ppdm: Run) -> None:
    whole = json.loads(ppdm("attack", "r.arrow", "--truth", "original.csv", "--json").stdout)
    streamed = pl.read_ipc(here_made / "r.arrow")
    streamed.write_parquet(here_made / "small.parquet", row_group_size=37)
    shutil.copy(here_made / "r.parquet.ppdm.json", here_made / "small.parquet.ppdm.json")
    parts = json.loads(ppdm("attack", "small.parquet", "--truth", "original.parquet", "--json").stdout)
    for ours, theirs in zip(whole["attacks"], parts["attacks"], strict=True):
        for figure, value in ours.items():
            wanted = pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
            assert theirs[figure] == wanted, (ours["attack"], figure)


def test_no_records() -> None:
    release = perturb(people(100).select("age"), gamma=9, seed=1)
    empty = msgspec.structs.replace(release.sidecar, records=0)
    with pytest.raises(DataError, match="no records"):
        attack(release.frame.head(0), sidecar=empty)


def test_pairing_is_by_position_whatever_the_parts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    original = pl.DataFrame({"x": rng.integers(0, 9, 5000)})
    release = perturb(original, gamma=99, seed=1)
    parts = tmp_path / "parts"
    parts.mkdir()
    for i, cut in enumerate([0, 10, 4000]):
        end = [10, 4000, 5000][i]
        original[cut:end].write_parquet(parts / f"{i}.parquet")
    done = attack(release.frame, sidecar=release.sidecar, truth=str(parts), attacks=["posterior", "audit"])
    assert done.honest and done.rows[0].exact > 0.9


@pytest.mark.parametrize("size", [8e307, 1e-310])
def test_numbers_whose_squares_are_none_are_still_guessed(size: float) -> None:
    rng = np.random.default_rng(4)
    table = pl.DataFrame({"x": rng.uniform(-size, size, 2000), "y": rng.normal(size=2000)})
    release = perturb(table, gamma=9, seed=1)
    for truth in (None, table):
        done = attack(release.frame, sidecar=release.sidecar, truth=truth)
        by = {(r.attack, r.attribute): r for r in done.rows}
        assert by["posterior", "x"].exact_gain > 0.1 and by["posterior", "x"].rmse is None
        assert by["bayes-linear", "y"].rmse > 0 and ("bayes-linear", "x") not in by
        assert any("too large or too small" in r for r in done.remarks)

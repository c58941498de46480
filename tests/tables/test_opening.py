"""Which rows a name means: a table that stays as it is, each file once, and no lakehouse table's files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ppdm_cli as p
from ppdm_cli import estimate, perturb, running, train_tree
from ppdm_cli.errors import DataError, UsageError
from ppdm_cli.tables import open_table
from ppdm_cli.trees.storing import encode_tree
from tests.vocabulary import Meanwhile, listing, raises, structure

ROWS = 400
LIMITED: dict[str, Any] = {"gamma": 9, "seed": 3, "class_": "group", "keep": ["group"]}
ROUNDS: dict[str, Any] = {"record_epsilon": 3, "publish": 1, "rounds": 2, "class_": "group", "keep": ["group"]}
PERSONS: dict[str, Any] = {"person": "patient", "rows_per_person": 1, "keep_order": True}


def visits(seed: int = 1) -> pl.DataFrame:
    """Records of 100 persons, four each, in an order of their own."""
    rows = range(ROWS)
    frame = pl.DataFrame(
        {
            "patient": [f"p{i % 100:03}" for i in rows],
            "age": [i * 7 % 60 + 20 for i in rows],
            "ward": ["abcd"[i * 11 % 4] for i in rows],
            "shift": ["day", "night"] * (ROWS // 2),
            "group": ["AB"[i * 13 // 3 % 2] for i in rows],
        }
    )
    return frame.sample(fraction=1, shuffle=True, seed=seed)


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a table in the format of its suffix, into a new file that takes the place of an old one."""
    new = path.with_name(f".new-{path.name}")
    if path.suffix == ".parquet":
        frame.write_parquet(new)
    elif path.suffix in (".arrow", ".feather"):
        frame.write_ipc(new, record_batch_size=1 << 15)
    else:
        packed: Any = "gzip" if path.suffix == ".gz" else "uncompressed"
        frame.write_csv(new, separator="\t" if ".tsv" in path.name else ",", compression=packed)
    new.replace(path)


# -- a table that changes


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "arrow", "feather"])
def test_rows_of_a_person_are_counted_in_the_file_that_is_published(suffix: str, tmp_path: Path) -> None:
    """The same rows in another order, renamed into place after persons were found: rows are known by number."""
    file = tmp_path / f"visits.{suffix}"
    write(visits(1), file)
    passes = Meanwhile(lambda: None, 0)
    with running(progress=passes):
        perturb(file, tmp_path / "r.parquet", **LIMITED | PERSONS)
    assert passes.passes[-1] == "perturbing" and "finding persons" in passes.passes[:-1]
    before, swap = listing(tmp_path), Meanwhile(lambda: write(visits(2), file), len(passes.passes))
    with running(progress=swap), raises("file-changed", DataError):
        perturb(file, tmp_path / "r.parquet", **LIMITED | PERSONS, force=True)
    assert len(swap.passes) == swap.number
    assert listing(tmp_path) == before | {file.name: file.read_bytes()}


def _in_place(file: Path) -> None:
    """Write a cell over, and set the time of writing back: only the time of the change itself is left."""
    times = file.stat()
    with file.open("r+b") as opened:
        opened.seek(-2, os.SEEK_END)
        opened.write(b"B" if opened.read(1) == b"A" else b"A")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "renamed": lambda file: write(pl.read_csv(file).reverse(), file),
    "written in place": _in_place,
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"33,a,day,A\n"),
    "shorter": lambda file: os.truncate(file, file.stat().st_size // 2),
    "gone": lambda file: file.unlink(),
    "a sidecar beside it": lambda file: file.with_name(f"{file.name}.ppdm.json").write_text("{}"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("number", [1, 2])
def test_a_table_that_changes_is_not_published(change: str, number: int, tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    visits().drop("patient").write_csv(file)
    meanwhile = Meanwhile(lambda: CHANGES[change](file), number)
    with running(progress=meanwhile), raises("file-changed", DataError):
        perturb(file, tmp_path / "r.csv", **LIMITED, ledger=tmp_path / "all.ledger", people="all")
    assert len(meanwhile.passes) >= number and not list(tmp_path.glob("[ar]*"))


class Cut(Meanwhile):
    """Does something in the middle of a pass."""

    def advance(self, rows: int) -> None:
        if len(self.passes) == self.number:
            self.number = 0
            self.do()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_a_file_that_is_cut_in_the_middle_of_a_pass_is_refused(suffix: str, tmp_path: Path) -> None:
    file, numbers = tmp_path / f"visits.{suffix}", pl.int_range(1 << 20, eager=True)
    write(pl.DataFrame({"a": numbers % 50, "b": numbers % 7}), file)
    cut = running(progress=Cut(lambda: os.truncate(file, 1000), 1), threads=1)
    with cut, raises("file-changed", DataError):
        perturb(file, tmp_path / "r.parquet", gamma=9, keep_order=True)
    assert not (tmp_path / "r.parquet").exists()


PARTS: dict[str, Callable[[Path, str], object]] = {
    "a new part": lambda parts, suffix: write(visits(9), parts / f"9.{suffix}"),
    "a part less": lambda parts, suffix: (parts / f"1.{suffix}").unlink(),
    "another part": lambda parts, suffix: write(visits(9), parts / f"1.{suffix}"),
    "a new part deeper": lambda parts, suffix: write(visits(9), parts / f"deeper/9.{suffix}"),
}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("change", PARTS)
def test_a_folder_s_parts_stay_the_same(change: str, suffix: str, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    (parts / "deeper").mkdir(parents=True)
    for number in range(3):
        write(visits(number), parts / f"{number}.{suffix}")
    meanwhile = Meanwhile(lambda: PARTS[change](parts, suffix), 2)
    with running(progress=meanwhile), raises("file-changed", DataError):
        perturb(parts, tmp_path / "r.csv", **LIMITED, drop=["patient"])
    assert len(meanwhile.passes) >= 2 and not (tmp_path / "r.csv").exists()


@pytest.fixture
def stocked(tmp_path: Path) -> Path:
    visits().drop("patient").write_csv(tmp_path / "own.csv")
    perturb(tmp_path / "own.csv", tmp_path / "r.csv", **LIMITED)
    perturb(tmp_path / "own.csv", tmp_path / "r2.csv", like=tmp_path / "r.csv")
    p.reconstruct(tmp_path / "r.csv", tmp_path / "u.csv")
    (tmp_path / "net.json").write_text(structure("ward -> group"))
    for tree, drop in (("t.json", "age"), ("t2.json", "ward")):
        made = train_tree(tmp_path / "own.csv", "group", drop=[drop]).tree
        (tmp_path / tree).write_bytes(encode_tree(made))
    return tmp_path


CALLS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "perturb --shuffle": ("own.csv", lambda d: perturb(d / "own.csv", gamma=9, shuffle=True)),
    "perturb --copies": ("own.csv", lambda d: perturb(d / "own.csv", d / "n.csv", gamma=9, copies=2)),
    "perturb --like": ("own.csv", lambda d: perturb(d / "own.csv", like=d / "r.csv")),
    "perturb --rounds": ("own.csv", lambda d: perturb(d / "own.csv", keep_order=True, **ROUNDS)),
    "plan": ("own.csv", lambda d: p.plan(d / "own.csv", d / "plan.toml")),
    "estimate": ("r.csv", lambda d: estimate(d / "r.csv")),
    "estimate several": ("r2.csv", lambda d: estimate([d / "r.csv", d / "r2.csv"])),
    "estimate --truth": ("own.csv", lambda d: estimate(d / "r.csv", truth=d / "own.csv")),
    "query": ("r.csv", lambda d: p.query(d / "r.csv", "select mean(age)")),
    "query --against": ("r2.csv", lambda d: p.query(d / "r.csv", "select mean(age)", against=d / "r2.csv")),
    "reconstruct": ("r.csv", lambda d: p.reconstruct(d / "r.csv", d / "n.csv")),
    "attack": ("r.csv", lambda d: p.attack(d / "r.csv")),
    "attack --truth": ("own.csv", lambda d: p.attack(d / "r.csv", truth=d / "own.csv")),
    "train-tree": ("own.csv", lambda d: train_tree(d / "own.csv", "group")),
    "train-tree on a release": ("r.csv", lambda d: train_tree(d / "r.csv")),
    "compare": ("own.csv", lambda d: p.compare(d / "t.json", d / "t2.json", d / "own.csv")),
    "predict": ("u.csv", lambda d: p.predict(d / "t.json", d / "u.csv")),
    "train-bayes": ("r.csv", lambda d: p.train_bayes(d / "r.csv", d / "net.json")),
    "the sidecar": ("r.csv.ppdm.json", lambda d: estimate(d / "r.csv")),
    "the tree": ("t.json", lambda d: p.predict(d / "t.json", d / "u.csv")),
}


@pytest.mark.parametrize("called", CALLS)
def test_no_command_reads_a_table_that_changes(called: str, stocked: Path) -> None:
    """Not in its last pass, and by rounds, which choose by what is published before, in none."""
    name, call = CALLS[called]
    file, new = stocked / name, stocked / "new"

    def again() -> None:
        new.write_bytes(file.read_bytes())
        new.replace(file)

    passes = Meanwhile(lambda: None, 0)
    with running(progress=passes):
        call(stocked)
    for path in (*stocked.glob("n*.csv*"), *stocked.glob("plan.toml")):
        path.unlink()
    before, last = sorted(listing(stocked)), len(passes.passes)
    assert last > 2 * ("rounds" in called)
    for number in range(1 if "rounds" in called else last, last + 1):
        meanwhile = Meanwhile(again, number)
        with running(progress=meanwhile), raises("file-changed", DataError) as caught:
            call(stocked)
        assert f"{name}'" in caught.value.what and sorted(listing(stocked)) == before
        assert len(meanwhile.passes) >= number > 0


# -- each file once


def linked(folder: Path) -> Path:
    """Two releases and two originals, and ways to the first of each."""
    for name in ("a.parquet", "b.parquet"):
        visits(ord(name[0])).drop("patient").write_parquet(folder / name)
        perturb(folder / name, folder / f"r{name}", gamma=9, class_="group", keep=["group"])
    for name in ("a.parquet", "ra.parquet"):
        (folder / f"soft-{name}").symlink_to(name)
        os.link(folder / name, folder / f"hard-{name}")
        (folder / f"holding-{name}").mkdir()
        os.link(folder / name, folder / f"holding-{name}" / "0.parquet")
    (folder / "twice").mkdir()
    (folder / "twice" / "0.parquet").symlink_to("../a.parquet")
    os.link(folder / "a.parquet", folder / "twice" / "1.parquet")
    (folder / "way").symlink_to(folder)
    return folder


ONE_TABLE: dict[str, Callable[[Any], Any]] = {
    "perturb": lambda data: perturb(data, gamma=9, class_="group"),
    "plan": lambda data: p.plan(data),
    "train-tree": lambda data: train_tree(data, "group"),
    "estimate --truth": lambda data: estimate("rb.parquet", truth=data),
    "train-bayes": lambda data: p.train_bayes([(data, None)], "net.json"),
}
MINED: list[Callable[[Any], Any]] = [
    estimate, lambda data: p.query(data, "select count()"), p.attack, p.reconstruct, train_tree
]  # fmt: skip


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(linked(tmp_path))
    Path("net.json").write_text(structure("ward -> group"))
    for calls, name in (([*ONE_TABLE.values()], "a.parquet"), (MINED, "ra.parquet")):
        other = name.replace("a.", "b.")
        for call in calls:
            for way in ("{}", "./{}", "way/{}", "soft-{}", "hard-{}", "holding-{}"):
                for data in ([name, way.format(name)], [Path(way.format(name)), Path(other), name]):
                    with pytest.raises(UsageError) as caught:
                        call(data)
                    assert caught.value.id in ("file-named-twice", "release-named-twice")
    with raises("file-named-twice") as twice:
        perturb("twice", gamma=9)
    assert "'twice/0.parquet' and 'twice/1.parquet'" in twice.value.what
    assert perturb(["holding-a.parquet", "b.parquet"], gamma=9, seed=3).sidecar.records == 2 * ROWS


def test_a_release_s_copy_is_the_same_release(tmp_path: Path) -> None:
    linked(tmp_path)
    for name in ("ra.parquet", "ra.parquet.ppdm.json"):
        (tmp_path / f"new-{name}").write_bytes((tmp_path / name).read_bytes())
    for call in MINED:
        with raises("same-release"):
            call([tmp_path / "ra.parquet", tmp_path / "new-ra.parquet"])
    seeded = [tmp_path / f"s{name}.parquet" for name in "ab"]
    for file in seeded:  # other records by one seed: its identifier shows the seed, not the records
        perturb(tmp_path / file.name[1:], file, gamma=9, class_="group", keep=["group"], seed=3)
    assert estimate(seeded).records == 2 * ROWS


# -- lakehouse tables


def lake(folder: Path, log: str) -> Path:
    """A folder of Parquet, with what is left of rows that the table does not have, and with its log."""
    (folder / "data" / "year=2024").mkdir(parents=True)
    for name in ("0.parquet", "data/1.parquet", "data/year=2024/2.parquet"):
        visits().drop("patient").write_parquet(folder / name)
    visits().write_csv(folder / "data" / "3.csv")
    (folder / log).parent.mkdir(parents=True, exist_ok=True)
    (folder / log).write_text("")
    return folder


LOGS = {
    "_delta_log/00000000000000000000.json": ("a Delta table", "name the table itself, without an engine: '{}'"),
    ".hoodie/hoodie.properties": ("a Hudi table", "spark.read.format('hudi').load('{}')"),
    "_spark_metadata/0": ("a Spark stream", "spark.read.parquet('{}')"),
    "metadata/v3.metadata.json": ("an Iceberg table", "name its metadata_location, as its catalog says"),
    "metadata/00012-5e1c.gz.metadata.json": (
        "an Iceberg table",
        "name its metadata_location, as its catalog says",
    ),
}
"""The log of each kind of table, what it is called, and how its rows are read."""
NAMED = [
    "t", "t/", "./t/../t", "t/data", "t/data/year=2024", "t/data/1.parquet", "t/data/3.csv", ".", "soft",
    "away.parquet",
]  # fmt: skip


@pytest.mark.parametrize("log", LOGS)
def test_the_files_of_a_lakehouse_table_are_not_the_table(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake(tmp_path / "t", log)
    monkeypatch.chdir(tmp_path)
    Path("soft").symlink_to("t/data")
    Path("away.parquet").symlink_to("t/data/year=2024/2.parquet")
    kind, read = LOGS[log]
    own = ("t", "t/", "./t/../t", ".") if kind == "a Delta table" else ()  # is the table
    for named in [n for n in NAMED if n not in own]:
        with raises("lake-table") as caught:
            open_table(named)
        assert f"'{Path(named)}' belongs to {kind}" in caught.value.what
        assert read.format(table) in caught.value.next_step
    Path("elsewhere.parquet").write_bytes((table / "0.parquet").read_bytes())
    assert open_table("elsewhere.parquet").rows == ROWS
    for inner in ("patient=CANARY", "patient=CANARY/t", "a/patient=CANARY/t/u"):
        lake(tmp_path / "keys" / inner, log)
        with raises("lake-table") as caught:
            open_table("keys")
        assert "'keys' belongs to" in caught.value.what and "CANARY" not in str(caught.value)


def test_every_reader_knows_a_lakehouse_table(stocked: Path) -> None:
    lake(stocked, ".hoodie/0")
    calls = [call for _, call in CALLS.values()]
    for call in (*calls, lambda d: p.inspect(d / "r.csv"), lambda d: p.state(d / "r.csv", d / "s.html")):
        with raises("lake-table"):
            call(stocked)


def test_other_folders_called_metadata_are_no_sign(tmp_path: Path) -> None:
    for log in ("metadata/package.metadata.json", "metadata/v1.json", "metadata/notes.txt", "delta_log/0.json"):
        table = lake(tmp_path / log.replace("/", "-"), log)
        assert open_table(table / "data" / "1.parquet").rows == ROWS

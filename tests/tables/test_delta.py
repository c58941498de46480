"""Delta tables: a version is read as the library reads it, in one order; a release is one commit or nothing."""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from ppdm_cli import estimate, inspect
from ppdm_cli.engine import running
from ppdm_cli.errors import DataError, RefusedError, UsageError
from ppdm_cli.tables import Output, open_table
from ppdm_cli.tables.delta import PendingCommit
from tests.buckets import BUCKET, serving
from tests.vocabulary import Meanwhile, Run, listing, loaded, people, raises, read_table, released

if not os.environ.get("CI"):  # where it is never left out
    pytest.importorskip("deltalake")
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

PLAN = ("--gamma", 9, "--class", "group", "--keep-order")
LOG = "_delta_log"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "stores.md"


def lake(folder: Path, rows: int = 1000, **settings: Any) -> Path:
    """Write records in two commits, the second with a column more, in folders whose names are cells."""
    first, second = people(rows).with_columns(region=pl.lit("a/b %25 =")), people(rows, 8)
    write_deltalake(folder, first.to_arrow(), partition_by=["region"], **settings)
    more = second.with_columns(late=pl.col("income").cast(pl.Decimal(9, 2)))
    write_deltalake(folder, more.to_arrow(), mode="append", schema_mode="merge")
    return folder


def log(folder: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LOG / f"{version:020}.json").read_text().splitlines()]


def delete_rows(folder: Path, *rows: int) -> str:
    """Delete rows of a file by a vector, as Spark does: in the log alone."""
    wrong = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    right = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    bitmap = struct.pack("<IQIIIHHI", 1681511377, 1, 0, 12346, 1, 0, len(rows) - 1, 16)
    data = bitmap + b"".join(struct.pack("<H", r) for r in rows)
    data += bytes(-len(data) % 4)
    text = base64.b85encode(data).decode().translate(str.maketrans(wrong, right))
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}
    table = DeltaTable(folder)
    added = next(a["add"] for v in (0, 1) for a in log(folder, v) if "add" in a)
    gone = {k: added[k] for k in ("path", "partitionValues", "size")} | {"dataChange": True}
    lines = [
        {"commitInfo": {"operation": "DELETE"}},
        {"remove": gone | {"deletionTimestamp": 1, "extendedFileMetadata": True}},
        {"add": added | {"deletionVector": vector}},
    ]
    (folder / LOG / f"{table.version() + 1:020}.json").write_text("\n".join(map(json.dumps, lines)))
    return str(added["path"])


def sorted_rows(table: Any) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    return frame.with_columns(pl.col(pl.String).cast(pl.String)).sort(frame.columns)


def test_every_command_reads_and_writes_them(ppdm: Run, tmp_path: Path) -> None:
    lake(tmp_path / "people")
    ppdm("plan", "people", "-o", "plan.toml", "--record-epsilon", 2)
    ppdm("perturb", "people", "-o", "r.delta", *PLAN, "--drop", "late")
    ppdm("perturb", "people@v1", "-o", "r2.delta", "--like", "r.delta", "--keep-order")
    ppdm("estimate", "r.delta", "--truth", "people", "-o", "e.delta")
    assert b"4,000 records" in ppdm("estimate", "r.delta", "r2.delta").stdout
    ppdm("query", "r.delta", "select avg(age)")
    ppdm("reconstruct", "r.delta", "-o", "again.delta", "--method", "global")
    ppdm("train-tree", "r.delta", "-o", "tree.json")
    ppdm("predict", "tree.json", "again.delta", "-o", "predicted.delta")
    ppdm("attack", "r.delta", "--truth", "people", "--with", "posterior", "-o", "a.delta")
    ppdm("inspect", "r.delta", "--report", "statement.html")
    assert DeltaTable(tmp_path / "predicted.delta").to_pyarrow_table().num_rows == 2000
    ppdm("perturb", "people", "-o", "own.delta", *PLAN, "--drop", "late", "--sidecar", "own.json")
    ppdm("estimate", "own.delta", "--sidecar", "own.json")
    assert not list(tmp_path.glob("*.ppdm.json")) and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("deleted", [(), (0, 3, 999)])
def test_a_version_is_what_the_library_reads(deleted: tuple[int, ...], tmp_path: Path) -> None:
    folder = lake(tmp_path / "t", configuration={"delta.enableDeletionVectors": "true"})
    wanted = sorted_rows(DeltaTable(folder).scan())
    if deleted:
        path = delete_rows(folder, *deleted)
        wanted = sorted_rows(DeltaTable(folder).scan())
        assert wanted.height == 2000 - len(deleted) and "a%252Fb" in path
    table = open_table(folder)
    assert table.rows == wanted.height and table.schema.names == wanted.columns
    found = loaded(table)
    assert_frame_equal(sorted_rows(found), wanted)
    assert found.select(["late", "region"]) == loaded(table, ["late", "region"], threads=1)
    DeltaTable(folder).create_checkpoint()
    assert read_table(folder) == found


def test_the_order_of_rows_is_that_of_the_files_names(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for number in range(4):
        write_deltalake(folder, pa.table({"x": [number]}), mode="append")
    files = sorted(p.name for p in folder.glob("*.parquet"))
    assert read_table(folder)["x"].to_pylist() == [pl.read_parquet(folder / name)["x"].item() for name in files]


def test_a_release_is_one_commit_with_its_sidecar(tmp_path: Path) -> None:
    made = released(output=tmp_path / "r.delta")
    assert made.sidecar.records == 1000 and estimate(tmp_path / "r.delta").records == 1000
    table = DeltaTable(tmp_path / "r.delta")
    commit = table.history()[0]
    assert table.version() == 0 and commit["ppdm"].encode() == made.sidecar.encode()
    (script,) = re.findall(r"<!-- file: sidecar.py -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    (tmp_path / "release.delta").symlink_to("r.delta")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)
    assert done.stdout == made.sidecar.encode() + b"\n"
    assert str(tmp_path) not in json.dumps(log(tmp_path / "r.delta", 0))
    same = released().frame
    assert same is not None
    assert_frame_equal(pl.DataFrame(table.to_pyarrow_table()), same, check_dtypes=False)
    assert_frame_equal(pl.read_delta(str(tmp_path / "r.delta")), same, check_dtypes=False)


def test_columns_are_as_delta_has_them_or_refused(tmp_path: Path) -> None:
    hours = pl.col("age").cast(pl.Int64) * 3_600_000
    data = people(300).with_columns(at=hours.cast(pl.Datetime("ms")), small=pl.col("age").cast(pl.UInt16))
    released(data, tmp_path / "r.delta")
    types = DeltaTable(tmp_path / "r.delta").to_pyarrow_table().schema
    assert types.field("small").type == pa.int32() and types.field("at").type == pa.timestamp("us")
    assert inspect(tmp_path / "r.delta").sidecar.by_name["small"].dtype == "uint16"
    for kind in (pl.col("at").dt.time(), pl.col("at").cast(pl.Datetime("ns"))):
        with raises("delta-type", UsageError):
            released(data.with_columns(at=kind), tmp_path / "s.delta")
    assert not (tmp_path / "s.delta").exists()


def test_a_new_version_takes_the_place_of_a_release_and_of_nothing_else(ppdm: Run, tmp_path: Path) -> None:
    people().write_parquet(tmp_path / "p.parquet")
    people(500).write_parquet(tmp_path / "q.parquet")
    ppdm("perturb", "p.parquet", "-o", "r.delta", *PLAN)
    ppdm("perturb", "q.parquet", "-o", "r.delta", *PLAN, code=2)
    ppdm("perturb", "q.parquet", "-o", "r.delta", *PLAN, "--force")
    assert b"500 records" in ppdm("estimate", "r.delta").stdout
    assert b"1,000 records" in ppdm("estimate", "r.delta@v0").stdout
    assert b"cannot be read" in ppdm("estimate", "r.delta@v2", code=1).stderr
    lake(tmp_path / "own.delta")
    before = listing(tmp_path)
    said = ppdm("perturb", "p.parquet", "-o", "own.delta", *PLAN, "--force", code=4).stderr
    assert b"earlier versions" in said
    for data in ("own.delta", "own.delta@v0"):
        said = ppdm("perturb", data, "-o", "own.delta", *PLAN, "--force", code=2).stderr
        assert b"is also the input" in said
    (tmp_path / "full.delta").mkdir()
    (tmp_path / "full.delta" / "x").touch()
    for name in ("full.delta", "p.parquet/x.delta", "none/x.delta"):
        ppdm("perturb", "p.parquet", "-o", name, *PLAN, "--force", code=2 if "full" in name else 1)
    assert listing(tmp_path) == before | {"full.delta/x": b""}


CHANGES = {
    "append": lambda t: write_deltalake(t, t.to_pyarrow_table(), mode="append"),
    "delete": lambda t: t.delete("age < 40"),
    "update": lambda t: t.update({"age": "age + 1"}),
    "overwrite": lambda t: write_deltalake(t, t.to_pyarrow_table(), mode="overwrite"),
    "vector": lambda t: delete_rows(Path(t.table_uri.removeprefix("file://")), 3, 5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_release_that_another_commit_changed_is_refused(change: str, ppdm: Run, tmp_path: Path) -> None:
    released(output=tmp_path / "r.delta")
    DeltaTable(tmp_path / "r.delta").vacuum()
    ppdm("estimate", "r.delta")
    CHANGES[change](DeltaTable(tmp_path / "r.delta"))
    for command in (
        ("estimate", "r.delta"),
        ("inspect", "r.delta"),
        ("perturb", "r.delta", "-o", "x.csv", *PLAN),
    ):
        said = ppdm(*command, code=3).stderr.decode()
        assert "was changed after it was published" in said and "'r.delta@v0'" in said and said.count("\n") == 1
    ppdm("estimate", "r.delta@v0")
    with raises("delta-holds-others", RefusedError):
        released(output=tmp_path / "r.delta", force=True)


def test_a_table_that_changes_between_passes_is_refused(tmp_path: Path) -> None:
    folder = lake(tmp_path / "t")
    passes = Meanwhile(
        lambda: write_deltalake(folder, people(9).to_arrow(), mode="append", schema_mode="merge"), 2
    )
    with raises("file-changed", DataError), running(progress=passes):
        released(folder, tmp_path / "r.delta", drop=["late"])
    assert len(passes.passes) > 1 and not (tmp_path / "r.delta").exists()
    passes = Meanwhile(passes.do, 2)
    with running(progress=passes):
        assert released(f"{folder}@v1", drop=["late"]).sidecar.records == 2000
    assert DeltaTable(folder).version() == 3 and len(passes.passes) > 1


def test_a_commit_that_fails_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("CANARY")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="CANARY"):
        patch.setattr(PendingCommit, "_create", fail)
        released(output=tmp_path / "r.delta")
    assert not list(tmp_path.iterdir())
    with monkeypatch.context() as patch, pytest.raises(OSError, match="CANARY"):
        patch.setattr(Output, "send", fail)
        released(output=tmp_path / "r.delta")
    assert not list(tmp_path.iterdir())
    released(output=tmp_path / "r.delta")
    before = listing(tmp_path)
    with monkeypatch.context() as patch, raises("delta-failed", DataError) as caught:
        patch.setattr(DeltaTable, "create_write_transaction", fail)
        released(output=tmp_path / "r.delta", force=True)
    assert listing(tmp_path) == before and "CANARY" not in str(caught.value)

    def stop(_: Output) -> None:
        raise DataError("stopped", "the first failure", "run this again")

    with monkeypatch.context() as patch, raises("stopped", DataError):
        patch.setattr(Output, "send", stop)
        released(people(50), tmp_path / "r.delta", force=True)
    assert estimate(tmp_path / "r.delta").records == 1000
    with monkeypatch.context() as patch, raises("stopped", DataError):
        patch.setattr(Output, "send", stop)
        patch.setattr(DeltaTable, "restore", Mock(side_effect=DeltaError("CANARY")))
        released(people(50), tmp_path / "r.delta", force=True)


def test_a_killed_run_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    killed = """
import os, signal, sys
from deltalake import DeltaTable
from ppdm_cli.tables.delta import PendingCommit
from tests.vocabulary import people, released
def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
PendingCommit._create = DeltaTable.create_write_transaction = kill
released(people(50), sys.argv[1], force=True)
"""
    command = [sys.executable, "-c", killed, str(tmp_path / "r.delta")]
    assert subprocess.run(command, check=False).returncode < 0
    assert not (tmp_path / "r.delta" / LOG).exists()
    for left in (tmp_path / "r.delta").iterdir():
        left.unlink()
    released(output=tmp_path / "r.delta")
    assert subprocess.run(command, check=False).returncode < 0
    assert DeltaTable(tmp_path / "r.delta").version() == 0 and estimate(tmp_path / "r.delta").records == 1000


def test_without_the_library_a_message_says_what_to_install(
    ppdm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake(tmp_path / "people")
    people().write_parquet(tmp_path / "p.parquet")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    for command in (
        ("perturb", "people", "-o", "r.csv", *PLAN),
        ("perturb", "p.parquet", "-o", "r.delta", *PLAN),
    ):
        said = ppdm(*command, code=2).stderr.decode()
        assert "pip install deltalake" in said and said.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.parquet", "people"]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_by_their_mapped_names_alone(mode: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    settings = {"delta.columnMapping.mode": "name"}
    write_deltalake(folder, people().to_arrow(), partition_by=["region"], configuration=settings)
    if mode == "name":
        assert_frame_equal(sorted_rows(read_table(folder)), sorted_rows(DeltaTable(folder).scan()))
        return
    first = folder / LOG / f"{0:020}.json"
    first.write_text(
        first.read_text().replace('"delta.columnMapping.mode":"name"', '"delta.columnMapping.mode":"id"')
    )
    with raises("delta-features", RefusedError):
        open_table(folder)


def test_tables_in_a_bucket(ppdm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("moto")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    at = f"s3://{BUCKET}"
    with serving() as buckets:
        write_deltalake(f"{at}/people", people().to_arrow(), partition_by=["region"])
        for more in ((), ("--force",)):
            ppdm("perturb", f"{at}/people", "-o", f"{at}/r.delta", *PLAN, *more)
        for name in ("r.delta", "r.delta@v0"):
            assert b"1,000 records" in ppdm("estimate", f"{at}/{name}").stdout
        ppdm("perturb", f"{at}/people", "-o", f"{at}/r.delta", *PLAN, code=2)
        before = buckets.there()
        buckets.fault = lambda e: (
            "403 Forbidden" if LOG in e["PATH_INFO"] and e["REQUEST_METHOD"] == "PUT" else None
        )
        for name in ("r.delta", "new.delta"):
            said = ppdm("perturb", f"{at}/people", "-o", f"{at}/{name}", *PLAN, "--force", code=1).stderr
            assert said.count(b"\n") == 1 and b"owner" not in said
        assert buckets.there() == before

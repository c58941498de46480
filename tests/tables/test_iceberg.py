"""Iceberg tables: a snapshot is read as the library reads it, in one order; a release is known by its file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from ppdm_cli import estimate, inspect
from ppdm_cli.errors import DataError, MismatchError, RefusedError
from ppdm_cli.tables import open_table
from tests.buckets import BUCKET, serving
from tests.vocabulary import Run, generated, loaded, people, raises, read_table, released

if not os.environ.get("CI"):  # where it is never left out
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import DataScan, StaticTable, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType

PLAN = ("--gamma", 9, "--class", "group", "--keep-order")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "stores.md"


def lake(folder: Path) -> Table:
    """Write records in two snapshots, by regions whose names are cells, with a column renamed and one added."""
    catalog = InMemoryCatalog("clinic", warehouse=folder.as_uri())
    catalog.create_namespace("db")
    first = people().with_columns(region=pl.lit("a/b %25 =")).to_arrow()
    table = catalog.create_table("db.people", pa.schema([f.with_type(_plain(f.type)) for f in first.schema]))
    with table.update_spec() as spec:
        spec.add_field("region", IdentityTransform())
    table.append(first.cast(table.schema().as_arrow()))
    with table.update_schema() as update:
        update.rename_column("age", "years")
        update.add_column("late", DoubleType())
    second = people(1000, 8).rename({"age": "years"}).with_columns(late=pl.col("income"))
    table.append(second.to_arrow().cast(table.schema().as_arrow()))
    return table


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(kind) or pa.types.is_large_string(kind) else kind


def metadata(table: Table) -> Path:
    return Path(table.metadata_location.removeprefix("file://"))


def sorted_rows(table: pa.Table) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    return frame.sort(frame.columns)


def test_every_command_reads_them(ppdm: Run, tmp_path: Path) -> None:
    at = metadata(lake(tmp_path))
    ppdm("plan", at, "-o", "plan.toml", "--record-epsilon", 2)
    ppdm("perturb", at, "-o", "r.parquet", *PLAN)
    ppdm("estimate", "r.parquet", "--truth", at)
    ppdm("attack", "r.parquet", "--truth", at.as_uri(), "--with", "posterior")
    ppdm("train-tree", at, "--class", "group", "-o", "tree.json")
    ppdm("predict", "tree.json", at, "-o", "predicted.csv")
    said = ppdm("perturb", at.parents[1], "-o", "no.csv", *PLAN, code=4).stderr.decode()
    assert "metadata_location" in said and said.count("\n") == 1
    (at.parent / "version-hint.text").write_text(at.name)
    assert read_table(at.parents[1]) == read_table(at)


@pytest.mark.parametrize(
    ("kind", "deleted"),
    [("DATA", ()), ("POSITION_DELETES", (0, 3, 999)), ("EQUALITY_DELETES", (0, 3, 999))],
)
def test_a_snapshot_is_what_the_library_reads_or_refused(
    kind: str, deleted: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake(tmp_path / "t")
    task = max(table.scan().plan_files(), key=lambda t: t.file.record_count)
    if deleted:
        gone = tmp_path / "gone.parquet"
        pq.write_table(pa.table({"file_path": [task.file.file_path] * 3, "pos": pa.array(deleted)}), gone)
        content, file_format = DataFileContent[kind], FileFormat.PARQUET
        delete = DataFile.from_args(content=content, file_path=gone.as_uri(), file_format=file_format)

        def planned(scan: DataScan, own: Any = DataScan.plan_files) -> list[Any]:
            tasks = list(own(scan))
            for t in tasks:
                if t.file.file_path == task.file.file_path:
                    t.delete_files.add(delete)
            return tasks

        monkeypatch.setattr(DataScan, "plan_files", planned)
    if kind == "EQUALITY_DELETES":
        with raises("iceberg-features", RefusedError):
            open_table(metadata(table))
        return
    wanted = sorted_rows(table.scan().to_arrow())
    found = open_table(metadata(table))
    assert found.rows == wanted.height == 2000 - len(deleted)
    whole = loaded(found)
    assert_frame_equal(sorted_rows(whole), wanted)
    assert whole.select(["late", "region"]) == loaded(found, ["late", "region"], threads=1)


def test_each_metadata_file_is_its_own_snapshot_in_the_order_of_the_files(tmp_path: Path) -> None:
    table = lake(tmp_path)
    last = read_table(metadata(table))
    table.delete("years < 40")
    assert read_table(metadata(table)).num_rows < last.num_rows == 2000
    assert read_table(sorted(metadata(table).parent.glob("00004-*.json"))[0]) == last
    files = sorted(
        t.file.file_path for t in StaticTable.from_metadata(str(metadata(table))).scan().plan_files()
    )
    counts = [pq.read_metadata(f.removeprefix("file://")).num_rows for f in files]
    first = pq.read_table(files[0].removeprefix("file://"), partitioning=None)["income"].combine_chunks()
    assert read_table(metadata(table))["income"].combine_chunks()[: counts[0]] == first


def test_a_release_that_a_catalog_adds_is_a_release(ppdm: Run, tmp_path: Path) -> None:
    made = released(output=tmp_path / "release.parquet")
    (script,) = re.findall(r"<!-- file: add.py -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    catalog = f"sqlite:///{tmp_path}/catalog.db"
    settings = {"TYPE": "sql", "URI": catalog, "WAREHOUSE": (tmp_path / "w").as_uri()}
    settings = {f"PYICEBERG_CATALOG__PUBLIC__{k}": v for k, v in settings.items()}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=os.environ | settings)
    at = Path(done.stdout.decode().strip().removeprefix("file://"))
    assert estimate(at).records == 1000 and inspect(at).sidecar == made.sidecar
    ppdm("inspect", at, "--report", "statement.html")
    ppdm("perturb", at, "-o", "no.csv", *PLAN, code=4)
    table = StaticTable.from_metadata(str(at))
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert str(snapshot.summary["ppdm"]).encode() == made.sidecar.encode()


def test_a_release_with_other_rows_is_refused(tmp_path: Path) -> None:
    catalog = InMemoryCatalog("public", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    released(output=tmp_path / "r.parquet")
    rows = pq.read_table(tmp_path / "r.parquet")
    table = catalog.create_table("db.r", rows.schema)
    table.add_files([(tmp_path / "r.parquet").as_uri()])
    assert estimate(metadata(table)).records == 1000
    table.append(rows.cast(table.schema().as_arrow()))
    with raises("release-altered", MismatchError):
        estimate(metadata(table))


def test_what_changes_the_meaning_of_files_is_refused(tmp_path: Path) -> None:
    released(people().drop("region"), tmp_path / "r.parquet")
    plain = pq.read_table(tmp_path / "r.parquet")
    pq.write_table(plain.replace_schema_metadata(None), tmp_path / "plain.parquet")
    catalog = InMemoryCatalog("public", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    schema = plain.schema.append(pa.field("region", pa.string()))
    table = catalog.create_table("db.r", schema)
    cut = catalog.create_table("db.cut", schema)
    with cut.update_spec() as spec:
        spec.add_field("region", IdentityTransform())
    for made in (table, cut):
        made.add_files([(tmp_path / "plain.parquet").as_uri()])
    assert read_table(metadata(table))["region"].null_count == 1000
    with raises("iceberg-features", RefusedError):
        open_table(metadata(cut))
    (tmp_path / "plain.parquet").unlink()
    with raises("damaged-parquet", DataError):
        open_table(metadata(table))
    metadata(table).write_text("CANARY")
    with raises("iceberg-failed", DataError) as caught:
        open_table(metadata(table))
    assert "CANARY" not in str(caught.value)


def test_tables_in_a_bucket(ppdm: Run) -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("moto")
    at = f"s3://{BUCKET}"
    with serving():
        settings = {"warehouse": f"{at}/w", "s3.endpoint": os.environ["AWS_ENDPOINT_URL"]}
        catalog = InMemoryCatalog("clinic", **settings)
        catalog.create_namespace("db")
        rows = generated(1000).to_arrow()
        rows = rows.cast(pa.schema([f.with_type(_plain(f.type)) for f in rows.schema]))
        table = catalog.create_table("db.people", rows.schema)
        table.append(rows)
        ppdm("perturb", table.metadata_location, "-o", f"{at}/r.parquet", *PLAN)
        release = catalog.create_table("db.release", rows.schema)
        release.add_files([f"{at}/r.parquet"])
        assert b"1,000 records" in ppdm("estimate", release.metadata_location).stdout


def test_without_the_library_a_message_says_what_to_install(
    ppdm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = metadata(lake(tmp_path))
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    said = ppdm("perturb", at, "-o", "r.csv", *PLAN, code=2).stderr.decode()
    assert "pip install pyiceberg" in said and said.count("\n") == 1

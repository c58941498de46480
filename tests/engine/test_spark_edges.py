"""Spark between other programs: what it does not do is refused by name, and what it reads has its own types."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppdm_cli import attack, estimate, inspect, perturb, predict, reconstruct, train_tree
from ppdm_cli.engine import on_spark, running
from ppdm_cli.errors import DataError, UsageError
from tests.engine.cluster import needs_spark
from tests.engine.test_spark_rows import session
from tests.vocabulary import people

assert session
PLAN: Any = {"gamma": 9, "class_": "g", "keep": ["g"], "shuffle": True}


def timed(path: Path, unit: str = "us", old: bool = False) -> pa.Table:
    """Write a column of times, as INT96 where it is `old`."""
    rng = np.random.default_rng(1)
    days = np.datetime64("2020-01-01", unit) + rng.integers(0, 300, 600) * np.timedelta64(1, "D")
    labels = rng.choice(["x", "y"], 600)
    table = pa.table({"g": labels, "t": pa.array(days, pa.timestamp(unit))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=old, version="2.6")
    return table


def test_times_of_spark_are_in_microseconds_and_those_in_nanoseconds_are_named(tmp_path: Path) -> None:
    table = timed(tmp_path / "old.parquet", old=True)
    assert pq.read_metadata(tmp_path / "old.parquet").schema.column(1).physical_type == "INT96"
    made = perturb(tmp_path / "old.parquet", tmp_path / "r.parquet", **PLAN)
    assert made.sidecar.by_name["t"].dtype == "timestamp[us]"
    assert not any("nanoseconds" in s for s in inspect(made.sidecar).sentences)
    for read in (pl.read_parquet, pd.read_parquet, pq.read_table):
        column = read(tmp_path / "r.parquet")["t"]
        assert isinstance(column[0] if read is not pq.read_table else column[0].as_py(), datetime)
    assert duckdb.sql(f"select t from '{tmp_path}/r.parquet'").types == ["TIMESTAMP"]
    error = estimate(tmp_path / "r.parquet", truth=tmp_path / "old.parquet", attributes="t").tables[0].error
    assert error is not None and error < 1
    again = perturb(tmp_path / "old.parquet", tmp_path / "r2.parquet", like=tmp_path / "r.parquet")
    assert again.sidecar.by_name["t"] == made.sidecar.by_name["t"]
    usable = reconstruct(tmp_path / "r.parquet").frame
    assert usable is not None and usable["t"].dtype == pl.Datetime("us")
    pq.write_table(table, tmp_path / "new.parquet")  # the same times, from another writer
    assert perturb(tmp_path / "new.parquet", tmp_path / "r3.parquet", like=tmp_path / "r.parquet").sidecar
    timed(tmp_path / "fine.parquet", "ns")
    fine = perturb(tmp_path / "fine.parquet", **PLAN).sidecar
    assert fine.by_name["t"].dtype == "timestamp[ns]"
    assert any("Times in nanoseconds: t." in s for s in inspect(fine).sentences)


@needs_spark
def test_what_spark_does_not_do_is_one_line_with_the_way(tmp_path: Path, session: Any) -> None:
    timed(tmp_path / "old.parquet", old=True)
    frame = session.read.parquet(str(tmp_path / "old.parquet"))
    released = tmp_path / "released"
    perturb(frame, released, **PLAN)
    assert dict(session.read.parquet(str(released)).dtypes)["t"] == "timestamp_ntz"
    assert not list(released.glob(".*")) and pl.read_parquet(released / "*.parquet").height == 600
    tree, out = train_tree(people(300), "group", drop="since"), tmp_path / "labelled"
    originals = session.createDataFrame(people(300).to_pandas().astype(object).where(lambda d: d.notna(), None))
    originals.coalesce(1).write.parquet(str(tmp_path / "people"))
    original = session.read.parquet(str(tmp_path / "people"))
    said = {
        "attack does not run on Spark": lambda: attack(session.read.parquet(str(released))),
        "'nosuch'. Use what spark.read.parquet makes": lambda: perturb(
            session.read.schema("g string, nosuch int").parquet(str(tmp_path / "old.parquet")), out, gamma=9
        ),
        "an object of type BytesIO is not the name of a folder": lambda: perturb(frame, io.BytesIO(), **PLAN),
    }
    for words, call in said.items():
        with pytest.raises(UsageError, match=words):
            call()
    assert predict(tree, original).columns == [*original.columns, "predicted", "confidence"]
    predict(tree, original, out)
    assert pl.read_parquet(out / "*.parquet")["predicted"].len() == 300
    with running(engine=on_spark(session)):
        for uri in ("s3a://b/x", "s3://b/x", "gs://b/x"):
            with pytest.raises(UsageError, match=r"Spark knows no file system .*spark\.jars\.packages"):
                estimate(uri)
        with pytest.raises(DataError, match="cannot be used"):
            estimate("hdfs://nohost.invalid:1/x")
        with pytest.raises(UsageError, match=r"attack does not run on Spark\. Call it outside of running"):
            attack(str(released))
        with pytest.raises(UsageError, match="Spark writes only what it reads itself"):
            perturb(people(300), tmp_path / "no", gamma=9, shuffle=True)
        assert len(predict(tree, people(9))) == 9
    assert not (tmp_path / "no").exists()

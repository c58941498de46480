"""Tables in every format: what is written is read back the same, in one piece or in parts.

The CSV reader's own promises are in `test_csv`; here CSV is one format among the others.
"""

from __future__ import annotations

import base64
import io
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppdm_cli import perturb
from ppdm_cli.errors import DataError, PpdmError, RefusedError, UsageError
from ppdm_cli.releases import open_release
from ppdm_cli.tables import FORMATS, PendingFile, base, open_table, stream_format
from tests.strategies import tables
from tests.vocabulary import loaded, people, read_table, write_table

SUFFIXES = tuple(s[1:] for f in FORMATS if f.pending is PendingFile for s in f.suffixes)
"""Of files; a table of several is tested with its own format."""


def as_read(table: pa.Table) -> pa.Table:
    """Seconds are read as milliseconds: Parquet has no others."""
    return table.cast(pa.schema([(f.name, base.normal_or_same(f)) for f in table.schema]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), suffix=st.sampled_from(SUFFIXES))
def test_every_type_is_read_back_as_it_was_written(
    table: pa.Table, suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / f"t.{suffix}"
    expected = as_read(table)
    write_table(expected, path)
    types = {f.name: f.type for f in expected.schema} if "sv" in suffix else {}
    again = read_table(path, types=types)
    assert again.schema.types == expected.schema.types
    assert again.equals(expected.combine_chunks())


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables())
def test_a_stream_is_read_back_as_it_was_written(table: pa.Table) -> None:
    expected, stream = as_read(table), io.BytesIO()
    with stream_format("arrow").writer(stream, expected.schema, "", None) as writer:
        for batch in expected.to_batches():
            writer.write(batch)
        writer.close(None)
    stream.seek(0)
    assert loaded(open_table("-", standard_input=stream)).equals(expected.combine_chunks())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_perturbed_table_of_all_types_fits_its_sidecar(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 6, 500)
    kinds: list[pa.DataType] = [
        *(pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.large_string(), pa.string_view(), pa.decimal128(7, 2)),
        *(pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Paris")),
        *(pa.timestamp("ns"), pa.time32("s"), pa.time64("us"), pa.date32(), pa.date64(), pa.bool_()),
    ]
    table = pa.table({f"c{i}": _column(codes, k) for i, k in enumerate(kinds)})
    table = table.append_column("d", pa.array(codes.astype(str)).dictionary_encode())
    table = table.append_column("n", pa.array(codes, mask=codes == 0))
    kept = pa.table([*table.columns], names=[f"kept_{n}" for n in table.column_names])
    both = pa.table([*table.columns, *kept.columns], names=[*table.column_names, *kept.column_names])
    out = tmp_path / f"r.{suffix}"
    made = perturb(both, out, gamma=9, keep=kept.column_names)
    release, sidecar = open_release(out)
    again = loaded(release)
    assert sidecar == made.sidecar and again.num_rows == 500
    original = loaded(open_table(both))
    for name in kept.column_names:
        assert again.column(name).equals(original.column(name)), name
    for name in table.column_names:
        assert pc.all(pc.is_in(again.column(name), original.column(name).unique())).as_py(), name


def _column(codes: np.ndarray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(int(c)) / 4 for c in codes], kind)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.array([f'tëxt, "{c}"\n' for c in codes], pa.string()).cast(kind)
    if pa.types.is_temporal(kind) and kind.bit_width == 32:
        return pa.array(codes.astype("int32")).cast(kind)
    if pa.types.is_date64(kind):
        return pa.array(codes.astype("int32")).cast(pa.date32()).cast(kind)
    return pa.array(codes % 2 == 0) if pa.types.is_boolean(kind) else pa.array(codes).cast(kind)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_dictionary_columns_are_read_as_their_values(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"d.{suffix}"
    indices = pa.array([0, 2, None, 2], pa.int8())
    table = pa.table(
        {
            "text": pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b", "c"])),
            "large": pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b", "c"], pa.large_string())),
            "whole": pa.DictionaryArray.from_arrays(indices, pa.array([10, 20, 30])),
        }
    )
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    again = read_table(path)
    assert again.schema.types == [pa.string(), pa.string(), pa.int64()]
    assert again.column("text").to_pylist() == again.column("large").to_pylist() == ["a", "c", None, "c"]
    assert again.column("whole").to_pylist() == [10, 30, None, 30]


def test_parquet_parts_are_one_table_and_hive_keys_become_columns(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": [1, 2, 3]})
    keys = ["year=2023/city=New%20York", "year=2024/city=__HIVE_DEFAULT_PARTITION__", "year=2024/city=Ulm"]
    for i, key in enumerate(keys):
        folder = tmp_path / "parts" / key
        folder.mkdir(parents=True)
        frame.with_columns(x=pl.col("x") + 10 * i).write_parquet(folder / "part.parquet")
        (folder / "_SUCCESS.parquet").write_bytes(b"")
    table = read_table(tmp_path / "parts")
    assert sorted(table.column("x").to_pylist()) == [1, 2, 3, 11, 12, 13, 21, 22, 23]
    rows = {(r["x"] // 10, r["year"], r["city"]) for r in table.to_pylist()}
    assert rows == {(0, 2023, "New York"), (1, 2024, None), (2, 2024, "Ulm")}
    assert sorted(read_table(tmp_path / "parts", ["year"]).column(0).to_pylist()) == [2023] * 3 + [2024] * 6
    files = [tmp_path / "parts" / k / "part.parquet" for k in keys]
    assert read_table(files).column_names == ["x"], "keys count below a folder only"
    leading = tmp_path / "zips" / "zip=00123"
    leading.mkdir(parents=True)
    frame.write_parquet(leading / "p.parquet")
    assert read_table(tmp_path / "zips").column("zip").to_pylist() == ["00123"] * 3, "no leading zero is lost"


def test_parts_that_differ_are_named_with_what_differs(tmp_path: Path) -> None:
    first = tmp_path / "a.parquet"
    pl.DataFrame({"x": [1], "y": ["q"]}).write_parquet(first)
    others = {"name": {"x": [1], "z": ["q"]}, "type": {"x": [1.5], "y": ["q"]}, "order": {"y": ["q"], "x": [1]}}
    for what, columns in others.items():
        other = tmp_path / f"{what}.parquet"
        pl.DataFrame(columns).write_parquet(other)
        with pytest.raises(DataError, match=f"{what}.parquet.*does not have the columns"):
            open_table([first, other])
    with pytest.raises(UsageError, match="different formats"):
        open_table([first, write_table(pa.table({"x": [1]}), tmp_path / "b.csv")])
    with pytest.raises(UsageError, match="among other files"):
        open_table([first, "-"])
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no CSV, TSV, Parquet files"):
        open_table(tmp_path / "none")


def test_large_row_groups_are_read_in_slices_by_any_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"x": np.arange(5000), "s": [str(i % 7) for i in range(5000)]})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=5000)
    with pa.ipc.new_file(tmp_path / "one.arrow", table.schema) as writer:
        writer.write_table(table)
    monkeypatch.setattr(base, "MOST_ROWS", 1024)
    for path in (tmp_path / "one.parquet", tmp_path / "one.arrow"):
        opened = open_table(path)
        assert [p.load().num_rows for p in opened.partitions()] == [1024] * 4 + [904]
        for threads in (1, 5):
            assert loaded(opened, threads=threads).equals(table)


def test_parquet_has_row_groups_of_one_size_whatever_the_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MOST_ROWS", 1024)
    for name, sizes in {"many": [700] * 10, "one": [7000]}.items():
        batches = [pa.record_batch({"x": pa.array(np.zeros(n, np.int64))}) for n in sizes]
        write_table(pa.Table.from_batches(batches), tmp_path / f"{name}.parquet")
        found = pq.read_metadata(tmp_path / f"{name}.parquet")
        sizes = [found.row_group(i).num_rows for i in range(found.num_row_groups)]
        assert sizes == [1024] * 6 + [856]
    assert (tmp_path / "many.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


def test_no_metadata_of_the_input_reaches_the_output(tmp_path: Path) -> None:
    table = people().to_arrow()
    fields = [f.with_metadata({"note": "canary-field"}) for f in table.schema]
    table = table.cast(pa.schema(fields, {"pandas": "canary-pandas", "geo": "canary-geo"}))
    pq.write_table(table, tmp_path / "in.parquet")
    for suffix in ("parquet", "arrow", "csv", "csv.gz"):
        perturb(tmp_path / "in.parquet", tmp_path / f"out.{suffix}", gamma=9, keep=["group"], bins=5)
        assert b"canary" not in (tmp_path / f"out.{suffix}").read_bytes()
    written = pq.read_metadata(tmp_path / "out.parquet")
    assert set(written.metadata) == {b"ppdm", b"ARROW:schema"}
    logical = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written.metadata[b"ARROW:schema"])))
    assert set(logical.metadata or {}) <= {b"ppdm"} and not any(f.metadata for f in logical)
    assert all(written.row_group(0).column(i).statistics is None for i in range(written.num_columns)), (
        "statistics would say the smallest and largest of a kept column's row group"
    )
    with pa.ipc.open_file(tmp_path / "out.arrow") as opened:
        assert set(opened.schema.metadata) == {b"ppdm"}


def test_unused_dictionary_entries_are_not_published(tmp_path: Path) -> None:
    indices = pa.array(np.random.default_rng(1).integers(0, 2, 200), pa.int32())
    labels = pa.array(["yes", "no", "CANARY-7f3a"])
    column = pa.DictionaryArray.from_arrays(indices, labels)
    table = pa.table({"kept": column, "perturbed": column})
    pq.write_table(table, tmp_path / "in.parquet")
    for source in (table, tmp_path / "in.parquet"):
        for suffix in ("parquet", "arrow", "csv"):
            out = tmp_path / f"out.{suffix}"
            perturb(source, out, gamma=9, keep=["kept"], force=True)
            assert b"CANARY" not in out.read_bytes()
            assert b"CANARY" not in (tmp_path / f"out.{suffix}.ppdm.json").read_bytes()
        assert not any(isinstance(t, pl.Categorical) for t in perturb(table, gamma=9).frame.dtypes)


def test_a_gzip_header_has_no_name_and_no_time(tmp_path: Path) -> None:
    head = write_table(pa.table({"x": [1]}), tmp_path / "secret-name.csv.gz").read_bytes()[:10]
    assert head[:2] == b"\x1f\x8b" and head[3] == 0 and head[4:8] == bytes(4)


def test_polars_categories_and_enums_are_categories(tmp_path: Path) -> None:
    text = pl.Series("c", ["a", "b", None, "a"] * 20)
    frame = pl.DataFrame({"c": text.cast(pl.Categorical), "e": text.cast(pl.Enum(["b", "a", "zz"]))})
    frame.write_ipc(tmp_path / "f.arrow")
    frame.write_parquet(tmp_path / "f.parquet")
    for source in (frame, tmp_path / "f.arrow", tmp_path / "f.parquet"):
        release = perturb(source, gamma=3, keep=["e"], keep_order=True)
        assert release.sidecar.attributes[0].categories == ["a", "b"]
        assert release.frame["e"].to_list() == text.to_list()


def test_what_cannot_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").write_bytes(b"")
    (tmp_path / "text.parquet").write_bytes(b"PAR1 no parquet at all PAR1")
    (tmp_path / "text.arrow").write_bytes(b"no arrow at all")
    whole = write_table(people().to_arrow(), tmp_path / "whole.arrow").read_bytes()
    (tmp_path / "half.arrow").write_bytes(whole[: len(whole) // 2])
    for name in ("empty.parquet", "text.parquet", "text.arrow", "half.arrow", "nosuch.csv"):
        with pytest.raises(DataError, match=name):
            read_table(tmp_path / name)
    (tmp_path / "text.xlsx").write_bytes(b"x")
    with pytest.raises(UsageError, match="spreadsheets aren't"):
        open_table(tmp_path / "text.xlsx")
    with pytest.raises(DataError, match="Arrow data"):
        open_table("-", standard_input=io.BytesIO(b"a,b\n1,2\n"))
    with pytest.raises(UsageError, match="int is not a table"):
        open_table(42)
    with pytest.raises(PpdmError, match="same name: 'x'"):
        open_table(pa.table([[1], [2]], names=["x", "x"]))
    with pytest.raises(RefusedError, match="nested"):
        perturb(pa.table({"x": [[1]] * 20}), gamma=9)


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="not an ordinary file"):
        open_table(tmp_path / "pipe.csv")

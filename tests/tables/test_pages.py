"""Pages of codes: every reader finds what the codes stand for, whatever the types, widths, nulls and sizes.

What a reader makes of a file is compared with what it makes of the same table written by pyarrow alone. Spark's
two readers are in `tests/engine/test_spark_pages.py`.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import files, perturb
from ppdm_cli.arrays import code_type
from ppdm_cli.domain import Categories, Domain
from ppdm_cli.engine import running
from ppdm_cli.tables import base, pages
from ppdm_cli.tables.formats import RowGroupWriter
from tests.strategies import KINDS, domains
from tests.vocabulary import people

CODECS = ("none", "snappy", "zstd")
Columns = dict[str, tuple[Domain, np.ndarray]]
Writing = type[pages.PagesWriter] | type[pages.ParquetWriter]


def numbers(size: int, nulls: bool = False) -> Categories:
    return Categories(pa.int64(), list(range(size)), nulls)


def plain(columns: Columns) -> pa.Table:
    """Return the table that the codes stand for, by the domains' own decoding."""
    arrays = [d.decode(codes, np.full(len(codes), 0.5)) for d, codes in columns.values()]
    return pa.table(arrays, schema_of(columns))


def schema_of(columns: Columns) -> pa.Schema:
    return pa.schema([pa.field(n, d.kind, d.nulls) for n, (d, _) in columns.items()])


def batches(columns: Columns, cuts: Sequence[int]) -> list[pa.RecordBatch]:
    """Return the same rows as codes, in batches that end where the cuts are."""
    rows = len(next(iter(columns.values()))[1])
    ends = sorted({min(c, rows) for c in cuts} | {rows})
    made = []
    for start, end in zip([0, *ends], ends, strict=False):
        arrays = [d.column(codes[start:end], np.full(end - start, 0.5)) for d, codes in columns.values()]
        fields = [pa.field(n, a.type, d.nulls) for (n, (d, _)), a in zip(columns.items(), arrays, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
    return made


def written(kind: Writing, columns: Columns, cuts: Sequence[int] = (), group: int = 0) -> bytes:
    """Return a file of these columns, in row groups of a size of our own where one is given."""
    file = io.BytesIO()
    with kind(file, schema_of(columns), "t", None) as writer:
        assert isinstance(writer, RowGroupWriter)
        writer._size = group or writer._size
        for batch in batches(columns, cuts):
            writer.write(batch)
        writer.close(b"sidecar")
    return file.getvalue()


def by_pyarrow(data: bytes) -> pa.Table:
    opened = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
    table = opened.read()
    table.validate(full=True)
    assert table.num_rows == opened.metadata.num_rows
    return table


def by_polars(data: bytes) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(data))


def by_duckdb(data: bytes, folder: Path) -> pa.Table:
    (folder / "d.parquet").write_bytes(data)
    return duckdb.sql(f"select * from '{folder}/d.parquet'").to_arrow_table()


def by_hand(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by each column that is not written by pyarrow."""
    found, chunk = [], pages.Template.chunk

    def noted(self: pages.Template, array: pa.DictionaryArray, nullable: bool) -> pages.Chunk:
        found.append(str(array.type.value_type))
        return chunk(self, array, nullable)

    monkeypatch.setattr(pages.Template, "chunk", noted)
    return found


@st.composite
def coded(draw: st.DrawFn) -> Columns:
    """Draw columns of codes: of any domain, or of whole numbers with codes of any width to 16 bits."""
    rows = draw(st.one_of(st.integers(1, 40), st.integers(1, 3_000)))
    sized = st.builds(numbers, st.integers(1, 11).map(lambda w: (1 << w) - (w > 9)), st.booleans())
    kinds = draw(st.lists(st.one_of(domains(), sized), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    columns: Columns = {}
    for number, domain in enumerate(kinds):
        known = draw(st.sampled_from([1, max(1, domain.size // 2), domain.size]))
        codes = rng.integers(domain.size - known, domain.size, rows)
        columns[f"c{number}"] = domain, codes.astype(np.uint8 if domain.size <= 256 else np.uint32)
    return columns


TABLES = given(
    columns=coded(),
    cuts=st.lists(st.integers(1, 3_000), max_size=3),
    group=st.sampled_from([0, 8, 100, 1_000]),
    codec=st.sampled_from(CODECS),
)
"""Tables of codes, where they are cut into batches, and how they are written."""


@settings(max_examples=150)
@TABLES
def test_readers_find_what_the_codes_stand_for(
    columns: Columns, cuts: list[int], group: int, codec: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "CODEC", codec)
        ours = written(pages.PagesWriter, columns, cuts, group)
        theirs = written(pages.ParquetWriter, columns, cuts, group)
    found = by_pyarrow(ours)
    assert found.equals(by_pyarrow(theirs), check_metadata=True)
    assert found.equals(plain(columns).cast(found.schema))
    assert by_polars(ours).equals(by_polars(theirs))
    folder = tmp_path_factory.getbasetemp()
    assert by_duckdb(ours, folder).equals(by_duckdb(theirs, folder))


def all_widths() -> Columns:
    """Return codes of every width to 16 bits, with nulls and without."""
    rng = np.random.default_rng(1)
    domains_ = [numbers((1 << width) - 1, nulls) for width in range(1, 17) for nulls in (False, True)]
    return {f"c{i}": (d, rng.integers(0, d.size, 70_000).astype(np.uint16)) for i, d in enumerate(domains_)}


@pytest.mark.parametrize("codec", CODECS)
def test_readers_find_codes_of_every_width(codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CODEC", codec)
    noted, columns = by_hand(monkeypatch), all_widths()
    ours = written(pages.PagesWriter, columns)
    table = plain(columns)
    assert len(noted) == len(columns) and by_pyarrow(ours).equals(table)
    assert by_polars(ours).equals(pl.DataFrame(table)) and by_duckdb(ours, tmp_path).cast(table.schema).equals(
        table
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("codec", CODECS)
def test_fastparquet_finds_codes_of_every_width(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fastparquet = pytest.importorskip("fastparquet", reason="`make peers` installs fastparquet")
    monkeypatch.setattr(pages, "CODEC", codec)
    for name, kind in (("ours", pages.PagesWriter), ("theirs", pages.ParquetWriter)):
        (tmp_path / name).write_bytes(written(kind, all_widths(), (), 40_000))
    ours, theirs = (fastparquet.ParquetFile(str(tmp_path / n)).to_pandas() for n in ("ours", "theirs"))
    assert ours.equals(theirs) and ours.count().to_dict() == {
        n: 70_000 - c.null_count for n, c in zip(ours, plain(all_widths()).columns, strict=True)
    }


@pytest.mark.parametrize("width", range(1, 17))
def test_codes_are_packed_from_the_lowest_bit_on(width: int) -> None:
    rng = np.random.default_rng(width)
    for size in (1, 7, 8, 9, 64, 1_001):
        codes = rng.integers(0, 1 << width, size)
        codes[0] = (1 << width) - 1
        whole = pages.bit_packed(codes, width)
        bits = int.from_bytes(whole, "little")
        assert len(whole) == -(-size // 8) * width
        assert [bits >> width * i & (1 << width) - 1 for i in range(size)] == codes.tolist()
        assert bits >> width * size == 0


@pytest.mark.parametrize("size", [1 << 8, 1 << 16])
def test_all_codes_of_a_type_are_written_from_several_batches(size: int) -> None:
    columns: Columns = {"c": (numbers(size), np.arange(size).astype(code_type(size)))}
    for writer in (pages.PagesWriter, pages.ParquetWriter):
        assert by_pyarrow(written(writer, columns, [1, 100]))["c"].to_pylist() == list(range(size))


def test_the_comparison_notices_a_code_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    columns: Columns = {"c": (numbers(20), np.arange(1_000, dtype=np.uint8) % 20)}
    packed = pages.bit_packed

    def one_wrong(codes: np.ndarray, width: int) -> bytes:
        return packed(np.append(codes[:-1], codes[-1] ^ 1), width)

    monkeypatch.setattr(pages, "bit_packed", one_wrong)
    data = written(pages.PagesWriter, columns)
    assert not by_pyarrow(data).equals(plain(columns).cast(by_pyarrow(data).schema))


def test_structs_of_pyarrow_are_written_as_they_were_read() -> None:
    names = [f"column {i}" for i in range(20)]
    kinds = [pa.uint8(), pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.string(), pa.time64("ns")]
    table = pa.table([pa.nulls(40, kinds[i % 5]) for i in range(20)], names)
    for rows in (40, 0):
        file = pa.BufferOutputStream()
        with pq.ParquetWriter(file, table.schema) as writer:
            if rows:
                writer.write_table(table, 2)
        data = memoryview(file.getvalue())
        fields = pages.footer_of(data)
        again = pages.to_thrift(fields).data
        assert len(fields[4]) == rows // 2 and pages.from_thrift(io.BytesIO(again)) == fields
        if not rows:  # with rows, pyarrow has empty lists of numbers, which are not written here
            assert again == bytes(data[-8 - len(again) : -8])
    far = {1: np.int64(-(2**62)), 40: np.int32(2**31 - 1), 41: b"x" * 300}
    assert pages.from_thrift(io.BytesIO(pages.to_thrift(far).data)) == far


def test_all_types_but_booleans_are_written_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    domains_ = {
        str(k): Categories(
            k, [False, True] if k == pa.bool_() else ["a", "b"] if k == pa.string() else [1, 2], True
        )
        for k in KINDS
        if base.normal_or_same(pa.field("x", k)) == k
    }
    columns: Columns = {n: (d, np.arange(3_000, dtype=np.uint8) % 3) for n, d in domains_.items()}
    noted = by_hand(monkeypatch)
    data = written(pages.PagesWriter, columns, group=1_000)
    assert sorted(noted) == sorted(n for n in columns if n != "bool" for _ in range(3))
    assert by_pyarrow(data).equals(plain(columns).cast(by_pyarrow(data).schema))


def test_a_column_of_codes_has_one_data_page_and_no_statistics() -> None:
    columns: Columns = {"c": (numbers(2_000), np.arange(600_000, dtype=np.uint16) % 2_000)}
    data = written(pages.PagesWriter, columns)
    whole = pq.read_metadata(io.BytesIO(data))
    assert [whole.row_group(i).num_rows for i in range(3)] == [1 << 18, 1 << 18, 600_000 - (1 << 19)]
    for group in pages.footer_of(memoryview(data))[4]:
        [column] = group[1]
        assert [[*s.values()] for s in column[3][13]] == [[2, 0, 1], [0, 8, 1]]
        assert 12 not in column[3] and column[3][7] == group[6]
    assert [whole.row_group(i).total_byte_size for i in range(3)] == [
        sum(c.total_uncompressed_size for c in [whole.row_group(i).column(0)]) for i in range(3)
    ]


def test_a_page_that_was_damaged_is_noticed_by_its_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    columns: Columns = {"c": (numbers(20), np.arange(1_000, dtype=np.uint8) % 20)}
    monkeypatch.setattr(pages, "CODEC", "none")
    data = bytearray(written(pages.PagesWriter, columns))
    whole = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    data[whole.dictionary_page_offset + whole.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match="CRC"):
        by_pyarrow(bytes(data))


def test_the_bytes_depend_on_the_rows_alone() -> None:
    rng = np.random.default_rng(1)
    columns: Columns = {
        f"c{n}": (numbers(n, True), rng.integers(0, n + 1, 9_000).astype(np.uint16)) for n in (1, 9, 300)
    }
    made = set()
    for threads in (1, 5):
        with running(threads=threads):
            made |= {
                written(pages.PagesWriter, columns, cuts, 1_000) for cuts in ([], [1], [999, 2_000, 8_999])
            }
    assert len(made) == 1


def test_nothing_is_written_of_what_stands_under_a_null() -> None:
    def file(under: int) -> bytes:
        codes = np.array([0, 1, under, 1] * 50, np.uint8)
        valid = pa.py_buffer(np.packbits(np.array([1, 1, 0, 1] * 50, bool), bitorder="little"))
        kind = pa.dictionary(pa.uint8(), pa.float64())
        entries = pa.array([0.5, 1.5, 2.5])
        array = pa.DictionaryArray.from_buffers(kind, 200, [valid, pa.py_buffer(codes)], entries)
        return file_of(pa.RecordBatch.from_arrays([array.slice(5)], ["c"]), pa.float64())

    assert file(0) == file(2) and by_pyarrow(file(2))["c"].to_pylist()[:5] == [1.5, None, 1.5, 0.5, 1.5]


def file_of(batch: pa.RecordBatch, kind: pa.DataType, nullable: bool = True) -> bytes:
    file = io.BytesIO()
    with pages.PagesWriter(file, pa.schema([pa.field("c", kind, nullable)]), "t", None) as writer:
        writer.write(batch)
        writer.close(None)
    return file.getvalue()


@pytest.mark.parametrize(
    ("entries", "indices"),
    [
        (["a", "b", "a"], [0, 1, 2] * 9),
        (["a", None], [0, 1] * 9),
        ([1.5, 1.5], [0, 1] * 9),
        ([0.5, 1.5, 2.5], [0, 2]),
        ([], [None, None]),
        (list(range(70_000)), [0, 69_999] * 70_001),
    ],
    ids=["twice", "null", "number twice", "few rows", "empty", "many"],
)
def test_pyarrow_writes_dictionaries_that_are_no_domains(
    entries: list[Any], indices: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = by_hand(monkeypatch)
    array = pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32()), pa.array(entries) if entries else pa.array([], pa.string())
    )
    data = file_of(pa.RecordBatch.from_arrays([array], ["c"]), array.type.value_type)
    assert by_pyarrow(data)["c"].to_pylist() == array.to_pylist() and not noted


def test_labels_may_differ_from_batch_to_batch() -> None:
    file = io.BytesIO()
    parts = [pa.array(list(text) * 40).dictionary_encode() for text in ("ab", "bc", "d")]
    with pages.PagesWriter(file, pa.schema([pa.field("c", pa.string())]), "t", None) as writer:
        writer._size = 110
        for part in parts:
            writer.write(pa.RecordBatch.from_arrays([part], ["c"]))
        writer.close(None)
    assert by_pyarrow(file.getvalue())["c"].to_pylist() == [v for p in parts for v in p.to_pylist()]


def test_a_null_where_none_may_be_is_refused_as_by_pyarrow() -> None:
    array = pa.array([1.5, None] * 10).dictionary_encode()
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        file_of(pa.RecordBatch.from_arrays([array], ["c"]), pa.float64(), nullable=False)


def test_a_worker_that_fails_leaves_no_file_and_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> pages.Chunk:
        raise MemoryError

    monkeypatch.setattr(pages.Template, "chunk", fails)
    with pytest.raises(MemoryError):
        perturb(people(3_000), tmp_path / "r.parquet", gamma=9, drop="since", seed=1)
    assert not [*tmp_path.iterdir()]
    assert not [t.name for t in threading.enumerate() if t.name.startswith("ppdm")]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_release_by_pyarrow_alone_has_the_same_values(
    shuffle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def release(name: str) -> pl.DataFrame:
        perturb(
            people(3_000),
            tmp_path / name,
            gamma=9,
            keep="group",
            seed=1,
            shuffle=shuffle,
            keep_order=not shuffle,
        )
        return pl.read_parquet(tmp_path / name)

    noted = by_hand(monkeypatch)
    ours = release("ours.parquet")
    columns = len(noted)
    token = files.WRITER.set("pyarrow")
    try:
        assert release("theirs.parquet").equals(ours)
    finally:
        files.WRITER.reset(token)
    assert columns == len(noted) == 4 - shuffle


def test_tables_of_many_columns_are_left_to_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = by_hand(monkeypatch)
    for columns in (100, 300):
        frame = pl.DataFrame({f"c{i}": [0, 1] * 100 for i in range(columns)})
        perturb(frame, tmp_path / f"{columns}.parquet", gamma=9, keep_order=True)
        assert len(noted) == 100

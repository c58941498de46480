"""Pages of codes are read as the codes that were written, and pages of any other form by pyarrow."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import dtypes, estimate, files, perturb, query, reconstruct
from ppdm_cli.errors import DataError, MismatchError
from ppdm_cli.tables import open_table, pages
from ppdm_cli.tables.base import loaded
from tests.tables.test_pages import TABLES, Columns, all_widths, by_hand, numbers, plain, written
from tests.vocabulary import people

NUMBERS = count()


def loads(data: bytes, folder: Path, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the partitions of a file with this content."""
    path = folder / f"{next(NUMBERS)}.parquet"
    path.write_bytes(data)
    for part in open_table(path).partitions(columns):
        yield part.load()
    path.unlink()


def values(data: bytes, folder: Path) -> pa.Table:
    """Return what a file holds, whatever comes as a dictionary."""
    found = [
        pa.RecordBatch.from_arrays([dtypes.plain(c) for c in b.columns], names=b.schema.names)
        for b in loads(data, folder)
    ]
    return pa.Table.from_batches(found)


def are_codes(batch: pa.RecordBatch) -> list[bool]:
    return [pa.types.is_dictionary(k) and not pa.types.is_string(k.value_type) for k in batch.schema.types]


@settings(max_examples=100)
@TABLES
def test_values_are_those_that_pyarrow_reads(
    columns: Columns, cuts: list[int], group: int, codec: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "CODEC", codec)
        noted = by_hand(patch)
        data = written(pages.PagesWriter, columns, cuts, group)
    table = plain(columns)
    assert values(data, folder).cast(table.schema).equals(table)
    read = [k for b in loads(data, folder) for k, c in zip(b.schema.types, are_codes(b), strict=True) if c]
    known = [k for k in noted if k != "string"]
    assert not read if codec == "zstd" else len(read) >= len(known)


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_codes_of_every_width_are_those_that_were_written(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "CODEC", codec)
    columns = {n: c for n, c in all_widths().items() if c[0].ordinary < 1 << 13}
    [batch] = loads(written(pages.PagesWriter, columns), tmp_path)
    for name, (domain, codes) in columns.items():
        array, found = batch.column(name), domain.encode(batch.column(name))
        assert are_codes(batch.select([name])) == [True] and not found.outside.size
        assert found.codes.tolist() == codes.tolist()
        assert array.indices.drop_null().to_pylist() == codes[codes < domain.ordinary].tolist()


def test_dictionaries_that_are_large_are_left_to_pyarrow(tmp_path: Path) -> None:
    columns = {n: c for n, c in all_widths().items() if c[0].ordinary >= 1 << 13}
    data = written(pages.PagesWriter, columns)
    [batch] = loads(data, tmp_path)
    assert not any(are_codes(batch)) and values(data, tmp_path).to_pydict() == plain(columns).to_pydict()


def test_some_columns_come_as_codes_and_others_as_values(tmp_path: Path) -> None:
    perturb(people(3_000), tmp_path / "r.parquet", gamma=9, keep=["age", "group"], seed=1)
    [batch] = (p.load() for p in open_table(tmp_path / "r.parquet").partitions())
    codes = dict(zip(batch.schema.names, are_codes(batch), strict=True))
    assert not codes["age"] and sum(codes.values()) >= 1
    [(_, _, batch)] = loaded(open_table(tmp_path / "r.parquet"))
    assert not any(are_codes(batch))


@pytest.mark.parametrize("writer", [pages.ParquetWriter, pages.PagesWriter])
def test_pyarrow_reads_what_it_wrote(writer: type[pages.PagesWriter], tmp_path: Path) -> None:
    columns: Columns = {"c": (numbers(20), np.arange(3_000, dtype=np.uint8) % 20)}
    [batch] = loads(written(writer, columns), tmp_path)
    assert any(are_codes(batch)) == (writer is pages.PagesWriter)


def test_all_commands_find_the_same_in_pages_of_either_writer(tmp_path: Path) -> None:
    found = []
    for name in ("pages", "pyarrow"):
        token = files.WRITER.set(name)
        try:
            release = tmp_path / f"{name}.parquet"
            perturb(people(3_000), release, gamma=9, class_="group", seed=1, drop="since")
        finally:
            files.WRITER.reset(token)
        usable = reconstruct(release).frame
        answer = query(release, "select mean(age)").frame
        assert usable is not None
        found.append([estimate(release).frame, answer, usable.select(pl.all().sort())])
    assert all(a.equals(b) for a, b in zip(*found, strict=True))


def chunk_of(data: bytes) -> slice:
    """Return where the only chunk of a file is."""
    meta = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    return slice(meta.dictionary_page_offset, meta.dictionary_page_offset + meta.total_compressed_size)


def with_lies(data: bytes, page: int, lie: Callable[[pages.Fields, bytearray], None]) -> bytes:
    """Return a file of which a page was changed, under the checksum of what it has now."""
    place, out = chunk_of(data), b""
    file = io.BytesIO(data[place])
    for number in range(2):
        header = pages.from_thrift(file)
        body = bytearray(file.read(int(header[3])))
        if number == page:
            lie(header, body)
        header[4] = np.uint32(zlib.crc32(body)).view(np.int32)
        out += pages.to_thrift(header).data + bytes(body)
    footer = pages.footer_of(memoryview(data))
    [[column]] = [g[1] for g in footer[4]]
    offset = len(out) - (place.stop - place.start)
    column[3][7] += offset  # the size, and where the data page begins if the page before has grown
    column[3][9] += offset if page == 0 else 0
    whole = pages.to_thrift(footer).data
    return data[: place.start] + out + whole + len(whole).to_bytes(4, "little") + b"PAR1"


RELEASED: Columns = {"c": (numbers(20), np.arange(1_000, dtype=np.uint8) % 20)}
NULLS: Columns = {"c": (numbers(20, True), np.arange(1_000, dtype=np.uint8) % 21)}


def outcome(data: bytes, folder: Path) -> list[object] | None:
    """Return the values of a file, or None where it is damaged, in one line."""
    try:
        return values(data, folder)["c"].to_pylist()
    except DataError as error:
        assert error.id in ("damaged-parquet", "unpacks-too-large") and "\n" not in str(error)
        return None


@settings(max_examples=300)
@given(
    nulls=st.booleans(),
    codec=st.sampled_from(["none", "snappy"]),
    place=st.integers(0, 10_000),
    new=st.binary(min_size=1, max_size=9),
    whole=st.booleans(),
)
def test_a_page_that_was_changed_is_damaged_or_has_its_values(
    nulls: bool, codec: str, place: int, new: bytes, whole: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    columns = NULLS if nulls else RELEASED
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "CODEC", codec)
        data = written(pages.PagesWriter, columns)

    chunk, raw = chunk_of(data), bytearray(data)
    at = place % ((chunk.stop if whole else 200) - chunk.start) + chunk.start
    raw[at : at + len(new)] = new[: chunk.stop - at]
    found = outcome(bytes(raw), tmp_path_factory.getbasetemp())
    assert found is None or found == plain(columns)["c"].to_pylist()


NUMBERS_OF = {
    "entries": (0, lambda header: header[7], 1),
    "unpacked dictionary": (0, lambda header: header, 2),
    "rows": (1, lambda header: header[5], 1),
    "encoding": (1, lambda header: header[5], 2),
    "levels": (1, lambda header: header[5], 3),
    "unpacked page": (1, lambda header: header, 2),
    "packed page": (1, lambda header: header, 3),
}


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("codec", ["none", "snappy"])
@pytest.mark.parametrize("name", NUMBERS_OF)
def test_a_number_that_lies_gives_no_other_number_of_rows(
    name: str, codec: str, nulls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "CODEC", codec)
    data = written(pages.PagesWriter, NULLS if nulls else RELEASED)
    page, place, field = NUMBERS_OF[name]
    for lie in (-5, 0, 1, 3, 4, 999, 1_001, 1 << 20, (1 << 31) - 1):
        changed = with_lies(data, page, lambda header, _, lie=lie: place(header).update({field: np.int32(lie)}))
        found = outcome(changed, tmp_path)
        assert found is None or (len(found) == 1_000 and set(found) <= {*range(20), None})


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("at", range(12))
def test_a_byte_that_lies_gives_no_other_number_of_rows(
    at: int, nulls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "CODEC", "none")
    data = written(pages.PagesWriter, NULLS if nulls else RELEASED)
    for byte in (0, 1, 4, 6, 17, 127, 128, 255):
        for place in (at, at + 4 + 126):  # with nulls, the levels take so many bytes
            changed = with_lies(data, 1, lambda _, body, place=place, byte=byte: body.__setitem__(place, byte))
            found = outcome(changed, tmp_path)
            assert found is None or (len(found) == 1_000 and set(found) <= {*range(20), None})


def test_a_file_that_was_cut_is_damaged(tmp_path: Path) -> None:
    data = written(pages.PagesWriter, RELEASED)
    for at in range(4, len(data), 37):
        path = tmp_path / "cut.parquet"
        path.write_bytes(data)
        parts = list(open_table(path).partitions())
        path.write_bytes(data[:at])
        if at < 4 + pq.read_metadata(io.BytesIO(data)).row_group(0).column(0).total_compressed_size:
            with pytest.raises(DataError, match="truncated"):
                parts[0].load()


def test_a_code_without_an_entry_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pages.bit_packed
    monkeypatch.setattr(pages, "bit_packed", lambda codes, width: packed(codes | 0b11111, width))
    data = written(pages.PagesWriter, RELEASED)
    monkeypatch.undo()
    assert outcome(data, tmp_path) is None


@pytest.mark.parametrize("by", ["pages", "pyarrow"])
def test_a_value_outside_its_domain_is_refused_with_its_row(by: str, tmp_path: Path) -> None:
    path, table = tmp_path / "r.parquet", pa.table({"c": list(range(20)) * 50})
    release = perturb(table, path, gamma=9, attributes={"c": {"domain": [0, 19]}}, keep_order=True)
    sidecar = (tmp_path / "r.parquet.ppdm.json").read_bytes()
    codes = np.zeros(1_000, np.uint8)
    codes[700] = 20
    batch = pa.RecordBatch.from_arrays([numbers(21).column(codes)], ["c"])
    with path.open("wb") as file:
        kind = pages.PagesWriter if by == "pages" else pages.ParquetWriter
        with kind(file, pa.schema([pa.field("c", pa.int64(), False)]), "t", None) as writer:
            writer.write(batch)
            writer.close(sidecar)
    assert release.sidecar.records == 1_000
    with pytest.raises(MismatchError, match=r"the column 'c' has a value outside its domain in row 701 of"):
        estimate(path)

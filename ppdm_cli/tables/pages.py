"""Parquet for releases: columns that come as codes are written as their codes, bit-packed, in worker threads.

pyarrow looks up each number of a column in a dictionary, in one thread, although a release's codes are known.
So this module writes the pages of such columns by hand, and pyarrow writes the rest of the same file. It is the
one place where ppdm writes Parquet by hand; with `PPDM_WRITER=pyarrow` nothing is.

A column of a row group is a dictionary page and one data page. Every reader finds the same values there:

1. *Dictionary.* pyarrow writes a template: a column of the dictionary's entries, in order. It numbers values in
   the order of their first appearance. So if its dictionary page counts as many values as there are entries,
   entry i has the number i. The page is used as it is, with type, path, codec and the names of the encodings:
   no type's bytes are written here. If the template has another form (booleans, an entry that occurs twice),
   pyarrow writes the column.
2. *Codes.* A data page of version 1 is `levels width run`, then compressed. A run of n codes of w bits is the
   varint 2 ceil(n / 8) + 1, then the codes from the lowest bit on, with zeros up to a multiple of 8 (RLE in
   Encodings.md of parquet-format). All codes are below 2^w, as w is the bit length of the last entry's number.
   A row group has at most 2^18 rows, and readers take runs below 2^31. A null has no code in the run, so the
   bytes under a null in memory are never written.
3. *Levels.* If a column may be null, its page begins with the length of a run, in 4 bytes, and that run, of
   width 1: a 1 for each value, a 0 for each null. Without a null it is a repeated 1: varint 2 n, then byte 1.
4. *Metadata.* The template's, with other counts, sizes and checksums. Offsets move by the column's place in the
   file. The footer is pyarrow's for an empty file, with the row groups added.

No column has statistics: they would publish the smallest and largest kept value of each row group, and nearly
all perturbed values are in each. A page index would be of no use to a column of one data page. The bytes depend
on the rows alone: one thread makes a row group, and they are written in order.
"""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Iterable, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes
from ppdm_cli.sidecar import METADATA_KEY
from ppdm_cli.tables.formats import InOrder, RowGroupWriter, dictionary_free

CODEC = "snappy"
_OPTIONS = {
    "write_statistics": False, "store_schema": False, "write_page_checksum": True, "data_page_version": "1.0",
}  # fmt: skip
_MOST_ENTRIES = 1 << 16
RLE_DICTIONARY = 8
_METADATA = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13)
"""The fields of ColumnMetaData that are written: no others point into the file."""
Fields = dict[int, Any]
"""A struct of Thrift by the numbers of its fields: numbers of numpy, bytes, lists and structs."""
_BYTE, _BINARY, _LIST, _STRUCT = 3, 8, 9, 12
_NUMBERS = {4: np.int16, 5: np.int32, 6: np.int64}
"""Types of Thrift's compact protocol."""
_KINDS = {number: kind for kind, number in _NUMBERS.items()}


class ThriftValue(NamedTuple):
    """A value in Thrift's compact protocol."""

    kind: int
    data: bytes


def to_thrift(value: Any) -> ThriftValue:
    """Return a value in Thrift's compact protocol, by its type."""
    if isinstance(value, ThriftValue):
        return value
    if kind := _KINDS.get(type(value)):
        number = int(value)
        return ThriftValue(kind, varint(number << 1 ^ number >> 63))
    if isinstance(value, bytes):
        return ThriftValue(_BINARY, varint(len(value)) + value)
    if isinstance(value, list):
        items = [to_thrift(v) for v in value]
        kind, short = items[0].kind if items else _STRUCT, len(items) < 15
        size = bytes([len(items) << 4 | kind]) if short else bytes([0xF0 | kind]) + varint(len(items))
        return ThriftValue(_LIST, size + b"".join(i.data for i in items))
    out, last = [], 0
    for field in sorted(value):
        (kind, data), step = to_thrift(value[field]), field - last
        out += [bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + varint(field << 1), data]
        last = field
    return ThriftValue(_STRUCT, b"".join([*out, b"\0"]))


def varint(number: int) -> bytes:
    """Return a number in groups of seven bits, from the lowest on."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def from_thrift(data: io.BytesIO, kind: int = _STRUCT) -> Any:
    """Read a value of a type, such as the structs in pyarrow's pages and footers."""
    if kind in _NUMBERS:
        number = _read_varint(data)
        return _NUMBERS[kind](number >> 1 ^ -(number & 1))
    if kind == _BINARY:
        return data.read(_read_varint(data))
    if kind == _LIST:
        head = data.read(1)[0]
        size = _read_varint(data) if head >> 4 == 15 else head >> 4
        return [from_thrift(data, max(head & 15, _BYTE)) for _ in range(size)]  # true and false are bytes here
    if kind == _STRUCT:
        fields, field = Fields(), 0
        while head := data.read(1)[0]:
            field = field + (head >> 4) if head >> 4 else _read_varint(data) >> 1
            fields[field] = from_thrift(data, head & 15)
        return fields
    return ThriftValue(kind, bytes([data.read(1)[0]]) if kind == _BYTE else b"")  # true and false are types


def _read_varint(data: io.BytesIO) -> int:
    found, shift = 0, 0
    while (byte := data.read(1)[0]) & 0x80:
        found, shift = found | (byte & 0x7F) << shift, shift + 7
    return found | byte << shift


def footer_of(file: memoryview) -> Fields:
    """Return the metadata of a Parquet file (FileMetaData of parquet.thrift)."""
    return from_thrift(io.BytesIO(file[-8 - int.from_bytes(file[-8:-4], "little") :]))


class Chunk(NamedTuple):
    """A column of a row group: pages, and ColumnMetaData with offsets from the first page."""

    pages: bytes | memoryview
    metadata: Fields


def _moved(metadata: Fields, by: int) -> Fields:
    """Return ColumnMetaData with other offsets of data (9) and dictionary (11)."""
    return metadata | {f: metadata[f] + by for f in (9, 11) if f in metadata}


def _by_pyarrow(columns: Sequence[Any], fields: Sequence[pa.Field]) -> list[Chunk]:
    """Return columns of a row group as pyarrow writes them."""
    table, file = _typed(columns, fields), pa.BufferOutputStream()
    with pq.ParquetWriter(file, table.schema, compression=CODEC, **_OPTIONS) as writer:
        writer.write_table(table, table.num_rows)
    data, found = memoryview(file.getvalue()), []
    for column in footer_of(data)[4][0][1]:
        metadata = {f: v for f, v in column[3].items() if f in _METADATA}
        start = metadata.get(11, metadata[9])
        found.append(Chunk(data[start : start + metadata[7]], _moved(metadata, -start)))
    return found


def _whole(table: pa.Table) -> list[Any]:
    """Return the columns of a row group, with one dictionary each."""
    return [c.combine_chunks() if pa.types.is_dictionary(c.type) else c for c in table.columns]


def _typed(columns: Sequence[Any], fields: Iterable[pa.Field]) -> pa.Table:
    """Return columns in the form that pyarrow writes fastest: text as dictionaries, the others without."""
    found = []
    for column in columns:
        text = pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)
        found.append(column if text and not column.dictionary.null_count else dictionary_free(column))
    return pa.table(found, pa.schema([f.with_type(c.type) for f, c in zip(fields, found, strict=True)]))


class Template(NamedTuple):
    """A column's dictionary as pyarrow writes it; pages of codes follow it."""

    dictionary: bytes  # the page, with its header
    unpacked: int  # its size before compression
    header: Fields  # of a data page
    metadata: Fields
    width: int  # bits of a code

    @classmethod
    def of(cls, field: pa.Field, entries: pa.Array) -> Template | None:
        """Return the template for a dictionary, or None if pyarrow has to write the column."""
        if not 0 < len(entries) <= _MOST_ENTRIES or entries.null_count:
            return None
        [(pages, metadata)] = _by_pyarrow([entries], [field])
        if [s[2] for s in metadata[13][1:]] != [RLE_DICTIONARY]:  # encoding_stats
            return None
        file = io.BytesIO(pages)
        first = from_thrift(file)
        unpacked, end = file.tell() + first[2], file.tell() + first[3]
        if first[7][1] != len(entries):
            return None
        metadata[13][1][3] = np.int32(1)
        lists = {f: to_thrift(v) for f, v in metadata.items() if isinstance(v, list)}
        file.seek(end)
        width = max(1, (len(entries) - 1).bit_length())
        return cls(bytes(pages[:end]), unpacked, from_thrift(file), metadata | lists, width)

    def chunk(self, array: pa.DictionaryArray, nullable: bool) -> Chunk:
        """Return the column whose codes are numbers of the dictionary's entries."""
        codes, rows, levels = dtypes.carrier(array.indices), len(array), b""
        if nullable:
            levels = varint(rows << 1) + b"\1"
            if array.null_count:
                valid = array.is_valid().cast(pa.uint8()).to_numpy().view(bool)
                codes, levels = np.compress(valid, codes), _run(valid, 1)
            levels = len(levels).to_bytes(4, "little") + levels
        raw = levels + bytes([self.width]) + _run(codes, self.width)
        body = raw if CODEC == "none" else pa.compress(raw, CODEC, asbytes=True)
        sizes = {2: np.int32(len(raw)), 3: np.int32(len(body)), 4: np.uint32(zlib.crc32(body)).view(np.int32)}
        header = to_thrift(self.header | sizes | {5: self.header[5] | {1: np.int32(rows)}}).data
        pages = b"".join([self.dictionary, header, body])
        counts = {5: rows, 6: self.unpacked + len(header) + len(raw), 7: len(pages)}
        return Chunk(pages, self.metadata | {f: np.int64(n) for f, n in counts.items()})


def _run(codes: np.ndarray, width: int) -> bytes:
    """Return codes as one run of the RLE encoding; no run if there are none."""
    return varint((len(codes) + 7) // 8 << 1 | 1) + bit_packed(codes, width) if len(codes) else b""


def bit_packed(codes: Codes, width: int) -> bytes:
    """Return codes below 2^width (1 to 16 bits each) from the lowest bit on, with zeros up to a multiple of 8.

    Eight codes are one word of 64 bits, or two if a code needs more than a byte. In each step, two neighbours
    become one number of twice the size: a mask takes them apart, and the upper one moves down to the lower one.
    Of each eight codes, the lowest `width` bytes are left.
    """
    padded = np.zeros(-(-len(codes) // 8) * 8, np.uint8 if width <= 8 else np.uint16)
    padded[: len(codes)] = codes
    words: np.ndarray = padded.view(np.uint64)
    size, have = 8 * padded.itemsize, width
    while size < 64:
        lower = sum(((1 << have) - 1) << bit for bit in range(0, 64, 2 * size))
        words = words & lower | words >> (size - have) & lower << have
        size, have = 2 * size, 2 * have
    if width > 8:  # the upper word's codes follow the lower one's; by 64 bits, numpy shifts everything out
        low, high = words[0::2], words[1::2]
        words = np.stack([low | high << have, high >> (64 - have)], axis=1)
    return np.ndarray(len(padded) // 8, f"V{width}", words, 0, (8 * padded.itemsize,)).tobytes()


class ParquetWriter(RowGroupWriter):
    """Writes all by pyarrow; readers find plain text, as the schema says that Arrow keeps in the metadata."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None) -> None:
        super().__init__(file, schema)
        self._writer: pq.ParquetWriter | None = None

    def _write_group(self, table: pa.Table) -> None:
        table = _typed(_whole(table), self._schema)
        self._opened(table.schema).write_table(table, self._size)

    def _opened(self, physical: pa.Schema) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, physical, compression=CODEC, **_OPTIONS)
        return self._writer

    def close(self, sidecar: bytes | None) -> None:
        self._end_group()
        writer = self._opened(self._schema)
        ours: dict[str | bytes, bytes] = {METADATA_KEY: sidecar} if sidecar is not None else {}
        logical = base64.b64encode(self._schema.with_metadata(ours).serialize().to_pybytes())
        writer.add_key_value_metadata({"ARROW:schema": logical, **ours})
        writer.close()

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False


class PagesWriter(RowGroupWriter):
    """Writes columns that come as dictionaries as their codes, and the others by pyarrow, in worker threads."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None) -> None:
        super().__init__(file, schema)
        self._templates: dict[str, tuple[pa.Array, Template | None]] = {}
        self._made = InOrder(self._put_group)  # row groups that are not written yet
        self._groups: list[ThriftValue] = []  # metadata of those that are
        self._written, self._place = 0, 0
        self._put(b"PAR1")

    def _put(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._place += len(data)

    def _write_group(self, table: pa.Table) -> None:
        self._made.add(self._chunks, table)

    def _chunks(self, table: pa.Table) -> list[Chunk]:
        """Return the columns of a row group, in the order of the schema."""
        pairs = [*zip(_whole(table), self._schema, strict=True)]
        made = [self._coded(*pair) for pair in pairs]
        rest = [pair for pair, chunk in zip(pairs, made, strict=True) if chunk is None]
        found = iter(_by_pyarrow(*zip(*rest, strict=True)) if rest else ())
        return [chunk or next(found) for chunk in made]

    def _coded(self, array: pa.Array | pa.ChunkedArray, field: pa.Field) -> Chunk | None:
        """Return a column by its codes, or None if pyarrow has to write it."""
        if not pa.types.is_dictionary(array.type):
            return None
        entries, known = array.dictionary, self._templates.get(field.name)
        if len(array) < len(entries) or (array.null_count and not field.nullable):
            return None
        if known is None or not known[0].equals(entries):
            known = self._templates[field.name] = entries, Template.of(field, entries)
        return known[1] and known[1].chunk(array, field.nullable)

    def _put_group(self, chunks: list[Chunk]) -> None:
        start, columns = self._place, []
        for chunk in chunks:
            columns.append({2: np.int64(0), 3: _moved(chunk.metadata, self._place)})
            self._put(chunk.pages)
        rows, unpacked = chunks[0].metadata[5], sum(c.metadata[6] for c in chunks)
        counts = {2: unpacked, 3: rows, 5: start, 6: self._place - start}
        self._groups.append(to_thrift({1: columns} | {f: np.int64(n) for f, n in counts.items()}))
        self._written += rows

    def close(self, sidecar: bytes | None) -> None:
        self._end_group()
        self._made.finish()
        empty = io.BytesIO()
        ParquetWriter(empty, self._schema, "", None).close(sidecar)
        whole = footer_of(empty.getbuffer()) | {3: np.int64(self._written), 4: self._groups}
        footer = to_thrift(whole).data
        self._put(footer + len(footer).to_bytes(4, "little") + b"PAR1")

    def abandon(self) -> None:
        self._made.abandon()

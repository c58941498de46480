"""Codes for readers of releases: columns that `pages` wrote come as dictionaries, with no value for each code.

pyarrow would turn each code into a value, and the counting code would look its code up again. So this module
unpacks the codes. pyarrow reads the entries alone, from a small file around the column's dictionary page, as a
rule once for all row groups: no type's bytes are read here. A column is read so only if its chunk has the one
form that `pages` describes, in snappy or uncompressed. Of any other form `coded_chunk` returns None: pyarrow
reads it. A chunk of that form with a wrong checksum, or a code without an entry, is damaged.
"""

from __future__ import annotations

import io
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_cli.arrays import Codes
from ppdm_cli.tables.pages import RLE_DICTIONARY, Fields, bit_packed, footer_of, from_thrift, to_thrift, varint

MOST_BYTES = 1 << 16
"""The most bytes of a dictionary whose entries are held for later row groups."""
MOST_COLUMNS_HELD = 1 << 7
_LONGEST_HEADER = 1 << 8
_CODECS = ("SNAPPY", "UNCOMPRESSED")
_PLAIN, _RLE = 0, 3
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2


def coded_chunk(
    data: bytes, column: pq.ColumnChunkMetaData, physical: pq.ColumnSchema, kind: pa.DataType
) -> pa.DictionaryArray | None:
    """Return a column of a row group, or None if pyarrow has to read it; ArrowInvalid if it is damaged.

    `data` is the chunk, with both of its pages, and `kind` the type of its values.
    """
    rows, start = int(column.num_values), column.data_page_offset - column.dictionary_page_offset
    field = pa.field(physical.path, kind, bool(physical.max_definition_level))
    try:
        entries, known = _entries(field, data[:start], column.compression)
        header, raw, end = _page(data, start, column.compression, column.total_uncompressed_size)
        values = [header[5][f] for f in (1, 2, 3, 4)]
        if end != len(data) or [header[1], *values] != [_DATA_PAGE, rows, RLE_DICTIONARY, _RLE, _RLE]:
            return None
        valid, raw = _levels(raw, rows) if field.nullable else (None, raw)
        codes = _unpacked(raw, rows if valid is None else int(np.count_nonzero(valid)))
    except pa.ArrowException:
        raise
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return None
    if codes.max(initial=0) >= len(entries):
        raise pa.ArrowInvalid
    if entries.type != kind or entries.null_count or not known.equals(physical):
        return None
    bitmap = None
    if valid is not None:
        codes, own = np.zeros(rows, codes.dtype), codes
        codes[valid], bitmap = own, pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_string(kind):  # as pyarrow has them, in whose dictionaries other row groups may come
        codes = codes.astype(np.int32)
    kind = pa.dictionary(pa.from_numpy_dtype(codes.dtype), kind)
    return pa.DictionaryArray.from_buffers(kind, rows, [bitmap, pa.py_buffer(codes)], entries)


def _page(data: bytes, at: int, codec: str, most: int) -> tuple[Fields, bytes, int]:
    """Return the header of the page at a place of a chunk, its bytes unpacked, and where it ends."""
    head = io.BytesIO(data[at : at + _LONGEST_HEADER])
    header = from_thrift(head)
    start, size, packed = at + head.tell(), int(header[2]), int(header[3])
    body = data[start : start + packed]
    if codec not in _CODECS or len(body) != packed or not 0 < size <= most:
        raise ValueError("another form")
    if 4 in header and zlib.crc32(body) != int(header[4]) & 0xFFFFFFFF:
        raise pa.ArrowInvalid
    if codec == "SNAPPY":
        if not body.startswith(varint(size)):  # pyarrow would leave the end of the buffer as it was
            raise ValueError("another form")
        body = pa.decompress(body, size, "snappy", asbytes=True)
    return header, body, start + packed


def _levels(raw: bytes, rows: int) -> tuple[np.ndarray | None, bytes]:
    """Return a mask of the rows with a value, None if all have one, and the rest of the page."""
    end = 4 + int.from_bytes(raw[:4], "little")
    levels, rest = raw[4:end], raw[end:]
    if levels == varint(rows << 1) + b"\1":
        return None, rest
    packed = _after(levels, varint((rows + 7) // 8 << 1 | 1))
    if len(packed) != (rows + 7) // 8:
        raise ValueError("another form")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=rows, bitorder="little").view(bool), rest


def _after(data: bytes, start: bytes) -> bytes:
    if not data.startswith(start):
        raise ValueError("another form")
    return data[len(start) :]


def _unpacked(raw: bytes, count: int) -> Codes:
    """Return the codes of a width and one run, eight in `width` bytes, by `bit_packed`'s steps backwards."""
    groups, width = (count + 7) // 8, raw[0]
    packed = _after(raw[1:], varint(groups << 1 | 1) if count else b"")
    if not 0 < width <= 16 or len(packed) != groups * width:
        raise ValueError("another form")
    narrow, packed = width <= 8, packed + bytes(16)  # the last words reach so far beyond it
    size, have = 64, 8 * width if narrow else 4 * width
    words: np.ndarray = np.ndarray(groups, np.uint64, packed, 0, (width,))
    if not narrow:
        high = np.ndarray(groups, np.uint64, packed, 8, (width,))
        words = np.stack([words, words >> have | high << 64 - have], axis=1)
    words = words & (1 << have) - 1
    while have > width:
        size, have = size // 2, have // 2
        lower = sum(((1 << have) - 1) << bit for bit in range(0, 64, 2 * size))
        upper = words & lower << have
        upper <<= np.uint64(size - have)
        words &= lower
        words |= upper
    codes: np.ndarray = words.view(np.uint8 if narrow else np.uint16).ravel()
    return codes[:count]


@lru_cache(maxsize=MOST_COLUMNS_HELD)
def _entries(field: pa.Field, data: bytes, codec: str) -> tuple[pa.Array, pq.ColumnSchema]:
    """Return the entries of a dictionary page, and the column of a file that has each once, read by pyarrow."""
    header, page, end = _page(data, 0, codec, MOST_BYTES)
    count = int(header[7][1])
    if [header[1], header[7][2], end] != [_DICTIONARY_PAGE, _PLAIN, len(data)] or not 0 < count <= len(page):
        raise ValueError("another form")
    file = io.BytesIO()
    pq.ParquetWriter(file, pa.schema([field])).close()
    footer, width = footer_of(file.getbuffer()), max(1, (count - 1).bit_length())
    levels = varint(count << 1) + b"\1"
    levels = len(levels).to_bytes(4, "little") + levels if field.nullable else b""
    run = varint((count + 7) // 8 << 1 | 1) + bit_packed(np.arange(count, dtype=np.uint32), width)
    dictionary = _with_header(page, _DICTIONARY_PAGE, {7: _numbers({1: count, 2: _PLAIN})})
    values = {1: count, 2: RLE_DICTIONARY, 3: _RLE, 4: _RLE}
    pages = dictionary + _with_header(levels + bytes([width]) + run, _DATA_PAGE, {5: _numbers(values)})
    places = {5: count, 6: len(pages), 7: len(pages), 9: 4 + len(dictionary), 11: 4}
    chunk = {1: footer[2][1][1], 2: [np.int32(RLE_DICTIONARY)], 3: [field.name.encode()], 4: np.int32(0)}
    chunk |= {f: np.int64(n) for f, n in places.items()}
    group = {1: [{2: np.int64(0), 3: chunk}], 2: np.int64(len(pages)), 3: np.int64(count)}
    whole = to_thrift(footer | {3: np.int64(count), 4: [group]}).data
    file = io.BytesIO(b"PAR1" + pages + whole + len(whole).to_bytes(4, "little") + b"PAR1")
    opened = pq.ParquetFile(file)
    entries = opened.read().column(0).combine_chunks()
    if len(entries) != count:
        raise ValueError("another form")
    return entries, opened.schema.column(0)


def _numbers(fields: Fields) -> Fields:
    return {f: np.int32(n) for f, n in fields.items()}


def _with_header(body: bytes, kind: int, fields: dict[int, Any]) -> bytes:
    return to_thrift(_numbers({1: kind, 2: len(body), 3: len(body)}) | fields).data + body

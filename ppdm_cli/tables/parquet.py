"""Parquet for tables and releases: row groups as partitions, several parts as one table; one file out."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ppdm_cli import dtypes
from ppdm_cli.errors import DataError, argument, listed, quoted
from ppdm_cli.files import WRITER
from ppdm_cli.sidecar import METADATA_KEY
from ppdm_cli.tables.base import (
    Partition,
    Table,
    no_utf8,
    normal_batch,
    normal_schema,
    other_table,
    rows_per_partition,
)
from ppdm_cli.tables.formats import Format, Writer
from ppdm_cli.tables.page_reader import MOST_BYTES, coded_chunk
from ppdm_cli.tables.pages import PagesWriter, ParquetWriter
from ppdm_cli.tables.stores import StorePath, reachable, unread

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""A hive key that is a number: its text is the number's, so 007 stays text."""
SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
LEAST_UNPACKED, MOST_UNPACKED = 64 << 20, 64
"""The bytes that a row group may unpack to, plus so many times the size of its file."""
MOST_BY_HAND = 1 << 7
"""The most columns of tables written by hand: with more, row groups are so short that pyarrow is as fast."""


class ParquetTable(Table):
    """One or more Parquet files of the same columns; hive keys in their paths become columns."""

    def __init__(
        self,
        files: Sequence[Path],
        root: Path | None = None,
        labels: Sequence[str] = (),
        footers: Sequence[Footer] = (),
    ) -> None:
        """Open the files; messages call them by their `labels`, as a folder's name may be a cell.

        If the files are elsewhere, these are their `footers`, and their paths are relative to the root.
        """
        self.files = tuple(files)
        self._labels = labels or [str(f) for f in files]
        self.name = str(root) if root else self._labels[0]
        if not footers:
            first = Footer.read(self.files[0], self._labels[0])
            others = zip(self.files[1:], self._labels[1:], strict=True)
            footers = [first, *(Footer.read(f, label, like=first) for f, label in others)]
        self._metadata = [f.metadata for f in footers]
        self._keys = _hive_keys(self.files, root)
        own, *rest = (f.schema for f in footers)
        for label, other in zip(self._labels[1:], rest, strict=True):
            _check_same(own, other, self._labels[0], label)
        self._own_names = set(own.names)
        self._ours = [f.sidecar is not None and f.metadata.num_columns == len(own) for f in footers]
        keys = [pa.field(n, _key_type(v)) for n, v in self._keys.items() if n not in self._own_names]
        self.schema = pa.schema([*own, *keys])
        self.rows: int | None = sum(m.num_rows for m in self._metadata)
        for footer in footers:
            _check_unpacked(self.name, footer.size, footer.metadata)
        self.sidecar: bytes | None = next((f.sidecar for f in footers if f.sidecar is not None), None)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        own = [n for n in names if n in self._own_names]
        keys = [n for n in names if n not in self._own_names]
        rows = rows_per_partition(len(self.schema))
        # strings come as dictionaries: decoding each value once is ten times faster
        text = [n for n in own if pa.types.is_string(self.schema.field(n).type)]
        for index, (file, metadata) in enumerate(zip(self.files, self._metadata, strict=True)):
            extra = {n: (self._keys[n][index], self.schema.field(n).type) for n in keys}
            for number in range(metadata.num_row_groups):
                label = self._labels[index]
                coded = self._ours[index] and not isinstance(file, StorePath)  # there each would be a request
                group = _RowGroup(file, label, metadata, number, own, text, rows, self.schema, extra, coded)
                for place in range(-(-group.length // rows)):
                    yield Partition(label, partial(group.load, place))

    def starts(self) -> Iterator[int]:
        rows, before = rows_per_partition(len(self.schema)), 0
        for length in (m.row_group(g).num_rows for m in self._metadata for g in range(m.num_row_groups)):
            yield from range(before, before + length, rows)
            before += length


@dataclass(frozen=True, eq=False)
class _RowGroup:
    """Some columns of a row group, to be read in slices: any of them, in any order, by any holder."""

    file: Path
    label: str
    metadata: pq.FileMetaData
    number: int
    columns: list[str]
    text: list[str]
    rows: int
    schema: pa.Schema
    extra: dict[str, Any]
    coded: bool
    """True if columns may be pages of codes, to be read as such."""

    @property
    def length(self) -> int:
        return int(self.metadata.row_group(self.number).num_rows)

    def slices(self) -> Iterator[pa.RecordBatch | pa.Table]:
        """Start to decode; the result does not hold this object, or no reader would ever be closed."""
        file = pq.ParquetFile(
            reachable(self.file),
            metadata=self.metadata,
            pre_buffer=isinstance(self.file, StorePath),
            read_dictionary=self.text,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        if self.length <= self.rows:
            return iter([file.read_row_group(self.number, self.columns, use_threads=False)])
        return iter(file.iter_batches(self.rows, [self.number], self.columns, use_threads=False))

    def without(self, names: Collection[str]) -> _RowGroup:
        """Return the row group with fewer columns."""
        columns, text = ([n for n in own if n not in names] for own in (self.columns, self.text))
        return replace(self, columns=columns, text=text)

    def load(self, place: int) -> pa.RecordBatch:
        rows = min(self.rows, self.length - place * self.rows)
        try:
            found = dict(self._codes()) if self.coded and self.length <= self.rows else {}
            rest = self.without(found) if found else self
            batch = None
            if rest.columns or not found:
                batch = _READERS.setdefault(rest, _Reader()).slice(rest, place)
                if any(len(c) != rows for c in batch.columns):
                    raise pa.ArrowInvalid
                _check_places(batch)
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise unread(self.label, error, _damaged(self.label)) from None
        check_text(found, [n for n in self.text if n in found], self.label)
        if batch is not None:
            check_text(batch, rest.text, self.label)
            read = normal_batch(batch, self.schema)
            if not found and not self.extra:
                return read
            found |= zip(read.schema.names, read.columns, strict=True)
        found |= {n: pa.repeat(pa.scalar(value, kind), rows) for n, (value, kind) in self.extra.items()}
        names = [n for n in self.schema.names if n in found]
        return pa.RecordBatch.from_arrays([found[n] for n in names], names=names)

    def _codes(self) -> Iterator[tuple[str, pa.DictionaryArray]]:
        """Yield the columns that are pages of codes."""
        group, physical = self.metadata.row_group(self.number), self.metadata.schema
        most = 3 * self.length + MOST_BYTES
        places = {n: i for i, n in enumerate(physical.names)}
        with self.file.open("rb") as file:
            for name in self.columns:
                column, kind = group.column(places[name]), self.schema.field(name).type
                if not column.has_dictionary_page or column.total_uncompressed_size > most:
                    continue
                file.seek(column.dictionary_page_offset)
                data = file.read(column.total_compressed_size)
                array = coded_chunk(data, column, physical.column(places[name]), kind)
                if array is not None and len(array) == self.length:
                    yield name, array


def check_text(
    batch: pa.RecordBatch | pa.Table | Mapping[str, pa.Array], names: Sequence[str], label: str
) -> None:
    """Check that text is in UTF-8, each label once: Parquet calls its bytes text without looking."""
    for name in names:
        column = batch[name]
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            try:
                (chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk).validate(full=True)
            except pa.ArrowException:
                what = f"the column {quoted(name)} of {quoted(label)} is not in UTF-8"
                step = f"write it again as text, or add {argument('drop', name)}"
                raise DataError("column-not-in-utf-8", what, step) from None


class _Reader:
    """A row group that this process is reading, decoded once as long as each slice is asked for once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slices: Iterator[pa.RecordBatch | pa.Table] | None = None
        self._passed: dict[int, pa.RecordBatch | pa.Table] = {}
        self._next = 0

    def slice(self, group: _RowGroup, place: int) -> pa.RecordBatch | pa.Table:
        with self._lock:
            if self._slices is None or (place < self._next and place not in self._passed):
                self._slices, self._next, self._passed = group.slices(), 0, {}
            while self._next <= place:
                self._passed[self._next] = next(self._slices)
                self._next += 1
            return self._passed.pop(place)


_READERS: WeakKeyDictionary[_RowGroup, _Reader] = WeakKeyDictionary()
"""Open readers, for speed: slices of one row group come one after the other, and none begins in the middle."""


class Footer(NamedTuple):
    """The footer of a Parquet file: its row groups, its columns, and the sidecar that it carries."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    sidecar: bytes | None
    size: int

    @classmethod
    def read(cls, source: Any, label: str, size: int | None = None, like: Footer | None = None) -> Footer:
        """Read the footer of a file, or of the end of one of this size; one `like` another has its columns."""
        try:
            size = source.stat().st_size if size is None else size
            if size == 0:
                step = "check that the copy or export was finished"
                raise DataError("empty-file", f"{quoted(label)} is empty", step)
            metadata = pq.read_metadata(reachable(source))
            if (
                like is not None
                and metadata.schema.equals(like.metadata.schema)
                and metadata.metadata == like.metadata.metadata
            ):
                return like._replace(metadata=metadata, size=size)
            schema, carried = _in_microseconds(metadata.schema), dict(metadata.metadata or {})
            if (by_spark := _written_by_spark(carried)) is not None:
                schema, carried = by_spark
            return cls(metadata, normal_schema(schema, label), carried.get(METADATA_KEY), size)
        except UnicodeError:
            raise no_utf8(label) from None
        except (pa.ArrowException, OSError) as error:
            raise unread(label, error, _damaged(label)) from None


def _in_microseconds(physical: pq.ParquetSchema) -> pa.Schema:
    """Return the columns' types, with INT96 in microseconds: Spark, which writes it by default, has no more."""
    kinds = {physical.column(i).path: physical.column(i).physical_type for i in range(len(physical))}
    fields = physical.to_arrow_schema()
    old = [kinds.get(f.name) == "INT96" for f in fields]
    return pa.schema([f.with_type(pa.timestamp("us")) if o else f for f, o in zip(fields, old, strict=True)])


def _written_by_spark(carried: Mapping[bytes, bytes]) -> tuple[pa.Schema, dict[bytes, bytes]] | None:
    """Return the schema and sidecar of a file from the metadata of its first column, where Spark keeps ours."""
    try:
        column = json.loads(carried[SPARK_KEY])["fields"][0]["metadata"]
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(column["ARROW:schema"])))
        return schema, {METADATA_KEY: column["ppdm"].encode()} if "ppdm" in column else {}
    except (ValueError, LookupError, TypeError, AttributeError, pa.ArrowException):
        return None


def for_spark(schema: pa.Schema, sidecar: bytes | None) -> dict[str, str]:
    """Return the metadata of the first column, which keep the schema and sidecar in files that Spark writes."""
    carried = {"ARROW:schema": base64.b64encode(schema.serialize().to_pybytes()).decode()}
    return carried | ({} if sidecar is None else {"ppdm": sidecar.decode()})


def _damaged(label: str) -> DataError:
    return DataError(
        "damaged-parquet",
        f"{quoted(label)} is not a readable Parquet file: it is truncated, damaged or something else",
        "make or copy it again",
    )


def _check_same(first: pa.Schema, other: pa.Schema, first_file: str, file: str) -> None:
    if first == other:
        return
    a, b = ({f.name: f.type for f in s} for s in (first, other))
    differ = [n for n in a if a[n] != b.get(n)] + [n for n in b if n not in a]
    what = listed(differ) if differ else "the order of the columns"
    raise other_table(file, first_file, f": {what} differ")


def _hive_keys(files: Sequence[Path], root: Path | None) -> dict[str, list[Any]]:
    """Return the keys in `key=value` folders below the root, with a value for each file."""
    if root is None:
        return {}
    found = [dict(p.split("=", 1) for p in f.relative_to(root).parent.parts if "=" in p) for f in files]
    names = list(dict.fromkeys(n for keys in found for n in keys))
    table: dict[str, list[Any]] = {}
    for name in names:
        raw = [keys.get(name, _HIVE_NULL) for keys in found]
        texts = [None if t == _HIVE_NULL else unquote(t) for t in raw]
        whole = all(t is None or _WHOLE.fullmatch(t) for t in texts) and any(texts)
        table[name] = [None if t is None else int(t) for t in texts] if whole else list(texts)
    return table


def _key_type(values: list[Any]) -> pa.DataType:
    whole = any(isinstance(v, int) for v in values)
    return dtypes.parse("int64" if whole else "string")


def _check_places(batch: pa.RecordBatch | pa.Table) -> None:
    """Raise ArrowInvalid where a damaged page, read all the same, names labels past its dictionary's end."""
    for column in batch.columns:
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            if pa.types.is_dictionary(chunk.type):
                ends = pc.min_max(chunk.indices).as_py()
                if ends["max"] is not None and not 0 <= ends["min"] <= ends["max"] < len(chunk.dictionary):
                    raise pa.ArrowInvalid


def _check_unpacked(name: str, size: int, metadata: pq.FileMetaData) -> None:
    """Refuse a file with a row group that says it unpacks to much more than the file has."""
    most = max((metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups)), default=0)
    if most > LEAST_UNPACKED + MOST_UNPACKED * size:
        raise DataError(
            "unpacks-too-large",
            f"{quoted(name)} holds rows that unpack to {most >> 20} MiB, over {MOST_UNPACKED} times their file",
            "write it again in smaller row groups, and leave out columns of very long values",
        )


def _writer(file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None) -> Writer:
    """Open a writer of pages by hand, unless pyarrow is asked for, or is as fast."""
    by_pyarrow = WRITER.get() == "pyarrow" or len(schema) > MOST_BY_HAND
    return (ParquetWriter if by_pyarrow else PagesWriter)(file, schema, name, sidecar)


PARQUET = Format(
    "Parquet",
    (".parquet",),
    lambda files, options: ParquetTable(files.paths, files.root, files.labels),
    _writer,
    sidecar="inside",
    parts="folder",
    text_as_dictionaries=True,
)

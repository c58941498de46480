"""Record batches out, as CSV, Parquet or Arrow, with our own schema and metadata only."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ppdm_cli.errors import DataError, quoted
from ppdm_cli.sidecar import METADATA_KEY
from ppdm_cli.tables.base import rows_per_partition
from ppdm_cli.tables.formats import Format


class Writer(Protocol):
    """Takes record batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self, sidecar: bytes | None) -> None:
        """Ends the file; Parquet takes its sidecar now, when the number of records is known."""

    def digest(self) -> str | None:
        """BLAKE2b of the bytes written, for formats that carry no sidecar themselves."""


@contextmanager
def open_writer(
    file: IO[bytes], form: Format, schema: pa.Schema, sidecar: bytes | None = None
) -> Iterator[Writer]:
    """A writer; an Arrow file or stream carries the sidecar that is known at its start."""
    writer: _Parquet | _Csv | _Arrow
    if form is Format.PARQUET:
        writer = _Parquet(file, schema)
    elif form.is_csv:
        writer = _Csv(file, schema, form is Format.CSV_GZ)
    else:
        writer = _Arrow(file, schema, form is Format.STREAM, sidecar)
    try:
        yield writer
    except BaseException:
        _abandon(writer)
        raise


def _abandon(writer: _Parquet | _Csv | _Arrow) -> None:
    """Else Python would end the file when it collects the writer, and complain that the file is gone."""
    if isinstance(writer, _Parquet) and writer._writer is not None:
        writer._writer.is_open = False
    elif isinstance(writer, _Csv):
        with suppress(Exception):
            writer.close(None)


class _Grouped(ABC):
    """Takes batches of any size and writes them on in groups of one fixed size.

    So the bytes do not depend on how the input was cut.
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file, self._schema = file, schema
        self._size = rows_per_partition(len(schema))
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        while self._rows + batch.num_rows >= self._size:
            room = self._size - self._rows
            self._append(batch.slice(0, room))
            self._end_group()
            batch = batch.slice(room)
        if batch.num_rows:
            self._append(batch)

    def _append(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows

    def _end_group(self) -> None:
        if self._rows:
            self._write_group(pa.Table.from_batches(self._waiting))
        self._waiting, self._rows = [], 0

    @abstractmethod
    def _write_group(self, table: pa.Table) -> None: ...

    def digest(self) -> str | None:
        return None


class _Parquet(_Grouped):
    """Dictionary-encoded: a release has few values a column.

    Columns of text may come as dictionaries, which are written three times as fast; a reader sees
    plain text all the same, because the schema that Arrow keeps in the metadata says so.
    """

    _writer: pq.ParquetWriter | None = None

    def _write_group(self, table: pa.Table) -> None:
        table = table.unify_dictionaries()
        self._opened(table.schema).write_table(table, self._size)

    def _opened(self, physical: pa.Schema) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._file, physical, compression="snappy", write_statistics=False, store_schema=False
            )
        return self._writer

    def close(self, sidecar: bytes | None) -> None:
        self._end_group()
        writer = self._opened(self._schema)
        ours: dict[str | bytes, bytes] = {METADATA_KEY: sidecar} if sidecar is not None else {}
        logical = base64.b64encode(self._schema.with_metadata(ours).serialize().to_pybytes())
        writer.add_key_value_metadata({"ARROW:schema": logical, **ours})
        writer.close()


class _Arrow(_Grouped):
    def __init__(self, file: IO[bytes], schema: pa.Schema, stream: bool, sidecar: bytes | None) -> None:
        super().__init__(file, schema)
        self._schema = schema.with_metadata({METADATA_KEY: sidecar} if sidecar is not None else None)
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        self._writer = new(file, self._schema)

    def _write_group(self, table: pa.Table) -> None:
        columns = [bared(_dictionary_free(c)) for c in table.combine_chunks().columns]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self, sidecar: bytes | None) -> None:
        self._end_group()
        self._writer.close()


class _Csv:
    def __init__(self, file: IO[bytes], schema: pa.Schema, compress: bool) -> None:
        self._file, self._schema = _Digesting(file), schema
        self._out: IO[bytes] = self._file  # type: ignore[assignment]
        if compress:  # no name and no time of ours in its header
            self._out = gzip.GzipFile("", "wb", 6, self._file, mtime=0)  # type: ignore[assignment]
        self._compress = compress
        import polars as pl  # its CSV writer is three times as fast; loaded only for CSV

        header = io.BytesIO()
        pl.DataFrame({n: pl.Series([], dtype=pl.String) for n in schema.names}).write_csv(header)
        self._out.write(header.getvalue())

    def write(self, batch: pa.RecordBatch) -> None:
        import polars as pl

        columns = [_said(c) for c in map(_dictionary_free, batch.columns)]
        for name, column in zip(batch.schema.names, columns, strict=True):
            _check_calendar(name, column)
        frame = pl.DataFrame(pa.Table.from_arrays(columns, names=batch.schema.names))
        text = io.BytesIO()
        frame.write_csv(text, include_header=False)
        self._out.write(text.getbuffer())

    def close(self, sidecar: bytes | None) -> None:
        if self._compress:
            self._out.close()

    def digest(self) -> str | None:
        return self._file.hash.hexdigest()


def _check_calendar(name: str, column: pa.Array) -> None:
    """DataError where a date is in no year from 1 to 9999: text has no place for it, and polars panics."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        day = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit] * 86400 if hasattr(kind, "unit") else 1
        ends = pc.min_max(column.view(pa.int32() if kind.bit_width == 32 else pa.int64())).as_py()
        if ends["min"] is not None and not -719162 * day <= ends["min"] <= ends["max"] < 2932897 * day:
            raise DataError(
                f"the column {quoted(name)} has a date outside the years 1 to 9999, which a CSV cannot hold",
                "write .parquet or .arrow, or mend the data",
            )


def bared(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column in memory of its own, with its values and nothing else.

    Arrow would publish what stands under nulls, and pad with the rows that follow those of a slice.
    """
    return column.take(pa.array(np.arange(len(column))))


def _said(column: pa.Array) -> pa.Array:
    """Times of day as text, and instants in UTC: an offset in minutes would not say all zones."""
    if pa.types.is_time(column.type):
        return pc.cast(column, pa.string())
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column


def _dictionary_free(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Plain values: no other value goes along than those of the rows."""
    return pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column


class _Digesting(io.RawIOBase):
    """Passes bytes on and digests them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._target = file
        self.hash = hashlib.blake2b(digest_size=32)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.hash.update(data)  # type: ignore[arg-type]
        return self._target.write(data)  # type: ignore[call-overload]

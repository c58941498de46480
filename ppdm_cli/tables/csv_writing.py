"""CSV out."""

from __future__ import annotations

import gzip
import io
from contextlib import suppress
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.errors import DataError, quoted
from ppdm_cli.tables.formats import Writer
from ppdm_cli.tables.writers import dictionary_free


class CsvWriter(Writer):
    """Text with a header; gzip where the file's name says so, with no name and no time in its header."""

    def __init__(
        self, delimiter: str, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None
    ) -> None:
        self._delimiter = delimiter
        self._zip = gzip.GzipFile("", "wb", 6, file, mtime=0) if name.lower().endswith(".gz") else None
        self._out = self._zip or file
        import polars as pl  # its CSV writer is three times as fast; loaded only for CSV

        header = io.BytesIO()
        pl.DataFrame({n: pl.Series([], dtype=pl.String) for n in schema.names}).write_csv(
            header, separator=delimiter
        )
        self._out.write(header.getvalue())

    def write(self, batch: pa.RecordBatch) -> None:
        import polars as pl

        columns = [_as_written(c) for c in map(dictionary_free, batch.columns)]
        for name, column in zip(batch.schema.names, columns, strict=True):
            _check_calendar(name, column)
        frame = pl.DataFrame(pa.Table.from_arrays(columns, names=batch.schema.names))
        text = io.BytesIO()
        frame.write_csv(text, include_header=False, separator=self._delimiter)
        self._out.write(text.getbuffer())

    def close(self, sidecar: bytes | None) -> None:
        if self._zip is not None:
            self._zip.close()

    def abandon(self) -> None:
        with suppress(Exception):
            self.close(None)


def _check_calendar(name: str, column: pa.Array) -> None:
    """Refuse dates outside the years 1 to 9999: text has no place for them, and polars panics."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        low, high = dtypes.limits(kind)
        ends = pc.min_max(column.view(pa.int32() if kind.bit_width == 32 else pa.int64())).as_py()
        if ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high:
            raise DataError(
                f"the column {quoted(name)} has a date outside the years 1 to 9999, which a CSV cannot hold",
                "write .parquet or .arrow, or mend the data",
            )


def _as_written(column: pa.Array) -> pa.Array:
    """Return times of day as text, and instants in UTC: an offset in minutes cannot express all zones."""
    if pa.types.is_time(column.type):
        return pc.cast(column, pa.string())
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column

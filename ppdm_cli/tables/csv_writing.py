"""CSV out; by choice without text that a spreadsheet would compute, which labels of a stranger may be."""

from __future__ import annotations

import gzip
import io
from contextlib import suppress
from contextvars import ContextVar
from typing import IO, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.errors import DataError, RefusedError, quoted
from ppdm_cli.tables.formats import Writer
from ppdm_cli.tables.writers import dictionary_free

FORMULAS: ContextVar[Literal["keep", "refuse", "text"]] = ContextVar("ppdm_formulas", default="keep")
"""What becomes of text that a spreadsheet would compute: commands ask, as labels may be a stranger's."""
_FORMULA = r"(?s)^(\s*([=@\x{ff1d}\x{ff20}].|[+\x{ff0b}\x{ff0d}-].*\pL)|[\t\r])"
_NUMBER = r"^\s*[+-][\d.,]*[eE]?[+-]?\d+\s*$"


class ComputedTextError(RefusedError):
    """Text that a spreadsheet would compute is not to be written; a command names its option too."""


class CsvWriter(Writer):
    """Text with a header; gzip where the file's name says so, with no name and no time in its header."""

    def __init__(
        self, delimiter: str, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None
    ) -> None:
        self._delimiter, self._formulas = delimiter, FORMULAS.get()
        self._zip = gzip.GzipFile("", "wb", 6, file, mtime=0) if name.lower().endswith(".gz") else None
        self._out = self._zip or file
        import polars as pl  # its CSV writer is three times as fast; loaded only for CSV

        header, names = io.BytesIO(), self._shown("a column's name", pa.array(schema.names, pa.string()))
        pl.DataFrame({n: pl.Series([], dtype=pl.String) for n in names.to_pylist()}).write_csv(
            header, separator=delimiter
        )
        self._out.write(header.getvalue())

    def write(self, batch: pa.RecordBatch) -> None:
        import polars as pl

        columns = [_as_written(c) for c in map(dictionary_free, batch.columns)]
        for place, (name, column) in enumerate(zip(batch.schema.names, columns, strict=True)):
            _check_calendar(name, column)
            columns[place] = self._shown(f"the column {quoted(name)} of the output", column)
        frame = pl.DataFrame(pa.Table.from_arrays(columns, names=batch.schema.names))
        text = io.BytesIO()
        frame.write_csv(text, include_header=False, separator=self._delimiter)
        self._out.write(text.getbuffer())

    def _shown(self, what: str, text: pa.Array) -> pa.Array:
        """Return text as it is to be written, if it is to be."""
        kind = text.type
        texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        if self._formulas == "keep" or not texts:
            return text
        text = pc.cast(text, pa.string())
        computed = pc.match_substring_regex(text, _FORMULA)
        if not pc.any(computed).as_py():
            return text
        computed = pc.and_(computed, pc.invert(pc.match_substring_regex(text, _NUMBER)))
        if self._formulas == "refuse" and pc.any(computed).as_py():
            raise ComputedTextError(f"{what} has text that a spreadsheet would compute", "write .parquet")
        return pc.if_else(computed, pc.binary_join_element_wise("'", text, ""), text)

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
                "write .parquet or .arrow, or fix the data",
            )


def _as_written(column: pa.Array) -> pa.Array:
    """Return times of day as text, and instants in UTC: an offset in minutes cannot express all zones."""
    if pa.types.is_time(column.type):
        return pc.cast(column, pa.string())
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column

"""CSV for tables out: rows become text in worker threads, columns of few values by their combinations.

On request, text that a spreadsheet would compute is not written: a label may be a stranger's.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from decimal import Decimal
from math import prod
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import code_type, joined, split
from ppdm_cli.errors import DataError, RefusedError, quoted
from ppdm_cli.tables.csv_records import record_ends
from ppdm_cli.tables.formats import InOrder, Writer, dictionary_free

FORMULAS: ContextVar[Literal["keep", "refuse", "text"]] = ContextVar("ppdm_formulas", default="keep")
"""The treatment of text that a spreadsheet would compute: labels may be a stranger's."""
_FORMULA = r"(?s)^(\s*([=@\x{ff1d}\x{ff20}].|[+\x{ff0b}\x{ff0d}-].*\pL)|[\t\r])"
_NUMBER = r"^\s*[+-][\d.,]*[eE]?[+-]?\d+\s*$"
_FEW, _LOOKED_AT = 1 << 10, 1 << 10
"""The combinations of values that are always few, and the number of cells that show whether values are."""


class ComputedTextError(RefusedError):
    """The error for text that a spreadsheet would compute; a command also names its option."""


class CsvWriter(Writer):
    """A writer of text with a header; gzip by the file's name, without name and time in its header."""

    def __init__(
        self, delimiter: str, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None
    ) -> None:
        self._delimiter, self._formulas = delimiter, FORMULAS.get()
        self._zip = gzip.GzipFile("", "wb", 6, file, mtime=0) if name.lower().endswith(".gz") else None
        out = self._zip or file
        names = self._guarded("a column's name", pa.array(schema.names, pa.string()))
        out.write(f"{delimiter.join(map(self._cell, names.to_pylist()))}\n".encode())
        self._texts = InOrder(out.write, stream=not name)

    def write(self, batch: pa.RecordBatch) -> None:
        self._texts.add(self._text, batch)

    def _text(self, batch: pa.RecordBatch) -> memoryview:
        """Return the rows as text."""
        if not batch.num_rows:
            return memoryview(b"")
        most, entries, groups = max(_FEW, batch.num_rows >> 5), 0, list[list[pa.Array]]()
        for name, raw in zip(batch.schema.names, batch.columns, strict=True):
            column = self._column(name, raw, most)
            size = len(column.dictionary) + 1 if pa.types.is_dictionary(column.type) else 0
            if groups and bool(size) == bool(entries) and size * entries <= most:
                groups[-1].append(column)
                entries *= size
            else:
                groups.append([column])
                entries = size
        ends = [self._delimiter] * (len(groups) - 1) + ["\n"]
        texts = [self._rows(group, end) for group, end in zip(groups, ends, strict=True)]
        whole = _side_by_side(texts)
        _, offsets, data = whole.buffers()
        return memoryview(data)[: np.frombuffer(offsets, np.int64)[batch.num_rows]]

    def _column(self, name: str, column: pa.Array, most: int) -> pa.Array:
        """Return a column in the form to write: as codes if its values are few, which Python formats then."""
        coded = pa.types.is_dictionary(column.type)
        kind = column.type.value_type if coded else column.type
        plain = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        if plain and not coded and 8 * len(column[:_LOOKED_AT].unique()) < min(len(column), _LOOKED_AT):
            column, coded = column.dictionary_encode(), True
        if coded and len(column.dictionary) < most and (plain or pa.types.is_float64(kind)):
            with suppress(ComputedTextError):  # an entry that no row has is not refused
                return pa.DictionaryArray.from_arrays(column.indices, self._written(name, column.dictionary))
        return self._written(name, dictionary_free(column))

    def _written(self, name: str, values: pa.Array) -> pa.Array:
        values = _as_written(values)
        _check_calendar(name, values)
        return self._guarded(f"the column {quoted(name)} of the output", values)

    def _rows(self, columns: Sequence[pa.Array], end: str) -> pa.LargeStringArray:
        """Return the text of each row in neighbouring columns, with the mark at its end."""
        if not pa.types.is_dictionary(columns[0].type):
            return self._by_polars(columns, end)
        sizes = [len(c.dictionary) + 1 for c in columns]  # null is the last
        codes = [dtypes.carrier(_with_null(c)) for c in columns]
        marks, texts = [self._delimiter] * (len(columns) - 1) + [end], []
        places = split(np.arange(prod(sizes), dtype=code_type(prod(sizes))), sizes)
        for column, mark, place in zip(columns, marks, places, strict=True):
            cells = [f"{self._cell(v)}{mark}" for v in [*column.dictionary.to_pylist(), None]]
            texts.append(pa.array(cells, pa.large_string()).take(_indices(place)))
        return _side_by_side(texts).take(_indices(joined(codes, sizes)))

    def _cell(self, value: Any) -> str:
        """Return a value as polars writes it."""
        if isinstance(value, float):
            text = repr(value).replace("nan", "NaN")
            return format(Decimal(text), "f") if text.endswith("e-05") else text.replace("e-0", "e-")
        if isinstance(value, str) and (not value or any(c in value for c in f'"\r\n{self._delimiter}')):
            return '"' + value.replace('"', '""') + '"'
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    def _by_polars(self, columns: Sequence[pa.Array], end: str) -> pa.LargeStringArray:
        import polars as pl  # formats many values fastest; loaded only for them

        text = io.BytesIO()
        frame = pl.DataFrame(pa.Table.from_arrays(columns, [str(i) for i in range(len(columns))]))
        frame.write_csv(text, include_header=False, separator=self._delimiter)
        data = bytearray(text.getbuffer())
        ends = record_ends(data, 0, len(data), 0)
        np.frombuffer(data, np.uint8)[ends] = ord(end)
        offsets = pa.py_buffer(np.concatenate([[0], ends + 1]))
        return pa.LargeStringArray.from_buffers(len(ends), offsets, pa.py_buffer(data))

    def _guarded(self, what: str, text: pa.Array) -> pa.Array:
        """Return text in the form to write, or refuse it."""
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
            raise ComputedTextError(
                "computed-text", f"{what} has text that a spreadsheet would compute", "use .parquet"
            )
        return pc.if_else(computed, pc.binary_join_element_wise("'", text, ""), text)

    def close(self, sidecar: bytes | None) -> None:
        self._texts.finish()
        if self._zip is not None:
            self._zip.close()

    def abandon(self) -> None:
        self._texts.abandon()
        with suppress(Exception):
            if self._zip is not None:
                self._zip.close()


def _side_by_side(texts: Sequence[pa.LargeStringArray]) -> pa.LargeStringArray:
    return (
        texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))
    )


def _with_null(column: pa.DictionaryArray) -> pa.Array:
    """Return the codes of a column, of which null's is the last."""
    if not column.null_count:
        return column.indices
    return pc.cast(column.indices, pa.int32()).fill_null(len(column.dictionary))


def _indices(codes: np.ndarray) -> pa.Array:
    return dtypes.from_carrier(codes, pa.from_numpy_dtype(codes.dtype))


def _check_calendar(name: str, column: pa.Array) -> None:
    """Refuse dates outside the years 1 to 9999: text has no place for them, and polars panics."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        low, high = dtypes.limits(kind)
        ends = pc.min_max(column.view(pa.int32() if kind.bit_width == 32 else pa.int64())).as_py()
        if ends["min"] is not None and not low <= ends["min"] <= ends["max"] <= high:
            raise DataError(
                "date-beyond-csv",
                f"the column {quoted(name)} has a date outside the years 1 to 9999, which a CSV cannot hold",
                "use .parquet or .arrow, or fix the data",
            )


def _as_written(column: pa.Array) -> pa.Array:
    """Return times of day as text, and instants in UTC: an offset in minutes cannot express all zones."""
    if pa.types.is_time(column.type):
        return pc.cast(column, pa.string())
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column

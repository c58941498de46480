"""The types that the columns of a CSV show: families of types, and which of two holds the values of both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

_FAMILIES = {
    "int64": "number",
    "double": "number",
    "bool": "boolean",
    "date32[day]": "time",
    "timestamp[ms]": "time",
    "timestamp[us]": "time",
    "timestamp[ms, tz=UTC]": "time with zone",
    "timestamp[us, tz=UTC]": "time with zone",
    "time32[s]": "time of day",
}
WIDEST = {
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us"),
    "time with zone": pa.timestamp("us", "UTC"),
    "time of day": pa.time32("s"),
    "text": pa.string(),
}
WIDENING = [pa.int64(), pa.float64(), pa.date32(), pa.timestamp("ms"), pa.timestamp("us")]
"""Of two types of a family the later one holds the values of both."""


PADDED = re.compile(r"[+-]?0\d")
"""How digits begin that are text, as a postcode is."""


@dataclass(frozen=True)
class Guess:
    """The types that one block shows."""

    types: dict[str, pa.DataType]
    rows: int
    block: bytes
    padded: frozenset[str]
    """Columns of digits that begin with a zero somewhere."""


def all_fit(column: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, pattern)).as_py())


def any_fits(column: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())


def plain(kind: pa.DataType) -> pa.DataType:
    """Return instants to the microsecond or, where they are whole seconds, the millisecond."""
    if not pa.types.is_timestamp(kind):
        return kind
    return pa.timestamp("us" if kind.unit == "ns" else "ms", kind.tz)


def unzoned(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind


def family(kind: pa.DataType) -> str:
    return _FAMILIES.get(str(kind), "text")


def family_of(value: str, decimal: str) -> str:
    """Return what a value would be taken for if it were alone."""
    return family(_inferred([value], decimal))


def type_of(values: Sequence[str]) -> pa.DataType:
    """Return the type that a column of these values would be read as."""
    kind = _inferred(values, ".")
    return pa.string() if pa.types.is_int64(kind) and any(map(PADDED.match, values)) else kind


def _inferred(values: Sequence[str], decimal: str) -> pa.DataType:
    cells = "".join('"' + v.replace('"', '""') + '"\n' for v in values).encode()
    found = pacsv.read_csv(
        pa.py_buffer(cells),
        pacsv.ReadOptions(column_names=["x"], use_threads=False, block_size=len(cells) + 1),
        pacsv.ParseOptions(newlines_in_values=True),
        pacsv.ConvertOptions(null_values=[], quoted_strings_can_be_null=False, decimal_point=decimal),
    )
    return plain(found.schema.field("x").type)

"""Cells of a CSV that are no plain values: decimal commas, dates in other formats, codes for no value.

Each is read by what was declared for its column and nothing else; a cell that does not fit is trouble with
its row, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli.errors import UsageError, quoted, word
from ppdm_cli.tables.base import RowTrouble

COMMA = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
"""A number with a decimal comma, and points between all its thousands or none."""
_DIGITS = {"Y": r"\d{4}", "y": r"\d{2}", "m": r"\d{1,2}", "d": r"(?P<day>\d{1,2})"}
_CLOCK = {"H": r"\d{1,2}", "M": r"\d{2}", "S": r"\d{2}"}
_DIRECTIVE = re.compile("%(.)")


def checked_format(text: str) -> str:
    """Return the format of a date, if it is one that can be read without a calendar's words."""
    found = _DIRECTIVE.findall(text)
    days = sorted(f.lower() for f in found if f not in _CLOCK)
    if days != ["d", "m", "y"] or len(set(found)) < len(found) or not set(found) <= {*_DIGITS, *_CLOCK}:
        raise UsageError(
            f"{quoted(text)} is no format of a date: it names a day, a month and a year, each once",
            "such as %d.%m.%Y, or %Y-%m-%d %H:%M",
        )
    return text


def has_clock(text: str) -> bool:
    return bool(set(_DIRECTIVE.findall(text)) & set(_CLOCK))


def pattern(text: str) -> str:
    """Return the regular expression of what a format may read: no digit more or less than it says."""
    parts = _DIRECTIVE.split(text)
    shown = (
        re.escape(p).replace("/", "/") if i % 2 == 0 else (_DIGITS | _CLOCK)[p] for i, p in enumerate(parts)
    )
    return f"^{''.join(shown)}$"


def dates(text: pa.Array, formats: Sequence[str]) -> pa.Array:
    """Return instants in seconds by the first format that fits each cell; null where none does."""
    found = pa.nulls(len(text), pa.timestamp("s"))
    for form in formats:
        parts = pc.extract_regex(text, pattern(form))
        some = pc.if_else(pc.and_(pc.is_valid(parts), pc.is_null(found)), text, None)
        read = pc.strptime(some, format=form, unit="s", error_is_null=True)
        day = pc.cast(pc.struct_field(parts, "day"), pa.int64())  # the 31st of a shorter month is read on
        found = pc.coalesce(found, pc.if_else(pc.equal(pc.day(read), day), read, None))
    return found


def with_point(text: pa.Array) -> pa.Array:
    """Return numbers with a decimal comma as they are written with a point; others as no number."""
    fits = pc.match_substring_regex(text, COMMA)
    plain = pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
    return pc.if_else(fits, plain, pc.if_else(pc.is_valid(text), "no number", None))


def converted(
    name: str,
    column: pa.ChunkedArray,
    kind: pa.DataType,
    *,
    comma: bool,
    formats: Sequence[str],
    nulls: Sequence[str],
) -> pa.Array:
    """Return a column of text as its type; trouble names the first row that does not fit."""
    text = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(text, pa.ChunkedArray):
        text = pa.concat_arrays(text.chunks)
    if nulls:
        text = pc.if_else(pc.is_in(text, value_set=pa.array(nulls, pa.string())), None, text)
    if pa.types.is_string(kind):
        return text
    text = pc.utf8_trim_whitespace(text)
    if formats:
        found = dates(text, formats)
        wrong = np.flatnonzero(pc.and_(pc.is_valid(text), pc.is_null(found)).to_numpy(zero_copy_only=False))
        if wrong.size:
            raise _trouble(name, int(wrong[0]), "a date of its format", "--date-format")
        return pc.cast(found, kind)
    if comma and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        text = with_point(text)
    return _cast(text, lambda part: pc.cast(part, kind), name, kind)


def _cast(text: pa.Array, cast: Callable[[pa.Array], pa.Array], name: str, kind: pa.DataType) -> pa.Array:
    try:
        return cast(text)
    except pa.ArrowException:
        low, high = 0, len(text) - 1  # the first cell that does not fit is between them
        while low < high:
            middle = (low + high) // 2
            try:
                cast(text.slice(low, middle + 1 - low))
                low = middle + 1
            except pa.ArrowException:
                high = middle
        raise _trouble(name, low, f"of type {kind}", "--type") from None


def _trouble(name: str, row: int, what: str, option: str) -> RowTrouble:
    return RowTrouble(
        row,
        f"the column {quoted(name)} is not {what} there",
        f"declare it otherwise, such as --type {word(name, '=string')}, or say what stands for no value, such "
        "as --null NA"
        if option == "--type"
        else f"add its format, such as --date-format {word(name, '=%d.%m.%Y')}, or --null for what is no value",
    )

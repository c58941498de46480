"""Options for reading a CSV, for opening one and for plans, and the cells that need them.

Decimal commas, dates in other formats and codes for no value are read only as declared for their column. A cell
that does not fit is an error with its row, never a guess.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.errors import UsageError, argument, quoted, unknown
from ppdm_cli.tables.base import RowTrouble

Decimal = Literal[".", ","]
COMMA = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
"""A number with a decimal comma, and points between all its thousands or none."""
POINT, WHOLE = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$", r"^-?\d{1,18}$"
"""A number with a decimal point or none, and a whole number, which has no plus sign: Arrow reads none."""
_DIGITS = {"Y": r"\d{4}", "y": r"\d{2}", "m": r"\d{1,2}", "d": r"(?P<day>\d{1,2})"}
_CLOCK = {"H": r"\d{1,2}", "M": r"\d{2}", "S": r"\d{2}"}
_DIRECTIVE = re.compile("%(.)")
NULL, VALUE = "null", "value"
"""The answers to the question about odd cells."""
USUAL = (
    "NA", "N/A", "n/a", "na", "#N/A", "NULL", "Null", "null", "NaN", "nan", "None", "none", "nil", ".", "-",
    "--", "?", "(null)", "\\N", "k.A.", "k. A.", "unbekannt", "Unbekannt", "unknown", "Unknown", "UNKNOWN",
    "inconnu", "Inconnu", "desconocido", "Desconocido", "missing", "Missing", "n.d.", "s/o", "k.A",
    "keine Angabe", "nicht bekannt", "nicht erhoben", "fehlt", "not known", "no data", "n.a.", "N.A.", "n/d",
    "N/D", "s/d", "sin dato", "sin datos", "non renseigné", "#NV", "#REF!", "#VALUE!", "#WERT!", "#DIV/0!",
)  # fmt: skip
"""Usual spellings of no value. Only the owner knows whether a column uses one."""
TRUE_FALSE = ("true", "false")


@dataclass(frozen=True)
class CsvOptions:
    """The options for reading a CSV; `types` declares columns, the others are inferred."""

    delimiter: str | None = None
    """The separator between cells; None for that of the format, a comma or a tab."""
    encoding: str = "utf-8"
    nulls: Sequence[str] = ("",)
    types: Mapping[str, pa.DataType | str] = field(default_factory=dict)
    known: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types from elsewhere, such as a sidecar, of columns that may be missing."""
    unread: frozenset[str] = frozenset()
    """Columns that won't be read: they need no type."""
    only: frozenset[str] | None = None
    """The only columns that will be read, if given."""
    header: bool | None = None
    """True if the first line names the columns; None if it does, but must not look like a record."""
    decimal: Decimal = "."
    """The mark before a number's fraction; with a comma, points may separate thousands."""
    formats: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The formats of dates, such as %d.%m.%Y; the first of a column's formats that fits a cell counts."""
    nulls_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Cells that mean null in one column."""
    odd: Mapping[str, str] | str = field(default_factory=dict)
    """The meaning of odd cells, per column or for all: "null" or a "value".

    Odd cells are usual spellings of no value, those of `nulls_of`, and those that aren't of the column's type,
    which are an error as values.
    """
    given: frozenset[str] = frozenset()
    """Fields that were set explicitly, even to the default: a plan does not change them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "nulls", _several(self.nulls))
        object.__setattr__(self, "odd", {"": self.odd} if isinstance(self.odd, str) else dict(self.odd))
        if strange := next((o for o in self.odd.values() if o not in (NULL, VALUE)), None):  # type: ignore[union-attr]
            raise unknown("choice", strange, (NULL, VALUE), " for odd cells")
        for name in ("formats", "nulls_of"):
            object.__setattr__(self, name, {n: _several(v) for n, v in getattr(self, name).items()})
        nulls_of = {n: v for n, v in self.nulls_of.items() if self.odd_cells(n) != VALUE}
        object.__setattr__(self, "nulls_of", nulls_of)
        parsed = {n: dtypes.parse(t) if isinstance(t, str) else t for n, t in self.types.items()}
        for column, several in self.formats.items():
            clocks = [has_clock(_checked_format(f)) for f in several]
            parsed.setdefault(column, pa.timestamp("ms") if any(clocks) else pa.date32())
            if not dtypes.is_dated(parsed[column]):
                raise UsageError(
                    "format-of-no-date",
                    f"the column {quoted(column)} has a date format but the type {parsed[column]}",
                    f"add {argument('type', 'date', column)}, or leave its format out",
                )
        object.__setattr__(self, "types", parsed)
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\r\n'):
            raise UsageError(
                "bad-delimiter", "the delimiter must be one ASCII character, but not a quote", "use ';'"
            )
        if self.decimal not in (".", ","):
            raise UsageError(
                "bad-decimal-mark", "the decimal mark is a point or a comma", f"add {argument('decimal', ',')}"
            )
        untyped = sorted(set(self.nulls_of) - set(parsed) - set(self.known))
        if untyped:
            raise UsageError(
                "null-without-type",
                f"the column {quoted(untyped[0])} has its own cells for null, but no type",
                f"add {argument('type', 'double', untyped[0])}",
            )
        try:
            b"any bytes".decode(self.encoding, "replace")
            codecs.getincrementaldecoder(self.encoding)
        except (LookupError, ValueError):
            raise UsageError(
                "unknown-encoding",
                f"unknown encoding {quoted(self.encoding)}",
                f"add {argument('encoding', 'latin-1')}",
            ) from None

    def odd_cells(self, name: str) -> str:
        """Return the setting for the odd cells of a column: "null", "value", or nothing."""
        answers: Mapping[str, str] = self.odd  # type: ignore[assignment]
        return answers.get(name, answers.get("", ""))

    def nulls_odd(self, name: str) -> bool:
        """Return whether cells of a column that are not of its type are null."""
        return self.odd_cells(name) == NULL

    @property
    def separator(self) -> str:
        return self.delimiter or ","

    def laid_over(self, planned: Mapping[str, object]) -> CsvOptions:
        """Return a plan's options for reading, overridden by these if they are given; nulls add up."""
        changes = dict[str, object]()
        for own in fields(self):
            name, mine, theirs = own.name, getattr(self, own.name), planned.get(own.name)
            if name not in planned:
                continue
            if name == "nulls":  # spellings add to each other
                changes[name] = tuple(dict.fromkeys((*_several(theirs), *mine)))  # type: ignore[arg-type]
            elif isinstance(mine, Mapping):
                changes[name] = {**theirs, **mine}  # type: ignore[dict-item]
            elif name not in self.given and mine == own.default and own.default is not MISSING:
                changes[name] = theirs
        return replace(self, **changes)  # type: ignore[arg-type]

    def is_odd(self, name: str, kind: pa.DataType) -> bool:
        """Return whether pyarrow can't read a column's cells directly."""
        number = dtypes.is_number(kind)
        read_here = (self.decimal == "," and number) or (name in self.formats and pa.types.is_temporal(kind))
        return read_here or name in self.nulls_of or self.nulls_odd(name)

    def converted(self, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
        """Return a column of text as its type; an error names the first row that does not fit."""
        text = column.combine_chunks()
        if isinstance(text, pa.ChunkedArray):
            text = pa.concat_arrays(text.chunks)
        if nulls := [*self.nulls_of.get(name, ()), *(USUAL if self.nulls_odd(name) else ())]:
            text = pc.if_else(pc.is_in(text, value_set=pa.array(nulls, pa.string())), None, text)
        if pa.types.is_string(kind):
            return text
        text = pc.utf8_trim_whitespace(text)
        if name in self.formats:
            found = dates(text, self.formats[name])
            wrong = pc.and_(pc.is_valid(text), pc.is_null(found)).to_numpy(zero_copy_only=False)
            if wrong.any() and not self.nulls_odd(name):
                raise other_type(int(np.argmax(wrong)), name, kind)
            return pc.cast(found, kind)
        if dtypes.is_number(kind) and (self.decimal == "," or self.nulls_odd(name)):
            pattern = COMMA if self.decimal == "," else WHOLE if pa.types.is_integer(kind) else POINT
            fits, odd = pc.match_substring_regex(text, pattern), None if self.nulls_odd(name) else "no number"
            if self.decimal == ",":
                text = pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
            text = pc.if_else(fits, text, pc.if_else(pc.is_valid(text), odd, None))
        if pa.types.is_boolean(kind) and self.nulls_odd(name):
            fits = pc.is_in(pc.utf8_lower(text), value_set=pa.array(TRUE_FALSE))
            text = pc.if_else(fits, text, None)
        return _cast(text, name, kind)


def _several(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _cast(text: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(text, kind)
    except pa.ArrowException:
        low, high = 0, len(text) - 1  # the first cell that does not fit is between them
        while low < high:
            middle = (low + high) // 2
            try:
                pc.cast(text.slice(low, middle + 1 - low), kind)
                low = middle + 1
            except pa.ArrowException:
                high = middle
        raise other_type(low, name, kind) from None


def other_type(row: int, name: str, kind: pa.DataType | None) -> RowTrouble:
    """Return the error for a cell that is not of its column's type."""
    odd = f"{argument('odd', 'null', name)} if such cells mean no value"
    if kind is not None and dtypes.is_dated(kind):
        return RowTrouble(
            row,
            "date-of-another-format",
            f"the column {quoted(name)} is not written as a {kind} there",
            f"add {argument('date_format', '%d.%m.%Y', name)} for how its dates are written, or {odd}",
        )
    return RowTrouble(
        row,
        "cell-of-another-type",
        f"the column {quoted(name)} is not of type {kind} there",
        f"add {odd}, or {argument('type', 'string', name)} if it is text",
    )


def other_encoding(what: str, options: CsvOptions) -> tuple[str, str, str]:
    """Return an error's id, words and next step, for text that is not in the encoding."""
    step = f"add {argument('encoding', 'cp1252')}, or cp850 for a file from DOS"
    return "wrong-encoding", f"{what} is not in {options.encoding}", step


def dates(text: pa.Array, formats: Sequence[str]) -> pa.Array:
    """Return instants in seconds by the first format that fits each cell; null if none does."""
    found = pa.nulls(len(text), pa.timestamp("s"))
    for form in formats:
        parts = pc.extract_regex(text, _pattern(form))
        some = pc.if_else(pc.and_(pc.is_valid(parts), pc.is_null(found)), text, None)
        read = pc.strptime(some, format=form, unit="s", error_is_null=True)
        day = pc.cast(pc.struct_field(parts, "day"), pa.int64())  # the 31st of a shorter month is read on
        found = pc.coalesce(found, pc.if_else(pc.equal(pc.day(read), day), read, None))
    return found


def has_clock(text: str) -> bool:
    return bool(set(_DIRECTIVE.findall(text)) & set(_CLOCK))


def _pattern(text: str) -> str:
    """Return the regular expression of a format: no digit more or less than it has."""
    parts = _DIRECTIVE.split(text)
    patterns = (re.escape(p) if i % 2 == 0 else (_DIGITS | _CLOCK)[p] for i, p in enumerate(parts))
    return f"^{''.join(patterns)}$"


def _checked_format(text: str) -> str:
    """Return the format of a date, if it is one that can be read without a calendar's words."""
    found = _DIRECTIVE.findall(text)
    days = sorted(f.lower() for f in found if f not in _CLOCK)
    if days != ["d", "m", "y"] or len(set(found)) < len(found) or not set(found) <= {*_DIGITS, *_CLOCK}:
        raise UsageError(
            "bad-date-format",
            f"{quoted(text)} is not a date format: it needs a day, a month and a year, each once",
            "use %d.%m.%Y, or %Y-%m-%d %H:%M",
        )
    return text

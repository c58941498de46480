"""How a CSV is to be read."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Literal

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.tables.csv_cells import checked_format, has_clock

Decimal = Literal[".", ","]


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV is to be read; `types` declares columns, the others are inferred."""

    delimiter: str | None = None
    """Between cells; None: what the format has, a comma or a tab."""
    encoding: str = "utf-8"
    nulls: Sequence[str] = ("",)
    types: Mapping[str, pa.DataType | str] = field(default_factory=dict)
    known: Mapping[str, pa.DataType] = field(default_factory=dict)
    """Types from elsewhere, such as a sidecar, of columns that need not be there."""
    unread: frozenset[str] = frozenset()
    """Columns that nobody will ask for: they need no type."""
    only: frozenset[str] | None = None
    """Where it is said, the only columns that anybody will ask for."""
    header: bool | None = None
    """Whether the first line names the columns; None: it does, and one that looks like a record is refused."""
    decimal: Decimal = "."
    """The mark before a number's fraction; where it is a comma, points may stand between thousands."""
    decimals: Mapping[str, Decimal] = field(default_factory=dict)
    """The mark of columns where it is another."""
    formats: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """How dates are written, as %d.%m.%Y; the first of a column's formats that fits a cell is meant."""
    nulls_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Cells that mean null in one column."""
    given: frozenset[str] = frozenset()
    """Fields that were asked for even where they are as by default: a plan does not change them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "nulls", _several(self.nulls))
        for name in ("formats", "nulls_of"):
            object.__setattr__(self, name, {n: _several(v) for n, v in getattr(self, name).items()})
        parsed = {n: dtypes.parse(t) if isinstance(t, str) else t for n, t in self.types.items()}
        for column, several in self.formats.items():
            clocks = [has_clock(checked_format(f)) for f in several]
            parsed.setdefault(column, pa.timestamp("ms") if any(clocks) else pa.date32())
            if not pa.types.is_temporal(parsed[column]) or pa.types.is_time(parsed[column]):
                raise UsageError(
                    f"the column {quoted(column)} has formats of dates and the type {parsed[column]}",
                    "give it the type date or datetime, or no format",
                )
        object.__setattr__(self, "types", parsed)
        mark = self.delimiter
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark in '"\r\n'):
            raise UsageError("the delimiter must be one ASCII character, and no quote", "such as ';'")
        for mark in (self.decimal, *self.decimals.values()):
            if mark not in (".", ","):
                raise UsageError("the decimal mark is a point or a comma", "such as --decimal ,")
        untyped = sorted(set(self.nulls_of) - set(parsed) - set(self.known))
        if untyped:
            raise UsageError(
                f"the column {quoted(untyped[0])} has its own cells for null and no type",
                "say its type too, such as int, double or string",
            )
        try:
            b"any bytes".decode(self.encoding, "replace")
            codecs.getincrementaldecoder(self.encoding)
        except (LookupError, ValueError):
            raise UsageError(f"unknown encoding {quoted(self.encoding)}", "such as latin-1") from None

    @property
    def separator(self) -> str:
        return self.delimiter or ","

    def decimal_of(self, column: str) -> Decimal:
        return self.decimals.get(column, self.decimal)

    def laid_over(self, planned: Mapping[str, Any]) -> CsvOptions:
        """Return what a plan says of reading, with these instead where they are given; nulls add up."""
        changes: dict[str, Any] = {}
        for own in fields(self):
            name = own.name
            if name not in planned:
                continue
            mine = getattr(self, name)
            if name == "nulls":  # spellings add to each other
                changes[name] = tuple(dict.fromkeys((*planned[name], *mine)))
            elif isinstance(mine, Mapping):
                changes[name] = {**planned[name], **mine}
            elif name not in self.given and mine == own.default and own.default is not MISSING:
                changes[name] = planned[name]
        return replace(self, **changes)


def _several(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)

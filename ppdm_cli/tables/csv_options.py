"""How a CSV is to be read."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import UsageError, quoted


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV is to be read; `types` declares columns, the others are inferred."""

    delimiter: str = ","
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "nulls", (self.nulls,) if isinstance(self.nulls, str) else tuple(self.nulls))
        parsed = {n: dtypes.parse(t) if isinstance(t, str) else t for n, t in self.types.items()}
        object.__setattr__(self, "types", parsed)
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise UsageError("the delimiter must be one ASCII character, and no quote", "such as ';'")
        try:
            b"any bytes".decode(self.encoding, "replace")
            codecs.getincrementaldecoder(self.encoding)
        except (LookupError, ValueError):
            raise UsageError(f"unknown encoding {quoted(self.encoding)}", "such as latin-1") from None

"""Which format a file has: by its suffix, or as said."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from ppdm_cli.errors import UsageError, quoted


class Format(Enum):
    CSV = ".csv"
    CSV_GZ = ".csv.gz"
    PARQUET = ".parquet"
    ARROW = ".arrow"
    STREAM = "Arrow stream"

    @property
    def is_csv(self) -> bool:
        return self in (Format.CSV, Format.CSV_GZ)


_SUFFIXES = {
    ".csv": Format.CSV,
    ".csv.gz": Format.CSV_GZ,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".feather": Format.ARROW,
}


def format_of(path: Path) -> Format:
    name = path.name.lower()
    for suffix, form in _SUFFIXES.items():
        if name.endswith(suffix):
            return form
    raise UsageError(
        f"the suffix of {quoted(path.name)} names no format", f"name a file that ends in {', '.join(_SUFFIXES)}"
    )

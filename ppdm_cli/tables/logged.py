"""Tables that a log describes, for Delta and Iceberg: Parquet files, each with its entry in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import DataError, quoted
from ppdm_cli.tables.base import Partition, Table, normal_schema
from ppdm_cli.tables.parquet import ParquetTable


@contextmanager
def library_understood(
    kind: str, name: object, what: str = "read", step: str = "check its name, its version and your permissions"
) -> Iterator[None]:
    """Turn a library's error about a table, which may quote cells or credentials, into one of ours."""
    try:
        yield
    except Exception as error:
        message = f"the {kind} table {quoted(name)} cannot be {what} ({type(error).__name__})"
        raise DataError(f"{kind.lower()}-failed", message, step) from None


@dataclass(frozen=True)
class LoggedFile:
    """A file of a table, with its entry in the log."""

    table: ParquetTable
    columns: dict[str, str]
    """The table's columns that it has, with its own names for them."""
    keys: dict[str, Any]
    kept: pa.BooleanArray | None
    """A mask of its rows that are in the table, up to the last that isn't."""

    def partitions(self, schema: pa.Schema) -> Iterator[Partition]:
        own = [self.columns[n] for n in schema.names if n in self.columns]
        for start, part in zip(self.table.starts(), self.table.partitions(own), strict=True):
            yield Partition(part.file, partial(self._load, part.load, start, schema))

    def _load(self, load: Callable[[], pa.RecordBatch], start: int, schema: pa.Schema) -> pa.RecordBatch:
        """Load some rows of the table; keys have one value, and columns that the file lacks are null."""
        batch = load()
        if schema.names:
            columns = [
                dtypes.normal_column(batch.column(self.columns[f.name]), f.type, f.name)
                if f.name in self.columns
                else pa.repeat(pa.scalar(self.keys.get(f.name), f.type), batch.num_rows)
                for f in schema
            ]
            batch = pa.RecordBatch.from_arrays(columns, names=schema.names)
        if self.kept is None:
            return batch
        kept = self.kept.slice(start, batch.num_rows)
        return batch.filter(pa.concat_arrays([kept, pa.repeat(True, batch.num_rows - len(kept))]))


class LoggedTable(Table):
    """One version of a table, its files in the order of their names."""

    def __init__(self, name: str, schema: pa.Schema, parts: Sequence[LoggedFile]) -> None:
        self.name, self.schema, self._parts = name, normal_schema(schema, name), parts
        gone = sum(p.kept.false_count for p in parts if p.kept is not None)
        self.rows = sum(p.table.rows or 0 for p in parts) - gone

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        schema = pa.schema([self.schema.field(n) for n in (self.schema.names if columns is None else columns)])
        for part in self._parts:
            yield from part.partitions(schema)

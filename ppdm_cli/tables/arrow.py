"""Arrow for files, streams and pipes of other programs, and any object in memory that speaks Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from ppdm_cli.errors import DataError, UsageError, argument, quoted
from ppdm_cli.sidecar import METADATA_KEY
from ppdm_cli.tables.base import (
    Partition,
    Table,
    no_utf8,
    normal_batch,
    normal_schema,
    rows_per_partition,
    threads,
)
from ppdm_cli.tables.formats import Format, InOrder, RowGroupWriter, bared
from ppdm_cli.tables.stores import StorePath, unread


class ArrowTable(Table):
    """Record batches, from a file, a stream or memory; large ones in slices."""

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        batches: Callable[[], Iterator[pa.RecordBatch]],
        rows: int | None,
        rewindable: bool,
        files: tuple[Path, ...] = (),
    ) -> None:
        self.name, self.rows, self.rewindable, self.files = name, rows, rewindable, files
        try:
            self.schema = normal_schema(schema, name)
        except UnicodeError:
            raise no_utf8(name) from None
        self.sidecar: bytes | None = (schema.metadata or {}).get(METADATA_KEY)
        self._batches = batches

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        rows = rows_per_partition(len(self.schema))
        for batch in self._read():
            part = batch.select(names)
            for start in range(0, batch.num_rows, rows):
                yield Partition(self.name, partial(_checked, part.slice(start, rows), self.schema, self.name))

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except (pa.ArrowException, OSError) as error:
            raise unread(self.name, error, _damaged(self.name)) from None


def _checked(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    try:
        batch.validate(full=True)
    except pa.ArrowException:
        raise _damaged(name) from None
    return normal_batch(batch, schema)


def _damaged(name: str) -> DataError:
    return DataError(
        "damaged-arrow",
        f"{quoted(name)} is not readable as Arrow data: it is truncated, damaged or something else",
        f"make it again, or for CSV on standard input add {argument('from_', 'csv')}",
    )


def open_ipc_file(path: Path) -> ArrowTable:
    """Open an Arrow IPC (Feather) file; not mapped, because a process dies if a mapped file is cut."""

    def reader(fields: Sequence[int] = ()) -> Any:
        file = path.open() if isinstance(path, StorePath) else pa.OSFile(str(path))
        return pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=list(fields)))

    def batches() -> Iterator[pa.RecordBatch]:
        opened = reader()
        for i in range(opened.num_record_batches):
            yield opened.get_batch(i)

    try:
        opened = reader()
        first = reader(range(len(opened.schema))[:1])  # one column is enough to count
        rows = sum(first.get_batch(i).num_rows for i in range(first.num_record_batches))
    except UnicodeError:
        raise no_utf8(str(path)) from None
    except (pa.ArrowException, OSError) as error:
        raise unread(str(path), error, _damaged(str(path))) from None
    return ArrowTable(str(path), opened.schema, batches, rows, True, (path,))


def open_ipc_stream(stream: IO[bytes], name: str) -> ArrowTable:
    """Open an Arrow stream, which is read once."""
    try:
        reader = pa.ipc.open_stream(stream)
    except (pa.ArrowException, OSError):
        raise _damaged(name) from None
    return ArrowTable(name, reader.schema, lambda: iter(reader), None, False)


UNNAMED = re.compile(r"__index_level_\d+__")
AS_TABLE = "use a path, or a polars, pandas or pyarrow table whose columns have one type each"


def _mixed(data: Any) -> str:
    """Return the first column of a pandas table whose objects have no one Arrow type, for a message."""
    for name in getattr(data, "columns", ()):
        try:
            pa.array(data[name], from_pandas=True)
        except Exception:
            return f": its column {quoted(name)} holds values of several types"
    return ""


def from_arrow(data: object) -> ArrowTable:
    """Open any object with `__arrow_c_stream__`: polars, pyarrow, pandas, DuckDB; a LazyFrame is collected."""
    if isinstance(data, type) or not hasattr(data, "__arrow_c_stream__"):
        import polars as pl

        if not isinstance(data, pl.LazyFrame):
            raise UsageError("no-table", f"an object of type {type(data).__name__} is not a table", AS_TABLE)
        try:
            data = data.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError):
            what = "the LazyFrame cannot be collected"
            raise DataError("frame-not-collected", what, "collect it first to see why") from None
    try:
        whole = pa.table(data)
    except Exception:  # of whichever library made the object; its message may quote cells
        what = f"the {type(data).__name__} cannot be read as an Arrow table{_mixed(data)}"
        raise UsageError("unreadable-table", what, AS_TABLE) from None
    # of pandas: where rows stood before they were chosen isn't an attribute; an index with a name is a column
    if b"pandas" in (whole.schema.metadata or {}):
        whole = whole.drop_columns([n for n in whole.column_names if UNNAMED.fullmatch(n)])
    return ArrowTable("the table", whole.schema, lambda: iter(whole.to_batches()), whole.num_rows, True)


class ArrowWriter(RowGroupWriter):
    """One file or stream of record batches, its sidecar in the schema, plain values only."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None) -> None:
        super().__init__(file, schema)
        self._schema = schema.with_metadata({METADATA_KEY: sidecar} if sidecar is not None else None)
        new = pa.ipc.new_file if name else pa.ipc.new_stream
        # a file takes a third of the space, and less time; not every reader of a stream can unpack it
        packed = pa.ipc.IpcWriteOptions(compression="lz4" if name else None, use_threads=threads() > 1)
        self._writer = new(file, self._schema, options=packed)
        self._bared = InOrder(self._writer.write_table, stream=not name)

    def _write_group(self, table: pa.Table) -> None:
        self._bared.add(self._plain, table)

    def _plain(self, table: pa.Table) -> pa.Table:
        return pa.Table.from_arrays([bared(c) for c in table.combine_chunks().columns], schema=self._schema)

    def close(self, sidecar: bytes | None) -> None:
        self._end_group()
        self._bared.finish()
        self._writer.close()

    def abandon(self) -> None:
        self._bared.abandon()


ARROW = Format(
    "Arrow",
    (".arrow", ".feather"),
    lambda files, options: open_ipc_file(files.paths[0]),
    ArrowWriter,
    sidecar="start",
    open_stream=lambda stream, name, options: open_ipc_stream(stream, name),
)

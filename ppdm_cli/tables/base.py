"""Tables for all packages: a schema and partitions to load, whatever the format."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import DataError, listed, quoted
from ppdm_cli.files import THREADS

if TYPE_CHECKING:
    from polars import LazyFrame

Item = TypeVar("Item")
Result = TypeVar("Result")
LEAST_ROWS, MOST_ROWS = 1 << 10, 1 << 18
MOST_CELLS = 1 << 22
WIDE_ROWS = 1 << 12
"""The rows whose work outweighs that of starting on a column: wide tables have twice the cells for them."""
MOST_COLUMNS = 1 << 16
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""The file that shows how much of the processor a container may use."""


def rows_per_partition(columns: int) -> int:
    """Return the number of rows of a table of so many columns that are processed at a time."""
    many = max(1, columns)
    rows = max(MOST_CELLS // many, min(WIDE_ROWS, 2 * MOST_CELLS // many))
    return max(LEAST_ROWS, min(MOST_ROWS, rows))


@dataclass(frozen=True)
class Partition:
    """Some consecutive rows of a table: picklable, loaded separately, anywhere and as often as needed."""

    file: str
    load: Callable[[], pa.RecordBatch] = field(repr=False)
    check: Callable[[int], None] | None = None
    """A function in the last partition of a table of known size, to call with the number of rows."""


class RowTrouble(Exception):  # noqa: N818 - not shown to anyone: the engine adds the row's place
    """Something wrong with a row, counted from 0 within its partition."""

    def __init__(self, row: int, id: str, what: str, next_step: str) -> None:
        super().__init__(row, id, what, next_step)
        self.row, self.id, self.what, self.next_step = row, id, what, next_step

    def within(self, file: str, before: int) -> DataError:
        """Return the error for the caller; so many rows of the file come before the partition."""
        what = f"row {before + self.row + 1} of {quoted(file)}: {self.what}"
        return DataError(self.id, what, self.next_step)


class Table(Protocol):
    """A table that can be read in partitions, which are the same whichever columns are read."""

    schema: pa.Schema
    """Names and normal types (`dtypes.normal`) of the columns; no metadata."""
    name: str
    rows: int | None = None
    """The number of rows; None if only reading to the end shows it."""
    rewindable: bool = True
    """True if it can be read a second time, unlike a standard stream."""
    sidecar: bytes | None = None
    """The sidecar that the data itself carries."""
    files: tuple[Path, ...] = ()
    padded: Sequence[str] = ()
    """Columns of a CSV that were read as text because digits begin with a zero somewhere."""
    inferred: frozenset[str] = frozenset()
    """Columns of a CSV whose types the cells decided."""

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]: ...


class WrappedTable(Table):
    """A table that is like another except for its class's changes."""

    def __init__(self, table: Table) -> None:
        self._table, self.schema, self.name = table, table.schema, table.name
        self.rows, self.rewindable, self.sidecar = table.rows, table.rewindable, table.sidecar
        self.files = table.files
        self.padded, self.inferred = table.padded, table.inferred

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        return self._table.partitions(columns)


class ArrowStream(Protocol):
    """An object that gives its rows as Arrow: a table of polars, pandas, pyarrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class SparkDataFrame(Protocol):
    """A DataFrame of Spark, for the functions that a cluster can run."""

    @property
    def sparkSession(self) -> object: ...  # noqa: N802 - Spark's


Named: TypeAlias = str | PathLike[str]
TableLike: TypeAlias = "Named | Sequence[Named] | ArrowStream | LazyFrame | SparkDataFrame | Table"
"""The inputs of `open_table`: a path, "-" for standard input, a table's parts, or a table in memory."""


_Loaded = tuple[str, Callable[[int], None] | None, "pa.RecordBatch | RowTrouble"]


def loaded(
    table: Table,
    columns: Sequence[str] | None = None,
    run: Callable[[Callable[[Partition], _Loaded], Iterator[Partition]], Iterable[_Loaded]] = map,
    coded: bool = False,
) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Load a table in order: for each partition its file, the number of the file's rows before it, and its
    rows.

    `run` is `map`, or like it in parallel. Each table must have the number of rows that was promised for it.
    Numbers may stay dictionaries only if they may be `coded`.
    """
    last, in_file, in_table = "", 0, 0
    for file, check, found in run(_load, table.partitions(columns)):
        in_file = in_file if file == last else 0
        if isinstance(found, RowTrouble):
            raise found.within(file, in_file)
        in_table += found.num_rows
        if check is not None:
            check(in_table)
            in_table = 0
        yield file, in_file, found if coded else _uncoded(found)
        last, in_file = file, in_file + found.num_rows


def _uncoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with columns of values; text may be a dictionary."""
    columns = [dtypes.uncoded(c) for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names) if columns else batch


def _load(partition: Partition) -> _Loaded:
    """Load a partition; an error in a row is returned, because the row's number is known later."""
    try:
        return partition.file, partition.check, partition.load()
    except RowTrouble as trouble:
        return partition.file, partition.check, trouble


def threads() -> int:
    """Return the number of threads to use: this process's cores, unless another number is set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # without a quota it says "max"
        quota, period = map(int, QUOTA.read_text().split())
        cores = min(cores, -(-quota // period))
    return THREADS.get() or max(1, cores)


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """Yield a pool for the length of one job."""
    executor = ThreadPoolExecutor(threads(), thread_name_prefix="ppdm")
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def ordered(
    executor: ThreadPoolExecutor, items: Iterable[Item], work: Callable[[Item], Result]
) -> Iterator[Result]:
    """Yield `work` of every item, in order; at most one item more than threads waits or runs."""
    pending: deque[Future[Result]] = deque()
    most = executor._max_workers + 1
    try:
        for item in items:
            pending.append(executor.submit(work, item))
            if len(pending) >= most:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def normal_schema(raw: pa.Schema, where: str) -> pa.Schema:
    """Return a schema of normal types; an unreadable column is left as it is, because it may be dropped."""
    seen: set[str] = set()
    doubled = [n for n in raw.names if n in seen or seen.add(n)]  # type: ignore[func-returns-value]
    if doubled:
        what = f"{quoted(where)} has columns of the same name: {listed(sorted(set(doubled)))}"
        raise DataError("columns-of-one-name", what, "rename them, so that each name means one column")
    if len(raw.names) > MOST_COLUMNS:
        what = f"{quoted(where)} has {len(raw.names)} columns; a sidecar holds at most {MOST_COLUMNS}"
        raise DataError("too-many-columns", what, "leave out columns that don't matter")
    if not raw.names:
        raise DataError("no-columns", f"{quoted(where)} has no columns", "check that it is the file you meant")
    if "" in raw.names:
        what = f"column {raw.names.index('') + 1} of {quoted(where)} has no name"
        raise DataError("column-without-name", what, "rename the column, or leave it out of the file")
    return pa.schema([pa.field(f.name, normal_or_same(f)) for f in raw])


def other_table(part: str, first: str, more: str = "") -> DataError:
    """Return the error for a part whose columns are not those of the first one."""
    what = f"{quoted(part)} does not have the columns of {quoted(first)}{more}"
    return DataError("parts-of-two-tables", what, "use parts of one table only")


def no_utf8(where: str) -> DataError:
    return DataError(
        "name-not-in-utf-8",
        f"{quoted(where)} has a name that is not in UTF-8: its own, or a column's",
        "rename the file or the column",
    )


def normal_or_same(column: pa.Field) -> pa.DataType:
    try:
        kind = dtypes.normal(column.type, column.name)
    except Exception:
        return column.type
    if getattr(kind, "unit", "") == "s":  # Parquet has no seconds: one type in every format
        return pa.timestamp("ms", kind.tz) if pa.types.is_timestamp(kind) else pa.time32("ms")
    return kind


def _is_text_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def normal_batch(batch: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Return a loaded batch with columns of normal types, each in one piece."""
    columns = []
    for name, raw in zip(batch.schema.names, batch.columns, strict=True):
        array = raw.combine_chunks() if isinstance(raw, pa.ChunkedArray) and raw.num_chunks != 1 else raw
        if isinstance(array, pa.ChunkedArray):  # one piece, or too large for one array
            array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
        if pa.types.is_dictionary(array.type) and _is_text_view(array.type.value_type):
            # polars' categories: few kernels know the types of their labels
            labels = array.dictionary.cast(pa.string())
            array = pa.DictionaryArray.from_arrays(array.indices, labels)
        columns.append(dtypes.normal_column(array, schema.field(name).type, name))
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, names=list(batch.schema.names))

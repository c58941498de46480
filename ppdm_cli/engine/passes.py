"""Passes for all packages: fold, map and scan over a table's partitions, and the protocol of engines.

A map is a pure function of (batch, address of its first row); a fold adds up small states; a
scan also keeps each partition's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, Protocol, TypeGuard, TypeVar

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.files import THREADS
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import (
    OPENING,
    Output,
    Shuffler,
    Table,
    loaded,
    ordered,
    rows_per_partition,
    workers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

P = ParamSpec("P")
State = TypeVar("State")
Result = TypeVar("Result")
Advance = Callable[[int], None]


class Progress(Protocol):
    """The protocol of listeners to the progress of passes over a table."""

    def begin(self, doing: str, total: int | None) -> None:
        """Note that a pass starts, over `total` rows if that is known."""

    def advance(self, rows: int) -> None: ...

    def end(self) -> None:
        """Note that the pass is over, or was given up."""


PROGRESS: ContextVar[Progress | None] = ContextVar("ppdm_progress", default=None)
"""The listener to all work, if there is one."""


@contextmanager
def step(doing: str, total: int | None = None) -> Iterator[Advance]:
    """Report work on `total` rows while it lasts; yield a function to call with the number that are done."""
    progress = PROGRESS.get()
    if progress:
        progress.begin(doing, total)
    try:
        yield progress.advance if progress else lambda rows: None
    finally:
        if progress:
            progress.end()


_Part = tuple[int, str, int]
"""The place where a part of a batch begins, its file, and how many of the file's rows come before."""


@dataclass(frozen=True)
class Batch:
    """Some rows of a table; `first_row` counts over the whole table, `row_in_file` for messages."""

    columns: pa.RecordBatch
    index: int
    """The number of its partition."""
    first_row: int
    file: str
    row_in_file: int
    more: tuple[_Part, ...] = field(default=(), kw_only=True)
    """The further parts of a gathered batch."""

    @property
    def rows(self) -> int:
        return int(self.columns.num_rows)

    @property
    def addresses(self) -> np.ndarray:
        """Return the number of each row in the whole table, which all random numbers depend on."""
        return np.arange(self.first_row, self.first_row + self.rows, dtype=np.uint64)

    def column(self, name: str) -> pa.Array:
        """Return a column of values; text may be a dictionary."""
        return dtypes.uncoded(self.coded(name))

    def coded(self, name: str) -> pa.Array:
        """Return a column as it was loaded, which may be a dictionary of any type."""
        return self.columns.column(name)

    def where(self, row: int) -> str:
        """Return the place of a row of this batch, for a message; rows are counted from 1."""
        own = (0, self.file, self.row_in_file)
        begins, file, before = next((m for m in reversed(self.more) if m[0] <= row), own)
        return f"row {before + row - begins + 1} of {file}"


class Made(NamedTuple, Generic[State]):
    """Output of a task for one partition: the rows to write, and a state about them."""

    rows: pa.RecordBatch
    state: State
    places: Addresses | None = None
    """The place of each row in a random order, if they are to be shuffled."""


@dataclass(frozen=True)
class Writing(Generic[State]):
    """Destination of a task's rows, and the callback that receives its states."""

    into: Output
    schema: pa.Schema
    sidecar: Sidecar | None
    hear: Callable[[State], object]
    """The callback for the states of partitions, in their order."""
    check: Callable[[], int]
    """The function to call when all is written: it raises, or returns the number of records."""
    shuffled: bool = False
    places: list[np.ndarray] | None = None
    """The place of each row, in the order of the rows read, for an owner who asks for a list."""


class Engine(Protocol):
    """The protocol of engines, which run tasks on the partitions of a table.

    A task is a picklable object without locks, and changes nothing that others see; so is a merge. An engine
    may copy tasks and partitions to wherever it likes, run them in any order, and run them again. Results come
    in the order of the partitions. The engine calls `advance` with the number of rows that are done.
    """

    opens: Callable[[Any, Mapping[str, pa.DataType]], Table | None] | None = None
    """A function that opens tables elsewhere than on this machine, for an engine that reads them there."""

    def map(
        self, table: Table, task: Callable[[Batch], Result], columns: Sequence[str] | None, advance: Advance
    ) -> Iterator[Result]:
        """Yield the task's result for every partition, in order."""
        ...

    def fold(
        self,
        table: Table,
        task: Callable[[Batch], State],
        merge: Callable[[State, State], State],
        columns: Sequence[str] | None,
        advance: Advance,
    ) -> State | None:
        """Return the states of all partitions merged in their order, or None for an empty table."""
        total: State | None = None
        for state in self.map(table, task, columns, advance):
            total = state if total is None else merge(total, state)
        return total

    def scan(
        self, table: Table, task: Callable[[Batch], State], columns: Sequence[str] | None, advance: Advance
    ) -> list[State]:
        """Return every partition's own state, in order."""
        return list(self.map(table, task, columns, advance))

    def write(
        self,
        table: Table,
        task: Callable[[Batch], Made[State]],
        columns: Sequence[str] | None,
        advance: Advance,
        writing: Writing[State],
    ) -> Sidecar | None:
        """Write the rows that the task makes of every partition, in order or shuffled; return the sidecar."""
        into, schema = writing.into, writing.schema
        with ExitStack() as stack:
            shuffler = None
            if writing.shuffled:
                shuffler = stack.enter_context(Shuffler(schema, table.rows, into.folder))

            def batches() -> Iterator[pa.RecordBatch]:
                for made in self.map(table, task, columns, advance):
                    writing.hear(made.state)
                    if shuffler is None or made.places is None:
                        yield made.rows
                    else:
                        shuffler.add(made.rows, made.places)
                        if writing.places is not None:
                            writing.places.append(made.places)
                if shuffler is not None:
                    yield from shuffler.batches()

            return into.fill(batches(), schema, writing.sidecar, writing.check)

    def destination(self, stack: ExitStack, *named: Any) -> Output:
        """Return the destination of a table that `write` makes, from the arguments of `Output`."""
        return Output(stack, *named)

    def keeps(self, table: Table) -> bool:
        """Return whether the rows of a table are elsewhere, and must not all be brought to this process."""
        return False

    def adding(
        self, table: Table, task: Callable[[Batch], Made[Any]], names: Sequence[str], schema: pa.Schema
    ) -> Any:
        """Return an engine's DataFrame with the columns that a task makes from some of its own, or None."""
        return None


class Threads(Engine):
    """A pool of threads, which has a bounded number of partitions in hand at a time."""

    def map(
        self, table: Table, task: Callable[[Batch], Result], columns: Sequence[str] | None, advance: Advance
    ) -> Iterator[Result]:
        with workers() as executor:
            batches = numbered(table, columns, lambda load, parts: ordered(executor, parts, load))
            for rows, result in ordered(executor, batches, partial(with_rows, task)):
                yield result
                advance(rows)


def numbered(table: Table, columns: Sequence[str] | None, run: Any = map) -> Iterator[Batch]:
    """Load a table's partitions, by `run` as `map` would, gather small ones, and number their rows in order."""
    most, held, parts = rows_per_partition(len(table.schema)) // 4, list[pa.RecordBatch](), list[_Part]()
    index = first_row = rows = 0

    def gathered() -> Batch:
        (_, file, before), *more = parts
        columns = held[0] if len(held) == 1 else pa.concat_batches(held)
        return Batch(columns, index, first_row, file, before, more=tuple(more))

    for file, before, batch in loaded(table, columns, run, coded=True):
        if held and (rows + batch.num_rows > most or batch.schema != held[0].schema):
            yield gathered()
            index, first_row, rows = index + 1, first_row + rows, 0
            held, parts = [], []
        parts.append((rows, quoted(file), before))
        held.append(batch)
        rows += batch.num_rows
    if held:
        yield gathered()


def with_rows(task: Callable[[Batch], Result], batch: Batch) -> tuple[int, Result]:
    """Return the number of a task's rows, and its result for them."""
    return batch.rows, task(batch)


_POOL = Threads()
ENGINE: ContextVar[Engine] = ContextVar("ppdm_engine", default=_POOL)
"""The engine of all passes."""


@contextmanager
def running(
    *, threads: int | None = None, engine: Engine | None = None, progress: Progress | None = None
) -> Iterator[None]:
    """Run the calls inside on so many threads, or by another engine, and report their progress.

    Parameters
    ----------
    threads : int, optional
        The number of threads; by default one for each processor.
    engine : Engine, optional
        The engine for passes over tables, such as `on_spark(session)`; by default threads of this process.
    progress : Progress, optional
        The listener to the progress.
    """
    given: list[tuple[ContextVar[Any], Any]] = [(THREADS, threads), (ENGINE, engine), (PROGRESS, progress)]
    given.append((OPENING, engine and engine.opens))
    with ExitStack() as stack:
        for variable, value in given:
            if value is not None:
                stack.callback(variable.reset, variable.set(value))
        yield


def map_partitions(
    table: Table,
    task: Callable[[Batch], Result],
    *,
    columns: Sequence[str] | None = None,
    doing: str = "reading",
) -> Iterator[Result]:
    """Yield a task's result for every partition, in order, a bounded number of them at a time."""
    with step(doing, table.rows) as advance:
        yield from ENGINE.get().map(table, task, columns, advance)


def fold(
    table: Table,
    task: Callable[[Batch], State],
    merge: Callable[[State, State], State],
    *,
    columns: Sequence[str] | None = None,
    doing: str = "counting",
) -> State | None:
    """Return the states of all partitions, merged in their order; None of an empty table."""
    with step(doing, table.rows) as advance:
        return ENGINE.get().fold(table, task, merge, columns, advance)


def scan(
    table: Table,
    task: Callable[[Batch], State],
    *,
    columns: Sequence[str] | None = None,
    doing: str = "counting",
) -> list[State]:
    """Return every partition's own state, in order, for computations that need prefixes."""
    with step(doing, table.rows) as advance:
        return ENGINE.get().scan(table, task, columns, advance)


def write(
    table: Table,
    task: Callable[[Batch], Made[State]],
    writing: Writing[State],
    *,
    columns: Sequence[str] | None = None,
    doing: str = "writing",
) -> Sidecar | None:
    """Write the rows that a task makes of every partition into an output, which is not published yet."""
    with step(doing, table.rows) as advance:
        return ENGINE.get().write(table, task, columns, advance, writing)


def destination(stack: ExitStack, *named: object) -> Output:
    """Return the destination of a table that `write` makes, from the arguments of `Output`."""
    return ENGINE.get().destination(stack, *named)


def on_spark(session: SparkSession) -> Engine:
    """Run passes over tables on Spark: `with running(engine=on_spark(session)): ...`.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session, which has the cluster.
    """
    if not hasattr(session, "_jsparkSession"):  # it is of Spark Connect
        from ppdm_cli.engine.spark_frames import FrameEngine

        return FrameEngine()
    from ppdm_cli.engine.spark import SparkEngine  # needs an extra

    return SparkEngine(session)


ON_SPARK = frozenset({"estimate", "inspect", "perturb", "predict", "query", "reconstruct", "train_tree"})
"""The functions that take a DataFrame of Spark, or paths that Spark opens."""


def is_dataframe(given: object) -> TypeGuard[DataFrame]:
    """Return whether it is a DataFrame of Spark, which need not be installed."""
    return type(given).__module__.startswith("pyspark.sql.") and hasattr(given, "sparkSession")


def where_the_data_are(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that runs in the session of a DataFrame of Spark, if it gets one."""
    name = function.__name__

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Result:
        for given in (*args, *kwargs.values()):
            if is_dataframe(given):
                if name not in ON_SPARK:
                    raise UsageError(
                        "not-on-spark",
                        f"{name} does not run on Spark, and takes no DataFrame of Spark",
                        f"use files that this machine reads, such as {name}('release.parquet')",
                    )
                with running(engine=on_spark(given.sparkSession)):
                    return function(*args, **kwargs)
        return function(*args, **kwargs)

    return called

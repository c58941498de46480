"""Fold, map and scan over a table's partitions, by a pool of threads.

A map is a pure function of (batch, address of its first row); a fold adds up small states; a
scan also keeps each partition's own. Memory does not grow with the data, results come in the order
of the partitions, and any number of threads gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from ppdm_cli.errors import DataError, quoted
from ppdm_cli.pool import ordered, workers
from ppdm_cli.tables import Partition, RowTrouble, Table

State = TypeVar("State")
Result = TypeVar("Result")


class Progress(Protocol):
    """Whoever wants to know how far a pass over a table is."""

    def begin(self, doing: str, total: int | None) -> None:
        """A pass starts; `total` rows, where that is known."""

    def advance(self, rows: int) -> None: ...

    def end(self) -> None:
        """The pass is over, or was given up."""


@contextmanager
def step(progress: Progress | None, doing: str, total: int | None = None) -> Iterator[None]:
    """Tell of some work while it lasts: a pass over `total` rows, or work that no number is known of."""
    if progress:
        progress.begin(doing, total)
    try:
        yield
    finally:
        if progress:
            progress.end()


@dataclass(frozen=True)
class Batch:
    """Some rows of a table; `first_row` counts over the whole table, `row_in_file` for messages."""

    columns: pa.RecordBatch
    index: int
    """The number of its partition."""
    first_row: int
    file: str
    row_in_file: int

    @property
    def rows(self) -> int:
        return int(self.columns.num_rows)

    def column(self, name: str) -> pa.Array:
        return self.columns.column(name)

    def where(self, row: int) -> str:
        """Where a row of this batch is, for a message; rows are counted from 1."""
        return f"row {self.row_in_file + row + 1} of {self.file}"


def map_partitions(
    table: Table,
    work: Callable[[Batch], Result],
    *,
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    doing: str = "reading",
) -> Iterator[Result]:
    """`work` of every partition, in order, a bounded number of them at a time."""
    with step(progress, doing, table.rows), workers(threads) as executor:
        batches = _numbered(table, columns, executor)

        def one(batch: Batch) -> tuple[int, Result]:
            return batch.rows, work(batch)

        for rows, result in ordered(executor, batches, one):
            yield result
            if progress:
                progress.advance(rows)


def _numbered(table: Table, columns: Sequence[str] | None, executor: ThreadPoolExecutor) -> Iterator[Batch]:
    """Load partitions in parallel and number their rows in order."""
    first_row, in_file, file = 0, 0, ""

    def load(partition: Partition) -> tuple[Partition, pa.RecordBatch | RowTrouble]:
        try:
            return partition, partition.load()
        except RowTrouble as trouble:
            return partition, trouble

    for index, (partition, loaded) in enumerate(ordered(executor, table.partitions(columns), load)):
        if partition.file != file:
            file, in_file = partition.file, 0
        if isinstance(loaded, RowTrouble):
            raise DataError(
                f"row {in_file + loaded.row + 1} of {quoted(file)}: {loaded.what}", loaded.next_step
            )
        yield Batch(loaded, index, first_row, quoted(file), in_file)
        first_row += loaded.num_rows
        in_file += loaded.num_rows


def fold(
    table: Table,
    work: Callable[[Batch], State],
    merge: Callable[[State, State], State],
    *,
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    doing: str = "counting",
) -> State | None:
    """The merged state of all partitions, merged in their order; None of an empty table."""
    total: State | None = None
    for state in map_partitions(table, work, columns=columns, threads=threads, progress=progress, doing=doing):
        total = state if total is None else merge(total, state)
    return total


def scan(
    table: Table,
    work: Callable[[Batch], State],
    *,
    columns: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    doing: str = "counting",
) -> list[State]:
    """Every partition's own state, in order: for what needs prefixes."""
    return list(map_partitions(table, work, columns=columns, threads=threads, progress=progress, doing=doing))

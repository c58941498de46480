"""DataFrames of Spark for passes that need no order: releases are mined, and trees predict, where the rows are.

Any session will do, of Spark Connect too, because all that this asks for is `mapInArrow`. Spark computes such a
DataFrame again in each pass, so it never supplies the rows' addresses, which the coins depend on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ppdm_cli.engine.passes import Advance, Batch, Engine, Made, Threads, Writing, is_dataframe, with_rows
from ppdm_cli.engine.spark_tasks import STATES, Physical, Work
from ppdm_cli.engine.spark_types import FrameRows, arrow_type, loaded_here, spark_type
from ppdm_cli.errors import DataError, PpdmError, UsageError
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Output, Table, normal_schema

_IN_TASK = re.compile(r"ppdm task: (\w+ at [\w.:]+)")


class FrameTable(Table):
    """A DataFrame of any origin, with the types that are known of its columns where Spark has them so."""

    name = "the DataFrame"

    def __init__(self, frame: Any, known: Mapping[str, pa.DataType]) -> None:
        self.frame, fields = frame, frame.schema.fields
        raw = pa.schema([(f.name, _arrow(f.name, f.dataType, known.get(f.name))) for f in fields])
        self.schema = normal_schema(raw, self.name)
        carried = fields[0].metadata.get("ppdm")
        self.sidecar = None if carried is None else carried.encode()

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[FrameRows]:
        names = list(self.schema.names if columns is None else columns)
        text = [n for n in names if pa.types.is_string(self.schema.field(n).type)]
        load = partial(loaded_here, self.name, names, text, self.schema, {})
        yield FrameRows(self.name, load, None, self.frame, names)


def _arrow(name: str, found: Any, known: pa.DataType | None) -> pa.DataType:
    with suppress(PpdmError, StopIteration):
        return known if known is not None and spark_type(known, name) == found else arrow_type(found)
    return pa.binary()  # it may not be read


class FrameEngine(Engine):
    """Runs passes over DataFrames; over tables in this process threads do."""

    def __init__(self) -> None:
        self.opens = self._open

    def _open(self, source: Any, known: Mapping[str, pa.DataType]) -> Table | None:
        if not is_dataframe(source):
            several = source if isinstance(source, (list, tuple)) else [source]
            if not any(isinstance(s, (str, PathLike)) for s in several):
                return None
            what = "Spark Connect gives no files by their names"
            raise UsageError("path-on-connect", what, "give what spark.read.parquet makes of it")
        if not known:
            raise self.refusal()
        return FrameTable(source, known)

    def refusal(self) -> UsageError:
        """Return the error for what needs rows with numbers."""
        return UsageError(
            "spark-connect",
            "a session of Spark Connect cannot read the footers of files, which say where each row is",
            "use a classic session, on the cluster's driver; to mine a release, add sidecar=release.sidecar",
        )

    def keeps(self, table: Table) -> bool:
        return isinstance(table, FrameTable)

    def destination(self, stack: ExitStack, output: Any = None, *named: Any) -> Output:
        if output is not None:
            what = "a session of Spark Connect gives no folder to write to"
            raise UsageError("output-on-connect", what, "leave it out, and write the DataFrame that comes back")
        return super().destination(stack, output, *named)

    def map(
        self, table: Table, task: Callable[[Batch], Any], columns: Sequence[str] | None, advance: Advance
    ) -> Iterator[Any]:
        read = self._read(table, columns)
        if read is None:
            yield from Threads().map(table, task, columns, advance)
            return
        for rows, state in self._runs(read, task, None):
            yield state
            advance(rows)

    def fold(
        self,
        table: Table,
        task: Callable[[Batch], Any],
        merge: Callable[[Any, Any], Any],
        columns: Sequence[str] | None,
        advance: Advance,
    ) -> Any:
        read, states = self._read(table, columns), list[Any]()
        if read is None:
            return super().fold(table, task, merge, columns, advance)
        for rows, state in self._runs(read, task, merge):
            states = [merge(states[0], state) if states else state]
            advance(rows)
        return states[0] if states else None

    def write(
        self,
        table: Table,
        task: Callable[[Batch], Made[Any]],
        columns: Sequence[str] | None,
        advance: Advance,
        writing: Writing[Any],
    ) -> Sidecar | None:
        if self._read(table, columns) is not None:
            raise self.refusal()
        return super().write(table, task, columns, advance, writing)

    def adding(
        self, table: Table, task: Callable[[Batch], Made[Any]], names: Sequence[str], schema: pa.Schema
    ) -> Any:
        frame = getattr(table, "frame", None)
        if frame is None:
            return None
        (part,) = FrameTable(frame, {f.name: f.type for f in table.schema}).partitions(names)
        physical = Physical.of(schema, False)
        work = Work(replace(part, frame=None, names=frame.columns), task, None, None, physical)
        struct = StructType([*frame.schema.fields, *physical.struct({}).fields])
        return frame.selectExpr(*plainly(frame.columns)).mapInArrow(lambda batches: work.added(batches), struct)

    def _read(self, table: Table, columns: Sequence[str] | None) -> Any:
        """Return what is read of a table for a pass, or None of one in memory."""
        parts = list(table.partitions(list(table.schema.names if columns is None else columns)))
        return parts[0] if parts and isinstance(parts[0], FrameRows) else None

    def _runs(self, read: Any, task: Any, merge: Any) -> Iterator[tuple[int, Any]]:
        """Yield states that together are those of all rows, with how many rows each has."""
        both = None if merge is None else partial(_both, merge)
        work = Work(replace(read, frame=None, check=None), partial(with_rows, task), both)
        frame = read.frame.selectExpr(*(plainly(read.names) or ["0 as c0"]))
        runs = frame.mapInArrow(lambda batches: work.states(batches), STATES)
        if merge is not None:
            runs = runs.repartition("first").mapInArrow(lambda batches: work.merged(batches), STATES)
        with speaking():
            found = sorted((r.first, bytes(r.state)) for r in runs.collect())
        work.check(dict(found))
        states = [work.unsealed(sealed) for _, sealed in found]
        if read.check is not None:
            read.check(sum(rows for rows, _ in states))
        yield from states


def _both(merge: Callable[[Any, Any], Any], one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
    return one[0] + other[0], merge(one[1], other[1])


def plainly(names: Sequence[str]) -> list[str]:
    """Return expressions for columns by plain names, because mapInArrow finds no others."""
    return [f"`{n.replace('`', '``')}` as c{i}" for i, n in enumerate(names)]


@contextmanager
def speaking() -> Iterator[None]:
    """Turn what Spark says of a job into an error of ours: its own words may be pages."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        text = str(error)
    else:
        return
    if "No module named 'ppdm_cli'" in text or "Cannot run program" in text:
        raise DataError(
            "no-ppdm-on-executors",
            "the executors lack ppdm, or have no Python where this one is",
            "install ppdm and pyspark on all nodes, and set PYSPARK_PYTHON to the Python there that has it",
        )
    if match := _IN_TASK.search(text):
        raise DataError(
            "error-on-executor", f"an error inside ppdm, on an executor ({match[1]})", "report it, without data"
        )
    raise DataError(
        "spark-gave-up",
        "Spark gave the job up",
        "see its log, which the setting spark.log.level=WARN shows here",
    )

"""DataFrames of Spark: releases are mined, trees predict and tables are perturbed where the rows are.

Any session will do, of Spark Connect too, because all that this asks for is `mapInArrow`. Spark computes such a
DataFrame again in each pass. Coins depend on the rows' addresses, so a DataFrame is perturbed only if each row
is one of a Parquet file, which Spark numbers, and they come in its order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as spark
from pyspark.sql.types import StructType

from ppdm_cli.engine.passes import Advance, Batch, Engine, Made, Threads, Writing, is_dataframe, with_rows
from ppdm_cli.engine.spark_tasks import (
    CHANGED,
    PLACE,
    RANGES,
    STATES,
    Known,
    Physical,
    Place,
    Work,
    digest_of,
    row_ranges,
)
from ppdm_cli.engine.spark_types import FileRows, FrameRows, Rows, arrow_type, loaded_here, spark_type
from ppdm_cli.errors import DataError, PpdmError, UsageError, quoted
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Output, Partition, Table, for_spark, normal_schema, rows_per_partition

ROWS_OF_PART = 1 << 20
"""Rows of a shuffled part, about."""
_IN_TASK = re.compile(r"ppdm task: (\w+ at [\w.:]+)")


class FrameTable(Table):
    """A DataFrame of any origin, with the known types of its columns if Spark has them so."""

    name = "the DataFrame"

    def __init__(self, frame: Any, known: Mapping[str, pa.DataType], numbers: Any = None) -> None:
        """Open a DataFrame; `numbers` says which rows of files it has, or None while no pass needs that."""
        self.frame, fields = frame, frame.schema.fields
        self._numbers, self._found = numbers or (lambda *_: None), None
        raw = pa.schema([(f.name, _arrow(f.name, f.dataType, known.get(f.name))) for f in fields])
        self.schema = normal_schema(raw, self.name)
        carried = fields[0].metadata.get("ppdm")
        self.sidecar = None if carried is None else carried.encode()

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        text = [n for n in names if pa.types.is_string(self.schema.field(n).type)]
        if self._found is None:
            self._found = self._numbers(self.frame, rows_per_partition(len(self.schema)))
        if self._found is None:
            load = partial(loaded_here, self.name, names, text, self.schema, {})
            yield FrameRows(self.name, load, None, self.frame, names)
        parts = dict[int, str]()
        for _, file, first, last, rows in self._found or ():
            label = parts.setdefault(file, f"{self.name}, part {len(parts) + 1}")
            load = partial(loaded_here, label, names, text, self.schema, {})
            yield FileRows(label, load, None, file, first, rows, self.frame, last)


def _arrow(name: str, found: Any, known: pa.DataType | None) -> pa.DataType:
    with suppress(PpdmError, StopIteration):
        return known if known is not None and spark_type(known, name) == found else arrow_type(found)
    return pa.binary()  # it may not be read


class FrameEngine(Engine):
    """An engine for passes over DataFrames; threads run those over tables in this process."""

    def __init__(self) -> None:
        self.opens, self._writes = self._open, False

    def _open(self, source: Any, known: Mapping[str, pa.DataType]) -> Table | None:
        if not is_dataframe(source):
            several = source if isinstance(source, (list, tuple)) else [source]
            if not any(isinstance(s, (str, PathLike)) for s in several):
                return None
            what = "Spark Connect gives no files by their names"
            raise UsageError("path-on-connect", what, "use what spark.read.parquet makes of it")
        return FrameTable(source, known, lambda *asked: _numbered(*asked) if self._writes else None)

    def keeps(self, table: Table) -> bool:
        return isinstance(table, FrameTable)

    def destination(self, stack: ExitStack, output: Any = None, *named: Any) -> Output:
        self._numbering(stack)
        return Saved(stack, output, *named)

    def _numbering(self, stack: ExitStack) -> None:
        """Number the rows of DataFrames from now on, as a table is made of them."""
        self._writes = True
        stack.callback(setattr, self, "_writes", False)

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
        """Try a task on all rows and check; its rows are a DataFrame, made again when needed, as they were."""
        read, sidecar = self._read(table, columns), writing.sidecar
        if read is None:
            return super().write(table, task, columns, advance, writing)
        digests = list[bytes]()
        for rows, (state, digest) in self._runs(read, partial(_tried, task), None):
            writing.hear(state)
            digests.append(digest)
            advance(rows)
        sidecar = sidecar and sidecar.of_records(writing.check())
        physical = Physical.of(writing.schema, writing.shuffled)
        inside = for_spark(writing.schema, sidecar.encode() if sidecar else None)
        with self._known(read) as known:
            work = Work(known, task, None, digests, physical)
            made = self._frame(read).mapInArrow(lambda batches: work.again(batches), physical.struct(inside))
        writing.into.frame = shuffled(made, -(-read.rows // ROWS_OF_PART)) if writing.shuffled else made
        return sidecar

    def adding(
        self, table: Table, task: Callable[[Batch], Made[Any]], names: Sequence[str], schema: pa.Schema
    ) -> Any:
        frame = getattr(table, "frame", None)
        if frame is None:
            return None
        part: Any = next(FrameTable(frame, {f.name: f.type for f in table.schema}).partitions(names))
        physical = Physical.of(schema, False)
        work = Work(replace(part, frame=None, names=frame.columns), task, None, None, physical)
        struct = StructType([*frame.schema.fields, *physical.struct({}).fields])
        return frame.selectExpr(*plainly(frame.columns)).mapInArrow(lambda batches: work.added(batches), struct)

    def _read(self, table: Table, columns: Sequence[str] | None) -> Any:
        """Return the columns of a table to read in a pass, or None for one in memory."""
        names = list(table.schema.names if columns is None else columns)
        parts: list[Any] = list(table.partitions(names))
        if not parts or not isinstance(parts[0], (FrameRows, FileRows)):
            return None
        if isinstance(parts[0], FrameRows):
            return parts[0]
        return Read(names, [replace(p, frame=None) for p in parts], parts[0].frame)

    def _frame(self, read: Any) -> Any:
        """Return the columns of a table, then each row's file and its number there."""
        return read.frame.select(*map(spark.expr, plainly(read.names)), *_place(read.frame))

    @contextmanager
    def _known(self, read: Any) -> Iterator[Any]:
        """Yield what the executors know of the partitions."""
        places, first = dict[tuple[Any, int], Place](), 0
        for index, part in enumerate(read.parts):
            places[part.uri, part.first] = index, first, part
            first += part.rows
        yield Known(read.names, places, frozenset(p.uri for p in read.parts))

    def _merged(self, read: Any, runs: Any, work: Work) -> Any:
        """Return states as they come to the driver, where executors may merge some."""
        return runs

    def _runs(self, read: Any, task: Any, merge: Any) -> Iterator[tuple[int, Any]]:
        """Yield the states of runs of partitions in order, with how many rows these have."""
        if isinstance(read, FrameRows):
            yield from self._unordered(read, task, merge)
            return
        if not read.parts:
            return
        with self._known(read) as known, speaking():
            work = Work(known, task, merge)
            runs = self._frame(read).mapInArrow(lambda batches: work.states(batches), STATES)
            found = sorted((r.first, r.last, bytes(r.state)) for r in self._merged(read, runs, work).collect())
        work.check({first: sealed for first, _, sealed in found})
        after = 0
        for first, last, sealed in found:
            if first != after:
                break
            after = last + 1
            yield sum(p.rows for p in read.parts[first:after]), work.unsealed(sealed)
        if after != len(read.parts):
            raise CHANGED

    def _unordered(self, read: FrameRows, task: Any, merge: Any) -> Iterator[tuple[int, Any]]:
        """Yield states that together cover all rows, with the number of rows of each."""
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


class Saved(Output):
    """A DataFrame, or the folder that Spark writes of it and commits, when all checks are passed."""

    def __init__(self, stack: ExitStack, output: Any, sidecar: Any, force: bool, to: Any = None) -> None:
        super().__init__(stack, None)
        if sidecar is not None:
            raise SIDECAR_INSIDE
        if force:
            what = "by Spark Connect nobody sees what else a folder holds"
            raise UsageError("force-on-connect", what, "name another folder, or delete this one first")
        self._named = output

    def fill_frame(self, frame: Any, sidecar: Any = None) -> None:
        self.frame = frame

    def send(self) -> None:
        """Write the folder, if one is named."""
        if self._named is None or self.frame is None:
            return
        with speaking():
            try:
                self.frame.write.mode("error").parquet(str(self._named))  # type: ignore[attr-defined]
            except AnalysisException as error:
                if "PATH_ALREADY_EXISTS" not in str(error):
                    raise
                what = f"the output {quoted(self._named)} exists"
                raise UsageError("output-exists", what, "name another") from None
        self.frame = None


SIDECAR_INSIDE = UsageError(
    "sidecar-of-folder", "a folder has its sidecar in it", "do not say where the sidecar goes"
)


def _tried(task: Callable[[Batch], Made[Any]], batch: Batch) -> tuple[Any, bytes]:
    made = task(batch)
    return made.state, digest_of(made)


@dataclass(frozen=True)
class Read:
    """The part of a table that a pass reads: columns, and partitions in order."""

    names: list[str]
    parts: list[Rows]
    frame: Any = None

    @property
    def rows(self) -> int:
        return sum(p.rows for p in self.parts)


def metadata_of(frame: Any) -> Any:
    """Return the column of each row's file and number there."""
    if hasattr(frame, "metadataColumn"):
        return frame.metadataColumn("_metadata")
    return Column(frame._jdf.metadataColumn("_metadata"))  # Spark 3.5 has it, and its Python does not


def _place(frame: Any) -> tuple[Any, Any]:
    """Return a number for each row's file, and its number there."""
    place = metadata_of(frame)
    return spark.xxhash64(place.getField("file_path")).alias("file"), place.getField("row_index").alias("row")


def _numbered(frame: Any, most: int) -> list[Any]:
    """Return which rows of which files a DataFrame has, in order; refuse one that has a row twice."""
    refusal = UsageError(
        "dataframe-of-no-files",
        "the rows of the DataFrame have no place of their own in Parquet files, as after a sort or a union",
        "write it as Parquet, and give what spark.read.parquet makes of that",
    )
    with speaking():
        try:
            path = metadata_of(frame).getField("file_path").alias("path")
            found = frame.select(path, *_place(frame)).mapInArrow(partial(row_ranges, most), RANGES)
            found = found.collect()
        except AnalysisException:
            raise refusal from None
    order = sorted(found, key=lambda s: (PurePosixPath(unquote(s.path)), s.first))
    ends = dict[int, int]()
    for _, file, first, last, rows in order:
        if rows < 0 or first <= ends.get(file, -1):
            raise refusal
        ends[file] = last
    return order


def shuffled(made: Any, parts: int) -> Any:
    """Return rows in the order of their places, in so many parts."""
    return made.repartition(parts, PLACE).sortWithinPartitions(PLACE).drop(PLACE)


def _both(merge: Callable[[Any, Any], Any], one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
    return one[0] + other[0], merge(one[1], other[1])


def plainly(names: Sequence[str]) -> list[str]:
    """Return expressions for columns by plain names, because mapInArrow finds no others."""
    return [f"`{n.replace('`', '``')}` as c{i}" for i, n in enumerate(names)]


@contextmanager
def speaking() -> Iterator[None]:
    """Turn Spark's message about a job into an error of ours: its own may have pages."""
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
            "error-on-executor",
            f"an error inside ppdm, on an executor ({match[1]})",
            "report it, but without data",
        )
    raise DataError(
        "spark-gave-up",
        "Spark gave the job up",
        "see its log, which the setting spark.log.level=WARN shows here",
    )

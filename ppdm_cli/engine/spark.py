"""Spark: passes over Parquet tables that a cluster reads and writes, by the partitions of one machine.

A row is addressed by its file and its number there, which Spark shows for each row however it splits the files.
With these, executors assemble the partitions of one machine and run the same tasks on them. So a release has
the same cells whatever the splits are, and whatever is run again. The driver holds states, never rows. A state
travels sealed: Spark may write it to a disk, and of an original it holds values.

All secrets of executors reach them inside the function that they run, and nowhere else.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, reduce
from itertools import groupby
from math import isqrt
from os import PathLike
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as spark
from pyspark.sql.types import StructField, StructType

from ppdm_cli.engine import Advance, Batch, Made, Writing
from ppdm_cli.engine.spark_frames import (
    ROWS_OF_PART,
    SIDECAR_INSIDE,
    FrameEngine,
    Read,
    metadata_of,
    plainly,
    shuffled,
    speaking,
)
from ppdm_cli.engine.spark_tables import PartFile, SparkTable, Store, files_of, spelt, understood
from ppdm_cli.engine.spark_tasks import CHANGED, STATES, Known, Physical, Place, StateAccumulator, Work
from ppdm_cli.engine.spark_types import FileRows, Rows
from ppdm_cli.errors import DataError, PpdmError, UsageError, argument, quoted
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import FOLDER_SIDECAR, PARQUET, Output, Table, for_spark, rows_per_partition

_LEAST_SPLIT = 4 << 20
_TOGETHER = 64
"""The most splits whose states the driver merges alone; of more, executors merge some before."""
_PARTITIONS_TOGETHER = 4
"""The number of partitions whose rows one task writes, from several small files."""
_SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 16),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_PART = re.compile(r"part-(\d+)-.*\.parquet")
_OURS = re.compile(r"part-\d+\.parquet|_SUCCESS|_ppdm\.json|\..*\.crc")


class SparkEngine(FrameEngine):
    """Runs passes by a classic session of Spark, whose own settings stay as they are."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        self._context, self._given = session.sparkContext, session
        self._session = SparkSession(self._context, session._jsparkSession.cloneSession())
        for name, value in _SETTINGS.items():
            self._session.conf.set(name, value)
        self._store = Store(self._session)
        self._tables: dict[str, SparkTable] = {}
        """The table of each file."""

    def _open(self, source: object, known: Mapping[str, pa.DataType]) -> Table | None:
        if isinstance(source, DataFrame):
            index = files_of(source)
            if index is None:
                return super()._open(source, known)
            return self._taken(SparkTable(self._store, self._store.sources(index), source))
        several = list(source) if isinstance(source, (list, tuple)) else [source]
        if not several or not all(isinstance(s, str) or hasattr(s, "__fspath__") for s in several):
            return None
        if "-" in map(str, several):
            raise UsageError(
                "stream-on-spark", "a cluster cannot read standard input", "name a folder of Parquet parts"
            )
        return self._taken(SparkTable(self._store, [self._store.source(str(s)) for s in several]))

    def _taken(self, table: SparkTable) -> Table:
        self._tables |= dict.fromkeys(table.uris, table)
        return table

    def destination(
        self, stack: ExitStack, output: Any = None, sidecar: Any = None, force: bool = False, to: Any = None
    ) -> Output:
        if sidecar is not None:
            raise SIDECAR_INSIDE
        self._numbering(stack)
        roots = {r for t in self._tables.values() for r in t.roots}
        return stack.enter_context(Folder(self._store, output, force, roots, self._given))

    def keeps(self, table: Table) -> bool:
        return isinstance(table, SparkTable) or super().keeps(table)

    def write(
        self,
        table: Table,
        task: Callable[[Batch], Made[Any]],
        columns: Sequence[str] | None,
        advance: Advance,
        writing: Writing[Any],
    ) -> Sidecar | None:
        read, into, sidecar = self._read(table, columns), writing.into, writing.sidecar
        assert isinstance(into, Folder)
        if read is None:
            raise UsageError(
                "table-not-on-spark",
                "the table is in this process's memory, and Spark writes only what it reads itself",
                "use its files or spark.createDataFrame(...), or leave out running(engine=...)",
            )
        if read.frame is not None:
            made = super().write(table, task, columns, advance, writing)
            into.fill_frame(into.frame, made)
            return made
        accumulator = self._context.accumulator({}, StateAccumulator())
        inside = None if sidecar is None else msgspec.structs.replace(sidecar, records=None).encode()
        made_of = Physical.of(writing.schema, writing.shuffled)
        rows, begins = (self._frame(read), {}) if writing.shuffled else self._in_order(read)
        with self._known(read, begins) as known, speaking():
            work = Work(known, task, None, accumulator, made_of)
            made = rows.mapInArrow(
                lambda batches: work.made(batches), made_of.struct(for_spark(writing.schema, inside))
            )
            if writing.shuffled:
                parts = max(-(-read.rows // ROWS_OF_PART), self._context.defaultParallelism)
                made = shuffled(made, parts)
            made.write.option("maxRecordsPerFile", "0").parquet(into.hidden)
        states, order = dict(accumulator.value), dict[int, int]()
        accumulator.value = {}
        work.check({index: sealed for index, (_, sealed) in states.items()})
        frame = self._tables[read.parts[0].uri].frame
        if len(states) != len(read.parts):
            raise CHANGED
        if frame is not None and frame.count() != read.rows:
            raise CHANGED  # by Spark's own count, whatever made the DataFrame
        for index, (split, sealed) in sorted(states.items()):
            done, heard = work.unsealed(sealed)
            order.setdefault(split, index)
            writing.hear(heard)
            advance(done)
        records = writing.check()
        if sidecar is not None:
            sidecar = msgspec.structs.replace(sidecar, records=records)
        into.filled(None if writing.shuffled or not order else order, sidecar.encode() if sidecar else None)
        return sidecar

    def _read(self, table: Table, columns: Sequence[str] | None) -> Any:
        names = list(table.schema.names if columns is None else columns)
        parts = list(table.partitions(names))
        if not all(isinstance(p, Rows) and not isinstance(p, FileRows) for p in parts):
            return super()._read(table, columns)
        found = Read(names, parts)  # type: ignore[arg-type]
        rows = 0
        for part in found.parts:
            rows += part.rows
            if part.check is not None:
                part.check(rows)
                rows = 0
        return found

    def _merged(self, read: Any, runs: Any, work: Work) -> Any:
        splits = runs._jdf.queryExecution().toRdd().getNumPartitions()
        if work.merge is None or splits <= _TOGETHER:
            return runs
        wide = -(-len(read.parts) // isqrt(splits))
        near = (spark.col("first") / spark.lit(wide)).cast("long")
        return runs.repartition(isqrt(splits), near).mapInArrow(lambda batches: work.merged(batches), STATES)

    def _tables_of(self, read: Read) -> list[SparkTable]:
        return list({id(t): t for t in (self._tables[p.uri] for p in read.parts)}.values())

    def _frame(
        self, read: Read, some: Sequence[PartFile] | None = None, session: SparkSession | None = None
    ) -> DataFrame:
        """Return the columns of a table or of some of its files, then each row's file and its number there."""
        if read.frame is not None:
            return super()._frame(read)
        tables = self._tables_of(read)
        roots = {r: folder for t in tables for r, folder in t.named.items()}
        if some is not None:
            roots = {f.name: False for f in some}
        types = tables[0].types
        reader = (session or self._session).read.option("recursiveFileLookup", "true")
        if any(roots.values()):
            reader = reader.option("pathGlobFilter", "*" + PARQUET.suffixes[0])
        schema = StructType([StructField(n, t) for n, t in types.items()])
        frame = reader.schema(schema).parquet(*map(spelt, roots))
        place = metadata_of(frame)
        own = [n for n in read.names if n in types]
        return frame.select(
            *map(spark.expr, plainly(own)),
            place.getField("file_path").alias("file"),
            place.getField("row_index").alias("row"),
        )

    @contextmanager
    def _known(self, read: Read, begins: Mapping[int, int] | None = None) -> Iterator[Any]:
        """Yield the partitions in the form for executors."""
        if read.frame is not None:
            with super()._known(read) as known:
                yield known
            return
        places: dict[tuple[str, int], Place] = {}
        files = {u: _spellings(u) for u in {p.uri for p in read.parts}}
        first = 0
        for index, part in enumerate(read.parts):
            for file in files[part.uri]:
                if (file, part.first) in places:
                    raise UsageError(
                        "file-read-twice", f"{quoted(part.file)} is read twice", "name each file once"
                    )
                places[file, part.first] = index, first, part
            first += part.rows
        names = [n for n in read.names if n in self._tables[read.parts[0].uri].types]
        every = frozenset[str]().union(*files.values())
        known = self._context.broadcast(Known(names, places, every, begins or {}))
        try:
            yield known
        finally:
            known.destroy()

    def _in_order(self, read: Read) -> tuple[DataFrame, dict[int, int]]:
        """Return a table in splits of rows that follow each other: a part of a file, or several small files.

        Also the first partition of such files for each of theirs, because Spark brings the largest file first.
        """
        tables = self._tables_of(read)
        most = self._context._jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(
            self._session.conf.get("spark.sql.files.maxPartitionBytes")
        )
        share = sum(t.size for t in tables) // self._context.defaultParallelism
        each = min(most, max(_LEAST_SPLIT, share))
        rows = _PARTITIONS_TOGETHER * rows_per_partition(len(tables[0].schema))
        files = {p.uri: p for t in tables for p in t.parts}
        runs, size, count = list[tuple[list[PartFile], list[int]]](), 0, 0
        for uri, own in groupby(enumerate(read.parts), key=lambda numbered: numbered[1].uri):
            numbers, parts = zip(*own, strict=True)
            file, of_file = files[uri], sum(p.rows for p in parts)
            if not runs or size + file.size // 2 > each or count + of_file > rows:
                runs.append(([], []))
                size, count = 0, 0
            runs[-1][0].append(file)
            runs[-1][1].extend(numbers)
            size, count = size + file.size, count + of_file
        packed, alone = [r for r in runs if len(r[0]) > 1], [r[0][0] for r in runs if len(r[0]) == 1]
        whole = self._splitting(2 * each + most, 0)
        frames = [self._frame(read, some, whole) for some, _ in packed]
        if alone:
            frames.append(self._frame(read, alone if packed else None, self._splitting(each, each)))
        begins = {n: numbers[0] for _, numbers in packed for n in numbers}
        return reduce(DataFrame.union, frames), begins

    def _splitting(self, most: int, cost: int) -> SparkSession:
        """Return a session whose splits have at most so many bytes; each file adds a fixed cost."""
        session = SparkSession(self._context, self._session._jsparkSession.cloneSession())
        session.conf.set("spark.sql.files.maxPartitionBytes", str(most))
        session.conf.set("spark.sql.files.openCostInBytes", str(cost))
        session.conf.set("spark.sql.files.minPartitionNum", "1")
        return session


def _spellings(uri: str) -> set[str]:
    """Return the forms of a file's name in Spark: plain, or a URI with or without an empty host."""
    short = uri.replace(":///", ":/", 1)
    return {uri, short, unquote(uri), unquote(short)}


class Folder(Output):
    """A folder of parts that Spark writes under a hidden name; it is renamed when all is in it.

    A folder without a name is in the session's warehouse. It comes back as a DataFrame, and ends with the
    driver.
    """

    def __init__(self, store: Store, uri: Any, force: bool, read: Iterable[str], session: Any) -> None:
        self.frame, self.folder, self.targets = None, None, [self]  # type: ignore[list-item]
        self._managed_by = session if uri is None else None
        if uri is None:
            uri = f"{session.conf.get('spark.sql.warehouse.dir')}/ppdm-{secrets.token_hex(6)}"
        self._named, self._force, self._store = str(uri), force, store
        self.path = None
        if str(uri) == "-":
            raise UsageError("folder-wanted", "Spark writes to a folder", "name the folder")
        if not isinstance(uri, (str, PathLike)):
            raise UsageError(
                "no-name-of-a-folder",
                f"an object of type {type(uri).__name__} is not the name of a folder",
                "name the folder",
            )
        self._system, self._path = store.at(self._named)
        name = str(self._path.toString()).rstrip("/")
        for root in read:
            if f"{name}/".startswith(f"{root}/") or f"{root}/".startswith(f"{name}/"):
                raise UsageError(
                    "output-is-input", f"the output {quoted(uri)} is also the input", "name another output"
                )
        self._check_free()
        hidden = f".{self._path.getName()[:80]}.{secrets.token_hex(6)}.ppdm-part"
        parent = name.rpartition("/")[0]
        self.hidden, self._kept = f"{parent}/{hidden}", f"{parent}/{hidden}.old"
        self._full, self._aside = False, False

    def _check_free(self) -> None:
        with understood(self._named):
            if not self._system.exists(self._path):
                return
            if not self._force:
                raise UsageError(
                    "output-exists",
                    f"the output {quoted(self._named)} exists",
                    f"name another, or add {argument('force', True)}",
                )
            there = self._system.listStatus(self._path)
            if self._system.getFileStatus(self._path).isFile() or not all(
                s.isFile() and _OURS.fullmatch(s.getPath().getName()) for s in there
            ):
                raise UsageError(
                    "foreign-folder",
                    f"the output {quoted(self._named)} is not a folder that Spark and ppdm wrote",
                    "name another",
                )

    def send(self) -> None:
        """Do nothing, because all is in its place."""

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Py4JJavaError):
            self._system.delete(self._store.at(self.hidden)[1], True)

    def fill_frame(self, frame: Any, sidecar: Sidecar | None = None) -> None:
        """Write a DataFrame, whose rows have no order."""
        with speaking():
            frame.write.parquet(self.hidden)
        self.filled(None, sidecar.encode() if sidecar else None)
        self.frame = None

    def filled(self, order: Mapping[int, int] | None, sidecar: bytes | None) -> None:
        """Give the parts names in the order of their rows, and add the sidecar."""
        system, hidden = self._store.at(self.hidden)
        with understood(self._named):
            found = {}
            for status in system.listStatus(hidden):
                name = status.getPath().getName()
                if match := _PART.fullmatch(name):
                    found[int(match[1])] = status.getPath()
            numbers = sorted(found, key=lambda p: p if order is None else order.get(p, -1))
            kept = [p for p in numbers if order is None or p in order]
            for number in numbers:
                if number not in kept:
                    system.delete(found[number], False)
            for place, number in enumerate(kept):
                into = self._store.at(f"{self.hidden}/part-{place:05d}{PARQUET.suffixes[0]}")[1]
                if not system.rename(found[number], into):
                    raise _unwritable(self._named, "a part cannot be renamed")
            if sidecar is not None:
                stream = system.create(self._store.at(f"{self.hidden}/{FOLDER_SIDECAR}")[1], False)
                try:
                    stream.write(sidecar)
                finally:
                    stream.close()
            self._without_checksums(hidden)
        self._full = True

    def _without_checksums(self, folder: Any) -> None:
        """Delete the files of checksums that a local disk has beside the parts: readers take them for parts."""
        if not hasattr(self._system, "getRawFileSystem"):
            return
        for status in self._system.getRawFileSystem().listStatus(folder):
            if status.getPath().getName().endswith(".crc"):
                self._system.getRawFileSystem().delete(status.getPath(), False)

    def set_aside(self, undo: list[Any]) -> None:
        if not self._full:
            return
        with understood(self._named):
            if self._force and self._system.exists(self._path):
                self._rename(self._path, self._store.at(self._kept)[1])
                self._aside = True
                undo.append(partial(self._rename, self._store.at(self._kept)[1], self._path))

    def place(self, undo: list[Any]) -> None:
        if not self._full:
            return
        with understood(self._named):
            if self._system.exists(self._path):
                raise UsageError(
                    "output-of-another-run",
                    f"the output {quoted(self._named)} was made by another run in the meantime",
                    "run this again, or name another",
                )
            hidden = self._store.at(self.hidden)[1]
            self._rename(hidden, self._path)
        undo.append(partial(self._rename, self._path, hidden))
        if self._managed_by is not None:
            self._system.deleteOnExit(self._path)
            self.frame = self._managed_by.read.parquet(spelt(str(self._path)))

    def forget(self) -> None:
        if self._aside:
            with suppress(Py4JJavaError):
                self._system.delete(self._store.at(self._kept)[1], True)

    def _rename(self, one: Any, other: Any) -> None:
        if not self._system.rename(one, other):
            raise _unwritable(self._named, "it cannot be renamed")


def _unwritable(uri: str, what: str) -> PpdmError:
    return DataError(
        "unwritable-folder", f"{quoted(uri)} cannot be written: {what}", "name a folder that you can write to"
    )

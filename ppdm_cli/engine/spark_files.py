"""Tables where Spark finds them, and a folder of Parquet parts that appears there whole or not at all.

Everything goes through the Hadoop classes in the session's JVM, so that any URI works that Spark reads. Of the
data the driver reads nothing but the footers of files: they tell the columns, and the same partitions and row
numbers as on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import types as spark

from ppdm_cli import dtypes
from ppdm_cli.errors import DataError, PpdmError, RefusedError, UsageError, quoted
from ppdm_cli.releases import check_same, cut
from ppdm_cli.sidecar import SUFFIX, decode
from ppdm_cli.tables import (
    FOLDER_SIDECAR,
    PARQUET,
    Footer,
    ParquetTable,
    Partition,
    check_text,
    format_of,
    normal_schema,
    normalised,
    rows_per_partition,
)

_TAIL, _AT_ONCE = 1 << 16, 16
"""Bytes of a file's end that are read first; files that are opened at the same time."""
_TYPES = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.date32(): spark.DateType(),
}
HERE: list[pa.Table] = []
"""On an executor: the rows of the partition that is worked on, as Spark brought them."""


def spark_type(kind: pa.DataType, name: str) -> Any:
    """Return the type in which Spark has a column of a normal type: nanoseconds as whole numbers."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return spark.LongType()
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pa.types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if kind not in _TYPES:
        raise RefusedError(
            f"the column {quoted(name)} is of type {kind}, which Spark does not have",
            "cast it to a number or to text, or --drop it",
        )
    return _TYPES[kind]


def arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type in which an executor hands over a column of one of Spark's types."""
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, (spark.TimestampType, spark.TimestampNTZType)):
        return pa.timestamp("us", "UTC" if isinstance(kind, spark.TimestampType) else None)
    return next(a for a, s in _TYPES.items() if s == kind)


class Part(NamedTuple):
    """A file of a table: under its root, by its full name, and as Spark tells of it with each row."""

    under: PurePosixPath
    name: str
    uri: str
    size: int


class Store:
    """The file systems that a session knows."""

    def __init__(self, session: Any) -> None:
        self._jvm = session.sparkContext._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()

    def at(self, uri: str) -> tuple[Any, Any]:
        """Return a file system, and the path in it."""
        with understood(uri):
            path = self._jvm.org.apache.hadoop.fs.Path(uri)
            system = path.getFileSystem(self._conf)
            if not path.isAbsolute() and system.getUri().getScheme() == "file":  # the JVM stays where it began
                path = self._jvm.org.apache.hadoop.fs.Path(str(Path.cwd() / uri))
            return system, system.makeQualified(path)

    def parts(self, uri: str) -> tuple[str, bool, list[Part]]:
        """Return the full name of a file or folder, whether it is a folder, and its Parquet files in order."""
        system, path = self.at(uri)
        root = str(path.toString())
        with understood(uri):
            status = system.getFileStatus(path)
            if status.isFile():
                if format_of(Path(path.getName())) is not PARQUET:
                    raise _no_rows(uri)
                uri = str(path.toUri().toString())
                return root, False, [Part(PurePosixPath(path.getName()), root, uri, status.getLen())]
            found, files = list[Part](), system.listFiles(path, True)
            while files.hasNext():
                status = files.next()
                name = str(status.getPath().toString())
                under = PurePosixPath(name[len(root.rstrip("/")) + 1 :])
                hidden = any(p.startswith((".", "_")) for p in under.parts)
                if under.name.endswith(PARQUET.suffixes) and not hidden:
                    found.append(Part(under, name, str(status.getPath().toUri().toString()), status.getLen()))
        if not found:
            raise _no_rows(uri)
        return root, True, sorted(found)

    def footer(self, part: Part, label: str) -> Footer:
        system, path = self.at(part.name)
        with understood(label):
            stream = system.open(path)
            try:
                end = self._end(stream, part.size, _TAIL)
                length = int.from_bytes(end[-8:-4], "little") + 8
                if length > len(end):
                    end = self._end(stream, part.size, length)
            finally:
                stream.close()
        return Footer.read(pa.BufferReader(end), label, part.size)

    def _end(self, stream: Any, size: int, length: int) -> bytes:
        length = min(size, length)
        stream.seek(size - length)
        return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, length))

    def content(self, uri: str) -> bytes | None:
        """Return what is in a small file, or None if there is none."""
        system, path = self.at(uri)
        with understood(uri):
            if not system.exists(path):
                return None
            stream = system.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()


class SparkTable(ParquetTable):
    """Parquet files and folders that executors read; its partitions are those of one machine."""

    def __init__(self, store: Store, sources: Sequence[str], only: Sequence[str] | None = None) -> None:
        """Open what is named, with all columns or `only` some, in their order."""
        found = [store.parts(s) for s in sources]
        self.roots = {root: folder for root, folder, _ in found}
        """The full names of what was named, and whether each is a folder."""
        self._parts = [p for _, _, parts in found for p in parts]
        self.uris, self.size = [p.uri for p in self._parts], sum(p.size for p in self._parts)
        labels = [
            _label(source, number, part if folder else None)
            for source, (_, folder, parts) in zip(sources, found, strict=True)
            for number, part in enumerate(parts, 1)
        ]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            footers = list(pool.map(store.footer, self._parts, labels))
        alone = len(sources) == 1
        root: Any = PurePosixPath(".") if alone and found[0][1] else None
        super().__init__([p.under for p in self._parts], root, labels, footers)  # type: ignore[misc]
        self.name, self.files = str(sources[0]), ()
        self.types = self._spark_types(footers[0])
        if only is not None:
            self.schema = pa.schema([self.schema.field(n) for n in only])
        if alone:
            self.sidecar = self._sidecar(store, *found[0][:2])

    def _sidecar(self, store: Store, root: str, folder: bool) -> bytes | None:
        """Return the sidecar, of which the parts of a folder have all but the number of records."""
        beside = store.content(f"{root}/{FOLDER_SIDECAR}") if folder else None
        beside = store.content(root + SUFFIX) if beside is None else beside
        if self.sidecar is None or beside is None:
            if folder and self.sidecar is not None and decode(self.sidecar, self.name).records is None:
                raise cut(self.name)
            return self.sidecar or beside
        check_same(decode(beside, self.name), decode(self.sidecar, self.name), self.name, self.name)
        return beside

    def _spark_types(self, footer: Footer) -> dict[str, Any]:
        """Return the types in which Spark reads columns; what it cannot read may yet be dropped."""
        physical = footer.metadata.schema
        raw, found = physical.to_arrow_schema(), dict[str, Any]()
        for place in range(len(raw)):
            name, kind = raw.field(place).name, raw.field(place).type
            with suppress(PpdmError):
                kind = kind if pa.types.is_decimal(kind) else dtypes.normal(kind, name)
                old = pa.types.is_timestamp(kind) and physical.column(place).physical_type == "INT96"
                found[name] = spark.TimestampType() if old else spark_type(kind, name)
        return found

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        own = [n for n in names if n in self._own_names]
        for name in own:
            if name not in self.types:
                spark_type(self.schema.field(name).type, name)
        rows = rows_per_partition(len(self.schema))
        text = [n for n in own if pa.types.is_string(self.schema.field(n).type)]
        for part, metadata, label, index in zip(
            self._parts, self._metadata, self._labels, range(len(self._parts)), strict=True
        ):
            keys = {n: (self._keys[n][index], self.schema.field(n).type) for n in names if n not in own}
            load, first = partial(_loaded, label, own, text, self.schema, keys), 0
            for group in range(metadata.num_row_groups):
                length = metadata.row_group(group).num_rows
                for start in range(0, length, rows):
                    yield Rows(label, load, None, part.uri, first + start, min(rows, length - start))
                first += length


class FrameTable:
    """A DataFrame that is not files: its rows have no numbers, and come in any order."""

    rewindable, sidecar, rows, name = True, None, None, "the DataFrame"
    numbered = False
    files: tuple[Path, ...] = ()
    roots: Mapping[str, bool] = {}
    size = 0

    def __init__(self, frame: Any, number: int) -> None:
        self.frame, self.uris = frame, [f"DataFrame {number}"]
        self.types = {f.name: f.dataType for f in frame.schema}
        raw = pa.schema([pa.field(n, _to_arrow(t)) for n, t in self.types.items()])
        self.schema = normal_schema(raw, self.name)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        yield Rows(self.name, partial(_loaded, self.name, names, [], self.schema, {}), None, self.uris[0])


def _to_arrow(kind: Any) -> pa.DataType:
    try:
        return arrow_type(kind)
    except StopIteration:  # it may yet be dropped
        return pa.binary()


def files_of(frame: Any) -> list[str] | None:
    """Return the files and folders whose rows a DataFrame has, if it has all of them, unchanged."""
    plan = frame._jdf.queryExecution().optimizedPlan()

    def is_a(thing: Any, kind: str) -> bool:
        return bool(thing.getClass().getSimpleName() == kind)

    if is_a(plan, "Project"):
        chosen = plan.projectList()
        if not all(is_a(chosen.apply(i), "AttributeReference") for i in range(chosen.size())):
            return None
        plan = plan.child()
    relation = plan.relation() if is_a(plan, "LogicalRelation") else None
    if relation is None or not is_a(relation, "HadoopFsRelation"):
        return None
    files = relation.location()
    if not (is_a(relation.fileFormat(), "ParquetFileFormat") and is_a(files, "InMemoryFileIndex")):
        return None
    roots = files.rootPaths()
    return [str(roots.apply(i).toString()) for i in range(roots.size())]


@dataclass(frozen=True)
class Rows(Partition):
    """A partition that an executor loads, once Spark has brought its rows there."""

    uri: str = ""
    first: int = 0
    """How many rows of its file come before."""
    rows: int = 0


def _loaded(
    label: str,
    names: Sequence[str],
    text: Sequence[str],
    schema: pa.Schema,
    keys: Mapping[str, tuple[Any, pa.DataType]],
) -> pa.RecordBatch:
    """Return the rows that Spark brought as one machine would have loaded them."""
    brought = HERE[-1]
    chosen = brought.select(list(names))
    check_text(chosen, text, label)
    batch = normalised(chosen, schema)
    if not keys:
        return batch
    own = [pa.repeat(pa.scalar(value, kind), brought.num_rows) for value, kind in keys.values()]
    return pa.RecordBatch.from_arrays([*batch.columns, *own], names=[*names, *keys])


def _label(source: str, number: int, part: Part | None) -> str:
    """Return how messages call a file: by its number where the names of its folders may be cells."""
    if part is None:
        return source
    if "=" in str(part.under.parent):
        return f"{source}, part {number}"
    return f"{source.rstrip('/')}/{part.under}"


@contextmanager
def understood(uri: str) -> Iterator[None]:
    """Turn what a file system says into an error of ours."""
    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getSimpleName()
        if kind == "FileNotFoundException":
            raise DataError(f"{quoted(uri)} does not exist", "check its name") from None
        if kind in ("UnsupportedFileSystemException", "ClassNotFoundException") or "scheme" in str(
            error.java_exception.getMessage()
        ):
            raise UsageError(
                f"Spark knows no file system for {quoted(uri)}",
                "give Spark the package that has it, by the setting spark.jars.packages",
            ) from None
        raise DataError(
            f"{quoted(uri)} cannot be used ({kind})", "check its name and rights, and what Spark was given"
        ) from None


def _no_rows(uri: str) -> PpdmError:
    return UsageError(
        f"{quoted(uri)} has no Parquet: in no other format do rows have a number that a cluster agrees on",
        "name a Parquet file or a folder of them, or do this on one machine",
    )

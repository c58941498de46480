"""Tables that Spark reads. The ends of their files tell the columns, and the partitions of one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions
from pyspark.sql import types as spark

from ppdm_cli import dtypes, files
from ppdm_cli.engine.spark_store import Part, Source, Store
from ppdm_cli.errors import DataError, PpdmError, RefusedError, UsageError, listed, quoted
from ppdm_cli.releases import check_same, cut, decode
from ppdm_cli.sidecar import SUFFIX
from ppdm_cli.tables import (
    FOLDER_SIDECAR,
    Footer,
    ParquetTable,
    Partition,
    Table,
    check_text,
    normal_batch,
    normal_schema,
    rows_per_partition,
)

_AT_ONCE = 16
"""Files that are opened at the same time."""
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


class SparkTable(ParquetTable):
    """Parquet files and folders that executors read; its partitions are those of one machine."""

    def __init__(self, store: Store, sources: Sequence[Source], frame: Any = None) -> None:
        """Open what is named, or what a DataFrame reads: its columns, in their order."""
        self.frame = frame
        self.roots = {s.root: s.folder for s in sources}
        """The full names of what was named, and whether each is a folder."""
        self._parts = [p for s in sources for p in s.parts]
        self.named = self.roots if all(s.whole for s in sources) else {p.name: False for p in self._parts}
        """The same of what names all of its files and no others to Spark."""
        self.uris, self.size = [p.uri for p in self._parts], sum(p.size for p in self._parts)
        labels = [
            _label(source.named, number, part if source.folder else None)
            for source in sources
            for number, part in enumerate(source.parts, 1)
        ]
        files.check_once((p.local, label) for p, label in zip(self._parts, labels, strict=True))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            footers = list(pool.map(store.footer, self._parts, labels))
        alone = len(sources) == 1
        keyed = (alone and sources[0].folder) or frame is not None
        root: Any = PurePosixPath(".") if keyed else None
        super().__init__([p.under for p in self._parts], root, labels, footers)  # type: ignore[misc]
        self.name, self.files = sources[0].named, ()
        self.types = self._spark_types(footers[0])
        if frame is not None:
            if lacking := [n for n in frame.columns if n not in self.schema.names]:
                raise UsageError(
                    f"the DataFrame has columns that its files lack, by a schema of its own: {listed(lacking)}",
                    "give what spark.read.parquet makes of the files, without a schema",
                )
            self.schema = pa.schema([self.schema.field(n) for n in frame.columns])
        if alone:
            self.sidecar = self._sidecar(store, sources[0].root, sources[0].folder)

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


class FrameTable(Table):
    """A DataFrame that is not files: its rows have no numbers, and come in any order."""

    name, numbered = "the DataFrame", False
    roots: Mapping[str, bool] = {}
    size = 0

    def __init__(self, frame: Any, number: int) -> None:
        self.frame, self.uris = frame, [f"DataFrame {number}"]
        self.types = {f.name: f.dataType for f in frame.schema}
        raw = pa.schema([pa.field(n, _to_arrow(t)) for n, t in self.types.items()])
        self.schema = normal_schema(raw, self.name)

    def digest(self) -> object:
        """Compute all rows, and return their number and a sum that differs where they do, in any order."""
        columns = [functions.col(f"`{f.name.replace('`', '``')}`") for f in self.frame.schema]
        readable = [c for c, f in zip(columns, self.frame.schema, strict=True) if f.dataType in _TYPES.values()]
        row = functions.xxhash64(*readable, *(c.isNull() for c in readable)).cast("decimal(20,0)")
        try:
            return tuple(self.frame.agg(functions.count("*"), functions.sum(row)).collect()[0])
        except (Py4JError, PySparkException):  # its message may quote cells
            raise DataError("the DataFrame cannot be computed", "count it first to see why") from None

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        yield Rows(self.name, partial(_loaded, self.name, names, [], self.schema, {}), None, self.uris[0])


def _to_arrow(kind: Any) -> pa.DataType:
    try:
        return arrow_type(kind)
    except StopIteration:  # it may yet be dropped
        return pa.binary()


def files_of(frame: Any) -> Any:
    """Return Spark's list of the files whose rows a DataFrame has, if it has all of them, unchanged."""
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
    index = relation.location()
    if not (is_a(relation.fileFormat(), "ParquetFileFormat") and is_a(index, "InMemoryFileIndex")):
        return None
    return index


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
    batch = normal_batch(chosen, schema)
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

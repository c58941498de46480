"""Types and partitions for Spark's passes, on executors and by Spark Connect too: nothing here needs a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from ppdm_cli.engine import Batch
from ppdm_cli.errors import RefusedError, argument, quoted
from ppdm_cli.tables import Partition, check_text, normal_batch

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
"""The rows of the current partition on an executor, as Spark brought them."""


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
            "type-not-in-spark",
            f"the column {quoted(name)} is of type {kind}, which Spark does not have",
            f"cast it to a number or to text, or add {argument('drop', name)}",
        )
    return _TYPES[kind]


def arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type in which an executor returns a column of one of Spark's types."""
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, (spark.TimestampType, spark.TimestampNTZType)):
        return pa.timestamp("us", "UTC" if isinstance(kind, spark.TimestampType) else None)
    return next(a for a, s in _TYPES.items() if s == kind)


@dataclass(frozen=True)
class Rows(Partition):
    """A partition that an executor loads, once Spark has brought its rows there."""

    uri: str = ""
    first: int = 0
    """The number of rows of its file before it."""
    rows: int = 0

    @property
    def last(self) -> int:
        """Return the number of its last row."""
        return self.first + self.rows - 1

    def batch(self, index: int, first: int) -> Batch:
        return Batch(self.load(), index, first, quoted(self.file), self.first)

    def where(self, row: int) -> str:
        return f"row {self.first + row + 1} of {quoted(self.file)}"


@dataclass(frozen=True)
class FileRows(Rows):
    """A partition of a DataFrame, of rows that Spark numbers in a file; it may leave some of them out."""

    frame: Any = None
    end: int = 0

    @property
    def last(self) -> int:
        """Return the number of its last row, between which and the first some may be left out."""
        return self.end

    def batch(self, index: int, first: int) -> Batch:
        return _Unnumbered(self.load(), index, first, self.file, 0)

    def where(self, row: int) -> str:
        return f"a row of {self.file}"


@dataclass(frozen=True)
class FrameRows(Partition):
    """All rows of a DataFrame: Spark may give them in another order each time, so they have no numbers."""

    frame: Any = None
    names: Sequence[str] = ()
    """The columns that Spark brings."""

    def batch(self, index: int, first: int) -> Batch:
        return _Unnumbered(self.load(), index, first, self.file, 0)

    def where(self, row: int) -> str:
        return f"a row of {self.file}"


class _Unnumbered(Batch):
    """Some rows of a DataFrame: their addresses serve to draw some of them in one pass, and nothing else."""

    def where(self, row: int) -> str:
        return f"a row of {self.file}"


def loaded_here(
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

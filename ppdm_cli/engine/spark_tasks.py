"""Tasks on an executor of Spark: it assembles partitions, runs the task, and returns rows or states.

An error that a person can act on goes to the driver as a state would. For any other only its kind and place go
there, because its message may quote a cell and Spark writes it down.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from ppdm_cli import dtypes
from ppdm_cli.coins import Key
from ppdm_cli.engine import Batch, Made
from ppdm_cli.engine.spark_types import HERE, FrameRows, Rows, arrow_type, spark_type
from ppdm_cli.errors import DataError, Options, PpdmError, options_in_use, place_of, worded_by
from ppdm_cli.tables import MOST_ROWS, RowTrouble

STATES = StructType(
    [
        StructField("first", LongType(), False),
        StructField("last", LongType(), False),
        StructField("state", BinaryType(), False),
    ]
)
RANGES = StructType(
    [
        StructField("path", StringType(), False),
        StructField("file", LongType(), False),
        StructField("first", LongType(), False),
        StructField("last", LongType(), False),
        StructField("rows", LongType(), False),
    ]
)
PLACE = "ppdm_place"
_BITS_OF_SPLIT = 40
"""The bits of a row's number in a split of a DataFrame, more than any split needs."""
CHANGED = DataError("file-changed", "a file changed while it was read", "run this again when it is finished")


Place = tuple[int, int, Rows]
"""A partition with its number, and the number of rows of the table before it."""


class Known(NamedTuple):
    """The public facts about a table that executors have."""

    names: list[str]
    places: Mapping[tuple[Any, int], Place]
    """Partitions by their file and the number of their first row there."""
    files: frozenset[Any]
    begins: Mapping[int, int] = {}
    """The first partition of the small files that a split has, by each of their partitions."""

    @property
    def value(self) -> Known:
        """Return itself, as a broadcast of it does."""
        return self


class StateAccumulator:
    """Spark accumulator of per-partition states; re-run tasks overwrite instead of adding."""

    def zero(self, value: object) -> dict[int, Any]:
        return {}

    def addInPlace(self, one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:  # noqa: N802 - Spark's
        one.update(other)
        return one


class _Trouble(NamedTuple):
    """An error that a person can act on, and that no other attempt would avoid."""

    kind: type[PpdmError]
    id: str
    what: str
    next_step: str


@dataclass(frozen=True)
class Physical:
    """Columns as an executor hands them to Spark."""

    names: list[str]
    types: list[Any]
    shuffled: bool

    @classmethod
    def of(cls, schema: pa.Schema, shuffled: bool) -> Physical:
        return cls(list(schema.names), [spark_type(f.type, f.name) for f in schema], shuffled)

    def struct(self, metadata: dict[str, str]) -> StructType:
        """Return the schema, whose first column has the states."""
        fields = [StructField(n, t, True) for n, t in zip(self.names, self.types, strict=True)]
        fields[0] = StructField(self.names[0], self.types[0], True, metadata)
        return StructType(fields + [StructField(PLACE, LongType(), False)] * self.shuffled)

    def batch(self, made: Made[Any]) -> pa.RecordBatch:
        columns = [
            dtypes.normal_column(dtypes.plain(c), arrow_type(t), n)
            for n, t, c in zip(self.names, self.types, made.rows.columns, strict=True)
        ]
        names = list(self.names)
        if self.shuffled:
            assert made.places is not None
            columns, names = [*columns, pa.array(made.places.view(np.int64))], [*names, PLACE]
        return pa.RecordBatch.from_arrays(columns, names=names)


@dataclass(frozen=True)
class Work:
    """A task for an executor: it runs on each partition of a split, or on rows as they come."""

    known: Any
    """The broadcast of the facts about a table, or a placeholder for the rows of a DataFrame."""
    task: Callable[[Batch], Any]
    merge: Callable[[Any, Any], Any] | None
    reported: Any = None
    """The accumulator of states, or the digests of partitions that were made before."""
    physical: Physical | None = None
    options: Options | None = field(default_factory=options_in_use)
    key: bytes = field(default_factory=lambda: Key.fresh().secret, repr=False)
    """The key that seals states on their way, because those of an original hold values."""

    def states(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a state for each run of partitions that follow each other."""
        return self._joined((index, index, state) for index, state in self._done(batches))

    def merged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the states of longer runs."""
        rows = sorted(tuple(r.values()) for b in batches for r in b.to_pylist())
        return self._joined((first, last, self.unsealed(sealed)) for first, last, sealed in rows)

    def _joined(self, runs: Iterable[tuple[int, int, Any]]) -> Iterator[pa.RecordBatch]:
        """Merge the states of runs that follow each other, if they can be merged; an error stays alone."""
        run: tuple[int, int, Any] | None = None
        for first, last, state in runs:
            follows = run is not None and (run[1] + 1 == first or isinstance(self.known, FrameRows))
            if run is not None and self.merge is not None and follows and min(first, run[0] + 1) > 0:
                run = run[0], last, self.merge(run[2], state)
                continue
            if run is not None:
                yield self._row(*run)
            run = first, last, state
        if run is not None:
            yield self._row(*run)

    def made(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the task makes, in order, and report on them once Spark has taken them."""
        assert self.physical is not None
        context = TaskContext.get()
        assert context is not None
        waiting, following = dict[int, Any](), -1
        for index, made in self._done(batches, self.physical.batch):
            if index < 0:
                self.reported.add({index: (context.partitionId(), self.sealed(made))})
                return
            if following < 0 or self.physical.shuffled:
                following = index if self.physical.shuffled else self.known.value.begins.get(index, index)
            waiting[index] = made
            while following in waiting:
                batch, heard = waiting.pop(following)
                yield batch
                self.reported.add({following: (context.partitionId(), self.sealed((batch.num_rows, heard)))})
                following += 1

    def _done(self, batches: Iterable[pa.RecordBatch], handed: Any = None) -> Iterator[tuple[int, Any]]:
        """Yield each partition's number and the task's result for it; last an error, with a number below 0."""
        index = 0
        try:
            for (index, first, part), brought in self._brought(batches):
                HERE[:] = [brought]
                with worded_by(self.options):
                    done = self.task(part.batch(index, first))
                yield index, done if handed is None else (handed(done), done.state)
        except RowTrouble as trouble:
            what = f"{part.where(trouble.row)}: {trouble.what}"
            yield -1 - index, _Trouble(DataError, trouble.id, what, trouble.next_step)
        except PpdmError as error:
            yield -1 - index, _Trouble(type(error), error.id, error.what, error.next_step)
        except Exception as error:  # never its message, which may quote a cell and would be in Spark's logs
            raise RuntimeError(f"ppdm task: {type(error).__name__} at {place_of(error)}") from None
        finally:
            HERE.clear()

    def again(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the task made when it was tried, or raise."""
        assert self.physical is not None
        for index, made in self._done(batches):
            self.check({index: self.sealed(made)} if index < 0 else {})
            if digest_of(made) != self.reported[index]:
                raise CHANGED
            yield self.physical.batch(made)

    def added(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they came, with the columns that the task makes of them."""
        assert self.physical is not None
        for index, made in self._done(batches):
            self.check({index: self.sealed(made)} if index < 0 else {})
            (rows,) = HERE
            for name, column in zip(self.physical.names, self.physical.batch(made).columns, strict=True):
                rows = rows.append_column(name, column)
            yield from rows.to_batches()

    def _brought(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, pa.Table]]:
        if isinstance(self.known, FrameRows):
            return _as_they_come(self.known, batches)
        return _partitions(self.known.value, batches)

    def _row(self, first: int, last: int, state: object) -> pa.RecordBatch:
        columns = [pa.array([first]), pa.array([last]), pa.array([self.sealed(state)], pa.binary())]
        return pa.RecordBatch.from_arrays(columns, names=STATES.names)

    def sealed(self, state: object) -> bytes:
        nonce = Key.fresh().secret[:12]
        return nonce + AESGCM(self.key).encrypt(nonce, pickle.dumps(state, 5), None)

    def check(self, states: Mapping[int, bytes]) -> None:
        """Raise the first error that occurred, if any."""
        if states and min(states) < 0:
            trouble = self.unsealed(states[max(i for i in states if i < 0)])
            raise trouble.kind(trouble.id, trouble.what, trouble.next_step)

    def unsealed(self, sealed: bytes) -> Any:
        return pickle.loads(AESGCM(self.key).decrypt(sealed[:12], sealed[12:], None))


def _partitions(known: Known, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Place, pa.Table]]:
    """Put partitions together from Spark's batches, which may begin and end anywhere."""
    names, places, files, _ = known
    waiting: list[pa.RecordBatch] = []
    place, file, missing = None, "", 0
    for batch in batches:
        file_of, row_of = batch.columns[-2:]
        start = 0
        while start < batch.num_rows:
            if place is None:
                file = file_of[start].as_py()
                if file not in files:  # it has come since
                    start += pc.sum(pc.equal(file_of.slice(start), file)).as_py()
                    continue
                place = places.get((file, row_of[start].as_py()))
                missing = 0 if place is None else place[2].rows
            rows = min(max(missing, 1), batch.num_rows - start)
            end = start + rows - 1
            if place is None or {file_of[start].as_py(), file_of[end].as_py()} != {file}:
                raise CHANGED
            if rows == missing and row_of[end].as_py() != place[2].last:
                raise CHANGED
            waiting.append(batch.slice(start, rows))
            missing, start = missing - rows, start + rows
            if not missing:
                whole = pa.Table.from_batches(waiting)
                yield place, whole.select(range(len(names))).rename_columns(names)
                waiting, place = [], None
    if place is not None:
        raise CHANGED


def digest_of(made: Made[Any]) -> bytes:
    """Return a digest of rows by which they are known again."""
    return blake2b(made.rows.serialize(), digest_size=16).digest()


def row_ranges(most: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield runs of at most so many rows that ascend in a file; -1 rows where a file's rows do not ascend."""
    run, files = ("", 0, 0, -1, 0), set[int]()
    for batch in filter(len, batches):
        path_of, file_of, row_of = batch.columns
        own, rows = file_of.to_numpy(), row_of.to_numpy()
        starts = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
        for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            path, file, first, last, held = run
            new = own[start] != file or not files
            steps = np.diff(rows[start:end], prepend=-1 if new else last)
            if (steps < 1).any() or (new and own[start] in files):
                yield _range(("", 0, 0, -1, -1))
                return
            files.add(int(own[start]))
            while start < end:
                if new or held == most:
                    if held:
                        yield _range((path, file, first, last, held))
                    path, file, first, held = path_of[start].as_py(), int(own[start]), int(rows[start]), 0
                taken, new = min(most - held, int(end - start)), False
                start, held = start + taken, held + taken
                last = int(rows[start - 1])
            run = path, file, first, last, held
    if run[-1]:
        yield _range(run)


def _range(run: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(RANGES.names, run, strict=True))])


def _as_they_come(
    part: FrameRows, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[tuple[int, int, FrameRows], pa.Table]]:
    """Join Spark's batches to larger ones; their rows are numbered from the split's number alone."""
    context = TaskContext.get()
    assert context is not None
    first, waiting, rows = context.partitionId() << _BITS_OF_SPLIT, list[pa.RecordBatch](), 0
    for batch in chain(batches, [None]):
        if batch is not None:
            waiting.append(batch)
            rows += batch.num_rows
        if rows >= (MOST_ROWS >> 2 if batch is not None else 1):
            whole = pa.Table.from_batches(waiting).select(range(len(part.names)))
            yield (first, first, part), whole.rename_columns(list(part.names))
            first, waiting, rows = first + rows, [], 0

"""Formats for all tables: a registry of records, each made in a file of its own, and helpers of their writers.

Nothing outside that file asks which format a table has, or spells its suffixes.
"""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.sidecar import SUFFIX
from ppdm_cli.tables.atomic import PendingFile
from ppdm_cli.tables.base import Item, Result, Table, rows_per_partition, threads
from ppdm_cli.tables.csv_options import CsvOptions


class Files(NamedTuple):
    """The parts of a table; messages call them by their labels, as a folder's name may be a cell."""

    paths: Sequence[Path]
    labels: Sequence[str]
    root: Path | None
    """The named folder, if the parts were found in it."""
    form: Format


class Writer(ABC):
    """The protocol of writers of one table's record batches; as contexts they abandon it after an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abandon()

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None: ...

    @abstractmethod
    def close(self, sidecar: bytes | None) -> None:
        """Finish the file; a format that holds its sidecar inside takes it now, with the number of records."""

    def abandon(self) -> None:  # noqa: B027 - most have nothing to do
        """Abandon a file that will never be whole, so that Python does not end it later."""


@dataclass(frozen=True)
class Format:
    """One format: how it is read and written, and how a sidecar travels with it."""

    name: str
    """Its name in messages; in lower case, the name of its stream for --from and --to."""
    suffixes: tuple[str, ...]
    open: Callable[[Files, CsvOptions], Table]
    writer: Callable[[IO[bytes], pa.Schema, str, bytes | None], Writer]
    """Make a writer from the file, the schema, the file's name ("" is a stream), and the first sidecar."""
    sidecar: Literal["inside", "only inside", "start", "beside"]
    """The place of the sidecar: inside when all is written, at the start of the data, or only beside: then it
    has a digest of the bytes.

    One that is not only inside is also beside.
    """
    open_stream: Callable[[IO[bytes], str, CsvOptions], Table] | None = None
    """A function that opens a stream by its name, if the format can be read from start to end."""
    parts: Literal["one", "several", "folder"] = "one"
    """The parts of a table: one file, one or several, or also a folder of them."""
    sniffed: bool = False
    """True if the dialect of a file must be detected first."""
    text_as_dictionaries: bool = False
    """True if all text columns of its partitions are dictionaries."""
    holds: Callable[[Path], bool] = lambda path: False
    """A function that recognises a table by its files, not by its suffix."""
    pending: Callable[[Path, bool], PendingFile] = PendingFile
    """A function from a name and --force to the file that is filled and then put in its place."""


FORMATS: list[Format] = []
"""All formats, in the order in which messages name them."""


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of all formats."""
    return tuple(s for f in FORMATS for s in f.suffixes)


def format_of(path: Path) -> Format:
    """Return the format that a file's suffix names."""
    name = path.name.lower()
    for form in FORMATS:
        if name.endswith(form.suffixes):
            return form
    what, step = f"{quoted(path.name)} has no suffix of a known format", f"use one of {', '.join(suffixes())}"
    if name.endswith(SUFFIX):
        what, step = (
            f"{quoted(path.name)} is a sidecar",
            f"name the data file: {quoted(path.name[: -len(SUFFIX)])}",
        )
    if name.endswith((".xlsx", ".xls", ".xlsm", ".ods")):
        what = f"{quoted(path.name)} can't be used: spreadsheets aren't supported"
        step = "use a .csv, as spreadsheet programs export it"
    raise UsageError("unknown-suffix", what, step)


def stream_format(name: str | None) -> Format:
    """Return the format of a standard stream: the named one, or Arrow."""
    streams = {f.name.lower(): f for f in FORMATS if f.open_stream is not None}
    if (name or "arrow") not in streams:
        step = f"use {' or '.join(sorted(streams))}"
        raise UsageError("unknown-stream", f"{quoted(name)} is not a format of a stream", step)
    return streams[name or "arrow"]


class RowGroupWriter(Writer, ABC):
    """Writes batches of any size in groups of one fixed size: no byte depends on the input's partitions."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file, self._schema = file, schema
        self._size = rows_per_partition(len(schema))
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        while self._rows + batch.num_rows >= self._size:
            room = self._size - self._rows
            self._append(batch.slice(0, room))
            self._end_group()
            batch = batch.slice(room)
        if batch.num_rows:
            self._append(batch)

    def _append(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows

    def _end_group(self) -> None:
        if self._rows:
            self._write_group(pa.Table.from_batches(self._waiting))
        self._waiting, self._rows = [], 0

    @abstractmethod
    def _write_group(self, table: pa.Table) -> None: ...


class InOrder(Generic[Result]):
    """Work in threads of a writer, whose results are used in the order of the work.

    One more thread uses them, but not for a stream: its reader may never read on, and only the caller's thread
    can be interrupted.
    """

    def __init__(self, use: Callable[[Result], object], stream: bool = False) -> None:
        self._use, self._stream, self._most = use, stream, threads()
        self._unused = deque[Future[Any]]()
        self._workers = ThreadPoolExecutor(self._most, thread_name_prefix="ppdm-encoding")
        self._user = ThreadPoolExecutor(1, thread_name_prefix="ppdm-writing")

    def add(self, work: Callable[[Item], Result], item: Item) -> None:
        done, before = self._workers.submit(work, item), [*self._unused][-1:]
        self._unused.append(done if self._stream else self._user.submit(self._use_after, before, done))
        self._wait(self._most)

    def _use_after(self, before: Sequence[Future[Any]], done: Future[Result]) -> None:
        for each in before:
            each.result()  # after an error no result is used
        self._use(done.result())

    def _wait(self, most: int) -> None:
        """Wait until at most so many results are unused."""
        while len(self._unused) > most:
            found = self._unused.popleft().result()
            if self._stream:
                self._use(found)

    def finish(self) -> None:
        self._wait(0)
        self.abandon()

    def abandon(self) -> None:
        for pool in (self._workers, self._user):
            pool.shutdown(cancel_futures=True)


def bared(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in memory of its own: Arrow would publish what is under nulls, and beside a slice."""
    if pa.types.is_dictionary(column.type):
        return dictionary_free(column)
    return column.take(pa.array(np.arange(len(column))))


def dictionary_free(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return plain values, without any value that isn't in the rows."""
    return pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column


class Digesting(io.RawIOBase):
    """Passes bytes on and digests them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._target = file
        self.hash = hashlib.blake2b(digest_size=32)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.hash.update(data)  # type: ignore[arg-type]
        return self._target.write(data)  # type: ignore[call-overload]

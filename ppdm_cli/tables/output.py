"""Output of tables, with their sidecar if they have one: a file, standard output, or a frame.

Rows in a random order are scattered into spooled buckets, each sorted on its way out. A row's position is a
64-bit number from the coins, so the order is a uniformly random permutation (ties have probability below rows^2
/ 2^65) and the same for any number of threads. Only published data are ever spooled, in files without a name.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Self, cast

import msgspec
import numpy as np
import pyarrow as pa

from ppdm_cli import files
from ppdm_cli.errors import DataError
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables.atomic import PendingFile, placed, spool, writing
from ppdm_cli.tables.base import MOST_ROWS
from ppdm_cli.tables.formats import Digesting, Format, bared, format_of, stream_format
from ppdm_cli.tables.opening import sidecar_path
from ppdm_cli.tables.stores import StorePath, path_of

if TYPE_CHECKING:
    from polars import DataFrame

_PLACE = "place"
_MOST_BUCKETS = 255
"""The most files open at once, rounded up to 256: systems allow 1,024."""


class Output:
    """One destination, checked before any work is done; written whole or not at all.

    A table without a sidecar removes an old one. CSV on standard output has a sidecar only if a file is named
    for it. A table that is not `spooled` goes to standard output while it is made.
    """

    def __init__(
        self,
        stack: ExitStack,
        output: str | Path | None,
        sidecar: str | Path | None = None,
        force: bool = False,
        to: Literal["arrow", "csv"] | None = None,
        *,
        spooled: bool = True,
    ) -> None:
        self.frame: DataFrame | None = None
        self.folder: Path | None = None
        self.targets: list[PendingFile] = []
        """The data's file, then the sidecar's."""
        self._standard: IO[bytes] | None = None
        self._form: Format | None = None
        self._file: IO[bytes] | None = None
        self._name = Path("standard output")
        self._beside: PendingFile | None = None
        self._only_inside = False
        if output is None:
            return
        beside = path_of(sidecar) if sidecar is not None else None
        if str(output) == "-":
            self._form = stream_format(to)
            self._standard = _standard_output()
            with writing(Path("temporary file")):
                self._file = stack.enter_context(spool()) if spooled else self._standard
        else:
            self._name = path_of(output)
            self._form = format_of(self._name)
            self._only_inside = beside is None and self._form.sidecar == "only inside"
            beside = beside or sidecar_path(self._name)
            data = stack.enter_context(self._form.pending(self._name, force))
            self.targets.append(data)
            self._file = data.file
            self.folder = None if isinstance(data.path, StorePath) else data.path.parent
        if beside is not None:
            self._beside = stack.enter_context(PendingFile(beside, force, sidecar=True))
            self.targets.append(self._beside)

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, sidecar: Sidecar, check: Callable[[], int]
    ) -> Sidecar:
        """Write everything, check, and only then commit it.

        `check` is called when all batches have passed: it raises, or returns the number of records.
        """
        filled = self.fill(batches, schema, sidecar, check)
        assert filled is not None
        commit(self)
        return filled

    def fill(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        sidecar: Sidecar | None = None,
        check: Callable[[], int] = lambda: 0,
    ) -> Sidecar | None:
        """Write everything, and check: then `commit` puts it in its place."""
        if self._form is None or self._file is None:
            rows = list(batches)
            records = check()
            import polars as pl

            plain = [pa.Table.from_batches([r]).cast(schema) for r in rows]
            whole = pa.concat_tables([schema.empty_table(), *plain])
            self.frame = pl.DataFrame(pa.table([bared(c) for c in whole.columns], schema=schema))
            return sidecar.of_records(records) if sidecar else None
        encoded = sidecar.encode() if sidecar else None
        file = cast(IO[bytes], Digesting(self._file)) if self._form.sidecar == "beside" else self._file
        name = "" if self._standard else self._name.name
        with writing(self._name), self._form.writer(file, schema, name, encoded) as writer:
            for batch in batches:
                writer.write(batch)
            records = check()
            if sidecar and self._form.sidecar != "start":
                sidecar = sidecar.of_records(records)
            writer.close(sidecar.encode() if sidecar else None)
        if sidecar and isinstance(file, Digesting):
            sidecar = msgspec.structs.replace(sidecar, blake2b=file.hash.hexdigest())
        if self._standard is None:
            self.targets[0].flush()
        if sidecar is not None and self._beside is not None and not self._only_inside:
            self._beside.put(sidecar.encode())
        return sidecar

    def send(self) -> None:
        if self._standard is None:
            return
        assert self._file is not None
        with writing(self._name):
            if self._file is not self._standard:
                self._file.seek(0)
                shutil.copyfileobj(self._file, self._standard, 1 << 20)
            self._standard.flush()

    def fill_frame(self, frame: DataFrame | pa.Table, sidecar: Sidecar | None = None) -> None:
        table = frame if isinstance(frame, pa.Table) else frame.to_arrow()
        self.fill(table.to_batches(), table.schema, sidecar, lambda: table.num_rows)


def commit(*outputs: Output | PendingFile) -> None:
    """Put all filled files in their places, standard output last, or leave everything as it was."""
    with placed(*(t for o in outputs for t in (o.targets if isinstance(o, Output) else [o]))):
        for output in outputs:
            if isinstance(output, Output):
                output.send()


def _standard_output() -> IO[bytes]:
    """Return standard output as a file that writes all it gets: in unbuffered Python it may write a part."""
    if sys.stdout is None:
        raise DataError("closed-output", "standard output is closed", "name a file, or open it")
    out: IO[bytes] = sys.stdout.buffer
    if isinstance(out, io.RawIOBase):
        out = open(out.fileno(), "wb", closefd=False)  # noqa: SIM115 - not ours to close
    with writing(Path("standard output")), suppress(io.UnsupportedOperation):
        os.write(out.fileno(), b"")  # a closed one is found before any work
    with suppress(OSError):  # in a notebook it is not a file
        files.claim(out.fileno(), "standard output")
    return out


class Shuffler:
    """Takes batches with a place for each row, gives them back in the order of the places."""

    def __init__(self, schema: pa.Schema, rows: int | None, folder: Path | None) -> None:
        wanted = _MOST_BUCKETS if rows is None else rows // MOST_ROWS + 1
        self._bits = min(wanted, _MOST_BUCKETS).bit_length()
        self._schema = schema.append(pa.field(_unused(schema), pa.uint64()))
        self._folder = folder
        with writing(_spool_name(folder)), ExitStack() as stack:
            self._files = [stack.enter_context(spool(folder)) for _ in range(1 << self._bits)]
            self._stack = stack.pop_all()
        self._writers: list[pa.RecordBatchStreamWriter] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, batch: pa.RecordBatch, places: np.ndarray) -> None:
        buckets = (places >> np.uint64(64 - self._bits)).astype(np.uint8)
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(1 << self._bits), side="right")
        columns = [*batch.columns, pa.array(places)]
        if not self._writers:
            self._schema = pa.schema([_spooled(f, c.type) for f, c in zip(self._schema, columns, strict=True)])
            with writing(_spool_name(self._folder)):
                self._writers = [pa.ipc.new_stream(f, self._schema) for f in self._files]
        whole = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        sorted_ = whole.take(pa.array(order))
        with writing(_spool_name(self._folder)):
            for bucket, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
                if end > start:
                    self._writers[bucket].write_batch(sorted_.slice(start, end - start))

    def batches(self) -> Iterator[pa.RecordBatch]:
        with writing(_spool_name(self._folder)):
            for writer, file in zip(self._writers, self._files, strict=False):
                writer.close()
                file.flush()
                file.seek(0)
        for file in self._files if self._writers else ():
            bucket = pa.ipc.open_stream(file).read_all()
            file.close()
            if bucket.num_rows:
                order = np.argsort(bucket.column(self._schema.names[-1]).to_numpy(), kind="stable")
                rows = bucket.take(pa.array(order)).combine_chunks().to_batches()
                for batch in rows:
                    yield pa.RecordBatch.from_arrays(batch.columns[:-1], names=batch.schema.names[:-1])


def _spooled(field: pa.Field, kind: pa.DataType) -> pa.Field:
    """Return a spool's column, as codes if it comes as codes; labels of text may differ between batches."""
    codes = pa.types.is_dictionary(kind) and not pa.types.is_string(kind.value_type)
    return field.with_type(kind) if codes else field


def _spool_name(folder: Path | None) -> Path:
    return files.TEMPORARY.get() or folder or Path("the folder for temporary files")


def _unused(schema: pa.Schema) -> str:
    name = _PLACE
    while name in schema.names:
        name += "_"
    return name

"""Where a table goes, with its sidecar if it has one: a file, standard output, or a frame in memory."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import pyarrow as pa

from ppdm_cli import files
from ppdm_cli.errors import DataError
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables.atomic import PendingFile, placed, spool, writing
from ppdm_cli.tables.formats import Format, format_of, stream_format
from ppdm_cli.tables.opening import check_local, sidecar_path
from ppdm_cli.tables.writers import Digesting, bared


class Output:
    """One destination, checked before any work is done; written whole or not at all.

    A table without a sidecar takes an old one away. CSV on standard output has a sidecar only where a file
    is named for it. A table that is not `spooled` goes to standard output as it is made.
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
        self.frame: Any = None
        self.folder: Path | None = None
        self.targets: list[PendingFile] = []
        """The data's file, then the sidecar's."""
        self._standard: IO[bytes] | None = None
        self._form: Format | None = None
        self._file: IO[bytes] | None = None
        self._name = Path("standard output")
        self._beside: PendingFile | None = None
        if output is None:
            return
        check_local(output)
        beside = Path(sidecar) if sidecar is not None else None
        if str(output) == "-":
            self._form = stream_format(to)
            self._standard = _standard_output()
            with writing(Path("temporary file")):
                self._file = stack.enter_context(spool()) if spooled else self._standard
        else:
            self._name = Path(output)
            self._form = format_of(self._name)
            beside = beside or sidecar_path(self._name)
            data = stack.enter_context(PendingFile(self._name, force))
            self.targets.append(data)
            self._file, self.folder = data.file, data.path.parent
        if beside is not None:
            self._beside = stack.enter_context(PendingFile(beside, force, sidecar=True))
            self.targets.append(self._beside)

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, sidecar: Sidecar, check: Callable[[], int]
    ) -> Sidecar:
        """Write everything, check, and only then commit it.

        `check` is called when all batches have passed: it raises, or says how many records there are.
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
            return msgspec.structs.replace(sidecar, records=records) if sidecar else None
        encoded = sidecar.encode() if sidecar else None
        file: Any = Digesting(self._file) if self._form.sidecar == "beside" else self._file
        name = "" if self._standard else self._name.name
        with writing(self._name), self._form.writer(file, schema, name, encoded) as writer:
            for batch in batches:
                writer.write(batch)
            records = check()
            if sidecar and self._form.sidecar != "start":
                sidecar = msgspec.structs.replace(sidecar, records=records)
            writer.close(sidecar.encode() if sidecar else None)
        if sidecar and isinstance(file, Digesting):
            sidecar = msgspec.structs.replace(sidecar, blake2b=file.hash.hexdigest())
        if self._standard is None:
            self.targets[0].flush()
        if sidecar is not None and self._beside is not None:
            self._beside.put(sidecar.encode())
        return sidecar

    def send(self) -> None:
        """Send all that goes to standard output."""
        if self._standard is None:
            return
        assert self._file is not None
        with writing(self._name):
            if self._file is not self._standard:
                self._file.seek(0)
                shutil.copyfileobj(self._file, self._standard, 1 << 20)
            self._standard.flush()

    def fill_frame(self, frame: Any, sidecar: Sidecar) -> None:
        """Write a result table, a polars DataFrame."""
        table = frame.to_arrow()
        self.fill(table.to_batches(), table.schema, sidecar, lambda: table.num_rows)


def commit(*outputs: Output | PendingFile) -> None:
    """Put all that were filled in their places, or leave everything as it was.

    What goes to standard output comes last, so that whoever reads it has its sidecar.
    """
    with placed(*(t for o in outputs for t in (o.targets if isinstance(o, Output) else [o]))):
        for output in outputs:
            if isinstance(output, Output):
                output.send()


def _standard_output() -> IO[bytes]:
    """Return standard output as a file that takes all it is given: in unbuffered Python it may take a part."""
    if sys.stdout is None:
        raise DataError("standard output is closed", "name a file, or open it")
    out: IO[bytes] = sys.stdout.buffer
    if isinstance(out, io.RawIOBase):
        out = open(out.fileno(), "wb", closefd=False)  # noqa: SIM115 - not ours to close
    with writing(Path("standard output")), suppress(io.UnsupportedOperation):
        os.write(out.fileno(), b"")  # a closed one is found before any work
    with suppress(OSError):  # in a notebook it is not a file
        files.claim(out.fileno(), "standard output")
    return out

"""Where a table goes, with its sidecar if it has one: a file, standard output, or a frame in memory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import pyarrow as pa

from ppdm_cli.errors import UsageError
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables.formats import Format, format_of
from ppdm_cli.tables.opening import sidecar_path
from ppdm_cli.tables.replacing import Target, check_sidecar, spool, writing
from ppdm_cli.tables.writing import bared, open_writer


class Output:
    """One destination, checked before any work is done; written whole or not at all.

    A table that is not `promised` anything has no sidecar; an old one is removed. One that is not
    `spooled` goes to standard output as it is made.
    """

    def __init__(
        self,
        stack: ExitStack,
        output: str | Path | None,
        sidecar: str | Path | None = None,
        force: bool = False,
        to: Literal["arrow", "csv"] | None = None,
        inputs: Sequence[Path] = (),
        *,
        promised: bool = True,
        spooled: bool = True,
    ) -> None:
        self.frame: Any = None
        self._said: Sidecar | None = None
        self._spooled = spooled
        self._sidecar_path = Path(sidecar) if sidecar is not None else None
        self._target: Target | None = None
        self.folder: Path | None = None
        self._form: Format | None = None
        self._file: IO[bytes] | None = None
        if output is None:
            return
        if str(output) == "-":
            self._form = Format.CSV if to == "csv" else Format.STREAM
            if self._form is Format.CSV and sidecar is None and promised:
                raise UsageError(
                    "CSV on standard output carries no sidecar",
                    "say where it goes: --sidecar FILE, or of reconstruct --output-sidecar FILE",
                )
            if self._sidecar_path is not None:
                check_sidecar(self._sidecar_path, Path("/dev/stdout"), force, inputs)
            if not spooled:
                self._file = sys.stdout.buffer
                return
            with writing(Path("temporary file")):
                self._file = stack.enter_context(spool())
            return
        path = Path(output)
        self._form = format_of(path)
        self._sidecar_path = sidecar_path(path, self._sidecar_path)
        self._target = stack.enter_context(Target(path, force, inputs))
        check_sidecar(self._sidecar_path, path, force, inputs)
        self._file, self.folder = self._target.file, self._target.path.parent

    @property
    def paths(self) -> list[Path]:
        """What will be written."""
        data = [self._target.path] if self._target is not None else []
        return [p.resolve() for p in (*data, self._sidecar_path) if p is not None]

    def write(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, sidecar: Sidecar, check: Callable[[], int]
    ) -> Sidecar:
        """Write everything, check, and only then publish.

        `check` is called when all batches have passed: it raises, or says how many records there are.
        """
        said = self.fill(batches, schema, sidecar, check)
        assert said is not None
        self.publish()
        return said

    def fill(
        self,
        batches: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        sidecar: Sidecar | None = None,
        check: Callable[[], int] = lambda: 0,
    ) -> Sidecar | None:
        """Write everything, and check: then `publish` puts it in its place."""
        if self._form is None or self._file is None:
            rows = list(batches)
            records = check()
            import polars as pl

            plain = [pa.Table.from_batches([r]).cast(schema) for r in rows]
            whole = pa.concat_tables([schema.empty_table(), *plain])
            self.frame = pl.DataFrame(pa.table([bared(c) for c in whole.columns], schema=schema))
            return msgspec.structs.replace(sidecar, records=records) if sidecar else None
        path = self._target.path if self._target else Path("standard output")
        encoded = sidecar.encode() if sidecar else None
        with writing(path), open_writer(self._file, self._form, schema, encoded) as writer:
            for batch in batches:
                writer.write(batch)
            records = check()
            if sidecar and self._form is not Format.ARROW and self._form is not Format.STREAM:
                sidecar = msgspec.structs.replace(sidecar, records=records)
            writer.close(sidecar.encode() if sidecar else None)
        digest = writer.digest()
        if sidecar and digest is not None:
            sidecar = msgspec.structs.replace(sidecar, blake2b=digest)
        if self._target is not None:
            self._target.flush()
        self._said = sidecar
        return sidecar

    def publish(self) -> None:
        """What was filled, in its place."""
        if self._target is not None:
            assert self._sidecar_path is not None
            self._target.publish(self._said.encode() if self._said else None, self._sidecar_path)
        elif not self._spooled:
            with writing(Path("standard output")):
                sys.stdout.buffer.flush()
        elif self._file is not None:
            self._to_standard_output(self._said)

    def _to_standard_output(self, sidecar: Sidecar | None) -> None:
        """The sidecar first, so that whoever reads the data has it; it goes if they do not arrive."""
        assert self._file is not None
        if sidecar is not None and self._sidecar_path is not None:
            with Target(self._sidecar_path, force=True) as beside:
                with writing(self._sidecar_path):
                    beside.file.write(sidecar.encode())
                beside.flush()
                beside.rename()
        try:
            self._file.seek(0)
            with writing(Path("standard output")):
                shutil.copyfileobj(self._file, sys.stdout.buffer, 1 << 20)
                sys.stdout.buffer.flush()
        except BaseException:
            if sidecar is not None and self._sidecar_path is not None:
                self._sidecar_path.unlink(missing_ok=True)
            raise


def write_frame(
    frame: Any, sidecar: Sidecar, path: str | Path, force: bool = False, inputs: Sequence[Path] = ()
) -> None:
    """A result table, a polars DataFrame, with its sidecar."""
    with ExitStack() as stack:
        target = Output(stack, path, force=force, inputs=inputs)
        fill_frame(target, frame, sidecar)
        target.publish()


def fill_frame(target: Output, frame: Any, sidecar: Sidecar) -> None:
    table = frame.to_arrow()
    target.fill(table.to_batches(), table.schema, sidecar, lambda: table.num_rows)

"""Where a release goes: a file, standard output, or a frame in memory; whole or not at all."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import pyarrow as pa

from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing.substitution import Checks, Done
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Format, Table, Target, format_of, open_writer, sidecar_path
from ppdm_cli.tables.replacing import check_sidecar, spool, writing
from ppdm_cli.tables.writing import bared


class Output:
    """One destination, checked before any work is done."""

    def __init__(
        self,
        stack: ExitStack,
        output: str | Path | None,
        sidecar: str | Path | None,
        force: bool,
        to: Literal["arrow", "csv"] | None,
        table: Table,
    ) -> None:
        self.frame: Any = None
        self._sidecar_path = Path(sidecar) if sidecar is not None else None
        self._target: Target | None = None
        self.folder: Path | None = None
        self._form: Format | None = None
        self._file: IO[bytes] | None = None
        if output is None:
            return
        if str(output) == "-":
            self._form = Format.CSV if to == "csv" else Format.STREAM
            if self._form is Format.CSV and sidecar is None:
                raise UsageError(
                    "CSV on standard output carries no sidecar", "say where it goes: --sidecar FILE"
                )
            if self._sidecar_path is not None:
                check_sidecar(self._sidecar_path, Path("/dev/stdout"), force, table.files)
            with writing(Path("temporary file")):
                self._file = stack.enter_context(spool())
            return
        path = Path(output)
        self._form = format_of(path)
        self._sidecar_path = sidecar_path(path, self._sidecar_path)
        self._target = stack.enter_context(Target(path, force, table.files))
        check_sidecar(self._sidecar_path, path, force, table.files)
        self._file, self.folder = self._target.file, self._target.path.parent

    def write(
        self, batches: Iterator[Done], schema: pa.Schema, release: Sidecar, checks: Checks, check: Any
    ) -> Sidecar:
        """Write everything, check, and only then publish."""
        if self._form is None or self._file is None:
            rows = [one.batch for one in batches]
            check()
            import polars as pl

            plain = [pa.Table.from_batches([r]).cast(schema) for r in rows]
            whole = pa.concat_tables([schema.empty_table(), *plain])
            self.frame = pl.DataFrame(pa.table([bared(c) for c in whole.columns], schema=schema))
            return msgspec.structs.replace(release, records=checks.rows)
        path = self._target.path if self._target else Path("standard output")
        with writing(path), open_writer(self._file, self._form, schema, release.encode()) as writer:
            for one in batches:
                writer.write(one.batch)
            if self._form is not Format.ARROW and self._form is not Format.STREAM:
                release = msgspec.structs.replace(release, records=checks.rows)
            check()
            writer.close(release.encode())
        digest = writer.digest()
        if digest is not None:
            release = msgspec.structs.replace(release, blake2b=digest)
        if self._target is not None:
            assert self._sidecar_path is not None
            self._target.publish(release.encode(), self._sidecar_path)
            return release
        self._to_standard_output(release)
        return release

    def _to_standard_output(self, release: Sidecar) -> None:
        """The sidecar first, so that whoever reads the data has it; it goes if they do not arrive."""
        assert self._file is not None
        if self._sidecar_path is not None:
            with Target(self._sidecar_path, force=True) as beside:
                with writing(self._sidecar_path):
                    beside.file.write(release.encode())
                beside.flush()
                beside.rename()
        try:
            self._file.seek(0)
            with writing(Path("standard output")):
                shutil.copyfileobj(self._file, sys.stdout.buffer, 1 << 20)
                sys.stdout.buffer.flush()
        except BaseException:
            if self._sidecar_path is not None:
                self._sidecar_path.unlink(missing_ok=True)
            raise

"""Arrow IPC files and streams."""

from __future__ import annotations

from typing import IO

import pyarrow as pa

from ppdm_cli.sidecar import METADATA_KEY
from ppdm_cli.tables.formats import Format
from ppdm_cli.tables.memory import open_ipc_file, open_ipc_stream
from ppdm_cli.tables.writers import Grouped, bared, dictionary_free


class ArrowWriter(Grouped):
    """One file or stream of record batches, its sidecar in the schema, plain values only."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None) -> None:
        super().__init__(file, schema)
        self._schema = schema.with_metadata({METADATA_KEY: sidecar} if sidecar is not None else None)
        new = pa.ipc.new_file if name else pa.ipc.new_stream
        self._writer = new(file, self._schema)

    def _write_group(self, table: pa.Table) -> None:
        columns = [bared(dictionary_free(c)) for c in table.combine_chunks().columns]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self, sidecar: bytes | None) -> None:
        self._end_group()
        self._writer.close()


ARROW = Format(
    "Arrow",
    (".arrow", ".feather"),
    lambda files, options: open_ipc_file(files.paths[0]),
    ArrowWriter,
    sidecar="start",
    open_stream=lambda stream, name, options: open_ipc_stream(stream, name),
)

"""A format of tables in one file, which no other file knows: what adding one takes.

JSON, a record a line.
"""

from __future__ import annotations

import io
from typing import IO

import polars as pl
import pyarrow as pa

from ppdm_cli.tables import ArrowTable, CsvOptions, Files, Format, Writer


def opened(files: Files, options: CsvOptions) -> ArrowTable:
    """Read a whole file; the types that a sidecar or an owner gives come before those that are seen."""
    raw = pl.read_ndjson(files.paths[0], infer_schema_length=None).to_arrow()
    kinds = {f.name: f.type for f in raw.schema} | dict(options.known) | dict(options.types)
    table = raw.cast(pa.schema([(n, kinds[n]) for n in raw.column_names]))
    name = files.labels[0]
    return ArrowTable(
        name, table.schema, lambda: iter(table.to_batches()), table.num_rows, True, (files.paths[0],)
    )


class LinesWriter(Writer):
    """Writes a record a line."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        text = io.BytesIO()
        frame = pl.from_arrow(pa.Table.from_batches([batch]))
        assert isinstance(frame, pl.DataFrame)
        frame.write_ndjson(text)
        self._file.write(text.getvalue())

    def close(self, sidecar: bytes | None) -> None:
        pass


LINES = Format("JSON lines", (".jsonl",), opened, LinesWriter, sidecar="beside")

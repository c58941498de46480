"""What the writers of all formats share: groups of a fixed size, values without what surrounds them."""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli.tables.base import rows_per_partition
from ppdm_cli.tables.formats import Writer


class RowGroupWriter(Writer, ABC):
    """Takes batches of any size and writes them on in groups of one fixed size.

    So the bytes do not depend on how the input was cut.
    """

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


def bared(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column in memory of its own, with its values and nothing else.

    Arrow would publish what stands under nulls, and pad with the rows that follow those of a slice.
    """
    return column.take(pa.array(np.arange(len(column))))


def dictionary_free(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return plain values: no other value goes along than those of the rows."""
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

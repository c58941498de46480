"""Rows in a random order, out of memory: scattered into spooled buckets, each sorted on its way out.

A row's place is a 64-bit number from the coins, so the order is a uniformly random permutation (ties
have probability below rows^2 / 2^65) and the same for any number of threads. Only what is published
is ever spooled, in files without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from ppdm_cli.tables.atomic import spool, writing
from ppdm_cli.tables.base import MOST_ROWS

_PLACE = "place"
_MOST_BUCKETS = 255
"""Files open at once, rounded up to 256: systems allow 1,024."""


class Shuffler:
    """Takes batches with a place for each row, gives them back in the order of the places."""

    def __init__(self, schema: pa.Schema, rows: int | None, folder: Path | None) -> None:
        wanted = _MOST_BUCKETS if rows is None else rows // MOST_ROWS + 1
        self._bits = min(wanted, _MOST_BUCKETS).bit_length()
        self._schema = schema.append(pa.field(_unused(schema), pa.uint64()))
        self._folder = folder
        with writing(_place(folder)), ExitStack() as stack:
            self._files = [stack.enter_context(spool(folder)) for _ in range(1 << self._bits)]
            self._stack = stack.pop_all()
        self._writers = [pa.ipc.new_stream(f, self._schema) for f in self._files]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, batch: pa.RecordBatch, places: np.ndarray) -> None:
        buckets = (places >> np.uint64(64 - self._bits)).astype(np.uint16)
        order = np.argsort(buckets, kind="stable")
        ends = np.searchsorted(buckets[order], np.arange(1 << self._bits), side="right")
        whole = pa.RecordBatch.from_arrays([*batch.columns, pa.array(places)], schema=self._schema)
        sorted_ = whole.take(pa.array(order))
        with writing(_place(self._folder)):
            for bucket, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
                if end > start:
                    self._writers[bucket].write_batch(sorted_.slice(start, end - start))

    def batches(self) -> Iterator[pa.RecordBatch]:
        with writing(_place(self._folder)):
            for writer, file in zip(self._writers, self._files, strict=True):
                writer.close()
                file.flush()
                file.seek(0)
        for file in self._files:
            bucket = pa.ipc.open_stream(file).read_all()
            file.close()
            if bucket.num_rows:
                order = np.argsort(bucket.column(self._schema.names[-1]).to_numpy(), kind="stable")
                rows = bucket.take(pa.array(order)).combine_chunks().to_batches()
                for batch in rows:
                    yield pa.RecordBatch.from_arrays(batch.columns[:-1], names=batch.schema.names[:-1])


def _place(folder: Path | None) -> Path:
    """Return where the spool is, for messages."""
    return folder if folder is not None else Path("the folder for temporary files")


def _unused(schema: pa.Schema) -> str:
    name = _PLACE
    while name in schema.names:
        name += "_"
    return name

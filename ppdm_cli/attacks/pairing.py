"""A release beside its original, row by row, whatever files and partitions the two have.

Rows pair by position. Columns are named "published:..." and "original:..." in the paired table, so that
no two can have one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.releases import opened, other_rows
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Partition, Table, loaded

PUBLISHED, ORIGINAL = "published:", "original:"
UNPAIRED = (
    "a release made with --shuffle cannot be paired: leave out --truth, give its own original, or shuffle "
    "the original first and perturb that"
)


class Paired(Table):
    """Both tables as one."""

    def __init__(self, release: Table, original: Table | None, sidecar: Sidecar) -> None:
        self._release, self._original, self._sidecar = release, original, sidecar
        self.rows, self.files, self.name = release.rows, release.files, release.name
        names = [a.name for a in sidecar.attributes]
        self._published = [n for n, _ in opened(sidecar).columns]
        fields = [pa.field(PUBLISHED + n, release.schema.field(n).type) for n in self._published]
        if original is not None:
            fields += [pa.field(ORIGINAL + n, original.schema.field(n).type) for n in names]
        self.schema = pa.schema(fields)
        self._names = names
        if original is not None and None not in (release.rows, original.rows) and release.rows != original.rows:
            raise other_rows(original.rows or 0, release.rows or 0)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        """Yield the parts; with an original they are loaded here, as only then their rows are known."""
        if self._original is None:
            for part in self._release.partitions(self._published):
                yield replace(part, load=partial(_renamed, part))
            return
        theirs = _Rows(self._original, self._names)
        rows = 0
        for file, _, batch in loaded(self._release, self._published):
            other = theirs.take(batch.num_rows)
            if len(other) < batch.num_rows:
                raise other_rows(rows + len(other), self._release.rows or rows + batch.num_rows)
            self._check_kept(batch, other, rows)
            rows += batch.num_rows
            arrays = [*batch.columns, *(other.column(n) for n in self._names)]
            joined = pa.RecordBatch.from_arrays(
                [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays],
                names=self.schema.names,
            )
            yield Partition(file, joined.slice)
        rest = theirs.rest()
        if rest:
            raise other_rows(rows + rest, rows)

    def _check_kept(self, batch: pa.RecordBatch, other: pa.Table, first_row: int) -> None:
        """Check that columns published unchanged equal the original's in the same rows."""
        for attribute in self._sidecar.kept:
            ours, theirs = batch.column(attribute.name), other.column(attribute.name).combine_chunks()
            if not dtypes.plain(ours).equals(dtypes.plain(theirs)):
                raise MismatchError(
                    f"the kept column {quoted(attribute.name)} is not the original's within rows "
                    f"{first_row + 1} to {first_row + batch.num_rows}: the rows do not pair",
                    UNPAIRED,
                )


class _Rows:
    """A table's rows, some at a time."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._parts = (batch for _, _, batch in loaded(table, names))
        self._schema = pa.schema([table.schema.field(n) for n in names])
        self._held: list[pa.RecordBatch] = []

    def take(self, rows: int) -> pa.Table:
        taken: list[pa.RecordBatch] = []
        while rows:
            if not self._held:
                self._held = list(islice(self._parts, 1))
                if not self._held:
                    break
            batch = self._held.pop()
            taken.append(batch.slice(0, rows))
            if batch.num_rows > rows:
                self._held = [batch.slice(rows)]
            rows -= taken[-1].num_rows
        # text may be a dictionary in one part and plain in the next
        plain = [
            pa.RecordBatch.from_arrays([dtypes.plain(c) for c in b.columns], schema=self._schema) for b in taken
        ]
        return pa.Table.from_batches(plain, self._schema).combine_chunks()

    def rest(self) -> int:
        return sum(b.num_rows for b in self._held) + sum(b.num_rows for b in self._parts)


def _renamed(part: Partition) -> pa.RecordBatch:
    batch = part.load()
    return pa.RecordBatch.from_arrays(batch.columns, names=[PUBLISHED + n for n in batch.schema.names])

"""Pairs of a release and its original, row by row, for attacks that are measured, whatever partitions the two
have.

Rows pair by position; that they belong together is checked. Columns are named "published:..." and
"original:..." in the paired table, so that no two can have one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import log
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli.arrays import RARELY, Floats
from ppdm_cli.errors import MismatchError, argument, quoted
from ppdm_cli.releases import OWN, opened, other_rows
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Partition, Table, loaded

if TYPE_CHECKING:
    from ppdm_cli.attacks.adversary import AttackedAttribute, Records

PUBLISHED, ORIGINAL = "published:", "original:"


def check_order(sidecar: Sidecar, rows_taken: object) -> None:
    """Refuse to pair a shuffled release without its private file of rows, before anything is counted."""
    if sidecar.privacy is not UNSET and sidecar.privacy.shuffled and rows_taken is None:
        raise MismatchError(
            "shuffled-release",
            "the release is shuffled, so nobody knows which row is which",
            f"leave out {argument('truth')}, unless you have the {argument('rows_taken', 'FILE')} of that run",
        )


def unpaired(sidecar: Sidecar) -> str:
    """Return the next step if the rows of a release and its original don't belong together."""
    privacy = sidecar.privacy
    of_person = privacy is not UNSET and privacy.unit == "person"
    return OWN + f", and add {argument('rows_taken', 'FILE')} of that run" * of_person


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
                    "rows-do-not-pair",
                    f"the kept column {quoted(attribute.name)} is not the original's within rows "
                    f"{first_row + 1} to {first_row + batch.num_rows}: the rows do not pair",
                    unpaired(self._sidecar),
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


@dataclass(frozen=True, eq=False)
class Agreement:
    """The agreement of the rows of a release and its original; adds up over partitions."""

    cells: Floats
    """Cells that show their value: observed, expected by chance and if they pair, and the variance."""
    together: int
    """The most cells that one coin decides."""
    moved: int
    """The cells of separate attributes that do not show their value."""
    staying: float
    """The logarithm of the probability that none of them moves."""

    @classmethod
    def of(cls, targets: Iterable[AttackedAttribute], records: Records) -> Agreement:
        cells, counted, moved, staying = np.zeros(4), np.zeros(records.count, np.int64), 0, 0.0
        for target in targets:
            original, codes = records.known[target.name].codes, records.codes[target.name]
            if target.channel.noise is not None:
                continue
            if target.separate:
                counts, stays = np.bincount(original, minlength=target.matrix.inputs), target.matrix.stays()
                stayed = int(np.count_nonzero(codes == target.matrix.unchanged[original]))
                chance = float(counts @ (target.matrix.forward(target.prior)[target.matrix.unchanged]))
                wanted = float(counts @ stays)
                moved += len(codes) - stayed
                staying += float(counts @ np.log(np.maximum(stays, 1e-300)))
                cells += stayed, chance, wanted, chance * (1 - chance / max(len(codes), 1))
                continue
            rows = np.flatnonzero(codes < target.exposures.withheld)
            counted[rows] += 1
            cells += _near(target, codes[rows], records.lam[rows], original[rows])
        return cls(cells, int(counted.max(initial=1)), moved, staying)

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(
            self.cells + other.cells,
            max(self.together, other.together),
            self.moved + other.moved,
            self.staying + other.staying,
        )

    def check(self, sidecar: Sidecar) -> None:
        """Check that the rows pair, or are too few for a test; others would look like perfect privacy.

        Rows that don't pair agree as often as by chance. This is an error only for a release in which many more
        should agree.
        """
        if not self.moved and self.staying < log(RARELY):
            raise MismatchError(
                "original-is-release",
                f"{argument('truth')} names the release itself: its values are the published ones",
                OWN,
            )
        counted, chance, wanted, variance = map(float, self.cells)
        spread, honest = 4 * max(variance, 1.0) ** 0.5, 6 * (self.together * wanted) ** 0.5
        if wanted - chance >= spread + honest and counted - chance <= spread:
            raise MismatchError(
                "rows-do-not-pair",
                "the release agrees with the original's rows no more than by chance",
                unpaired(sidecar),
            )


def _near(target: AttackedAttribute, codes: np.ndarray, lam: Floats, original: np.ndarray) -> Floats:
    """Return the observed, chance and expected number of cells that show their value or one near it."""
    law = target.exposures.matrix
    near = law > law.min(axis=1, keepdims=True)
    chance, kept = (near @ target.prior)[codes], (law * near)[: target.exposures.withheld].sum(axis=0)
    wanted = lam * np.minimum(kept / len(target.exposures.each), 1)[original] + (1 - lam) * chance
    return np.array([np.count_nonzero(near[codes, original]), chance.sum(), wanted.sum(), chance.sum()])

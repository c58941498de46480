"""At most so many rows of a person (--person): which ones, by a keyed coin, before anything is published."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli.arrays import Addresses
from ppdm_cli.coins import Coins, Key, identifier_addresses, places_of
from ppdm_cli.engine import Batch, scan
from ppdm_cli.errors import DataError, UsageError, quoted
from ppdm_cli.tables import Table


@dataclass(frozen=True)
class Thinned(Batch):
    """The rows of a batch that stay, numbered among all that stay; messages name them as they were."""

    were: np.ndarray

    def where(self, row: int) -> str:
        return super().where(int(self.were[row]))


def addresses(batch: Batch, identifier: str | None, key: Key) -> Addresses:
    """Return the address of each row: its number, or its identifier's."""
    if identifier is None:
        return np.arange(batch.first_row, batch.first_row + batch.rows, dtype=np.uint64)
    array = batch.column(identifier)
    if array.null_count:
        row = int(array.is_null().to_numpy(zero_copy_only=False).argmax())
        raise DataError(
            f"the identifier {quoted(identifier)} is null in {batch.where(row)}",
            "give every record an identifier",
        )
    return identifier_addresses(key, pc.cast(array, pa.string()))


def left_out(table: Table, key: Key, person: str, most: int, identifier: str | None) -> np.ndarray:
    """Return the numbers of the rows, ascending, by which a person has more than `most`; 16 bytes a record."""
    if not table.rewindable:
        raise UsageError(
            "two passes are made for --person, and standard input can be read only once", "name a file"
        )
    columns = list(dict.fromkeys([person, *[identifier or person]]))
    parts = scan(table, partial(_drawn, key, person, identifier), columns=columns, doing="finding persons")
    if not parts:
        return np.empty(0, np.int64)
    whose, coin = (np.concatenate(several) for several in zip(*parts, strict=True))
    order = np.lexsort((coin, whose))
    starts = np.flatnonzero(np.r_[True, whose[order][1:] != whose[order][:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    return np.sort(order[rank >= most])


@dataclass(frozen=True)
class Published:
    """The rows that stay of each person, and whose they are: nothing is learnt from any others."""

    key: Key
    person: str
    most: int
    """How many rows a person has, at most."""
    out: np.ndarray

    def __call__(self, batch: Batch) -> tuple[Batch, Addresses | None]:
        stays = thinned(batch, self.out)
        return stays, None if self.most == 1 else _whose(stays, self.person, self.key)


def _whose(batch: Batch, person: str, key: Key) -> Addresses:
    return addresses(batch, person, Key(key.derive("person"), key.origin))


def _drawn(key: Key, person: str, identifier: str | None, batch: Batch) -> tuple[Addresses, Addresses]:
    """Return whose each row is, and a number by which the rows of a person are put in order."""
    whose = _whose(batch, person, key)
    own = addresses(batch, identifier, key)
    return whose, places_of(Coins(key.derive("rows of a person")), own)


def thinned(batch: Batch, out: np.ndarray) -> Thinned:
    """Return a batch without the rows that are left out, its own among their numbers."""
    first, last = np.searchsorted(out, [batch.first_row, batch.first_row + batch.rows])
    stays = np.ones(batch.rows, bool)
    stays[out[first:last] - batch.first_row] = False
    were = np.flatnonzero(stays)
    columns = batch.columns.filter(pa.array(stays))
    first_row = batch.first_row - int(first)
    return Thinned(columns, batch.index, first_row, batch.file, batch.row_in_file, were)

"""Keys for records: the published rows of a person, the addresses that random numbers follow from, and key
files.

A run that may write a key file holds a lock until its release is published, so others that start with the same
file wait, and then use the key and the design that it left.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import files
from ppdm_cli.arrays import Addresses
from ppdm_cli.coins import Coins, Key, identifier_addresses, key_from_file, places_of
from ppdm_cli.engine import Batch, scan
from ppdm_cli.errors import DataError, RefusedError, UsageError, argument, quoted
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.tables import PendingFile, Table, path_of


@dataclass(frozen=True)
class Thinned(Batch):
    """The published rows of a batch, numbered among all published ones; messages use their original numbers."""

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
        what = f"the identifier {quoted(identifier)} is null in {batch.where(row)}"
        raise DataError("null-identifier", what, "use an identifier that every record has")
    return identifier_addresses(key, pc.cast(array, pa.string()))


def left_out(table: Table, key: Key, person: str, most: int, identifier: str | None) -> np.ndarray:
    """Return the numbers of the rows, ascending, beyond the first `most` of each person; 16 bytes a record."""
    if not table.rewindable:
        what = f"{argument('person')} needs two passes, but standard input can be read only once"
        raise UsageError("person-of-stream", what, "name a file")
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
    """The published rows of each person, and whose they are: nothing is learned from any others."""

    key: Key
    person: str
    most: int
    out: np.ndarray

    def __call__(self, batch: Batch) -> tuple[Batch, Addresses | None]:
        stays = thinned(batch, self.out)
        return stays, None if self.most == 1 else _whose(stays, self.person, self.key)


def _whose(batch: Batch, person: str, key: Key) -> Addresses:
    return addresses(batch, person, Key(key.derive("person"), key.origin))


def _drawn(key: Key, person: str, identifier: str | None, batch: Batch) -> tuple[Addresses, Addresses]:
    """Return each row's person, and the random key that orders the rows of a person."""
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
    return Thinned(columns, batch.index, first_row, batch.file, batch.row_in_file, were, more=batch.more)


@dataclass
class KeyFile:
    """A run's key, the file that it is in, if any, and the design that the file names."""

    key: Key
    path: Path | None = None
    design: str = ""
    """The digest of the design that the key was used with; empty before one with several recipes."""
    _locked: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(cls, stack: ExitStack, seed: int | None, path: str | Path | None, identifier: str | None) -> KeyFile:
        """Return the key of a run, locked until the stack ends if it comes from a file."""
        if seed is not None and path is not None:
            what = f"{argument('seed')} and {argument('key_file')} contradict each other"
            step = f"leave out {argument('seed')}, which is for tests only"
            raise UsageError("seed-and-key-file", what, step)
        if (path is None) != (identifier is None):
            raise UsageError(
                "key-file-without-id",
                f"{argument('key_file')} and {argument('id')} need each other: only an identifier finds the "
                "same person in the next release",
                f"try {argument('key_file', 'release.key')} {argument('id', 'patient')}",
            )
        if path is None:
            return cls(Key.fresh() if seed is None else Key.from_seed(seed))
        path, lock = path_of(path, "key_file"), stack.enter_context(ExitStack())
        _lock(lock, path.resolve().parent)
        if not path.exists():
            return cls(Key.fresh("key-file"), path, "", lock)
        files.reading(path)
        key, design = key_from_file(path)
        return cls(key, path, design, lock)

    def kept(self, stack: ExitStack, plan: ResolvedPlan) -> list[PendingFile]:
        """Return the file to write, if it is new or must store the design; it is written before the release.

        Another design would show other attributes of the same people, and cost them as much again.
        """
        if self.path is None:
            return []
        path, design = self.path, plan.design
        if self.design and self.design != design:
            raise RefusedError(
                "other-design",
                f"the key file {quoted(path)} was used with another design, which would show other "
                "attributes of the same people",
                f"add {argument('like')} with the earlier release, or use another key file",
            )
        there = path.exists()
        if there and self.design == design:
            self._locked.close()
            return []
        if there:
            files.rewriting(path, str(path))
        try:
            target = stack.enter_context(PendingFile(path, there, mode=0o600))
        except (DataError, UsageError) as error:
            if not there or error.id == "output-is-input":
                raise
            what = f"the key file {quoted(path)} must store this design in a second line, but can't be written"
            step = f"make its folder writable, or add the line yourself: {design}"
            raise type(error)(error.id, what, step) from None
        target.put("".join(f"{line}\n" for line in (self.key.secret.hex(), design) if line).encode())
        return [target]


def _lock(stack: ExitStack, folder: Path) -> None:
    """Hold a folder against other runs with a key file in it, where the system can."""
    with suppress(ImportError, OSError):
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)

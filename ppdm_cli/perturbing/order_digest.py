"""A keyed digest of the records' identifiers in their order: parties that share the key see whether they agree.

Without a key such a digest would confirm a guessed list of members; with one it says nothing to others. It is
the exclusive or of a keyed permutation of each row's (identifier, row number), so partitions merge.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from ppdm_cli import files
from ppdm_cli.coins import CELLS, Coins, Key, identifier_addresses, key_from_file
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import RefusedError, UsageError
from ppdm_cli.tables import PendingFile, Table


def order_digest(table: Table, identifier: str, key: Key) -> str:
    """Return 64 hex digits that follow from the key and from which record is in which row."""
    found = fold(table, partial(_digested, identifier, key), _merged, columns=[identifier], doing="digesting")
    rows, words = found or (0, np.zeros(2, np.uint64))
    text = f"{rows} {words[0]} {words[1]}".encode()
    return hashlib.blake2b(text, key=key.derive("order of rows"), digest_size=32).hexdigest()


def _digested(identifier: str, key: Key, batch: Batch) -> tuple[int, np.ndarray]:
    coins, words = Coins(key.derive("row")), np.zeros(2, np.uint64)
    addresses = identifier_addresses(key, pc.fill_null(pc.cast(batch.column(identifier), pa.string()), ""))
    rows = np.arange(batch.first_row, batch.first_row + batch.rows, dtype=np.uint64)
    for start in range(0, batch.rows, CELLS):
        part = slice(start, start + CELLS)
        blocks = coins.words(addresses[part], rows[part]).view("<u8")
        words ^= np.bitwise_xor.reduce(blocks, axis=0)
    return batch.rows, words


def _merged(a: tuple[int, np.ndarray], b: tuple[int, np.ndarray]) -> tuple[int, np.ndarray]:
    return a[0] + b[0], a[1] ^ b[1]


def with_order(
    stack: ExitStack, table: Table, path: str | Path | None, key: Key, identifier: str | None, moved: bool
) -> tuple[str | UnsetType, list[PendingFile]]:
    """Return the digest by the key in a file, and the file where it is new; `key` is that of the coins."""
    if path is None:
        return UNSET, []
    if moved or not table.rewindable:
        raise UsageError("--order-key is about all rows of a file in their order", "leave it out, or --shuffle")
    path, new = Path(path), []
    if path.exists():
        files.reading(path)
        shared = key_from_file(path)[0]
    else:
        shared = Key.fresh("key-file")
        new = [stack.enter_context(PendingFile(path, False, mode=0o600))]
        new[0].put(shared.secret.hex().encode() + b"\n")
    if shared.secret == key.secret:
        raise RefusedError(
            "the key of the coins would be shared with other parties, who could undo the release",
            "name another file with --order-key",
        )
    return order_digest(table, str(identifier), shared), new

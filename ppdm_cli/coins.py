"""Keyed randomness for perturbing: coins, the random bits of a cell, are a function of all that decides an
answer, not a stream.

A release has one 256-bit key. An attribute's key is BLAKE2b(key; purpose, attribute, matrix,
domain); a cell's 128 coins are AES-256(attribute key; address, true code, retry). So any number
of threads, in any order, gives the same release. The true code and the matrix are in the
address because with (attribute, row) alone two answers under one key prove, wherever they differ,
that both values were kept.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa

from ppdm_cli import files
from ppdm_cli.arrays import Addresses, Codes, Words
from ppdm_cli.errors import RefusedError, UsageError, argument, quoted

BLOCK = 16
CELLS = 1 << 16
"""The number of cells drawn at once: their blocks fit a core's second-level cache."""


@dataclass(frozen=True)
class Key:
    """A release's key. Its bytes never leave this object but as keys of attributes."""

    secret: bytes = field(repr=False)
    origin: Literal["system", "seeded", "key-file"]
    """The origin of the coins, as in the sidecar."""

    @classmethod
    def fresh(cls, origin: Literal["system", "key-file"] = "system") -> Key:
        """Return a key of 256 bits from the operating system, never written down except in a key file."""
        return cls(secrets.token_bytes(32), origin)

    @classmethod
    def from_seed(cls, seed: int) -> Key:
        """Return a key from a seed, for tests and papers: it can be guessed, so a release promises nothing."""
        return cls(hashlib.blake2b(b"ppdm seed %d" % seed, digest_size=32).digest(), "seeded")

    @property
    def mark(self) -> str:
        """Return public digits that identify releases under one key; they reveal nothing about the key."""
        return hashlib.blake2b(b"which key", key=self.secret, digest_size=8).hexdigest()

    def derive(self, purpose: str, *parts: object) -> bytes:
        """Return a 256-bit key for one purpose: BLAKE2b keyed by the secret over an unambiguous text."""
        text = msgspec.json.encode([purpose, *parts])
        return hashlib.blake2b(text, key=self.secret, digest_size=32).digest()


def key_from_file(path: Path) -> tuple[Key, str]:
    """Return the key in a file of 64 hex digits (--key-file), and the digest of a design in its second line."""
    with files.readable(path, "the key file "), path.open("rb") as file:
        # where the mode does not tell users apart, as on Windows, it does not say who can read the file
        shared = hasattr(os, "getuid") and bool(stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077)
        text = file.read(200)
    first, _, design = text.decode("latin-1").strip().partition("\n")
    try:
        secret, digest = bytes.fromhex(first), bytes.fromhex(design)
    except ValueError:
        secret = digest = b""
    if len(secret) != 32 or len(digest) not in (0, 32):
        what = f"{quoted(path)} is not a key file: it does not hold 64 hex digits"
        step = f"use {argument('key_file', 'release.key')}, or another file: one that does not exist is created"
        raise UsageError("not-a-key-file", what, step)
    if shared:
        what = f"the key file {quoted(path)} can be read by others"
        raise RefusedError("key-file-readable", what, "run chmod 600 on it, and consider who may have read it")
    return Key(secret, "key-file"), digest.hex()


_scratch = threading.local()


class Coins:
    """The coins of one purpose: AES-256 in ECB mode over distinct blocks, a keyed permutation.

    Promise: for distinct (address, code, retry) the outputs are distinct uniform 128-bit blocks, so
    indistinguishable from independent coins below 2^64 cells. One object belongs to one thread.
    """

    def __init__(self, key: bytes) -> None:
        # loaded only where coins are thrown: it takes longer than all of this package, and miners throw none
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        if not hasattr(_scratch, "input"):
            _scratch.input = np.zeros((CELLS, 2), np.uint64)
            _scratch.output = np.empty(CELLS * BLOCK + BLOCK, np.uint8)
        self._input, self._output = _scratch.input, _scratch.output

    def words(self, addresses: Addresses, codes: Codes | int, retry: Codes | int = 0) -> Words:
        """Return four 32-bit words per cell for up to `CELLS` cells; the thread's next call overwrites them.

        A true value of 64 bits, which never retries, takes the places of both code and retry.
        """
        n = len(addresses)
        block = self._input[:n]
        block[:, 0] = addresses
        block[:, 1] = codes
        if np.ndim(retry) or retry:
            block.view("<u4")[:, 3] = retry
        self._cipher.update_into(memoryview(block).cast("B"), self._output)
        words: Words = self._output[: n * BLOCK].view("<u4").reshape(n, 4)
        return words

    def encrypt(self, blocks: np.ndarray) -> np.ndarray:
        """Return encrypted blocks as (n, 2) 64-bit words, for the identifiers' digests."""
        return np.frombuffer(self._cipher.update(blocks.tobytes()), "<u8").reshape(-1, 2)


def places_of(coins: Coins, addresses: Addresses) -> Addresses:
    """Return 64 bits for each address: the place of its row in a random order."""
    places = np.empty(len(addresses), np.uint64)
    for start in range(0, len(addresses), CELLS):
        part = slice(start, start + CELLS)
        places[part] = coins.words(addresses[part], 0).view("<u8")[:, 0]
    return places


def uniform_cells(coins: Coins, addresses: Addresses, codes: Codes, retry: Codes | int = 0) -> np.ndarray:
    """Return one number in [0, 1) per cell, with 53 random bits; another one for another `retry`."""
    result, rest = np.empty(len(addresses)), np.broadcast_to(np.asarray(retry), len(addresses))
    for start in range(0, len(addresses), CELLS):
        part = slice(start, start + CELLS)
        words = coins.words(addresses[part], codes[part], rest[part])
        result[part] = (words.view("<u8")[:, 0] >> np.uint64(11)) * 2.0**-53
    return result


def identifier_addresses(key: Key, identifiers: pa.StringArray) -> Addresses:
    """Return 64-bit addresses of identifiers: the CBC-MAC of each one's UTF-8 bytes, length first.

    They are keyed, so that addresses reveal nothing about identifiers. The same text gives the same address in
    every format. All identifiers of one length in blocks go through the cipher together.
    """
    coins = Coins(key.derive("identifier"))
    _, offsets_buffer, data_buffer = identifiers.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[
        identifiers.offset : identifiers.offset + len(identifiers) + 1
    ].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    blocks_each = -(-lengths // BLOCK)
    result = np.empty(len(identifiers), np.uint64)
    for blocks in np.unique(blocks_each):
        rows = np.flatnonzero(blocks_each == blocks)
        within = np.arange(blocks * BLOCK)
        places = offsets[rows, None] + within
        inside = within < lengths[rows, None]
        padded = np.where(inside, data.take(places, mode="clip") if len(data) else 0, 0).astype(np.uint8)
        message = padded.view("<u8").reshape(len(rows), int(blocks), 2)
        state = np.zeros((len(rows), 2), np.uint64)
        state[:, 0] = lengths[rows]
        state = coins.encrypt(state)
        for b in range(int(blocks)):
            state = coins.encrypt(state ^ message[:, b])
        result[rows] = state[:, 0]
    return result

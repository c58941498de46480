"""Repeatable randomness: numbers that follow from public data, and so protect nothing.

A number is a function of a purpose (a release's id among other words) and of a row's address, so that results
do not depend on how a table is cut, in which order its parts are worked on, or how often.

Original values are dealt to records by such numbers, with exact totals: the records of one published value are
counted through the whole table, and a random permutation of these ranks, another for each attribute and value,
says which step of the plan each record gets. Every assignment is equally likely.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from ppdm_cli.arrays import Addresses, Codes, Floats, code_type

ROUNDS = 6
SMALL = 256
"""The most places of permutations that are tables, so that each of them is equally likely."""
CHUNK = 1 << 15
"""The number of places that are moved at once: their data fits a core's cache."""
ZERO, _MIX = np.uint64(0), np.uint64(0x9E3779B97F4A7C15)


def hashed(purpose: object) -> np.uint64:
    """Return a number that follows from a purpose, which may be any JSON value."""
    digest = hashlib.blake2b(msgspec.json.encode(purpose), digest_size=8).digest()
    return np.frombuffer(digest, np.uint64)[0]


def mixed(rows: np.ndarray, start: np.uint64 = ZERO) -> Addresses:
    """Return hashes of row numbers, as even as random numbers (SplitMix64 from `start`)."""
    with np.errstate(over="ignore"):
        z = (rows.astype(np.uint64) + (start + np.uint64(1))) * _MIX
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return z


def uniform(rows: np.ndarray, start: np.uint64) -> Floats:
    """Return a number in [0, 1) for each row, of 53 bits."""
    return np.asarray((mixed(rows, start) >> np.uint64(11)) * 2.0**-53)


@dataclass(frozen=True, eq=False)
class Permutations:
    """One permutation of 0..n-1 for each of some sizes n, any part of which can be computed separately.

    Small ones are orders by a hash, so that every permutation is equally likely. For the others the places are
    the first n of a grid; in turn, each column is turned by a number that follows from the column, and each row
    by one that follows from the row. A place beyond the n moves on until it is back. That is Black and
    Rogaway's generalised Feistel network (2002).
    """

    start: np.uint64
    sizes: np.ndarray
    small: np.ndarray
    """The permutations of small sizes, one after the other."""
    first: np.ndarray
    """The start of each one in `small`."""

    @classmethod
    def of(cls, sizes: np.ndarray, purpose: object) -> Permutations:
        start = hashed(purpose)
        short = np.where(sizes <= SMALL, sizes, 0)
        first = np.cumsum(short) - short
        which = np.repeat(np.arange(len(sizes)), short)
        order = np.lexsort((mixed(np.arange(len(which)), start), which))
        return cls(start, sizes, order - first[which], first)

    def __call__(self, counts: np.ndarray, begin: np.ndarray) -> np.ndarray:
        """Return, of each permutation in turn, `counts` of its values from the place `begin` on."""
        ends = np.cumsum(counts)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - (ends - counts), counts)
        small = self.sizes <= SMALL
        rows = np.flatnonzero(np.repeat(small, counts))
        if len(rows):
            places[rows] = self.small[places[rows] + np.repeat(self.first[small], counts[small])]
        if len(rows) < len(places):
            large = np.flatnonzero(~small)
            todo = slice(None) if not len(rows) else np.flatnonzero(np.repeat(~small, counts))
            places[todo] = self._walked(places[todo], large, counts[large])
        return places

    def _walked(self, places: np.ndarray, which: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Move places, `counts` of them in each permutation of `which`."""
        sizes = self.sizes[which]
        half = (np.frexp(sizes - 1.0)[1] // 2).astype(np.uint32)  # half the bits of the last place
        columns = -(-sizes >> half.astype(np.int64)).astype(np.uint32)
        own = (mixed(which, self.start) >> np.uint64(32)).astype(np.uint32)
        rounds = (mixed(np.arange(ROUNDS), ~self.start) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
        parts = [np.repeat(a, counts) for a in (half, columns, own)]
        for i in range(0, len(places), CHUNK):
            part = slice(i, i + CHUNK)
            places[part] = _moved(places[part], rounds, *(p[part] for p in parts))
        left = np.flatnonzero(places >= np.repeat(sizes, counts))
        if len(left):
            places[left] = self._walked(places[left], np.repeat(which, counts)[left], np.ones_like(left))
        return places


def _moved(
    places: np.ndarray, rounds: np.ndarray, half: np.ndarray, columns: np.ndarray, own: np.ndarray
) -> np.ndarray:
    mask, down = (np.uint32(1) << half) - np.uint32(1), np.uint32(32) - half
    column, row = (places >> half).astype(np.uint32), places.astype(np.uint32) & mask
    scale = columns.astype(np.float32) * np.float32(2.0**-23)
    for r in range(0, len(rounds), 2):
        far = (_hashed(row, own, rounds[r]) >> np.uint32(9)).view(np.int32).astype(np.float32)
        far *= scale  # below `columns`
        column += far.astype(np.int32).view(np.uint32)
        np.minimum(column, column - columns, out=column)  # what is below 0 wraps around and is large
        row += _hashed(column, own, rounds[r + 1]) >> down
        row &= mask
    return (column.astype(np.int64) << half) | row


def _hashed(x: np.ndarray, own: np.ndarray, factor: np.uint32) -> np.ndarray:
    """Return numbers whose highest bits follow from all of x."""
    x = x ^ own
    x *= factor
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    return x


RUN_BITS = 13
"""The logarithm of the number of runs that are looked up at once: they fit a core's cache."""


@dataclass(frozen=True)
class Staircase:
    """The steps of a plan: `amount` records of code `source` get the code `target`."""

    source: np.ndarray
    target: np.ndarray
    amount: np.ndarray


@dataclass(frozen=True, eq=False)
class Deal:
    """The deal of one attribute, by the codes that distinguish records."""

    before: np.ndarray
    """The number of records of each code before each partition."""
    places: Permutations
    targets: Codes
    """The original code of each step of the plan."""
    ends: np.ndarray
    """The end of each step, in the records sorted by code."""
    first: np.ndarray
    """The first step of each code."""
    several: np.ndarray
    """True for each code that has several steps, between which its records are divided."""
    shift: int
    runs: np.ndarray
    """The original code of each run of `1 << shift` records sorted by code, or -1 if they get several."""

    @classmethod
    def of(cls, parts: np.ndarray, stairs: Sequence[Staircase], size: int, purpose: object) -> Deal:
        """Deal by the plans of consecutive groups of codes; `parts` are counts by (partition, code)."""
        targets = np.concatenate([s.target for s in stairs]).astype(code_type(size))
        ends = np.cumsum(np.concatenate([s.amount for s in stairs]))
        before, sizes = np.cumsum(parts, axis=0) - parts, parts.sum(axis=0)
        records = int(sizes.sum())
        shift = max(records.bit_length() - RUN_BITS, 0)
        starts = np.arange(0, records, 1 << shift)
        lasts = np.minimum(starts + (1 << shift), records) - 1
        first, last = (np.searchsorted(ends, p, side="right") for p in (starts, lasts))
        runs = np.where(first == last, targets[first].astype(np.int32), np.int32(-1))
        last = np.cumsum(sizes)
        first, last = (np.searchsorted(ends, p, side="right") for p in (last - sizes, last - 1))
        return cls(before, Permutations.of(sizes, purpose), targets, ends, first, first < last, shift, runs)

    def __call__(self, codes: np.ndarray, partition: int) -> Codes:
        sizes = self.places.sizes
        counts = np.bincount(codes, minlength=len(sizes))
        out = self.targets.take(self.first, mode="clip").take(codes)
        order = np.argsort(codes, kind="stable")
        if not self.several.all():
            order, counts = order[np.repeat(self.several, counts)], np.where(self.several, counts, 0)
        places = self.places(counts, self.before[partition])
        places += np.repeat(np.cumsum(sizes) - sizes, counts)
        found = self.runs.take(places >> self.shift)
        mixed = np.flatnonzero(found < 0)
        found[mixed] = self.targets[np.searchsorted(self.ends, places[mixed], side="right")]
        out[order] = found
        return out

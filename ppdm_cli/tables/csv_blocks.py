"""A CSV's bytes, cut into runs of whole records.

In CSV a quote inside quotes is doubled, so a newline ends a record just where the quotes before it
are even in number. A quote that neither opens nor closes a cell would break that count: it is found
and refused.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from ppdm_cli.errors import DataError, quoted

BLOCK = 8 << 20
LONGEST_RECORD = 16 << 20
LONGEST_HEADER = 8 << 20
_LOOKED_AT = 1 << 16
"""Bytes that are searched at a time for the end of a record."""


def opened(source: Path | IO[bytes]) -> IO[bytes]:
    if not isinstance(source, Path):
        return source
    if source.name.lower().endswith(".gz"):
        return gzip.open(source, "rb")  # type: ignore[return-value]
    return source.open("rb")


def chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def first_record(blocks: Iterator[bytes], where: str) -> tuple[bytes, bytes]:
    """Read the header, and what came with it."""
    whole = b""
    for block in blocks:
        whole += block
        quotes = 0
        for start in range(0, len(whole), _LOOKED_AT):
            stop = min(start + _LOOKED_AT, len(whole))
            ends = _ends(whole, start, stop, quotes)
            if ends.size:
                return whole[: ends[0] + 1], whole[ends[0] + 1 :]
            quotes += whole.count(b'"', start, stop)
        if len(whole) > LONGEST_HEADER:
            raise _too_long(where, "header", LONGEST_HEADER)
    return whole, b""


def whole_records(blocks: Iterator[bytes], where: str) -> Iterator[bytes]:
    """Yield the same bytes, cut at the ends of records; a last one that is never closed comes as it is."""
    carried = b""
    for block in blocks:
        if b'"' in block or b'"' in carried:
            block, carried = carried + block, b""
        end = record_start(block, len(block))
        if end:
            yield b"".join((carried, memoryview(block)[:end]))
            carried = block[end:]
        else:
            carried += block
        if len(carried) > LONGEST_RECORD:
            if carried.count(b'"') % 2:
                break
            raise _too_long(where, "line", LONGEST_RECORD)
    if carried.strip(b"\r\n"):
        yield carried


def record_start(data: bytes, place: int) -> int:
    """Return where the record begins that `place` is in: after a newline that no open quote encloses."""
    quotes = data.count(b'"', 0, place) if b'"' in data else 0
    while place > 0:
        start = max(0, place - _LOOKED_AT)
        quotes -= data.count(b'"', start, place)
        ends = _ends(data, start, place, quotes)
        if ends.size:
            return int(ends[-1]) + 1
        place = start
    return 0


def _ends(data: bytes, start: int, stop: int, quotes: int) -> np.ndarray:
    """Return the newlines in a part of the data that no open quote encloses; so many quotes come before it."""
    part = np.frombuffer(data, np.uint8, stop - start, start)
    newlines = np.flatnonzero(part == ord("\n"))
    if quotes % 2 or data.find(b'"', start, stop) >= 0:
        opened = np.bitwise_xor.accumulate(part == ord('"'))
        newlines = newlines[opened[newlines] == quotes % 2]
    return start + newlines


def has_padding(records: bytes, delimiter: str) -> bool:
    """Return whether some cell may begin with a zero and another digit; never False where one does."""
    data = np.frombuffer(b"\n" + records, np.uint8)
    zeros = np.flatnonzero(data[1:-1] == ord("0")) + 1
    digit = (data[zeros + 1] >= ord("0")) & (data[zeros + 1] <= ord("9"))
    return bool((digit & np.isin(data[zeros - 1], [ord(c) for c in f'{delimiter}"\n+-'])).any())


def stray_quote(records: bytes, delimiter: str) -> int | None:
    """Return where the first quote is that neither opens nor closes a cell, nor is one of two in a row."""
    if b'"' not in records:
        return None
    data = np.frombuffer(b"\n" + records + b"\n", np.uint8)  # with the ends of lines around
    quotes = np.flatnonzero(data == ord('"'))
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = _ENDS.copy(), _ENDS.copy()
    before[ord(delimiter)] = after[ord(delimiter)] = True
    after[ord("\r")] = True
    wrong = [*opening[~before[data[opening - 1]]][:1], *closing[~after[data[closing + 1]]][:1]]
    if len(opening) > len(closing):
        wrong.append(opening[-1])
    return int(min(wrong)) - 1 if wrong else None


_ENDS = np.zeros(256, bool)
_ENDS[[ord("\n"), ord('"')]] = True


def _too_long(where: str, what: str, longest: int) -> DataError:
    return DataError(
        f"{quoted(where)} has a {what} of more than {longest >> 20} MiB",
        "check that it is a CSV, and its line ends",
    )

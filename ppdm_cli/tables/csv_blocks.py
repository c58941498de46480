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
LONGEST_RECORD = 64 << 20


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
    """The header, and what came with it."""
    whole = b""
    for block in blocks:
        whole += block
        end, start, quotes = whole.find(b"\n"), 0, 0
        while end >= 0:
            quotes += whole.count(b'"', start, end)
            if quotes % 2 == 0:
                return whole[: end + 1], whole[end + 1 :]
            start, end = end, whole.find(b"\n", end + 1)
        if len(whole) > LONGEST_RECORD:
            raise _too_long(where)
    return whole, b""


def whole_records(blocks: Iterator[bytes], where: str) -> Iterator[bytes]:
    """The same bytes, cut at the ends of records; a last one that is never closed comes as it is."""
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
            raise _too_long(where)
    if carried.strip(b"\r\n"):
        yield carried


def record_start(data: bytes, place: int) -> int:
    """Where the record begins that `place` is in: after a newline that no open quote encloses."""
    end = data.rfind(b"\n", 0, place)
    quotes = data.count(b'"', 0, end) if end >= 0 and b'"' in data else 0
    while end >= 0 and quotes % 2:
        earlier = data.rfind(b"\n", 0, data.rfind(b'"', 0, end))
        quotes -= data.count(b'"', earlier + 1, end)
        end = earlier
    return end + 1


def stray_quote(records: bytes, delimiter: str) -> int | None:
    """Where the first quote is that neither opens nor closes a cell, nor is one of two in a row."""
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


def _too_long(where: str) -> DataError:
    return DataError(
        f"{quoted(where)} has a line of more than {LONGEST_RECORD >> 20} MiB",
        "check that it is a CSV, and its line ends",
    )

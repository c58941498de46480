"""A CSV's bytes, cut into runs of whole records.

In CSV a quote inside quotes is doubled, so a newline ends a record just where the quotes before it
are even in number.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO

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
        end = whole.find(b"\n")
        while end >= 0 and whole.count(b'"', 0, end) % 2:
            end = whole.find(b"\n", end + 1)
        if end >= 0:
            return whole[: end + 1], whole[end + 1 :]
        if len(whole) > LONGEST_RECORD:
            break
    if whole.count(b'"') % 2 or len(whole) > LONGEST_RECORD:
        raise _unpaired(where)
    return whole, b""


def whole_records(blocks: Iterator[bytes], where: str) -> Iterator[bytes]:
    """The same bytes, cut at the ends of records: at newlines that no open quote encloses."""
    carried = b""
    for block in blocks:
        whole = carried + block
        end = whole.rfind(b"\n")
        quotes = whole.count(b'"', 0, end + 1) if end >= 0 else 0
        while end >= 0 and quotes % 2:
            last_quote = whole.rfind(b'"', 0, end)
            end = whole.rfind(b"\n", 0, last_quote)
            quotes = whole.count(b'"', 0, end + 1) if end >= 0 else 0
        if end >= 0:
            yield whole[: end + 1]
        carried = whole[end + 1 :]
        if len(carried) > LONGEST_RECORD:
            raise _unpaired(where)
    if carried.count(b'"') % 2:
        raise _unpaired(where)
    if carried.strip(b"\r\n"):
        yield carried


def _unpaired(where: str) -> DataError:
    return DataError(
        f"the quotes in {quoted(where)} do not pair up: a quoted cell is never closed",
        'close it; a quote inside a quoted cell is written twice ("")',
    )

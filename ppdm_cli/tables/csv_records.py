"""Records for readers of CSV: bytes cut at the ends of records, and the names of columns.

In CSV a quote inside quotes is doubled, so a newline ends a record exactly if the number of quotes before it is
even. A quote that neither opens nor closes a cell would break that count: it is found and refused. So is a
first line that looks like a record, because its cells would be published as names: it has numbers or dates, or
it is like the rows below. No message quotes it.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from ppdm_cli.errors import DataError, RefusedError, argument, quoted
from ppdm_cli.tables.csv_options import CsvOptions, other_encoding
from ppdm_cli.tables.stores import reachable

BLOCK = 4 << 20
LONGEST_RECORD = 16 << 20
LONGEST_HEADER = 8 << 20
_SEARCHED = 1 << 16
"""The number of bytes that are searched at a time for the end of a record."""
LOOKED_AT, _ROWS = 1 << 18, 400
"""The numbers of bytes, and of rows, below the first line that are compared with it."""
PAIR_UP = 'close the cell, or write a quote inside a quoted cell twice ("")'
_LETTERS_OF_NUMBERS = re.compile(r"(?<=\d)[eETZ](?=[-+\d]|$)")


def open_bytes(source: Path | IO[bytes]) -> IO[bytes]:
    if not isinstance(source, Path):
        return source
    if source.name.lower().endswith(".gz"):
        return gzip.open(reachable(source), "rb")
    return source.open("rb")


def chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def first_record(blocks: Iterator[bytes], where: str) -> tuple[bytes, bytes]:
    """Read the header, and the bytes that came with it."""
    whole = b""
    for block in blocks:
        whole += block
        quotes = 0
        for start in range(0, len(whole), _SEARCHED):
            stop = min(start + _SEARCHED, len(whole))
            ends = record_ends(whole, start, stop, quotes)
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
    if not is_blank(carried):
        yield carried


def is_blank(records: bytes) -> bool:
    return not records or (records.isspace() and not records.strip(b"\r\n"))


def record_start(data: bytes, place: int) -> int:
    """Return the beginning of the record that `place` is in: after a newline that no open quote encloses."""
    quotes = data.count(b'"', 0, place) if b'"' in data else 0
    while place > 0:
        start = max(0, place - _SEARCHED)
        quotes -= data.count(b'"', start, place)
        ends = record_ends(data, start, place, quotes)
        if ends.size:
            return int(ends[-1]) + 1
        place = start
    return 0


def record_ends(data: bytes | bytearray, start: int, stop: int, quotes: int) -> np.ndarray:
    """Return the newlines in a part of the data that no open quote encloses; so many quotes come before it."""
    part = np.frombuffer(data, np.uint8, stop - start, start)
    newlines = np.flatnonzero(part == ord("\n"))
    if quotes % 2 or data.find(b'"', start, stop) >= 0:
        opened = np.bitwise_xor.accumulate(part == ord('"'))
        newlines = newlines[opened[newlines] == quotes % 2]
    return start + newlines


def has_padding(records: bytes, delimiter: str) -> bool:
    """Return whether some cell may begin with a zero and another digit; never False where one does."""
    data = np.frombuffer(b"\n\n" + records + b"\n", np.uint8)
    zero, before = data[2:-1] == ord("0"), data[1:-2]
    zero &= data[3:] - ord("0") < 10
    zero &= (before < ord("0")) | (before == ord(delimiter))  # as marks and signs are
    places = np.flatnonzero(zero)
    before, edges = before[places], _ENDS.copy()
    edges[ord(delimiter)] = True
    signed = (before == ord("+")) | (before == ord("-"))
    return bool((edges[before] | (signed & edges[data[places]])).any())


def stray_quote(records: bytes, delimiter: str) -> int | None:
    """Return the place of the first quote that neither opens nor closes a cell, nor is one of two in a row."""
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
        f"{what}-too-long",
        f"{quoted(where)} has a {what} of more than {longest >> 20} MiB",
        "check that it is a CSV, and its line ends",
    )


def column_names(first: bytes, options: CsvOptions, where: str, below: bytes = b"") -> list[str]:
    """Return the names that the first record gives, or `column_1` and so on for as many cells."""
    cells = _cells(first, options, where)
    if options.header is False:
        return [f"column_{i + 1}" for i in range(len(cells))]
    meant = {*options.known, *options.types}
    marks = [m for m in ",;\t|" if m in cells[0] and m != options.separator]
    sure = options.delimiter is None or (options.delimiter in ";|" and b'"' not in first)
    if len(cells) == 1 and marks and sure and cells[0] not in meant:
        fractions = f", and {argument('decimal', ',')} if numbers have commas" if marks[0] != "," else ""
        raise DataError(
            "header-of-one-cell",
            f"the header of {quoted(where)} has no {options.separator!a}, and its cells look separated by "
            f"{marks[0]!a}",
            f"add {argument('delimiter', marks[0])}{fractions}",
        )
    if "" in cells:
        raise DataError(
            "column-without-name",
            f"column {cells.index('') + 1} of {quoted(where)} has no name in the first line",
            "name it there, or write the file without it (pandas: without its index). If the file has no "
            f"header, add {argument('header', False)}",
        )
    if options.header is None:
        data = [i for i, c in enumerate(cells) if c not in meant and looks_like_data(c, options.nulls)]
        alike = [] if data or meant & {*cells} else like_below(cells, first_rows(below, options.separator))
        for found, why in ((data, "a number, a date or the like"), (alike, "like the rows below")):
            if found:
                raise RefusedError(
                    "header-like-a-record",
                    f"the first line of {quoted(where)} looks like a record: column {found[0] + 1} is "
                    f"{why}, which would be published as a name",
                    f"use {argument('header', False)} if the file has no header, or "
                    f"{argument('header', True)} if these are names",
                )
    first_of = {c: i + 1 for i, c in reversed(list(enumerate(cells)))}
    for number, cell in enumerate(cells, 1):
        if first_of[cell] < number:
            raise DataError(
                "columns-of-one-name",
                f"columns {first_of[cell]} and {number} of {quoted(where)} have the same name",
                f"rename one. If the first line is a record already, use {argument('header', False)}",
            )
    return cells


def looks_like_data(cell: str, nulls: Sequence[str] = ()) -> bool:
    """Return whether a cell is a number, a date, a truth value or no value, unlike a column's name."""
    text = _LETTERS_OF_NUMBERS.sub("", cell.strip())
    number = any(c.isdigit() for c in text) and not any(c.isalpha() or c == "_" for c in text)
    return number or cell in nulls or text.lower() in ("true", "false")


def first_rows(text: bytes | str, delimiter: str) -> list[list[str]]:
    """Return the first rows of a CSV; a last one that is cut is left out."""
    if isinstance(text, bytes):
        text = text[:LOOKED_AT].decode("utf-8", "replace") + "\n" * (len(text) < LOOKED_AT)
    lines = io.StringIO(text[: text.rfind("\n") + 1], newline="")
    try:
        return [r for r in islice(csv.reader(lines, delimiter=delimiter), _ROWS) if r]
    except csv.Error:
        return []


def like_below(first: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns whose first cell is like the rows below, if that makes it a record.

    A cell is like them if its column has it again, beside other values, in a row of a hundred or more, or if
    nearly all are codes of its form, such as A01.2. Names that are values too are rare: so most columns of few
    values, or of codes, must be so, and more than columns of numbers have a word there.
    """
    alike, few, named = [], 0, 0
    for place, cell in enumerate(map(_plain, first)):
        below = [c for r in rows if len(r) == len(first) and (c := _plain(r[place]))]
        counts = Counter(below)
        if len(counts) < 2:
            continue
        again = counts[cell] * 100 >= max(len(below), 100)
        if again or (_is_code(cell) and sum(_form(c) == _form(cell) for c in below) >= 0.9 * len(below)):
            alike.append(place)
        elif all(map(looks_like_data, counts)):
            named += 1
        else:
            few += len(counts) * 2 <= len(below)
    return alike if len(alike) >= few and len(alike) > named else []


def _plain(cell: str) -> str:
    return cell.strip().casefold()


def _is_code(cell: str) -> bool:
    return sum(map(str.isdigit, cell)) > 1 and any(map(str.isalpha, cell))


def _form(cell: str) -> str:
    return "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in cell)


def _cells(first: bytes, options: CsvOptions, where: str) -> list[str]:
    try:
        text = first.decode("utf-8")
    except UnicodeError:
        raise DataError(*other_encoding(f"the header of {quoted(where)}", options)) from None
    if stray_quote(first, options.separator) is not None:
        raise DataError(
            "stray-quote", f"the header of {quoted(where)} has a quote that does not pair up", PAIR_UP
        )
    named = "the first line must name the columns"
    if not text:
        raise DataError("empty-csv", f"{quoted(where)} is empty: it has no header", named)
    if not text.strip("\r\n"):  # blanks may be a name
        what = f"the first line of {quoted(where)} is empty"
        raise DataError("empty-header", what, f"remove it: {named}")
    if "\r" in re.sub('"[^"]*"', "", text).rstrip("\r\n"):
        raise DataError(
            "old-line-ends",
            f"the lines of {quoted(where)} end with carriage returns alone",
            "convert the line ends, for example with mac2unix",
        )
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=options.separator))
    except csv.Error:
        what = f"the header of {quoted(where)} is not valid CSV"
        raise DataError("invalid-csv", what, "check that it is one") from None

"""The names of a CSV's columns: from its first line, or by number where it has no header.

A first line that looks like a record is refused, because its cells would be published as names: it has numbers
or dates, or it is like the rows below. No message quotes it.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from ppdm_cli.errors import DataError, RefusedError, quoted
from ppdm_cli.tables.csv_blocks import stray_quote
from ppdm_cli.tables.csv_options import CsvOptions

PAIR_UP = 'close the cell; a quote inside a quoted cell is written twice ("")'
DELIMITERS = {";": "';'", "\t": "tab", "|": "'|'"}
"""Separators other than the comma, as they are typed after --delimiter."""
_LETTERS_OF_NUMBERS = re.compile(r"(?<=\d)[eETZ](?=[-+\d]|$)")
_NO_HEADER = "if the first line is a record already, use --no-header"
LOOKED_AT, _ROWS = 1 << 18, 400
"""Bytes, and rows, below the first line that are compared with it."""


def column_names(first: bytes, options: CsvOptions, where: str, below: bytes = b"") -> list[str]:
    """Return the names that the first record gives, or `column_1` and so on for as many cells."""
    cells = _cells(first, options, where)
    if options.header is False:
        return [f"column_{i + 1}" for i in range(len(cells))]
    meant = {*options.known, *options.types}
    marks = [m for m in DELIMITERS if m in cells[0]]
    if len(cells) == 1 and marks and options.delimiter is None and cells[0] not in meant:
        raise DataError(
            f"the header of {quoted(where)} has no comma; its cells look separated by {marks[0]!a}",
            f"add --delimiter {DELIMITERS[marks[0]]}, and --decimal , if numbers have commas",
        )
    if "" in cells:
        raise DataError(
            f"column {cells.index('') + 1} of {quoted(where)} has no name in the first line",
            "name it there, or write the file without it (pandas: without its index); if the file has no "
            "header, add --no-header",
        )
    if options.header is None:
        data = [i for i, c in enumerate(cells) if c not in meant and looks_like_data(c, options.nulls)]
        alike = [] if data or meant & {*cells} else like_below(cells, rows_of(below, options.separator))
        for found, why in ((data, "a number, a date or the like"), (alike, "like the rows below")):
            if found:
                raise RefusedError(
                    f"the first line of {quoted(where)} looks like a record: column {found[0] + 1} is "
                    f"{why}, which would be published as a name",
                    "use --no-header if the file has no header, or --header if these are names",
                )
    first_of = {c: i + 1 for i, c in reversed(list(enumerate(cells)))}
    for place, cell in enumerate(cells, 1):
        if first_of[cell] < place:
            raise DataError(
                f"columns {first_of[cell]} and {place} of {quoted(where)} have the same name",
                f"rename one, so that each name means one column; {_NO_HEADER}",
            )
    return cells


def looks_like_data(cell: str, nulls: Sequence[str] = ()) -> bool:
    """Return whether a cell is a number, a date, a truth value or no value, as no name of a column is."""
    text = _LETTERS_OF_NUMBERS.sub("", cell.strip())
    number = any(c.isdigit() for c in text) and not any(c.isalpha() or c == "_" for c in text)
    return number or cell in nulls or text.lower() in ("true", "false")


def rows_of(text: bytes | str, delimiter: str) -> list[list[str]]:
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
        raise DataError(
            f"the header of {quoted(where)} is not in {options.encoding}",
            "name its encoding, such as --encoding latin-1",
        ) from None
    if stray_quote(first, options.separator) is not None:
        raise DataError(f"the header of {quoted(where)} has a quote that does not pair up", PAIR_UP)
    if not text:
        raise DataError(f"{quoted(where)} is empty: it has no header", "the first line must name the columns")
    if not text.strip("\r\n"):  # blanks may be a name
        raise DataError(
            f"the first line of {quoted(where)} is empty", "take it away: the first line must name the columns"
        )
    if "\r" in re.sub('"[^"]*"', "", text).rstrip("\r\n"):
        raise DataError(
            f"the lines of {quoted(where)} end with carriage returns alone",
            "convert the line ends, for instance with mac2unix",
        )
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=options.separator))
    except csv.Error:
        raise DataError(f"the header of {quoted(where)} is not valid CSV", "check that it is one") from None

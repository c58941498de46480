"""How a CSV is written: its encoding, its delimiter, whether it has a header; found from its bytes.

The encoding is certain where the whole file is UTF-8 or has a byte order mark. Otherwise any byte is some
letter of a Western alphabet, and a person must look whether it is the right one. The delimiter is that which
makes rows of one length out of clean cells (van den Burg et al. 2019, in short). Messages say how sure it is,
and quote no cell.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ppdm_cli import files
from ppdm_cli.tables import LOOKED_AT, CsvOptions, like_below, looks_like_data, opened, rows_of

_BLOCK = 1 << 22
DELIMITERS = (",", ";", "\t", "|")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NUMBER = r"[+-]?[\d.,' ]*\d[\d.,' ]*([eE][+-]?\d+)?\s?%?"
_DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?"
_CLEAN = re.compile(rf"\s*({_NUMBER}|{_DATE}|[^,;\t|\"]*)\s*")
SURE = 1.5
"""The best delimiter is sure where its score is so many times the next one's."""


@dataclass(frozen=True)
class Dialect:
    """How a CSV is written, and whether that is sure."""

    delimiter: str
    encoding: str
    header: bool
    sure: bool
    doubts: tuple[str, ...] = ()
    """What a person should look at."""


def sniff(paths: Sequence[Path], said: CsvOptions | None = None) -> Dialect:
    """Return how the parts of a table are written; the first one tells, but for the encoding.

    What the owner says of the header, or of columns that it names, settles whether there is one.
    """
    encodings = {encoding_of(p) for p in paths}
    encoding = next((e for e in ("cp1252", "latin-1") if e in encodings), min(encodings))
    with files.readable(paths[0]), opened(paths[0]) as stream:
        head = stream.read(LOOKED_AT)
    return dialect_of(head, encoding, said or CsvOptions(), cut=len(head) == LOOKED_AT)


def encoding_of(path: Path) -> str:
    """Return the encoding of a file, which is read to its end or to the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, high = True, False
    with files.readable(path), opened(path) as stream:
        first = stream.read(_BLOCK)
        for mark, name in _MARKS:
            if first.startswith(mark):
                return name
        if wide := _without_mark(first):
            return wide
        block = first
        while block:
            if utf8:
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    utf8 = False
            if not utf8:
                bytes_ = np.frombuffer(block, np.uint8)
                high |= bool(((bytes_ >= 0x80) & (bytes_ < 0xA0)).any())
            block = stream.read(_BLOCK)
    if utf8:
        return "utf-8"
    return "cp1252" if high else "latin-1"


def _without_mark(head: bytes) -> str | None:
    """Return which of the two kinds of UTF-16 text is, if one: every other byte of it is zero."""
    odd, even = head[1:4096:2], head[0:4096:2]
    if len(even) > 3 and odd.count(0) > 0.4 * len(odd) and not even.count(0):
        return "utf-16-le"
    return "utf-16-be" if len(even) > 3 and even.count(0) > 0.4 * len(even) and not odd.count(0) else None


def dialect_of(head: bytes, encoding: str, said: CsvOptions, cut: bool = False) -> Dialect:
    """Return how the beginning of a CSV is written; `cut` says that its last row is not whole."""
    text = head.decode(encoding, "replace").removeprefix("\ufeff") + "\n" * (not cut)
    scores = sorted(((_score(text, d), -i, d) for i, d in enumerate(DELIMITERS)), reverse=True)
    (best, _, delimiter), (second, _, _) = scores[:2]
    doubts = []
    if best and best < SURE * second:
        doubts.append("two delimiters make tables of it: look at the columns")
    if encoding in ("cp1252", "latin-1") and "encoding" not in said.given:
        doubts.append(f"not UTF-8, so it was read as {encoding}: check the accented letters, or add --encoding")
    first, *below = rows_of(text, delimiter if best else ",") or [[]]
    header = bool({*said.types} & {*first}) or not (
        any(looks_like_data(c) for c in first if c) or like_below(first, below)
    )
    header = header if said.header is None else said.header
    if not header and said.header is None:
        doubts.append("the first line looks like a record, so columns are numbered")
    return Dialect(delimiter if best else ",", encoding, header, not doubts, tuple(doubts))


def _score(text: str, delimiter: str) -> float:
    """Return how much like a table of clean cells text is: 0 where it has one column."""
    rows = rows_of(text, delimiter)
    widths = Counter(map(len, rows))
    if not widths:
        return 0.0
    width, alike = widths.most_common(1)[0]
    if width == 1:
        return 0.0
    cells = [c for r in rows if len(r) == width for c in r]
    clean = sum(_CLEAN.fullmatch(c) is not None for c in cells) / len(cells)
    return (alike / len(rows)) ** 2 * clean**2 * (1 - 1 / width)

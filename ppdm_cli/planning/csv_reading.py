"""Detection for `plan` of how a CSV and the cells of its columns are written.

The encoding is certain where the whole file is UTF-8 or has a byte order mark. Otherwise any byte is some
letter of a Western alphabet, and a person must look whether it is the right one. The delimiter is that which
makes rows of one length out of clean cells (van den Burg et al. 2019, in short). One fold counts the cells of
each column that are numbers, dates, truth values or words. The result is one of a fixed list of types and
formats; no cell is kept, and messages quote none.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes, files
from ppdm_cli.errors import argument
from ppdm_cli.perturbing import QUESTION
from ppdm_cli.tables import (
    COMMA,
    LOOKED_AT,
    POINT,
    TRUE_FALSE,
    USUAL,
    VALUE,
    WHOLE,
    CsvOptions,
    dates,
    first_rows,
    has_clock,
    like_below,
    looks_like_data,
    open_bytes,
)

_BLOCK = 1 << 22
_WESTERN = ("cp850", "cp1252", "latin-1")
"""Encodings in which any byte is some letter: they can only be guessed."""
_LETTERS = "äöüßÄÖÜéèêëàâçîïôùûœÉÈÀÇáíóúñÑãåæøìò"
"""Letters that words of the Western languages contain."""
DELIMITERS = (",", ";", "\t", "|")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LIKE_NUMBER = r"[+-]?[\d.,' ]*\d[\d.,' ]*([eE][+-]?\d+)?\s?%?"
_DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?"
_CLEAN = re.compile(rf"\s*({_LIKE_NUMBER}|{_DATE}|[^,;\t|\"]*)\s*")
SURE = 1.5
"""The factor by which the score of a sure delimiter exceeds the next one's."""
CODES, NINES = ("-1", "-9", "-99", "-999", "-9999"), ("99", "999", "9999", "99999", "999999")
"""Numbers that commonly mean no value, if no others are below zero, or none has as many digits."""
_MOST_MINUS = 0.3
"""The share of -1 above which it is a value, such as a class."""
_DAYS = (
    "%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y",
    "%d/%m/%y", "%m/%d/%y",
)  # fmt: skip
FORMATS = tuple(d + clock for d in _DAYS for clock in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S"))
_DATED = r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([ T]\d{1,2}:\d{2}(:\d{2})?)?$"
_PRECISE = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}\.\d{1,6}$"
"""A point in time as programs write it, which needs no format."""
_SOME, _FEW, _MOST_DIGITS = 1_000, 100, 18
_PADDED, _BELOW = r"^[+-]?0\d", r"^-(\d*[1-9])"


@dataclass(frozen=True)
class Dialect:
    """The dialect of a CSV, and whether it is sure."""

    delimiter: str
    encoding: str
    header: bool
    sure: bool
    doubts: tuple[str, ...] = ()
    """The points that a person should check."""


def sniff(paths: Sequence[Path], asked: CsvOptions | None = None) -> Dialect:
    """Return how a table's parts are written: by the first one and its owner, the encoding by all."""
    encodings = {encoding_of(p) for p in paths}
    encoding = next((e for e in _WESTERN if e in encodings), min(encodings))
    with files.readable(paths[0]), open_bytes(paths[0]) as stream:
        head = stream.read(LOOKED_AT)
    return dialect_of(head, encoding, asked or CsvOptions(), cut=len(head) == LOOKED_AT)


def encoding_of(path: Path) -> str:
    """Return a whole file's encoding: UTF-8, or the code page by which most bytes within words are letters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    utf8, high, within = True, False, np.zeros(256, np.int64)
    with files.readable(path), open_bytes(path) as stream:
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
                letter = ((bytes_ | 0x20) - 0x61) < 26
                inside = (bytes_[1:-1] >= 0x80) & letter[:-2] & (letter[2:] | (bytes_[2:] >= 0x80))
                within += np.bincount(bytes_[1:-1][inside], minlength=256)
            block = stream.read(_BLOCK)
    if utf8:
        return "utf-8"
    dos, windows = (_letters(within, e) for e in ("cp850", "cp1252"))
    return "cp850" if dos > windows else "cp1252" if high else "latin-1"


def _letters(counts: np.ndarray, encoding: str) -> int:
    letters = bytes(range(256)).decode(encoding, "replace")
    return int(counts[[letter in _LETTERS for letter in letters]].sum())


def _without_mark(head: bytes) -> str | None:
    """Return the kind of UTF-16 of a text, if it is one: every other byte is zero."""
    odd, even = head[1:4096:2], head[0:4096:2]
    if len(even) > 3 and odd.count(0) > 0.4 * len(odd) and not even.count(0):
        return "utf-16-le"
    return "utf-16-be" if len(even) > 3 and even.count(0) > 0.4 * len(even) and not odd.count(0) else None


def dialect_of(head: bytes, encoding: str, asked: CsvOptions, cut: bool = False) -> Dialect:
    """Return how the beginning of a CSV is written; `cut` means that its last row is not whole."""
    text = head.decode(encoding, "replace").removeprefix("\ufeff") + "\n" * (not cut)
    scores = sorted(((_score(text, d), -i, d) for i, d in enumerate(DELIMITERS)), reverse=True)
    (best, _, delimiter), (second, _, _) = scores[:2]
    doubts = []
    if best and best < SURE * second:
        doubts.append("two delimiters fit: check the columns")
    if encoding in _WESTERN and "encoding" not in asked.given:
        added = argument("encoding")
        doubts.append(f"not UTF-8, so it was read as {encoding}: check the accented letters, or add {added}")
    first, *below = first_rows(text, delimiter if best else ",") or [[]]
    header = bool({*asked.types} & {*first}) or not (
        any(looks_like_data(c) for c in first if c) or like_below(first, below)
    )
    header = header if asked.header is None else asked.header
    if not header and asked.header is None:
        doubts.append("the first line looks like a record, so columns are numbered")
    return Dialect(delimiter if best else ",", encoding, header, not doubts, tuple(doubts))


def _score(text: str, delimiter: str) -> float:
    """Return a score of how much a text looks like a table of clean cells: 0 for one column."""
    rows = first_rows(text, delimiter)
    widths = Counter(map(len, rows))
    if not widths:
        return 0.0
    width, alike = widths.most_common(1)[0]
    if width == 1:
        return 0.0
    cells = [c for r in rows if len(r) == width for c in r]
    clean = sum(_CLEAN.fullmatch(c) is not None for c in cells) / len(cells)
    return (alike / len(rows)) ** 2 * clean**2 * (1 - 1 / width)


@dataclass
class Cells:
    """The forms of the cells of one column; adds up."""

    counts: Counter[str] = field(default_factory=Counter)
    odd: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    """The first row that is not written in each form, and the text of all such cells, if they are alike."""
    digits: int = 0
    """The most digits of numbers before a mark, except for nines."""

    def merge(self, after: Cells) -> Cells:
        self.counts.update(after.counts)
        self.digits = max(self.digits, after.digits)
        for way, (row, cell) in after.odd.items():
            first, known = self.odd.get(way, (row, cell))
            self.odd[way] = first, known if known == cell else None
        return self

    def note(self, way: str, texts: _Texts, fits: np.ndarray) -> None:
        """Note the number of cells in a form, and those that are not."""
        self.counts[way] = texts.count(fits)
        if not fits.all():
            others = texts.only(~fits)
            alike = others.cells.unique()
            self.odd[way] = int(others.rows[0]), alike[0].as_py() if len(alike) == 1 else None

    def note_each(self, codes: Sequence[str], texts: _Texts) -> np.ndarray:
        """Note the number of cells that are each of some codes, and return those that are any."""
        found = texts.among(codes)
        for code in codes if found.any() else ():
            if (own := texts.among([code])).any():
                self.counts[code], self.odd[code] = texts.count(own), (int(texts.rows[own][0]), None)
        return found


@dataclass(frozen=True)
class _Texts:
    """Cells of a column, each with its row, or different ones with the first row of each."""

    cells: pa.Array
    rows: np.ndarray
    times: np.ndarray

    @classmethod
    def different(cls, text: pa.Array, rows: np.ndarray) -> _Texts:
        encoded = text.dictionary_encode()
        codes = dtypes.carrier(encoded.indices)
        first = np.empty(len(encoded.dictionary), np.int64)
        first[codes[::-1]] = rows[::-1]  # the last one that is put in a place stays
        return cls(encoded.dictionary, first, np.bincount(codes, minlength=len(first)))

    def only(self, which: np.ndarray) -> _Texts:
        places = np.flatnonzero(which)
        return _Texts(self.cells.take(pa.array(places)), self.rows[places], self.times[places])

    def count(self, which: np.ndarray) -> int:
        return int(self.times[which].sum())

    def like(self, pattern: str) -> np.ndarray:
        return _mask(pc.match_substring_regex(self.cells, pattern))

    def among(self, words: Sequence[str]) -> np.ndarray:
        return _mask(pc.is_in(self.cells, value_set=pa.array(words)))


@dataclass(frozen=True)
class Written:
    """The forms of a column's cells, out of fixed lists."""

    type: str
    formats: tuple[str, ...] = ()
    padded: bool = False
    doubt: str = ""
    nulls: tuple[str, ...] = ()
    """The cells that mean null in this column, in addition to those that do in every one."""
    odd: str = ""
    """The owner's answer about odd cells, or a question; empty if the column has none.

    They are usual spellings of no value, codes, or not of the column's type.
    """
    spelled: str = ""
    """A remark on usual spellings of no value in the column."""

    def settled(self, csv: Mapping[str, Any], name: str) -> Written:
        """Return the same with an owner's answers about this column."""
        odd, formats = csv.get("odd", {}), csv.get("formats", {})
        own = self if name not in formats else replace(self, formats=tuple(formats[name]), doubt="")
        return own.answered(odd if isinstance(odd, str) else odd.get(name, ""))

    def answered(self, odd: str) -> Written:
        """Return the same after the answer that odd cells are "null" or a "value"."""
        if odd == VALUE:
            return replace(self, odd=odd, nulls=())
        return replace(self, odd=odd) if odd else self

    @property
    def doubts(self) -> list[str]:
        return [d for d in (self.doubt, self.spelled) if d]


def read_block(text: pa.Array, nulls: Sequence[str], first_row: int = 0) -> tuple[Cells, pa.Array | None]:
    """Count the forms of cells, and return the column that they are read as, if its type isn't in doubt."""
    numbers = None
    if not any(map(str.isdigit, "".join(nulls))):  # else a number may mean null
        numbers = _numbers(text)
    own = _written(cells := _seen(text, numbers, nulls, first_row), comma=False)
    if own.odd or own.doubt or cells.counts["usual"]:
        return cells, None
    values = text if own.type == "string" else numbers
    return cells, values if values is not None and str(values.type) == own.type else None


def _seen(text: pa.Array, numbers: pa.Array | None, nulls: Sequence[str], first_row: int) -> Cells:
    """Count the forms of cells, except null and its spellings, which are in quotes here."""
    cells = Cells()
    counts = cells.counts
    rows, text = np.flatnonzero(_mask(text.is_valid())) + first_row, text.drop_null()
    if numbers is not None:
        numbers, texts = numbers.drop_null(), _Texts(text, rows, np.ones(len(text), np.int64))
    else:
        texts = _Texts.different(text, rows)
        quoted = texts.among(nulls)
        usual = texts.among(USUAL) & ~quoted
        counts |= Counter(quoted=texts.count(quoted), usual=texts.count(usual))
        if usual.any():
            cells.odd["usual"] = int(texts.rows[usual][0]), None
        texts = texts.only(~(quoted | usual))
        texts = replace(texts, cells=pc.utf8_trim_whitespace(texts.cells))
        numbers = _numbers(texts.cells)
    counts["cells"] = int(texts.times.sum())
    if not counts["cells"]:
        return cells
    if numbers is not None:
        _count_numbers(cells, texts, dtypes.carrier(numbers))
        return cells
    _count_below(cells, texts)
    whole, point, comma = (texts.like(pattern) for pattern in (WHOLE, POINT, COMMA))
    counts["whole"] = texts.count(whole)
    if whole.any():
        counts["padded"] = texts.count(texts.like(_PADDED))
    cells.note("point", texts, point)
    cells.note("comma", texts, comma)
    _count_digits(cells, texts.only(point | comma))
    if point.all():
        return cells
    cells.note("truth", texts, replace(texts, cells=pc.utf8_lower(texts.cells)).among(TRUE_FALSE))
    counts["precise"] = texts.count(texts.like(_PRECISE))
    dated = texts.like(_DATED)
    if dated.any():
        dated[dated] = _count_dates(cells, texts.only(dated))
    cells.note("dates", texts, dated)
    return cells


def _count_numbers(cells: Cells, texts: _Texts, numbers: np.ndarray) -> None:
    """Count cells that are all numbers; most by their values, and as text only those that may matter."""
    counts, (data, starts) = cells.counts, _bytes(texts.cells)
    lengths, floating = np.diff(starts), numbers.dtype.kind == "f"
    plain = not any(mark in data for mark in ((b"e", b"E", b"+") if floating else (b"x", b"X")))
    bytes_ = np.frombuffer(data + b"\n", np.uint8)
    begins, at_end = starts[:-1], bytes_[starts[1:] - 2]
    minus = bytes_[begins] == ord("-")

    def only(which: np.ndarray) -> _Texts:
        return texts.only(which) if plain else texts

    if minus.any():
        _count_below(cells, only(numbers <= -1))
    counts["point"] = counts["whole"] = counts["comma"] = counts["cells"]
    whole = np.rint(numbers) == numbers if floating else np.ones(len(numbers), bool)
    if floating:
        some = only(whole & ((at_end != ord(".")) | (lengths < 2)))  # 5.0 is not written as a whole number
        counts["whole"] = some.count(some.like(WHOLE))
        some = _Texts(texts.cells[:_FEW], texts.rows[:_FEW], texts.times[:_FEW])
        some = texts if some.like(COMMA).all() else some  # what matters is whether all fit
        counts["comma"] = some.count(some.like(COMMA))
    begins = begins + (minus | (bytes_[begins] == ord("+")))
    padded = (bytes_[begins] == ord("0")) & (bytes_[begins + 1] - ord("0") < 10) & (begins + 1 < starts[1:])
    if counts["whole"]:
        counts["padded"] = texts.count(padded)
    nines = whole & (numbers >= int(NINES[0]))
    if nines.any():
        nines &= np.isin(numbers, [int(n) for n in NINES])
    others = numbers[~nines] if nines.any() else numbers
    high, low = others.max(initial=0), others.min(initial=0)
    longest = nines | (minus & (low > -1))
    longest[[np.argmax(numbers == high), np.argmax(numbers == low)]] = True
    _count_digits(cells, only(longest) if high >= 1 and not padded.any() else texts)


def _bytes(text: pa.Array) -> tuple[bytes, np.ndarray]:
    """Return the bytes of cells one after another, and where each begins."""
    _, offsets, data = text.buffers()
    starts = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return data[int(starts[0]) : int(starts[-1])].to_pybytes(), starts - starts[0]


def _count_below(cells: Cells, texts: _Texts) -> None:
    """Count the numbers below zero, but for codes."""
    codes = cells.note_each(CODES, texts)
    cells.counts["below"] = texts.count(texts.like(_BELOW) & ~codes)


def _count_digits(cells: Cells, texts: _Texts) -> None:
    """Count numbers by their digits before a mark, except for the nines that may mean no value."""
    others = texts.only(~cells.note_each(NINES, texts)).cells
    marks = np.maximum(*(dtypes.carrier(pc.find_substring(others, m)) for m in ".,"))
    digits = np.where(marks < 0, dtypes.carrier(pc.binary_length(others)), marks)
    cells.digits = max(cells.digits, int(digits.max(initial=0)))


def _count_dates(cells: Cells, texts: _Texts) -> np.ndarray:
    """Count the dates of each format; return the cells that are some."""
    known = np.zeros(len(texts.cells), bool)
    marks = [m for m in "-./:T" if pc.any(pc.match_substring(texts.cells, m)).as_py()]
    bare = not pc.all(pc.match_substring(texts.cells, ":")).as_py()
    for form in FORMATS:
        own = set(form) & set("-./:T")
        if not own <= set(marks) or (":" not in own and not bare):
            continue
        fits = _mask(dates(texts.cells, [form]).is_valid())
        if fits.any():
            cells.counts[form] = texts.count(fits)
            known |= fits
    return known


def _numbers(text: pa.Array) -> pa.Array | None:
    """Return cells as numbers if all are: parsed, which is much faster than a regular expression."""
    for kind in (pa.int64(), pa.float64()):
        try:
            pc.cast(text.slice(0, _SOME), kind)
            numbers = pc.cast(text, kind)
        except pa.ArrowException:
            continue
        if pa.types.is_floating(kind):  # a word such as inf is parsed too
            return numbers if pc.all(pc.is_finite(numbers)).as_py() else None
        if (pc.max(pc.binary_length(text)).as_py() or 0) <= _MOST_DIGITS:
            return numbers
    return None


def _mask(found: pa.Array) -> np.ndarray:
    return found.to_numpy(zero_copy_only=False).astype(bool)


def written(
    cells: Cells, comma: bool, nulls: Sequence[str], kind: pa.DataType | None, formats: Sequence[str]
) -> Written:
    """Return the forms of a column's cells as declared or shown; `comma`: numbers have a decimal comma."""
    found = _written(cells, comma)
    if kind is not None:
        its = dtypes.parse(found.type)
        alike = (dtypes.is_number(its), dtypes.is_dated(its)) == (dtypes.is_number(kind), dtypes.is_dated(kind))
        found = replace(found, type=str(kind)) if alike else Written(str(kind))
        found = replace(found, formats=tuple(formats) or found.formats, padded=False)
    if usual := cells.counts["usual"]:
        first = cells.odd["usual"][0] + 1
        spelled = f"{usual:,} of its cells are usual spellings of no value, such as NA, first in row {first:,}"
        found = replace(found, odd=QUESTION, spelled=spelled)
    return replace(found, nulls=(*(nulls if cells.counts["quoted"] else ()), *found.nulls))


def _codes(cells: Cells) -> tuple[str, ...]:
    """Return the usual numbers for no value that are used as such."""
    counts = cells.counts
    minus = CODES if not counts["below"] and counts["-1"] <= _MOST_MINUS * counts["cells"] else ()
    nines = [n for n in NINES if len(n) > cells.digits]
    return tuple(c for codes in (minus, nines) if any(counts[n] for n in codes) for c in codes)


def _written(cells: Cells, comma: bool) -> Written:
    counts, n, nulls = cells.counts, cells.counts["cells"], _codes(cells)
    if n and counts["precise"] == n:
        return Written("timestamp[us]")
    numbers = "comma" if comma else "point"
    if comma and counts["point"] > max(counts["comma"], 0.9 * n):
        return Written("string", doubt="its numbers have a point, and those of other columns a comma")
    way = max((numbers, "dates", "truth"), key=lambda w: counts[w])
    codes = sum(counts[c] for c in nulls)
    odd = n - counts[way] - (codes if way == "dates" else 0)
    row, alike = cells.odd.get(way, (0, None))
    if not n or odd >= (0.1 if alike is None else 0.5) * n:
        return Written("string")
    if way == numbers and counts["padded"]:
        return Written("string", padded=counts["whole"] == n)
    found = _written_dates(cells) if way == "dates" else Written("bool" if way == "truth" else "double")
    if found.type == "string":
        return found
    if way == numbers and counts["whole"] == counts[way]:
        found = Written("int64")
    doubts = [found.doubt] * bool(found.doubt)
    if odd:
        same = ", all alike" if alike is not None else ""
        which = {"dates": "dates", "truth": "true or false"}.get(way, "numbers")
        doubts.append(f"{odd:,} of its {n:,} cells are not {which}, first in row {row + 1:,}{same}")
    if codes:
        first = min(cells.odd[c][0] for c in nulls if c in cells.odd) + 1
        doubts.append(f"{codes:,} of its cells are one of {', '.join(nulls)}, first in row {first:,}")
    formats = () if found.formats == ("%Y-%m-%d",) and not odd else found.formats
    return replace(
        found, formats=formats, doubt="; ".join(doubts), nulls=nulls, odd=QUESTION * bool(odd or codes)
    )


def _written_dates(cells: Cells) -> Written:
    """Return the formats of dates; of two that differ in the order of day and month, the one that fits all."""
    counts = cells.counts
    formats: list[str] = []
    open_one = False
    for form in (f for f in FORMATS if counts[f]):
        other = form.replace("%d", "%?").replace("%m", "%d").replace("%?", "%m")
        if form.startswith("%Y") or counts[other] == 0 or counts[form] > counts[other]:
            formats.append(form)
        elif counts[form] == counts[other] and form.startswith("%d"):
            formats.append(form)
            open_one = True
    if sum(counts[f] for f in formats) != counts["dates"]:
        return Written("string", doubt="dates whose day and month can't be distinguished")
    kind = "timestamp[ms]" if any(map(has_clock, formats)) else "date32[day]"
    doubt = "day and month may be the other way round in every date" if open_one else ""
    if len(formats) > 1 and not doubt:
        doubt = "dates of several formats"
    return Written(kind, formats=tuple(formats), doubt=doubt)

"""CSV for tables in: parsed in parallel from blocks of whole records, without silent guesses.

A row with too few or too many cells, a byte that is not text, or a column that changes its type half-way is an
error with the row's number. An empty cell is null, an empty cell in quotes is an empty string.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from ppdm_cli.errors import DataError, counted, quoted, unknown_column
from ppdm_cli.tables import csv_records
from ppdm_cli.tables.base import (
    Partition,
    RowTrouble,
    Table,
    normal_batch,
    normal_schema,
    ordered,
    other_table,
    workers,
)
from ppdm_cli.tables.csv_options import COMMA, CsvOptions, other_encoding, other_type
from ppdm_cli.tables.csv_records import (
    LOOKED_AT,
    PAIR_UP,
    chain,
    column_names,
    first_record,
    has_padding,
    is_blank,
    open_bytes,
    record_start,
    stray_quote,
    whole_records,
)
from ppdm_cli.tables.csv_writer import CsvWriter
from ppdm_cli.tables.formats import Files, Format
from ppdm_cli.tables.stores import unread

_PLACE = re.compile(r"CSV column #(\d+): (?:Row #(\d+): )?")
_RAGGED = re.compile(r"CSV parse error: Row #(\d+): Expected \d+ columns, got (\d+)")
_FAMILIES = {
    "int64": "number",
    "double": "number",
    "bool": "boolean",
    "date32[day]": "time",
    "timestamp[ms]": "time",
    "timestamp[us]": "time",
    "timestamp[ms, tz=UTC]": "time with zone",
    "timestamp[us, tz=UTC]": "time with zone",
    "time32[s]": "time of day",
}
_WIDEST = {
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us"),
    "time with zone": pa.timestamp("us", "UTC"),
    "time of day": pa.time32("s"),
    "text": pa.string(),
}
_WIDENING = [pa.int64(), pa.float64(), pa.date32(), pa.timestamp("ms"), pa.timestamp("us")]
"""Families of types: the later of two types holds the values of both."""
_EXPECTED = (pa.int64(), pa.float64(), pa.string())
"""Types whose cells are read alike whether the type is given or inferred."""
_HELD = 256 << 20
"""The most bytes of columns that stay in memory after their types are inferred, for the passes that follow."""
_PADDED = re.compile(r"[+-]?0\d")
"""The beginning of digits that are text, as in a postcode."""


@dataclass(frozen=True)
class _Parser:
    """A parser of whole records into a table."""

    names: list[str]
    options: CsvOptions
    table: str
    """The name of the CSV, for messages."""

    def __call__(self, block: bytes, types: Mapping[str, pa.DataType | None]) -> pa.Table:
        """Parse whole records; an error names the row, counted from 0 within the block."""
        if len(self.names) > 1 and is_blank(block):
            return pa.table({n: pa.nulls(0, t or pa.null()) for n, t in types.items()})
        stray = stray_quote(block, self.options.separator)
        if stray is not None:
            before = self(block[: record_start(block, stray)], dict.fromkeys(self.names, pa.binary()))
            what = "it has a quote that does not pair up: a cell that is never closed, or a quote inside one"
            raise RowTrouble(before.num_rows, "stray-quote", what, PAIR_UP)
        names, options = self.names, self.options
        odd = {n: t for n, t in types.items() if t is not None and options.is_odd(n, t)}
        types = {**types, **dict.fromkeys(odd, pa.string())}
        try:
            table = pacsv.read_csv(
                pa.py_buffer(block),
                pacsv.ReadOptions(column_names=names, use_threads=False, block_size=len(block) + 1),
                pacsv.ParseOptions(
                    delimiter=options.separator,
                    ignore_empty_lines=len(names) > 1,
                    newlines_in_values=b'"' in block,
                ),
                pacsv.ConvertOptions(
                    column_types={n: t for n, t in types.items() if t is not None},
                    include_columns=list(types),
                    null_values=list(options.nulls),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    decimal_point=options.decimal,
                ),
            )
        except pa.ArrowException as error:
            raise self._unconverted(str(error), types) from None
        for name, kind in odd.items():
            column = options.converted(name, table.column(name), kind)
            table = table.set_column(table.schema.get_field_index(name), name, column)
        return table

    def _unconverted(self, message: str, types: Mapping[str, pa.DataType | None]) -> Exception:
        """Return the row from pyarrow's message, never its text about the cell."""
        ragged = _RAGGED.match(message)  # a handler of pyarrow's would be given the row, which need be no text
        if ragged is not None:
            start = "first row" if self.options.header is False else "header"
            return RowTrouble(
                int(ragged[1]) - 1,
                "ragged-row",
                f"it has {counted(int(ragged[2]), 'cell')} where the {start} has {len(self.names)}",
                "fix the row",
            )
        place = _PLACE.search(message)
        if place is None:
            what = f"a block of {quoted(self.table)} is not valid CSV"
            return DataError("invalid-csv", what, "check its delimiter and its quotes")
        name, row = self.names[int(place[1])], int(place[2] or 1) - 1
        if "UTF8" in message:
            return RowTrouble(row, *other_encoding(f"the column {quoted(name)}", self.options))
        return other_type(row, name, types.get(name))

    def load(self, block: bytes, schema: pa.Schema) -> pa.RecordBatch:
        return normal_batch(self(block, dict(zip(schema.names, schema.types, strict=True))), schema)


class CsvTable(Table):
    """One or more CSV files of the same header, or a stream."""

    def __init__(self, sources: Sequence[Path] | IO[bytes], name: str, options: CsvOptions) -> None:
        self.name, self._options = name, options
        self.rewindable = not hasattr(sources, "read")
        self.files: tuple[Path, ...] = tuple(sources) if self.rewindable else ()  # type: ignore[arg-type]
        self._sources: Sequence[Path | IO[bytes]] = self.files or (sources,)  # type: ignore[assignment]
        self._pending: Iterator[bytes] | None = None
        self._names = self._read_headers()
        self._parse = _Parser(self._names, options, name)
        for column in options.types:
            if column not in self._names:
                raise unknown_column(column, self._names, "types")
        only = frozenset(self._names) if options.only is None else options.only
        self._unread = options.unread | (frozenset(self._names) - only)
        known = {n: pa.string() for n in self._unread} | dict(options.known) | dict(options.types)
        self.rows: int | None = None
        self._held: dict[int, tuple[str, pa.Table]] = {}
        self.inferred = frozenset(n for n in self._names if n not in known)
        if self.inferred:
            known = self._infer(known)
        self.schema = normal_schema(pa.schema([(n, known[n]) for n in self._names]), name)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        schema = pa.schema([self.schema.field(n) for n in names])
        held = self._held if self._unread.isdisjoint(names) else {}
        blocks: Iterable[tuple[int, tuple[str, bytes]]] = enumerate(self._blocks())
        if held and sum(table.num_rows for _, table in held.values()) == self.rows:
            blocks = ((number, (source, b"")) for number, (source, _) in held.items())
        for number, (source, block) in blocks:
            if number in held:
                yield Partition(source, partial(normal_batch, held[number][1].select(names), schema))
            else:
                yield Partition(source, partial(self._parse.load, block, schema))

    def _read_headers(self) -> list[str]:
        first: list[str] | None = None
        for source in self._sources:
            blocks = self._decoded(source)
            header, rest = self._begun(blocks, self._label(source))
            while first is None and len(rest) < LOOKED_AT and (more := next(blocks, None)) is not None:
                rest += more
            below = rest if first is None else b""  # the other parts have the same names
            names = column_names(header, self._options, self._label(source), below)
            if first is not None and names != first:
                raise other_table(self._label(source), self._label(self._sources[0]))
            first = names
            if not self.rewindable:
                self._pending = chain(rest, blocks)
        assert first is not None
        return first

    def _begun(self, blocks: Iterator[bytes], label: str) -> tuple[bytes, bytes]:
        """Return the first record, and the data that came with it: without a header it is data itself."""
        first, rest = first_record(blocks, label)
        return first, first + rest if self._options.header is False else rest

    def _label(self, source: Path | IO[bytes]) -> str:
        return str(source) if isinstance(source, Path) else self.name

    def _decoded(self, source: Path | IO[bytes]) -> Iterator[bytes]:
        """Return the source in UTF-8, decompressed and without a byte order mark."""
        label = self._label(source)
        decoder = (
            None
            if codecs.lookup(self._options.encoding).name == "utf-8"
            else codecs.getincrementaldecoder(self._options.encoding)()
        )
        lines, first, size = 0, True, max(csv_records.BLOCK, len(codecs.BOM_UTF8))
        try:
            with open_bytes(source) as stream:
                while block := stream.read(size):
                    text = decoder.decode(block).encode() if decoder else block
                    yield text.removeprefix(codecs.BOM_UTF8) if first else text
                    first = False
                    if decoder:
                        lines += text.count(b"\n")
                if decoder:
                    yield decoder.decode(b"", final=True).encode()
        except UnicodeError as error:
            read = ""
            if isinstance(error, UnicodeDecodeError):
                read = error.object[: error.start].decode(error.encoding, "replace")
            line = f"line {lines + read.count(chr(10)) + 1} of {quoted(label)}"
            raise DataError(*other_encoding(line, self._options)) from None
        except (OSError, EOFError, zlib.error) as error:
            what = f"{quoted(label)} can't be read to its end: it is damaged, truncated or not readable for you"
            damaged = DataError("damaged-csv", what, "copy it again, or check your permissions")
            raise unread(label, error, damaged) from None

    def _blocks(self) -> Iterator[tuple[str, bytes]]:
        """Yield runs of whole records, without the headers."""
        for source in self._sources:
            if self._pending is not None:
                blocks, self._pending = self._pending, None
            else:
                decoded = self._decoded(source)
                _, rest = self._begun(decoded, self._label(source))
                blocks = chain(rest, decoded)
            for block in whole_records(blocks, self._label(source)):
                yield self._label(source), block

    def _infer(self, declared: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
        """Infer the types from the whole file, or from the first block of a stream."""
        wanted = {n: declared.get(n) for n in self._names if n not in self._unread}
        found = _Inference(self._parse, self._options, wanted)
        blocks: Iterator[tuple[str, bytes]] = self._blocks()
        if not self.rewindable:
            assert self._pending is not None
            records = whole_records(self._pending, self.name)
            first = next(records, b"")
            self._pending = chain(first, records)
            blocks = iter([(self.name, first)] if first else [])
        rows, file, in_file, held = 0, "", 0, list[tuple[str, pa.Table]]()
        with workers() as executor:
            for label, seen in ordered(executor, blocks, lambda b: (b[0], found.look(b[1]))):
                if label != file:
                    file, in_file = label, 0
                try:
                    if isinstance(seen, RowTrouble):
                        raise seen
                    found.add(seen)
                except RowTrouble as trouble:
                    raise trouble.within(file, in_file) from None
                rows, in_file = rows + seen.table.num_rows, in_file + seen.table.num_rows
                if self.rewindable and sum(t.nbytes for _, t in held) < _HELD:
                    held.append((label, seen.table))
        if self.rewindable:
            self.rows = rows
        self.padded = found.padded
        types = {n: found.types.get(n, pa.null()) for n in self._names}
        types |= dict.fromkeys(self.padded, pa.string())
        types = {n: pa.string() if pa.types.is_null(t) else t for n, t in types.items()} | declared
        alike = (all(f.type == types[f.name] for f in t.schema) for _, t in held)
        self._held = {i: h for i, (h, fits) in enumerate(zip(held, alike, strict=True)) if fits}
        return types


@dataclass(frozen=True)
class _BlockTypes:
    """The types that one block of a CSV shows."""

    types: dict[str, pa.DataType]
    table: pa.Table
    block: bytes
    padded: frozenset[str]
    """Columns of digits that begin with a zero somewhere."""


@dataclass
class _Inference:
    """Types for a CSV's columns, from their cells; blocks are examined in any order, and added in theirs.

    All values must be of the first one's type: text after a number is an error.
    """

    parse: _Parser
    options: CsvOptions
    wanted: Mapping[str, pa.DataType | None]
    """The columns that are read, with their types; None if the cells decide."""
    types: dict[str, pa.DataType] = field(default_factory=dict)
    _padded: set[str] = field(default_factory=set)

    def look(self, block: bytes) -> _BlockTypes | RowTrouble:
        """Return the types that a block shows, or an error in a row of it."""
        try:
            try:
                table = self.parse(block, self._expected())
            except (RowTrouble, DataError):
                table = self.parse(block, self.wanted)
            types = {f.name: _plain(f.type) for f in table.schema if self.wanted[f.name] is None}
            for name, kind in types.items():
                if pa.types.is_binary(kind):
                    self.parse(block, {name: pa.string()})  # says where it is not text
                comma = self.options.decimal == "," and pa.types.is_string(kind)
                if comma and pc.all(pc.match_substring_regex(table.column(name), COMMA)).as_py():
                    types[name] = pa.float64()
            padded = frozenset[str]()
            whole = [n for n, t in types.items() if pa.types.is_int64(t)]
            if whole and has_padding(block, self.options.separator):
                texts = self.parse(block, dict.fromkeys(whole, pa.string()))
                begins = {n: pc.match_substring_regex(texts.column(n), f"^{_PADDED.pattern}") for n in whole}
                padded = frozenset(n for n, found in begins.items() if pc.any(found).as_py())
        except RowTrouble as trouble:
            return trouble
        return _BlockTypes(types, table, block, padded)

    def _expected(self) -> dict[str, pa.DataType | None]:
        """Return the types so far where a block that fits them changes none: reading them is twice as fast."""
        seen = {n: self.types.get(n) for n, kind in self.wanted.items() if kind is None}
        sure = {n: t for n, t in seen.items() if t in _EXPECTED and not self.options.is_odd(n, t)}
        return {**self.wanted, **sure}

    def add(self, found: _BlockTypes) -> None:
        """Add the types of the next block; an error names its row in the block."""
        for name, kind in found.types.items():
            self.types[name] = self._merged(name, self.types.get(name, pa.null()), kind, found.block)
        self._padded |= found.padded

    @property
    def padded(self) -> list[str]:
        """Return the columns of digits of which some begin with a zero: they are text."""
        return [n for n in self.wanted if n in self._padded and self.types[n] == pa.int64()]

    def _merged(self, name: str, before: pa.DataType, now: pa.DataType, block: bytes) -> pa.DataType:
        """Merge the type so far with a block's."""
        if pa.types.is_null(before):
            first = _family(now)
            if first in ("text", "boolean"):  # as other values may have made it
                column = self.parse(block, {name: pa.string()}).column(name)
                alone = next((v.as_py() for v in column if v.is_valid), "")
                first = _family(_inferred([alone], self.options.decimal))
            if first == _family(now):
                return now
            before = _WIDEST[first]
        if pa.types.is_null(now) or before == now or _family(before) == "text":
            return before
        if _family(before) == _family(now):
            return max(before, now, key=lambda kind: _WIDENING.index(_unzoned(kind)))
        self.parse(block, {name: _WIDEST[_family(before)]})  # says where
        return before


def type_of(values: Sequence[str]) -> pa.DataType:
    """Return the type that a column of these values would be read as."""
    kind = _inferred(values, ".")
    return pa.string() if pa.types.is_int64(kind) and any(map(_PADDED.match, values)) else kind


def _inferred(values: Sequence[str], decimal: str) -> pa.DataType:
    cells = "".join('"' + v.replace('"', '""') + '"\n' for v in values).encode()
    found = pacsv.read_csv(
        pa.py_buffer(cells),
        pacsv.ReadOptions(column_names=["x"], use_threads=False, block_size=len(cells) + 1),
        pacsv.ParseOptions(newlines_in_values=True),
        pacsv.ConvertOptions(null_values=[], quoted_strings_can_be_null=False, decimal_point=decimal),
    )
    return _plain(found.schema.field("x").type)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return instants to the microsecond or, if they are whole seconds, the millisecond."""
    if not pa.types.is_timestamp(kind):
        return kind
    return pa.timestamp("us" if kind.unit == "ns" else "ms", kind.tz)


def _unzoned(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind


def _family(kind: pa.DataType) -> str:
    return _FAMILIES.get(str(kind), "text")


def _opened(delimiter: str | None, files: Files, options: CsvOptions) -> CsvTable:
    if files.root is not None and any("=" in str(p.relative_to(files.root).parent) for p in files.paths):
        raise DataError(
            "csv-with-keys",
            f"{quoted(files.root)} has CSV parts in folders named key=value, but the parts lack these keys",
            "name the files, or make a folder of Parquet parts of them",
        )
    name = str(files.root or files.paths[0])
    return CsvTable(files.paths, name, replace(options, delimiter=options.delimiter or delimiter))


CSV, TSV = (
    Format(
        name,
        (f".{name.lower()}", f".{name.lower()}.gz"),
        partial(_opened, None if name == "CSV" else delimiter),
        partial(CsvWriter, delimiter),
        sidecar="beside",
        open_stream=CsvTable if name == "CSV" else None,
        parts="folder",
        sniffed=True,
    )
    for name, delimiter in (("CSV", ","), ("TSV", "\t"))
)

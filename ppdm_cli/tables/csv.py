"""CSV in: cut into blocks at the ends of records, parsed in parallel, never guessed in silence.

A row with too few or too many cells, a byte that is not text, or a column that changes its type
half-way is an error with the row's number. An empty cell is null, an empty cell in quotes is an
empty string.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv as pacsv

from ppdm_cli.errors import DataError, quoted, unknown_column, word
from ppdm_cli.pool import ordered, workers
from ppdm_cli.tables import csv_blocks
from ppdm_cli.tables.base import Partition, RowTrouble, Table, normal_batch, normal_schema
from ppdm_cli.tables.csv_blocks import (
    chain,
    first_record,
    has_padding,
    opened,
    record_start,
    stray_quote,
    whole_records,
)
from ppdm_cli.tables.csv_cells import COMMA, converted
from ppdm_cli.tables.csv_header import LOOKED_AT, PAIR_UP, column_names
from ppdm_cli.tables.csv_options import CsvOptions
from ppdm_cli.tables.csv_types import (
    PADDED,
    WIDENING,
    WIDEST,
    Guess,
    all_fit,
    any_fits,
    family,
    family_of,
    plain,
    unzoned,
)
from ppdm_cli.tables.csv_writing import CsvWriter
from ppdm_cli.tables.formats import Files, Format

_PLACE = re.compile(r"CSV column #(\d+): (?:Row #(\d+): )?")
_RAGGED = re.compile(r"CSV parse error: Row #(\d+): Expected \d+ columns, got (\d+)")


@dataclass(frozen=True)
class _Parser:
    """Makes a table of whole records."""

    names: list[str]
    options: CsvOptions
    table: str
    """What the CSV is called, for messages."""

    def __call__(self, block: bytes, types: Mapping[str, pa.DataType | None]) -> pa.Table:
        """Parse whole records; trouble names the row, counted from 0 within the block."""
        if len(self.names) > 1 and not block.strip(b"\r\n"):
            return pa.table({n: pa.nulls(0, t or pa.null()) for n, t in types.items()})
        stray = stray_quote(block, self.options.separator)
        if stray is not None:
            before = self(block[: record_start(block, stray)], dict.fromkeys(self.names, pa.binary()))
            raise RowTrouble(
                before.num_rows,
                "it has a quote that does not pair up: a cell that is never closed, or a quote inside one",
                PAIR_UP,
            )
        names, options = self.names, self.options
        odd = {n: t for n, t in types.items() if t is not None and self._is_odd(n, t)}
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
            column = converted(
                name,
                table.column(name),
                kind,
                comma=options.decimal_of(name) == ",",
                formats=options.formats.get(name, ()),
                nulls=options.nulls_of.get(name, ()),
            )
            table = table.set_column(table.schema.get_field_index(name), name, column)
        return table

    def _is_odd(self, name: str, kind: pa.DataType) -> bool:
        """Return whether a column's cells are not as pyarrow reads them."""
        options, number = self.options, pa.types.is_integer(kind) or pa.types.is_floating(kind)
        comma = options.decimal_of(name) == "," and (number or pa.types.is_decimal(kind))
        fraction = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        other = options.decimal_of(name) != options.decimal and fraction
        dated = name in options.formats and pa.types.is_temporal(kind)
        return comma or other or dated or name in options.nulls_of

    def _unconverted(self, message: str, types: Mapping[str, pa.DataType | None]) -> Exception:
        """Return what pyarrow's message says of the place, never what it says of the cell."""
        ragged = _RAGGED.match(message)  # a handler of pyarrow's would be given the row, which need be no text
        if ragged is not None:
            start = "first row" if self.options.header is False else "header"
            return RowTrouble(
                int(ragged[1]) - 1,
                f"it has {ragged[2]} cells where the {start} has {len(self.names)}",
                "fix the row, or add --delimiter",
            )
        place = _PLACE.search(message)
        if place is None:
            return DataError(
                f"a block of {quoted(self.table)} is not valid CSV", "check its delimiter and its quotes"
            )
        name, row = self.names[int(place[1])], int(place[2] or 1) - 1
        kind = types.get(name)
        if "UTF8" in message:
            return RowTrouble(
                row,
                f"the column {quoted(name)} is not in {self.options.encoding} there",
                "name its encoding, such as --encoding latin-1",
            )
        if kind is not None and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            return RowTrouble(
                row,
                f"the column {quoted(name)} is not written as a {kind} there",
                f"say how its dates are written, such as --date-format {word(name, '=%d.%m.%Y')}, or --null "
                "for what is no value",
            )
        return RowTrouble(
            row,
            f"the column {quoted(name)} is not of type {kind} there",
            f"declare it, such as --type {word(name, '=string')}, or say what stands for no value, such "
            "as --null NA",
        )

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
        self.padded: list[str] = []
        """Columns of digits that begin with a zero somewhere: text, where no type was declared."""
        self.inferred = frozenset(n for n in self._names if n not in known)
        """Columns whose types the cells decide."""
        if self.inferred:
            known = self._infer(known)
        self.schema = normal_schema(pa.schema([(n, known[n]) for n in self._names]), name)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        schema = pa.schema([self.schema.field(n) for n in names])
        for source, block in self._blocks():
            yield Partition(source, partial(self._parse.load, block, schema))

    # -- bytes

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
                raise DataError(
                    f"{quoted(self._label(source))} does not have the columns of "
                    f"{quoted(self._label(self._sources[0]))}",
                    "give parts of one table only",
                )
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
        lines, first, size = 0, True, max(csv_blocks.BLOCK, len(codecs.BOM_UTF8))
        try:
            with opened(source) as stream:
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
            raise DataError(
                f"line {lines + read.count(chr(10)) + 1} of {quoted(label)} is not in {self._options.encoding}",
                "name its encoding, such as --encoding latin-1",
            ) from None
        except (OSError, EOFError, zlib.error):
            raise DataError(
                f"{quoted(label)} cannot be read to its end: it is damaged, truncated or not yours to read",
                "copy it again, or check its rights",
            ) from None

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

    # -- types

    def _infer(self, declared: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
        """Infer the types from the whole file, or from the first block of a stream."""
        wanted: dict[str, pa.DataType | None] = {
            n: declared.get(n) for n in self._names if n not in self._unread
        }
        blocks: Iterator[tuple[str, bytes]] = self._blocks()
        if not self.rewindable:
            assert self._pending is not None
            records = whole_records(self._pending, self.name)
            first = next(records, b"")
            self._pending = chain(first, records)
            blocks = iter([(self.name, first)] if first else [])
        guessed: dict[str, pa.DataType] = {}
        rows, file, in_file, padded = 0, "", 0, set[str]()
        with workers() as executor:
            for label, guess in ordered(executor, blocks, lambda b: (b[0], self._guess(b[1], wanted))):
                if label != file:
                    file, in_file = label, 0
                try:
                    if isinstance(guess, RowTrouble):
                        raise guess
                    for name, kind in guess.types.items():
                        guessed[name] = self._merged(name, guessed.get(name, pa.null()), kind, guess.block)
                except RowTrouble as trouble:
                    row = in_file + trouble.row + 1
                    raise DataError(f"row {row} of {quoted(file)}: {trouble.what}", trouble.next_step) from None
                rows += guess.rows
                in_file += guess.rows
                padded |= guess.padded
        if self.rewindable:
            self.rows = rows
        self.padded = [n for n in self._names if n in padded and guessed[n] == pa.int64()]
        guessed |= dict.fromkeys(self.padded, pa.string())
        inferred = {n: guessed.get(n, pa.null()) for n in self._names}
        texts = {n: pa.string() if pa.types.is_null(t) else t for n, t in inferred.items()}
        return texts | declared

    def _guess(self, block: bytes, wanted: Mapping[str, pa.DataType | None]) -> Guess | RowTrouble:
        try:
            table = self._parse(block, wanted)
            types = {f.name: plain(f.type) for f in table.schema if wanted[f.name] is None}
            for name, kind in types.items():
                if pa.types.is_binary(kind):
                    self._parse(block, {name: pa.string()})  # says where it is not text
                comma = pa.types.is_string(kind) and self._options.decimal_of(name) == ","
                if comma and all_fit(table.column(name), COMMA):
                    types[name] = pa.float64()
            padded = frozenset[str]()
            whole = [n for n, t in types.items() if pa.types.is_int64(t)]
            if whole and has_padding(block, self._options.separator):
                texts = self._parse(block, dict.fromkeys(whole, pa.string()))
                padded = frozenset(n for n in whole if any_fits(texts.column(n), f"^{PADDED.pattern}"))
        except RowTrouble as trouble:
            return trouble
        return Guess(types, table.num_rows, block, padded)

    def _merged(self, name: str, before: pa.DataType, now: pa.DataType, block: bytes) -> pa.DataType:
        """Merge the type so far with a block's: what a column's first value is, all must be.

        So a number that text follows is trouble and not text, wherever the blocks are cut.
        """
        if pa.types.is_null(before):
            first = self._first_family(block, name) if family(now) in ("text", "boolean") else family(now)
            if first == family(now):
                return now
            before = WIDEST[first]
        if pa.types.is_null(now) or before == now or family(before) == "text":
            return before
        if family(before) == family(now):
            return max(before, now, key=lambda kind: WIDENING.index(unzoned(kind)))
        self._parse(block, {name: WIDEST[family(before)]})
        return before

    def _first_family(self, block: bytes, name: str) -> str:
        """Return what a column's first value would be taken for if it were alone."""
        column = self._parse(block, {name: pa.string()}).column(name)
        first = next((v.as_py() for v in column if v.is_valid), "")
        return family_of(first, self._options.decimal)


def _opened(delimiter: str | None, files: Files, options: CsvOptions) -> CsvTable:
    if files.root is not None and any("=" in str(p.relative_to(files.root).parent) for p in files.paths):
        raise DataError(
            f"{quoted(files.root)} has CSV parts in folders named key=value, whose keys are in no part",
            "name the files, or make a folder of Parquet parts of them",
        )
    name = str(files.root or files.paths[0])
    return CsvTable(files.paths, name, replace(options, delimiter=options.delimiter or delimiter))


CSV = Format(
    "CSV",
    (".csv", ".csv.gz"),
    partial(_opened, None),
    partial(CsvWriter, ","),
    sidecar="beside",
    open_stream=CsvTable,
    parts="folder",
    sniffed=True,
)
TSV = Format(
    "TSV",
    (".tsv", ".tsv.gz"),
    partial(_opened, "\t"),
    partial(CsvWriter, "\t"),
    sidecar="beside",
    parts="folder",
    sniffed=True,
)

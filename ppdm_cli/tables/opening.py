"""Opening of tables for all packages: files, folders of parts, standard input, objects in memory.

Tables of Delta, Iceberg, Hudi and Spark's streams are more than their files: their folders keep rows that were
deleted or replaced, and only a log shows which are in the table. So no file in such a folder is read as plain
Parquet, however it is named.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import chain
from pathlib import Path, PurePath
from typing import IO, Any, Literal, cast

import pyarrow as pa

from ppdm_cli import files
from ppdm_cli.errors import DataError, RefusedError, UsageError, quoted
from ppdm_cli.sidecar import SUFFIX
from ppdm_cli.tables.arrow import AS_TABLE, from_arrow
from ppdm_cli.tables.base import Table, TableLike
from ppdm_cli.tables.csv_options import CsvOptions
from ppdm_cli.tables.formats import FORMATS, Files, format_of, stream_format
from ppdm_cli.tables.stores import StorePath, expanded, path_of

STANDARD = "-"
_PIPED = "decompress it on the way, such as {} FILE | ppdm ..."
_NOT_TABLES = {
    b"\x1f\x8b": ("compressed by gzip", _PIPED.format("zcat")),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", _PIPED.format("zstdcat")),
    b"BZh": ("compressed by bzip2", _PIPED.format("bzcat")),
    b"\xfd7zXZ\0": ("compressed by xz", _PIPED.format("xzcat")),
    b"PK\x03\x04": ("a zip archive, or a workbook of Excel", "save it as CSV"),
    b"PAR1": ("Parquet, which is read from its end", "name the file instead of piping it"),
}
"""The first bytes of streams that are often mistaken for tables, with a description and a next step."""
FOLDER_SIDECAR = "_ppdm.json"
"""The name of the sidecar of all parts in its folder."""
LOGS = "{_delta_log,.hoodie,_spark_metadata,metadata/*.metadata.json*}"
"""The log in the folder of such a table, as a pattern of Hadoop."""
_KINDS = {"_delta_log": "a Delta table", ".hoodie": "a Hudi table", "_spark_metadata": "a Spark stream"}
_ICEBERG = re.compile(r"v?\d.*\.metadata\.json(\.gz)?")
_READ = {
    "a Delta table": "name the table itself, without an engine: {}",
    "an Iceberg table": "name its metadata_location, as its catalog says, and without an engine",
    "a Hudi table": "write its rows as Parquet: spark.read.format('hudi').load({}).write.parquet('plain')",
    "a Spark stream": "write its rows as Parquet: spark.read.parquet({}).write.parquet('plain')",
}
OPENING: ContextVar[Callable[[Any, Mapping[str, pa.DataType]], Table | None] | None] = ContextVar(
    "ppdm_opening", default=None
)
"""An engine's function to open tables of other machines; it gets the known types."""


def open_table(
    source: TableLike,
    *,
    csv: CsvOptions | None = None,
    standard_format: Literal["arrow", "csv"] | None = None,
    standard_input: IO[bytes] | None = None,
) -> Table:
    """Open a path, several (parts of one table), a stream ("-"), or an Arrow object; an open table stays."""
    if hasattr(type(source), "rewindable"):  # a DataFrame of Spark takes any name for a column
        return cast(Table, source)
    elsewhere, csv = OPENING.get(), csv or CsvOptions()
    if elsewhere is not None and (found := elsewhere(source, csv.known)) is not None:
        return found
    source = expanded(source)
    if isinstance(source, (str, Path)):
        source = [source]
    if not isinstance(source, (list, tuple)):
        return from_arrow(source)
    if not source or "" in source:
        raise UsageError("no-input", "no input is named", "name a file, or - for standard input")
    if not all(isinstance(s, (str, Path)) for s in source):
        raise UsageError("no-table", f"a {type(source).__name__} of objects is not a table", AS_TABLE)
    if not any(map(is_stream, source)):
        return _open_files([path_of(s) for s in source], csv)
    if len(source) > 1:
        what = "standard input or a pipe is named among other files"
        raise UsageError("stream-among-files", what, "use it alone, or only files")
    name = "standard input" if str(source[0]) == STANDARD else str(source[0])
    stream = _peeked(standard_input or _opened_stream(source[0], name), name)
    opened_stream = stream_format(standard_format).open_stream
    assert opened_stream is not None
    return opened_stream(stream, name, csv)


def is_stream(source: object) -> bool:
    """Return whether it can be read once only: standard input, or a pipe without the suffix of a format."""
    if not isinstance(source, (str, Path)) or str(source) == STANDARD:
        return isinstance(source, (str, Path))
    return not Path(source).suffix and (Path(source).is_fifo() or Path(source).is_char_device())


def _opened_stream(source: str | Path, name: str) -> IO[bytes]:
    if str(source) != STANDARD:
        with files.readable(name):
            return Path(source).open("rb")
    if sys.stdin is None:
        raise DataError("closed-input", "standard input is closed", "open it, or name a file")
    with suppress(OSError):  # in a notebook it is not a file
        files.reading(sys.stdin.fileno(), name)
    return sys.stdin.buffer


def _peeked(stream: IO[bytes], name: str) -> IO[bytes]:
    """Return the stream, or refuse an empty one."""
    peeked: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    with files.readable(name):
        empty = not peeked.peek(1)
        begins = peeked.peek(8)[:8]
    for magic, (what, step) in _NOT_TABLES.items():
        if begins.startswith(magic):
            raise DataError("no-table-in-stream", f"{quoted(name)} is {what}", step)
    if empty:
        if stream is not getattr(sys.stdin, "buffer", None):
            peeked.close()
        step = "check the output of the command before it"
        raise DataError("empty-stream", f"{quoted(name)} is empty", step)
    return cast(IO[bytes], peeked)


def parts_of(paths: Sequence[Path]) -> Files:
    """Return the files of a table, each once: named ones, and those in a named folder."""
    parts: list[Path] = []
    labels: dict[Path, str] = {}
    root: Path | None = None
    forms = set()
    for path in paths:
        found = [path]
        if (form := next((f for f in FORMATS if f.holds(path)), None)) is not None:
            forms.add(form)
            parts.append(path)
            continue
        if path.is_dir():
            found = _found(path)
            files.watching(str(path), _listed, path, now=found)
            root = path if len(paths) == 1 else None
            for number, part in enumerate(found, 1):
                if "=" in str(part.relative_to(path).parent):  # a hive key is a cell: such parts go by number
                    labels[part] = f"{path}, part {number}"
        elif not path.exists():
            raise files.missing(path)
        elif not path.is_file():
            what = f"{quoted(path)} is not an ordinary file"
            raise DataError("no-ordinary-file", what, "name a file, or - for standard input")
        check_plain(_logs(path, found), str(path))
        forms |= {format_of(f) for f in found}
        parts.extend(found)
    named = [(f, labels.get(f, str(f))) for f in parts]
    for file, name in named:
        files.reading(file, name)
    files.check_once(named)
    if len(forms) > 1:
        raise UsageError("several-formats", "the parts are of different formats", "use parts of one format")
    return Files(parts, [name for _, name in named], root, forms.pop())


def _open_files(paths: Sequence[Path], csv: CsvOptions) -> Table:
    found = parts_of(paths)
    parts, names, _, form = found
    for file, name in zip(parts, names, strict=True):
        files.reading(_beside(file), f"{name}{SUFFIX}")  # whoever writes there speaks of this file
        with files.readable(name):
            if file.is_file() and not isinstance(file, StorePath):
                file.open("rb").close()
    if len(parts) > 1 and form.parts == "one":
        others = [f.name for f in FORMATS if f.parts != "one"]
        step = f"several parts may be {' or '.join(others)}"
        raise UsageError("several-files", f"several {form.name} files are given", step)
    return form.open(found, csv)


def _listed(folder: Path) -> list[Path]:
    """Return the parts in a folder, in the order of their paths; hidden ones are not part of the table."""
    endings = tuple(s for f in FORMATS if f.parts == "folder" for s in f.suffixes)
    return sorted(
        p
        for p in (folder.listed() if isinstance(folder, StorePath) else folder.rglob("*"))
        if p.name.endswith(endings)
        and p.is_file()
        and not any(q.startswith((".", "_")) for q in p.relative_to(folder).parts)
    )


def _found(folder: Path) -> list[Path]:
    """Return the parts in a folder, which has some."""
    found = _listed(folder)
    if not found:
        forms = [f for f in FORMATS if f.parts == "folder"]
        what = f"the folder {quoted(folder)} has no {', '.join(f.name for f in forms)} files"
        step = f"name a folder of {', '.join(s for f in forms for s in f.suffixes)} parts, or the files"
        raise DataError("folder-without-parts", what, step)
    return found


def is_sidecar(path: Path) -> bool:
    """Return whether a path names a sidecar alone: a JSON file that isn't a table."""
    return path.name.endswith(".json") and not any(f.holds(path) for f in FORMATS)


def sidecar_path(data: Path) -> Path:
    """Return the default path of a sidecar: beside a file, in or beside a folder."""
    if (data / FOLDER_SIDECAR).is_file():
        return data / FOLDER_SIDECAR
    return _beside(data if data.name not in ("", "..") else data.resolve())  # a folder may be called .


def _beside(data: Path) -> Path:
    return data.with_name(data.name + SUFFIX)


def check_plain(logs: Iterable[PurePath], name: str) -> None:
    """Refuse the input `name` if the log of such a table is among these files and folders."""
    for log in logs:
        kind = _KINDS.get(log.name)
        if log.parent.name == "metadata" and _ICEBERG.fullmatch(log.name):
            kind = "an Iceberg table"
        if kind is not None:
            table = log.parent.parent if kind == "an Iceberg table" else log.parent
            printed = name if "=" in str(table) else str(table)  # a hive key is a cell
            what = f"{quoted(name)} belongs to {kind}, whose files also hold rows that aren't in it"
            raise RefusedError("lake-table", what, _READ[kind].format(quoted(printed)))


def _logs(path: Path, found: Sequence[Path]) -> Iterator[PurePath]:
    """Yield possible logs of the files under a path; in a store with few requests."""
    if not isinstance(path, StorePath) or path == found[0]:
        return logs_above(found)
    return chain(logs_among(path.listed()), logs_above([path / "_"]))


def logs_above(files: Sequence[Path]) -> Iterator[Path]:
    """Yield possible logs in the folders above local files: by their names, and by their real paths."""
    named, linked = {f.parent for f in files}, {f.resolve().parent for f in files if f.is_symlink()}
    folders = {f.absolute() for f in named} | {f.resolve() for f in named} | linked
    for folder in sorted({above for f in folders for above in (f, *f.parents)}):
        yield from (p for n in _KINDS if (p := folder / n).exists())
        with suppress(OSError):  # most have none
            yield from (folder / "metadata").iterdir()


def logs_among(files: Iterable[PurePath]) -> Iterator[PurePath]:
    """Yield possible logs among all files in a folder."""
    for file in files:
        yield file
        yield from (above for above in file.parents if above.name in _KINDS)

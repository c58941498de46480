"""From what a person names to a table: files, folders of parts, standard input, objects."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, cast

from ppdm_cli import files
from ppdm_cli.errors import DataError, MismatchError, UsageError, quoted
from ppdm_cli.sidecar import LARGEST, SUFFIX, Sidecar, decode
from ppdm_cli.tables.base import Table
from ppdm_cli.tables.csv import CsvOptions, CsvTable
from ppdm_cli.tables.formats import Format, format_of
from ppdm_cli.tables.memory import AS_TABLE, from_arrow, open_ipc_file, open_ipc_stream
from ppdm_cli.tables.parquet import ParquetTable

STANDARD = "-"


def open_table(
    source: Any,
    *,
    csv: CsvOptions | None = None,
    standard_format: Literal["arrow", "csv"] | None = None,
    standard_input: IO[bytes] | None = None,
) -> Table:
    """Open a path, several paths (parts of one table), a stream ("-" is standard input), or an Arrow object.

    What is open already stays as it is.
    """
    if hasattr(source, "rewindable"):
        opened: Table = source
        return opened
    csv = csv or CsvOptions()
    if isinstance(source, (str, Path)):
        source = [source]
    if not isinstance(source, (list, tuple)):
        return from_arrow(source)
    if not source or "" in source:
        raise UsageError("no input is named", "name a file, or - for standard input")
    if not all(isinstance(s, (str, Path)) for s in source):
        raise UsageError(f"a {type(source).__name__} of objects is not a table", AS_TABLE)
    if not any(map(is_stream, source)):
        return _open_files([Path(s) for s in source], csv)
    if len(source) > 1:
        raise UsageError("standard input or a pipe is named among other files", "give it alone, or only files")
    name = "standard input" if str(source[0]) == STANDARD else str(source[0])
    stream = _peeked(standard_input or _opened_stream(source[0], name), name)
    if standard_format == "csv":
        return CsvTable(stream, name, csv)
    return open_ipc_stream(stream, name)


def is_stream(source: Any) -> bool:
    """Whether it can be read only once: standard input, or a pipe, such as a shell's <(...).

    A pipe with the suffix of a format is named as a file, which nobody may be writing to: it is none.
    """
    if not isinstance(source, (str, Path)) or str(source) == STANDARD:
        return isinstance(source, (str, Path))
    return not Path(source).suffix and (Path(source).is_fifo() or Path(source).is_char_device())


def _opened_stream(source: str | Path, name: str) -> IO[bytes]:
    if str(source) != STANDARD:
        try:
            return Path(source).open("rb")
        except OSError as error:
            raise DataError(f"{quoted(name)} cannot be read: {error.strerror}", "check its rights") from None
    if sys.stdin is None:
        raise DataError("standard input is closed", "open it, or name a file")
    with suppress(OSError):  # in a notebook it is no file
        files.reading(sys.stdin.fileno(), name)
    return sys.stdin.buffer


def _peeked(stream: IO[bytes], name: str) -> IO[bytes]:
    """The stream, which has something to read."""
    peeked: Any = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
    try:
        empty = not peeked.peek(1)
    except OSError as error:
        raise DataError(f"{quoted(name)} cannot be read: {error.strerror}", "name a file, or a pipe") from None
    if empty:
        if stream is not getattr(sys.stdin, "buffer", None):
            peeked.close()
        raise DataError(f"{quoted(name)} is empty", "did the stage before it fail? See what it says")
    return cast(IO[bytes], peeked)


def _open_files(paths: Sequence[Path], csv: CsvOptions) -> Table:
    parts: list[Path] = []
    labels: dict[Path, str] = {}
    root: Path | None = None
    for path in paths:
        if path.is_dir():
            found = sorted(
                p
                for p in path.rglob("*.parquet")
                if p.is_file() and not any(q.startswith((".", "_")) for q in p.relative_to(path).parts)
            )
            if not found:
                raise DataError(
                    f"the folder {quoted(path)} has no Parquet files",
                    "name a folder of .parquet parts, or the files",
                )
            root = path if len(paths) == 1 else None
            parts.extend(found)
            for number, part in enumerate(found, 1):
                if "=" in str(part.relative_to(path).parent):  # a hive key is a cell: such parts go by number
                    labels[part] = f"{path}, part {number}"
        elif not path.exists():
            raise DataError(f"{quoted(path)} does not exist", "check its name")
        elif not path.is_file():
            raise DataError(f"{quoted(path)} is no ordinary file", "name a file, or - for standard input")
        else:
            parts.append(path)
    forms = {Format.CSV if format_of(f).is_csv else format_of(f) for f in parts}
    if len(forms) > 1:
        raise UsageError("the parts are of different formats", "give parts of one format")
    names = [labels.get(f, str(f)) for f in parts]
    for file, name in zip(parts, names, strict=True):
        files.reading(file, name)
        files.reading(sidecar_path(file), f"{name}{SUFFIX}")  # whoever writes there speaks of this file
        try:
            file.open("rb").close()
        except OSError as error:
            raise DataError(f"{quoted(name)} cannot be read: {error.strerror}", "check its rights") from None
    match forms.pop():
        case Format.PARQUET:
            return ParquetTable(parts, root, names)
        case Format.ARROW:
            if len(parts) > 1:
                raise UsageError("several Arrow files are given", "several parts may be Parquet or CSV")
            return open_ipc_file(parts[0])
        case _:
            return CsvTable(parts, str(parts[0]), csv)


def sidecar_path(data: Path, given: Path | None = None) -> Path:
    """Where a file's sidecar is: beside it, unless said."""
    if given is not None:
        return given
    named = data if data.name not in ("", "..") else data.resolve()  # a folder may be called .
    return named.with_name(named.name + SUFFIX)


def read_sidecar(path: Path | None, carried: bytes | None, name: str) -> Sidecar:
    """The sidecar from its file and from the data's own metadata; where both exist they must agree."""
    beside: bytes | None = None
    if path is not None:
        files.reading(path)
    if path is not None and path.exists():
        try:
            with path.open("rb") as file:
                beside = file.read(LARGEST + 1)
        except OSError as error:
            raise DataError(
                f"the sidecar {quoted(path)} cannot be read: {error.strerror}", "check its rights"
            ) from None
    if beside is None and carried is None:
        raise MismatchError(
            f"{quoted(name)} has no sidecar",
            f"name it with --sidecar, or put it beside as {quoted(Path(name).name + SUFFIX)}",
        )
    if beside is None:
        assert carried is not None
        return decode(carried, f"in {name}")
    sidecar = decode(beside, str(path))
    if carried is not None and decode(carried, f"in {name}") != sidecar:
        raise MismatchError(
            f"the sidecar {quoted(path)} differs from the one inside {quoted(name)}",
            "one of them belongs to another release: fetch both again",
        )
    return sidecar

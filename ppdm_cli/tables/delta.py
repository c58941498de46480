"""Delta tables for owners and miners: one version of a table in, and one commit with data and sidecar out.

The package deltalake reads and writes the log, which lists a table's columns, its files, and the rows of each
that were deleted. The files themselves are read and written as Parquet, in the order of their names, so that a
version has one order of rows. A release is one file with its sidecar in it, and the commit has it too.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import pyarrow as pa

from ppdm_cli import files
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, missing_package, quoted
from ppdm_cli.sidecar import METADATA_KEY
from ppdm_cli.tables.atomic import PendingFile, Steps, writing
from ppdm_cli.tables.base import Table
from ppdm_cli.tables.csv_options import CsvOptions
from ppdm_cli.tables.formats import Files, Format, Writer
from ppdm_cli.tables.logged import LoggedFile, LoggedTable, library_understood
from ppdm_cli.tables.parquet import PARQUET, Footer, ParquetTable
from ppdm_cli.tables.stores import StorePath, path_of

_LOG = "_delta_log"
_VERSION = re.compile(r"(.+)@v(\d{1,18})", re.DOTALL)
_PHYSICAL = b"delta.columnMapping.physicalName"
_FEATURES = {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "variantType"}
"""The features of a Delta table that are supported here."""
_MADE = "Made by ppdm: the commit of each release has its sidecar"
"""The description of a table that was made with a sidecar."""


def _version(path: Path) -> tuple[Path, int | None]:
    """Return the folder of a table and the version that its name ends with, as in people@v3."""
    named = None if path.exists() else _VERSION.fullmatch(path.name)
    return (path, None) if named is None else (path.with_name(named[1]), int(named[2]))


def _holds(path: Path) -> bool:
    folder, _ = _version(path)
    return folder.is_dir() and (folder / _LOG).exists()


def _latest(folder: Path) -> str:
    return max((p.name for p in (folder / _LOG).iterdir() if p.suffix == ".json"), default="")


def _library() -> Any:
    try:
        import deltalake
    except ImportError:
        raise missing_package("Delta tables need a library", "deltalake") from None
    return deltalake


def _open(found: Files, options: CsvOptions) -> Table:
    """Open the version that is named or the last, which must still be the last when the run ends."""
    path, name = found.paths[0], found.labels[0]
    files.reading(_version(path)[0], name)
    return _opened(path, name)


def _opened(path: Path, name: str) -> Table:
    folder, version = _version(path)
    library = _library()
    if version is None:
        files.watching(name, _latest, folder)
    with library_understood("Delta", name):
        table = library.DeltaTable(str(folder), version=version)
        actions = pa.table(table.get_add_actions()).sort_by("path").to_pylist()
        vectors = pa.table(table.deletion_vectors())
        masks = [v.values for v in vectors["selection_vector"]]
        kept = {
            str(u).removeprefix(table.table_uri): m for u, m in zip(vectors["filepath"], masks, strict=True)
        }
        settings, features = table.metadata(), {*(table.protocol().reader_features or ())}
        schema = pa.schema(table.schema().to_arrow())
    by_id = settings.configuration.get("delta.columnMapping.mode") == "id"
    if by_id or not features <= _FEATURES or not kept.keys() <= {a["path"] for a in actions}:
        what = f"the Delta table {quoted(name)} has features that are not supported"
        step = f"write it as Parquet: spark.read.format('delta').load({quoted(folder)}).write.parquet('plain')"
        raise RefusedError("delta-features", what, step)
    parts = []
    for number, action in enumerate(actions, 1):
        named: str = action["path"]
        file = path_of(named) if "://" in named else folder / unquote(named)
        label = name if len(actions) == 1 else f"{name}, part {number}"
        part, keys = ParquetTable([file], labels=[label]), action.get("partition") or {}
        names = {f.name: (f.metadata or {}).get(_PHYSICAL, f.name.encode()).decode() for f in schema}
        own = {n: f for n, f in names.items() if f in part.schema.names and n not in keys}
        parts.append(LoggedFile(part, own, keys, kept.get(named)))
    if settings.description != _MADE and all(p.table.sidecar is None for p in parts):
        return LoggedTable(name, schema, parts)
    if len(parts) != 1 or kept or parts[0].table.sidecar is None:
        raise _altered(library, name, folder)
    return parts[0].table


def _altered(library: Any, name: str, folder: Path) -> MismatchError:
    """Return the error for a table of a release that another commit changed."""
    with library_understood("Delta", name):
        commits = library.DeltaTable(str(folder)).history()
        made = [c["version"] for c in commits if METADATA_KEY.decode() in c]
    last = f"name the last release in it, '{folder}@v{max(made)}'" if made else "ask for the release itself"
    return MismatchError("release-altered", f"{quoted(name)} was changed after it was published", last)


class PendingCommit(PendingFile):
    """A table's next version: one file, and the commit that makes the table that file."""

    def __init__(self, path: Path, force: bool) -> None:
        """Check that the table may be made, or that its readers may see all its earlier versions."""
        self._library, self._folder, self._before = _library(), path, None
        files.claim(path)
        if _holds(path):
            if not force:
                step = f"name another, or add {argument('force', True)}"
                raise UsageError("output-exists", f"the output {quoted(path)} exists", step)
            with library_understood("Delta", path):
                self._before = self._library.DeltaTable(str(path))
            released = False
            last = path.with_name(f"{path.name}@v{self._before.version()}")  # watched by nobody: it will change
            with suppress(MismatchError):
                released = _opened(last, str(path)).sidecar is not None
            if not released:
                what = f"{quoted(path)} has earlier versions that are not releases, which its readers can open"
                raise RefusedError("delta-holds-others", what, "name a new table")
        elif path.exists() and (not path.is_dir() or next(path.iterdir(), None)):
            raise UsageError(
                "output-no-delta-table", f"the output {quoted(path)} isn't a Delta table", "name a new one"
            )
        elif not isinstance(path, StorePath):
            with writing(path):
                path.mkdir(exist_ok=True)
        super().__init__(path / f"part-00000-{uuid.uuid4()}-c000.parquet", False)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if not isinstance(self._folder, StorePath):
            with suppress(OSError):  # there is something in it
                self._folder.rmdir()

    def flush(self) -> None:
        self._file.flush()
        self._footer = Footer.read(self._file, str(self._folder), self._file.seek(0, 2))
        super().flush()

    def place(self, undo: Steps) -> None:
        super().place(undo)
        sidecar, library, before = self._footer.sidecar, self._library, self._before
        now = time.time_ns() // 1_000_000
        stats = json.dumps({"numRecords": self._footer.metadata.num_rows})
        schema = library.Schema.from_arrow(_signed(self._footer.schema))
        carried = {METADATA_KEY.decode(): sidecar.decode()} if sidecar is not None else {}
        if before is None:
            file = {"path": self.path.name, "partitionValues": {}, "size": self._footer.size}
            add = file | {"modificationTime": now, "dataChange": True, "stats": stats}
            self._create(schema.to_json(), {"timestamp": now, "operation": "WRITE"} | carried, add, undo)
            return
        step = "run this again when nothing else writes to it"
        with library_understood("Delta", self._folder, "written", step):
            added = library.transaction.AddAction(self.path.name, self._footer.size, {}, now, True, stats)
            commit = library.CommitProperties(custom_metadata=carried, max_commit_retries=0)
            version = before.version()
            before.create_write_transaction([added], "overwrite", schema, commit_properties=commit)
            undo.append(lambda: library.DeltaTable(str(self._folder)).restore(version))

    def _create(self, schema: str, commit: dict[str, Any], add: dict[str, Any], undo: Steps) -> None:
        """Make a table by its first commit; the library's would publish the path of its folder."""
        ntz = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7} | ntz
        if '"timestamp_ntz"' not in schema:
            protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        about = {"description": _MADE} if METADATA_KEY.decode() in commit else {}
        columns = {
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
        }
        table = {"id": str(uuid.uuid4()), "configuration": {}} | about | columns
        lines = {"commitInfo": commit, "protocol": protocol, "metaData": table, "add": add}
        log = self._folder / _LOG
        if not isinstance(log, StorePath):
            with writing(self._folder):
                log.mkdir(exist_ok=True)
            undo.append(log.rmdir)
        with PendingFile(log / f"{0:020}.json", False) as first:
            first.put(b"".join(json.dumps({k: v}).encode() + b"\n" for k, v in lines.items()))
            first.place(undo)


def _signed(schema: pa.Schema) -> pa.Schema:
    """Return the columns with signed types for those without a sign, which Delta tables don't have."""
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    return pa.schema([f.with_type(wider.get(f.type, f.type)) for f in schema])


def _writer(file: IO[bytes], schema: pa.Schema, name: str, sidecar: bytes | None) -> Writer:
    for column in _signed(schema):
        try:
            _library().Schema.from_arrow(pa.schema([column]))
            fits = getattr(column.type, "unit", "") != "ns"
        except Exception:  # of the library
            fits = False
        if not fits:
            what = f"the column {quoted(column.name)} is of type {column.type}, which Delta tables don't have"
            raise UsageError("delta-type", what, f"cast it, or name a {PARQUET.suffixes[0]} file")
    return PARQUET.writer(file, schema, name, sidecar)


DELTA = Format("Delta", (".delta",), _open, _writer, sidecar="only inside", holds=_holds, pending=PendingCommit)

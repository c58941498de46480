"""Iceberg tables for owners and miners: the snapshot that a metadata file names, read in one order of rows.

A table's catalog knows the last of its metadata files, but no name in its folder shows it, except for the hint
of tables without a catalog. So people name the metadata file. The package pyiceberg reads it with the lists of
files and deleted rows; the files themselves are read as Parquet, in the order of their names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_cli import files
from ppdm_cli.errors import MismatchError, RefusedError, missing_package, quoted
from ppdm_cli.tables.base import Table
from ppdm_cli.tables.csv_options import CsvOptions
from ppdm_cli.tables.formats import Files, Format
from ppdm_cli.tables.logged import LoggedFile, LoggedTable, library_understood
from ppdm_cli.tables.parquet import PARQUET, ParquetTable
from ppdm_cli.tables.stores import path_of, reachable

_METADATA = re.compile(r"v?\d.*\.metadata\.json(\.gz)?")
_HINT = Path("metadata", "version-hint.text")
_ID = b"PARQUET:field_id"


def _holds(path: Path) -> bool:
    if path.parent.name == "metadata" and _METADATA.fullmatch(path.name):
        return path.is_file()
    return path.is_dir() and (path / _HINT).is_file()


def _open(found: Files, options: CsvOptions) -> Table:
    """Open the snapshot that a metadata file names; in a folder, the file that its hint names."""
    path, name = found.paths[0], found.labels[0]
    if path.is_dir():
        files.reading(path / _HINT, name)
    try:
        from pyiceberg.io.pyarrow import _read_all_delete_files
        from pyiceberg.table import StaticTable
    except ImportError:
        raise missing_package("Iceberg tables need a library", "pyiceberg") from None
    with library_understood("Iceberg", name):
        server = os.environ.get("AWS_ENDPOINT_URL")  # which the library takes from a catalog alone
        table = StaticTable.from_metadata(str(path), {"s3.endpoint": server} if server else {})
        tasks = sorted(table.scan().plan_files(), key=lambda t: t.file.file_path)
        plain = all(t.file.file_format.name == "PARQUET" for t in tasks)
        plain = plain and all(d.content.name == "POSITION_DELETES" for t in tasks for d in t.delete_files)
        gone = _read_all_delete_files(table.io, tasks) if plain else {}
        fields = {f.field_id: f for f in table.schema().fields}
        mapping = table.name_mapping()
        named: dict[str, Any] = {n: m.field_id for m in (mapping.root if mapping else []) for n in m.names}
        schema = table.schema().as_arrow()
    parts, labels = [], [f"{name}, part {i}" if len(tasks) > 1 else name for i in range(1, len(tasks) + 1)]
    for task, label in zip(tasks if plain else [], labels, strict=False):
        file = _file(task.file.file_path)
        part = ParquetTable([file], labels=[label])
        columns = _columns(file, named)
        own = {fields[i].name: n for i, n in columns.items() if i in fields}
        lacking = [f for i, f in fields.items() if i not in columns]
        cut_by = table.specs()[task.file.spec_id].fields
        identity = {f.source_id for f in cut_by if str(f.transform) == "identity"}
        plain = plain and bool(columns) and not any(f.initial_default is not None for f in lacking)
        plain = plain and not identity & {f.field_id for f in lacking}
        parts.append(LoggedFile(part, own, {}, _kept(part.rows or 0, gone.get(task.file.file_path, []))))
    if not plain:
        what = f"the Iceberg table {quoted(name)} has features that are not supported"
        step = "write its rows as Parquet: spark.table(...).write.parquet('plain')"
        raise RefusedError("iceberg-features", what, step)
    if all(p.table.sidecar is None for p in parts):
        return LoggedTable(name, schema, parts)
    if len(parts) != 1 or parts[0].kept is not None:
        what = f"{quoted(name)} doesn't have exactly the rows of a release"
        raise MismatchError("release-altered", what, "name the metadata file of the release's own snapshot")
    return parts[0].table


def _file(location: str) -> Path:
    """Return the path of a file, whose name is used unchanged."""
    scheme, _, rest = location.partition(":")
    return Path("/" + rest.lstrip("/")) if scheme == "file" else path_of(location)


def _columns(file: Path, named: dict[str, int]) -> dict[int, str]:
    """Return a file's columns by their numbers, to which the table maps names if the file has none."""
    own = pq.read_schema(reachable(file))
    numbered = {int(f.metadata[_ID]): f.name for f in own if _ID in (f.metadata or {})}
    return numbered or {named[n]: n for n in own.names if n in named}


def _kept(rows: int, gone: list[Any]) -> pa.BooleanArray | None:
    if not gone:
        return None
    kept = np.ones(rows, bool)
    kept[np.concatenate([positions.to_numpy() for positions in gone])] = False
    return pa.array(kept)


ICEBERG = Format("Iceberg", (), _open, PARQUET.writer, sidecar="only inside", holds=_holds)

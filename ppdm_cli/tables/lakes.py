"""Tables of Delta, Iceberg, Hudi and Spark's streams, which are not what their files hold.

Their folders keep rows that were deleted or replaced, and only a log shows which files and rows are the table.
So no file in such a folder is read as plain Parquet, however it is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from ppdm_cli.errors import RefusedError, quoted

LOGS = "{_delta_log,.hoodie,_spark_metadata,metadata/*.metadata.json*}"
"""What is in the folder of such a table, as a pattern of Hadoop."""
_KINDS = {"_delta_log": "a Delta table", ".hoodie": "a Hudi table", "_spark_metadata": "a Spark stream"}
_ICEBERG = re.compile(r"v?\d.*\.metadata\.json(\.gz)?")
_READ = {
    "a Delta table": "give the library DeltaTable({}).to_pyarrow_table()",
    "an Iceberg table": "give the library pyiceberg's table.scan().to_arrow_batch_reader()",
    "a Hudi table": "write its rows as Parquet: spark.read.format('hudi').load({}).write.parquet('plain')",
    "a Spark stream": "write its rows as Parquet: spark.read.parquet({}).write.parquet('plain')",
}


def check_plain(logs: Iterable[PurePath], name: str) -> None:
    """Refuse what is called `name` if the log of such a table is among these files and folders."""
    for log in logs:
        kind = _KINDS.get(log.name)
        if log.parent.name == "metadata" and _ICEBERG.fullmatch(log.name):
            kind = "an Iceberg table"
        if kind is not None:
            table = log.parent.parent if kind == "an Iceberg table" else log.parent
            shown = name if "=" in str(table) else str(table)  # a hive key is a cell
            raise RefusedError(
                f"{quoted(name)} belongs to {kind}, whose files also hold rows that are not in it",
                _READ[kind].format(quoted(shown)),
            )


def logs_above(files: Sequence[Path]) -> Iterator[Path]:
    """Yield what may be a log in the folders above files on this machine: by their names, and in truth."""
    named, linked = {f.parent for f in files}, {f.resolve().parent for f in files if f.is_symlink()}
    folders = {f.absolute() for f in named} | {f.resolve() for f in named} | linked
    for folder in sorted({above for f in folders for above in (f, *f.parents)}):
        yield from (p for n in _KINDS if (p := folder / n).exists())
        with suppress(OSError):  # most have none
            yield from (folder / "metadata").iterdir()


def logs_among(files: Iterable[PurePath]) -> Iterator[PurePath]:
    """Yield what may be a log among all files in a folder."""
    for file in files:
        yield file
        yield from (above for above in file.parents if above.name in _KINDS)

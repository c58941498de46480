"""Tables of Delta, Iceberg, Hudi and Spark's streams, which are not what their files hold.

Their folders keep rows that were deleted or replaced, and only a log shows which files and rows are the table.
So no file in such a folder is read as plain Parquet, however it is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
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


def check_plain(folders: Iterable[PurePath], name: str, logs: Callable[[PurePath], Iterable[PurePath]]) -> None:
    """Refuse the folders of what is called `name` where they, or folders above them, are such a table.

    `logs` returns what of `LOGS` is in a folder.
    """
    for folder in sorted({above for f in folders for above in (f, *f.parents)}):
        for log in logs(folder):
            kind = "an Iceberg table" if _ICEBERG.fullmatch(log.name) else _KINDS.get(log.name)
            if kind is not None:
                table = name if "=" in folder.name else str(folder)  # a hive key is a cell
                raise RefusedError(
                    f"{quoted(name)} belongs to {kind}, whose files also hold rows that are not in it",
                    _READ[kind].format(quoted(table)),
                )


def folders_of(files: Sequence[Path]) -> set[Path]:
    """Return the folders that files on this machine are in, by their names and in truth."""
    named = {f.parent for f in files}
    linked = {f.resolve().parent for f in files if f.is_symlink()}
    return {f.absolute() for f in named} | {f.resolve() for f in named} | linked


def logs_here(folder: PurePath) -> list[Path]:
    """Return what of `LOGS` is in a folder of this machine."""
    found = [p for n in _KINDS if (p := Path(folder, n)).exists()]
    with suppress(OSError):  # most have none
        found.extend(Path(folder, "metadata").iterdir())
    return found

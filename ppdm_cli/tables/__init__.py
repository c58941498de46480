"""Columnar tables in and out: CSV, Parquet, Arrow IPC, and whatever speaks Arrow in memory.

Tables are read in partitions and written whole or not at all. No message of another library
leaves this room: they quote cells.
"""

from __future__ import annotations

from ppdm_cli.tables.base import Partition, Table, loaded, rows_per_partition
from ppdm_cli.tables.csv import CsvOptions
from ppdm_cli.tables.formats import Format, format_of
from ppdm_cli.tables.memory import from_arrow
from ppdm_cli.tables.opening import is_stream, open_table, read_sidecar, sidecar_path
from ppdm_cli.tables.output import Output, publish
from ppdm_cli.tables.release import OWN, check_fit, is_promised, open_original, open_release
from ppdm_cli.tables.replacing import Target
from ppdm_cli.tables.shuffle import Shuffler
from ppdm_cli.tables.together import open_data, open_releases, rewound
from ppdm_cli.tables.writing import Writer, open_writer

__all__ = [
    "OWN",
    "CsvOptions",
    "Format",
    "Output",
    "Partition",
    "Shuffler",
    "Table",
    "Target",
    "Writer",
    "check_fit",
    "format_of",
    "from_arrow",
    "is_promised",
    "is_stream",
    "loaded",
    "open_data",
    "open_original",
    "open_release",
    "open_releases",
    "open_table",
    "open_writer",
    "publish",
    "read_sidecar",
    "rewound",
    "rows_per_partition",
    "sidecar_path",
]

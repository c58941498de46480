"""Tables for all packages: CSV, Parquet, Arrow, and any Arrow object in memory, read and written.

Tables are read in partitions and written whole or not at all. No message of another library leaves this
package: they quote cells.
"""

from __future__ import annotations

from ppdm_cli.tables.arrow import ARROW, ArrowTable, from_arrow
from ppdm_cli.tables.atomic import PendingFile, spool, unwritable, writing
from ppdm_cli.tables.base import (
    MOST_ROWS,
    Partition,
    RowTrouble,
    Table,
    TableLike,
    WrappedTable,
    loaded,
    normal_batch,
    normal_schema,
    ordered,
    rows_per_partition,
    threads,
    workers,
)
from ppdm_cli.tables.csv import CSV, TSV, type_of
from ppdm_cli.tables.csv_options import (
    COMMA,
    NULL,
    POINT,
    TRUE_FALSE,
    USUAL,
    VALUE,
    WHOLE,
    CsvOptions,
    dates,
    has_clock,
)
from ppdm_cli.tables.csv_records import LOOKED_AT, first_rows, like_below, looks_like_data, open_bytes
from ppdm_cli.tables.csv_writer import FORMULAS, ComputedTextError
from ppdm_cli.tables.delta import DELTA
from ppdm_cli.tables.formats import FORMATS, Files, Format, Writer, format_of, stream_format, suffixes
from ppdm_cli.tables.grouping import GroupedTable, Groups, Mapped, Prefixed, Rule, like_release, read_mapping
from ppdm_cli.tables.iceberg import ICEBERG
from ppdm_cli.tables.opening import (
    FOLDER_SIDECAR,
    LOGS,
    OPENING,
    check_plain,
    is_sidecar,
    is_stream,
    logs_above,
    logs_among,
    open_table,
    parts_of,
    sidecar_path,
)
from ppdm_cli.tables.output import Output, Shuffler, commit
from ppdm_cli.tables.parquet import PARQUET, Footer, ParquetTable, check_text, for_spark
from ppdm_cli.tables.stores import StorePath, expanded, path_of
from ppdm_cli.tables.synthetic import SYNTHETIC_SCHEMA, generate

FORMATS += [CSV, TSV, PARQUET, ARROW, DELTA, ICEBERG]

__all__ = [
    "COMMA",
    "FOLDER_SIDECAR",
    "FORMATS",
    "FORMULAS",
    "LOGS",
    "LOOKED_AT",
    "MOST_ROWS",
    "NULL",
    "OPENING",
    "PARQUET",
    "POINT",
    "SYNTHETIC_SCHEMA",
    "TRUE_FALSE",
    "USUAL",
    "VALUE",
    "WHOLE",
    "ArrowTable",
    "ComputedTextError",
    "CsvOptions",
    "Files",
    "Footer",
    "Format",
    "GroupedTable",
    "Groups",
    "Mapped",
    "Output",
    "ParquetTable",
    "Partition",
    "PendingFile",
    "Prefixed",
    "RowTrouble",
    "Rule",
    "Shuffler",
    "StorePath",
    "Table",
    "TableLike",
    "WrappedTable",
    "Writer",
    "check_plain",
    "check_text",
    "commit",
    "dates",
    "expanded",
    "first_rows",
    "for_spark",
    "format_of",
    "from_arrow",
    "generate",
    "has_clock",
    "is_sidecar",
    "is_stream",
    "like_below",
    "like_release",
    "loaded",
    "logs_above",
    "logs_among",
    "looks_like_data",
    "normal_batch",
    "normal_schema",
    "open_bytes",
    "open_table",
    "ordered",
    "parts_of",
    "path_of",
    "read_mapping",
    "rows_per_partition",
    "sidecar_path",
    "spool",
    "stream_format",
    "suffixes",
    "threads",
    "type_of",
    "unwritable",
    "workers",
    "writing",
]  # fmt: skip

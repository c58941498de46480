"""The engine for all packages that pass over a table: fold, map and scan, and profiles of columns.

A pool of threads runs them unless another engine is set, such as Spark. Memory does not grow with the data,
results come in the order of the partitions, and any number of threads gives the same.
"""

from __future__ import annotations

from ppdm_cli.engine.passes import (
    ENGINE,
    ON_SPARK,
    Advance,
    Batch,
    Engine,
    Made,
    Progress,
    Threads,
    Writing,
    destination,
    fold,
    map_partitions,
    numbered,
    on_spark,
    running,
    scan,
    step,
    where_the_data_are,
    with_rows,
    write,
)
from ppdm_cli.engine.profile import Counting, Facts, Sketch, facts_of
from ppdm_cli.tables import ordered, threads, workers

__all__ = [
    "ENGINE", "ON_SPARK", "Advance", "Batch", "Counting", "Engine", "Facts", "Made", "Progress", "Sketch",
    "Threads", "Writing", "destination", "facts_of", "fold", "map_partitions", "numbered", "on_spark",
    "ordered", "running", "scan", "step", "threads", "where_the_data_are", "with_rows", "workers", "write",
]  # fmt: skip

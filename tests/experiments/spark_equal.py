"""Compare a release that Spark makes with that of threads: `python -m tests.experiments.spark_equal [ROWS [PARTS]]`.

Records of function 2 in parts of equal size, perturbed with one seed by a session on all cores of this machine
and by threads. Every part that Spark wrote is held against the same rows of the other file, as Arrow's bytes;
then both sidecars, and what is estimated from both.
"""

from __future__ import annotations

import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl

from ppdm_cli import estimate, perturb
from tests.experiments.spark_bench import DOMAINS, session, spent, write


def digest(frame: pl.DataFrame) -> str:
    """Return a digest of the bytes of a frame."""
    return blake2b(frame.rechunk().write_ipc_stream(None).getvalue()).hexdigest()


def main() -> None:
    rows, parts = (int(a) for a in [*sys.argv[1:], *("50000000", "40")[len(sys.argv) - 1 :]])
    spark = session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "data", rows, parts)
        settings: Any = {"gamma": 9, "attributes": {n: {"domain": d} for n, d in DOMAINS.items()}, "seed": 1}
        here, start = perturb(folder / "data", folder / "one.parquet", **settings), spent()
        there = perturb(spark.read.parquet(str(folder / "data")), folder / "many", **settings)
        taken, before, equal = spent() - start, 0, here.sidecar == there.sidecar
        for part in sorted((folder / "many").glob("part-*")):
            own = pl.read_parquet(part, hive_partitioning=False)
            other = pl.scan_parquet(folder / "one.parquet").slice(before, own.height).collect()
            equal, before = equal and digest(own) == digest(other), before + own.height
        one, many = (estimate(folder / n).frame for n in ("one.parquet", "many"))
        print(f"{before:,} of {rows:,} rows in {parts} files, {taken:.0f} s of processor by Spark")
        print(f"parts and sidecars equal: {equal}; estimates equal: {one.equals(many)}")
    spark.stop()


if __name__ == "__main__":
    main()

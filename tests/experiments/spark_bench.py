"""What a cluster costs, as ratios in one run: `python -m tests.experiments.spark_bench [ROWS [PARTS [ROUNDS]]]`.

`perturb` beside an identity by `mapInArrow` over the same files, `estimate` beside a `groupBy().count()` of
each column, both by a session on all cores of this machine, in turns, and by threads of this machine without
Spark; and the peak memory of the driver's Python.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_cli import estimate, perturb
from ppdm_cli.tables import generate

DOMAINS = {
    "salary": "20000:150000", "commission": "0:75000", "age": "20:80", "elevel": "0:4", "car": "1:20",
    "zipcode": "0:8", "hvalue": "50000:1350000", "hyears": "1:30", "loan": "0:500000", "group": "A|B",
}  # fmt: skip


def write(folder: Path, rows: int, parts: int) -> None:
    """Write so many records of F2 in parts of equal size."""
    folder.mkdir()
    batches, waiting, number = generate(2, rows, 7), list[pa.RecordBatch](), 0
    each = rows // parts
    for batch in batches:
        waiting.append(batch)
        while sum(b.num_rows for b in waiting) >= each:
            whole = pa.Table.from_batches(waiting)
            pq.write_table(whole.slice(0, each), folder / f"p{number:03}.parquet")
            waiting, number = whole.slice(each).to_batches(), number + 1


def spent() -> float:
    """Return the seconds of processor that this process and all that it started have used."""
    found: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = int(path.parent.name), path.read_text().rpartition(") ")[2].split()
        except OSError:  # it has ended
            continue
        found[pid] = int(rest[1]), sum(map(int, rest[11:15])) / os.sysconf("SC_CLK_TCK")
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += found[pid][1]
        waiting += [child for child, (parent, _) in found.items() if parent == pid]
    return total


def peak() -> int:
    """Return the peak memory of this process in MiB since the last call."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def session() -> Any:
    """Return a session of all cores of this machine, without a progress bar."""
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[*]")
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def main() -> None:
    rows, parts, rounds = (int(a) for a in [*sys.argv[1:], *("2000000", "40", "3")[len(sys.argv) - 1 :]])
    spark = session()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "data", rows, parts)
        data = spark.read.parquet(str(folder / "data"))
        domains = {n: {"domain": d} for n, d in DOMAINS.items()}
        settings: Any = {"gamma": 9, "attributes": domains, "force": True}
        perturb(data, folder / "release", **settings)
        release = spark.read.parquet(str(folder / "release"))

        def identity() -> None:
            out = data.mapInArrow(lambda batches: batches, data.schema)
            out.write.mode("overwrite").parquet(str(folder / "same"))

        def counted() -> None:
            for column in release.columns:
                release.groupBy(column).count().collect()

        work: dict[str, Callable[[], Any]] = {
            "identity": identity,
            "perturb": lambda: perturb(data, folder / "again", **settings),
            "groupBy().count() of each": counted,
            "estimate": lambda: estimate(release),
            "perturb by threads": lambda: perturb(folder / "data", folder / "one.parquet", **settings),
            "estimate by threads": lambda: estimate(folder / "one.parquet"),
        }
        taken: dict[str, list[float]] = {n: [] for n in work}
        used: dict[str, list[float]] = {n: [] for n in work}
        most = 0
        peak()  # that of what is above
        for _ in range(rounds):
            for what, run in work.items():
                start, before = time.perf_counter(), spent()
                run()
                taken[what].append(time.perf_counter() - start)
                used[what].append(spent() - before)
                most = max(most, 0 if "threads" in what else peak())
                peak()
    spark.stop()
    for what, times in taken.items():
        clock, cores = statistics.median(times), statistics.median(used[what])
        print(f"{what:26} {clock:8.2f} s, of the processor {cores:8.2f} s")
    for ours, theirs in (
        ("perturb", "identity"), ("estimate", "groupBy().count() of each"),
        ("perturb", "perturb by threads"), ("estimate", "estimate by threads"),
    ):  # fmt: skip
        clock, cores = (
            statistics.median(a / b for a, b in zip(of[ours], of[theirs], strict=True)) for of in (taken, used)
        )
        print(f"{ours} / {theirs}: {clock:.2f}, of the processor {cores:.2f}")
    print(f"peak memory of the driver's Python: {most} MiB")


if __name__ == "__main__":
    main()

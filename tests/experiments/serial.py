"""The part of `perturb` that one thread does: measured with 1 and 2 threads, and 16 estimated from it.

The processor time of the main thread is what no further thread shortens; by Amdahl's law the rest is divided
by the number of threads. Processor time hardly depends on what else the machine does; wall time does. Locks,
such as Python's, are not in the estimate. Run it as `python -m tests.experiments.serial [rows]`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.experiments.bench import PLAN, ROWS, generate

REPEATS, MANY = 5, 16
JOB = """\
import json, sys, time
from ppdm_cli import perturb, running
threads, data, output, like = int(sys.argv[1]), *sys.argv[2:]
with running(threads=threads):
    for _ in range(2):  # the first one loads modules
        began = time.perf_counter(), time.process_time(), time.thread_time()
        perturb(data, output, like=like, force=True)
        ended = time.perf_counter(), time.process_time(), time.thread_time()
print(json.dumps([b - a for a, b in zip(began, ended)]))
"""


def measured(threads: int, *files: Path) -> list[float]:
    """Return medians: seconds, processor time, and that of the main thread."""
    command = [sys.executable, "-c", JOB, str(threads), *map(str, files)]
    runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(REPEATS)]
    return [statistics.median(figures) for figures in zip(*runs, strict=True)]


def main(rows: int) -> None:
    print("| output | threads | seconds | processor | main thread | speed-up by 16 threads (efficiency) |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        data, plan, release = (Path(name, n) for n in ("f2.parquet", "plan.toml", "release.parquet"))
        generate(data, rows, 7)
        plan.write_text(PLAN)
        command = [sys.executable, "-m", "ppdm_cli", "perturb", data, "-o", release, "--plan", plan]
        subprocess.run([str(c) for c in command], check=True, capture_output=True)
        for suffix in ("parquet", "arrow", "csv"):
            for threads in (1, 2):
                seconds, busy, serial = measured(threads, data, Path(name, f"next.{suffix}"), release)
                faster = busy / (serial + (busy - serial) / MANY)
                figures = f"{seconds:.2f} | {busy:.2f} | {serial:.2f} | {faster:.1f} ({faster / MANY:.0%})"
                print(f"| .{suffix} | {threads} | {figures} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)

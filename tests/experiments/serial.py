"""The part of `perturb` that one thread does: measured with 1 and 2 threads, and 16 estimated from it.

The processor time of the main thread is what no further thread shortens; by Amdahl's law the rest is divided
by the number of threads. One thread writes the file beside the others, so that takes its own time at least.
Processor time hardly depends on what else the machine does; wall time does. Locks, such as Python's, are not
in the estimate. Run it as `python -m tests.experiments.serial [rows]`.
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
import json, sys, threading, time
from ppdm_cli import perturb, running
threads, data, output, like = int(sys.argv[1]), *sys.argv[2:]
spent, run = {}, threading.Thread.run
def timed(thread):
    run(thread)
    spent[thread.name] = time.thread_time()
threading.Thread.run = timed
with running(threads=threads):
    for _ in range(2):  # the first one loads modules
        began = time.perf_counter(), time.process_time(), time.thread_time()
        perturb(data, output, like=like, force=True)
        ended = time.perf_counter(), time.process_time(), time.thread_time()
print(json.dumps([*(b - a for a, b in zip(began, ended)), spent.get("ppdm-writing_0", 0.0)]))
"""


def measured(threads: int, *files: Path) -> list[float]:
    """Return medians: seconds, processor time, and that of the main thread and of the writing one."""
    command = [sys.executable, "-c", JOB, str(threads), *map(str, files)]
    runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(REPEATS)]
    return [statistics.median(figures) for figures in zip(*runs, strict=True)]


def main(rows: int) -> None:
    columns = ("output", "threads", "seconds", "processor", "main thread", "writing thread", "by 16 threads")
    print(f"| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|")
    with tempfile.TemporaryDirectory() as name:
        data, plan, release = (Path(name, n) for n in ("f2.parquet", "plan.toml", "release.parquet"))
        generate(data, rows, 7)
        plan.write_text(PLAN)
        command = [sys.executable, "-m", "ppdm_cli", "perturb", data, "-o", release, "--plan", plan]
        subprocess.run([str(c) for c in command], check=True, capture_output=True)
        for suffix in ("parquet", "arrow", "csv"):
            for threads in (1, 2):
                found = measured(threads, data, Path(name, f"next.{suffix}"), release)
                _, busy, serial, writing = found
                faster = busy / (serial + max(writing, (busy - serial) / MANY))
                figures = " | ".join(f"{figure:.3f}" for figure in found)
                print(f"| .{suffix} | {threads} | {figures} | {faster:.1f} ({faster / MANY:.0%}) |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)

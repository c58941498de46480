"""The same work by an earlier commit and by this tree, alternately: `python -m tests.experiments.bench_against COMMIT`.

Each runs on releases of its own, in processes of their own; a line has the median over 9 rounds of the ratio of
seconds and of processor seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.experiments.bench import AS_INSTALLED, PLAN

ROUNDS = 9
TREE = Path(__file__).parents[2]
Took = tuple[float, float]


def ppdm(code: Path, folder: Path, *arguments: object) -> Took:
    """Seconds and processor seconds of a command, by the package that is in the folder `code`."""
    whole = [sys.executable, "-m", "ppdm_cli", *map(str, arguments)]
    return timed(whole, folder, AS_INSTALLED | {"PYTHONPATH": str(code)})


def timed(command: list[str], folder: Path, env: dict[str, str]) -> Took:
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} left with {process.returncode}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def works(rows: int) -> dict[str, tuple[object, ...]]:
    tree = ("--force", "-o", "tree.json")
    return {
        f"perturb {rows:,} x 10": (
            "perturb",
            "f2.parquet",
            "--like",
            "r.parquet",
            "-o",
            "n.parquet",
            "--force",
        ),
        f"estimate {rows:,} x 9": ("estimate", "r.parquet", "-o", "e.csv", "--force"),
        f"reconstruct {rows:,}, by class": (
            *("reconstruct", "r.parquet", "--method", "by-class", "-o", "u.parquet", "--force"),
        ),
        "tree of 100,000 originals": ("train-tree", "small.parquet", "--class", "group", *tree),
        "tree of a release of 100,000": ("train-tree", "rs.parquet", *tree),
    }


def main(commit: str, rows: int = 10_000_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, old = Path(folder), Path(folder) / "old"
        subprocess.run(["git", "-C", TREE, "worktree", "add", "-q", "--detach", old, commit], check=True)
        try:
            compare({"before": old, "after": TREE}, root, rows)
        finally:
            subprocess.run(["git", "-C", TREE, "worktree", "remove", "--force", old], check=True)


def compare(codes: dict[str, Path], root: Path, rows: int) -> None:
    homes = {name: root / f"of {name}" for name in codes}
    for name, home in homes.items():
        home.mkdir()
        (home / "plan.toml").write_text(PLAN)
        for what, records, release in (("f2", rows, "r"), ("small", 100_000, "rs")):
            made = ("generate", "--function", 2, "--records", records, "--seed", 7, "-o", f"{what}.parquet")
            ppdm(codes[name], home, *made)
            out = (f"{what}.parquet", "-o", f"{release}.parquet", "--plan", "plan.toml", "--seed", 1)
            ppdm(codes[name], home, "perturb", *out)
    for what, arguments in works(rows).items():
        rounds = []
        for _ in range(ROUNDS):
            rounds.append({name: ppdm(code, homes[name], *arguments) for name, code in codes.items()})
        clock, busy = (statistics.median(r["after"][i] / r["before"][i] for r in rounds) for i in (0, 1))
        mine = statistics.median(r["after"][0] for r in rounds)
        print(f"{what}: {clock:.2f} of before, processor {busy:.2f} ({mine:.2f} s)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *(int(n) for n in sys.argv[2:]))

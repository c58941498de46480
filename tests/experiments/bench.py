"""The speed table of the design, measured: `make bench`.

Every time is a ratio of two things run alternately in this one run, whole processes on the same
files, the median of several; it prints the machine and writes nothing into the repository.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ppdm_cli.channels.base import substitute
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.coins import Coins
from ppdm_cli.estimating import maximum_likelihood
from tests.experiments.bench_trees import LEARNERS

ROWS, MANY = 10_000_000, 50_000_000
CSV_ROWS = 2_000_000
REPEATS = 5
AS_INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""Where modules are compiled anew at each start, as no installed package is, ours would take longer."""
PLAN = """\
gamma = 9
bins = 20
class = "group"
keep = ["group"]
[attributes]
salary.domain = [20000, 150000]
commission.domain = [0, 75000]
age.domain = [20, 80]
elevel.domain = [0, 4]
car.domain = [1, 20]
zipcode.domain = [0, 8]
hvalue.domain = [50000, 1350000]
hyears.domain = [1, 30]
loan.domain = [0, 500000]
"""


def run(command: Sequence[object]) -> tuple[float, float, float]:
    """Seconds, peak MiB and the processor's seconds of a process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=AS_INSTALLED
    )
    assert process.stderr is not None
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command}: {said}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def ppdm(*arguments: object) -> list[object]:
    return [sys.executable, "-m", "ppdm_cli", *arguments]


def compare(ours: Sequence[object], theirs: Sequence[object], repeats: int = REPEATS) -> list[list[float]]:
    """The median ratio of our seconds to theirs, run alternately, and both medians; then of the processor's."""
    run(ours), run(theirs)
    pairs = [(run(ours), run(theirs)) for _ in range(repeats)]
    times = [[(a[figure], b[figure]) for a, b in pairs] for figure in (0, 2)]
    return [[statistics.median(x) for x in ([a / b for a, b in t], *zip(*t, strict=True))] for t in times]


def line(what: str, bound: str, measured: str) -> None:
    print(f"| {what} | {bound} | {measured} |", flush=True)


def ratio(what: str, bound: str, ours: Sequence[object], theirs: Sequence[object]) -> None:
    """Print a line of the table: how long our process takes to another, and how long the processor."""
    each = [f"{found:.2f} ({mine:.2f} s to {other:.2f} s)" for found, mine, other in compare(ours, theirs)]
    line(what, bound, "; processor ".join(each))


def generate(path: Path, records: int, seed: int, function: int = 2) -> None:
    run(ppdm("generate", "--function", function, "--records", records, "--seed", seed, "-o", path, "--force"))


def parquet(folder: Path) -> None:
    data, plan, release = folder / "f2.parquet", folder / "plan.toml", folder / "release.parquet"
    plan.write_text(PLAN)
    generate(data, ROWS, 7)
    # the class is declared by nobody: --like makes it one pass, as a plan with everything in it does
    run(ppdm("perturb", data, "-o", release, "--plan", plan, "--force"))
    next_ = ("-o", folder / "next.parquet", "--like", release, "--force")
    like = ppdm("perturb", data, *next_)
    copy = folder / "copy.parquet"
    copied = python(f"import polars; polars.scan_parquet({str(data)!r}).sink_parquet({str(copy)!r})")
    ratio(f"`perturb` {ROWS // 10**6}M x 10 Parquet, plan given, to polars' copy", "1 (aim 0.7)", like, copied)
    line(f"... peak memory at {ROWS // 10**6}M rows", "1,024 MiB", f"{run(like)[1]:.0f} MiB")
    many = folder / "many.parquet"
    generate(many, MANY, 8)
    seconds, memory, _ = run(ppdm("perturb", many, *next_))
    line(f"... peak memory at {MANY // 10**6}M rows ({seconds:.1f} s)", "the same", f"{memory:.0f} MiB")
    many.unlink()
    miner(folder, like)
    whole_records(folder, data, like)


def whole_records(folder: Path, data: Path, perturb: Sequence[object]) -> None:
    """Two attributes a record by one coin, and what a miner's tree takes to be learnt from it."""
    plan, release = folder / "records.toml", folder / "records.parquet"
    plan.write_text(PLAN.replace("gamma = 9", "record_epsilon = 2\npublish = 2"))
    run(ppdm("perturb", data, "-o", release, "--plan", plan, "--force"))
    like = ppdm("perturb", data, "-o", folder / "next.parquet", "--like", release, "--force")
    ratio(f"`perturb --publish 2` {ROWS // 10**6}M x 10 Parquet to `perturb`", "1", like, perturb)
    some, tree = folder / "some.parquet", folder / "tree.json"
    for records, bound in ((100_000, "2"), (1_000_000, "5")):
        for recipes, way in (("publish = 2", "--publish 2"), ("rounds = 3", "--rounds 3")):
            plan.write_text(
                PLAN.replace("gamma = 9", f"record_epsilon = 4\n{recipes}").replace("20\n", "24\n", 1)
            )
            seconds = 0.0
            for function in (2, 4):
                generate(some, records, 7, function)
                run(ppdm("perturb", some, "-o", release, "--plan", plan, "--force"))
                train = ppdm("train-tree", release, "-o", tree, "--force")
                seconds = max(seconds, statistics.median(run(train)[0] for _ in range(3)))
            what = f"`train-tree RELEASE` of {records:,} records, {way}, F2 and F4"
            line(what, f"{bound} s", f"{seconds:.2f} s at most, with the command's start")


def miner(folder: Path, perturb: Sequence[object]) -> None:
    """The miner's half, on the release and on a large one."""
    release, large, usable = (folder / f"{name}.parquet" for name in ("release", "next", "usable"))
    names = [row.split(".")[0] for row in PLAN.splitlines() if ".domain" in row]
    counts = python(
        f"import polars; lazy = polars.scan_parquet({str(release)!r})\n"
        f"polars.collect_all([lazy.group_by(n).len() for n in {names!r}])"
    )
    estimate = ppdm("estimate", release, "-o", folder / "estimates.parquet", "--force")
    what = f"`estimate` {ROWS // 10**6}M x {len(names)} Parquet to polars' group_by counts"
    ratio(what, "0.8", estimate, counts)
    answers(release, large)
    train = ppdm("train-tree", release, "-o", folder / "tree.json", "--force")
    seconds, _, busy = map(statistics.median, zip(*(run(train) for _ in range(REPEATS)), strict=True))
    line(f"`train-tree RELEASE` of {ROWS // 10**6}M records", "2 s", f"{seconds:.2f} s, processor {busy:.2f} s")
    seconds, memory, _ = run(ppdm("reconstruct", large, "-o", usable, "--force"))
    what = f"`reconstruct` {MANY // 10**6}M rows: peak memory ({seconds:.1f} s)"
    line(what, "1,024 MiB", f"{memory:.0f} MiB")
    for how, bound in (("by-class", "1.5"), ("joint", "2")):
        what = f"`reconstruct --method {how}` {ROWS // 10**6}M x 10 Parquet to `perturb`, plan given"
        ratio(what, bound, ppdm("reconstruct", release, "-o", usable, "--force", "--method", how), perturb)


def answers(release: Path, large: Path) -> None:
    """A mean by group: in a session that has begun, as polars' is, and as a command."""
    import polars as pl

    from ppdm_cli import query

    question = 'select mean(salary) group by "group"'
    lazy = pl.scan_parquet(release).group_by("group").agg(pl.col("salary").mean())
    pairs = []
    for _ in range(2 * REPEATS):
        began = time.perf_counter()
        query(release, question)
        middle = time.perf_counter()
        lazy.collect()
        pairs.append((middle - began, time.perf_counter() - middle))
    found = statistics.median(a / b for a, b in pairs[REPEATS:])
    line(f"`query()`, a mean by group over {ROWS // 10**6}M rows, to polars' group_by", "2", f"{found:.2f}")
    grouped = python(
        f"import polars; lazy = polars.scan_parquet({str(release)!r})\n"
        "lazy.group_by('group').agg(polars.col('salary').mean()).collect()"
    )
    ratio("... as a command, start included", "-", ppdm("query", release, question, "-q"), grouped)
    seconds, memory, _ = run(ppdm("query", large, question, "-q"))
    line(f"... peak memory at {MANY // 10**6}M rows ({seconds:.1f} s)", "the same", f"{memory:.0f} MiB")


def csv(folder: Path) -> None:
    data, copy = folder / "f2.csv", folder / "copy"
    generate(data, CSV_ROWS, 7)
    like, rows = ("--like", folder / "release.parquet", "--force"), f"{CSV_ROWS // 10**6}M x 10"
    read = f"import polars; frame = polars.read_csv({str(data)!r})"
    for form, bound in (("csv", "1.5"), ("parquet", "1.3")):
        copied = python(f"{read}; frame.write_{form}({str(copy)!r})")
        perturb = ppdm("perturb", data, "-o", folder / f"next.{form}", *like)
        ratio(f"`perturb` {rows} CSV to {form}, plan given, to polars' read and write", bound, perturb, copied)
    plan = ppdm("plan", data, "-o", folder / "proposed.toml", "--force")
    ratio(f"`plan` {rows} CSV, to polars' read", "2", plan, python(read))


def shapes(folder: Path) -> None:
    """Many columns, and many files."""
    import polars as pl

    rng = np.random.default_rng(1)

    def made(rows: int, columns: int) -> pl.DataFrame:
        return pl.DataFrame({f"c{i}": rng.integers(0, 20, rows) for i in range(columns)})

    parts, wide, plan = folder / "parts", folder / "wide.parquet", folder / "shapes.toml"
    parts.mkdir()
    made(20_000, 2_000).write_parquet(wide)
    for number in range(1_000):
        made(1_000, 10).write_parquet(parts / f"{number}.parquet")
    for data, what, columns in ((wide, "20,000 x 2,000", 2_000), (parts, "1,000 parts of 1,000 x 10", 10)):
        domains = "".join(f"c{i}.domain = [0, 19]\n" for i in range(columns))
        plan.write_text(f"gamma = 9\nbins = 20\n[attributes]\n{domains}")
        copied = python(f"import polars as p; p.scan_parquet({str(data)!r}).sink_parquet({str(folder / 'c')!r})")
        perturb = ppdm("perturb", data, "-o", folder / "shaped.parquet", "--plan", plan, "--force")
        ratio(f"`perturb` {what} Parquet, plan given, to polars' copy", "2", perturb, copied)


def attacks(folder: Path) -> None:
    """All attacks on a release, beside its original."""
    release = folder / "release.parquet"
    attack = ppdm("attack", release, "--truth", folder / "f2.parquet")
    seconds, memory, busy = run(attack)
    what = f"`attack --truth`, all, {ROWS // 10**6}M x 10"
    line(what, "30 s of processor, 1,024 MiB", f"{busy:.0f} s, {memory:.0f} MiB ({seconds:.0f} s)")


def trees(folder: Path, rows: Sequence[int] = (100_000, 1_000_000)) -> None:
    """Training beside scikit-learn and LightGBM: cold fits of fresh processes, and the best of later ones."""
    for n in rows:
        for function in (2, 4):
            train, test = folder / "train.parquet", folder / "test.parquet"
            for path, records, seed in ((train, n, 7), (test, 20_000, 8)):
                generate(path, records, seed, function)
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in LEARNERS}
            for _ in range(3):
                for name, runs in found.items():
                    command = [
                        sys.executable,
                        "-m",
                        "tests.experiments.bench_trees",
                        name,
                        str(train),
                        str(test),
                    ]
                    runs.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
            cold = {k: statistics.median(r["times"][0] for r in v) for k, v in found.items()}
            best = {k: min(t for r in v for t in r["times"][1:]) for k, v in found.items()}
            for peer, bound in (("scikit-learn", "0.5"), ("LightGBM", "aim 1")):
                line(
                    f"training a tree on F{function}, {n:,} rows, to {peer}",
                    bound,
                    f"{best['ppdm'] / best[peer]:.2f} ({best['ppdm']:.3f} s to {best[peer]:.3f} s); "
                    f"cold {cold['ppdm'] / cold[peer]:.2f} ({cold['ppdm']:.3f} s to {cold[peer]:.3f} s)",
                )
            right = ", ".join(f"{k} {v[0]['accuracy']:.4f}" for k, v in found.items())
            line("... accuracy on 20,000 test records", "the peers'", right)


def small(folder: Path) -> None:
    """The processor time of a run on a few records: nearly all of it is the start."""
    data, plan, release = folder / "small.parquet", folder / "small.toml", folder / "small-release.parquet"
    plan.write_text(PLAN)
    generate(data, 2_000, 7)
    for command, bound in (
        (ppdm("perturb", data, "-o", release, "--plan", plan, "--force"), "0.35 s"),
        (ppdm("estimate", release), "-"),
        (ppdm("plan", data, "-o", folder / "proposed.toml", "--force"), "-"),
        (ppdm("attack", release), "-"),
    ):
        busy = statistics.median(run(command)[2] for _ in range(15))
        line(f"`ppdm {command[3]}` of 2,000 records: processor", bound, f"{busy:.2f} s")


def startup() -> None:
    for arguments in (["--help"], ["perturb", "--help"]):
        [[_, ours, theirs], _] = compare(ppdm(*arguments), python("import click"), 15)
        line(f"`ppdm {' '.join(arguments)}` over `import click`", "150 ms", f"{1000 * (ours - theirs):.0f} ms")


def sampler() -> None:
    n = 1 << 22
    codes = np.random.default_rng(1).integers(0, 20, n).astype(np.uint8)
    out, addresses = np.empty_like(codes), np.arange(n, dtype=np.uint64)
    seconds = fastest(
        lambda: substitute(GammaDiagonal(Decimal(9), 20), Coins(bytes(32)), addresses, codes, out)
    )
    line("the substitution alone, coins included, one core", "-", f"{seconds / n * 1e9:.1f} ns a cell")


def likelihood() -> None:
    """Maximum likelihood over a large domain, as `estimate` does it for each attribute."""
    N = 3000
    weights = np.random.default_rng(1).dirichlet(np.full(N, 0.1))
    observed = np.random.default_rng(2).multinomial(1_000_000, weights * 0.01 + 0.99 / N).astype(float)
    matrix = GammaDiagonal(Decimal(9), N)
    seconds = fastest(lambda: maximum_likelihood(observed, [matrix]))
    line(f"the `ml` estimate at N = {N}", "10 ms", f"{1000 * seconds:.2f} ms")


def fastest(work: Callable[[], None]) -> float:
    times = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; medians of "
        f"{REPEATS} alternating runs of whole processes\n"
    )
    line("work", "bound", "measured")
    line("---", "---", "---")
    sampler()
    likelihood()
    startup()
    with tempfile.TemporaryDirectory() as folder:
        small(Path(folder))
        trees(Path(folder))
        parquet(Path(folder))
        csv(Path(folder))
        shapes(Path(folder))
        attacks(Path(folder))


if __name__ == "__main__":
    main()

"""Damaged and hostile files through the real command line: `python -m tests.experiments.fuzz CASES [FIRST]`.

Case n is a function of n alone. A worker process runs case after case and says after each what became of
it; a case fails that ends with another code than those of the table, leaves a stray word or a private
value in what it says, takes over 1 GiB, hangs, or takes the worker with it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.children import CODES, stray
from tests.experiments.fuzz_corpus import CANARY, COMMANDS, corpus, set_up
from tests.experiments.fuzz_mutations import mutated

SECONDS, MIB = 10.0, 1024.0
GIVEN_UP = 60.0
"""Seconds of the wall's clock after which a worker is stopped; a busy machine gets so many."""
TOGETHER = 400
"""Cases that one worker runs."""


@dataclass(frozen=True)
class Found:
    """What became of a case; `wrong` says what was wrong with it."""

    case: int
    kind: str
    args: list[str]
    code: int | None
    seconds: float
    mib: float
    wrong: str = ""
    said: str = ""


def run_cases(first: int, count: int, echo: bool = False) -> Iterator[Found]:
    """Every case of the range, each once, by as many workers one after the other as it takes."""
    case, end = first, first + count
    while case < end:
        began = case
        with tempfile.TemporaryDirectory() as folder:
            last = str(min(end, case + TOGETHER))
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.experiments.fuzz", "work", str(case), last, folder],
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                stderr=None if echo else subprocess.DEVNULL,
                cwd=Path(__file__).parents[2],
            )
            assert worker.stdout is not None
            try:
                while select.select([worker.stdout], [], [], GIVEN_UP)[0]:
                    if not (line := worker.stdout.readline()):
                        break
                    found = Found(**json.loads(line))
                    case = found.case + 1
                    yield found
                else:
                    worker.kill()
                worker.wait()
            finally:
                worker.kill()
                worker.stdout.close()
        if case < end and (worker.returncode or case == began):
            kind, args = planned(case)[:2]
            yield Found(case, kind, args, worker.returncode, GIVEN_UP, 0.0, "hung, or took the process with it")
            case += 1


def planned(case: int) -> tuple[str, list[str], random.Random]:
    """Which kind of file a case damages, and what is done with it."""
    rng = random.Random(case)
    kind = list(COMMANDS)[case % len(COMMANDS)]
    return kind, rng.choice(COMMANDS[kind]).split(), rng


def work(first: int, end: int, folder: Path) -> None:
    """Run cases in this process, whose own output is what the cases say."""
    report = os.fdopen(os.dup(1), "w")
    os.chdir(folder)
    files = corpus(folder)
    for case in range(first, end):
        kind, args, rng = planned(case)
        place = folder / "now"
        name, data = set_up(files, kind, place)
        (place / name).write_bytes(mutated(data, kind, rng, files))
        os.chdir(place)
        named = CANARY.search((place / name).read_bytes().split(b"\n")[0]) is not None and "csv" in kind
        found = once(case, kind, args, named)
        os.chdir(folder)
        shutil.rmtree(place, ignore_errors=True)
        print(json.dumps(found.__dict__), file=report, flush=True)


def once(case: int, kind: str, args: list[str], named: bool = False) -> Found:
    """Run a case in this folder; where a cell is `named`, damage made it the name of a column."""
    from ppdm_cli.commands import run_command_line

    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts anew
    out = os.open("../said", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    given = os.open("stdin" if Path("stdin").exists() else os.devnull, os.O_RDONLY)
    os.dup2(given, 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.argv, began, busy = ["ppdm", *args], time.monotonic(), time.process_time()
    code: int | None = None
    try:
        run_command_line()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else None
    gc.collect()  # what is said as objects go away
    took, used = time.monotonic() - began, time.process_time() - busy
    sys.stdout.flush()
    sys.stderr.flush()
    peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    mib = int(peak[1]) / 1024 if peak else 0.0
    said = os.pread(out, 1 << 20, 0)
    os.close(out)
    os.close(given)
    may_say = named or (args[0] == "train-tree" and not code)
    wrong = [
        *(["a code that is not of the table"] if code not in CODES else []),
        *(["a stray word"] if stray(said) else []),
        *(["a private value"] if CANARY.search(said) and not may_say else []),
        *(["too long"] if min(took, used) > SECONDS else []),
        *(["too much memory"] if mib > MIB else []),
        *(["more than a line"] if code not in (0, None) and kind != "attack" and _lines(said) > 1 else []),
    ]
    return Found(
        case, kind, args, code, min(took, used), mib, ", ".join(wrong), said.decode("utf-8", "replace")[:500]
    )


def _lines(said: bytes) -> int:
    """Lines that begin as an error does."""
    return sum(line.startswith(b"ppdm: ") for line in said.split(b"\n"))


def main_() -> int:
    if sys.argv[1] == "work":
        work(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]).resolve())
        return 0
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    codes: Counter[int | None] = Counter()
    failures, mib, longest = 0, 0.0, (0.0, -1)
    for found in run_cases(first, count, echo=count == 1):
        codes[found.code] += 1
        mib, longest = max(mib, found.mib), max(longest, (found.seconds, found.case))
        if found.wrong or count == 1:
            failures += bool(found.wrong)
            print(f"case {found.case}: {found.wrong}: {' '.join(found.args)}\n    {found.said!r}", flush=True)
    told = ", ".join(f"{n} with code {code}" for code, n in sorted(codes.items(), key=str))
    print(f"{count} cases, {failures} failed: {told}")
    print(f"at most {mib:.0f} MiB; longest {longest[0]:.1f} s (case {longest[1]})")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main_())

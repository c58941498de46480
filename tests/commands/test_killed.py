"""A run that is killed or interrupted: the old pair or the new one is there and fits, or no sidecar.

`kill -9` lets nobody tidy up, so nothing may need it: the file has no name until it is whole.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from ppdm_cli.tables import synthetic
from tests.vocabulary import Run, listing, people, write_table

ROWS = 3_000_000
COMMAND = [sys.executable, "-m", "ppdm_cli", "perturb"]
PAIR = {"r.parquet", "r.parquet.ppdm.json"}


@pytest.fixture(scope="session")
def millions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that takes a moment to perturb."""
    table = pa.Table.from_batches(synthetic.generate(2, ROWS, 7))
    return write_table(table, tmp_path_factory.mktemp("millions") / "in.parquet")


def started(*args: object, folder: Path, stdin: int | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *map(str, args)], cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def seconds(*args: object, folder: Path) -> float:
    """What a run that nobody stops takes."""
    began = time.monotonic()
    subprocess.run([*COMMAND, *map(str, args)], cwd=folder, check=True, capture_output=True)
    return time.monotonic() - began


def test_a_kill_at_any_moment_leaves_a_pair_that_fits(millions: Path, tmp_path: Path, ppdm: Run) -> None:
    args = (millions, "-o", "r.parquet", "--gamma", "9", "--force")
    whole = seconds(*args, folder=tmp_path)
    outcomes = set()
    for tenth in (5, 9):
        before = listing(tmp_path)
        running = started(*args, folder=tmp_path)
        time.sleep(whole * tenth / 10)
        running.kill()
        running.communicate()
        for part in tmp_path.glob(".*.ppdm-part"):
            part.unlink()  # what a kill between two renames may leave (docs/explanation/limits.md)
        after = listing(tmp_path)
        assert "r.parquet" in after and set(after) <= PAIR, "nothing else is left behind"
        ppdm("inspect", "r.parquet", "--json")
        outcomes.add("old" if after == before else "new")
        if after != before:
            assert set(after) == PAIR or after["r.parquet"] != before["r.parquet"]
    assert "old" in outcomes


def test_a_stop_by_a_scheduler_tidies_up(millions: Path, tmp_path: Path) -> None:
    running = started(millions, "-o", "r.parquet", "--gamma", "9", folder=tmp_path)
    while not Path(f"/proc/{running.pid}/maps").read_text().count("arrow"):
        time.sleep(0.01)
    running.terminate()
    assert not any(running.communicate()) and running.returncode == 143
    assert not list(tmp_path.iterdir())


STEPS = """
import os, signal, sys
at = int(sys.argv.pop(1))
seen = 0
def hook(event, args):
    global seen
    if event in ("os.link", "os.rename", "os.remove") and any("r.parquet" in str(a) for a in args):
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from ppdm_cli.commands import run_command_line
run_command_line()
"""


def test_a_kill_at_each_step_of_publishing_leaves_a_pair_that_fits(tmp_path: Path, ppdm: Run) -> None:
    people().write_parquet(tmp_path / "in.parquet")
    ppdm("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9")
    old = (tmp_path / "r.parquet").read_bytes()
    states = []
    for step in range(1, 12):
        command = [sys.executable, "-c", STEPS, str(step), "perturb", "in.parquet", "-o", "r.parquet"]
        done = subprocess.run([*command, "--gamma", "9", "--force"], cwd=tmp_path, capture_output=True)
        hidden = [p for p in tmp_path.iterdir() if p.name not in PAIR | {"in.parquet"}]
        for part in hidden:  # killed between two system calls, while what was there is kept under a hidden name
            assert part.name.endswith(".ppdm-part")
            part.unlink()
        ppdm("inspect", "r.parquet")
        now = (tmp_path / "r.parquet").read_bytes()
        promised = (tmp_path / "r.parquet.ppdm.json").exists()
        states.append(("old" if now == old else "new", promised))
        if done.returncode == 0:
            break
        ppdm("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9", "--force")
        old = (tmp_path / "r.parquet").read_bytes()
    assert states == [("old", True), *[("old", False)] * 3, ("new", False), *[("new", True)] * 3]


def test_a_kill_before_anything_was_published_leaves_nothing(tmp_path: Path) -> None:
    args = ("-", "-o", "r.csv", "--from", "csv", "--gamma", "9", "--domain", "x=0:9")
    running = started(*args, folder=tmp_path, stdin=subprocess.PIPE)
    assert running.stdin is not None
    running.stdin.write(b"x\n" + b"1\n" * 100_000)
    running.stdin.flush()
    time.sleep(1)
    running.kill()
    running.communicate()
    assert listing(tmp_path) == {}


def interrupted(running: subprocess.Popen[bytes]) -> str:
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    # a shell says 130 of both: Python ends by the signal where it came while a library was being loaded
    assert running.returncode in (130, -signal.SIGINT) and out == b"", err.decode()
    return err.decode().strip()


def test_ctrl_c_while_waiting_for_input_stops_at_once_and_says_so(tmp_path: Path) -> None:
    for form in ("csv", "arrow"):
        args = ("-", "-o", "r.parquet", "--from", form, "--gamma", "9", "--domain", "x=0:9")
        running = started(*args, folder=tmp_path, stdin=subprocess.PIPE)
        time.sleep(1)
        began = time.monotonic()
        assert interrupted(running) == "ppdm: interrupted: nothing was written"
        assert time.monotonic() - began < 3
        assert listing(tmp_path) == {}


def test_ctrl_c_in_the_middle_of_the_work_leaves_what_was_there(millions: Path, tmp_path: Path) -> None:
    args = (millions, "-o", "r.parquet", "--gamma", "9", "--force", "--shuffle", "--bins", "1000")
    whole = seconds(*args, folder=tmp_path)
    before = listing(tmp_path)
    for part in (0.6, 0.4):
        running = started(*args, folder=tmp_path)
        time.sleep(whole * part)
        assert running.poll() is None, "the work is long enough to be interrupted"
        assert interrupted(running) == "ppdm: interrupted: nothing was written"
        assert listing(tmp_path) == before


@pytest.mark.parametrize("form", ["csv", "arrow"])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_run_stops_at_once_when_its_reader_no_longer_reads(form: str, stop: int, tmp_path: Path) -> None:
    args = ["--function", "1", "--records", str(ROWS), "-o", "-", "--to", form]
    with subprocess.Popen(
        [*COMMAND[:-1], "generate", *args], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stdout.read(1)
        time.sleep(1)  # until the pipe is full
        running.send_signal(stop)
        try:
            assert running.wait(timeout=10) in (128 + stop, -stop)
        finally:
            running.kill()


def test_a_second_ctrl_c_while_stopping_changes_nothing(tmp_path: Path) -> None:
    code = (
        "import os, signal, ppdm_cli.commands as c\n"
        "fail = c.fail\n"
        "c.fail = lambda *told: (os.kill(os.getpid(), signal.SIGINT), fail(*told))[1]\n"
        "def work(**_): raise KeyboardInterrupt\n"
        "c.cli.main = work\n"
        "c.run_command_line()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"ppdm: interrupted: nothing was written\n")

"""`train-tree` and `predict` when something goes wrong: nothing half-written, and no value in a message."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.commands.test_killed import STEPS
from tests.conftest import Run, listing, people
from tests.test_canary import CSVS, ROWS, Anything, seen

TRAIN = ("train-tree", "in.parquet", "--class", "group", "--no-prune", "--no-mdl", "--min-records", "1")
OUTPUTS = ("r.parquet.json", "r.parquet.txt", "r.parquet.csv")


@pytest.fixture
def noise(tmp_path: Path) -> Path:
    """Records whose tree is large, and two to predict."""
    people(6000).write_parquet(tmp_path / "in.parquet")
    people(2).write_parquet(tmp_path / "two.parquet")
    return tmp_path


def limited(folder: Path, most: int, *args: str) -> subprocess.CompletedProcess[bytes]:
    """A limit on the size of files stands for a full disk: the kernel's refusal is as real."""
    return subprocess.run(
        [sys.executable, "-m", "ppdm_cli", *args],
        cwd=folder,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )


@pytest.mark.parametrize("output", ["t.json", "t.csv", "t.parquet"])
def test_what_is_written_last_fails_and_nothing_is_there(output: str, noise: Path) -> None:
    outputs = ("-o", output, "--test", "two.parquet", "--predicted", "p.csv", "--export", "t.txt")
    (noise / "p.csv").write_text("mine")
    before = listing(noise)
    done = limited(noise, 10_000, *TRAIN, *outputs, "--force")
    message = done.stderr.decode()
    assert done.returncode == 1 and message.count("\n") == 1 and "File too large" in message, message
    assert listing(noise) == before


def test_no_room_for_predictions_leaves_the_old_ones(noise: Path, ppdm: Run) -> None:
    ppdm("train-tree", "in.parquet", "--class", "group", "-o", "t.json")
    for name in ("o.csv", "o.parquet", "o.arrow"):
        (noise / name).write_text("mine")
        before = listing(noise)
        done = limited(noise, 10_000, "predict", "t.json", "in.parquet", "-o", name, "--force")
        assert done.returncode == 1 and b"File too large" in done.stderr and done.stdout == b""
        assert listing(noise) == before


@pytest.mark.long
def test_a_kill_at_each_step_leaves_whole_files(noise: Path, ppdm: Run) -> None:
    args = (*TRAIN, "-o", OUTPUTS[0], "--export", OUTPUTS[1], "--predicted", OUTPUTS[2], "--force")
    ppdm(*TRAIN[:4], "--class", "member", "-o", OUTPUTS[0], "--export", OUTPUTS[1], "--predicted", OUTPUTS[2])
    old = {n: (noise / n).read_bytes() for n in OUTPUTS}
    ppdm(*args)
    new = {n: (noise / n).read_bytes() for n in OUTPUTS}
    states = []
    for step in range(1, 20):
        for name in OUTPUTS:
            (noise / name).write_bytes(old[name])
        done = subprocess.run([sys.executable, "-c", STEPS, str(step), *args], cwd=noise, capture_output=True)
        for path in noise.iterdir():
            if path.name.endswith(".ppdm-part"):  # killed between two system calls
                path.unlink()
        assert set(listing(noise)) == {"in.parquet", "two.parquet", *OUTPUTS}
        now = {n: (noise / n).read_bytes() for n in OUTPUTS}
        assert all(now[n] in (old[n], new[n]) for n in OUTPUTS)
        states.append(sum(now[n] == new[n] for n in OUTPUTS))
        if done.returncode == 0:
            break
    assert states[0] == 0 and states[-1] == 3 and states == sorted(states)


def test_ctrl_c_while_predicting_leaves_what_was_there(noise: Path, ppdm: Run) -> None:
    ppdm("train-tree", "in.parquet", "--class", "group", "-o", "t.json")
    (noise / "o.csv").write_text("mine")
    before = listing(noise)
    for args in (
        ("predict", "t.json", "-", "-o", "o.csv"),
        ("train-tree", "-", "--class", "y", "-o", "o.json"),
    ):
        command = [sys.executable, "-m", "ppdm_cli", *args, "--from", "csv", "--force"]
        running = subprocess.Popen(command, cwd=noise, stdin=-1, stdout=-1, stderr=-1)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(4)
        running.send_signal(2)
        out, err = running.communicate(timeout=20)
        assert (running.returncode, out) == (130, b"")
        assert err.strip() == b"ppdm: interrupted: nothing was written"
        assert listing(noise) == before


@pytest.mark.parametrize("fault", CSVS)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("types", [(), ("--type", "n=int64", "--type", "s=string", "--type", "d=date")])
def test_a_faulty_csv_tells_no_cell(
    fault: str, first: bool, types: tuple[str, ...], tmp_path: Path, ppdm: Run
) -> None:
    """A tree itself says what values the records have; a message never does."""
    (tmp_path / "clean.csv").write_text("n,s,d\n" + ROWS)
    ppdm("train-tree", "clean.csv", "--class", "s", "-o", "t.json", "--no-prune", *types)
    rows = CSVS[fault] + ROWS if first else ROWS + CSVS[fault]
    (tmp_path / "in.csv").write_bytes(b"n,s,d\n" + rows.encode("latin-1"))
    before = listing(tmp_path)
    for args in (
        ("train-tree", "in.csv", "--class", "s", "-o", "x.json"),
        ("train-tree", "in.csv", "--class", "n", "-o", "y.json"),
        ("predict", "t.json", "in.csv", "-o", "p.csv"),
    ):
        code = Anything()
        done = ppdm(*args, *types, code=code)  # type: ignore[arg-type]
        assert b"inside ppdm" not in done.stderr
        if code.code:
            assert not seen(done.stdout + done.stderr), done.stderr
            assert listing(tmp_path) == before
        before = listing(tmp_path)


def test_the_class_tells_no_cell(tmp_path: Path, ppdm: Run) -> None:
    """A class of a wrong kind, and labels that are unknown or missing."""
    canary = "CANARY-7f3a"
    frame = people(300)
    frame.write_parquet(tmp_path / "d.parquet")
    ppdm("train-tree", "d.parquet", "--class", "group", "-o", "t.json", "--force")
    for wrong in (
        frame.with_columns(group=pl.lit(918273645)),
        frame.with_columns(age=pl.lit(canary)),
        frame.with_columns(group=pl.Series(np.full(300, 918273645.5))),
    ):
        wrong.write_parquet(tmp_path / "w.parquet")
        for args in (
            ("predict", "t.json", "w.parquet", "-o", "p.csv", "--force"),
            ("train-tree", "d.parquet", "--class", "group", "-o", "x.json", "--test", "w.parquet", "--force"),
        ):
            done = ppdm(*args, code=Anything())  # type: ignore[arg-type]
            assert not seen(done.stdout) and b"918273645" not in done.stderr and b"inside" not in done.stderr

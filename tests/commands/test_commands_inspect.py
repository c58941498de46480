"""`ppdm inspect`, and what all subcommands share: help, suggestions, colours, broken pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ppdm_cli import perturb
from ppdm_cli.commands import SUBCOMMANDS
from ppdm_cli.releases import inspection, open_release
from tests.vocabulary import Run, people

PPDM = f"{sys.executable} -m ppdm_cli"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    for suffix in ("parquet", "csv", "arrow"):
        perturb(people(), tmp_path / f"r.{suffix}", gamma=9, keep=["group"], drop=["since"], bins=20)
    return tmp_path


def test_a_release_its_sidecar_and_a_stream_are_inspected_alike(release: Path, ppdm: Run) -> None:
    for name in ("r.parquet", "r.csv", "r.arrow", "r.parquet.ppdm.json"):
        done = ppdm("inspect", name, "--json", "--prior", "0.1")
        assert done.stderr == b""
        said = json.loads(done.stdout)
        sidecar = open_release(release / name.removesuffix(".ppdm.json"))[1]
        figures = inspection.promise_figures(sidecar, 0.1) | {"sentences": inspection.sentences(sidecar, 0.1)}
        assert said == json.loads(json.dumps(figures))
        assert said["record"]["unbounded"] == ["group"] and said["record"]["prior"] == 0.1
    age = next(a for a in said["attributes"] if a["attribute"] == "age")
    N = age["N"]
    assert age["staying"] == pytest.approx(9 / (8 + N)) and age["gamma"] == 9
    assert age["condition_number"] == pytest.approx((8 + N) / 8)
    assert said["record"]["worst_posterior"] == pytest.approx(656.1 / 657)


def test_the_program_says_what_it_can_do(ppdm: Run) -> None:
    done = ppdm("--help")
    assert done.stderr == b"" and all(name in done.stdout.decode() for name in SUBCOMMANDS)
    assert ppdm("-V").stdout.decode().startswith("ppdm ")
    done = ppdm(code=2)
    assert done.stdout == b"" and b"Commands" in done.stderr
    for name in SUBCOMMANDS:
        said = ppdm(name, "--help").stdout.decode()
        assert "Memory:" in said and len(re.findall(rf"\n +ppdm {name} ", said)) >= 2, (
            "memory class and two examples"
        )


def on_a_terminal(command: str, folder: Path, **environment: str) -> str:
    """What a command writes when all it writes goes to a terminal."""
    leader, follower = pty.openpty()
    streams = {"stdin": follower, "stdout": follower, "stderr": follower}
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"} | environment
    with subprocess.Popen(["bash", "-c", command], cwd=folder, env=env, **streams) as running:  # type: ignore[call-overload]
        os.close(follower)
        seen = b""
        while True:
            try:
                block = os.read(leader, 1 << 16)
            except OSError:  # how Linux says that the other end is closed
                break
            if not block:
                break
            seen += block
        running.wait()
    os.close(leader)
    assert running.returncode == 0, seen.decode()
    return seen.decode()


def test_colours_are_for_terminals_and_no_color_is_honoured(release: Path) -> None:
    assert "\x1b[" in on_a_terminal(f"{PPDM} inspect r.csv", release)
    plain = on_a_terminal(f"{PPDM} inspect r.csv", release, NO_COLOR="1")
    assert "\x1b[" not in plain, "neither colours nor bold letters"
    piped = on_a_terminal(f"{PPDM} inspect r.csv | cat; {PPDM} inspect r.csv --json", release)
    assert "\x1b[" not in piped, "a pipe is no terminal, and JSON is for programs"


def test_processes_are_piped_and_arrow_carries_its_sidecar(tmp_path: Path, ppdm: Run) -> None:
    people().write_csv(tmp_path / "data.csv")
    domains = "--domain age=0:120 --domain 'region=north|south|east' --keep group"
    columns = "--drop income --drop member --drop since"
    line = (
        f"cat data.csv | {PPDM} perturb - --from csv -o - --gamma 9 {domains} {columns}"
        f" | tee r.stream | {PPDM} inspect - --json"
    )
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["record"]["perturbed_gamma"] == 81 and said["records"] is None
    assert b"Published unchanged" in done.stderr, "the report of the first process is on stderr"

"""The demo runs, leaves nothing behind, and fails when a step does.

So `make demo` is evidence: its commands are run with a tool that fails, and with one that never refuses.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import ROOT

SAMPLES = ROOT / "sample_data"


def demo(folder: Path, tools: Path) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"TMPDIR": str(folder), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", str(SAMPLES / "demo.sh")],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def contents() -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in SAMPLES.iterdir()}


def test_the_demo_runs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = contents()
    done = demo(tmp_path, Path(sys.executable).parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
    assert contents() == before
    for code in (3, 4):
        assert f"(exit code {code})" in done.stdout
    for command in ("entropy", "perturb", "inspect", "generate", "estimate", "reconstruct", "train-tree"):
        assert f"\n$ ppdm {command} " in done.stdout
    assert done.stdout.rstrip().endswith("The temporary folder is removed.")


@pytest.mark.parametrize("code", [0, 1])
def test_the_demo_fails_when_a_step_does(tmp_path: Path, code: int) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ppdm").write_text(f"#!/bin/sh\nexit {code}\n", "utf-8")
    (tools / "ppdm").chmod(0o755)
    done = demo(tmp_path, tools)
    assert done.returncode == 1
    assert "The demo failed: exit code" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["tools"]


def test_the_sample_is_small_enough_to_keep() -> None:
    assert sum(len(data) for data in contents().values()) < 1 << 20

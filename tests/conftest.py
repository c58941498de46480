"""Shared parts of the tests: the real command line, and small tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def ppdm(tmp_path: Path) -> Run:
    """Drive the real command line in a folder of its own: `ppdm("inspect", "x.parquet", code=0)`."""

    def run(*args: object, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "ppdm_cli", *map(str, args)],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert done.returncode == code, (args, done.returncode, done.stderr.decode())
        return done

    return run

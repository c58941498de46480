"""The large packages that each command imports: imports take most of a short run."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

LARGE = ("altair", "numpy", "pandas", "polars", "pyarrow", "pyspark", "rich", "scipy", "sklearn", "sqlglot")
ALWAYS = {"numpy", "pyarrow", "rich"}
RUN = f"""
import sys
from ppdm_cli.__main__ import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
finally:
    print("imported", *(n for n in {LARGE!r} if n in sys.modules))
"""
COMMANDS = {
    "generate --function 2 --records 2000 --seed 7 -o data.parquet": set[str](),
    "plan data.parquet -o plan.toml": {"polars"},
    "perturb data.parquet -o release.parquet --gamma 9 --class group --seed 1": set[str](),
    "perturb data.parquet -o release.csv --gamma 9 --class group --seed 1": set[str](),
    "inspect release.parquet": set[str](),
    "estimate release.parquet": set[str](),
    "estimate release.parquet -o estimates.parquet": set[str](),
    "query release.parquet 'select mean(salary)'": {"sqlglot"},
    "reconstruct release.parquet -o usable.parquet": set[str](),
    "train-tree release.parquet -o tree.json": {"scipy"},
    "predict tree.json data.parquet -o predicted.parquet": set[str](),
    "attack release.parquet": {"scipy"},
    "entropy --gamma 9 --bins 10": set[str](),
}
HELP = ["--help", "--version"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("imports")


def imported(command: str, folder: Path) -> set[str]:
    """Run a command in a process of its own, and return which large packages it has imported."""
    process = subprocess.run(
        [sys.executable, "-c", RUN, *shlex.split(command)], cwd=folder, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return set(process.stdout.split("imported ")[-1].split()) if "imported " in process.stdout else set()


def test_each_command_imports_what_it_needs(folder: Path) -> None:
    found = {c: imported(c, folder) - ALWAYS for c in COMMANDS}
    assert found == COMMANDS


@pytest.mark.parametrize("command", HELP)
def test_help_imports_nothing_large(command: str, folder: Path) -> None:
    assert imported(command, folder) == set()

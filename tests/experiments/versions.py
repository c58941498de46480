"""Every command with the lowest and the newest versions that `pyproject.toml` allows, for each Python at hand.

The lowest are those with a wheel for that Python. Each pair has a virtual environment of its own, which holds the
package with its extras and nothing for tests. A Python is looked for as `python3.11` and so on, in PATH and in the folders of pyenv.

`python -m tests.experiments.versions` (or `make versions`)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("plot", "sklearn")
COMMANDS = """
ppdm --version
ppdm generate --function 2 --records 5000 --seed 1 -o p.csv
ppdm generate --function 2 --records 5000 --seed 2 -o q.parquet
ppdm plan p.csv -o p.toml --record-epsilon 4 --domain salary=0:200000
ppdm plan p.csv -o q.toml --record-epsilon 4 --explore page.html
ppdm entropy --record-epsilon 4 --records 5000 --attributes 9x10
ppdm perturb p.csv -o r.parquet --record-epsilon 4 --class group --class-in-budget --keep-order
ppdm perturb q.parquet -o r.arrow --gamma 9 --class group
ppdm inspect r.parquet --report statement.html
ppdm estimate r.parquet --attribute elevel --by group --plot e.svg
ppdm query r.parquet "select avg(age), count(*) from release where elevel = 2"
ppdm reconstruct r.parquet -o u.csv
ppdm attack r.parquet --truth p.csv --plot a.png
ppdm train-tree r.parquet -o t.json --trees 5 --test p.csv
ppdm predict t.json q.parquet -o l.csv
ppdm train-bayes r.arrow --learn-structure auto -o b.json
"""
SKLEARN = """
import polars as pl
from ppdm_cli.sklearn import PpdmTreeClassifier
frame = pl.read_csv("p.csv")
assert PpdmTreeClassifier().fit(frame.drop("group"), frame["group"]).score(frame.drop("group"), frame["group"]) > 0.8
"""


def pythons() -> Iterator[tuple[str, str]]:
    """Yield the versions of Python at hand, each with its program."""
    for version in PYTHONS:
        own = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
        if program := next(map(str, own), None) or shutil.which(f"python{version}"):
            yield version, program


def failure(program: str, which: str) -> str:
    """Return the first command that fails, and what it says; nothing where all pass."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "-m", "venv", f"{folder}/venv"], check=True)
        own = os.environ | {"PATH": f"{folder}/venv/bin:{os.environ['PATH']}", "VIRTUAL_ENV": f"{folder}/venv"}
        own.pop("PYTHONPATH", None)
        needed = ["-r", f"{ROOT}/pyproject.toml", *(f"--extra={extra}" for extra in EXTRAS)]
        commands = [
            ["python", "-m", "pip", "install", "--quiet", "uv"],
            ["uv", "pip", "install", "--quiet", "--only-binary", ":all:", f"--resolution={which}", *needed],
            ["uv", "pip", "install", "--quiet", "--no-deps", str(ROOT)],
            *(["sh", "-c", command] for command in COMMANDS.strip().splitlines()),
            ["python", "-W", "error::DeprecationWarning:ppdm_cli", "-c", SKLEARN],
        ]
        for command in commands:
            done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
            if done.returncode:
                return f"{command[-1].strip()[:80]}: {done.stderr.strip()[-200:]}"
    return ""


def main() -> None:
    print("| Python | versions | |\n|---|---|---|", flush=True)
    failed = False
    for version, program in pythons():
        for which in ("lowest-direct", "highest"):
            what = failure(program, which)
            failed |= bool(what)
            print(f"| {version} | {which} | {what or 'all commands pass'} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()

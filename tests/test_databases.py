"""The page on databases: what it does with PostgreSQL, against a server on a socket.

What it does with DuckDB runs with all pages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vocabulary import generated

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "dataframes.md"
OWNER = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def server() -> Iterator[str]:
    """Run a server in a folder of its own, of which the name is returned: it listens on no port."""
    control = shutil.which("pg_ctl")
    if control is None:
        pytest.skip(f"{PAGE.name} needs a server here: apt-get install postgresql; DuckDB always runs")
    with tempfile.TemporaryDirectory() as folder:
        if OWNER:
            shutil.chown(folder, "postgres")
        Path(folder).chmod(0o755)
        options = f"-k {folder} -c listen_addresses=''"
        at = [control, "-D", f"{folder}/data", "-s", "-w", "-l", f"{folder}/log"]
        for step in (["initdb", "-o", "-A trust -U postgres"], ["start", "-o", options]):
            subprocess.run([*at, *step], cwd="/", check=True, stdout=subprocess.DEVNULL, **OWNER)  # type: ignore[call-overload]
        try:
            yield folder
        finally:
            subprocess.run([*at, "stop", "-m", "immediate"], cwd="/", check=True, **OWNER)  # type: ignore[call-overload]


def test_postgresql_gives_and_takes_arrow(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    monkeypatch.setenv("PGHOST", server)
    monkeypatch.setenv("PGUSER", "postgres")
    with dbapi.connect("postgresql:///postgres", autocommit=True) as first, first.cursor() as cursor:
        cursor.execute("create database clinic")
    with dbapi.connect("postgresql:///clinic") as clinic, clinic.cursor() as cursor:
        cursor.adbc_ingest("people", generated(20_000).to_arrow())
        clinic.commit()
    (script,) = re.findall(r"<!-- file: ward.py -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, capture_output=True)
    assert done.stdout.decode() == "[('age', 20000.0), ('elevel', 20000.0), ('salary', 20000.0)]\n"

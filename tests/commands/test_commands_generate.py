"""`ppdm generate`: the tables of the papers, streamed, whole or not at all."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from ppdm_cli.tables import synthetic
from tests.vocabulary import Run, listing, read_table

COLUMNS = [*synthetic.NAMES, "group"]


def test_every_format_holds_the_same_table(tmp_path: Path, ppdm: Run) -> None:
    args = ("generate", "--function", "2", "--records", "3000", "--seed", "7")
    names = ("t.parquet", "t.arrow", "t.csv", "t.csv.gz")
    for name in names:
        done = ppdm(*args, "-o", name)
        assert done.stdout == done.stderr == b""
    tables = [read_table(tmp_path / name) for name in names]
    assert all(t.equals(tables[0]) for t in tables) and tables[0].column_names == COLUMNS
    assert set(listing(tmp_path)) == set(names), "a table has no sidecar"
    streamed = pa.ipc.open_stream(io.BytesIO(ppdm(*args, "-o", "-").stdout)).read_all()
    assert streamed.to_pydict() == tables[0].to_pydict()
    assert ppdm(*args, "-o", "-", "--to", "csv").stdout == (tmp_path / "t.csv").read_bytes()


def test_the_seed_decides_and_without_one_tables_differ(ppdm: Run) -> None:
    args = ("generate", "--function", "1", "--records", "50", "-o", "-", "--to", "csv")
    ones = [ppdm(*args, "--seed", "1").stdout for _ in range(2)]
    assert ones[0] == ones[1]
    assert len({ones[0], ppdm(*args, "--seed", "2").stdout, ppdm(*args).stdout, ppdm(*args).stdout}) == 4
    assert ppdm(*args[:4], "0", *args[5:]).stdout.count(b"\n") == 1


def test_a_larger_table_needs_no_more_memory(tmp_path: Path) -> None:
    """The peak of the whole process, at ten times the rows."""
    script = (
        "import resource, sys; sys.argv[0] = 'ppdm'\n"
        "from ppdm_cli.commands import cli\n"
        "cli.main(standalone_mode=False)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    peaks = []
    for records in (600_000, 4_000_000):
        args = ["generate", "--function", "1", "--records", str(records), "-o", f"{records}.parquet"]
        done = subprocess.run(
            [sys.executable, "-c", script, *args], cwd=tmp_path, capture_output=True, check=True
        )
        peaks.append(int(done.stderr))
    assert peaks[1] < 1.3 * peaks[0], peaks

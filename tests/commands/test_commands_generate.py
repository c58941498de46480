"""`ppdm generate`: the tables of the papers, streamed, whole or not at all."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import synthetic
from tests.conftest import Run, listing, read_table

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


def test_balanced_makes_both_classes_equally_many() -> None:
    for records in (1001, synthetic.BLOCK_ROWS + 1000):
        frame = pl.concat(pl.from_arrow(b) for b in synthetic.generate(3, records, 5, balanced=True))
        counts = dict(frame["group"].value_counts().iter_rows())
        assert frame.height == records and abs(counts["A"] - counts["B"]) <= 1


@pytest.mark.parametrize("function", synthetic.FUNCTIONS)
def test_the_class_is_what_the_function_says(function: int) -> None:
    frame = pl.concat(pl.from_arrow(b) for b in synthetic.generate(function, 20_000, 9))
    columns = {n: frame[n].to_numpy() for n in synthetic.NAMES}
    assert np.array_equal(synthetic.group_a(function, columns), frame["group"].to_numpy() == "A")
    salary, commission = columns["salary"], columns["commission"]
    assert np.array_equal(commission == 0, salary >= 75_000)
    assert salary.min() >= 20_000 and salary.max() <= 150_000
    assert set(columns["zipcode"]) == set(range(9)) and set(columns["elevel"]) == set(range(5))


def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "t.csv").write_text("mine")
    (tmp_path / "s.csv.ppdm.json").write_text("mine")
    before = listing(tmp_path)
    for args, code in (
        ("--function 6 --records 5 -o x.csv", 2),
        ("--function 1 --records -5 -o x.csv", 2),
        ("--function 1 --records 5 -o x.xls", 2),
        ("--function 1 --records 5 -o t.csv", 2),
        ("--function 1 --records 5 -o s.csv", 2),
        ("--function 1 --records 5 -o no/x.csv", 1),
        ("--records 5 -o x.csv", 2),
    ):
        assert ppdm("generate", *args.split(), code=code).stdout == b""
    assert listing(tmp_path) == before


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

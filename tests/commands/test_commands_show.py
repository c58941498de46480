"""Tables on terminals of any width, and what a report says of bands that were asked for in vain."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from ppdm_cli.commands import show
from tests.vocabulary import Run


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_no_cell_is_broken(width: int) -> None:
    stream = io.StringIO()
    out = Console(file=stream, width=width)
    rows = [["uniformity_cell_size", "continuous double", 1234.5], ["age", "discrete int64", None]]
    show.table(out, "figures", ["attribute", "what type", "a long title"], rows)
    lines = stream.getvalue().splitlines()
    assert lines[0].rstrip() == "figures" and out.width == width
    assert [line.split() for line in lines[-2:]] == [
        ["uniformity_cell_size", "continuous", "double", "1234"],
        ["age", "discrete", "int64", "-"],
    ]


def test_bands_for_none_are_said(tmp_path: Path, ppdm: Run) -> None:
    pl.DataFrame({"grade": [1, 2] * 50, "word": ["a", "b"] * 50}).write_csv(tmp_path / "t.csv")
    args = ("--gamma", "9", "--matrix", "band", "--bins", "auto", "--shuffle", "--seed", "1")
    said = ppdm("perturb", "t.csv", "-o", "r.csv", *args).stderr.decode()
    assert "No attribute got a band" in said and "--bins auto" not in said


def test_numbers_that_a_band_does_not_suit_are_named(tmp_path: Path, ppdm: Run) -> None:
    table = pl.DataFrame({"many": [i % 100 for i in range(2000)], "few": [i % 100 / 10 for i in range(2000)]})
    table.write_csv(tmp_path / "t.csv")
    domains = ("--attribute", "many:domain=0:99,bins=20", "--attribute", "few:domain=0:10,bins=4")
    args = ("--gamma", "9", "--matrix", "band", "--shuffle", "--seed", "1", *domains)
    said = ppdm("perturb", "t.csv", "-o", "r.csv", *args).stderr.decode()
    assert "Without a band: few." in said

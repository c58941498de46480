"""What a person sees on a terminal: progress that comes and goes, tables that fit, a clean line after ^C."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli.commands import SUBCOMMANDS
from ppdm_cli.networks import Network, Node
from ppdm_cli.networks.files import as_json
from tests.commands.screens import Seen, watch
from tests.vocabulary import listing, people

CALLS = [
    ["perturb", "p.parquet", "-o", "r.parquet", "--force", "--gamma", "9", "--class", "group", "--seed", "1"],
    ["inspect", "r.parquet"],
    ["estimate", "r.parquet", "--truth", "p.parquet"],
    ["reconstruct", "r.parquet", "-o", "usable.parquet", "--force"],
    ["train-tree", "r.parquet", "-o", "tree.json", "--force"],
    ["predict", "tree.json", "p.parquet", "-o", "predicted.parquet", "--force"],
    ["entropy", "r.parquet"],
    ["entropy", "--gamma", "2,5", "--bins", "5,10", "--records", "1000"],
    ["attack", "r.parquet", "--truth", "p.parquet"],
    ["train-tree", "p.parquet", "--class", "group", "-o", "own.json", "--force"],
    ["generate", "--function", "2", "--records", "2000", "-o", "made.parquet", "--force"],
    ["perturb", "p.parquet", "-o", "c.parquet", "--plan", "plan.toml", "--copies=2", "--seed=1", "--force"],
    ["estimate", "c.1.parquet", "c.2.parquet", "--by", "region", "--attribute", "age", "--simultaneous"],
    ["inspect", "p.csv", "--describe", "plan.toml", "-o", "p.csv.ppdm.json", "--force"],
    ["entropy", "--error", "0.05", "--records", "1000"],
    ["train-bayes", "r.parquet", "--network", "net.json", "-o", "learned.bif", "--force"],
    ["query", "r.parquet", "select count(), mean(age), share(region = 'north') as north group by group"],
    ["generate", "--network", "learned.bif", "--records", "2000", "-o", "drawn.parquet", "--force"],
    ["plan", "o.csv", "-o", "proposed.toml", "--force"],
    ["explain", "epsilon"],
]
SILENT = [["inspect", "r.parquet"], ["explain", "epsilon"], CALLS[7], CALLS[14]]
"""They make no pass over a table of records."""

PLAN = """gamma = 9
keep = ["region"]
[attributes]
age.domain = "0:120"
yearly_income_before_taxes.domain = "0:1000000"
member = {matrix = "binary", flips = [0.1, 0.2]}
since.domain = "1970-01-01:1980-01-01"
admitted_at.domain = "1970-01-01:1980-01-01"
"""


def table(rows: int = 3000) -> pl.DataFrame:
    """Long names, long labels, instants; a class that the others tell of."""
    made = people(rows).rename({"income": "yearly_income_before_taxes"})
    seconds = np.random.default_rng(5).integers(0, 10**8, rows) * 10**6
    return made.with_columns(
        pl.Series("admitted_at", seconds).cast(pl.Datetime("us")),
        group=pl.when(pl.col("age") < 50).then(pl.lit("young patients")).otherwise(pl.lit("old patients")),
    )


@pytest.fixture(scope="module")
def seen(folder: Path) -> dict[int, list[Seen]]:
    """All calls on terminals of three widths; the release is the same for all."""
    return {width: watch(CALLS, folder, width) for width in (80, 40, 300)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the calls read."""
    folder = tmp_path_factory.mktemp("terminals")
    table().write_parquet(folder / "p.parquet")
    table().write_csv(folder / "p.csv")
    table().write_csv(folder / "o.csv")
    (folder / "plan.toml").write_text(PLAN)
    nodes = [Node("region"), Node("member"), Node("group", ("region", "member"))]
    (folder / "net.json").write_text(as_json(Network.of(nodes)))
    return folder


def test_every_subcommand_is_driven() -> None:
    assert {c[0] for c in CALLS} == set(SUBCOMMANDS)


@pytest.mark.parametrize("width", [80, 40])
def test_progress_comes_on_one_line_and_goes(seen: dict[int, list[Seen]], width: int) -> None:
    for run in seen[width]:
        assert run.code == 0, run.lines
        assert bool(run.progress) != (run.call in SILENT), run.call
        shown = {line.split()[0] for line in run.progress}
        assert all(len(line) <= width - 2 for line in run.progress)  # room for ^C
        assert all(
            re.fullmatch(r"\w+( [━╸╺]+)?( \d+%| [\d.]+[kM]? rows)?(, .*)?", line) for line in run.progress
        )
        assert not any(line.split()[0] in shown or "━" in line for line in run.lines), run.call
        assert not run.screen.cursor.hidden and run.screen.cursor.x == 0


@pytest.mark.parametrize("width", [80, 40])
def test_every_cell_is_whole(seen: dict[int, list[Seen]], width: int) -> None:
    checked = 0
    for run, wide in zip(seen[width], seen[300], strict=True):
        shown = "".join(run.screen.display)  # a line that is too long goes on in the next
        for line in wide.lines:
            cells = re.split(" {2,}", line.strip())
            if len(cells) == 1 or line in wide.bold:
                continue  # a sentence, or the head of a table, whose titles may break
            for cell in cells:
                assert cell in shown or len(cell) > width, (run.call, cell)
                checked += 1
    assert checked > 300


def test_an_interrupt_leaves_a_clean_line(seen: dict[int, list[Seen]], folder: Path) -> None:
    outputs = listing(folder)
    calls = [c for c in CALLS if c not in SILENT]
    for run in watch(calls, folder, 40, interrupt=True):
        assert run.code == 130 and run.progress, (run.call, run.lines)
        assert run.lines == ["ppdm: interrupted: nothing was written"], run.call
        assert not run.screen.cursor.hidden and run.screen.cursor.x == 0
    assert seen and listing(folder) == outputs


def test_a_stream_shows_its_rows(tmp_path: Path) -> None:
    options = ["--gamma", "9", "--domain", "age=0:120", "--shuffle"]
    call = ["perturb", "-", "--from", "csv", "-o", "r.parquet", *options]
    ages = b"age\n" + b"30\n57\n" * 2000
    (run,) = watch([call], tmp_path, 40, stdin=ages)
    assert run.code == 0 and any("perturbing 4000 rows" in line for line in run.progress), run.progress


def test_what_is_quick_or_cannot_be_redrawn_shows_none(tmp_path: Path) -> None:
    table(100).write_parquet(tmp_path / "p.parquet")
    call = ["perturb", "p.parquet", "-o", "r.parquet", "--gamma", "9", "--rare", "publish", "--force"]
    (quick,) = watch([call], tmp_path, 80, patience=60)
    (dumb,) = watch([call], tmp_path, 80, TERM="dumb")
    for run in (quick, dumb):
        assert run.code == 0 and not run.progress and b"\x1b[?25" not in run.raw, run.raw
    assert b"\nNo meaningful protection" in dumb.raw and dumb.raw.startswith(b"Wrote 100 records")

"""The registry of formats: a format that a test adds in one file works in every command."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import ppdm_cli
from ppdm_cli.commands import SUBCOMMANDS, cli, options
from ppdm_cli.errors import UsageError
from ppdm_cli.tables import FORMATS, stream_format, suffixes
from tests.dummy_format import LINES
from tests.vocabulary import Run, people

PACKAGE = Path(ppdm_cli.__file__).parent
OWN = {"arrow.py", "csv.py", "csv_records.py", "parquet.py"}


@pytest.fixture
def lines(ppdm: Run, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """The command line with the format, which is no other test's."""
    table = people(1000).with_columns(pl.col("since").dt.year())  # the format has no dates
    table.write_ndjson(tmp_path / "o.jsonl")

    def run(*arguments: str, code: int = 0) -> str:
        done = ppdm(*arguments, code=code)
        return (done.stdout + done.stderr).decode()

    FORMATS.append(LINES)
    yield run
    FORMATS.remove(LINES)


def test_a_format_of_ones_own_works_in_every_command(lines: Callable[..., str], tmp_path: Path) -> None:
    made = ("--gamma", "9", "--class", "group", "--rare", "publish", "--keep-order")
    lines("perturb", "o.jsonl", "-o", "r.jsonl", *made)
    sidecar = json.loads((tmp_path / "r.jsonl.ppdm.json").read_text())
    assert sidecar["records"] == 1000 and len(sidecar["blake2b"]) == 64
    assert "1000 records" in lines("inspect", "r.jsonl")
    lines("estimate", "r.jsonl", "--attribute", "region", "--truth", "o.jsonl", "-o", "e.jsonl")
    assert {"estimate", "true"} <= set(pl.read_ndjson(tmp_path / "e.jsonl").columns)
    lines("reconstruct", "r.jsonl", "-o", "u.jsonl", "--method", "global")
    assert pl.read_ndjson(tmp_path / "u.jsonl").columns == people(1).columns
    lines("train-tree", "u.jsonl", "-o", "t.json")
    lines("predict", "t.json", "u.jsonl", "-o", "p.jsonl")
    assert "predicted" in " ".join(pl.read_ndjson(tmp_path / "p.jsonl").columns)
    lines("entropy", "r.jsonl", "-o", "h.jsonl")
    lines(
        "attack",
        "r.jsonl",
        "--with",
        "posterior",
        "--truth",
        "o.jsonl",
        "--recovered",
        "g.jsonl",
        "-o",
        "a.jsonl",
    )
    lines("generate", "--function", "1", "--records", "100", "--seed", "1", "-o", "f.jsonl")
    assert pl.read_ndjson(tmp_path / "f.jsonl").height == 100
    lines("perturb", "o.jsonl", "-o", "r.csv", *made)
    lines("perturb", "o.jsonl", "-o", "r2.jsonl", "--like", "r.jsonl", "--keep-order")
    lines("estimate", "r.jsonl", "r2.jsonl", "--attribute", "region")
    release = (tmp_path / "r.jsonl").read_bytes()
    (tmp_path / "r.jsonl").write_bytes(release.replace(b"north", b"south", 1))
    assert "was changed after it was published" in lines("estimate", "r.jsonl", code=3)
    assert ".jsonl" in lines("generate", "--function", "1", "--records", "9", "-o", "f.txt", code=2)


def test_a_format_may_come_from_a_module_of_its_own(tmp_path: Path) -> None:
    people(200).write_ndjson(tmp_path / "o.jsonl")
    command = [sys.executable, "-m", "tests.dummy_format", "train-tree", "o.jsonl", "--class", "group"]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([*command, "-o", "t.jsonl"], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert "threshold" in pl.read_ndjson(tmp_path / "t.jsonl").columns


def test_no_file_but_a_formats_own_spells_a_suffix() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name == "commands" or (path.parent.name == "tables" and path.name in OWN):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in (*suffixes(), "*.parquet", ".gz"):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not found


def test_help_names_the_formats_that_there_are() -> None:
    assert re.findall(r"\.[a-z.]*[a-z]", options.TABLES) == sorted(suffixes(), key=options.TABLES.index)
    assert tuple(sorted(f.name.lower() for f in FORMATS if f.open_stream)) == options.STREAMS
    for name in SUBCOMMANDS:
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        for option in command.params:
            told = re.findall(
                r"(?<!\w)\.(?:csv|parquet|arrow|feather)[.a-z]*\b", getattr(option, "help", "") or ""
            )
            assert set(told) <= set(suffixes()), (name, option.name)


def test_a_stream_is_of_a_format_that_can_be_one() -> None:
    assert stream_format(None) is stream_format("arrow")
    with pytest.raises(UsageError, match="arrow or csv"):
        stream_format("parquet")


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
def test_tabs_are_read_and_written(suffix: str, tmp_path: Path, ppdm: Run) -> None:
    odd = people(400).with_columns(region=pl.col("region") + "\t,\"x")
    odd.write_csv(tmp_path / "o.tsv", separator="\t")
    ppdm("perturb", "o.tsv", "-o", f"r{suffix}", "--gamma", "9", "--seed", "1", "--shuffle")
    ppdm("perturb", "o.tsv", "-o", "r.parquet", "--gamma", "9", "--seed", "1", "--shuffle")
    text = pl.read_csv(tmp_path / f"r{suffix}", separator="\t")
    assert text["region"].equals(pl.read_parquet(tmp_path / "r.parquet")["region"])
    found = [json.loads(ppdm("estimate", r, "--json").stdout)["rows"] for r in (f"r{suffix}", "r.parquet")]
    assert found[0] == found[1]
    ppdm("reconstruct", f"r{suffix}", "-o", f"u{suffix}", "--method", "global")
    assert pl.read_csv(tmp_path / f"u{suffix}", separator="\t").columns == odd.columns


def test_what_is_said_of_the_delimiter_holds_in_a_file_of_tabs_too(tmp_path: Path, ppdm: Run) -> None:
    people(400).select("age", "region").write_csv(tmp_path / "o.tsv")
    told = ppdm("perturb", "o.tsv", "-o", "r.csv", "--gamma", "9", "--shuffle", code=4).stderr.decode()
    assert "'age,region'" in told, "one column"
    ppdm("perturb", "o.tsv", "-o", "r.csv", "--gamma", "9", "--shuffle", "--delimiter", ",", "--force")
    ppdm("plan", "o.tsv", "-o", "plan.toml", "--gamma", "9")
    ppdm("perturb", "o.tsv", "-o", "s.csv", "--plan", "plan.toml")
    assert pl.read_csv(tmp_path / "s.csv").columns == ["age", "region"]


def test_a_folder_of_text_is_one_table(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "parts" / "more").mkdir(parents=True)
    whole = people(900)
    for i, name in enumerate(("a.csv", "b.csv", "more/c.csv")):
        whole[300 * i : 300 * (i + 1)].write_csv(tmp_path / "parts" / name)
    whole.write_csv(tmp_path / "whole.csv")
    for source in ("parts", "whole.csv"):
        ppdm("perturb", source, "-o", f"{source}.r.csv", "--gamma", "9", "--seed", "1", "--keep-order")
    assert (tmp_path / "parts.r.csv").read_bytes() == (tmp_path / "whole.csv.r.csv").read_bytes()
    plans = [ppdm("plan", s, "-o", f"{s}.toml", "--gamma", "9") for s in ("parts", "whole.csv")]
    assert plans[0].returncode == 0
    assert (tmp_path / "parts.toml").read_text() == (tmp_path / "whole.csv.toml").read_text()


def test_a_folder_that_is_no_table_is_refused(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "hive" / "sex=f").mkdir(parents=True)
    people(100).write_csv(tmp_path / "hive" / "sex=f" / "a.csv")
    told = ppdm("perturb", "hive", "-o", "r.csv", "--gamma", "9", code=1).stderr.decode()
    assert "key=value" in told and "Parquet" in told and "sex" not in told
    (tmp_path / "two").mkdir()
    people(100).write_csv(tmp_path / "two" / "a.csv")
    people(100).write_csv(tmp_path / "two" / "a.tsv", separator="\t")
    told = ppdm("perturb", "two", "-o", "r.csv", "--gamma", "9", code=2).stderr.decode()
    assert "different formats" in told

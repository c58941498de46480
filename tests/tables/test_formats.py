"""The registry of formats: a format that a test adds in one file works in every command."""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import estimate, perturb, plan, reconstruct
from ppdm_cli.commands import SUBCOMMANDS, cli, options
from ppdm_cli.tables import FORMATS, CsvOptions, open_table, stream_format, suffixes
from ppdm_cli.tables.formats import format_of
from tests.experiments.house import ROOT, modules
from tests.tables.dummy_format import LINES
from tests.vocabulary import Run, people, raises, read_table, released

OWN = {"arrow.py", "csv.py", "csv_records.py", "csv_writer.py", "delta.py", "parquet.py"}


@pytest.fixture
def lines(ppdm: Run, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """The command line with the format, which is no other test's."""
    table = people(1000).with_columns(pl.col("since").dt.year())  # the format has no dates
    table.write_ndjson(tmp_path / "o.jsonl")

    def run(line: str, code: int = 0) -> str:
        done = ppdm(*line.split(), code=code)
        return (done.stdout + done.stderr).decode()

    FORMATS.append(LINES)
    yield run
    FORMATS.remove(LINES)


def test_a_format_of_ones_own_works_in_every_command(lines: Callable[..., str], tmp_path: Path) -> None:
    made = "--gamma 9 --class group --rare publish --keep-order"
    lines(f"perturb o.jsonl -o r.jsonl {made}")
    sidecar = json.loads((tmp_path / "r.jsonl.ppdm.json").read_text())
    assert sidecar["records"] == 1000 and len(sidecar["blake2b"]) == 64
    lines("inspect r.jsonl")
    lines("estimate r.jsonl --attribute region --truth o.jsonl -o e.jsonl")
    assert {"estimate", "true"} <= set(pl.read_ndjson(tmp_path / "e.jsonl").columns)
    lines("reconstruct r.jsonl -o u.jsonl --method global")
    assert pl.read_ndjson(tmp_path / "u.jsonl").columns == people(1).columns
    lines("train-tree u.jsonl -o t.json")
    lines("predict t.json u.jsonl -o p.jsonl")
    assert "predicted" in " ".join(pl.read_ndjson(tmp_path / "p.jsonl").columns)
    lines("entropy r.jsonl -o h.jsonl")
    lines("attack r.jsonl --with posterior --truth o.jsonl --recovered g.jsonl -o a.jsonl")
    lines("generate --function 1 --records 100 --seed 1 -o f.jsonl")
    assert pl.read_ndjson(tmp_path / "f.jsonl").height == 100
    lines("perturb o.jsonl -o r2.jsonl --like r.jsonl --keep-order")
    lines("estimate r.jsonl r2.jsonl --attribute region")
    release = (tmp_path / "r.jsonl").read_bytes()
    (tmp_path / "r.jsonl").write_bytes(release.replace(b"north", b"south", 1))
    lines("estimate r.jsonl", code=3)
    assert ".jsonl" in lines("generate --function 1 --records 9 -o f.txt", code=2)


def test_no_file_but_a_formats_own_spells_a_suffix() -> None:
    found = []
    for path, tree in modules(ROOT).items():
        _, package, *name = path.split("/")
        if package == "commands" or (package == "tables" and name[0] in OWN):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in (*suffixes(), "*.parquet", ".gz"):
                found.append(f"{path}:{node.lineno}")
    assert not found


def test_help_names_the_formats_that_there_are() -> None:
    assert re.findall(r"\.[a-z.]*[a-z]", options.TABLES) == sorted(suffixes(), key=options.TABLES.index)
    assert tuple(sorted(f.name.lower() for f in FORMATS if f.open_stream)) == options.STREAMS
    for name in SUBCOMMANDS:
        for option in cli.get_command(None, name).params:  # type: ignore[arg-type, union-attr]
            words = getattr(option, "help", "") or ""
            named = re.findall(r"(?<!\w)\.(?:csv|parquet|arrow|feather)[.a-z]*\b", words)
            assert set(named) <= set(suffixes()), (name, option.name)


def test_a_stream_is_of_a_format_that_can_be_one() -> None:
    assert stream_format(None) is stream_format("arrow")
    with raises("unknown-stream"):
        stream_format("parquet")


@pytest.mark.parametrize("suffix", ["tsv", "tsv.gz"])
def test_tabs_are_read_and_written(suffix: str, tmp_path: Path) -> None:
    odd, out = people(400).with_columns(region=pl.col("region") + '\t,"x'), tmp_path / f"r.{suffix}"
    odd.write_csv(tmp_path / "o.tsv", separator="\t")
    for file in (out, tmp_path / "r.parquet"):
        released(tmp_path / "o.tsv", file, shuffle=True)
    text, plain = pl.read_csv(out, separator="\t"), pl.read_parquet(tmp_path / "r.parquet")
    assert text["region"].equals(plain["region"])
    assert estimate(out).frame.equals(estimate(tmp_path / "r.parquet").frame)
    reconstruct(out, tmp_path / f"u.{suffix}", method="global")
    assert pl.read_csv(tmp_path / f"u.{suffix}", separator="\t").columns == odd.columns


def test_what_is_said_of_the_delimiter_holds_in_a_file_of_tabs_too(tmp_path: Path) -> None:
    file = tmp_path / "o.tsv"
    people(400).select("age", "region").write_csv(file)
    assert open_table(file).schema.names == ["age,region"]
    assert open_table(file, csv=CsvOptions(delimiter=",")).schema.names == ["age", "region"]
    plan(file, tmp_path / "plan.toml", gamma=9)
    assert perturb(file, plan=tmp_path / "plan.toml").frame.columns == ["age", "region"]


def test_a_folder_of_text_is_one_table(tmp_path: Path) -> None:
    parts, whole = tmp_path / "parts", people(900)
    (parts / "more").mkdir(parents=True)
    for i, name in enumerate(("a.csv", "b.csv", "more/c.csv")):
        whole[300 * i : 300 * (i + 1)].write_csv(parts / name)
    whole.write_csv(tmp_path / "whole.csv")
    assert read_table(parts).equals(read_table(tmp_path / "whole.csv"))
    assert plan(parts, gamma=9).text == plan(tmp_path / "whole.csv", gamma=9).text


def test_a_folder_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hive" / "sex=f").mkdir(parents=True)
    people(100).write_csv(tmp_path / "hive" / "sex=f" / "a.csv")
    with raises("csv-with-keys") as keys:
        open_table(tmp_path / "hive")
    assert "sex" not in str(keys.value)
    (tmp_path / "two").mkdir()
    people(100).write_csv(tmp_path / "two" / "a.csv")
    people(100).write_csv(tmp_path / "two" / "a.tsv", separator="\t")
    with raises("several-formats"):
        open_table(tmp_path / "two")


def test_arrow_files_are_packed_and_streams_are_plain() -> None:
    batch = pa.record_batch({"a": np.zeros(10_000, np.int64)})
    for name, packed in (("t.arrow", True), ("", False)):
        file = io.BytesIO()
        with format_of(Path("t.arrow")).writer(file, batch.schema, name, None) as writer:
            writer.write(batch)
            writer.close(None)
        assert (len(file.getvalue()) < batch.nbytes) == packed

"""`ppdm predict`: two more columns, streamed, whole or not at all."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from tests.vocabulary import Run, listing, people, read_table


@pytest.fixture
def tree(tmp_path: Path, ppdm: Run) -> Path:
    frame = people(500).with_columns(zip=pl.int_range(500).cast(pl.String).str.zfill(5).str.slice(0, 4))
    label = pl.when(frame["age"] > 50).then(pl.lit("old")).otherwise(pl.lit("young"))
    frame = frame.with_columns(group=label)
    frame.write_parquet(tmp_path / "d.parquet")
    frame.write_csv(tmp_path / "d.csv")
    ppdm("train-tree", "d.parquet", "--class", "group", "-o", "t.json")
    return tmp_path / "t.json"


def test_every_format_and_streams(tree: Path, tmp_path: Path, ppdm: Run) -> None:
    for name in ("o.parquet", "o.csv", "o.arrow"):
        for data in ("d.parquet", "d.csv"):
            done = ppdm("predict", "t.json", data, "-o", name, "--force")
            assert done.stdout == b"" and b"100.00%" in done.stderr
            found = read_table(tmp_path / name)
            assert found.column_names[-3:] == ["zip", "predicted", "confidence"]
            assert found["predicted"].to_pylist() == found["group"].to_pylist()
            assert set(found["confidence"].to_pylist()) == {1.0}
    out = ppdm("predict", "t.json", "d.parquet", "-o", "-").stdout
    assert pa.ipc.open_stream(io.BytesIO(out)).read_all().num_rows == 500
    piped = ppdm(
        "predict", "t.json", "-", "--from", "csv", "-o", "-", "--to", "csv",
        stdin=b"age,region,income,member,since,zip\n20,,,,,\n,,,,,\n",
    ).stdout.decode()  # fmt: skip
    assert piped.splitlines()[1].endswith('young",1') or "young" in piped.splitlines()[1]
    assert len(piped.splitlines()) == 3


def test_json_and_unknown_labels(tree: Path, tmp_path: Path, ppdm: Run) -> None:
    pl.DataFrame({"age": [20, 80, 30], "group": ["young", "new", None]}).write_parquet(tmp_path / "n.parquet")
    found = json.loads(ppdm("predict", "t.json", "n.parquet", "-o", "o.csv", "--json").stdout)["test"]
    assert (found["records"], found["accuracy"], found["unknown_labels"], found["unlabelled"]) == (2, 0.5, 1, 1)
    pl.DataFrame({"age": [20]}).write_parquet(tmp_path / "m.parquet")
    assert json.loads(ppdm("predict", "t.json", "m.parquet", "-o", "q.csv", "--json").stdout)["test"] is None


def test_predict_shows_the_order_of_its_files_when_they_are_swapped(tree: Path, ppdm: Run) -> None:
    said = ppdm("predict", "d.csv", "t.json", "-o", "o.csv", code=2).stderr
    assert b"the tree comes first, and then the data. Use ppdm predict t.json d.csv -o o.csv" in said
    said = ppdm("predict", "--tree", "t.json", "d.csv", "-o", "o.csv", code=2).stderr
    assert b"Leave out --tree: ppdm predict TREE DATA" in said


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ("d.csv d.csv -o x.csv", 2),
        ("d.parquet d.csv -o x.csv", 2),
        ("broken.json d.csv -o x.csv", 3),
        ("t.json other.csv -o x.csv", 3),
        ("t.json text.parquet -o x.csv", 3),
        ("t.json clash.csv -o x.csv", 2),
    ],
)
def test_what_is_wrong_leaves_nothing(args: str, code: int, tree: Path, tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "broken.json").write_text(tree.read_text()[:-40])
    (tmp_path / "other.csv").write_text("x\n1\n")
    (tmp_path / "clash.csv").write_text("age,predicted\n1,a\n")
    pl.DataFrame({"age": ["a"]}).write_parquet(tmp_path / "text.parquet")
    before = listing(tmp_path)
    done = ppdm("predict", *args.split(), code=code)
    assert b"inside ppdm" not in done.stderr and done.stdout == b""
    assert listing(tmp_path) == before

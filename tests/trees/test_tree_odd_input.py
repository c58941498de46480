"""Odd data, odd trees and hostile names through the whole command line: an answer or one line."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import train_tree
from ppdm_cli.errors import DataError
from ppdm_cli.trees import load_tree
from tests.conftest import Run, listing

OK = "x,k,d,y\n" + "".join(
    f"{i},{'uvw'[i % 3]},2020-01-0{1 + i % 9},{'ab'[(i > 20) ^ (i % 3 == 0)]}\n" for i in range(60)
)
ESCAPES = ("\x1b[31mred", "\u202eright", "\u2066iso", "\x9b31m", "\u2028line", "new\nline", "a\tb", 'q"', "e")


@pytest.fixture
def ok(tmp_path: Path) -> Path:
    (tmp_path / "ok.csv").write_text(OK)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 1, "is empty"),
        ("x,y\n", 1, "no records"),
        ("x,y\n1,\n2,\n", 1, "the class 'y' is null in row 1"),
        ("x,y\n1,a\n2,\n", 1, "the class 'y' is null in row 2"),
        ("x,y\n1,1.5\n2,2.5\n", 2, "not a class"),
        ("x,y\n" + "".join(f"1,{i}\n" for i in range(5000)), 2, "not a class"),
        ("x,y\n1,a\n2,a\n", 0, ": a (2.0)"),
        ("y\na\nb\nb\n", 0, ": b (3.0/1.0)"),
        ("x,y\n" + "".join(f"{i % 7},{i}\n" for i in range(300)), 0, "300 labels"),
        ("\ufeffx,y\r\n1,a\r\n2,b\r\n", 0, ": a (2.0/1.0)"),
    ],
)
def test_odd_training_data(text: str, code: int, said: str, tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "in.csv").write_bytes(text.encode())
    done = ppdm("train-tree", "in.csv", "--class", "y", "-o", "t.json", code=code)
    assert said in (done.stderr if code else done.stdout).decode() and b"inside ppdm" not in done.stderr


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("x,k,d,y\n1,u,2020-01-01,5\n", 0, "does not know: wrong"),
        ("x,k,d,y\n1,new,2020-01-01,a\n", 0, "Accuracy on 1 test record:"),
        ("x,k,d,y\n", 0, "No test records have a class"),
        ("x,k,d\n1,u,2020-01-01\n", 0, "training records"),
        ("x,k,d,y\nfoo,u,2020-01-01,a\n", 1, "the column 'x' is not of type int64"),
        ("k,d,y\nu,2020-01-01,a\n", 3, "no column 'x'"),
    ],
)
def test_odd_test_data(text: str, code: int, said: str, ok: Path, ppdm: Run) -> None:
    """A CSV to test with has the types of the training's, so that both commands say the same."""
    (ok / "odd.csv").write_text(text)
    done = ppdm("train-tree", "ok.csv", "--class", "y", "-o", "t.json", "--test", "odd.csv", code=code)
    assert said in (done.stderr if code else done.stdout).decode()
    ppdm("train-tree", "ok.csv", "--class", "y", "-o", "t.json", "--force")
    done = ppdm("predict", "t.json", "odd.csv", "-o", "p.csv", code=code)
    assert b"inside ppdm" not in done.stderr


def test_calls_that_cannot_be_meant(ok: Path, ppdm: Run) -> None:
    (ok / "none").mkdir()
    before = listing(ok)
    for args, code, said in (
        ("train-tree ok.csv --class y -o -", 2, "not to standard output"),
        ("train-tree - --class y -o t.json --test -", 2, "read once"),
        ("train-tree - --class y -o t.json --predicted p.csv", 2, "read once"),
        ("train-tree none --class y -o t.json", 1, "has no CSV"),
        ("predict ok.csv ok.csv -o p.csv", 2, "'ok.csv' does not end in .json"),
        ("predict . ok.csv -o p.csv", 2, "does not end in .json"),
    ):
        message = ppdm(*args.split(), code=code).stderr.decode()
        assert said in message and "inside ppdm" not in message and listing(ok) == before, message


def nodes(tree: dict[str, Any]) -> Any:
    return tree["nodes"]


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "child out of range": lambda t: nodes(t)[0].update(child=10**9),
    "a cycle": lambda t: [n for n in nodes(t) if "test" in n][-1].update(child=1),
    "the root as a child": lambda t: nodes(t)[0].update(child=0),
    "no number": lambda t: nodes(t)[0].update(cut=float("nan")),
    "no finite number": lambda t: nodes(t)[0].update(cut=float("inf")),
    "a negative count": lambda t: nodes(t)[0]["counts"].__setitem__(0, -1),
    "counts that overflow": lambda t: [n.update(counts=[1e308, 1e308]) for n in nodes(t)],
    "an unknown label": lambda t: nodes(t)[0].update(label="zz"),
    "an unknown type": lambda t: t["features"][0].update(dtype="blob"),
    "a number that is text": lambda t: t["features"][0].update(dtype="string"),
    "labels twice": lambda t: t["class"].update(labels=["a", "a"]),
    "nodes left out": lambda t: nodes(t).append({"label": "a", "counts": [1, 1]}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_trees_edited_by_hand(edit: str, ok: Path, ppdm: Run) -> None:
    ppdm(
        "train-tree", "ok.csv", "--class", "y", "-o", "t.json", "--no-mdl", "--no-prune", "--criterion", "gain"
    )
    tree = copy.deepcopy(json.loads((ok / "t.json").read_text()))
    EDITS[edit](tree)
    (ok / "e.json").write_text(json.dumps(tree))
    done = ppdm("predict", "e.json", "ok.csv", "-o", "p.csv", code=3)
    assert b"not a valid tree" in done.stderr and done.stderr.count(b"\n") == 1 and not (ok / "p.csv").exists()


def test_a_very_deep_tree(ok: Path, ppdm: Run) -> None:
    ppdm("train-tree", "ok.csv", "--class", "y", "-o", "t.json")
    tree = json.loads((ok / "t.json").read_text())
    inner = [
        {"label": "a", "counts": [2, 1], "test": "x", "cut": i + 0.5, "child": 2 * i + 1} for i in range(30_000)
    ]
    leaf = {"label": "b", "counts": [1, 2]}
    tree["nodes"] = [inner[0], *(n for i in inner[1:] for n in (leaf, i)), leaf, leaf]
    (ok / "deep.json").write_text(json.dumps(tree))
    ppdm("predict", "deep.json", "ok.csv", "-o", "p.csv")


def test_names_that_would_drive_a_terminal(tmp_path: Path, ppdm: Run) -> None:
    """In the report, every export and the stored tree; few labels, so that the confusion matrix is shown."""
    rng = np.random.default_rng(1)
    data = {name: [ESCAPES[i] for i in rng.integers(0, len(ESCAPES), 90)] for name in ESCAPES}
    frame = pl.DataFrame(data).with_columns(
        pl.Series("\x1b]0;c\x07", [ESCAPES[i] for i in rng.integers(0, 9, 90)])
    )
    frame.write_csv(tmp_path / "h.csv")
    exports = [a for s in ("txt", "sql", "pmml") for a in ("--export", f"t.{s}")]
    grown = ("--no-prune", "--no-mdl", "--min-records", "1", *exports)
    said = ppdm("train-tree", "h.csv", "--header", "--class", frame.columns[-1], "-o", "t.json", *grown)
    texts = [said.stdout.decode(), *((tmp_path / f"t.{s}").read_text() for s in ("txt", "sql", "pmml", "json"))]
    assert "Predicted" in texts[0] and "Importance" in texts[0]
    for text in texts:
        assert all(c.isprintable() or c in "\n\t\u2026" for c in text)
    assert set(load_tree(tmp_path / "t.json").labels) <= set(ESCAPES)
    again = ppdm("predict", "t.json", "h.csv", "--header", "-o", "p.csv")
    assert all(c.isprintable() or c == "\n" for c in again.stderr.decode())


def test_weights_as_an_array_and_too_heavy_ones() -> None:
    data = pl.DataFrame({"x": [1, 2, 3, 4], "y": ["a", "a", "b", "b"]})
    assert train_tree(data, "y", weights=np.array([1, 1, 1, 9.0])).tree.counts[0].tolist() == [2, 10]
    for wrong in ([1e308] * 4, [np.nan] * 4, [-1.0, 1, 1, 1], [0.0] * 4, [1.0] * 3):
        with pytest.raises(DataError, match="weights"):
            train_tree(data, "y", weights=np.array(wrong))


def test_a_tree_says_nothing_to_standard_error() -> None:
    """No warning of a library about odd counts."""
    frame = "pl.DataFrame({'x': [1], 'y': [1]})"
    code = f"from ppdm_cli import train_tree; import polars as pl; train_tree({frame}, 'y')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert done.returncode == 0 and done.stderr == b""

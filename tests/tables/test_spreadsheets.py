"""Text that a spreadsheet would compute reaches no CSV of a miner unasked, and a release reads back exactly."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli.tables import CSV, FORMULAS
from tests.vocabulary import Run

EVIL = ["=cmd|' /c calc'!A1", "@SUM(1)", "+cmd|'x'!A1", "-2+3+cmd|'x'!A1", "\t=1+1", "\r=1+1", "\uff1d1+1"]
HONEST = ["-", "--", "=", "@", "+49 (171) 123-45", "-5", "-1e5", "+3.5", "a=b", "x@y", "1-2", "'=1", " ", "+/-"]


def released(ppdm: Run, folder: Path, labels: list[str]) -> None:
    """Publish a release with these labels as release.csv."""
    frame = pl.DataFrame({"x": labels * 60, "y": ["yes", "no", "no"] * (20 * len(labels))})
    frame.write_parquet(folder / "in.parquet")
    ppdm("perturb", "in.parquet", "-o", "release.csv", "--gamma", 9, "--class", "y", "--shuffle")


@pytest.mark.parametrize("label", EVIL)
def test_a_label_that_a_spreadsheet_would_compute_is_refused_or_written_by_choice(
    label: str, tmp_path: Path, ppdm: Run
) -> None:
    released(ppdm, tmp_path, [label, "plain", "-"])
    for number, command in enumerate((["estimate", "release.csv"], ["reconstruct", "release.csv"])):
        out = f"{number}.csv"
        said = ppdm(*command, "-o", out, code=4).stderr.decode()
        assert "a spreadsheet would compute" in said and "--formulas" in said
        assert label not in said and not (tmp_path / out).exists()
        ppdm(*command, "-o", f"{number}.parquet")
        ppdm(*command, "-o", out, "--formulas", "keep")
        ppdm(*command, "-o", f"text{number}.csv", "--formulas", "text")
        column = "x" if number else "label"
        kept, text = (pl.read_csv(tmp_path / f, infer_schema=False)[column] for f in (out, f"text{number}.csv"))
        assert {label, "plain", "-"} <= set(kept) and {"'" + label, "plain", "-"} <= set(text)
        assert label not in set(text)
    ppdm("train-tree", "1.csv", "--class", "y", "-o", "tree.json")
    ppdm("predict", "tree.json", "1.csv", "-o", "p.csv", code=4)
    ppdm("predict", "tree.json", "1.csv", "-o", "-", "--to", "csv", code=4)
    ppdm("predict", "tree.json", "1.csv", "-o", "p.csv", "--formulas", "text")
    assert FORMULAS.get() == "keep"


def test_honest_text_is_written_as_it_is(tmp_path: Path, ppdm: Run) -> None:
    released(ppdm, tmp_path, HONEST)
    for name in ("estimate", "reconstruct"):
        ppdm(name, "release.csv", "-o", "out.csv", "--force")
    assert set(pl.read_csv(tmp_path / "out.csv", infer_schema=False)["x"]) <= set(HONEST)


def test_a_release_as_csv_reads_back_to_the_letter(tmp_path: Path, ppdm: Run) -> None:
    """The owner's labels are the owner's: nothing is refused, nothing is changed."""
    labels = [e for e in EVIL if e[0] != "\r"] + HONEST
    released(ppdm, tmp_path, labels)
    ppdm("estimate", "release.csv", "-o", "out.parquet")
    found = pl.read_parquet(tmp_path / "out.parquet").filter(pl.col("attribute") == "x")
    assert set(found["label"]) == set(labels)


def test_titles_and_names_of_columns_are_text_too(tmp_path: Path, ppdm: Run) -> None:
    released(ppdm, tmp_path, ["a", "b", "c"])
    asked = ("query", "release.csv", "select count() as \"=cmd|' /c calc'!A1\"", "-o", "q.csv")
    assert b"cmd" not in ppdm(*asked, code=4).stderr
    ppdm(*asked, "--formulas", "text")
    assert "'=cmd" in (tmp_path / "q.csv").read_text() and "\n=cmd" not in (tmp_path / "q.csv").read_text()
    frame = pl.DataFrame({"=A1+B1": ["a", "b"] * 60, "y": ["yes", "no", "no"] * 40})
    frame.write_parquet(tmp_path / "in.parquet")
    ppdm("perturb", "in.parquet", "-o", "named.csv", "--gamma", 9, "--shuffle")
    ppdm("reconstruct", "named.csv", "-o", "back.csv", code=4)
    ppdm("reconstruct", "named.csv", "-o", "back.csv", "--formulas", "text")
    assert (tmp_path / "back.csv").read_text().startswith("'=A1+B1,y\n")


@pytest.mark.parametrize("formulas", ["refuse", "text"])
def test_a_label_that_no_row_has_is_neither_refused_nor_written(formulas: Literal["refuse", "text"]) -> None:
    """A dictionary may list values of other rows, or of nobody: a refusal would reveal one."""
    codes, labels = pa.array([0, 1, None], pa.int8()), pa.array(["a", "b", EVIL[0]])
    batch = pa.record_batch({"x": pa.DictionaryArray.from_arrays(codes, labels), "y": [1, 2, 3]})
    token, file = FORMULAS.set(formulas), BytesIO()
    try:
        with CSV.writer(file, batch.schema, "", None) as writer:
            writer.write(batch)
            writer.close(None)
    finally:
        FORMULAS.reset(token)
    assert file.getvalue() == b"x,y\na,1\nb,2\n,3\n"

"""A first line that is a record is never published as the names of columns, and no message quotes it."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppdm_cli import perturb
from ppdm_cli.errors import DataError, RefusedError
from ppdm_cli.planning.csv_reading import sniff
from ppdm_cli.tables import CsvOptions, csv_records, open_table
from ppdm_cli.tables.csv_records import looks_like_data
from tests.made_exports import made_export
from tests.vocabulary import Run, loaded, read_table

ROOT = Path(__file__).parents[2]
DATA = [
    "56", "-1.5", "+3", "1e5", "2.5E-3", "80,4", "1.234,56", "12 %", "$5", "2020-01-01",
    "2020-01-01T10:00:00Z", "1/2/2020", "10:30", "18-25", " 7 ", "true", "FALSE", "NA",
]  # fmt: skip
NAMES = [
    "age",
    "2019Q1",
    "x1",
    "1st",
    "e5",
    "größe",
    "col_1",
    "1_000",
    "#",
    "a b",
    "income (2019)",
    "T",
    "NAME",
]


def test_what_looks_like_data() -> None:
    assert [c for c in DATA if not looks_like_data(c, ("", "NA"))] == []
    assert [c for c in NAMES if looks_like_data(c, ("", "NA"))] == []


@pytest.mark.parametrize("cell", DATA)
def test_a_first_line_like_a_record_is_refused_unquoted(cell: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f'CANARY Alice,"{cell}",x\nBob,1,y\n')
    with pytest.raises(RefusedError, match="looks like a record: column 2 is ") as refused:
        read_table([tmp_path / "t.csv"], nulls=("", "NA"))
    assert "CANARY" not in str(refused.value) and f"'{cell}'" not in str(refused.value)
    assert read_table([tmp_path / "t.csv"], nulls=("", "NA"), header=True).column_names == [
        "CANARY Alice",
        cell,
        "x",
    ]


def test_without_a_header_columns_are_numbered_and_the_first_line_is_a_record(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Alice,56,0\nBob,31,1\n")
    (tmp_path / "b.csv").write_text("Carol,20,1\n")
    table = read_table([tmp_path / "a.csv", tmp_path / "b.csv"], header=False)
    assert table.column_names == ["column_1", "column_2", "column_3"]
    assert table["column_1"].to_pylist() == ["Alice", "Bob", "Carol"] and table["column_2"].to_pylist() == [
        56,
        31,
        20,
    ]
    options = CsvOptions(header=False)
    stream = io.BytesIO(b"1,a\n2,b\n")
    streamed = loaded(open_table("-", csv=options, standard_format="csv", standard_input=stream))
    assert streamed.to_pydict() == {"column_1": [1, 2], "column_2": ["a", "b"]}
    (tmp_path / "ragged.csv").write_text("1,2\n3,4\n5\n")
    with pytest.raises(DataError, match=r"row 3 of .*: it has 1 cells where the first row has 2"):
        read_table([tmp_path / "ragged.csv"], header=False)


@pytest.mark.parametrize("text", ["CANARY,,x\n1,2,3\n", "CANARY,y,CANARY\na,b,c\n"])
def test_other_first_lines_that_name_nothing_lead_to_the_same_way_out(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match="header=False") as wrong:
        read_table([tmp_path / "t.csv"])
    assert "CANARY" not in str(wrong.value)
    assert read_table([tmp_path / "t.csv"], header=False).num_rows == 2


def test_a_column_without_a_name_is_one_line_with_a_step_that_works(tmp_path: Path, ppdm: Run) -> None:
    frame = pd.DataFrame({"a": [1, 2] * 40, "b": [2, 1] * 40})
    frame.to_csv(tmp_path / "index.csv")
    frame.to_csv(tmp_path / "without.csv", index=False)
    pq.write_table(pa.table({"a": [1, 2] * 40, "": [2, 1] * 40}), tmp_path / "d.parquet")
    for file, place in (("index.csv", 1), ("d.parquet", 2)):
        for command in (("plan", file, "-o", "p.toml"), ("perturb", file, "-o", "o.csv", "--gamma", "9")):
            said = ppdm(*command, code=1).stderr.decode()
            assert f"column {place} of '{file}' has no name" in said and said.count("\n") == 1
    assert "pandas: without its index" in ppdm("plan", "index.csv", "-o", "p.toml", code=1).stderr.decode()
    ppdm("perturb", "without.csv", "-o", "o.csv", "--gamma", "9", "--shuffle")


def test_names_that_are_known_are_names(tmp_path: Path, ppdm: Run) -> None:
    """Years as columns: what a sidecar, a tree or --type names needs no word."""
    frame = pl.DataFrame({"2019": [1, 2, 3] * 100, "2020": [3, 2, 1] * 100, "class": ["a", "b", "b"] * 100})
    frame.write_csv(tmp_path / "years.csv")
    asked = ["--gamma", 9, "--class", "class", "--keep-order"]
    said = ppdm("perturb", "years.csv", "-o", "r.csv", *asked, code=4).stderr.decode()
    assert said.count("\n") == 1 and "--no-header" in said and "--header" in said and "2019" not in said
    ppdm("perturb", "years.csv", "-o", "r.csv", "--header", *asked)
    ppdm("perturb", "years.csv", "-o", "s.csv", "--type", "2019=int64", "--type", "2020=int64", *asked)
    ppdm("estimate", "r.csv", "--truth", "years.csv")
    ppdm("reconstruct", "r.csv", "-o", "back.csv")
    ppdm("train-tree", "back.csv", "--class", "class", "-o", "tree.json", "--test", "years.csv")
    ppdm("predict", "tree.json", "years.csv", "-o", "p.csv")
    ppdm("perturb", "years.csv", "-o", "next.csv", "--like", "r.csv", "--keep-order")


def test_a_file_without_header_goes_all_the_way(tmp_path: Path, ppdm: Run) -> None:
    rows = "".join(f"CANARY {i % 3},{20 + i % 50},{i % 2}\n" for i in range(600))
    (tmp_path / "nohdr.csv").write_text(rows)
    asked = ["--gamma", 9, "--rare", "publish", "--shuffle", "--class", "column_3"]
    said = ppdm(
        "perturb", "nohdr.csv", "-o", "r.csv", "--gamma", 9, "--rare", "publish", code=4
    ).stderr.decode()
    assert "CANARY" not in said and "56" not in said and not (tmp_path / "r.csv").exists()
    ppdm("perturb", "nohdr.csv", "-o", "r.csv", "--no-header", *asked)
    assert (tmp_path / "r.csv").read_text().splitlines()[0] == "column_1,column_2,column_3"
    assert pl.read_csv(tmp_path / "r.csv").height == 600
    ppdm("estimate", "r.csv", "--truth", "nohdr.csv", "--no-header")
    ppdm("attack", "r.csv", "--truth", "nohdr.csv", "--no-header", code=3)  # shuffled: nothing pairs
    ppdm("train-tree", "nohdr.csv", "--no-header", "--class", "column_3", "-o", "tree.json")
    ppdm("predict", "tree.json", "nohdr.csv", "--no-header", "-o", "p.csv")
    release = perturb(
        tmp_path / "nohdr.csv", gamma=9, shuffle=True, rare="publish", csv=CsvOptions(header=False)
    )
    assert release.frame.columns == ["column_1", "column_2", "column_3"]


# -- words: a first line that the rows below are like

SEX, ILL = ("male", "female"), ("diabetes", "none", "asthma")


def words(rows: int, first: str, like: str = "{i} Person,{sex},{ill}") -> str:
    """Return a CSV of a first line and rows below it."""
    return f"{first}\n" + "".join(
        like.format(
            i=chr(97 + i % 26) * 3,
            n=20 + i,
            sex=SEX[i % 2],
            ill=ILL[i % 3],
            cat="cat" * (i % 2),
            dog="dog" * (i % 3 == 0),
        )
        + "\n"
        for i in range(rows)
    )


RECORDS = {
    "names and categories": words(512, "CANARY Alice,male,diabetes"),
    "in quotes": words(60, '"CANARY Alice","male","diabetes"'),
    "in capitals": words(60, "CANARY Alice,MALE,Diabetes"),
    "blanks around": words(60, "CANARY Alice, male , diabetes"),
    "few rows": "CANARY Alice,male\nBob,female\nCarol,male\nDave,female\n",
    "one column": "male\nfemale\nmale\nfemale\n",
    "two categories, always together": words(40, "male,diabetes", "{sex},{ill}"),
    "codes": words(99, "CANARY7,male", "CANARY{n},{sex}"),
    "codes of one form": words(50, "CANARY.A0123", "CANARZ.B10{n}"),
    "an odd cell among numbers": words(90, "CANARY,male,none,unbekannt", "{i}{n},{sex},{ill},{n}"),
    "line ends of Windows": words(60, "CANARY Alice,male,none").replace("\n", "\r\n"),
}  # fmt: skip
HEADERS = {
    "words of their own": words(512, "name,sex,illness"),
    "a name that is a value once": words(9999, "name,sex,illness") + "zoe Person,sex,none\n",
    "a name that is a value of another column": words(60, "male,ill,sex"),
    "boxes that are ticked": words(60, "cat,dog,sex", "{cat},{dog},{sex}"),
    "a name that is a value, beside numbers": words(60, "age,asthma", "{n},{ill}"),
    "one of several": words(90, "male,sex,illness", "{sex},{sex},{ill}"),
    "a name like a code": words(60, "ICD10,sex", "I{n},{sex}"),
    "one row": "male\nmale\n",
    "no rows": "male,none\n",
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_a_first_line_like_the_rows_below_is_refused_unquoted(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(RECORDS[name], newline="")
    with pytest.raises(RefusedError, match=r"a record: column [123] is like the rows") as refused:
        read_table([tmp_path / "t.csv"])
    assert "CANARY" not in str(refused.value) and "male" not in str(refused.value)
    assert "header=False" in str(refused.value) and "header=True" in str(refused.value)
    rows = RECORDS[name].count("\n")
    assert read_table([tmp_path / "t.csv"], header=False).num_rows == rows
    assert read_table([tmp_path / "t.csv"], header=True).num_rows == rows - 1
    assert not sniff([tmp_path / "t.csv"]).header
    assert sniff([tmp_path / "t.csv"], CsvOptions(header=True)).header


@pytest.mark.parametrize("name", HEADERS)
def test_names_of_columns_are_not_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADERS[name])
    assert read_table([tmp_path / "t.csv"]).num_rows == HEADERS[name].count("\n") - 1
    assert sniff([tmp_path / "t.csv"]).header


def test_a_name_that_is_declared_is_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(RECORDS["names and categories"])
    table = read_table([tmp_path / "t.csv"], types={"male": "string"})
    assert table.column_names[1] == "male"
    (tmp_path / "u.csv").write_text("2019\n5\n6\n")
    assert sniff([tmp_path / "u.csv"], CsvOptions(types={"2019": "int64"})).header


@pytest.mark.parametrize("size", [64, 1 << 23])
def test_how_a_file_is_cut_does_not_change_what_its_first_line_is(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "BLOCK", size)
    for text in (RECORDS["names and categories"], RECORDS["few rows"]):
        with pytest.raises(RefusedError, match="is like the rows below"):
            open_table("-", standard_format="csv", standard_input=io.BytesIO(text.encode()))
    stream = io.BytesIO(HEADERS["words of their own"].encode())
    assert loaded(open_table("-", standard_format="csv", standard_input=stream)).num_rows == 512


def test_every_command_asks_whether_a_line_of_words_is_a_record(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "t.csv").write_text(words(512, "CANARY Alice,male,diabetes"))
    for call in (
        ["perturb", "t.csv", "-o", "r.csv", "--gamma", 9, "--rare", "merge"],
        ["train-tree", "t.csv", "--class", "diabetes", "-o", "tree.json"],
    ):
        said = ppdm(*call, code=4).stderr.decode()
        assert "CANARY" not in said and "--no-header" in said
    said = ppdm("plan", "t.csv", "-o", "p.toml").stderr.decode()
    assert "The first line looks like a record, so columns are numbered." in said
    assert "CANARY" not in said + (tmp_path / "p.toml").read_text() and "column_2" in said


def test_made_and_sample_tables_have_headers(tmp_path: Path) -> None:
    for seed in range(60):
        made = made_export(seed)
        (tmp_path / "t.csv").write_bytes(made.data)
        assert sniff([tmp_path / "t.csv"]).header, seed
        lines = made.data.decode(made.encoding).splitlines(keepends=True)
        (tmp_path / "t.csv").write_text("".join(lines[1:]), "utf-8", newline="")
        kinds = {n.split()[-1] for n in made.types}
        assert not sniff([tmp_path / "t.csv"]).header or kinds <= {"words", "prose"}, (seed, kinds)
    assert sniff([ROOT / "sample_data" / "breast_cancer.csv"]).header

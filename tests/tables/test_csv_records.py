"""A first line that is a record is never published as the names of columns, and no message quotes it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import estimate, perturb, plan, predict, reconstruct, train_tree
from ppdm_cli.errors import DataError, RefusedError
from ppdm_cli.planning.csv_reading import sniff
from ppdm_cli.tables import CsvOptions, csv_records, open_table
from tests.planning.made_exports import made_export
from tests.vocabulary import loaded, raises, read_table

ROOT = Path(__file__).parents[2]
DATA = [
    "56", "-1.5", "+3", "1e5", "2.5E-3", "80,4", "1.234,56", "12 %", "$5", "2020-01-01",
    "2020-01-01T10:00:00Z", "1/2/2020", "10:30", "18-25", " 7 ", "true", "FALSE", "NA",
]  # fmt: skip
NAMES = [
    "age", "2019Q1", "x1", "1st", "e5", "größe", "col_1", "1_000", "#", "a b", "income (2019)", "T", "NAME",
]  # fmt: skip
SEX, ILL = ("male", "female"), ("diabetes", "none", "asthma")


def words(rows: int, first: str, like: str = "{i} Person,{sex},{ill}") -> str:
    """Return a CSV of a first line and rows below it."""
    lines = [first]
    for i in range(rows):
        ticked = {"cat": "cat" * (i % 2), "dog": "dog" * (i % 3 == 0)}
        lines.append(like.format(i=chr(97 + i % 26) * 3, n=20 + i, sex=SEX[i % 2], ill=ILL[i % 3], **ticked))
    return "\n".join(lines) + "\n"


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
} | {f"the cell {c}": f'CANARY Alice,"{c}",x\nBob,"{c}",y\n' for c in DATA}
HEADERS = {
    "words of their own": words(512, "name,sex,illness"),
    "a name that is a value once": words(9999, "name,sex,illness") + "zoe Person,sex,none\n",
    "a name that is a value of another column": words(60, "male,ill,sex"),
    "boxes that are ticked": words(60, "cat,dog,sex", "{cat},{dog},{sex}"),
    "a name that is a value, beside numbers": words(60, "age,asthma", "{n},{ill}"),
    "one of several": words(90, "male,sex,illness", "{sex},{sex},{ill}"),
    "a name like a code": words(60, "ICD10,sex", "I{n},{sex}"),
    "names of all sorts": words(9, ",".join(NAMES), ",".join(["{n}"] * len(NAMES))),
    "one row": "male\nmale\n",
    "no rows": "male,none\n",
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_first_line_like_a_record_is_refused_unquoted(name: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(RECORDS[name], newline="")
    nulls, rows = ("", "NA"), RECORDS[name].count("\n")
    with raises("header-like-a-record", RefusedError) as refused:
        read_table([file], nulls=nulls)
    said = str(refused.value)
    assert not any(cell in said for cell in ("CANARY", "male", *(f"'{c}'" for c in DATA)))
    assert "header=False" in said and "header=True" in said
    assert read_table([file], nulls=nulls, header=False).num_rows == rows
    assert read_table([file], nulls=nulls, header=True).num_rows == rows - 1
    assert not sniff([file]).header or name == "the cell NA"
    assert sniff([file], CsvOptions(header=True)).header


@pytest.mark.parametrize("name", HEADERS)
def test_names_of_columns_are_not_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADERS[name])
    assert read_table([tmp_path / "t.csv"]).num_rows == HEADERS[name].count("\n") - 1
    assert sniff([tmp_path / "t.csv"]).header


@pytest.mark.parametrize("size", [64, 1 << 23])
def test_how_a_file_is_cut_does_not_change_what_its_first_line_is(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "BLOCK", size)

    def streamed(text: str, **options: Any) -> pa.Table:
        source, csv = io.BytesIO(text.encode()), CsvOptions(**options)
        return loaded(open_table("-", csv=csv, standard_format="csv", standard_input=source))

    for text in (RECORDS["names and categories"], RECORDS["few rows"]):
        with raises("header-like-a-record"):
            streamed(text)
    assert streamed(HEADERS["words of their own"]).num_rows == 512
    assert streamed("1,a\n2,b\n", header=False).to_pydict() == {"column_1": [1, 2], "column_2": ["a", "b"]}


def test_without_a_header_columns_are_numbered_and_the_first_line_is_a_record(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Alice,56,0\nBob,31,1\n")
    (tmp_path / "b.csv").write_text("Carol,20,1\n")
    table = read_table([tmp_path / "a.csv", tmp_path / "b.csv"], header=False)
    assert table.to_pydict() == {
        "column_1": ["Alice", "Bob", "Carol"],
        "column_2": [56, 31, 20],
        "column_3": [0, 1, 1],
    }
    (tmp_path / "ragged.csv").write_text("1,2\n3,4\n5\n")
    with raises("ragged-row") as ragged:
        read_table([tmp_path / "ragged.csv"], header=False)
    assert "row 3 of" in ragged.value.what


@pytest.mark.parametrize(
    ("text", "id"),
    [("CANARY,,x\n1,2,3\n", "column-without-name"), ("CANARY,y,CANARY\na,b,c\n", "columns-of-one-name")],
)
def test_other_first_lines_that_name_nothing_lead_to_the_same_way_out(
    text: str, id: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.csv"
    file.write_text(text)
    for call in (lambda: read_table([file]), lambda: plan(file), lambda: perturb(file, gamma=9)):
        with raises(id, DataError) as wrong:
            call()
        assert "CANARY" not in str(wrong.value) and "header=False" in wrong.value.next_step
    assert read_table([file], header=False).num_rows == 2
    with raises("column-without-name"):
        open_table(pa.table({"a": [1], "": [2]}))


def test_names_that_are_known_are_names(tmp_path: Path) -> None:
    """Years as columns: what a sidecar, a tree or a declared type names needs no word."""
    file, years = tmp_path / "years.csv", {"2019": "int64", "2020": "int64"}
    pl.DataFrame({"2019": [1, 2, 3] * 100, "2020": [3, 2, 1] * 100, "class": ["a", "b", "b"] * 100}).write_csv(
        file
    )
    with raises("header-like-a-record") as refused:
        perturb(file, gamma=9)
    assert "2019" not in str(refused.value)
    for csv in (CsvOptions(header=True), CsvOptions(types=years)):
        out = tmp_path / "r.csv"
        perturb(file, out, gamma=9, class_="class", keep_order=True, force=True, csv=csv)
    reconstruct(out, tmp_path / "back.csv")
    assert predict(train_tree(tmp_path / "back.csv", "class").tree, file).height == 300
    assert estimate(out, truth=file).tables[0].truth is not None
    assert perturb(file, like=out, keep_order=True).sidecar.records == 300
    (tmp_path / "t.csv").write_text(RECORDS["names and categories"])
    assert read_table([tmp_path / "t.csv"], types={"male": "string"}).column_names[1] == "male"
    assert sniff([file], CsvOptions(types={"2019": "int64"})).header


def test_a_file_without_header_goes_all_the_way(tmp_path: Path) -> None:
    file = tmp_path / "nohdr.csv"
    file.write_text("".join(f"CANARY {i % 3},{20 + i % 50},{i % 2}\n" for i in range(600)))
    proposal = plan(file, tmp_path / "p.toml", gamma=9)
    assert any("first line looks like a record" in s for s in proposal.sentences)
    assert "CANARY" not in proposal.text + " ".join(proposal.sentences) and "column_2" in proposal.text
    csv, columns = CsvOptions(header=False), ["column_1", "column_2", "column_3"]
    release = perturb(file, tmp_path / "r.csv", gamma=9, shuffle=True, rare="publish", csv=csv)
    assert pl.read_csv(tmp_path / "r.csv").columns == columns and release.sidecar.records == 600
    assert perturb(file, plan=tmp_path / "p.toml").sidecar.records == 600
    assert estimate(tmp_path / "r.csv", truth=file, csv=csv).records == 600
    assert predict(train_tree(file, "column_3", csv=csv).tree, file, csv=csv).height == 600


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

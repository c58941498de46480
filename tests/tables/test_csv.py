"""CSV in: nothing is guessed in silence, whatever the blocks that the file is cut into.

Every error names the row, counted from 1 below the header, and never what a cell says.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ppdm_cli.errors import DataError, PpdmError, UsageError
from ppdm_cli.tables import CsvOptions, csv_records, open_table
from ppdm_cli.tables import csv as ppdm_csv
from tests.strategies import texts
from tests.vocabulary import loaded, read_table


def of(text: str | bytes, folder: Path, name: str = "t.csv", **options: Any) -> pa.Table:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(path, **options)


def trouble(text: str | bytes, folder: Path, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        of(text, folder, **options)
    message = str(caught.value)
    assert "\n" not in message and "CANARY" not in message
    return message


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few bytes, so that every record crosses an end of one."""
    monkeypatch.setattr(csv_records, "BLOCK", 5)


def test_quotes_newlines_and_line_ends_are_those_of_rfc_4180(tmp_path: Path, tiny: None) -> None:
    text = '\ufeff"a ""x""","b\nc"\r\n1,"line\none"\r\n\r\n2,"say ""hi"""\r\n,""\r\n'
    table = of(text, tmp_path)
    assert table.column_names == ['a "x"', "b\nc"]
    assert table.to_pylist() == [
        {'a "x"': 1, "b\nc": "line\none"},
        {'a "x"': 2, "b\nc": 'say "hi"'},
        {'a "x"': None, "b\nc": ""},
    ]


def test_an_empty_cell_is_null_and_a_quoted_one_an_empty_string(tmp_path: Path) -> None:
    assert of('x,y\n"",1\n,2\nNA,3\n', tmp_path).column("x").to_pylist() == ["", None, "NA"]
    assert of("x,y\nNA,1\n5,2\n", tmp_path, nulls=("", "NA")).column("x").to_pylist() == [None, 5]
    assert of("x\n1\n\n3\n", tmp_path).column("x").to_pylist() == [1, None, 3], "a lone column's empty line"


def test_declared_types_keep_what_inference_would_lose(tmp_path: Path) -> None:
    text = "zip,n,t,d\n01234,7,10:30:00.5,2.50\n00007,8,,1.25\n"
    assert of(text, tmp_path).column("zip").to_pylist() == ["01234", "00007"], "the zeros are no number's"
    types = {"zip": pa.string(), "n": pa.uint8(), "t": pa.time64("us"), "d": pa.decimal128(5, 2)}
    declared = of(text, tmp_path, types=types)
    assert declared.schema.types == list(types.values())
    assert declared.column("zip").to_pylist() == ["01234", "00007"]
    assert "row 2" in trouble("n\n7\n300\n", tmp_path, types={"n": pa.uint8()})
    with pytest.raises(UsageError, match=r"names the column 'zap'.*Did you mean 'zip'") as caught:
        of(text, tmp_path, types={"zap": pa.string()})
    assert caught.value.id == "unknown-column"


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ("1 2 -3", pa.int64()),
        ("1 2.5 1e3 nan inf", pa.float64()),
        ("true FALSE", pa.bool_()),
        ("2020-01-31 1969-12-31", pa.date32()),
        ("2020-01-31 2020-01-31T10:00:00", pa.timestamp("ms")),
        ("2020-01-31T10:00:00 2020-01-31T10:00:00.25", pa.timestamp("us")),
        ("2020-01-31T10:00:00Z 2020-01-31T10:00:00.25+02:00", pa.timestamp("us", "UTC")),
        ("10:00 11:30:15", pa.time32("ms")),
        ("abc 12", pa.string()),
    ],
)
def test_types_are_inferred_over_the_whole_file(
    cells: str, kind: pa.DataType, tmp_path: Path, tiny: None
) -> None:
    table = of("x,y\n" + "".join(f"{c},1\n" for c in cells.split()), tmp_path)
    assert table.schema.types == [kind, pa.int64()]
    assert not table.column("x").null_count


CELLS = [
    "", "1", "0", "7", "2.5", "NaN", "99999999999999999999", "true", "false", "abc", '""', '"a\nb"', '"q""q"',
    "2020-01-31", "2020-01-31 10:00:00", "2020-01-31 10:00:00.5", "2020-01-31T10:00:00Z", "10:00:00",
    "2020-01-31T10:00:00.5Z", "10:00:00.5", '"1"', " 3", "Ω",
]  # fmt: skip


def outcome(text: str, size: int, folder: Path) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "BLOCK", size)
        try:
            return repr(of(text, folder).to_pydict()) + str(loaded(open_table(folder / "t.csv")).schema)
        except DataError as error:
            return str(error)


@settings(max_examples=150, deadline=None)
@given(
    cells=st.lists(st.sampled_from(CELLS), max_size=7),
    size=st.integers(3, 40),
    end=st.sampled_from(["\n", "\r\n"]),
)
@example(cells=["1", "true"], size=3, end="\n")
@example(cells=["abc", "1", "abc"], size=8, end="\n")
@example(cells=["2020-01-31 10:00:00", "2020-01-31 10:00:00.5"], size=20, end="\n")
def test_inference_does_not_depend_on_where_blocks_end(
    cells: list[str], size: int, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("blocks")
    text = "i,x" + end + "".join(f"{i},{c}{end}" for i, c in enumerate(cells))
    assert outcome(text, size, folder) == outcome(text, 1 << 20, folder)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(texts, texts), max_size=8),
    size=st.integers(3, 30),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_what_pythons_csv_writes_is_read_back(
    rows: list[tuple[str, str]], size: int, quoting: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting)
    writer.writerows([("first", "second"), *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "BLOCK", size)
        types = {"first": pa.string(), "second": pa.string()}
        table = of(text.getvalue(), tmp_path_factory.mktemp("csv"), types=types)
    found = [(r["first"] or "", r["second"] or "") for r in table.to_pylist()]
    assert found == rows


@pytest.mark.parametrize("size", [4, 1 << 20])
@pytest.mark.parametrize(
    ("lines", "row", "what"),
    [
        ("1,a|2,b|3|4,d", 3, "1 cell where the header has 2"),
        ("1,a|2,b,CANARY|3,c", 2, "3 cells where the header has 2"),
        ("1,a|2,b|CANARY,c|4,d", 3, "column 'n' is not of type double there"),
        ('1,a||2,"x|y"|CANARY,c', 3, "column 'n' is not of type double there"),
        ("true,a|false,b|0,c|2,d", 4, "column 'n' is not of type bool there"),
        ("2020-01-31,a|2020-02-31,b", 2, "column 'n' is not written as a timestamp"),
        ('1,a|2,"b CANARY|3,c|4,"d"|5,"e"', 2, "quote that does not pair up"),
        ('1,a|2,5" CANARY|3,c', 2, "quote that does not pair up"),
        ('1,a|2,"x" CANARY|3,c', 2, "quote that does not pair up"),
        ('1,5" a|2,"b|c"|3,6" d', 1, "quote that does not pair up"),
    ],
)
def test_trouble_says_the_row(lines: str, row: int, what: str, size: int, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_records, "BLOCK", size)
        message = trouble("n,s\n" + lines.replace("|", "\n") + "\n", tmp_path)
    assert f"row {row} of " in message and "t.csv" in message and what in message


def test_trouble_in_a_later_block_or_file_says_its_own_row(tmp_path: Path) -> None:
    many = "".join(f"{i},x{i % 9}\n" for i in range(600_000))
    message = trouble("n,s\n" + many + "CANARY,x\n", tmp_path)
    assert "row 600001 of " in message
    (tmp_path / "good.csv").write_text("n,s\n1,a\n2,b\n")
    for bad, row in {"n,s\n1,a\nCANARY,b\n": 2, "n,s\n1\n": 1, 'n,s\n1,a\n2,b\n3,"c\n': 3}.items():
        (tmp_path / "bad.csv").write_text(bad)
        with pytest.raises(DataError, match=f"row {row} of .*bad.csv"):
            read_table([tmp_path / "good.csv", tmp_path / "bad.csv"])
    (tmp_path / "bad.csv").write_text("n,other\n1,a\n")
    with pytest.raises(DataError, match="does not have the columns of"):
        read_table([tmp_path / "good.csv", tmp_path / "bad.csv"])
    (tmp_path / "again.csv").write_bytes((tmp_path / "good.csv").read_bytes())
    both = read_table([tmp_path / "good.csv", tmp_path / "again.csv"])
    assert both.column("n").to_pylist() == [1, 2, 1, 2]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252"])
def test_encodings_are_read_and_wrong_ones_refused(encoding: str, tmp_path: Path, tiny: None) -> None:
    text = "größe,x\nä,1\nß,2\n"
    assert of(text.encode(encoding), tmp_path, encoding=encoding).column(0).to_pylist() == ["ä", "ß"]
    if encoding != "utf-8-sig":
        assert "encoding=" in trouble(text.encode(encoding), tmp_path)


def test_bad_encoding_says_the_row_or_the_line(tmp_path: Path) -> None:
    assert "row 3 of " in trouble(b"s,n\na,1\nb,2\n\xffCANARY,3\n", tmp_path)
    assert "row 1 of " in trouble(b"s,n\n\xe4,1\n", tmp_path, types={"s": pa.string(), "n": pa.int64()})
    assert "header" in trouble(b"s\xff,n\na,1\n", tmp_path)
    broken = "s,n\na,1\n".encode("utf-16-le") + b"\x00\xd8\x00\xd8"
    assert "line 3 of " in trouble(broken, tmp_path, encoding="utf-16-le")
    for name in ("nosuch", "base64", "rot13"):
        with pytest.raises(UsageError, match="unknown encoding"):
            CsvOptions(encoding=name)


def test_delimiters(tmp_path: Path) -> None:
    assert of("a;b\n1;'2,5'\n", tmp_path, delimiter=";").to_pylist() == [{"a": 1, "b": "'2,5'"}]
    assert of('a\tb\n1\t"x\ty"\n', tmp_path, delimiter="\t").to_pylist() == [{"a": 1, "b": "x\ty"}]
    for wrong in ("", "::", '"', "\n", "é"):
        with pytest.raises(UsageError, match="delimiter"):
            CsvOptions(delimiter=wrong)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,,c\n1,2,3\n", "column 2 of .* has no name"),
        ("a,b,a\n1,2,3\n", "columns 1 and 3 of .* have the same name"),
        ("a,b\r1,2\r3,4\r", "carriage returns alone"),
        ('a,"b\n1,2\n', "quote that does not pair up"),
        ('a,b"c\n1,2\n', "quote that does not pair up"),
    ],
)
def test_a_header_must_name_the_columns(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=what):
        of(text, tmp_path)


def test_a_header_alone_is_a_table_of_no_rows(tmp_path: Path) -> None:
    for text in ("a,b\n", "a,b", "a,b\n\n\n"):
        table = of(text, tmp_path)
        assert table.num_rows == 0 and table.column_names == ["a", "b"]


def test_gzip_is_read_and_a_truncated_one_is_an_error(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + os.urandom(4000).hex().encode() + b",2\n")
    assert of(whole + gzip.compress(b"x,3\n"), tmp_path, "t.csv.gz").num_rows == 2
    for broken in (whole[:-20], whole[: len(whole) // 2], b"a,b\n1,2\n", b""):
        with pytest.raises(DataError, match=r"damaged, truncated|is empty"):
            of(broken, tmp_path, "t.csv.gz")


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "LONGEST_RECORD", 1000)
    monkeypatch.setattr(csv_records, "LONGEST_HEADER", 1000)
    monkeypatch.setattr(csv_records, "BLOCK", 500)
    assert "line of more than" in trouble("a,b\n1," + "x" * 5000 + "\n", tmp_path)
    assert "header of more than" in trouble("x" * 5000, tmp_path)
    assert "row 2 of" in trouble('a,b\n1,2\n3,"' + "x" * 5000, tmp_path)


def test_a_stream_is_typed_by_its_beginning_and_held_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(text: str, size: int = 1 << 20, **options: Any) -> pa.Table:
        monkeypatch.setattr(csv_records, "BLOCK", size)
        source = io.BytesIO(text.encode())
        return loaded(open_table("-", csv=CsvOptions(**options), standard_format="csv", standard_input=source))

    assert stream("n,s\n1,a\n2,b\n").to_pydict() == {"n": [1, 2], "s": ["a", "b"]}
    assert stream("n,s\n1,a\n2,b\n", 8).num_rows == 2
    assert stream("n,s\n").num_rows == 0
    for text, size, row in (
        ("n,s\n1,a\nx,b\n", 1 << 20, 2),
        ("n,s\n1,a\nx,b\n", 8, 2),
        ("n,s\n1,a\n2\n", 1 << 20, 2),
        ('n,s\n1,a\n2,"\n', 8, 2),
    ):
        with pytest.raises(PpdmError, match=f"row {row} of 'standard input'"):
            stream(text, size)


def test_a_csv_is_parsed_once_where_its_columns_fit_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: None
) -> None:
    path, parsed = tmp_path / "t.csv", list[int]()
    parser = ppdm_csv._Parser
    call = parser.__call__
    monkeypatch.setattr(parser, "__call__", lambda *args: parsed.append(1) or call(*args))
    path.write_text("n,x\n" + "1,2.5\n" * 50)
    table = open_table(path)
    once, first = len(parsed), loaded(table)
    assert loaded(table) == first and loaded(table, ["x"]) == first.select(["x"]) and len(parsed) == once
    monkeypatch.setattr(ppdm_csv, "_HELD", 0)
    assert loaded(open_table(path)) == first and len(parsed) > 2 * once
    path.write_text("n,x\n" + "1,2\n" * 50 + "1,2.5\n")
    monkeypatch.setattr(ppdm_csv, "_HELD", 1 << 20)
    assert loaded(open_table(path)).column("x").to_pylist() == [2.0] * 50 + [2.5], "its type changes"


CELLS = {
    "whole": ["1", "20", "-3", ""],
    "number": ["1.5", "2", "1e3", ""],
    "padded": ["7", "012", "3", ""],
    "text": ["a", "12", '""', ""],
    "truth": ["true", "1", "false", ""],
    "day": ["2026-01-31", "2026-01-31T12:00:00", "5", ""],
}


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("odd", ["", "null"])
def test_types_are_those_of_cells_whatever_blocks_were_seen_before(
    order: tuple[int, int], odd: str, tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cells in CELLS.items():
        for last in cells:
            several = [cells[p] for p in order for _ in range(6)]
            text = f"x,{name}\n" + "".join(f"1,{c}\n" for c in [*several, last, ""])
            found = []
            for expected in (True, False):
                with monkeypatch.context() as patch:
                    if not expected:
                        patch.setattr(ppdm_csv._Inference, "_expected", lambda self: self.wanted)
                    try:
                        table = of(text, tmp_path, odd=odd or {})
                        found.append((str(table.schema), table.to_pylist()))
                    except DataError as error:
                        found.append((error.what, error.next_step))
            assert found[0] == found[1]


def test_rows_stay_in_memory_from_the_beginning_of_a_file(
    tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x,y\n" + "".join(f"{i},{'' if i % 5 else i / 2}\n" for i in range(200))
    expected = of(text, tmp_path).to_pylist()
    assert [r["x"] for r in expected] == list(range(200))
    for held in (0, 100, 1000):
        monkeypatch.setattr(ppdm_csv, "_HELD", held)
        assert of(text, tmp_path).to_pylist() == expected

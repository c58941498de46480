"""What an owner says of reading to `ppdm plan` counts there and is in the plan, which runs as it is."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ppdm_cli import CsvOptions, perturb, plan
from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing import Plan
from ppdm_cli.perturbing.resolve_run import typed_csv_options
from ppdm_cli.planning import csv_reading
from ppdm_cli.tables import csv_records, open_table
from tests.vocabulary import Run, loaded

ROWS = 60
SPELLINGS = ("unbekannt", "n. b.", "99-99", "NA", "k.A.")


def cells(kind: str, decimal: str, form: str) -> list[str]:
    if kind == "fraction":
        return [f"{i * 1.25:.2f}".replace(".", decimal) for i in range(ROWS)]
    if kind == "day":
        may = form.replace("%m", "05").replace("%Y", "2020")
        return [may.replace("%d", f"{1 + i % 28:02d}") for i in range(ROWS)]
    return [{"whole": f"{i % 30}", "word": f"ward {i % 3}"}[kind] for i in range(ROWS)]


TYPES = {"fraction": pa.float64(), "whole": pa.int64(), "day": pa.date32(), "word": pa.string()}


@st.composite
def tables(draw: st.DrawFn) -> tuple[bytes, dict[str, Any], dict[str, Any], dict[str, list[int]]]:
    """A CSV, what its owner says of it, the types it has, and the rows of each column that have no value."""
    decimal = draw(st.sampled_from(".,"))
    delimiter = draw(st.sampled_from([";", "\t", "|"] if decimal == "," else [",", ";", "\t", "|"]))
    form = draw(st.sampled_from(["%d.%m.%Y", "%Y-%m-%d", "%d/%m/%Y", "%Y %d %m"]))
    typed = draw(st.lists(st.sampled_from(SPELLINGS), unique=True, max_size=3))
    encoding = draw(st.sampled_from(["utf-8", "cp1252", "utf-16"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    columns, gone = {}, {}
    for kind in TYPES:
        made = cells(kind, decimal, form)
        gone[kind] = sorted(draw(st.sets(st.integers(1, ROWS - 1), max_size=4)))
        for row in gone[kind]:
            made[row] = draw(st.sampled_from([*typed, "NULL"]))
        columns[kind] = made
    header = draw(st.sampled_from([None, True, False]))
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    names = [f"column_{i + 1}" for i in range(len(TYPES))] if header is False else [*TYPES]
    writer.writerows([*([] if header is False else [names]), *zip(*columns.values(), strict=True)])
    said: dict[str, Any] = {"nulls": ("", *typed)} if typed else {}
    day = names[2]
    if form == "%Y %d %m" or draw(st.booleans()):
        said["formats"] = {day: [form]}
    types = dict(zip(names, TYPES.values(), strict=True))
    if draw(st.booleans()):
        types[names[1]] = draw(st.sampled_from([pa.float64(), pa.string(), pa.int32(), pa.decimal128(6, 1)]))
        said["types"] = {names[1]: types[names[1]]}
    if draw(st.booleans()):
        types[names[0]] = draw(st.sampled_from([pa.float64(), pa.decimal128(9, 2)]))
        said |= {"types": said.get("types", {}) | {names[0]: types[names[0]]}, "decimal": decimal}
    said |= {} if header is None else {"header": header}
    said |= draw(st.sampled_from([{}, {"delimiter": delimiter, "encoding": encoding}]))
    said["odd"] = "null"
    return file.getvalue().encode(encoding), said, types, dict(zip(names, gone.values(), strict=True))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(tables())
def test_what_is_said_of_reading_is_in_the_plan(tmp_path_factory: Any, case: Any) -> None:
    data, said, types, gone = case
    folder = tmp_path_factory.mktemp("said")
    (folder / "t.csv").write_bytes(data)
    options = CsvOptions(**said, given=frozenset(said))
    proposal = plan(folder / "t.csv", folder / "p.toml", csv=options, gamma=9)
    kinds = {c.column: c.type for c in proposal.columns}
    assert kinds == {n: str(t) for n, t in types.items()}
    assert {c.column: c.without_value for c in proposal.columns} == {n: len(r) for n, r in gone.items()}
    asked = Plan.of(folder / "p.toml")
    for again in (None, options):
        table = loaded(open_table(folder / "t.csv", csv=typed_csv_options(again, asked, None, None)))
        for name in set(types) - set(asked.drop):
            assert table.schema.field(name).type == types[name]
            column = table.column(name)
            assert [i for i, v in enumerate(column) if not v.is_valid] == gone[name], name
    perturb(folder / "t.csv", plan=folder / "p.toml")


def test_a_spelling_of_null_is_added_everywhere(tmp_path: Path, ppdm: Run) -> None:
    """In `plan` and elsewhere to the empty cell, in `perturb` to the plan's; usual ones are a question."""
    cells = [str(i % 50) for i in range(300)]
    cells[7], cells[40], cells[90], cells[91] = "unbekannt", "NA", "k.A.", "?!"
    rows = "".join(f"{c},{'ab'[i % 2]}\n" for i, c in enumerate(cells))
    (tmp_path / "t.csv").write_text(f"cost,ward\n{rows}")
    ppdm("plan", "t.csv", "-o", "p.toml", "--gamma", 9, "--null", "unbekannt")
    there = tomllib.loads((tmp_path / "p.toml").read_text())["csv"]
    assert there["null"] == ["unbekannt"] and there["odd"] == {"cost": "?"}
    spellings = ("--null", "unbekannt", "--null", "?!", "--odd", "null")
    ppdm("plan", "t.csv", "-o", "p.toml", "--gamma", 9, *spellings, "--force")
    read = tomllib.loads((tmp_path / "p.toml").read_text())
    assert read["csv"]["types"]["cost"] == "int64" and read["attributes"]["cost"]["nulls"]
    ppdm("perturb", "t.csv", "-o", "r.csv", "--plan", "p.toml")
    text = (tmp_path / "p.toml").read_text().replace(', "?!"', "").replace('"null"  #', '"value"  #')
    (tmp_path / "p.toml").write_text(text)
    ppdm("perturb", "t.csv", "-o", "s.csv", "--plan", "p.toml", code=1)
    (tmp_path / "p.toml").write_text(text.replace('"value"  #', '"null"  #'))
    ppdm("perturb", "t.csv", "-o", "s.csv", "--plan", "p.toml", "--null", "?!")
    true = json.loads(
        ppdm("estimate", "s.csv", "--truth", "t.csv", "--plan", "p.toml", "--null", "?!", "--json").stdout
    )["rows"]
    assert [r["true"] for r in true if r["attribute"] == "cost" and r["label"] == "null"] == [4]


@pytest.mark.parametrize(
    ("kind", "odd", "said"),
    [
        ("whole", ["unklar"] * 12, "12 of its 612 cells are not numbers, first in row 5, all alike"),
        ("fraction", ["unklar", "offen"], "2 of its 602 cells are not numbers, first in row 5."),
        ("fraction", ["unklar"] * 300, "300 of its 900 cells are not numbers, first in row 5, all alike"),
        ("day", ["heute"] * 3, "3 of its 603 cells are not dates, first in row 5, all alike"),
        ("iso", ["heute", "0000-00-00"], "2 of its 602 cells are not dates, first in row 5."),
    ],
)
@pytest.mark.parametrize("block", [1 << 9, 1 << 23])
def test_odd_cells_are_counted_and_are_a_question(
    kind: str, odd: list[str], said: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few odd cells do not make a column text: they are null if the owner says so, and no cell is shown."""
    monkeypatch.setattr(csv_records, "BLOCK", block)
    made = cells("day" if kind == "iso" else kind, ",", "%Y-%m-%d" if kind == "iso" else "%d.%m.%Y") * 10
    cut = [*made[:4], *odd, *made[4:]]
    rows = "".join(f"{c};{'abc'[i % 3]}\n" for i, c in enumerate(cut))
    (tmp_path / "t.csv").write_text(f"pay;ward\n{rows}")
    proposal = plan(tmp_path / "t.csv", gamma=9)
    assert proposal.questions == ["csv.odd.pay"]
    lines = " ".join(proposal.sentences)
    assert f"pay: {said}" in lines and not any(o in lines + proposal.text for o in odd)
    column = proposal.columns[0]
    assert (
        column.type != "string" and column.without_value == len(odd) and not column.proposal.startswith("drop")
    )
    nulls = CsvOptions(nulls=tuple({*odd}))
    again = plan(tmp_path / "t.csv", tmp_path / "p.toml", gamma=9, csv=nulls)
    assert not again.questions and again.columns[0].without_value == len(odd)
    (tmp_path / "q.toml").write_text(proposal.text)
    for answer in ({"csv": {"odd": "null"}}, {"csv": CsvOptions(odd={"pay": "null"})}, {"drop": ["pay"]}):
        perturb(tmp_path / "t.csv", plan=tmp_path / "q.toml", **answer)
    with pytest.raises(UsageError, match=r"odd='null'"):
        perturb(tmp_path / "t.csv", plan=tmp_path / "q.toml")


def test_numbers_for_no_value_are_found_among_dates_too(tmp_path: Path) -> None:
    days = cells("day", "", "%d.%m.%Y") * 10
    days[3] = days[77] = "-9"
    (tmp_path / "t.csv").write_text("day;ward\n" + "".join(f"{d};{'ab'[i % 2]}\n" for i, d in enumerate(days)))
    found = plan(tmp_path / "t.csv", tmp_path / "p.toml", gamma=9)
    assert found.columns[0].type == "date32[day]" and found.columns[0].without_value == 2
    assert "day: 2 of its cells are one of -1, -9, -99, -999, -9999, first in row 4." in found.sentences
    assert found.questions == ["csv.odd.day"]
    perturb(tmp_path / "t.csv", plan=tmp_path / "p.toml", csv={"odd": "null"})


@pytest.mark.parametrize(
    ("values", "code", "asked"),
    [
        (["0", "7", "63"], "-1", True),
        (["0", "1"], "-1", True),
        (["1", "-1"], "-1", False),
        (["-3", "7"], "-1", False),
        (["5", "63"], "99999", True),
        (["5", "63"], "99", False),
        (["80,5", "1.063,25"], "999999", True),
        (["80,5", "1.063,25"], "9999", False),
        (["true", "False"], "n. b.", True),
        (["true", "FALSE"], "?", True),
    ],
)
@pytest.mark.parametrize("block", [1 << 9, 1 << 23])
def test_numbers_that_stand_for_no_value_are_a_question(
    values: list[str], code: str, asked: bool, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is below zero but they, or none has as many digits. One that is common may be a class."""
    monkeypatch.setattr(csv_records, "BLOCK", block)
    made = [values[i % len(values)] for i in range(300)]
    made[3], made[280] = code, code
    (tmp_path / "t.csv").write_text(
        "x;ward\n" + "".join(f"{c};{'ab'[i * 7 % 2]}\n" for i, c in enumerate(made))
    )
    found = plan(tmp_path / "t.csv", tmp_path / "p.toml", gamma=9, attributes={"x": {"domain": "data"}})
    assert ("csv.odd.x" in found.questions) == asked
    if asked:
        assert "first in row 4" in " ".join(found.sentences) and found.columns[0].without_value == 2
        kind = "bool" if "true" in values else "double" if "80,5" in values else "int64"
        release = perturb(tmp_path / "t.csv", plan=tmp_path / "p.toml", csv={"odd": "null"})
        assert release.sidecar.by_name["x"].dtype == kind and release.sidecar.by_name["x"].nulls


@pytest.mark.parametrize("answer", ["null", "value"])
def test_usual_spellings_of_no_value_are_a_question_in_text_too(answer: str, tmp_path: Path, ppdm: Run) -> None:
    """Among 300 regions NA may be North America. Only the owner knows; the plan holds no cell and no count."""
    cells = [("EU", "AS", "NA")[i * 7 % 3] for i in range(300)]
    (tmp_path / "t.csv").write_text("region,x\n" + "".join(f"{c},{i % 5}\n" for i, c in enumerate(cells)))
    said = ppdm("plan", "t.csv", "-o", "p.toml", "--record-epsilon", 2, "--keep", "x").stderr.decode()
    assert "region: 100 of its cells are usual spellings of no value, such as NA, first in row 3." in said
    assert "Open questions: 'csv.odd.region'" in said
    typed = (f"{answer}\n".encode(), ("--plan", "p.toml", "-i", "--force"))
    asked = ppdm("plan", "t.csv", "-o", "q.toml", *typed[1], stdin=typed[0]).stderr.decode()
    assert "100 of its cells are usual spellings" in asked and "Open questions" not in asked
    text = (tmp_path / "q.toml").read_text()
    assert tomllib.loads(text)["csv"]["odd"] == {"region": answer} and "100" not in text
    for number, (plan_file, more) in enumerate((("q.toml", ()), ("p.toml", ("--odd", f"region={answer}")))):
        ppdm("perturb", "t.csv", "-o", f"{number}.csv", "--plan", plan_file, *more, "--shuffle")
        truth = ("--truth", "t.csv", "--plan", plan_file, *more, "--attribute", "region", "--json")
        sidecar = json.loads((tmp_path / f"{number}.csv.ppdm.json").read_text())
        region = next(a for a in sidecar["attributes"] if a["name"] == "region")
        assert ("NA" in region["categories"]) == (answer == "value"), truth
        assert region["nulls"] or answer == "value"


PERSONAL = ["Name", "Nachname", "Vorname des Kindes", "patient", "Patient", "e-mail", "E-Mail", "phone"]
PERSONAL += ["street", "Straße", "home_address", "Adresse", "Bemerkung", "remarks", "Kommentar", "comments"]
PERSONAL += ["lastName", "clerkName", "email_2", "Versicherter", "Arzt"]
PLAIN = ["ward", "diagnosis", "sex", "stage", "outpatient_ward", "commentary_score", "nametag_color", "renamed"]


@pytest.mark.parametrize("rows", [600, 3000])
def test_names_of_persons_are_a_question_whatever_their_number(rows: int, tmp_path: Path) -> None:
    """A few surnames too stand in the sidecar, if they are published."""
    made = {n: ["abcde"[i * 7 % 5] for i in range(rows)] for n in (*PERSONAL, *PLAIN)}
    (tmp_path / "t.csv").write_text(
        "\n".join([",".join(made), *(",".join(row) for row in zip(*made.values(), strict=True))]) + "\n"
    )
    proposal = plan(tmp_path / "t.csv", tmp_path / "p.toml", gamma=9)
    assert proposal.questions == [f"attributes.{n}.domain" for n in PERSONAL]
    answer: dict[str, Any] = {"drop": PERSONAL[1:], "attributes": {"Name": {"domain": "data"}}}
    release = perturb(tmp_path / "t.csv", plan=tmp_path / "p.toml", **answer)
    assert release.sidecar.by_name["Name"].N == 6
    assert not set(PERSONAL[1:]) & {a.name for a in release.sidecar.attributes}


def test_codes_of_one_first_letter_are_not_cut_to_it(tmp_path: Path) -> None:
    rows = "".join(f"K{i % 40:02d},{'ab'[i % 2]}\n" for i in range(60))
    (tmp_path / "t.csv").write_text(f"code,ward\n{rows}")
    plan(tmp_path / "t.csv", tmp_path / "p.toml", gamma=9)
    release = perturb(tmp_path / "t.csv", plan=tmp_path / "p.toml")
    assert [a.name for a in release.sidecar.attributes] == ["ward"]


def test_a_column_of_points_beside_a_decimal_comma_is_a_question(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 10};{i}.{i % 7}\n" for i in range(100))
    (tmp_path / "t.csv").write_text(f"comma;point\n{rows}")
    found = plan(tmp_path / "t.csv", gamma=9)
    assert found.questions == ["attributes.point.domain"]
    assert any("have a point" in s for s in found.sentences)


@example(["007.5", "8.0"])
@given(st.lists(st.from_regex(r"-?(\d{1,3}(\.\d{0,2})?|\.\d|9{1,5}|0\d\.5)", fullmatch=True), min_size=1))
def test_numbers_are_counted_by_value_as_by_text(cells: list[str]) -> None:
    found = []
    for numbers in (csv_reading._numbers, lambda text: None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_reading, "_numbers", numbers)
            read, _ = csv_reading.read_block(pa.array(cells), [""])
        codes = (*csv_reading.CODES, *csv_reading.NINES)
        counts = [read.counts[n] for n in ("cells", "whole", "padded", "point", "below", *codes)]
        found.append((counts, read.digits, [read.odd.get(c) for c in codes]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "odd", ["+5", "+7.5", "-5", "0", "1e5", " 3", "007", "1_000", "inf", "12345678901234567890"]
)
def test_type_that_is_planned_can_be_read(odd: str, tmp_path: Path) -> None:
    for number, others in enumerate((("+5",), ("1", "2", "3", "4"), ("1.5", "-2"))):
        data = tmp_path / f"{number}.csv"
        data.write_text("a,b\n" + "".join(f"{c},{i % 4}\n" for i, c in enumerate(([odd, *others] * 60)[:60])))
        types = tomllib.loads(plan(data, gamma=9).text)["csv"]["types"]
        table = loaded(open_table(data, csv=CsvOptions(types=types, odd=dict.fromkeys(types, "null"))))
        assert table.num_rows == 60 and table["b"].null_count == 0

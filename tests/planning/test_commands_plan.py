"""`ppdm plan`: from a messy export to a release in two commands, and nothing of the data in the plan."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from decimal import Decimal
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppdm_cli import CsvOptions, perturb, plan
from ppdm_cli.engine import Sketch
from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing import Plan
from ppdm_cli.planning import budgets_of
from ppdm_cli.planning.advice import Advice
from ppdm_cli.planning.csv_reading import dialect_of, encoding_of, sniff
from ppdm_cli.releases import opened
from tests.planning.csvkit_examples import DELIMITERS, ENCODINGS, EXAMPLES
from tests.planning.made_exports import Made, made_export
from tests.planning.messy_export import export
from tests.vocabulary import Anything, Run, people

ANSWERS = ("--gamma", "9", "--person", "Patient", "--domain", "Kosten EUR=0:20000", "--odd", "null")


def test_a_messy_export_takes_two_commands_and_no_refusal(tmp_path: Path, ppdm: Run) -> None:
    """The trial's file: fourteen failed runs before, and a useless release; four answers are asked for."""
    (tmp_path / "export.csv").write_bytes(export(3000))
    said = ppdm("plan", "export.csv", "-o", "plan.toml").stderr.decode()
    asked = "'record_epsilon', 'person', 'csv.odd.Alter', 'csv.odd.CRP', 'csv.odd.Station', "
    asked += "'attributes.Kosten EUR.domain'"
    assert f"Open questions: {asked}." in " ".join(said.split())
    assert "Digits that begin with zeros stay text: PLZ." in said and "Patient repeats" in said
    assert "Entlassen am: dates of several formats" in " ".join(said.split())
    left = ppdm("perturb", "export.csv", "-o", "r.parquet", "--plan", "plan.toml", code=2).stderr.decode()
    assert f"leaves open {asked}" in left
    ppdm("perturb", "export.csv", "-o", "r.parquet", "--plan", "plan.toml", *ANSWERS, "--strict")
    release = pl.read_parquet(tmp_path / "r.parquet")
    kinds = dict(zip(release.columns, release.dtypes, strict=True))
    assert {"Fall-Nr", "Patient", "Name", "Bemerkung"}.isdisjoint(kinds)
    assert kinds["Gewicht"] == pl.Float64 and kinds["Entlassen am"] == pl.Date and kinds["Alter"] == pl.Int64
    assert set(release["PLZ"].cast(pl.String)) <= {*"0123456789", "(other)"}
    assert release["Alter"].null_count() and release["Kosten EUR"].max() < 20_000
    assert 40 < release["Gewicht"].mean() < 120


def test_truth_has_done_to_it_what_was_done_for_the_release(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "export.csv").write_bytes(export(2000))
    ppdm("plan", "export.csv", "-o", "plan.toml", "--gamma", "9")
    text = (tmp_path / "plan.toml").read_text().replace('person = "?"', 'person = ""')
    text = text.replace('domain = "?"', 'domain = "0:20000"').replace('"?"', '"null"')
    (tmp_path / "plan.toml").write_text(text)
    ppdm("perturb", "export.csv", "-o", "r.csv", "--plan", "plan.toml")
    original = pl.read_csv(tmp_path / "export.csv", separator=";", encoding="latin-1", infer_schema=False)
    done = json.loads(
        ppdm("estimate", "r.csv", "--truth", "export.csv", "--plan", "plan.toml", "--json").stdout
    )
    true = {(r["attribute"], r["label"]): r["true"] for r in done["rows"]}
    zips = original["PLZ"].str.head(1).value_counts()
    assert all(true["PLZ", z] == n for z, n in zips.iter_rows() if n >= 10)
    costs = original["Kosten EUR"].str.replace_all(".", "", literal=True).str.replace(",", ".").cast(float)
    high = [n for (a, label), n in true.items() if a == "Kosten EUR" and label.endswith("]")]
    assert high == [(costs >= 18_000).sum()], "clipped to the last bin"
    ppdm(
        *["attack", "r.csv", "--truth", "export.csv", "--plan", "plan.toml", "--with", "posterior"],
        "--with",
        "audit",
    )
    refused = ppdm("estimate", "r.csv", "--truth", "export.csv", code=1)
    assert b"export.csv" in refused.stderr


# -- nothing of the data

CANARY = re.compile("canary|7313|31337", re.I)


def test_no_cell_reaches_the_plan_the_terminal_or_json(tmp_path: Path, ppdm: Run) -> None:
    rng, n = np.random.default_rng(1), 400
    rows = {
        "name": [f"Canary{i} Canary" for i in range(n)],
        "town": rng.choice(["CanaryTown", "Canaryville", "canary"], n).tolist(),
        "code": [f"CANARY{i}" for i in rng.integers(0, 300, n)],
        "pay": ["7313.5"] * (n - 1) + ["31337000"],
        "age": rng.integers(20, 90, n).astype(str).tolist(),
        "day": [
            f"{d:02d}.{m:02d}.2020" for d, m in zip(rng.integers(1, 28, n), rng.integers(1, 12, n), strict=True)
        ],
    }
    pl.DataFrame(rows).write_csv(tmp_path / "c.csv")
    told = ppdm("plan", "c.csv", "-o", "plan.toml")
    shown = told.stdout + told.stderr
    told = ppdm("plan", "c.csv", "-o", "plan.toml", "--json", "--force")
    shown += told.stdout + told.stderr
    assert json.loads(told.stdout)["private"].startswith("computed from private data")
    for text in (shown.decode(), (tmp_path / "plan.toml").read_text()):
        assert not CANARY.search(text), CANARY.search(text)
    for wrong in ('name = "Canary', "at 7313"):
        assert CANARY.search(wrong), "the test of the test"


@pytest.mark.parametrize("name", ["remark", "a"])
def test_a_plan_takes_written_text_for_no_identifier(name: str, tmp_path: Path, ppdm: Run) -> None:
    rng, words = np.random.default_rng(1), ["mild", "cough", "rest", "fever", "came", "back", "today", "asks"]
    text = [" ".join(rng.choice(words, 2 + (name == "a"))) + f" {i // 2}" for i in range(600)]
    pl.DataFrame({name: text, "age": rng.integers(18, 90, 600)}).write_csv(tmp_path / "t.csv")
    said = ppdm("plan", "t.csv", "-o", "t.toml", "--record-epsilon", "2").stderr.decode()
    assert "drop: free text" in said and "identif" not in said


def test_a_plan_does_not_change_with_values_or_counts(tmp_path: Path) -> None:
    """Other values of the same kind, in other numbers: the same plan to the letter, but for N."""
    texts = set[str]()
    for seed, rows in ((1, 3000), (2, 3000), (3, 4500)):
        (tmp_path / "export.csv").write_bytes(export(rows, seed))
        texts.add(re.sub("(?m)^N = .*\n", "", plan(tmp_path / "export.csv").text))
    assert len(texts) == 1
    (tmp_path / "export.csv").write_bytes(export(3000).replace(b";Y;", b";012;").replace(b";N;", b";0;"))
    changed = re.sub("(?m)^N = .*\n", "", plan(tmp_path / "export.csv").text)
    assert changed not in texts, "the test of the test"


# -- the figures of a budget

PRIVACY = (
    {"record_epsilon": 4},
    {"record_epsilon": 0.1},
    {"record_epsilon": 20},
    {"rho1": 0.05, "rho2": 0.5},
    {"rho1": 0.03, "rho2": 0.0301},
    {"gamma": 9.1},
    {"gamma": "1.00123"},
)


@pytest.mark.parametrize("privacy", PRIVACY, ids=str)
def test_a_plan_keeps_each_kind_of_privacy_on_messy_tables(privacy: dict[str, Any], tmp_path: Path) -> None:
    for number, data in enumerate((export(1500), made_export(5).data, made_export(11).data)):
        table, file = tmp_path / f"{number}.csv", tmp_path / f"{number}.toml"
        table.write_bytes(data)
        proposal = plan(table, file, **privacy)
        text = (
            file.read_text("utf-8")
            .replace('person = "?"', 'person = ""')
            .replace('domain = "?"', 'domain = "0:20000"')
        )
        text = text.replace('"?"', '"null"')
        file.write_text(text, "utf-8")
        promised = perturb(table, plan=file).sidecar.privacy
        if "record_epsilon" in privacy:
            epsilon = privacy["record_epsilon"]
            assert 0.98 * epsilon < promised.perturbed_epsilon <= epsilon
            assert [b.record_epsilon for b in proposal.budgets] == [epsilon]
            assert f"epsilon {epsilon:g}" in " ".join(proposal.sentences)
        else:
            promise = proposal.budgets[0].record_epsilon
            assert promise == pytest.approx(promised.perturbed_epsilon, rel=1e-3, abs=1e-4)


def advice(sizes: list[int]) -> list[Advice]:
    """Columns of so many values, half of them in order."""
    many = Sketch(0, 0, 0, 1, 500, np.arange(20, dtype=np.uint64), np.ones(20, np.int64))
    return [Advice(f"a{i}", "int64", many if i % 2 else None, N=N) for i, N in enumerate(sizes)]


def check_figures(sizes: list[int], records: int, asked: Plan) -> None:
    for row in budgets_of(advice(sizes), records, asked):
        assert row.record_epsilon > 0 and 0 < row.record_becomes <= 1
        assert len(row.errors) == len(sizes) and all(e > 0 for e in row.errors.values())
        assert row.unlearnable == [n for n, e in row.errors.items() if e > 1]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(2, 1000), min_size=1, max_size=9), st.floats(0.1, 20), st.integers(1, 10**7))
def test_figures_of_gammas_are_there_for_all_sizes(sizes: list[int], epsilon: float, records: int) -> None:
    """A gamma that is derived from beliefs is rounded down, so no exact draw lacks room for it."""
    rho2 = 0.05 * exp(epsilon) / (0.95 + 0.05 * exp(epsilon))
    check_figures(sizes, records, Plan(rho1=0.05, rho2=rho2))
    check_figures(sizes, records, Plan(gamma=Decimal(f"{exp(epsilon):.6g}")))
    check_figures(sizes, records, Plan())


@pytest.mark.parametrize("times", [1, 12, 50])
@pytest.mark.parametrize("epsilon", [0.1, 4, 20])
@pytest.mark.parametrize("sizes", [[1000, 2], [313, 10]])
def test_figures_of_a_budget_are_there_for_all_sizes(sizes: list[int], epsilon: float, times: int) -> None:
    check_figures(sizes * times, 500, Plan(record_epsilon=epsilon))


# -- sixty made-up exports

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(SEEDS)
def test_every_plan_parses_and_publishes_or_names_what_is_open(tmp_path_factory: Any, seed: int) -> None:
    folder = tmp_path_factory.mktemp("made")
    made = made_export(seed)
    (folder / "export.csv").write_bytes(made.data)
    proposal = plan(folder / "export.csv", folder / "plan.toml", gamma=9)
    parsed = tomllib.loads((folder / "plan.toml").read_text("utf-8"))
    assert set(parsed.get("attributes", {})) | set(parsed.get("drop", [])) == set(made.types)
    if proposal.questions:
        with pytest.raises(UsageError, match="leaves open"):
            perturb(folder / "export.csv", plan=folder / "plan.toml")
        asked = [q.split(".")[1] for q in proposal.questions if q[0] == "a"]
        over: dict[str, Any] = {"attributes": {name: {"domain": "0:1000"} for name in asked}}
        over["drop"] = [
            q.removeprefix("csv.formats.") for q in proposal.questions if q.startswith("csv.formats.")
        ]
        over["csv"] = {"odd": "null"}
        over["attributes"] = {n: w for n, w in over["attributes"].items() if n not in over["drop"]}
        text = (folder / "plan.toml").read_text("utf-8").replace('person = "?"', 'person = ""')
        (folder / "plan.toml").write_text(text, "utf-8")
        release = perturb(folder / "export.csv", plan=folder / "plan.toml", **over)
    else:
        release = perturb(folder / "export.csv", plan=folder / "plan.toml")
    assert release.frame.height == made.rows


def test_sniffing_is_right_on_nineteen_of_twenty(tmp_path: Path) -> None:
    wrong: list[tuple[int, str]] = []
    told = 0
    for seed in range(60):
        made = made_export(seed)
        (tmp_path / "export.csv").write_bytes(made.data)
        told += len(made.types) + 2
        wrong += [(seed, w) for w in _mistakes(tmp_path / "export.csv", made)]
    assert len({seed for seed, _ in wrong}) <= 3 and len(wrong) <= 0.05 * told, wrong


def _mistakes(path: Path, made: Made) -> list[str]:
    proposal = plan(path)
    dialect = proposal.dialect
    assert dialect is not None
    found = ["delimiter"] * (dialect.delimiter != made.delimiter)
    found += ["encoding"] * (path.read_bytes().decode(dialect.encoding) != made.data.decode(made.encoding))
    types = {c.column: c.type for c in proposal.columns}
    return found + [n for n, t in made.types.items() if types.get(n) != t]


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("a,b\nä,1\n".encode(), "utf-8"),
        ("\ufeffa,b\nä,1\n".encode(), "utf-8"),
        ("a,b\nä,1\n".encode("latin-1"), "latin-1"),
        ("a,b\n\u20ac,1\n".encode("cp1252"), "cp1252"),
        ("a,b\nä,1\n".encode("utf-16"), "utf-16"),
        ("a,b\nä,1\n".encode("utf-16-le"), "utf-16-le"),
        (b"a,b\nx,1\n" + b"y,2\n" * 2_000_000 + b"\xe4,3\n", "latin-1"),
    ],
)
def test_encodings(data: bytes, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_bytes(data)
    assert encoding_of(tmp_path / "e.csv") == encoding


WESTERN = {
    "German": "Müller;Größe;Straße;„Köln“;schön;früh;2 €",
    "upper case": "MÜLLER;GRÖSSE;ÄRZTE;LÄNGE",
    "French": "l\u2019hôpital;prénom;décès;où;garçon;naïf;élève",
    "Spanish": "teléfono;año;corazón;dirección;número;¿qué?;María",
    "Italian": "città;perché;più",
    "Danish": "København;Århus;Sjælland;gård",
}


@pytest.mark.parametrize("language", WESTERN)
@pytest.mark.parametrize("encoding", ["cp850", "cp1252"])
def test_files_of_dos_and_of_windows_are_told_apart_by_their_letters(
    language: str, encoding: str, tmp_path: Path, ppdm: Run
) -> None:
    text = "".join(c for c in WESTERN[language] if c.encode(encoding, "ignore"))
    made = text.encode(encoding)
    (tmp_path / "e.csv").write_bytes(b"a;b\n" + b"".join(b"%b;1\n" % w for w in made.split(b";")) * 20)
    assert (tmp_path / "e.csv").read_bytes().decode(encoding_of(tmp_path / "e.csv")).count(text[:4]) == 20
    said = ppdm("plan", "e.csv", "-o", "p.toml").stderr.decode()
    assert f"read as {encoding_of(tmp_path / 'e.csv')}: check the accented letters, or add --encoding" in said


def test_a_doubtful_delimiter_is_said() -> None:
    assert dialect_of(b"a;b\n1;2\n3;4\n", "utf-8", CsvOptions()).sure
    doubtful = dialect_of(b"a;b,c\nx;y,z\nu;v,w\n", "utf-8", CsvOptions())
    assert not doubtful.sure and "two delimiters" in doubtful.doubts[0]
    assert not dialect_of(b"1;2\n3;4\n", "utf-8", CsvOptions()).header


def test_other_tables_have_plans(tmp_path: Path, ppdm: Run) -> None:
    people(600).write_parquet(tmp_path / "p.parquet")
    ppdm("plan", "p.parquet", "-o", "plan.toml", "--gamma", "9")
    assert "csv" not in tomllib.loads((tmp_path / "plan.toml").read_text())
    ppdm("perturb", "p.parquet", "-o", "r.parquet", "--plan", "plan.toml")
    for args, code in (
        (("plan", "r.parquet", "-o", "x.toml"), 4),
        (("plan", "-", "-o", "x.toml"), 2),
        (("plan", "absent.csv", "-o", "x.toml"), 1),
    ):
        assert ppdm(*args, code=code).stderr.startswith(b"ppdm: ")
    assert not (tmp_path / "x.toml").exists()


def test_nobodys_records_are_an_answer_too(tmp_path: Path, ppdm: Run) -> None:
    people(200).with_columns(who=pl.Series([f"p{i // 2}" for i in range(200)])).write_csv(tmp_path / "d.csv")
    (tmp_path / "p.toml").write_text('gamma = 9\nperson = "?"\nrows_per_person = 1\ndrop = ["who"]\n')
    args = ("perturb", "d.csv", "-o", "r.csv", "--plan", "p.toml", "--shuffle")
    assert b"--person COLUMN, or '' for none" in ppdm(*args, code=2).stderr
    assert b"Wrote 200 records to r.csv" in ppdm(*args, "--person", "").stderr
    said = ppdm(*args, "--person", "who", "--force").stderr
    assert b"Wrote 100 records to r.csv" in said and b"all records of a person" in said


def skewed(rows: int) -> pl.DataFrame:
    """Costs, half of them missing, nearly all in one of ten equal bins; and dates that go both ways."""
    rng = np.random.default_rng(3)
    costs = [float(c) if rng.random() < 0.5 else None for c in rng.lognormal(6, 2, rows).round()]
    days = [f"{d:02d}/{m:02d}/2020" for d, m in rng.integers(1, 12, (rows, 2))]
    since = [f"{d % 28 + 1:02d}.05.{2000 + d % 20}" for d in range(rows)]
    return pl.DataFrame({"cost": costs, "born": days, "since": since, "sex": rng.choice(["m", "f"], rows)})


@pytest.mark.parametrize(
    "answer",
    [
        ("--domain", "cost=0:5000"),
        ("--attribute", "cost:domain=0:5000,bins=5"),
        ("--attribute", "cost:domain=0:5000,nulls=true"),
        ("--attribute", "cost:domain=data"),
    ],
)
def test_options_answer_a_plan_whose_column_has_nulls(
    answer: tuple[str, str], tmp_path: Path, ppdm: Run
) -> None:
    skewed(2000).write_csv(tmp_path / "t.csv")
    ppdm("plan", "t.csv", "-o", "p.toml", "--gamma", 9)
    asked = ("perturb", "t.csv", "-o", "r.parquet", "--plan", "p.toml")
    left = ppdm(*asked, code=2).stderr.decode()
    assert "'csv.formats.born', 'attributes.cost.domain'" in left
    ppdm(*asked, *answer, "--date-format", "born=%d/%m/%Y", "--strict")
    told = json.loads(ppdm("inspect", "r.parquet", "--json").stdout)["attributes"][0]
    assert told["nulls"] and told["domain_from"] == ("data" if "data" in answer[1] else "declared")
    ppdm("estimate", "r.parquet", "--truth", "t.csv", "--plan", "p.toml", "--date-format", "born=%d/%m/%Y")


def test_settings_answer_their_own_question() -> None:
    frame = people(300)
    asks = {"gamma": 9, "attributes": {"age": {"gamma": "?", "domain": "?"}}}
    with pytest.raises(UsageError, match=r"leaves open 'attributes.age.gamma'. "):
        perturb(frame, plan=asks, attributes={"age": {"domain": "0:120"}})
    answer = {"age": {"domain": "0:120", "gamma": 4}}
    done = perturb(frame, plan=asks, attributes=answer, rare="merge")
    assert {d.name: d.spec.gamma for d in opened(done.sidecar).channels}["age"] == 4
    done = perturb(frame, gamma=9, rare="merge", attributes={"age": {"nulls": True}})
    assert done.sidecar.by_name["age"].nulls


def test_a_plan_goes_to_entropy_and_on_to_perturb(tmp_path: Path, ppdm: Run) -> None:
    """Of a plan that leaves gamma, a person and a domain open, and all others to the data."""
    (tmp_path / "export.csv").write_bytes(export(3000))
    lines = ppdm("plan", "export.csv", "-o", "p.toml").stderr.decode().splitlines()
    compare = next(shlex.split(line)[1:] for line in lines if line.startswith("ppdm entropy"))
    assert "--plan" in compare and "--attributes" not in compare
    ppdm(*compare, "-o", "design.toml")
    design = tomllib.loads((tmp_path / "design.toml").read_text())
    assert design["record_epsilon"] == 2 and "gamma" not in design and design["csv"]["types"]
    ppdm("perturb", "export.csv", "-o", "r.parquet", "--plan", "design.toml", *ANSWERS[2:])
    assert json.loads(ppdm("inspect", "r.parquet", "--json").stdout)["record"]["perturbed_epsilon"] <= 4
    ppdm(*compare, "--attributes", "3x10", code=2)
    text = re.sub("(?m)^N = .*\n", "", (tmp_path / "p.toml").read_text())
    (tmp_path / "p.toml").write_text(text)
    assert "--attributes" in ppdm(*compare, code=2).stderr.decode()
    text = re.sub(r'domain = "(data|\?)"', 'domain = "0:10"', text)
    (tmp_path / "p.toml").write_text(re.sub(r"(other|scale|prefix) = .*\n", "", text))
    ppdm(*compare)


def test_how_csvkits_examples_are_written_is_found(tmp_path: Path) -> None:
    """Delimiter and encoding of all; of a header alone nobody can tell what it is."""
    for name, content in EXAMPLES.items():
        (tmp_path / name).write_bytes(content)
        found = sniff([tmp_path / name])
        expected = DELIMITERS.get(name, ","), ENCODINGS.get(name, "utf-8")
        assert (found.delimiter, found.encoding) == expected, name
        assert found.header == (not name.startswith("no_header")), name


def test_csvkits_examples_are_planned_for_or_said_to_be_broken(tmp_path: Path, ppdm: Run) -> None:
    codes = []
    for name, content in EXAMPLES.items():
        (tmp_path / name).write_bytes(content)
        code: Any = Anything()
        said = ppdm("plan", name, "-o", "plan.toml", "--gamma", "9", "--force", code=code).stderr.decode()
        codes.append(code.code)
        assert code.code in (0, 1) and "inside ppdm" not in said, name
        assert code.code == 0 or (said.count("\n") == 1 and ". " in said), name
        if code.code == 0:
            ppdm("perturb", name, "-o", "r.csv", "--plan", "plan.toml", "--force", code=(again := Anything()))
            assert again.code in (0, 2, 4), name
    assert codes.count(0) > 30

"""Answers to a plan: given by options, in a plan of before, or one by one, they stay, and the plan runs."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ppdm_cli import perturb, plan
from ppdm_cli.errors import UsageError
from tests.experiments.exports import faults, made
from tests.planning.messy_export import export
from tests.vocabulary import Run

ANSWERS = b"2\nPatient\nnull\nnull\nvalue\n0:20000\n"


@pytest.mark.parametrize("seed", [3, 8, 19])
def test_a_made_export_reaches_a_release_by_two_commands_and_three_answers(seed: int, tmp_path: Path) -> None:
    assert not faults(made(seed), tmp_path)


def test_the_made_exports_find_a_name_that_is_published(tmp_path: Path) -> None:
    """The test of the test: the truth about a name is told to be a ward."""
    there = made(5)
    name = next(n for n, c in there.columns.items() if c.kind == "ward")
    hidden = there.columns[name].__class__("name", there.columns[name].cells, "")
    lied = type(there)(there.data, there.columns | {name: hidden}, there.odd)
    assert any("is published" in f for f in faults(lied, tmp_path))


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def test_plan_counts_other_values_when_a_domain_is_declared_later() -> None:
    frame = pl.DataFrame({"ward": ["x", "y", "z"] * 200})
    earlier = tomllib.loads(plan(frame, record_epsilon=2, person="").text)
    later = plan(frame, plan=earlier, attributes={"ward": {"domain": "x|y|z"}})
    assert perturb(frame, plan=tomllib.loads(later.text), seed=1).sidecar.attributes[0].domain.size == 4
    assert later.columns[0].N == 4


def test_what_is_typed_is_in_the_plan_which_runs_as_it_is(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "e.csv").write_bytes(export(2000))
    typed = ("--person", "Patient", "--rows-per-person", 2, "--odd", "null", "--domain", "Kosten EUR=0:20000")
    typed += ("--keep", "Geschlecht", "--drop", "CRP", "--null", "unklar", "--type", "Alter=double")
    said = ppdm("plan", "e.csv", "-o", "p.toml", "--record-epsilon", 2, *typed).stderr.decode()
    there = read(tmp_path / "p.toml")
    assert there["person"] == "Patient" and there["rows_per_person"] == 2 and there["keep"] == ["Geschlecht"]
    assert (
        "CRP" in there["drop"]
        and "unklar" in there["csv"]["null"]
        and there["csv"]["types"]["Alter"] == "double"
    )
    assert there["attributes"]["Kosten EUR"]["domain"] == "0:20000" and there["csv"]["odd"] == {
        "Alter": "null",
        "Station": "null",
    }
    assert "epsilon 4 for a person" in " ".join(said.split())
    ppdm("perturb", "e.csv", "-o", "r.parquet", "--plan", "p.toml")
    promised = json.loads(ppdm("inspect", "r.parquet", "--json").stdout)["record"]
    assert 3.9 < promised["perturbed_epsilon"] <= 4


def test_a_later_plan_keeps_earlier_answers_and_settings(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "e.csv").write_bytes(export(2000))
    ppdm("plan", "e.csv", "-o", "p.toml", "--gamma", 9)
    text = (
        (tmp_path / "p.toml")
        .read_text()
        .replace('person = "?"', 'person = ""')
        .replace("bins = 10", "bins = 6")
    )
    text = text.replace('domain = "?"', "domain = [0, 20000]").replace('class = ""', "")
    (tmp_path / "p.toml").write_text(f"class = 'Geschlecht'\n{text}")
    said = ppdm("plan", "e.csv", "-o", "p.toml", "--plan", "p.toml", "--odd", "null").stderr.decode()
    there = read(tmp_path / "p.toml")
    assert "Open questions" not in said and there["gamma"] == 9 and there["bins"] == 6 and there["person"] == ""
    assert there["class"] == "Geschlecht" and there["attributes"]["Kosten EUR"]["domain"] == [0, 20000]
    again = ppdm(
        "plan", "e.csv", "-o", "q.toml", "--plan", "p.toml", "--record-epsilon", 3, "--drop", "Kosten EUR"
    )
    later = read(tmp_path / "q.toml")
    assert "gamma" not in later and later["record_epsilon"] == 3 and "Kosten EUR" in later["drop"], again
    ppdm("perturb", "e.csv", "-o", "r.parquet", "--plan", "p.toml")
    ppdm("plan", "e.csv", "-o", "p.toml", code=2)
    ppdm("plan", "e.csv", "-o", "q.toml", "--plan", "p.toml", "--force", "--drop", "cost", code=2)
    (tmp_path / "bad.toml").write_text("gama = 9\n")
    assert "line 1" in ppdm("plan", "e.csv", "-o", "x.toml", "--plan", "bad.toml", code=2).stderr.decode()


def test_a_later_plan_proposes_in_the_words_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_bytes(export(500))
    first = plan(tmp_path / "e.csv", tmp_path / "p.toml", record_epsilon=2)
    again = plan(tmp_path / "e.csv", plan=tmp_path / "p.toml")
    assert [c.proposal for c in again.columns] == [c.proposal for c in first.columns]


def test_a_column_that_was_answered_is_not_asked_about_again(tmp_path: Path) -> None:
    rows = [f"{'abcde'[i * 7 % 5]},{'xyz'[i % 3]},{i * 7919 % 90000 + 10000}\n" for i in range(600)]
    (tmp_path / "t.csv").write_text("name,ward,number\n" + "".join(rows))
    first = plan(tmp_path / "t.csv", tmp_path / "p.toml", record_epsilon=2)
    assert [*first.questions] == ["attributes.name.domain"] and "number" in read(tmp_path / "p.toml")["drop"]
    wanted = {"name": {"domain": "data"}, "number": {"domain": "0:100000"}}
    later = plan(tmp_path / "t.csv", tmp_path / "q.toml", plan=tmp_path / "p.toml", attributes=wanted)
    assert not later.questions and later.columns[2].proposal.startswith("domain=0:100000")
    perturb(tmp_path / "t.csv", plan=tmp_path / "q.toml")
    with pytest.raises(UsageError, match="nowhere"):
        plan(tmp_path / "t.csv", keep=["nowhere"])


def test_a_column_with_settings_of_its_own_is_not_dropped_again(tmp_path: Path, ppdm: Run) -> None:
    """Text of too many values, for which the owner has found groups since."""
    rows = [f"town {i % 300},{'xyz'[i % 3]}\n" for i in range(600)]
    (tmp_path / "t.csv").write_text("town,ward\n" + "".join(rows))
    (tmp_path / "g.csv").write_text("town,side\n" + "".join(f"town {i},{'NS'[i % 2]}\n" for i in range(300)))
    ppdm("plan", "t.csv", "-o", "p.toml", "--record-epsilon", 2)
    there = (tmp_path / "p.toml").read_text()
    assert read(tmp_path / "p.toml")["drop"] == ["town"]
    there = re.sub(r"(?s)drop = \[.*?\]\n", "", there) + '[attributes.town]\nmapping = "g.csv"\n'
    (tmp_path / "p.toml").write_text(there)
    ppdm("plan", "t.csv", "-o", "p.toml", "--plan", "p.toml")
    assert read(tmp_path / "p.toml")["attributes"]["town"] == {"mapping": "g.csv"}
    ppdm("perturb", "t.csv", "-o", "r.parquet", "--plan", "p.toml")


@pytest.mark.parametrize(
    ("values", "other"), [("a|b", False), ("a|c", False), ("a|b|c|d", False), (None, True)]
)
def test_a_plan_adds_no_other_value_where_all_are_listed(
    values: str | None, other: bool, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("kind,x\n" + "".join(f"{'ab'[i % 2]},{i % 20}\n" for i in range(400)))
    own = {"kind": {"domain": values}} if values else {}
    plan(tmp_path / "t.csv", tmp_path / "p.toml", record_epsilon=2, attributes=own)
    assert ("other" in read(tmp_path / "p.toml")["attributes"]["kind"]) == other


def test_questions_are_asked_one_by_one_and_can_be_left(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "e.csv").write_bytes(export(2000))
    said = ppdm("plan", "e.csv", "-o", "p.toml", "-i", stdin=b"2\nPatient\nwhat\n").stderr.decode()
    assert "epsilon 2 for a person" in " ".join(said.split()) and "unknown choice 'what'" in said
    there = read(tmp_path / "p.toml")
    assert there["record_epsilon"] == 2 and there["person"] == "Patient" and there["csv"]["odd"]["Alter"] == "?"
    on = next(shlex.split(line)[1:] for line in said.splitlines() if line.startswith("ppdm plan"))
    said = ppdm(*on, stdin=b"null\nnull\nnull\ndrop\n").stderr.decode()
    assert "Open questions" not in said and "person: the" not in said, "what was answered is not asked again"
    assert "Kosten EUR" in read(tmp_path / "p.toml")["drop"]
    ppdm("perturb", "e.csv", "-o", "r.parquet", "--plan", "p.toml")
    ppdm("plan", "e.csv", "-o", "q.toml", "-i", stdin=ANSWERS)
    ppdm("perturb", "e.csv", "-o", "s.parquet", "--plan", "q.toml")
    assert "Kosten EUR" in pl.read_parquet(tmp_path / "s.parquet").columns


def test_ctrl_c_at_a_terminal_keeps_the_answers_so_far(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    (tmp_path / "e.csv").write_bytes(export(500))
    controlling, terminal = pty.openpty()
    command = [sys.executable, "-m", "ppdm_cli", "plan", "e.csv", "-o", "p.toml", "-i"]
    there = {"stdin": terminal, "stdout": terminal, "stderr": terminal, "start_new_session": True}
    with subprocess.Popen(command, cwd=tmp_path, **there) as running:
        said = b""
        for asked, answer in ((b"record_epsilon: ", b"2\r"), (b"person: the", b"")):
            while asked not in said and select.select([controlling], [], [], 60)[0]:
                said += os.read(controlling, 4096)
            assert asked in said
            os.write(controlling, answer)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
    assert read(tmp_path / "p.toml")["record_epsilon"] == 2 and read(tmp_path / "p.toml")["person"] == "?"


def test_a_plan_for_later_batches_asks_for_the_domains_of_dates(tmp_path: Path, ppdm: Run) -> None:
    """The next month has another ward, the first nulls, and days that the first month has not."""
    months = [[f"2026-0{m}-{1 + i * 7 % 28:02d}" for i in range(600)] for m in (1, 2)]
    wards = ["AB"[i * 11 % 2] for i in range(600)]
    for name, days, ward in (("a", months[0], wards), ("b", months[1], [*wards[:500], *["C", ""] * 50])):
        times = [f"{d}T{i % 24:02d}:00:00.000000" for i, d in enumerate(days)]
        rows = "".join(f"{d},{t},{w}\n" for d, t, w in zip(days, times, ward, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"day,time,ward\n{rows}")
    ppdm("plan", "a.csv", "-o", "p.toml", "--record-epsilon", 4, "--open-domains")
    there = read(tmp_path / "p.toml")
    assert there["open_domains"] and there["csv"]["types"]["time"] == "timestamp[us]"
    assert [there["attributes"][n]["domain"] for n in ("day", "time", "ward")] == ["?", "?", "data"]
    answers = b"2026-01-01:2026-12-31\n2026-01-01:2026-12-31\n"
    ppdm("plan", "a.csv", "-o", "p.toml", "--plan", "p.toml", "-i", stdin=answers)
    ppdm("perturb", "a.csv", "-o", "a.parquet", "--plan", "p.toml", "--shuffle")
    ppdm("perturb", "b.csv", "-o", "b.parquet", "--plan", "p.toml", "--like", "a.parquet")
    months_shown = pl.read_parquet(tmp_path / "b.parquet")["ward"].value_counts()
    assert "(other)" in months_shown["ward"].to_list()
    closed = ppdm("plan", "a.csv", "-o", "c.toml", "--record-epsilon", 4).stderr
    assert b"Open questions" not in closed and "# open_domains = true" in (tmp_path / "c.toml").read_text()

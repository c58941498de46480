"""`ppdm estimate` as a miner calls it: tables, files, pictures, streams, several releases, refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ppdm_cli import estimate, perturb
from ppdm_cli.releases import read_sidecar
from tests.made_releases import DOMAINS, ROWS, damaged, made
from tests.vocabulary import Run, listing, people, read_table, seen


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return made(tmp_path)


def plain(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them: no number is null."""
    return [
        {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        for row in frame.to_dicts()
    ]


CALLS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "all": ((), {}),
    "some": (("--attribute", "age", "--attribute", "region"), {"attributes": ["age", "region"]}),
    "by class": (("--by", "group", "--attribute", "age"), {"by": "group", "attributes": ["age"]}),
    "jointly": (("--joint", "region,member"), {"joint": ["region", "member"]}),
    "with the class": (("--joint", "region,member,group"), {"joint": ["region", "member", "group"]}),
    "inverse": (("--estimator", "inverse"), {"estimator": "inverse"}),
    "truth": (("--truth", "original.parquet"), {"truth": "original.parquet"}),
    "truth by class": (("--truth", "original.csv", "--by", "group"), {"truth": "original.csv", "by": "group"}),
    "two": (("r.arrow",), {}),
}


@pytest.mark.parametrize("call", CALLS)
def test_json_is_one_object_with_the_library_s_figures(call: str, release: Path, ppdm: Run) -> None:
    args, wishes = CALLS[call]
    done = ppdm("estimate", "r.parquet", *args, "--json")
    assert done.stderr == b""
    said = json.loads(done.stdout)
    expected = estimate(["r.parquet", "r.arrow"] if call == "two" else "r.parquet", **wishes)
    assert said["rows"] == plain(expected.frame)
    assert [t["error"] for t in said["tables"]] == [t.error for t in expected.tables]
    assert said["records"] == ROWS * (2 if call == "two" else 1)
    assert (said["estimator"], said["remarks"]) == (expected.estimator, expected.remarks)
    assert ("true" in said["rows"][0]) == ("truth" in call)


def test_every_format_of_a_release_gives_the_same(release: Path, ppdm: Run) -> None:
    """With a seed the three files hold the same records."""
    rows = [
        json.loads(ppdm("estimate", f"r.{s}", "--json").stdout)["rows"] for s in ("parquet", "csv", "arrow")
    ]
    assert rows[0] == rows[1] == rows[2]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "arrow"])
def test_the_table_in_a_file_has_a_sidecar_that_inspect_reads(suffix: str, release: Path, ppdm: Run) -> None:
    name = f"e.{suffix}"
    done = ppdm("estimate", "r.parquet", "-o", name, "--by", "group", "--attribute", "age")
    assert (done.stdout, done.stderr) == (b"", b""), "a table in a file is not shown as well"
    expected = estimate(release / "r.parquet", by="group", attributes=["age"])
    found = read_table(release / name).to_pylist()
    assert found == (plain(expected.frame) if "csv" in suffix else expected.frame.to_dicts())
    sidecar = read_sidecar(release / f"{name}.ppdm.json", None, name)
    assert (sidecar.stage, sidecar.release) == ("estimated", expected.sidecar.release)
    assert sidecar.attributes == expected.sidecar.attributes
    said = ppdm("inspect", name).stdout.decode()
    assert said.split(": ")[1].startswith("estimated, 24 records.") and "promises nothing about records" in said
    assert b"is at stage 'estimated'" in ppdm("estimate", name, code=3).stderr


def test_several_releases_are_one_and_those_of_other_plans_are_refused(release: Path, ppdm: Run) -> None:
    ppdm("perturb", "original.parquet", "-o", "next.csv", "--like", "r.parquet")
    said = json.loads(ppdm("estimate", "r.parquet", "next.csv", "--json").stdout)
    parts = [json.loads(ppdm("estimate", n, "--json").stdout) for n in ("r.parquet", "next.csv")]
    observed = [[r["observed"] for r in s["rows"]] for s in (said, *parts)]
    assert observed[0] == [a + b for a, b in zip(*observed[1:], strict=True)]
    ppdm("estimate", "r.parquet", "next.csv", "-o", "both.csv")
    sidecar = read_sidecar(release / "both.csv.ppdm.json", None, "both.csv")
    assert [p.records for p in sidecar.history] == [ROWS, ROWS]
    kept = {"class_": "group", "keep": ["group"], "attributes": DOMAINS}
    edges = DOMAINS | {"age": {"domain": [0, 96], "bins": 12}}
    for name, wishes, difference in (
        ("gamma", {**kept, "gamma": 5}, "gamma 9 and gamma 5"),
        ("edges", {**kept, "attributes": edges}, "'age' differs in edges"),
        ("column", {**kept, "drop": ["member"]}, "only 'r.parquet' has the column 'member'"),
        ("class", {**kept, "class_": None}, "different classes: 'group' and none"),
    ):
        perturb(people(ROWS), release / f"{name}.parquet", **{"gamma": 9, **wishes})
        stderr = ppdm("estimate", "r.parquet", f"{name}.parquet", code=3).stderr.decode()
        assert difference in stderr and stderr.count("\n") == 1, stderr


def test_what_does_not_fit_is_one_line_with_the_next_step(release: Path, ppdm: Run) -> None:
    faults = damaged(release)
    before = listing(release)
    for command in ("estimate", "reconstruct", "attack"):
        for fault, (args, code, words) in faults.items():
            done = ppdm(command, *args, "-o", "new.csv", code=code)
            said = done.stderr.decode()
            assert words in said and said.count("\n") == 1 and ". " in said, (command, fault, said)
            assert "inside ppdm" not in said and not seen(done.stdout + done.stderr), (fault, said)
            assert done.stdout == b"" and listing(release) == before, (command, fault)

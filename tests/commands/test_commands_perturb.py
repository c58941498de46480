"""`ppdm perturb` as a person types it: every option of the design, through the real command line."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ppdm_cli import CsvOptions, perturb
from ppdm_cli.releases import decode, inspection, open_release, opened
from ppdm_cli.sidecar import Attribute
from tests.vocabulary import Run, listing, people, read_table


@pytest.fixture
def data(tmp_path: Path) -> Path:
    people().write_csv(tmp_path / "data.csv")
    return tmp_path


def attributes(folder: Path, name: str) -> dict[str, Attribute]:
    return {a.name: a for a in open_release(folder / name)[1].attributes}


def gammas(folder: Path, name: str) -> dict[str, Any]:
    return {c.name: c.spec.gamma for c in opened(open_release(folder / name)[1]).channels}


def report(done: subprocess.CompletedProcess[bytes]) -> str:
    """What people read: all of it on stderr, without escapes where there is no terminal."""
    assert done.stdout == b"" and b"\x1b" not in done.stderr
    return " ".join(done.stderr.decode().split())


OPTIONS: dict[str, dict[str, Any]] = {
    "--gamma 9 --class group --keep group --drop since": {
        "gamma": 9, "class_": "group", "keep": "group", "drop": "since",
    },
    "--gamma 9 --bins 50 --attribute age:gamma=5,bins=24,domain=0:120,representative=right": {
        "gamma": 9, "bins": 50,
        "attributes": {"age": {"gamma": 5, "bins": 24, "domain": "0:120", "representative": "right"}},
    },
    "--gamma 9 --domain income=0:40000 --clip --representative left --keep-order": {
        "gamma": 9, "clip": True, "representative": "left", "keep_order": True,
        "attributes": {"income": {"domain": "0:40000"}},
    },
    "--gamma 9 --domain 'region=north|south|east|west' --rare merge --shuffle": {
        "gamma": 9, "rare": "merge", "shuffle": True,
        "attributes": {"region": {"categories": ["north", "south", "east", "west"]}},
    },
    "--record-epsilon 4 --publish 2 --class group --class-in-budget": {
        "record_epsilon": 4, "publish": 2, "class_": "group", "class_in_budget": True,
    },
    "--rho1 0.05 --rho2 0.5 --matrix band": {"rho1": 0.05, "rho2": 0.5, "matrix": "band"},
    "--plan plan.toml --gamma 2 --attribute income:bins=5": {
        "plan": "plan.toml", "gamma": 2, "attributes": {"income": {"bins": 5}},
    },
    "--gamma 9 --null north --type age=float64": {
        "gamma": 9, "csv": CsvOptions(nulls=["", "north"], types={"age": "float64"}),
    },
}  # fmt: skip


@pytest.mark.parametrize("line", OPTIONS)
def test_options_are_the_arguments_of_the_library(line: str, data: Path, ppdm: Run) -> None:
    (data / "plan.toml").write_text('gamma = 9\nkeep = ["group"]\n[attributes.age]\ngamma = 4.5\n')
    ppdm("perturb", "data.csv", "-o", "a.csv", "--seed", "3", *shlex.split(line))
    perturb("data.csv", "b.csv", seed=3, **OPTIONS[line])
    assert (data / "a.csv").read_bytes() == (data / "b.csv").read_bytes()


def test_several_parts_are_one_release(data: Path, ppdm: Run) -> None:
    for i in range(3):
        people()[i * 300 : i * 300 + 300].write_csv(data / f"{i}.csv")
    ppdm("perturb", "0.csv", "1.csv", "2.csv", "-o", "b.parquet", "--gamma", "9", "--seed", "1")
    whole = perturb(people()[:900], gamma=9, seed=1).frame
    assert pl.from_arrow(read_table(data / "b.parquet")).equals(whole)


def test_json_is_one_object_on_standard_output_and_nothing_else(data: Path, ppdm: Run) -> None:
    done = ppdm("perturb", "data.csv", "-o", "r.csv", "--gamma", "9", "--drop", "since", "--json")
    said = json.loads(done.stdout)
    assert done.stderr == b"" and said["dropped"] == ["since"] and said["telling_order"] == []
    sidecar = open_release(data / "r.csv")[1]
    assert {k: said[k] for k in inspection.promise_figures(sidecar)} == json.loads(
        json.dumps(inspection.promise_figures(sidecar))
    )
    assert json.loads(ppdm("inspect", "r.csv", "--json").stdout)["record"] == said["record"]


def test_gamma_is_given_derived_from_rhos_or_from_a_budget(data: Path, ppdm: Run) -> None:
    base = ("perturb", "data.csv", "--force", "-o", "r.csv")
    ppdm(*base, "--gamma", "4.5", "--attribute", "age:gamma=5,bins=24")
    found, gamma = attributes(data, "r.csv"), gammas(data, "r.csv")
    assert [gamma[n] for n in ("age", "income")] == [5, 4.5]
    assert found["age"].N <= 24 and found["income"].N <= 10
    ppdm(*base, "--rho1", "0.05", "--rho2", "0.5", "--attribute", "income:rho1=0.1,rho2=0.5")
    found, gamma = attributes(data, "r.csv"), gammas(data, "r.csv")
    assert [gamma[n] for n in ("age", "income")] == pytest.approx([19, 9], rel=1e-5)
    assert gamma["age"] <= 19 and gamma["income"] <= 9
    ppdm(*base, "--record-epsilon", "8", "--attribute", "age:gamma=5")
    gamma = gammas(data, "r.csv")
    own = {g for n, g in gamma.items() if n != "age"}
    assert len(own) == 1 and gamma["age"] == 5
    assert own.pop() == pytest.approx(math.exp((8 - math.log(5)) / 5), rel=1e-5)
    epsilon = sum(math.log(g) for g in gamma.values())
    assert 7.9999 < epsilon <= 8


def test_without_a_gamma_safe_budgets_are_offered_with_what_they_mean(data: Path, ppdm: Run) -> None:
    said = report(ppdm("perturb", "data.csv", "-o", "r.csv", "--attribute", "age:gamma=5", code=2))
    ways = re.findall(r"--record-epsilon (\S+) \(.*?at most ([\d.]+)%\)", said)
    assert [e for e, _ in ways] == ["1", "2"] and "--gamma" not in said
    for epsilon, shown in ways:
        done = ppdm("perturb", "data.csv", "-o", "r.csv", "--force", "--record-epsilon", epsilon, "--json")
        promise = json.loads(done.stdout)["record"]["worst_posterior"]
        assert promise <= float(shown) / 100 < promise + 0.005


def test_a_seed_repeats_the_release_and_promises_nothing(data: Path, ppdm: Run) -> None:
    args = ("perturb", "data.csv", "--gamma", "9")
    assert "918273645" not in report(ppdm(*args, "-o", "a.parquet", "--seed", "918273645"))
    ppdm(*args, "-o", "b.parquet", "--seed", "918273645")
    ppdm(*args, "-o", "c.parquet")
    ppdm(*args, "-o", "d.parquet")
    files = listing(data)
    assert files["a.parquet"] == files["b.parquet"] and files["c.parquet"] != files["d.parquet"]
    sidecar = decode(files["a.parquet.ppdm.json"], "a")
    assert sidecar.privacy.coins == "seeded" and sidecar.privacy.perturbed_gamma is None
    assert not any(b"918273645" in content for content in files.values())
    assert read_table(data / "c.parquet") != read_table(data / "d.parquet")


def test_a_hint_is_typed_as_it_stands_whatever_the_column_is_called(tmp_path: Path, ppdm: Run) -> None:
    table = {"Kosten & so": [f"v{i % 40}" for i in range(300)], "x": [i * 7 % 3 for i in range(300)]}
    pl.DataFrame(table).write_csv(tmp_path / "data.csv")
    base = ("perturb", "data.csv", "-o", "r.csv", "--gamma", "9", "--shuffle")
    said = ppdm(*base, code=4).stderr.decode()
    (hint,) = re.findall(r"domain: (--domain .*=@file\S*)", said)
    (tmp_path / "file").write_text("\n".join(f"v{i}" for i in range(40)))
    ppdm(*base, *shlex.split(hint))


@pytest.mark.parametrize("name", ["a=b", "=", "x:y", "a = b"])
def test_a_column_of_any_name_has_settings(name: str, tmp_path: Path, ppdm: Run) -> None:
    pl.DataFrame({name: [1, 2] * 200, "b": [0, 1] * 200}).write_csv(tmp_path / "d.csv")
    setting = f"{name}:gamma=5,domain=1:2"
    ppdm("perturb", "d.csv", "-o", "o.csv", "--gamma", "9", "--attribute", setting, "--shuffle")
    assert gammas(tmp_path, "o.csv") == {name: 5, "b": 9}


@pytest.mark.parametrize(
    ("typed", "step"),
    [
        ("--gamma 9 --drop n sex", "Repeat the option: --drop n --drop sex"),
        ("--gamma 9 --class sex n", "--class takes one column"),
        ("--gamma 9 --shuffle sex", "Write an option before each column, or leave it out"),
        ("--shuffle --gamma 9 sex", "Write an option before each column, or leave it out"),
    ],
)
def test_a_column_among_the_files_is_given_an_option_that_takes_one(
    typed: str, step: str, data: Path, ppdm: Run
) -> None:
    pl.DataFrame({"n": [1, 2], "sex": ["f", "m"]}).write_csv(data / "two.csv")
    said = ppdm("perturb", "two.csv", *typed.split(), "-o", "r.csv", code=2).stderr.decode()
    assert "is a column of 'two.csv', not a file" in said and step in said

"""Mistakes that people make on the command line: what each is told, and that the advice is of use.

A message has at most 30 words, names the mistake itself, and never suggests publishing what it should not.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb, reconstruct
from tests.vocabulary import Run, listing

PLANS = {
    "keeps.toml": 'gamma = 9\nkeeps = ["sex"]\n',
    "bin.toml": 'gamma = 9\ndrop = ["patient"]\n\n[attributes.age]\nbin = 5\n',
    "table.toml": 'gamma = 9\ndrop = ["patient"]\n\n[attributes.age]\ndomain = "0-120"\n',
    "csv.toml": 'gamma = 9\n[csv]\ndelimeter = ";"\n',
    "nine.toml": 'gamma = "nine"\n',
    "rare.toml": 'gamma = 9\nrare = "merg"\n',
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng, n = tmp_path_factory.mktemp("mistakes"), np.random.default_rng(1), 400
    data = pl.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in rng.permutation(n)],
            "age": rng.integers(18, 90, n),
            "sex": rng.choice(["F", "M"], n).tolist(),
            "smoker": rng.choice(["yes", "no"], n).tolist(),
        }
    )
    data.write_csv(folder / "patients.csv")
    data.write_csv(folder / "semicolons.csv", separator=";")
    data.write_csv(folder / "tabs.csv", separator="\t")
    data.write_csv(folder / "bars.csv", separator="|")
    made = perturb(data, folder / "release.csv", gamma=9, drop=["patient"], shuffle=True, seed=1)
    assert made.sidecar.records == n
    reconstruct(folder / "release.csv", folder / "usable.csv", method="global")
    for name in ("release.csv", "release.csv.ppdm.json"):
        shutil.copy(folder / name, folder / name.replace("release", "cut"))
    (folder / "cut.csv").write_bytes((folder / "release.csv").read_bytes()[:-20])
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (folder / "book.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "key.txt").write_text("0" * 60 + "\n")
    for name, text in PLANS.items():
        (folder / name).write_text(text)
    return folder


P = "perturb patients.csv -o new.csv"
MISTAKES: dict[str, tuple[int, str]] = {
    # files
    "estimate relese.csv": (1, "'relese.csv' does not exist; did you mean 'release.csv'?"),
    "perturb patient.csv -o new.csv --gamma 9": (1, "did you mean 'patients.csv'?"),
    "estimate release.csv --truth nothing.dat": (1, "'nothing.dat' does not exist; check its name"),
    "perturb book.xlsx -o new.csv --gamma 9": (2, "spreadsheets aren't supported; use a .csv"),
    "train-tree book.xlsx -o tree.json": (2, "spreadsheets aren't supported"),
    "perturb patients.csv -o new.xlsx --gamma 9": (2, "spreadsheets aren't supported"),
    "estimate release.csv.ppdm.json": (2, "it is a sidecar's; name the data file: 'release.csv'"),
    "reconstruct release.csv.ppdm.json -o new.csv": (2, "it is a sidecar's; name the data file: 'release.csv'"),
    "query release.csv.ppdm.json 'select count()'": (2, "it is a sidecar's; name the data file: 'release.csv'"),
    "perturb semicolons.csv -o new.csv --gamma 9": (1, "add --delimiter ';', and --decimal , if"),
    "perturb semicolons.csv -o new.csv --gamma 9 --drop patient": (1, "add --delimiter ';'"),
    "perturb tabs.csv -o new.csv --gamma 9": (1, "add --delimiter '\\t'"),
    "train-tree bars.csv -o tree.json --class sex": (1, "add --delimiter '|'"),
    "perturb ragged.csv -o new.csv --gamma 9": (1, "it has 1 cells where the header has 2; fix"),
    # columns
    f"{P} --gamma 9 --drop patient age": (2, "not a file; repeat the option: --drop patient --drop age"),
    f"{P} --gamma 9 --keep sex smoker age": (2, "repeat the option: --keep sex --keep smoker --keep age"),
    f"{P} --gamma 9 --drop patient --class sex smoker": (2, "not a file; --class takes one column"),
    "perturb --drop patient age patients.csv -o new.csv --gamma 9": (2, "--drop patient --drop age"),
    "estimate release.csv --attribute age sex": (2, "repeat the option: --attribute age --attribute sex"),
    "estimate release.csv --by sex smoker": (2, "--by takes one column"),
    "train-tree patients.csv --class sex --drop patient age -o tree.json": (2, "--drop patient --drop age"),
    f"{P} --gamma 9 --drop patient,age": (2, "name them one by one: --drop patient --drop age"),
    f"{P} --gamma 9 --keep sex,smoker": (2, "name them one by one: --keep sex --keep smoker"),
    f"{P} --gamma 9 --drop patients": (2, "did you mean 'patient'?"),
    f"{P} --gamma 9 --drop PATIENT": (2, "did you mean 'patient'?"),
    # settings
    f"{P} --drop patient": (2, "use --record-epsilon 1 (a belief of 5% becomes at most 12.6%) or"),
    f"{P} --gamma 0.5 --drop patient": (4, "gamma must be above 1: a release at 1 carries no information"),
    f"{P} --gamma nine --drop patient": (2, "gamma: 'nine' is not a number"),
    f"{P} --gamma 9 --bins ten --drop patient": (2, "bins: 'ten' is not a whole number"),
    f"{P} --gamma 9 --record-epsilon 4 --drop patient": (2, "use only one of --gamma, --rho1"),
    f"{P} --gamma 9 --drop patient --domain age=0-120": (2, "'age': a domain is neither an interval"),
    f"{P} --gamma 9 --drop patient --attribute age:bin=5": (2, "'age': unknown setting 'bin' of an attribute;"),
    f"{P} --gamma 9 --drop patient --attribute age:gamma=x": (2, "'age': gamma: 'x' is not a number"),
    f"{P} --gamma 9 --drop patient --matrix bnad": (2, "did you mean 'band'?"),
    f"{P} --gamma 9 --drop patient --type age=dobule": (2, "did you mean 'double'?"),
    f"{P} --plan keeps.toml": (2, "line 2: unknown setting 'keeps' of a plan; did you mean 'keep'?"),
    f"{P} --plan bin.toml": (2, "'bin.toml', line 5: the column 'age': unknown setting 'bin'"),
    f"{P} --plan table.toml": (2, "'table.toml', line 4: the column 'age': a domain is neither"),
    f"{P} --plan csv.toml": (2, "line 3: unknown setting 'delimeter' of csv; did you mean 'delimiter'?"),
    f"{P} --plan nine.toml": (2, "'nine.toml': gamma: 'nine' is not a number"),
    f"{P} --plan rare.toml": (2, "did you mean 'merge'?"),
    f"{P} --plan release.csv": (2, "is not valid TOML (line 1); name a TOML file"),
    f"{P} --plan key.txt": (2, "name a TOML file"),
    "estimate release.csv --level 95": (2, "a level is a share from 0.5 to 0.9999, not 95;"),
    "query release.csv 'select count()' --level 99.9": (2, "such as --level 0.999"),
    "estimate release.csv --level 2": (2, "such as --level 0.9"),
    # values outside a declared domain
    f"{P} --gamma 9 --drop patient --domain sex=M|W": (1, "fix the domain, or use --attribute sex:other=true"),
    f"{P} --gamma 9 --drop patient --domain sex=M|W --clip": (1, "declared values that never occur: 'W'"),
    f"{P} --gamma 9 --drop patient --domain smoker=Yes|No": (1, "never occur: 'No', 'Yes'; fix the domain\n"),
    f"{P} --gamma 9 --drop patient --domain smoker=yes|never": (1, "never occur: 'never'"),
    f"{P} --gamma 9 --drop patient --domain age=0:60": (1, "widen the domain, or add --clip"),
    # releases, originals and their sidecars
    "estimate patients.csv": (3, "so it is not a release; perturb it first, or add --sidecar FILE"),
    "query patients.csv 'select count()'": (3, "perturb it first"),
    "reconstruct patients.csv -o new.csv": (3, "perturb it first"),
    "attack patients.csv": (3, "perturb it first"),
    "inspect patients.csv": (3, "perturb it first"),
    f"{P} --like patients.csv": (3, "use --like with a release that ppdm perturb made"),
    f"{P} --like relese.csv": (1, "'relese.csv' does not exist; did you mean 'release.csv'?"),
    "estimate release.csv --sidecar nothing.json": (1, "the sidecar 'nothing.json' does not exist"),
    "query release.csv 'select count()' --sidecar release.csv.ppdm.jso": (1, "did you mean"),
    "estimate release.csv --sidecar keeps.toml": (3, "the sidecar 'keeps.toml' is not valid: it is not JSON"),
    "estimate cut.csv": (3, "'cut.csv' was changed after it was published, or its sidecar is another's;"),
    "reconstruct usable.csv -o new.csv": (3, "is at stage 'reconstructed', not perturbed; use the release"),
    "estimate usable.csv": (3, "use the release that it was made from"),
    # keys
    f"{P} --gamma 9 --id patient --key-file release.csv": (2, "it does not hold 64 hex digits"),
    f"{P} --gamma 9 --id patient --key-file key.txt": (2, "is not a key file"),
    # questions
    "query release.csv": (2, "is not a question; end with a question: ppdm query release.csv 'select count()'"),
    "query release.csv usable.csv": (2, "'usable.csv' is not a question"),
    "query 'select count()' release.csv": (2, "'release.csv' is not a question"),
    "query 'select count()'": (2, "the question comes without a release"),
    "query relese.csv": (2, "'relese.csv' is not a question"),
}


def split(line: str) -> list[str]:
    return [w.strip("'") if w.startswith("'") else w for w in re.findall(r"'[^']*'|\S+", line)]


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_named_with_its_fix(line: str, made: Path, tmp_path: Path, ppdm: Run) -> None:
    code, words = MISTAKES[line]
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    before = listing(tmp_path)
    done = ppdm(*split(line), code=code)
    message = done.stderr.decode()
    assert words in message and message.count("\n") == 1, message
    assert len(message.split()) <= 32, f"{len(message.split()) - 2} words"  # after "ppdm: kind:"
    assert not re.search(r"\b(mend|say|told|is no [a-z])\b|\bP\d{5}\b", message), message
    assert "publish" not in message or "published" in message, "no hint leads to publishing more"
    assert listing(tmp_path) == before


CLICKS = {
    "perturb patients.csv --gamma 9": "Add it: ppdm perturb patients.csv --gamma 9 -o release.parquet",
    "plan patients.csv": "Add it: ppdm plan patients.csv -o plan.toml",
    "train-tree patients.csv --class sex": "--class sex -o tree.json",
    "reconstruct release.csv": "Add it: ppdm reconstruct release.csv -o result.parquet",
    "perturb patients.csv -o new.csv --epsilon 1": "Did you mean '--record-epsilon'?",
    "perturb patients.csv -o new.csv --eps 1": "Did you mean '--record-epsilon'?",
    "perturb patients.csv -o new.csv --gama 9": "--gamma",
    "estmate release.csv": "Did you mean 'estimate'?",
    "pertub patients.csv": "Did you mean 'perturb'?",
}


@pytest.mark.parametrize("line", CLICKS)
def test_what_click_refuses_has_a_fix_to_paste(line: str, made: Path, tmp_path: Path, ppdm: Run) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    last = ppdm(*split(line), code=2).stderr.decode().splitlines()[-1]
    assert CLICKS[line] in last and len(last.split()) <= 30, last
    for fix in re.findall(r"Add it: ppdm (.*)", last):
        ppdm(*split(fix), *["--drop", "patient"] * ("perturb" in fix), *["--shuffle"] * ("perturb" in fix))


def test_fixes_that_messages_show_work_as_they_are(made: Path, tmp_path: Path, ppdm: Run) -> None:
    """What is pasted from a message is the end of the mistake."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    perturbs = ("perturb", "patients.csv", "--drop", "patient", "--shuffle", "--gamma", "9", "-o")
    ppdm(*perturbs, "a.csv", "--domain", "sex=M|W", "--attribute", "sex:other=true")
    ppdm("perturb", "semicolons.csv", *perturbs[2:], "b.csv", "--delimiter", ";", "--decimal", ",")
    ppdm("perturb", "tabs.csv", *perturbs[2:], "c.csv", "--delimiter", "tab")
    ppdm("query", "release.csv", "select count()")
    ppdm(*perturbs[:5], "-o", "d.csv", "--record-epsilon", "2")
    assert b"28" in ppdm("inspect", "d.csv").stdout


def test_a_single_column_with_such_a_name_can_be_read(tmp_path: Path, ppdm: Run) -> None:
    """What looks like another separator may be a name: the option says so, and a release's sidecar does."""
    pl.DataFrame({"a;b": ["x", "y"] * 50}).write_csv(tmp_path / "one.csv")
    perturbs = ("perturb", "one.csv", "-o", "r.csv", "--gamma", "9", "--keep-order")
    assert b"add --delimiter" in ppdm(*perturbs, code=1).stderr
    ppdm(*perturbs, "--delimiter", ",")
    ppdm("estimate", "r.csv")

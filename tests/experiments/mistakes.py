"""Mistakes that people make on the command line, and whether what they are shown ends them when it is pasted.

`python -m tests.experiments.mistakes [SEED]` makes every mistake, does what the message shows as a person who pastes
does, until a command ends well without a warning, or only a person's own words help, and counts.
`tests/test_mistakes.py` holds all of it.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from ppdm_cli import perturb, reconstruct
from tests.vocabulary import here

PLANS = {
    "keeps.toml": 'gamma = 9\nkeeps = ["sex"]\n',
    "bin.toml": 'gamma = 9\ndrop = ["patient"]\n\n[attributes.age]\nbin = 5\n',
    "table.toml": 'gamma = 9\ndrop = ["patient"]\n\n[attributes.age]\ndomain = "0-120"\n',
    "csv.toml": 'gamma = 9\n[csv]\ndelimeter = ";"\n',
    "nine.toml": 'gamma = "nine"\n',
    "rare.toml": 'gamma = 9\nrare = "merg"\n',
}


P = "perturb patients.csv -o new.csv"
ORIGINALS = (
    "query patients.csv 'select count()'",
    "reconstruct patients.csv -o new.csv",
    "attack patients.csv --with posterior",
    "inspect patients.csv",
)
"""Questions to an original as if it were a release."""
MISTAKES: dict[str, tuple[int, str]] = {
    # files
    "estimate relese.csv": (1, "'relese.csv' does not exist. Did you mean 'release.csv'?"),
    "perturb patient.csv -o new.csv --gamma 9": (1, "Did you mean 'patients.csv'?"),
    "estimate release.csv --truth nothing.dat": (1, "'nothing.dat' does not exist. Check its name"),
    "perturb book.xlsx -o new.csv --gamma 9": (2, "spreadsheets aren't supported. Use a .csv"),
    "train-tree book.xlsx -o tree.json": (2, "spreadsheets aren't supported"),
    "perturb patients.csv -o new.xlsx --gamma 9": (2, "spreadsheets aren't supported"),
    "estimate release.csv.ppdm.json": (2, "is a sidecar. Name the data file: 'release.csv'"),
    "reconstruct release.csv.ppdm.json -o new.csv": (2, "is a sidecar. Name the data file: 'release.csv'"),
    "query release.csv.ppdm.json 'select count()'": (2, "is a sidecar. Name the data file: 'release.csv'"),
    "perturb semicolons.csv -o new.csv --gamma 9": (1, "Add --delimiter ';', and --decimal , if"),
    "perturb semicolons.csv -o new.csv --gamma 9 --drop patient": (1, "Add --delimiter ';'"),
    "perturb tabs.csv -o new.csv --gamma 9": (1, "Add --delimiter '\\t'"),
    "train-tree bars.csv -o tree.json --class sex": (1, "Add --delimiter '|'"),
    "perturb ragged.csv -o new.csv --gamma 9": (1, "it has 1 cell where the header has 2. Fix the row"),
    # columns
    f"{P} --gamma 9 --drop patient age": (2, "not a file. Repeat the option: --drop patient --drop age"),
    f"{P} --gamma 9 --keep sex smoker age": (2, "Repeat the option: --keep sex --keep smoker --keep age"),
    f"{P} --gamma 9 --drop patient --class sex smoker": (2, "not a file. --class takes one column"),
    "perturb --drop patient age patients.csv -o new.csv --gamma 9": (2, "--drop patient --drop age"),
    "estimate release.csv --attribute age sex": (2, "Repeat the option: --attribute age --attribute sex"),
    "estimate release.csv --by sex smoker": (2, "--by takes one column"),
    f"{P} --gamma 9 --shuffle smoker": (2, "Write an option before each column, or leave it out"),
    "train-tree patients.csv --class sex --drop patient age -o tree.json": (2, "--drop patient --drop age"),
    f"{P} --gamma 9 --drop patient,age": (2, "Name them one by one: --drop patient --drop age"),
    f"{P} --gamma 9 --keep sex,smoker": (2, "Name them one by one: --keep sex --keep smoker"),
    f"{P} --gamma 9 --drop patients": (2, "Did you mean 'patient'?"),
    f"{P} --gamma 9 --drop PATIENT": (2, "Did you mean 'patient'?"),
    # settings
    f"{P} --drop patient": (2, "Use --record-epsilon 1 (a belief of 5% becomes at most 12.6%) or"),
    f"{P} --gamma 0.5 --drop patient": (4, "gamma must be above 1: a release at 1 carries no information"),
    f"{P} --gamma nine --drop patient": (2, "gamma: 'nine' is not a number"),
    f"{P} --gamma 9 --bins ten --drop patient": (2, "bins: 'ten' is not a whole number"),
    f"{P} --gamma 9 --record-epsilon 4 --drop patient": (2, "Use only one of --record-epsilon, --gamma"),
    f"{P} --gamma 9 --drop patient --domain age=0-99": (2, "Write it as 0:99, "),
    f"{P} --gamma 9 --drop patient --attribute age:bin=5": (
        2,
        "'age': unknown setting 'bin' of an attribute. ",
    ),
    f"{P} --gamma 9 --drop patient --attribute age:gamma=x": (2, "'age': gamma: 'x' is not a number"),
    f"{P} --gamma 9 --drop patient --matrix bnad": (2, "Did you mean 'band'?"),
    f"{P} --gamma 9 --drop patient --type age=dobule": (2, "Did you mean 'double'?"),
    f"{P} --plan keeps.toml": (2, "line 2: unknown setting 'keeps' of a plan. Did you mean 'keep'?"),
    f"{P} --plan bin.toml": (2, "'bin.toml', line 5: the column 'age': unknown setting 'bin'"),
    f"{P} --plan table.toml": (2, "'table.toml', line 4: the column 'age': a domain is neither"),
    f"{P} --plan csv.toml": (2, "line 3: unknown setting 'delimeter' of csv. Did you mean 'delimiter'?"),
    f"{P} --plan nine.toml": (2, "'nine.toml': gamma: 'nine' is not a number"),
    f"{P} --plan rare.toml": (2, "Did you mean 'merge'?"),
    f"{P} --plan release.csv": (2, "is not valid TOML (line 1). Name a TOML file"),
    f"{P} --plan key.txt": (2, "Name a TOML file"),
    "estimate release.csv --level 95": (2, "a level is a share from 0.5 to 0.9999, not 95. "),
    "query release.csv 'select count()' --level 99.9": (2, "Try --level 0.999"),
    "estimate release.csv --level 2": (2, "Try --level 0.9"),
    # values outside a declared domain
    f"{P} --gamma 9 --drop patient --domain sex=M|W": (
        1,
        "Fix the domain, or use --attribute sex:other=true. Declared",
    ),
    f"{P} --gamma 9 --drop patient --domain sex=M|W --clip": (1, "Declared values that never occur: 'W'"),
    f"{P} --gamma 9 --drop patient --domain smoker=Yes|No": (
        1,
        "Fix the domain, or use --domain smoker=data. Declared",
    ),
    f"{P} --gamma 9 --drop patient --domain smoker=yes|never": (1, "never occur: 'never'"),
    # releases, originals and their sidecars
    **dict.fromkeys(ORIGINALS, (3, "beside it, add --sidecar FILE, or perturb it first")),
    "estimate patients.csv": (3, "so it is not a release. Put 'patients.csv.ppdm.json' beside it"),
    f"{P} --like patients.csv": (3, "Name a release that ppdm perturb made"),
    f"{P} --like relese.csv": (1, "'relese.csv' does not exist. Did you mean 'release.csv'?"),
    "estimate release.csv --sidecar nothing.json": (1, "the sidecar 'nothing.json' does not exist"),
    "query release.csv 'select count()' --sidecar release.csv.ppdm.jso": (1, "Did you mean"),
    "estimate release.csv --sidecar keeps.toml": (3, "the sidecar 'keeps.toml' is not valid: it is not JSON"),
    "estimate cut.csv": (3, "'cut.csv' was changed after it was published, or its sidecar belongs"),
    "reconstruct usable.csv -o new.csv": (3, "is at stage 'reconstructed', not perturbed. Use the release"),
    "estimate usable.csv": (3, "Use the release that it was made from"),
    "estimate release.csv release.csv": (2, "Name each release once"),
    "estimate release.csv third.csv": (3, "were not made with one plan: 'age' differs in matrix"),
    "estimate release.csv --attribute agee": (2, "Did you mean 'age'?"),
    "estimate release.csv --truth release.csv": (3, "has a sidecar: it is not an original"),
    "estimate release.csv --plan nine.toml": (2, "Add --truth ORIGINAL, or leave them out"),
    "estimate release.csv --rows-taken nine.toml": (2, "Add --truth ORIGINAL"),
    "attack release.csv --truth patients.csv": (
        3,
        "the release is shuffled, so nobody knows which row is which. Leave out",
    ),
    "train-tree release.csv -o tree.json": (2, "Add --class COL"),
    # keys
    f"{P} --gamma 9 --id patient --key-file release.csv": (2, "it does not hold 64 hex digits"),
    f"{P} --gamma 9 --id patient --key-file key.txt": (2, "is not a key file"),
    # questions
    "query release.csv": (2, "is not a question. End with a question: ppdm query release.csv 'select count()'"),
    "query release.csv usable.csv": (2, "'usable.csv' is not a question"),
    "query 'select count()' release.csv": (2, "'release.csv' is not a question"),
    "query 'select count()'": (2, "the question comes without a release"),
    "query relese.csv": (2, "'relese.csv' is not a question"),
    "query release.csv 'select mean(age) group by'": (2, "such as group by sex, or remove it"),
    "query release.csv 'select mean(age) where age > 41'": (4, "Use < or >= with an edge"),
    "query release.csv 'select age'": (2, "such as mean(age), or move it to group by"),
    # identifiers, rare values, nulls and outliers
    f"{P} --gamma 9": (
        4,
        "'patient' looks like an identifier (400 values in 400 records). Leave it out: --drop",
    ),
    f"{P} --gamma 9 --rare merge": (4, "Leave it out: --drop patient"),
    f"{P} --gamma 9 --rare publish --shuffle": (4, "Leave it out: --drop patient"),
    f"{P} --gamma 9 --class patient": (4, "Leave it out: --drop patient"),
    f"{P} --gamma 9 --keep patient": (0, "likely to be an identifier: patient. Use --drop patient instead"),
    f"{P} --gamma 9 --drop patient --type age=string": (4, "'age' ("),
    f"{P} --gamma 9 --drop patient --type age=string --rare merge": (0, "most values of age were merged"),
    f"{P} --gamma 9 --drop patient --bins 1000": (4, "Add --attribute age:bins=10"),
    "perturb rare.csv -o new.csv --gamma 9 --drop patient": (4, "'smoker' (1 of 3)"),
    "perturb nulls.csv -o new.csv --gamma 9 --drop patient": (4, "Add --attribute age:nulls=true"),
    "perturb nulls.csv -o new.csv --gamma 9 --drop patient --domain age=0:120": (
        1,
        "Add --attribute age:nulls",
    ),
    "perturb nulls.csv -o new.csv --gamma 9 --drop patient --like release.csv": (1, "add --open-domains"),
    "perturb outliers.csv -o new.csv --gamma 9 --drop patient": (0, "nearly all values of pay are in one bin"),
    "perturb odd.csv -o new.csv --gamma 9 --drop patient": (
        1,
        "row 8 of 'odd.csv': the column 'age' is not of type",
    ),
    "perturb few.csv -o new.csv --gamma 9 --drop patient": (0, "Warning: the text in seen looks like decimal"),
    "perturb german.csv -o new.csv --gamma 9 --drop patient --delimiter ';'": (4, "'cost', 'born' looks like"),
    f"{P} --gamma 9 --drop patient --domain age=0:30": (1, "Widen the domain, or add --clip"),
    f"{P} --gamma 9 --drop patient --domain age=0:30 --clip": (0, "over 5% of the values of age were moved"),
    f"{P} --gamma 9 --drop patient --domain age=120:0": (2, "Try --domain age=0:120"),
    # budgets that promise or give nothing
    f"{P} --gamma 1000 --drop patient": (
        0,
        "over 95% of the values of age, sex, smoker are published unchanged",
    ),
    f"{P} --record-epsilon 50 --drop patient": (0, "over 95% of the values of age, sex, smoker"),
    f"{P} --record-epsilon 0.001 --drop patient": (0, "Warning: too noisy to use: age, sex, smoker"),
    f"{P} --record-epsilon 0.001 --drop patient --strict": (4, "'age', 'sex', 'smoker' would be too noisy"),
    f"{P} --record-epsilon 2 --drop patient --publish 9": (2, "Use --publish 1 to 3, or auto"),
    f"{P} --record-epsilon 2 --drop patient --rounds 2": (2, "Add --class COL"),
    f"{P} --gamma 9 --drop patient --seed 1": (0, "nothing is promised"),
    # options that go together, and those that contradict each other
    f"{P} --gamma 9 --person patient": (2, "Try --person patient --rows-per-person 2"),
    f"{P} --gamma 9 --id patient": (2, "Try --key-file release.key --id patient"),
    f"{P} --gamma 9 --drop patient --ledger l": (2, "--ledger releases.ledger --people 'patients 2026'"),
    f"{P} --drop patient --rho1 .05": (2, "Try --rho1 0.05 --rho2 0.5"),
    f"{P} --gamma 9 --drop patient --rows-taken x": (2, "Remove --rows-taken"),
    f"{P} --gamma 9 --drop patient --like release.csv --keep age": (2, "Remove --keep age from the plan or"),
    f"{P} --gamma 5 --drop patient --like release.csv": (2, "Remove it from the plan or the options"),
    f"{P} --gamma 9 --drop patient --delimiter ';'": (1, "look separated by ','. Add --delimiter ,"),
    f"{P} --gamma 9 --drop patient --plan keep.toml": (1, "the plan 'keep.toml' does not exist. Did you mean"),
    f"{P} --gamma 9 --drop patient --domain sex=@sexes": (1, "the domain file 'sexes' does not exist"),
    "perturb release.csv -o new.csv --gamma 9": (4, "is already a release"),
    "perturb patients.csv -o patients.csv --gamma 9 --drop patient": (2, "is also the input. Name another"),
}
"""What is typed, and its exit code with words of the message: a warning where it is 0."""


CLICKS = {
    "perturb patients.csv --gamma 9": "Add it: ppdm perturb patients.csv --gamma 9 -o release.parquet",
    "plan patients.csv": "Add it: ppdm plan patients.csv -o plan.toml",
    "train-tree patients.csv --class sex": "--class sex -o tree.json",
    "reconstruct release.csv": "Add it: ppdm reconstruct release.csv -o result.parquet",
    "perturb patients.csv -o new.csv --epsilon 1": "Did you mean '--record-epsilon'?",
    "perturb patients.csv -o new.csv --eps 1": "Did you mean '--record-epsilon'?",
    "perturb patients.csv -o new.csv --gama 9": "--gamma",
    "query": "missing argument ''SELECT ...''. Write ppdm query RELEASE QUESTION",
    "estmate release.csv": "Did you mean 'estimate'?",
    "plan patients.csv -o new.csv --record-epsilon 2": "Name a .toml file, such as plan.toml",
    "pertub patients.csv": "Did you mean 'perturb'?",
    "perturb patients.csv -o new.csv --record-epsilon 2,5": "is not a number. Use --record-epsilon 2.5",
    "perturb patients.csv -o new.csv --record-epsilon two": "is not a number. See ppdm perturb --help",
    "entropy --records 30.000": "is not a whole number. Use --records 30000",
    "attack release.csv --with linking": "Did you mean 'link'?",
    "inspect release.csv --report": "needs a value. Add it after --report",
    "plan patients.csv --class sex": "Use it with ppdm perturb or ppdm train-tree",
    "reconstruct release.csv --zzz": "'--zzz'. See ppdm reconstruct --help",
}
"""What click refuses, and words of its last line."""


FLAGS = ("--strict", "--clip", "--shuffle", "--keep-order", "--open-domains", "--force")
OPTIONS = re.compile(
    r"(?:[Aa]dd|[Uu]se|[Tt]ry|such as|out:|option:|one:) "
    r"((?:--(?:delimiter|decimal) (?:'[^']*'|,)[ ,]*(?:and )?"
    r"|--[a-z0-9-]+(?: (?:'[^']*'|(?!--|(?:to|for|instead|beside|if|or|with|of)\b)[^\s;'()]*[^\s;,.'()]))?[ ,.;]*)+)"
)
"""Options with their values, after a verb that says to type them."""
PLACES = {"COL": "sex", "ORIGINAL": "patients.csv", "age=FROM:TO": "age=0:120"}
"""What a person puts where a message has a place to fill."""


MOST_STEPS = 4
"""After so many commands a person gives up."""
BY_HAND = {
    "estimate release.csv --truth nothing.dat": "estimate release.csv --truth patients.csv",
    "perturb book.xlsx -o new.csv --gamma 9": f"{P} --gamma 9 --drop patient",
    "train-tree book.xlsx -o tree.json": "train-tree patients.csv -o tree.json --class sex --drop patient",
    "perturb patients.csv -o new.xlsx --gamma 9": f"{P} --gamma 9 --drop patient",
    "perturb ragged.csv -o new.csv --gamma 9": f"{P} --gamma 9 --drop patient",
    f"{P} --gamma 9 --keep sex smoker age": f"{P} --gamma 9 --keep sex --keep smoker --drop patient",
    f"{P} --drop patient": f"{P} --drop patient --record-epsilon 1 --bins 4",
    f"{P} --gamma nine --drop patient": f"{P} --gamma 9 --drop patient",
    f"{P} --gamma 9 --bins ten --drop patient": f"{P} --gamma 9 --bins 20 --drop patient",
    f"{P} --gamma 9 --drop patient --domain age=0-99": f"{P} --gamma 9 --drop patient --domain age=0:120",
    f"{P} --gamma 9 --drop patient --attribute age:gamma=x": f"{P} --gamma 9 --drop patient --attribute age:gamma=9",
    f"{P} --plan table.toml": f"{P} --gamma 9 --drop patient --domain age=0:120",
    f"{P} --plan nine.toml": f"{P} --gamma 9 --drop patient",
    f"{P} --plan release.csv": f"{P} --gamma 9 --drop patient",
    f"{P} --plan key.txt": f"{P} --gamma 9 --drop patient",
    **{line: line.replace("patients", "release") for line in ("estimate patients.csv", *ORIGINALS)},
    f"{P} --like patients.csv": f"{P} --like release.csv",
    "estimate release.csv --sidecar nothing.json": "estimate release.csv",
    "estimate release.csv --sidecar keeps.toml": "estimate release.csv",
    "estimate cut.csv": "estimate release.csv",
    "reconstruct usable.csv -o new.csv": "reconstruct release.csv -o new.csv",
    "estimate usable.csv": "estimate release.csv",
    "query release.csv usable.csv": "query release.csv 'select count()'",
    "query 'select count()'": "query release.csv 'select count()'",
    f"{P} --record-epsilon 0.001 --drop patient": f"{P} --record-epsilon 1 --bins 4 --drop patient",
    f"{P} --record-epsilon 0.001 --drop patient --strict": f"{P} --record-epsilon 1 --bins 4 --drop patient --strict",
    f"{P} --gamma 5 --drop patient --like release.csv": f"{P} --drop patient --like release.csv",
    f"{P} --gamma 9 --drop patient --domain sex=@sexes": f"{P} --gamma 9 --drop patient --domain sex=F|M",
    f"{P} --gamma 9 --drop patient --seed 1": f"{P} --gamma 9 --drop patient",
    "perturb release.csv -o new.csv --gamma 9": f"{P} --gamma 9 --drop patient",
    "perturb patients.csv -o patients.csv --gamma 9 --drop patient": f"{P} --gamma 9 --drop patient",
    "estimate release.csv release.csv": "estimate release.csv",
    "estimate release.csv third.csv": "estimate third.csv",
    "estimate release.csv --truth release.csv": "estimate release.csv --truth patients.csv",
    "estimate release.csv --rows-taken nine.toml": "estimate release.csv",
    "query release.csv 'select mean(age) group by'": "query release.csv 'select mean(age) group by sex'",
    "query release.csv 'select mean(age) where age > 41'": "query release.csv 'select mean(age) where age >= 40'",
    "query release.csv 'select age'": "query release.csv 'select mean(age)'",
}
"""What a person types where nothing can be pasted: another file, value or question, as the message says."""


def split(line: str) -> list[str]:
    return [w.strip("'") if w.startswith("'") else w for w in re.findall(r"'[^']*'|\S+", line)]


def make(folder: Path, seed: int = 1) -> None:
    """Make the files that the mistakes are about."""
    rng, n = np.random.default_rng(seed), 400
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
    made = perturb(data, folder / "release.csv", gamma=9, drop=["patient"], shuffle=True, seed=seed)
    assert made.sidecar.records == n
    reconstruct(folder / "release.csv", folder / "usable.csv", method="global")
    for name in ("release.csv", "release.csv.ppdm.json"):
        shutil.copy(folder / name, folder / name.replace("release", "cut"))
    perturb(data, folder / "third.csv", gamma=5, drop=["patient"], shuffle=True, seed=seed + 1)
    more = data.with_columns(
        age=pl.when(pl.int_range(n) == 7).then(None).otherwise("age"),
        pay=pl.Series(rng.permutation(np.r_[np.full(5, 9e6), rng.lognormal(6, 1, n - 5)])),
    )
    more.select(*data.columns).write_csv(folder / "nulls.csv")
    more.drop("age").write_csv(folder / "outliers.csv")
    odd = more.select(*data.columns).with_columns(pl.col("age").cast(pl.String).fill_null("unknown"))
    odd.write_csv(folder / "odd.csv")
    few = data.with_columns(seen=pl.Series(rng.choice(["15.03.2024", "16.03.2024"], n)))
    few.write_csv(folder / "few.csv")
    wards = data.with_columns(smoker=pl.Series([*["rare"] * 3, *["yes", "no"] * ((n - 3) // 2), "no"]))
    wards.sample(fraction=1, shuffle=True, seed=seed).write_csv(folder / "rare.csv")
    german = {
        "cost": [f"{x:.2f}".replace(".", ",") for x in rng.lognormal(5, 1, n)],
        "born": [f"{d:02}.{m:02}.{y}" for d, m, y in rng.integers((1, 1, 1940), (29, 13, 2000), (n, 3))],
    }
    data.with_columns(**{k: pl.Series(v) for k, v in german.items()}).write_csv(
        folder / "german.csv", separator=";"
    )
    (folder / "cut.csv").write_bytes((folder / "release.csv").read_bytes()[:-20])
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (folder / "book.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "key.txt").write_text("0" * 60 + "\n")
    for name, text in PLANS.items():
        (folder / name).write_text(text)


def ended(folder: Path, words: list[str]) -> tuple[int, str]:
    """Run a command, and return its exit code and all that it says to a person."""
    with tempfile.TemporaryFile(buffering=0) as out, tempfile.TemporaryFile(buffering=0) as err:
        code = here(folder, *words, out=out, err=err)
        out.seek(0)
        err.seek(0)
        return code, " ".join((err.read() + out.read()).decode().split())


def given(words: list[str]) -> list[tuple[str, ...]]:
    """Return words in the pieces that they are taken away in: an option goes with its value."""
    pieces, rest = list[tuple[str, ...]](), iter(words)
    for word in rest:
        alone = not word.startswith("-") or word in FLAGS
        pieces.append((word,) if alone else (word, next(rest, "")))
    return pieces


def pasted(folder: Path, words: list[str], message: str) -> list[str] | None:
    """Return the command with what its message shows; None where it shows nothing to paste."""
    if found := re.search(r"End with a question: ppdm (query .*) \(ppdm explain", message):
        return split(found[1])
    if found := re.search(r"Name the data file: '(\S+)'", message):
        return [found[1] if w.endswith(".json") else w for w in words]
    if found := re.search(r"'([^' ]+)'[^';]*[.;] Did you mean '([^']+)'", message):
        wrong = re.compile(rf"(?<![\w.]){re.escape(found[1])}(?![\w.])")
        if "--plan" in words and not any(wrong.search(w) for w in words):
            plan = folder / words[words.index("--plan") + 1]
            plan.write_text(wrong.sub(found[2], plan.read_text()))
        return [wrong.sub(found[2], w) for w in words]
    if "`ppdm plan FILE -o plan.toml`" in message:
        assert ended(folder, ["plan", words[1], "-o", "plan.toml", "--record-epsilon", "2"])[0] == 0
        return [*words[:4], "--plan", "plan.toml"]
    message = re.sub(r".*Warning: ", "", message)
    shown, loose = OPTIONS.search(message), "not a file" in message
    added = [] if shown is None else split(re.sub(r"(?<=[^ ])[,.;](?= |$)|\band\b", "", shown[1]))
    gone = set(re.findall(r"(?:[Ll]eave out|[Rr]emove|only one of) (--[a-z-]+)", message))
    gone |= {"--gamma"} if "--record-epsilon" in added else set()
    gone |= {"--keep"} if "instead" in message else set()
    gone |= {w for w in added if w.startswith("--")} if loose or "one by one" in message else set()
    kept = [p for p in given(words[1:]) if p[0] not in gone]
    kept = [p for p in kept if not loose or p[0].startswith("-") or (folder / p[0]).exists()]
    command = [words[0], *(w for p in kept for w in p), *(PLACES.get(w, w) for w in added)]
    return None if command == words or "FILE" in added else command


def _warned(words: list[str], message: str) -> bool:
    """Return whether a new release needs more care; the ready one has a seed, and too few records for trees."""
    return words[0] == "perturb" and "Warning: " in message


def followed(folder: Path, line: str) -> tuple[list[str], bool]:
    """Return the commands from a mistake to its end, as pasted, and whether that needed a person's own words."""
    done = [words := split(line)]
    while (said := ended(folder, words))[0] or _warned(words, said[1]):
        for made in folder.glob("new.csv*"):
            made.unlink()
        shown = pasted(folder, words, said[1])
        if shown is None or (shown in done and "--plan" not in shown) or len(done) > MOST_STEPS:
            break
        done.append(words := shown)
    else:
        return [" ".join(d) for d in done], False
    code, said_of_it = ended(folder, split(BY_HAND[line]))
    assert code == 0 and not _warned(split(BY_HAND[line]), said_of_it), (line, said_of_it)
    return [*(" ".join(d) for d in done), BY_HAND[line]], True


def published(folder: Path) -> bool:
    """Return whether a release that was made from a mistake has an identifier in it."""
    return any(re.search(r"\bP\d{5}\b", f.read_text()) for f in folder.glob("new.csv*"))


def main() -> None:
    steps, hands, silent, identifiers = list[int](), 0, list[str](), list[str]()
    with tempfile.TemporaryDirectory() as made:
        make(Path(made), *map(int, sys.argv[1:]))
        for line, (code, words) in MISTAKES.items():
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                shutil.copytree(made, folder, dirs_exist_ok=True)
                if (said := ended(folder, split(line)))[0] != code or words not in said[1]:
                    silent.append(line)
                for release in folder.glob("new.csv*"):
                    release.unlink()
                done, by_hand = followed(folder, line)
                hands += by_hand
                steps += [len(done) - 1] * (not by_hand)
                identifiers += [line] * published(folder)
    sys.stdout.write(
        f"{len(MISTAKES)} mistakes, {len(silent)} silent or wrongly named; {len(steps)} end by pasting "
        f"what is shown ({sum(steps) / len(steps):.1f} commands on average, at most {max(steps)}), {hands} by "
        f"another file, value or question that the message asks for; identifiers are published after "
        f"{len(identifiers)}\n"
    )


if __name__ == "__main__":
    main()

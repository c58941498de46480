"""What every command keeps, tried over all: JSON, streams, outputs, quietness, and mistakes by their ids."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

from ppdm_cli import perturb, train_tree
from ppdm_cli.commands import SUBCOMMANDS
from ppdm_cli.networks import Network, Node
from ppdm_cli.networks.files import as_json
from ppdm_cli.trees.storing import encode_tree
from tests.vocabulary import Run, here, listing, people

LINES = {
    "plan": "data.csv -o out.toml",
    "perturb": "data.csv -o out.csv --gamma 9 --drop since --seed 1",
    "inspect": "r.parquet",
    "estimate": "r.parquet --attribute age -o out.csv",
    "query": "r.parquet 'select mean(age)' -o out.csv",
    "reconstruct": "r.parquet -o out.csv --method global",
    "train-tree": "data.csv --class group -o out.json",
    "train-bayes": "data.csv --network net.json -o out.csv",
    "predict": "tree.json data.csv -o out.csv",
    "entropy": "--gamma 9 --bins 5 -o out.csv",
    "attack": "r.parquet --with posterior -o out.csv",
    "generate": "--function 1 --records 50 -o out.csv --seed 1",
    "explain": "epsilon",
}
"""A line of each command that works, with an output where it has one."""
WRITES = [name for name, line in LINES.items() if " -o " in line or line.startswith("-o")]
STREAMS = ["perturb", "estimate", "query", "reconstruct", "predict", "generate"]
"""Those that write a table to standard output."""
commands = pytest.mark.parametrize("name", SUBCOMMANDS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the lines read: data, a release, a tree and a network."""
    folder = tmp_path_factory.mktemp("contract")
    people(300).write_csv(folder / "data.csv")
    perturb(people(300), folder / "r.parquet", gamma=9, class_="group", keep=["group"], drop=["since"], seed=1)
    (folder / "tree.json").write_bytes(encode_tree(train_tree(people(300), "group", drop="since").tree))
    (folder / "net.json").write_text(as_json(Network.of([Node("region"), Node("group", ("region",))])))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def line(name: str, **changed: str) -> list[str]:
    """Return the line of a command, with some of its words changed."""
    return [name, *(changed.get(w.partition(".")[0], w) for w in shlex.split(LINES[name]))]


def failed(ppdm: Run, folder: Path, *args: str, code: int) -> str:
    """Run what fails, in one line and without a trace; return the error's id."""
    before = listing(folder)
    done = ppdm(*args, "--json", code=code)
    assert done.stdout == b"" and done.stderr.count(b"\n") == 1 and b"inside ppdm" not in done.stderr, done
    assert listing(folder) == before
    error = json.loads(done.stderr)["error"]
    assert error["exit_code"] == code and error["next_step"]
    return str(error["id"])


def test_every_command_has_a_line() -> None:
    assert LINES.keys() == SUBCOMMANDS.keys()


@commands
def test_json_is_one_object_and_quiet_is_quiet(name: str, folder: Path, ppdm: Run) -> None:
    done = ppdm(*line(name), "--json")
    assert done.stderr == b"" and done.stdout.isascii() and isinstance(json.loads(done.stdout), dict)
    assert ppdm(*line(name), *["--force"] * (name in WRITES), "-q").stderr == b""
    assert any(folder.glob("out.*")) == (name in WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_what_is_there_is_overwritten_only_if_asked(name: str, folder: Path, ppdm: Run) -> None:
    ppdm(*line(name))
    assert failed(ppdm, folder, *line(name), code=2) == "output-exists"
    ppdm(*line(name), "--force")


@pytest.mark.parametrize("name", WRITES)
def test_an_output_is_not_its_input_and_has_a_known_format(name: str, folder: Path, ppdm: Run) -> None:
    read = next((w for w in line(name) if (folder / w).is_file()), None)
    suffix = next(Path(w).suffix for w in line(name) if w.startswith("out"))
    for output, code in ((read, 2), ("out.xls", 2), (f"no/out{suffix}", 1)):
        if output is not None and (name, output) != ("plan", "out.xls"):
            assert failed(ppdm, folder, *line(name, out=output), "--force", code=code)


@pytest.mark.parametrize("name", [n for n in LINES if n not in ("entropy", "generate", "explain")])
def test_a_file_that_is_not_there_is_named(name: str, folder: Path, ppdm: Run) -> None:
    reads = {"data": "absent.csv"} if "data.csv" in LINES[name] else {"r": "absent.parquet"}
    assert failed(ppdm, folder, *line(name, **reads), code=1) in ("missing-file", "data")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("perturb", "--drop nosuch"),
        ("perturb", "--person nosuch --rows-per-person 1"),
        ("estimate", "--attribute nosuch"),
        ("train-tree", "--drop nosuch"),
        ("train-bayes", "--nodes nosuch"),
        ("plan", "--type nosuch=string"),
    ],
)
def test_a_column_that_is_not_there_is_named(name: str, more: str, folder: Path, ppdm: Run) -> None:
    assert failed(ppdm, folder, *line(name), *more.split(), code=2) == "unknown-column"


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("plan", "--rho1 x"), ("perturb", "--rho1 x"), ("perturb", "--gamma x"), ("perturb", "--bins x"),
        ("inspect", "--prior x"), ("inspect", "--prior nan"), ("inspect", "--prior 1"),
        ("estimate", "--level x"), ("estimate", "--level 2"), ("query", "--bins x"),
        ("reconstruct", "--cells 5"), ("train-tree", "--min-records 0"), ("train-tree", "--confidence 0.6"),
        ("train-bayes", "--prior x"), ("entropy", "--records 0"), ("entropy", "--gamma nan"),
        ("entropy", "--bins 2.5"), ("entropy", "--prior 0.5"), ("generate", "--records -5"),
        ("generate", "--function 6"), ("attack", "--with nosuch"), ("predict", "--to xml"),
    ],
)  # fmt: skip
def test_a_value_that_means_nothing_is_refused(name: str, more: str, folder: Path, ppdm: Run) -> None:
    assert failed(ppdm, folder, *line(name), *more.split(), code=2)


@pytest.mark.parametrize("name", STREAMS)
def test_a_table_on_standard_output_is_that_of_the_file(name: str, folder: Path, ppdm: Run) -> None:
    sidecar = ["--sidecar", "s.json"] if name == "perturb" else []
    streamed = ppdm(*line(name, out="-"), "--to", "csv", *sidecar).stdout
    ppdm(*line(name))
    assert streamed == (folder / "out.csv").read_bytes() and len(streamed) > 50
    assert failed(ppdm, folder, *line(name, out="-"), code=2) == "both-on-standard-output"


@pytest.mark.parametrize("name", [*STREAMS, "inspect", "train-tree", "train-bayes", "attack"])
def test_a_full_disk_is_one_line_and_a_reader_that_left_is_none(name: str, folder: Path) -> None:
    given = line(name, out="-") if name in STREAMS else line(name)
    more = ["--sidecar", "s.json"] * (name == "perturb") + ["--to", "csv"] * (name in STREAMS)

    def said(out: IO[bytes]) -> tuple[int, bytes]:
        with TemporaryFile() as err:
            code = here(folder, *given, *more, *["--force"] * (name in WRITES), out=out, err=err)
            err.seek(0)
            return code, err.read()

    with Path("/dev/full").open("wb") as full:
        code, log = said(full)
    assert code == 1 and log.count(b"\n") == 1 and b"space left" in log.lower()
    assert not (folder / "s.json").exists()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as left:
        assert b"ppdm:" not in said(left)[1]

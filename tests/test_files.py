"""Nothing that a run reads is written over: every command, every file it reads, every way of writing one."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from ppdm_cli import files, perturb, reconstruct, train_bayes, train_tree
from ppdm_cli.errors import UsageError
from ppdm_cli.networks.files import as_bif
from ppdm_cli.trees.storing import encode_tree
from tests.vocabulary import Run, here, listing, people, structure

# what a command is called with, the files that it reads (or that speak of those), and its ways of writing one
READS: dict[str, tuple[str, str, str]] = {
    "perturb": (
        "perturb in.csv more.csv --plan plan.toml --domain region=@region.csv --key-file my.key --id id",
        "in.csv more.csv in.csv.ppdm.json plan.toml region.csv my.key",
        "-o --sidecar",
    ),
    "perturb, a new key": (
        "perturb in.csv more.csv --plan plan.toml --id id",
        "in.csv more.csv.ppdm.json plan.toml",
        "-o --sidecar --key-file",
    ),
    "perturb, with a ledger": ("perturb in.csv --gamma 9 --drop id --people all", "in.csv", "-o --ledger"),
    "perturb --like": (
        "perturb original.csv --like r.csv",
        "original.csv r.csv r.csv.ppdm.json",
        "-o --sidecar",
    ),
    "perturb by a matrix that is given": (
        "perturb in.csv --gamma 9 --id id --key-file my.key --attribute member:matrix=dense,table=flip.csv",
        "in.csv flip.csv my.key",
        "-o --sidecar",
    ),
    "perturb by groups": (
        "perturb in.csv --gamma 9 --drop id --attribute region:mapping=groups.csv",
        "in.csv groups.csv",
        "-o --sidecar",
    ),
    "plan": ("plan in.csv more.csv", "in.csv more.csv", "-o --explore"),
    "estimate --plan": (
        "estimate r.csv --truth original.csv --plan plan.toml",
        "r.csv r.csv.ppdm.json original.csv plan.toml",
        "-o --plot",
    ),
    "perturb a folder": ("perturb parts --gamma 9", "parts/0.parquet parts/1.parquet", "-o --sidecar"),
    "estimate": (
        "estimate r.csv r2.csv --truth twice.csv",
        "r.csv r2.csv r.csv.ppdm.json r2.csv.ppdm.json twice.csv",
        "-o --plot",
    ),
    "estimate --sidecar": (
        "estimate r.csv --sidecar s.json",
        "r.csv s.json r.csv.ppdm.json",
        "-o --plot",
    ),
    "estimate copies": (
        "estimate c.1.csv c.2.csv",
        "c.1.csv c.2.csv c.1.csv.ppdm.json c.2.csv.ppdm.json",
        "-o --plot",
    ),
    "inspect --describe": (
        "inspect in.csv --describe describing.toml",
        "in.csv describing.toml region.csv flip.csv",
        "-o",
    ),
    "inspect --report": (
        "inspect r.csv --about about.toml --attack attack.json --ledger all.ledger --people all",
        "r.csv r.csv.ppdm.json about.toml attack.json all.ledger",
        "--report",
    ),
    "query": (
        "query r.csv r2.csv --against c.1.csv select(count())",
        "r.csv r2.csv c.1.csv r.csv.ppdm.json r2.csv.ppdm.json c.1.csv.ppdm.json",
        "-o",
    ),
    "reconstruct": ("reconstruct r.csv", "r.csv r.csv.ppdm.json", "-o --output-sidecar"),
    "attack": (
        "attack r.csv --truth original.csv --with posterior",
        "r.csv r.csv.ppdm.json original.csv",
        "-o --plot --recovered",
    ),
    "entropy": ("entropy r.csv", "r.csv r.csv.ppdm.json", "-o"),
    "train-tree": (
        "train-tree u.csv --test original.csv --class group",
        "u.csv u.csv.ppdm.json original.csv",
        "-o --export --predicted",
    ),
    "train-tree --compare": (
        "train-tree u.csv --class group --compare t.json --on original.csv",
        "u.csv u.csv.ppdm.json t.json original.csv",
        "-o --export",
    ),
    "train-tree on copies": (
        "train-tree c.1.csv c.2.csv",
        "c.1.csv c.2.csv c.1.csv.ppdm.json c.2.csv.ppdm.json",
        "-o --export",
    ),
    "train-tree on a release": ("train-tree r.csv", "r.csv r.csv.ppdm.json", "-o --export"),
    "predict": ("predict t.json u.csv", "t.json u.csv u.csv.ppdm.json", "-o"),
    "train-bayes": (
        "train-bayes r.csv --network net.json --compare original.csv",
        "r.csv r.csv.ppdm.json net.json original.csv",
        "-o",
    ),
    "train-bayes --merge": ("train-bayes --merge a.bif b.bif", "a.bif b.bif", "-o"),
    "generate": ("generate --function 1 --records 9", "", "-o"),
    "generate --network": ("generate --network a.bif --records 9", "a.bif", "-o"),
}
DESCRIBING = """gamma = 9
[attributes]
region.domain = "@region.csv"
member = {matrix = "dense", table = "flip.csv"}
"""
SUFFIX = {
    "--plot": "svg",
    "--export": "sql",
    "--sidecar": "json",
    "--output-sidecar": "json",
    "--key-file": "key",
    "--report": "html",
    "--ledger": "ledger",
}


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the commands read."""
    folder = tmp_path_factory.mktemp("stocked")
    frame = people(300)
    frame.write_csv(folder / "original.csv")
    frame.vstack(frame).write_csv(folder / "twice.csv")
    with_id = frame.vstack(people(300, 8)).with_row_index("id")
    with_id[:300].write_csv(folder / "in.csv")
    with_id[300:].write_csv(folder / "more.csv")
    (folder / "parts").mkdir()
    for part in (0, 1):
        people(300, part).write_parquet(folder / f"parts/{part}.parquet")
    (folder / "plan.toml").write_text("gamma = 9\n")
    (folder / "groups.csv").write_text("region,half\nnorth,a\nsouth,b\neast,b\n")
    (folder / "region.csv").write_text("north\nsouth\neast\n")
    (folder / "flip.csv").write_text(",False,True\nFalse,0.9,0.2\nTrue,0.1,0.8\n")
    (folder / "describing.toml").write_text(DESCRIBING)
    (folder / "my.key").write_text("5e" * 32 + "\n")
    (folder / "my.key").chmod(0o600)
    perturb(frame, folder / "r.csv", gamma=9, class_="group", ledger=folder / "all.ledger", people="all")
    (folder / "about.toml").write_text('name = "all"\n')
    with (folder / "attack.json").open("wb") as file:
        assert here(folder, "attack", "r.csv", "--with", "posterior", "--json", out=file, err=file) == 0
    perturb(frame, folder / "r2.csv", like=folder / "r.csv")
    perturb(frame, folder / "c.csv", gamma=9, class_="group", copies=2)
    (folder / "s.json").write_bytes((folder / "r.csv.ppdm.json").read_bytes())
    reconstruct(folder / "r.csv", folder / "u.csv")
    (folder / "t.json").write_bytes(encode_tree(train_tree(folder / "original.csv", "group").tree))
    (folder / "net.json").write_text(structure("region -> group"))
    for node, bif in (("region", "a.bif"), ("group", "b.bif")):
        learnt = train_bayes(folder / "original.csv", folder / "net.json", nodes=node)
        (folder / bif).write_text(as_bif(learnt.network))
    return folder


@pytest.fixture
def folder(stocked: Path, tmp_path: Path) -> Path:
    for name, content in listing(stocked).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "my.key").chmod(0o600)
    return tmp_path


def suffix(command: str, way: str) -> str:
    """Return the suffix of what a command writes by an option."""
    own = {"train-tree": "json", "plan": "toml"}.get(command.split()[0]) if way == "-o" else None
    return own or SUFFIX.get(way, "csv")


def ways(command: str, options: str, **given: str) -> list[str]:
    """Every output named, each with a file of its own unless it is given one."""
    always = ("-o", "--key-file", "--ledger", "--report")
    named = [o for o in options.split() if o in given or o in always]
    return [w for o in named for w in (o, given.get(o, f"fresh.{suffix(command, o)}"))]


def aliases(folder: Path, name: str, suffix: str) -> list[str]:
    """The file's own name, another way to it, a hard link and a symbolic link with a suffix that will do."""
    Path(folder / "elsewhere").mkdir()
    found = [name, f"elsewhere/../{name}"]
    if (folder / name).exists():
        os.link(folder / name, folder / f"elsewhere/hard.{suffix}")
        found.append(f"elsewhere/hard.{suffix}")
    (folder / f"elsewhere/soft.{suffix}").symlink_to(folder / name)
    return [*found, f"elsewhere/soft.{suffix}"]


UNFIT = ("has no suffix of", "doesn't end in", "does not end in", "is a sidecar")
"""Messages that refuse a name before anybody looks whether it is an input."""
CASES = [(c, f, w) for c, (_, read, written) in READS.items() for f in read.split() for w in written.split()]


@pytest.mark.parametrize(("command", "file", "way"), CASES)
def test_what_is_read_is_never_written_over(command: str, file: str, way: str, folder: Path, ppdm: Run) -> None:
    called, _, written = READS[command]
    names = aliases(folder, file, suffix(command, way))
    before = listing(folder)
    for name in names:
        a_key = way == "--key-file" and (folder / file).exists()  # then it is read for a key, and is none
        done = ppdm(*called.split(), *ways(command, written, **{way: name}), "--force", code=2)
        said = done.stderr.decode()
        told = "is not a key file" if a_key else "also the input"
        assert told in said or (name in names[:2] and any(w in said for w in UNFIT)), said
        assert said.count("\n") == 1 and done.stdout == b""
        assert listing(folder) == before


@pytest.mark.parametrize(
    ("command", "one", "other"),
    [(c, *pair) for c, (_, _, written) in READS.items() for pair in combinations(written.split(), 2)],
)
def test_two_outputs_are_never_one_file(command: str, one: str, other: str, folder: Path, ppdm: Run) -> None:
    called, _, written = READS[command]
    (folder / "there.csv").write_text("mine")
    (folder / f"soft.{suffix(command, other)}").symlink_to("there.csv")
    (folder / f"free.{suffix(command, other)}").symlink_to("absent.csv")
    before = listing(folder)
    for first, second in [("there", "soft"), ("absent", "free")]["--key-file" in (one, other) :]:
        pair = {one: f"{first}.csv", other: f"{second}.{suffix(command, other)}"}
        if (end := suffix(command, one)) != "csv":
            (folder / f"{first}.{end}").symlink_to(f"{first}.csv")
            pair[one] = f"{first}.{end}"
            before = listing(folder)
        said = ppdm(*called.split(), *ways(command, written, **pair), "--force", code=2).stderr.decode()
        assert "two outputs are the same file: " in said, said
        assert listing(folder) == before


_OPENED: list[str] | None = None


def _note(event: str, args: tuple[Any, ...]) -> None:
    if _OPENED is not None and event == "open" and isinstance(args[0], str):
        _OPENED.append(args[0])


sys.addaudithook(_note)


@pytest.mark.parametrize("command", READS)
def test_no_file_is_opened_that_the_run_does_not_know(
    command: str, folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own openings; those of Arrow follow one of Python, which finds a file that may not be read."""
    global _OPENED
    called, read, written = READS[command]
    runs: list[files.Run] = []

    def noted() -> files.Run:
        runs.append(real())
        return runs[-1]

    real = files.Run
    monkeypatch.setattr(files, "Run", noted)
    _OPENED = []
    try:
        key = {"--key-file": "new.key"} if "--key-file" in written else {}
        ppdm(*called.split(), *ways(command, written, **key))
        opened = {Path(folder / o).resolve() for o in _OPENED if not o.startswith("/proc")}
    finally:
        _OPENED = None
    (run,) = runs
    known = {str(i) for i in (*run.reads, *run.writes)}
    inside = {str(p) for p in opened if folder.resolve() in p.parents and p.is_file()}
    assert {p for p in inside if ".ppdm-" not in p} <= known
    assert {str((folder / f).resolve()) for f in read.split()} <= known


def test_standard_streams_are_files_too(folder: Path) -> None:
    before = listing(folder)
    domains = "--gamma 9 --domain x=0:9"
    (folder / "x.csv").write_text("x\n" + "1\n" * 50)
    before = listing(folder)
    for shell in (
        f"ppdm perturb - --from csv -o x.csv --force {domains} < x.csv",
        f"ppdm perturb x.csv -o - --to csv --sidecar s2.json {domains} >> x.csv",
        f"ppdm perturb x.csv -o - --to csv --sidecar x.csv --force {domains} > out.csv",
    ):
        command = f'ppdm() {{ {sys.executable} -m ppdm_cli "$@"; }}; {shell}'
        done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True)
        assert done.returncode == 2 and b"also the input" in done.stderr, done.stderr
        (folder / "out.csv").unlink(missing_ok=True)
        assert listing(folder) == before


@pytest.mark.parametrize(
    "args", ["perturb '' -o new.csv --gamma 9", "perturb in.csv -o new.csv --gamma 9 --plan ''", "inspect ''"]
)
def test_an_empty_name_is_not_the_current_folder(folder: Path, ppdm: Run, args: str) -> None:
    assert b"the name of a file is empty" in ppdm(*shlex.split(args), code=2).stderr
    assert not (folder / "new.csv").exists()
    with pytest.raises(UsageError, match="no input is named"):
        perturb("", gamma=9)


@pytest.mark.parametrize(
    "args",
    [
        "perturb in.csv --gamma 9 -o new.csv --sidecar -",
        "perturb in.csv --gamma 9 -o new.csv --id id --key-file -",
        "inspect in.csv --describe describing.toml -o -",
        "attack r.csv --plot -",
        "train-tree r.csv -o new.json --export -",
    ],
)
def test_no_file_is_ever_named_like_a_stream(folder: Path, ppdm: Run, args: str) -> None:
    before = listing(folder)
    ppdm(*args.split(), code=2)
    assert listing(folder) == before


def test_copies_are_written_over_nothing_that_is_read(folder: Path, ppdm: Run) -> None:
    (folder / "a.1.csv").hardlink_to(folder / "in.csv")
    (folder / "b.2.csv").symlink_to("in.csv")
    (folder / "c.2.csv.ppdm.json").unlink()
    (folder / "c.2.csv.ppdm.json").symlink_to("plan.toml")
    before = listing(folder)
    for copies in ("a.csv", "b.csv", "c.csv"):
        call = f"perturb in.csv --plan plan.toml --drop id -o {copies} --copies 2 --force"
        assert b"also the input" in ppdm(*call.split(), code=2).stderr
        assert listing(folder) == before


def test_the_library_refuses_it_as_well(folder: Path) -> None:
    before = listing(folder)
    for options in (
        {"sidecar": folder / "in.csv"},
        {"plan": folder / "plan.toml", "sidecar": folder / "plan.toml"},
        {"attributes": {"region": {"domain": f"@{folder}/region.csv"}}, "sidecar": folder / "region.csv"},
        {"id": "id", "key_file": folder / "new.csv"},
    ):
        with pytest.raises(UsageError, match=r"also the input|two outputs are the same file"):
            perturb(folder / "in.csv", folder / "new.csv", gamma=9, force=True, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="also the input"):
        reconstruct(folder / "r.csv", folder / "n.csv", output_sidecar=folder / "r.csv.ppdm.json", force=True)
    assert listing(folder) == before

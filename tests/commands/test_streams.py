"""Standard streams as a shell gives them: pipes that break, disks that are full, streams that are closed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ppdm_cli import perturb
from tests.conftest import piped
from tests.vocabulary import Run, listing, people

ROWS = 9_000
"""So many that no command's table fits a pipe."""

Shell = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run lines of bash, in which `ppdm` is the real command, in a folder with something of everything."""
    people(ROWS).write_csv(tmp_path / "in.csv")
    people(500).write_parquet(tmp_path / "few.parquet")
    perturb(people(ROWS), tmp_path / "r.parquet", gamma=9, class_="group", keep=["group"], seed=3)

    def run(script: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[bytes]:
        head = f'set -o pipefail; ppdm() {{ {sys.executable} -m ppdm_cli "$@"; }}; '
        done = subprocess.run(
            ["bash", "-c", head + script],
            cwd=tmp_path,
            capture_output=True,
            env=os.environ | environment,
            timeout=60,
        )
        assert done.returncode == code, (script, done.returncode, done.stderr.decode())
        assert b"Traceback" not in done.stderr and b"ignored" not in done.stderr, done.stderr
        assert b"inside ppdm" not in done.stderr, done.stderr
        return done

    return run


DATA = {
    "perturb": "ppdm perturb in.csv -o - --to csv --sidecar s.json --gamma 9",
    "estimate": "ppdm estimate r.parquet --joint age,income,since -o - --to csv",
}


@pytest.mark.parametrize("name", DATA)
def test_data_on_standard_output_are_whole_or_the_run_has_failed(
    name: str, shell: Shell, tmp_path: Path
) -> None:
    """In unbuffered Python, too, where a file that can take a part takes it without a word."""
    before = listing(tmp_path)
    line = DATA[name]
    assert shell(f"{line} 2> log | true", code=1).stderr == b"" and (tmp_path / "log").read_bytes() == b""
    said = b"ppdm: data: no space left for 'standard output'. Free some, or use another disk (ppdm explain "
    assert shell(f"{line} > /dev/full", code=1).stderr == said + b"no-space)\n"
    short = f"head -c 1000000 /dev/zero > part; ulimit -f 1000; {line} >> part"
    said = b"ppdm: data: 'standard output' cannot be written: File too large. "
    assert shell(short, code=1, PYTHONUNBUFFERED="1").stderr.startswith(said)
    assert shell(f"{line} >&-", code=1).stderr.startswith(b"ppdm: data: 'standard output' is closed. ")
    for made in ("log", "part"):
        (tmp_path / made).unlink()
    assert listing(tmp_path) == before, "no sidecar is left of what did not arrive"


def test_a_sidecar_that_was_there_comes_back_where_its_data_do_not_arrive(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("mine")
    shell(f"{DATA['perturb']} --force > /dev/full", code=1)
    assert (tmp_path / "s.json").read_text() == "mine"


@pytest.mark.parametrize(
    "line",
    ["perturb few.parquet -o out.csv --gamma 9", "train-tree few.parquet --class group -o out.json --json"],
)
def test_a_report_that_nobody_reads_is_no_failure(line: str, shell: Shell, tmp_path: Path) -> None:
    """Else whoever tries again publishes twice."""
    for way in ("2>&1 | true", "2>&-", "2> /dev/full"):
        shell(f"ppdm {line} --force {way}")
        assert any(tmp_path.glob("out.*"))


def test_closed_streams(shell: Shell) -> None:
    said = shell("ppdm inspect r.parquet >&-", code=1).stderr
    assert said.startswith(b"ppdm: data: 'standard output' is closed. ")
    shell("ppdm --help >&- 2>&- <&-", code=1)
    assert shell("ppdm inspect r.parquet 2>&- <&-").stdout
    shell("ppdm inspect nosuch.parquet 2>&-", code=1)
    said = shell("ppdm perturb - -o x.csv --gamma 9 <&-", code=1).stderr
    assert said.startswith(b"ppdm: data: standard input is closed. Open it, or name a file (")


def test_no_file_of_a_run_takes_the_number_of_a_closed_stream(shell: Shell, tmp_path: Path) -> None:
    shell("ppdm perturb few.parquet -o a.csv --gamma 9 --seed 1 <&- >&- 2>&-")
    shell("ppdm perturb few.parquet -o b.csv --gamma 9 --seed 1")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_pipe_that_has_a_name_is_read_as_a_stream(shell: Shell, tmp_path: Path, ppdm: Run) -> None:
    asked = ["--gamma", "9", "--domain", "x=0:9", "--seed", "1", "--force", "--keep-order"]
    (tmp_path / "x.csv").write_text("x\n" + "1\n4\n" * 200)
    ppdm("perturb", "x.csv", "-o", "a.csv", *asked)
    shell(f"mkfifo p; cat x.csv > p & ppdm perturb p --from csv -o b.csv {' '.join(asked)}")
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()

    def read(name: str, line: str, code: int = 0) -> bytes:
        """Run a line whose word <() is a pipe with a file's content, and return what is said."""
        with piped((tmp_path / name).read_bytes()) as stream:
            named = line.replace("<()", f"/dev/fd/{stream.fileno()}")
            return ppdm(*named.split(), code=code).stderr

    read("x.csv", f"perturb <() --from csv -o c.csv {' '.join(asked)}")
    assert (tmp_path / "c.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()
    (tmp_path / "r.arrows").write_bytes(ppdm("perturb", "few.parquet", "-o", "-", "--gamma", "9").stdout)
    read("r.arrows", "estimate <() --json")
    read("in.csv", "train-tree <() --from csv --class group -o t.json")
    read("in.csv", "predict t.json <() --from csv -o q.csv")
    for name, line, code, said in (
        ("x.csv", "perturb <() x.csv -o d.csv --gamma 9", 2, b"a pipe is named among other files"),
        ("x.csv", "perturb <() --from csv -o d.csv --gamma 9", 2, b"the domain of 'x' is not declared"),
        ("in.csv", "attack r.parquet --truth <()", 2, b"the original is read more than once"),
    ):
        assert said in read(name, line, code)
    os.mkfifo(tmp_path / "q.parquet")
    assert b"not an ordinary file" in ppdm("inspect", "q.parquet", code=1).stderr


def test_a_stage_that_failed_is_thought_of(tmp_path: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    perturb(people(500), tmp_path / "r.csv", gamma=9)
    sidecar = ("--sidecar", "r.csv.ppdm.json")
    for form in ("csv", "arrow"):
        for line in (
            ("perturb", "-", "-o", "x.csv", "--gamma", "9"),
            ("estimate", "-", *sidecar),
            ("reconstruct", "-", "-o", "x.csv", *sidecar),
            ("attack", "-", *sidecar),
            ("train-tree", "-", "--class", "x", "-o", "t.json"),
        ):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
            said = ppdm(*line, "--from", form, code=1).stderr
            assert b"'standard input' is empty. Check the output of the command before it" in said
    assert b"/dev/null' is empty" in ppdm("perturb", "/dev/null", "-o", "x.csv", "--gamma", "9", code=1).stderr


def test_a_key_is_not_left_behind_by_a_run_that_failed(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("id,x\n" + "".join(f"{i},{i * 7 % 5}\n" for i in range(500)))
    asked = "ppdm perturb ids.csv --gamma 9 --id id --key-file new.key --keep-order"
    before = listing(tmp_path)
    shell(f"{asked} -o - --to csv --sidecar s.json > /dev/full", code=1)
    assert listing(tmp_path) == before
    shell(f"{asked} -o r1.csv")
    assert stat.S_IMODE((tmp_path / "new.key").stat().st_mode) == 0o600
    assert len((tmp_path / "new.key").read_text()) == 65
    shell(f"{asked} -o r2.csv")


NOT_TABLES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "gzip": (gzip.compress, "compressed by gzip. Decompress it on the way, such as zcat"),
    "bzip2": (bz2.compress, "compressed by bzip2. Decompress it on the way, such as bzcat"),
    "xz": (lzma.compress, "compressed by xz. Decompress it on the way, such as xzcat"),
    "Parquet": (lambda _: b"PAR1" + bytes(1000), "Parquet, which is read from its end. Name the file"),
    "zip": (lambda _: b"PK\3\4xx", "a zip archive, or a workbook of Excel. Save it as CSV"),
}


@pytest.mark.parametrize("what", NOT_TABLES)
def test_a_stream_that_is_no_table_is_called_what_it_is(what: str, ppdm: Run) -> None:
    make, said = NOT_TABLES[what]
    for form in (["--from", "csv"], []):
        content = make(people(500).write_csv().encode())
        done = ppdm("perturb", "-", "-o", "o.csv", "--gamma", "9", *form, stdin=content, code=1)
        assert said.encode() in done.stderr and done.stderr.count(b"\n") == 1


def test_a_file_may_be_named_like_a_uri(tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "s3:").mkdir()
    people(99).write_csv(tmp_path / "s3:" / "d.csv")
    ppdm("perturb", "s3:/d.csv", "-o", "o.csv", "--gamma", "9", "--shuffle")

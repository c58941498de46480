"""What holds for every command: -q, failures for programs, the environment, completion, many columns."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest

from ppdm_cli.commands import SUBCOMMANDS, cli
from ppdm_cli.commands.command import QUIET, SHORT_LINES
from ppdm_cli.commands.shell import FOLDER, THREADS, WRITER
from ppdm_cli.tables import atomic, base, parquet
from tests.docs import ROOT
from tests.vocabulary import Run, listing, people, table

PERTURB = ("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9", "--drop", "since")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    people(300).write_parquet(tmp_path / "in.parquet")
    return tmp_path


def test_quiet_is_quiet_but_for_failures_and_results(
    folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ppdm(*PERTURB).stderr and ppdm(*PERTURB, "-q", code=2).stderr
    assert ppdm("estimate", "r.parquet", "-q").stdout == ppdm("estimate", "r.parquet").stdout != b""
    for value, quiet in (("1", True), ("0", False)):
        monkeypatch.setenv(QUIET, value)
        assert bool(ppdm(*PERTURB, "--force").stderr) != quiet


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_short_help_fits_a_screen_and_the_whole_one_has_all(
    name: str, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, whole = (ppdm(name, option).stdout.decode() for option in ("-h", "--help"))
    lines = short.splitlines()
    assert len(lines) <= SHORT_LINES and len(lines) < len(whole.splitlines())
    assert len([line for line in lines if line.startswith(f"  ppdm {name} ")]) == 2
    command = cli.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    for option in (p for p in command.params if isinstance(p, click.Option)):
        assert re.search(rf"(?<![\w-]){option.opts[-1]}(?![\w-])", short), option.opts
        assert option.opts[-1] in whole and (option.help or "").split()[0] in whole
    groups = [line for line in whole.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert {*["Options:"] * (name != "explain"), "Output and reports:"} <= set(groups)


def test_trouble_inside_is_an_object_too(folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for raised, kind in (
        (KeyError("CANARY"), "failed"),
        (MemoryError(), "out of memory"),
        (OSError(), "failed"),
    ):

        def fails(*_: object, raised: Exception = raised, **__: object) -> None:
            raise raised

        monkeypatch.setattr("ppdm_cli.releases.inspect", fails)
        said = ppdm("inspect", "in.parquet", "--json", code=1).stderr
        assert json.loads(said)["error"]["kind"] == kind and b"CANARY" not in said


def test_the_environment_sets_threads_and_the_temporary_folder(
    folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "scratch").mkdir()
    seen: dict[str, set[Any]] = {"threads": set(), "folders": set()}
    real, spool = base.threads, tempfile.TemporaryFile

    def threads() -> int:
        seen["threads"].add(real())
        return real()

    def spooled(*, dir: Path | None, prefix: str) -> Any:
        seen["folders"].add(dir)
        return spool(dir=dir, prefix=prefix)

    monkeypatch.setattr(base, "threads", threads)
    monkeypatch.setattr(atomic.tempfile, "TemporaryFile", spooled)
    monkeypatch.setenv(THREADS, "3")
    monkeypatch.setenv(FOLDER, str(folder / "scratch"))
    ppdm(*PERTURB, "--shuffle")
    assert seen == {"threads": {3}, "folders": {folder / "scratch"}}
    monkeypatch.delenv(THREADS)
    monkeypatch.setenv(FOLDER, "")
    ppdm(*PERTURB, "--shuffle", "--force")
    assert seen["folders"] == {folder / "scratch", Path()} and base.THREADS.get() is None


def test_the_environment_has_pyarrow_write_parquet(
    folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(parquet, "PagesWriter", fails)
    monkeypatch.setenv(WRITER, "pyarrow")
    ppdm(*PERTURB)
    monkeypatch.delenv(WRITER)
    ppdm(*PERTURB, "--force", code=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (THREADS, "0"),
        (THREADS, "-1"),
        (THREADS, "two"),
        (THREADS, "9" * 99),
        (FOLDER, "in.parquet"),
        (WRITER, "ppdm"),
    ],
)
def test_a_default_that_makes_no_sense_is_said(
    folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert name in ppdm(*PERTURB, code=2).stderr.decode()


def test_no_option_of_privacy_keys_or_overwriting_comes_from_the_environment(
    folder: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the code, where one option alone names a variable, nor in what is done."""
    for command in SUBCOMMANDS:
        for option in cli.get_command(None, command).params:  # type: ignore[arg-type, union-attr]
            assert option.envvar == (QUIET if option.name == "quiet" else None)
            for name in (f"PPDM_{option.name}", f"PPDM_{command}_{option.name}", str(option.name)):
                if name.upper() not in (QUIET, "PPDM_PATH", "PATH", "HOME"):
                    monkeypatch.setenv(name.upper().replace("-", "_"), "1")
    ppdm("perturb", "in.parquet", "-o", "r.parquet", "--drop", "since", code=2)
    ppdm(*PERTURB)
    before = listing(folder)
    ppdm(*PERTURB, code=2)
    assert listing(folder) == before
    assert json.loads(before["r.parquet.ppdm.json"])["privacy"]["coins"] == "system"


@pytest.mark.parametrize(("shell", "word"), [("bash", b"complete"), ("zsh", b"compdef"), ("fish", b"complete")])
def test_completion_is_what_the_page_says(tmp_path: Path, process: Run, shell: str, word: bytes) -> None:
    assert f"_PPDM_COMPLETE={shell}_source ppdm" in (ROOT / "docs" / "reference" / "shell.md").read_text()
    assert word in process(_PPDM_COMPLETE=f"{shell}_source").stdout


def test_completion_completes(process: Run) -> None:
    shown = process(_PPDM_COMPLETE="bash_complete", COMP_WORDS="ppdm perturb --matrix b", COMP_CWORD="3").stdout
    assert b"band" in shown and b"block" in shown


def test_a_terminal_shows_forty_columns_and_json_all(tmp_path: Path, ppdm: Run) -> None:
    frame = table(400, **{f"column{i}": range(2 + i % 5) for i in range(130)})
    frame.write_parquet(tmp_path / "in.parquet")
    report = ppdm("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9").stderr
    for shown in (report, ppdm("inspect", "r.parquet").stdout):
        lines = [line for line in shown.decode().splitlines() if line.startswith("column")]
        assert len([line for line in lines if len(line.split()) > 5 and "," not in line]) == 40
    assert len(json.loads(ppdm("inspect", "r.parquet", "--json").stdout)["attributes"]) == 130


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's memory is tuned")
def test_memory_is_tuned_by_the_command_line_alone() -> None:
    """All threads take memory from one place: what one of them frees, the others use."""
    code = (
        "import ctypes, os, threading\n"
        "before = dict(os.environ)\n"
        "import ppdm_cli, ppdm_cli.commands as c\n"
        "assert before == dict(os.environ)\n"
        "c._keep_freed_memory()\n"
        "assert os.environ['ARROW_DEFAULT_MEMORY_POOL'] == 'system'\n"
        "libc = ctypes.CDLL(None)\n"
        "threads = [threading.Thread(target=libc.malloc, args=(1000,)) for _ in range(4)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join()\n"
        "libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, 'stdout')); libc.fflush(None)\n"
    )
    clean = {n: v for n, v in os.environ.items() if n != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, check=True)
    assert done.stdout.count(b"<heap nr=") == 1

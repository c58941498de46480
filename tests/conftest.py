"""Fixtures of every test: the real command line, in this process or in one of its own."""

from __future__ import annotations

import io
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: workers have one core each
os.environ.pop("COLUMNS", None)  # xdist sets it, and output to a file would be as wide
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from ppdm_cli.coins import Coins
from tests.vocabulary import Run, here, run

settings.register_profile("ours", deadline=None)  # how long an example takes says what else the machine does
settings.load_profile("ours")
Coins(bytes(32))  # loads the cipher, which takes longer than the deadline of an example

LONGEST = ("engine/test_spark", "test_docs", "test_digests", "commands/", "test_costs", "test_fuzz")
"""What begins first, so that no worker is alone with it at the end; one has all of Spark, with one session."""


class ByFile(LoadFileScheduling):
    """Hands out the tests file by file, and those of Spark together."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "Spark" if "engine/test_spark" in file else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        return next((i for i, name in enumerate(LONGEST) if f"tests/{name}" in item.nodeid), len(LONGEST))

    items.sort(key=place)


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """A run that was interrupted ignores the next ^C; the test after it, and its children, must not."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def process(tmp_path: Path) -> Run:
    """Drive the command line as a process of its own: where streams, the environment or signals matter."""
    return partial(run, tmp_path)


@pytest.fixture
def ppdm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Drive the command line in a folder of its own: `ppdm("inspect", "x.parquet", code=0)`."""
    with TemporaryFile(buffering=0) as out, TemporaryFile(buffering=0) as err:

        def run(*args: object, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
            monkeypatch.chdir(tmp_path)
            for printed in (out, err):
                printed.seek(0)
                printed.truncate()
            with piped(stdin) as stream:
                left = here(tmp_path, *args, out=out, err=err, stdin=stream)
            out.seek(0)
            err.seek(0)
            done = subprocess.CompletedProcess(args, code, out.read(), err.read())
            assert left == code, (args, left, done.stderr.decode())
            return done

        yield run


@contextmanager
def piped(content: bytes) -> Iterator[io.TextIOWrapper]:
    """Yield a standard input that is a pipe with these bytes."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(writing, "wb") as file:
            file.write(content)

    writer = Thread(target=write)
    writer.start()
    with io.TextIOWrapper(os.fdopen(reading, "rb")) as stream:
        yield stream
    writer.join()

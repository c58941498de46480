"""Shared parts of the tests: the real command line, and tables written, read and looked at."""

from __future__ import annotations

import io
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: workers have one core each
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import settings

from ppdm_cli.coins import Coins
from ppdm_cli.commands import main
from ppdm_cli.engine import map_partitions, running
from ppdm_cli.tables import CsvOptions, Table, format_of, open_table

settings.register_profile("ours", deadline=None)  # how long an example takes says what else the machine does
settings.load_profile("ours")
Coins(bytes(32))  # loads the cipher, which takes longer than the deadline of an example
Run = Callable[..., subprocess.CompletedProcess[bytes]]


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

    def run(
        *args: object, stdin: bytes = b"", code: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "ppdm_cli", *map(str, args)],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            check=False,
            env=os.environ | environment,
        )
        assert done.returncode == code, (args, done.returncode, done.stderr.decode())
        return done

    return run


@pytest.fixture
def ppdm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Drive the command line in a folder of its own: `ppdm("inspect", "x.parquet", code=0)`.

    Its `main()` runs within this process, which takes a tenth of the time of a process of its own.
    """

    def run(*args: object, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        monkeypatch.chdir(tmp_path)
        with monkeypatch.context() as patch, piped(stdin) as stream:
            patch.setattr(sys, "argv", ["ppdm", *map(str, args)])
            patch.setattr(sys, "stdin", stream)
            with pytest.raises(SystemExit) as left:
                main()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        assert left.value.code == code, (args, left.value.code, err.decode())
        return subprocess.CompletedProcess(args, code, out, err)

    return run


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


def people(rows: int = 1000, seed: int = 7) -> pl.DataFrame:
    """Records as an owner has them: a label, a number, categories, a date, in no telling order."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 900, rows).astype("int32")
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "income": rng.gamma(3, 12_000, rows).round(2),
            "region": rng.choice(["north", "south", "east"], rows).tolist(),
            "member": rng.random(rows) < 0.4,
            "since": pl.Series(days).cast(pl.Date),
            "group": rng.choice(["A", "B"], rows).tolist(),
        }
    )


def write_table(table: pa.Table, path: Path, sidecar: bytes | None = None) -> Path:
    """A table through the tool's own writers, in the format of the suffix."""
    with path.open("wb") as file, format_of(path).writer(file, table.schema, path.name, sidecar) as writer:
        for batch in table.to_batches():
            writer.write(batch)
        writer.close(sidecar)
    return path


def read_table(source: Any, columns: list[str] | None = None, threads: int = 2, **csv: Any) -> pa.Table:
    """A whole table through the tool's own readers, dictionaries as their values."""
    return loaded(open_table(source, csv=CsvOptions(**csv)), columns, threads)


def loaded(table: Table, columns: list[str] | None = None, threads: int = 2) -> pa.Table:
    names = list(table.schema.names) if columns is None else columns
    schema = pa.schema([table.schema.field(n).with_nullable(True) for n in names])
    batches = []
    with running(threads=threads):
        for batch in map_partitions(table, lambda b: b.columns, columns=columns):
            plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
            batches.append(pa.RecordBatch.from_arrays(plain, schema=schema))
    return pa.Table.from_batches(batches, schema).combine_chunks()


def listing(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too, with its bytes: to see that nothing changed."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Meanwhile:
    """Does something at the start of the pass of a number; what follows is what the passes were called."""

    def __init__(self, do: Callable[[], object], number: int) -> None:
        self.do, self.number, self.passes = do, number, list[str]()

    def begin(self, doing: str, total: int | None) -> None:
        self.passes.append(doing)
        if len(self.passes) == self.number:
            self.do()

    def advance(self, rows: int) -> None: ...

    def end(self) -> None: ...

"""Tables, releases and runs for the tests of every package: make what a test is about, and say only that.

table(500, age=range(18, 90), pay=(0.0, 100.0), town=["n", "s"], ill={"no": 0.8, "yes": 0.2})
released(people(), class_="group", keep=["group"])      # a release in memory, repeatable
with raises("rare-categories"): ...                     # an error, by its id
run(folder, "inspect", "release.parquet", code=3)       # a process; the fixture `ppdm` is quicker
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import Release, perturb
from ppdm_cli.commands import run_command_line
from ppdm_cli.engine import map_partitions, running
from ppdm_cli.errors import PpdmError
from ppdm_cli.tables import CsvOptions, Table, format_of, open_table, synthetic

Run = Callable[..., subprocess.CompletedProcess[bytes]]

# -- tables


def people(rows: int = 1000, seed: int = 7) -> pl.DataFrame:
    """Make records as an owner has them, in no order: numbers, categories, a date, a label."""
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


def generated(rows: int = 20_000, seed: int = 1, function: int = 2) -> pl.DataFrame:
    """Make the table of `ppdm generate`: nine attributes and the class `group`, which they decide."""
    return pl.concat([pl.DataFrame(b) for b in synthetic.generate(function, rows, seed)])


def structure(*edges: str) -> str:
    """Write the JSON of a network of which only the edges are known, such as "smoker -> cough"."""
    parents: dict[str, list[str]] = {}
    for edge in edges:
        before, after = edge.split(" -> ")
        parents.setdefault(before, [])
        parents.setdefault(after, []).append(before)
    nodes = [{"name": n, "states": [], "parents": p} for n, p in parents.items()]
    return json.dumps({"format": "ppdm-network", "version": 1, "tool": "ppdm", "nodes": nodes})


def table(
    rows: int = 1000, seed: int = 1, /, missing: dict[str, float] | None = None, **columns: Any
) -> pl.DataFrame:
    """Make columns that are independent unless one is a function of the others.

    A column is given as a tuple (low, high) of uniform numbers, a range of whole numbers, a list of values, a
    dict of values and their shares, an array, or a function of the generator and the columns before it.
    `missing` maps a column to the share of its values that are null.
    """
    rng, made = np.random.default_rng(seed), dict[str, Any]()
    for name, wanted in columns.items():
        made[name] = _column(wanted, rows, rng, made)
    lost = {n: pl.Series(rng.random(rows) < share) for n, share in (missing or {}).items()}
    whole = {n: pl.Series(n, c) for n, c in made.items()}
    return pl.DataFrame([c.set(lost[n], None) if n in lost else c for n, c in whole.items()])


def _column(wanted: Any, rows: int, rng: np.random.Generator, before: dict[str, Any]) -> Any:
    match wanted:
        case (low, high) if isinstance(wanted, tuple):
            return rng.uniform(low, high, rows)
        case range():
            return rng.choice(np.array(wanted), rows)
        case dict():
            return rng.choice(list(wanted), rows, p=list(wanted.values()))
        case list():
            return rng.choice(wanted, rows)
    return wanted(rng, before) if callable(wanted) else wanted


# -- releases


def released(data: Any = None, output: Path | None = None, **settings: Any) -> Release:
    """Publish a table (by default `people()`) by seed 1, at gamma 9 unless the settings say otherwise."""
    defaults: dict[str, Any] = {"seed": 1, "keep_order": not settings.get("shuffle")}
    if not settings.keys() & {"gamma", "record_epsilon", "rho1", "plan", "like", "scheme"}:
        defaults["gamma"] = 9
    return perturb(people() if data is None else data, output, **defaults | settings)


@contextmanager
def raises(id: str, kind: type[PpdmError] = PpdmError) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error of ours with this id."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.id == id, caught.value


# -- the command line


def run(
    folder: Path, *args: object, stdin: bytes = b"", code: int = 0, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a folder as a process of its own, and check how it ended."""
    done = subprocess.run(
        [sys.executable, "-m", "ppdm_cli", *map(str, args)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == code, (args, done.returncode, done.stderr.decode())
    return done


def here(folder: Path, *args: object, out: IO[bytes], err: IO[bytes], stdin: IO[str] | None = None) -> int:
    """Run a command within this process, in a tenth of the time of one of its own, and return its code."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["ppdm", *map(str, args)])
        patch.setattr(sys, "stdin", stdin or stack.enter_context(Path(os.devnull).open()))
        for number, name, target in ((1, "stdout", out), (2, "stderr", err)):
            getattr(sys, name).flush()
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(target.fileno(), number)
            patch.setattr(sys, name, stack.enter_context(os.fdopen(os.dup(number), "w", encoding="utf-8")))
        with pytest.raises(SystemExit) as left:
            run_command_line()
    return int(left.value.code or 0)


class Anything:
    """Equal to every exit code, and remembers it."""

    code: Any = None

    def __eq__(self, other: object) -> bool:
        self.code = other
        return True

    __hash__ = None  # type: ignore[assignment]


# -- while it runs


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


# -- private values


WORD, NUMBER = "CANARY-7f3a", 918273645
SIGNS = [
    re.compile(p)
    for p in (
        rb"CANARY",
        rb"918[,.]?273[,.]?645",
        re.escape(np.int64(NUMBER).tobytes()[:4]),
        re.escape(np.float64(NUMBER).tobytes()[3:]),
    )
]
"""What a private value looks like in text, with points or commas, and in the bytes of numbers."""


def seen(content: bytes) -> bool:
    """Return whether a canary is in something that was written."""
    return any(sign.search(content) for sign in SIGNS)


# -- files


def write_table(table: pa.Table, path: Path, sidecar: bytes | None = None) -> Path:
    """Write a table by the tool's own writers, in the format of the suffix."""
    with path.open("wb") as file, format_of(path).writer(file, table.schema, path.name, sidecar) as writer:
        for batch in table.to_batches():
            writer.write(batch)
        writer.close(sidecar)
    return path


def read_table(source: Any, columns: list[str] | None = None, threads: int = 2, **csv: Any) -> pa.Table:
    """Read a whole table by the tool's own readers, dictionaries as their values."""
    return loaded(open_table(source, csv=CsvOptions(**csv)), columns, threads)


def loaded(table: Table, columns: list[str] | None = None, threads: int = 2) -> pa.Table:
    """Read a whole opened table, dictionaries as their values."""
    names = list(table.schema.names) if columns is None else columns
    schema = pa.schema([table.schema.field(n).with_nullable(True) for n in names])
    batches = []
    with running(threads=threads):
        for batch in map_partitions(table, lambda b: b.columns, columns=columns):
            plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
            batches.append(pa.RecordBatch.from_arrays(plain, schema=schema))
    return pa.Table.from_batches(batches, schema).combine_chunks()


def listing(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones too, with its bytes: to see that nothing changed."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

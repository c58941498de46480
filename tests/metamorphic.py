"""Neighbouring tables for `test_metamorphic`: runs of `perturb` on them, and what must be the same in both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from ppdm_cli.engine import running
from tests.vocabulary import Run, table

ROWS, NEW = 600, 200
DOMAINS = (
    "--domain",
    "age=0:99",
    "--domain",
    "pay=0:1000",
    "--domain",
    "region=e|n|s|w",
    "--domain",
    "ill=no|yes",
)
NULLS = ("--attribute", "age:nulls=true", "--attribute", "region:nulls=true")
ID = ("--id", "id", "--keep", "id", "--key-file", "release.key")
SEED = ("--seed", "5", "--drop", "id")
_DIGEST = re.compile(rb'"blake2b": ?"[0-9a-f]{64}"')


def records(rows: int = ROWS, seed: int = 3) -> pl.DataFrame:
    """Make records in which nobody is over 80 and nobody is from the west, in no order."""
    made = table(
        rows, seed, {"age": 0.05, "region": 0.05},
        age=range(18, 80), pay=(50.0, 900.0), region=["n", "s", "e"], ill={"no": 0.7, "yes": 0.3},
    )  # fmt: skip
    names = np.random.default_rng(seed).permutation(10 * rows)[:rows]
    return made.with_columns(id=pl.Series([f"p{n}" for n in names]))


@dataclass(frozen=True)
class Variant:
    """A way to publish: its options, and the files that the table is read from."""

    options: tuple[str, ...]
    suffix: str = "parquet"
    parts: int = 1
    threads: int | None = None
    source: str = "parquet"

    @property
    def by_id(self) -> bool:
        return "--id" in self.options

    @property
    def copies(self) -> int:
        return int(self.options[self.options.index("--copies") + 1]) if "--copies" in self.options else 1


VARIANTS = {
    "by place": Variant(("--gamma", "9", *SEED)),
    "by identifier": Variant(("--gamma", "9", *ID)),
    "bands": Variant(("--gamma", "5", "--matrix", "band", "--representative", "random", *ID)),
    "together": Variant(("--gamma", "4", "--together", "age,region", *SEED)),
    "recipes": Variant(("--record-epsilon", "2", "--publish", "2", *ID)),
    "class in the budget": Variant(("--record-epsilon", "3", "--class", "ill", "--class-in-budget", *SEED)),
    "copies": Variant(("--gamma", "3", "--copies", "2", *SEED)),
    "csv": Variant(("--gamma", "9", *ID), "csv", source="csv"),
    "arrow": Variant(("--gamma", "9", *SEED), "arrow"),
    "threads": Variant(("--gamma", "9", *ID), parts=3, threads=3),
    "shuffled": Variant(("--gamma", "9", "--shuffle", *ID)),
}


@dataclass(frozen=True)
class Published:
    """What one run left: the cells by record, and everything else that anyone can see."""

    cells: dict[Any, tuple[Any, ...]]
    order: list[Any]
    said: bytes
    sidecar: bytes
    dictionaries: list[Any]
    files: tuple[bytes, ...]
    """The bytes of the files; a test gives all releases one number."""


def publish(
    frame: pl.DataFrame, variant: Variant, folder: Path, ppdm: Run, *more: str, code: int = 0
) -> Published:
    """Run `perturb` on a table, and read what it published."""
    for old in [*folder.glob("in*"), *folder.glob("out*")]:
        old.unlink()
    inputs = []
    for number in range(variant.parts):
        start, end = (len(frame) * n // variant.parts for n in (number, number + 1))
        inputs.append(f"in{number}.{variant.source}")
        part, to = frame[start:end], folder / inputs[-1]
        part.write_csv(to) if variant.source == "csv" else part.write_parquet(to)
    declared = () if "--like" in more else (*DOMAINS, *NULLS)
    options = () if "--like" in more else variant.options
    with running(threads=variant.threads):
        done = ppdm("perturb", *inputs, "-o", f"out.{variant.suffix}", *declared, *options, *more, code=code)
    said = done.stdout + done.stderr
    if code:
        return Published({}, [], said, b"", [], ())
    names = [f"out.{variant.suffix}"]
    if variant.copies > 1:
        names = [f"out.{n}.{variant.suffix}" for n in range(1, variant.copies + 1)]
    return read(folder, names, said, variant.by_id)


def read(folder: Path, names: Sequence[str], said: bytes, by_id: bool) -> Published:
    parts = [_frame(folder / name) for name in names]
    keys = parts[0]["id"].to_list() if by_id else list(range(len(parts[0])))
    rows = zip(*(p.drop("id", strict=False).rows() for p in parts), strict=True)
    files = [_bare((folder / name).read_bytes()) for name in names]
    sidecars = b"".join(_bare((folder / f"{name}.ppdm.json").read_bytes()) for name in names)
    dictionaries = [d for name in names if name.endswith("parquet") for d in _dictionaries(folder / name)]
    return Published(
        dict(zip(keys, (sum(r, ()) for r in rows), strict=True)),
        keys,
        said,
        sidecars,
        dictionaries,
        tuple(files),
    )


def _frame(path: Path) -> pl.DataFrame:
    match path.suffix:
        case ".csv":
            return pl.read_csv(path, infer_schema=False)
        case ".arrow":
            return pl.read_ipc(path)
    return pl.read_parquet(path)


def _bare(data: bytes) -> bytes:
    return _DIGEST.sub(b"", data)


def _dictionaries(path: Path) -> Iterator[Any]:
    """Yield what a file says of each column besides its cells: encodings, statistics, dictionary."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        for number in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(number)
            if column.path_in_schema == "id":
                continue
            yield column.path_in_schema, column.encodings, column.compression, column.has_dictionary_page
    names = [n for n in file.schema_arrow.names if n != "id"]
    for column in pq.read_table(path, columns=names, read_dictionary=names).columns:
        if hasattr(column.type, "value_type"):  # those of text; shuffled rows have theirs in the rows' order
            yield sorted(column.chunk(0).dictionary.to_pylist())


# -- changes of one record


def changed(frame: pl.DataFrame, row: int, **values: Any) -> pl.DataFrame:
    at = pl.int_range(pl.len()) == row
    kinds = frame.schema
    return frame.with_columns(
        pl.when(at).then(pl.lit(v, kinds[n])).otherwise(pl.col(n)).alias(n) for n, v in values.items()
    )


CHANGES: dict[str, dict[str, Any]] = {
    "another value": {"age": 33, "region": "s", "pay": 777.0},
    "a new category": {"region": "w"},
    "a new extreme": {"age": 99, "pay": 1000.0},
    "a null": {"age": None, "region": None},
}
PLACES = (0, ROWS // 2, ROWS - 1)


def others(published: Published, *records: Any) -> dict[Any, tuple[Any, ...]]:
    return {k: v for k, v in published.cells.items() if k not in records}

"""Releases for the tests of the miner's commands: one of each format, and many that are damaged."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_cli import perturb
from ppdm_cli.releases import read_sidecar
from tests.vocabulary import NUMBER, WORD, people, read_table, write_table

ROWS = 4000
DOMAINS: dict[str, Any] = {
    "age": {"domain": [0, 120], "bins": 12},
    "income": {"domain": [0, 400_000], "bins": 8},
    "since": {"domain": ["1970-01-01", "1972-12-31"], "bins": 6},
}


def made(folder: Path) -> Path:
    """A release in each format, of the same records, with a kept class; and its original."""
    people(ROWS).write_parquet(folder / "original.parquet")
    people(ROWS).write_csv(folder / "original.csv")
    for suffix in ("parquet", "csv", "arrow"):
        target = folder / f"r.{suffix}"
        perturb(people(ROWS), target, gamma=9, class_="group", keep=["group"], seed=3, attributes=DOMAINS)
    return folder


@dataclass
class _Damaged:
    """Ways to write a file that does not fit its sidecar; each returns the arguments that name it."""

    folder: Path
    whole: pa.Table
    sidecar: bytes

    def parquet(self, name: str, table: pa.Table) -> tuple[str, ...]:
        write_table(table, self.folder / f"{name}.parquet")
        (self.folder / f"{name}.parquet.ppdm.json").write_bytes(self.sidecar)
        return (f"{name}.parquet",)

    def csv(self, name: str, old: str, new: str, digest: bool = False) -> tuple[str, ...]:
        text = (self.folder / "r.csv").read_text()
        (self.folder / f"{name}.csv").write_text(text.replace(old, new, 1))
        sidecar = read_sidecar(self.folder / "r.csv.ppdm.json", None, "r.csv")
        sidecar = sidecar if digest else msgspec.structs.replace(sidecar, blake2b=msgspec.UNSET)
        (self.folder / f"{name}.csv.ppdm.json").write_bytes(sidecar.encode())
        return (f"{name}.csv",)

    def edited(self, name: str, old: bytes, new: bytes, of: bytes | None = None) -> tuple[str, ...]:
        of = of or self.sidecar
        assert old in of
        pq.write_table(self.whole.replace_schema_metadata(None), self.folder / f"{name}.parquet")
        (self.folder / f"{name}.parquet.ppdm.json").write_bytes(of.replace(old, new, 1))
        return (f"{name}.parquet",)


def damaged(folder: Path) -> dict[str, tuple[tuple[str, ...], int, str]]:
    """Files that do not fit, each with its exit code and what is said of it."""
    whole = read_table(folder / "r.parquet")
    sidecar = (folder / "r.parquet.ppdm.json").read_bytes()
    make = _Damaged(folder, whole, sidecar)
    ages = whole["age"].to_numpy().copy()
    ages[7] = NUMBER
    regions = whole["region"].to_pylist()
    regions[7] = WORD
    place = whole.schema.get_field_index("age")
    perturb(people(ROWS), folder / "other.parquet", gamma=9, drop=["since"])
    shutil.copy(folder / "other.parquet", folder / "swapped.parquet")
    shutil.copy(folder / "r.parquet.ppdm.json", folder / "swapped.parquet.ppdm.json")
    shutil.copy(folder / "r.parquet", folder / "beside.parquet")
    (folder / "beside.parquet.ppdm.json").write_bytes(sidecar.replace(b'"gamma":9}', b'"gamma":3}', 1))
    (folder / "lone.csv").write_bytes((folder / "r.csv").read_bytes())
    (folder / "broken.parquet").write_bytes((folder / "r.parquet").read_bytes()[:-200])
    (folder / "broken.parquet.ppdm.json").write_bytes(sidecar)
    unseeded = perturb(people(ROWS), gamma=9, class_="group", keep=["group"], attributes=DOMAINS).sidecar
    region, first = "north,", (folder / "r.csv").read_text().splitlines(keepends=True)[1]
    return {
        "sidecar of another": (("swapped.parquet",), 3, "differs from the one inside"),
        "missing column": (make.parquet("gone", whole.drop_columns(["age"])), 3, "lacks the columns 'age'"),
        "more columns": (make.parquet("more", whole.append_column("x", whole["age"])), 3, "the columns 'x'"),
        "changed type": (
            make.parquet("type", whole.set_column(place, "age", whole["age"].cast(pa.float64()))),
            3,
            "'age' is of type double, but in the sidecar of type int64",
        ),
        "one too few": (
            make.parquet("short", whole.slice(1)),
            3,
            "has 3,999 records, but its sidecar says 4,000",
        ),
        "a number outside": (
            make.parquet("number", whole.set_column(place, "age", pa.array(ages))),
            3,
            "'age' has a value outside its domain in row 8 ",
        ),
        "a word outside": (
            make.parquet("word", whole.set_column(2, "region", pa.array(regions))),
            3,
            "'region' has a value outside its domain in row 8 ",
        ),
        "a CSV with a word": (make.csv("outside", region, f"{WORD},"), 3, "'region' has a value outside"),
        "a CSV with its digest": (make.csv("digest", region, f"{WORD},", True), 3, "was changed after it was"),
        "one too many in a CSV": (make.csv("longer", first, first * 2), 3, "4,001 records"),
        "a hand-edited gamma": (
            make.edited("gamma", b'"gamma":9}', b'"gamma":90}', unseeded.encode()),
            3,
            "perturbed_gamma does not follow from the attributes",
        ),
        "edited beside the data": (("beside.parquet",), 3, "differs from the one inside"),
        "a hand-edited field": (make.edited("field", b'"role":"per', b'"roll":"per'), 3, "is not valid"),
        "a hand-edited N": (make.edited("N", b'"N":12', b'"N":13'), 3, "N is not the number of its codes"),
        "no sidecar": (("lone.csv",), 3, "no sidecar"),
        "no release": (("original.parquet",), 3, "no sidecar"),
        "cut off": (("broken.parquet",), 1, "broken.parquet"),
        "not there": (("nosuch.parquet",), 1, "does not exist"),
    }

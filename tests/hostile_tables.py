"""Small tables and plans that ask for much; see `tests.hostile`."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile import CASES, Case, case

PERTURB = ["perturb", "--gamma", "9", "-o", "o.parquet"]


@case
def a_header_that_opens_a_quote(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b'"' + b"\n" * (80 << 20), 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_record_of_quotes_and_newlines(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b'a,b\n1,"' + b'""\n' * (20 << 20), 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_header_of_many_columns(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b",".join(b"%x" % i for i in range(6_000_000)) + b"\n", 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_header_of_60000_columns(folder: Path) -> list[str]:
    header = b",".join(b"c%d" % i for i in range(60_000))
    (folder / "d.csv").write_bytes(header + b"\n" + (b"1," * 59_999 + b"2\n") * 3)
    return [*PERTURB, "d.csv"]


@case
def a_cell_of_60_mib(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n1," + b"x" * (60 << 20) + b"\n2,y\n", 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_cell_of_15_mib(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n1," + b"x" * (15 << 20) + b"\n2,y\n", 9))
    return [*PERTURB, "d.csv.gz"]


@case
def cells_of_15_mib(folder: Path) -> list[str]:
    rows = b"1," + b"x" * (15 << 20) + b"\n2,y\n"
    (folder / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n" + rows * 5, 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_line_without_an_end(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n1," + b"x" * (80 << 20), 9))
    return [*PERTURB, "d.csv.gz"]


@case
def empty_lines_without_end(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" + b"\n" * (400 << 20), 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_row_of_many_cells(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" + b"," * (60 << 20) + b"\n", 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_parquet_string_of_200_mib(folder: Path) -> list[str]:
    text = pa.array(["x" * (200 << 20), "y"], pa.string())
    pq.write_table(pa.table({"a": pa.array([1, 2]), "b": text}), folder / "d.parquet", compression="zstd")
    return [*PERTURB, "d.parquet"]


@case
def a_parquet_of_2000_columns(folder: Path) -> list[str]:
    rng = np.random.default_rng(1)
    table = pa.table({f"c{i}": pa.array(rng.integers(0, 5, 200)) for i in range(2000)})
    pq.write_table(table, folder / "d.parquet")
    return [*PERTURB, "d.parquet"]


@case
def a_parquet_of_10_million_nulls(folder: Path) -> list[str]:
    pq.write_table(pa.table({"a": pa.nulls(10_000_000, pa.int64())}), folder / "d.parquet", compression="zstd")
    return [*PERTURB, "d.parquet", "--domain", "a=0:9"]


@case
def many_hive_keys(folder: Path) -> list[str]:
    place = folder / "d"
    for i in range(300):
        place = place / f"k{i}=1" if i % 20 == 0 else place
    place.mkdir(parents=True)
    for i in range(600):
        pq.write_table(pa.table({"a": [i % 3]}), place / f"p{i}.parquet")
    return [*PERTURB, "d", "--keep-order"]


# -- plans and options


@case
def a_plan_nested_deep(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("a\n1\n2\n" * 9)
    (folder / "p.toml").write_text("a=" + "[" * 100_000 + "]" * 100_000)
    return [*PERTURB, "d.csv", "--plan", "p.toml"]


@case
def a_plan_of_many_attributes(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("a\n1\n2\n" * 9)
    (folder / "p.toml").write_text("".join(f"[attributes.a{i}]\ngamma = 5\n" for i in range(30_000)))
    return [*PERTURB, "d.csv", "--plan", "p.toml"]


@case
def a_plan_of_a_dotted_key(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("a\n1\n2\n" * 9)
    (folder / "p.toml").write_text(".".join(["a"] * 50_000) + " = 1\n")
    return [*PERTURB, "d.csv", "--plan", "p.toml"]


@case
def a_domain_of_many_lines(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("a\n" + "1\n2\n" * 99)
    (folder / "v.csv").write_text("a\n" + "".join(f"{i}\n" for i in range(3_000_000)))
    return [*PERTURB, "d.csv", "--domain", "a=@v.csv"]


@case
def a_key_file_of_64_mib(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("i,a\n" + "".join(f"{i},{i % 3}\n" for i in range(99)))
    (folder / "k").write_text("a" * (64 << 20))
    (folder / "k").chmod(0o600)
    return [*PERTURB, "d.csv", "--key-file", "k", "--id", "i"]


@case
def the_entropy_of_every_gamma_and_bin(folder: Path) -> list[str]:
    return ["entropy", "--gamma", "2:100000:1", "--bins", "2:60000:1", "--records", "1000"]


@case
def a_sidecar_nested_deep(folder: Path) -> list[str]:
    (folder / "r.csv.ppdm.json").write_text("[" * 1_000_000 + "]" * 1_000_000)
    return ["inspect", "r.csv.ppdm.json"]


def endless(setting: str) -> Case:
    def make(folder: Path) -> list[str]:
        (folder / "d.csv").write_text("a\n" + "1\n2\n" * 50)
        return [*PERTURB, "d.csv", *setting.split()]

    return make


CASES |= {
    "a plan without an end": endless("--plan /dev/zero"),
    "a domain without an end": endless("--domain a=@/dev/zero"),
    "a matrix without an end": endless("--attribute a:matrix=dense,table=/dev/zero"),
}

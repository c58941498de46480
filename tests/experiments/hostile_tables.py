"""Small tables, plans and files that ask for much; see `tests.experiments.hostile`."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.experiments.hostile import CASES, Case, case, category, release

PERTURB = ["perturb", "--gamma", "9", "-o", "o.parquet"]


def zipped(content: bytes) -> Case:
    """A gzipped CSV to be perturbed."""

    def make(folder: Path) -> list[str]:
        (folder / "d.csv.gz").write_bytes(gzip.compress(content, 9))
        return [*PERTURB, "d.csv.gz"]

    return make


def given(options: str, data: str = "a\n" + "1\n2\n" * 50, **files: str) -> Case:
    """A CSV to be perturbed with options, and other files: p_toml is p.toml."""

    def make(folder: Path) -> list[str]:
        for name, content in {"d_csv": data, **files}.items():
            (folder / name.replace("_", ".")).write_text(content)
        return [*PERTURB, "d.csv", *options.split()]

    return make


LONG = b"1," + b"x" * (15 << 20) + b"\n2,y\n"
MAPPED = {"data": "a\n" + "v1\nv2\n" * 99, "p_toml": '[attributes.a]\nmapping = "m.csv"\n'}
NAMES = [f"a{i}" for i in range(10_000)]
CASES |= {
    "a header that opens a quote": lambda f: zipped(b'"' + b"\n" * (80 << 20))(f),
    "a record of quotes and newlines": lambda f: zipped(b'a,b\n1,"' + b'""\n' * (20 << 20))(f),
    "a header of many columns": lambda f: zipped(b",".join(b"%x" % i for i in range(6_000_000)) + b"\n")(f),
    "a header of 60000 columns": lambda f: given(
        "", ",".join(f"c{i}" for i in range(60_000)) + "\n" + ("1," * 59_999 + "2\n") * 3
    )(f),
    "a cell of 60 mib": lambda f: zipped(b"a,b\n1," + b"x" * (60 << 20) + b"\n2,y\n")(f),
    "a cell of 15 mib": lambda f: zipped(b"a,b\n" + LONG)(f),
    "cells of 15 mib": lambda f: zipped(b"a,b\n" + LONG * 5)(f),
    "a line without an end": lambda f: zipped(b"a,b\n1," + b"x" * (80 << 20))(f),
    "empty lines without end": lambda f: zipped(b"a,b\n1,2\n" + b"\n" * (400 << 20))(f),
    "a row of many cells": lambda f: zipped(b"a,b\n1,2\n" + b"," * (60 << 20) + b"\n")(f),
    "a bomb of gzip in gzip": lambda f: zipped(gzip.compress(b"a\n" + b"1\n2\n" * (40 << 20), 9))(f),
    "a csv of one huge line": lambda f: given("", "a,b\n" + "1" * (60 << 20))(f),
    "rows of one person without end": lambda f: given(
        "--person p --rows-per-person 1", "p,a\n" + "".join(f"1,{i % 3}\n" for i in range(400_000))
    )(f),
    "a plan nested deep": given("--plan p.toml", p_toml="a=" + "[" * 100_000 + "]" * 100_000),
    "a plan of many attributes": given(
        "--plan p.toml", p_toml="".join(f"[attributes.a{i}]\ngamma = 5\n" for i in range(30_000))
    ),
    "a plan of 10000 attributes": given(
        "--plan p.toml",
        ",".join(NAMES) + "\n" + (",".join(["1"] * 10_000) + "\n") * 2,
        p_toml="".join(f"[attributes.{n}]\ngamma = 5\ndomain = '0:3'\n" for n in NAMES),
    ),
    "a plan of a dotted key": given("--plan p.toml", p_toml=".".join(["a"] * 50_000) + " = 1\n"),
    "a domain of many lines": lambda f: given(
        "--domain a=@v.csv", v_csv="a\n" + "".join(f"{i}\n" for i in range(3_000_000))
    )(f),
    "a mapping of 2 million lines": lambda f: given(
        "--plan p.toml --shuffle",
        m_csv="a,group\n" + "".join(f"v{i},g{i % 5}\n" for i in range(2_000_000)),
        **MAPPED,
    )(f),
    "a mapping of one line": lambda f: given(
        "--plan p.toml --shuffle", m_csv="a,group\n" + "v" * (80 << 20), **MAPPED
    )(f),
    "a plan without an end": given("--plan /dev/zero"),
    "a domain without an end": given("--domain a=@/dev/zero"),
    "a matrix without an end": given("--attribute a:matrix=dense,table=/dev/zero"),
    "the entropy of every gamma and bin": lambda f: [
        *("entropy", "--gamma", "2:100000:1", "--bins", "2:60000:1", "--records", "1000")
    ],
}


@case
def a_key_file_of_64_mib(folder: Path) -> list[str]:
    words = given("--key-file k --id i", "i,a\n" + "".join(f"{i},{i % 3}\n" for i in range(99)))(folder)
    (folder / "k").write_text("a" * (64 << 20))
    (folder / "k").chmod(0o600)
    return words


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


@case
def a_sidecar_nested_deep(folder: Path) -> list[str]:
    (folder / "r.csv.ppdm.json").write_text("[" * 1_000_000 + "]" * 1_000_000)
    return ["inspect", "r.csv.ppdm.json"]


@case
def an_arrow_file_of_empty_batches(folder: Path) -> list[str]:
    batch = pa.RecordBatch.from_arrays([pa.array([], pa.int64())], ["a"])
    with pa.ipc.new_file(folder / "d.arrow", batch.schema) as writer:
        for _ in range(150_000):
            writer.write_batch(batch)
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array([1, 2, 3] * 40)], ["a"]))
    return [*PERTURB, "d.arrow"]


@case
def a_parquet_of_many_row_groups(folder: Path) -> list[str]:
    with pq.ParquetWriter(folder / "d.parquet", pa.schema([("a", pa.int64())])) as writer:
        for i in range(20_000):
            writer.write_table(pa.table({"a": [i % 3]}))
    return [*PERTURB, "d.parquet", "--keep-order"]


@case
def a_bomb_of_zeros_as_a_release(folder: Path) -> list[str]:
    release(folder, [category("a", 3)], 10)
    (folder / "r.csv.gz").write_bytes(gzip.compress(b"a\n" + b"\0" * (400 << 20), 9))
    (folder / "r.csv.gz.ppdm.json").write_bytes((folder / "r.csv.ppdm.json").read_bytes())
    return ["estimate", "r.csv.gz"]

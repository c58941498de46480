"""Each thing that can be wrong with data, call or machine: one clear line with the next step, the right
exit code, nothing half-written, and an existing release left as it was.

Every case runs through the whole command line over an existing output with `--force`.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppdm_cli import perturb
from tests.vocabulary import Run, listing, people

FRAME = people(300)
N = FRAME.height


def data(folder: Path, name: str) -> str:
    """Make the data of a case; the name says how they are wrong."""
    path = folder / f"{name}.parquet"
    csv = folder / f"{name}.csv"
    texts = {
        "empty": "",
        "header": "age,region\n",
        "doubled": "age,age\n1,2\n",
        "mixed": "age,region\n1,a\nsecret,b\n",
        "unclosed": 'age,region\n1,a\n2,"b\n',
    }
    if name in texts:
        csv.write_text(texts[name])
        return csv.name
    frames = {
        "good": FRAME,
        "nulls": FRAME.with_columns(age=pl.lit(None, pl.Int64)),
        "untyped": FRAME.with_columns(age=pl.lit(None)),
        "infinite": FRAME.with_columns(
            income=pl.when(pl.int_range(pl.len()) == 41).then(float("-inf")).otherwise("income")
        ),
        "constant": FRAME.with_columns(region=pl.lit("north")),
        "sorted": people(2000).sort("age"),
        "rare": FRAME.with_columns(
            region=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("atlantis")).otherwise("region")
        ),
        "many": pl.DataFrame({"region": [f"r{i % 70_000}" for i in range(140_000)]}),
        "ids": FRAME.with_columns(id=pl.int_range(pl.len()) // 2),
        "null_ids": FRAME.with_columns(
            id=pl.when(pl.int_range(pl.len()) == 6).then(None).otherwise(pl.int_range(pl.len()))
        ),
    }
    if name == "nested":
        pq.write_table(FRAME.to_arrow().append_column("list", pa.array([[1]] * N)), path)
    elif name == "no_rows":
        pq.write_table(FRAME.to_arrow().slice(0, 0), path)
    elif name == "release":
        perturb(FRAME, path, gamma=9, force=True)
    elif name == "truncated":
        FRAME.write_parquet(path)
        path.write_bytes(path.read_bytes()[:-200])
    elif name == "hollow":  # the middle is missing, the end is right
        FRAME.write_parquet(path)
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + bytes(len(whole) // 3) + whole[100 + len(whole) // 3 :])
    else:
        frames[name].write_parquet(path)
    return path.name


@pytest.mark.parametrize(
    ("name", "options", "code", "said"),
    [
        ("empty", "", 1, "is empty"),
        ("header", "", 1, "no records"),
        ("header", "--type age=int --domain age=0:9 --domain region=a|b", 1, "no records"),
        ("doubled", "", 1, "columns 1 and 2 of 'doubled.csv' have the same name"),
        ("mixed", "", 1, "row 2 of"),
        ("unclosed", "", 1, "row 2 of"),
        ("truncated", "", 1, "not a readable Parquet file"),
        ("hollow", "", 1, "not a readable Parquet file"),
        ("no_rows", "", 1, "no records"),
        ("nulls", "", 4, "'age' has no values, only nulls"),
        ("untyped", "", 4, "'age' has the type null"),
        ("infinite", "", 1, "'income' has an infinite value, first in row 42"),
        ("infinite", "--domain income=0:1000000", 1, "'income' has 1 value"),
        ("constant", "", 4, "'region' has one value only"),
        ("constant", "--domain region=@one.txt", 4, "domain of one value"),
        ("sorted", "", 4, "order of the rows reveals 'age'"),
        ("rare", "", 4, "'region' (1 of 4)"),
        ("many", "", 4, "more than 65536"),
        ("nested", "", 4, "'list' is nested"),
        ("nested", "--keep list", 4, "'list' is nested"),
        ("ids", "--key-file k --id id", 4, "repeat an earlier record's identifier"),
        ("null_ids", "--key-file k --id id", 1, "identifier 'id' is null in row 7"),
        ("ids", "--key-file k", 2, "--key-file and --id need each other"),
        ("ids", "--key-file k --id id --seed 1", 2, "contradict"),
        ("ids", "--key-file open.key --id id", 4, "can be read by others"),
        ("release", "", 4, "is already a release"),
        ("good", "--gamma inf", 4, "gamma is infinite"),
        ("good", "--gamma nan", 2, "not a number"),
        ("good", "--gamma 1.2345678", 2, "significant digits"),
        ("good", "--gamma 1e300", 2, "2^30"),
        ("good", "--rho1 0.5 --rho2 0.1", 2, "rho1 < rho2"),
        ("good", "--rho1 0.5", 2, "rho1 and rho2 need each other"),
        ("good", "--record-epsilon 0", 2, "epsilon must be above 0"),
        ("good", "--record-epsilon 0.00001 --publish all", 4, "gamma of about 1"),
        ("good", "--record-epsilon 2 --attribute age:gamma=50", 4, "use up the record's epsilon"),
        ("good", "--bins 1", 2, "number of bins"),
        ("good", "--keep nosuch", 2, "columns are 'age', 'income'"),
        ("good", "--keep age --drop age", 2, "both kept and dropped"),
        ("good", "--keep age --attribute age:bins=5", 2, "settings are given for 'age'"),
        ("good", "--attribute age", 2, "not a setting of an attribute"),
        ("good", "--domain age", 2, "NAME=VALUE"),
        ("good", "--domain age=5:3", 2, "does not go from low to high"),
        ("good", "--domain age=a:b", 2, "does not fit its type"),
        ("good", "--domain region=@nosuch", 1, "does not exist"),
        ("good", "--domain region=0:5", 2, "has no interval"),
        ("good", "--domain age=0:50", 1, "values outside its domain, first in row"),
        ("good", "--domain since=1970-13-01:1971-01-01", 2, "does not fit its type"),
        ("good", "--delimiter ab", 2, "one ASCII character"),
    ],
)
def test_a_fault_is_one_line_and_leaves_everything_as_it_was(
    name: str, options: str, code: int, said: str, tmp_path: Path, ppdm: Run
) -> None:
    (tmp_path / "open.key").write_text("00" * 32)
    (tmp_path / "open.key").chmod(0o644)
    (tmp_path / "one.txt").write_text("north\n")
    perturb(FRAME, tmp_path / "r.parquet", gamma=9)
    source = data(tmp_path, name)
    before = listing(tmp_path)
    given = {"--gamma", "--rho1", "--record-epsilon", "--like"} & set(options.split())
    gamma = [] if given else ["--gamma", "9"]
    done = ppdm("perturb", source, "-o", "r.parquet", "--force", *gamma, *options.split(), code=code)
    message = done.stderr.decode()
    assert said in message and message.count("\n") == 1 and done.stdout == b"", message
    assert message.startswith("ppdm: ") and ". " in message, "what is wrong; the next step"
    assert "inside ppdm" not in message and "atlantis" not in message and "secret" not in message
    assert listing(tmp_path) == before


def test_what_is_refused_can_be_dropped_or_allowed(tmp_path: Path, ppdm: Run) -> None:
    for name, options in {
        "nested": "--drop list",
        "untyped": "--drop age",
        "nulls": "--domain age=0:9 --attribute age:nulls=true --keep-order",
        "constant": "--keep region",
        "sorted": "--shuffle",
        "many": "--keep region --drop x",
    }.items():
        source = data(tmp_path, name)
        if name == "many":
            pl.read_parquet(tmp_path / source).with_columns(x=1, y=pl.int_range(pl.len()) % 7 // 3).sample(
                fraction=1, shuffle=True, seed=1
            ).write_parquet(tmp_path / source)
        ppdm("perturb", source, "-o", "r.csv", "--gamma", "9", "--force", *options.split())


def test_nan_is_null_and_in_the_domain(tmp_path: Path) -> None:
    values = np.where(np.arange(N) % 3 == 0, np.nan, np.random.default_rng(1).random(N))
    release = perturb(pl.DataFrame({"x": values}), gamma=9, keep_order=True)
    assert release.sidecar.attributes[0].nulls is True and release.frame["x"].null_count() > 0
    assert not release.frame["x"].is_nan().any()


def test_standard_input_needs_every_domain_declared(tmp_path: Path, ppdm: Run) -> None:
    text = FRAME.select("age", "region").write_csv().encode()
    args = ("perturb", "-", "--from", "csv", "-o", "r.csv", "--gamma", "9", "--domain", "age=0:120")
    said = ppdm(*args, stdin=text, code=2).stderr.decode()
    assert "the domain of 'region' is not declared" in said
    ppdm(*args, "--domain", "region=north|south|east", stdin=text)
    for stdin, code, said in (
        (b"", 1, "is empty"),
        (b"age,region\n1\n", 1, "row 1 of 'standard input'"),
        (b"\x00\x01garbage", 2, "columns are"),
    ):
        done = ppdm(*args, "--force", "--domain", "region=north|south|east", stdin=stdin, code=code)
        assert said in done.stderr.decode() and done.stderr.count(b"\n") == 1
    arrow = ("perturb", "-", "-o", "r.csv", "--gamma", "9", "--force", "--domain", "age=0:120")
    assert b"not readable as Arrow data" in ppdm(*arrow, stdin=text, code=1).stderr


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "csv.gz"])
def test_no_room_on_the_disk_leaves_the_old_pair(suffix: str, tmp_path: Path, ppdm: Run) -> None:
    """A limit on the size of files stands for the disk's: the kernel's refusal is as real."""
    people(100_000).write_parquet(tmp_path / "big.parquet")
    out = tmp_path / f"r.{suffix}"
    perturb(FRAME, out, gamma=9)
    before = listing(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name in (out.name, f"new.{suffix}"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        try:
            done = ppdm("perturb", "big.parquet", "-o", name, "--gamma", "9", "--force", code=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        message = done.stderr.decode()
        assert message.count("\n") == 1, message
        assert "cannot be written: File too large" in message and done.stdout == b""
        assert listing(tmp_path) == before


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path, ppdm: Run) -> None:
    FRAME.write_parquet(tmp_path / "data.parquet")
    (tmp_path / "data.parquet").chmod(0)
    if os.access(tmp_path / "data.parquet", os.R_OK):  # root may read everything: a folder it is then
        (tmp_path / "data.parquet").unlink()
        os.mkfifo(tmp_path / "data.parquet")
    done = ppdm("perturb", "data.parquet", "-o", "r.csv", "--gamma", "9", code=1)
    assert b"cannot be read" in done.stderr or b"not an ordinary file" in done.stderr


def test_an_arrow_file_with_a_damaged_batch_is_named(tmp_path: Path, ppdm: Run) -> None:
    offsets = pa.py_buffer(np.array([0, 9, 1], np.int32))  # the second text ends before it begins
    text = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"some text"))
    batch = pa.record_batch({"x": text})
    with pa.ipc.new_file(tmp_path / "in.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    said = ppdm("perturb", "in.arrow", "-o", "r.parquet", "--gamma", 9, code=1).stderr
    assert b"'in.arrow' is not readable as Arrow data" in said

"""A URI is opened and written like a file, and appears in its store whole or not at all."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from ppdm_cli import files, perturb
from ppdm_cli.errors import DataError
from ppdm_cli.tables import stores
from ppdm_cli.tables.stores import StorePath, expanded, path_of
from tests.buckets import BUCKET, Buckets, Environ, serving
from tests.vocabulary import Run, people, raises

AT = f"s3://{BUCKET}"
KEPT = ("--keep", "note", "--shuffle")
LETTERS = st.characters(exclude_characters="/\0", exclude_categories=["Cs"])
NAMES = st.text(LETTERS, min_size=1, max_size=20).filter(lambda n: n.strip(".") and "=" not in n)


@pytest.fixture(scope="module")
def server() -> Iterator[Buckets]:
    if not os.environ.get("CI"):  # where it is never left out
        pytest.importorskip("moto")
    with serving() as found:
        yield found


@pytest.fixture
def buckets(server: Buckets) -> Iterator[Buckets]:
    for name in server.there():
        path_of(f"{AT}/{name}").unlink()
    yield server
    server.fault = None


def wide(path: Path) -> Path:
    """Write a table that is uploaded in several parts."""
    notes = pl.Series([f"{i:05d}" * 240 for i in range(10_000)])
    people(10_000).with_columns(note=notes).write_parquet(path)
    return path


def part(number: int) -> Any:
    return lambda e: e["REQUEST_METHOD"] == "PUT" and f"partNumber={number}&" in e["QUERY_STRING"]


def test_every_command_reads_and_writes_there(buckets: Buckets, ppdm: Run) -> None:
    original, release, tree = f"{AT}/in/people.parquet", f"{AT}/out/r.parquet", f"{AT}/tree.json"
    plan = ["--gamma", 9, "--class", "group", "--keep", "group"]
    ppdm("generate", "--function", 2, "--records", 500, "--seed", 7, "-o", original)
    ppdm("generate", "--function", 2, "--records", 500, "--seed", 8, "-o", f"{AT}/in/people.csv.gz")
    ppdm("plan", f"{AT}/in/people.csv.gz", "-o", f"{AT}/plan.toml", "--record-epsilon", 2)
    ppdm("perturb", original, "-o", release, *plan)
    ppdm("perturb", f"{AT}/in/people.csv.gz", "-o", f"{AT}/out/r.csv", "--like", release)
    ppdm("perturb", original, "-o", f"{AT}/out/s.arrow", *plan, "--shuffle")
    for name in ("r.parquet", "r.csv", "s.arrow"):
        ppdm("estimate", f"{AT}/out/{name}", "-o", f"{AT}/estimated/{name}.parquet")
        ppdm("query", f"{AT}/out/{name}", "select avg(age)")
    ppdm("reconstruct", f"{AT}/out/r.csv", "-o", f"{AT}/again/r.csv", "--method", "global")
    ppdm("attack", release, "--truth", original, "--with", "posterior", "-o", f"{AT}/attacked.parquet")
    ppdm("entropy", release, "-o", f"{AT}/entropy.csv")
    ppdm("train-tree", original, "--class", "group", "-o", tree, "--export", f"{AT}/tree.sql")
    ppdm("predict", tree, f"{AT}/in/people.csv.gz", "-o", f"{AT}/predicted.csv")
    ppdm("inspect", release, "--report", f"{AT}/statement.html")
    there = buckets.there()
    assert all(there.values()) and not [n for n in there if "ppdm-part" in n]
    assert {"plan.toml", "again/r.csv.ppdm.json", "tree.sql", "statement.html", "predicted.csv"} <= {*there}
    said = ppdm("perturb", original, "-o", release, *plan, code=2).stderr.decode()
    assert f"'{release}' exists" in said
    said = ppdm("perturb", original, "-o", original, *plan, "--force", code=2).stderr.decode()
    assert "is also the input" in said


def test_folders_and_patterns_are_tables(buckets: Buckets, ppdm: Run, tmp_path: Path) -> None:
    for year in (2025, 2026):
        people(500, year).write_parquet(tmp_path / "x.parquet")
        for copy in ("a", "b"):
            path_of(f"{AT}/years/year={year}/{copy}.parquet").upload(
                io.BytesIO((tmp_path / "x.parquet").read_bytes()), StorePath()
            )
    plan = ["--gamma", 9, "--keep", "year", "--shuffle"]
    ppdm("perturb", f"{AT}/years", "-o", "all.parquet", *plan)
    assert pl.read_parquet(tmp_path / "all.parquet")["year"].value_counts().height == 2
    ppdm("perturb", f"{AT}/years/year=*/a.parquet", "-o", "some.parquet", "--gamma", 9, "--shuffle")
    assert pl.read_parquet(tmp_path / "some.parquet").height == 1000
    with raises("nothing-matches", DataError):
        expanded([f"{AT}/years/*.csv"])
    path_of(f"{AT}/years/_delta_log/0.json").upload(io.BytesIO(b"{}"), StorePath())
    said = ppdm("perturb", f"{AT}/years/year=2025/a.parquet", "-o", "no.parquet", *plan, code=4).stderr.decode()
    assert "belongs to a Delta table" in said


@pytest.mark.parametrize("status", ["503 Slow Down", ""])
def test_an_upload_that_fails_leaves_all_as_it_was(
    status: str, buckets: Buckets, ppdm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = fs.S3FileSystem(
        endpoint_override=os.environ["AWS_ENDPOINT_URL"],
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    monkeypatch.setattr(stores, "_system", lambda _, bucket, settings: (impatient, bucket))
    wide(tmp_path / "wide.parquet")
    command = ["perturb", "wide.parquet", "-o", f"{AT}/r.csv", "--gamma", 9, *KEPT]
    for parts in (part(2), lambda e: "json" in e["PATH_INFO"] and e["REQUEST_METHOD"] == "PUT"):
        buckets.fault = lambda e, parts=parts: status if parts(e) else None
        said = ppdm(*command, code=1).stderr.decode()
        assert f"the store of '{AT}/r.csv" in said and said.count("\n") == 1 and "owner" not in said
        assert not buckets.there()
    buckets.fault = None
    ppdm(*command)
    before = {n: path_of(f"{AT}/{n}").read_bytes() for n in buckets.there()}
    assert sorted(before) == ["r.csv", "r.csv.ppdm.json"]
    for parts in (part(2), lambda e: e["PATH_INFO"].endswith("r.csv.ppdm.json") and part(1)(e)):
        buckets.fault = lambda e, parts=parts: status if parts(e) else None
        ppdm(*command, "--force", code=1)
        buckets.fault = None
        assert {n: path_of(f"{AT}/{n}").read_bytes() for n in buckets.there()} == before
    ppdm("inspect", f"{AT}/r.csv")
    ppdm(*command, "--force")
    assert sorted(buckets.there()) == sorted(before)


def test_a_fault_that_passes_is_not_noticed(buckets: Buckets, ppdm: Run, tmp_path: Path) -> None:
    wide(tmp_path / "wide.parquet")
    for fault in ("503 Slow Down", ""):
        faults = [fault]
        buckets.fault = lambda e, faults=faults: faults.pop() if faults and part(2)(e) else None
        ppdm("perturb", "wide.parquet", "-o", f"{AT}/r.csv", "--gamma", 9, *KEPT, "--force")
        assert not faults
    faults += ["503 Slow Down"]
    buckets.fault = lambda e: faults.pop() if faults and e["REQUEST_METHOD"] == "GET" else None
    ppdm("estimate", f"{AT}/r.csv")
    assert not faults


def test_a_killed_process_leaves_nothing_to_be_seen(buckets: Buckets, ppdm: Run, tmp_path: Path) -> None:
    wide(tmp_path / "wide.parquet")
    command = ["perturb", "wide.parquet", "-o", f"{AT}/r.csv", "--gamma", "9", *KEPT]
    child: subprocess.Popen[bytes]

    def kill(environ: Environ) -> str | None:
        if part(2)(environ):
            child.kill()
            child.wait()
        return None

    buckets.fault = kill
    child = subprocess.Popen([sys.executable, "-m", "ppdm_cli", *command], cwd=tmp_path)
    assert child.wait() < 0
    assert not buckets.there()
    buckets.fault = None
    ppdm(*command)
    ppdm("inspect", f"{AT}/r.csv")


def test_an_interrupted_upload_is_never_ended(buckets: Buckets) -> None:
    class Interrupted(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise KeyboardInterrupt
            return super().read(12 << 20)

    with pytest.raises(KeyboardInterrupt):
        path_of(f"{AT}/r.csv").upload(Interrupted(bytes(20 << 20)), StorePath())
    gc.collect()
    assert not buckets.there()


def test_a_store_that_fails_on_the_way_is_not_called_damage(buckets: Buckets, ppdm: Run) -> None:
    ppdm("generate", "--function", 2, "--records", 3000, "-o", f"{AT}/p.parquet")
    ppdm("generate", "--function", 2, "--records", 3000, "-o", f"{AT}/p.csv")
    buckets.fault = lambda e: (
        "403 Forbidden" if e["REQUEST_METHOD"] == "GET" and "list-type" not in e["QUERY_STRING"] else None
    )
    for name in ("p.parquet", "p.csv"):
        said = ppdm("perturb", f"{AT}/{name}", "-o", "r.csv", "--gamma", 9, code=1).stderr.decode()
        assert "failed (ACCESS_DENIED)" in said and said.count("\n") == 1


def test_a_file_that_changes_is_noticed(buckets: Buckets) -> None:
    path = path_of(f"{AT}/x.csv")
    path.upload(io.BytesIO(b"a\n1\n"), StorePath())
    with pytest.raises(DataError, match="changed while it was read"), files.one_run():
        files.reading(path)
        path.upload(io.BytesIO(b"a\n12\n"), StorePath())


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:SECRET@bucket/x.csv",
        "s3://SECRET@bucket/x.csv",
        "S3://SECRET@bucket/x.csv",
        "s3://key:SEC/RET@bucket/x.csv",
        "sftp://me:SECRET@host/x.csv",
        "sftp://me:12/SECRET@host/x.csv",
        "https://host/x.csv?sig=SECRET",
        "abfs://account:SECRET@host/x.csv",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_shown(uri: str, ppdm: Run, tmp_path: Path) -> None:
    people(99).write_csv(tmp_path / "d.csv")
    for command in (
        ("perturb", uri, "-o", "o.csv", "--gamma", 9),
        ("perturb", "d.csv", "-o", uri, "--gamma", 9, "--shuffle"),
        ("estimate", uri),
        ("estimate", "d.csv", "--sidecar", uri),
        ("plan", uri, "-o", "p.toml"),
        ("query", uri, "select count()"),
        ("query", uri),
        ("perturb", "d.csv", "-o", "o.csv", "--gamma", 9, "--attribute", f"group:matrix=dense,table={uri}"),
    ):
        done = ppdm(*command, code=2)
        assert b"has credentials or settings in it" in done.stderr and done.stderr.count(b"\n") == 1
        assert b"SEC" not in done.stderr + done.stdout and b"RET" not in done.stderr + done.stdout


@pytest.mark.parametrize("uri", ["nosuch://b/x.csv", "ftp://h/x.csv", "az://c/x.csv", "hdfs://n/x.csv"])
def test_a_store_that_cannot_be_opened_is_refused_by_every_command(uri: str, ppdm: Run, tmp_path: Path) -> None:
    people(99).write_csv(tmp_path / "d.csv")
    for command in (
        ("perturb", uri, "-o", "o.csv", "--gamma", 9),
        ("perturb", "d.csv", "-o", uri, "--gamma", 9),
        ("estimate", uri),
        ("query", uri, "select count()"),
        ("train-tree", uri, "--class", "group", "-o", "t.json"),
        ("attack", uri),
        ("plan", uri, "-o", "p.toml"),
    ):
        said = ppdm(*command, code=2).stderr.decode()
        assert "can't be opened" in said and "copy the file here" in said and said.count("\n") == 1


def test_keys_ledgers_rows_and_private_pages_stay_on_this_machine(ppdm: Run, tmp_path: Path) -> None:
    people(99).with_row_index("id").write_csv(tmp_path / "d.csv")
    run = ("perturb", "d.csv", "-o", "o.csv", "--gamma", 9, "--shuffle")
    for option, command in (
        (("--key-file", f"{AT}/k", "--id", "id"), run),
        (("--ledger", f"{AT}/l", "--people", "patients"), run),
        (("--rows-taken", f"{AT}/t"), run),
        (("--explore", f"{AT}/p.html"), ("plan", "d.csv", "-o", "p.toml")),
    ):
        said = ppdm(*command, *option, code=2).stderr.decode()
        assert f"{option[0]} must stay on this machine" in said and said.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.csv"]


@given(NAMES)
@settings(max_examples=60)
def test_a_file_uri_is_its_path(name: str) -> None:
    path = Path("/tmp") / name
    assert path_of(path.as_uri()) == path


@given(NAMES)
@settings(max_examples=60)
def test_a_name_in_a_store_is_taken_as_it_is(name: str) -> None:
    path = path_of(f"mock://clinic/{name}")
    assert isinstance(path, StorePath) and str(path) == f"mock://clinic/{name}" and path_of(Path(path)) == path
    stores._place(str(path))[0].create_dir("clinic")
    path.upload(io.BytesIO(name.encode()), path.with_name("hidden"))
    assert path.read_bytes() == name.encode() and path.is_file() and path in path.parent.listed()
    assert list(stores._matching(path)) == [path]
    path.unlink()
    assert not path.exists()


def test_a_release_by_file_uris_is_one_by_paths(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20#?é"
    folder.mkdir()
    people(300).write_parquet(folder / "d.parquet")
    plan: dict[str, Any] = {"gamma": 9, "seed": 1, "shuffle": True}
    perturb((folder / "d.parquet").as_uri(), (folder / "r.parquet").as_uri(), **plan)
    perturb(folder / "d.parquet", tmp_path / "r.parquet", **plan)
    assert (folder / "r.parquet").read_bytes() == (tmp_path / "r.parquet").read_bytes()
    perturb(f"{folder.as_uri()}/*.parquet"[:-9] + "[d].parquet", (folder / "s.parquet").as_uri(), **plan)
    assert (folder / "s.parquet").read_bytes() == (tmp_path / "r.parquet").read_bytes()
    assert path_of("file://no/x.csv") == Path("/no/x.csv")


def test_what_pyarrow_does_not_know_is_opened_by_fsspec(tmp_path: Path, ppdm: Run) -> None:
    pytest.importorskip("fsspec")
    people(300).write_csv(tmp_path / "d.csv")
    ppdm("perturb", "d.csv", "-o", "memory://clinic/r.csv", "--gamma", 9, "--shuffle")
    ppdm("estimate", "memory://clinic/r.csv")
    assert sorted(p.name for p in path_of("memory://clinic").iterdir()) == ["r.csv", "r.csv.ppdm.json"]


def test_each_scheme_has_its_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "account")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "aGVsbG8=")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    places = {"s3://b": "s3", "s3a://b": "s3", "gs://b": "gcs", "az://b": "abfs"}
    places["abfss://b@account.dfs.core.windows.net"] = "abfs"
    for uri, kind in places.items():
        system, path = stores._place(f"{uri}/a b/%20.csv")
        assert (system.type_name, path) == (kind, "b/a b/%20.csv")


def test_a_folder_that_is_not_there_has_nothing_in_it() -> None:
    assert not list(path_of("mock://clinic/none").iterdir())

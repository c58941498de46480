"""Output appears whole or not at all, and what was there before stays until the new is whole.

Failures are made by the real operating system where it can be done anywhere (`test_faults` has more
of them), else by making one of its calls fail.
"""

from __future__ import annotations

import errno
import gc
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppdm_cli import perturb
from ppdm_cli.errors import DataError, UsageError
from ppdm_cli.releases import open_release
from ppdm_cli.tables import PendingFile, atomic, base, commit
from tests.vocabulary import Run, listing, people

SUFFIXES = ("parquet", "arrow", "csv", "csv.gz")


@pytest.fixture(params=["nameless", "named"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files that have no name until they are whole, and where the system has none such."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.mark.usefixtures("either_way")
def test_a_file_appears_when_published_and_not_before(tmp_path: Path) -> None:
    path, beside = tmp_path / "x.bin", tmp_path / "x.bin.ppdm.json"
    with PendingFile(path, force=False) as target, PendingFile(beside, force=False, sidecar=True) as promise:
        target.put(b"data")
        promise.put(b"promise")
        assert not path.exists()
        commit(target, promise)
    assert listing(tmp_path) == {"x.bin": b"data", "x.bin.ppdm.json": b"promise"}
    with pytest.raises(UsageError, match="exists") as exists:
        PendingFile(path, force=False)
    assert exists.value.id == "output-exists"
    with PendingFile(path, force=True) as target:
        target.file.write(b"abandoned")
    assert listing(tmp_path) == {"x.bin": b"data", "x.bin.ppdm.json": b"promise"}
    with PendingFile(path, force=True) as target, PendingFile(beside, force=True, sidecar=True) as promise:
        target.put(b"no promise")
        commit(target, promise)
    assert listing(tmp_path) == {"x.bin": b"no promise"}


def test_files_have_the_rights_that_the_umask_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        perturb(people(), tmp_path / "r.parquet", gamma=9)
    finally:
        os.umask(before)
    assert {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {0o640}


def test_a_link_is_written_through_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "r.parquet").write_bytes(b"old")
    (tmp_path / "r.parquet").symlink_to(tmp_path / "real" / "r.parquet")
    perturb(people(), tmp_path / "r.parquet", gamma=9, force=True)
    assert (tmp_path / "r.parquet").is_symlink()
    assert open_release(tmp_path / "r.parquet")[1].records == 1000


def test_the_input_is_never_the_output_by_whatever_name(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    people().write_csv(data)
    os.link(data, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(data)
    before = listing(tmp_path)
    for output in ("data.csv", "hard.csv", "soft.csv"):
        with pytest.raises(UsageError, match="also the input"):
            perturb(data, tmp_path / output, gamma=9, force=True)
    with pytest.raises(UsageError, match="also the input"):
        perturb(data, tmp_path / "r.parquet", gamma=9, force=True, sidecar=data)
    with pytest.raises(UsageError, match="two outputs are the same file: "):
        perturb(data, tmp_path / "r.csv", gamma=9, force=True, sidecar=tmp_path / "r.csv")
    assert listing(tmp_path) == before


def test_a_sidecar_that_cannot_be_written_is_said_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("mine")
    (tmp_path / "r.csv.ppdm.json").write_text("left behind")
    before = listing(tmp_path)
    for options in (
        {"sidecar": tmp_path / "notes.json"},
        {"sidecar": tmp_path},
        {"sidecar": tmp_path / "nosuch" / "s.json"},
        {},
    ):
        for output in (tmp_path / "r.csv", "-"):
            if output == "-" and not options:
                continue
            with pytest.raises((UsageError, DataError)):
                perturb(people(), output, gamma=9, to="csv", **options)  # type: ignore[arg-type]
    assert listing(tmp_path) == before


class Full(io.FileIO):
    """A file on a disk that has room for some bytes only."""

    room = 0

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("room", [0, 3000])
def test_a_full_disk_leaves_the_old_pair_as_it_was(
    suffix: str, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"r.{suffix}"
    perturb(people(), out, gamma=9)
    before = listing(tmp_path)

    def full(path: Path, mode: int) -> tuple[IO[bytes], Path | None]:
        file = Full(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR), "w+b")
        file.room = room
        return file, None  # type: ignore[return-value]

    monkeypatch.setattr(atomic, "_nameless", full)
    for output in (out, tmp_path / f"new.{suffix}"):
        with pytest.raises(DataError, match="no space left"):
            perturb(people(20_000), output, gamma=9, force=True)
    assert listing(tmp_path) == before
    assert capfd.readouterr() == ("", ""), "nothing is said but the error"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_fault_found_late_leaves_nothing_and_is_said_once(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(base, "MOST_ROWS", 1024)  # so that row groups are written before the fault is met
    with pytest.raises(DataError, match="outside its domain, first in row 20001"):
        perturb(
            pl.concat([people(20_000), people(1).with_columns(age=pl.lit(999, pl.Int64))]),
            tmp_path / f"r.{suffix}",
            gamma=9,
            attributes={"age": {"domain": [0, 120]}},
        )
    gc.collect()
    assert capfd.readouterr() == ("", "") and listing(tmp_path) == {}


@pytest.mark.parametrize(
    ("link", "rename"),
    [(errno.EPERM, errno.EPERM), (errno.EXDEV, errno.EBUSY)],
    ids=["immutable", "bind mount"],
)
@pytest.mark.parametrize("fixed", ["r.csv", "r.csv.ppdm.json"])
def test_a_file_that_cannot_be_replaced_keeps_its_sidecar(
    fixed: str, link: int, rename: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "r.csv"
    perturb(people(), out, gamma=9)
    before = listing(tmp_path)

    def refusing(real: Callable[..., Any], number: int) -> Callable[..., Any]:
        def call(source: Any, target: Any, **options: Any) -> None:
            if fixed in (Path(source).name, Path(target).name) and Path(tmp_path / fixed).exists():
                raise OSError(number, os.strerror(number))
            real(source, target, **options)

        return call

    for name, number in (("link", link), ("rename", rename), ("replace", rename)):
        monkeypatch.setattr(os, name, refusing(getattr(os, name), number))
    with pytest.raises(DataError, match="cannot be written"):
        perturb(people(), out, gamma=9, force=True)
    assert listing(tmp_path) == before
    open_release(out)


@pytest.mark.parametrize("place", ["/sys/r.parquet", "file/r.parquet", "nosuch/r.parquet"])
def test_a_folder_that_cannot_be_written_to_is_said(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot be written|does not exist"):
        perturb(people(), tmp_path / place, gamma=9)
    assert listing(tmp_path) == {"file": b""}


@pytest.mark.parametrize("output", ["/dev/null", "folder.parquet"])
def test_an_output_that_is_no_ordinary_file_is_refused(output: str, tmp_path: Path) -> None:
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(UsageError, match=r"not an ordinary file|has no suffix"):
        perturb(people(), tmp_path / output, gamma=9, force=True)
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC")])
@pytest.mark.parametrize("day", [-719163, 2932897, 95_100_000])
def test_a_date_of_no_calendar_goes_into_no_csv(kind: pa.DataType, day: int, tmp_path: Path, ppdm: Run) -> None:
    """Polars panics at years beyond 262,143, and text has room for four digits."""
    many = 1 if kind == pa.date32() else 86_400_000 if kind.unit == "ms" else 86_400_000_000
    days = pa.array([day * many] + [0] * 39, pa.int32() if many == 1 else pa.int64()).view(kind)
    table = pa.table({"n": pa.array([1, 2, 2, 1] * 10), "d": days})
    pq.write_table(table, tmp_path / "d.parquet")
    perturb = ("perturb", "d.parquet", "--gamma", "9", "--keep", "d", "--keep-order", "-o")
    said = ppdm(*perturb, "r.csv", code=1).stderr.decode()
    assert "'d' has a date outside the years 1 to 9999" in said and "panicked" not in said
    ppdm(*perturb, "r.parquet")

"""A release whose length only reading tells, a CSV or a stream, is held to what its sidecar says.

Partitions are loaded ahead by several threads, so the comparison is made by whoever comes last; it is tried
with many partitions and many threads, and on both passes of a reconstruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from ppdm_cli import perturb, running
from ppdm_cli.engine import fold
from ppdm_cli.errors import MismatchError
from ppdm_cli.releases import read_sidecar
from ppdm_cli.releases.release import CountChecked
from ppdm_cli.tables import Partition, Table
from tests.vocabulary import Run, listing, people


class Pieces(Table):
    """A table of many small partitions that does not say how long it is."""

    schema = pa.schema([("x", pa.int64())])
    name = "pieces"

    def partitions(self, columns: object = None) -> Iterator[Partition]:
        for i in range(50):
            batch = pa.RecordBatch.from_arrays([pa.array(range(i))], schema=self.schema)
            yield Partition("pieces", lambda batch=batch: batch)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_every_row_is_counted_whoever_comes_last(threads: int) -> None:
    whole = sum(range(50))

    def rows(records: int) -> int | None:
        table = CountChecked(Pieces(), records)  # type: ignore[arg-type]
        with running(threads=threads):
            return fold(table, lambda b: b.rows, lambda a, b: a + b)

    for _ in range(20):
        assert rows(whole) == whole
        for wrong in (whole - 1, whole + 1):
            with pytest.raises(MismatchError, match=f"has 1,225 records, but its sidecar says {wrong:,}"):
                rows(wrong)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    perturb(people(), tmp_path / "r.csv", gamma=9, class_="group", drop=["since"], seed=1)
    return tmp_path


@pytest.mark.parametrize("records", [999, 1001])
def test_an_edited_number_of_records_is_refused(records: int, release: Path, ppdm: Run) -> None:
    promise = read_sidecar(release / "r.csv.ppdm.json", None, "r.csv")
    edited = msgspec.structs.replace(promise, records=records)
    (release / "r.csv.ppdm.json").write_bytes(edited.encode())
    before = listing(release)
    for command in ("estimate", "reconstruct"):
        said = ppdm(command, "r.csv", "-o", "new.csv", code=3).stderr.decode()
        assert f"'r.csv' has 1,000 records, but its sidecar says {records:,}. " in said
        assert said.count("\n") == 1 and listing(release) == before


def test_a_stream_that_was_cut_is_refused(release: Path, ppdm: Run) -> None:
    whole = (release / "r.csv").read_bytes().splitlines(keepends=True)
    args = ("-", "--from", "csv", "--sidecar", "r.csv.ppdm.json", "-o")
    for command in ("estimate", "reconstruct"):
        said = ppdm(command, *args, "new.csv", stdin=b"".join(whole[:-1]), code=3).stderr
        assert b"has 999 records, but its sidecar says 1,000" in said
        assert not (release / "new.csv").exists()
        ppdm(command, *args, f"{command}.csv", stdin=b"".join(whole))


def test_a_release_is_not_counted_twice(release: Path, ppdm: Run) -> None:
    for command in ("estimate", "reconstruct"):
        said = ppdm(command, "r.csv", "./r.csv", "-o", "new.csv", code=2).stderr.decode()
        assert "'./r.csv' is named twice. Name each release once" in said or "'r.csv' is named twice" in said


def test_a_table_of_estimates_says_how_many_records_it_is_from(release: Path, ppdm: Run) -> None:
    ppdm("estimate", "r.csv", "-o", "e.csv", "--attribute", "region")
    said = read_sidecar(release / "e.csv.ppdm.json", None, "e.csv")
    assert said.records == 3
    assert [(p.stage, p.release, p.records) for p in said.history] == [("perturbed", said.release, 1000)]


def test_a_stream_s_records_are_told_when_it_has_been_read(release: Path, ppdm: Run) -> None:
    people().write_csv(release / "data.csv")
    stream = ppdm("perturb", "data.csv", "-o", "-", "--like", "r.csv").stdout
    done = ppdm("reconstruct", "-", "-o", "u.csv", stdin=stream)
    assert done.stderr.startswith(
        b"Wrote 1,000 records to u.csv.\nColumns were matched to the ml estimates within each 'group'"
    )

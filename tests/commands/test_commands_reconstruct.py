"""`ppdm reconstruct` as a miner calls it: files, streams, methods, several releases, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import estimate, perturb, reconstruct
from ppdm_cli.releases import open_release, read_sidecar
from tests.made_releases import ROWS, made
from tests.vocabulary import Run, listing, loaded, people


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return made(tmp_path)


def held(path: Path, sidecar: Path | None = None) -> pl.DataFrame:
    """A data set as a reader has it who follows its sidecar."""
    return pl.DataFrame(loaded(open_release(path, sidecar, stages=["reconstructed"])[0]))


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "arrow", "feather"])
def test_every_format_holds_what_the_library_makes(suffix: str, release: Path, ppdm: Run) -> None:
    name = f"usable.{suffix}"
    done = ppdm("reconstruct", "r.parquet", "-o", name)
    said = f"Wrote 4,000 records to {name}.\nColumns were matched to the ml estimates within each 'group'.\n"
    assert (done.stdout, done.stderr.decode()) == (b"", said)
    expected = reconstruct(release / "r.parquet")
    found = held(release / name)
    assert found.equals(expected.frame)
    assert found.schema == people().schema, "the original's columns, types and order"
    published = pl.read_parquet(release / "r.parquet")
    assert found["group"].equals(published["group"]), "kept columns are untouched"
    sidecar = read_sidecar(release / f"{name}.ppdm.json", None, name)
    assert (sidecar.stage, sidecar.release, sidecar.records) == (
        "reconstructed",
        expected.sidecar.release,
        ROWS,
    )
    assert [(p.stage, p.records) for p in sidecar.history] == [("perturbed", ROWS)]
    inspected = ppdm("inspect", name).stdout.decode()
    assert ": reconstructed, 4,000 records.\n" in inspected


def test_the_same_release_gives_the_same_result_whatever_its_format(release: Path, ppdm: Run) -> None:
    for suffix in ("parquet", "csv", "arrow"):
        ppdm("reconstruct", f"r.{suffix}", "-o", f"u-{suffix}.csv")
    files = [(release / f"u-{suffix}.csv").read_bytes() for suffix in ("parquet", "csv", "arrow")]
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("method", ["by-class", "global"])
@pytest.mark.parametrize("estimator", ["set-scale", "simplex", "ml"])
def test_json_tells_the_totals_and_they_are_the_estimate(
    method: str, estimator: str, release: Path, ppdm: Run
) -> None:
    args = ("-o", "u.parquet", "--method", method, "--estimator", estimator, "--json")
    done = ppdm("reconstruct", "r.csv", *args)
    assert done.stderr == b""
    said = json.loads(done.stdout)
    expected = reconstruct(release / "r.csv", method=method, estimator=estimator)  # type: ignore[arg-type]
    assert said == {
        "release": expected.sidecar.release,
        "records": ROWS,
        "method": method,
        "estimator": estimator,
        "spread": False,
        "joint": [],
        "withheld": None,
        "noise": None,
        "totals": expected.totals,
    }
    by = "group" if method == "by-class" else None
    wanted = estimate(release / "r.csv", by=by, estimator=estimator).frame
    for name, totals in said["totals"].items():
        counts = wanted.filter(attribute=name).group_by("code").agg(pl.col("estimate").sum()).sort("code")
        assert np.abs(np.array(totals) - counts["estimate"]).max() <= (2 if by else 1)
    found = held(release / "u.parquet")["region"].value_counts().sort("region")["count"].to_list()
    assert found == said["totals"]["region"]


def test_without_a_class_it_is_global_and_by_class_is_refused(tmp_path: Path, ppdm: Run) -> None:
    perturb(people(ROWS), tmp_path / "r.parquet", gamma=9, drop=["since", "group"])
    assert b"matched to the ml estimates.\n" in ppdm("reconstruct", "r.parquet", "-o", "u.csv").stderr
    for asked in ("--method by-class", "--method joint", "--estimator inverse"):
        ppdm("reconstruct", "r.parquet", "-o", "new.csv", *asked.split(), code=2)


def test_perturb_estimate_and_reconstruct_are_piped(release: Path, ppdm: Run) -> None:
    args = ("perturb", "original.parquet", "-o", "-", "--like", "r.parquet", "--seed", "8")
    arrow = ppdm(*args).stdout
    csv = ppdm(*args, "--to", "csv", "--sidecar", "s.json").stdout
    ppdm("perturb", "original.parquet", "-o", "filed.parquet", "--like", "r.parquet", "--seed", "8")
    expected = reconstruct(release / "filed.parquet").frame
    done = ppdm("reconstruct", "-", "-o", "-", stdin=arrow)
    assert done.stderr.startswith(
        b"Wrote 4,000 records to -.\nColumns were matched to the ml estimates within each 'group'"
    )
    stream = pa.ipc.open_stream(done.stdout)
    assert pl.DataFrame(stream.read_all()).equals(expected)
    assert b'"stage": "reconstructed"' in stream.schema.metadata[b"ppdm"]
    beside = ("--from", "csv", "--sidecar", "s.json", "--to", "csv", "--output-sidecar", "u.json")
    done = ppdm("reconstruct", "-", "-o", "-", *beside, stdin=csv)
    (release / "u.csv").write_bytes(done.stdout)
    assert held(release / "u.csv", release / "u.json").equals(expected)
    without = ppdm("reconstruct", "-", "-o", "-", "--to", "csv", stdin=arrow)
    assert without.stdout == done.stdout and b"the sidecar is lost" in without.stderr
    said = ppdm("reconstruct", "-", "-o", "-", "--json", stdin=arrow, code=2).stderr
    assert b"name an output file" in said


def test_an_output_appears_whole_or_not_at_all(release: Path, ppdm: Run) -> None:
    text = (release / "r.csv").read_text().splitlines(keepends=True)
    (release / "late.csv").write_text("".join([*text[:-1], "999,", text[-1].partition(",")[2]]))
    promise = (release / "r.csv.ppdm.json").read_text().splitlines(keepends=True)
    (release / "late.csv.ppdm.json").write_text("".join(p for p in promise if '"blake2b"' not in p))
    (release / "old.csv").write_text("old")
    before = listing(release)
    ppdm("reconstruct", "late.csv", "-o", "old.csv", "--force", code=3)
    ppdm("reconstruct", "r.parquet", "-o", "new.csv", "--output-sidecar", "new.csv", code=2)
    ppdm("reconstruct", "r.parquet", "-o", "new.csv", "--output-sidecar", "r.csv.ppdm.json", code=2)
    assert listing(release) == before
    ppdm("reconstruct", "r.parquet", "r.arrow", "-o", "old.csv", "--force", "--output-sidecar", "s.json")
    assert held(release / "old.csv", release / "s.json").height == 2 * ROWS
    assert not (release / "old.csv.ppdm.json").exists()

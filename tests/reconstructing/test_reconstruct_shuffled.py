"""Rows of a reconstruction are guesses about the persons in them; shuffled, they are in a random order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import Release, perturb, reconstruct
from ppdm_cli.reconstructing import dealer
from ppdm_cli.releases.inspection import sentences
from ppdm_cli.tables import output, synthetic
from tests.vocabulary import Run

ROWS = 4_000


@pytest.fixture(scope="module")
def original() -> pl.DataFrame:
    whole = pl.concat([pl.DataFrame(b) for b in synthetic.generate(2, ROWS, 3)])
    return whole.select("elevel", "car", "zipcode", "age", "group")


@pytest.fixture(scope="module")
def release(original: pl.DataFrame) -> Release:
    return perturb(original, gamma=9, bins=21, class_="group", keep=["group"], seed=1)


def right(found: pl.DataFrame, original: pl.DataFrame) -> float:
    names = ["elevel", "car", "zipcode"]  # each value has a code of its own
    return float(np.mean([(found[n] == original[n]).mean() for n in names]))


@pytest.mark.parametrize("method", ["joint", "by-class", "global"])
def test_a_row_is_a_guess_about_its_person_unless_shuffled(
    method: Any, original: pl.DataFrame, release: Release
) -> None:
    """Chance alone is right in 12 %: of 12,000 cells, the standard deviation is 0.3 points."""
    asked = {"sidecar": release.sidecar, "method": method}
    in_order = reconstruct(release.frame, **asked)
    mixed = reconstruct(release.frame, shuffle=True, **asked)
    assert right(in_order.frame, original) > 0.4
    assert right(mixed.frame, original) < 0.15
    assert mixed.frame.schema == in_order.frame.schema and mixed.totals == in_order.totals
    every = original.columns
    assert mixed.frame.sort(every).equals(in_order.frame.sort(every)), "the same records in another order"


def test_places_are_fresh_each_time_and_independent_of_the_rows(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """|r| sqrt(n) exceeds 4.5 by chance in 7 of 10^6 runs; places that follow the rows are rejected."""

    def once() -> pl.DataFrame:
        return reconstruct(numbered, sidecar=sidecar, method="global", shuffle=True).frame

    def telling(frame: pl.DataFrame) -> float:
        return float(abs(np.corrcoef(frame["row"], np.arange(ROWS))[0, 1]) * ROWS**0.5)

    source = pl.DataFrame({"x": np.arange(ROWS) % 7, "row": np.arange(ROWS)})
    made = perturb(source, gamma=9, keep=["row"], keep_order=True)
    numbered, sidecar = made.frame, made.sidecar
    monkeypatch.setattr(output, "MOST_ROWS", 500)  # several buckets
    first, second = once(), once()
    assert sorted(first["row"]) == list(range(ROWS)) and not first.equals(second)
    assert telling(first) < 4.5 and telling(second) < 4.5
    rng = np.random.default_rng(1)
    monkeypatch.setattr(
        dealer, "places_of", lambda _, rows: np.sort(rng.integers(0, 1 << 63, len(rows), dtype=np.uint64))
    )
    assert telling(once()) > 4.5, "the test of the test"
    monkeypatch.undo()
    one, other = (reconstruct(numbered, sidecar=sidecar, method="global").frame for _ in range(2))
    assert one.equals(other) and one["row"].to_list() == list(range(ROWS)), "without it the release's order"


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_the_command_says_what_shuffling_does_and_does_not_do(
    suffix: str, release: Release, original: pl.DataFrame, tmp_path: Path, ppdm: Run
) -> None:
    perturb(original, tmp_path / "r.parquet", gamma=9, bins=21, class_="group", keep=["group"], seed=1)
    for name, more in (("plain", ()), ("again", ()), ("mixed", ("--shuffle",)), ("other", ("--shuffle",))):
        said = ppdm("reconstruct", "r.parquet", "-o", f"{name}.{suffix}", *more).stderr.decode()
        assert ("can still make the same guesses" in said) == bool(more)
    made = {n: (tmp_path / f"{n}.{suffix}").read_bytes() for n in ("plain", "again", "mixed", "other")}
    assert made["plain"] == made["again"] and len(set(made.values())) == 3
    for name, words in (
        ("plain", "Each row is a guess"),
        ("mixed", "The rows were shuffled, but each is a guess"),
    ):
        said = json.loads(ppdm("inspect", f"{name}.{suffix}", "--json").stdout)["sentences"]
        assert said[0].startswith(words) and "handle this file as you would the release" in said[0]
    assert not any("guess about" in s for s in sentences(release.sidecar))

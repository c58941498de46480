"""A shuffled release: every order is as likely, fresh under a key file too, and no row is lost."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import perturb
from ppdm_cli.channels.gamma_diagonal import GammaDiagonalSpec
from ppdm_cli.coins import Key
from ppdm_cli.domain import Categories
from ppdm_cli.engine import Batch
from ppdm_cli.perturbing.resolving import ResolvedPlan, described
from ppdm_cli.perturbing.substitution import Substituter
from ppdm_cli.sidecar import Recipe
from ppdm_cli.tables import Shuffler, output
from tests.chances import LEVEL, chi_square


def places(rows: int, seed: int, identifiers: list[str] | None = None) -> np.ndarray:
    """The order that a release of so many rows is given under a key."""
    domain = Categories(pa.int64(), [0, 1], False)
    plan = ResolvedPlan(
        [described("x", domain, "declared")], [Recipe([GammaDiagonalSpec(attributes=["x"], gamma=9)])], None, []
    )
    who = None if identifiers is None else "id"
    work = Substituter(plan, Key.from_seed(seed), identifier=who, shuffle=True)
    batch = pa.RecordBatch.from_pydict({"x": [0] * rows, "id": identifiers or [""] * rows})
    done = work(Batch(batch, 0, 0, "here", 0))
    assert done.places is not None
    return np.argsort(done.places)


@pytest.mark.parametrize("identifiers", [None, ["ann", "bob", "cid", "dan"]])
def test_every_permutation_is_as_likely(identifiers: list[str] | None) -> None:
    index = {p: i for i, p in enumerate(permutations(range(4)))}
    seeds = 4_800
    found = [index[tuple(places(4, seed, identifiers).tolist())] for seed in range(seeds)]
    assert chi_square(np.bincount(found, minlength=24), np.ones(24)) > LEVEL


def test_every_row_is_as_likely_in_every_place() -> None:
    rows = 12
    table = np.zeros((rows, rows))
    for seed in range(3_000):
        table[np.arange(rows), places(rows, seed)] += 1
    # rows and columns of the table all sum to the number of seeds: (rows - 1)^2 degrees of freedom
    assert chi_square(table, np.ones((rows, rows)), fitted=2 * rows - 1) > LEVEL


def test_under_a_key_file_places_and_release_ids_are_fresh_and_cells_repeat(tmp_path: Path) -> None:
    """With the same places two releases could be laid side by side: 1,000 people, row by row."""
    rng = np.random.default_rng(1)
    people = pl.DataFrame({"id": [f"p{i}" for i in range(1_000)], "x": rng.integers(0, 10, 1_000)})
    asked: dict[str, Any] = {"gamma": 5, "keep": ["id"], "attributes": {"x": {"domain": [0, 9]}}}
    one, two = (perturb(people, key_file=tmp_path / "key", id="id", shuffle=True, **asked) for _ in range(2))
    assert one.sidecar.release != two.sidecar.release
    assert one.frame.sort("id").equals(two.frame.sort("id"))
    in_place = sum(a == b for a, b in zip(one.frame["id"], two.frame["id"], strict=True))
    assert in_place <= 12, "Poisson of mean 1: above 12 with chance 1e-10"
    third, fourth = (perturb(people, seed=7, shuffle=True, **asked) for _ in range(2))
    assert third.frame.equals(fourth.frame) and third.sidecar.release == fourth.sidecar.release


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("most", [1 << 18, 50])
def test_the_shuffler_gives_back_every_row_in_the_order_of_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, known: bool
) -> None:
    monkeypatch.setattr(output, "MOST_ROWS", most)
    rows = 4_000
    rng = np.random.default_rng(3)
    target = rng.integers(0, 2**64, rows, np.uint64, endpoint=False)
    target[:3] = [0, 2**64 - 1, 2**63]
    columns = {
        "place": pa.array(range(rows)),
        "text": pa.array([None if i % 5 == 0 else f"row {i}" for i in range(rows)]),
        "level": pa.array([str(i % 3) for i in range(rows)]),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    expected = pa.Table.from_batches([batch]).take(np.argsort(target))
    for step in (rows, 700, 37):
        with Shuffler(batch.schema, rows if known else None, tmp_path) as shuffler:
            for start in range(0, rows, step):
                shuffler.add(batch.slice(start, step), target[start : start + step])
            found = pa.Table.from_batches(list(shuffler.batches()), batch.schema)
        assert found.equals(expected)
    assert not list(tmp_path.iterdir()), "spooled files have no name"

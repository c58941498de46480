"""Row order: what tells is found, what is random passes, and a shuffle is a uniform permutation.

A file sorted by a private column gives it back whatever gamma is, so the check must see sorted,
grouped and alternating files through any partitioning; it may refuse a file in random order only
about once in a thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import perturb
from ppdm_cli.arrays import code_type
from ppdm_cli.coins import Key
from ppdm_cli.domain import Categories
from ppdm_cli.engine import Batch
from ppdm_cli.errors import RefusedError
from ppdm_cli.matrices import GammaDiagonalSpec
from ppdm_cli.perturbing.order import OrderState
from ppdm_cli.perturbing.settling import Plan, described
from ppdm_cli.perturbing.substitution import Substituter
from ppdm_cli.tables import Shuffler, shuffle
from tests.chances import LEVEL, chi_square

Order = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def by_blocks(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sorted inside blocks of 200 rows, as files put together from sorted parts are."""
    return np.concatenate([np.sort(part) for part in np.array_split(codes, max(1, len(codes) // 200))])


def in_groups(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Equal values together, the groups in random order."""
    return np.argsort(rng.permutation(int(codes.max()) + 1))[np.sort(codes)]


def in_turn(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """0, 1, 2, ... and again from 0."""
    return np.arange(len(codes)) % (int(codes.max()) + 1)


def nearly_sorted(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sorted, but for one row in five."""
    result = np.sort(codes)
    moved = rng.random(len(codes)) < 0.2
    result[moved] = rng.permutation(result[moved])
    return result


def by_a_like_number(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sorted by something that goes along: neighbours are near each other, seldom equal."""
    return codes[np.argsort(codes + rng.normal(0, 0.15 * (int(codes.max()) + 1), len(codes)))]


TELLING: dict[str, Order] = {
    "sorted": lambda codes, rng: np.sort(codes),
    "reversed": lambda codes, rng: np.sort(codes)[::-1],
    "blocks": by_blocks,
    "groups": in_groups,
    "in turn": in_turn,
    "nearly sorted": nearly_sorted,
    "by a like number": by_a_like_number,
}


def state_of(codes: np.ndarray, size: int, parts: int = 1) -> OrderState:
    """The state of a file read in so many partitions."""
    total: OrderState | None = None
    for part in np.array_split(codes.astype(code_type(size)), parts):
        state = OrderState.of(part, size)
        if total is None:
            total = state
        else:
            total.merge(state)
    assert total is not None
    return total


@pytest.mark.parametrize("parts", [1, 7])
@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize(("rows", "size"), [(1_000, 2), (1_000, 5), (5_000, 20), (100_000, 2), (300_000, 100)])
def test_a_telling_order_is_found(name: str, rows: int, size: int, parts: int) -> None:
    rng = np.random.default_rng([rows, size])
    for shares in (np.full(size, 1 / size), rng.dirichlet(np.full(size, 5.0))):
        codes = rng.choice(size, rows, p=shares)
        codes[0] = size - 1
        assert state_of(TELLING[name](codes, rng), size, parts).telling


def test_a_random_order_is_refused_at_most_once_in_a_thousand() -> None:
    rng = np.random.default_rng(1)
    alarms = 0
    for file in range(2_000):
        size = int(rng.choice([2, 3, 5, 10, 20, 100, 1000]))
        rows = int(10 ** rng.uniform(0.5, 4.5))
        shares = rng.dirichlet(np.full(size, rng.choice([0.1, 1.0, 100.0])))
        alarms += state_of(rng.choice(size, rows, p=shares), size, 1 + file % 3).telling
    assert alarms <= 2


@given(
    st.lists(st.integers(0, 4), max_size=60),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_merged_states_are_the_state_of_the_whole(listed: list[int], cuts: list[int]) -> None:
    codes = np.array(listed, np.uint8)
    whole = OrderState.of(codes, 5)
    merged: OrderState | None = None
    for part in np.split(codes, sorted(cuts)):  # empty partitions among them
        state = OrderState.of(part, 5)
        if merged is None:
            merged = state
        else:
            merged.merge(state)
    assert merged is not None
    assert (merged.first, merged.last) == (whole.first, whole.last)
    assert merged.pairs == max(0, len(listed) - 1)
    assert merged.agreements == sum(a == b for a, b in pairwise(listed))
    assert merged.histogram.tolist() == np.bincount(codes, minlength=5).tolist()
    assert whole.agreements == merged.agreements
    # how far apart the two rows at a partition's end are is not measured: one pair in many
    parts = len({c for c in cuts if 0 < c < len(listed)}) + 1
    assert whole.measured - merged.measured == (parts - 1 if listed else 0)
    assert 0 <= whole.distance - merged.distance <= 4 * (parts - 1)


def test_a_sorted_file_is_refused_unless_shuffled_or_said_to_stay() -> None:
    rng = np.random.default_rng(2)
    sorted_ = pl.DataFrame({"kept": range(5_000), "age": np.sort(rng.uniform(0, 100, 5_000))})
    asked: dict[str, Any] = {"gamma": 9, "keep": ["kept"], "attributes": {"age": {"domain": [0, 100]}}}
    with pytest.raises(RefusedError, match="'age'"):
        perturb(sorted_, **asked)
    assert perturb(sorted_, keep_order=True, **asked).telling_order == ["age"]
    shuffled = perturb(sorted_, shuffle=True, **asked)
    assert shuffled.shuffled
    assert shuffled.telling_order == []
    assert not shuffled.frame["kept"].equals(sorted_["kept"])
    assert sorted(shuffled.frame["kept"]) == list(range(5_000))
    mixed = sorted_.sample(fraction=1, shuffle=True, seed=1)
    assert perturb(mixed, **asked).frame["kept"].equals(mixed["kept"]), "rows out are rows in, in their order"


def places(rows: int, seed: int, identifiers: list[str] | None = None) -> np.ndarray:
    """The order that a release of so many rows is given under a key."""
    domain = Categories(pa.int64(), [0, 1], False)
    plan = Plan([described("x", domain, "declared", GammaDiagonalSpec(9))], None, [])
    who = None if identifiers is None else "id"
    work = Substituter(plan, Key.from_seed(seed), clip=False, identifier=who, shuffle=True)
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


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("most", [1 << 18, 50])
def test_the_shuffler_gives_back_every_row_in_the_order_of_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, known: bool
) -> None:
    monkeypatch.setattr(shuffle, "MOST_ROWS", most)
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

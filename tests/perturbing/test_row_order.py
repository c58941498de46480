"""The order of the rows: what tells is found however the file is cut, and what is random passes.

A file sorted by a private column gives it back whatever gamma is, so the check must see sorted,
grouped, periodic and alternating files through any partitioning. Of files in random order it may
refuse one in ten thousand, and what a kept column tells by itself is no reason to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import perturb
from ppdm_cli.errors import RefusedError
from ppdm_cli.perturbing import row_order
from ppdm_cli.perturbing.row_order import RowBlocks, _judged, _Sums, _Test, revealed_columns
from tests.vocabulary import raises

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


def a_walk(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A series that changes slowly, with the same values."""
    return np.sort(codes)[np.argsort(np.argsort(np.cumsum(rng.normal(size=len(codes)))))]


def in_periods(codes: np.ndarray, rng: np.random.Generator, period: int) -> np.ndarray:
    """A pattern that comes again, each row in five by chance."""
    result = codes[:period][np.arange(len(codes)) % period]
    return np.where(rng.random(len(codes)) < 0.2, codes, result)


def high_and_low(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A low one after each high one."""
    low, high = np.array_split(np.sort(codes), 2)
    result = np.empty_like(codes)
    result[::2], result[1::2] = rng.permutation(low), rng.permutation(high)
    return result


TELLING: dict[str, Order] = {
    "sorted": lambda codes, rng: np.sort(codes),
    "reversed": lambda codes, rng: np.sort(codes)[::-1],
    "blocks": by_blocks,
    "groups": in_groups,
    "in turn": in_turn,
    "nearly sorted": nearly_sorted,
    "by a like number": by_a_like_number,
    "a random walk": a_walk,
    "every 7th": lambda codes, rng: in_periods(codes, rng, 7),
    "every 24th": lambda codes, rng: in_periods(codes, rng, 24),
    "high and low": high_and_low,
}


def sample_of(columns: dict[str, Any], parts: int = 1) -> RowBlocks:
    """What is kept of a file read in so many partitions."""
    rows = len(next(iter(columns.values())))
    edges, total = [rows * i // parts for i in range(parts + 1)], None
    for a, b in pairwise(edges):
        sample = RowBlocks.of(a, b - a, {n: c[a:b] for n, c in columns.items()})
        if total is None:
            total = sample
        else:
            total.merge(sample)
    assert total is not None
    return total


def tells(codes: np.ndarray, parts: int = 1) -> bool:
    return bool(revealed_columns(sample_of({"x": codes}, parts), ["x"]))


@pytest.mark.parametrize("name", TELLING)
@pytest.mark.parametrize(("rows", "size"), [(200, 2), (200, 20), (3_000, 5), (3_000, 100), (100_000, 20)])
def test_a_telling_order_is_found(name: str, rows: int, size: int) -> None:
    rng = np.random.default_rng([rows, size])
    for shares in (np.full(size, 1 / size), rng.dirichlet(np.full(size, 5.0))):
        codes = rng.choice(size, rows, p=shares)
        codes[:2] = 0, size - 1
        ordered = TELLING[name](codes, rng).astype(np.uint8)
        assert tells(ordered)
        if rows < 10_000:
            assert tells(ordered, parts=rows)


@pytest.mark.parametrize("rows", [1, 1_024, 65_536, 65_537, 300_001])
def test_no_cut_changes_what_is_kept(rows: int) -> None:
    codes = np.random.default_rng(1).integers(0, 50, rows).astype(np.uint8)
    text = pa.array([f"row {i}" for i in range(rows)]).dictionary_encode()
    whole = sample_of({"x": codes, "text": text}).columns()
    assert len(whole[0]) <= 65_536 and len(whole[0]) > min(rows, 32_768) - 1
    for parts in (3, 211):
        places, columns = sample_of({"x": codes, "text": text}, min(parts, rows)).columns()
        assert np.array_equal(places, whole[0])
        assert np.array_equal(columns["x"], whole[1]["x"]) and columns["text"].equals(whole[1]["text"])


# -- the law of what is measured


@pytest.mark.parametrize("groups", [None, [0, 0, 0, 0, 1, 1, 1]])
def test_mean_and_variance_are_those_of_all_orders(groups: list[int] | None, monkeypatch: Any) -> None:
    codes, found = np.array([0, 1, 1, 2, 0, 3, 3]), []
    places = np.array([0, 1, 2, 3, 5, 6, 7])  # a gap, as between blocks
    monkeypatch.setattr(row_order, "LAGS", (1, 2, 3))
    monkeypatch.setattr(row_order, "_judged", lambda e, _, v: found.append((e, v)) or (0.0, 1.0))
    test = _Test(places, None if groups is None else np.array(groups), 1)
    for p in permutations(range(7)):
        if groups is None or [groups[i] for i in p] == groups:
            test.measured(codes[list(p)])
    excess, variance = np.moveaxis(np.array(found).reshape(-1, 6, 2), 2, 0)
    assert np.allclose(excess.mean(0), 0) and np.allclose(variance, variance[0])
    assert np.allclose(excess.var(0), variance[0]) and variance[0].min() > 0.1


def tails(n: int, h: int) -> Iterator[tuple[float, float]]:
    """Of h ones among n rows: exact chances of so many runs or fewer (or more), and their bounds."""
    other = n - h
    c, ways = comb, {}
    for r in range(2, n + 1):
        a, b = r // 2 - 1, (r + 1) // 2 - 1
        ways[r] = c(h - 1, a) * c(other - 1, b) + c(h - 1, b) * c(other - 1, a)
    total = comb(n, h)
    assert sum(ways.values()) == total
    alike = np.array([float(h * (h - 1) + other * (other - 1))])
    star = np.array([float(h * (h - 1) ** 2 + other * (other - 1) ** 2)])
    mean, variance = _Sums(alike, star, alike).moments(np.array([n]), np.array([n - 1.0]), np.array([n - 2.0]))
    for runs in (sorted(ways), sorted(ways, reverse=True)):
        ends = 0
        for r in runs:
            ends += ways[r]
            if ways[r] and ((n - r > mean) == (runs[0] == 2)):
                yield ends / total, _judged(n - r - mean, 1.0, variance)[1]


def test_the_bound_is_above_the_exact_chance_of_runs(monkeypatch: Any) -> None:
    """Wald and Wolfowitz's law of the number of runs, down to chances of 1e-100; a smaller jump fails."""
    shapes = [(n, h) for n in (4, 5, 8, 20, 60, 200) for h in (1, 2, 3, 4, 5, 8, 13, 30, 100) if h <= n // 2]
    assert all(exact <= bound for n, h in shapes for exact, bound in tails(n, h))
    monkeypatch.setattr(row_order, "_JUMP", 1.0)
    assert not all(exact <= bound for n, h in shapes for exact, bound in tails(n, h))


SKEWED: dict[str, Callable[[int], np.ndarray]] = {
    "two of one value": lambda n: np.arange(n) // (n - 2),
    "five of one value": lambda n: np.arange(n) // (n - 5),
    "two high ones": lambda n: np.maximum(np.arange(n) - n + 3, 0) * 45,
    "a tenth": lambda n: np.arange(n) // (n - n // 10),
    "even": lambda n: np.arange(n) % 5,
    "each its own": lambda n: np.arange(n),
    "pairs": lambda n: np.arange(n) // 2,
    "half its own": lambda n: np.maximum(np.arange(n) - n // 2, 0),
}


def bounds_of(f: Callable[[int], np.ndarray], rows: int, files: int, monkeypatch: Any) -> np.ndarray:
    """Bounds of the chance, lags 1, 2 and 7, both tests, of files of one shape in random order."""
    monkeypatch.setattr(row_order, "LAGS", (1, 2, 7))
    rng, test = np.random.default_rng(rows), _Test(np.arange(rows), None, 1)
    return np.array([[p for _, _, p in test.measured(rng.permutation(f(rows)))] for _ in range(files)])


@pytest.mark.parametrize(("rows", "files"), [(20, 1_000), (100, 1_000), (1_000, 400)])
def test_bounds_hold_for_skewed_and_small_files(rows: int, files: int, monkeypatch: Any) -> None:
    """A bound of a on either side is met by at most 2a of the files, but for 5 standard deviations."""
    for name, shape in SKEWED.items():
        bounds = bounds_of(shape, rows, files, monkeypatch)
        for a in (0.1, 0.01, 0.001):
            most = 2 * a * files + 5 * (2 * a * files) ** 0.5
            assert (bounds < a).sum(0).max() <= most, (name, a)


def test_the_test_of_bounds_sees_a_normal_tail(monkeypatch: Any) -> None:
    """With the normal law's bound, exp(-z^2 / 2), rare values next to each other are false alarms."""
    monkeypatch.setattr(row_order, "_judged", lambda e, _, v: (0.0, float(np.exp(-(e**2) / max(v, 1e-6) / 2))))
    bounds = bounds_of(SKEWED["two of one value"], 100, 1_000, monkeypatch)
    assert (bounds < 1e-3).sum(0).max() > 2 + 5 * 2**0.5


def test_files_in_random_order_pass() -> None:
    """1,000 files: at the promised 1e-4 each one is refused by chance in ten runs of this test."""
    rng = np.random.default_rng(1)
    for file in range(1_000):
        size = int(rng.choice([2, 3, 5, 10, 20, 100, 1000]))
        rows = int(10 ** rng.uniform(0.5, 3.7))
        shares = rng.dirichlet(np.full(size, rng.choice([0.1, 1.0, 100.0])))
        assert not tells(rng.choice(size, rows, p=shares), 1 + file % 3)


def test_a_weak_order_of_many_rows_passes() -> None:
    """One row in five in its place: of equal neighbours 4 % of the possible, 40 standard deviations."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 20, 200_000)
    ordered = np.where(rng.random(len(codes)) < 0.2, np.sort(codes), codes)
    places, columns = sample_of({"x": ordered}).columns()
    assert not tells(ordered)
    assert min(p for _, _, p in _Test(places, None, 1).measured(columns["x"])) < 1e-20


# -- through the library and the command


def test_a_sorted_file_is_refused_unless_shuffled_or_said_to_stay() -> None:
    rng = np.random.default_rng(2)
    sorted_ = pl.DataFrame({"kept": range(5_000), "age": np.sort(rng.uniform(0, 100, 5_000))})
    asked: dict[str, Any] = {"gamma": 9, "keep": ["kept"], "attributes": {"age": {"domain": [0, 100]}}}
    with raises("order-reveals"):
        perturb(sorted_, **asked)
    assert perturb(sorted_, keep_order=True, **asked).telling_order == ["age"]
    shuffled = perturb(sorted_, shuffle=True, **asked)
    assert shuffled.shuffled
    assert shuffled.telling_order == []
    assert not shuffled.frame["kept"].equals(sorted_["kept"])
    assert sorted(shuffled.frame["kept"]) == list(range(5_000))
    mixed = sorted_.sample(fraction=1, shuffle=True, seed=1)
    assert perturb(mixed, **asked).frame["kept"].equals(mixed["kept"]), "rows out are rows in, in their order"


def test_numbers_of_people_are_dropped_before_rows_are_shuffled() -> None:
    people = pl.DataFrame({"customer": range(5_000), "age": [i % 90 for i in range(5_000)]})
    with pytest.raises(RefusedError, match=r"drop=\['customer'\] if 'customer' numbers people .* shuffle=True"):
        perturb(people, gamma=9)
    with pytest.raises(RefusedError, match=r"too different\. Add shuffle=True"):
        perturb(people, gamma=9, attributes={"customer": {"domain": [0, 5_000]}, "age": {"domain": [0, 90]}})


def by_kept(rows: int = 6_000) -> pl.DataFrame:
    """A town, a salary and a class that are kept, and an age that goes along with all of them."""
    rng = np.random.default_rng(4)
    town, salary = rng.integers(0, 12, rows), rng.gamma(3, 10_000, rows).round(2)
    age = (town * 3 + salary / 2_000 + rng.normal(0, 8, rows)).clip(0, 99).astype(int)
    return pl.DataFrame({"town": [f"town {t}" for t in town], "salary": salary, "age": age})


ASKED: dict[str, Any] = {"gamma": 2, "keep": ["town", "salary"], "attributes": {"age": {"domain": [0, 99]}}}


@pytest.mark.parametrize("by", ["town", "salary", ["town", "salary"]])
def test_the_order_of_kept_columns_alone_is_no_reason_to_refuse(by: Any) -> None:
    data = by_kept().sort(by)
    assert perturb(data, **ASKED).telling_order == []
    with raises("order-reveals"):
        perturb(data.select("age"), **(ASKED | {"keep": []}))


@pytest.mark.parametrize("by", ["age", ["town", "age"]])
def test_an_order_that_tells_more_than_the_kept_columns_is_refused(by: Any) -> None:
    with raises("order-reveals"):
        perturb(by_kept().sort(by), **ASKED)


@pytest.mark.parametrize("name", ["{}", "p{:04}"])
def test_a_dropped_identifier_in_order_is_a_remark(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(5)
    data = pl.DataFrame({"who": [name.format(i) for i in range(500)], "x": rng.integers(0, 10, 500)})
    asked: dict[str, Any] = {"gamma": 2, "key_file": tmp_path / "key", "id": "who"}
    assert perturb(data, **asked).in_order_of == perturb(data.reverse(), **asked).in_order_of == "who"
    mixed = data.sample(fraction=1, shuffle=True, seed=1)
    for given, more in ((mixed, {}), (data, {"shuffle": True}), (data, {"keep": ["who"]})):
        assert perturb(given, **asked, **more).in_order_of is None


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.time64("us")], ids=str)
def test_an_identifier_of_any_type_gets_the_remark(tmp_path: Path, kind: pa.DataType) -> None:
    who = pa.array(range(500), pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    data = pa.table({"who": who, "x": np.random.default_rng(5).integers(0, 10, 500)})
    assert perturb(data, gamma=2, key_file=tmp_path / "key", id="who").in_order_of == "who"

"""Histograms: bounded in memory, and the same counts however they are had."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import running
from ppdm_cli.tables import open_table
from ppdm_cli.trees import Options, histograms
from ppdm_cli.trees.growing import Grown, grow
from ppdm_cli.trees.records import CodedRecords, coded_records


def drawn(seed: int, n: int, classes: int, holes: bool = False) -> CodedRecords:
    rng = np.random.default_rng(seed)
    data = pl.DataFrame(
        {
            "a": rng.integers(0, 60, n),
            "b": rng.random(n).round(3),
            "k": [f"k{v}" for v in rng.integers(0, 12, n)],
            "one": np.ones(n),
        }
    )
    if holes:
        data = data.with_columns(pl.when(pl.Series(rng.random(n) < 0.1)).then(None).otherwise("a").alias("a"))
    labels = (data["a"].fill_null(0).to_numpy() // 7 + (data["b"].to_numpy() * 5).astype(int)) % classes
    labelled = data.with_columns(y=pl.Series(np.where(rng.random(n) < 0.1, 0, labels)))
    return coded_records(open_table(labelled), "y")


def equal(one: Grown, other: Grown) -> bool:
    names = ("feature", "cut", "first_child", "children", "counts")
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 999), st.sampled_from([2, 5]), st.booleans())
def test_the_tree_does_not_depend_on_how_counts_are_had(seed: int, classes: int, holes: bool) -> None:
    """All sorted, dense in pieces, with and without subtraction, one thread and three."""
    records = drawn(seed, 20_000, classes, holes)
    with running(threads=1):
        usual = grow(records, Options(), False)
    assert len(usual.feature) > 20
    with running(threads=3):
        assert equal(usual, grow(records, Options(), False))
    for most in (1, 1 << 14, 1 << 17):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(histograms, "MOST_HISTOGRAM_BYTES", most)
            assert equal(usual, grow(records, Options(), False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histograms, "_subtraction", lambda *a: None)
        assert equal(usual, grow(records, Options(), False))


def test_siblings_are_subtracted_and_a_wrong_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    records, calls = drawn(1, 20_000, 2), []
    with running(threads=1):
        usual = grow(records, Options(), False)
    complete = histograms._Subtraction.completed

    def one_off(self: object, counts: np.ndarray, before: np.ndarray) -> np.ndarray:
        calls.append(1)
        return complete(self, counts, before + 1)  # type: ignore[arg-type]

    monkeypatch.setattr(histograms._Subtraction, "completed", one_off)
    assert not equal(usual, grow(records, Options(), False)) and calls


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 4])
def test_dense_histograms_stay_under_their_bound(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """65,536 values and 255 classes are 133 MB if counted densely, in one attribute at one node."""
    rng = np.random.default_rng(2)
    n = 100_000
    wide = {f"x{i}": rng.permutation(n) % 65_536 for i in range(3)}
    narrow = {f"z{i}": rng.integers(0, 20_000, n) for i in range(2)}
    small = {"s": rng.integers(0, 300, n)}
    label = (wide["x0"] // 258 + small["s"] // 100) % 255
    records = coded_records(open_table(pl.DataFrame({**wide, **narrow, **small, "y": label})), "y")
    records.codes  # noqa: B018 -- made once, not a histogram
    seen: list[int] = []
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    dense = histograms.LevelCounter._dense

    def watched(self: histograms.LevelCounter, part: object, place: int, *rest: object) -> object:
        seen.append(self.classes * part.size * records.columns[place].size * 8)  # type: ignore[attr-defined]
        return dense(self, part, place, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(histograms.LevelCounter, "_dense", watched)
    with running(threads=threads):
        grow(records, Options(max_depth=3), False)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert seen and max(seen) * (threads + 1) <= 64 << 20
    assert peak < 400 << 20, f"{peak >> 20} MB"

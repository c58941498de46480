"""Domains from the data: they cover it, and publish no extreme and no rare label by accident.

Edges are multiples of 1, 2, 2.5 or 5 x 10^k around the range, checked against a slow search; a
category of fewer than ten records is refused without its name, merged or published as asked; and
what is learnt of the columns is compared with counting them in Python.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ppdm_cli import dtypes, perturb
from ppdm_cli.domain import MOST_VALUES, Bins, Categories, nice_edges
from ppdm_cli.engine import Facts
from ppdm_cli.errors import DataError, RefusedError
from ppdm_cli.perturbing.domain_choice import FEW, OTHER, even_edges, from_data, profile, refuse_rare
from ppdm_cli.perturbing.resolving import described
from ppdm_cli.tables import from_arrow
from tests.strategies import KINDS, NUMBER_KINDS, carriers, column, kinds

KEEP_ALL = "1e9"
"""A gamma with which no value of a small table moves."""
AS_THEY_ARE = kinds.filter(lambda kind: getattr(kind, "unit", "") != "s")
"""Tables read seconds as milliseconds."""
NAMES = st.sampled_from(["ann", "bob", "cid", "dan", "eve", OTHER])


def plainest_edges(low: Fraction, high: Fraction, bins: int, whole: bool) -> tuple[Fraction, list[Fraction]]:
    """The narrowest width of 1, 2, 2.5 or 5 x 10^k with `bins` bins at most, tried from far below."""
    power = math.floor(math.log10((high - low) / bins)) - 2 if high - low < 10**300 else 290
    while True:
        for digits in (Fraction(1), Fraction(2), Fraction(5, 2), Fraction(5)):
            width = digits * Fraction(10) ** power
            first, last = low // width, -(-high // width)
            if last - first <= bins and (not whole or width.denominator == 1):
                return width, [i * width for i in range(first, last + 1)]
        power += 1


@given(st.data(), st.sampled_from(NUMBER_KINDS), st.integers(2, 300))
def test_edges_are_the_narrowest_round_ones_that_cover_the_range(
    data: st.DataObject, kind: pa.DataType, bins: int
) -> None:
    low, high = sorted(data.draw(st.tuples(carriers(kind), carriers(kind))))
    whole = dtypes.is_whole(kind)
    if whole:
        assume(high - low >= bins)
    else:  # more than `bins` values lie between, else they would be categories
        ends = np.array([low, high], dtypes.carrier_type(kind)).astype(np.float64)
        form = np.finfo(dtypes.carrier_type(kind))
        step = max(float(form.eps) * float(np.abs(ends).max()), float(form.smallest_subnormal))
        assume(high / 2 - low / 2 > bins * step and high / 2 - low / 2 > 1e-300)
    edges = nice_edges(low, high, bins, kind)
    assert edges[0] <= low
    assert high <= edges[-1]
    domain = Bins(kind, edges, False)
    assert 2 <= domain.ordinary <= bins
    width, exact = plainest_edges(Fraction(low), Fraction(high), bins, whole)
    lowest, highest = map(Fraction, dtypes.limits(kind))
    if len(exact) == 2:  # one bin would have nothing to perturb: an empty one beside it, where there is room
        exact = [*exact, exact[1] + width] if exact[1] < highest else [exact[0] - width, *exact]
    clamped = [min(max(e, lowest), highest) for e in exact]
    assert edges == [int(e) if whole else float(e) for e in clamped]
    # an extreme shows only where it is a multiple of the width itself, or the type's own limit
    for edge, extreme, limit in ((edges[0], low, lowest), (edges[-1], high, highest)):
        near = round(Fraction(extreme) / width) * width
        assert edge != extreme or extreme == limit or float(near) == float(extreme)
    inside = dtypes.from_carrier(np.array([low, high], dtypes.carrier_type(kind)), kind)
    assert domain.encode(inside).outside.size == 0
    assert described("x", domain, "data").domain.edges.tolist() == domain.edges.tolist()


def drawn(kind: pa.DataType, low: Any, high: Any, seed: int = 0) -> pa.Array:
    """2,000 values of a type between two carriers, both among them."""
    rng = np.random.default_rng(seed)
    if pa.types.is_floating(kind):
        values = (rng.random(2_000) * (high / 2 - low / 2) + low / 2) * 2
    else:
        values = rng.integers(low, high, 2_000, np.uint64 if kind == pa.uint64() else np.int64, endpoint=True)
    values = values.astype(dtypes.carrier_type(kind))
    values[:2] = low, high
    return dtypes.from_carrier(rng.permutation(values), kind)


@pytest.mark.parametrize("kind", NUMBER_KINDS, ids=str)
def test_columns_over_the_whole_range_of_their_type_get_a_domain(kind: pa.DataType) -> None:
    low, high = dtypes.limits(kind)
    release = perturb(pa.table({"x": drawn(kind, low, high)}), gamma=9, seed=1, rare="publish")
    (attribute,) = release.sidecar.attributes
    assert attribute.domain.ordinary <= 10 or kind == pa.decimal128(1, 0)
    assert release.frame.height == 2_000


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("us")], ids=str)
def test_dates_that_no_text_can_say_are_refused_by_name(kind: pa.DataType) -> None:
    high = dtypes.limits(kind)[1] + 1
    for low in (high - 5, high - 5_000):
        with pytest.raises(DataError, match="'x'"):
            perturb(pa.table({"x": drawn(kind, low, high)}), gamma=9, seed=1, rare="publish")


@given(st.floats(-1e15, 1e15), st.floats(1e-3, 1e15), st.integers(2, 100))
def test_even_edges_are_the_floats_nearest_to_the_exact_ones(low: float, span: float, bins: int) -> None:
    high = low + span
    edges = even_edges(low, high, bins)
    assert (edges[0], edges[-1], len(edges)) == (low, high, bins + 1)
    for i, edge in enumerate(edges):
        exact = Fraction(low) + i * (Fraction(high) - Fraction(low)) / bins
        assert abs(Fraction(edge) - exact) <= Fraction(math.ulp(edge)) / 2


@given(st.data(), AS_THEY_ARE, st.integers(2, 12), st.lists(st.integers(0, 40), max_size=4))
def test_facts_are_what_counting_in_python_gives(
    data: st.DataObject, kind: pa.DataType, most: int, cuts: list[int]
) -> None:
    few = data.draw(st.lists(carriers(kind), min_size=1, max_size=15))
    cells = data.draw(st.lists(st.none() | st.sampled_from(few), min_size=1, max_size=40))
    whole = column(cells, kind)
    chunks = [whole.slice(a, b - a) for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True)]
    table = pa.table({"x": pa.chunked_array(chunks, kind)})
    facts = profile(from_arrow(table), {"x": most})["x"]
    counts = Counter(c for c in cells if c is not None)
    assert facts.nulls == cells.count(None)
    if dtypes.is_discrete(kind) or len(counts) <= most:
        assert facts.values == counts
    else:
        assert facts.values is None
    if counts and not dtypes.is_discrete(kind):
        assert (facts.low, facts.high) == (min(counts), max(counts))


def test_nan_counts_as_null_and_an_infinity_is_an_error_with_its_row() -> None:
    facts = profile(from_arrow(pa.table({"x": [1.0, math.nan, None, 2.0]})), {"x": 5})["x"]
    assert (facts.nulls, facts.low, facts.high) == (2, 1.0, 2.0)
    with pytest.raises(DataError, match="row 3 ") as error:
        profile(from_arrow(pa.table({"x": [1.0, None, -math.inf]})), {"x": 5})
    assert "'x'" in str(error.value)


def facts_of(counts: dict[Any, int], nulls: int = 0) -> Facts:
    numbers = [v for v in counts if not isinstance(v, (str, bool))]
    return Facts(nulls, 0, min(numbers, default=None), max(numbers, default=None), Counter(counts))


@given(st.dictionaries(NAMES, st.integers(1, 30), min_size=2), st.booleans())
def test_rare_labels_are_pooled_until_the_pool_is_not_rare(counts: dict[str, int], nulls: bool) -> None:
    nulls_seen = FEW if nulls else 0
    rare = {v for v, c in counts.items() if c < FEW}
    try:
        settled = from_data("x", pa.string(), facts_of(counts, nulls_seen), 10, "center", "merge")
    except RefusedError:
        # one pool of everything, and nothing to tell it from
        assert not nulls
        assert rare
        common = [c for v, c in counts.items() if v not in rare and v != OTHER]
        assert not common or sum(counts.values()) - max(common) < FEW
        return
    assert isinstance(settled.domain, Categories)
    values = settled.domain.values
    assert values == sorted(values)
    assert settled.merges == bool(rare)
    if not rare:
        assert set(values) == set(counts)
        return
    assert OTHER in values
    named = set(values) - {OTHER}
    assert all(counts[v] >= FEW for v in named)
    pool = sum(c for v, c in counts.items() if v not in named)
    assert pool >= FEW or not named


@given(st.dictionaries(st.integers(-5, 5), st.integers(1, 30), min_size=2))
def test_rare_numbers_leave_the_domain_of_the_common_ones(counts: dict[int, int]) -> None:
    common = sorted(v for v, c in counts.items() if c >= FEW)
    if len(common) < 2:
        with pytest.raises(RefusedError):
            from_data("x", pa.int64(), facts_of(counts), 20, "center", "merge")
        return
    settled = from_data("x", pa.int64(), facts_of(counts), 20, "center", "merge")
    assert isinstance(settled.domain, Categories)
    assert settled.domain.values == common


def mixed(cells: list[Any]) -> list[Any]:
    return np.random.default_rng(1).permutation(np.array(cells, object)).tolist()


def test_a_refusal_counts_rare_categories_and_names_none() -> None:
    towns = mixed(["London"] * 50 + ["Paris"] * 50 + ["Canaryville"] * 9 + ["Canaryton"])
    with pytest.raises(RefusedError) as error:
        perturb(pl.DataFrame({"town": towns}), gamma=9)
    assert error.value.exit_code == 4
    assert "'town'" in str(error.value)
    assert "2 of 4" in str(error.value)
    assert "anary" not in str(error.value)
    numbers = mixed([1] * 50 + [2] * 50 + [777_777] * 9)
    with pytest.raises(RefusedError) as error:
        perturb(pl.DataFrame({"n": numbers}), gamma=9)
    assert "777" not in str(error.value)
    ten = perturb(pl.DataFrame({"town": mixed(["a"] * 10 + ["b"] * 90)}), gamma=9)
    assert ten.sidecar.attributes[0].categories == ["a", "b"]


def test_merged_labels_are_published_nowhere() -> None:
    towns = mixed(["London"] * 500 + ["Paris"] * 50 + ["Canaryville"] * 9 + ["Canaryton"] * 3 + [None] * 20)
    release = perturb(pl.DataFrame({"town": towns}), gamma=KEEP_ALL, rare="merge", seed=1)
    assert release.sidecar.attributes[0].categories == [OTHER, "London", "Paris"]
    assert b"anary" not in release.sidecar.encode()
    expected = [OTHER if t is not None and t.startswith("Canary") else t for t in towns]
    assert release.frame["town"].to_list() == expected


def test_merged_numbers_go_to_the_nearest_common_one() -> None:
    numbers = mixed([0] * 50 + [10] * 50 + [11] * 50 + [-7, 4, 5, 6, 12, 100] + [None] * 20)
    release = perturb(pl.DataFrame({"n": numbers}), gamma=KEEP_ALL, rare="merge", seed=1)
    assert release.sidecar.attributes[0].categories == [0, 10, 11]
    nearest = {-7: 0, 4: 0, 5: 0, 6: 10, 12: 11, 100: 11}
    assert release.frame["n"].to_list() == [nearest.get(n, n) for n in numbers]
    cents = [None if n is None else Decimal(n).scaleb(-2) for n in numbers]
    money = perturb(pa.table({"n": pa.array(cents, pa.decimal128(5, 2))}), gamma=KEEP_ALL, rare="merge", seed=1)
    assert money.sidecar.attributes[0].categories == ["0.00", "0.10", "0.11"]
    expected = [None if n is None else Decimal(nearest.get(n, n)).scaleb(-2) for n in numbers]
    assert money.frame["n"].to_list() == expected


def test_a_rare_truth_value_leaves_nothing_to_merge_it_into() -> None:
    truths = mixed([True] * 100 + [False] * 5 + [None] * 50)
    with pytest.raises(RefusedError, match="'b'"):
        perturb(pl.DataFrame({"b": truths}, schema={"b": pl.Boolean}), gamma=9, rare="merge")


def test_published_rare_categories_are_all_in_sorted_order() -> None:
    towns = mixed(["b"] * 50 + ["c"] * 3 + ["a"] * 20)
    release = perturb(pl.DataFrame({"town": towns}), gamma=9, rare="publish")
    assert release.sidecar.attributes[0].categories == ["a", "b", "c"]
    assert release.sidecar.attributes[0].domain_from == "data"


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_columns_without_two_values_are_refused(kind: pa.DataType) -> None:
    one = True if kind == pa.bool_() else "a" if kind == pa.string() else 1
    for cells in ([one] * 50, [None] * 50):
        with pytest.raises(RefusedError, match="'x'"):
            perturb(pa.table({"x": column(cells, kind)}), gamma=9)


def test_a_column_of_too_many_labels_is_refused() -> None:
    labels = [f"label {i}" for i in range(MOST_VALUES + 1)]
    with pytest.raises(RefusedError, match="'x'") as error:
        perturb(pl.DataFrame({"x": labels}), gamma=9, rare="publish")
    assert "label" not in str(error.value)


@pytest.mark.parametrize("high", [2, 3, 4, 5, 9, 11])
def test_two_bins_are_two(high: int) -> None:
    values = np.random.default_rng(0).integers(0, high, 2_000, endpoint=True)
    (attribute,) = perturb(pl.DataFrame({"x": values}), gamma=9, bins=2).sidecar.attributes
    assert attribute.N == 2


@pytest.mark.parametrize(("distinct", "form"), [(10, "discrete"), (11, "continuous")])
def test_numbers_with_at_most_n_values_are_categories(distinct: int, form: str) -> None:
    values = np.random.default_rng(0).integers(0, distinct, 5_000) * 3
    (attribute,) = perturb(pl.DataFrame({"x": values}), gamma=9, bins=10).sidecar.attributes
    assert attribute.type == form


def test_a_null_that_few_records_have_is_a_rare_category() -> None:
    facts = facts_of({"x": 50, "y": 60}, FEW - 1)
    with pytest.raises(RefusedError, match="'x' \\(null\\)"):
        refuse_rare({"x": facts})
    with pytest.raises(RefusedError, match="fewer than 10 records"):
        from_data("x", pa.string(), facts, 10, "center", "merge")
    assert from_data("x", pa.string(), facts, 10, "center", "publish").domain.nulls
    refuse_rare({"x": facts_of({"x": 50, "y": 60}, FEW)})

"""Domains: cut as declared, or from the data, so that no extreme, rare label or identifier is published.

Edges are multiples of 1, 2, 2.5 or 5 x 10^k around the range, checked against a slow search; a
category of fewer than ten records is refused without its name, merged or published as asked; and
what is learnt of the columns is compared with counting them in Python.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from math import log, sqrt
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ppdm_cli import dtypes, estimate, perturb
from ppdm_cli.domain import MOST_VALUES, Bins, Categories, Domain, nice_edges
from ppdm_cli.engine import Facts
from ppdm_cli.errors import RefusedError
from ppdm_cli.perturbing import AttributePlan
from ppdm_cli.perturbing.domain_choice import FEW, OTHER, declared, even_edges, from_data, profile, refuse_rare
from ppdm_cli.perturbing.resolving import described
from ppdm_cli.tables import from_arrow
from tests.strategies import KINDS, NUMBER_KINDS, carriers, column, kinds
from tests.vocabulary import raises, table

KEEP_ALL = "1e9"
"""A gamma with which no value of a small table moves."""
AS_THEY_ARE = kinds.filter(lambda kind: getattr(kind, "unit", "") != "s")
"""Tables read seconds as milliseconds."""
NAMES = st.sampled_from(["ann", "bob", "cid", "dan", "eve", OTHER])

# -- declared: on a scale, or around a core


def domain(kind: pa.DataType, bins: int, **asked: Any) -> Domain:
    return declared("x", kind, AttributePlan.of(asked), bins, "center")


@pytest.mark.parametrize(
    ("kind", "bins", "asked", "edges"),
    [
        (pa.float64(), 6, {"domain": [1, 10**6], "scale": "log"}, [1, 10, 100, 1_000, 10_000, 100_000, 10**6]),
        (pa.float64(), 5, {"domain": [0, 25], "scale": "sqrt"}, [0, 1, 4, 9, 16, 25]),
        (pa.float64(), 6, {"domain": "-99:99", "core": "0:4"}, [-99, 0, 1, 2, 3, 4, 99]),
        (pa.int32(), 6, {"domain": "0:1000", "core": "500:1000"}, [0, 500, 600, 700, 800, 900, 1000]),
        (pa.int32(), 9, {"domain": [1, 120], "scale": "log"}, [1, 2, 3, 5, 8, 14, 24, 42, 71, 120]),
        (pa.decimal128(9, 2), 2, {"domain": ["1.00", "100.00"], "scale": "log"}, [100, 1_000, 10_000]),
        (
            pa.date32(),
            4,
            {"domain": ["2000-01-01", "2030-01-01"], "core": ["2020-01-01", "2024-01-01"]},
            [10957, 18262, 18992, 19723, 21915],
        ),
    ],
)
def test_bins_are_those_that_an_owner_would_draw_by_hand(
    kind: pa.DataType, bins: int, asked: dict[str, Any], edges: list[int]
) -> None:
    found = domain(kind, bins, **asked)
    assert isinstance(found, Bins) and found.edges.tolist() == edges


@given(
    st.sampled_from(["log", "sqrt", None]), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 60),
    st.integers(0, 50), st.integers(0, 50), st.sampled_from([pa.int64(), pa.float64()]),
)  # fmt: skip
def test_steps_are_equal_on_the_scale_and_whole_numbers_distinct(
    scale: str | None, first: int, span: int, bins: int, below: int, above: int, kind: pa.DataType
) -> None:
    last, whole = first + span, pa.types.is_integer(kind)
    asked = {"domain": [first - below, last + above], "core": [first, last]}
    asked |= {"scale": scale} if scale else {}
    ends = (below > 0) + (above > 0)
    if bins <= ends:
        with raises("bins-for-core"):
            domain(kind, bins, **asked)
        return
    found = domain(kind, bins, **asked)
    if isinstance(found, Categories):
        assert whole and found.values == list(range(first - below, last + above + 1)) and found.size <= bins
        return
    marks = found.marks
    assert marks[0] == first - below and marks[-1] == last + above and {first, last} <= set(marks)
    core = marks[marks.index(first) : marks.index(last) + 1]
    assert len(core) - 1 == (min(bins - ends, span) if whole else bins - ends)
    if not whole:
        to = {"log": log, "sqrt": sqrt, None: float}[scale]
        steps = np.diff([to(e) for e in core])
        assert steps.max() <= 1.25 * steps.min()  # edges of few digits are off by a twentieth of a bin


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        ({"domain": "0:100", "scale": "log"}, "scale-begins"),
        ({"domain": "-5:100", "scale": "sqrt"}, "scale-begins"),
        ({"domain": "-5:100", "scale": "log", "core": "0:9"}, "scale-begins"),
        ({"domain": "0:100", "core": "0:101"}, "core-outside"),
        ({"domain": "0:100", "core": "5:5"}, "core-outside"),
        ({"domain": "0:100", "core": "5"}, "bad-core"),
        ({"domain": "0:100", "core": "low:high"}, "domain-type"),
        ({"domain": "0:100", "core": "5:9", "bins": 2}, "bins-for-core"),
        ({"domain": "5:1"}, "bad-interval"),
        ({"domain": "0:100", "scale": "month"}, "no-calendar"),
        ({"domain": "0:100", "scale": "cube"}, "unknown-scale"),
        ({"scale": "log"}, "cut-without-interval"),
        ({"domain": "1|2|3", "scale": "log"}, "cut-without-interval"),
    ],
)
def test_a_domain_that_cannot_be_cut_is_refused(asked: dict[str, Any], id: str) -> None:
    with raises(id):
        perturb(pl.DataFrame({"x": [0.5, 7.25]}), gamma=9, attributes={"x": asked})


def test_a_cut_attribute_is_estimated_and_another_domain_replaces_the_cut() -> None:
    amounts = np.random.default_rng(1).lognormal(5, 2, 4_000).clip(0, 10**6)
    plan = {
        "gamma": 9,
        "attributes": {"x": {"domain": [0, 10**6], "core": [10, 10_000], "scale": "log", "bins": 5}},
    }
    made = perturb(pl.DataFrame({"x": amounts}), plan=plan, seed=1)
    edges = [0, 10, 100, 1_000, 10_000, 10**6]
    assert made.sidecar.attributes[0].edges == edges
    rows = estimate(made.frame, sidecar=made.sidecar).frame
    assert (np.abs(rows["estimate"] - np.histogram(amounts, edges)[0]) <= 5 * rows["std_error"]).all()
    other = perturb(pl.DataFrame({"x": amounts}), plan=plan, attributes={"x": {"domain": "0:1000000"}})
    assert other.sidecar.attributes[0].edges == [i * 200_000 for i in range(6)]


# -- from the data


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


def drawn(kind: pa.DataType, low: Any, high: Any) -> pa.Array:
    """2,000 values of a type between two carriers, both among them."""
    rng = np.random.default_rng(0)
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


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("us")], ids=str)
def test_dates_that_no_text_can_say_are_refused(kind: pa.DataType) -> None:
    high = dtypes.limits(kind)[1] + 1
    for low in (high - 5, high - 5_000):
        with raises("bad-date"):
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
    facts = profile(from_arrow(pa.table({"x": pa.chunked_array(chunks, kind)})), {"x": most})["x"]
    counts = Counter(c for c in cells if c is not None)
    assert facts.nulls == cells.count(None)
    listed = dtypes.is_discrete(kind) or len(counts) <= most
    assert facts.values == (counts if listed else None)
    if counts and not dtypes.is_discrete(kind):
        assert (facts.low, facts.high) == (min(counts), max(counts))


def test_nan_counts_as_null_and_an_infinity_is_an_error_with_its_row() -> None:
    facts = profile(from_arrow(pa.table({"x": [1.0, math.nan, None, 2.0]})), {"x": 5})["x"]
    assert (facts.nulls, facts.low, facts.high) == (2, 1.0, 2.0)
    with raises("infinite-value") as error:
        profile(from_arrow(pa.table({"x": [1.0, None, -math.inf]})), {"x": 5})
    assert "'x'" in str(error.value) and "row 3 " in str(error.value)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_columns_without_two_values_are_refused(kind: pa.DataType) -> None:
    one = True if kind == pa.bool_() else "a" if kind == pa.string() else 1
    for cells, id in (([one] * 50, "one-value"), ([None] * 50, "only-nulls")):
        with raises(id):
            perturb(pa.table({"x": column(cells, kind)}), gamma=9)


@pytest.mark.parametrize(("kind", "domain"), [(pa.string(), "low|high"), (pa.int64(), "0:120")], ids=str)
def test_the_domain_that_is_proposed_fits_a_column_of_nulls_alone(kind: pa.DataType, domain: str) -> None:
    """A column of a CSV without a value is read as text, which has no interval."""
    table = pa.table({"x": column([None] * 50, kind), "y": ["a", "b"] * 25})
    with raises("only-nulls") as error:
        perturb(table, gamma=9)
    assert f"'domain': '{domain}'" in error.value.next_step
    perturb(table, gamma=9, shuffle=True, attributes={"x": {"domain": domain, "nulls": True}})


def test_a_column_of_too_many_labels_is_refused() -> None:
    with raises("too-many-values") as error:
        perturb(pl.DataFrame({"x": [f"label {i}" for i in range(MOST_VALUES + 1)]}), gamma=9, rare="publish")
    assert "label" not in str(error.value)


@pytest.mark.parametrize(("distinct", "N"), [(2, 2), (3, 2), (4, 2), (9, 2), (10, 10), (11, 10)])
def test_numbers_with_at_most_n_values_are_categories_and_others_bins(distinct: int, N: int) -> None:
    values = np.random.default_rng(0).integers(0, distinct, 5_000)
    (attribute,) = perturb(pl.DataFrame({"x": values}), gamma=9, bins=N).sidecar.attributes
    assert attribute.type == ("discrete" if distinct <= N else "continuous") and attribute.N <= N


# -- rare values


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


TOWNS = mixed(["London"] * 500 + ["Paris"] * 50 + ["Canaryville"] * 9 + ["Canaryton"] * 3 + [None] * 20)


def test_a_refusal_counts_rare_categories_and_names_none() -> None:
    for cells in (TOWNS, mixed([1] * 50 + [2] * 50 + [777_777] * 9)):
        with raises("rare-categories", RefusedError) as error:
            perturb(pl.DataFrame({"town": cells}), gamma=9)
        said = str(error.value)
        assert "'town'" in said and "anary" not in said and "777" not in said
    ten = perturb(pl.DataFrame({"town": mixed(["a"] * 10 + ["b"] * 90)}), gamma=9)
    assert ten.sidecar.attributes[0].categories == ["a", "b"]


def test_merged_labels_are_published_nowhere() -> None:
    release = perturb(pl.DataFrame({"town": TOWNS}), gamma=KEEP_ALL, rare="merge", seed=1)
    assert release.sidecar.attributes[0].categories == [OTHER, "London", "Paris"]
    assert b"anary" not in release.sidecar.encode()
    expected = [OTHER if t is not None and t.startswith("Canary") else t for t in TOWNS]
    assert release.frame["town"].to_list() == expected
    every = perturb(pl.DataFrame({"town": TOWNS}), gamma=9, rare="publish").sidecar.attributes[0]
    assert every.categories == ["Canaryton", "Canaryville", "London", "Paris"] and every.domain_from == "data"


def test_merged_numbers_go_to_the_nearest_common_one() -> None:
    numbers = mixed([0] * 50 + [10] * 50 + [11] * 50 + [-7, 4, 5, 6, 12, 100] + [None] * 20)
    nearest = {-7: 0, 4: 0, 5: 0, 6: 10, 12: 11, 100: 11}
    cents = [None if n is None else Decimal(n).scaleb(-2) for n in numbers]
    for cells, common, power in ((numbers, [0, 10, 11], 0), (cents, ["0.00", "0.10", "0.11"], -2)):
        kind = pa.decimal128(5, 2) if power else pa.int64()
        made = perturb(pa.table({"n": pa.array(cells, kind)}), gamma=KEEP_ALL, rare="merge", seed=1)
        assert made.sidecar.attributes[0].categories == common
        expected = [None if n is None else Decimal(nearest.get(n, n)).scaleb(power) for n in numbers]
        assert made.frame["n"].to_list() == expected


def test_a_rare_value_with_nothing_to_merge_it_into_is_refused() -> None:
    truths = mixed([True] * 100 + [False] * 5 + [None] * 50)
    with raises("merged-to-one"):
        perturb(pl.DataFrame({"b": truths}, schema={"b": pl.Boolean}), gamma=9, rare="merge")
    facts = facts_of({"x": 50, "y": 60}, FEW - 1)
    with raises("rare-categories"):
        refuse_rare({"x": facts})
    with raises("few-nulls"):
        from_data("x", pa.string(), facts, 10, "center", "merge")
    assert from_data("x", pa.string(), facts, 10, "center", "publish").domain.nulls
    refuse_rare({"x": facts_of({"x": 50, "y": 60}, FEW)})


# -- identifiers


def admissions(rows: int = 400, **more: Any) -> pl.DataFrame:
    frame = table(rows, sex=["f", "m"], age=range(90))
    return frame.with_columns(pl.Series(n, mixed(v)) for n, v in more.items())


@pytest.mark.parametrize(
    "cells",
    [
        [f"P-{i:05}" for i in range(400)],
        [f"P-{i // 2:05}" for i in range(400)],
        [f"P-{i}" for i in range(250)] + ["none"] * 150,
    ],
    ids=["unique", "of two rows each", "mostly unique"],
)
@pytest.mark.parametrize("rare", ["refuse", "publish", "merge"])
@pytest.mark.parametrize("own", [{}, {"domain": "data"}, {"domain": "data", "other": True}], ids=str)
def test_an_identifier_is_refused_whatever_is_asked_of_rare_values(
    cells: list[str], rare: str, own: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"gamma": 9, "rare": rare, "attributes": {"patient": own} if own else {}}
    frame, pools = admissions(patient=cells), rare == "merge" or bool(own.get("other"))
    if pools and "none" in cells:
        assert perturb(frame, **asked).sidecar.by_name["patient"].categories == [OTHER, "none"]
        return
    with raises("rare-categories") as error:
        perturb(frame, shuffle=True, **asked)
    said = str(error.value)
    assert "drop=['patient']" in said and "P-" not in said
    assert not [danger for danger in ("rare=", "domain", "attributes", "keep", "shuffle") if danger in said]
    listed = {"patient": {"categories": sorted({*cells})}}
    assert perturb(frame, gamma=9, attributes=listed).sidecar.by_name["patient"].domain_from == "declared"


def test_all_identifiers_are_named_at_once_and_rare_categories_beside_them() -> None:
    unique = [f"x{i}" for i in range(400)]
    frame = admissions(patient=unique, mrn=unique[::-1], town=["A"] * 395 + ["B"] * 5)
    with raises("rare-categories") as error:
        perturb(frame, gamma=9)
    said = str(error.value)
    assert "drop=['patient', 'mrn']" in said and "'town' (1 of 2)" in said
    assert "rare='merge'" in said and "publish'" not in said
    one = perturb(frame.drop("patient", "mrn"), gamma=9, rare="publish")
    assert one.sidecar.by_name["town"].categories == ["A", "B"], "what few have is no identifier"


def test_numbers_that_identify_are_binned_and_labels_of_them_refused() -> None:
    frame = admissions(patient=list(range(1000, 1400))).cast({"patient": pl.Int64})
    assert perturb(frame, gamma=9).sidecar.by_name["patient"].type == "continuous"
    for asked in ({"class_": "patient"}, {"bins": 400}):
        with raises("rare-categories"):
            perturb(frame, gamma=9, rare="publish", **asked)


def test_a_persons_other_number_is_an_identifier_though_it_repeats() -> None:
    who = [f"p{i // 8}" for i in range(400)]
    frame = admissions().with_columns(who=pl.Series(who), mrn=pl.Series([w.replace("p", "m") for w in who]))
    with raises("rare-categories"):
        perturb(frame, gamma=9, rare="publish", person="who", rows_per_person=8, keep_order=True)


@pytest.mark.parametrize(
    "text", ["{0},{1}", "1.{0},{1}", "{0}.{1}", "{2:02}.03.20{1:02}", "{2}/{1}/24", "19{1:02}-0{3}-{2:02}"]
)
def test_text_of_numbers_or_dates_is_for_a_plan(text: str) -> None:
    cells = [text.format(100 + i % 97, i % 89 + 10, i % 28 + 1, i % 9 + 1) for i in range(400)]
    with raises("rare-categories") as error:
        perturb(admissions(cost=["unknown", *cells[1:]]), gamma=9, rare="publish")
    assert "ppdm plan FILE -o plan.toml" in str(error.value) and "drop" not in str(error.value)


@pytest.mark.parametrize("cell", ["00{}", "A{}", "{}-x", "{}.ab"])
def test_codes_are_not_taken_for_numbers(cell: str) -> None:
    with raises("rare-categories") as error:
        perturb(admissions(code=[cell.format(i) for i in range(400)]), gamma=9)
    assert "drop=['code']" in str(error.value)

"""Domains and column types: codes are what the edges and categories say, and back again.

The edges decide, to the last bit: encoding is compared with `numpy.searchsorted` on the edges
themselves, at the edges and next to them, over all types. Representatives lie in their bins, and
types, carriers and JSON are inverses of each other.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import dtypes
from ppdm_cli.domain import MOST_VALUES, Bins, Categories, Domain
from tests.strategies import (
    KINDS,
    NUMBER_KINDS,
    bins,
    carriers,
    categories,
    column,
    domains,
    kinds,
    members,
    representatives,
)

F64, F32 = pa.float64(), pa.float32()
UNIFORM = st.floats(0, 1, exclude_max=True)


def reference(domain: Bins, values: np.ndarray, clip: bool) -> tuple[np.ndarray, np.ndarray]:
    """Codes and what is outside, by the definition: edge <= value < next, the last bin closed."""
    edges = domain.edges
    codes = np.searchsorted(edges, values, side="right") - 1
    codes[values == edges[-1]] = domain.ordinary - 1
    outside = (values < edges[0]) | (values > edges[-1])
    if clip:
        codes = codes.clip(0, domain.ordinary - 1)
        outside = np.isinf(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    return codes, outside


def assert_encodes(domain: Bins, values: Any, clip: bool = False) -> None:
    values = np.asarray(values, domain.edges.dtype)
    found = domain.encode(dtypes.from_carrier(values, domain.kind), clip)
    codes, outside = reference(domain, values, clip)
    assert found.outside.tolist() == np.flatnonzero(outside).tolist()
    assert found.codes[~outside].tolist() == codes[~outside].tolist()


def neighbours(edges: np.ndarray) -> np.ndarray:
    """The edges, and what is next to them on either side."""
    if edges.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
    info = np.iinfo(edges.dtype)
    below = [int(e) + d for e in edges for d in (-1, 0, 1)]
    return np.array([v for v in below if info.min <= v <= info.max], edges.dtype)


@given(st.data(), domains())
def test_decoding_and_encoding_again_gives_the_code(data: st.DataObject, domain: Domain) -> None:
    codes = np.array(data.draw(st.lists(st.integers(0, domain.size - 1), max_size=30)), np.uint8)
    within = np.array(data.draw(st.lists(UNIFORM, min_size=len(codes), max_size=len(codes))))
    array = domain.decode(codes, within)
    array.validate(full=True)
    assert array.type == domain.kind
    assert array.null_count == (codes == domain.null_code).sum() * domain.nulls
    again = domain.encode(array)
    assert again.outside.size == 0
    assert again.codes.tolist() == codes.tolist()
    assert len(domain.labels()) == domain.size


@given(st.data(), categories())
def test_categories_keep_their_values(data: st.DataObject, domain: Categories) -> None:
    cells = data.draw(members(domain))
    array = column(cells, domain.kind)
    assert domain.decode(domain.encode(array).codes).equals(array)
    stranger = data.draw(carriers(domain.kind))
    found = domain.encode(column([stranger], domain.kind))
    assert (found.outside.size == 0) == (stranger in domain.values)
    clipped = domain.encode(column([stranger], domain.kind), clip=True)
    if stranger in domain.values:
        assert (clipped.codes.tolist(), clipped.outside.size) == ([domain.values.index(stranger)], 0)
    elif not dtypes.is_discrete(domain.kind):
        assert clipped.outside.size == 0
        # to the nearest number, the lower of two as near; floats measure that to within a rounding
        away = [abs(Fraction(v) - Fraction(stranger)) for v in domain.values]
        chosen = int(clipped.codes[0])
        if dtypes.is_whole(domain.kind):
            assert chosen == away.index(min(away))
        assert away[chosen] <= min(away) * (1 + Fraction(1, 2**50)) + Fraction(1e-322)
    elif domain.nulls:
        assert (clipped.codes.tolist(), clipped.outside.size) == ([domain.null_code], 0)
    else:
        assert clipped.outside.tolist() == [0]


@given(st.data(), bins(), st.booleans())
def test_the_edges_decide(data: st.DataObject, domain: Bins, clip: bool) -> None:
    drawn = data.draw(st.lists(carriers(domain.kind), max_size=20))
    values = np.concatenate([neighbours(domain.edges), np.array(drawn, domain.edges.dtype)])
    values = values[np.isfinite(values)]
    assert_encodes(domain, values, clip)
    inside = values[(values >= domain.edges[0]) & (values <= domain.edges[-1])]
    assert_encodes(domain, inside, clip)
    for stranger in values[(values < domain.edges[0]) | (values > domain.edges[-1])]:
        assert_encodes(domain, np.append(inside, stranger), clip)


EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tenths": (F64, [i / 10 for i in range(11)]),
    "thirds": (F64, [i / 3 for i in range(301)]),
    "a last edge that arithmetic reaches too late": (
        F64,
        [-754.6057912599312, 7690.9314709584, 16136.4687331768],
    ),
    "256 bins": (F64, np.linspace(-1, 1, 257).tolist()),
    "65536 bins": (F64, np.linspace(0, 0.1, 65_537).tolist()),
    "around 1e15, width 1": (F64, [1e15 + i for i in range(51)]),
    "around 1e15, width 1/8": (F64, [1e15 + i / 8 for i in range(51)]),
    "around -1e9, width 1e-3": (F64, [-1e9 + i * 1e-3 for i in range(100)]),
    "width 1e-300": (F64, [i * 1e-300 for i in range(11)]),
    "subnormal": (F64, [i * 5e-324 for i in range(11)]),
    "uneven": (F64, [0, 1e-9, 1, 2, 1e6, 1e300]),
    "almost even": (F64, [0, 1, 2, 3 + 1e-13, 4, 5]),
    "off by little": (F64, [0, 1, 2, 3 + 1e-7, 4, 5]),
    "float32 tenths": (F32, [float(np.float32(i / 10)) for i in range(11)]),
    "float32 around 1e7": (F32, [1e7 + i for i in range(21)]),
    "int8": (pa.int8(), [-128, -127, 0, 100, 127]),
    "int8, wide bins": (pa.int8(), [-128, 100, 127]),
    "uint8": (pa.uint8(), [0, 1, 128, 255]),
    "int64": (pa.int64(), [-(2**63), -(2**62), 0, 1, 2**63 - 1]),
    "int64, wide bins": (pa.int64(), [-(2**63), 2**62, 2**63 - 1]),
    "int64, even": (pa.int64(), [-(2**63) + i * (2**64 // 10) for i in range(10)] + [2**63 - 1]),
    "int64, far and narrow": (pa.int64(), [2**62 + i for i in range(20)]),
    "int64, far and even": (pa.int64(), [2**62 + i * 10**7 for i in range(20)]),
    "uint64": (pa.uint64(), [0, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]),
    "uint64, even": (pa.uint64(), [i * (2**64 // 10) for i in range(10)] + [2**64 - 1]),
    "microseconds": (pa.timestamp("us"), [1_600_000_000_000_000 + i * 86_400_000_000 for i in range(30)]),
    "decimals": (pa.decimal128(18, 4), [-(10**17), -1, 0, 1, 10**17]),
}
HUGE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "all floats": (F64, [-np.finfo(np.float64).max, -1.0, 0.0, 1.0, np.finfo(np.float64).max]),
    "1e308": (F64, [-1.5e308, 0.0, 1.5e308]),
    "all float32": (F32, [-float(np.finfo(np.float32).max), 0.0, float(np.finfo(np.float32).max)]),
}


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", [*EDGES, *HUGE])
def test_the_edges_decide_at_the_extremes(name: str, clip: bool) -> None:
    kind, edges = (EDGES | HUGE)[name]
    domain = Bins(kind, edges, False)
    near = neighbours(domain.edges)
    near = near[np.isfinite(near)]
    rng = np.random.default_rng(0)
    inside = near[(near >= domain.edges[0]) & (near <= domain.edges[-1])]
    many = rng.choice(inside, 70_000)  # more than one block
    strangers = near[(near < domain.edges[0]) | (near > domain.edges[-1])]
    for values in (near, inside, many, inside[:0], domain.edges[-1:], *(np.append(many, s) for s in strangers)):
        assert_encodes(domain, values, clip)


@pytest.mark.parametrize("representative", ["center", "left", "right", "random"])
@pytest.mark.parametrize("name", [*EDGES, *HUGE])
def test_representatives_lie_in_their_bins(name: str, representative: Any) -> None:
    kind, edges = (EDGES | HUGE)[name]
    domain = Bins(kind, edges, False, representative)
    codes = np.repeat(np.arange(domain.size), 5).astype(np.uint16)
    within = np.tile([0.0, 0.25, 0.5, 0.999, 1 - 2**-53], domain.size)
    values = dtypes.carrier(domain.decode(codes, within))
    assert reference(domain, values, False)[0].tolist() == codes.tolist()
    a, b = domain.edges[:-1], domain.edges[1:]
    whole = dtypes.is_whole(kind)
    if representative == "left":
        assert (values[::5] == a).all()
    if representative == "right":
        last = [int(e) - 1 for e in b[:-1]] if whole else np.nextafter(b[:-1], -np.inf).tolist()
        assert values[::5].tolist() == [*last, b[-1].item()]
    if representative == "center":
        for value, left, right in zip(values[::5].tolist(), a.tolist(), b.tolist(), strict=True):
            # the floor of the middle of whole steps, or the float next to the middle
            off = Fraction(value) - (Fraction(left) + Fraction(right)) / 2
            ulp = 0 if whole else Fraction(float(np.finfo(b.dtype).eps)) * Fraction(max(abs(left), abs(right)))
            assert abs(off) <= max(ulp, Fraction(5e-324), int(whole))


def test_random_representatives_spread_evenly_over_their_bin() -> None:
    within = (np.arange(1000) + 0.5) / 1000
    whole = Bins(pa.int16(), [0, 10, 13], False, "random")
    values = dtypes.carrier(whole.decode(np.ones(1000, np.uint8), within))
    # the last bin is closed: 10, 11, 12 and 13
    assert np.bincount(values)[10:].tolist() == [250] * 4
    real = Bins(F64, [0, 10, 14], False, "random")
    np.testing.assert_allclose(real.decode(np.ones(1000, np.uint8), within), 10 + 4 * within)


@given(st.data(), domains(F64), st.booleans())
def test_nan_is_null_and_infinities_are_outside(data: st.DataObject, domain: Domain, clip: bool) -> None:
    inside = [v for v in data.draw(members(domain, 10)) if v is not None]
    odd = [None, math.nan, math.inf, -math.inf]
    found = domain.encode(pa.array([*inside, *odd], F64), clip)
    n = len(inside)
    assert found.codes[:n].tolist() == domain.encode(pa.array(inside, F64)).codes.tolist()
    if domain.nulls:
        assert found.codes[n : n + 2].tolist() == [domain.null_code] * 2
        assert found.outside.tolist() == [n + 2, n + 3]
    else:
        assert found.outside.tolist() == [n, n + 1, n + 2, n + 3]


@given(st.data(), domains(), st.integers(0, 9), st.integers(0, 9))
def test_a_slice_is_encoded_as_its_own_rows(
    data: st.DataObject, domain: Domain, before: int, after: int
) -> None:
    cells = data.draw(members(domain))
    rest = data.draw(
        st.lists(st.none() | carriers(domain.kind), min_size=before + after, max_size=before + after)
    )
    whole = column([*rest[:before], *cells, *rest[before:]], domain.kind)
    part, alone = whole.slice(before, len(cells)), column(cells, domain.kind)
    assert domain.encode(part).codes.tolist() == domain.encode(alone).codes.tolist()
    assert domain.encode(part).outside.tolist() == []


@given(st.data(), kinds.flatmap(domains))
def test_dictionary_columns_are_their_values(data: st.DataObject, domain: Domain) -> None:
    cells = data.draw(members(domain))
    plain = column(cells, domain.kind)
    coded = pc.dictionary_encode(pa.concat_arrays([plain, plain])).slice(len(plain))
    assert domain.encode(coded).codes.tolist() == domain.encode(plain).codes.tolist()
    assert domain.encode(coded).outside.size == 0


def test_a_null_in_a_dictionary_is_a_null() -> None:
    for last in (0, None):
        indices = pa.array([0, 1, 2, last], pa.int8())
        coded = pa.DictionaryArray.from_arrays(indices, pa.array(["a", None, "b"]))
        found = Categories(pa.string(), ["a", "b"], True).encode(coded)
        assert found.outside.size == 0
        assert found.codes.tolist() == [0, 2, 1, 0 if last == 0 else 2]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_empty_column_has_no_codes(kind: pa.DataType) -> None:
    values = [False, True] if kind == pa.bool_() else ["a", "b"] if kind == pa.string() else [0, 1]
    listed: list[Domain] = [Categories(kind, values, True)]
    if not dtypes.is_discrete(kind):
        listed.append(Bins(kind, values, False))
    for domain in listed:
        found = domain.encode(pa.array([], kind))
        assert (len(found.codes), found.outside.size) == (0, 0)
        assert domain.decode(found.codes, np.empty(0)).equals(pa.array([], kind))
    nulls = listed[0].encode(pa.nulls(5, kind))
    assert nulls.codes.tolist() == [2] * 5


@given(st.data(), kinds, representatives)
def test_impossible_domains_are_refused(data: st.DataObject, kind: pa.DataType, representative: Any) -> None:
    values = sorted(set(data.draw(st.lists(carriers(kind), min_size=2, max_size=5, unique=True))))
    for wrong in ([], values[::-1] if len(values) > 1 else [], [values[0], *values]):
        with pytest.raises(ValueError, match=r"categories|domain"):
            Categories(kind, wrong, True)
    if dtypes.is_discrete(kind):
        return
    for wrong in ([], values[:1], values[::-1], [values[0], *values]):
        with pytest.raises(ValueError, match="bins"):
            Bins(kind, wrong, False, representative)


def test_a_domain_has_at_most_65536_values() -> None:
    many = list(range(MOST_VALUES + 1))
    assert Categories(pa.int32(), many[:-1], True).size == MOST_VALUES + 1
    assert Bins(pa.int32(), many, False).size == MOST_VALUES
    with pytest.raises(ValueError, match="domain"):
        Categories(pa.int32(), many, False)
    with pytest.raises(ValueError, match="bins"):
        Bins(pa.int32(), [*many, MOST_VALUES + 1], False)


@pytest.mark.parametrize("kind", NUMBER_KINDS, ids=str)
def test_many_nulls_hide_no_value(kind: pa.DataType) -> None:
    cells = [None if i % 3 else i % 2 for i in range(100)]
    expected = [2 if c is None else c for c in cells]
    assert Categories(kind, [0, 1], True).encode(column(cells, kind)).codes.tolist() == expected
    found = Bins(kind, [1, 2, 3], True).encode(column([None, 1, None, 3, 2], kind))
    assert found.codes.tolist() == [2, 0, 2, 1, 1]

"""Hypothesis strategies that the property tests share: types, domains, columns, tables, sidecars.

Every value is drawn as its carrier (`ppdm_cli.dtypes`), over the whole range that the type's text
form can write. What is drawn here is valid; a test that needs something broken breaks it itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli.channels import Request, Spec
from ppdm_cli.channels.additive import AdditiveSpec, Noise, Sd
from ppdm_cli.channels.base import json_gamma
from ppdm_cli.channels.gamma_diagonal import GammaDiagonalSpec
from ppdm_cli.domain import Bins, Categories, Domain, Representative
from ppdm_cli.errors import PpdmError
from ppdm_cli.perturbing.plan import AttributePlan, Plan
from ppdm_cli.perturbing.resolving import ResolvedPlan, chosen, described, privacy
from ppdm_cli.sidecar import TOOL, Attribute, Recipe, Sidecar

WHOLE_KINDS: list[pa.DataType] = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.date32(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("us", zone) for zone in ("UTC", "Europe/Berlin", "+02:00")),
    *(pa.decimal128(p, s) for p, s in ((1, 0), (5, 2), (10, 10), (18, 4))),
]
NUMBER_KINDS: list[pa.DataType] = [*WHOLE_KINDS, pa.float32(), pa.float64()]
KINDS: list[pa.DataType] = [*NUMBER_KINDS, pa.string(), pa.bool_()]

Made = tuple[Attribute, Spec | None]
"""An attribute, and its channel where it is perturbed."""

kinds = st.sampled_from(KINDS)
number_kinds = st.sampled_from(NUMBER_KINDS)
representatives = st.sampled_from(get_args(Representative))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
gammas = st.decimals(Decimal("1.001"), Decimal("999"), places=3, allow_nan=False)


def carriers(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """One value of the type: a carrier number, a text or a truth."""
    if pa.types.is_string(kind):
        return texts
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_floating(kind):
        return st.floats(width=8 * dtypes.carrier_type(kind).itemsize, allow_nan=False, allow_infinity=False)
    low, high = dtypes.limits(kind)
    near = st.integers(max(low, -60), min(high, 60))  # neighbours are worth meeting
    return st.one_of(near, st.integers(low, high), st.sampled_from([low, high]))


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of carriers, None for null."""
    if dtypes.is_discrete(kind):
        return pa.array(values, kind)
    valid = np.array([v is not None for v in values], bool)
    filled = np.array([0 if v is None else v for v in values], dtypes.carrier_type(kind))
    buffers = dtypes.from_carrier(filled, kind).buffers()
    mask = None if valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [mask, *buffers[1:]])


@st.composite
def categories(draw: st.DrawFn, kind: pa.DataType | None = None, smallest: int = 1) -> Categories:
    """A domain of single values with at least `smallest` codes."""
    kind = draw(kinds) if kind is None else kind
    nulls = draw(st.booleans())
    least = 2 if kind == pa.bool_() else max(1, smallest - nulls)
    values = draw(st.lists(carriers(kind), min_size=least, max_size=20, unique=True))
    return Categories(kind, sorted(set(values)), nulls)


@st.composite
def bins(draw: st.DrawFn, kind: pa.DataType | None = None, smallest: int = 1) -> Bins:
    """A domain of intervals: uneven ones, or even ones as `--domain` makes them."""
    kind = draw(number_kinds) if kind is None else kind
    nulls = draw(st.booleans())
    least = 1 + max(1, smallest - nulls)
    carrier = dtypes.carrier_type(kind)
    edges = sorted(draw(st.lists(carriers(kind), min_size=least, max_size=20, unique=True)))
    if draw(st.booleans()):
        count = draw(st.integers(least, 20))
        with np.errstate(over="ignore", invalid="ignore"):
            even = np.linspace(float(edges[0]), float(edges[-1]), count)
        fits = np.isfinite(even).all() and even[0] >= edges[0] and even[-1] <= edges[-1]
        rounded = sorted({carrier.type(e).item() for e in even[1:-1]} | {edges[0], edges[-1]}) if fits else []
        edges = rounded if len(rounded) >= least else edges
    return Bins(kind, edges, nulls, draw(representatives))


def domains(kind: pa.DataType | None = None, smallest: int = 1) -> st.SearchStrategy[Domain]:
    """Any domain, of one type or of all."""
    if kind is not None and dtypes.is_discrete(kind):
        return categories(kind, smallest)
    return st.one_of(categories(kind, smallest), bins(kind, smallest))


@st.composite
def members(draw: st.DrawFn, domain: Domain, most: int = 40) -> list[Any]:
    """Carriers inside a domain, None where it has nulls; edges and their neighbours among them."""
    if isinstance(domain, Categories):
        inside: st.SearchStrategy[Any] = st.sampled_from(domain.values)
    else:
        assert isinstance(domain, Bins)
        edges = domain.edges
        near = edges
        if edges.dtype.kind == "f":
            near = np.concatenate([edges, np.nextafter(edges, edges[0]), np.nextafter(edges, edges[-1])])
        else:
            near = np.concatenate([edges, edges[1:] - 1, edges[:-1] + 1])
        near = np.unique(near[(near >= edges[0]) & (near <= edges[-1])])
        inside = st.one_of(
            st.sampled_from(near.tolist()),
            carriers(domain.kind).filter(lambda v: edges[0] <= v <= edges[-1])
            if edges.dtype.kind == "f"
            else st.integers(int(edges[0]), int(edges[-1])),
        )
    return draw(st.lists(st.one_of(inside, st.none()) if domain.nulls else inside, max_size=most))


@st.composite
def attributes(draw: st.DrawFn, name: str | None = None, noise: Noise | None = None) -> Made:
    """One attribute of a sidecar, perturbed (with that noise, where it is given) or kept."""
    name = draw(names) if name is None else name
    if draw(st.integers(0, 3)) == 0:
        kind = draw(kinds)
        form = "discrete" if dtypes.is_discrete(kind) else "continuous"
        return Attribute(name=name, role="kept", type=form, dtype=str(kind)), None
    if noise is not None:
        return _noisy(draw, name, noise)
    domain = draw(domains(smallest=2))
    wish = AttributePlan(options={"half_width": draw(st.integers(1, 3))} if draw(st.booleans()) else {})
    try:
        spec, beyond = chosen(name, domain, draw(gammas).normalize(), wish, Plan())
    except PpdmError:  # no order, too few values, or nothing beyond them
        spec, beyond = GammaDiagonalSpec(attributes=[name], gamma=json_gamma(draw(gammas).normalize())), UNSET
    return described(name, domain, draw(st.sampled_from(["declared", "data"])), beyond), spec


def _noisy(draw: st.DrawFn, name: str, noise: Noise) -> Made:
    kind = draw(st.sampled_from([k for k in NUMBER_KINDS if pa.types.is_integer(k) or pa.types.is_floating(k)]))
    domain = draw(domains(kind, smallest=3))
    plain: Domain = Bins(pa.float64(), [0.0, 1.0, 2.0], False)
    if isinstance(domain, Bins):
        plain = Bins(kind, domain.edges.tolist(), False)
    elif isinstance(domain, Categories):
        plain = Categories(kind, domain.values, False)
    asked = Request(None, {"noise": noise, "sd": Sd(draw(st.floats(0.01, 10)), True)})
    try:
        spec, beyond = AdditiveSpec.asked(name, plain, asked)
    except PpdmError:  # too few values, too far from zero, or too near the type's limits
        plain = Bins(pa.float64(), [0.0, 1.0, 2.0], False)
        spec, beyond = AdditiveSpec.asked(name, plain, asked)
    return described(name, plain, draw(st.sampled_from(["declared", "data"])), beyond), spec


@st.composite
def sidecars(draw: st.DrawFn) -> Sidecar:
    """A whole sidecar of a perturbed release."""
    listed = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    noise = draw(st.sampled_from([None, None, *get_args(Noise)]))
    made = [draw(attributes(name, noise)) for name in listed]
    all_attributes, specs = [a for a, _ in made], [s for _, s in made if s is not None]
    plan = ResolvedPlan(all_attributes, [Recipe([*specs])], None, [])
    optional: dict[str, Any] = {}
    if draw(st.booleans()):
        optional["class_"] = draw(st.sampled_from(listed))
    if draw(st.booleans()):
        optional["blake2b"] = draw(st.binary(min_size=32, max_size=32)).hex()
    coins = draw(st.sampled_from(["system", "seeded", "key-file"]))
    return Sidecar(
        format="ppdm-sidecar",
        version=1,
        tool=TOOL,
        stage="perturbed",
        release=str(draw(st.uuids())),
        records=draw(st.none() | st.integers(0, 2**53)),
        attributes=all_attributes,
        recipes=[Recipe(list(specs))] if specs else [],
        privacy=privacy(plan, coins, also={"key": "5e" * 8, "id": "who"} if coins == "key-file" else None),
        **optional,
    )


@st.composite
def tables(draw: st.DrawFn, most_rows: int = 30) -> pa.Table:
    """A small table of any of the types, nulls included."""
    listed = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    rows = draw(st.integers(0, most_rows))
    columns = []
    for _ in listed:
        kind = draw(kinds)
        cells = draw(st.lists(st.none() | carriers(kind), min_size=rows, max_size=rows))
        columns.append(column(cells, kind))
    return pa.table(columns, names=listed)

"""Kinds of channel and channels in use, for every kind's own file and for all users of channels.

A kind has a *spec* (its name and parameters, as a sidecar says them) and a *matrix* (the law as numbers). The
spec class registers itself; the sidecar, the owner's options and the documents find it in `KINDS`. Nothing
outside this package asks which kind a channel is. A `Channel` is a spec in use: with its matrix and its
attributes' domains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Codes, code_type
from ppdm_cli.channels.exact_draw import checked_gamma
from ppdm_cli.channels.matrix import Matrix, Noisy, Substitution
from ppdm_cli.coins import CELLS, Coins, uniform_cells
from ppdm_cli.domain import MOST_VALUES, Domain, Product
from ppdm_cli.errors import RefusedError, unknown

MOST_TOGETHER = 16
Name = Annotated[str, Meta(min_length=1, max_length=1 << 12)]
Scalar = int | float | bool | Annotated[str, Meta(max_length=1 << 14)]
DEFAULT_KIND = "gamma-diagonal"
"""The kind of channel that an attribute has by default."""
SUBSTITUTION = "substitution"
"""The scheme in which each attribute has a kind of its own."""


@dataclass(frozen=True)
class Request:
    """An owner's settings for the channel of one attribute; a float gamma was derived, and is rounded down."""

    gamma: Decimal | float | None
    options: Mapping[str, Any] = field(default_factory=dict)
    """The settings that belong to the kind alone, such as a half-width."""


class Recorded:
    """The type of a sidecar's channels: a spec of some registered kind, as msgspec knows it by a name."""

    __slots__ = ()


_OPEN = "every kind must answer this: `register_kind` refuses one that doesn't"


class Spec(Recorded, msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", kw_only=True):
    """The record of a channel in a sidecar: its attributes, kind and parameters."""

    kind: ClassVar[str]
    about: ClassVar[str]
    """The effect of the kind, in a sentence for help and documents."""
    options: ClassVar[Mapping[str, Callable[[object], object]]] = {}
    """The settings that an owner may give one attribute, each with its reader."""
    shared_options: ClassVar[Mapping[str, Callable[[object], object]]] = {}
    """The settings that an owner may give all attributes together."""
    everywhere: ClassVar[bool] = False
    """True if all perturbed attributes of a release have this kind, or none: then it is a scheme."""
    takes_gamma: ClassVar[bool] = True
    """True if an owner asks for it with a gamma."""
    by_name: ClassVar[bool] = True
    """True if an owner asks for it by its name; else it follows from other settings."""
    no_nulls: ClassVar[str] = ""
    """The next step if a column without nulls turns out to have some; empty if it may have them."""

    attributes: Annotated[list[Name], Meta(min_length=1, max_length=MOST_TOGETHER)]

    # -- the law

    def matrix(self, domain: Domain) -> Matrix:
        """Return the law as numbers, for the codes of a domain."""
        raise NotImplementedError(_OPEN)

    def law(self, domain: Domain) -> Matrix:
        """Return the matrix for a domain, which is built once for equal channels of that domain."""
        made: dict[str, Matrix] = vars(domain).setdefault("_laws", {})
        if (key := repr(self.decides)) not in made:
            made[key] = self.matrix(domain)
        return made[key]

    def published(self, domain: Domain, matrix: Matrix, beyond: Beyond | UnsetType) -> Domain:
        """Return the domain of the published values; ValueError if `beyond` does not fit."""
        if beyond is not UNSET:
            raise ValueError("no channel publishes anything beyond its domain")
        return domain

    @property
    def reach(self) -> list[int] | None:
        """Return the bins past its domain that each attribute is published in; None if `published` says."""
        return None

    def of_some(self, places: Sequence[int]) -> Spec:
        """Return the same channel of some of its attributes."""
        return msgspec.structs.replace(self, attributes=[self.attributes[p] for p in places])

    @property
    def decides(self) -> dict[str, object]:
        """Return all but cell and domain that an answer depends on: another law has other random numbers."""
        fields = {n: getattr(self, n) for n in self.__struct_fields__ if n != "attributes"}
        return {"kind": self.kind, **fields}

    def publish(
        self, channel: Channel, codes: Codes, values: pa.Array, addresses: Addresses, keys: Mapping[str, bytes]
    ) -> pa.Array:
        """Return the column that is published for values and their codes, by a key for each purpose."""
        out, published = channel.drawn(codes, Coins(keys["perturb"]), addresses), channel.published
        within = None
        if any(p.is_random for p in published.parts):
            coins, parts = Coins(keys["representative"]), len(published.parts)
            numbers = [uniform_cells(coins, addresses, out, part) for part in range(parts)]
            within = np.stack(numbers, axis=1) if parts > 1 else numbers[0]
        return published.column(out, within)

    def goes_with(self, other: Spec) -> bool:
        """Return whether a release may have both channels."""
        return type(self) is type(other) or not (self.everywhere or other.everywhere)

    # -- sentences for people

    def described(self) -> str:
        """Return the law in a few words."""
        raise NotImplementedError(_OPEN)

    def short(self) -> str:
        return self.kind

    def figures(self, matrix: Matrix, domain: Domain) -> dict[str, Any]:
        """Return the figures that only this kind has, by the names of `FIGURES`."""
        return {}

    @classmethod
    def warnings(cls, channels: Sequence[Channel]) -> list[str]:
        return []

    @classmethod
    def remarks(cls, channels: Sequence[Channel]) -> list[str]:
        return []

    @classmethod
    def missed(cls, channels: Sequence[Channel]) -> list[str]:
        """Return the report sentence for attributes that couldn't get this kind of channel."""
        return []

    # -- what an owner asks

    @classmethod
    def check(cls, name: str, kind: pa.DataType, request: Request) -> None:
        """Raise an error if a column of this type cannot have these settings, before any data is read."""

    @classmethod
    def suits(cls, domain: Domain, ordered: bool) -> bool:
        """Return whether the kind, asked for all attributes, is for this one."""
        return True

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        """Return the requested channel, checked, and the values that it publishes beyond the domain."""
        raise NotImplementedError(_OPEN)

    @classmethod
    def best_bins(cls, gamma: float, size: float) -> float:
        """Return the number of bins that is best for a miner; `size` is in 100,000 records."""
        return 10 * ((gamma - 1) / 4) ** 0.2 * size**0.15


class GammaSpec(Spec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A spec with a gamma: exactly, as a number of at most six significant digits."""

    gamma: int | float

    def __post_init__(self) -> None:
        checked_gamma(self.exact)

    @property
    def exact(self) -> Decimal:
        """Return the decimal that the JSON number stands for (six digits survive a float)."""
        return Decimal(repr(self.gamma))


def json_gamma(gamma: Decimal) -> int | float:
    """Return the JSON number of an exact gamma: its shortest decimal."""
    return int(gamma) if gamma == gamma.to_integral_value() else float(gamma)


@dataclass(frozen=True, eq=False)
class Channel:
    """One axis: its original and published codes, of several attributes those of their product."""

    name: str
    domain: Domain
    published: Domain
    spec: Spec | None = None
    law: Matrix | None = None
    attributes: tuple[str, ...] = ()
    """The attributes, which by default are the one that `name` is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", self.attributes or (self.name,))

    def each(self) -> Iterator[tuple[str, Domain]]:
        yield from zip(self.attributes, self.domain.parts, strict=True)

    def published_domain(self, attribute: str) -> Domain:
        """Return the domain of what is published in an attribute's column."""
        return self.published.parts[self.attributes.index(attribute)]

    def column(self, of: Callable[[str], pa.Array]) -> pa.Array:
        """Return the column to encode: its attribute's, or a struct of several."""
        columns = [of(n) for n in self.attributes]
        if len(columns) == 1:
            return columns[0]
        return pa.StructArray.from_arrays(columns, [str(i) for i in range(len(columns))])

    def marginal(self, names: Sequence[str]) -> Channel | None:
        """Return the axis of some of its attributes, None where these have no law of their own.

        They have one if the probabilities of their published values depend on their own values alone.
        """
        places = [i for i, n in enumerate(self.attributes) if n in names]
        if len(places) == len(self.attributes):
            return self
        law = self.matrix.marginal(places, self.domain.sizes, self.published.sizes)
        if law is None:
            return None
        own, published = ([d.parts[p] for p in places] for d in (self.domain, self.published))
        if len(places) == 1:
            return Channel(names[0], own[0], published[0], None, law)
        several = tuple(self.attributes[p] for p in places)
        return Channel(" x ".join(several), Product(own), Product(published), None, law, several)

    @property
    def kept(self) -> bool:
        return self.law is None

    @property
    def matrix(self) -> Matrix:
        """Return the law of a perturbed channel."""
        assert self.law is not None, "a kept attribute has no matrix"
        return self.law

    @property
    def kind(self) -> pa.DataType:
        return self.domain.kind

    @property
    def noise(self) -> Noisy | None:
        """Return the law of a channel that publishes numbers."""
        return self.law if isinstance(self.law, Noisy) else None

    @property
    def again(self) -> Substitution | None:
        """Return the law, if published values can go through it again."""
        same = self.published.size == self.domain.size
        return self.law if isinstance(self.law, Substitution) and same else None

    @property
    def no_nulls(self) -> str:
        assert self.spec is not None
        return self.spec.no_nulls

    def publish(
        self, codes: Codes, values: pa.Array, addresses: Addresses, keys: Mapping[str, bytes]
    ) -> pa.Array:
        assert self.spec is not None
        return self.spec.publish(self, codes, values, addresses, keys)

    def drawn(self, codes: Codes, coins: Coins, addresses: Addresses) -> Codes:
        """Return published codes for codes, exactly drawn from the law."""
        assert isinstance(self.law, Substitution)
        out = np.empty(len(codes), code_type(self.law.outputs))
        substitute(self.law, coins, addresses, codes, out)
        return out

    @cached_property
    def figures(self) -> dict[str, Any]:
        return {} if self.spec is None else self.spec.figures(self.matrix, self.domain)


KINDS: dict[str, type[Spec]] = {}
FIGURES = ("half_width", "noise", "sd", "interval", "interval_share", "neighbourhood")
Kind = TypeVar("Kind", bound=type[Spec])


def register_kind(kind: Kind) -> Kind:
    """Make a kind known by its tag, if it answers all that `Spec` leaves open."""
    own = {name for base in kind.__mro__[: kind.__mro__.index(Spec)] for name in vars(base)}
    if missing := {"matrix", "described", "asked"} - own:
        raise TypeError(f"{kind.__name__} lacks {', '.join(sorted(missing))}")
    kind.kind = str(kind.__struct_config__.tag)
    KINDS[kind.kind] = kind
    return kind


def substitute(matrix: Substitution, coins: Coins, addresses: Addresses, codes: Codes, out: Codes) -> None:
    """Perturb codes by a matrix: the random numbers of a cell follow from its address and its true code."""
    for start in range(0, len(codes), CELLS):
        part = slice(start, start + CELLS)
        here, true = addresses[part], codes[part]

        def blocks(
            retry: int, rows: np.ndarray | None = None, here: Addresses = here, true: Codes = true
        ) -> np.ndarray:
            if rows is None:
                return coins.words(here, true, retry)
            return coins.words(here[rows], true[rows], retry)

        matrix.sample(true, blocks, out[part])


def schemes() -> list[str]:
    """Return the values of --scheme: substitution, and kinds that all attributes have or none."""
    return [SUBSTITUTION, *(k for k, spec in KINDS.items() if spec.everywhere)]


def kind_names() -> list[str]:
    """Return the values of --matrix, the default first."""
    others = sorted(k for k, s in KINDS.items() if s.by_name and not s.everywhere and k != DEFAULT_KIND)
    return [DEFAULT_KIND, *others]


def checked_kind(matrix: str) -> str:
    if matrix not in kind_names():
        raise unknown("kind of matrix", matrix, kind_names())
    return matrix


# -- what is published beyond a domain


class Beyond(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The values published beyond the domain: as many edges (or numbers) more on either side.

    `dtype` is the type of the published column, which is wider where the attribute's own has no room.
    """

    dtype: Annotated[str, Meta(max_length=128)]
    below: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]
    above: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]


BeyondValues = tuple[pa.DataType, list[Any], list[Any]]


def beyond_values(domain: Domain, beyond: Beyond) -> BeyondValues:
    """Return the type of the published values, and those below and above the domain; ValueError if wrong."""
    kind = dtypes.parse(beyond.dtype)
    below, above = ([dtypes.from_json(e, kind) for e in side] for side in (beyond.below, beyond.above))
    if not below or len(below) != len(above):
        raise ValueError("as much is published below the domain as above it")
    if dtypes.is_discrete(domain.kind) or dtypes.holding(domain.kind, below[0], above[-1]) != kind:
        raise ValueError(f"a column of type {domain.kind} is published in another type than {beyond.dtype}")
    domain.extended(kind, below, above)
    return kind, below, above


def within(domain: Domain, beyond: BeyondValues | Beyond | UnsetType, count: int) -> Domain:
    """Return a domain with so many of the values beyond it on either side; ValueError if there are fewer."""
    if beyond is UNSET:
        if count:
            raise ValueError("a half-width above 0 needs 'beyond'")
        return domain
    kind, below, above = beyond_values(domain, beyond) if isinstance(beyond, Beyond) else beyond
    if count > len(below):
        raise ValueError("less is published beyond the domain than a half-width says")
    return domain.extended(kind, below[len(below) - count :], above[:count])


def continued(domain: Domain, count: int) -> Beyond:
    """Return as many values more on either side, by the first and the last step of the domain."""
    try:
        ends = _continued(domain.marks, count, dtypes.is_whole(domain.kind))
        kind = dtypes.holding(domain.kind, ends[0][0], ends[1][-1])
        if kind is None:
            raise ValueError
        carrier = dtypes.carrier_type(kind).type
        below, above = ([carrier(v).item() for v in side] for side in ends)
        domain.extended(kind, below, above)
    except (ValueError, OverflowError):
        what = f"a band publishes values beyond the domain, and the type {domain.kind} has none"
        raise RefusedError("nothing-beyond", what, "use matrix=gamma-diagonal for it") from None
    return Beyond(str(kind), *([dtypes.to_json(v, kind) for v in side] for side in (below, above)))


def _continued(numbers: list[Any], count: int, whole: bool) -> tuple[list[Any], list[Any]]:
    """Return the numbers before and after a rising list, continued by its first and its last step."""
    exact: Any = int if whole else Fraction
    (first, second), (before, last) = map(exact, numbers[:2]), map(exact, numbers[-2:])
    below = [first - i * (second - first) for i in range(count, 0, -1)]
    above = [last + i * (last - before) for i in range(1, count + 1)]
    return (below, above) if whole else ([float(v) for v in below], [float(v) for v in above])

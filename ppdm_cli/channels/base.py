"""What a kind of channel is: one file that says what a sidecar writes of it, and what it does.

A kind has a *spec* (its name and parameters, as published) and a *matrix* (the law as numbers). The spec
class registers itself with its name; the sidecar, the owner's options and the documents find it in `KINDS`.
Nothing outside this room asks which kind a channel is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.arrays import Addresses, Codes, code_type
from ppdm_cli.channels.beyond import Beyond
from ppdm_cli.channels.exact_draw import checked_gamma
from ppdm_cli.channels.matrix import Matrix, Substitution
from ppdm_cli.coins import CELLS, Coins, uniform
from ppdm_cli.domain import Bins, Domain

if TYPE_CHECKING:
    from ppdm_cli.channels.channel import Channel

MOST_TOGETHER = 16
"""The most attributes of one channel."""
Name = Annotated[str, Meta(min_length=1, max_length=1 << 12)]


@dataclass(frozen=True)
class Request:
    """What an owner asks of a channel for one attribute; a float gamma was derived, and is rounded down."""

    gamma: Decimal | float | None
    options: Mapping[str, Any] = field(default_factory=dict)
    """The settings that belong to the kind alone, such as a half-width."""


@dataclass(frozen=True)
class Cells:
    """The coins of a run of cells: where they are, and a key for each purpose."""

    addresses: Addresses
    key: Callable[[str], bytes]


class Recorded:
    """What a sidecar's channels are: a spec of some registered kind (msgspec must know the type by a name)."""

    __slots__ = ()


OPEN = "every kind answers this: `register` takes none that does not"


class Spec(Recorded, msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", kw_only=True):
    """What a sidecar says of a channel: the attributes that it is a law of, its kind and parameters."""

    kind: ClassVar[str]
    about: ClassVar[str]
    """What the kind does, in a sentence for help and documents."""
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """The settings that an owner may give one attribute, each with its reader."""
    shared_options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """The settings that an owner may give all attributes together."""
    everywhere: ClassVar[bool] = False
    """Whether all perturbed attributes of a release have this kind, or none: then it is a scheme."""
    takes_gamma: ClassVar[bool] = True
    """Whether an owner asks for it with a gamma."""
    by_name: ClassVar[bool] = True
    """Whether an owner asks for it by its name; else it comes with what they ask for."""
    no_nulls: ClassVar[str] = "declare that it has nulls (nulls=true), or fix the data"
    """The next step where a column without nulls turns out to have some."""

    attributes: Annotated[list[Name], Meta(min_length=1, max_length=MOST_TOGETHER)]

    # -- the law

    def matrix(self, domain: Domain) -> Matrix:
        """Return the law as numbers, for the codes of a domain."""
        raise NotImplementedError(OPEN)

    def published(self, domain: Domain, matrix: Matrix, beyond: Beyond | UnsetType) -> Domain:
        """Return the domain of what is published; ValueError where `beyond` does not fit."""
        if beyond is not UNSET:
            raise ValueError("no channel publishes anything beyond its domain")
        return domain

    @property
    def reach(self) -> list[int] | None:
        """Return how many bins past its domain each attribute is published; None where `published` says."""
        return None

    def of_some(self, places: Sequence[int]) -> Spec:
        """Return the same channel of some of its attributes."""
        return msgspec.structs.replace(self, attributes=[self.attributes[p] for p in places])

    @property
    def decides(self) -> dict[str, Any]:
        """Return all that an answer depends on besides cell and domain: another law, other coins."""
        fields = {n: getattr(self, n) for n in self.__struct_fields__ if n != "attributes"}
        return {"kind": self.kind, **fields}

    def publish(
        self, matrix: Matrix, domain: Domain, published: Domain, codes: Codes, values: pa.Array, cells: Cells
    ) -> pa.Array:
        """Return the column that is published for values and their codes: exactly drawn from the law."""
        out = self.drawn(matrix, codes, Coins(cells.key("perturb")), cells.addresses)
        within = None
        if any(isinstance(p, Bins) and p.representative == "random" for p in published.parts):
            coins, parts = Coins(cells.key("representative")), len(published.parts)
            numbers = [uniform(coins, cells.addresses, out, part) for part in range(parts)]
            within = np.stack(numbers, axis=1) if parts > 1 else numbers[0]
        return published.column(out, within)

    def drawn(self, matrix: Matrix, codes: Codes, coins: Coins, addresses: Addresses) -> Codes:
        """Return published codes for codes, exactly drawn from the law."""
        assert isinstance(matrix, Substitution)
        out = np.empty(len(codes), code_type(matrix.outputs))
        substitute(matrix, coins, addresses, codes, out)
        return out

    def goes_with(self, other: Spec) -> bool:
        """Return whether a release may have both channels."""
        return type(self) is type(other) or not (self.everywhere or other.everywhere)

    # -- what people are told

    def described(self) -> str:
        """Return the law in a few words."""
        raise NotImplementedError(OPEN)

    def short(self) -> str:
        """Return the kind in a cell of a table, with what tells it from others of its kind."""
        return self.kind

    def figures(self, matrix: Matrix, domain: Domain) -> dict[str, Any]:
        """Return the figures that only this kind has, by the names of `FIGURES`."""
        return {}

    @classmethod
    def warnings(cls, channels: Sequence[Channel]) -> list[str]:
        """Return what must be said first of a release that has these channels."""
        return []

    @classmethod
    def remarks(cls, channels: Sequence[Channel]) -> list[str]:
        """Return what else is to be said of these channels."""
        return []

    @classmethod
    def missed(cls, channels: Sequence[Channel]) -> list[str]:
        """Return what is to be said where the kind was asked for all, and not every channel has it."""
        return []

    # -- what an owner asks

    @classmethod
    def check(cls, name: str, kind: pa.DataType, request: Request) -> None:
        """Raise an error where a column of this type cannot have what is asked; before any data is read."""

    @classmethod
    def suits(cls, domain: Domain, ordered: bool) -> bool:
        """Return whether the kind, asked for all attributes, is for this one."""
        return True

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        """Return the channel that is asked for, checked, and what it publishes beyond the domain."""
        raise NotImplementedError(OPEN)

    @classmethod
    def best_bins(cls, gamma: float, size: float) -> float:
        """Return how many bins a miner profits from; `size` is in 100,000 records."""
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


KINDS: dict[str, type[Spec]] = {}
FIGURES = ("half_width", "noise", "sd", "interval", "interval_share", "neighbourhood")
Kind = TypeVar("Kind", bound=type[Spec])


def register(kind: Kind) -> Kind:
    """Make a kind known by its tag, if it answers all that `Spec` leaves open."""
    own = {name for base in kind.__mro__[: kind.__mro__.index(Spec)] for name in vars(base)}
    if missing := {"matrix", "described", "asked"} - own:
        raise TypeError(f"{kind.__name__} lacks {', '.join(sorted(missing))}")
    kind.kind = str(kind.__struct_config__.tag)
    KINDS[kind.kind] = kind
    return kind


def substitute(matrix: Substitution, coins: Coins, addresses: Addresses, codes: Codes, out: Codes) -> None:
    """Perturb codes by a matrix: each cell's coins are those of its address and its true code."""
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

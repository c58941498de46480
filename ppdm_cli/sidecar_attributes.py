"""What a sidecar says of one column, and the channels that its specs make of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import dtypes
from ppdm_cli.channels import Beyond, Channel, Name, Scalar, Spec, beyond_values, within
from ppdm_cli.display import Displayed
from ppdm_cli.domain import MOST_VALUES, OTHER, Bins, Categories, Domain, Product, Representative
from ppdm_cli.errors import MismatchError, PpdmError, quoted

Origin = Literal["declared", "data"]
Outside = Literal["nearest", "null", "other"]
LONGEST_PREFIX = 64


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What was made of a column's text before it was perturbed: its beginning, or the group a file gives it."""

    prefix: Annotated[int, Meta(ge=1, le=LONGEST_PREFIX)] | UnsetType = UNSET
    mapping: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | UnsetType = UNSET
    """The BLAKE2b digest of the file."""

    def __post_init__(self) -> None:
        if (self.prefix is UNSET) == (self.mapping is UNSET):
            raise ValueError("a group is a prefix or a mapping")


def named(name: str, make: Callable[[], Any]) -> Any:
    """Return what `make` gives; what goes wrong in it says the attribute."""
    try:
        return make()
    except PpdmError as error:
        raise ValueError(f"{quoted(name)}: {error.what}") from None
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"{quoted(name)}: {error}") from None


class Attribute(
    Displayed,
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    kw_only=True,
    dict=True,
):
    """One column of the release: what its values are, and what was done to them."""

    name: Name
    role: Literal["perturbed", "altered", "kept"]
    type: Literal["continuous", "discrete"]
    dtype: Annotated[str, Meta(max_length=128)]
    N: Annotated[int, Meta(ge=1, le=MOST_VALUES + 1)] | UnsetType = UNSET
    edges: Annotated[list[Scalar], Meta(max_length=MOST_VALUES + 1)] | UnsetType = UNSET
    categories: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)] | UnsetType = UNSET
    nulls: bool | UnsetType = UNSET
    representative: Representative | UnsetType = UNSET
    domain_from: Origin | UnsetType = UNSET
    beyond: Beyond | UnsetType = UNSET
    group: Group | UnsetType = UNSET
    outside: Outside | UnsetType = UNSET
    """What became of values outside the domain; an original may have some just where it is said."""

    def __post_init__(self) -> None:
        kind = named(self.name, lambda: dtypes.parse(self.dtype))
        if (self.edges is not UNSET) and (self.categories is not UNSET):
            raise ValueError(f"{quoted(self.name)} has both edges and categories")
        if self.role == "perturbed":
            for part in ("N", "nulls", "domain_from"):
                if getattr(self, part) is UNSET:
                    raise ValueError(f"{quoted(self.name)} is perturbed, so it needs {part!r}")
            if self.edges is UNSET and self.categories is UNSET:
                raise ValueError(f"{quoted(self.name)} is perturbed, so it needs edges or categories")
            if self.edges is not UNSET and self.representative is UNSET:
                raise ValueError(f"{quoted(self.name)} has edges, so it needs a representative")
        elif self.beyond is not UNSET:
            raise ValueError(f"{quoted(self.name)} is not perturbed, so nothing is published beyond its domain")
        if self.edges is not UNSET and dtypes.is_discrete(kind):
            raise ValueError(f"{quoted(self.name)} is of type {self.dtype}, which has no edges")
        if self.dtype != "string" and (self.group is not UNSET or self.outside == "other"):
            raise ValueError(f"{quoted(self.name)} is of type {self.dtype}, and only text has groups")
        if self.outside == "other" and (self.categories is UNSET or OTHER not in self.categories):
            raise ValueError(f"{quoted(self.name)} has no category {OTHER}")
        if self.outside == "null" and self.nulls is not True:
            raise ValueError(f"{quoted(self.name)} has no null")
        if (self.type == "continuous") != (self.edges is not UNSET) and self.has_domain:
            raise ValueError(f"{quoted(self.name)}: continuous goes with edges, discrete with categories")
        if self.has_domain and named(self.name, lambda: self.domain.size) != self.N:
            raise ValueError(f"{quoted(self.name)}: N is not the number of its codes")

    def _words(self) -> list[str]:
        return [quoted(self.name), self.role, f"{self.type} {self.dtype}", f"N {self.N or 'unknown'}"]

    @property
    def has_domain(self) -> bool:
        return self.edges is not UNSET or self.categories is not UNSET

    @cached_property
    def kind(self) -> Any:
        """Return the Arrow type of the column."""
        return dtypes.parse(self.dtype)

    @cached_property
    def domain(self) -> Domain:
        """Return the domain of the original column."""
        kind, nulls = self.kind, self.nulls is True
        if self.edges is not UNSET:
            edges = [dtypes.from_json(e, kind) for e in self.edges]
            representative = "center" if self.representative is UNSET else self.representative
            return Bins(kind, edges, nulls, representative)
        if self.categories is not UNSET:
            return Categories(kind, [dtypes.from_json(c, kind) for c in self.categories], nulls)
        raise MismatchError(
            f"the sidecar gives no domain for {quoted(self.name)}",
            "ask the owner for a release that declares it",
        )

    @cached_property
    def _beyond(self) -> Any:
        """Return what is published beyond the domain, read once."""
        return UNSET if self.beyond is UNSET else beyond_values(self.domain, self.beyond)

    def reaching(self, count: int) -> Domain:
        """Return the domain with so many bins or values beyond it, made once."""
        known: dict[int, Domain] = self.__dict__.setdefault("_reaching", {})
        if count not in known:
            known[count] = within(self.domain, self._beyond, count)
        return known[count]

    @cached_property
    def column(self) -> Domain:
        """Return the domain of a column where some records withhold it: as far as any reach, and null."""
        beyond = 0 if self.beyond is UNSET else len(self.beyond.below)
        return self.reaching(beyond).with_null

    def places(self, channel: Channel) -> np.ndarray:
        """Return the code of `column` that shows each code of a channel."""
        return self._shown(channel)[0]

    def own_codes(self, channel: Channel) -> np.ndarray:
        """Return the code of a channel that each code of `column` shows; of what it never shows any."""
        return self._shown(channel)[1]

    def _shown(self, channel: Channel) -> tuple[np.ndarray, np.ndarray]:
        count = 0
        if channel.spec is not None and channel.spec.reach is not None:
            count = channel.spec.reach[channel.attributes.index(self.name)]
        known: dict[int, tuple[np.ndarray, np.ndarray]] = self.__dict__.setdefault("_places", {})
        if count not in known:
            size = self.domain.ordinary + 2 * count
            first = (self.column.ordinary - size) // 2
            places = np.arange(size) + first
            own = (np.arange(self.column.size) - first).clip(0, size - 1)
            if self.domain.nulls:
                places = np.append(places, self.column.null_code)
                own[self.column.null_code] = size
            known[count] = places, own
        return known[count]

    @property
    def as_kept(self) -> Channel:
        """Return the axis that the attribute is where it was kept."""
        return Channel(self.name, self.domain, self.domain)


def channel(spec: Spec, known: Mapping[str, Attribute]) -> Channel:
    """Return the channel that a spec makes of the attributes that it names; ValueError if they do not fit."""
    own = [known[n] for n in spec.attributes]
    several = tuple(spec.attributes) if len(own) > 1 else ()
    domain = Product([a.domain for a in own]) if several else own[0].domain
    matrix = spec.matrix(domain)
    if spec.reach is None:
        published = spec.published(domain, matrix, own[0].beyond)
    else:
        parts = [a.reaching(b) for a, b in zip(own, spec.reach, strict=True)]
        published = Product(parts) if several else parts[0]
    return Channel(" x ".join(spec.attributes), domain, published, spec, matrix, several)

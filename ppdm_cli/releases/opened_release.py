"""Opened releases for code that perturbs, reads or judges one: checked sidecars, and all that follows.

A sidecar names channels; an opened release has them, with their matrices and the domains that they publish.
With one recipe every record goes through the same channels. With several, each has a weight, and a record's is
chosen by a coin that doesn't depend on it (docs/technical/method.md).

A sidecar is read from its file or from inside the data; if there are both, they must agree. An impossible one
is refused: a wrong domain or matrix, or a promise that its channels don't give. No size in it decides how much
memory is allocated.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from math import inf, isfinite, lcm, log
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import dtypes, files
from ppdm_cli.channels import Channel, Spec, together, within
from ppdm_cli.domain import OTHER, Domain, Product
from ppdm_cli.errors import MismatchError, PpdmError, RefusedError, argument, quoted
from ppdm_cli.sidecar import (
    COLUMN,
    LARGEST_SIDECAR,
    MOST_RECIPES,
    SUFFIX,
    UNPROMISED,
    Attribute,
    CopiesSidecar,
    Privacy,
    Recipe,
    Sidecar,
    explained,
    parse_sidecar,
)

MOST_RECIPE_CODES = 1 << 21
"""The most codes that recipes publish of all attributes, those of each half-width counted apart."""
LARGEST_TOTAL_WEIGHT = 1 << 62
"""The largest sum of weights that a coin is drawn below."""
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class RecipeInUse:
    """A recipe in use: the number that records have for it, its channels, and its weight."""

    number: int
    weight: int
    """The weight: of the whole numbers below the sum of all weights, so many choose it."""
    channels: tuple[Channel, ...]
    round: int = 1

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(n for c in self.channels for n in c.attributes)

    @cached_property
    def through(self) -> dict[str, Channel]:
        return {n: c for c in self.channels for n in c.attributes}

    @property
    def epsilon(self) -> float:
        return sum(log(c.matrix.amplification) for c in self.channels)

    def marginal(self, names: Sequence[str]) -> Channel | None:
        """Return the axis of attributes that go through one of its channels, the others summed out."""
        return self.through[names[0]].marginal(names)


@dataclass(frozen=True, eq=False)
class WideColumn:
    """A column in which some records withhold their value: its codes cover those of all recipes, and null."""

    attribute: Attribute
    _maps: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @cached_property
    def domain(self) -> Domain:
        beyond = self.attribute.beyond
        return within(self.attribute.domain, beyond, 0 if beyond is UNSET else len(beyond.below)).with_null

    def maps(self, channel: Channel) -> tuple[np.ndarray, np.ndarray]:
        """Return the column's code for each that a channel publishes, and a channel's for each of the column's.

        Any code will do for those that the channel never publishes.
        """
        reach = None if channel.spec is None else channel.spec.reach
        found = 0 if reach is None else reach[channel.attributes.index(self.attribute.name)]
        if found not in self._maps:
            own = self.attribute.domain
            size = own.ordinary + 2 * found
            first = (self.domain.ordinary - size) // 2
            codes, back = np.arange(size) + first, (np.arange(self.domain.size) - first).clip(0, size - 1)
            if own.nulls:
                codes = np.append(codes, self.domain.null_code)
                back[self.domain.null_code] = size
            self._maps[found] = codes, back
        return self._maps[found]


@dataclass(frozen=True, eq=False)
class OpenedRelease:
    """An opened sidecar: the channels that its records went through, and the axes of its tables."""

    sidecar: Sidecar
    recipes: tuple[RecipeInUse, ...]
    alone: Mapping[str, Channel]
    """The channel that every record goes through, by attribute, of one copy; none if recipes differ."""
    beside: tuple[tuple[str, pa.DataType], ...]
    """The names and types of the columns in addition to the attributes'."""

    @property
    def copies(self) -> int:
        """Return the number of copies that are read side by side."""
        return self.sidecar.side_by_side if isinstance(self.sidecar, CopiesSidecar) else 1

    @cached_property
    def channels(self) -> list[Channel]:
        """Return the channels, in the order of their columns, or of the recipes if these differ."""
        each = {msgspec.json.encode(c.spec): c for r in self.recipes for c in r.channels}.values()
        places = {a.name: i for i, a in enumerate(self.sidecar.perturbed) if a.name in self.alone}
        ordered = sorted(each, key=lambda c: min((places[n] for n in c.attributes if n in places), default=0))
        return [c if self.copies == 1 else together(c, self.copies) for c in ordered]

    @cached_property
    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Return the names and types of the data's columns, in order."""
        found = [(a.name, self._type(a)) for a in self.sidecar.attributes]
        return [*found, *self.beside] if self.sidecar.stage == "perturbed" else found

    def _type(self, attribute: Attribute) -> pa.DataType:
        if self.sidecar.stage != "perturbed" or attribute.role != "perturbed":
            return attribute.kind
        if attribute.name in self.alone:
            return self.through(attribute.name).published_domain(attribute.name).kind
        return self.wide[attribute.name].domain.kind

    @cached_property
    def wide(self) -> dict[str, WideColumn]:
        """Return the column of each attribute, if some records withhold it."""
        return {a.name: WideColumn(a) for a in self.sidecar.perturbed}

    def spec(self, name: str) -> Spec | None:
        """Return the sidecar's spec of an attribute's channel; None if it was kept."""
        return self._through[name].spec if name in self._through else None

    def through(self, name: str) -> Channel:
        """Return the channel that an attribute goes through, alone or with others; itself if kept."""
        return self._through[name] if name in self._through else self.axis(name)

    def axis(self, name: str) -> Channel:
        """Return the axis of an attribute alone: its channel, or itself if it was kept."""
        if name not in self._axes:
            self._axes[name] = self._axis(name)
        return self._axes[name]

    def _axis(self, name: str) -> Channel:
        if name not in self.alone:
            attribute = self.sidecar.by_name[name]
            if attribute.role == "perturbed":
                raise _several_recipes()
            return Channel(name, attribute.domain, attribute.domain)
        found = self.marginal([name])
        if found is None:
            raise RefusedError(
                "no-law-alone",
                f"{quoted(name)} was perturbed together with other columns, and its published values also "
                "depend on those",
                "name another column",
            )
        return found

    def marginal(self, names: Sequence[str]) -> Channel | None:
        """Return the axis of attributes that share a channel, None if these have no law of their own."""
        found = self.alone[names[0]].marginal(names)
        return found if found is None or self.copies == 1 else together(found, self.copies)

    @cached_property
    def _axes(self) -> dict[str, Channel]:
        return {c.name: c for c in self.channels}

    @cached_property
    def _through(self) -> dict[str, Channel]:
        return {n: c for c in self.channels for n in c.attributes}

    def refuse_withheld(self) -> None:
        """Refuse a release with withheld cells, if these would count as null."""
        if not self.alone.keys() >= {a.name for a in self.sidecar.perturbed}:
            raise _several_recipes()


def _several_recipes() -> RefusedError:
    return RefusedError(
        "several-recipes",
        "most cells of the release are withheld (it has several recipes), which is not supported here",
        f"see `ppdm inspect`, or ask the owner for a release with {argument('publish', 'all')}",
    )


@dataclass(frozen=True)
class _Design:
    recipes: Sequence[Recipe]
    attributes: Sequence[Attribute]

    def __hash__(self) -> int:
        return hash((len(self.recipes), len(self.attributes)))  # lists have none


def recipes_in_use(recipes: Sequence[Recipe], attributes: Sequence[Attribute]) -> tuple[RecipeInUse, ...]:
    """Return the recipes in use, by their numbers, with relative weights; ValueError if they do not fit."""
    return _in_use(_Design(list(recipes), list(attributes)))


@lru_cache(maxsize=8)
def _in_use(design: _Design) -> tuple[RecipeInUse, ...]:
    recipes, known = design.recipes, {a.name: a for a in design.attributes if a.role == "perturbed"}
    members = [r.members for r in recipes]
    if sum(members) > MOST_RECIPES:
        raise ValueError(f"a release has at most {MOST_RECIPES} recipes")
    _check_codes(recipes, known)
    share = lcm(*members)
    rounds = [r.round for r in recipes if r.round is not UNSET]
    if rounds and (len(rounds) < len(recipes) or any(b - a not in (0, 1) for a, b in pairwise([0, *rounds]))):
        raise ValueError("each recipe has a round, or none; rounds are in order, from 1")
    found, domains = list[RecipeInUse](), dict[tuple[str, int], Domain]()
    for recipe in recipes:
        if recipe.weight is UNSET and len(recipes) > 1:
            raise ValueError("each of several recipes has a weight")
        weight = (1 if recipe.weight is UNSET else recipe.weight) * (share // recipe.members)
        for specs in recipe.each():
            names = [n for s in specs for n in s.attributes]
            if len(set(names)) < len(names) or not set(names) <= set(known):
                raise ValueError("a recipe names an attribute twice, or one that the release does not have")
            channels = tuple(_channel(s, known, domains) for s in specs)
            number_of_round = 1 if recipe.round is UNSET else recipe.round
            found.append(RecipeInUse(len(found), weight, channels, number_of_round))
    if sum(r.weight for r in found) > LARGEST_TOTAL_WEIGHT:
        raise ValueError("the weights of the recipes are too large")
    return tuple(found)


def _check_codes(recipes: Sequence[Recipe], known: Mapping[str, Attribute]) -> None:
    """Check that attributes are not published in very many forms: each is a domain and a law of its own."""
    forms: dict[tuple[str, int], int] = {}
    for recipe in recipes:
        specs = [recipe.pattern] if recipe.channel is not UNSET else recipe.specs
        for spec in (s for s in specs if s.reach is not None):
            for name, reach in zip(spec.attributes, spec.reach or [], strict=True):
                if name in known:
                    forms[name, reach] = known[name].domain.ordinary + 2 * reach
    if sum(forms.values()) > MOST_RECIPE_CODES:
        raise ValueError(
            f"its recipes publish attributes in so many forms that there are {sum(forms.values()):,} codes, "
            f"more than {MOST_RECIPE_CODES:,}"
        )


def _channel(spec: Spec, known: Mapping[str, Attribute], domains: dict[tuple[str, int], Domain]) -> Channel:
    """Return the channel of a spec and the attributes that it names; `domains` has those made so far."""

    def wider(attribute: Attribute, count: int) -> Domain:
        if (key := (attribute.name, count)) not in domains:
            domains[key] = within(attribute.domain, attribute.beyond, count)
        return domains[key]

    def make() -> Channel:
        own = [known[n] for n in spec.attributes]
        domain = Product([a.domain for a in own]) if len(own) > 1 else own[0].domain
        matrix = spec.law(domain)
        if spec.reach is None:
            published = spec.published(domain, matrix, own[0].beyond)
        else:
            parts = [wider(a, b) for a, b in zip(own, spec.reach, strict=True)]
            published = Product(parts) if len(own) > 1 else parts[0]
        return Channel(name, domain, published, spec, matrix, tuple(spec.attributes))

    name = " x ".join(spec.attributes)
    return naming(name, make)


def naming(name: str, make: Callable[[], Made]) -> Made:
    """Return the result of `make`; errors in it get the attribute's name."""
    try:
        return make()
    except PpdmError as error:
        raise ValueError(f"{quoted(name)}: {error.what}") from None
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"{quoted(name)}: {error}") from None


def in_rounds(recipes: Sequence[RecipeInUse]) -> list[list[RecipeInUse]]:
    """Return the recipes of each round; one list without rounds."""
    found: list[list[RecipeInUse]] = [[] for _ in range(max((r.round for r in recipes), default=0))]
    for one in recipes:
        found[one.round - 1].append(one)
    return found


@lru_cache(maxsize=8)
def opened(sidecar: Sidecar) -> OpenedRelease:
    """Return the opened release of a sidecar, built once for equal ones."""
    recipes = recipes_in_use(sidecar.recipes, sidecar.attributes)
    if len(recipes) > 1:
        return OpenedRelease(sidecar, recipes, {}, ((COLUMN, pa.uint16()),))
    return OpenedRelease(sidecar, recipes, {n: c for r in recipes for n, c in r.through.items()}, ())


_WRONG = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, PpdmError)


def read_sidecar(path: Path | None, carried: bytes | None, name: str, step: str = "") -> Sidecar:
    """Return the sidecar from its file or the data, which must agree; `step` is for a release without one."""
    beside: bytes | None = None
    if path is not None:
        files.reading(path)
    if path is not None and path.exists():
        with files.readable(path, "the sidecar "), path.open("rb") as file:
            beside = file.read(LARGEST_SIDECAR + 1)
    if beside is None and carried is None:
        raise MismatchError(
            "no-sidecar",
            f"{quoted(name)} has no sidecar, so it is not a release",
            step
            or f"put {quoted(Path(name).name + SUFFIX)} beside it, add {argument('sidecar', 'FILE')}, or "
            "perturb it first",
        )
    if beside is None:
        assert carried is not None
        return decode(carried, f"in {name}")
    sidecar = decode(beside, str(path))
    if carried is not None and carried != beside:
        check_same(sidecar, decode(carried, f"in {name}"), str(path), name)
    return sidecar


def decode(data: bytes, where: str) -> Sidecar:
    """Read and check a sidecar; `where` names the file for the error."""
    if len(data) > LARGEST_SIDECAR:
        what = f"the sidecar {quoted(where)} is larger than {LARGEST_SIDECAR >> 20} MiB"
        raise MismatchError("sidecar-too-large", what, "ask for the one that was published with the release")
    try:
        sidecar = parse_sidecar(data)
        _check(sidecar)
    except _WRONG as error:
        what = error.what if isinstance(error, PpdmError) else explained(data, error)
        raise MismatchError(
            "invalid-sidecar",
            f"the sidecar {quoted(where)} is not valid: {what}",
            "ask for the one that was published with the release, unedited",
        ) from None
    return sidecar


def check_made(sidecar: Sidecar) -> None:
    """Refuse to publish a release whose sidecar nobody could read."""
    try:
        if len(data := sidecar.encode()) > LARGEST_SIDECAR:
            raise ValueError
        parse_sidecar(data)
    except _WRONG:
        raise RefusedError(
            "sidecar-unreadable",
            "the sidecar would be larger than any that ppdm reads: a column's name is longer than 4,096 "
            "characters, a category longer than 16,384, or there are too many of them",
            "shorten or drop them",
        ) from None
    try:
        _check(sidecar)
    except _WRONG as error:
        what = error.what if isinstance(error, PpdmError) else error
        raise RefusedError(
            "sidecar-invalid",
            f"the sidecar would not be valid: {what}",
            "report it with the command, but without data",
        ) from None


def check_same(beside: Sidecar, inside: Sidecar, path: str, name: str) -> None:
    """Check that a sidecar is the one inside the data; the parts in a folder do not know how many all have."""
    if inside.records is None:
        inside = msgspec.structs.replace(inside, records=beside.records)
    if beside != inside:
        what = f"the sidecar {quoted(path)} differs from the one inside {quoted(name)}"
        raise MismatchError("sidecars-differ", what, "fetch both again: one of them belongs to another release")


def cut_folder(folder: object) -> MismatchError:
    """Return the error for a folder of parts of a release that may be incomplete."""
    return MismatchError(
        "cut-folder",
        f"the folder {quoted(folder)} has parts of a release but not its sidecar: it was not written or "
        "copied completely",
        "make or copy it again",
    )


def _check_attribute(attribute: Attribute) -> None:
    """Check that a column's fields are consistent, and that its domain is possible."""
    name = quoted(attribute.name)
    kind = naming(attribute.name, lambda: attribute.kind)
    if (attribute.edges is not UNSET) and (attribute.categories is not UNSET):
        raise ValueError(f"{name} has both edges and categories")
    if attribute.role == "perturbed":
        for part in ("N", "nulls", "domain_from"):
            if getattr(attribute, part) is UNSET:
                raise ValueError(f"{name} is perturbed, so it needs {part!r}")
        if attribute.edges is UNSET and attribute.categories is UNSET:
            raise ValueError(f"{name} is perturbed, so it needs edges or categories")
        if attribute.edges is not UNSET and attribute.representative is UNSET:
            raise ValueError(f"{name} has edges, so it needs a representative")
    elif attribute.beyond is not UNSET:
        raise ValueError(f"{name} is not perturbed, so nothing is published beyond its domain")
    if attribute.edges is not UNSET and dtypes.is_discrete(kind):
        raise ValueError(f"{name} is of type {attribute.dtype}, which has no edges")
    if attribute.dtype != "string" and (attribute.group is not UNSET or attribute.outside == "other"):
        raise ValueError(f"{name} is of type {attribute.dtype}, but only text has groups")
    if attribute.outside == "other" and (attribute.categories is UNSET or OTHER not in attribute.categories):
        raise ValueError(f"{name} has no category {OTHER}")
    if attribute.outside == "null" and attribute.nulls is not True:
        raise ValueError(f"{name} has no null")
    if (attribute.type == "continuous") != (attribute.edges is not UNSET) and attribute.has_domain:
        raise ValueError(f"{name}: continuous goes with edges, discrete with categories")
    if attribute.has_domain and naming(attribute.name, lambda: attribute.domain.size) != attribute.N:
        raise ValueError(f"{name}: N is not the number of its codes")


def _check(sidecar: Sidecar) -> None:
    """Check that a sidecar makes sense as a whole; ValueError if it does not."""
    uuid.UUID(sidecar.release)
    for attribute in sidecar.attributes:
        _check_attribute(attribute)
    names = [a.name for a in sidecar.attributes]
    if len(set(names)) != len(names):
        raise ValueError("an attribute is listed twice")
    if sidecar.class_ is not UNSET and sidecar.class_ not in names:
        raise ValueError("the class is not among the attributes")
    release = opened(sidecar)
    _check_channels(release)
    if sidecar.stage == "perturbed" and sidecar.privacy is UNSET:
        raise ValueError("a perturbed release needs 'privacy'")
    if sidecar.privacy is not UNSET:
        kept = [a.name for a in sidecar.attributes if a.role == "kept"]
        if sorted(sidecar.privacy.kept) != sorted(kept):
            raise ValueError("privacy.kept is not the list of the kept attributes")
        unpromised = sidecar.privacy.coins in UNPROMISED or sidecar.scheme is not UNSET
        if (sidecar.privacy.perturbed_gamma is None) != unpromised:
            raise ValueError("a gamma is promised exactly if the random numbers are known, and not from a seed")
        _check_promise(release, sidecar.privacy)


def _check_channels(release: OpenedRelease) -> None:
    """Check that each perturbed attribute goes through a channel, and through one in each recipe."""
    sidecar = release.sidecar
    if (sidecar.scheme is UNSET) != (not sidecar.altered) or (sidecar.altered and sidecar.perturbed):
        raise ValueError("attributes are altered exactly if a scheme is named, and then none is perturbed")
    perturbed = {a.name for a in sidecar.perturbed}
    through = [n for r in release.recipes for n in r.attributes]
    if set(through) != perturbed:
        raise ValueError("the channels don't have each perturbed attribute once")
    specs = [c.spec for c in release.channels if c.spec is not None]
    for spec in specs:
        if not spec.goes_with(specs[0]):
            raise ValueError(f"{spec.kind} channels must be used for all perturbed attributes or for none")
        if spec.everywhere and not release.alone.keys() >= {*spec.attributes}:
            raise ValueError(f"{spec.kind} channels have no recipes")
    if sidecar.by_name.keys() & {name for name, _ in release.beside}:
        raise ValueError(f"a column has the reserved name {COLUMN}")
    names = [c.name for c in release.channels if c.attributes[0] in release.alone]
    if not {*names}.isdisjoint(a.name for a in sidecar.kept) or len({*names}) < len(names):
        raise ValueError("attributes that are perturbed together have, together, the name of another")


def _check_promise(release: OpenedRelease, privacy: Privacy) -> None:
    """Check that the promise over a record follows from the attributes' matrices."""
    if privacy.perturbed_gamma is None or privacy.perturbed_epsilon is None:
        if privacy.perturbed_gamma != privacy.perturbed_epsilon:
            raise ValueError("gamma and epsilon must both be promised, or neither")
        return
    epsilon = release.sidecar.times * max((r.epsilon for r in release.recipes), default=0.0)
    gamma = float(privacy.perturbed_gamma)
    stated = log(gamma) if isfinite(gamma) and gamma > 0 else inf if gamma > 0 else -inf
    if stated < epsilon - 1e-4 or (isfinite(stated) and stated > epsilon + 1e-3 * max(1.0, epsilon)):
        raise ValueError("privacy.perturbed_gamma does not follow from the attributes")
    whole = float(privacy.perturbed_epsilon)
    if whole != epsilon and not abs(whole - epsilon) <= 1e-4 * max(1.0, epsilon) < inf:
        raise ValueError("privacy.perturbed_epsilon does not follow from the attributes")

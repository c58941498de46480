"""Sidecars for every reader of a release: from their files or from inside the data, and checked once.

If there are both, they must agree. An impossible sidecar is refused: a wrong domain or matrix, or a promise
that its channels don't give. No size in it decides how much memory is allocated.
"""

from __future__ import annotations

import uuid
from math import inf, isfinite, log
from pathlib import Path

import msgspec
from msgspec import UNSET

from ppdm_cli import dtypes, files
from ppdm_cli.domain import OTHER
from ppdm_cli.errors import MismatchError, PpdmError, RefusedError, argument, quoted
from ppdm_cli.releases.opened_release import OpenedRelease, naming
from ppdm_cli.releases.strata import opened
from ppdm_cli.sidecar import (
    COLUMN,
    LARGEST_SIDECAR,
    SUFFIX,
    UNPROMISED,
    Attribute,
    Privacy,
    Sidecar,
    explained,
    parse_sidecar,
)

_WRONG = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, PpdmError)
"""The errors of sidecars that can't be read, or make no sense."""


def read_sidecar(path: Path | None, carried: bytes | None, name: str, step: str = "") -> Sidecar:
    """Return the sidecar from its file or from the data's own metadata; where both exist they must agree.

    `step` is the next step if there is none, unless an option may name it.
    """
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
            or f"perturb it first, or add {argument('sidecar', 'FILE')} or the file "
            f"{quoted(Path(name).name + SUFFIX)}",
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
        raise MismatchError(
            "sidecar-too-large",
            f"the sidecar {quoted(where)} is larger than {LARGEST_SIDECAR >> 20} MiB",
            "ask for the one that was published with the release",
        )
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
        raise MismatchError(
            "sidecars-differ",
            f"the sidecar {quoted(path)} differs from the one inside {quoted(name)}",
            "fetch both again: one of them belongs to another release",
        )


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

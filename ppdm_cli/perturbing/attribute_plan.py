"""What the owner asks for an attribute, or for all of them: privacy, domain, groups, matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import UNSET, UnsetType

from ppdm_cli.channels import KINDS, checked_gamma, checked_kind
from ppdm_cli.domain import CALENDAR, MOST_VALUES, Representative
from ppdm_cli.errors import DataError, UsageError, quoted, unknown
from ppdm_cli.files import content
from ppdm_cli.privacy import gamma_from_rhos
from ppdm_cli.settings import decimal, named, real, truth, whole
from ppdm_cli.sidecar import LONGEST_PREFIX, Group
from ppdm_cli.tables import Groups, Mapped, Prefixed, Rule, read_mapping

Scale = Literal["log", "sqrt", "month", "quarter", "year", "decade"]
_DOMAIN = ("interval", "categories", "edges", "scale", "core")
FROM_DATA = "data"
"""What a plan writes for a domain that is left to the data."""
LARGEST_DOMAIN = 64 << 20
"""Bytes of a file of values that are read at most."""


@dataclass(frozen=True)
class Settings:
    """What may be asked for all attributes, or for one of them; None is not given."""

    gamma: Decimal | None = None
    rho1: float | None = None
    rho2: float | None = None
    bins: int | Literal["auto"] | None = None
    representative: Representative | None = None
    matrix: str | None = None
    """The kind of channel: of an attribute, or of all that it suits."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of that kind, or of the scheme."""

    def __post_init__(self) -> None:
        self.own_gamma()
        if self.representative not in (None, *get_args(Representative)):
            raise unknown("representative", self.representative, get_args(Representative))
        if isinstance(self.bins, int) and not 2 <= self.bins <= MOST_VALUES:
            raise UsageError(f"the number of bins must be from 2 to {MOST_VALUES}", "such as --bins 20")
        if self.matrix is not None:
            checked_kind(self.matrix)

    def own_gamma(self) -> Decimal | float | None:
        """Return the gamma that is given, or the largest that the rhos allow; None without either."""
        if (self.rho1 is None) != (self.rho2 is None):
            raise UsageError("rho1 and rho2 go together", "such as --rho1 0.05 --rho2 0.5")
        if self.gamma is not None and self.rho1 is not None:
            raise UsageError("both gamma and rho1, rho2 are given", "give one of them")
        if self.gamma is not None:
            return checked_gamma(self.gamma)
        if self.rho1 is None or self.rho2 is None:
            return None
        return gamma_from_rhos(self.rho1, self.rho2)


@dataclass(frozen=True)
class AttributePlan(Settings):
    """What is asked for one attribute."""

    bins: int | None = None
    interval: tuple[Any, Any] | None = None
    categories: tuple[Any, ...] | None = None
    edges: tuple[Any, ...] | None = None
    scale: Scale | None = None
    """The steps of its interval are equal on this scale."""
    core: tuple[Any, Any] | str | None = None
    """The part of its interval that is cut; one bin holds what lies to either side."""
    nulls: bool = False
    data: bool = False
    """Its domain is left to the data by name, which is more than nothing said of it."""
    prefix: int | None = None
    """So many characters of its text are the value."""
    mapping: Groups | None = None
    """The group that each value goes to."""
    other: bool = False
    """Whether its domain has a group for text that it does not have, and for rare text."""

    @property
    def declares_domain(self) -> bool:
        return (self.interval, self.categories, self.edges) != (None, None, None) or self.mapping is not None

    def gives(self, setting: str) -> bool:
        """Return whether a setting, as plans name it, is given."""
        if setting == "domain":
            return self.declares_domain or self.data
        return getattr(self, setting, self.options.get(setting)) not in (None, False)

    @property
    def group(self) -> Group | UnsetType:
        """Return what its values are grouped by, as a sidecar records it."""
        if self.prefix is not None:
            return Group(prefix=self.prefix)
        return UNSET if self.mapping is None else Group(mapping=self.mapping.digest)

    def rule(self, name: str) -> Rule | None:
        """Return what groups its values."""
        if self.prefix is not None:
            return Prefixed(name, self.prefix)
        return None if self.mapping is None else Mapped(name, self.mapping, self.other)

    @property
    def cut(self) -> tuple[Any, Any]:
        """Return how its interval is cut, if not into equal widths."""
        return self.scale, self.core

    @property
    def asks_for_channel(self) -> bool:
        return self.own_gamma() is not None or self.matrix is not None or bool(self.options)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.interval, self.categories, self.edges, self.mapping).count(None) < 3:
            raise UsageError(
                "a domain is declared in two ways", "give an interval, categories, edges or a mapping to groups"
            )
        if self.prefix is not None and not (1 <= self.prefix <= LONGEST_PREFIX and self.mapping is None):
            raise UsageError(
                f"a prefix has 1 to {LONGEST_PREFIX} characters, and goes with no mapping", "such as prefix=1"
            )
        if self.scale in CALENDAR and (self.bins, self.core) != (None, None):
            raise UsageError(f"a {self.scale} is a bin of its own", "leave out bins and core, or the scale")
        if self.cut != (None, None) and self.interval is None and self.scale not in CALENDAR:
            raise UsageError(
                "a scale or a core cuts an interval, and none is declared",
                "declare it too, such as domain=0:1000000",
            )
        if self.scale not in (None, *get_args(Scale)):
            raise unknown("scale", self.scale, get_args(Scale))
        if self.matrix is not None:
            if self.own_gamma() is not None and not KINDS[self.matrix].takes_gamma:
                raise UsageError(
                    f"a {self.matrix} matrix is given whole, and no gamma can be asked of it",
                    "leave out one of the two",
                )
            strange = [o for o in self.options if o not in KINDS[self.matrix].options]
            if strange:
                raise UsageError(
                    f"a {self.matrix} matrix has no {strange[0].replace('_', '-')}", "leave out one of the two"
                )

    @property
    def kind(self) -> str | None:
        """Return the kind that is asked for, by name or by a setting that it alone has."""
        if self.matrix is None and self.options:
            return next(k for k, spec in KINDS.items() if set(self.options) <= set(spec.options))
        return self.matrix

    @classmethod
    def of(cls, given: Mapping[str, Any] | AttributePlan) -> AttributePlan:
        """Return a plan from settings as an option, a plan file or a notebook writes them.

        `domain` is "lo:hi", [lo, hi], "a|b|c" or "@file" (a value a line); `categories` and `edges` are lists.
        """
        if isinstance(given, AttributePlan):
            return given
        own: dict[str, Any] = {}
        of_kinds = {o: reader for spec in KINDS.values() for o, reader in spec.options.items()}
        for key, value in given.items():
            if key in _READERS:
                own[key] = named(key, _READERS[key], value)
            elif key in of_kinds:
                own["options"] = own.get("options", {}) | {key: named(key, of_kinds[key], value)}
            elif key in ("categories", "edges"):
                if not isinstance(value, (list, tuple)) or not value:
                    raise UsageError(f"{key!r} must be a list of values", f"such as {key} = [1, 2, 3]")
                own[key] = tuple(value)
            elif key == "domain":
                own |= _domain(value)
            else:
                known = [*_READERS, *of_kinds, "domain", "categories", "edges"]
                raise unknown("setting", key, known, " of an attribute")
        return cls(**own)

    def laid_over(self, planned: AttributePlan) -> AttributePlan:
        """Return a column's settings from a plan, with these instead where they are given."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "options"}
        changes = {k: v for k, v in own.items() if v is not None and v is not False}
        if self.declares_domain or self.data:
            changes = {
                **dict.fromkeys(_DOMAIN),
                "mapping": None,
                "data": self.data,
            } | changes
        if self.gamma is not None or self.rho1 is not None:
            changes = {"gamma": None, "rho1": None, "rho2": None} | changes
        changes["options"] = self.options if self.matrix is not None else {**planned.options, **self.options}
        return replace(planned, **changes)


def _interval(value: Any) -> Any:
    """Return both ends, or their text; None where there are none."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return tuple(value)
    return value if isinstance(value, str) and ":" in value else None


def _core(value: Any) -> Any:
    if (found := _interval(value)) is None:
        raise UsageError("a core is not an interval", "such as core=0:5000")
    return found


def _domain(value: Any) -> dict[str, Any]:
    if value == FROM_DATA:
        return {"data": True}
    if isinstance(value, str) and value.startswith("@"):
        return {"categories": tuple(_lines(Path(value[1:])))}
    if isinstance(value, str) and "|" in value:
        return {"categories": tuple(value.split("|"))}
    if (interval := _interval(value)) is not None:
        return {"interval": interval}
    raise UsageError(
        "a domain is neither an interval nor a list of values",
        "such as domain=0:120, domain=low|middle|high or domain=@file",
    )


def _lines(path: Path) -> list[str]:
    try:
        text = content(path, "the domain file ", LARGEST_DOMAIN).decode("utf-8-sig")
    except UnicodeError:
        raise DataError(f"the domain file {quoted(path)} is not in UTF-8", "convert it") from None
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in lines[: -1 if lines[-1] == "" else None]]


SHARED: dict[str, Any] = {"gamma": decimal, "rho1": real, "rho2": real, "representative": str, "matrix": str}
_READERS = SHARED | {
    "bins": whole,
    "scale": str,
    "core": _core,
    "nulls": truth,
    "prefix": whole,
    "mapping": read_mapping,
    "other": truth,
}

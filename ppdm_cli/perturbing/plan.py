"""What the owner asks for: a plan in the owner's words, from options, a TOML file or a sidecar.

Nothing here looks at data. `resolving` turns a plan into the attributes of a sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from ppdm_cli.channels import KINDS, SUBSTITUTION, checked_gamma, checked_kind, schemes
from ppdm_cli.domain import MOST_VALUES, Representative
from ppdm_cli.errors import DataError, UsageError, listed, quoted
from ppdm_cli.files import content
from ppdm_cli.perturbing.plan_file import read_toml
from ppdm_cli.perturbing.publishing import check_publishing, read_publish
from ppdm_cli.privacy import gamma_from_rhos
from ppdm_cli.settings import decimal, names, real, truth, whole, whole_or_auto

Rare = Literal["refuse", "merge", "publish"]
Scale = Literal["log", "sqrt"]
_DOMAIN = ("interval", "categories", "edges", "scale", "core")
LARGEST_DOMAIN = 64 << 20
"""Bytes of a file of values that are read at most."""


@dataclass(frozen=True)
class _Settings:
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
            raise UsageError(
                f"unknown representative {quoted(self.representative)}",
                f"one of {', '.join(get_args(Representative))}",
            )
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
class AttributePlan(_Settings):
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

    @property
    def declares_domain(self) -> bool:
        return (self.interval, self.categories, self.edges) != (None, None, None)

    @property
    def cut(self) -> tuple[Any, Any]:
        """Return how its interval is cut, if not into equal widths."""
        return self.scale, self.core

    @property
    def asks_for_channel(self) -> bool:
        return self.own_gamma() is not None or self.matrix is not None or bool(self.options)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.interval, self.categories, self.edges).count(None) < 2:
            raise UsageError("a domain is declared in two ways", "give an interval, categories or edges")
        if self.nulls and not self.declares_domain:
            raise UsageError(
                "nulls are declared without a domain", "declare the domain too, or leave both to the data"
            )
        if self.cut != (None, None) and self.interval is None:
            raise UsageError(
                "a scale or a core cuts an interval, and none is declared",
                "declare it too, such as domain=0:1000000",
            )
        if self.scale not in (None, *get_args(Scale)):
            raise UsageError(f"unknown scale {quoted(self.scale)}", f"one of {', '.join(get_args(Scale))}")
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
                own[key] = _READERS[key](value)
            elif key in of_kinds:
                own["options"] = own.get("options", {}) | {key: of_kinds[key](value)}
            elif key in ("categories", "edges"):
                if not isinstance(value, (list, tuple)) or not value:
                    raise UsageError(f"{key!r} must be a list of values", f"such as {key} = [1, 2, 3]")
                own[key] = tuple(value)
            elif key == "domain":
                own |= _domain(value)
            else:
                known = [*_READERS, *of_kinds, "domain", "categories", "edges"]
                raise UsageError(f"unknown setting {quoted(key)} of an attribute", f"settings: {listed(known)}")
        return cls(**own)

    def laid_over(self, planned: AttributePlan) -> AttributePlan:
        """Return a column's settings from a plan, with these instead where they are given."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("nulls", "options")}
        changes = {k: v for k, v in own.items() if v is not None}
        if self.declares_domain:
            changes = {**dict.fromkeys(_DOMAIN), "nulls": self.nulls} | changes
        if self.gamma is not None or self.rho1 is not None:
            changes = {"gamma": None, "rho1": None, "rho2": None} | changes
        changes["options"] = self.options if self.matrix is not None else {**planned.options, **self.options}
        return replace(planned, **changes)


@dataclass(frozen=True)
class Plan(_Settings):
    """What is asked for the whole release."""

    record_epsilon: float | None = None
    scheme: str = SUBSTITUTION
    """`SUBSTITUTION`, or a kind that all attributes have or none."""
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    class_: str | None = None
    rare: Rare = "refuse"
    attributes: Mapping[str, AttributePlan] = field(default_factory=dict)
    together: Mapping[tuple[str, ...], AttributePlan] = field(default_factory=dict)
    """Attributes that are perturbed together, and what is asked of their channel."""
    publish: int | Literal["all", "auto"] | None = None
    """How many attributes a record publishes, under a budget for the record."""
    class_in_budget: bool = False
    rounds: int | None = None
    """In how many rounds the attributes that a record publishes are chosen."""
    person: str | None = None
    """The column that says whose a record is."""
    rows_per_person: int | None = None

    @classmethod
    def of(cls, plan: Plan | Mapping[str, Any] | str | Path | None = None, **settings: Any) -> Plan:
        """Return a plan, a mapping of settings or a plan file with other settings laid over it."""
        if isinstance(plan, (str, Path)):
            plan = read_toml(Path(plan))
        if not isinstance(plan, Plan):
            plan = cls(**_read(plan or {}))
        over = _read(settings)
        if {"gamma", "rho1", "record_epsilon"} & set(over):
            plan = replace(plan, gamma=None, rho1=None, rho2=None, record_epsilon=None)
        keep, drop, own = over.get("keep", ()), over.get("drop", ()), over.get("attributes", {})
        over["options"] = {**plan.options, **over["options"]}
        over["keep"] = _joined(plan.keep, keep, {*drop, *own})
        over["drop"] = _joined(plan.drop, drop, {*keep, *own})
        over["attributes"] = {n: w for n, w in plan.attributes.items() if n not in {*keep, *drop}} | {
            n: w.laid_over(plan.attributes.get(n, AttributePlan())) for n, w in own.items()
        }
        given = over.get("together", {})
        anew = {n for names in given for n in names}
        over["together"] = {n: w for n, w in plan.together.items() if not anew & set(n)} | given
        return replace(plan, **over)

    def __post_init__(self) -> None:
        self._check_scheme()
        _check_together(self)
        check_publishing(self)
        given = [w for w in (self.gamma, self.rho1, self.record_epsilon) if w is not None]
        if len(given) > 1:
            raise UsageError(
                "the privacy is given in several ways",
                "give --gamma, or --rho1 with --rho2, or --record-epsilon",
            )
        super().__post_init__()
        if self.record_epsilon is not None and not 0 < self.record_epsilon < 1e6:
            raise UsageError("the record's epsilon must be above 0", "such as --record-epsilon 8")
        if self.rare not in get_args(Rare):
            raise UsageError(
                f"unknown value {quoted(self.rare)} for --rare", f"one of {', '.join(get_args(Rare))}"
            )
        both = sorted(set(self.keep) & set(self.drop))
        if both:
            raise UsageError(f"{listed(both)} both kept and dropped", "say one of them")
        doubly = sorted((set(self.keep) | set(self.drop)) & set(self.attributes))
        if doubly:
            raise UsageError(
                f"settings are given for {listed(doubly)}, but kept or dropped columns are not perturbed",
                "leave out --keep or --drop, or the settings",
            )
        if self.class_ in self.drop:
            raise UsageError("the class is dropped", "keep or perturb it")

    def _check_scheme(self) -> None:
        """Check that a scheme's settings are given with it, and those of channels without it."""
        if self.scheme not in schemes():
            raise UsageError(f"unknown scheme {quoted(self.scheme)}", f"one of {', '.join(schemes())}")
        if self.scheme == SUBSTITUTION:
            strange = [*self.options, *(o for w in self.attributes.values() for o in w.options)]
            for kind in schemes()[1:]:
                if any(o in KINDS[kind].shared_options for o in strange):
                    raise UsageError(
                        f"{' and '.join(KINDS[kind].shared_options)} go with {kind} noise only",
                        f"say --scheme {kind}, or leave them out",
                    )
            return
        spec = KINDS[self.scheme]
        asked = [self.gamma, self.rho1, self.rho2, self.record_epsilon, self.matrix]
        for own in self.attributes.values():
            asked += [own.gamma, own.rho1, own.rho2, own.matrix]
            asked += [o for o in own.options if o not in spec.options]
        if any(a is not None for a in asked) and not spec.takes_gamma:
            raise UsageError(
                f"{self.scheme} noise has no matrix to choose, and no gamma, rho or epsilon holds for it",
                "leave them out, or leave out --scheme for random substitution, which promises them",
            )
        for name, reader in spec.shared_options.items():
            if name not in spec.options and name not in self.options:
                reader(None)  # raises the option's own error

    @property
    def bins_for_all(self) -> int:
        """Return the number of bins for all attributes, known once `sized` has replaced "auto"."""
        assert self.bins != "auto"
        return self.bins or 10


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


def _read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for all as the fields of a plan; None is not given."""
    if not isinstance(given, Mapping):
        raise UsageError("a plan is a Plan, a mapping of settings or a file", "such as plan={'gamma': 9}")
    given = {k: v for k, v in given.items() if v is not None}
    of_schemes = {o: reader for spec in KINDS.values() for o, reader in spec.shared_options.items()}
    found: dict[str, Any] = {"options": {k: of_schemes[k](v) for k, v in given.items() if k in of_schemes}}
    for key, value in given.items():
        name = "class_" if key == "class" else key
        if name in _FOR_ALL:
            found[name] = _FOR_ALL[name](value)
        elif key not in of_schemes:
            known = [n.rstrip("_") for n in _FOR_ALL]
            raise UsageError(
                f"unknown setting {quoted(key)} of a plan", f"settings: {listed([*known, *of_schemes])}"
            )
    return found


def _attributes(value: Any) -> dict[str, AttributePlan]:
    if not isinstance(value, Mapping) or not all(
        isinstance(w, (Mapping, AttributePlan)) for w in value.values()
    ):
        raise UsageError("attributes are tables of settings", "such as [attributes.age] with gamma = 5")
    return {name: AttributePlan.of(w) for name, w in value.items()}


def _together(value: Any) -> dict[tuple[str, ...], AttributePlan]:
    """Read lists of names, or tables of settings with the names as `attributes`."""
    found: dict[tuple[str, ...], AttributePlan] = {}
    if isinstance(value, Mapping):
        return dict(value)
    for given in value if isinstance(value, (list, tuple)) else [value]:
        settings = dict(given) if isinstance(given, Mapping) else {"attributes": given}
        several = names("together", settings.pop("attributes", ()))
        found[several] = AttributePlan.of(settings)
    return found


def _check_together(plan: Plan) -> None:
    """Check that attributes are together once each, and that their channel alone is asked for a matrix."""
    several = [n for names in plan.together for n in names]
    if any(len(names) < 2 for names in plan.together) or len(set(several)) < len(several):
        raise UsageError("--together takes two or more attributes, each once", "such as --together age,sex")
    if aside := sorted({*several} & {*plan.keep, *plan.drop}):
        raise UsageError(
            f"{listed(aside)} would be perturbed together with others, but is kept or dropped",
            "say one of them",
        )
    if plan.together and plan.scheme != SUBSTITUTION:
        raise UsageError("noise is added to each attribute by itself", "leave out --scheme, or --together")
    own = [n for n in several if n in plan.attributes and plan.attributes[n].asks_for_channel]
    if own or any(
        replace(w, gamma=None, rho1=None, rho2=None, matrix=None, options={}) != AttributePlan()
        for w in plan.together.values()
    ):
        raise UsageError(
            "attributes that are perturbed together have one gamma and one matrix, and each its own domain",
            "such as --together age,sex:gamma=9 --attribute age:bins=5",
        )


def _joined(planned: tuple[str, ...], given: Sequence[str], otherwise: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(n for n in planned if n not in otherwise), *given]))


_SHARED: dict[str, Any] = {"gamma": decimal, "rho1": real, "rho2": real, "representative": str, "matrix": str}
_READERS = _SHARED | {"bins": whole, "scale": str, "core": _core, "nulls": truth}
_FOR_ALL = _SHARED | {
    "record_epsilon": real,
    "bins": whole_or_auto,
    "scheme": str,
    "rare": str,
    "class_": str,
    "keep": partial(names, "keep"),
    "drop": partial(names, "drop"),
    "attributes": _attributes,
    "together": _together,
    "publish": read_publish,
    "class_in_budget": truth,
    "rounds": whole,
    "person": str,
    "rows_per_person": whole,
}

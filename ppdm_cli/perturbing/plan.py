"""What an owner asks for, as a plan: for whoever perturbs, plans or prices a release.

Nothing here looks at data. `resolving` turns a plan into the attributes of a sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import UNSET, UnsetType

from ppdm_cli.channels import KINDS, SUBSTITUTION, checked_gamma, checked_kind, schemes
from ppdm_cli.domain import CALENDAR, MOST_VALUES, Representative
from ppdm_cli.errors import DataError, UsageError, listed, quoted, unknown
from ppdm_cli.files import content
from ppdm_cli.perturbing.plan_file import FROM_DATA, answered, csv_settings, locating, read_toml
from ppdm_cli.perturbing.recipe_choice import read_publish
from ppdm_cli.privacy import gamma_from_rhos
from ppdm_cli.settings import decimal, named, names, real, truth, whole, whole_or_auto
from ppdm_cli.sidecar import LONGEST_PREFIX, Group
from ppdm_cli.tables import Groups, Mapped, Prefixed, Rule, read_mapping

Scale = Literal["log", "sqrt", "month", "quarter", "year", "decade"]
_DOMAIN = ("interval", "categories", "edges", "scale", "core")
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


Rare = Literal["refuse", "merge", "publish"]


@dataclass(frozen=True)
class Plan(Settings):
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
    clip: bool = False
    shuffle: bool = False
    keep_order: bool = False
    csv: Mapping[str, Any] = field(default_factory=dict)
    """How a CSV is read, as fields of `CsvOptions`."""

    @classmethod
    def of(cls, plan: Plan | Mapping[str, Any] | str | Path | None = None, **settings: Any) -> Plan:
        """Return a plan, a mapping of settings or a plan file with other settings laid over it."""
        over = _read(settings)
        if isinstance(plan, (str, Path)):
            with locating(Path(plan)):
                plan = cls(**_read(answered(read_toml(Path(plan)), over)))
        if not isinstance(plan, Plan):
            plan = cls(**_read(answered(plan or {}, over)))
        if over.get("person") == "":  # nobody's: the answer to a plan that asks
            over |= {"person": None, "rows_per_person": None}
        if {"gamma", "rho1", "record_epsilon"} & set(over):
            plan = replace(plan, gamma=None, rho1=None, rho2=None, record_epsilon=None)
        keep, drop, own = over.get("keep", ()), over.get("drop", ()), over.get("attributes", {})
        over["options"] = {**plan.options, **over["options"]}
        read = over.get("csv", {})
        over["csv"] = {**plan.csv} | {
            k: {**plan.csv.get(k, {}), **v} if isinstance(v, Mapping) else v for k, v in read.items()
        }
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
        given = [w for w in (self.gamma, self.rho1, self.record_epsilon) if w is not None]
        if len(given) > 1:
            raise UsageError(
                "the privacy is given in several ways",
                "use only one of --gamma, --rho1 with --rho2, or --record-epsilon",
            )
        super().__post_init__()
        if self.record_epsilon is not None and not 0 < self.record_epsilon < 1e6:
            raise UsageError("the record's epsilon must be above 0", "such as --record-epsilon 2")
        if self.rare not in get_args(Rare):
            raise unknown("value", self.rare, get_args(Rare), " for --rare")
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
            raise unknown("scheme", self.scheme, schemes())
        if self.scheme == SUBSTITUTION:
            strange = [*self.options, *(o for w in self.attributes.values() for o in w.options)]
            for kind in schemes()[1:]:
                if any(o in KINDS[kind].shared_options for o in strange):
                    raise UsageError(
                        f"{' and '.join(KINDS[kind].shared_options)} go with {kind} noise only",
                        f"add --scheme {kind}, or leave them out",
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

    def for_each_of(self, copies: int) -> Plan:
        """Return the plan of one of several copies, which share the budget for a record."""
        if self.record_epsilon is None or copies < 2:
            return self
        return replace(self, record_epsilon=self.record_epsilon / copies)

    @property
    def bins_for_all(self) -> int:
        """Return the number of bins for all attributes, known once `sized` has replaced "auto"."""
        assert self.bins != "auto"
        return self.bins or 10


def _read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for all as the fields of a plan; None is not given."""
    given = {k: v for k, v in given.items() if v is not None}
    of_schemes = {o: reader for spec in KINDS.values() for o, reader in spec.shared_options.items()}
    found: dict[str, Any] = {"options": {k: of_schemes[k](v) for k, v in given.items() if k in of_schemes}}
    for key, value in given.items():
        name = "class_" if key == "class" else key
        if name in _FOR_ALL:
            reader = _FOR_ALL[name]
            plain = reader in (decimal, real, whole, whole_or_auto, truth)
            found[name] = named(key, reader, value) if plain else reader(value)
        elif key not in of_schemes:
            known = [n.rstrip("_") for n in _FOR_ALL]
            raise unknown("setting", key, [*known, *of_schemes], " of a plan")
    return found


def _attributes(value: Any) -> dict[str, AttributePlan]:
    if not isinstance(value, Mapping) or not all(
        isinstance(w, (Mapping, AttributePlan)) for w in value.values()
    ):
        raise UsageError("attributes are tables of settings", "such as [attributes.age] with gamma = 5")
    return {n: named(f"the column {quoted(n)}", AttributePlan.of, w) for n, w in value.items()}


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


_FOR_ALL = SHARED | {
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
    "clip": truth,
    "shuffle": truth,
    "keep_order": truth,
    "csv": csv_settings,
}

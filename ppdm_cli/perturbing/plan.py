"""What the owner asks for: a plan in the owner's words, from options, a TOML file or a sidecar.

Nothing here looks at data. `settling` turns plan into the attributes of a sidecar.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, get_args

from ppdm_cli.channels import KINDS, SUBSTITUTION, checked_gamma, checked_kind, schemes
from ppdm_cli.domain import MOST_VALUES, Representative
from ppdm_cli.errors import DataError, UsageError, listed, quoted
from ppdm_cli.files import reading
from ppdm_cli.privacy import gamma_from_rhos
from ppdm_cli.settings import decimal, real, truth, whole, whole_or_auto

Rare = Literal["refuse", "merge", "publish"]
LARGEST_PLAN = 16 << 20
"""Bytes of TOML that are read at most."""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{64}}")


@dataclass(frozen=True)
class AttributePlan:
    """What is asked for one attribute; None is "as for all"."""

    gamma: Decimal | None = None
    rho1: float | None = None
    rho2: float | None = None
    bins: int | None = None
    interval: tuple[Any, Any] | None = None
    categories: tuple[Any, ...] | None = None
    edges: tuple[Any, ...] | None = None
    nulls: bool = False
    representative: Representative | None = None
    matrix: str | None = None
    """The kind of its channel."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of that kind."""

    @property
    def declares_domain(self) -> bool:
        return (self.interval, self.categories, self.edges) != (None, None, None)

    def __post_init__(self) -> None:
        if (self.interval, self.categories, self.edges).count(None) < 2:
            raise UsageError("a domain is declared in two ways", "give an interval, categories or edges")
        if self.nulls and not self.declares_domain:
            raise UsageError(
                "nulls are declared without a domain", "declare the domain too, or leave both to the data"
            )
        if self.representative not in (None, *get_args(Representative)):
            raise UsageError(
                f"unknown representative {quoted(self.representative)}",
                f"one of {', '.join(get_args(Representative))}",
            )
        if self.bins is not None:
            checked_bins(self.bins)
        if self.matrix is not None:
            checked_kind(self.matrix)
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

    def own_gamma(self) -> Decimal | float | None:
        """Return the gamma of its own, if any: given, or the largest that its rhos allow."""
        return _gamma(self.gamma, self.rho1, self.rho2)


@dataclass(frozen=True)
class Plan:
    """What is asked for the whole release."""

    gamma: Decimal | None = None
    rho1: float | None = None
    rho2: float | None = None
    record_epsilon: float | None = None
    bins: int | Literal["auto"] = 10
    representative: Representative = "center"
    matrix: str | None = None
    """The kind of channel for all attributes that it suits."""
    scheme: str = SUBSTITUTION
    """`SUBSTITUTION`, or a kind that all attributes have or none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the scheme."""
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    class_: str | None = None
    rare: Rare = "refuse"
    attributes: Mapping[str, AttributePlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bins != "auto":
            checked_bins(self.bins)
        if self.matrix is not None:
            checked_kind(self.matrix)
        self._check_scheme()
        given = [w for w in (self.gamma, self.rho1, self.record_epsilon) if w is not None]
        if len(given) > 1:
            raise UsageError(
                "the privacy is given in several ways",
                "give --gamma, or --rho1 with --rho2, or --record-epsilon",
            )
        self.own_gamma()
        if self.record_epsilon is not None and not 0 < self.record_epsilon < 1e6:
            raise UsageError("the record's epsilon must be above 0", "such as --record-epsilon 8")
        if self.representative not in get_args(Representative):
            raise UsageError(
                f"unknown representative {quoted(self.representative)}",
                f"one of {', '.join(get_args(Representative))}",
            )
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

    def own_gamma(self) -> Decimal | float | None:
        return _gamma(self.gamma, self.rho1, self.rho2)

    @property
    def bins_for_all(self) -> int:
        """Return the number of bins for all attributes, known once `sizing` has replaced "auto"."""
        assert self.bins != "auto"
        return self.bins


def checked_bins(bins: int) -> int:
    if not 2 <= bins <= MOST_VALUES:
        raise UsageError(f"the number of bins must be from 2 to {MOST_VALUES}", "such as --bins 20")
    return bins


def _gamma(gamma: Decimal | None, rho1: float | None, rho2: float | None) -> Decimal | float | None:
    if (rho1 is None) != (rho2 is None):
        raise UsageError("rho1 and rho2 go together", "such as --rho1 0.05 --rho2 0.5")
    if gamma is not None and rho1 is not None:
        raise UsageError("both gamma and rho1, rho2 are given", "give one of them")
    if gamma is not None:
        return checked_gamma(gamma)
    return gamma_from_rhos(rho1, rho2) if rho1 is not None and rho2 is not None else None


_READERS: dict[str, Any] = {
    "gamma": decimal,
    "rho1": real,
    "rho2": real,
    "bins": whole,
    "nulls": truth,
    "representative": str,
    "matrix": str,
}


def attribute_plan(given: Mapping[str, Any]) -> AttributePlan:
    """Return a own from keys and values, as an option or a plan file writes them.

    `domain` is "lo:hi", [lo, hi], "a|b|c" or "@file" (a value a line); `categories` and `edges` lists.
    """
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
    return AttributePlan(**own)


def _domain(value: Any) -> dict[str, Any]:
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return {"interval": tuple(value)}
    if isinstance(value, str) and value.startswith("@"):
        return {"categories": tuple(_lines(Path(value[1:])))}
    if isinstance(value, str) and "|" in value:
        return {"categories": tuple(value.split("|"))}
    if isinstance(value, str) and ":" in value:
        return {"interval": value}
    raise UsageError(
        "a domain is neither an interval nor a list of values",
        "such as domain=0:120, domain=low|middle|high or domain=@file",
    )


def _lines(path: Path) -> list[str]:
    reading(path)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise DataError(
            f"the domain file {quoted(path)} cannot be read: {error.strerror}", "check its name and rights"
        ) from None
    except UnicodeError:
        raise DataError(f"the domain file {quoted(path)} is not in UTF-8", "convert it") from None
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in lines[: -1 if lines[-1] == "" else None]]


def from_plan(path: Path) -> Plan:
    """Return the plan of a TOML plan: settings for all, and a table `attributes.NAME` for each."""
    reading(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_PLAN + 1)
        if len(data) > LARGEST_PLAN:
            raise UsageError(f"the plan {quoted(path)} is larger than {LARGEST_PLAN >> 20} MiB", "shorten it")
        text = data.decode()
        if _LONG_KEY.search(text):  # tomllib takes the square of its length
            raise UsageError(f"the plan {quoted(path)} has a key of too many parts", "mend that line")
        plan = tomllib.loads(text)
    except OSError as error:
        raise DataError(
            f"the plan {quoted(path)} cannot be read: {error.strerror}", "check its name and rights"
        ) from None
    except UnicodeError:
        raise UsageError(f"the plan {quoted(path)} is not in UTF-8", "convert it") from None
    except RecursionError:
        raise UsageError(f"the plan {quoted(path)} is nested too deep", "mend it") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line \d+", str(error))  # the rest of the message may quote a category
        raise UsageError(
            f"the plan {quoted(path)} is not valid TOML ({place[0] if place else 'at its end'})",
            "mend that line",
        ) from None
    readers: dict[str, Any] = {
        "gamma": decimal,
        "rho1": real,
        "rho2": real,
        "record_epsilon": real,
        "bins": whole_or_auto,
        "representative": str,
        "matrix": str,
        "scheme": str,
        "rare": str,
        "class": str,
        "keep": _names,
        "drop": _names,
        "attributes": _attributes,
    }
    settings: dict[str, Any] = {"options": shared_options(plan)}
    for key, value in plan.items():
        if key in settings["options"]:
            continue
        if key in readers:
            settings["class_" if key == "class" else key] = readers[key](value)
        else:
            raise UsageError(
                f"the plan {quoted(path)} has an unknown setting {quoted(key)}",
                f"settings: {listed(readers)}",
            )
    return Plan(**settings)


def shared_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of schemes that are given, read."""
    known = {o: reader for spec in KINDS.values() for o, reader in spec.shared_options.items()}
    return {k: known[k](v) for k, v in given.items() if k in known and v is not None}


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise UsageError("keep and drop take lists of columns", 'such as keep = ["region"]')
    return tuple(value)


def _attributes(value: Any) -> dict[str, AttributePlan]:
    if not isinstance(value, dict) or not all(isinstance(w, dict) for w in value.values()):
        raise UsageError("attributes are tables of settings", "such as [attributes.age] with gamma = 5")
    return {name: attribute_plan(w) for name, w in value.items()}


def merged(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """Return the plan, with what the command line gives laid over it, column by column; None is not given."""
    over = {k: v for k, v in given.items() if v is not None}
    if {"gamma", "rho1", "record_epsilon"} & set(over):
        plan = replace(plan, gamma=None, rho1=None, rho2=None, record_epsilon=None)
    keep, drop = over.get("keep", ()), over.get("drop", ())
    settings = over.get("attributes", {})
    over["options"] = {**plan.options, **over.get("options", {})}
    over["keep"] = _joined(plan.keep, keep, {*drop, *settings})
    over["drop"] = _joined(plan.drop, drop, {*keep, *settings})
    aside = {*keep, *drop}
    over["attributes"] = {n: w for n, w in plan.attributes.items() if n not in aside} | {
        n: _laid_over(plan.attributes.get(n, AttributePlan()), w) for n, w in settings.items()
    }
    return replace(plan, **over)


def _joined(planned: tuple[str, ...], given: Sequence[str], otherwise: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(n for n in planned if n not in otherwise), *given]))


def _laid_over(planned: AttributePlan, given: AttributePlan) -> AttributePlan:
    """Return a column's settings from the plan, with those given instead."""
    own = {f.name: getattr(given, f.name) for f in fields(given) if f.name not in ("nulls", "options")}
    changes = {k: v for k, v in own.items() if v is not None}
    if given.declares_domain:
        changes = {"interval": None, "categories": None, "edges": None, "nulls": given.nulls} | changes
    if given.gamma is not None or given.rho1 is not None:
        changes = {"gamma": None, "rho1": None, "rho2": None} | changes
    changes["options"] = given.options if given.matrix is not None else {**planned.options, **given.options}
    return replace(planned, **changes)

"""What the owner asks for: a plan in the owner's words, from options, a TOML file or a sidecar.

Nothing here looks at data. `resolving` turns a plan into the attributes of a sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from ppdm_cli.channels import KINDS, SUBSTITUTION, schemes
from ppdm_cli.errors import UsageError, listed, quoted, unknown
from ppdm_cli.perturbing.attribute_plan import SHARED, AttributePlan, Settings
from ppdm_cli.perturbing.plan_file import answered, csv_settings, locating, read_toml
from ppdm_cli.perturbing.publishing import read_publish
from ppdm_cli.settings import decimal, named, names, real, truth, whole, whole_or_auto

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

"""Plans for perturbing and comparing: all settings of a release, in one typed record.

Options of the command line, TOML files and keywords of Python fill the same fields, by one reader. Nothing here
looks at data: `resolving` turns a plan into the attributes of a sidecar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, fields, replace

from ppdm_cli.channels import KINDS, SUBSTITUTION, checked_gamma, checked_kind, schemes
from ppdm_cli.display import named, names
from ppdm_cli.domain import CALENDAR, MOST_VALUES, Representative
from ppdm_cli.errors import UsageError, argument, listed, quoted, unknown
from ppdm_cli.perturbing.plan_file import (
    PRIVACY,
    Fields,
    answered,
    converted,
    core,
    csv_settings,
    domain,
    locating,
    publish,
    read_toml,
    values,
    without_questions,
)
from ppdm_cli.privacy import gamma_from_rhos, proposed
from ppdm_cli.sidecar import LONGEST_PREFIX, MOST_PERSON_ROWS, Group, Scheme
from ppdm_cli.tables import Groups, Mapped, Prefixed, Rule, path_of, read_mapping

if TYPE_CHECKING:
    from ppdm_cli.trees import Tree

    TreeLike: TypeAlias = str | Path | Tree
else:
    TreeLike = object  # loaded where it is asked for

Rare = Literal["refuse", "merge", "publish"]
Scale = Literal["log", "sqrt", "month", "quarter", "year", "decade"]
MOST_ROUNDS = 3
_DOMAIN = ("interval", "categories", "edges", "scale", "core")


class SharedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for all attributes, or for one of them, as `perturb` explains them; None is not given."""

    gamma: Decimal | None = None
    rho1: float | None = None
    rho2: float | None = None
    representative: Representative | None = None
    matrix: str | None = None
    options: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        self.own_gamma()
        if self.matrix is not None:
            checked_kind(self.matrix)

    def own_gamma(self) -> Decimal | float | None:
        """Return the gamma that is given, or the largest that the rhos allow; None without either."""
        if (self.rho1 is None) != (self.rho2 is None):
            what = "rho1 and rho2 need each other"
            raise UsageError("rho-alone", what, f"try {argument('rho1', 0.05)} {argument('rho2', 0.5)}")
        if self.gamma is not None and self.rho1 is not None:
            raise UsageError("gamma-and-rhos", "gamma and rho1, rho2 can't be combined", "use one of them")
        if self.gamma is not None:
            return checked_gamma(self.gamma)
        if self.rho1 is None or self.rho2 is None:
            return None
        return gamma_from_rhos(self.rho1, self.rho2)


class AttributePlan(SharedSettings, frozen=True, kw_only=True):
    bins: int | None = None
    """The number of bins that its interval is cut into; a column with at most so many numbers keeps them."""
    interval: tuple[Any, Any] | str | None = None
    """Its domain, from the lowest to the highest value: two values, or their text such as 0:120."""
    categories: tuple[Any, ...] | None = None
    """Its domain, as a list of values."""
    edges: tuple[Any, ...] | None = None
    """Its domain, as the edges of bins."""
    scale: Scale | None = None
    """The scale on which its bins are equally wide, or the period of a calendar that each is."""
    core: tuple[Any, Any] | str | None = None
    """The part of its interval that is cut; the values on either side get one bin each."""
    nulls: bool = False
    """True if null is a value of its domain even if the data have none."""
    data: bool = False
    """True if the plan explicitly leaves its domain to the data."""
    prefix: int | None = None
    """The number of characters of its text that are the value."""
    mapping: Groups | None = None
    """The group that each value goes to, from a file."""
    other: bool = False
    """True if its domain has a group for rare text, and for text that it lacks."""
    N: str | None = None
    """The number of values that a plan's author counted, n for no order: for comparing budgets only."""

    def __post_init__(self) -> None:
        SharedSettings.__post_init__(self)
        _check_bins(self.bins)
        if (self.interval, self.categories, self.edges, self.mapping).count(None) < 3:
            what = "a domain is declared in two ways"
            step = "use an interval, categories, edges or a mapping to groups"
            raise UsageError("domain-declared-twice", what, step)
        if self.prefix is not None and not (1 <= self.prefix <= LONGEST_PREFIX and self.mapping is None):
            what = f"a prefix has 1 to {LONGEST_PREFIX} characters, and can't be combined with a mapping"
            raise UsageError("bad-prefix", what, "try prefix=1")
        if self.scale in CALENDAR and (self.bins, self.core) != (None, None):
            what = f"each {self.scale} is a bin already"
            raise UsageError("bins-of-calendar", what, "leave out bins and core, or the scale")
        if self.cut != (None, None) and self.interval is None and self.scale not in CALENDAR:
            what = "a scale or a core cuts an interval, and none is declared"
            raise UsageError("cut-without-interval", what, "declare it too, such as domain=0:1000000")
        if self.matrix is not None:
            self._check_matrix(self.matrix)

    def _check_matrix(self, kind: str) -> None:
        if self.own_gamma() is not None and not KINDS[kind].takes_gamma:
            what = f"a {kind} matrix is given whole, so it takes no gamma"
            raise UsageError("gamma-of-whole-matrix", what, "leave out one of the two")
        strange = [o for o in self.options if o not in KINDS[kind].options]
        if strange:
            what = f"a {kind} matrix has no {strange[0].replace('_', '-')}"
            raise UsageError("option-of-other-matrix", what, "leave out one of the two")

    @classmethod
    def of(cls, given: Mapping[str, Any] | AttributePlan) -> AttributePlan:
        """Return a plan from settings as an option, a plan file or a notebook writes them.

        `domain` is "lo:hi", [lo, hi], "a|b|c" or "@file" (a value a line); `categories` and `edges` are lists.
        """
        return given if isinstance(given, AttributePlan) else cls(**_read(cls, given))

    @property
    def declares_domain(self) -> bool:
        return (self.interval, self.categories, self.edges, self.mapping) != (None,) * 4

    def gives(self, setting: str) -> bool:
        """Return whether a setting, as plans name it, is given."""
        if setting == "domain":
            return self.declares_domain or self.data
        return getattr(self, setting, self.options.get(setting)) not in (None, False)

    @property
    def group(self) -> Group | UnsetType:
        """Return the grouping of its values, as a sidecar records it."""
        if self.prefix is not None:
            return Group(prefix=self.prefix)
        return UNSET if self.mapping is None else Group(mapping=self.mapping.digest)

    def rule(self, name: str) -> Rule | None:
        if self.prefix is not None:
            return Prefixed(name, self.prefix)
        return None if self.mapping is None else Mapped(name, self.mapping, self.other)

    @property
    def cut(self) -> tuple[Any, Any]:
        """Return the cut of its interval, if it isn't into equal widths."""
        return self.scale, self.core

    @property
    def asks_for_channel(self) -> bool:
        return self.own_gamma() is not None or self.matrix is not None or bool(self.options)

    @property
    def kind(self) -> str | None:
        """Return the requested kind, by name or by a setting that it alone has."""
        if self.matrix is None and self.options:
            return next(k for k, spec in KINDS.items() if set(self.options) <= set(spec.options))
        return self.matrix

    def laid_over(self, planned: AttributePlan) -> AttributePlan:
        """Return a column's settings from a plan, overridden by these if they are given."""
        changes = {k: v for k, v in asdict(self).items() if v is not None and v is not False}
        if self.declares_domain or self.data:
            changes = {**dict.fromkeys(_DOMAIN), "mapping": None, "data": self.data} | changes
            if planned.scale in CALENDAR and (self.bins, self.scale, self.core) == (None,) * 3:
                changes["scale"] = planned.scale  # periods cut any interval
        if self.gamma is not None or self.rho1 is not None:
            changes = {"gamma": None, "rho1": None, "rho2": None} | changes
        changes["options"] = self.options if self.matrix is not None else {**planned.options, **self.options}
        return replace(planned, **changes)


class Plan(SharedSettings, frozen=True, kw_only=True):
    """The settings of the whole release, as `perturb` explains them: from keywords, options or a TOML file."""

    record_epsilon: float | None = None
    publish: int | Literal["all", "auto"] | None = None
    rounds: int | None = None
    class_: str | None = None
    class_in_budget: bool | None = None
    keep: Sequence[str] = ()
    drop: Sequence[str] = ()
    person: str | None = None
    rows_per_person: int | None = None
    bins: int | Literal["auto"] | None = None
    attributes: Mapping[str, AttributePlan] = {}
    together: Mapping[tuple[str, ...], AttributePlan] = {}
    rare: Rare = "refuse"
    open_domains: bool | None = None
    clip: bool | None = None
    strict: bool | None = None
    shuffle: bool | None = None
    keep_order: bool | None = None
    csv: Mapping[str, Any] = {}
    scheme: str = SUBSTITUTION
    noise: str | None = None
    sd: float | str | None = None
    tree: TreeLike | None = None
    innocent: Literal["both", "tia", "lia"] | None = None
    leaves: Literal["all", "heterogeneous"] | None = None
    sd_percent: float | None = None
    percent_of: Literal["value", "sd"] | None = None

    def __post_init__(self) -> None:
        SharedSettings.__post_init__(self)
        if both := sorted({*self.keep} & {*self.drop}):
            raise UsageError("kept-and-dropped", f"{listed(both)} both kept and dropped", "use one of them")
        if self.keeps_tree:
            return  # `NoisePlan` says what goes with it
        self._check_scheme()
        self._check_columns()
        if self.bins != "auto":
            _check_bins(self.bins)
        if sum(getattr(self, n) is not None for n in PRIVACY) > 1:
            raise UsageError(
                "several-budgets",
                "the privacy is given in several ways",
                f"use only one of {argument('record_epsilon')}, {argument('gamma')}, or {argument('rho1')} "
                f"with {argument('rho2')}",
            )
        if self.record_epsilon is not None and not 0 < self.record_epsilon < 1e6:
            raise UsageError("bad-record-epsilon", "the record's epsilon must be above 0", f"try {proposed(2)}")
        if self.shuffle and self.keep_order:
            what = f"{argument('shuffle', True)} and {argument('keep_order', True)} contradict each other"
            raise UsageError("shuffle-and-keep-order", what, "keep only one of them")

    @classmethod
    def of(cls, plan: Plan | Mapping[str, object] | str | Path | None = None, **settings: Any) -> Plan:
        """Return a plan, a mapping of settings or a plan file with other settings laid over it."""
        over = _read(cls, {k: v for k, v in settings.items() if v is not None})
        if isinstance(plan, (str, Path)):
            with locating(path_of(plan)):
                plan = cls(**_read(cls, answered(read_toml(path_of(plan)), over)))
        if not isinstance(plan, Plan):
            plan = cls(**_read(cls, answered(plan or {}, over)))
        if over.get("person") == "":  # nobody's: the answer to a plan that asks
            over |= {"person": None, "rows_per_person": None}
        changes: dict[str, Any] = dict.fromkeys((*PRIVACY, "rho2")) if PRIVACY & {*over} else {}
        if over.get("shuffle") or over.get("keep_order"):
            changes |= {"shuffle": None, "keep_order": None}
        return replace(plan, **changes | over | plan._joined(over))

    @classmethod
    def known(cls, plan: Plan | Mapping[str, object] | str | Path | None) -> Plan:
        """Return a plan, a mapping of settings or a plan file without the questions that it leaves open."""
        read = read_toml(path_of(plan)) if isinstance(plan, (str, Path)) else plan
        return cls.of(without_questions(read) if isinstance(read, Mapping) else read)

    def _joined(self, over: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that add up: lists, and settings by column."""
        keep, drop, own = over.get("keep", ()), over.get("drop", ()), over.get("attributes", {})
        aside = {*keep, *drop, over.get("person")}
        attributes = {n: w for n, w in self.attributes.items() if n not in aside}
        attributes |= {n: w.laid_over(self.attributes.get(n, AttributePlan())) for n, w in own.items()}
        given = over.get("together", {})
        anew = {n for several in given for n in several}
        together = {n: w for n, w in self.together.items() if not anew & set(n)} | given
        csv = {**self.csv} | {
            k: {**self.csv.get(k, {}), **v} if isinstance(v, Mapping) else v
            for k, v in over.get("csv", {}).items()
        }
        return {
            "keep": _either(self.keep, keep, {*drop, *own}),
            "drop": _either(self.drop, drop, {*keep, *own}),
            "attributes": attributes,
            "together": together,
            "csv": csv,
            "options": {**self.options, **over.get("options", {})},
        }

    def _check_columns(self) -> None:
        """Check that no column is asked for in two ways."""
        if doubly := sorted({*self.keep, *self.drop} & {*self.attributes}):
            what = f"settings are given for {listed(doubly)}, but kept or dropped columns aren't perturbed"
            step = f"leave out {argument('keep')} or {argument('drop')}, or the settings"
            raise UsageError("settings-of-column-aside", what, step)
        if self.class_ in self.drop:
            raise UsageError("class-dropped", "the class is dropped", f"use {argument('class_', 'COL')}")
        several = [n for names in self.together for n in names]
        if any(len(names) < 2 for names in self.together) or len(set(several)) < len(several):
            what = f"{argument('together')} takes two or more attributes, each once"
            raise UsageError("bad-together", what, f"try {argument('together', 'age,sex')}")
        if aside := sorted({*several} & {*self.keep, *self.drop}):
            what = f"{listed(aside)} can't be perturbed together with others, because it is kept or dropped"
            raise UsageError("together-and-aside", what, "keep only one of them")
        if self.together and self.scheme != SUBSTITUTION:
            what = "noise is added to each attribute separately"
            step = f"leave out {argument('scheme')}, or {argument('together')}"
            raise UsageError("together-with-noise", what, step)
        own = [n for n in several if n in self.attributes and self.attributes[n].asks_for_channel]
        bare: dict[str, Any] = {"gamma": None, "rho1": None, "rho2": None, "matrix": None, "options": {}}
        if own or any(replace(w, **bare) != AttributePlan() for w in self.together.values()):
            raise UsageError(
                "settings-of-one-together",
                "attributes that are perturbed together have one gamma and one matrix, and each its own domain",
                f"try {argument('together', 'age,sex:gamma=9')} {argument('attributes', 'age:bins=5')}",
            )

    def _check_scheme(self) -> None:
        """Check that a scheme's settings are given with it, and those of channels without it."""
        if self.scheme not in schemes():
            raise unknown("scheme", self.scheme, schemes())
        if lost := [n for n in ("tree", "innocent", "leaves", "sd_percent", "percent_of") if getattr(self, n)]:
            what = f"{listed(lost)} need noise that keeps a tree"
            step = f"use {argument('scheme', 'class-random')}, or leave them out"
            raise UsageError("tree-noise-setting-alone", what, step)
        if self.scheme == SUBSTITUTION:
            strange = [*self.kind_options, *(o for w in self.attributes.values() for o in w.options)]
            for kind in schemes()[1:]:
                if any(o in KINDS[kind].shared_options for o in strange):
                    what = f"{' and '.join(KINDS[kind].shared_options)} need {kind} noise"
                    step = f"add {argument('scheme', kind)}, or leave them out"
                    raise UsageError("noise-setting-alone", what, step)
            return
        spec = KINDS[self.scheme]
        asked = [self.gamma, self.rho1, self.rho2, self.record_epsilon, self.matrix]
        for own in self.attributes.values():
            asked += [own.gamma, own.rho1, own.rho2, own.matrix]
            asked += [o for o in own.options if o not in spec.options]
        if any(a is not None for a in asked) and not spec.takes_gamma:
            what = f"{self.scheme} noise has no matrix to choose, and no gamma, rho or epsilon holds for it"
            raise UsageError("gamma-of-noise", what, f"leave them out, or leave out {argument('scheme')}")
        if self.open_domains:
            what = f"{self.scheme} noise needs numbers, but {argument('open_domains', True)} adds null"
            raise UsageError("open-domains-of-noise", what, f"leave out {argument('open_domains', True)}")
        for name, reader in spec.shared_options.items():
            if name not in spec.options and name not in self.kind_options:
                reader(None)  # raises the option's own error

    def check_recipes(self) -> None:
        """Check the settings that go with a budget for the record, and those of persons."""
        budget, publish = argument("record_epsilon", 2), argument("publish")
        if self.publish not in (None, "all") and not (self.record_epsilon is not None and self.is_plain):
            what = "a record can publish a few attributes only under a budget for the whole record"
            step = f"add {budget} to {publish}, and leave out gamma, matrix, scheme and together"
            raise UsageError("publish-without-budget", what, step)
        if self.class_in_budget and (self.class_ is None or self.class_ in self.keep):
            what = f"{argument('class_in_budget', True)} perturbs the class, but none is named or it is kept"
            step = f"use {argument('class_')} COL, and leave out {argument('keep')} for it"
            raise UsageError("no-class-in-budget", what, step)
        if self.rounds is not None and not 2 <= self.rounds <= MOST_ROUNDS:
            what = f"the number of rounds must be from 2 to {MOST_ROUNDS}"
            raise UsageError("bad-rounds", what, f"try {argument('rounds', 3)}")
        if self.rounds is not None and (self.few is None or self.class_ is None):
            raise UsageError(
                "rounds-without-choice",
                "rounds find the few attributes that reveal most about a class, under a budget for the record",
                f"add {argument('class_', 'COL')} {budget} {argument('publish', 'auto')}, or leave out rounds",
            )
        if self.rows_per_person is not None and not 1 <= self.rows_per_person <= MOST_PERSON_ROWS:
            what = f"the rows of a person must be from 1 to {MOST_PERSON_ROWS:,}"
            raise UsageError("bad-rows-per-person", what, f"try {argument('rows_per_person', 1)}")
        if (self.person is None) != (self.rows_per_person is None):
            what = f"{argument('person')} and {argument('rows_per_person')} need each other"
            step = f"try {argument('person', 'patient')} {argument('rows_per_person', 2)}"
            raise UsageError("person-without-rows", what, step)

    @property
    def few(self) -> int | Literal["auto"] | None:
        """Return the number of attributes that a record publishes; None for all, each by its own channel."""
        if self.publish == "all" or self.record_epsilon is None:
            return None
        return ("auto" if self.is_plain else None) if self.publish is None else self.publish

    def settings_of(self, name: str, text: bool = True) -> AttributePlan:
        """Return the settings of an attribute, of text or not, its own and those for all."""
        own = self.attributes.get(name, AttributePlan())
        return replace(own, nulls=True, other=own.other or text) if self.open_domains else own

    @property
    def is_plain(self) -> bool:
        own = any(w.asks_for_channel for w in self.attributes.values())
        return not (own or self.together or self.matrix or self.scheme != SUBSTITUTION)

    @property
    def kind_options(self) -> dict[str, Any]:
        """Return the settings that a kind of channel has for all attributes."""
        own = {n: getattr(self, n) for n in ("noise", "sd")}
        return {**self.options, **{n: _shared_options()[n](v) for n, v in own.items() if v is not None}}

    @property
    def keeps_tree(self) -> bool:
        return any(s in get_args(Scheme) for s in self.schemes)

    @property
    def schemes(self) -> tuple[str, ...]:
        return tuple(s.strip() for s in self.scheme.split(","))

    @property
    def bins_for_all(self) -> int:
        """Return the number of bins for all attributes, known once `sized` has replaced "auto"."""
        assert self.bins != "auto"
        return self.bins or 10


def _check_bins(bins: int | None) -> None:
    if bins is not None and not 2 <= bins <= MOST_VALUES:
        raise UsageError(
            "bad-bins", f"the number of bins must be from 2 to {MOST_VALUES}", f"try {argument('bins', 20)}"
        )


def _either(planned: Sequence[str], given: Sequence[str], otherwise: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(n for n in planned if n not in otherwise), *given]))


# -- one reader for options, TOML and keywords


def _read(record: type[SharedSettings], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as the fields of a record; those of one kind of channel are its `options`."""
    types, of_kinds = _types(record), _shared_options() if record is Plan else _own_options()
    found, options = dict[str, Any](), dict(given.get("options") or {})
    for key, value in given.items():
        name = "class_" if key == "class" else key
        if (record, name) in _READERS:
            read = _READERS[record, name](value)
            found |= read if isinstance(read, Fields) else {name: read}
        elif name in types and name != "options":
            found[name] = converted(name, types[name], value)
        elif key in of_kinds:
            uri = isinstance(value, str) and "://" in value
            options[key] = named(key, of_kinds[key], path_of(value) if uri else value)
        elif key != "options":
            written = [n.rstrip("_") for n in types if n not in _UNWRITTEN]
            whose = " of a plan" if record is Plan else " of an attribute"
            raise unknown("setting", key, [*written, *of_kinds], whose)
    return found | {"options": options}


_UNWRITTEN = ("options", "interval", "data")
"""Fields that plans do not name: `domain` fills two of them, and options have names of their own."""


@cache
def _types(record: type[SharedSettings]) -> dict[str, Any]:
    return {f.name: f.type for f in fields(record)}


def _own_options() -> dict[str, Callable[[Any], Any]]:
    return {o: reader for spec in KINDS.values() for o, reader in spec.options.items()}


def _shared_options() -> dict[str, Callable[[Any], Any]]:
    return {o: reader for spec in KINDS.values() for o, reader in spec.shared_options.items()}


def _attributes(value: Any) -> dict[str, AttributePlan]:
    whole = isinstance(value, Mapping) and all(isinstance(w, (Mapping, AttributePlan)) for w in value.values())
    if not whole:
        raise UsageError(
            "not-tables", "attributes are tables of settings", "try [attributes.age] with gamma = 5"
        )
    return {n: named(f"the column {quoted(n)}", AttributePlan.of, w) for n, w in value.items()}


def _together(value: object) -> dict[tuple[str, ...], AttributePlan]:
    """Read lists of names, or tables of settings with the names as `attributes`."""
    if isinstance(value, Mapping):
        return dict(value)
    found: dict[tuple[str, ...], AttributePlan] = {}
    for given in value if isinstance(value, (list, tuple)) else [value]:
        settings = dict(given) if isinstance(given, Mapping) else {"attributes": given}
        several = names("together", settings.pop("attributes", ()))
        found[several] = AttributePlan.of(settings)
    return found


_READERS: dict[tuple[type[SharedSettings], str], Callable[[Any], Any]] = {
    (AttributePlan, "domain"): domain,
    (AttributePlan, "categories"): values("categories"),
    (AttributePlan, "edges"): values("edges"),
    (AttributePlan, "core"): core,
    (AttributePlan, "mapping"): read_mapping,
    (Plan, "keep"): lambda value: names("keep", value),
    (Plan, "drop"): lambda value: names("drop", value),
    (Plan, "attributes"): _attributes,
    (Plan, "together"): _together,
    (Plan, "publish"): publish,
    (Plan, "csv"): csv_settings,
    (Plan, "tree"): lambda value: value,
}
"""The readers of settings whose text differs from the types of their fields."""

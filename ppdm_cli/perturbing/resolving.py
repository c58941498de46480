"""Resolved plans for `perturb`: the columns that take part, their domains and channels, and the promise.

An attribute gets its own channel, or the one for all if it suits, else the default. Bins of numbers and times
are in order, and so are declared intervals. Other single numbers may be codes (a zip code, a car's make), so
they get a kind for values in order only if the attribute's own settings ask for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal, Overflow
from functools import cached_property
from itertools import combinations
from math import exp, gcd, inf, log, prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pyarrow as pa
from msgspec import UNSET, UnsetType

from ppdm_cli import dtypes
from ppdm_cli.channels import DEFAULT_KIND, KINDS, SUBSTITUTION, Beyond, Channel, Request, Spec
from ppdm_cli.domain import OTHER, Bins, Categories, Domain, Product
from ppdm_cli.engine import Facts
from ppdm_cli.errors import PpdmError, RefusedError, UsageError, argument, listed, quoted, unknown_column
from ppdm_cli.perturbing.domain_choice import ResolvedDomain, declared, from_data, refuse_rare
from ppdm_cli.perturbing.plan import AttributePlan, Plan
from ppdm_cli.perturbing.recipe_choice import RecipeMaker, Rounds, digested
from ppdm_cli.privacy import proposed
from ppdm_cli.releases import RecipeInUse, in_rounds, recipes_in_use
from ppdm_cli.sidecar import COLUMN, UNPROMISED, Attribute, CoinsOrigin, Outside, Privacy, Recipe, Scheme

if TYPE_CHECKING:
    from ppdm_cli.joint import AttributeScores

MOST_TOGETHER = 1 << 20
"""The most combinations of attributes that are perturbed together."""
MOST_LABELS = 1000
"""The most values of a class of numbers, and of a kept class in the sidecar."""


@dataclass(frozen=True)
class ResolvedPlan:
    """The decisions before the first record is perturbed."""

    attributes: list[Attribute]
    recipes: list[Recipe]
    """The recipes of records; none if a scheme alters values without channels."""
    class_: str | None
    dropped: list[str]
    merging: frozenset[str] = frozenset()
    """Attributes whose rare values are merged into a more common one."""
    rounds: Rounds | None = None
    """The rounds that records are split into, if any, with all that determines their recipes."""
    typed: tuple[str, ...] = ()
    """Attributes with a declared domain, whose types the cells of a CSV decide."""
    scheme: tuple[Scheme, ...] = ()
    """The schemes of noise that keeps a tree; nothing is promised of it."""

    @property
    def columns(self) -> list[str]:
        return [a.name for a in self.attributes]

    @cached_property
    def in_use(self) -> tuple[RecipeInUse, ...]:
        return recipes_in_use(self.recipes, self.attributes)

    @property
    def channels(self) -> list[Channel]:
        return [c for d in self.in_use for c in d.channels]

    @cached_property
    def through(self) -> dict[str, Channel]:
        return {n: c for c in self.channels for n in c.attributes}

    @property
    def facts(self) -> list[Any]:
        """Return the facts about the codes of all perturbed attributes."""
        return [attribute_facts(a) for a in self.attributes if a.role == "perturbed"]

    @cached_property
    def design(self) -> str:
        """Return the digest of the recipes and their domains; empty if all records have one recipe."""
        several = sum(r.members for r in self.recipes) > 1
        return digested(self.recipes, self.facts) if several else ""

    @cached_property
    def shares(self) -> list[int]:
        """Return the relative numbers of records in each round, also for rounds to come."""
        sums = [sum(d.weight for d in r) for r in in_rounds(self.in_use)]
        return [s // gcd(*sums) for s in sums] if self.rounds is None else self.rounds.shares

    def with_round(self, scores: AttributeScores) -> ResolvedPlan:
        """Return the plan with the recipes of one more round, from the rounds so far."""
        assert self.rounds is not None
        recipes = self.rounds.further(self.recipes, scores)
        beyond = self.rounds.maker.beyond(recipes)
        attributes = [a.changed(beyond=beyond.get(a.name, UNSET)) for a in self.attributes]
        return replace(self, attributes=attributes, recipes=recipes)


def check_columns(schema: pa.Schema, plan: Plan, identifier: str | None) -> None:
    """Check that every named column exists, and that every column that takes part can."""
    known = {*schema.names}
    for option, names in (
        ("keep", plan.keep),
        ("drop", plan.drop),
        ("class_", [plan.class_] if plan.class_ else []),
        ("attributes", list(plan.attributes)),
        ("together", [n for several in plan.together for n in several]),
        ("id", [identifier] if identifier else []),
        ("person", [plan.person] if plan.person else []),
    ):
        for name in names:
            if name not in known:
                raise unknown_column(name, schema.names, option)
    named = {*plan.attributes, *(n for several in plan.together for n in several), plan.class_}
    for both in ({identifier, plan.person} - {None}) & named:
        what = f"{quoted(str(both))} is both an identifier and an attribute"
        step = "use another column as the attribute, because an identifier is dropped"
        raise UsageError("identifier-as-attribute", what, step)
    own = plan.attributes.get(plan.class_ or "")
    if own is not None and (own.bins, own.edges, *own.cut) != (None,) * 4:
        what = f"the class {quoted(plan.class_)} can't have bins: its values are its labels"
        raise UsageError("class-with-bins", what, "leave the bins out, or name a column of groups as the class")
    for column in schema:
        if column.name not in plan.drop:
            dtypes.normal(column.type, column.name)
    for_all = plan.own_gamma() is not None or plan.record_epsilon is not None
    without: list[str] = []
    for names, own in units(perturbed_columns(schema, plan, identifier), plan).items():
        kind = kind_for(own, plan)
        if kind.takes_gamma and not for_all and own.own_gamma() is None:
            without += names
        for name in names:
            kind.check(name, dtypes.normal(schema.field(name).type, name), request(None, own, plan))
    if without:
        what = f"no gamma is given for {listed(without)}, and gamma has no default"
        raise UsageError("no-gamma", what, f"use {proposed(1, 2)}")


def undeclared(schema: pa.Schema, plan: Plan, identifier: str | None) -> dict[str, int]:
    """Return the columns whose domain must come from the data, and the most values that are few."""
    return {
        n: _most_values(n, own, plan)
        for n, own in perturbed_columns(schema, plan, identifier).items()
        if not own.declares_domain
    }


def _most_values(name: str, own: AttributePlan, plan: Plan) -> int:
    """Return the number of values that a column of numbers may have without being binned."""
    return MOST_LABELS if name == plan.class_ else own.bins or plan.bins_for_all


def perturbed_columns(schema: pa.Schema, plan: Plan, identifier: str | None) -> dict[str, AttributePlan]:
    aside = {*plan.keep, *plan.drop, identifier, plan.person}
    return {f.name: plan.settings_of(f.name, pa.types.is_string(f.type)) for f in schema if f.name not in aside}


def units(perturbed: Mapping[str, AttributePlan], plan: Plan) -> dict[tuple[str, ...], AttributePlan]:
    """Return the settings of each channel by its attributes, single or together, in the columns' order."""
    together = {n: names for names in plan.together for n in names}
    found = {}
    for name, own in perturbed.items():
        names = together.get(name, (name,))
        found[names] = plan.together.get(names, own)
    return found


def resolve(
    schema: pa.Schema, plan: Plan, identifier: str | None, facts: Mapping[str, Facts], records: int = 0
) -> ResolvedPlan:
    """Return the plan; `facts` has the columns of `undeclared`, and a kept class."""
    perturbed = perturbed_columns(schema, plan, identifier)
    if not perturbed:
        raise nothing_perturbed()
    read_domains = {n: facts[n] for n in undeclared(schema, plan, identifier)}
    refuse_rare(read_domains, perturbed, plan.rare, "records" if plan.person is None else "persons")
    domains = {n: _domain(schema, n, own, plan, facts) for n, own in perturbed.items()}
    rounds: Rounds | None = None
    if (number := plan.few) is not None:
        known = {n: (domains[n].domain, neighbours_alike(domains[n].domain, w)) for n, w in perturbed.items()}
        maker = RecipeMaker.of(known, plan.class_, plan.record_epsilon or 0.0)
        if plan.rounds is None:
            recipes = maker.recipes([*combinations(maker.names, maker.number(number, records))])
        else:
            rounds = Rounds.of(maker, plan.rounds, number)
            recipes = rounds.first()
        beyond = maker.beyond(recipes)
        if COLUMN in schema.names and COLUMN not in plan.drop:
            what = f"a column has the reserved name {quoted(COLUMN)}"
            raise UsageError("recipe-column-taken", what, f"rename it, or add {argument('drop', COLUMN)}")
        if sum(r.members for r in recipes) == 1:
            recipes = [Recipe([*recipes[0].specs])]
    else:
        specs, beyond = _specs(schema, plan, perturbed, {n: d.domain for n, d in domains.items()})
        recipes = [Recipe([*specs])]
    attributes = list[Attribute]()
    for name in schema.names:
        kind = schema.field(name).type
        if name in perturbed:
            origin: Literal["declared", "data"] = "declared" if perturbed[name].declares_domain else "data"
            attribute = described(name, domains[name].domain, origin, beyond.get(name, UNSET))
            outside = _outside(domains[name], perturbed[name], bool(plan.clip))
            attributes.append(attribute.changed(group=perturbed[name].group, outside=outside))
        elif name in plan.keep:
            attributes.append(_kept(name, kind, facts.get(name) if name == plan.class_ else None))
    aside = {*plan.drop, *({identifier, plan.person} - {*plan.keep})}
    dropped = [n for n in schema.names if n in aside]
    merging = frozenset(n for n, s in domains.items() if s.merges)
    return ResolvedPlan(attributes, recipes, plan.class_, dropped, merging, rounds)


def _specs(
    schema: pa.Schema, plan: Plan, perturbed: Mapping[str, AttributePlan], domains: Mapping[str, Domain]
) -> tuple[list[Spec], dict[str, Any]]:
    """Return the requested channels, and the values that each publishes beyond its domain."""
    gammas, beyond, specs = gammas_of(perturbed, plan), dict[str, Any](), []
    for names, own in units(perturbed, plan).items():
        name = " x ".join(names)
        # labels may be mere names: of a class only a kind asked for by its name is meant
        for_all = plan if name != plan.class_ else msgspec.structs.replace(plan, matrix=None)
        try:
            domain = domains[name] if len(names) == 1 else _product([domains[n] for n in names])
            spec, beyond[name] = chosen(name, domain, gammas.get(names), own, for_all)
        except PpdmError as error:
            raise error.at(f"the column {quoted(name)}") from None
        specs.append(msgspec.structs.replace(spec, attributes=list(names)))
        if len(names) > 1 and name in schema.names:
            what = f"{listed(names)} together have the name of another column, {quoted(name)}"
            raise RefusedError("name-taken", what, "rename one of them")
    return specs, beyond


def _product(parts: Sequence[Domain]) -> Product:
    """Return the product of the domains of attributes that are perturbed together."""
    if any(p.size < 2 for p in parts) or prod(p.size for p in parts) > MOST_TOGETHER:
        raise RefusedError(
            "too-many-together",
            f"attributes that are perturbed together have two values or more each, and at most {MOST_TOGETHER} "
            "combinations",
            "leave one out, or use fewer bins",
        )
    return Product(parts)


def _domain(
    schema: pa.Schema, name: str, own: AttributePlan, plan: Plan, facts: Mapping[str, Facts]
) -> ResolvedDomain:
    kind = schema.field(name).type
    bins = _most_values(name, own, plan)
    representative = own.representative or plan.representative or "center"
    if own.declares_domain:
        settled = ResolvedDomain(declared(name, kind, own, bins, representative))
    else:
        settled = from_data(name, kind, facts[name], bins, representative, plan.rare, own)
    if name == plan.class_ and isinstance(settled.domain, Bins):
        what = f"the class {quoted(name)} has more than {MOST_LABELS} values, and a class is never binned"
        step = "name another class, or make a column of its groups first"
        raise RefusedError("class-of-many-values", what, step)
    return settled


def gammas_of(perturbed: Mapping[str, AttributePlan], plan: Plan) -> dict[tuple[str, ...], Decimal | float]:
    """Return each channel's gamma: its own, the one for all, or its part of the budget (a float is derived)."""
    asked = units(perturbed, plan)
    given: dict[tuple[str, ...], Decimal | float | None] = {n: w.own_gamma() for n, w in asked.items()}
    # attributes that are perturbed together get the parts of all of them
    open_ones = {n: len(n) for n, g in given.items() if g is None}
    common = plan.own_gamma()
    if plan.record_epsilon is not None:  # else `check_columns` has seen to a gamma for each
        for names, own in asked.items():
            if not kind_for(own, plan).takes_gamma:
                raise UsageError(
                    "matrix-given-whole",
                    f"the matrix of {listed(names)} is given whole, so it can't share the record's epsilon",
                    f"use {argument('gamma', 9)}, and see what `ppdm perturb` promises for the record",
                )
        spent = sum(log(g) for g in given.values() if g is not None)
        left = plan.record_epsilon - spent
        if left < 0 or (open_ones and left == 0):
            what = "the attributes with a gamma of their own use up the record's epsilon"
            step = f"use smaller gammas, or a larger {argument('record_epsilon')}"
            raise RefusedError("budget-used-up", what, step)
        each = left / max(sum(open_ones.values()), 1)
        return {n: exp(min(each * len(n), 700.0)) if g is None else g for n, g in given.items()}
    chosen = {names: common if gamma is None else gamma for names, gamma in given.items()}
    return {names: gamma for names, gamma in chosen.items() if gamma is not None}


def described(
    name: str, domain: Domain, origin: Literal["declared", "data"], beyond: Beyond | UnsetType = UNSET
) -> Attribute:
    """Return a perturbed attribute as the sidecar writes it."""
    fields: dict[str, Any] = domain.written()
    if isinstance(domain, Bins):
        fields["representative"] = domain.representative
    made = Attribute(name=name, role="perturbed", domain_from=origin, beyond=beyond, **fields)
    return made.of_domain(domain)


def _outside(settled: ResolvedDomain, own: AttributePlan, clip: bool) -> Outside | UnsetType:
    """Return the treatment of values outside a domain; unset if they are refused."""
    pools = own.other or settled.merges
    if pools and isinstance(settled.domain, Categories) and OTHER in settled.domain.values:
        return "other"
    if settled.merges:
        return "nearest"
    return clipped(settled.domain) if clip else UNSET


def clipped(domain: Domain) -> Outside | UnsetType:
    if not dtypes.is_discrete(domain.kind):
        return "nearest"
    return "null" if domain.nulls else UNSET


def _kept(name: str, kind: pa.DataType, facts: Facts | None) -> Attribute:
    """Return a kept column; a class lists its labels, which are public with it."""
    if facts is not None and facts.values:
        labels = Categories(kind, sorted(facts.values), facts.nulls > 0)
        return Attribute(name=name, role="kept", **labels.written())
    continuous = not dtypes.is_discrete(kind)
    return Attribute(name=name, role="kept", type="continuous" if continuous else "discrete", dtype=str(kind))


def nothing_perturbed() -> RefusedError:
    return RefusedError(
        "nothing-perturbed",
        "every column is kept or dropped: nothing would be perturbed",
        "leave at least one attribute to be perturbed",
    )


def privacy(
    plan: ResolvedPlan, coins: CoinsOrigin, copies: int = 1, also: Mapping[str, Any] | None = None
) -> Privacy:
    """Return the promise over a record, or a person's rows, in all copies; `also` is beyond the plan."""
    kept, also = [a.name for a in plan.attributes if a.role == "kept"], also or {}
    rows: int = also.get("rows", 1)

    def promise(gamma: Any, epsilon: Any) -> Privacy:
        return Privacy("person" if "rows" in also else "record", gamma, epsilon, kept, coins, **also)

    if coins in UNPROMISED or plan.scheme:
        return promise(None, None)
    product, context = Decimal(1), Context(prec=6, rounding=ROUND_CEILING, traps=[Overflow], Emax=300)
    worst = max(plan.in_use, key=attrgetter("epsilon"))
    gammas = [channel.matrix.amplification for channel in worst.channels] * (copies * rows)
    if inf in gammas:
        return promise("inf", "inf")
    # both rounded up: a promise is never better than the matrices
    epsilon = float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(sum(map(log, gammas)))))
    try:
        for gamma in gammas:
            product = context.multiply(product, Decimal(repr(gamma)))
    except Overflow:
        return promise("inf", epsilon)
    whole = product == product.to_integral_value() and product < 10**15
    return promise(int(product) if whole else float(product), epsilon)


def neighbours_alike(domain: Domain, own: AttributePlan) -> bool:
    """Return whether neighbours among an attribute's values are alike."""
    return isinstance(domain, Bins) or own.interval is not None


def kind_for(own: AttributePlan, plan: Plan) -> type[Spec]:
    """Return the requested kind of an attribute, its own or that for all."""
    if plan.scheme != SUBSTITUTION:
        return KINDS[plan.scheme]
    return KINDS[own.kind or plan.matrix or DEFAULT_KIND]


def request(gamma: Decimal | float | None, own: AttributePlan, plan: Plan) -> Request:
    """Return the request for an attribute's channel, its own settings laid over those for all."""
    return Request(gamma, {**plan.kind_options, **own.options})


def chosen(
    name: str, domain: Domain, gamma: Decimal | float | None, own: AttributePlan, plan: Plan
) -> tuple[Spec, Beyond | UnsetType]:
    """Return the channel, checked, and the values that it publishes beyond the domain."""
    kind, asked = kind_for(own, plan), request(gamma, own, plan)
    if own.kind is not None or kind.everywhere:
        return kind.asked(name, domain, asked)
    if not kind.suits(domain, neighbours_alike(domain, own)):
        return KINDS[DEFAULT_KIND].asked(name, domain, asked)
    try:
        return kind.asked(name, domain, asked)
    except RefusedError:
        if kind.kind == DEFAULT_KIND:
            raise
        # asked for all, a kind goes to those that can have it
        return KINDS[DEFAULT_KIND].asked(name, domain, asked)


def attribute_facts(attribute: Attribute) -> tuple[Any, ...]:
    a = attribute
    return (a.name, a.dtype, _given(a.edges), _given(a.categories), _given(a.nulls))


def _given(value: object) -> Any:
    return None if value is UNSET else value

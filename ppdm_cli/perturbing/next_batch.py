"""The plan of an earlier release for the next batch of the same table (--like).

It has all that protected the earlier release. Another plan, such as the one that made that release, may add
protection and describe how the data are read. Any other contradiction is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import msgspec
import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from ppdm_cli import dtypes
from ppdm_cli.channels import SUBSTITUTION
from ppdm_cli.coins import Key
from ppdm_cli.domain import CALENDAR, starts
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, quoted
from ppdm_cli.perturbing.plan import AttributePlan, Plan
from ppdm_cli.perturbing.resolving import ResolvedPlan, check_columns, clipped, nothing_perturbed, resolve
from ppdm_cli.releases import RecipeInUse, in_rounds, opened
from ppdm_cli.sidecar import Attribute, Sidecar

_COMPARED = ("type", "N", "edges", "categories", "nulls", "representative", "group")


def carried(earlier: Sidecar, asked: Plan, key: Key, copies: int) -> Plan:
    """Return the plan with the earlier release's person, rows and random order; none may be dropped."""
    before = earlier.privacy
    if earlier.stage != "perturbed" or before is UNSET:
        what = f"the sidecar is at stage {earlier.stage!r}, so it holds no owner's plan"
        raise MismatchError("no-owners-plan", what, "name the sidecar of a perturbed release")
    if before.person is not UNSET and before.rows is not UNSET:
        if asked.person not in (None, before.person):
            raise _other(argument("person"), quoted(asked.person), quoted(before.person))
        rows = before.rows if asked.rows_per_person is None else asked.rows_per_person
        if rows > before.rows:
            raise _other(argument("rows_per_person"), rows, before.rows)
        asked = replace(asked, person=before.person, rows_per_person=rows)
    elif asked.person == "":
        asked = replace(asked, person=None)
    if before.shuffled:
        if asked.keep_order:
            raise _other("the order of the rows", "that of the data", "random")
        asked = replace(asked, shuffle=True)
    if copies > copies_of(earlier):
        raise _other(argument("copies"), copies, copies_of(earlier))
    if before.key not in (UNSET, key.mark) and key.origin != "seeded":
        raise RefusedError(
            "other-key",
            "the earlier release has another key: people in both would get second answers, "
            "which spends its epsilon again",
            f"add its {argument('key_file')} and {argument('id')}, or publish without {argument('like')}",
        )
    return asked


def check_identifier(earlier: Sidecar, identifier: str | None) -> None:
    """Check that records are known by the earlier release's column: another would give second answers."""
    before = earlier.privacy.id if earlier.privacy is not UNSET else UNSET
    if identifier is not None and before not in (UNSET, identifier):
        raise RefusedError(
            "other-identifier",
            f"the earlier release knows records by {quoted(before)}: under {quoted(identifier)} people in both "
            "would get second answers, at its epsilon again",
            f"use {argument('id', str(before))}, or publish without {argument('like')}",
        )


def copies_of(sidecar: Sidecar) -> int:
    return 1 if sidecar.copy is UNSET else sidecar.copy.of


def _other(what: str, asked: object = None, before: object = None, option: str = "") -> UsageError:
    """Return the error for a setting that contradicts the earlier release."""
    message = f"with {argument('like')}, {what} can't be {asked}, because it is {before} in the earlier release"
    return UsageError(
        "unlike-earlier",
        f"with {argument('like')}, {what} can't differ from the earlier release" if asked is None else message,
        f"remove {option or 'it'} from the plan or the options, or publish without {argument('like')}",
    )


def like(earlier: Sidecar, schema: pa.Schema, asked: Plan) -> ResolvedPlan:
    """Return an earlier release's plan for the next batch, which drops other columns; clips if asked."""
    for name in [*earlier.by_name, *[asked.person] * (asked.person is not None)]:
        if name not in schema.names:
            what = f"the earlier release has the column {quoted(name)}, which the data does not have"
            raise MismatchError("column-missing", what, "use the next batch of the same table")
    for attribute in earlier.attributes:
        found = schema.field(attribute.name).type
        if str(found) != attribute.dtype:
            raise MismatchError(
                "column-type",
                f"the column {quoted(attribute.name)} is of type {found}, in the earlier "
                f"release {attribute.dtype}",
                f"cast it, or declare it, such as {argument('type', attribute.dtype, attribute.name)}",
            )
    names = earlier.by_name
    attributes = [names[n] for n in schema.names if n in names]
    if asked.clip:
        attributes = [
            a.changed(outside=clipped(a.domain)) if a.role == "perturbed" and a.outside is UNSET else a
            for a in attributes
        ]
    if not any(a.role == "perturbed" for a in attributes):
        raise nothing_perturbed()
    _check_agrees(earlier, asked, schema)
    class_ = earlier.class_ if isinstance(earlier.class_, str) else None
    merging = frozenset(a.name for a in attributes if a.outside == "other")
    dropped = [n for n in schema.names if n not in names]
    return ResolvedPlan(attributes, list(earlier.recipes), class_, dropped, merging)


def _check_agrees(earlier: Sidecar, asked: Plan, schema: pa.Schema) -> None:
    """Check that the plan makes the earlier release's attributes and laws, if it states them.

    Settings that it leaves open are the earlier release's, above all domains from the data.
    """
    _check_roles(earlier, asked)
    filled, of_laws = _filled(earlier, asked, schema), _asks_for_laws(asked)
    if of_laws:
        _check_has_gamma(asked)
        check_columns(schema, filled, None)
    made = resolve(schema, filled if of_laws else replace(filled, gamma=Decimal(2)), None, {})
    for attribute in (a for a in made.attributes if a.role == "perturbed"):
        before = earlier.by_name[attribute.name]
        for part in _COMPARED:
            ours, theirs = getattr(attribute, part), getattr(before, part)
            if ours != theirs and not (part == "group" and ours is UNSET):
                pair = (ours, theirs) if part in ("N", "nulls", "representative") else ()
                raise _other(f"{part} of the column {quoted(attribute.name)}", *pair)
    if of_laws:
        _check_laws(earlier, made)


def _check_roles(earlier: Sidecar, asked: Plan) -> None:
    """Check the settings of columns by name, and of values outside their domains."""
    named = {*asked.attributes, *(n for several in asked.together for n in several)}
    in_budget = [str(earlier.class_)] * bool(asked.class_in_budget)
    roles = {"kept": asked.keep, "dropped": asked.drop, "perturbed": [*sorted(named), *in_budget]}
    for role, names in roles.items():
        for name in names:
            was = earlier.by_name[name].role if name in earlier.by_name else "dropped"
            if role != was:
                option = argument({"kept": "keep", "dropped": "drop"}.get(role, "attributes"), name)
                raise _other(f"the column {quoted(name)}", role, was, option)
    if asked.class_ not in (None, earlier.class_):
        other = "none" if earlier.class_ is UNSET else quoted(earlier.class_)
        raise _other("the class", quoted(asked.class_), other)
    if asked.rounds not in (None, rounds := len(in_rounds(opened(earlier).recipes))):
        raise _other(argument("rounds"), asked.rounds, rounds)
    for name, own in _left_open(earlier, asked).items():
        before, most = earlier.by_name[name], own.bins or asked.bins
        if isinstance(most, int) and before.edges is not UNSET and before.domain.ordinary > most:
            raise _other(f"the number of bins of {quoted(name)}", most, before.domain.ordinary)
        if own.scale in CALENDAR and not _is_calendar(before, CALENDAR[str(own.scale)]):
            raise _other(f"scale={own.scale} for the column {quoted(name)}")
        if asked.rare == "publish" and before.outside == "other" and not own.other:
            raise _other(argument("rare"), "publish", f"merge for {quoted(name)}")


def _is_calendar(attribute: Attribute, months: int) -> bool:
    """Return whether bins are periods of so many months."""
    marks = attribute.domain.marks
    dated = attribute.edges is not UNSET and dtypes.is_dated(attribute.kind)
    return dated and marks[:-1] == starts(marks[0], marks[-2], months, attribute.kind)[:-1]


def _left_open(earlier: Sidecar, asked: Plan) -> dict[str, AttributePlan]:
    """Return the settings of the attributes whose domain no plan declares."""
    own = {a.name: asked.attributes.get(a.name, AttributePlan()) for a in earlier.perturbed}
    return {n: w for n, w in own.items() if not w.declares_domain}


def _asks_for_laws(asked: Plan) -> bool:
    """Return whether a matrix, a budget or what records publish is asked for."""
    some = (asked.gamma, asked.rho1, asked.record_epsilon, asked.matrix, asked.publish, asked.rounds)
    own = any(w.asks_for_channel for w in asked.attributes.values())
    several = (
        asked.scheme != SUBSTITUTION or asked.class_in_budget or bool(asked.together or asked.kind_options)
    )
    return own or several or some != (None,) * len(some)


def _check_has_gamma(asked: Plan) -> None:
    """Check that settings of laws come with the gamma that they need, or they cannot be compared."""
    own = (w.own_gamma() is not None for w in (*asked.attributes.values(), *asked.together.values()))
    for_all = asked.own_gamma() is not None or asked.record_epsilon is not None
    if not (for_all or any(own)) and asked.scheme == SUBSTITUTION:
        raise UsageError(
            "laws-without-budget",
            f"with {argument('like')}, a matrix or what a record publishes needs a gamma",
            "remove it to use the earlier release's",
        )


def _filled(earlier: Sidecar, asked: Plan, schema: pa.Schema) -> Plan:
    """Return the plan, filled with the earlier release's settings."""
    attributes, left_open = dict[str, AttributePlan](), _left_open(earlier, asked)
    for a in earlier.perturbed:
        own = asked.attributes.get(a.name, AttributePlan())
        changes: dict[str, object] = {"representative": own.representative or asked.representative}
        if changes["representative"] is None and a.representative is not UNSET:
            changes["representative"] = a.representative
        if a.name in left_open:
            marks = {f: tuple(m) for f in ("edges", "categories") if (m := getattr(a, f)) is not UNSET}
            changes |= {**marks, "data": False, "nulls": own.nulls or a.nulls is True}
            changes |= {"scale": None, "bins": None}
        elif asked.bins == "auto" and own.bins is None and own.scale not in CALENDAR:
            changes["bins"] = max(a.domain.ordinary, 2)
        attributes[a.name] = replace(own, **changes)
    rest: dict[str, object] = {"bins": None} if asked.bins == "auto" else {}
    if asked.record_epsilon is not None:
        rest["rounds"] = asked.rounds or (None if (n := len(in_rounds(opened(earlier).recipes))) == 1 else n)
        if asked.few == "auto" and rest["rounds"] is None:
            rest["publish"] = _published(earlier, asked)
    return replace(
        asked,
        attributes=attributes,
        keep=tuple(a.name for a in earlier.kept),
        drop=tuple(n for n in schema.names if n not in earlier.by_name),
        class_=None if earlier.class_ is UNSET else earlier.class_,
        person=None,
        rows_per_person=None,
        **rest,
    )


def _published(earlier: Sidecar, asked: Plan) -> int | Literal["all"]:
    """Return the number of attributes that a record published, if the number was left to the tool."""
    first, names = opened(earlier).recipes[0], {a.name for a in earlier.perturbed}
    if len(first.channels) > 1 and asked.publish is None:
        return "all"
    return len(first.attributes) - (earlier.class_ in names)


def _check_laws(earlier: Sidecar, made: ResolvedPlan) -> None:
    """Check the channels of each recipe, with rounds those of the first round."""
    before = opened(earlier).recipes
    both = [made.in_use, before if made.rounds is None else before[: len(made.in_use)]]
    ours, theirs = ([{c.name: c.spec for c in r.channels} for r in recipes] for recipes in both)
    if len(ours) + len(theirs) > 2 and [[*map(_encoded, w.values())] for w in ours] != [
        [*map(_encoded, w.values())] for w in theirs
    ]:
        raise _other("the budget of a record", *map(_budget, both))
    for name, spec in theirs[0].items():
        own = ours[0].get(name)
        if own is None or spec is None or _encoded(own) != _encoded(spec):
            pair = ["another law" if s is None else s.described() for s in (own, spec)]
            raise _other(quoted(name), *pair)


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


def _budget(dealt: Sequence[RecipeInUse]) -> str:
    sizes = sorted({len(d.attributes) for d in dealt})
    epsilon = max(d.epsilon for d in dealt)
    return f"epsilon {epsilon:.4g} for {' or '.join(map(str, sizes))} attributes of a record"

"""The plan of an earlier release for the next batch of the same table (--like).

It brings all that protected the earlier release. A plan beside it, such as the one that made that release, says
how the data are read and may add protection; its other settings are passed over. As options they are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from ppdm_cli.coins import Key
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, quoted
from ppdm_cli.perturbing.plan import AttributePlan, Plan
from ppdm_cli.perturbing.resolving import ResolvedPlan, clipped, nothing_perturbed
from ppdm_cli.sidecar import Attribute, Sidecar

_BESIDE = {"csv", "clip", "strict", "shuffle", "keep_order", "person", "rows_per_person"}
"""What may be asked for beside an earlier release, which decides all other settings."""


def beside(plan: Plan | Mapping[str, object] | str | Path | None, given: Mapping[str, object]) -> Plan:
    """Return what a plan, and settings that are `given` by name, may add to an earlier release."""
    given = {n: v for n, v in given.items() if v}
    for name in given.keys() - _BESIDE:
        raise UsageError(
            "unlike-earlier",
            f"the earlier release decides {argument(name)}, which cannot be given beside {argument('like')}",
            f"remove it, or publish without {argument('like')}",
        )
    known = Plan.known(plan)
    if known.person is None:  # a question, which an earlier release answers
        known = replace(known, rows_per_person=None)
    asked = Plan.of(known, **given)
    groups = {n: AttributePlan(mapping=w.mapping) for n, w in asked.attributes.items() if w.mapping is not None}
    return Plan(attributes=groups, **{n: getattr(asked, n) for n in _BESIDE})


def carried(earlier: Sidecar, asked: Plan, key: Key, copies: int) -> Plan:
    """Return what is asked with the earlier release's person, rows and random order; none may be dropped."""
    before = earlier.privacy
    if earlier.stage != "perturbed" or before is UNSET:
        raise MismatchError(
            "no-owners-plan",
            f"the sidecar is at stage {earlier.stage!r}, so it holds no owner's plan",
            "name the sidecar of a perturbed release",
        )
    if before.person is not UNSET and before.rows is not UNSET:
        if asked.person not in (None, before.person):
            raise _other(argument("person"), quoted(asked.person), quoted(before.person))
        rows = before.rows if asked.rows_per_person is None else asked.rows_per_person
        if rows > before.rows:
            raise _other(argument("rows_per_person"), rows, before.rows)
        asked = replace(asked, person=before.person, rows_per_person=rows)
    if before.shuffled:
        if asked.keep_order:
            raise _other("the order of the rows", "that of the data", "random")
        asked = replace(asked, shuffle=True)
    many = 1 if earlier.copy is UNSET else earlier.copy.of
    if copies > many:
        raise _other(argument("copies"), copies, many)
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


def _other(what: str, asked: object, before: object) -> UsageError:
    """Return the error for what contradicts the earlier release."""
    return UsageError(
        "unlike-earlier",
        f"{what} is {before} in the earlier release, and cannot be {asked} beside {argument('like')}",
        f"remove it from the plan or the options, or publish without {argument('like')}",
    )


def like(earlier: Sidecar, schema: pa.Schema, asked: Plan) -> ResolvedPlan:
    """Return an earlier release's plan for the next batch; columns that it does not name are dropped.

    What it did to values outside domains is done again; `asked.clip` has the others moved too.
    """
    for name in [*earlier.by_name, *[asked.person] * (asked.person is not None)]:
        if name not in schema.names:
            raise MismatchError(
                "column-missing",
                f"the earlier release has the column {quoted(name)}, which the data does not have",
                "give the next batch of the same table",
            )
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
        attributes = [_with_clip(a) for a in attributes]
    if not any(a.role == "perturbed" for a in attributes):
        raise nothing_perturbed()
    class_ = earlier.class_ if isinstance(earlier.class_, str) else None
    merging = frozenset(a.name for a in attributes if a.outside == "other")
    dropped = [n for n in schema.names if n not in names]
    return ResolvedPlan(attributes, list(earlier.recipes), class_, dropped, merging)


def _with_clip(attribute: Attribute) -> Attribute:
    if attribute.role != "perturbed" or attribute.outside is not UNSET:
        return attribute
    return attribute.changed(outside=clipped(attribute.domain))

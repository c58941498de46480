"""Questions for `estimate` and `query`: the attributes of each requested table, and kept columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import msgspec

from ppdm_cli import dtypes
from ppdm_cli.domain import Bins, Categories, nice_edges
from ppdm_cli.engine import Facts, facts_of
from ppdm_cli.errors import UsageError, argument, quoted, unknown_column
from ppdm_cli.releases import spooled
from ppdm_cli.sidecar import Attribute, Sidecar
from ppdm_cli.tables import Table

MOST_KEPT = 1000
"""The most values of a kept column that are crossed with others one by one."""


def check_names(sidecar: Sidecar, names: Sequence[str], by: str | None, joint: Sequence[str]) -> None:
    """Check that the named attributes exist, and that the combination of arguments means something."""
    for option, asked in (("attributes", names), ("joint", joint), ("by", [by] if by else [])):
        for name in asked:
            if name not in sidecar.by_name:
                raise unknown_column(name, sidecar.by_name, option)
    if joint and (names or by):
        what = f"{argument('joint')} can't be combined with {argument('attributes')} or {argument('by')}"
        raise UsageError("joint-with-others", what, f"name the class in {argument('joint')}")
    if joint and (len(set(joint)) != len(joint) or not 2 <= len(joint) <= 3):
        what = f"{argument('joint')} takes two or three different attributes"
        raise UsageError("joint-of-two-or-three", what, f"try {argument('joint', ['age', 'salary'])}")
    kept = [n for n in (*names, *joint) if sidecar.by_name[n].role == "kept"]
    if kept and (
        (not by and not joint) or len(kept) == len(joint) or (by and sidecar.by_name[by].role == "kept")
    ):
        what = f"{quoted(kept[0])} was published unchanged: there is nothing to estimate"
        raise UsageError("nothing-to-estimate", what, "name a perturbed attribute")


def groups_of(
    sidecar: Sidecar, names: Sequence[str], by: str | None, joint: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the attributes of each table; the first is `by`, if it is given."""
    if joint:
        return [tuple(joint)]
    chosen = list(dict.fromkeys(names)) or [a.name for a in sidecar.perturbed]
    if by is None:
        return [(n,) for n in chosen]
    rest = [n for n in chosen if n != by]
    if not rest:
        what = "nothing is left to estimate by class"
        raise UsageError("nothing-to-estimate", what, "name another attribute than the class")
    return [(by, n) for n in rest]


def with_kept(
    table: Table, sidecar: Sidecar, crossed: Iterable[str], bins: int | None, stack: ExitStack
) -> tuple[Table, Sidecar]:
    """Return the release and its sidecar with a domain for each of these columns.

    A kept column whose values the sidecar doesn't list is public: its domain is read from it, numbers in at
    most `bins` bins of a round width.
    """
    unlisted = [a for n in dict.fromkeys(crossed) if not (a := sidecar.by_name[n]).has_domain]
    if bins is not None and (bins < 2 or all(dtypes.is_discrete(a.kind) for a in unlisted)):
        what = f"{argument('bins')} takes 2 or more, for kept columns of numbers that others are crossed with"
        raise UsageError("bins-not-usable", what, f"try {argument('by', 'age')} {argument('bins', 10)}")
    if not unlisted:
        return table, sidecar
    table = spooled(table, stack)
    limits = {a.name: bins if bins and not dtypes.is_discrete(a.kind) else MOST_KEPT for a in unlisted}
    facts = facts_of(table, limits)
    found = {a.name: _listed(a, facts.get(a.name), bins) for a in unlisted}
    attributes = [found.get(a.name, a) for a in sidecar.attributes]
    listed = msgspec.structs.replace(sidecar, attributes=attributes)
    return table, listed


def _listed(attribute: Attribute, facts: Facts | None, bins: int | None) -> Attribute:
    """Return a kept attribute with the domain that its column shows."""
    name, kind = attribute.name, attribute.kind
    if facts is None or (facts.values is not None and not facts.values):
        raise UsageError("no-values", f"the kept column {quoted(name)} has no values", "cross another column")
    nulls = facts.nulls > 0
    if facts.values is not None:
        return msgspec.structs.replace(attribute, **Categories(kind, sorted(facts.values), nulls).written())
    if bins is None or dtypes.is_discrete(kind):
        what = f"the kept column {quoted(name)} has more than {MOST_KEPT} values, too many to cross with others"
        bins_step = f"use bins, such as {argument('bins', 10)}"
        step = "cross another column" if dtypes.is_discrete(kind) else bins_step
        raise UsageError("too-many-kept-values", what, step)
    cut = Bins(kind, nice_edges(facts.low, facts.high, bins, kind), nulls)
    return msgspec.structs.replace(attribute, **cut.written())

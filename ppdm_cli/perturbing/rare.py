"""Rare categories and identifiers: what a domain from the data would publish of single persons.

A category of fewer than ten records, or persons where a promise is for persons, is refused or merged, and
published only where that is asked for. An identifier is refused even then: the one way to publish its values is
to declare them as a domain.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ppdm_cli.domain import OTHER
from ppdm_cli.errors import RefusedError, listed, quoted, word
from ppdm_cli.facts import FEW, Facts
from ppdm_cli.perturbing.attribute_plan import AttributePlan
from ppdm_cli.perturbing.plan import Rare

MANY = 100
"""Of more values than this, most of them rare, each points to a person."""
_WRITTEN = re.compile(
    r"\s*(?:[+-]?\d+(?:[. ]\d{3})*[,.]\d+|\d{1,4}([-./])\d{1,2}\1\d{1,4}(?:[T ].*)?)\s*", re.DOTALL
)
"""A number with a decimal mark, or a date."""


def number_of_rare(facts: Facts) -> int:
    """Return how many of a column's values fewer than ten records, or persons, have."""
    return sum(facts.support([v]) < FEW for v in facts.values or ())


def few_nulls(facts: Facts) -> bool:
    """Return whether nulls are rare: null is a category too, and may identify a person."""
    return facts.nulls > 0 and facts.support([None]) < FEW


def common(facts: Facts) -> list[Any]:
    """Return the values that are frequent enough; the others will go to the nearest of them."""
    return sorted(v for v in facts.values or () if facts.support([v]) >= FEW)


def pooled(facts: Facts) -> list[Any]:
    """Return the labels that are frequent enough, and one, frequent enough too, for all others together."""
    counts, named = facts.counts, [v for v in common(facts) if v != OTHER]
    if named and facts.support(counts.keys() - named) < FEW:
        named.remove(min(named, key=lambda v: (counts[v], v)))
    return sorted([*named, OTHER])


def identifies(facts: Facts) -> bool:
    """Return whether most records have a value of one record or person alone, or one of many rare values."""
    counts = facts.counts
    if len(counts) <= FEW:
        return False
    support = {v: facts.support([v]) for v in counts}
    alone = sum(c for v, c in counts.items() if support[v] == 1)
    rare = sum(c for v, c in counts.items() if support[v] < FEW)
    return 2 * (rare if len(counts) > MANY else alone) > counts.total()


def refuse_rare(
    facts: Mapping[str, Facts],
    asked: Mapping[str, AttributePlan] | None = None,
    rare: Rare = "refuse",
    whom: str = "records",
) -> None:
    """Refuse all columns with rare categories at once, by names and numbers, without labels.

    What is `asked` may have a place for them. Identifiers are refused however `rare` values are treated, unless
    more than one value is left when they are merged.
    """
    others = {n for n, w in (asked or {}).items() if w.other}
    nulls = {n for n, w in (asked or {}).items() if w.nulls}
    merged = {*facts} if rare == "merge" else others
    found = {n for n, f in facts.items() if identifies(f) and not (n in merged and (common(f) or f.nulls))}
    few = {
        n
        for n, f in facts.items()
        if (number_of_rare(f) and n not in others) or (few_nulls(f) and n not in nulls)
    }
    few = few - found if rare == "refuse" else set()
    either = found | few
    written = [n for n in facts if n in either and _is_written(facts[n].counts)]
    named = [n for n in facts if n in found and n not in written]
    few -= {*written}
    troubles = [*_of_identifiers(named, facts), *_of_written(written)]
    troubles += _of_rare({n: f for n, f in facts.items() if n in few}, whom)
    if troubles:
        raise RefusedError("; ".join(what for what, _ in troubles), "; ".join(way for _, way in troubles))


def _is_written(values: Collection[Any]) -> bool:
    """Return whether most values are text that says a number or a date."""
    return 2 * sum(isinstance(v, str) and bool(_WRITTEN.fullmatch(v)) for v in values) > len(values)


def _of_identifiers(names: Collection[str], facts: Mapping[str, Facts]) -> list[tuple[str, str]]:
    which = ", ".join(
        f"{quoted(n)} looks like an identifier ({len(c)} values in {c.total()} records)"
        for n in names
        for c in [facts[n].counts]
    )
    drops = " ".join(f"--drop {word(n)}" for n in names)
    return [(which, f"leave {'it' if len(names) == 1 else 'them'} out: {drops}")] if names else []


def _of_written(names: Collection[str]) -> list[tuple[str, str]]:
    what = f"the text in {listed(names)} looks like decimal numbers or dates"
    return [(what, "use `ppdm plan FILE -o plan.toml`, which finds how they are written")] if names else []


def _of_rare(found: Mapping[str, Facts], whom: str) -> list[tuple[str, str]]:
    if not found:
        return []
    which = ", ".join(f"{quoted(n)} ({_shown(f)})" for n, f in found.items())
    name, facts = next(iter(found.items()))
    domain = "@file" if facts.low is None else "1:10"
    way = f"use --rare merge, or declare the domain: --domain {word(name, f'={domain}')}"
    if few_nulls(facts):
        way = f"declare the domain with nulls: --attribute {word(name, f':domain={domain},nulls=true')}"
    what = f"categories that occur in fewer than {FEW} {whom}: {which}"
    return [(f"{what}; publishing that they exist may identify persons", way)]


def _shown(facts: Facts) -> str:
    rare = number_of_rare(facts)
    parts = [f"{rare} of {len(facts.counts)}"] if rare else []
    return " and ".join(parts + ["null"] * few_nulls(facts))

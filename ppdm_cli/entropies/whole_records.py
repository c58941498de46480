"""Designs for a record's epsilon, before any data is touched: what each gives, and a plan for the best."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ppdm_cli.display import whole
from ppdm_cli.errors import UsageError, argument, counted, listed, quoted
from ppdm_cli.perturbing import (
    FEW_CLEAN,
    AttributePlan,
    Design,
    Plan,
    Setting,
    ranked,
    recommended,
)
from ppdm_cli.privacy import proposed

FEWEST = 4.0
"""Of fewer clean records half a domain's share has a standard error of more than a quarter: nothing is told."""
_SIZES = re.compile(r"(?:(\d{1,4})x)?(\d{1,6})(n?)")
_SHARED = re.compile(r"^\s*(gamma|rho1|rho2|record_epsilon|publish|rounds)\s*=.*\n?", re.M)
OTHERS = ((0.5, 1.0), (2.0, 1.0), (1.0, 0.1), (1.0, 10.0))
"""The same at half and twice the budget, and at a tenth and ten times the records."""


def setting_of(
    epsilon: float, records: int, attributes: str | None, plan: Plan | None, class_in_budget: bool
) -> Setting:
    """Return what is to be protected: from text such as "9x16" or "6x16,2x9n", or from what a plan declares."""
    if not 0 < epsilon < 100:
        raise UsageError(
            "epsilon-out-of-range",
            "the record's epsilon must be above 0",
            f"such as {proposed(2)}",
        )
    sizes = () if attributes is None else _sizes(attributes)
    if plan is None:
        return Setting(epsilon, records, sizes, 2 * class_in_budget, class_in_budget)
    aside = {*plan.keep, *plan.drop}
    own = {n: w for n, w in plan.attributes.items() if n not in aside}
    label = own.pop(plan.class_ or "", None)
    open_ones = [n for n, w in own.items() if not (w.declares_domain or w.N)]
    if sizes and own and len(sizes) != len(own):
        what = f"the plan has {counted(len(own), 'attribute')}, and {argument('attributes')} {len(sizes)}"
        raise UsageError("sizes-of-another-plan", what, f"leave out {argument('attributes')}")
    if not sizes and (open_ones or not own):
        raise UsageError(
            "sizes-not-declared",
            f"the plan does not declare the domain of {listed(open_ones) or 'any attribute'}",
            f"write a plan with `ppdm plan`, which has N, or add {argument('attributes', '7x10,5n')}",
        )
    sizes = sizes or tuple(_size(w, plan) for w in own.values())
    inside = plan.class_ is not None and plan.class_ not in aside
    labels = (_size(label, plan)[0] if label is not None and label.declares_domain else 2) if inside else 0
    return Setting(epsilon, records, sizes, labels, plan.class_ is not None)


def _sizes(text: str) -> tuple[tuple[int, bool], ...]:
    found: list[tuple[int, bool]] = []
    for part in text.split(","):
        match = _SIZES.fullmatch(part.strip())
        if match is None or not whole(match[2]) >= 2 or len(found) + whole(match[1] or 1) > 1000:
            raise UsageError(
                "bad-sizes",
                f"{quoted(text)} is no list of attributes",
                f"such as {argument('attributes', '9x16')}, or 6x16,2x9n: n has no order",
            )
        found += [(whole(match[2]), not match[3])] * whole(match[1] or 1)
    return tuple(found)


def _size(own: AttributePlan, plan: Plan) -> tuple[int, bool]:
    """Return how many codes an attribute has at most, and whether they are in order."""
    if own.N is not None and not own.declares_domain:
        return _sizes(own.N)[0]
    if own.categories is not None:
        return len(own.categories) + own.nulls, False
    if own.edges is not None:
        return len(own.edges) - 1 + own.nulls, True
    return (own.bins or plan.bins_for_all) + own.nulls, True


def design_rows(setting: Setting) -> list[dict[str, Any]]:
    """Return a row for each design, the recommended one first, then it at other budgets and sizes."""
    rows = [_row(d) for d in ranked(setting)]
    for budget, size in OTHERS:
        other = replace(
            setting, epsilon=setting.epsilon * budget, records=max(1, round(setting.records * size))
        )
        rows.append(_row(recommended(other)))
    return rows


def _row(design: Design) -> dict[str, Any]:
    setting, widths = design.setting, design.widths
    return {
        "epsilon": setting.epsilon,
        "records": setting.records,
        "publish": "all" if design.k is None else str(design.k),
        "rounds": design.rounds,
        "half_width": f"{widths[0]}-{widths[1]}" if widths[0] < widths[1] else str(widths[0]),
        "published": design.published,
        "clean_single": design.of_one,
        "clean_pair": design.of_pair,
        "share_error": design.share_error,
        "difference_error": design.difference_error,
        "cell_error": design.cell_error,
        "row_found": design.row_found,
    }


def design_remarks(rows: list[dict[str, Any]]) -> list[str]:
    """Return what the figures mean, and what cannot be had."""
    first = rows[0]
    lines = [
        "The first design is the one to take. The records tell of one attribute, and of a pair, at most what "
        "so many clean ones would. The standard errors are the least to expect: of the share of half a domain "
        "(its difference between two halves of the records has twice that), and of a quarter of a pair's "
        "table. All that follows from Fisher information with evenly spread values; which design serves trees "
        "was measured on made-up functions."
    ]
    if any(r["rounds"] > 1 for r in rows):
        lines.append(
            "Rounds serve trees of one class: what they tell is of the few attributes that the last round "
            "publishes, if the first ones find those that matter; of others they tell next to nothing."
        )
    if first["clean_single"] < FEWEST:
        lines.append(
            "Nothing can be learnt here: of so few records at this budget not even the share of half a domain "
            "is told. Take a larger budget, drop or keep some attributes, or wait for more records."
        )
    elif first["clean_pair"] < FEW_CLEAN:
        lines.append(
            "Main effects are all that can be had here: what two attributes do together cannot be learnt from "
            "so few records at this budget."
        )
    return lines


def plan_text(first: dict[str, Any], setting: Setting, source: Path | None) -> str:
    """Return the recommended design as a plan: the source's with its privacy replaced, or a new one."""
    head = f"record_epsilon = {first['epsilon']:g}\npublish = {first['publish']}\n"
    head += f"rounds = {first['rounds']}\n" * (first["rounds"] > 1)
    if source is None:
        sizes = [n for n, _ in setting.sizes]
        head += "class_in_budget = true\n" * (setting.labels > 0)
        if setting.for_class or setting.labels:
            keep = "" if setting.labels else "; keep it if it is to be published"
            head += f'# class = "..."  # name it{keep}\n'
        return f"{head}bins = {max(sizes, key=sizes.count)}\n"
    top, table, rest = source.read_bytes().decode().partition("\n[")
    return head + _SHARED.sub("", top) + table + rest

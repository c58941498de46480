"""Designs for a record's epsilon, before any data is touched: the figures of each, and a plan for the best."""

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
"""The least effective number of records: with fewer, half a domain's share has an error above a quarter."""
_SIZES = re.compile(r"(?:(\d{1,4})x)?(\d{1,6})(n?)")
_SHARED = re.compile(r"^\s*(gamma|rho1|rho2|record_epsilon|publish|rounds)\s*=.*\n?", re.M)
OTHERS = ((0.5, 1.0), (2.0, 1.0), (1.0, 0.1), (1.0, 10.0))
"""The factors of budget and records at which the best design is also shown."""


def setting_of(
    epsilon: float, records: int, attributes: str | None, plan: Plan | None, class_in_budget: bool
) -> Setting:
    """Return the setting to protect: from text such as "9x16" or "6x16,2x9n", or from a plan's declarations."""
    if not 0 < epsilon < 100:
        raise UsageError(
            "epsilon-out-of-range",
            "the record's epsilon must be above 0",
            f"try {proposed(2)}",
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
                f"can't read {argument('attributes')} {quoted(text)}",
                f"try {argument('attributes', '9x16')}, or 6x16,2x9n: n has no order",
            )
        found += [(whole(match[2]), not match[3])] * whole(match[1] or 1)
    return tuple(found)


def _size(own: AttributePlan, plan: Plan) -> tuple[int, bool]:
    """Return the most codes that an attribute has, and whether they are in order."""
    if own.N is not None and not own.declares_domain:
        return _sizes(own.N)[0]
    if own.categories is not None:
        return len(own.categories) + own.nulls, False
    if own.edges is not None:
        return len(own.edges) - 1 + own.nulls, True
    return (own.bins or plan.bins_for_all) + own.nulls, True


def design_rows(setting: Setting) -> list[dict[str, Any]]:
    """Return a row for each design, the recommended one first, then the best at other budgets and sizes."""
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
    """Return sentences that explain the figures, and warn about too few records."""
    first = rows[0]
    lines = [
        "Take the first design. Effective records: all records together reveal at most as much about one "
        "attribute, or a pair, as this many unperturbed ones. The standard errors are lower limits: for "
        "the share of half a domain (twice that for its difference between two halves of the records), and "
        "for a quarter of a pair's table. They follow from Fisher information with evenly spread values. "
        "Which design is best for trees was measured on synthetic functions."
    ]
    if any(r["rounds"] > 1 for r in rows):
        lines.append(
            "Use rounds when you want a tree for one class. They spend the budget on the attributes that "
            "predict it, if early rounds find them. You learn almost nothing about the rest."
        )
    if first["clean_single"] < FEWEST:
        lines.append(
            "Warning: nothing can be learned here. With so few records at this budget you can't even "
            "estimate the share of half a domain. Use a larger budget, drop or keep some attributes, or "
            "wait for more records."
        )
    elif first["clean_pair"] < FEW_CLEAN:
        lines.append(
            "With so few records at this budget you can estimate single attributes, but not how two of "
            "them interact."
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

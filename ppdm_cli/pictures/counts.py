"""The picture of estimated distributions: a panel for each attribute, its values side by side or in rows."""

from __future__ import annotations

import math
import re
from typing import Any

from ppdm_cli.display import percent
from ppdm_cli.pictures.drawing import altair, save
from ppdm_cli.tables import PendingFile

MOST_VALUES, MOST_PANELS = 30, 60
"""The most categories of a panel, the commonest, and the most panels of a picture."""
_SERIES = {"observed": "#cfd4da", "estimated, {} interval": "#0b5cad", "true": "#c8102e"}
_HIGH, _LOW, _MANY = 180, 100, 12
"""The height of a panel, and where there are more than many of them."""
_THIN = 25
"""Bins that are more have thin marks."""
_LETTER, _ROW, _LABEL = 6.5, 14, 26
"""Pixels of a letter and of a category's row; letters of a label that is shown whole."""
_BIN = re.compile(r"\[([^,]*), [^,]*[\])]")
"""The label of a bin of dates or times; its beginning is shown."""
_APART = " "
"""What stands between the values and null."""


def distributions(
    rows: list[dict[str, Any]], target: PendingFile, level: float = 0.95, by: str | None = None
) -> None:
    """Draw observed, estimated (with intervals) and, if known, true counts, one panel per attribute.

    Bins of numbers stand on an axis of numbers, short labels side by side, others below each other. `by`
    names the class that the rows are of.
    """
    alt = altair()
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        title = row["attribute"] + (f" where {by or 'class'} is {row['class']}" if "class" in row else "")
        panels.setdefault(title, []).append(row)
    colors = {s.format(percent(level)): c for s, c in _SERIES.items() if s != "true" or "true" in rows[0]}
    classes = len({row["class"] for row in rows}) if "class" in rows[0] else 0
    columns = classes if 2 <= classes <= 3 else min(len(panels), 3 if len(panels) > 4 else 2)
    width = {1: 480, 2: 290, 3: 190}[columns]
    shown = list(panels.items())[:MOST_PANELS]
    if not classes:  # those of many rows come last, beside each other
        shown.sort(key=lambda p: _form(p[1], width) == "rows")
    high = _HIGH if len(shown) <= _MANY else _LOW
    charts = [
        _panel(alt, title, panel, (width, high), place % columns == 0, colors)
        for place, (title, panel) in enumerate(shown)
    ]
    chart = alt.concat(*charts, columns=columns, spacing={"row": 24, "column": 28})
    if len(panels) > MOST_PANELS:
        cut = f"The first {MOST_PANELS} of {len(panels):,} distributions; --attribute draws others."
        chart = chart.properties(title=alt.TitleParams(cut, anchor="start", offset=16))
    chart = chart.configure(
        font="Helvetica, Arial, sans-serif",
        view={"stroke": None},
        axis={
            "domainColor": "#888888",
            "tickColor": "#888888",
            "gridColor": "#eeeeee",
            "titleFontWeight": "normal",
        },
        title={"anchor": "start", "fontSize": 12, "offset": 8, "subtitleFontSize": 10},
    )
    save(chart.resolve_scale(color="shared", x="independent", y="independent"), target)


def _form(rows: list[dict[str, Any]], width: int) -> str:
    """Return how the labels of an attribute fit a panel: as numbers, side by side, or in rows."""
    values = [r for r in rows if r["label"] != "null"]
    if values and all(math.isfinite(r["lower"]) for r in values):
        return "numbers"
    if values and all(_BIN.fullmatch(r["label"]) for r in values):
        return "beside"
    short = len(values) <= MOST_VALUES and sum(len(r["label"]) * _LETTER + 8 for r in rows) < width
    return "beside" if short else "rows"


def _panel(
    alt: Any,
    title: str,
    rows: list[dict[str, Any]],
    size: tuple[int, int],
    leftmost: bool,
    colors: dict[str, str],
) -> Any:
    """Return the panel of an attribute, in the form that its labels fit."""
    (width, high), form, subtitle = size, _form(rows, size[0]), ""
    if form == "rows":
        rows, subtitle = _commonest(rows)
        chart = alt.layer(*_below_each_other(alt, rows, colors))
        chart = chart.resolve_axis(x="independent").resolve_scale(x="shared")
    else:
        layers = (_of_numbers if form == "numbers" else _of_labels)(alt, rows, width, leftmost, colors)
        chart = alt.layer(*layers)
    heading = alt.TitleParams(title, subtitle=subtitle, limit=width + 60)
    return chart.properties(title=heading, width=width, height=alt.Step(_ROW) if form == "rows" else high)


def _layers(alt: Any, rows: list[dict[str, Any]], marks: dict[str, Any], colors: dict[str, str]) -> list[Any]:
    """Return the marks of observed, true and estimated counts, in the colours that the legend names."""
    legend = alt.Legend(
        orient="top", symbolType="square", symbolSize=90, symbolStrokeWidth=0, symbolOpacity=1, labelLimit=300
    )
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    color, series = alt.Color("series:N", title=None, scale=scale, legend=legend), list(colors)
    order = [("observed", 0), *([("true", 2)] if "true" in rows[0] else [])]
    order += [("between", 1)] * ("high" in _shown(rows)) + [("estimate", 1)]
    return [marks[m].transform_calculate(series=f"'{series[i]}'").encode(color=color) for m, i in order]


def _base(alt: Any, rows: list[dict[str, Any]]) -> Any:
    tooltip = [f"{n}:{'N' if n == 'label' else 'Q'}" for n in _shown(rows)]
    return alt.Chart(alt.Data(values=rows)).encode(tooltip=tooltip)


def _records(alt: Any, field: str, leftmost: bool) -> Any:
    axis = alt.Axis(tickCount=5, domain=False, ticks=False)
    title = "records" if leftmost else None
    return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(nice=5, zero=True), axis=axis)


def _of_numbers(
    alt: Any, rows: list[dict[str, Any]], width: int, leftmost: bool, colors: dict[str, str]
) -> list[Any]:
    """Return bins on an axis of numbers, and null apart from it, under its name."""
    placed, thin = _placed(rows), len(rows) > _THIN
    base, last = _base(alt, placed), [r for r in placed if r["label"] != "null"][-1]["right"]
    first, wide = placed[0]["left"], last - placed[0]["left"]
    form = "~s" if wide / len(rows) >= 100 else ",.6~g"
    axis = alt.Axis(
        grid=False, domain=False, values=_ticks(first, last, max(2, width // 60)), labelFlush=False,
        labelExpr=f"format(datum.value, '{form}')", labelOverlap=True,
    )  # fmt: skip
    limits = alt.Scale(nice=False, zero=False)
    middle, left = (alt.X(f"{n}:Q", title=None, scale=limits, axis=axis) for n in ("middle", "left"))
    marks = {
        "observed": base.mark_rect(stroke="white", strokeWidth=0 if thin else 1).encode(
            x=left, x2="right:Q", y=_records(alt, "observed", leftmost), y2=alt.datum(0)
        ),
        "true": base.mark_rule(strokeWidth=2).encode(x=left, x2="right:Q", y=_records(alt, "true", leftmost)),
        "between": base.mark_rule(strokeWidth=1 if thin else 1.5, opacity=0.45 if thin else 1).encode(
            x=middle, y=_records(alt, "low", leftmost), y2="high:Q"
        ),
        "estimate": base.mark_point(filled=True, opacity=1, size=8 if thin else 28).encode(
            x=middle, y=_records(alt, "estimate", leftmost)
        ),
    }
    line = alt.Chart(alt.Data(values=[{"left": first, "right": last}])).mark_rule(color="#888888")
    layers = [line.encode(x=left, x2="right:Q", y=alt.datum(0)), *_layers(alt, placed, marks, colors)]
    if placed[-1]["label"] == "null":
        name = base.mark_text(baseline="top", dy=6, fontSize=10).transform_filter("datum.label == 'null'")
        layers.append(name.encode(x=middle, y=alt.datum(0), text=alt.value("null")))
    return layers


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from low to high, at most so many."""
    rough = (high - low) / most
    scale = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(m * scale for m in (1, 2, 2.5, 5, 10) if m * scale >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _of_labels(
    alt: Any, rows: list[dict[str, Any]], width: int, leftmost: bool, colors: dict[str, str]
) -> list[Any]:
    """Return values side by side, their labels upright: as many as fit, of bins of dates the beginnings."""
    labels = [r["label"] for r in rows if r["label"] != "null"]
    short = [m[1] if (m := _BIN.fullmatch(label)) else label for label in labels]
    cut = 10 if all(s[10:] in ("", "T00:00:00") for s in short) else 19  # days need no hours
    places = [*labels, *[_APART, "null"] * (len(labels) < len(rows))]
    room = max(1, width // int(max(len(s[:cut]) for s in short) * _LETTER + 8)) if short else 1
    every = -(-len(labels) // room)
    axis = alt.Axis(
        values=[*labels[::every], "null"], labelAngle=0, labelLimit=width, ticks=False,
        labelExpr=f"datum.label[0] == '[' ? slice(split(datum.label, ', ')[0], 1, {cut + 1}) : datum.label",
    )  # fmt: skip
    if short == labels:
        axis.labelExpr = alt.Undefined
    x = alt.X("label:N", scale=alt.Scale(domain=places), sort=None, title=None, axis=axis)
    base, thin = _base(alt, _plain(rows)), len(rows) > _THIN
    band = 0.8 * width / max(len(places), 1)
    marks = {
        "observed": base.mark_bar(opacity=1).encode(x=x, y=_records(alt, "observed", leftmost)),
        "true": base.mark_tick(thickness=2, opacity=1, bandSize=band).encode(
            x=x, y=_records(alt, "true", leftmost)
        ),
        "between": base.mark_rule(strokeWidth=1 if thin else 1.5, opacity=0.45 if thin else 1).encode(
            x=x, y=_records(alt, "low", leftmost), y2="high:Q"
        ),
        "estimate": base.mark_point(filled=True, opacity=1, size=8 if thin else 28).encode(
            x=x, y=_records(alt, "estimate", leftmost)
        ),
    }
    return _layers(alt, rows, marks, colors)


def _below_each_other(alt: Any, rows: list[dict[str, Any]], colors: dict[str, str]) -> list[Any]:
    """Return values one below another, with an axis of records at either end."""
    labels = [r["label"] for r in rows if r["label"] != "null"]
    places = [*labels, *[_APART, "null"] * (len(labels) < len(rows))]
    axis = alt.Axis(labelLimit=_LABEL * _LETTER, ticks=False, domain=False)
    y = alt.Y("label:N", scale=alt.Scale(domain=places), sort=None, title=None, axis=axis)
    base = _base(alt, _plain(rows))

    def x(field: str, orient: str | None = None) -> Any:
        axis = None if orient is None else alt.Axis(tickCount=4, orient=orient, ticks=False)
        return alt.X(f"{field}:Q", title="records" if orient else None, axis=axis, scale=alt.Scale(zero=True))

    marks = {
        "observed": base.mark_bar(opacity=1).encode(y=y, x=x("observed", "bottom")),
        "true": base.mark_tick(thickness=2, opacity=1, bandSize=0.8 * _ROW).encode(y=y, x=x("true")),
        "between": base.mark_rule(strokeWidth=1.5).encode(y=y, x=x("low"), x2="high:Q"),
        "estimate": base.mark_point(filled=True, opacity=1, size=22).encode(y=y, x=x("estimate", "top")),
    }
    return _layers(alt, rows, marks, colors)


def _commonest(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Return the commonest categories, in their order, and what the rest are; null is not cut."""
    values = [r for r in rows if r["label"] != "null"]
    if len(values) <= MOST_VALUES:
        return rows, ""
    taken = {id(r) for r in sorted(values, key=lambda r: -r["estimate"])[:MOST_VALUES]}
    rest = [max(r["estimate"], 0.0) for r in values if id(r) not in taken]
    share = sum(rest) / max(sum(max(r["estimate"], 0.0) for r in rows), 1e-300)
    shown = [r for r in rows if id(r) in taken or r["label"] == "null"]
    return shown, f"the {MOST_VALUES} commonest of {len(values):,} values; the rest have {percent(share)}"


def _shown(rows: list[dict[str, Any]]) -> list[str]:
    names = ("label", "observed", "estimate", "low", "high", "true")
    return [n for n in names if any(r.get(n) is not None for r in rows)]


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows without limits, which are no numbers that JSON has."""
    return [{**r, "lower": None, "upper": None} for r in rows]


def _placed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the bins with their ends on the axis; null has none, and stands to the right of them."""
    ordinary = [r for r in rows if r["label"] != "null"]
    end = ordinary[-1]["upper"]
    width = (end - ordinary[0]["lower"]) / len(ordinary)
    placed = []
    for row in rows:
        null = row["label"] == "null"
        left, right = (end + width, end + 2 * width) if null else (row["lower"], row["upper"])
        placed.append(
            {**row, "lower": None, "upper": None, "left": left, "right": right, "middle": (left + right) / 2}
        )
    return placed

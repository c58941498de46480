"""The charts of `--plot`, each legible at the width of a page, whatever the number of attributes.

`distributions` for estimate, `attacks` for attack; `entropy` and `designs` for entropy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppdm_cli.display import percent
from ppdm_cli.errors import UsageError, argument
from ppdm_cli.pictures.drawing import altair, save
from ppdm_cli.tables import PendingFile

if TYPE_CHECKING:
    from ppdm_cli.attacks import GuessFigures

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
MOST_ATTRIBUTES = 30
"""The most attributes that have bars of their own; the others are averaged."""
_OF_ATTACKS = ("#0b5cad", "#8db4dc", "#57606a", "#9a6700", "#1a7f37", "#8250df", "#bf3989", "#1b7c83")
_PRIOR = "#c8102e"
_BAR, _WIDTH = 9, 440
MOST_LINES = 6
"""The most lines of a picture; each has a colour of its own."""


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
    size = (8, 1, 0.45) if len(rows) > _THIN else (28, 1.5, 1)
    band = 0.8 * width / max(len(places), 1)

    def y(field: str) -> Any:
        return _records(alt, field, leftmost)

    return _layers(alt, rows, _by_label(_base(alt, _plain(rows)), {"x": x}, y, size, band), colors)


def _below_each_other(alt: Any, rows: list[dict[str, Any]], colors: dict[str, str]) -> list[Any]:
    """Return values one below another, with an axis of records at either end."""
    labels = [r["label"] for r in rows if r["label"] != "null"]
    places = [*labels, *[_APART, "null"] * (len(labels) < len(rows))]
    axis = alt.Axis(labelLimit=_LABEL * _LETTER, ticks=False, domain=False)
    y = alt.Y("label:N", scale=alt.Scale(domain=places), sort=None, title=None, axis=axis)

    def x(field: str) -> Any:
        orient = {"observed": "bottom", "estimate": "top"}.get(field)
        axis = None if orient is None else alt.Axis(tickCount=4, orient=orient, ticks=False)
        return alt.X(f"{field}:Q", title="records" if orient else None, axis=axis, scale=alt.Scale(zero=True))

    marks = _by_label(_base(alt, _plain(rows)), {"y": y}, x, (22, 1.5, 1), 0.8 * _ROW)
    return _layers(alt, rows, marks, colors)


def _by_label(
    base: Any, at: dict[str, Any], records: Any, size: tuple[float, float, float], band: float
) -> dict[str, Any]:
    """Return the marks of values that stand at their labels; a point's size, a rule's width and opacity."""
    over = "y" if "x" in at else "x"
    point, width, opacity = size
    rule = base.mark_rule(strokeWidth=width, opacity=opacity)
    return {
        "observed": base.mark_bar(opacity=1).encode(**at, **{over: records("observed")}),
        "true": base.mark_tick(thickness=2, opacity=1, bandSize=band).encode(**at, **{over: records("true")}),
        "between": rule.encode(**at, **{over: records("low"), f"{over}2": "high:Q"}),
        "estimate": base.mark_point(filled=True, opacity=1, size=point).encode(
            **at, **{over: records("estimate")}
        ),
    }


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


def attacks(rows: Sequence[GuessFigures], target: PendingFile) -> None:
    """Draw each attack's exact guesses beside the prior's; otherwise the errors."""
    alt = altair()
    exact = any(r.exact is not None for r in rows)
    title = "named exactly" if exact else "RMSE, of the standard deviation"
    baseline = "the prior alone" if exact else "a guess of the mean"
    every = [
        {
            "attack": r.attack,
            "attribute": r.attribute,
            "value": r.exact if exact else r.rmse_share,
            "low": r.exact_low if exact else None,
            "high": r.exact_high if exact else None,
            "prior": r.exact_prior if exact else 1.0,
        }
        for r in rows
        if (r.exact if exact else r.rmse_share) is not None
    ]
    data, cut = _largest(every)
    names = list(dict.fromkeys(r["attack"] for r in every))
    places = list(dict.fromkeys(r["attribute"] for r in data))
    scale = alt.Scale(domain=[*names, baseline], range=[*_OF_ATTACKS[: len(names)], _PRIOR])
    color = alt.Color("series:N", title=None, scale=scale, legend=alt.Legend(orient="top", labelLimit=200))
    base = alt.Chart(alt.Data(values=data)).encode(
        y=alt.Y("attribute:N", sort=places, title=None, axis=alt.Axis(labelLimit=180, ticks=False))
    )
    apart = alt.YOffset("attack:N", sort=names)

    def x(field: str, orient: str | None = None) -> Any:
        form = "%" if exact else "~g"
        axis = None if orient is None else alt.Axis(format=form, orient=orient, tickCount=6)
        return alt.X(f"{field}:Q", title=title if orient else None, axis=axis, scale=alt.Scale(zero=True))

    bars = base.mark_bar(height=alt.RelativeBandSize(band=0.9)).encode(x=x("value", "bottom"), yOffset=apart)
    interval = base.mark_rule(color="black").encode(x=x("low"), x2="high:Q", yOffset=apart)
    prior = base.mark_tick(thickness=2).encode(x=x("prior", "top"), yOffset=apart)
    layers = [
        bars.transform_calculate(series="datum.attack").encode(color=color),
        interval,
        prior.transform_calculate(series=f"'{baseline}'").encode(color=color),
    ]
    chart = alt.layer(*layers).resolve_axis(x="independent").resolve_scale(x="shared", color="shared")
    step = alt.Step(step=_BAR * len(names) + 5, **{"for": "position"})
    heading = alt.TitleParams("What attacks learn, and the prior alone", subtitle=cut, anchor="start")
    save(chart.properties(title=heading, width=_WIDTH, height=step), target)


def _largest(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of the attributes of which most is learnt, and one for the rest; and what was cut."""
    gains: dict[str, float] = {}
    for r in rows:
        gains[r["attribute"]] = max(gains.get(r["attribute"], 0.0), abs(r["value"] - (r["prior"] or 0.0)))
    if len(gains) <= MOST_ATTRIBUTES:
        return rows, []
    taken = sorted(gains, key=lambda n: -gains[n])[:MOST_ATTRIBUTES]
    others = f"the other {len(gains) - len(taken)}, on average"
    found = [r for n in taken for r in rows if r["attribute"] == n]
    for attack in dict.fromkeys(r["attack"] for r in rows):
        rest = [r for r in rows if r["attack"] == attack and r["attribute"] not in taken]
        if rest:
            means = {k: _mean([r[k] for r in rest]) for k in ("value", "prior")}
            found.append({"attack": attack, "attribute": others, "low": None, "high": None, **means})
    return found, [f"the {len(taken)} of {len(gains)} attributes of which most is learnt"]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def entropy(rows: list[dict[str, Any]], target: PendingFile) -> None:
    """Draw the paper's Fig. 3, H(M) over N, a line for each gamma; with records, what an owner decides by."""
    alt = altair()
    if "attribute" in rows[0]:
        raise UsageError(
            "no-picture-of-release",
            "the matrices of a release have no picture",
            f"leave out {argument('plot')}, or the release",
        )
    if "expected_error" in rows[0]:
        save(_decision(alt, rows), target)
        return
    gammas = sorted({r["gamma"] for r in rows})
    chart = (
        alt.Chart(alt.Data(values=rows), width=520, height=340)
        .mark_line(point=True)
        .encode(
            x=alt.X("N:Q", title="N, number of values or bins"),
            y=alt.Y("entropy:Q", title="H(M), bits", scale=alt.Scale(zero=False)),
            color=alt.Color("gamma:O", title="gamma", scale=alt.Scale(scheme="viridis"), sort=gammas),
        )
    )
    save(chart.properties(title="Entropy of the perturbation matrix"), target)


def _decision(alt: Any, rows: list[dict[str, Any]]) -> Any:
    """Return what an owner decides by: over gamma, the error for each N, and what a belief becomes."""
    sizes = sorted({r["N"] for r in rows})
    wanted = [sizes[0] * (sizes[-1] / sizes[0]) ** (i / (MOST_LINES - 1)) for i in range(MOST_LINES)]
    taken = {min(sizes, key=lambda n: abs(math.log(n / w))) for w in wanted}  # as far apart as can be
    lines = [r | {"line": f"N = {r['N']}"} for r in rows if r["N"] in taken]
    order = [f"N = {n}" for n in sorted(taken)]
    x = alt.X("gamma:Q", title="gamma", scale=alt.Scale(zero=False, nice=False))  # labels stand outside
    of_lines = alt.Chart(alt.Data(values=lines), width=520, height=260).encode(
        x=x,
        y=alt.Y(
            "expected_error:Q",
            title="error, |estimate - truth| / n",
            scale=alt.Scale(type="log", nice=False, padding=8),
        ),
        color=alt.Color("line:N", sort=order, legend=None, scale=alt.Scale(scheme="tableau10")),
    )
    last = max(r["gamma"] for r in lines)
    ends = alt.Chart(alt.Data(values=[r for r in lines if r["gamma"] == last])).encode(
        x=x, y="expected_error:Q", text="line:N", color=alt.Color("line:N", sort=order, legend=None)
    )
    becomes = [f"{rows[0]['rho1']:.0%} becomes", "(one value alone)"]
    belief = (
        alt.Chart(alt.Data(values=lines), width=520, height=140)
        .mark_line()
        .encode(x=x, y=alt.Y("rho2:Q", title=becomes, axis=alt.Axis(format="%")))
    )
    error = of_lines.mark_line() + ends.mark_text(align="left", dx=6)
    return (error & belief).properties(title=f"What gamma and N cost and give, {rows[0]['records']} records")


def designs(rows: list[dict[str, Any]], target: PendingFile) -> None:
    """Draw what designs tell of a pair over a record's epsilon, a line for each way to publish."""
    alt = altair()
    chart = (
        alt.Chart(alt.Data(values=[r for r in rows if r["clean_pair"]]), width=520, height=300)
        .mark_line(point=True)
        .encode(
            x=alt.X("epsilon:Q", title="epsilon of a record", scale=alt.Scale(type="log", nice=False)),
            y=alt.Y(
                "clean_pair:Q", title="clean records that tell as much of a pair", scale=alt.Scale(type="log")
            ),
            color=alt.Color("publish:N", title="published", scale=alt.Scale(scheme="tableau10")),
        )
    )
    save(chart.properties(title=f"What {rows[0]['records']} records tell of pairs"), target)

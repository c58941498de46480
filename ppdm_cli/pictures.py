"""Charts from result tables, as SVG, PNG, PDF or stand-alone HTML, without a browser."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ppdm_cli.errors import DataError, UsageError, one_line, quoted
from ppdm_cli.percentages import percent
from ppdm_cli.tables import Target

MOST_LINES = 6
"""The most lines of a picture; each has a colour of its own."""
_SUFFIXES = (".svg", ".png", ".pdf", ".html")


def opened(stack: ExitStack, path: Path, force: bool) -> Target:
    """Open a picture before anything is computed: check its suffix, the extra, and that it may be written."""
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"the suffix of {quoted(path.name)} names no picture",
            f"name a file that ends in {', '.join(_SUFFIXES)}",
        )
    _altair()
    return stack.enter_context(Target(path, force))


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise UsageError(
            "pictures need an extra that is not installed", "install it with: pip install 'ppdm-cli[plot]'"
        ) from None
    return altair


def entropy(rows: list[dict[str, Any]], target: Target) -> None:
    """Draw the paper's Fig. 3: H(M) over N, one line per gamma; for a release, one bar per attribute."""
    alt = _altair()
    data = alt.Data(values=rows)
    if "attribute" in rows[0]:
        chart = (
            alt.Chart(data, width=520)
            .mark_bar()
            .encode(
                x=alt.X("entropy:Q", title="H(M), bits"),
                y=alt.Y("attribute:N", sort="-x", title=None),
                tooltip=["attribute:N", "gamma:Q", "N:Q", "entropy:Q"],
            )
        )
    elif "expected_error" in rows[0]:
        save(_decision(alt, rows), target)
        return
    else:
        gammas = sorted({r["gamma"] for r in rows})
        chart = (
            alt.Chart(data, width=520, height=340)
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
    belief = (
        alt.Chart(alt.Data(values=lines), width=520, height=140)
        .mark_line()
        .encode(x=x, y=alt.Y("rho2:Q", title=f"{rows[0]['rho1']:.0%} becomes", axis=alt.Axis(format="%")))
    )
    error = of_lines.mark_line() + ends.mark_text(align="left", dx=6)
    return (error & belief).properties(title=f"What gamma and N cost and give, {rows[0]['records']} records")


def designs(rows: list[dict[str, Any]], target: Target) -> None:
    """Draw what designs tell of a pair over a record's epsilon, a line for each way to publish."""
    alt = _altair()
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


def save(chart: Any, target: Target) -> None:
    """Fill the file with the chart, in the format of its suffix; `publish` puts it in its place."""
    import vl_convert

    form = target.named.suffix.lower()[1:]
    spec = _shown_in(chart.to_dict())
    try:
        content = _drawn(vl_convert, spec, form)
    except ValueError:  # its message is Vega's, and may quote a label
        raise DataError(
            f"the picture {quoted(target.named)} cannot be drawn: it is too large for the drawing library",
            "draw less of it, such as --attribute COL of estimate, or name a table with -o instead",
        ) from None
    target.put(content)


def _drawn(vl_convert: Any, spec: Any, form: str) -> bytes:
    if form == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2))
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    if form == "svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    # The page holds the specification as it is. What could end its script travels as characters of private
    # use, which no name has any more (`_shown_in`), and arrives as escapes.
    page = str(vl_convert.vegalite_to_html(_mapped(spec, lambda t: t.translate(_MARKS)), bundle=True))
    for mark, stand_in in _MARKS.items():
        page = page.replace(stand_in, f"\\u{mark:04x}")
    return page.encode()


_MARKS = {ord("<"): "\ue000", ord(">"): "\ue001", ord("&"): "\ue002"}


def _shown_in(part: Any) -> Any:
    """Return text with control characters spelt out: a drawing that had one could not be read."""
    return _mapped(part, one_line)


def _mapped(part: Any, change: Callable[[str], str]) -> Any:
    """Return the same with every text in it changed."""
    if isinstance(part, dict):
        return {k: _mapped(v, change) for k, v in part.items()}
    if isinstance(part, list):
        return [_mapped(v, change) for v in part]
    return change(part) if isinstance(part, str) else part


def attacks(rows: list[dict[str, Any]], target: Target) -> None:
    """Draw each attack's exact guesses beside the prior's, one panel per attribute; otherwise the errors."""
    alt = _altair()
    exact = any(r.get("exact") is not None for r in rows)
    what, title = ("exact", "named exactly") if exact else ("rmse_share", "RMSE, of the standard deviation")
    shown = [r for r in rows if r.get(what) is not None]
    data = [
        {
            "attack": r["attack"],
            "attribute": r["attribute"],
            "value": r[what],
            "low": r.get(f"{what}_low"),
            "high": r.get(f"{what}_high"),
            "prior": r.get("exact_prior") if exact else 1.0,
        }
        for r in shown
    ]
    base = alt.Chart(alt.Data(values=data), width=300).encode(y=alt.Y("attack:N", sort=None, title=None))
    axis = alt.Axis(format="%") if exact else alt.Axis()
    bars = base.mark_bar(color="#8db4dc").encode(x=alt.X("value:Q", title=title, axis=axis))
    interval = base.mark_rule(color="black").encode(x="low:Q", x2="high:Q")
    prior = base.mark_tick(color="#c8102e", thickness=2).encode(x="prior:Q")
    places = list(dict.fromkeys(r["attribute"] for r in shown))
    chart = alt.layer(bars, interval, prior).facet(
        facet=alt.Facet("attribute:N", title=None, sort=places, header=alt.Header(labelFontSize=12)), columns=2
    )
    title = "Attacks (bars) and the prior alone (red)"
    save(chart.properties(title=title), target)


_SERIES = {"observed": "#cfd4da", "estimated, {} interval": "#0b5cad", "true": "#c8102e"}
_MOST_LABELS = 25
"""The most labels below a panel; of more, every second, third, ... is shown."""
_MOST_VALUES = 100
"""The most categories in a panel; of more, the most frequent are drawn."""
_BIN = re.compile(r"\[[^,]*, [^,]*[\])]")
"""The label of a bin of dates or times; its beginning is shown."""


def distributions(rows: list[dict[str, Any]], target: Target, level: float = 0.95) -> None:
    """Draw observed, estimated (with intervals) and, if known, true counts, one panel per attribute.

    Bins of numbers stand on an axis of numbers, categories side by side.
    """
    alt = _altair()
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        title = row["attribute"] + (f", class {row['class']}" if "class" in row else "")
        panels.setdefault(title, []).append(row)
    colors = {s.format(percent(level)): c for s, c in _SERIES.items() if s != "true" or "true" in rows[0]}
    classes = len({row["class"] for row in rows}) if "class" in rows[0] else 0
    columns = classes if 2 <= classes <= 4 else min(len(panels), 3 if len(panels) > 4 else 2)
    charts = [
        _panel(alt, title, panel, 480 if columns == 1 else 300, place % columns == 0, colors)
        for place, (title, panel) in enumerate(panels.items())
    ]
    chart = alt.concat(*charts, columns=columns, spacing={"row": 24, "column": 32}).configure(
        font="Helvetica, Arial, sans-serif",
        view={"stroke": None},
        axis={
            "domainColor": "#888888",
            "tickColor": "#888888",
            "gridColor": "#eeeeee",
            "titleFontWeight": "normal",
        },
        title={"anchor": "start", "fontSize": 12, "offset": 8},
    )
    save(chart.resolve_scale(color="shared", x="independent", y="independent"), target)


def _panel(
    alt: Any, title: str, rows: list[dict[str, Any]], width: int, leftmost: bool, colors: dict[str, str]
) -> Any:
    series, scale = list(colors), alt.Scale(domain=list(colors), range=list(colors.values()))
    legend = alt.Legend(
        orient="top", symbolType="square", symbolSize=90, symbolStrokeWidth=0, symbolOpacity=1, labelLimit=300
    )
    color = alt.Color("series:N", title=None, scale=scale, legend=legend)

    def y(field: str) -> Any:
        axis = alt.Axis(tickCount=5, domain=False, ticks=False)
        return alt.Y(
            f"{field}:Q", title="records" if leftmost else None, scale=alt.Scale(nice=5, zero=True), axis=axis
        )

    bins = all(math.isfinite(r["lower"]) for r in rows if r["label"] != "null") and rows[0]["label"] != "null"
    if not bins and len(rows) > _MOST_VALUES:
        title, rows = f"{title} (the {_MOST_VALUES} commonest of {len(rows):,} values)", _commonest(rows)
    thin = len(rows) > _MOST_LABELS
    data = alt.Data(values=_placed(rows) if bins else [{**r, "lower": None, "upper": None} for r in rows])
    base = alt.Chart(data).encode(tooltip=[f"{n}:{'N' if n == 'label' else 'Q'}" for n in _shown(rows)])
    if bins:
        limits = alt.Scale(nice=False, zero=False)
        form = "~s" if rows[0]["upper"] - rows[0]["lower"] >= 100 else ",.6~g"
        axis = alt.Axis(grid=False, tickCount=6, labelExpr=f"format(datum.value, '{form}')", labelFlush=False)
        middle, left = (alt.X(f"{n}:Q", title=None, scale=limits, axis=axis) for n in ("middle", "left"))
        bars = base.mark_rect(stroke="white", strokeWidth=0 if thin else 1).encode(
            x=left, x2="right:Q", y=y("observed"), y2=alt.datum(0)
        )
        true = base.mark_rule(strokeWidth=2).encode(x=left, x2="right:Q", y=y("true"))
    else:
        every = -(-len(rows) // _MOST_LABELS)
        labels = [r["label"] for r in rows]
        short = [label.split(", ")[0][1:] if _BIN.fullmatch(label) else label for label in labels]
        flat = sum(map(len, short)) * 8 < width
        axis = alt.Axis(values=labels[::every], labelAngle=0 if flat else -45, labelLimit=110, ticks=False)
        if short != labels:
            axis.labelExpr = "datum.label == 'null' ? 'null' : slice(split(datum.label, ', ')[0], 1)"
        middle = alt.X("label:N", sort=labels, title=None, axis=axis)
        bars = base.mark_bar(opacity=1).encode(x=middle, y=y("observed"))
        true = base.mark_tick(thickness=2, opacity=1, bandSize=0.8 * width / len(rows)).encode(
            x=middle, y=y("true")
        )
    between = base.mark_rule(strokeWidth=1 if thin else 1.5, opacity=0.45 if thin else 1).encode(
        x=middle, y=y("low"), y2="high:Q"
    )
    points = base.mark_point(filled=True, opacity=1, size=8 if thin else 28).encode(x=middle, y=y("estimate"))
    named = [(bars, 0), *([(true, 2)] if "true" in rows[0] else []), (points, 1)]
    if "high" in _shown(rows):
        named.insert(-1, (between, 1))
    layers = [
        layer.transform_calculate(series=f"'{series[place]}'").encode(color=color) for layer, place in named
    ]
    if bins and rows[-1]["label"] == "null":
        layers.append(
            base.mark_text(baseline="bottom", dy=-4, fontSize=10)
            .encode(x=middle, y=y("top"), text=alt.value("null"))
            .transform_filter("datum.label == 'null'")
        )
    return alt.layer(*layers).properties(title=title, width=width, height=180)


def _commonest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the commonest categories, in their order."""
    places = sorted(range(len(rows)), key=lambda i: -rows[i]["estimate"])[:_MOST_VALUES]
    return [rows[i] for i in sorted(places)]


def _shown(rows: list[dict[str, Any]]) -> list[str]:
    names = ("label", "observed", "estimate", "low", "high", "true")
    return [n for n in names if any(r.get(n) is not None for r in rows)]


def _placed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the bins with their ends on the axis; null has none, and stands to the right of them."""
    ordinary = [r for r in rows if r["label"] != "null"]
    end = ordinary[-1]["upper"]
    width = (end - ordinary[0]["lower"]) / len(ordinary)
    placed = []
    for row in rows:
        null = row["label"] == "null"
        left, right = (end + width, end + 2 * width) if null else (row["lower"], row["upper"])
        top = max(row["observed"], row["estimate"], row["high"] or 0)
        ends = {"left": left, "right": right, "middle": (left + right) / 2, "top": top}
        placed.append({**row, "lower": None, "upper": None, **ends})
    return placed

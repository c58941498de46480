"""Charts for `--plot`, each legible at the width of a page, in files of SVG, PNG, PDF or stand-alone HTML.

`distributions` for estimate and notebooks, `draw_attacks` for attack; `draw_entropy` for entropy. Neither a
browser nor a network is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ppdm_cli.display import percent
from ppdm_cli.errors import DataError, UsageError, argument, missing_package, one_line, quoted
from ppdm_cli.tables import PendingFile

if TYPE_CHECKING:
    import polars as pl

    from ppdm_cli.attacks import GuessFigures

MOST_VALUES, MOST_PANELS = 30, 60
"""The most categories of a panel, of which the most common are shown, and the most panels of a picture."""
_SERIES = {"observed": "#cfd4da", "estimated, {} interval": "#0b5cad", "true": "#c8102e"}
_HIGH, _LOW, _MANY = 180, 100, 12
"""The height of a panel, its height among many, and how many those are."""
_THIN = 25
"""The number of values above which marks are thin."""
_LETTER, _ROW, _LABEL = 6.5, 14, 26
"""Pixels of a letter and of a category's row; letters of a label that is shown whole."""
_BIN = re.compile(r"\[([^,]*), [^,]*[\])]")
"""The label of a bin; its beginning is shown."""
_APART = " "
"""The gap between the values and null."""
MOST_ATTRIBUTES = 30
"""The most attributes with bars of their own; the others are averaged."""
_OF_ATTACKS = ("#0b5cad", "#8db4dc", "#57606a", "#9a6700", "#1a7f37", "#8250df", "#bf3989", "#1b7c83")
_PRIOR = "#c8102e"
_BAR, _WIDTH = 9, 440
_SUFFIXES = (".svg", ".png", ".pdf", ".html")
_MARKS = {ord("<"): "\ue000", ord(">"): "\ue001", ord("&"): "\ue002"}

Chart = Any
"""A chart, or a part of one, of altair, an extra without types."""
Curve = Sequence[Mapping[str, float]]
"""The rows of a table of entropy: points of lines."""


class CountRow(msgspec.Struct, frozen=True):
    """The counts of a value: published, estimated with an interval, and true if known."""

    attribute: str
    label: str
    observed: float
    estimate: float
    low: float | None = None
    high: float | None = None
    true: float | None = None
    class_: str | None = msgspec.field(default=None, name="class")

    @property
    def drawn(self) -> dict[str, str | float]:
        """Return the fields for a chart, without unknown ones."""
        names = ("label", "observed", "estimate", "low", "high", "true")
        return {n: v for n in names if (v := getattr(self, n)) is not None}


@dataclass(frozen=True)
class Picture:
    chart: Chart

    def _repr_png_(self) -> bytes:
        import vl_convert

        return _drawn(vl_convert, _drawn_in(self.chart.to_dict()), "png")

    def save(self, target: PendingFile) -> None:
        save(self.chart, target)


def distributions(frame: pl.DataFrame, level: float = 0.95, by: str | None = None) -> Picture:
    """Draw observed, estimated (with intervals) and, if known, true counts, one panel per attribute.

    Short labels, and bins by their beginnings, are side by side; others below each other. If not all records
    show an attribute, its observed counts are scaled to all records.

    Parameters
    ----------
    frame : polars.DataFrame
        The frame of an `Estimate`.
    level : float, default 0.95
        The level of its intervals.
    by : str, optional
        The class of its rows.
    """
    import polars as pl

    alt = altair()
    scale = (pl.sum("estimate") / pl.sum("observed").clip(1)).over("attribute")
    partly = bool(frame.select((scale > 1.001).any()).item())
    rows = msgspec.convert(frame.with_columns(pl.col("observed") * scale).to_dicts(), list[CountRow])
    panels: dict[str, list[CountRow]] = {}
    for row in rows:
        title = row.attribute + (f" where {by or 'class'} is {row.class_}" if row.class_ is not None else "")
        panels.setdefault(title, []).append(row)
    named = {"observed": "observed, scaled to all records"} if partly else {}
    colors = {
        named.get(s, s).format(percent(level)): c
        for s, c in _SERIES.items()
        if s != "true" or rows[0].true is not None
    }
    classes = len({row.class_ for row in rows} - {None})
    columns = classes if 2 <= classes <= 3 else min(len(panels), 3 if len(panels) > 4 else 2)
    width = {1: 480, 2: 290, 3: 190}[columns]
    visible = [_Panel(title, own, width, colors) for title, own in list(panels.items())[:MOST_PANELS]]
    if not classes:  # those of many rows come last, beside each other
        visible.sort(key=lambda p: not p.beside)
    high = _HIGH if len(visible) <= _MANY else _LOW
    charts = [panel.chart(high, place % columns == 0) for place, panel in enumerate(visible)]
    chart = alt.concat(*charts, columns=columns, spacing={"row": 24, "column": 28})
    if len(panels) > MOST_PANELS:
        cut = f"The first {MOST_PANELS} of {len(panels):,} distributions; {argument('attributes')} has others."
        chart = chart.properties(title=alt.TitleParams(cut, anchor="start", offset=16))
    gray = dict.fromkeys(("domainColor", "tickColor"), "#888888")
    chart = chart.configure(
        font="Helvetica, Arial, sans-serif",
        view={"stroke": None},
        axis=gray | {"gridColor": "#eeeeee", "titleFontWeight": "normal"},
        title={"anchor": "start", "fontSize": 12, "offset": 8, "subtitleFontSize": 10},
    )
    return Picture(chart.resolve_scale(color="shared", x="independent", y="independent"))


@dataclass(frozen=True)
class _Panel:
    title: str
    rows: list[CountRow]
    width: int
    colors: dict[str, str]

    @cached_property
    def labels(self) -> list[str]:
        return [r.label for r in self.rows if r.label != "null"]

    @cached_property
    def binned(self) -> bool:
        return bool(self.labels) and all(map(_BIN.fullmatch, self.labels))

    @cached_property
    def beside(self) -> bool:
        """Return whether the labels fit side by side."""
        width = sum(len(r.label) * _LETTER + 8 for r in self.rows)
        return self.binned or (len(self.labels) <= MOST_VALUES and width < self.width)

    def chart(self, high: int, leftmost: bool) -> Chart:
        """Return the chart, with the title of its counts if it is `leftmost`."""
        alt = altair()
        some, subtitle = (self, "") if self.beside else self._commonest()
        chart = alt.layer(*(some._upright(leftmost) if self.beside else some._in_rows()))
        if not self.beside:
            chart = chart.resolve_axis(x="independent").resolve_scale(x="shared")
        heading = alt.TitleParams(self.title, subtitle=subtitle, limit=self.width + 60)
        return chart.properties(title=heading, width=self.width, height=high if self.beside else alt.Step(_ROW))

    def _upright(self, leftmost: bool) -> list[Chart]:
        """Return values side by side, as many of their labels as fit, upright."""
        alt, bins = altair(), [m[1] for m in map(_BIN.fullmatch, self.labels) if m]
        short = bins if self.binned else self.labels
        ends = {4: "-01-01", 7: "-01", 10: ""}  # years need no months, months no days, days no hours
        cut = next(
            (c for c, rest in ends.items() if all(s[c:].split("T00:00:00")[0] == rest for s in short)), 19
        )
        fitting = max(1, self.width // int(max((len(s[:cut]) for s in short), default=1) * _LETTER + 8))
        values = [*self.labels[:: -(-len(self.labels) // fitting) or 1], "null"]
        beginning = f"datum.label[0] == '[' ? slice(split(datum.label, ', ')[0], 1, {cut + 1}) : datum.label"
        text = beginning if self.binned else alt.Undefined
        axis = alt.Axis(values=values, labelAngle=0, labelLimit=self.width, ticks=False, labelExpr=text)

        def counts(field: str) -> Chart:
            axis = alt.Axis(tickCount=5, domain=False, ticks=False)
            title = "records" if leftmost else None
            return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(nice=5, zero=True), axis=axis)

        return self._layers({"x": self._position(alt.X, axis)}, counts, 28, 0.8 * self.width / len(self.rows))

    def _in_rows(self) -> list[Chart]:
        """Return values one below another, with an axis of records at either end."""
        alt = altair()

        def counts(field: str) -> Chart:
            orient = {"observed": "bottom", "estimate": "top"}.get(field)
            axis = None if orient is None else alt.Axis(tickCount=4, orient=orient, ticks=False)
            title = "records" if orient else None
            return alt.X(f"{field}:Q", title=title, axis=axis, scale=alt.Scale(zero=True))

        axis = alt.Axis(labelLimit=_LABEL * _LETTER, ticks=False, domain=False)
        return self._layers({"y": self._position(alt.Y, axis)}, counts, 22, 0.8 * _ROW)

    def _position(self, channel: Chart, axis: Chart) -> Chart:
        """Return the axis of values; null is set apart."""
        places = [*self.labels, *[_APART, "null"] * (len(self.labels) < len(self.rows))]
        scale = altair().Scale(domain=places)
        return channel("label:N", scale=scale, sort=None, title=None, axis=axis)

    def _layers(self, at: dict[str, Chart], counts: Chart, size: int, band: float) -> list[Chart]:
        """Return the marks of observed, true and estimated counts, in the colours that the legend names."""
        alt, data = altair(), [r.drawn for r in self.rows]
        fields = [
            n for n in ("label", "observed", "estimate", "low", "high", "true") if any(n in d for d in data)
        ]
        base = alt.Chart(alt.Data(values=data)).encode(
            **at, tooltip=[f"{n}:{'N' if n == 'label' else 'Q'}" for n in fields]
        )
        over = "y" if "x" in at else "x"
        size, width, opacity = (8, 1, 0.45) if len(self.rows) > _THIN and self.beside else (size, 1.5, 1)
        ends = {over: counts("low"), f"{over}2": "high:Q"}
        marks = [(0, base.mark_bar(opacity=1).encode(**{over: counts("observed")}))]
        if "true" in fields:
            tick = base.mark_tick(thickness=2, opacity=1, bandSize=band)
            marks.append((2, tick.encode(**{over: counts("true")})))
        if "high" in fields:
            marks.append((1, base.mark_rule(strokeWidth=width, opacity=opacity).encode(**ends)))
        point = base.mark_point(filled=True, opacity=1, size=size)
        marks.append((1, point.encode(**{over: counts("estimate")})))
        look = {"symbolType": "square", "symbolSize": 90, "symbolStrokeWidth": 0, "symbolOpacity": 1}
        scale = alt.Scale(domain=list(self.colors), range=list(self.colors.values()))
        legend = alt.Legend(orient="top", labelLimit=300, **look)
        color, series = alt.Color("series:N", title=None, scale=scale, legend=legend), list(self.colors)
        return [m.transform_calculate(series=f"'{series[i]}'").encode(color=color) for i, m in marks]

    def _commonest(self) -> tuple[_Panel, str]:
        """Return the panel of the most common categories, in their order, and a note on the rest."""
        values = [r for r in self.rows if r.label != "null"]
        if len(values) <= MOST_VALUES:
            return self, ""
        taken = {r.label for r in sorted(values, key=lambda r: -r.estimate)[:MOST_VALUES]}
        rest = sum(max(r.estimate, 0.0) for r in values if r.label not in taken)
        share = rest / max(sum(max(r.estimate, 0.0) for r in self.rows), 1e-300)
        visible = [r for r in self.rows if r.label in taken or r.label == "null"]
        words = f"the {MOST_VALUES} most common of {len(values):,} values (the rest have {percent(share)})"
        return replace(self, rows=visible), words


@dataclass(frozen=True)
class _Guessed:
    """The score of an attack on an attribute, next to that of the prior alone."""

    attack: str
    attribute: str
    value: float
    prior: float | None
    low: float | None = None
    high: float | None = None


def draw_attacks(rows: Sequence[GuessFigures], target: PendingFile) -> None:
    """Draw each attack's exact guesses beside the prior's; otherwise the errors."""
    alt = altair()
    exact = any(r.exact is not None for r in rows)
    title = "named exactly" if exact else "RMSE, of the standard deviation"
    baseline = "the prior alone" if exact else "a guess of the mean"
    every = []
    for r in rows:
        if exact and r.exact is not None:
            every.append(_Guessed(r.attack, r.attribute, r.exact, r.exact_prior, r.exact_low, r.exact_high))
        elif not exact and r.rmse_share is not None:
            every.append(_Guessed(r.attack, r.attribute, r.rmse_share, 1.0))
    data, cut = _largest(every)
    names = list(dict.fromkeys(r.attack for r in every))
    places = list(dict.fromkeys(r.attribute for r in data))
    scale = alt.Scale(domain=[*names, baseline], range=[*_OF_ATTACKS[: len(names)], _PRIOR])
    color = alt.Color("series:N", title=None, scale=scale, legend=alt.Legend(orient="top", labelLimit=200))
    base = alt.Chart(alt.Data(values=list(map(asdict, data)))).encode(
        y=alt.Y("attribute:N", sort=places, title=None, axis=alt.Axis(labelLimit=180, ticks=False))
    )
    apart = alt.YOffset("attack:N", sort=names)

    def x(field: str, orient: str | None = None) -> Chart:
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


def _largest(rows: list[_Guessed]) -> tuple[list[_Guessed], list[str]]:
    """Return the rows of the attributes with the largest leaks, and one for the rest; and a note on these."""
    gains: dict[str, float] = {}
    for r in rows:
        gains[r.attribute] = max(gains.get(r.attribute, 0.0), abs(r.value - (r.prior or 0.0)))
    if len(gains) <= MOST_ATTRIBUTES:
        return rows, []
    taken = sorted(gains, key=lambda n: -gains[n])[:MOST_ATTRIBUTES]
    others = f"the other {len(gains) - len(taken)}, on average"
    found = [r for n in taken for r in rows if r.attribute == n]
    for attack in dict.fromkeys(r.attack for r in rows):
        if rest := [r for r in rows if r.attack == attack and r.attribute not in taken]:
            priors = [r.prior for r in rest if r.prior is not None]
            prior = sum(priors) / len(priors) if priors else None
            found.append(_Guessed(attack, others, sum(r.value for r in rest) / len(rest), prior))
    return found, [f"the {len(taken)} of {len(gains)} attributes with the largest leaks"]


def draw_entropy(rows: Curve, target: PendingFile) -> None:
    """Draw the paper's Fig. 3, H(M) over N, a line for each gamma."""
    alt = altair()
    if "attribute" in rows[0]:
        what = "the matrices of a release have no picture"
        raise UsageError("no-picture-of-release", what, f"leave out {argument('plot')}, or the release")
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


def open_picture(stack: ExitStack, path: Path, force: bool) -> PendingFile:
    """Open a picture before anything is computed: check its suffix, the extra, and that it may be written."""
    if path.suffix.lower() not in _SUFFIXES:
        what = f"{quoted(path.name)} has no suffix of a picture"
        raise UsageError("unknown-picture-format", what, f"name a file that ends in {', '.join(_SUFFIXES)}")
    altair()
    return stack.enter_context(PendingFile(path, force))


def altair() -> Chart:
    """Return the library that describes charts; a picture needs an extra."""
    try:
        import altair as found
        import vl_convert  # noqa: F401
    except ImportError:
        raise missing_package("pictures need a library", "altair", "vl-convert-python") from None
    return found


def save(chart: Chart, target: PendingFile) -> None:
    """Fill the file with the chart, in the format of its suffix; `commit` puts it in its place."""
    import vl_convert

    form = target.named.suffix.lower()[1:]
    try:
        content = _drawn(vl_convert, _drawn_in(chart.to_dict()), form)
    except (KeyboardInterrupt, SystemExit, MemoryError, OSError):
        raise
    except BaseException:  # Vega's message may quote a label, and a panic isn't a subclass of Exception
        what = f"the picture {quoted(target.named)} cannot be drawn: it is too large for the drawing library"
        step = f"draw less, such as {argument('attributes', 'COL')} of estimate, or write a table instead"
        raise DataError("picture-too-large", what, step) from None
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


def _drawn_in(part: object) -> Any:
    """Return text with control characters spelled out: a drawing with one could not be read."""
    return _mapped(part, one_line)


def _mapped(part: object, change: Callable[[str], str]) -> Any:
    """Return the same with every text in it changed."""
    if isinstance(part, dict):
        return {k: _mapped(v, change) for k, v in part.items()}
    if isinstance(part, list):
        return [_mapped(v, change) for v in part]
    return change(part) if isinstance(part, str) else part

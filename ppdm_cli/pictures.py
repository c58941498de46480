"""Charts from result tables, as SVG, PNG, PDF or stand-alone HTML, without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.tables import Target
from ppdm_cli.tables.replacing import writing

_SUFFIXES = (".svg", ".png", ".pdf", ".html")


def check(path: Path, force: bool) -> None:
    """Before anything is computed: the suffix is known, the extra is there, the file may be written."""
    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"the suffix of {quoted(path.name)} names no picture",
            f"name a file that ends in {', '.join(_SUFFIXES)}",
        )
    _altair()
    with Target(path, force):
        pass


def _altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise UsageError(
            "pictures need an extra that is not installed", "install it with: pip install 'ppdm-cli[plot]'"
        ) from None
    return altair


def entropy(rows: list[dict[str, Any]], path: Path, force: bool = False) -> None:
    """The paper's Fig. 3: H(M) over N, a line a gamma; of a release, a bar an attribute."""
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
    save(chart.properties(title="Entropy of the perturbation matrix"), path, force)


def save(chart: Any, path: Path, force: bool) -> None:
    """The chart in the format of the path's suffix, whole or not at all."""
    import vl_convert

    form = path.suffix.lower()[1:]
    spec = chart.to_json()
    with Target(path, force) as target:
        if form == "png":
            content = vl_convert.vegalite_to_png(spec, scale=2)
        elif form == "pdf":
            content = vl_convert.vegalite_to_pdf(spec)
        elif form == "html":
            content = vl_convert.vegalite_to_html(spec, bundle=True).encode()
        else:
            content = vl_convert.vegalite_to_svg(spec).encode()
        with writing(path):
            target.file.write(content)
        target.flush()
        target.rename()


_SERIES = {"observed": "#b8b8b8", "estimated": "#1f6feb", "true": "#d1242f"}
_PANELS_A_ROW = 2


def distributions(rows: list[dict[str, Any]], path: Path, force: bool = False) -> None:
    """Observed, estimated (with intervals) and, where known, true counts: a panel an attribute."""
    alt = _altair()
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        title = row["attribute"] + (f", class {row['class']}" if "class" in row else "")
        panels.setdefault(title, []).append(row)
    charts = [_panel(alt, title, panel) for title, panel in panels.items()]
    save(
        alt.concat(*charts, columns=_PANELS_A_ROW).resolve_scale(color="shared"),
        path,
        force,
    )


def _panel(alt: Any, title: str, rows: list[dict[str, Any]]) -> Any:
    series = [s for s in _SERIES if s != "true" or "true" in rows[0]]
    names = {"observed": "observed", "estimated": "estimate", "true": "true"}
    points = [
        {"code": r["code"], "label": r["label"], "count": r[names[s]], "series": s}
        for r in rows
        for s in series
    ]
    ends = [{"code": r["code"], "label": r["label"], "low": r["low"], "high": r["high"]} for r in rows]
    order = [r["label"] for r in rows]
    many = len(rows) > 40
    x = (
        alt.X("code:Q", title="code")
        if many
        else alt.X("label:N", sort=order, title=None, axis=alt.Axis(labelAngle=-45, labelLimit=120))
    )
    color = alt.Color(
        "series:N", title=None, sort=series, scale=alt.Scale(domain=series, range=[_SERIES[s] for s in series])
    )
    marks = alt.Chart(alt.Data(values=points)).encode(
        x=x, y=alt.Y("count:Q", title="records"), color=color, tooltip=["label:N", "series:N", "count:Q"]
    )
    rules = (
        alt.Chart(alt.Data(values=ends))
        .mark_rule(color=_SERIES["estimated"], opacity=0.6)
        .encode(x=x, y=alt.Y("low:Q", title="records"), y2="high:Q")
    )
    lines = marks.mark_line(interpolate="linear" if many else "monotone", strokeWidth=1, point=not many)
    return (rules + lines).properties(title=title, width=360, height=220)

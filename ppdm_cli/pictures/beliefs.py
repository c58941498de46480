"""The picture of attacks: what each names exactly, beside the prior, a group of bars for each attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppdm_cli.pictures.drawing import altair, save
from ppdm_cli.tables import PendingFile

if TYPE_CHECKING:
    from ppdm_cli.attacks import GuessFigures

MOST_ATTRIBUTES = 30
"""The most attributes that have bars of their own; the others are averaged."""
_COLOURS = ("#0b5cad", "#8db4dc", "#57606a", "#9a6700", "#1a7f37", "#8250df", "#bf3989", "#1b7c83")
_PRIOR = "#c8102e"
_BAR, _WIDTH = 9, 440


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
    scale = alt.Scale(domain=[*names, baseline], range=[*_COLOURS[: len(names)], _PRIOR])
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

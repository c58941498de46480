"""Pictures of what matrices and designs cost and give."""

from __future__ import annotations

import math
from typing import Any

from ppdm_cli.pictures.drawing import altair, save
from ppdm_cli.tables import PendingFile

MOST_LINES = 6
"""The most lines of a picture; each has a colour of its own."""


def entropy(rows: list[dict[str, Any]], target: PendingFile) -> None:
    """Draw the paper's Fig. 3: H(M) over N, one line per gamma; for a release, one bar per attribute."""
    alt = altair()
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

"""A network as a picture: a graph for Graphviz, or a drawing with a row for each generation."""

from __future__ import annotations

from html import escape
from statistics import fmean

from ppdm_cli.errors import one_line
from ppdm_cli.networks.network import Network

_HIGH, _GAP, _ROW, _LONGEST = 34, 24, 96, 30
_ESTIMATED, _EXACT = "#f6f8fa", "#fff8c5"


def _shown(name: str) -> str:
    text = one_line(name)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "\u2026"


def dot(network: Network) -> str:
    """Return a graph in Graphviz's language; nodes are named by number, so that no name can clash."""
    numbers = {name: i for i, name in enumerate(network.nodes)}
    out = ["digraph network {", '  node [shape=ellipse, style=filled, fontname="Helvetica"];']
    for i, node in enumerate(network):
        label = _shown(node.name).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
        out.append(f'  n{i} [label="{label}", fillcolor="{_EXACT if node.exact else _ESTIMATED}"];')
        out += [f"  n{numbers[p]} -> n{i};" for p in node.parents]
    return "\n".join([*out, "}", ""])


def svg(network: Network) -> str:
    """Return a drawing; each node stands below its parents, in the middle of them where there is room."""
    rows: dict[str, int] = {}
    x: dict[str, float] = {}
    half = {n: max(60, 8 * len(_shown(n)) + 20) / 2 for n in network.nodes}
    for name in network.order:
        rows[name] = 1 + max((rows[p] for p in network[name].parents), default=-1)
    in_row: dict[int, list[str]] = {}
    for name in network.order:
        in_row.setdefault(rows[name], []).append(name)
    for row in range(len(in_row)):
        own = {n: fmean([x[p] for p in network[n].parents] or [0]) for n in in_row[row]}
        right = 0.0
        for name in sorted(own, key=own.__getitem__):
            x[name] = max(right + half[name] + _GAP, own[name])
            right = x[name] + half[name]
    y = {n: _GAP + _HIGH / 2 + _ROW * r for n, r in rows.items()}
    drawn = [
        f"<line x1='{x[p]:.0f}' y1='{y[p] + _HIGH / 2:.0f}' x2='{x[n]:.0f}' y2='{y[n] - _HIGH / 2 - 4:.0f}' "
        "stroke='#57606a' marker-end='url(#to)'/>"
        for n in x
        for p in network[n].parents
    ] + [
        f"<rect x='{x[n] - half[n]:.0f}' y='{y[n] - _HIGH / 2:.0f}' width='{2 * half[n]:.0f}' height='{_HIGH}' "
        f"rx='17' fill='{_EXACT if network[n].exact else _ESTIMATED}' stroke='#8c959f'/>"
        f"<text x='{x[n]:.0f}' y='{y[n] + 4:.0f}' text-anchor='middle'>{escape(_shown(n))}</text>"
        for n in x
    ]
    size = f"width='{max(x[n] + half[n] for n in x) + _GAP:.0f}' height='{max(y.values()) + _ROW / 2:.0f}'"
    font = "font-family='Helvetica,Arial,sans-serif' font-size='13' fill='#1f2328'"
    arrow = "<path d='M0,0L8,4L0,8z'/></marker></defs><rect width='100%' height='100%' fill='#ffffff'/>"
    head = "<defs><marker id='to' markerWidth='9' markerHeight='8' refX='6' refY='4' orient='auto'>"
    return "\n".join(
        [f"<svg xmlns='http://www.w3.org/2000/svg' {size} {font}>{head}{arrow}", *drawn, "</svg>", ""]
    )

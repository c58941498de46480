"""A tree as a picture: SVG, one row for each node, children below their parent and further to the right.

A strip beside each node shows the classes of its training records. Of a very large tree the lower parts are
folded, each into a row that says how many leaves it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

import numpy as np

from ppdm_cli.trees.labels import cases, outcome, plain
from ppdm_cli.trees.tree import Tree

DRAWN_ROWS = 800
_MOST_LABELS = 20
"""Labels that the legend names."""
_COLOURS = ("#0969da", "#cf5b16", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#1b7c83", "#cf222e", "#57606a")
_ROW, _STEP, _STRIP, _MARGIN = 22, 24, 40, 20


def svg(tree: Tree) -> str:
    """Return the whole document."""
    labels, more = [plain(v, 30) for v in tree.labels[:_MOST_LABELS]], len(tree.labels) - _MOST_LABELS
    words = [plain(tree.class_name, 30), *(f"\u25cf {v}" for v in labels), *[f"and {more} more"] * (more > 0)]
    colours = ["#1f2328", *(_colour(i) for i in range(len(labels))), "#1f2328"]
    spans = (f"<tspan fill='{c}'>{escape(w)}</tspan>" for c, w in zip(colours, words, strict=False))
    drawn, width, y = [_text(_MARGIN, _MARGIN, "   ".join(spans))], _width("   ".join(words)), 2 * _MARGIN
    at = {0: y}
    for node, depth, branch, name in _rows(tree):
        x, at[node] = _MARGIN + _STEP * depth, y
        if node:
            place = f"{x + _STRIP // 2 - _STEP} {at[int(tree.parent[node])] + 5}"
            drawn.append(f"<path d='M{place}V{y}H{x - 2}' fill='none' stroke='#8c959f'/>")
        ends = np.cumsum(tree.counts[node]) / max(tree.counts[node].sum(), 1e-300) * _STRIP
        for code, (a, b) in enumerate(zip([0.0, *ends], ends, strict=False)):
            if b - a >= 0.2:  # what is narrower cannot be seen
                box = f"x='{x + a:.1f}' y='{y - 4}' width='{b - a:.1f}' height='8' fill='{_colour(code)}'"
                drawn.append(f"<rect {box}/>")
        drawn.append(_text(x + _STRIP + 8, y, f"<tspan fill='#656d76'>{escape(branch)}</tspan>{escape(name)}"))
        width, y = max(width, x + _STRIP + _width(branch + name)), y + _ROW
    size = f"width='{width + 2 * _MARGIN:.0f}' height='{y + _MARGIN}'"
    font = "font-family='Helvetica,Arial,sans-serif' font-size='12' fill='#1f2328'"
    paper = "<rect width='100%' height='100%' fill='#ffffff'/>"
    return "\n".join([f"<svg xmlns='http://www.w3.org/2000/svg' {size} {font}>", paper, *drawn, "</svg>", ""])


def _rows(tree: Tree) -> Iterator[tuple[int, int, str, str]]:
    """Yield each node that is shown, depth first: its number, depth, the outcome that leads there, its name."""
    leaves, opened, rows = tree.is_leaf.astype(int), set[int](), 1
    for node in range(tree.size - 1, 0, -1):
        leaves[tree.parent[node]] += leaves[node]
    for node, size in enumerate(tree.children.tolist()):  # whole broods, as long as there are rows for them
        if size and (not node or (int(tree.parent[node]) in opened and rows + size <= DRAWN_ROWS)):
            opened.add(node)
            rows += size
    waiting = [(0, 0, "")]
    while waiting:
        node, depth, branch = waiting.pop()
        if not tree.children[node]:
            yield node, depth, branch, f"{plain(tree.labels[int(tree.label[node])], 30)} {cases(tree, node)}"
        elif node not in opened:
            yield node, depth, branch, f"\u2026 {leaves[node]} leaves"
        else:
            yield node, depth, branch, plain(tree.features[int(tree.feature[node])].name, 30)
            for b in reversed(range(min(int(tree.children[node]), DRAWN_ROWS))):
                waiting.append(
                    (int(tree.first_child[node]) + b, depth + 1, f"{outcome(tree, node, b, True)}  ")
                )


def _text(x: float, y: float, inside: str) -> str:
    return f"<text x='{x}' y='{y + 4}' xml:space='preserve'>{inside}</text>"


def _colour(code: int) -> str:
    return _COLOURS[code % len(_COLOURS)]


def _width(text: str) -> float:
    """Return about how wide a text is at 12 pixels."""
    return sum(13.0 if east_asian_width(c) in "WF" else 9.0 if c.isupper() else 6.9 for c in text)

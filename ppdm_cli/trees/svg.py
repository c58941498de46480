"""A tree as a picture: SVG from left to right, a row a leaf, so that it reads at any size.

A dot shows the class of a leaf, a strip the classes of the training records at a test. Of a tree with
very many leaves the lower parts are folded, each into one row that says how many leaves it stands for.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

import numpy as np

from ppdm_cli.trees.labels import cases, outcome, plain
from ppdm_cli.trees.tree import Tree

MOST_LEAVES = 400
"""Rows of a picture."""
_MOST_LABELS = 20
"""Labels that the legend names."""
_COLOURS = ("#0969da", "#cf5b16", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#1b7c83", "#cf222e", "#57606a")
_ROW, _MARGIN, _GAP = 24.0, 20.0, 40.0


@dataclass
class _Node:
    node: int
    depth: int = 0
    branch: str = ""
    words: str = ""
    inner: list[_Node] = field(default_factory=list)
    top: float = 2 * _MARGIN
    rows: int = 1

    @property
    def y(self) -> float:
        return self.top + self.rows * _ROW / 2

    @property
    def width(self) -> float:
        return _width(self.branch + self.words) + 14


def _width(text: str) -> float:
    """Return about how wide a text is at 12 pixels."""
    return sum(13.0 if unicodedata.east_asian_width(c) in "WF" else 9.0 if c.isupper() else 6.9 for c in text)


def _colour(code: int) -> str:
    return _COLOURS[code % len(_COLOURS)]


def svg(tree: Tree) -> str:
    """Return the whole document."""
    nodes, columns = _shown(tree), [_MARGIN]
    legend, right = _legend(tree)
    for depth in range(nodes[-1].depth + 1):
        columns.append(columns[-1] + max(n.width for n in nodes if n.depth == depth) + _GAP)
    for n in reversed(nodes):
        n.rows = sum(c.rows for c in n.inner) or 1
    drawn = []
    for n in nodes:
        top = n.top
        for child in n.inner:
            child.top, top = top, top + child.rows * _ROW
            start, end = columns[n.depth] + n.width, columns[child.depth] - 4
            curve = f"{start + 20:.1f} {n.y:.1f} {end - 20:.1f} {child.y:.1f}"
            path = f"M{start:.1f} {n.y:.1f}C{curve} {end:.1f} {child.y:.1f}"
            drawn.append(f"<path d='{path}' fill='none' stroke='#8c959f'/>")
        drawn += _node(tree, n, columns[n.depth])
    width, height = max(columns[-1], right), nodes[0].top + nodes[0].rows * _ROW + _MARGIN
    size = f"width='{width:.0f}' height='{height:.0f}' viewBox='0 0 {width:.0f} {height:.0f}'"
    font = "font-family='Helvetica,Arial,sans-serif' font-size='12' fill='#1f2328'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {font}>"
    return "\n".join([head, "<rect width='100%' height='100%' fill='#ffffff'/>", legend, *drawn, "</svg>", ""])


def _shown(tree: Tree) -> list[_Node]:
    """Return the nodes of the picture in order of depth: whole broods, as long as there are rows for them."""
    leaves = tree.is_leaf.astype(int).tolist()
    for node, parent in reversed(list(enumerate(tree.parent.tolist()))[1:]):
        leaves[parent] += leaves[node]
    nodes, rows = [_Node(0)], 1
    for n in nodes:  # it grows meanwhile
        size, first = int(tree.children[n.node]), int(tree.first_child[n.node])
        if not size:
            n.words = f"{plain(tree.labels[int(tree.label[n.node])], 30)} {cases(tree, n.node)}"
        elif rows + size - 1 > MOST_LEAVES and n.node:
            n.words = f"\u2026 {leaves[n.node]} leaves"
        else:
            n.words = plain(tree.features[int(tree.feature[n.node])].name, 30)
            rows += size - 1
            branches = [f"{outcome(tree, n.node, b, rounded=True)}  " for b in range(min(size, MOST_LEAVES))]
            n.inner = [_Node(first + b, n.depth + 1, branch) for b, branch in enumerate(branches)]
            nodes += n.inner
    return nodes


def _node(tree: Tree, n: _Node, x: float) -> list[str]:
    """Return the outcome that leads here, and the test or the label, with its classes."""
    branch = f"<tspan fill='#656d76'>{escape(n.branch)}</tspan>" if n.branch else ""
    text = f"<text x='{x + 10:.1f}' y='{n.y + 4:.1f}' xml:space='preserve'>{branch}{escape(n.words)}</text>"
    if tree.feature[n.node] < 0:
        dot = f"<circle cx='{x + 2:.1f}' cy='{n.y:.1f}' r='4' fill='{_colour(int(tree.label[n.node]))}'/>"
        return [dot, text]
    counts = tree.counts[n.node]
    ends = np.cumsum(counts) / max(counts.sum(), 1e-300) * (n.width - 14)
    strip = [
        f"<rect x='{x + 10 + a:.1f}' y='{n.y + 8:.1f}' width='{b - a:.1f}' height='3' fill='{_colour(code)}'/>"
        for code, (a, b) in enumerate(zip([0.0, *ends], ends, strict=False))
        if b - a >= 0.2  # what is narrower cannot be seen
    ]
    return [text, *strip]


def _legend(tree: Tree) -> tuple[str, float]:
    """Return a line with the class and its labels, and how far it reaches to the right."""
    title, labels = plain(tree.class_name, 30), [plain(v, 30) for v in tree.labels[:_MOST_LABELS]]
    shown = [f"<tspan fill='{_colour(i)}'>\u25cf</tspan> {escape(word)}" for i, word in enumerate(labels)]
    more = [f"and {len(tree.labels) - _MOST_LABELS} more"] * (len(tree.labels) > _MOST_LABELS)
    inside = "   ".join([f"<tspan font-weight='bold'>{escape(title)}</tspan>", *shown, *more])
    line = f"<text x='{_MARGIN}' y='{_MARGIN + 8}' xml:space='preserve'>{inside}</text>"
    return line, 2 * _MARGIN + _width(" ".join([title, *labels, *more])) + 24 * len(labels)

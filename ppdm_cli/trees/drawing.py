"""A tree as a picture: SVG drawn by hand, from left to right, a row a leaf, so that it reads at any size.

A node's bar shows the classes of its training records; a leaf has the colour of its label. Of a tree
with very many leaves the lower parts are folded into one box each, which says how many leaves it stands for.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from itertools import pairwise
from xml.sax.saxutils import escape

import numpy as np

from ppdm_cli.errors import counted
from ppdm_cli.trees.tree import Tree
from ppdm_cli.trees.wording import cases, outcome, plain

MOST_LEAVES = 400
"""Rows of a picture."""
_COLOURS = ("#0969da", "#cf5b16", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#1b7c83", "#cf222e", "#57606a")
_ROW, _BOX, _PAD, _MARGIN, _GAP = 30.0, 22.0, 9.0, 20.0, 26.0
_FONT = "font-family='Helvetica,Arial,sans-serif' font-size='12'"


@dataclass
class _Node:
    node: int
    depth: int
    branch: str
    folded: bool = False
    inner: list[_Node] = field(default_factory=list)
    y: float = 0.0
    lines: str = ""
    width: float = 0.0


def svg(tree: Tree) -> str:
    """The whole document."""
    nodes = _shown(tree)
    for n in nodes:
        n.lines = _words(tree, n)
        n.width = _width(n.lines) + 2 * _PAD
    legend, legend_width, rows = _legend(tree)
    top = _MARGIN + rows * 20 + 14
    row = 0
    for n in _depth_first(nodes[0]):
        if not n.inner:
            n.y, row = top + row * _ROW + _ROW / 2, row + 1
    for n in reversed(nodes):
        if n.inner:
            n.y = (n.inner[0].y + n.inner[-1].y) / 2
    left, right = _columns(nodes)
    width = max(max(left[n.depth] + n.width for n in nodes) + _MARGIN, legend_width)
    height = top + row * _ROW + _MARGIN
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}' {_FONT}>",
        "<rect width='100%' height='100%' fill='#ffffff'/>",
        *legend,
    ]
    for n in nodes:
        out += [_edge(n, child, left, right) for child in n.inner]
    for n in nodes:
        out += _box(tree, n, left[n.depth])
    return "\n".join([*out, "</svg>", ""])


def _shown(tree: Tree) -> list[_Node]:
    """The nodes of the picture in order of depth: whole broods, as long as there are rows for them."""
    nodes = [_Node(0, 0, "")]
    rows, at = 1, 0
    while at < len(nodes):
        parent, at = nodes[at], at + 1
        if tree.feature[parent.node] < 0:
            continue
        size = int(tree.children[parent.node])
        if rows + size - 1 > MOST_LEAVES and parent.node:
            parent.folded = True
            continue
        rows += size - 1
        first = int(tree.first_child[parent.node])
        shown = min(size, MOST_LEAVES)
        parent.inner = [
            _Node(first + b, parent.depth + 1, outcome(tree, parent.node, b, rounded=True))
            for b in range(shown)
        ]
        nodes += parent.inner
    return nodes


def _depth_first(root: _Node) -> list[_Node]:
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += reversed(node.inner)
    return found


def _words(tree: Tree, n: _Node) -> str:
    if n.folded:
        return f"\u2026 {counted(_leaves_below(tree, n.node), 'leaf').replace('leafs', 'leaves')}"
    if tree.feature[n.node] < 0:
        return f"{plain(tree.labels[int(tree.label[n.node])], 30)} {cases(tree, n.node)}"
    return plain(tree.features[int(tree.feature[n.node])].name, 30)


def _leaves_below(tree: Tree, node: int) -> int:
    found, waiting = 0, [node]
    while waiting:
        here = waiting.pop()
        first, size = int(tree.first_child[here]), int(tree.children[here])
        found += size == 0
        waiting += range(first, first + size)
    return found


def _width(text: str) -> float:
    """About how wide a text is at 12 pixels."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    capital = sum(c.isupper() or c in "mw@%" for c in text)
    return 6.6 * len(text) + 6.0 * wide + 2.2 * capital


def _columns(nodes: list[_Node]) -> tuple[list[float], list[float]]:
    """Where each level's boxes begin, and where the last of them ends."""
    levels = 1 + max(n.depth for n in nodes)
    boxes, branches = [0.0] * levels, [0.0] * levels
    for n in nodes:
        boxes[n.depth] = max(boxes[n.depth], n.width if n.inner else 0.0)
        branches[n.depth] = max(branches[n.depth], _width(n.branch))
    left, right = [_MARGIN], [_MARGIN + boxes[0]]
    for depth in range(1, levels):
        left.append(right[-1] + 2 * _GAP + branches[depth])
        right.append(left[-1] + boxes[depth])
    return left, right


def _colour(code: int) -> str:
    return _COLOURS[code % len(_COLOURS)]


def _edge(n: _Node, child: _Node, left: list[float], right: list[float]) -> str:
    """A curve, then a straight line that carries the outcome."""
    start, end = left[n.depth] + n.width, left[child.depth]
    bend, level = right[n.depth] + _GAP, child.y
    middle = (right[n.depth] + bend) / 2
    path = (
        f"M{start:.1f} {n.y:.1f}H{right[n.depth]:.1f}"
        f"C{middle:.1f} {n.y:.1f} {middle:.1f} {level:.1f} {bend:.1f} {level:.1f}H{end:.1f}"
    )
    return (
        f"<path d='{path}' fill='none' stroke='#8c959f'/>"
        f"<text x='{bend + 4:.1f}' y='{level - 4:.1f}' fill='#424a53' font-size='11'>"
        f"{escape(child.branch)}</text>"
    )


def _box(tree: Tree, n: _Node, x: float) -> list[str]:
    leaf = tree.feature[n.node] < 0
    colour = _colour(int(tree.label[n.node])) if leaf else "#57606a"
    y = n.y - _BOX / 2
    shape = (
        f"x='{x:.1f}' y='{y:.1f}' width='{n.width:.1f}' height='{_BOX:.0f}' rx='{_BOX / 2 if leaf else 3:.0f}'"
    )
    dashes = " stroke-dasharray='3 2'" if n.folded else ""
    box = [f"<rect {shape} fill='#ffffff'/>"]
    box.append(f"<rect {shape} fill='{colour}' fill-opacity='0.13' stroke='{colour}'{dashes}/>")
    box.append(
        f"<text x='{x + _PAD:.1f}' y='{n.y + (4 if leaf else 2):.1f}' fill='#1f2328'>{escape(n.lines)}</text>"
    )
    return box if leaf else box + _bar(tree, n, x + 3, y + _BOX - 6)


def _bar(tree: Tree, n: _Node, x: float, y: float) -> list[str]:
    """The shares of the classes as a strip; shares too small to be seen are left out."""
    counts = tree.counts[n.node]
    if counts.sum() <= 0:
        return []
    wide = (n.width - 6) * np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
    return [
        f"<rect x='{x + a:.1f}' y='{y:.1f}' width='{b - a:.1f}' height='4' fill='{_colour(i)}'/>"
        for i, (a, b) in enumerate(pairwise(wide))
        if b - a >= 0.2
    ]


def _legend(tree: Tree) -> tuple[list[str], float, int]:
    """The class and its labels with their colours, in rows."""
    title = plain(tree.class_name, 30)
    out = [f"<text x='{_MARGIN}' y='{_MARGIN + 10}' font-weight='bold' fill='#1f2328'>{escape(title)}</text>"]
    x, row, widest = _MARGIN + _width(title) + 24, 0, 0.0
    for code, label in enumerate(tree.labels[:40]):
        shown = plain(label, 30)
        if x + _width(shown) > 900 and x > 200:
            x, row = _MARGIN + 24, row + 1
        y = _MARGIN + 20 * row
        out.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='11' height='11' rx='5' fill='{_colour(code)}'/>")
        out.append(f"<text x='{x + 16:.1f}' y='{y + 10:.1f}' fill='#1f2328'>{escape(shown)}</text>")
        x += _width(shown) + 36
        widest = max(widest, x)
    if len(tree.labels) > 40:
        out.append(
            f"<text x='{x:.1f}' y='{_MARGIN + 20 * row + 10:.1f}'>and {len(tree.labels) - 40} more</text>"
        )
        widest = max(widest, x + 90)
    return out, widest, row + 1

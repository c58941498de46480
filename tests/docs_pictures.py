"""The pictures of the README, which `make docs` draws: the two halves, and what a miner gets back.

The figures of the second are those of the table in docs/papers.md, which tests/experiments/records.py measures.
"""

from __future__ import annotations

import re
from html import escape
from math import log2
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
_INK, _SOFT, _BLUE, _GREY, _RED = "#1f2328", "#57606a", "#0b5cad", "#eef2f6", "#c8102e"


_SAID = {"class inside": "class perturbed too"}


def pictures() -> dict[str, str]:
    """Each picture by its name."""
    return {
        "halves.svg": halves(),
        "accuracy.svg": accuracy(measured((ROOT / "docs/papers.md").read_text("utf-8"))),
    }


def _svg(width: int, height: int, title: str, inside: list[str]) -> str:
    font = f'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="{_INK}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" {font}>'
    paper = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", paper, *inside, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str = "middle", fill: str = _INK, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}"{more}>{escape(text)}</text>'


def _box(x: int, y: int, width: int, height: int, lines: list[str], line: str = _SOFT) -> list[str]:
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#ffffff" stroke="{line}"/>'
    top = y + height / 2 + 5 - 9 * (len(lines) - 1)
    bold = ' font-weight="bold"'
    written = [_text(x + width / 2, top + 18 * i, t, more=bold * (i == 0)) for i, t in enumerate(lines)]
    return [shape, *written]


def _arrow(x: int, y: int, to: int, said: str) -> list[str]:
    line = f'<path d="M{x} {y}H{to - 8}" stroke="{_BLUE}" stroke-width="2" fill="none"/>'
    head = f'<path d="M{to} {y}l-10 -5v10z" fill="{_BLUE}"/>'
    return [line, head, _text((x + to) / 2, y - 9, said, fill=_BLUE)]


def halves() -> str:
    """The owner's half and the miner's, and all that passes between them."""

    def half(x: int, width: int, title: str) -> list[str]:
        ground = f'<rect x="{x}" y="10" width="{width}" height="180" rx="10" fill="{_GREY}"/>'
        return [ground, _text(x + 14, 33, title, "start", _SOFT)]

    return _svg(
        860, 200, "What passes from the owner to the miner",
        [
            *half(10, 250, "the owner"),
            *_box(28, 62, 108, 70, ["original", "private"]),
            *_text_lines(135, 168, ["entropy and attack, before publishing"]),
            *half(600, 250, "the miner"),
            *_arrow(138, 97, 322, "perturb"),
            *_box(324, 52, 212, 90, ["release", "perturbed records", "and its sidecar: how"], _BLUE),
            *_arrow(538, 97, 640, "estimate"),
            *_box(642, 52, 190, 90, ["distributions, answers,", "a data set, trees,", "with their errors"]),
            *_text_lines(725, 168, ["estimate, query, reconstruct, train-tree"]),
        ],
    )  # fmt: skip


def _text_lines(x: int, y: int, lines: list[str]) -> list[str]:
    return [_text(x, y + 16 * i, t, fill=_SOFT, more=' font-size="11"') for i, t in enumerate(lines)]


def measured(page: str) -> tuple[list[float], dict[str, list[float]], float]:
    """The epsilons, the accuracies by line, and what the most common class alone is right on."""
    section = page[page.index("## Whole records") :].split("\n## ")[0]
    baseline = re.search(r"most common class alone would be right on ([\d.]+)%", section)
    table = next(block for block in section.split("\n\n") if block.startswith("| "))
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    cells = {row[0].strip(): [c.strip() for c in row[1:]] for row in rows}
    assert baseline is not None
    epsilons = [float(c.removeprefix("epsilon ")) for c in cells[""]]
    found = {
        n.removeprefix("rounds, "): list(map(float, c)) for n, c in cells.items() if n.startswith("rounds, ")
    }
    return epsilons, found, float(baseline[1])


def accuracy(figures: tuple[list[float], dict[str, list[float]], float]) -> str:
    """Accuracy of trees over the record's epsilon, a line for each way to publish the class."""
    epsilons, lines, baseline = figures
    left, right, top, bottom, low = 60, 470, 42, 250, 50.0

    def x(epsilon: float) -> float:
        return left + 30 + (right - left - 60) * log2(epsilon / epsilons[0]) / log2(epsilons[-1] / epsilons[0])

    def y(share: float) -> float:
        return bottom - (bottom - top) * (share - low) / (100 - low)

    drawn = [_text(left - 40, 24, "clean records that a tree is right on, in %", "start", _SOFT)]
    for share in range(50, 101, 10):
        drawn.append(f'<path d="M{left} {y(share):g}H{right}" stroke="#d8dee4"/>')
        drawn.append(_text(left - 8, y(share) + 4, str(share), "end", _SOFT))
    for epsilon in epsilons:
        drawn.append(_text(x(epsilon), bottom + 20, f"{epsilon:g}", fill=_SOFT))
    drawn.append(_text((left + right) / 2, bottom + 42, "epsilon of a whole record", fill=_SOFT))
    drawn.append(f'<path d="M{left} {y(baseline):g}H{right}" stroke="{_RED}" stroke-dasharray="5 4"/>')
    drawn.append(_text(right + 10, y(baseline) + 4, "the most common class", "start", _RED))
    for (name, shares), colour, shift in zip(lines.items(), (_BLUE, "#9a6700"), (-4, 14), strict=True):
        points = [(x(e), y(s)) for e, s in zip(epsilons, shares, strict=True)]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
        drawn.append(f'<path d="M{path}" stroke="{colour}" stroke-width="2" fill="none"/>')
        drawn += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour}"/>' for a, b in points]
        drawn.append(_text(right + 10, points[-1][1] + shift, _SAID.get(name, name), "start", colour))
    return _svg(640, 305, "Accuracy of trees over the epsilon of a whole record", drawn)


def draw() -> list[Path]:
    """Write the pictures; return those that changed."""
    FOLDER.mkdir(exist_ok=True)
    changed = []
    for name, picture in pictures().items():
        path = FOLDER / name
        if not path.exists() or path.read_text("utf-8") != picture:
            path.write_text(picture, "utf-8")
            changed.append(path)
    return changed

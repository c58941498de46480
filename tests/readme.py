"""The README's table and picture, for `make docs`: both are made from a run of the README's own commands."""

from __future__ import annotations

import shlex
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import polars as pl

from ppdm_cli import query
from tests.docs import ROOT, commands, rebuilt

README, PICTURE = ROOT / "README.md", ROOT / "docs" / "pictures" / "demo.svg"
_HEAD = "| | naive: no correction | `ppdm query`, 95% interval | truth |"
_ROWS = slice(8, 13)
"""Rows of the table that the picture shows: the first five in a row that publish ages and salaries."""
_STYLE = """
text { font: 14px Helvetica, Arial, sans-serif; fill: #1f2328 } .small { font-size: 12px; fill: #57606a }
.paper { fill: #ffffff } .card { fill: #f6f8fa; stroke: #d0d7de } .title { font-weight: bold }
text.false { fill: #c8102e } .cross { stroke: #c8102e } text.blue, .dot { fill: #0b5cad }
.arrow, .interval { stroke: #0b5cad } .truth { stroke: #1f2328 } path { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9da7b3 } .paper { fill: #0d1117 }
.card { fill: #161b22; stroke: #30363d } text.false { fill: #ff7b72 } .cross { stroke: #ff7b72 }
text.blue, .dot { fill: #79c0ff } .arrow, .interval { stroke: #79c0ff } .truth { stroke: #e6edf3 } }
"""


@dataclass(frozen=True)
class Compared:
    """An answer three ways: uncorrected, estimated by ppdm, and true."""

    naive: float
    value: float
    low: float
    high: float
    truth: float

    def shown(self, value: float) -> str:
        return f"{value:.1%}" if self.truth < 1 else f"{float(f'{value:.3g}'):,.0f}"


@cache
def measured() -> tuple[pl.DataFrame, pl.DataFrame, list[Compared]]:
    """Run the README's minute; return the original, the release, and the answers."""
    minute = README.read_text("utf-8").split("## In 60 seconds\n")[1].split("\n## ")[0]
    with tempfile.TemporaryDirectory() as name:
        rebuilt(minute, Path(name))
        tables = [pl.read_csv(f"{name}/{t}.csv", infer_schema_length=None) for t in ("people", "release")]
        question = shlex.split(commands(minute)[2].replace("\\\n", ""))[-1]
        rows = query(f"{name}/release.csv", question).rows
    in_a = [(t["group"] == "A", t.filter(group="A")["salary"]) for t in tables]
    naive, truth = ((a.mean(), salary.mean()) for a, salary in reversed(in_a))
    figures = [(n, r.value, r.low, r.high, t) for n, r, t in zip(naive, rows, truth, strict=True)]
    return *tables, [Compared(*map(float, f)) for f in figures]


def table() -> str:
    """The table of the README's minute, as Markdown."""
    lines = [_HEAD, "|---|---|---|---|"]
    for name, a in zip(("share in group A", "mean salary in group A"), measured()[2], strict=True):
        interval = f"{a.shown(a.value)} ({a.shown(a.low)} to {a.shown(a.high)})"
        lines.append(f"| {name} | {a.shown(a.naive)} | {interval} | {a.shown(a.truth)} |")
    return "\n".join(lines)


def written() -> str:
    """The README with the table of today."""
    before, rest = README.read_text("utf-8").split(_HEAD)
    return before + table() + "\n\n" + rest.split("\n\n", 1)[1]


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>'


def _card(x: int, width: int, title: str) -> list[str]:
    ground = f'<rect x="{x}" y="8" width="{width}" height="212" rx="8" class="card"/>'
    return [ground, _text(x + 14, 34, title, "title")]


def _arrow(x: int, name: str) -> list[str]:
    return [f'<path d="M{x} 114h44m-8 -6l8 6l-8 6" class="arrow"/>', _text(x + 22, 100, name, "blue", "middle")]


def _cells(x: int, rows: pl.DataFrame, original: pl.DataFrame, bins: dict[str, float]) -> list[str]:
    """Rows of a table; a published value is false where the original isn't in its bin."""
    drawn = []
    for name, right in (("age", 40), ("salary", 120), ("group", 190)):
        drawn.append(_text(x + right, 60, name, "small", "end"))
        for i, (value, true) in enumerate(zip(rows[name], original[name], strict=True)):
            wrong = value != true if isinstance(value, str) else abs((value or true) - true) > bins.get(name, 0)
            said = "\u2013" if value is None else value if isinstance(value, str) else f"{value:,.0f}"
            drawn.append(_text(x + right, 86 + 26 * i, said, "false" if wrong else "", "end"))
    return drawn


def _answer(x: int, y: int, title: str, a: Compared) -> list[str]:
    ends = (min(a.low, a.naive, a.truth), max(a.high, a.naive, a.truth))

    def at(value: float) -> float:
        return x + 12 + 200 * (value - ends[0]) / (ends[1] - ends[0])

    low, high = at(a.low), at(a.high)
    return [
        _text(x, y, f"{title} (truth: {a.shown(a.truth)})"),
        f'<path d="M{low:.1f} {y + 22}H{high:.1f}m0 -6v12M{low:.1f} {y + 16}v12" class="interval"/>',
        f'<circle cx="{at(a.value):.1f}" cy="{y + 22}" r="4.5" class="dot"/>',
        f'<path d="M{at(a.truth):.1f} {y + 11}v22" class="truth"/>',
        f'<path d="M{at(a.naive) - 5:.1f} {y + 17}l10 10m0 -10l-10 10" class="cross"/>',
        _text(at(a.value), y + 49, a.shown(a.value), "blue", "middle"),
        _text(at(a.naive), y + 49, a.shown(a.naive), "false", "middle"),
    ]


def picture() -> str:
    """Original rows, the same rows released, and a query whose intervals hold the truth."""
    people, release, answers = measured()
    original, released = people[_ROWS], release[_ROWS]
    title = "Original rows, the same rows in the release, and answers whose intervals hold the truth"
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 258" width="860">'
    inside = [
        *_card(8, 216, "Original: you keep it"),
        *_cells(16, original, original, {}),
        *_arrow(232, "perturb"),
        *_card(284, 216, "Release: you publish it"),
        *_cells(292, released, original, {"age": 5, "salary": 10_000}),
        *_arrow(508, "query"),
        *_card(560, 292, "Answers: anyone can ask"),
        *_answer(586, 66, "share in group A", answers[0]),
        *_answer(586, 146, "mean salary in group A", answers[1]),
        _text(284, 243, "red: no longer true", "small false"),
        _text(404, 243, "\u2013 left out", "small"),
        _text(560, 243, "\u2022 ppdm, 95% interval", "small blue"),
        _text(690, 243, "| truth", "small"),
        _text(738, 243, "\u00d7 no correction", "small false"),
    ]
    lines = [head, f"<title>{title}</title>", f"<style>{_STYLE}</style>"]
    return "\n".join([*lines, '<rect width="860" height="258" class="paper"/>', *inside, "</svg>", ""])


def main() -> None:
    """Write the table and the picture; say which changed."""
    for path, new in ((README, written()), (PICTURE, picture())):
        if not path.exists() or path.read_text("utf-8") != new:
            path.write_text(new, "utf-8")
            sys.stdout.write(f"rewritten: {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()

"""Pages of HTML for statements: tables, bars and lines to sign, from plain text.

A page is one file that holds all it needs and runs nothing: it forbids scripts to itself. It can be read on a
phone, on a wide screen and on paper, and no figure depends on a colour. All text is escaped here, whatever its
origin: names in a release may hold markup, control characters and changes of the writing direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from ppdm_cli.errors import one_line

MOST_ROWS = 1000
"""The most rows of a table; the sidecar has all attributes."""
LONGEST_WORD = 24
"""The longest word that is not broken, so that a column keeps its width beside longer ones."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
@page { margin: 16mm; }
* { box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
html { background: #fff; }
body { font: 16px/1.5 Helvetica, Arial, 'DejaVu Sans', sans-serif; color: #1f2328; max-width: 50em;
  margin: 1.5em auto; padding: 0 1em; overflow-wrap: anywhere; }
h1 { font-size: 1.6em; line-height: 1.2; margin: 0 0 .2em; }
h2 { font-size: 1.2em; margin: 1.8em 0 .4em; padding-bottom: .1em; border-bottom: 1px solid #57606a; }
.under { color: #57606a; margin: 0 0 1.2em; font-size: .9em; }
.verdict { border: 2px solid #0b5394; border-left-width: .8em; padding: .4em 1em; }
.verdict strong { font-size: 1.25em; line-height: 1.3; color: #0b5394; }
.alarm, .verdict.none strong { color: #a40e26; font-weight: bold; } .verdict.none { border-color: #a40e26; }
table { border-collapse: collapse; width: 100%; font-size: .85em; line-height: 1.4; margin: .8em 0; }
th, td { text-align: left; vertical-align: top; padding: .35em .9em .35em 0; overflow-wrap: break-word; }
th { vertical-align: bottom; border-bottom: 1px solid #57606a; }
td { border-bottom: 1px solid #d0d7de; font-variant-numeric: tabular-nums; }
td:first-child { font-weight: bold; min-width: 9em; max-width: 16em; }
td:first-child, td.long { overflow-wrap: anywhere; } td:first-child:not([data-column]) { max-width: 24em; }
td.open { border-bottom: 1px solid #1f2328; height: 3.2em; min-width: 8em; }
svg { display: block; width: 100%; min-width: 5em; height: .6em; margin: .2em 0; }
.all { fill: #eaeef2; } .before { fill: #8c959f; } .after { fill: #0b5394; } .over { fill: #a40e26; }
li { margin: .25em 0; }
@media screen and (max-width: 40em) {
  thead { display: none; } table, tbody, tr, td { display: block; width: auto; max-width: none !important; }
  tr { border-bottom: 1px solid #57606a; padding: .4em 0; } td { border: 0; padding: .1em 0; }
  td[data-column]::before { content: attr(data-column) ": "; color: #57606a; font-weight: normal; }
  ul { padding-left: 1.2em; }
}
@media print {
  body { font-size: 10pt; margin: 0; padding: 0; max-width: none; }
  h1, h2 { break-after: avoid; } thead { display: table-header-group; }
  section, tr, li, p { break-inside: avoid; } p, li { orphans: 3; widows: 3; }
}
"""


class Cell(NamedTuple):
    """A cell of a table: its text, the share that a bar shows below it, and whether it is a warning."""

    text: str
    share: float | None = None
    look: str = ""
    """The look of the bar or the text: before, after or alarm."""


@dataclass(frozen=True)
class TextTable:
    """Rows of cells; an empty cell is a line to write on. A table without columns has questions and answers."""

    columns: list[str]
    rows: Sequence[Sequence[str | Cell]]


Part = str | list[str] | TextTable
"""A paragraph, a list of sentences or a table."""


class Notice(NamedTuple):
    """The first notice of a page: a sentence in large letters, others below it, red if nothing protects."""

    headline: str
    sentences: list[str]
    unprotected: list[str]
    red: bool


def html(title: str, under: str, first: Notice, sections: Mapping[str, list[Part]]) -> str:
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{_safe(title)}</title>'
        f"<style>{_STYLE}</style>"
    )
    body = [f"<h1>{_safe(title)}</h1>", f'<p class="under">{_safe(under)}</p>', _notice(first)]
    for heading, parts in sections.items():
        inner = "\n".join(map(_part, parts))
        body.append(f"<section><h2>{_safe(heading)}</h2>\n{inner}</section>")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"
    )


def _safe(text: str) -> str:
    return escape(one_line(text))


def _notice(notice: Notice) -> str:
    lines = [f"<p><strong>{_safe(notice.headline)}</strong></p>"]
    lines += [f"<p>{_safe(s)}</p>" for s in notice.sentences]
    lines += [f'<p class="alarm">{_safe(s)}</p>' for s in notice.unprotected]
    return f'<section class="verdict{" none" * notice.red}">{"".join(lines)}</section>'


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{_safe(part)}</p>"
    if isinstance(part, list):
        return "<ul>" + "".join(f"<li>{_safe(s)}</li>" for s in part) + "</ul>" if part else ""
    return _table(part)


def _table(table: TextTable) -> str:
    head = "".join(f"<th>{_safe(c)}</th>" for c in table.columns)
    names, visible = table.columns or ["", ""], table.rows[:MOST_ROWS]
    rows = "".join(f"<tr>{''.join(map(_cell, names, row))}</tr>" for row in visible)
    left = len(table.rows) - len(visible)
    below = f"<p>{left:,} further rows are left out; the sidecar has them.</p>" if left else ""
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{rows}</tbody></table>{below}"


def _cell(column: str, cell: str | Cell) -> str:
    text, share, look = Cell(cell) if isinstance(cell, str) else cell
    bar = "" if share is None else _bar(share, look)
    named = f' data-column="{_safe(column)}"' if column else ""
    kind = "open" if not text else look if look == "alarm" else ""
    kind = "long" if any(len(word) > LONGEST_WORD for word in text.split()) else kind
    return f'<td class="{kind}"{named}>{_safe(text)}{bar}</td>'


def _bar(share: float, look: str) -> str:
    """Return a bar as a drawing: unlike backgrounds, browsers print it."""
    fill = "over" if look == "alarm" else look
    bars = "".join(
        f'<rect class="{kind}" width="{100 * width:.4g}" height="6"></rect>'
        for kind, width in (("all", 1.0), (fill, share))
    )
    return f'<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">{bars}</svg>'

"""Pages of HTML for statements: one file that holds all it needs, prints well, and runs nothing.

All text is escaped here, whatever it comes from: names in a release may hold markup, control characters and
changes of the writing direction. The page forbids scripts to itself as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from ppdm_cli.display import at_most, exactly
from ppdm_cli.errors import one_line


@dataclass(frozen=True)
class TextTable:
    """Rows of text; the first columns are words, the others figures."""

    columns: list[str]
    rows: list[list[str]]
    words: int = 1
    more: int = 0
    """How many further rows there are."""


class Bars(NamedTuple):
    """Shares of 1 as bars, each with what it is of: a belief before, and what it becomes at most."""

    shares: list[tuple[str, float]]


Part = str | list[str] | TextTable | Bars
"""A paragraph, a list of sentences, a table or bars."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
@page { size: A4; margin: 18mm 16mm; }
body { font: 11pt/1.45 Georgia, 'Times New Roman', serif; color: #1f2328; max-width: 46em; margin: 2em auto;
  padding: 0 1.5em; overflow-wrap: anywhere; }
h1, h2 { font-family: Helvetica, Arial, sans-serif; line-height: 1.2; break-after: avoid; }
h1 { font-size: 20pt; margin-bottom: .2em; } h2 { font-size: 13pt; margin: 1.6em 0 .4em;
  border-bottom: 1px solid #8c959f; }
.under { color: #57606a; margin-top: 0; } .internal { border: 2px solid #c8102e; padding: .5em .8em; }
table { border-collapse: collapse; width: 100%; font: 9pt/1.35 Helvetica, Arial, sans-serif; margin: .8em 0; }
th { text-align: left; border-bottom: 1px solid #57606a; vertical-align: bottom; overflow-wrap: normal; }
th, td { padding: .25em .7em .25em 0; } td { border-bottom: 1px solid #d8dee4; vertical-align: top; }
tr { break-inside: avoid; } thead { display: table-header-group; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.w { white-space: nowrap; }
td:first-child { min-width: 8em; } td.k { color: #57606a; width: 11em; }
.bar { display: grid; grid-template-columns: 14em 1fr 8em; gap: 1em; margin: .2em 0; font-size: 9pt; }
meter { width: 100%; height: 1.2em; }
li { margin: .25em 0; }
@media print { body { margin: 0; padding: 0; max-width: none; } }
"""


def html(title: str, under: str, banners: Sequence[str], sections: Sequence[tuple[str, list[Part]]]) -> str:
    """Return the whole page."""
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{_safe(title)}</title>'
        f"<style>{_STYLE}</style>"
    )
    body = [f"<h1>{_safe(title)}</h1>", f'<p class="under">{_safe(under)}</p>']
    body += [f'<p class="internal">{_safe(b)}</p>' for b in banners]
    for heading, parts in sections:
        body.append(f"<h2>{_safe(heading)}</h2>")
        body += [_part(p) for p in parts]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"
    )


def _safe(text: str) -> str:
    return escape(one_line(text))


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{_safe(part)}</p>"
    if isinstance(part, list):
        return "<ul>" + "".join(f"<li>{_safe(s)}</li>" for s in part) + "</ul>"
    return _bars(part) if isinstance(part, Bars) else _table(part)


def _table(table: TextTable) -> str:
    head, named = "", ["k", ""]
    if any(table.columns):
        named = ["", *("w" if i < table.words else "n" for i in range(1, len(table.columns)))]
        head = f"<thead>{_row('th', table.columns, named)}</thead>"
    rows = "".join(_row("td", r, named) for r in table.rows)
    below = f"<p>{table.more:,} further rows are left out; the sidecar has them.</p>" if table.more else ""
    return f"<table>{head}<tbody>{rows}</tbody></table>{below}"


def _row(tag: str, cells: Sequence[str], named: Sequence[str]) -> str:
    cells = [f'<{tag} class="{c}">{_safe(cell)}</{tag}>' for c, cell in zip(named, cells, strict=True)]
    return f"<tr>{''.join(cells)}</tr>"


def _bars(bars: Bars) -> str:
    rows = []
    for i, (name, share) in enumerate(bars.shares):
        words = at_most(share) if i else exactly(share)
        words = f"at most {words}" if i and not words.startswith("over") else words
        bar = f'<meter value="{share:.3f}"></meter>'
        rows.append(f'<p class="bar">{_safe(name)} {bar} {_safe(words)}</p>')
    return "\n".join(rows)

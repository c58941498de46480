"""A statement as one page of HTML that holds all it needs, prints well, and runs nothing.

All text is escaped here, whatever it comes from: names in a release may hold markup, control characters and
changes of the writing direction. The page forbids scripts to itself as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ppdm_cli.display import at_most, exactly
from ppdm_cli.errors import one_line
from ppdm_cli.statement.sections import Belief, Items, Part, Section, Table

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
svg { width: 100%; height: auto; break-inside: avoid; margin: .5em 0; }
li { margin: .25em 0; }
@media print { body { margin: 0; padding: 0; max-width: none; } }
"""
_WIDTH, _ROW, _TEXT = 720, 30, 300
_COLOURS = "#8c959f", "#0b5cad"


def page(title: str, under: str, banners: Sequence[str], sections: Sequence[Section]) -> str:
    """Return the whole page."""
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{_safe(title)}</title>'
        f"<style>{_STYLE}</style>"
    )
    body = [f"<h1>{_safe(title)}</h1>", f'<p class="under">{_safe(under)}</p>']
    body += [f'<p class="internal">{_safe(b)}</p>' for b in banners]
    for section in sections:
        body.append(f"<h2>{_safe(section.title)}</h2>")
        body += [_part(p) for p in section.parts]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"
    )


def _safe(text: str) -> str:
    return escape(one_line(text))


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{_safe(part)}</p>"
    if isinstance(part, Items):
        return "<ul>" + "".join(f"<li>{_safe(s)}</li>" for s in part.sentences) + "</ul>"
    return _picture(part) if isinstance(part, Belief) else _table(part)


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        named = ['class="n"' if i >= table.words else 'class="w"' for i in range(len(cells))]
        named[0] = "" if any(table.columns) else 'class="k"'
        if not any(table.columns):
            named[1] = ""
        return "<tr>" + "".join(
            f"<{tag} {c}>{_safe(cell)}</{tag}>" for c, cell in zip(named, cells, strict=True)
        ) + "</tr>"  # fmt: skip

    head = f"<thead>{row(table.columns, 'th')}</thead>" if any(table.columns) else ""
    below = f"<p>{table.more:,} further rows are left out; the sidecar has them.</p>" if table.more else ""
    return f"<table>{head}<tbody>{''.join(row(r, 'td') for r in table.rows)}</tbody></table>{below}"


def _picture(belief: Belief) -> str:
    """Return the bars, each with its share in words, over an axis from 0 to 100 %."""
    bars, wide, high = [], _WIDTH - _TEXT - 90, _ROW * len(belief.bars)
    for i, (name, share) in enumerate(belief.bars):
        y = _ROW * i
        said = at_most(share) if i else exactly(share)
        said = f"at most {said}" if i and not said.startswith("over") else said
        bars.append(
            f'<text x="{_TEXT - 8}" y="{y + 19}" text-anchor="end">{_safe(name)}</text>'
            f'<rect x="{_TEXT}" y="{y + 5}" width="{share * wide:.1f}" height="{_ROW - 10}" '
            f'fill="{_COLOURS[min(i, 1)]}"/>'
            f'<text x="{_TEXT + share * wide + 6:.1f}" y="{y + 19}">{_safe(said)}</text>'
        )
    axis = f'<path d="M{_TEXT} 0V{high + 4}H{_TEXT + wide}V0" fill="none" stroke="#8c959f"/>'
    ends = "".join(
        f'<text x="{_TEXT + x * wide}" y="{high + 20}" text-anchor="middle">{x:.0%}</text>' for x in (0, 0.5, 1)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high + 26}" role="img" '
        f'aria-label="What a belief becomes" font-family="Helvetica, Arial, sans-serif" font-size="12" '
        f'fill="#1f2328">{"".join(bars)}{axis}{ends}</svg>'
    )

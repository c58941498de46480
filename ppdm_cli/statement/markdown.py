"""A statement as Markdown, in which no text of a release can become markup or a link."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ppdm_cli.errors import one_line
from ppdm_cli.statement.sections import Belief, Items, Part, Section, Table

_MARKUP = re.compile(
    r"[\\`*\[\]<>#!|~&@$]|:(?=//)|(?<!\w)_|_(?!\w)|^[-+=]|(?<=\d)[.)](?=\s|$)|(?<=www)\.", re.I
)


def page(title: str, under: str, banners: Sequence[str], sections: Sequence[Section]) -> str:
    """Return the whole page."""
    parts = [f"# {_safe(title)}", _safe(under), *(f"**{_safe(b)}**" for b in banners)]
    for section in sections:
        parts += [f"## {_safe(section.title)}", *map(_part, section.parts)]
    return "\n\n".join(parts) + "\n"


def _safe(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", one_line(text).strip())


def _part(part: Part) -> str:
    if isinstance(part, str):
        return _safe(part)
    if isinstance(part, Items):
        return "\n".join(f"- {_safe(s)}" for s in part.sentences)
    return _table(part.table if isinstance(part, Belief) else part)


def _table(table: Table) -> str:
    columns = [_safe(c) or " " for c in table.columns]
    rules = ["---" if i < table.words else "---:" for i in range(len(columns))]
    rows = [columns, rules, *([_safe(c) for c in row] for row in table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    more = [f"\n{table.more:,} further rows are left out; the sidecar has them."] if table.more else []
    return "\n".join([*lines, *more])

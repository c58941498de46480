"""Results as people see them: one short line, and in a notebook that line with a table below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ppdm_cli.errors import one_line

SHOWN_CHARACTERS = 300
"""The most characters that a result prints."""
SHOWN_ROWS = 10
"""The most rows of a frame that a notebook shows."""


class Shown:
    """A result that prints shortly; it says its words, and what a notebook shows below them."""

    __slots__ = ()

    def _words(self) -> Sequence[str]:
        """Return what to say of the result, most important first."""
        # structs are results too, and their metaclass is not that of abstract classes
        raise NotImplementedError("every result says its own words")

    def _body(self) -> Any:
        """Return a polars frame, or lines of text."""
        return []

    def __repr__(self) -> str:
        text = one_line(f"<{type(self).__name__}: {', '.join(self._words())}>")
        return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 4] + "...>"

    def _repr_html_(self) -> str:
        body = self._body()
        if hasattr(body, "rows"):  # the frame's own HTML would leave control characters in
            lines = [body.columns, *body.head(SHOWN_ROWS).rows()]
            below = "".join(f"<tr>{''.join(f'<td>{_safe(c)}</td>' for c in line)}</tr>" for line in lines)
            below = f"<table>{below}</table>{body.height} rows"
        else:
            below = "<pre>" + "\n".join(map(_safe, body)) + "</pre>"
        return f"<p>{_safe(repr(self)[1:-1])}</p>{below}"


def _safe(text: object) -> str:
    from html import escape  # for notebooks alone

    return escape(one_line(str(text)))

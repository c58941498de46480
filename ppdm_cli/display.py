"""Display for every package: results in a notebook, figures for people, and numbers and names from people.

Bounds are rounded up, so that promises stay true. Numbers are read exactly as they were written, in options,
plan files and notebooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from typing import Any, TypeVar

from ppdm_cli.errors import PpdmError, UsageError, argument, one_line, quoted

Read = TypeVar("Read")

MOST_CHARACTERS = 300
"""The most characters that a result prints."""
MOST_NOTEBOOK_ROWS = 10
"""The most rows of a frame that a notebook shows."""


class Displayed:
    """A result with a short printed form: its words, and the body that a notebook shows below them."""

    __slots__ = ()

    def _words(self) -> Sequence[str]:
        """Return phrases that describe the result, most important first."""
        # structs are results too, and their metaclass is not that of abstract classes
        raise NotImplementedError("every result must describe itself")

    def _body(self) -> Any:
        """Return a polars frame, or lines of text."""
        return getattr(self, "frame", [])

    def __repr__(self) -> str:
        text = one_line(f"<{type(self).__name__}: {', '.join(self._words())}>")
        return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 4] + "...>"

    def __str__(self) -> str:
        body = self._body()
        if not hasattr(type(body), "rows"):
            return "\n".join([repr(self), *map(one_line, _lines(body))])
        lines = _table(body)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
        return "\n".join([repr(self), *padded])

    def _repr_html_(self) -> str:
        body = self._body()
        if hasattr(type(body), "rows"):  # the frame's own HTML would leave control characters in
            rows = ("".join(f"<td>{_safe(c)}</td>" for c in line) for line in _table(body))
            below = f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>{body.height} rows"
        else:
            below = "<pre>" + "\n".join(map(_safe, _lines(body))) + "</pre>"
        return f"<p>{_safe(repr(self)[1:-1])}</p>{below}"


def _lines(body: Any) -> Sequence[str]:
    return body if isinstance(body, (list, tuple)) else [repr(body)]  # a DataFrame of Spark


def _table(body: Any) -> list[list[str]]:
    """Return a frame's first rows: null is empty, and a number has as many digits as a person reads."""
    lines = [body.columns, *body.head(MOST_NOTEBOOK_ROWS).rows()]
    return [
        ["" if c is None else f"{c:.4g}" if isinstance(c, float) else one_line(str(c)) for c in line]
        for line in lines
    ]


def _safe(text: object) -> str:
    from html import escape  # for notebooks alone

    return escape(one_line(str(text)))


UNLIMITED = 0.999
"""A bound on a belief that is above this share limits nothing: such a release has no meaningful protection."""


def up(bound: float, digits: int = 4) -> float:
    """Round a bound up to so many significant digits, leaving out what floating point added to the 13th."""
    exact = Context(prec=12).create_decimal(repr(bound))
    return float(Context(prec=digits, rounding=ROUND_CEILING).plus(exact))


def at_most(share: float) -> str:
    """Return a bound as a percentage, rounded up; "over 99.9%" limits nothing."""
    return f"{up(100 * share, 3):.3g}%" if share <= UNLIMITED or share == 1 else f"over {UNLIMITED:.1%}"


def exactly(share: float) -> str:
    """Return a share that someone chose, such as the belief that a bound is for, with all its digits."""
    return f"{100 * share:.12g}%"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%" if share < 0.9995 or share == 1 else "over 99.9%"


def named(key: str, reader: Callable[[Any], Read], value: object) -> Read:
    """Return a setting's value as its reader has it; an error names the setting."""
    try:
        return reader(value)
    except PpdmError as error:
        raise error.at(key) from None


def decimal(value: object) -> Decimal:
    """Return a number, exactly as it was written."""
    try:
        return value if isinstance(value, Decimal) else Decimal(str(value).strip())
    except InvalidOperation:
        raise UsageError(
            "not-a-number", f"{quoted(value)} is not a number", "use one such as 9 or 4.5"
        ) from None


def whole(value: object) -> int:
    number = decimal(value)
    if not number.is_finite() or number.adjusted() > 15 or number != number.to_integral_value():
        raise UsageError("not-a-whole-number", f"{quoted(value)} is not a whole number", "use one such as 20")
    return int(number)


def names(name: str, value: object) -> tuple[str, ...]:
    """Return the names that an argument was given: several, or a string that is one."""
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, (list, tuple, set, frozenset)) or not all(isinstance(n, str) for n in several):
        raise UsageError(
            "not-names", f"{name} takes one name or a list of names", f"try {argument(name, ['age', 'salary'])}"
        )
    return tuple(several)

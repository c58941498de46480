"""Figures for people: shares as percentages, and promises rounded so that they stay true."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context


def up(bound: float, digits: int = 4) -> float:
    """Round a bound up to so many significant digits, leaving out what floating point added to the 13th."""
    exact = Context(prec=12).create_decimal(repr(bound))
    return float(Context(prec=digits, rounding=ROUND_CEILING).plus(exact))


def at_most(share: float) -> str:
    """Return a bound as a percentage, rounded up; "over 99.9%" is one that limits nothing."""
    return f"{up(100 * share, 3):.3g}%" if share <= 0.999 or share == 1 else "over 99.9%"


def exactly(share: float) -> str:
    """Return a share that someone chose, such as the belief that a bound is for, with all its digits."""
    return f"{100 * share:.12g}%"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%" if share < 0.9995 or share == 1 else "over 99.9%"

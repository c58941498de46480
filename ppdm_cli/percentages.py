"""Shares as percentages, for people."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context


def at_most(share: float) -> str:
    """Return a bound as a percentage: rounded up, so that it holds."""
    rounded = Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(100 * share))
    return f"{rounded.normalize():f}%" if share < 0.9995 or share == 1 else "over 99.9%"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%" if share < 0.9995 or share == 1 else "over 99.9%"

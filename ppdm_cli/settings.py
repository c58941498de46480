"""Numbers, truth values and names, as options, plan files and notebooks write them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from ppdm_cli.errors import PpdmError, UsageError, quoted


def named(key: str, reader: Callable[[Any], Any], value: Any) -> Any:
    """Return a setting's value as its reader has it; an error names the setting."""
    try:
        return reader(value)
    except PpdmError as error:
        raise error.at(key) from None


def decimal(value: Any) -> Decimal:
    """Return a number, exactly as it was written."""
    try:
        return value if isinstance(value, Decimal) else Decimal(str(value).strip())
    except InvalidOperation:
        raise UsageError(f"{quoted(value)} is not a number", "give one such as 9 or 4.5") from None


def real(value: Any) -> float:
    number = float(decimal(value))
    if number != number or abs(number) == float("inf"):
        raise UsageError(f"{quoted(value)} is not a finite number", "give one such as 9 or 4.5")
    return number


def whole(value: Any) -> int:
    number = decimal(value)
    if not number.is_finite() or number.adjusted() > 15 or number != number.to_integral_value():
        raise UsageError(f"{quoted(value)} is not a whole number", "give one such as 20")
    return int(number)


def whole_or_auto(value: Any) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    try:
        return whole(value)
    except UsageError:
        raise UsageError(f"{quoted(value)} is not a whole number", "give one such as 20, or auto") from None


def truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "yes": True, "false": False, "no": False}
    if str(value).lower() not in known:
        raise UsageError(f"{quoted(value)} is neither true nor false", "use nulls=true or nulls=false")
    return known[str(value).lower()]


def names(argument: str, value: Any) -> tuple[str, ...]:
    """Return the names that an argument was given: several, or a string that is one."""
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, (list, tuple, set, frozenset)) or not all(isinstance(n, str) for n in several):
        raise UsageError(
            f"{argument} takes one name or a list of names", f"such as {argument}=['age', 'salary']"
        )
    return tuple(several)

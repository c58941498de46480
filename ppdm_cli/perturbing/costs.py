"""What a release will tell of each attribute, known before it is made: the error of a count to expect.

The figure is the standard error of a value's estimated count, for even shares, over the mean count. Above 1
no count can be told from none.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import sqrt

from ppdm_cli.channels import Channel, GammaDiagonal
from ppdm_cli.errors import RefusedError, listed

MOST_ENTRIES = 1 << 18
"""The most entries of a matrix without closed forms that an error is computed of."""
WAY_OUT = "group its values (prefix, mapping), take fewer bins or more gamma, or drop it"


def expected_error(channel: Channel, records: int) -> float | None:
    """Return the relative error to expect of a value's count; None where neighbours are what is preserved."""
    matrix, spec = channel.matrix, channel.spec
    large = not matrix.diagonal and matrix.inputs**2 > MOST_ENTRIES
    if channel.noise is not None or spec is None or "half_width" in spec.options or large or not records:
        return None
    return matrix.expected_error(records) * sqrt(matrix.inputs) / records


def relative_error(gamma: float, N: int, records: int) -> float:
    """Return the same for the default matrix of so many values."""
    return GammaDiagonal(Fraction(gamma), N).kang_bound(max(records, 1))


def expected_errors(channels: Iterable[Channel], records: int) -> dict[str, float | None]:
    return {c.name: expected_error(c, records) for c in channels}


def unlearnable(errors: dict[str, float | None]) -> list[str]:
    """Return the attributes whose counts nobody can tell from none."""
    return [n for n, e in errors.items() if e is not None and e > 1]


def refuse_unlearnable(errors: dict[str, float | None]) -> None:
    if useless := unlearnable(errors):
        raise RefusedError(
            f"nothing can be learnt of {listed(useless)}: the standard error of a count exceeds the mean count",
            f"{WAY_OUT}; or leave out --strict",
        )

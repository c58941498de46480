"""Two values, each with its own probability of becoming the other (Ma and Sivakumar's binary scheme)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, ClassVar

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.channels.base import Beyond, Request, Spec, register_kind
from ppdm_cli.channels.dense import Weights, WeightsSpec, scaled_columns
from ppdm_cli.display import decimal
from ppdm_cli.domain import Domain
from ppdm_cli.errors import RefusedError, UsageError

Chance = Annotated[float, Meta(ge=0, le=1)]


def read_chance(value: object) -> float:
    """Read a probability of at most six decimals."""
    number = decimal(value)
    if not (0 <= number <= 1 and number == round(number, 6)):
        raise UsageError(
            "no-probability", "a probability is a number from 0 to 1 of at most six decimals", "try 0.05"
        )
    return float(number)


def read_flips(value: object) -> list[float]:
    """Read the chances that the first value becomes the second, and the second the first."""
    parts = value.split(":") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or len(parts) != 2:
        raise UsageError(
            "wrong-flips", "flips are two probabilities", "try flips=0.1:0.25, or flips = [0.1, 0.25]"
        )
    return [read_chance(p) for p in parts]


@register_kind
class BinarySpec(WeightsSpec, frozen=True, tag="binary", tag_field="kind", kw_only=True):
    """The record of a binary channel in a sidecar: the probability of each value to become the other."""

    about = (
        "Swaps two values: the first becomes the second with one probability, the second becomes the first "
        "with another."
    )
    options: ClassVar[Mapping[str, Callable[[object], object]]] = {"flips": read_flips}

    flips: Annotated[list[Chance], Meta(min_length=2, max_length=2)]

    def matrix(self, domain: Domain) -> Weights:
        if domain.size != 2:
            raise RefusedError(
                "binary-domain-size",
                f"a binary matrix is for two values, this domain has {domain.size}",
                "use matrix=symmetric or matrix=gamma-diagonal",
            )
        p, q = (Decimal(repr(f)) for f in self.flips)
        columns, scale = scaled_columns([[1 - p, p], [q, 1 - q]])
        return Weights(np.array(columns).T, scale)

    def described(self) -> str:
        return f"flips of {self.flips[0]:g} and {self.flips[1]:g}"

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        flips = request.options.get("flips")
        if flips is None:
            raise UsageError(
                "missing-flips", "a binary matrix needs its two probabilities", "try flips=0.1:0.25"
            )
        spec = cls(attributes=[name], flips=flips)
        spec.law(domain)
        return spec, UNSET

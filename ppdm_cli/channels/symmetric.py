"""Symmetric channels, with one probability for every replacement: gamma-diagonal matrices by that entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.channels.base import Beyond, Request, Spec, register_kind
from ppdm_cli.channels.binary import read_chance
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.domain import Domain
from ppdm_cli.errors import RefusedError, UsageError


@register_kind
class SymmetricSpec(Spec, frozen=True, tag="symmetric", tag_field="kind", kw_only=True):
    """The record of a symmetric channel in a sidecar: the probability of each other value."""

    about = "Replaces a value by each of the others with one given probability, and otherwise keeps it."
    options: ClassVar[Mapping[str, Callable[[object], object]]] = {"each": read_chance}
    takes_gamma = False

    each: Annotated[float, Meta(gt=0, lt=1)]

    def matrix(self, domain: Domain) -> GammaDiagonal:
        each = Fraction(repr(self.each))
        stays = 1 - (domain.size - 1) * each
        if stays <= each:
            raise RefusedError(
                "symmetric-chance-too-large",
                f"with a probability of {self.each:g} for each of {domain.size - 1} other values, a value "
                "isn't more likely to stay than to become any one of them",
                f"use each= below {1 / domain.size:.4g}",
            )
        return GammaDiagonal(stays / each, domain.size)

    def described(self) -> str:
        return f"{self.each:g} for each other value"

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        each = request.options.get("each")
        if not each:
            raise UsageError(
                "missing-symmetric-chance",
                "a symmetric matrix needs the probability of each other value",
                "try each=0.05",
            )
        spec = cls(attributes=[name], each=each)
        spec.law(domain)
        return spec, UNSET

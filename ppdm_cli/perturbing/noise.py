"""What is asked of additive noise, the baseline of the papers: one law for all, and how wide it is."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa
from msgspec import UNSET

from ppdm_cli.domain import Bins, Categories, Domain
from ppdm_cli.errors import RefusedError, UsageError, quoted
from ppdm_cli.matrices import AdditiveSpec, Noise, build
from ppdm_cli.sidecar import extents_of

if TYPE_CHECKING:
    from ppdm_cli.perturbing.choosing import Chosen
    from ppdm_cli.perturbing.wishes import AttributeWish, Wishes

NO_NULLS = "fill them, leave out their records, or --drop the column"
Scheme = Literal["substitution", "additive"]


@dataclass(frozen=True)
class Sd:
    """A standard deviation, in units of the column or as a share of its domain's width."""

    amount: float
    share: bool

    @classmethod
    def read(cls, value: Any) -> Sd:
        """From a number, or from text such as "2.5" or "25%"."""
        text = str(value).strip()
        try:
            amount = Decimal(text.removesuffix("%"))
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount <= 0:
            raise UsageError(
                f"{quoted(value)} is no standard deviation",
                "give a number above 0 such as 2.5, or a share such as 25%",
            )
        share = text.endswith("%")
        return cls(float(amount / 100 if share else amount), share)

    def within(self, width: float) -> float:
        """In units of a column whose domain is so wide."""
        return self.amount * width if self.share else self.amount


def check(wishes: Wishes) -> None:
    """What belongs to noise is asked with it, and what belongs to matrices without it."""
    own = wishes.attributes.values()
    if wishes.scheme not in get_args(Scheme):
        raise UsageError(f"{quoted(wishes.scheme)} is no scheme", f"one of {', '.join(get_args(Scheme))}")
    if wishes.scheme == "substitution":
        if wishes.noise is not None or wishes.sd is not None or any(w.sd for w in own):
            raise UsageError(
                "noise and sd go with additive noise only", "say --scheme additive, or leave them away"
            )
        return
    told = [wishes.gamma, wishes.rho1, wishes.rho2, wishes.record_epsilon, wishes.matrix]
    for wish in own:
        told += [wish.gamma, wish.rho1, wish.rho2, wish.matrix, wish.half_width]
    if any(t is not None for t in told):
        raise UsageError(
            "additive noise has no matrix to choose, and no gamma, rho or epsilon holds for it",
            "leave them away, or leave --scheme away for random substitution, which promises them",
        )
    if wishes.noise not in get_args(Noise):
        raise UsageError(
            "the law of the noise is missing or unknown", f"say --noise {' or --noise '.join(get_args(Noise))}"
        )


def chosen(domain: Domain, wish: AttributeWish, wishes: Wishes) -> Chosen:
    """The noise of one attribute, checked; a sidecar lists nothing beyond the domain for it."""
    sd = wish.sd or wishes.sd
    assert sd is not None and wishes.noise is not None  # `check_columns` has seen to it
    if domain.nulls:
        raise RefusedError(
            "it has nulls, and noise leaves them as they are: who has no value would be published",
            NO_NULLS,
        )
    assert isinstance(domain, (Bins, Categories))
    values = domain.edges if isinstance(domain, Bins) else domain.values
    spec = AdditiveSpec(wishes.noise, sd.within(float(values[-1]) - float(values[0])))
    build(spec, domain.size, False, extents_of(domain))
    return spec, UNSET


def check_column(name: str, kind: pa.DataType, wish: AttributeWish, wishes: Wishes) -> None:
    """Noise is added to numbers, and somebody has said how much."""
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise RefusedError(
            f"the column {quoted(name)} is of type {kind}: noise is added to whole and floating-point numbers",
            f"--drop {name}, or --keep it if it is public",
        )
    if wish.sd is None and wishes.sd is None:
        raise UsageError(
            f"no standard deviation is given for {quoted(name)}; there is no default",
            "say --sd 25% for a share of each domain's width, or --sd 2.5 in the columns' units",
        )

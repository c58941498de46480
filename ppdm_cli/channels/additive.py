"""Additive noise as a matrix: z = x + r, r uniform or normal, of one law for all (docs/technical/method.md).

The inputs are the domain's values or bins. Inside a bin all values are equally likely. The outputs are bins of
z: those of the domain, and more on both sides, which hold all values that the noise can reach. Noise promises
no gamma.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from math import ceil, inf, isfinite, sqrt
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Codes, Floats, Words
from ppdm_cli.channels.base import Beyond, Channel, Request, Spec, register_kind
from ppdm_cli.channels.matrix import Explicit, Matrix, Noisy
from ppdm_cli.coins import CELLS, Coins
from ppdm_cli.domain import Bins, Categories, Domain, Extents
from ppdm_cli.errors import RefusedError, UsageError, argument, quoted

Noise = Literal["uniform", "normal"]
MOST_INPUTS = 1 << 10
MOST_BEYOND = 1 << 9
"""The most bins of z past either end of the domain; they resolve the noise whatever its size."""
_NORMAL_REACH = 9.0
"""The reach of normal noise in standard deviations; the sampler's largest is 8.6."""
_EXTREME = 1e6
_NARROW = 1e-4
"""The least width of a bin in standard deviations; a narrower one is taken as its middle: less rounding."""


@dataclass(frozen=True)
class Additive(Explicit, Noisy):
    """Noise of standard deviation `sd` on codes whose values lie within `extents`."""

    stop_gain = 0.03

    noise: Noise
    sd: float
    extents: Extents

    def __post_init__(self) -> None:
        if not 2 <= len(self.extents) <= MOST_INPUTS:
            raise RefusedError(
                "noise-domain-size",
                f"additive noise needs a domain of 2 to {MOST_INPUTS} values or bins, this one has "
                f"{len(self.extents)}",
                f"use another number of {argument('bins')}",
            )
        lowest, highest = self.extents[0][0], self.extents[-1][1]
        width = highest - lowest
        if not width / _EXTREME <= self.sd <= width * _EXTREME or not isfinite(
            abs(lowest) + abs(highest) + 10 * self.sd
        ):
            what = "the standard deviation is below a millionth or above a million times the domain's width"
            raise UsageError("wrong-sd", what, f"use another one, such as {argument('sd', '25%')}")
        if not (np.diff(self.edges) > 0).all():
            what = "the domain is too far from zero for its width: numbers of its size cannot show the noise"
            step = f"subtract a constant from the column, or use a larger {argument('sd')}"
            raise RefusedError("domain-too-far-from-zero", what, step)

    @property
    def reach(self) -> float:
        """Return the largest possible noise: a for the uniform law on [-a, a]."""
        return sqrt(3) * self.sd if self.noise == "uniform" else _NORMAL_REACH * self.sd

    @property
    def interval(self) -> float:
        """Return Agrawal and Srikant's privacy: the width of the interval that holds x with 95% confidence."""
        return 0.95 * 2 * self.reach if self.noise == "uniform" else 3.92 * self.sd

    @cached_property
    def edges(self) -> Floats:
        low, high = np.array(self.extents).T
        inner = (high[:-1] + low[1:]) / 2
        # single values: as far out as halfway to the next one; of bins this is their own end
        first, last = low[0] - (inner[0] - high[0]), high[-1] + (low[-1] - inner[-1])
        below = -_outwards(-first, self.reach - low[0], inner[0] - first)[::-1]
        above = _outwards(last, high[-1] + self.reach, last - inner[-1])
        return np.concatenate([below, [first], inner, [last], above])

    @property
    def inputs(self) -> int:
        return len(self.extents)

    @property
    def outputs(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def unchanged(self) -> np.ndarray:
        first = np.searchsorted(self.edges, (self.extents[0][0] + self.extents[0][1]) / 2, side="right") - 1
        return np.arange(self.inputs) + first

    @property
    def amplification(self) -> float:
        return inf

    @property
    def noise_variance(self) -> float:
        return self.sd**2

    def share_below(self, noise: Floats) -> Floats:
        if self.noise == "uniform":
            share: Floats = (noise / self.reach + 1) / 2
            return share
        return self._below(noise / self.sd)

    def added(self, values: Floats, words: Words) -> Floats:
        """Add noise to values, from four 32-bit words each.

        Promise: for uniform words the noises are independent, and their law is that of a multiple of 2^-52 in
        (-1, 1) times a, or of Box and Muller's transform of two such in (0, 1) times sd; either is within 2^-51
        of its name's law, at every threshold. The sum is rounded to a double, whose last digits may reveal x.
        Additive noise promises nothing about that.
        """
        halves = (words.view("<u8") >> np.uint64(12)).astype(np.float64)
        u = (2 * halves + 1) * 2.0**-53  # exact: odd multiples of 2^-53
        if self.noise == "uniform":
            return values + self.reach * (2 * u[:, 0] - 1)
        return values + self.sd * np.sqrt(-2 * np.log(u[:, 0])) * np.cos(2 * np.pi * u[:, 1])

    @cached_property
    def entries(self) -> Floats:
        """Return Pr(z in output bin | x in input bin): second differences of the twice integrated density."""
        low, high = np.array(self.extents).T / self.sd
        ends = self.edges[:, None] / self.sd
        narrow = high - low < _NARROW
        middle, width = low / 2 + high / 2, np.where(narrow, 1.0, high - low)
        below = np.where(
            narrow, self._below(ends - middle), (self._summed(ends - low) - self._summed(ends - high)) / width
        )
        entries = np.maximum(np.diff(below, axis=0), 0.0)
        return entries / entries.sum(axis=0)

    def _below(self, t: Floats) -> Floats:
        """Return F(t), the probability that the noise is less than t standard deviations."""
        if self.noise == "uniform":
            return np.clip(t / sqrt(3), -1, 1) / 2 + 0.5
        from scipy.special import ndtr  # on first use: it costs a tenth of a second

        below: Floats = ndtr(t)
        return below

    def _summed(self, t: Floats) -> Floats:
        if self.noise == "uniform":
            a = sqrt(3)
            return (np.clip(t, -a, a) + a) ** 2 / (4 * a) + np.maximum(t - a, 0)
        return t * self._below(t) + np.exp(-(t**2) / 2) / sqrt(2 * np.pi)


def _outwards(start: float, end: float, width: float) -> Floats:
    """Return edges above `start` up to `end`, about `width` apart; none if `end` is not above `start`."""
    far = max(end - start, 0.0)
    count = ceil(far / width) if far / MOST_BEYOND < width else MOST_BEYOND * (width > 0)
    return np.linspace(start, end, count + 1)[1:]


@dataclass(frozen=True)
class Sd:
    """A standard deviation, in units of the column or as a share of its domain's width."""

    amount: float
    share: bool

    @classmethod
    def read(cls, value: object) -> Sd:
        """Read a number, or text such as "2.5" or "25%"."""
        text = str(value).strip()
        try:
            amount = Decimal(text.removesuffix("%"))
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount <= 0:
            what = f"can't read {argument('sd')}: {quoted(value)} is not a standard deviation"
            raise UsageError("no-sd", what, "use a number above 0 such as 2.5, or a share such as 25%")
        share = text.endswith("%")
        return cls(float(amount / 100 if share else amount), share)

    def within(self, width: float) -> float:
        """Return the standard deviation in units of a column whose domain has this width."""
        return self.amount * width if self.share else self.amount


def read_law(value: Any) -> Noise:
    if value not in get_args(Noise):
        what = "the law of the noise is missing or unknown"
        step = f"add {' or '.join(argument('noise', n) for n in get_args(Noise))}"
        raise UsageError("no-noise-law", what, step)
    law: Noise = value
    return law


@register_kind
class AdditiveSpec(Spec, frozen=True, tag="additive", tag_field="kind", kw_only=True):
    """The record of additive noise in a sidecar: its law, and the type of the published column."""

    about = "Adds noise of one law to every number, an old baseline for comparison. It promises no gamma."
    options: ClassVar[Mapping[str, Callable[[object], object]]] = {"sd": Sd.read}
    shared_options: ClassVar[Mapping[str, Callable[[object], object]]] = {"noise": read_law, "sd": Sd.read}
    everywhere = True
    takes_gamma = False
    no_nulls = "fill them, leave out their records, or drop the column"

    noise: Noise
    sd: Annotated[float, Meta(gt=0)]
    dtype: Literal["double"] = "double"

    def matrix(self, domain: Domain) -> Additive:
        return Additive(self.noise, self.sd, domain.extents())

    def published(self, domain: Domain, matrix: Matrix, beyond: Beyond | UnsetType) -> Domain:
        assert isinstance(matrix, Additive)
        if domain.nulls or beyond is not UNSET:
            raise ValueError("noise can't be combined with nulls or 'beyond'")
        return Bins(dtypes.parse(self.dtype), matrix.edges.tolist(), False)

    def publish(
        self, channel: Channel, codes: Codes, values: pa.Array, addresses: Addresses, keys: Mapping[str, bytes]
    ) -> pa.Array:
        assert isinstance(channel.law, Additive)
        numbers = _numbers(channel.domain, values, codes)
        return pa.array(add(channel.law, Coins(keys["perturb"]), addresses, numbers))

    def goes_with(self, other: Spec) -> bool:
        return isinstance(other, AdditiveSpec) and other.noise == self.noise

    def described(self) -> str:
        return f"{self.noise} noise of sd {self.sd:g}"

    def figures(self, matrix: Matrix, domain: Domain) -> dict[str, Any]:
        assert isinstance(matrix, Additive)
        share = matrix.interval / domain.width
        return {"noise": self.noise, "sd": self.sd, "interval": matrix.interval, "interval_share": share}

    @classmethod
    def warnings(cls, channels: Sequence[Channel]) -> list[str]:
        spec = channels[0].spec
        assert isinstance(spec, AdditiveSpec)
        why = (
            "can make one original arbitrarily more likely than another"
            if spec.noise == "normal"
            else "rules out every original further from it than the noise reaches"
        )
        return [
            "Additive noise promises nothing: no finite gamma or epsilon holds for it, because a published "
            f"value {why}. It is a baseline for comparison that attacks break. Publish with random "
            "substitution."
        ]

    @classmethod
    def check(cls, name: str, kind: pa.DataType, request: Request) -> None:
        """Check that the column has numbers and that its standard deviation is given."""
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise RefusedError(
                "noise-on-no-numbers",
                f"the column {quoted(name)} is of type {kind}: noise is added to whole and floating-point "
                "numbers",
                f"add {argument('drop', name)}, or {argument('keep', name)} if it is public",
            )
        if request.options.get("sd") is None:
            raise UsageError(
                "missing-sd",
                f"no standard deviation is given for {quoted(name)}, and none is assumed",
                f"use {argument('sd', '25%')} for a share of each domain's width, or {argument('sd', 2.5)} in "
                "the columns' units",
            )

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        if domain.nulls:
            raise RefusedError(
                "noise-with-nulls",
                "it has nulls, which noise leaves unchanged, so the release would show which records have "
                "no value",
                cls.no_nulls,
            )
        sd: Sd = request.options["sd"]
        spec = cls(attributes=[name], noise=request.options["noise"], sd=sd.within(domain.width))
        spec.law(domain)
        return spec, UNSET


def add(matrix: Additive, coins: Coins, addresses: Addresses, values: Floats) -> Floats:
    """Add noise: the random numbers of a cell follow from its address and all 64 bits of its true value."""
    out = np.empty(len(values))
    halves = (values + 0.0).view("<u4").reshape(-1, 2)  # + 0.0: a zero has no sign
    for start in range(0, len(values), CELLS):
        part = slice(start, start + CELLS)
        words = coins.words(addresses[part], halves[part, 0], halves[part, 1])
        out[part] = matrix.added(values[part], words)
    return out


def _numbers(domain: Domain, values: pa.Array, codes: Codes) -> Floats:
    """Return a column's values as floats, those outside the domain moved into it."""
    if isinstance(domain, Categories):
        return np.array(domain.values, np.float64)[codes]
    inside = dtypes.carrier(values).clip(domain.marks[0], domain.marks[-1])
    return inside.astype(np.float64)

"""Answers as smooth functions of sums: their values, how they move with each sum, and their intervals.

Standard errors are by the delta method. The interval of a ratio of two sums is Fieller's: all ratios q for
which the numerator less q times the denominator is no further from 0 than chance has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, nan, sqrt

import numpy as np

from ppdm_cli.arrays import Floats

SURE = 3.0
"""What is divided by must be so many of its own standard errors away from 0."""
STEP = 0.1
"""By how many standard errors sums are moved to see how a function is curved."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A number computed from sums."""

    value: float
    gradient: Floats
    linear: bool = True
    """Whether it is a sum of sums."""
    ratio: tuple[Figure, Figure] | None = None
    """The two sums whose ratio it is."""
    divided: tuple[Figure, ...] = ()
    """What was divided by on the way."""
    limits: tuple[float, float] = (-inf, inf)
    """Between what the number must lie, whatever the records are."""

    @classmethod
    def of(cls, sums: Floats, place: int) -> Figure:
        gradient = np.zeros(len(sums))
        gradient[place] = 1.0
        return cls(float(sums[place]), gradient)

    @classmethod
    def constant(cls, value: float, sums: Floats) -> Figure:
        return cls(value, np.zeros(len(sums)))

    @property
    def _fixed(self) -> bool:
        return self.linear and not self.gradient.any()

    def within(self, least: float, most: float) -> Figure:
        return replace(self, limits=(least, most))

    def __add__(self, other: Figure) -> Figure:
        linear, divided = self.linear and other.linear, self.divided + other.divided
        return Figure(self.value + other.value, self.gradient + other.gradient, linear, None, divided)

    def __sub__(self, other: Figure) -> Figure:
        linear, divided = self.linear and other.linear, self.divided + other.divided
        return Figure(self.value - other.value, self.gradient - other.gradient, linear, None, divided)

    def __mul__(self, other: Figure) -> Figure:
        gradient = self.gradient * other.value + other.gradient * self.value
        linear = (self._fixed and other.linear) or (self.linear and other._fixed)
        return Figure(self.value * other.value, gradient, linear, None, self.divided + other.divided)

    def __truediv__(self, other: Figure) -> Figure:
        divided = self.divided + other.divided
        if other._fixed:
            by = 1 / other.value if other.value else nan
            return Figure(self.value * by, self.gradient * by, self.linear, None, divided)
        value = self.value / other.value if other.value else nan
        gradient = (self.gradient - value * other.gradient) / (other.value or nan)
        ratio = (self, other) if self.linear and other.linear else None
        return Figure(value, gradient, False, ratio, (*divided, other))

    def less(self, bias: float) -> Figure:
        """Return the number without a bias of the second order; a ratio's interval needs none."""
        return replace(self, value=self.value - bias)

    def root(self) -> Figure:
        value = sqrt(self.value) if self.value > 0 else nan
        return Figure(value, self.gradient / (2 * value), False, None, self.divided)

    # -- how certain it is

    def variance(self, covariance: Floats) -> float:
        return max(float(self.gradient @ covariance @ self.gradient), 0.0)

    def sure(self, covariance: Floats) -> bool:
        """Return whether nothing was divided by that may be 0."""
        return bool(np.isfinite(self.value)) and all(
            abs(d.value) > SURE * sqrt(d.variance(covariance)) for d in self.divided
        )

    def interval(self, covariance: Floats, z: float) -> tuple[float, float]:
        """Return all values from which the answer is at most z standard errors away."""
        reach = z * sqrt(self.variance(covariance))
        low, high = self.value - reach, self.value + reach
        if self.ratio is not None:
            low, high = _fieller(*self.ratio, covariance, z)
        least, most = self.limits
        return min(max(low, least), most), max(min(high, most), least)


def corrected(computed: Callable[[Floats], Figure], sums: Floats, covariance: Floats) -> Figure:
    """Return what is computed of sums, less the bias that their errors give a function that is curved."""
    told = computed(sums)
    moving = np.flatnonzero(told.gradient)
    if told.linear or not len(moving) or not np.isfinite(told.gradient).all():
        return told
    spreads, ways = np.linalg.eigh(covariance[np.ix_(moving, moving)])
    bias = 0.0
    for spread, way in zip(spreads, ways.T, strict=True):
        step = np.zeros(len(sums))
        step[moving] = STEP * sqrt(max(float(spread), 0.0)) * way
        there, back = computed(sums + step).value, computed(sums - step).value
        bias += (there + back - 2 * told.value) / (2 * STEP**2)
    return told.less(bias) if np.isfinite(bias) else told


def _fieller(above: Figure, below: Figure, covariance: Floats, z: float) -> tuple[float, float]:
    N, D, z2 = above.value, below.value, z**2
    top, bottom = above.variance(covariance), below.variance(covariance)
    both = float(above.gradient @ covariance @ below.gradient)
    a, b = D**2 - z2 * bottom, N * D - z2 * both
    if a <= 0:
        return -inf, inf
    # b^2 - a c without taking N^2 D^2 off itself
    left = D**2 * top - 2 * N * D * both + N**2 * bottom - z2 * (top * bottom - both**2)
    half = sqrt(max(z2 * left, 0.0))
    return (b - half) / a, (b + half) / a

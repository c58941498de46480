"""What an adversary knows of an attribute from the release: its matrix, its values, and how often each is had.

A target turns beliefs over codes into guesses: the likeliest code, the code whose neighbourhood is
likeliest, and the mean. Each is the best guess for its own measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Codes, Floats
from ppdm_cli.channels import Channel, Matrix
from ppdm_cli.domain import Bins, Domain, unit

BELIEFS_AT_ONCE = 1 << 22
"""The most beliefs (rows are answers, columns values) that are held at a time."""
LEAST_WIDTH = 1e-70
"""The least width of a domain: the fourth powers of errors, which intervals need, must be finite and not 0."""


class Guess(NamedTuple):
    """The guesses for each record: the code to name, the code whose neighbourhood to name, the number to name.

    Where the adversary has beliefs, also how likely they hold the code and the neighbourhood, and the
    squared error that they expect of the number.
    """

    exact: np.ndarray
    near: np.ndarray
    value: Floats
    belief: Floats | None = None
    near_belief: Floats | None = None
    variance: Floats | None = None


class Truth(NamedTuple):
    """The original's code and number of each record (NaN where it has none)."""

    codes: Codes
    numbers: Floats


@dataclass(frozen=True)
class Rows:
    """A batch as the attacks see it."""

    codes: dict[str, Codes]
    """The codes as published, of perturbed columns and of kept ones that take part."""
    noisy: dict[str, Floats]
    """The published numbers of attributes with additive noise."""
    labels: Codes | None
    truths: dict[str, Truth] | None
    first_row: int

    @property
    def count(self) -> int:
        return len(next(iter(self.codes.values())))

    @property
    def addresses(self) -> Addresses:
        return np.arange(self.first_row, self.first_row + self.count, dtype=np.uint64)

    @property
    def known(self) -> dict[str, Truth]:
        assert self.truths is not None
        return self.truths


@dataclass(frozen=True, eq=False)
class Target:
    """One perturbed attribute, with the prior that the release gives."""

    channel: Channel
    prior: Floats
    """The estimated shares of the original codes."""

    @property
    def name(self) -> str:
        return self.channel.name

    @property
    def domain(self) -> Domain:
        return self.channel.domain

    @property
    def published(self) -> Domain:
        return self.channel.published

    @property
    def matrix(self) -> Matrix:
        return self.channel.matrix

    @cached_property
    def ordered(self) -> int:
        """Return the number of codes in order; 0 if the domain has no order."""
        return self.domain.ordered

    @cached_property
    def values(self) -> Floats:
        """Return the number that each original code represents: a bin's middle; NaN for null and for words."""
        return self.domain.numbers()

    @cached_property
    def measurable(self) -> bool:
        """Return whether the moments of errors can be computed: no width is too large or too small."""
        u = self.values[: self.ordered]
        width = float(u.max() / 2 - u.min() / 2) if self.ordered else 0.0
        return width == 0 or LEAST_WIDTH <= width <= 1 / LEAST_WIDTH

    def nearest(self, numbers_: Floats) -> np.ndarray:
        """Return the codes of numbers: the bin that they are in, or the nearest one."""
        if isinstance(self.domain, Bins):
            edges = self.domain.edges.astype(np.float64) - dtypes.is_whole(self.domain.kind) / 2
            places = np.searchsorted(edges * unit(self.domain.kind), numbers_, side="right") - 1
            return np.clip(places, 0, self.ordered - 1)
        known = self.values[: self.ordered]
        return np.searchsorted((known[1:] + known[:-1]) / 2, numbers_)

    def guessed(self, beliefs: Floats) -> Guess:
        """Return the best guesses from beliefs, one row per record, which need not sum to 1."""
        exact = beliefs.argmax(axis=1)
        rows, total = np.arange(len(beliefs)), np.maximum(beliefs.sum(axis=1), 1e-300)
        belief = beliefs[rows, exact] / total
        if not self.ordered:
            nothing = np.full(len(beliefs), np.nan)
            return Guess(exact, exact, nothing, belief, belief, nothing)
        windows = self.windows(beliefs)
        near = windows.argmax(axis=1)
        if not self.measurable:
            nothing = np.full(len(beliefs), np.nan)
            return Guess(exact, near, nothing, belief, windows[rows, near] / total, nothing)
        u, ordinary = self.values[: self.ordered], beliefs[:, : self.ordered]
        middle, sums = u.mean(), np.maximum(ordinary.sum(axis=1), 1e-300)
        value = ordinary @ (u - middle) / sums
        variance = np.maximum(ordinary @ (u - middle) ** 2 / sums - value**2, 0.0)
        return Guess(exact, near, value + middle, belief, windows[rows, near] / total, variance)

    def windows(self, beliefs: Floats) -> Floats:
        """Return for each code the belief in it and its neighbours together; null has no neighbours."""
        windows = beliefs.copy()
        last = self.ordered
        windows[:, 1:last] += beliefs[:, : last - 1]
        windows[:, : last - 1] += beliefs[:, 1:last]
        return windows

    def is_near(self, guess: np.ndarray, true: np.ndarray) -> np.ndarray:
        apart = np.abs(guess.astype(np.int64) - true.astype(np.int64))
        both = (guess < self.ordered) & (true < self.ordered)
        return (apart == 0) | ((apart == 1) & both)

    @cached_property
    def alone(self) -> Guess:
        """Return the guess from the prior alone, in arrays of one."""
        return self.guessed(self.prior[None, :])

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows of the matrix: for some published codes the chance of each under every original code."""
        unit = np.zeros((self.matrix.outputs, stop - start))
        unit[np.arange(start, stop), np.arange(stop - start)] = 1
        return np.ascontiguousarray(self.matrix.backward(unit).T)


def as_numbers(array: pa.Array, kind: pa.DataType) -> Floats:
    """Return a column as numbers; NaN where it is null."""
    if dtypes.is_discrete(kind):
        return np.full(len(array), np.nan)
    array = dtypes.plain(array)
    found = dtypes.carrier(array).astype(np.float64) * unit(kind)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found

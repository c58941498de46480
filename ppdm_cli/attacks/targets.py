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
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel, Matrix
from ppdm_cli.domain import Bins, Domain, unit

CELLS = 1 << 22
"""Beliefs (a row an answer, a column a value) that are held at a time."""
LEAST_WIDTH = 1e-70
"""Of a domain: the fourth powers of errors, which intervals need, must be proper numbers."""


class Guess(NamedTuple):
    """Of each record: the code to name, the code whose neighbourhood to name, the number to name.

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
    """Of each record the original's code and number (NaN where it has none)."""

    codes: Codes
    numbers: Floats


@dataclass(frozen=True)
class Rows:
    """A batch as the attacks see it."""

    codes: dict[str, Codes]
    """As published."""
    noisy: dict[str, Floats]
    """The published numbers of attributes with additive noise."""
    labels: Codes | None
    truths: dict[str, Truth] | None
    first_row: int

    @property
    def known(self) -> dict[str, Truth]:
        assert self.truths is not None
        return self.truths


@dataclass(frozen=True, eq=False)
class Target:
    """One perturbed attribute, with the prior that the release gives."""

    channel: Channel
    prior: Floats
    """Shares of the original codes, estimated."""

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
        """How many codes stand in order; 0 where there is no order."""
        return self.domain.ordered

    @cached_property
    def values(self) -> Floats:
        """The number that each original code stands for: a bin's middle; NaN for null and for words."""
        return self.domain.numbers()

    @cached_property
    def measurable(self) -> bool:
        """Whether its numbers lie neither too far apart nor too close for the moments of errors to be told."""
        u = self.values[: self.ordered]
        width = float(u.max() / 2 - u.min() / 2) if self.ordered else 0.0
        return width == 0 or LEAST_WIDTH <= width <= 1 / LEAST_WIDTH

    def nearest(self, numbers_: Floats) -> np.ndarray:
        """The codes of numbers: the bin that they are in, or the nearest one."""
        if isinstance(self.domain, Bins):
            edges = self.domain.edges.astype(np.float64) - dtypes.is_whole(self.domain.kind) / 2
            places = np.searchsorted(edges * unit(self.domain.kind), numbers_, side="right") - 1
            return np.clip(places, 0, self.ordered - 1)
        known = self.values[: self.ordered]
        return np.searchsorted((known[1:] + known[:-1]) / 2, numbers_)

    def guessed(self, beliefs: Floats) -> Guess:
        """The best guesses from beliefs, a row a record, which need not sum to 1."""
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
        """For each code what is believed of it and its neighbours; null has none."""
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
        """The guess from the prior alone, in arrays of one."""
        return self.guessed(self.prior[None, :])

    def rows(self, start: int, stop: int) -> Floats:
        """Rows of the matrix: for each of some published codes its chance under each original code."""
        unit = np.zeros((self.matrix.outputs, stop - start))
        unit[np.arange(start, stop), np.arange(stop - start)] = 1
        return np.ascontiguousarray(self.matrix.backward(unit).T)


def as_numbers(array: pa.Array, kind: pa.DataType) -> Floats:
    """A column as such numbers; NaN where it is null."""
    if dtypes.is_discrete(kind):
        return np.full(len(array), np.nan)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    found = dtypes.carrier(array).astype(np.float64) * unit(kind)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found

"""Exact draws for every kind: gamma as a fraction, and whole numbers below R, uniform without any error.

Every gamma is a decimal of few digits, so a fraction a/b, and every entry of a matrix a whole number
over one R. No floating-point number takes part in a draw.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from typing import ClassVar

import numpy as np

from ppdm_cli.arrays import Codes, code_type
from ppdm_cli.channels.matrix import Blocks, Substitution
from ppdm_cli.errors import RefusedError, UsageError, argument

LARGEST_RANGE = 1 << 30
"""The largest R: up to it a 32-bit word is rejected with probability < 1/4."""
LARGEST_WIDE_RANGE = 1 << 62
"""The largest R for words of 64 bits."""

DIGITS = 6


def checked_gamma(gamma: Decimal) -> Decimal:
    """Return gamma as the exact decimal that the sampler uses; raise an error with the reason if it cannot."""
    if gamma.is_nan():
        what = "gamma is not a number"
        raise UsageError("gamma-not-a-number", what, f"use a number above 1, such as {argument('gamma', 3)}")
    if gamma.is_infinite():
        what = "gamma is infinite: every value would be published unchanged"
        step = f"use a finite gamma above 1, or name public columns with {argument('keep')}"
        raise RefusedError("infinite-gamma", what, step)
    if gamma <= 1:
        what = "gamma must be above 1: a release at 1 carries no information"
        raise RefusedError("gamma-of-one", what, f"use a larger one, such as {argument('gamma', 3)}")
    if len(gamma.normalize().as_tuple().digits) > DIGITS:
        what = f"gamma has more than {DIGITS} significant digits"
        raise UsageError("gamma-digits", what, "round it down, so that the sidecar's gamma is the true one")
    if gamma > LARGEST_RANGE:
        what = "gamma is above 2^30, the largest that the sampler draws exactly"
        raise UsageError("gamma-too-large", what, "use a smaller one: so large a gamma protects nothing")
    return gamma


def rounded_down(gamma: float | Decimal, outputs: int, width: int = 1, largest: int = LARGEST_RANGE) -> Decimal:
    """Return the largest gamma not above the given one that the sampler draws exactly, for so many outputs.

    `width` of them are the ones that gamma makes more likely. Rounded *down* to six significant digits or, for
    many outputs, to fewer decimals: a promise derived from rho1 and rho2 or from a budget is never exceeded.
    """
    exact = min(Decimal(gamma), Decimal((largest - outputs) // width + 1), Decimal(LARGEST_RANGE))
    for digits in range(DIGITS, 0, -1):
        candidate = Context(prec=digits, rounding=ROUND_FLOOR).plus(exact)
        if candidate <= 1:
            break
        a, b = candidate.as_integer_ratio()
        if (a - b) * width + b * outputs <= largest:
            return candidate
    what = "the requested privacy leaves a gamma of about 1, so nothing could be learned"
    raise RefusedError("budget-too-small", what, "ask for less privacy, drop attributes or use fewer bins")


def uniform_below(R: int, blocks: Blocks) -> Codes:
    """Return one whole number per cell, uniform on 0..R-1, from 32-bit words.

    Proof. If w is uniform on 0..2^32-1, then among the w with (w R mod 2^32) >= (2^32 mod R) the
    quotient u = floor(w R / 2^32) is uniform on 0..R-1: each u has floor(2^32/R) such w (Lemire 2019);
    other words are rejected and replaced by fresh ones, without limit. Assumes that the words are
    independent and uniform, and R <= 2^32.
    """
    reject_below = (1 << 32) % R
    product = np.multiply(blocks(0)[:, 0], R, dtype=np.uint64)
    # the quotients are the products' upper halves; as narrow integers the rest costs little
    narrow = np.dtype(code_type(R))
    u = product.view(narrow)[4 // narrow.itemsize :: 8 // narrow.itemsize].copy()
    low = product.view(np.uint32)[0::2]
    if reject_below and low.size and low.min() < reject_below:
        _redraw(u, np.flatnonzero(low < reject_below), R, blocks)
    return u


def _redraw(u: Codes, rows: np.ndarray, R: int, blocks: Blocks) -> None:
    """Give the rejected cells their next words: three more of their block, then new blocks."""
    reject_below = (1 << 32) % R
    retry, first_word = 0, 1
    while rows.size:
        words = blocks(retry, rows)
        for column in range(first_word, 4):
            product = words[:, column].astype(np.uint64) * np.uint64(R)
            accepted = (product & np.uint64(0xFFFFFFFF)) >= reject_below
            u[rows[accepted]] = product[accepted] >> np.uint64(32)
            rows, words = rows[~accepted], words[~accepted]
        retry, first_word = retry + 1, 0


def uniform_below_wide(R: int, blocks: Blocks) -> np.ndarray:
    """Return one whole number per cell, uniform on 0..R-1, from 64-bit words.

    Proof. If v is uniform on 0..2^64-1, then among the v below 2^64 - (2^64 mod R), a multiple of R, the
    remainder v mod R is uniform on 0..R-1; other words are rejected and replaced by fresh ones, without limit.
    Assumes that the words are independent and uniform, and R <= 2^63.
    """
    last = np.uint64((1 << 64) - (1 << 64) % R - 1)
    v = blocks(0).view("<u8")[:, 0].copy()
    rows, retry, first_word = np.flatnonzero(v > last), 0, 1
    while rows.size:
        words = blocks(retry, rows).view("<u8")
        for column in range(first_word, 2):
            accepted = words[:, column] <= last
            v[rows[accepted]] = words[accepted, column]
            rows, words = rows[~accepted], words[~accepted]
        retry, first_word = retry + 1, 0
    v -= v // np.uint64(R) * np.uint64(R)
    return v.astype(np.uint32) if R <= 1 << 32 else v  # half as wide, twice as fast


class ExactDraw(Substitution):
    """A substitution that one whole number decides: all numbers below `range` are equally likely."""

    wide: ClassVar[bool] = False
    """True if numbers come from words of 64 bits."""

    @property
    @abstractmethod
    def range(self) -> int: ...

    @abstractmethod
    def replace(self, codes: Codes, numbers: np.ndarray, out: Codes) -> None:
        """Replace each code as its number says; the numbers are lost."""

    @abstractmethod
    def starts(self, code: int) -> np.ndarray:
        """Return the numbers, ascending from 0, at which what replaces a code may change; for small ones."""

    @property
    def alike(self) -> list[tuple[int, int]] | None:
        """Return the numbers that an output gets, each with how many outputs of any code get so many."""
        return None

    @property
    def parts(self) -> list[tuple[Sequence[int], ExactDraw | None]]:
        return [(range(self.inputs), self)]

    def sample(self, codes: Codes, blocks: Blocks, out: Codes) -> None:
        below = uniform_below_wide if self.wide else uniform_below
        self.replace(codes, below(self.range, blocks), out)

    def counted(self, every: bool) -> np.ndarray:
        """Return by h and k how many numbers replace code k by h: the sampler is run on every number.

        Or else on the first and the last of the numbers between which the answer does not change: then all it
        does to a number is to compare it and to divide it, so that what is alike at both is alike between them.
        """
        found = np.zeros((self.outputs, self.inputs), np.int64)
        for k in range(self.inputs):
            starts = np.arange(self.range) if every else self.starts(k)
            ends = np.append(starts[1:], self.range)
            first, last = self._replaced(k, starts), self._replaced(k, ends - 1)
            if not np.array_equal(first, last):
                raise ValueError("an answer changes between numbers that have the same one")
            np.add.at(found[:, k], first, ends - starts)
        return found

    def _replaced(self, code: int, numbers: np.ndarray) -> Codes:
        """Return what replaces a code, by whole numbers below the range."""
        out = np.empty(len(numbers), code_type(self.outputs))
        own = np.full(len(numbers), code, code_type(self.inputs))
        kind = code_type(self.range) if self.range <= 1 << 32 else np.uint64
        self.replace(own, numbers.astype(kind), out)
        return out

"""Kinds whose probabilities an owner gives: entry by entry, for two values, or one for every replacement.

A dense matrix has whole numbers over one scale, drawn exactly from alias tables. Walker's alias method with
whole numbers: column k's weights w_h sum to S, so N columns of height S are filled with N w_h, each column from
at most two codes. One number below N S gives a column and a height in it: O(1) a draw, whatever N is, and
exact. A binary channel is one of two values, each with its own probability of becoming the other (Ma and
Sivakumar's binary scheme). A symmetric channel is a gamma-diagonal matrix by its off-diagonal entry.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels.base import Beyond, Channel, Request, Spec, register_kind
from ppdm_cli.channels.exact_draw import LARGEST_RANGE, ExactDraw
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.channels.matrix import Explicit, codes_of
from ppdm_cli.display import decimal
from ppdm_cli.domain import Domain
from ppdm_cli.errors import RefusedError, UsageError, quoted
from ppdm_cli.files import content

MOST_DENSE_CELLS = 1 << 20
MOST_DENSE_CODES = 1 << 10
LARGEST_FILE = 64 << 20
TOLERANCE = Decimal("1e-9")
"""The largest difference from 1 of the sum of a file's column."""


@dataclass(frozen=True, eq=False)
class Weights(Explicit, ExactDraw):
    """A matrix of whole numbers over one scale: `weights[h, k] / scale` is Pr(code k is replaced by h)."""

    weights: np.ndarray
    scale: int

    def __post_init__(self) -> None:
        rows, columns = self.weights.shape
        if rows != columns or rows < 2 or rows * columns > MOST_DENSE_CELLS:
            raise RefusedError(
                "matrix-not-square",
                f"a matrix has as many rows as columns, 2 to {MOST_DENSE_CODES}; this one is {rows} by "
                f"{columns}",
                "use fewer values or bins",
            )
        if self.range > LARGEST_RANGE:
            what = f"the scale {self.scale} is too large for {rows} codes to be drawn exactly"
            raise UsageError("matrix-scale-too-large", what, f"use a scale of at most {LARGEST_RANGE // rows}")
        if (self.weights < 0).any() or (self.weights.sum(axis=0) != self.scale).any():
            raise ValueError("the columns of a matrix are whole numbers from 0 that sum to its scale")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weights) or self.scale != other.scale:
            return False
        return np.array_equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash((self.scale, self.weights.tobytes()))

    @cached_property
    def entries(self) -> Floats:
        return self.weights / self.scale

    @property
    def range(self) -> int:
        return len(self.weights) * self.scale

    @cached_property
    def amplification(self) -> float:
        least, largest = self.weights.min(axis=1), self.weights.max(axis=1)
        if (least[largest > 0] == 0).any():
            return inf
        reached = largest > 0
        return float((largest[reached] / least[reached]).max())

    def replace(self, codes: Codes, numbers: np.ndarray, out: Codes) -> None:
        """Replace each code k by h with probability exactly weights[h, k] / scale.

        Proof. u is uniform on 0..N S - 1 (`uniform_below`), so place = u // S and height = u % S are
        independent and uniform. The tables give h a total of N weights[h, k] pairs (place, height) out of N S
        (`_aliases` moves whole numbers only, and fills every place to S).
        """
        u = numbers.astype(np.uint32, copy=False)
        place = u // np.uint32(self.scale)
        u -= place * np.uint32(self.scale)
        first, other = self._aliases
        cell = codes.astype(np.intp) * self.inputs + place
        # out = place below the height, else the other: by masks, as a branch would be guessed wrong
        out[:] = place
        above = (u >= first.take(cell)).astype(out.dtype)
        np.negative(above, out=above)
        above &= out ^ other.take(cell).astype(out.dtype, copy=False)
        out ^= above

    def starts(self, code: int) -> np.ndarray:
        places, height = np.arange(self.inputs) * self.scale, self._aliases[0][code].astype(np.int64)
        return np.unique(np.append(places, (places + height)[height < self.scale]))

    @cached_property
    def _aliases(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the alias tables by input and place: the height up to its own code, and the other code."""
        N, S = self.inputs, self.scale
        first = np.empty((N, N), np.uint32)
        other = np.tile(np.arange(N, dtype=np.uint16), (N, 1))
        for k in range(N):
            mass = (self.weights[:, k].astype(np.int64) * N).tolist()
            small = [h for h in range(N) if mass[h] < S]
            large = [h for h in range(N) if mass[h] > S]
            while small:  # what a place lacks comes from a code that has too much: the sum is always N S
                low, high = small.pop(), large[-1]
                other[k, low] = high
                mass[high] -= S - mass[low]
                if mass[high] <= S:
                    large.pop()
                    if mass[high] < S:
                        small.append(high)
            first[k] = np.minimum(mass, S)
        return first, other


class WeightsSpec(Spec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A spec whose matrix is given whole: it takes no gamma, but has one."""

    takes_gamma = False

    @classmethod
    def remarks(cls, channels: Sequence[Channel]) -> list[str]:
        """Report which of the matrices rule an original out."""
        open_ones = [c.name for c in channels if c.matrix.amplification == inf]
        return [
            "No gamma holds for "
            + ", ".join(open_ones)
            + ": some published values rule out some originals, because the matrix has zeros."
        ] * bool(open_ones)


def read_table(value: object) -> Mapping[tuple[str, str], Decimal]:
    """Read a CSV file of probabilities: a header of original labels, and a row for each published label."""
    path = value if isinstance(value, Path) else Path(str(value))
    where, data = f"the matrix {quoted(path)}", content(path, "the matrix ", LARGEST_FILE)
    try:
        rows = [r for r in csv.reader(data.decode("utf-8-sig").splitlines(True), strict=True) if r]
    except (UnicodeError, csv.Error):
        raise UsageError(
            "matrix-not-csv", f"{where} is not a CSV file in UTF-8", "write one with labelled rows and columns"
        ) from None
    if not rows or any(len(r) != len(rows[0]) for r in rows) or len(rows) != len(rows[0]):
        what = f"{where} has more rows than columns, or fewer"
        step = "write a header of original values, and a row of probabilities for each published value"
        raise UsageError("matrix-file-not-square", what, step)
    found: dict[tuple[str, str], Decimal] = {}
    for row, (published, *entries) in enumerate(rows[1:], 2):
        for original, entry in zip(rows[0][1:], entries, strict=True):
            try:
                chance = Decimal(entry.strip())
            except InvalidOperation:
                chance = Decimal("NaN")
            if not (chance.is_finite() and 0 <= chance <= 1):
                what = f"{where} has an entry in line {row} that is not a probability"
                raise UsageError("matrix-entry", what, "give 0 to 1")
            if (published, original) in found:
                raise UsageError(
                    "matrix-label-twice", f"{where} names a value twice (line {row})", "name each once"
                )
            found[published, original] = chance
    return found


def scaled_columns(chances: Sequence[Sequence[Decimal]]) -> tuple[list[list[int]], int]:
    """Return columns of whole numbers over the least exact power of 10, or rounded, but not to 0."""
    most = len(str(LARGEST_RANGE // len(chances))) - 1
    digits = max(-int(c.normalize().as_tuple().exponent) for column in chances for c in column)
    scale = 10 ** min(max(digits, 0), most)
    return [_rounded(np.array(column, np.float64), scale) for column in chances], scale


def _rounded(column: Floats, scale: int) -> list[int]:
    wanted = column / column.sum() * scale
    found = np.floor(wanted + 1e-6).astype(np.int64)  # what is whole may be a digit below it
    found[(column > 0) & (found == 0)] = 1
    while short := scale - int(found.sum()):
        step = 1 if short > 0 else -1
        order = np.argsort(step * (found - wanted), kind="stable")
        found[order[found[order] > (0 if step > 0 else 1)][: abs(short)]] += step
    whole: list[int] = found.tolist()
    return whole


@register_kind
class DenseSpec(WeightsSpec, frozen=True, tag="dense", tag_field="kind", kw_only=True):
    """The record of a matrix given whole in a sidecar: its columns, as whole numbers over one scale."""

    about = (
        "Replaces a value by the probabilities of a whole matrix, a CSV file with labelled rows and "
        "columns. An entry of 0 rules a replacement out, and then no gamma holds."
    )
    options: ClassVar[Mapping[str, Callable[[object], object]]] = {"table": read_table}

    scale: Annotated[int, Meta(ge=1, le=LARGEST_RANGE)]
    columns: Annotated[
        list[Annotated[list[Annotated[int, Meta(ge=0, le=LARGEST_RANGE)]], Meta(max_length=MOST_DENSE_CODES)]],
        Meta(min_length=2, max_length=MOST_DENSE_CODES),
    ]

    def matrix(self, domain: Domain) -> Weights:
        if any(len(c) != domain.size for c in self.columns) or len(self.columns) != domain.size:
            raise ValueError("the matrix has not as many rows and columns as the domain has codes")
        return Weights(np.array(self.columns, np.int64).T, self.scale)

    def described(self) -> str:
        return f"a matrix of {len(self.columns)} by {len(self.columns)}"

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        table = request.options.get("table")
        if table is None:
            raise UsageError("missing-matrix", "a dense matrix needs its numbers", "try table=matrix.csv")
        if domain.size > MOST_DENSE_CODES:
            what = f"a dense matrix is for 2 to {MOST_DENSE_CODES} values, this domain has {domain.size}"
            raise RefusedError("dense-domain-size", what, "group the values, or use fewer bins")
        labels = [*domain.labels()[: domain.ordinary], *[""] * domain.nulls]
        if {a for pair in table for a in pair} != codes_of(labels).keys():
            raise UsageError(
                "matrix-labels",
                "the labels of the matrix are not those of the domain",
                "list every value once as a row and once as a column, with bins as `ppdm estimate` shows "
                "them and an empty label for null",
            )
        chances = [[table[h, k] for h in labels] for k in labels]
        for k, column in enumerate(chances):
            if abs(sum(column) - 1) > TOLERANCE:
                raise UsageError(
                    "matrix-column-sum",
                    f"column {k + 1} of the matrix, in the order of the domain, sums to {sum(column):.9g}",
                    "make every column sum to 1: it has the probabilities of what one original value becomes",
                )
        columns, scale = scaled_columns(chances)
        spec = cls(attributes=[name], scale=scale, columns=columns)
        spec.law(domain)
        return spec, UNSET


Chance = Annotated[float, Meta(ge=0, le=1)]


def read_chance(value: object) -> float:
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
            what = f"a binary matrix is for two values, this domain has {domain.size}"
            raise RefusedError("binary-domain-size", what, "use matrix=symmetric or matrix=gamma-diagonal")
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
            what = "a symmetric matrix needs the probability of each other value"
            raise UsageError("missing-symmetric-chance", what, "try each=0.05")
        spec = cls(attributes=[name], each=each)
        spec.law(domain)
        return spec, UNSET

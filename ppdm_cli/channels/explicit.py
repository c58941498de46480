"""A matrix that is held as numbers: all that it answers is computed from its entries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod, sqrt

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels.least_squares import applied, left_inverse
from ppdm_cli.channels.matrix import Law, Matrix
from ppdm_cli.errors import RefusedError, UsageError, quoted

MOST_DECOMPOSED = 1 << 8
"""The most inputs of a matrix whose singular values are taken from itself, not from its square."""
LARGEST_CONDITION = 1e5
"""The largest usable condition number: beyond it the unbiased estimate is noise for any number of records."""

ALIKE = 1e-12
"""By so much may chances differ that are the same but for rounding."""


def codes_of(labels: Sequence[str]) -> dict[str, int]:
    """Return the code that each label names; refuse a label that names two."""
    found = {label: code for code, label in enumerate(labels)}
    if len(found) < len(labels):
        label = next(a for code, a in enumerate(labels) if found[a] != code)
        raise UsageError(
            f"two values of the domain have the label {quoted(label)}, so that it names neither",
            "rename the one that is text, as null keeps its label",
        )
    return found


class Written(Law):
    """Products with `entries`."""

    @property
    @abstractmethod
    def entries(self) -> Floats:
        """Return Pr(output | input), by output and input."""

    @property
    def inputs(self) -> int:
        return self.entries.shape[1]

    @property
    def outputs(self) -> int:
        return self.entries.shape[0]

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        return applied(self.entries, original, axis)

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        return applied(self.entries.T, values, axis)

    def dense(self) -> Floats:
        return self.entries.copy()


class Explicit(Written, Matrix):
    """Products, inverse and figures of `entries`."""

    @property
    def staying(self) -> float:
        """Return the chance to be published as it was, for a code taken at random."""
        return float(self.stays().mean())

    @cached_property
    def condition_number(self) -> float:
        """Return the largest singular value over the least; with many inputs, inf if above a million."""
        if self.inputs > MOST_DECOMPOSED:
            values = np.linalg.eigvalsh(self.entries.T @ self.entries)  # a tenth of the time, half the digits
            return sqrt(values[-1] / values[0]) if values[0] > 1e-12 * values[-1] else inf
        values = np.linalg.svd(self.entries, compute_uv=False)
        return float(values[0] / values[-1]) if values[-1] > 1e-15 * values[0] else inf

    @property
    def invertible(self) -> bool:  # type: ignore[override]
        return self.condition_number <= LARGEST_CONDITION

    @property
    def candidates(self) -> int:
        return int((self.entries > 0).sum(axis=1).min())

    def entropy(self, prior: Floats | None = None) -> float:
        M = self.entries
        bits = -(M * np.log2(np.where(M > 0, M, 1))).sum(axis=0)
        return float(bits.mean() if prior is None else bits @ prior)

    def stays(self) -> Floats:
        stays: Floats = self.entries[self.unchanged, np.arange(self.inputs)]
        return stays

    def marginal(self, places: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> Matrix | None:
        if tuple(inputs) != tuple(outputs):
            return None
        many, N = len(inputs), prod(inputs[p] for p in places)
        table = self.entries.reshape(*outputs, *inputs)
        table = np.moveaxis(table, [*places, *(many + p for p in places)], range(2 * len(places)))
        by_rest = table.reshape(N, N, self.inputs // N, -1).sum(
            axis=2
        )  # published, original, the others' codes
        alike = np.ptp(by_rest, axis=2).max() < ALIKE
        return Given(by_rest[:, :, 0]) if alike else None

    @cached_property
    def inverse(self) -> Floats:
        if not self.invertible:
            raise RefusedError(
                "the matrix blurs so much that the unbiased estimate says nothing: its condition number is "
                f"{self.condition_number:.2g}",
                "use --estimator ml",
            )
        return left_inverse(self.entries)


@dataclass(frozen=True, eq=False)
class Given(Explicit):
    """A square matrix of these entries, which is not drawn from."""

    chances: Floats

    @property
    def entries(self) -> Floats:
        return self.chances

    @cached_property
    def unchanged(self) -> np.ndarray:
        return np.arange(self.inputs)

    @cached_property
    def amplification(self) -> float:
        least, largest = self.chances.min(axis=1), self.chances.max(axis=1)
        shown = largest > 0
        return inf if (least[shown] == 0).any() else float((largest[shown] / least[shown]).max())

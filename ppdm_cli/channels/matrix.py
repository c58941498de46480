"""Matrices for every kind of channel, and for miners: a channel as numbers.

M[h, k] = Pr(code k is replaced by code h). A matrix maps the input codes 0..inputs-1 to the output codes
0..outputs-1; its columns sum to 1. Nothing assumes that both are equal, or that the matrix is symmetric. A kind
whose matrix has no closed forms gives its entries (`Explicit`), and all else is computed from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log2, prod, sqrt
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.errors import RefusedError, UsageError, argument, quoted

if TYPE_CHECKING:
    from ppdm_cli.channels.exact_draw import ExactDraw
    from ppdm_cli.channels.mixture import Blur

MOST_DECOMPOSED = 1 << 8
"""The most inputs of a matrix whose singular values are taken from itself, not from its square."""
LARGEST_CONDITION = 1e5
"""The largest usable condition number: beyond it the unbiased estimate is noise for any number of records."""

SAME_CHANCE = 1e-12
"""The largest difference of probabilities that are equal except for rounding."""
FIT_STEPS = 100
"""The steps of EM: published counts are smooth, and soon fitted."""


class Blocks(Protocol):
    """Random bits for cells, four 32-bit words a row; those in `rows` ask again, for the `retry`-th time."""

    def __call__(self, retry: int, rows: np.ndarray | None = None) -> np.ndarray: ...


class Law(ABC):
    """The protocol of laws between codes, for miners, whether anything was published by them or not."""

    @property
    def invertible(self) -> bool:
        """Return whether the unbiased estimate is usable."""
        return True

    @property
    def stop_gain(self) -> float:
        """Return the log-likelihood that a step of EM must add to a slice, or it ends; 0 to go to the end.

        A matrix that publishes a value as one near it blurs: from equal shares EM finds the shape first and the
        noise last, and the most likely counts of all are jagged (docs/technical/method.md).
        """
        return 0.0

    @property
    @abstractmethod
    def inputs(self) -> int: ...
    @property
    @abstractmethod
    def outputs(self) -> int: ...
    @abstractmethod
    def forward(self, original: Floats, axis: int = 0) -> Floats:
        """Return M X along one axis of a table: the counts to expect."""

    @abstractmethod
    def backward(self, values: Floats, axis: int = 0) -> Floats:
        """Return M^T v along one axis."""

    @cached_property
    def unchanged(self) -> np.ndarray:
        """Return the output code that shows the same value for each input code: itself, unless a law blurs."""
        return np.arange(self.inputs)

    @cached_property
    def inverse(self) -> Floats:
        """Return A with A M = I, by least squares; for small ones."""
        return left_inverse(self.dense())

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        """Return the unbiased estimate A y along one axis."""
        return applied(self.inverse, observed, axis)

    def solve_power(self, observed: Floats, power: int, axis: int = 0) -> Floats:
        """Return A y along one axis, with the entries of A to a power, for moments."""
        return applied(self.inverse**power, observed, axis)

    def scores(self, values: Floats, axis: int = 0) -> Floats:
        """Return w with M^T w = values along one axis, with the least variance of all such for equal shares."""
        return applied(self.inverse.T, values, axis)

    def own_variance(self) -> Floats:
        """Return the diagonal of (A o A) M: the amount that a record of each code i adds to E(A y)_i^2."""
        own: Floats = np.einsum("ih,hi->i", self.inverse**2, self.dense())
        return own

    def dense(self) -> Floats:
        """Return the matrix itself; for small ones."""
        return self.forward(np.eye(self.inputs))

    @property
    def closed_form(self) -> Callable[[Floats, float], Floats] | None:
        """Return a closed form of the most likely counts of so many records; None if EM must find them."""
        return None


class Matrix(Law):
    """The protocol of matrices that values are published by, with general answers where there are some."""

    diagonal: ClassVar[bool] = False
    """True if a value stays with gamma/D and becomes any other with 1/D: then much has a closed form."""

    @property
    @abstractmethod
    def amplification(self) -> float:
        """Return the gamma that it promises: the max over rows h of max_k M[h,k] / min_k M[h,k]."""

    @property
    @abstractmethod
    def staying(self) -> float:
        """Return the probability that a value is published unchanged."""

    @property
    @abstractmethod
    def condition_number(self) -> float: ...

    @property
    def plain(self) -> bool:
        """Return whether it is lam I + (1-lam)/N J: then much has a closed form, by lam alone."""
        return False

    @property
    def coin(self) -> tuple[float, tuple[Blur, ...]] | None:
        """Return lam and each attribute's blur, if one random choice decides for all what is revealed."""
        return None

    @abstractmethod
    def entropy(self, prior: Floats | None = None) -> float:
        """Return H(M) = sum_k prior_k H(column k), in bits; with a uniform prior unless one is given."""

    def stays(self) -> Floats:
        """Return each code's probability to be published unchanged."""
        return np.full(self.inputs, self.staying)

    def information(self, prior: Floats | None = None) -> float:
        """Return the bits that an answer gives about a value, under a prior or equal shares: H(y) - H(M)."""
        y = self.forward(np.full(self.inputs, 1 / self.inputs) if prior is None else prior)
        return max(0.0, float(-(y * np.log2(np.where(y > 0, y, 1.0))).sum()) - self.entropy(prior))

    def expected_error(self, records: float, prior: Floats | None = None) -> float:
        """Return sqrt(E||Xhat - X||^2) of the unbiased estimate of so many records; inf with none."""
        if not self.invertible:
            return inf
        shares = np.full(self.inputs, 1 / self.inputs) if prior is None else prior
        return float(np.sqrt(records * (self.solve_power(self.forward(shares), 2).sum() - shares.sum())))

    def kang_bound(self, records: float) -> float | None:
        """Return Kang's bound on sigma/||X||, or None where it does not apply."""
        return None

    def repeated(self, times: int) -> list[dict[str, float]]:
        """Return the figures of M^t for t = 1..times, for a matrix that publishes what it takes."""
        matrix = power = self.dense()
        found = []
        for t in range(1, times + 1):
            bits = -(power * np.log2(np.where(power > 0, power, 1.0))).sum(axis=0)
            least = power.min(axis=1)
            ratio = np.divide(power.max(axis=1), least, out=np.full(len(power), np.inf), where=least > 0)
            found.append(repeated_row(t, ratio.max(), np.trace(power) / len(power), bits.mean(), len(power)))
            power = matrix @ power
        return found

    def entropy_of(self, staying: float) -> float | None:
        """Return the entropy of a matrix of this kind and size, if its share of staying determines it."""
        return None

    def around(self, original: np.ndarray, published: np.ndarray) -> np.ndarray:
        """Return a mask of the outputs with gamma times the probability of the rest: the value, or its band."""
        reached: np.ndarray = published.astype(np.int64) == self.unchanged[original]
        return reached

    def marginal(self, places: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> Matrix | None:
        """Return the law of some attributes, by the numbers of all one's codes, or None if they have none."""
        return None

    def seen(self, observed: Floats, axis: int = 0) -> Floats:
        """Return the number of records published as each input code, along an axis."""
        return observed.take(self.unchanged, axis)

    @property
    def candidates(self) -> int:
        """Return K(M): the least number of codes that a published one may stand for."""
        return self.inputs

    @property
    def parts(self) -> list[tuple[Sequence[int], ExactDraw | None]]:
        """Return sets of codes that are replaced within themselves, each with its draw, if there are some."""
        return []

    @property
    def own_outputs(self) -> tuple[float, float] | None:
        """Return the number of outputs with probability gamma/D for a value, and with 1/D, if all have one."""
        return None


class Substitution(Matrix):
    """A matrix that publishes codes for codes, and nothing finer."""

    @abstractmethod
    def sample(self, codes: Codes, blocks: Blocks, out: Codes) -> None:
        """Perturb codes: draw once for each code, exactly from its column.

        The sampler gets random bits as a function of the codes, because those of a cell depend on its true code
        (see `ppdm_cli.coins`), and because a sampler that rejects words asks for more.
        """

    @property
    @abstractmethod
    def parts(self) -> list[tuple[Sequence[int], ExactDraw | None]]: ...


class Noisy(Matrix):
    """A matrix that publishes numbers: the original ones with noise, which the domain's bins only count."""

    @property
    @abstractmethod
    def noise_variance(self) -> float: ...

    @property
    @abstractmethod
    def reach(self) -> float:
        """Return the largest possible noise."""

    @abstractmethod
    def share_below(self, noise: Floats) -> Floats:
        """Return the probability of a smaller noise, without cutting it to [0, 1] if none is so large."""


def repeated_row(t: int, gamma: float, staying: float, entropy: float, N: int) -> dict[str, float]:
    return {
        "t": t,
        "gamma": float(gamma),
        "staying": float(staying),
        "entropy": float(entropy),
        "entropy_max": log2(N),
    }


class WrittenLaw(Law):
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


class Explicit(WrittenLaw, Matrix):
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
    def invertible(self) -> bool:
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
        # published, original, the others' codes
        by_rest = table.reshape(N, N, self.inputs // N, -1).sum(axis=2)
        alike = np.ptp(by_rest, axis=2).max() < SAME_CHANCE
        return Given(by_rest[:, :, 0]) if alike else None

    @cached_property
    def inverse(self) -> Floats:
        if not self.invertible:
            raise RefusedError(
                "blurring-matrix",
                "the matrix blurs so much that the unbiased estimate is useless (condition number "
                f"{self.condition_number:.2g})",
                f"use {argument('estimator', 'ml')}",
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
    def amplification(self) -> float:
        least, largest = self.chances.min(axis=1), self.chances.max(axis=1)
        reached = largest > 0
        return inf if (least[reached] == 0).any() else float((largest[reached] / least[reached]).max())


def codes_of(labels: Sequence[str]) -> dict[str, int]:
    """Return the code that each label names; refuse a label that names two."""
    found = {label: code for code, label in enumerate(labels)}
    if len(found) < len(labels):
        label = next(a for code, a in enumerate(labels) if found[a] != code)
        what = f"two values of the domain have the label {quoted(label)}, so that it names neither"
        raise UsageError("label-of-two-values", what, "rename the one that is text, as null keeps its label")
    return found


def applied(matrix: Floats, table: Floats, axis: int) -> Floats:
    return np.moveaxis(np.tensordot(matrix, table, (1, axis)), 0, axis)


def left_inverse(matrix: Floats, published: Floats | None = None) -> Floats:
    """Return A with A M = I: least squares, weighted by the variances that equal counts would give.

    With V = diag(M X) for equal X, A = (M^T V^-1 M)^-1 M^T V^-1. Its columns sum to 1, so that the
    estimates sum to n: M^T V^-1 M X = M^T 1 = 1, hence 1^T A = X^T M^T V^-1 = 1^T. `published` is M X of
    another X.
    """
    sums = matrix.sum(axis=1) if published is None else published
    weights = np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)
    weighted = matrix.T * weights
    inverse: Floats = np.linalg.solve(weighted @ matrix, weighted)
    return inverse


def likeliest(matrix: Floats, observed: Floats) -> Floats:
    """Return shares X with M X near the observed counts, by a few steps of EM; equal ones without counts."""
    found = np.full(matrix.shape[1], 1 / matrix.shape[1])
    for _ in range(FIT_STEPS if observed.any() else 0):
        fitted = matrix @ found
        found *= matrix.T @ np.divide(observed, fitted, out=np.zeros_like(fitted), where=fitted > 0)
        found /= found.sum()
    return found

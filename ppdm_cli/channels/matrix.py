"""A channel as numbers: what an owner and a miner need of M[h, k] = Pr(code k is replaced by code h).

A matrix maps the input codes 0..inputs-1 to the output codes 0..outputs-1; its columns sum to 1. Nothing
supposes that both are equal, or that the matrix is symmetric. `outputs x inputs` numbers are only built
by `dense`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from math import inf, log2
from typing import ClassVar, Protocol

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels.blur import Blur
from ppdm_cli.channels.least_squares import applied, left_inverse


class Blocks(Protocol):
    """Coins for a run of cells: 128 bits each, as four 32-bit words a row.

    `rows` picks the cells that ask again; `retry` counts their askings.
    """

    def __call__(self, retry: int, rows: np.ndarray | None = None) -> np.ndarray: ...


class Law(ABC):
    """What a miner needs of a law between codes, whether anything was published by it or not."""

    invertible: bool = True
    """Whether the unbiased estimate says anything."""
    stop_gain: ClassVar[float] = 0.0
    """EM ends when a step adds less log-likelihood than this to a slice; 0 where it goes to the end.

    A matrix that publishes a value as one near it blurs: from equal shares EM finds the shape first and the
    noise last, and the most likely counts of all are jagged (docs/method.md has figures).
    """

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
    def inverse(self) -> Floats:
        """Return A with A M = I, by least squares; for small ones."""
        return left_inverse(self.dense())

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        """Return the unbiased estimate A y along one axis."""
        return applied(self.inverse, observed, axis)

    def solve_power(self, observed: Floats, power: int, axis: int = 0) -> Floats:
        """Return A y along one axis, with the entries of A to a power: what moments are made of."""
        return applied(self.inverse**power, observed, axis)

    def scores(self, values: Floats, axis: int = 0) -> Floats:
        """Return w with M^T w = values along one axis; of all such that of least variance for equal shares."""
        return applied(self.inverse.T, values, axis)

    def own_variance(self) -> Floats:
        """Return for each code i the diagonal of (A o A) M: what a record of code i adds to E(A y)_i^2."""
        own: Floats = np.einsum("ih,hi->i", self.inverse**2, self.dense())
        return own

    def dense(self) -> Floats:
        """Return the matrix itself; for small ones."""
        return self.forward(np.eye(self.inputs))

    @property
    def closed_form(self) -> Callable[[Floats, float], Floats] | None:
        """Return what gives the most likely counts of so many records at once; None where EM must find them."""
        return None


class Matrix(Law):
    """A law that something is published by: what every kind answers, with what has a general answer."""

    diagonal: ClassVar[bool] = False
    """Whether a value stays with gamma/D and becomes any other with 1/D: then much has a closed form."""

    @property
    @abstractmethod
    def unchanged(self) -> np.ndarray:
        """Return for each input code the output code that shows the same value."""

    @property
    @abstractmethod
    def amplification(self) -> float:
        """Return the gamma that it promises: the max over rows h of max_k M[h,k] / min_k M[h,k] (maths 2)."""

    @property
    @abstractmethod
    def staying(self) -> float:
        """Return the chance that a value is published as it was."""

    @property
    @abstractmethod
    def condition_number(self) -> float: ...

    @property
    def coin(self) -> tuple[float, tuple[Blur, ...]] | None:
        """Return lam and each attribute's blur, where one coin decides for all whether anything is revealed."""
        return None

    @abstractmethod
    def entropy(self, prior: Floats | None = None) -> float:
        """Return H(M) = sum_k prior_k H(column k), in bits; with a uniform prior unless one is given."""

    def stays(self) -> Floats:
        """Return for each code its chance to be published as it was."""
        return np.full(self.inputs, self.staying)

    def information(self, prior: Floats | None = None) -> float:
        """Return the bits that an answer tells of a value under a prior, or equal shares: H(y) - H(M)."""
        y = self.forward(np.full(self.inputs, 1 / self.inputs) if prior is None else prior)
        return max(0.0, float(-(y * np.log2(np.where(y > 0, y, 1.0))).sum()) - self.entropy(prior))

    def expected_error(self, records: float, prior: Floats | None = None) -> float:
        """Return sqrt(E||Xhat - X||^2) of the unbiased estimate of so many records (maths 2); inf with none."""
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
        """Return the entropy of a matrix of this kind and size with a share of staying, where that decides."""
        return None

    def around(self, original: np.ndarray, published: np.ndarray) -> np.ndarray:
        """Return where a published code is one of those that gamma is for: the value itself, or its band."""
        shown: np.ndarray = published.astype(np.int64) == self.unchanged[original]
        return shown

    def marginal(self, places: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> Matrix | None:
        """Return the law of some of several attributes whose codes these are, None where they have none.

        `inputs` and `outputs` are the numbers of the attributes' codes, original and published.
        """
        return None

    def seen(self, observed: Floats, axis: int = 0) -> Floats:
        """Return along an axis how many records were published as each input code."""
        return observed.take(self.unchanged, axis)

    @property
    def candidates(self) -> int:
        """Return K(M): the least number of codes that a published one may stand for."""
        return self.inputs

    @property
    def own_outputs(self) -> tuple[float, float] | None:
        """Return how many outputs have probability gamma/D for a value, and how many 1/D, if all have one."""
        return None


class Substitution(Matrix):
    """A matrix that publishes codes for codes, and nothing finer."""

    @abstractmethod
    def sample(self, codes: Codes, blocks: Blocks, out: Codes) -> None:
        """Perturb codes: draw once for each code, exactly from its column.

        The sampler is handed coins as a function of the codes, because a cell's coins depend on its true
        code (see `ppdm_cli.coins`), and because a sampler that rejects words asks for more.
        """


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
        """Return the chance of a smaller noise, without cutting it to [0, 1] where none is so large."""


def repeated_row(t: int, gamma: float, staying: float, entropy: float, N: int) -> dict[str, float]:
    return {
        "t": t,
        "gamma": float(gamma),
        "staying": float(staying),
        "entropy": float(entropy),
        "entropy_max": log2(N),
    }

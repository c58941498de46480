"""What every kind of matrix must offer: the numbers an owner and a miner need, and most kinds a sampler.

The sampler is handed coins as a function of the codes, `coins(retry) -> 128 bits a cell`, because
a cell's coins depend on its true code (see `ppdm_cli.coins`), and because a sampler that rejects
words asks for more.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ppdm_cli.arrays import Codes, Floats


class Blocks(Protocol):
    """Coins for a run of cells: 128 bits each, as four 32-bit words a row.

    `rows` picks the cells that ask again; `retry` counts their askings.
    """

    def __call__(self, retry: int, rows: np.ndarray | None = None) -> np.ndarray: ...


class Matrix(Protocol):
    """M[h, k] = Pr(code k is replaced by code h); columns sum to 1."""

    @property
    def inputs(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def unchanged(self) -> np.ndarray:
        """For each input code the output code that shows the same value."""

    @property
    def amplification(self) -> float:
        """max over rows h of max_k M[h,k] / min_k M[h,k] (maths 2): the gamma it promises."""

    @property
    def staying(self) -> float:
        """The chance that a value is published as it was."""

    @property
    def condition_number(self) -> float: ...

    def entropy(self, prior: Floats | None = None) -> float:
        """H(M) = sum_k prior_k H(column k), in bits; uniform prior without one."""

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        """M X along one axis of a table: the counts to expect."""

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        """M^T v along one axis."""

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        """The unbiased estimate A y along one axis, with A M = I."""

    def solve_squared(self, observed: Floats, axis: int = 0) -> Floats:
        """(A o A) y along one axis, with the entries of A squared: what variances are made of."""

    def own_variance(self) -> Floats:
        """For each code i the diagonal of (A o A) M: what a record of code i adds to E(A y)_i^2."""

    def dense(self) -> Floats:
        """The matrix itself; for small ones."""


class Substitution(Matrix, Protocol):
    """A matrix that publishes codes for codes, and nothing finer."""

    def sample(self, codes: Codes, blocks: Blocks, out: Codes) -> None:
        """Perturb: one draw a code, exactly from its column."""

"""What every kind of matrix must offer: a sampler, and the numbers an owner and a miner need.

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
    def amplification(self) -> float:
        """max over rows h of max_k M[h,k] / min_k M[h,k] (maths 2): the gamma it promises."""

    @property
    def staying(self) -> float:
        """The chance that a value is published as it was."""

    @property
    def condition_number(self) -> float: ...
    @property
    def smallest_support(self) -> int:
        """K(M) of Ma & Sivakumar: the fewest non-zero entries in a row."""

    def sample(self, codes: Codes, blocks: Blocks, out: Codes) -> None:
        """Perturb: one draw a code, exactly from its column."""

    def entropy(self, prior: Floats | None = None) -> float:
        """H(M) = sum_k prior_k H(column k), in bits; uniform prior without one."""

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        """The unbiased estimate: M X = y solved along one axis of a table of counts."""

    def dense(self) -> Floats:
        """The matrix itself; for small ones."""

"""A kind of channel in one file, which no other file knows: what adding one takes.

`python -m tests.channels.dummy_kind ARGS` is the command line with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
from msgspec import UNSET, UnsetType

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import (
    Beyond,
    ExactDraw,
    GammaSpec,
    Request,
    Spec,
    applied,
    json_gamma,
    register_kind,
    rounded_down,
)
from ppdm_cli.domain import Domain
from ppdm_cli.errors import RefusedError

LEAN = 2
"""The next code is so many times as likely as the others."""


@dataclass(frozen=True)
class Leaning(ExactDraw):
    """A value stays with gamma/D, becomes the next code with 2/D and any other with 1/D."""

    gamma: int
    N: int

    def __post_init__(self) -> None:
        if self.N < 3 or self.gamma < LEAN + 1:
            raise RefusedError("leaning-domain", "it needs 3 values, and a gamma above 2", "try --gamma 9")

    @cached_property
    def _matrix(self) -> Floats:
        weights = np.ones((self.N, self.N))
        weights[np.arange(self.N), np.arange(self.N)] = self.gamma
        weights[(np.arange(self.N) + 1) % self.N, np.arange(self.N)] = LEAN
        return weights / weights.sum(axis=0)

    @property
    def inputs(self) -> int:
        return self.N

    @property
    def outputs(self) -> int:
        return self.N

    @cached_property
    def unchanged(self) -> np.ndarray:
        return np.arange(self.N)

    @property
    def amplification(self) -> float:
        return float(self.gamma)

    @property
    def staying(self) -> float:
        return self.gamma / (self.gamma + LEAN + self.N - 2)

    @property
    def own_outputs(self) -> tuple[float, float]:
        return 1.0, float(LEAN + self.N - 2)

    @property
    def condition_number(self) -> float:
        return float(np.linalg.cond(self._matrix))

    def entropy(self, prior: Floats | None = None) -> float:
        return float(-(self._matrix[:, 0] * np.log2(self._matrix[:, 0])).sum())

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        return applied(self._matrix, original, axis)

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        return applied(self._matrix.T, values, axis)

    @property
    def range(self) -> int:
        return self.gamma + LEAN + self.N - 2

    def starts(self, code: int) -> np.ndarray:
        return np.arange(self.range)

    def replace(self, codes: Codes, numbers: np.ndarray, out: Codes) -> None:
        """Draw exactly: of R = gamma + 2 + N - 2 numbers gamma keep the code, 2 are the next, 1 each other."""
        u = numbers.astype(np.int64)
        step = np.where(u < self.gamma, 0, np.where(u < self.gamma + LEAN, 1, u - self.gamma - LEAN + 2))
        out[:] = (codes + step) % self.N


class LeaningSpec(GammaSpec, frozen=True, tag="leaning", tag_field="kind", kw_only=True):
    """What a sidecar says of it: its gamma."""

    about = "A value stays, leans to the next code, or becomes any other."

    def matrix(self, domain: Domain) -> Leaning:
        return Leaning(int(self.gamma), domain.size)

    def described(self) -> str:
        return f"gamma {self.gamma} (leaning)"

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        gamma = request.gamma
        assert gamma is not None
        exact = Decimal(int(gamma if isinstance(gamma, Decimal) else rounded_down(gamma, domain.size)))
        spec = cls(attributes=[name], gamma=json_gamma(exact))
        spec.matrix(domain)
        return spec, UNSET


if __name__ == "__main__":
    from ppdm_cli.commands import run_command_line

    register_kind(LeaningSpec)
    run_command_line()

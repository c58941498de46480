"""One attribute of a box: the outputs that each of its values is blurred to, all alike.

Of N ordered codes, value k is blurred to the outputs k..k+2b of N + 2b; without an order b is 0. Null is one
more input with 2b+1 outputs of its own, which are shown as one (maths 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.errors import RefusedError, UsageError


@dataclass(frozen=True)
class Blur:
    """The law U: each of the 2b+1 outputs of a value has the same probability."""

    ordered: int
    half_width: int = 0
    nulls: bool = False

    def __post_init__(self) -> None:
        if self.inputs < 2:
            raise RefusedError(
                "a domain of one value has nothing to perturb", "drop the column, or keep it if it is public"
            )
        if not 0 <= self.half_width <= self.ordered // 2:
            raise UsageError(
                f"the half-width must be from 0 to half the values, here {self.ordered // 2}",
                "leave it out, to get the one that tells the miner most",
            )

    @property
    def plain(self) -> bool:
        """Return whether each value is published as itself."""
        return not self.half_width

    @property
    def width(self) -> int:
        """Return w = 2b+1, the number of a value's outputs."""
        return 2 * self.half_width + 1

    @property
    def place_of_null(self) -> int:
        """Return the output that shows null; the ordered ones come before it."""
        return self.ordered + self.width - 1

    @property
    def all_outputs(self) -> int:
        """Return T, with the outputs of null counted singly."""
        return self.place_of_null + self.nulls * self.width

    @property
    def inputs(self) -> int:
        return self.ordered + self.nulls

    @property
    def outputs(self) -> int:
        """Return how many outputs are shown."""
        return self.place_of_null + self.nulls

    @cached_property
    def unchanged(self) -> np.ndarray:
        """Return for each input the output that shows the same value."""
        places = np.arange(self.inputs) + self.half_width
        places[self.ordered :] = self.place_of_null
        return places

    @cached_property
    def noise(self) -> Floats:
        """Return the law of an output that is drawn from all T alike."""
        found = np.full(self.outputs, 1 / self.all_outputs)
        found[self.place_of_null :] = self.width / self.all_outputs
        return found

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        """Return U X along one axis."""
        moved = np.moveaxis(original, axis, 0)
        sums = np.zeros((self.outputs, *moved.shape[1:]))
        running = np.cumsum(moved[: self.ordered], axis=0)
        sums[: self.ordered] = running
        sums[self.ordered : self.place_of_null] = running[-1]
        sums[self.width : self.place_of_null] -= running[: self.ordered - 1]
        sums /= self.width
        if self.nulls:
            sums[-1] = moved[-1]
        return np.moveaxis(sums, 0, axis)

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        """Return U^T v along one axis."""
        moved = np.moveaxis(values, axis, 0)
        running = np.zeros((self.place_of_null + 1, *moved.shape[1:]))
        np.cumsum(moved[: self.place_of_null], axis=0, out=running[1:])
        sums = np.empty((self.inputs, *moved.shape[1:]))
        sums[: self.ordered] = (running[self.width :] - running[: self.ordered]) / self.width
        if self.nulls:
            sums[-1] = moved[-1]
        return np.moveaxis(sums, 0, axis)

    def dense(self) -> Floats:
        """Return U itself, outputs by inputs."""
        return self.forward(np.eye(self.inputs))

    def near(self, codes: Codes, offsets: np.ndarray) -> np.ndarray:
        """Return the offset-th output of each code; whatever is null's is shown as one."""
        places = codes.astype(np.int64) + offsets.astype(np.int64)
        if self.nulls:
            places[codes == self.ordered] = self.place_of_null
        return places

    def shown(self, numbers: np.ndarray) -> np.ndarray:
        """Return outputs numbered from 0 to T-1, those of null as one."""
        found: np.ndarray = np.minimum(numbers, self.outputs - 1).astype(np.int64)
        return found

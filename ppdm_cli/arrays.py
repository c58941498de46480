"""The array types that all rooms speak of, and the smallest integer type for codes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]
Addresses = npt.NDArray[np.uint64]


def code_type(size: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type that holds the codes 0..size-1."""
    return np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32


def joined(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> Codes:
    """Return the code of each combination of codes, the last one fastest."""
    kind = code_type(prod(sizes))
    found = codes[0].astype(kind)
    for more, size in zip(codes[1:], sizes[1:], strict=True):
        found *= kind(size)
        found += more.astype(kind, copy=False)
    return found


def split(codes: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the codes of each combination; by quotients, as numpy's remainders are several times slower."""
    rest, found = codes, list[np.ndarray]()
    for size in reversed(sizes[1:]):
        rest, above = rest // rest.dtype.type(size), rest
        found.append(above - rest * rest.dtype.type(size))
    return [rest, *reversed(found)]

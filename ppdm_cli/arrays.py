"""The array types that all rooms speak of, and the smallest integer type for codes."""

from __future__ import annotations

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

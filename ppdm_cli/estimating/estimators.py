"""Estimators of the original counts from the observed ones."""

from __future__ import annotations

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.matrices import GammaDiagonal


def maximum_likelihood(matrix: GammaDiagonal, observed: Floats) -> Floats:
    """The most likely original counts, in closed form (maths 1).

    X_i = max(0, s y_i - n/(gamma-1)) with s such that they sum to n, over the set A of the largest
    y for which all stay positive.
    """
    n, g = observed.sum(), float(matrix.gamma)
    if n == 0:
        return np.zeros(len(observed))
    falling = np.sort(observed)[::-1]
    sizes = np.arange(1, len(observed) + 1)
    scales = n * (1 + sizes / (g - 1)) / np.cumsum(falling)
    positive = scales * falling - n / (g - 1) > 0
    scale = scales[np.flatnonzero(positive)[-1]]
    return np.maximum(scale * observed - n / (g - 1), 0.0)

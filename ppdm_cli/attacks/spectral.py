"""Spectral filtering (Kargupta et al. 2003): directions whose variance is above what noise alone can have.

The bound is Marchenko and Pastur's, (1 + sqrt(m/n))^2 in units of the noise; it is asymptotic, and pure
noise passes it in about one run in eight (maths 5).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.linear import Scored


def estimator(scored: Scored) -> Floats:
    bound = (1 + sqrt(len(scored.noise) / scored.moments.records)) ** 2
    return scored.projection(int((np.linalg.eigvalsh(scored.scaled) > bound).sum()))

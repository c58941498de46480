"""PCA-DR (Huang et al. 2005): the leading directions of the covariance, up to where it falls most steeply.

Steeply by ratio: of a few components one is often far above the others, which count all the same.
"""

from __future__ import annotations

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.linear import Scored


def estimator(scored: Scored) -> Floats:
    falling = np.maximum(np.linalg.eigvalsh(scored.scaled)[::-1], 1e-12)
    return scored.projection(int(np.argmax(falling[:-1] / falling[1:])) + 1)

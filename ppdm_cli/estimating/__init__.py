"""The miner's first step: original distributions from the counts of a release (Dowd 3.2, maths 3)."""

from __future__ import annotations

from ppdm_cli.estimating.counts import observed_counts
from ppdm_cli.estimating.estimators import maximum_likelihood

__all__ = ["maximum_likelihood", "observed_counts"]

"""Attacked attributes and records without a release, for tests of what attacks make of them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from ppdm_cli.attacks.adversary import AttackedAttribute, Records, Truth
from ppdm_cli.attacks.positions import Positions
from ppdm_cli.channels import Channel
from ppdm_cli.releases import Exposure, Exposures, Strata


def attacked(channel: Channel, prior: np.ndarray) -> AttackedAttribute:
    """Return an attribute that every record publishes separately, with its prior."""
    exposures = Exposures((Exposure.of(channel),), False)
    return AttackedAttribute(channel, prior, exposures, channel.matrix.amplification)


def records(codes: dict[str, np.ndarray], truths: dict[str, np.ndarray] | None = None) -> Records:
    """Return records of one recipe, with their original codes, which are numbers."""
    n = len(next(iter(codes.values())))
    known = None if truths is None else {a: Truth(k, k.astype(np.float64)) for a, k in truths.items()}
    return Records(np.zeros(n, np.uint16), np.ones(n), codes, {}, known, 0)


def positions(targets: Sequence[AttackedAttribute], release: int = 1) -> Positions:
    """Return how the audit places records that publish all of these attributes separately."""
    one, exposures = np.ones(1), tuple(t.exposures for t in targets)
    numbers, cells = np.ones((1, len(targets)), np.uint16), (None,) * len(targets)
    strata = Strata(tuple(t.channel for t in targets), exposures, numbers, one, one.astype(int), one, cells)
    return Positions(targets, strata, [], str(UUID(int=release)))

"""A miner in one file, which no other file knows: the commonest value of an attribute, whatever the recipes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ppdm_cli.engine import Batch, fold
from ppdm_cli.releases import Strata, open_release
from ppdm_cli.sidecar import Sidecar


def commonest(release: Any, attribute: str, sidecar: Sidecar | None = None) -> str:
    """Return the label of the value that most records had, whatever recipes a release has.

    Parameters
    ----------
    release : path or table
        The release; one in memory goes with its `sidecar`.
    attribute : str
        The attribute.
    sidecar : Sidecar, optional
        The sidecar of a release in memory.
    """
    table, sidecar = open_release(release, sidecar)
    strata = Strata.of(sidecar, [attribute])
    counts = fold(table, partial(_published, strata), np.add, columns=strata.columns)
    assert counts is not None, "a release has records"
    recipes, codes = np.nonzero(counts)
    law = strata.exposures[0].mixed(codes, strata.lam[recipes])
    shares = np.full(law.shape[1], 1 / law.shape[1])
    for _ in range(200):  # expectation maximisation
        shares = counts[recipes, codes] @ (law * shares / (law @ shares)[:, None]) / counts.sum()
    return strata.axes[0].domain.labels()[int(shares.argmax())]


def _published(strata: Strata, batch: Batch) -> np.ndarray:
    """Count a batch by recipe and published code."""
    recipes, [codes] = strata.read(batch)
    counts = np.zeros((len(strata.lam), strata.exposures[0].codes), np.int64)
    np.add.at(counts, (recipes, codes), 1)
    return counts

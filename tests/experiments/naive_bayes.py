"""Naive Bayes from a release: expectation maximisation over (label, attribute), one attribute at a time.

A peer to measure trees against, in a few lines of its own: it shares no model with the package.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ppdm_cli.channels import Channel
from ppdm_cli.domain import Domain
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar

STEPS, PRIOR_STEPS = 60, 2_000
SMOOTH = 0.5


def _matrix(channel: Channel) -> np.ndarray:
    return np.eye(channel.domain.size) if channel.kept else channel.matrix.dense()


def _estimated(counts: np.ndarray, label: np.ndarray, other: np.ndarray, steps: int) -> np.ndarray:
    """The original table that makes published counts likely, from equal shares."""
    found = np.full((label.shape[1], other.shape[1]), 1 / (label.shape[1] * other.shape[1]))
    observed = counts / counts.sum()
    for _ in range(steps):
        expected = label @ found @ other.T
        found = found * (label.T @ (observed / np.maximum(expected, 1e-300)) @ other)
    return found * counts.sum()


def _codes(frame: pl.DataFrame, name: str, domain: Domain, clip: bool) -> np.ndarray:
    """A column's codes; a test value that the domain lacks is taken for the nearest, or the first word."""
    encoded = domain.encode(frame[name].to_arrow().cast(domain.kind), clip)
    codes = encoded.codes.astype(np.intp)
    codes[encoded.outside] = 0
    return codes


def predicted(release: pl.DataFrame, sidecar: Sidecar, class_: str, test: pl.DataFrame) -> list[object]:
    """The labels of test records."""
    label = opened(sidecar).axis(class_)
    forward = _matrix(label)
    published = _codes(release, class_, label.published, False)
    totals = np.bincount(published, minlength=len(forward)).astype(float)[:, None]
    shares = _estimated(totals, forward, np.ones((1, 1)), PRIOR_STEPS)[:, 0]
    logs = np.tile(np.log(np.maximum(shares, 1e-9)), (test.height, 1))
    for channel in opened(sidecar).channels:
        if channel.name == class_:
            continue
        matrix = channel.matrix.dense()
        cells = published * len(matrix) + _codes(release, channel.name, channel.published, False)
        counts = np.bincount(cells, minlength=len(forward) * len(matrix)).reshape(len(forward), -1)
        table = _estimated(counts.astype(float), forward, matrix, STEPS)
        chances = (table + SMOOTH / table.shape[1]) / (table.sum(axis=1, keepdims=True) + SMOOTH)
        logs += np.log(chances[:, _codes(test, channel.name, channel.domain, True)]).T
    best = logs[:, : label.domain.ordinary].argmax(axis=1)
    return label.domain.decode(best.astype(np.uint16)).to_pylist()

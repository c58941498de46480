"""The published columns that the attack by the whole record learns from, and how it judges opinions of them.

Some records are held back. An opinion of a column's original values is judged by how likely it makes the
answers that those records published.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.estimating import TINY, maximum_likelihood, tabulated
from ppdm_cli.joint import FOLDS, Sample
from ppdm_cli.releases import Exposure

JUDGES = 1 << 14
"""The number of held-out records that judge."""


@dataclass(frozen=True, eq=False)
class SampleColumns:
    """The published columns of a sample, the class among them."""

    channels: list[Channel]
    codes: list[Codes]
    held: np.ndarray
    """The records that were held back."""

    @classmethod
    def of(cls, sample: Sample, without: int = -1) -> SampleColumns:
        """Return the columns of all records, or of those outside one fold."""
        rows = np.flatnonzero(sample.folds != without)
        codes = [c[rows] for c in (*sample.codes, sample.labels)]
        return cls([*sample.channels, sample.label], codes, sample.folds[rows] == (without + 1) % FOLDS)

    def matrix(self, place: int) -> Floats:
        return Exposure.of(self.channels[place]).matrix

    def counts(self, *places: int) -> np.ndarray:
        """Return the counts of each published combination: (learned from or held back, cells ...)."""
        shape = [2, *(self.channels[p].published.size for p in places)]
        return tabulated([self.held.astype(np.uint8), *(self.codes[p] for p in places)], shape)

    def prior(self, place: int) -> Floats:
        """Return the most likely shares of the originals, from the records to learn from."""
        published = self.counts(place)[0].astype(np.float64)
        if not self.channels[place].kept:
            published = maximum_likelihood(published, [self.channels[place].matrix])
        raised = np.maximum(published, 1e-6)
        return np.asarray(raised / raised.sum())


def judged(columns: SampleColumns, place: int, rows: np.ndarray, likely: Floats) -> Floats:
    """Return the log-likelihood of each of a column's answers, given beliefs about the originals."""
    law = columns.matrix(place)[columns.codes[place][rows]]
    return np.asarray(np.log(np.maximum((likely * law).sum(axis=1), TINY)))


def judges(columns: SampleColumns) -> np.ndarray:
    return np.flatnonzero(columns.held)[:JUDGES]

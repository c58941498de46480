"""The records that a model is learnt from: codes of all attributes in memory, in folds.

A release of more records than fit is thinned by a hash of the row's number: who learns from it gets
the same records whatever the number of threads or the size of the partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.estimating import columns_of, encoded, matrices_of, maximum_likelihood, tabulated
from ppdm_cli.joint.kept import kept_channels
from ppdm_cli.repeatable import mixed
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

FOLDS = 4
MOST_RECORDS = 1 << 20
MOST_CODES = 1 << 26
LARGEST_DOMAIN = 1024
"""Attributes of more published values than this are left to the class-wise reconstruction."""


def matrix_of(channel: Channel) -> Floats:
    """Return the matrix of a channel, the identity of one that was kept."""
    return np.eye(channel.domain.size) if channel.kept else channel.matrix.dense()


def published_codes(batch: Batch, channel: Channel) -> Codes:
    """Return the codes of a column; what a kept one has beyond its domain goes to the nearest code."""
    if channel.kept:
        return channel.domain.encode(batch.column(channel.name), clip=True).codes
    return encoded(batch, channel)


@dataclass(frozen=True, eq=False)
class Sample:
    """Published codes, (attributes, records), and published labels."""

    channels: tuple[Channel, ...]
    """Those that a model may use, kept ones last; their matrices are small enough to be written out."""
    label: Channel
    codes: list[Codes]
    labels: Codes
    folds: Codes
    published: np.ndarray
    """How many records of the release have each label; the sample may have fewer."""

    @property
    def total(self) -> int:
        return int(self.published.sum())

    @property
    def records(self) -> int:
        return len(self.labels)

    @cached_property
    def matrices(self) -> list[Floats]:
        return [matrix_of(c) for c in self.channels]

    @cached_property
    def label_matrix(self) -> Floats:
        """Return p(published label | original class)."""
        return matrix_of(self.label)

    @property
    def classes(self) -> int:
        """Return how many labels there are, published or original, whichever are more."""
        return max(self.label_matrix.shape)

    @cached_property
    def label_counts(self) -> Floats:
        """Return the counts by (fold, published label)."""
        return self.counts([]).astype(np.float64)

    def counts(self, places: Sequence[int]) -> np.ndarray:
        """Return how often each combination was published: (folds, labels, cells ...)."""
        shape = [FOLDS, len(self.label_matrix), *(len(self.matrices[p]) for p in places)]
        return tabulated([self.folds, self.labels, *(self.codes[p] for p in places)], shape)

    def shares(self, counts: Floats) -> Floats:
        """Return the original classes' most likely shares, from counts of published labels."""
        if not self.label.kept:
            counts = maximum_likelihood(counts, matrices_of((self.label,)))
        raised = np.maximum(counts, 1e-9)
        return np.asarray(raised / raised.sum())


def usable(sidecar: Sidecar, label: Channel) -> list[Channel]:
    """Return the perturbed channels that a joint model may have; none where the class has too many labels.

    A channel that the label's own attribute goes through is left out: what it says hangs on the label.
    """
    if label.published.size > LARGEST_DOMAIN:
        return []
    return [
        c
        for c in sidecar.channels
        if not set(c.attributes) & set(label.attributes) and c.matrix.outputs <= LARGEST_DOMAIN
    ]


def read(table: Table, sidecar: Sidecar, label: Channel) -> Sample:
    """Read the release as a sample, in one pass."""
    names = [a.name for a in sidecar.kept if a.name not in label.attributes]
    chosen = usable(sidecar, label) + kept_channels(table, names, LARGEST_DOMAIN)
    if not chosen:
        raise UsageError(
            f"there is nothing to learn {quoted(label.name)} from: the class and one other attribute "
            f"must have at most {LARGEST_DOMAIN} values",
            "ask the owner for fewer bins, or reconstruct with --method by-class",
        )
    channels = [*chosen, label]
    most = min(MOST_RECORDS, max(MOST_CODES // len(channels), 1))
    columns = columns_of(channels)
    task = partial(_Thinned.of, channels, most, label.published.size)
    found = fold(table, task, _Thinned.__add__, columns=columns)
    if found is None:
        empty = [np.empty(0, code_type(c.published.size)) for c in channels]
        nobody = np.zeros(label.published.size, np.int64)
        found = _Thinned(most, nobody, 0, np.empty(0, np.uint64), empty)
    # the low bits choose the fold, the high ones who stays
    folds = (found.hashes & np.uint64(FOLDS - 1)).astype(np.uint8)
    return Sample(tuple(chosen), label, found.columns[:-1], found.columns[-1], folds, found.published)


@dataclass(frozen=True, eq=False)
class _Thinned:
    """The codes of at most so many records: of those whose hash begins with `shift` zeros."""

    most: int
    published: np.ndarray
    """How many records have each published label, all records counted."""
    shift: int
    hashes: np.ndarray
    columns: list[np.ndarray]

    @classmethod
    def of(cls, channels: Sequence[Channel], most: int, labels: int, batch: Batch) -> _Thinned:
        hashes = mixed(batch.addresses)
        columns: list[np.ndarray] = [published_codes(batch, c) for c in channels]
        published = np.bincount(columns[-1], minlength=labels)
        return cls(most, published, 0, hashes, columns)._fitting()

    def __add__(self, other: _Thinned) -> _Thinned:
        a, b = (side._to(max(self.shift, other.shift)) for side in (self, other))
        columns = [np.concatenate(pair) for pair in zip(a.columns, b.columns, strict=True)]
        hashes = np.concatenate([a.hashes, b.hashes])
        return _Thinned(self.most, a.published + b.published, a.shift, hashes, columns)._fitting()

    def _to(self, shift: int) -> _Thinned:
        if shift == self.shift:
            return self
        kept = np.flatnonzero(self.hashes >> np.uint64(64 - shift) == 0)
        return replace(self, shift=shift, hashes=self.hashes[kept], columns=[c[kept] for c in self.columns])

    def _fitting(self) -> _Thinned:
        found = self
        while len(found.hashes) > self.most:
            found = found._to(found.shift + 1)
        return found

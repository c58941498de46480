"""The records that a model is learnt from: codes of all attributes in memory, in folds.

A release of more records than fit is thinned by a hash of the row's number: who learns from it gets
the same records whatever the number of threads or the size of the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.estimating import (
    Part,
    Recipes,
    Steps,
    Way,
    axis_of,
    matrices_of,
    maximum_likelihood,
    shares,
    tabulated,
)  # fmt: skip
from ppdm_cli.joint.kept import kept_channels
from ppdm_cli.joint.published import Published
from ppdm_cli.joint.recipes import FOLDS, Coins, Seen, seen
from ppdm_cli.releases import opened
from ppdm_cli.repeatable import mixed
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

MOST_RECORDS = 1 << 20
MOST_CODES = 1 << 26
LABEL_STEPS = 1_000
LARGEST_DOMAIN = 1024
"""Attributes of more published values than this are left to the class-wise reconstruction."""
MOST_WORK = 1 << 30
"""The most multiplications of a step of EM for the tables of attributes with the class; others are left."""
MOST_ENTRIES = 1 << 23
"""The most entries that the matrices of all attributes have, which are written out."""
MOST_CHANNELS = 128
"""Of more attributes than this those are taken whose published values differ most between the labels."""


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
    recipes: Recipes | None = None
    """Where there are several: then their numbers come last among the codes."""

    @property
    def total(self) -> int:
        return int(self.published.sum())

    @property
    def records(self) -> int:
        return len(self.labels)

    @cached_property
    def matrices(self) -> list[Floats]:
        """Return p(code | original code); with several recipes where the coin tells, *withheld* last."""
        if self.recipes is not None:
            return [w.told for w in self.recipes.attributes[:-1]]
        return [w.told for w in self.ways]

    def cells(self, pair: tuple[int, int]) -> int:
        """Return how many cells the table of two attributes' values has."""
        return self.matrices[pair[0]].shape[1] * self.matrices[pair[1]].shape[1]

    @cached_property
    def ways(self) -> list[Way]:
        """Return how each attribute is published, where all records publish it alike."""
        return [Way.of(c) for c in self.channels]

    @cached_property
    def label_matrix(self) -> Floats:
        """Return p(published label | original class)."""
        if self.recipes is None or self.label.kept:
            return Way.of(self.label).told
        own, lam = self.recipes.attributes[-1], self.recipes.lam[self.codes[-1]]
        shown = np.searchsorted(own.first, self.labels, side="right") - 1
        sums, records = np.bincount(shown, lam, len(own.first)), np.bincount(shown, minlength=len(own.first))
        each = np.repeat(sums / np.maximum(records, 1), [*np.diff(own.first), 1])[:, None]
        return np.asarray(each * own.told + (1 - each) * own.blind)

    @property
    def classes(self) -> int:
        """Return how many labels there are, published or original, whichever are more."""
        published, original = self.label_matrix.shape
        withheld = self.recipes is not None and not self.label.kept  # the last of those that are published
        return max(published - withheld, original)

    @cached_property
    def label_counts(self) -> Floats:
        """Return the counts by (fold, published label)."""
        return self.counts([]).astype(np.float64)

    def counts(self, places: Sequence[int]) -> np.ndarray:
        """Return how often each combination was published: (folds, labels, cells ...)."""
        shape = [FOLDS, len(self.label_matrix), *(len(self.matrices[p]) for p in places)]
        return tabulated([self.folds, self.labels, *(self.codes[p] for p in places)], shape)

    def seen(self, places: Sequence[int]) -> list[Seen]:
        """Return what was published of some attributes and the class, by what the records show of them."""
        if self.recipes is not None:
            return seen(self.recipes, self, places)
        label = [] if self.label.kept else [Way.of(self.label)]
        ways = [*label, *(self.ways[p] for p in places)]
        return [Seen(self.counts(places), None, ways, self.label.kept)]

    def telling(self) -> Sample:
        """Return the sample of no more attributes than a model may have, those that say most of the class."""
        if len(self.channels) <= MOST_CHANNELS or self.recipes is not None or not self.records:
            return self
        told = [_departure(self.counts([p]).sum(axis=0)) for p in range(len(self.channels))]
        chosen = np.sort(np.argsort(told, kind="stable")[-MOST_CHANNELS:])
        return replace(
            self, channels=tuple(self.channels[p] for p in chosen), codes=[self.codes[p] for p in chosen]
        )

    @property
    def coins(self) -> Coins | None:
        if self.recipes is None:
            return None
        *attributes, label = self.recipes.attributes
        return Coins(self.recipes.lam, tuple(attributes), label)

    @property
    def withheld(self) -> tuple[float, float] | None:
        """Return the shares of the perturbed cells that are withheld, and that are to be expected noise."""
        if self.recipes is None or not self.records:
            return None
        ways = self.recipes.ways[:, [i for i, c in enumerate((*self.channels, self.label)) if not c.kept]]
        numbers = self.codes[-1]
        noise = (ways > 0).mean(axis=1) * (1 - self.recipes.lam)
        return float((ways == 0).mean(axis=1)[numbers].mean()), float(noise[numbers].mean())

    def shares(self, counts: Floats) -> Floats:
        """Return the original classes' most likely shares, from counts of published labels."""
        if self.recipes is not None and not self.label.kept:
            law = self.label_matrix[: self.recipes.attributes[-1].withheld]
            start = np.full((1, law.shape[1]), 1 / law.shape[1])
            counts = Steps(Part([law], shares(counts[None, : len(law)])))(start, LABEL_STEPS)[0]
        elif not self.label.kept:
            counts = maximum_likelihood(counts, matrices_of((self.label,)))
        raised = np.maximum(counts, 1e-9)
        return np.asarray(raised / raised.sum())


def usable(sidecar: Sidecar, label: Channel) -> list[Channel]:
    """Return the perturbed channels that a joint model may have; none where the class has too many labels.

    A channel that the label's own attribute goes through is left out: what it says hangs on the label.
    """
    if label.published.size > LARGEST_DOMAIN:
        return []
    channels = opened(sidecar).channels
    if opened(sidecar).withholding:
        channels = [axis_of(sidecar, a.name) for a in sidecar.perturbed]
    own, work, entries, found = set(label.attributes), MOST_WORK, MOST_ENTRIES, set[str]()
    small = [c for c in channels if not own & set(c.attributes) and c.matrix.outputs <= LARGEST_DOMAIN]
    for one in sorted(small, key=lambda c: c.matrix.outputs):
        work -= label.published.size * one.matrix.outputs * (label.published.size + one.matrix.outputs)
        entries -= one.matrix.outputs**2 * (1 + opened(sidecar).withholding)  # told and blind
        if min(work, entries) >= 0:
            found.add(one.name)
    return [c for c in small if c.name in found]


def read(
    table: Table,
    sidecar: Sidecar,
    label: Channel,
    through: tuple[Callable[[Batch], Batch], Sequence[str]] | None = None,
) -> Sample:
    """Read the release as a sample, in one pass.

    A table that is to be a release goes `through` what publishes it, which reads these columns: then what was
    kept is left out.
    """
    names = [a.name for a in sidecar.kept if a.name not in label.attributes]
    chosen = usable(sidecar, label) + ([] if through else kept_channels(table, names, LARGEST_DOMAIN))
    if not chosen:
        raise UsageError(
            f"there is nothing to learn {quoted(label.name)} from: it, or every other attribute, has too many "
            f"values (at most {LARGEST_DOMAIN} each, and fewer of both together)",
            "ask the owner for fewer bins, or reconstruct with --method by-class",
        )
    reader = Published.of(sidecar, [*chosen, label])
    most = min(MOST_RECORDS, max(MOST_CODES // (len(chosen) + 1), 1))
    first, columns = through or (None, reader.columns)
    found = fold(table, partial(_Thinned.of, reader, most, first), _Thinned.__add__, columns=columns)
    if found is None:
        nobody = np.zeros(reader.labels, np.int64)
        found = _Thinned(most, nobody, 0, np.empty(0, np.uint64), reader.none())
    # the low bits choose the fold, the high ones who stays
    folds = (found.hashes & np.uint64(FOLDS - 1)).astype(np.uint8)
    *codes, labels = found.columns
    return Sample(tuple(chosen), label, codes, labels, folds, found.published, reader.recipes).telling()


def _departure(table: np.ndarray) -> float:
    """Return by how many standard deviations chi-square says more than that two axes are independent."""
    table = table[table.any(axis=1)][:, table.any(axis=0)].astype(np.float64)
    independent = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    free = max((len(table) - 1) * (table.shape[1] - 1), 1)
    return float((((table - independent) ** 2 / independent).sum() - free) / np.sqrt(2 * free))


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
    def of(cls, reader: Published, most: int, first: Callable[[Batch], Batch] | None, batch: Batch) -> _Thinned:
        batch = batch if first is None else first(batch)
        hashes = mixed(batch.addresses)
        columns = list[np.ndarray](reader(batch))
        published = np.bincount(columns[-1], minlength=reader.labels)[: reader.labels]
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

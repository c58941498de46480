"""The passes that count, for reconstruct, and what they plan: how each attribute that is not drawn is dealt.

By class, every label is a table of its own; a label that was perturbed is reconstructed first, by what the
first pass counted, and the others are then dealt within the labels as they are now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch, scan
from ppdm_cli.estimating import ESTIMATORS, columns_of, joint_codes, largest_remainder
from ppdm_cli.releases import axes_of, encoded
from ppdm_cli.repeatable import Deal, Staircase
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

if TYPE_CHECKING:
    from ppdm_cli.reconstructing.dealer import Drawer


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels that records are dealt by: as published, or as drawn or dealt."""

    label: Channel | None
    drawer: Drawer | None = None
    deal: Deal | None = None

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Return the channels that say the labels."""
        if self.drawer is not None:
            return self.drawer.read
        return () if self.label is None else (self.label,)

    @property
    def size(self) -> int:
        if self.label is None:
            return 1
        original = self.drawer is not None or self.deal is not None
        return (self.label.domain if original else self.label.published).size

    def __call__(self, batch: Batch) -> Codes | None:
        if self.label is None:
            return None
        if self.drawer is not None:
            return self.drawer.labels(batch)
        codes = encoded(batch, self.label)
        return codes if self.deal is None else self.deal(codes, batch.index)

    def joint(self, batch: Batch, label: Codes | None, attribute: Channel) -> np.ndarray:
        """Return the attribute's published codes, or one for each combination with a label."""
        codes = encoded(batch, attribute)
        return codes if label is None else joint_codes([label, codes], (self.size, attribute.published.size))


@dataclass(frozen=True, eq=False)
class Counter:
    """Counts of each attribute's published codes by label: arrays of shape (labels, codes)."""

    labels: Labels
    attributes: tuple[Channel, ...]

    def __call__(self, batch: Batch) -> list[np.ndarray]:
        label, found = self.labels(batch), []
        for attribute in self.attributes:
            shape = (self.labels.size, attribute.published.size)
            codes = self.labels.joint(batch, label, attribute)
            found.append(np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape))
        return found


@dataclass(frozen=True, eq=False)
class Planned:
    """What the passes that count found: the labels to deal by, each attribute's deal, and the totals."""

    labels: Labels
    deals: list[tuple[Channel, Deal]]
    totals: dict[str, list[int]]


class Planner:
    """Counts a release and plans the deal of attributes, within labels where there are any."""

    def __init__(self, table: Table, sidecar: Sidecar, estimator: str) -> None:
        self._table, self._sidecar, self._estimator = table, sidecar, ESTIMATORS[estimator]
        self._totals: dict[str, list[int]] = {}

    def planned(self, label: Channel | None, drawer: Drawer | None) -> Planned:
        """Plan all that the drawer does not draw."""
        drawn = [] if drawer is None else drawer.names
        others = tuple(
            c
            for c in axes_of(self._sidecar, [a.name for a in self._sidecar.perturbed])
            if c.name not in drawn and (label is None or c.name != label.name)
        )
        hidden = label is not None and not label.kept
        labels = Labels(label)
        if not others and not (hidden and drawer is None):
            return Planned(Labels(label, drawer if hidden else None), [], {})
        published = self._counted(Counter(labels, others or ((label,) if label else ())))
        wanted = [self._estimate(label, a, c.sum(axis=0)) for a, c in zip(others, published, strict=False)]
        if label is not None and hidden:
            deal = None
            if drawer is None:
                counts = published[0].sum(axis=2)
                deal = self._deal(label, counts[:, None], self._estimate(None, label, counts.sum(axis=0)))
            labels = Labels(label, drawer, deal)
            if others:
                published = self._counted(Counter(labels, others))
        deals = [(a, self._deal(a, c, w)) for a, c, w in zip(others, published, wanted, strict=False)]
        return Planned(labels, deals, self._totals)

    def _counted(self, counter: Counter) -> list[np.ndarray]:
        """Return each attribute's counts by (partition, label, code), from one pass."""
        parts = scan(self._table, counter, columns=columns_of([*counter.attributes, *counter.labels.channels]))
        if not parts:
            sizes = [a.published.size for a in counter.attributes]
            return [np.zeros((0, counter.labels.size, size), np.int64) for size in sizes]
        return [np.stack(p) for p in zip(*parts, strict=True)]

    def _estimate(self, label: Channel | None, attribute: Channel, counts: np.ndarray) -> Floats:
        """Return original counts, by original label where there is one."""
        if label is None:
            return self._estimator(counts.reshape(-1).astype(np.float64), [attribute.law])
        return self._estimator(counts.astype(np.float64), [label.law, attribute.law])

    def _deal(self, attribute: Channel, parts: np.ndarray, wanted: np.ndarray) -> Deal:
        """Plan from counts by (partition, label, published code) and those wanted by (label, original code)."""
        published, size = parts.sum(axis=0), attribute.domain.size
        original = [
            largest_remainder(w, int(p.sum())) for w, p in zip(wanted.reshape(-1, size), published, strict=True)
        ]
        whole = np.sum(original, axis=0).reshape(attribute.domain.sizes)
        for axis, name in enumerate(attribute.attributes):
            self._totals[name] = np.moveaxis(whole, axis, 0).reshape(whole.shape[axis], -1).sum(axis=1).tolist()
        stairs = [monotone(p, o) for p, o in zip(published, original, strict=True)]
        parts = parts.reshape(len(parts), published.size)
        return Deal.of(parts, stairs, size, [self._sidecar.release, "deal", attribute.name])


def monotone(published: np.ndarray, original: np.ndarray) -> Staircase:
    """Return the plan between counts of one sum, with row sums `published` and column sums `original`.

    Algorithm 2 as a transport plan: sorting the records by the published value and dealing out the estimated
    counts in order needs no sort. It is the monotone plan between both counts (north-west corner rule,
    maths 4), a staircase of at most N + N - 1 steps.
    """
    ends = np.union1d(np.cumsum(published), np.cumsum(original))
    ends = ends[ends > 0]
    starts = np.concatenate([[0], ends])[: len(ends)]
    # the records from `starts` to `ends` in sorted order share a source and a target
    source = np.searchsorted(np.cumsum(published), starts, side="right")
    target = np.searchsorted(np.cumsum(original), starts, side="right")
    return Staircase(source, target, ends - starts)

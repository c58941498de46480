"""Passes of `reconstruct`: those that count and plan, and the one that deals or draws original values.

By class, every label is a table of its own; a label that was perturbed is reconstructed first, from the counts
of the first pass, and the others are then dealt within the new labels. Attributes of the joint model are drawn
from the posterior, record by record (docs/technical/method.md), which preserves their dependence as far as the
model has it. First its class is drawn, then its values given the class. The draws follow from the release and
the row's address, so that every pass draws the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Codes, Floats, code_type, joined
from ppdm_cli.channels import Channel
from ppdm_cli.coins import Coins, places_of
from ppdm_cli.domain import Domain
from ppdm_cli.engine import Batch, Made, scan
from ppdm_cli.estimating import ESTIMATORS, columns_of, largest_remainder
from ppdm_cli.joint import COIN, LABEL, Law, LearnedModel, departure
from ppdm_cli.releases import Strata, axes_of, axis_of, encoded
from ppdm_cli.repeatable import Deal, Staircase, hashed, uniform
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table


class DealtBatch(NamedTuple):
    """The number of records in a batch, and the numbers with each drawn value."""

    rows: int
    drawn: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Dealer:
    """Draws the drawer's attributes, deals the others as planned, and leaves kept columns unchanged."""

    sidecar: Sidecar
    planned: Planned
    drawer: Drawer | None
    spread: bool
    places: bytes | None = field(repr=False)
    """The key of the rows' places in a random order, if they are shuffled."""

    def __call__(self, batch: Batch) -> Made[DealtBatch]:
        by = self.planned.labels
        label, drawn = (by(batch), {}) if self.drawer is None else self.drawer(batch)
        codes = dict(drawn)
        if by.deal is not None and by.label is not None and label is not None:
            codes[by.label.name] = label
        for attribute, deal in self.planned.deals:
            within = None if attribute.name in self.planned.apart else label
            codes[attribute.name] = deal(by.joint(batch, within, attribute), batch.index)
        own = {n: c for name, c in codes.items() for n, c in self._split(name, c)}
        columns = [
            self._column(a.name, a.domain, own[a.name], batch) if a.name in own else batch.column(a.name)
            for a in self.sidecar.attributes
        ]
        totals = {
            n: np.bincount(own[n], minlength=self.sidecar.by_name[n].domain.size)
            for name in drawn
            for n in axis_of(self.sidecar, name).attributes
        }
        rows = pa.RecordBatch.from_arrays(columns, names=[a.name for a in self.sidecar.attributes])
        places = None if self.places is None else places_of(Coins(self.places), batch.addresses)
        return Made(rows, DealtBatch(batch.rows, totals), places)

    def _split(self, name: str, codes: Codes) -> Iterator[tuple[str, Codes]]:
        """Yield the attributes of a channel with their codes."""
        channel = axis_of(self.sidecar, name)
        yield from zip(channel.attributes, channel.domain.split(codes), strict=True)

    def _column(self, name: str, domain: Domain, codes: Codes, batch: Batch) -> pa.Array:
        domain = domain.spread() if self.spread else domain
        within = None
        if domain.is_random:
            within = uniform(batch.addresses, hashed([self.sidecar.release, "spread", name]))
        return domain.column(codes, within)


PROVEN = 3.0
"""The standard deviations of chi-square at which published counts are found to depend on the class."""
DRAWN_AT_ONCE = 1 << 20
"""The most probabilities of a column's values that are in hand at a time."""


@dataclass(frozen=True, eq=False)
class Drawer:
    """A learned model, ready to be applied to batches."""

    model: Law
    channels: tuple[Channel, ...]
    """The channels of the model's places."""
    label: Channel
    release: str
    strata: Strata
    """The strata of the model's channels and the label."""

    @classmethod
    def of(cls, learned: LearnedModel, sidecar: Sidecar) -> Drawer:
        assert learned.linked is not None
        model, channels, label = learned.linked, learned.sample.channels, learned.sample.label
        strata = Strata.of_axes(sidecar, [*(channels[p] for p in model.places), label])
        return cls(model, channels, label, sidecar.release, strata)

    @property
    def names(self) -> list[str]:
        """Return the attributes that are drawn; kept ones stay unchanged."""
        return [self.channels[p].name for p in self.model.places if not self.channels[p].kept]

    @property
    def read(self) -> tuple[Channel, ...]:
        """Return the channels that are read: the label's, and all of the model's."""
        return (self.label, *(self.channels[p] for p in self.model.places))

    def labels(self, batch: Batch) -> Codes:
        """Return the original labels alone."""
        return self(batch)[0]

    def _published(self, batch: Batch) -> tuple[list[Codes], Codes]:
        """Return published codes in the model's form, and labels; other columns aren't read."""
        numbers, (*own, labels) = self.strata.read(batch)
        codes = [labels] * len(self.channels)
        for place, column in zip(self.model.places, own, strict=True):
            codes[place] = column
        return [*codes, *[numbers] * (self.model.coin is not None)], labels

    def __call__(self, batch: Batch) -> tuple[Codes, dict[str, Codes]]:
        """Return the original labels, and the original codes of all drawn attributes by name."""
        published, published_labels = self._published(batch)
        channels = [self.channels[p] for p in self.model.places]
        labels = np.empty(batch.rows, code_type(self.label.domain.size))
        drawn = {c.name: np.empty(batch.rows, code_type(c.domain.size)) for c in channels}
        starts = {p: hashed([self.release, "draw", self.channels[p].name]) for p in self.model.places}
        starts |= {
            COIN: hashed([self.release, "coin"]),
            LABEL: hashed([self.release, "label", self.label.name]),
        }
        step = DRAWN_AT_ONCE // max(c.domain.size for c in self.read)
        for part in (slice(first, first + step) for first in range(0, batch.rows, step)):
            own = batch.addresses[part]

            def numbers_of(place: int, rows: np.ndarray, own: np.ndarray = own) -> Floats:
                return uniform(own[rows], starts[place])

            labels[part], found = self.model.drawn(
                [p[part] for p in published], published_labels[part], numbers_of
            )
            for channel, values in zip(channels, found, strict=True):
                drawn[channel.name][part] = values
        perturbed = {c.name: drawn[c.name] for c in channels if not c.kept}
        return labels, perturbed if self.label.kept else perturbed | {self.label.name: labels}


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels within which records are dealt: published, drawn or dealt ones."""

    label: Channel | None
    drawer: Drawer | None = None
    deal: Deal | None = None

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Return the channels of the labels."""
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
        return codes if label is None else joined([label, codes], (self.size, attribute.published.size))


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
    """The results of the counting passes: the labels to deal by, each attribute's deal, and the totals."""

    labels: Labels
    deals: list[tuple[Channel, Deal]]
    totals: dict[str, list[int]]
    apart: frozenset[str] = frozenset()
    """The attributes that don't depend on the label in the release, and are dealt without one."""


class Planner:
    """Counts a release and plans the deal of attributes, within labels if there are any.

    With `proven`, attributes are dealt within labels only if published counts depend on these beyond chance.
    """

    def __init__(self, table: Table, sidecar: Sidecar, estimator: str, proven: bool) -> None:
        self._table, self._sidecar, self._estimator = table, sidecar, ESTIMATORS[estimator]
        self._proven = proven
        self._totals: dict[str, list[int]] = {}

    def planned(self, label: Channel | None, drawer: Drawer | None) -> Planned:
        """Plan all attributes that the drawer does not draw."""
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
        apart = set[str]()
        if self._proven and label is not None:
            counted = zip(others, published, strict=False)
            apart = {a.name for a, c in counted if departure(c.sum(axis=0)) < PROVEN}
        wanted = [
            self._estimate(None if a.name in apart else label, a, c.sum(axis=0))
            for a, c in zip(others, published, strict=False)
        ]
        if label is not None and hidden:
            deal = None
            if drawer is None:
                counts = published[0].sum(axis=2)
                deal = self._deal(label, counts[:, None], self._estimate(None, label, counts.sum(axis=0)))
            labels = Labels(label, drawer, deal)
            if others:
                published = self._counted(Counter(labels, others))
        published = [
            c.sum(axis=1, keepdims=True) if a.name in apart else c
            for a, c in zip(others, published, strict=False)
        ]
        deals = [(a, self._deal(a, c, w)) for a, c, w in zip(others, published, wanted, strict=False)]
        return Planned(labels, deals, self._totals, frozenset(apart))

    def _counted(self, counter: Counter) -> list[np.ndarray]:
        """Return each attribute's counts by (partition, label, code), from one pass."""
        parts = scan(self._table, counter, columns=columns_of([*counter.attributes, *counter.labels.channels]))
        if not parts:
            sizes = [a.published.size for a in counter.attributes]
            return [np.zeros((0, counter.labels.size, size), np.int64) for size in sizes]
        return [np.stack(p) for p in zip(*parts, strict=True)]

    def _estimate(self, label: Channel | None, attribute: Channel, counts: np.ndarray) -> Floats:
        """Return original counts, by original label if there is one."""
        if label is None:
            counts = counts.reshape(-1, attribute.published.size).sum(axis=0)
            return self._estimator(counts.astype(np.float64), [attribute.law])
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
    counts in order needs no sort. It is the monotone plan between both counts (north-west corner rule), a
    staircase of at most N + N - 1 steps.
    """
    ends = np.union1d(np.cumsum(published), np.cumsum(original))
    ends = ends[ends > 0]
    starts = np.concatenate([[0], ends])[: len(ends)]
    # the records from `starts` to `ends` in sorted order share a source and a target
    source = np.searchsorted(np.cumsum(published), starts, side="right")
    target = np.searchsorted(np.cumsum(original), starts, side="right")
    return Staircase(source, target, ends - starts)

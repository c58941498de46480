"""The pass that deals or draws, for reconstruct: each batch of a release as a batch of original values.

What the joint model has is drawn from the posterior, each record by itself (maths 10): what its values say of
each other stays, as far as the model knows it. First its class is drawn, then its values given the class. The
draws follow from the release and the row's address, so that every pass draws the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.coins import Coins, places_of
from ppdm_cli.domain import Domain
from ppdm_cli.engine import Batch, Made
from ppdm_cli.joint import COIN, Learnt, Model, picked
from ppdm_cli.reconstructing.planner import Planned
from ppdm_cli.releases import Strata, axis_of
from ppdm_cli.repeatable import hashed, uniform
from ppdm_cli.sidecar import Sidecar


class DealtBatch(NamedTuple):
    """How many records a batch has, and how many of them have each value that was drawn."""

    rows: int
    drawn: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Dealer:
    """Draws what the drawer knows, deals the others as planned, and leaves kept columns as they are."""

    sidecar: Sidecar
    planned: Planned
    drawer: Drawer | None
    spread: bool
    places: bytes | None = field(repr=False)
    """The key of the rows' places in a random order, where they are shuffled."""

    def __call__(self, batch: Batch) -> Made[DealtBatch]:
        by = self.planned.labels
        label, drawn = (by(batch), {}) if self.drawer is None else self.drawer(batch)
        codes = dict(drawn)
        if by.deal is not None and by.label is not None and label is not None:
            codes[by.label.name] = label
        for attribute, deal in self.planned.deals:
            codes[attribute.name] = deal(by.joint(batch, label, attribute), batch.index)
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


DRAWN_AT_ONCE = 1 << 13
"""Records that are drawn at a time: their chances stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Drawer:
    """A learnt model, ready to be applied to batches."""

    model: Model
    channels: tuple[Channel, ...]
    """Those that the model's places count over."""
    label: Channel
    release: str
    strata: Strata
    """Of those that the model has, and the label."""

    @classmethod
    def of(cls, learnt: Learnt, sidecar: Sidecar) -> Drawer:
        assert learnt.linked is not None
        model, channels, label = learnt.linked, learnt.sample.channels, learnt.sample.label
        strata = Strata.of_axes(sidecar, [*(channels[p] for p in model.places), label])
        return cls(model, channels, label, sidecar.release, strata)

    @property
    def names(self) -> list[str]:
        """Return the attributes that are drawn; what was kept stays as it was published."""
        return [self.channels[p].name for p in self.model.places if not self.channels[p].kept]

    @property
    def read(self) -> tuple[Channel, ...]:
        """Return the channels that are read: the label's, and all that the model has."""
        return (self.label, *(self.channels[p] for p in self.model.places))

    def labels(self, batch: Batch) -> Codes:
        """Return the original labels alone."""
        return self._labels(batch, *self._published(batch))

    def _published(self, batch: Batch) -> tuple[list[Codes], Codes]:
        """Return published codes as the model takes them, and labels; what it does not have is not read."""
        numbers, (*own, labels) = self.strata.read(batch)
        codes = [labels] * len(self.channels)
        for place, column in zip(self.model.places, own, strict=True):
            codes[place] = column
        return [*codes, *[numbers] * (self.model.coin is not None)], labels

    def __call__(self, batch: Batch) -> tuple[Codes, dict[str, Codes]]:
        """Return the original labels, and by name the original codes of all that is drawn."""
        published, shown = self._published(batch)
        labels = self._labels(batch, published, shown)
        channels = [self.channels[p] for p in self.model.places]
        drawn = {c.name: np.empty(batch.rows, code_type(c.domain.size)) for c in channels}
        starts = {p: hashed([self.release, "draw", self.channels[p].name]) for p in self.model.places}
        starts[COIN] = hashed([self.release, "coin"])
        for part in _parts(batch):
            own = batch.addresses[part]

            def numbers_of(place: int, rows: np.ndarray, own: np.ndarray = own) -> Floats:
                return uniform(own[rows], starts[place])

            codes = [p[part] for p in published]
            found = self.model.draw(codes, shown[part], labels[part], numbers_of)
            for channel, values in zip(channels, found, strict=True):
                drawn[channel.name][part] = values
        perturbed = {c.name: drawn[c.name] for c in channels if not c.kept}
        return labels, perturbed if self.label.kept else perturbed | {self.label.name: labels}

    def _labels(self, batch: Batch, published: list[Codes], shown: Codes) -> Codes:
        if self.label.kept:
            return shown
        numbers = uniform(batch.addresses, hashed([self.release, "label", self.label.name]))
        labels = np.empty(batch.rows, code_type(self.label.domain.size))
        for part in _parts(batch):
            labels[part] = picked(self.model.chances([p[part] for p in published], shown[part]), numbers[part])
        return labels


def _parts(batch: Batch) -> list[slice]:
    return [slice(start, start + DRAWN_AT_ONCE) for start in range(0, batch.rows, DRAWN_AT_ONCE)]

"""Drawing original values from their posterior, given all that a record publishes (maths 10).

Each record by itself: what its values say of each other stays, as far as the model knows it. First its class is
drawn, then its values given the class. The draws follow from the release and the row's address, so that every
pass draws the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch
from ppdm_cli.joint import COIN, Learnt, Model, Published, picked
from ppdm_cli.repeatable import hashed, uniform
from ppdm_cli.sidecar import Sidecar

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
    published: Published

    @classmethod
    def of(cls, learnt: Learnt, sidecar: Sidecar) -> Drawer:
        assert learnt.linked is not None
        model, channels, label = learnt.drawn_from(learnt.linked), learnt.sample.channels, learnt.sample.label
        return cls(model, channels, label, sidecar.release, Published.of(sidecar, [*channels, label]))

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
        *published, shown = self.published(batch, self.model.places)
        return self._labels(batch, published, shown)

    def __call__(self, batch: Batch) -> tuple[Codes, dict[str, Codes]]:
        """Return the original labels, and by name the original codes of all that is drawn."""
        *published, shown = self.published(batch, self.model.places)
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

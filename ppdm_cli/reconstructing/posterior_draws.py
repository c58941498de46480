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
from ppdm_cli.joint import Learnt, Model, picked, published_codes
from ppdm_cli.repeatable import hashed, uniform

ROWS = 1 << 13
"""Records that are drawn at a time: their chances stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Drawer:
    """A learnt model, ready to be applied to batches."""

    model: Model
    channels: tuple[Channel, ...]
    """Those that the model's places count over."""
    label: Channel
    release: str

    @classmethod
    def of(cls, learnt: Learnt, release: str) -> Drawer:
        assert learnt.linked is not None
        return cls(learnt.drawn_from(learnt.linked), learnt.sample.channels, learnt.sample.label, release)

    @property
    def names(self) -> list[str]:
        """Return the attributes that are drawn; what was kept stays as it was published."""
        return [self.channels[p].name for p in self.model.places if not self.channels[p].kept]

    def __call__(self, batch: Batch) -> tuple[Codes, dict[str, Codes]]:
        """Return the original labels, and by name the original codes of all that is drawn."""
        labels = published_codes(batch, self.label)
        published: list[Codes] = [labels] * len(self.channels)  # those not in the model are never looked at
        for place in self.model.places:
            published[place] = published_codes(batch, self.channels[place])
        channels = [self.channels[p] for p in self.model.places]
        drawn = {c.name: np.empty(batch.rows, code_type(c.domain.size)) for c in [*channels, self.label]}
        addresses = batch.addresses
        starts = {p: hashed([self.release, "draw", self.channels[p].name]) for p in self.model.places}
        for start in range(0, batch.rows, ROWS):
            part = slice(start, start + ROWS)
            own, codes, classes = addresses[part], [p[part] for p in published], labels[part]
            if not self.label.kept:
                numbers = uniform(own, hashed([self.release, "label", self.label.name]))
                classes = picked(self.model.chances(codes, classes), numbers)

            def numbers_of(place: int, rows: np.ndarray, own: np.ndarray = own) -> Floats:
                return uniform(own[rows], starts[place])

            found = self.model.within.draw(codes, classes, numbers_of)
            for channel, values in zip([*channels, self.label], [*found, classes], strict=True):
                drawn[channel.name][part] = values
        labels = drawn[self.label.name]
        for channel in [*channels, self.label]:
            if channel.kept:
                del drawn[channel.name]
        return labels, drawn

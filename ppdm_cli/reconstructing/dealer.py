"""The pass that deals: each batch of a release as a batch of original values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Codes
from ppdm_cli.coins import Coins, places_of
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.engine import Batch, Made
from ppdm_cli.estimating import axis_of
from ppdm_cli.reconstructing.planner import Planned
from ppdm_cli.reconstructing.posterior_draws import Drawer
from ppdm_cli.releases import opened
from ppdm_cli.repeatable import hashed, uniform
from ppdm_cli.sidecar import Sidecar


class RecipeInUse(NamedTuple):
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

    def __call__(self, batch: Batch) -> Made[RecipeInUse]:
        by = self.planned.labels
        label, drawn = (by(batch), {}) if self.drawer is None else self.drawer(batch)
        codes = dict(drawn)
        if by.deal is not None and by.label is not None and label is not None:
            codes[by.label.name] = label
        for attribute in opened(self.sidecar).channels:
            deal = self.planned.deals.get(attribute.name)
            if deal is not None and attribute.name not in codes:
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
        return Made(rows, RecipeInUse(batch.rows, totals), places)

    def _split(self, name: str, codes: Codes) -> Iterator[tuple[str, Codes]]:
        """Yield the attributes of a channel with their codes."""
        channel = axis_of(self.sidecar, name)
        yield from zip(channel.attributes, channel.domain.split(codes), strict=True)

    def _column(self, name: str, domain: Domain, codes: Codes, batch: Batch) -> pa.Array:
        domain = domain.spread() if self.spread else domain
        within = None
        if isinstance(domain, Bins) and domain.representative == "random":
            within = uniform(batch.addresses, hashed([self.sidecar.release, "spread", name]))
        return domain.column(codes, within)

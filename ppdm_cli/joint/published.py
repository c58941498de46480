"""How the codes of a release are read for a model: with several recipes by what each record shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Codes, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch
from ppdm_cli.estimating import Recipes, Showing, axis_of, columns_of, encoded, kept_codes
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar


def published_codes(batch: Batch, channel: Channel) -> Codes:
    """Return the codes of a column; what a kept one has beyond its domain goes to the nearest code."""
    if channel.kept:
        return kept_codes(batch, channel)
    return encoded(batch, channel)


@dataclass(frozen=True, eq=False)
class Published:
    """How the codes of a release are read: with several recipes by what each record shows."""

    channels: Sequence[Channel]
    """The class comes last."""
    showing: Showing | None

    @classmethod
    def of(cls, sidecar: Sidecar, channels: Sequence[Channel]) -> Published:
        return cls(channels, Showing.of(sidecar, channels) if opened(sidecar).withholding else None)

    @property
    def recipes(self) -> Recipes | None:
        return None if self.showing is None else self.showing.recipes

    @property
    def labels(self) -> int:
        """Return how many labels may be published."""
        recipes = self.recipes
        return self.channels[-1].published.size if recipes is None else recipes.attributes[-1].withheld

    @property
    def columns(self) -> list[str]:
        return columns_of(self.channels) if self.showing is None else self.showing.columns

    def __call__(self, batch: Batch, places: Sequence[int] | None = None) -> list[Codes]:
        """Return the codes of each column, the recipes' numbers where there are several, and the labels.

        The codes of columns that are none of the `places` are not to be looked at.
        """
        *own, label = range(len(self.channels))
        if self.showing is None:
            labels = published_codes(batch, self.channels[label])
            read = own if places is None else places
            return [*(published_codes(batch, self.channels[p]) if p in read else labels for p in own), labels]
        numbers, (*codes, labels) = self.showing(batch)
        return [*codes, numbers, labels]

    def none(self) -> list[Codes]:
        """Return the codes of no records."""
        sizes = [c.published.size for c in self.channels]
        return [np.empty(0, code_type(s)) for s in (*sizes, *([1] if self.showing is not None else []))]


def class_of(sidecar: Sidecar) -> Channel:
    """Return the axis of the class, or of the attribute of the fewest values where no class has a domain."""
    named = sidecar.by_name.get(str(sidecar.class_))
    fewest = min(sidecar.perturbed, key=lambda a: a.domain.size).name
    return axis_of(sidecar, named.name if named is not None and named.has_domain else fewest)

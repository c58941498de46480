"""Batches as the attacks see them: published codes, numbers and labels, and the originals where known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Codes
from ppdm_cli.attacks.attacked_attribute import Rows, Target, Truth, as_numbers
from ppdm_cli.attacks.pairing import ORIGINAL, PUBLISHED
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch
from ppdm_cli.errors import MismatchError, listed
from ppdm_cli.releases import OWN

FETCH_AGAIN = "the data or the sidecar was changed: fetch both again"


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads batches of a paired table."""

    targets: Mapping[str, Target]
    label: Channel | None
    kept: tuple[Channel, ...] = ()
    """Kept columns that are evidence."""

    def published(self, batch: Batch) -> Rows:
        codes = {n: _codes(batch, PUBLISHED, t.channel) for n, t in self.targets.items()}
        noisy = {
            n: as_numbers(batch.column(PUBLISHED + n), t.published.kind)
            for n, t in self.targets.items()
            if t.channel.noise is not None
        }
        labels = None
        if self.label is not None:
            name = self.label.name
            labels = codes[name] if name in codes else _codes(batch, PUBLISHED, self.label)
        codes |= {c.name: c.domain.encode(batch.column(PUBLISHED + c.name), clip=True).codes for c in self.kept}
        return Rows(codes, noisy, labels, None, batch.first_row)

    def both(self, batch: Batch) -> Rows:
        """Return the published rows together with their originals."""
        truths = {}
        for name, target in self.targets.items():
            numbers = np.full(batch.rows, np.nan)  # words have none, nor have combinations
            if target.ordered:
                numbers = as_numbers(batch.column(ORIGINAL + name), target.domain.kind)
            truths[name] = Truth(_codes(batch, ORIGINAL, target.channel), numbers)
        return replace(self.published(batch), truths=truths)


def _codes(batch: Batch, side: str, channel: Channel) -> Codes:
    """Return a channel's codes; an error names the row, never the value."""
    domain = channel.published if side == PUBLISHED else channel.domain
    found = domain.encode(channel.column(lambda name: batch.column(side + name)))
    if found.outside.size:
        what, then = ("the release", FETCH_AGAIN) if side == PUBLISHED else ("the original", OWN)
        raise MismatchError(
            f"the column {listed(channel.attributes)} of {what} has a value outside the sidecar's domain in "
            f"row {batch.first_row + int(found.outside[0]) + 1}",
            then,
        )
    return found.codes

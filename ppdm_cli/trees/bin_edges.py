"""Thresholds for values that stand for bins: at the ends of the bins, in the attribute's own units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec import UNSET

from ppdm_cli.domain import Bins, Domain
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.trees.records import Column, Records


def at_edges(records: Records, sidecar: Sidecar) -> Records:
    """Return the records of a reconstruction, with thresholds at the edges of the bins, not within them."""
    if sidecar.reconstruction is UNSET or sidecar.reconstruction.spread:
        return records
    bins = {a.name: a.domain for a in sidecar.attributes if a.edges is not UNSET}
    return replace(records, columns=tuple(_at_edges(c, bins.get(c.feature.name)) for c in records.columns))


def _at_edges(column: Column, domain: Domain | None) -> Column:
    if not isinstance(domain, Bins) or not column.feature.numeric or column.cut:
        return column
    codes = np.searchsorted(domain.edges.astype(np.float64), column.values, side="right") - 1
    codes = np.clip(codes, 0, domain.ordinary - 1)
    if (np.diff(codes) <= 0).any():  # more values than bins: these are not representatives
        return column
    return replace(column, values=domain.tops()[codes], ends=True)

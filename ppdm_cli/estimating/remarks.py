"""What is to be said of estimated tables, beside their figures."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi, prod
from typing import TYPE_CHECKING

import numpy as np

from ppdm_cli.arrays import RARELY
from ppdm_cli.domain import Bins
from ppdm_cli.errors import MismatchError, some
from ppdm_cli.estimating.estimators import inverse
from ppdm_cli.releases import OWN

if TYPE_CHECKING:
    from ppdm_cli.estimating import Estimated


def remarks(tables: Sequence[Estimated], estimator: str) -> list[str]:
    """Return what is to be said of the tables: where there are no intervals, and where they mislead."""
    remarks = []
    channels = {c.name: c for t in tables for c in t.group if not c.kept}
    blind = [n for n, c in channels.items() if not c.matrix.invertible]
    if blind:
        remarks.append(
            f"No intervals where {', '.join(blind)} takes part: the noise is too wide for an unbiased estimate "
            "(inspect shows the condition number), so only the EM estimate is given."
        )
    rest = [t for t in tables if not {a.name for a in t.group} & set(blind)]
    under_noise = [t for t in rest if any(c.noise is not None for c in t.group)]
    heaped = [t.name for t in under_noise if t.interval.missing == t.estimate.size]
    if heaped:
        remarks.append(
            f"No intervals for {', '.join(heaped)}: some would exclude their own estimate, so none can be "
            "trusted. With additive noise they assume that originals are spread evenly within their bins."
        )
    binned = [t for t in under_noise if any(isinstance(a.domain, Bins) for a in t.group)]
    even = [t.name for t in binned if t.name not in heaped]
    if even:
        remarks.append(
            f"The intervals for {', '.join(even)} hold if the originals are spread evenly within their bins. "
            "If they are heaped, as ages or hours are, most intervals may be wrong without any sign of it."
        )
    some = [t for t in rest if t.interval.missing and t.name not in heaped]
    if some:
        which = ", ".join(f"{t.name} ({t.interval.missing} of {t.estimate.size} counts)" for t in some)
        remarks.append(
            f"No intervals for {which}: too few records were changed there for an interval that covers what it "
            "says. Combine fewer attributes, or use more records."
        )
    outside = {t.name: t.interval.without(t.estimate) for t in rest if t not in under_noise}
    if any(outside.values()):
        which = ", ".join(f"{n} ({count})" for n, count in outside.items() if count)
        why = (
            "Unbiased estimates may be below 0, and intervals are cut to what is possible."
            if estimator == "inverse"
            else "Intervals belong to the unbiased estimate, which --estimator inverse shows."
        )
        remarks.append(f"Estimates outside their interval: {which}. {why}")
    vague = [t.name for t in tables if t.says_nothing]
    if vague:
        remarks.append(
            f"The intervals for {', '.join(vague)} are wider than the counts: there are too few records for so "
            "many values at this gamma or noise. Combine fewer attributes, or use more records."
        )
    return remarks


def against_truth(tables: Sequence[Estimated], population: bool) -> list[str]:
    """Return what is wrong with an original that fits a release too well, or too badly; refuse a copy of it.

    Counts equal to the published ones may be chance where few values change. Those of a reconstruction lie
    nearer to the estimates than chance has it, if none of these is below 0, and those of other records further
    away.
    """
    rows = [(t, t.truth) for t in tables if t.truth is not None and not all(c.kept for c in t.group)]
    if rows and all(np.array_equal(t.unchanged, truth) for t, truth in rows):
        chance = sum(_unlikely(t, truth) for t, truth in rows)
        if chance < log(RARELY):
            raise MismatchError("--truth names the release itself: its counts are the published ones", OWN)
        said = "The true counts equal the published ones: the original may be the release itself."
        return [said] if chance < log(0.05) else []
    rows = [(t, truth) for t, truth in rows if not t.interval.missing and all(c.noise is None for c in t.group)]
    plain = [(t, truth) for t, truth in rows if t.records is None and t.observed.shape == truth.shape]
    if not population and sum(_nearness(t, truth) for t, truth in plain) < log(RARELY):
        return ["The true counts fit the estimates better than chance allows: they may be a reconstruction's."]
    far = [t.name for t, truth in rows if t.interval.far_from(truth)]
    return [f"The true counts of {some(far)} don't fit the release: they may be another table's."] * bool(far)


def _nearness(table: Estimated, truth: np.ndarray) -> float:
    """Return the logarithm of the chance that unbiased estimates are all as near to the true counts, about."""
    apart = np.abs(truth - inverse(table.observed, [c.law for c in table.group]))
    largest = float((np.maximum(apart, 0.5) / np.maximum(table.interval.std_error, 0.5)).max())
    free = prod(n - (not c.kept) for n, c in zip(table.observed.shape, table.group, strict=True))
    return free * log(min(0.8 * largest, 1.0))


def _unlikely(table: Estimated, truth: np.ndarray) -> float:
    """Return the logarithm of the chance that counts are published as they are, by how many values change."""
    cells, records = int(np.count_nonzero(truth)), float(truth.sum())
    stays: float = np.prod([1.0 if c.kept else float(c.matrix.stays().mean()) for c in table.group]).item()
    each = 2 * records * (1 - stays) / max(cells, 1)
    return -0.5 * max(cells - 1, 0) * log(max(2 * pi * each, 1.0))


def shown_by(tables: Sequence[Estimated], records: int) -> list[str]:
    """Return how many records the estimates are from, where each shows a few of its attributes."""
    by_number = sorted((t.all_records, t.name) for t in tables)
    least, most = by_number[0][0], by_number[-1][0]
    number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    what = by_number[0][1] if len(tables) == 1 else "Each of these"
    return [
        f"{what} was published by {number} of {records:,} records. Estimates are from these; intervals are "
        "about all of them, as far as a sample tells."
    ]

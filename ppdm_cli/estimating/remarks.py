"""What is to be said of estimated tables, beside their figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ppdm_cli.domain import Bins

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

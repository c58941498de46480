"""Results for `estimate` and its callers: tables as a frame, one row a value, and the remarks beside them."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi, prod
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from ppdm_cli import sidecar as sidecars
from ppdm_cli.arrays import RARELY
from ppdm_cli.domain import Bins
from ppdm_cli.errors import MismatchError, argument, some
from ppdm_cli.estimating.estimators import inverse
from ppdm_cli.estimating.laws import by_attribute
from ppdm_cli.estimating.tables import EstimatedTable
from ppdm_cli.releases import OWN
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Output

if TYPE_CHECKING:
    import polars as pl


def as_table(tables: Sequence[EstimatedTable]) -> pa.Table:
    """Return all tables below each other; jointly estimated attributes have a column of their own."""
    return pa.concat_tables([pa.table(_columns(t)) for t in tables], promote_options="permissive")


def _columns(table: EstimatedTable) -> dict[str, Any]:
    domains = table.domains
    places = [p.ravel() for p in np.indices(table.estimate.shape)]
    labels = [[*map(d.labels().__getitem__, p.tolist())] for d, p in zip(domains, places, strict=True)]
    columns: dict[str, Any] = {}
    if len(table.names) > 1 + table.by:
        columns |= {n: _text(label) for n, label in zip(table.names, labels, strict=True)}
    else:
        if table.by:
            columns["class"] = _text(labels[0])
        lower, upper = domains[-1].limits()
        columns |= {
            "attribute": _text([table.names[-1]] * table.estimate.size),
            "code": places[-1],
            "label": _text(labels[-1]),
            "lower": lower[places[-1]],
            "upper": upper[places[-1]],
        }
    columns |= {"observed": table.published.ravel(), "estimate": table.estimate.ravel()}
    columns |= {n: getattr(table.interval, n).ravel() for n in ("std_error", "low", "high")}
    if table.sampled is not None:
        columns["records"] = table.sampled.ravel().astype(np.int64)
    if table.truth is not None:
        columns["true"] = table.truth.ravel()
    return {n: _numbers(c, n) if isinstance(c, np.ndarray) else c for n, c in columns.items()}


def _text(labels: Sequence[str]) -> pa.Array:
    return pa.array(labels, pa.large_string())  # as polars has it


def _numbers(values: np.ndarray, name: str) -> pa.Array:
    """Return a column of numbers, with null for a missing interval; `pa.array` would load numpy.ma."""
    valid = None
    if name in ("std_error", "low", "high"):
        valid = pa.py_buffer(np.packbits(~np.isnan(values), bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, data])


def fill_estimated(table: pa.Table | pl.DataFrame, sidecar: Sidecar, output: Output) -> None:
    """Write the estimates with a sidecar at stage "estimated", whose history has the release's records."""
    past = sidecar.history
    sidecar = msgspec.structs.replace(
        sidecar,
        stage="estimated",
        records=len(table),
        tool=sidecars.TOOL,
        privacy=msgspec.UNSET,
        blake2b=msgspec.UNSET,
        history=past if past is not msgspec.UNSET else [sidecars.Past.of(sidecar)],
    )
    output.fill_frame(table, sidecar)


def table_remarks(tables: Sequence[EstimatedTable], estimator: str) -> list[str]:
    """Return the remarks on the tables: about missing intervals, and those that may mislead."""
    remarks = sampled(tables)
    channels = {c.name: c for t in tables for c in t.axes if not c.kept}
    blind = [n for n, c in channels.items() if not c.matrix.invertible]
    if blind:
        remarks.append(
            f"No intervals where {', '.join(blind)} takes part: the noise is too wide for an unbiased "
            "estimate, so only the EM estimate is given. See `ppdm inspect` for the condition number."
        )
    rest = [t for t in tables if not {a.name for a in t.axes} & set(blind)]
    under_noise = [t for t in rest if any(c.noise is not None for c in t.axes)]
    heaped = [t.name for t in under_noise if t.interval.missing == t.estimate.size]
    if heaped:
        remarks.append(
            f"No intervals for {', '.join(heaped)}: some would exclude their own estimate, so none can be "
            "trusted. With additive noise they assume that originals are spread evenly within their bins."
        )
    binned = [t for t in under_noise if any(isinstance(a.domain, Bins) for a in t.axes)]
    even = [t.name for t in binned if t.name not in heaped]
    if even:
        remarks.append(
            f"The intervals for {', '.join(even)} hold if the originals are spread evenly within their "
            "bins. If they are heaped, as ages or hours are, most intervals may be wrong, and nothing "
            "shows it."
        )
    some = [t for t in rest if t.interval.missing and t.name not in heaped]
    if some:
        which = ", ".join(f"{t.name} ({t.interval.missing} of {t.estimate.size} counts)" for t in some)
        remarks.append(
            f"No intervals for {which}: too few values were randomised there to compute reliable ones. "
            "Combine fewer attributes, or use more records."
        )
    outside = {t.name: t.interval.without(t.estimate) for t in rest if t not in under_noise}
    if any(outside.values()):
        which = ", ".join(f"{n} ({count})" for n, count in outside.items() if count)
        unbiased = argument("estimator", "inverse")
        why = f"Intervals belong to the unbiased estimate, which {unbiased} shows."
        if estimator == "inverse":
            why = "Unbiased estimates may be below 0, and intervals are cut to what is possible."
        remarks.append(f"Estimates outside their interval: {which}. {why}")
    vague = [t.name for t in tables if t.too_wide]
    if vague:
        remarks.append(
            f"The intervals for {', '.join(vague)} are wider than the counts: there are too few records for so "
            "many values. Ask for fewer attributes together, or query ranges of values."
        )
    return remarks


def sampled(tables: Sequence[EstimatedTable]) -> list[str]:
    """Return the sentence on how many records the estimates are from, if records withhold attributes."""
    if tables[0].sampled is None:
        return []
    by_number = sorted((t.all_records, t.name) for t in tables)
    least, most = by_number[0][0], by_number[-1][0]
    number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    what = by_number[0][1] if len(tables) == 1 else "Each attribute"
    return [f"{what}: estimated from {number} of {tables[0].records:,} records. Intervals cover all records."]


def against_truth(tables: Sequence[EstimatedTable], population: bool) -> list[str]:
    """Return a warning about an original that fits a release too well or too badly; refuse a copy of it.

    Counts equal to the published ones may be chance if few values change. Those of a reconstruction lie nearer
    to the estimates than by chance, if none of these is below 0, and those of other records further away.
    """
    rows = [(t, t.truth) for t in tables if t.truth is not None and not all(c.kept for c in t.axes)]
    if rows and all(np.array_equal(t.published, truth) for t, truth in rows):
        chance = sum(_unlikely(t, truth) for t, truth in rows)
        if chance < log(RARELY):
            what = f"{argument('truth')} names the release itself: its counts are the published ones"
            raise MismatchError("truth-is-the-release", what, OWN)
        note = "Warning: the true counts equal the published ones, so the original may be the release itself."
        return [note] if chance < log(0.05) else []
    rows = [(t, truth) for t, truth in rows if not t.interval.missing and all(c.noise is None for c in t.axes)]
    if not population and sum(_nearness(t, truth) for t, truth in rows) < log(RARELY):
        return [
            "Warning: the true counts fit the estimates better than chance allows, so they may be a "
            "reconstruction's."
        ]
    far = [t.name for t, truth in rows if t.interval.far_from(truth)]
    return [
        f"Warning: the true counts of {some(far)} don't fit the release, so they may be another table's."
    ] * bool(far)


def _nearness(table: EstimatedTable, truth: np.ndarray) -> float:
    """Return the logarithm of the chance that unbiased estimates are all as near to the true counts, about."""
    if table.observed is None or table.observed.size != truth.size:
        return 0.0
    unbiased = by_attribute(inverse(table.observed, [c.law for c in table.axes]), table.axes, table.names)
    largest = float(
        (np.maximum(np.abs(truth - unbiased), 0.5) / np.maximum(table.interval.std_error, 0.5)).max()
    )
    free = prod(c.domain.size - (not c.kept) for c in table.axes)
    return free * log(min(0.8 * largest, 1.0))


def _unlikely(table: EstimatedTable, truth: np.ndarray) -> float:
    """Return the logarithm of the chance that counts are published as they are, by how many values change."""
    cells, records = int(np.count_nonzero(truth)), float(truth.sum())
    stays: float = np.prod([1.0 if c.kept else float(c.matrix.stays().mean()) for c in table.axes]).item()
    each = 2 * records * (1 - stays) / max(cells, 1)
    return -0.5 * max(cells - 1, 0) * log(max(2 * pi * each, 1.0))

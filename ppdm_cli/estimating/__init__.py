"""The miner's first half: original distributions, with honest error bars, from a release alone.

Dowd et al. 3.2 and 3.3, and past them: the counts of any combination of attributes, by class, with
intervals that cover what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ppdm_cli.channels import Channel
from ppdm_cli.domain import Bins
from ppdm_cli.errors import MismatchError, UsageError, counted, quoted, unknown_column
from ppdm_cli.estimating.counts import MOST_CELLS, Group, count, encoded, joint_codes
from ppdm_cli.estimating.estimators import (
    DEFAULT,
    ESTIMATORS,
    Matrices,
    largest_remainder,
    maximum_likelihood,
)
from ppdm_cli.estimating.expectation import TINY, Steps, Stop, Tables, forward, shares
from ppdm_cli.estimating.intervals import Interval, intervals, no_intervals
from ppdm_cli.estimating.results import as_frame, fill
from ppdm_cli.files import one_run
from ppdm_cli.releases import OWN, open_original, open_releases
from ppdm_cli.shown import Shown
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.stats import Z
from ppdm_cli.tables import CsvOptions

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DEFAULT",
    "ESTIMATORS",
    "MOST_CELLS",
    "TINY",
    "Estimate",
    "Estimated",
    "Steps",
    "Stop",
    "Tables",
    "as_frame",
    "count",
    "encoded",
    "estimate",
    "fill",
    "forward",
    "joint_codes",
    "largest_remainder",
    "matrices_of",
    "maximum_likelihood",
    "shares",
]


@dataclass(frozen=True, repr=False)
class Estimated(Shown):
    """The estimate of one table of counts: of an attribute, by class, or of several jointly."""

    group: Group
    by: bool
    """Whether the first axis is the class."""
    observed: np.ndarray
    estimate: np.ndarray
    interval: Interval
    truth: np.ndarray | None = None

    @property
    def unchanged(self) -> np.ndarray:
        """Return the published counts of each value itself; what lies beyond the domain is left out."""
        seen = self.observed
        for axis, matrix in enumerate(matrices_of(self.group)):
            if matrix is not None:
                seen = matrix.seen(seen, axis)
        return seen

    def _words(self) -> list[str]:
        by = [f"by {quoted(self.group[0].name)}"] if self.by else []
        return [self.name, *by, counted(self.estimate.size, "count")]

    @property
    def name(self) -> str:
        return " x ".join(a.name for a in self.group[self.by :])

    @property
    def error(self) -> float | None:
        """Return the paper's E: sum |Xhat - X| / sum X."""
        if self.truth is None or not self.truth.any():
            return None
        return float(np.abs(self.estimate - self.truth).sum() / self.truth.sum())

    @property
    def says_nothing(self) -> bool:
        """Return whether the intervals are wider than the counts that they are about."""
        # by their standard errors: cut to [0, n], an interval of two values could never be so wide
        return Z * float(self.interval.std_error.mean()) > float(self.observed.mean())


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """What `estimate` gives."""

    tables: list[Estimated]
    sidecar: Sidecar
    estimator: str
    remarks: list[str] = field(default_factory=list)

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        return as_frame(self.tables)

    def _words(self) -> list[str]:
        records = counted(int(self.tables[0].observed.sum()), "record")
        return [records, f"estimator {self.estimator}", *(t.name for t in self.tables)]

    def _body(self) -> Any:
        return self.frame


@one_run()
def estimate(
    data: Any,
    *,
    sidecar: Sidecar | str | Path | None = None,
    attributes: Sequence[str] = (),
    by: str | None = None,
    joint: Sequence[str] = (),
    estimator: str = DEFAULT,
    truth: Any = None,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Estimate:
    """Estimate the original counts of a release, or of several with the same plan.

    `attributes` picks some; `by` names a class; `joint` asks for the combinations of two or three;
    `truth` is the original, where one has it, to measure the error.
    """
    if estimator not in ESTIMATORS:
        raise UsageError(f"unknown estimator {quoted(estimator)}", f"one of {', '.join(ESTIMATORS)}")
    table, sidecar = open_releases(data, sidecar, from_)
    groups = _groups(sidecar, attributes, by, joint)
    observed = count(table, groups)
    true_counts: Sequence[np.ndarray | None] = [None] * len(groups)
    if truth is not None:
        true_counts = _true_counts(truth, groups, observed, csv)
    tables = [
        _estimated(g, by is not None, y, estimator, x)
        for g, y, x in zip(groups, observed, true_counts, strict=True)
    ]
    return Estimate(tables, sidecar, estimator, _remarks(tables, estimator))


def matrices_of(group: Group) -> Matrices:
    """Return the matrices along the axes of a table; a kept attribute has none."""
    return [channel.law for channel in group]


def _estimated(
    group: Group, by: bool, observed: np.ndarray, estimator: str, truth: np.ndarray | None
) -> Estimated:
    matrices = matrices_of(group)
    estimate, interval = ESTIMATORS[estimator](observed, matrices), intervals(observed, matrices)
    if any(c.noise is not None for c in group):
        # where originals are heaped in their bins all intervals are wrong, not only those that show it; the
        # likeliest counts show it whichever estimator is asked for
        likeliest = estimate if estimator == "ml" else maximum_likelihood(observed, matrices)
        if interval.without(likeliest) or interval.without(np.maximum(estimate, 0.0)):
            interval = no_intervals(estimate.shape)
    return Estimated(group, by, observed, estimate, interval, truth)


def _groups(sidecar: Sidecar, names: Sequence[str], by: str | None, joint: Sequence[str]) -> list[Group]:
    known = {a.name: a for a in sidecar.attributes}
    for option, asked in (("--attribute", names), ("--joint", joint), ("--by", [by] if by else [])):
        for name in asked:
            if name not in known:
                raise unknown_column(name, known, option)
    if joint:
        if names or by:
            raise UsageError("--joint goes with neither --attribute nor --by", "name the class in --joint")
        if len(set(joint)) != len(joint) or not 2 <= len(joint) <= 3:
            raise UsageError("--joint takes two or three different attributes", "such as --joint age,salary")
        return [tuple(_axis(sidecar, n) for n in joint)]
    chosen = [known[n] for n in dict.fromkeys(names)] if names else sidecar.perturbed
    for attribute in chosen:
        if attribute.role == "kept" and not by:
            raise UsageError(
                f"{quoted(attribute.name)} was published unchanged: there is nothing to estimate",
                "name a perturbed attribute",
            )
    if by is None:
        return [(sidecar.axis(a.name),) for a in chosen]
    label = _axis(sidecar, by)
    rest = [sidecar.axis(a.name) for a in chosen if a.name != by and a.role == "perturbed"]
    if not rest:
        raise UsageError("nothing is left to estimate by class", "name an attribute besides the class")
    return [(label, a) for a in rest]


def _axis(sidecar: Sidecar, name: str) -> Channel:
    if not sidecar.by_name[name].has_domain:
        raise MismatchError(
            f"the sidecar lists no values of {quoted(name)}",
            "ask the owner for a release whose class is named (perturb --class), from a file",
        )
    return sidecar.axis(name)


def _true_counts(
    truth: Any,
    groups: Sequence[Group],
    observed: Sequence[np.ndarray],
    csv: CsvOptions | None,
) -> list[np.ndarray]:
    original = open_original(truth, {c.name: c.kind for g in groups for c in g}, csv)
    same = f"{OWN}; where values were clipped or merged for it, do the same to them"
    counts = count(original, groups, original=True, outside=same)
    rows, expected = int(counts[0].sum()), int(observed[0].sum())
    if rows != expected:
        raise MismatchError(
            f"the original has {counted(rows, 'record')}, the release {expected}",
            OWN,
        )
    return counts


def _remarks(tables: Sequence[Estimated], estimator: str) -> list[str]:
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
    heaped = [t.name for t in under_noise if np.isnan(t.interval.low).any()]
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
    outside = {t.name: t.interval.without(t.estimate) for t in rest if t not in under_noise}
    if estimator != "inverse" and any(outside.values()):
        which = ", ".join(f"{n} ({count})" for n, count in outside.items() if count)
        remarks.append(
            f"Estimates outside their interval: {which}. Intervals belong to the unbiased estimate, which "
            "--estimator inverse shows."
        )
    vague = [t.name for t in tables if t.says_nothing]
    if vague:
        remarks.append(
            f"The intervals for {', '.join(vague)} are wider than the counts: there are too few records for so "
            "many values at this gamma or noise. Combine fewer attributes, or use more records."
        )
    return remarks

"""The miner's first half: original distributions, with honest error bars, from a release alone.

Dowd et al. 3.2 and 3.3, and past them: the counts of any combination of attributes, by class, with
intervals that cover what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ppdm_cli.arrays import Z
from ppdm_cli.display import Displayed
from ppdm_cli.domain import Domain
from ppdm_cli.errors import counted, quoted, unknown
from ppdm_cli.estimating.counts import (
    MOST_CELLS,
    columns_of,
    count,
    encoded,
    joint_codes,
    kept_codes,
    tabulated,
)
from ppdm_cli.estimating.effective import estimates
from ppdm_cli.estimating.estimators import (
    DEFAULT,
    ESTIMATORS,
    Matrices,
    largest_remainder,
    maximum_likelihood,
    project,
)
from ppdm_cli.estimating.expectation import TINY, Part, Steps, Stop, Tables, forward, shares
from ppdm_cli.estimating.groups import Group, check_names, groups_of, with_kept
from ppdm_cli.estimating.intervals import FEWEST, Coverage, Interval, intervals, no_intervals
from ppdm_cli.estimating.mixture import Mixture, check_work
from ppdm_cli.estimating.recipes import Kind, Recipes, Way, Ways, fair, never_together
from ppdm_cli.estimating.remarks import against_truth, remarks, shown_by
from ppdm_cli.estimating.results import as_frame, fill
from ppdm_cli.estimating.several import axes_of, by_attribute, summed
from ppdm_cli.estimating.shown import Showing, axis_of
from ppdm_cli.files import one_run
from ppdm_cli.releases import OWN, open_original, open_releases, opened, other_rows
from ppdm_cli.sidecar import Attribute, Sidecar
from ppdm_cli.tables import CsvOptions, Groups, Table

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DEFAULT", "ESTIMATORS", "FEWEST", "MOST_CELLS", "TINY", "Coverage", "Estimate", "Estimated", "Group",
    "Kind", "Mixture", "Part", "Recipes", "Showing", "Steps", "Stop", "Tables", "Way", "Ways", "as_frame",
    "axes_of", "axis_of", "by_attribute", "check_work", "columns_of", "count", "encoded", "estimate",
    "estimates", "fair", "fill", "forward", "joint_codes", "kept_codes", "largest_remainder", "matrices_of",
    "maximum_likelihood", "never_together", "project", "shares", "tabulated", "with_kept",
]  # fmt: skip


Original = Callable[[Sequence[Attribute]], Table] | None
"""What opens the original with some of its columns, where there is one."""


@dataclass(frozen=True, repr=False)
class Estimated(Displayed):
    """The estimate of one table of counts: of an attribute, by class, or of several jointly."""

    group: Group
    """The axes of what was observed."""
    names: tuple[str, ...]
    """The attributes that it is of: some share an axis."""
    by: bool
    """Whether the first axis is the class."""
    observed: np.ndarray
    estimate: np.ndarray
    interval: Interval
    truth: np.ndarray | None = None
    records: np.ndarray | None = None
    """Where records differ in their recipes, how many each count is estimated from, and all together."""
    all_records: int = 0

    @property
    def unchanged(self) -> np.ndarray:
        """Return the published counts of each value itself; what lies beyond the domain is left out."""
        seen = self.observed
        if self.records is not None:
            return seen
        for axis, channel in enumerate(self.group):
            if channel.law is not None:
                seen = channel.law.seen(seen, axis)
        return by_attribute(seen, self.group, self.names)

    @property
    def domains(self) -> list[Domain]:
        known = {n: p for c in self.group for n, p in c.each()}
        return [known[n] for n in self.names]

    def _words(self) -> list[str]:
        by = [f"by {quoted(self.names[0])}"] if self.by else []
        return [self.name, *by, counted(self.estimate.size, "count")]

    @property
    def name(self) -> str:
        return " x ".join(self.names[self.by :])

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
        known = self.interval.std_error[~np.isnan(self.interval.std_error)]
        seen = self.observed if self.records is None else self.estimate
        return known.size > 0 and Z * float(known.mean()) > float(seen.sum()) / self.estimate.size


@dataclass(frozen=True, repr=False)
class Estimate(Displayed):
    """What `estimate` gives."""

    tables: list[Estimated]
    sidecar: Sidecar
    estimator: str
    coverage: Coverage
    """What the intervals are to cover, and how often."""
    records: int
    """How many the release has."""
    remarks: list[str] = field(default_factory=list)

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        return as_frame(self.tables)

    def _words(self) -> list[str]:
        records = counted(self.records, "record")
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
    bins: int | None = None,
    estimator: str = DEFAULT,
    level: float = 0.95,
    simultaneous: bool = False,
    population: bool = False,
    truth: Any = None,
    csv: CsvOptions | None = None,
    mappings: Sequence[Groups] = (),
    from_: Literal["arrow", "csv"] | None = None,
) -> Estimate:
    """Estimate the original counts of a release, or of several with the same plan.

    `attributes` picks some; `by` names a class or another column, perturbed or kept; `joint` asks for the
    combinations of two or three. `bins` is for kept numbers that are crossed so. Intervals cover with a
    probability of `level`: each, or all of a table together (`simultaneous`); these records' counts, or those
    of a sample's `population`. `truth` is the original, where one has it, to measure the error.
    """
    if estimator not in ESTIMATORS:
        raise unknown("estimator", estimator, ESTIMATORS)
    coverage, original = Coverage(level, simultaneous, population), None
    if truth is not None:
        original = partial(open_original, truth, csv=csv, mappings=mappings)
    with ExitStack() as stack:
        table, sidecar = open_releases(data, sidecar, from_, withholding=True)
        check_names(sidecar, attributes, by, joint)
        crossed = [*joint, *([by, *attributes] if by else [])]
        table, sidecar = with_kept(table, sidecar, crossed, bins, stack)
        asked = groups_of(sidecar, attributes, by, joint)
        if opened(sidecar).withholding:
            return _of_several(table, sidecar, asked, by is not None, estimator, coverage, original)
        groups = [axes_of(sidecar, names) for names in asked]
        observed = count(table, groups)
    records = int(observed[0].sum())
    true = _true_counts(original, sidecar, groups, records)
    tables = [
        _estimated(g, names, by is not None, y, estimator, coverage, x)
        for g, names, y, x in zip(groups, asked, observed, true, strict=True)
    ]
    said = [*remarks(tables, estimator), *against_truth(tables, coverage.population)]
    return Estimate(tables, sidecar, estimator, coverage, records, said)


def _of_several(
    table: Table,
    sidecar: Sidecar,
    asked: Sequence[tuple[str, ...]],
    by: bool,
    estimator: str,
    coverage: Coverage,
    original: Original,
) -> Estimate:
    """Estimate tables of a release with several recipes."""
    done, records = estimates(table, sidecar, asked, estimator, coverage)
    groups = [tuple(axis_of(sidecar, n) for n in names) for names in asked]
    true = _true_counts(original, sidecar, groups, records)
    tables = [
        Estimated(g, names, by, d.observed, d.estimate, d.interval, x, d.records, d.all_records)
        for g, names, d, x in zip(groups, asked, done, true, strict=True)
    ]
    said = [*shown_by(tables, records), *remarks(tables, estimator)]
    said += against_truth(tables, coverage.population)
    return Estimate(tables, sidecar, estimator, coverage, records, said)


def matrices_of(group: Group) -> Matrices:
    """Return the matrices along the axes of a table; a kept attribute has none."""
    return [channel.law for channel in group]


def _estimated(
    group: Group,
    names: tuple[str, ...],
    by: bool,
    observed: np.ndarray,
    estimator: str,
    coverage: Coverage,
    truth: np.ndarray | None,
) -> Estimated:
    matrices = matrices_of(group)
    estimate = ESTIMATORS[estimator](observed, matrices)
    likeliest = estimate if estimator == "ml" else maximum_likelihood(observed, matrices)
    laws, counts = summed(group, names, likeliest)
    interval = intervals(observed, laws, coverage, counts)
    if any(c.noise is not None for c in group):
        # where originals are heaped in their bins all intervals are wrong, not only those that show it; the
        # likeliest counts show it whichever estimator is asked for
        usual = intervals(observed, matrices, Coverage(), likeliest)
        if usual.without(likeliest) or usual.without(np.maximum(estimate, 0.0)):
            interval = no_intervals(estimate.shape)
    turned = [by_attribute(part, group, names, names) for part in interval.parts]
    true = None if truth is None else by_attribute(truth, group, names)
    return Estimated(group, names, by, observed, by_attribute(estimate, group, names), Interval(*turned), true)


def _true_counts(
    original: Original, sidecar: Sidecar, groups: Sequence[Group], records: int
) -> Sequence[np.ndarray | None]:
    if original is None:
        return [None] * len(groups)
    names = dict.fromkeys(n for g in groups for c in g for n, _ in c.each())
    table = original([sidecar.by_name[n] for n in names])
    counts = count(table, groups, original=True, outside=OWN)
    rows = int(counts[0].sum())
    if rows != records:
        raise other_rows(rows, records)
    return counts

"""Estimates for the miner: original distributions, with honest error bars, from a release alone.

Dowd et al. 3.2 and 3.3, extended to the counts of any combination of attributes, by class, with intervals that
cover as often as they promise. `joint`, `querying`, `reconstructing`, `networks` and `attacks` build on its
laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ppdm_cli.display import Displayed, names
from ppdm_cli.errors import counted, unknown
from ppdm_cli.estimating.em import TINY, Part, Steps, Stop, Tables, forward, shares
from ppdm_cli.estimating.estimators import (
    DEFAULT,
    ESTIMATORS,
    largest_remainder,
    maximum_likelihood,
    project,
)
from ppdm_cli.estimating.intervals import FEWEST, Coverage, Interval
from ppdm_cli.estimating.laws import MOST_WEIGHED, PooledLaw, StratumLaw, by_attribute, check_work
from ppdm_cli.estimating.questions import check_names, groups_of, with_kept
from ppdm_cli.estimating.results import against_truth, as_table, fill_estimated, table_remarks
from ppdm_cli.estimating.tables import (
    MOST_CELLS,
    CountedTable,
    EstimatedTable,
    Group,
    columns_of,
    count,
    counted_tables,
    estimated_tables,
    likeliest_counts,
    tabulated,
)
from ppdm_cli.files import one_run
from ppdm_cli.releases import OWN, open_original, open_releases, other_rows
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import CsvOptions, Groups, TableLike

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DEFAULT", "ESTIMATORS", "FEWEST", "MOST_CELLS", "MOST_WEIGHED", "TINY", "CountedTable", "Coverage",
    "Estimate", "EstimatedTable", "Group", "Interval", "Part", "PooledLaw", "Steps", "Stop", "StratumLaw",
    "Tables", "as_table", "by_attribute", "check_work", "columns_of", "count", "counted_tables", "estimate",
    "estimated_tables", "fill_estimated", "forward", "largest_remainder", "likeliest_counts",
    "maximum_likelihood", "project", "shares", "tabulated", "with_kept",
]  # fmt: skip


@dataclass(frozen=True, repr=False)
class Estimate(Displayed):
    """The result of `estimate`."""

    tables: list[EstimatedTable]
    sidecar: Sidecar
    estimator: str
    coverage: Coverage
    """The coverage of the intervals."""
    records: int
    """The number of records in the release."""
    remarks: list[str] = field(default_factory=list)

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        return pl.DataFrame(as_table(self.tables))

    def _words(self) -> list[str]:
        records = counted(self.records, "record")
        return [records, f"estimator {self.estimator}", *(t.name for t in self.tables)]

    def _body(self) -> object:
        return self.frame


@one_run()
def estimate(
    data: TableLike,
    *,
    sidecar: Sidecar | str | Path | None = None,
    attributes: str | Sequence[str] = (),
    by: str | None = None,
    joint: str | Sequence[str] = (),
    bins: int | None = None,
    estimator: str = DEFAULT,
    level: float = 0.95,
    simultaneous: bool = False,
    population: bool = False,
    truth: TableLike | None = None,
    csv: CsvOptions | None = None,
    mappings: Sequence[Groups] = (),
    rows_taken: str | Path | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Estimate:
    """Estimate the original counts of a release, or of several with the same plan.

    Intervals are always of the unbiased estimate, whichever `estimator` gives the counts.

    Parameters
    ----------
    data : path, table or list of paths
        The release, or several releases made with the same plan.
    sidecar : Sidecar, path or None, default None
        The sidecar of a table in memory, or of a file without its own beside it.
    attributes : sequence of str, default all that were perturbed
        The attributes to estimate, each separately.
    by : str or None, default None
        A class or another column, perturbed or kept, by whose values each attribute is estimated.
    joint : sequence of str, default ()
        Two or three attributes whose combinations are estimated, instead of each separately.
    bins : int or None, default None
        The number of bins in which kept numbers are crossed with others; None takes them value by value.
    estimator : {"ml", "inverse", "set-scale", "simplex"}, default "ml"
        The estimator of counts: the most likely, the unbiased, the paper's, or the nearest possible ones.
    level : float, default 0.95
        The probability with which intervals cover.
    simultaneous : bool, default False
        True for intervals of a table that cover together.
    population : bool, default False
        True for intervals about the population that the records are a sample of.
    truth : path, table or None, default None
        The original, to measure the error against.
    csv : CsvOptions or None, default None
        The options for reading a CSV file of the original.
    mappings : sequence of Groups, default ()
        The files by which text was grouped before it was perturbed, for the original.
    rows_taken : path or None, default None
        The file of rows of the original that the release has, as `perturb` wrote it.
    from_ : {"arrow", "csv"} or None, default None
        The format of a release on standard input.
    """
    attributes, joint = names("attributes", attributes), names("joint", joint)
    if estimator not in ESTIMATORS:
        raise unknown("estimator", estimator, ESTIMATORS)
    coverage = Coverage(level, simultaneous, population)
    with ExitStack() as stack:
        table, sidecar = open_releases(data, sidecar, from_)
        check_names(sidecar, attributes, by, joint)
        crossed = [*joint, *([by, *attributes] if by else [])]
        table, sidecar = with_kept(table, sidecar, crossed, bins, stack)
        asked = groups_of(sidecar, attributes, by, joint)
        tables, records = estimated_tables(table, sidecar, asked, estimator, coverage)
    tables = [replace(t, by=by is not None) for t in tables]
    columns = [sidecar.by_name[n] for n in dict.fromkeys(n for t in tables for n in columns_of(t.axes))]
    original = open_original(truth, columns, csv, mappings, rows_taken, sidecar)
    if original is not None:
        counts = count(original, [t.axes for t in tables], original=True, outside=OWN)
        if (rows := int(counts[0].sum())) != records:
            raise other_rows(rows, records)
        each = zip(tables, counts, strict=True)
        tables = [replace(t, truth=by_attribute(c, t.axes, t.names)) for t, c in each]
    said = [*table_remarks(tables, estimator), *against_truth(tables, coverage.population)]
    return Estimate(tables, sidecar, estimator, coverage, records, said)

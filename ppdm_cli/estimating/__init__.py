"""Estimates for the miner: original distributions, with honest error bars, from a release alone.

Dowd et al. 3.2 and 3.3, extended to the counts of any combination of attributes, by class, with intervals that
cover as often as they promise. `joint`, `querying`, `reconstructing`, `networks` and `attacks` build on its
laws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ppdm_cli import dtypes
from ppdm_cli.display import Displayed, names
from ppdm_cli.domain import Bins, Categories, nice_edges
from ppdm_cli.engine import Facts, facts_of
from ppdm_cli.errors import UsageError, argument, counted, quoted, unknown, unknown_column
from ppdm_cli.estimating.em import TINY, Part, Steps, Stop, Tables, forward, shares
from ppdm_cli.estimating.estimators import (
    DEFAULT,
    ESTIMATORS,
    FEWEST,
    Coverage,
    Interval,
    largest_remainder,
    maximum_likelihood,
    project,
)
from ppdm_cli.estimating.laws import MOST_WEIGHED, PooledLaw, StratumLaw, by_attribute, check_work
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
from ppdm_cli.releases import OWN, open_original, open_releases, other_rows, spooled
from ppdm_cli.sidecar import Attribute, Sidecar
from ppdm_cli.tables import CsvOptions, Groups, Table, TableLike

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DEFAULT", "ESTIMATORS", "FEWEST", "MOST_CELLS", "MOST_WEIGHED", "TINY", "CountedTable", "Coverage",
    "Estimate", "EstimatedTable", "Group", "Interval", "Part", "PooledLaw", "Steps", "Stop", "StratumLaw",
    "Tables", "as_table", "by_attribute", "check_work", "columns_of", "count", "counted_tables", "estimate",
    "estimated_tables", "fill_estimated", "forward", "largest_remainder", "likeliest_counts",
    "maximum_likelihood", "project", "shares", "tabulated", "with_kept",
]  # fmt: skip

MOST_KEPT = 1000
"""The most values of a kept column that are crossed with others one by one."""


@dataclass(frozen=True, repr=False)
class Estimate(Displayed):
    """The result of `estimate`."""

    tables: list[EstimatedTable]
    sidecar: Sidecar
    estimator: str
    coverage: Coverage
    records: int
    remarks: list[str] = field(default_factory=list)

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        return pl.DataFrame(as_table(self.tables))

    def _words(self) -> list[str]:
        records = counted(self.records, "record")
        return [records, f"estimator {self.estimator}", *(t.name for t in self.tables)]


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
        _check_names(sidecar, attributes, by, joint)
        crossed = [*joint, *([by, *attributes] if by else [])]
        table, sidecar = with_kept(table, sidecar, crossed, bins, stack)
        asked = _groups_of(sidecar, attributes, by, joint)
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
    notes = [*table_remarks(tables, estimator), *against_truth(tables, coverage.population)]
    return Estimate(tables, sidecar, estimator, coverage, records, notes)


def _check_names(sidecar: Sidecar, names: Sequence[str], by: str | None, joint: Sequence[str]) -> None:
    """Check that the named attributes exist, and that the combination of arguments means something."""
    for option, asked in (("attributes", names), ("joint", joint), ("by", [by] if by else [])):
        for name in asked:
            if name not in sidecar.by_name:
                raise unknown_column(name, sidecar.by_name, option)
    if joint and (names or by):
        what = f"{argument('joint')} can't be combined with {argument('attributes')} or {argument('by')}"
        raise UsageError("joint-with-others", what, f"name the class in {argument('joint')}")
    if joint and (len(set(joint)) != len(joint) or not 2 <= len(joint) <= 3):
        what = f"{argument('joint')} takes two or three different attributes"
        raise UsageError("joint-of-two-or-three", what, f"try {argument('joint', ['age', 'salary'])}")
    kept = [n for n in (*names, *joint) if sidecar.by_name[n].role == "kept"]
    if kept and (
        (not by and not joint) or len(kept) == len(joint) or (by and sidecar.by_name[by].role == "kept")
    ):
        what = f"{quoted(kept[0])} was published unchanged: there is nothing to estimate"
        raise UsageError("nothing-to-estimate", what, "name a perturbed attribute")


def _groups_of(
    sidecar: Sidecar, names: Sequence[str], by: str | None, joint: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the attributes of each table; the first is `by`, if it is given."""
    if joint:
        return [tuple(joint)]
    chosen = list(dict.fromkeys(names)) or [a.name for a in sidecar.perturbed]
    if by is None:
        return [(n,) for n in chosen]
    rest = [n for n in chosen if n != by]
    if not rest:
        what = "nothing is left to estimate by class"
        raise UsageError("nothing-to-estimate", what, "name another attribute than the class")
    return [(by, n) for n in rest]


def with_kept(
    table: Table, sidecar: Sidecar, crossed: Iterable[str], bins: int | None, stack: ExitStack
) -> tuple[Table, Sidecar]:
    """Return the release with a domain for each of these columns; a kept one's is read from it."""
    unlisted = [a for n in dict.fromkeys(crossed) if not (a := sidecar.by_name[n]).has_domain]
    if bins is not None and (bins < 2 or all(dtypes.is_discrete(a.kind) for a in unlisted)):
        what = f"{argument('bins')} takes 2 or more, for kept columns of numbers that others are crossed with"
        raise UsageError("bins-not-usable", what, f"try {argument('by', 'age')} {argument('bins', 10)}")
    if not unlisted:
        return table, sidecar
    table = spooled(table, stack)
    limits = {a.name: bins if bins and not dtypes.is_discrete(a.kind) else MOST_KEPT for a in unlisted}
    facts = facts_of(table, limits)
    found = {a.name: _listed(a, facts.get(a.name), bins) for a in unlisted}
    attributes = [found.get(a.name, a) for a in sidecar.attributes]
    listed = msgspec.structs.replace(sidecar, attributes=attributes)
    return table, listed


def _listed(attribute: Attribute, facts: Facts | None, bins: int | None) -> Attribute:
    """Return a kept attribute with the domain that its column shows."""
    name, kind = attribute.name, attribute.kind
    if facts is None or (facts.values is not None and not facts.values):
        raise UsageError("no-values", f"the kept column {quoted(name)} has no values", "cross another column")
    nulls = facts.nulls > 0
    if facts.values is not None:
        return msgspec.structs.replace(attribute, **Categories(kind, sorted(facts.values), nulls).written())
    if bins is None or dtypes.is_discrete(kind):
        what = f"the kept column {quoted(name)} has more than {MOST_KEPT} values, too many to cross with others"
        bins_step = f"use bins, such as {argument('bins', 10)}"
        step = "cross another column" if dtypes.is_discrete(kind) else bins_step
        raise UsageError("too-many-kept-values", what, step)
    cut = Bins(kind, nice_edges(facts.low, facts.high, bins, kind), nulls)
    return msgspec.structs.replace(attribute, **cut.written())

"""Answers from a release: means, sums, shares, variances, quantiles, by group and condition, unbiased.

They are computed from the counts of what was published, with weights that undo the channels, never from a
reconstruction; with standard errors and intervals that have all covariances in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ppdm_cli.display import Displayed
from ppdm_cli.domain import Bins, unit
from ppdm_cli.errors import counted, quoted
from ppdm_cli.estimating import Coverage, fill_estimated
from ppdm_cli.files import one_run
from ppdm_cli.querying.answering import Row, answers_in, difference
from ppdm_cli.querying.functions import holm
from ppdm_cli.querying.question import Aggregate, Column, Question, parts, read_question
from ppdm_cli.releases import open_releases
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import TableLike

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Answers", "fill_estimated", "query"]

_FIGURES = ("value", "std_error", "low", "high", "worth")
_BESIDE = ("against", "difference", "difference_low", "difference_high")


@dataclass(frozen=True, repr=False)
class Answers(Displayed):
    """The answers to a question, one row for each answer and group."""

    rows: list[Row]
    by: tuple[str, ...]
    sidecar: Sidecar
    records: int
    coverage: Coverage
    remarks: list[str]
    against: Answers | None = None
    """The answers from another release, if differences from it were asked for."""

    @property
    def keys(self) -> list[str]:
        """Return the names of the columns of groups."""
        return [f"group {n}" if n in ("answer", *_FIGURES, *_BESIDE, "p", "p_holm") else n for n in self.by]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the frame by their names."""
        found: dict[str, list[Any]] = {key: [r.group[i] for r in self.rows] for i, key in enumerate(self.keys)}
        found["answer"] = [r.title for r in self.rows]
        found |= {n: [getattr(r, n) for r in self.rows] for n in _FIGURES}
        if any(r.p is not None for r in self.rows):
            p_values = [r.p for r in self.rows]
            together = iter(holm([p for p in p_values if p is not None]))
            found |= {"p": p_values, "p_holm": [None if p is None else next(together) for p in p_values]}
        if self.against is not None:
            others = {(r.group, r.title): r for r in self.against.rows}
            beside = [difference(r, others.get((r.group, r.title))) for r in self.rows]
            found |= {n: [b[i] for b in beside] for i, n in enumerate(_BESIDE)}
        return found

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        words = [*self.keys, "answer"]
        return pl.DataFrame(
            [pl.Series(n, c, pl.String if n in words else pl.Float64) for n, c in self.columns.items()]
        )

    def _words(self) -> list[str]:
        return [counted(len(self.rows), "answer"), f"from {counted(self.records, 'record')}"]


@one_run()
def query(
    data: TableLike,
    question: str,
    *,
    sidecar: Sidecar | str | Path | None = None,
    against: TableLike | tuple[TableLike, Sidecar] | None = None,
    bins: int | None = None,
    level: float = 0.95,
    population: bool = False,
    from_: Literal["arrow", "csv"] | None = None,
) -> Answers:
    """Answer a question about the originals from a release: means, shares, quantiles, tests and regressions.

    Parameters
    ----------
    data : path, table or list of paths
        The release, or several releases made with the same plan.
    question : str
        A select statement without a table, such as "select mean(age) where smoker = 'yes' group by sex".
    sidecar : Sidecar, path or None, default None
        The sidecar of a table in memory, or of a file without its own beside it.
    against : path, table, pair of a table and its sidecar, or None, default None
        A release of other records; answers then have their difference from it too.
    bins : int or None, default None
        The number of bins in which kept numbers are grouped; None takes them value by value.
    level : float, default 0.95
        The probability with which intervals cover.
    population : bool, default False
        True for intervals about the population that the records are a sample of.
    from_ : {"arrow", "csv"} or None, default None
        The format of a release on standard input.
    """
    if against is not None:
        other_data, beside = against if isinstance(against, tuple) else (against, None)
        ask = partial(query, bins=bins, level=level, population=population, from_=from_)
        own, other = ask(data, question, sidecar=sidecar), ask(other_data, question, sidecar=beside)
        return replace(own, against=other, remarks=list(dict.fromkeys([*own.remarks, *other.remarks])))
    read, coverage = read_question(question), Coverage(level, False, population)
    table, sidecar = open_releases(data, sidecar, from_)
    rows, sidecar, records = answers_in(table, sidecar, read, coverage, bins)
    remarks = [*_middles(sidecar, read), *_missing(rows)]
    return Answers(rows, read.titles, sidecar, records, coverage, remarks)


def _middles(sidecar: Sidecar, question: Question) -> list[str]:
    """Return the remark on numbers that are the middles of bins."""
    used = [
        p.name
        for item in question.items
        for a in parts(item.answer)
        if isinstance(a, Aggregate) and a.function not in ("count", "share")
        for p in parts(a)
        if isinstance(p, Column)
    ]
    middles = []
    for name in dict.fromkeys(used):
        attribute = sidecar.by_name[name]
        if attribute.role == "perturbed" and isinstance(domain := attribute.domain, Bins):
            first, last = domain.edges[:-1].astype(float), domain.tops()
            half = (last - first).max() / 2 * unit(domain.kind)
            middles.append(f"{quoted(name)} ({half:,.6g})")
    sentences = []
    if middles:
        sentences.append(
            "Each value counts as the middle of its bin. It may differ from that by at most: "
            f"{', '.join(middles)}. "
            "The intervals leave this out. Quantiles spread values evenly inside bins."
        )
    return sentences


def _missing(rows: Sequence[Row]) -> list[str]:
    sentences = []
    if none := sum(r.value is None for r in rows):
        sentences.append(
            f"Missing answers: {none}. They divide by estimates that may be 0, because the noise is as large. "
            "Ask about larger groups."
        )
    coarse = sum(r.value is not None and r.low is None and r.p is None for r in rows)
    if coarse:
        sentences.append(
            f"Missing intervals: {coarse}. Too few values were randomised there to compute a reliable one."
        )
    if beyond := sum(_is_beyond(r) for r in rows):
        sentences.append(
            f"Answers outside their interval: {beyond}. An unbiased value may be impossible, such as a "
            "share below 0, but intervals are cut to possible values."
        )
    return sentences


def _is_beyond(row: Row) -> bool:
    """Return whether an answer lies outside its interval, by more than rounding."""
    if row.value is None or row.low is None or row.high is None:
        return False
    least = 1e-9 * max(abs(row.low), abs(row.high), 1e-9)
    return not row.low - least <= row.value <= row.high + least

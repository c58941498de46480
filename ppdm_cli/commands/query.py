"""`ppdm query`: answer questions about the originals from a release."""

from __future__ import annotations

from decimal import Decimal
from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.command import Command, Report, results
from ppdm_cli.errors import UsageError, counted, quoted, word

if TYPE_CHECKING:
    from ppdm_cli.querying import Answers


@click.command(
    "query",
    cls=Command,
    epilog="""\b
Examples:
  ppdm query release.parquet 'select mean(age), share(smoker = "yes") group by sex'
  ppdm query release.parquet 'select quantile(income, .9), count() where age >= 40' --population
  ppdm query release.parquet \\
    'select mean(age) filter (where sex = "F") - mean(age) filter (where sex = "M") as gap'
  ppdm query march.parquet --against february.parquet 'select share(outcome = "well")'

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 a sidecar and its data, or two releases, do not
fit, 4 this kind of release cannot answer it. Memory: proportional to the combinations of the
values that an answer touches, not to the records.""",
)
@options.files_argument("release", required=False, metavar="RELEASE...")
@click.argument("question", metavar="'SELECT ...'")
@options.file_option(
    "--against", metavar="OTHER", help="Add the differences from the answers of this release of other records."
)
@click.option(
    "--bins",
    type=int,
    metavar="N",
    help="Group kept numbers in GROUP BY and quantiles into at most N bins of a round width.  [default: "
    "value by value]",
)
@click.option(
    "--level",
    type=float,
    default=0.95,
    show_default=True,
    metavar="P",
    help="Set the probability that an interval holds the truth.",
)
@click.option(
    "--population",
    is_flag=True,
    help="Widen intervals to be about the population that the records were sampled from.",
)
@options.cluster_options
@options.sidecar_option
@options.from_option
@options.formulas_option
@results(
    "Write the answers as .csv, .parquet or .arrow; - is standard output, where CSV has no sidecar.", to=True
)
def query_command(
    release: tuple[Path, ...], question: str, against: Path | None, in_file: bool, **settings: Any
) -> Report:
    """Answer a question about the originals from a RELEASE and its sidecar, without a reconstruction.

    The question is a select statement without a table: count(), sum(x), mean(x), share(condition), variance(x),
    stddev(x), corr(x, y), quantile(x, share) and median(x) of perturbed or kept columns, each with filter
    (where ...) if need be; + - * / of them, for ratios and differences of groups; where and group by.
    Tests: independent(a, b), trend(x, y), same(mean(x), a) and fits(a, 'F', .5, 'M', .5), with p-values.
    Regressions, alone: linear(y, a, b), ridge(y, 1, a, b). Every answer is unbiased. It has a standard error
    and a 95% interval (low, high), which include all covariances, and its effective number of records: how many
    original records would give an answer as certain. Intervals are about these records, or with --population
    about the population.
    """
    from ppdm_cli.querying import fill_estimated, query

    _check_order(release, question)
    done = query([str(r) for r in release], question, against=against, **settings)
    return Report(
        figures=lambda: _figures(done),
        show=lambda: _show(done, in_file),
        fill=lambda table: fill_estimated(done.frame, done.sidecar, table),
    )


def _check_order(release: tuple[Path, ...], question: str) -> None:
    """Refuse a file in the place of the question, and a question without a release."""
    from ppdm_cli.tables import path_of

    asks, file = set(question) & {" ", "("}, path_of(question)
    if not asks and (not release or file.exists()):
        step = f"end with a question: ppdm query {word(question)} 'select count()'"
        raise UsageError("not-a-question", f"{quoted(question)} is not a question", step)
    if not release:
        step = "try ppdm query r.csv 'select count()'"
        raise UsageError("question-alone", "the question comes without a release", step)


def _figures(done: Answers) -> dict[str, object]:
    return {
        "release": done.sidecar.release,
        "records": done.records,
        "level": done.coverage.level,
        "population": done.coverage.population,
        "remarks": done.remarks,
        "rows": _rows(done),
    }


def _rows(done: Answers) -> list[dict[str, Any]]:
    columns = done.columns
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _show(done: Answers, in_file: bool) -> None:
    """Print the answers and the remarks; only the remarks if the answers are in a file."""
    from ppdm_cli.commands import show

    out = show.console(stderr=in_file)
    if not in_file:
        show.say(out, [f"{counted(done.records, 'record')}; low to high is the {done.coverage}."])
        keys = [*done.keys, "answer"]
        numbers = [c for c in done.columns if c not in keys and (c != "std_error" or done.against is None)]
        titles = ["effective records" if n == "worth" else n.replace("_", " ") for n in numbers]
        rows = [[*(r[k] for k in keys), *(_rounded(r, n) for n in numbers)] for r in _rows(done)]
        show.table(out, "Answers", [*keys, *titles], rows)
    show.say(out, done.remarks)


def _rounded(row: dict[str, Any], name: str) -> Decimal | int | None:
    """Return a number with the digits that its interval leaves, as a Decimal that is shown unchanged."""
    value = row[name]
    if value is None or name == "worth":
        return None if value is None else round(value) if value >= 1 else Decimal(f"{value:.1g}")
    if name in ("p", "p_holm"):
        return Decimal(f"{value:.2g}" if value < 0.1 else f"{value:.2f}")
    reach = (row["high"] - row["low"]) / 4 if row["low"] is not None else 0.0
    if not reach > 0:
        return Decimal(f"{value:.10g}" if row["low"] is not None else f"{value:.4g}")
    digits = 1 - floor(log10(reach))
    return Decimal(f"{value:.{min(max(digits, 0), 12)}f}")

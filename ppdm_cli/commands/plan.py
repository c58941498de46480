"""`ppdm plan`: look at a table, list its problems, and write a plan for `ppdm perturb`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands.command import Command, Report
from ppdm_cli.commands.options import csv_options, file_option, files_argument

if TYPE_CHECKING:
    from ppdm_cli.planning import Proposal, ProposedColumn


@click.command(
    "plan",
    cls=Command,
    epilog="""\b
Examples:
  ppdm plan export.csv -o plan.toml
  ppdm plan export.csv -o plan.toml --record-epsilon 2 --null unknown
  ppdm perturb export.csv -o release.parquet --plan plan.toml --gamma 9

\b
Exit codes: 0 done, 1 the data or the run failed, 2 usage, 4 the data is a release already.
Memory: constant, but for some values' hashes and blocks of rows of each column.""",
)
@files_argument("data")
@file_option("-o", "--output", required=True, help="The plan, a .toml.")
@click.option("--gamma", metavar="G", help="The amplification of each attribute; else a question in the plan.")
@click.option("--rho1", type=float, metavar="P", help="With --rho2, instead of gamma: see ppdm perturb.")
@click.option("--rho2", type=float, metavar="P", help="See --rho1.")
@click.option("--record-epsilon", type=float, metavar="E", help="Instead of gamma: a budget for the record.")
@csv_options
def plan_command(data: tuple[Path, ...], output: Path, **settings: Any) -> Report:
    """Look at DATA, list all its problems at once, and write a plan that ppdm perturb runs.

    Finds how a CSV is written (delimiter, encoding, decimal comma, dates, cells for no value, leading
    zeros), identifiers and free text, columns whose values repeat as persons' do, outliers, rare
    values, columns that give each other away, an order of rows that reveals values, and the error of each
    column at several gammas. Nothing is published. The plan has names of columns and choices out of fixed
    lists, no value and no count; what only its owner can know is a question mark in it. The figures
    that are shown are private: they were counted from the data.
    """
    from ppdm_cli.planning import plan

    done = plan([str(d) for d in data], output, **settings)
    return Report(lambda: _figures(done), lambda: _show(done, output, settings["record_epsilon"]))


def _figures(done: Proposal) -> dict[str, object]:
    always = ("gamma", "alone_becomes")
    return {
        "private": "counted from the data: not for publication",
        "records": done.records,
        "columns": [asdict(c) for c in done.columns],
        "budgets": [{k: v for k, v in asdict(b).items() if k in always or v is not None} for b in done.budgets],
        "attributes": done.attributes,
        "questions": done.questions,
        "sentences": done.sentences,
        "plan": done.text,
    }


def _show(done: Proposal, output: Path, record_epsilon: float | None) -> None:
    from rich.text import Text

    from ppdm_cli.commands import show
    from ppdm_cli.errors import one_line, word

    out = show.console(stderr=True)
    if done.columns:
        budgets = [b.at for b in done.budgets]
        show.table(
            out,
            f"Private, of {done.records} records: not for publication",
            ["column", "type", "values", "no value", "proposal", "N", *(f"error at {b}" for b in budgets)],
            [
                [
                    c.column, c.type, _about(c), c.without_value, c.proposal, c.N,
                    *(show.share(c.errors[b]) for b in budgets),
                ]
                for c in done.columns
            ],
        )  # fmt: skip
    show.say(out, done.sentences)
    if done.attributes:
        budget = f"--record-epsilon {record_epsilon or 4:g} --records {done.records}"
        asked = f"ppdm entropy {budget} --plan {word(str(output))} --attributes {done.attributes}"
        show.say(out, ["To compare budgets for a whole record:"])
        out.print(Text(one_line(asked)), soft_wrap=True)  # whole, so that it can be pasted
    answer = f" Answer {', '.join(done.questions)} in it." if done.questions else ""
    show.say(out, [f"The plan is in {output}.{answer} Next:"])
    out.print(Text(one_line(f"ppdm perturb DATA -o RELEASE --plan {word(str(output))}")), soft_wrap=True)


def _about(column: ProposedColumn) -> str:
    """Return the number of values; of many an estimate."""
    if column.values is None:
        return ""
    return str(column.values) if column.values_exact else f"about {column.values:.2g}"

"""`ppdm plan`: look at a table, list its problems, and write a plan for `ppdm perturb`."""

from __future__ import annotations

import shlex
import signal
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands.command import Command, Report
from ppdm_cli.commands.options import csv_options, file_option, files_argument, pair

if TYPE_CHECKING:
    from ppdm_cli.planning import Proposal, ProposedColumn


@click.command(
    "plan",
    cls=Command,
    epilog="""\b
Examples:
  ppdm plan export.csv -o plan.toml --record-epsilon 2
  ppdm plan export.csv -o plan.toml -i
  ppdm perturb export.csv -o release.parquet --plan plan.toml --odd null

\b
Exit codes: 0 done, 1 the data or the run failed, 2 usage, 4 the data is a release already.
Memory: constant, with hashes of some values and some rows of each column.""",
)
@files_argument("data")
@file_option("-o", "--output", required=True, help="Write the plan here, a .toml.")
@file_option("--plan", help="Start from an earlier plan, and keep its settings and answers.")
@click.option(
    "-i",
    "--interactive",
    is_flag=True,
    help="Ask each open question of the plan here, and show what answers cost.",
)
@click.option(
    "--record-epsilon",
    type=float,
    metavar="E",
    help="Set a budget for the whole record. Without one the plan asks.",
)
@click.option(
    "--gamma",
    metavar="G",
    help="For experiments, instead of --record-epsilon: the amplification of each attribute.",
)
@click.option(
    "--rho1", type=float, metavar="P", help="With --rho2, instead of --gamma: see ppdm perturb --help."
)
@click.option("--rho2", type=float, metavar="P", help="See --rho1.")
@click.option(
    "--person", metavar="COL", help="Protect persons, whom this column identifies; '' if records are persons."
)
@click.option(
    "--rows-per-person",
    type=int,
    metavar="m",
    help="Publish at most this many records of a person.  [default: 1]",
)
@click.option("--keep", multiple=True, metavar="COL", help="Publish a column unchanged; repeatable.")
@click.option("--drop", multiple=True, metavar="COL", help="Leave a column out; repeatable.")
@click.option(
    "--domain", "domains", multiple=True, metavar="COL=DOMAIN", help="Declare a domain: age=0:120; repeatable."
)
@click.option(
    "--open-domains",
    is_flag=True,
    default=None,
    help="Leave room in domains for later batches, and ask how far dates go on.",
)
@file_option(
    "--explore", help="Write a private page, .html, to compare budgets, columns and bins before you choose."
)
@csv_options
def plan_command(
    data: tuple[Path, ...], output: Path, domains: tuple[str, ...], interactive: bool, **settings: Any
) -> Report:
    """Check DATA, list all its problems, and draft a plan for ppdm perturb.

    Finds how a CSV is written (delimiter, encoding, decimal comma, dates, cells for no value, leading zeros),
    odd cells, identifiers, names and free text, columns that may identify persons with several rows, outliers,
    rare values, columns that reveal each other, an order of rows that reveals values, and the error of each
    column at several budgets. Nothing is published. The plan has column names, choices and N, but no value
    except what you type. Answer the question marks in it. The figures are private, because they were computed
    from the data.
    """
    from ppdm_cli import pictures
    from ppdm_cli.planning import plan
    from ppdm_cli.tables import PendingFile, commit, path_of

    explore: Path | None = settings.pop("explore")
    own = {n: {"domain": d} for n, d in (pair(text, "--domain", "age=0:120") for text in domains)}
    with ExitStack() as stack:
        page = None
        if explore is not None:
            file = path_of(explore, "explore")
            page = stack.enter_context(PendingFile(file, settings["force"], mode=0o600))

        def finish(done: Proposal) -> Proposal:
            done = _ask(done) if interactive else done
            if page is not None:
                page.put(pictures.explorer_page(done))
            return done

        done = plan([str(d) for d in data], output, attributes=own or None, ask=finish, **settings)
        if page is not None:
            commit(page)
    return Report(lambda: _figures(done), lambda: _show(done, [str(d) for d in data], str(output), interactive))


def _figures(done: Proposal) -> dict[str, object]:
    always = ("gamma", "alone_becomes")
    return {
        "private": "computed from private data: do not share",
        "records": done.records,
        "columns": [asdict(c) for c in done.columns],
        "budgets": [{k: v for k, v in asdict(b).items() if k in always or v is not None} for b in done.budgets],
        "questions": done.questions,
        "sentences": done.sentences,
        "plan": done.text,
    }


def _ask(done: Proposal) -> Proposal:
    """Ask the open questions of a plan until its owner leaves; after each answer show the new promise."""
    from ppdm_cli.commands import show
    from ppdm_cli.errors import UsageError

    out, left_open = show.console(stderr=True), set[str]()
    _show_table(done)
    show.say(out, ["Answer, or press Enter to leave a question open. Ctrl-C stops and keeps your answers."])
    if hasattr(signal, "siginterrupt"):  # a library that read the table may have had reads go on after Ctrl-C
        signal.siginterrupt(signal.SIGINT, True)
    with suppress(click.Abort, KeyboardInterrupt):
        while left := [q for q in done.questions if q not in left_open]:
            asked = left[0].removesuffix(".domain")
            notes = [n for c in done.columns if asked.endswith(f".{c.column}") for n in c.notes]
            show.say(out, ["", *notes, f"{left[0]}: {done.explained[left[0]]}"])
            answer = click.prompt("", prompt_suffix="> ", default="", show_default=False, err=True).strip()
            try:
                before, done = done.promises, done.answered(left[0], answer.strip('"')) if answer else done
                show.say(out, done.promises if done.promises != before else [])
            except UsageError as error:
                show.say(out, [str(error)])
                continue
            left_open |= {left[0]}
    return done


def _show_table(done: Proposal) -> None:
    from ppdm_cli.commands import show

    out, budgets = show.console(stderr=True), [b.at for b in done.budgets]
    least = "least " * any(b.gamma is None for b in done.budgets)
    at = [b.removeprefix("epsilon ") for b in budgets] if len(budgets) > 1 else budgets  # narrower
    show.of_columns(
        out,
        f"Computed from {done.records:,} private records: do not share",
        ["column", "type", "values", "no value", "N", *(f"{least}error at {b}" for b in at), "proposal"],
        [
            [
                c.column, c.type, _about(c), c.without_value, c.N,
                *(show.share(c.errors[b]) for b in budgets), c.proposal,
            ]
            for c in done.columns
        ],
    )  # fmt: skip
    show.say(out, done.sentences)


def _show(done: Proposal, data: list[str], output: str, asked: bool) -> None:
    from rich.text import Text

    from ppdm_cli.commands import show
    from ppdm_cli.errors import listed, one_line

    out = show.console(stderr=True)
    if not asked:
        _show_table(done)
    given = [b.record_epsilon / (b.rows or 1) for b in done.budgets if b.gamma is None]
    epsilon = f"{given[0] if len(given) == 1 else 2:g}"
    compare = ["entropy", "--record-epsilon", epsilon, "--records", str(done.records), "--plan", output]
    perturb = ["perturb", *data, "-o", "release.parquet", "--plan", output]
    steps = [
        ("To compare budgets for a whole record:", compare),
        (f"Wrote {output} (no open questions). Next:", perturb),
    ]
    if done.questions:
        answer = ["plan", *data, "--plan", output, "-o", output, "-i"]
        left = f"Wrote {output}. Open questions: {listed(done.questions)}. Answer them there, or with:"
        steps[1:] = [(left, answer), ("Then:", perturb)]
    for what, words in steps:
        show.say(out, [what])
        out.print(
            Text(one_line(shlex.join(["ppdm", *words]))), soft_wrap=True
        )  # whole, so that it can be pasted


def _about(column: ProposedColumn) -> str:
    """Return the number of values, or an estimate if there are many."""
    if column.values is None:
        return ""
    return str(column.values) if column.values_exact else f"about {float(f'{column.values:.2g}'):,.0f}"

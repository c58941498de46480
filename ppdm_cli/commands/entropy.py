"""`ppdm entropy`: compare the privacy and accuracy of matrices and designs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.command import Command, Report, results
from ppdm_cli.errors import UsageError

if TYPE_CHECKING:
    from ppdm_cli.entropies import Entropy

GAMMAS, BINS = "2:21", "5,10,15,20,30:100:10"
_SHOWN = (
    "attribute", "published", "gamma", "N", "half_width", "entropy", "entropy_share", "information",
    "condition_number", "epsilon", "staying", "neighbourhood", "rho2", "expected_error", "kang_bound", "copies",
    "gamma_together",
)  # fmt: skip
_PROMISES = ("gamma", "gamma_together", "epsilon", "rho2")
_DESIGN = {
    "epsilon": "epsilon", "records": "records", "publish": "publish", "rounds": "rounds",
    "half_width": "half-widths",
    "clean_single": "effective records, of one", "clean_pair": "effective records, of a pair",
    "share_error": "share +-", "cell_error": "pair's cell +-",
}  # fmt: skip
_TITLES = {
    "half_width": "half-width", "entropy": "H(M)", "entropy_share": "of max", "information": "bits revealed",
    "condition_number": "condition", "staying": "stays", "neighbourhood": "nearby", "expected_error": "error",
    "kang_bound": "Kang", "gamma_together": "gamma in all",
}  # fmt: skip


@click.command(
    "entropy",
    cls=Command,
    epilog="""\b
Examples:
  ppdm entropy --record-epsilon 2 --records 100000 --attributes 9x16 -o plan.toml
  ppdm entropy release.parquet -o figures.csv
  ppdm entropy --gamma 2,5,9,21 --bins 5,10,20,50 --records 100000
  ppdm entropy --error 0.01 --records 100000 --gamma-max 9

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 the sidecar and the data do not fit, 4 a gamma
that means nothing. Memory: constant.""",
)
@click.argument("release", required=False, type=options.FILE)
@click.option(
    "--gamma",
    metavar="LIST",
    help=f"Compare these gammas: 9, or 2,5,9, or 2:21, or 2:21:0.5.  [default: {GAMMAS}]",
)
@click.option("--bins", metavar="LIST", help=f"Compare these numbers of values or bins.  [default: {BINS}]")
@click.option(
    "--matrix",
    metavar="KIND",
    shell_complete=options.complete_kinds,
    help="Use this kind of matrix: gamma-diagonal, or band with the half-width that perturb chooses.  "
    "[default: gamma-diagonal]",
)
@click.option(
    "--records",
    type=click.IntRange(1),
    metavar="n",
    help="Add the expected error and Kang's bound for this number of records.",
)
@click.option("--prior", metavar="P,P,...", help="Use these shares of the values instead of equal ones.")
@click.option(
    "--rho1",
    type=float,
    default=0.05,
    metavar="P",
    show_default=True,
    help="Show how sure of a value a reader becomes (rho2) who was this sure before, from that attribute "
    "alone.",
)
@click.option(
    "--error",
    type=float,
    metavar="E",
    help="List designs (gamma, N, copies) whose expected error for --records n is at most E, the most "
    "private first.",
)
@click.option(
    "--gamma-max",
    type=float,
    metavar="G",
    help="With --error: list only designs whose gamma, copies included, is at most G.",
)
@click.option(
    "--record-epsilon",
    type=float,
    metavar="E",
    help="Compare designs for this budget over a whole record, the recommended one first. Needs --records, "
    "and --attributes or --plan.",
)
@click.option(
    "--attributes",
    metavar="LIST",
    help="The record's attributes: 9x16 for nine of 16 values, or 6x16,2x9n if two of 9 values have no order.",
)
@options.file_option(
    "--plan",
    help="Take the record's attributes from a plan. Add --attributes if the plan leaves sizes open.",
)
@click.option("--class-in-budget", is_flag=True, help="With --attributes: perturb a class of two labels too.")
@options.sidecar_option
@options.formulas_option
@results(
    "Write the table as .csv, .parquet or .arrow, or the recommended design for a record as a plan, .toml.",
    plot="Draw H(M) over N for each gamma: .svg, .png, .pdf or .html.",
    plan=True,
)
def entropy_command(
    release: Path | None,
    gamma: str | None,
    bins: str | None,
    prior: str | None,
    in_file: bool,
    **settings: Any,
) -> Report:
    """Compare the privacy and accuracy of matrices and designs, before you perturb anything.

    The table has a row for every gamma and N, or for each attribute of a RELEASE under its estimated
    distribution. `ppdm explain` explains each column, such as H(M). --records adds the expected error,
    E|Xhat - X|/n in the Euclidean norm, and Kang's bound. The error of a band is that of the unbiased estimate
    under the prior. --record-epsilon shows how many attributes of each record to publish, how many unperturbed
    records the release is worth, the standard errors to expect, and the best design at other budgets and sizes.
    """
    from ppdm_cli import entropies, pictures

    of_record = _asked_of_record(settings, (release, gamma, bins, prior))
    if of_record is not None:
        return _for_record(of_record)
    wanted = {k: settings.pop(k) for k in ("error", "gamma_max")}
    gammas = None if gamma is None else options.numbers(gamma, "--gamma 2:21")
    sizes = None if bins is None else options.whole_numbers(bins, "--bins 5,10,30:100:10")
    given = click.get_current_context().params
    if _is_plan(given["output"]):
        step = "add --record-epsilon 2, or name a table such as designs.csv"
        raise UsageError("plan-of-no-record", "only a design for a record can be written as a plan", step)
    error, gamma_max = wanted["error"], wanted["gamma_max"]
    if gamma_max is not None and error is None:
        raise UsageError("gamma-max-alone", "--gamma-max needs --error", "add --error 0.01 --records 100000")
    if error is not None:
        others = (release, gamma, settings["matrix"], settings["sidecar"], prior, given["plot"])
        if any(o is not None for o in others):
            what = "designs can't be combined with a release, gamma, matrix, prior or picture"
            raise UsageError("designs-of-a-release", what, "leave those out")
        common = {k: settings[k] for k in ("records", "rho1")}
        done = entropies.designs(error=error, bins=sizes, gamma_max=gamma_max, **common)
    else:
        shares = None if prior is None else [float(p) for p in options.numbers(prior, "--prior 0.7,0.3")]
        done = entropies.entropy(release, gamma=gammas, bins=sizes, prior=shares, **settings)
    return Report(
        figures=lambda: {"rows": done.rows, "sentences": done.unprotected},
        show=lambda: None if in_file else _show(done),
        fill=lambda table: entropies.fill_entropies(done.rows, done.sidecar, table),
        draw=lambda picture: pictures.draw_entropy(done.rows, picture),
    )


def _is_plan(output: Path | None) -> bool:
    return output is not None and output.suffix == ".toml"


def _show(done: Entropy) -> None:
    from ppdm_cli.commands import show

    out, rows = show.console(), done.rows
    show.say(out, done.unprotected)
    columns = [k for k in _SHOWN if k in rows[0]]
    of_release = "attribute" in columns
    (show.of_columns if of_release else show.table)(
        out,
        f"rho1 {rows[0]['rho1']:g}",
        [_TITLES.get(k, k) for k in columns],
        [[show.promise(r[k]) if k in _PROMISES else r[k] for k in columns] for r in rows],
    )


def _asked_of_record(settings: dict[str, Any], others: tuple[object, ...]) -> dict[str, Any] | None:
    """Take the settings of designs for a whole record out of all settings; None if there are none."""
    asked = {n: settings.pop(n) for n in ("record_epsilon", "attributes", "plan", "class_in_budget")}
    if asked["record_epsilon"] is None and not any(asked.values()):
        return None
    given = (*others, settings["matrix"], settings["error"])
    if asked["record_epsilon"] is None or settings["records"] is None or any(g is not None for g in given):
        what = "designs for a record need its budget, the number of records and its attributes"
        step = "use --record-epsilon 2 --records 100000 --attributes 9x16, and leave out the rest"
        raise UsageError("record-designs-need", what, step)
    return asked | {"records": settings["records"]}


def _for_record(asked: dict[str, Any]) -> Report:
    """Answer with designs for a whole record: the table, the plan or the picture."""
    from ppdm_cli import entropies
    from ppdm_cli.commands import show

    done = entropies.record_designs(**asked)

    def fill(file: Any) -> None:
        if _is_plan(click.get_current_context().params["output"]):
            file.put(done.plan.encode())
        else:
            entropies.fill_entropies(done.rows, None, file)

    def print_designs() -> None:
        out = show.console()
        show.say(out, done.unprotected)
        title = "Recommended design first; the last four rows are the best at other settings"
        show.table(out, title, [*_DESIGN.values()], [[r[k] for k in _DESIGN] for r in done.rows])
        show.say(out, done.sentences)

    return Report(
        figures=lambda: {
            "rows": done.rows,
            "plan": done.plan,
            "sentences": [*done.unprotected, *done.sentences],
        },
        show=print_designs,
        fill=fill,
    )

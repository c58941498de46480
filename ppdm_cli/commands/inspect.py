"""`ppdm inspect`: show a sidecar to people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands.command import Command, Report
from ppdm_cli.commands.options import FILE, file_option, sidecar_option
from ppdm_cli.errors import UsageError

if TYPE_CHECKING:
    from ppdm_cli.releases import Inspected


def _print_template(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from ppdm_cli.statement import about_template

        click.echo(about_template(), nl=False)
        ctx.exit()


@click.command(
    "inspect",
    cls=Command,
    epilog="""\b
Examples:
  ppdm inspect release.parquet
  ppdm inspect release.csv.ppdm.json --prior 0.01 --json
  ppdm inspect --about-template > about.toml
  ppdm inspect release.csv --report statement.html --about about.toml --attack attack.json
  ppdm inspect pram.csv --describe plan.toml -o pram.csv.ppdm.json
  ppdm inspect release.parquet --prove -o proof.json

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 the sidecar is not valid or does not fit the data,
4 refused.
Memory: constant.""",
)
@click.argument("file", type=FILE)
@click.option(
    "--prior",
    type=float,
    default=0.05,
    metavar="P",
    show_default=True,
    help="Show how sure of a value a reader may become who was this sure before.",
)
@click.option(
    "--describe",
    type=FILE,
    metavar="PLAN",
    help="Write a sidecar for a FILE that another tool perturbed, from a plan of how it did. Needs -o.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="Count every matrix by running its sampler; -o writes the counts, for anyone to check.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help="With --describe: write the sidecar here. With --prove: write the proof here.",
)
@file_option(
    "--report",
    help="Write a statement for a data protection officer to sign, as a page of HTML.",
)
@file_option(
    "--about", help="With --report: fill in the owner's answers from this TOML file. See --about-template."
)
@click.option(
    "--about-template",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_template,
    help="Print a file for --about with all questions and no answers, and exit.",
)
@file_option(
    "--attack", help="With --report: include the output of `ppdm attack RELEASE --json` from this file."
)
@file_option("--ledger", help="With --report and --people: include the sum of epsilons from this ledger.")
@click.option("--people", metavar="NAME", help="With --ledger: the people whose releases are summed.")
@sidecar_option
def inspect_command(
    file: Path,
    prior: float,
    describe: Path | None,
    prove: bool,
    output: Path | None,
    report: Path | None,
    sidecar: Path | None,
    force: bool,
    **stated: Any,
) -> Report:
    """Show what FILE promises. FILE is a release, a result table or a sidecar.

    Shows for each attribute N, matrix, gamma, epsilon, the chance of staying and the condition number; how sure
    of a value a reader of the whole record may become; and what no limit covers. The data must fit the sidecar.
    With --describe PLAN, writes that sidecar for a file that another tool perturbed: the plan names each
    column's matrix and domain, as for perturb. It promises nothing, because nobody knows its random numbers,
    but estimate, reconstruct and train-tree accept it as a release.
    """
    from ppdm_cli.releases import inspect

    wrong = prove or output is None or sidecar is not None if describe is not None else output and not prove
    if wrong:
        what = "--describe and -o need each other, and can't be combined with --sidecar or --prove"
        raise UsageError("describe-and-output", what, "use --describe PLAN -o FILE.ppdm.json")
    if report is None and any(stated.values()):
        what = "--about, --attack, --ledger and --people need --report"
        raise UsageError("only-with-report", what, "add --report FILE")
    if report is not None and (prove or describe is not None):
        what = "--report can't be combined with --describe or --prove"
        raise UsageError("report-or-describe", what, "run one command after the other")
    if prove:
        from ppdm_cli.releases import prove as counted

        proof = counted(file, output, sidecar=sidecar, force=force)
        return Report(lambda: proof, lambda: _show_proof(proof, output))
    if describe is not None:
        from ppdm_cli import perturbing

        described = perturbing.describe(file, describe, output, force=force)
        done = inspect(described, prior=prior)
    else:
        done = inspect(file, sidecar, prior=prior)
    statement: dict[str, object] = {}
    if report is not None:
        from ppdm_cli.statement import state

        statement["statement"] = state(file, report, sidecar=sidecar, force=force, prior=prior, **stated)
    return Report(lambda: done.figures | {"sentences": done.sentences} | statement, lambda: _show(done, report))


def _show_proof(proof: dict[str, Any], output: Path | None) -> None:
    from ppdm_cli.commands import show
    from ppdm_cli.releases import proof_sentences

    out, columns = show.console(), ["values", "numbers", "counted by", "largest ratio"]
    rows = [
        [law["law"], law["values"], max(law["range"]), law["counted"], law["ratio"]] for law in proof["laws"]
    ]
    show.table(out, f"The matrices of release {proof['release']}", ["matrix", *columns], rows)
    written = [f"Wrote the counts to {output}."] if output else []
    show.say(out, [*proof_sentences(proof), *written])


def _show(done: Inspected, report: Path | None) -> None:
    import msgspec

    from ppdm_cli.commands import show
    from ppdm_cli.releases import attribute_figures, has_noise, release_facts

    out, own = show.console(), done.sidecar
    records = "an unknown number of" if own.records is None else f"{own.records:,}"
    noise = has_noise(own)
    verdict = [f.sentence for f in release_facts(own, done.prior) if f.topic == "limit"]
    show.say(out, [f"Release {own.release}: {own.stage}, {records} records."])
    show.say(out, verdict)
    rows = msgspec.to_builtins(attribute_figures(own))
    columns = [*show.NOISE, "gamma"] if noise else show.promised(rows)
    columns = [*show.WHAT, *columns, *["condition"] * any("condition_number" in r for r in rows)]
    if not own.altered:
        show.attributes(out, "", columns, rows)
    written = [f"Wrote the statement to {report}."] * (report is not None)
    show.say(out, [*(s for s in done.sentences if s not in verdict), *written])

"""`ppdm inspect`: show a sidecar to people."""

from __future__ import annotations

from pathlib import Path

import click

from ppdm_cli.commands.options import FILE, force_option, json_option, sidecar_option
from ppdm_cli.errors import UsageError


@click.command(
    "inspect",
    epilog="""\b
Examples:
  ppdm inspect release.parquet
  ppdm inspect release.csv.ppdm.json --prior 0.01 --json
  ppdm inspect pram.csv --describe plan.toml -o pram.csv.ppdm.json

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
    help="An adversary's belief before; the worst belief after is shown.",
)
@click.option(
    "--describe",
    type=FILE,
    metavar="PLAN",
    help="Write a sidecar for a FILE that another tool perturbed, by a plan that says how; -o names it.",
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Where --describe writes the sidecar.")
@sidecar_option
@force_option
@json_option
def command(
    file: Path,
    prior: float,
    describe: Path | None,
    output: Path | None,
    sidecar: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show what FILE promises: a release, a result table or a sidecar.

    Shows for each attribute N, matrix, gamma, epsilon, the chance of staying, the condition number and
    the worst posterior for a prior; the product over a record's attributes; and what is outside every
    sidecar. The data must fit the sidecar. With --describe PLAN, writes that sidecar for a file that
    another tool perturbed: the plan names each column's matrix and domain, as for perturb. Nothing is
    promised of it, as nobody knows its coins; estimate, reconstruct and train-tree take it as a release.
    """
    from ppdm_cli import inspection
    from ppdm_cli.commands import show
    from ppdm_cli.percentages import percent
    from ppdm_cli.sidecar import display_json

    if (describe is None) != (output is None) or (describe is not None and sidecar is not None):
        raise UsageError(
            "--describe and -o go together, and with no --sidecar", "say --describe PLAN -o FILE.ppdm.json"
        )
    if describe is not None:
        from ppdm_cli import perturbing

        with show.progress():
            described = perturbing.describe(file, describe, output, force=force)
        done = inspection.inspect(described, prior=prior)
    else:
        done = inspection.inspect(file, sidecar, prior=prior)
    if as_json:
        click.echo(display_json(done.figures | {"sentences": done.sentences}))
        return
    out, shown = show.console(), done.sidecar
    records = "an unknown number of" if shown.records is None else shown.records
    noise = inspection.noisy(shown)
    substitution = ["matrix", "gamma", "epsilon", "stays", "condition", f"{percent(prior)} becomes"]
    if shown.withholding:
        substitution = ["published", *(c for c in substitution if c != "condition")]
    title, rows = (
        f"{shown.stage}, {records} records, release {shown.release}",
        inspection.of_attributes(shown, prior),
    )
    columns = [*show.WHAT, *([*show.NOISE, "gamma", "condition"] if noise else substitution)]
    if shown.altered:
        show.say(out, [f"{title}."])
    else:
        show.attributes(out, title, columns, rows)
    show.say(out, done.sentences)

"""`ppdm inspect`: show a sidecar to people."""

from __future__ import annotations

from pathlib import Path

import click

from ppdm_cli.commands.options import FILE, json_option, sidecar_option


@click.command(
    "inspect",
    epilog="""\b
Examples:
  ppdm inspect release.parquet
  ppdm inspect release.csv.ppdm.json --prior 0.01 --json

\b
Exit codes: 0 done, 1 unreadable, 3 the sidecar is not valid or does not fit the data.
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
@sidecar_option
@json_option
def command(file: Path, prior: float, sidecar: Path | None, as_json: bool) -> None:
    """Show what FILE promises: a release, a result table or a sidecar.

    Shows for each attribute N, matrix, gamma, epsilon, the chance of staying, the condition number and
    the worst posterior for a prior; the product over a record's attributes; and what is outside every
    sidecar. The data must fit the sidecar.
    """
    from ppdm_cli import inspection
    from ppdm_cli.commands import show
    from ppdm_cli.percentages import percent
    from ppdm_cli.sidecar import display_json

    done = inspection.inspect(file, sidecar, prior=prior)
    if as_json:
        click.echo(display_json(done.figures | {"sentences": done.sentences}))
        return
    promised = done.sidecar
    out = show.console()
    records = "an unknown number of" if promised.records is None else promised.records
    noise = inspection.noisy(promised)
    substitution = ["matrix", "gamma", "epsilon", "stays", "condition", f"{percent(prior)} becomes"]
    show.attributes(
        out,
        f"{promised.stage}, {records} records, release {promised.release}",
        [*show.WHAT, *([*show.NOISE, "gamma", "condition"] if noise else substitution)],
        inspection.of_attributes(promised, prior),
    )
    show.say(out, done.sentences)

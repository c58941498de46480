"""`ppdm reconstruct`: a data set that any mining tool can read, from a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ppdm_cli.commands.options import (
    FILE,
    cells_option,
    force_option,
    from_option,
    json_option,
    sidecar_option,
    to_option,
)
from ppdm_cli.errors import UsageError, counted, listed, quoted


@click.command(
    "reconstruct",
    epilog="""\b
Examples:
  ppdm reconstruct release.parquet -o usable.parquet
  ppdm reconstruct january.parquet february.parquet -o both.csv --method global

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 a sidecar and its data, or two releases, do not
fit. Memory: a million records' codes and the joint table, whatever the size of the release.""",
)
@click.argument("release", nargs=-1, required=True, type=FILE)
@click.option(
    "-o",
    "--output",
    required=True,
    type=FILE,
    metavar="FILE",
    help="The data set: .csv, .csv.gz, .parquet, .arrow or .feather; - is standard output.",
)
@click.option(
    "--method",
    type=click.Choice(["joint", "by-class", "global"]),
    help="By the joint distribution of the class and the attributes that matter; each attribute by class; "
    "or each by itself, as the paper reads literally.  [default: joint where the sidecar names a class]",
)
@click.option(
    "--estimator",
    type=click.Choice(["set-scale", "simplex", "ml"]),
    default="ml",
    show_default=True,
    help="How the totals of attributes outside the joint model are estimated; see `ppdm estimate --help`.",
)
@cells_option
@click.option(
    "--spread", is_flag=True, help="Values spread evenly within their bins, instead of representatives."
)
@click.option(
    "--shuffle",
    is_flag=True,
    help="Write the rows in a random order, another each time (in temporary files). It hides nothing from "
    "whoever has the release.",
)
@click.option(
    "--output-sidecar", type=FILE, metavar="FILE", help="Where its sidecar goes.  [default: OUTPUT.ppdm.json]"
)
@sidecar_option
@from_option
@to_option
@force_option
@json_option
def command(release: tuple[Path, ...], output: Path, as_json: bool, **settings: Any) -> None:
    """Turn a RELEASE into a data set with the original's columns, types and order.

    Where the release tells how attributes and class go together, each record's values are drawn from what
    its published values and class leave possible (method joint). All other attributes are done as in
    Algorithm 2 of Dowd et al.: the estimated distribution is dealt out over the records, class by class, so
    that its totals are exactly the estimate in whole numbers. What is random follows from the release, so
    the same release always gives the same result.

    Rows keep the release's order. Each is a guess about the person in that row, with many of its values right:
    handle the file as you would the release. --shuffle writes them in another order each time, but whoever has
    the release can still make the same guesses.
    """
    from ppdm_cli.commands import show
    from ppdm_cli.reconstructing import reconstruct
    from ppdm_cli.sidecar import display_json

    if as_json and str(output) == "-":
        raise UsageError("--json and -o - would both write to standard output", "name an output file")
    with show.progress() as progress:
        done = reconstruct([str(r) for r in release], output, progress=progress, **settings)
    how = done.how
    records = done.sidecar.records
    if records is None and done.totals:  # a stream does not say beforehand how many it has
        records = sum(next(iter(done.totals.values())))
    if as_json:
        figures = {
            "release": done.sidecar.release,
            "records": records,
            "method": how.method,
            "estimator": how.estimator,
            "spread": how.spread,
            "joint": done.drawn,
            "totals": done.totals,
        }
        click.echo(display_json(figures))
        return
    by = "globally" if how.method == "global" else f"by class {quoted(done.sidecar.class_)}"
    rest = ""
    if how.method == "joint":
        together = " together" if len(done.drawn) > 1 else ""
        rest = f", {listed(done.drawn)}{together} by the joint distribution" if done.drawn else ""
    elif settings["method"] == "joint":
        rest = " (the release tells nothing of a joint distribution)"
    said = [
        f"{'records' if records is None else counted(records, 'record')} to {output}, reconstructed {by} "
        f"with the {how.estimator} estimate{rest}.",
        *(["Shuffled; whoever has the release can still make the same guesses."] * how.shuffled),
    ]
    if str(output) == "-" and settings["to"] == "csv" and settings["output_sidecar"] is None:
        said.append("Its sidecar is not kept: CSV carries none, and --output-sidecar names no file for it.")
    show.say(show.console(stderr=True), said)

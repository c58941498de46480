"""`ppdm reconstruct`: make a data set from a release that any mining tool can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.command import Command, Report
from ppdm_cli.display import percent
from ppdm_cli.errors import counted, listed, quoted

if TYPE_CHECKING:
    from ppdm_cli.reconstructing import Reconstructed


@click.command(
    "reconstruct",
    cls=Command,
    epilog="""\b
Examples:
  ppdm reconstruct release.parquet -o usable.parquet
  ppdm reconstruct january.parquet february.parquet -o both.csv --method global

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 a sidecar and its data, or two releases, do not
fit. Memory: a million records' codes and the joint table, whatever the size of the release.""",
)
@options.files_argument("release")
@options.output_option("The data set")
@click.option(
    "--method",
    type=click.Choice(["joint", "by-class", "global"]),
    help="Draw values in this way. joint: from the joint distribution of the class and the attributes that "
    "matter. by-class: each attribute by class. global: each attribute separately, the literal "
    "reading of the paper.  [default: joint if the sidecar names a class]",
)
@click.option(
    "--estimator",
    type=click.Choice(["set-scale", "simplex", "ml"]),
    default="ml",
    show_default=True,
    help="Estimate the totals of attributes outside the joint model in this way; see `ppdm estimate --help`.",
)
@options.cells_option
@click.option(
    "--spread", is_flag=True, help="Spread values evenly within their bins, instead of using representatives."
)
@click.option(
    "--shuffle",
    is_flag=True,
    help="Write the rows in a new random order each time (uses temporary files). This hides nothing from "
    "anyone who has the release.",
)
@options.file_option("--output-sidecar", help="Write the data set's sidecar here.  [default: OUTPUT.ppdm.json]")
@options.cluster_options
@options.sidecar_option
@options.from_option
@options.to_option
@options.formulas_option
def reconstruct_command(release: tuple[Path, ...], output: Path, **settings: Any) -> Report:
    """Turn a RELEASE into a data set with the original's columns, types and order.

    With method joint, each record's values are drawn from their distribution given its published values, its
    class and its kept columns, if the release shows that they depend on each other. All other attributes are
    reconstructed by Algorithm 2 of Dowd et al.: the estimated distribution is dealt out over the records, class
    by class, so that its totals equal the estimate, rounded to whole numbers. The random numbers follow from
    the release, so the same release always gives the same result.

    Rows keep the release's order, and each is a guess about the person in that row, with many of its values
    right: handle the file as you would the release.
    """
    from ppdm_cli.reconstructing import reconstruct

    done = reconstruct([str(r) for r in release], output, **settings)
    records = done.sidecar.records
    if records is None and done.totals:  # a stream does not say beforehand how many it has
        records = sum(next(iter(done.totals.values())))
    return Report(lambda: _figures(done, records), lambda: _show(done, records, output, settings))


def _figures(done: Reconstructed, records: int | None) -> dict[str, object]:
    withheld, noise = done.withheld or (None, None)
    figures = {"release": done.sidecar.release, "records": records}
    figures |= {n: getattr(done.how, n) for n in ("method", "estimator", "spread")}
    return figures | {"joint": done.drawn, "withheld": withheld, "noise": noise, "totals": done.totals}


def _show(done: Reconstructed, records: int | None, output: Path, settings: dict[str, Any]) -> None:
    from ppdm_cli.commands import show

    how, drawn = done.how, []
    if done.drawn:
        together = "together " * (len(done.drawn) > 1)
        drawn = [f"Drawn {together}from the joint distribution: {listed(done.drawn)}."]
    elif how.method == "joint":
        drawn = ["The class was drawn given the kept columns."]
    elif settings["method"] == "joint":
        drawn = ["The release shows no joint distribution."]
    within = "" if how.method == "global" else f" within each {quoted(done.sidecar.class_)}"
    which = "Other columns" if done.drawn else "Columns"
    sentences = [
        f"Wrote {'all records' if records is None else counted(records, 'record')} to {output}.",
        *drawn,
        *[f"{which} were matched to the {how.estimator} estimates{within}."] * (done.withheld is None),
        *_withheld(done.withheld),
        *(
            ["The rows are shuffled, but anyone who has the release can still make the same guesses."]
            * how.shuffled
        ),
    ]
    if str(output) == "-" and settings["to"] == "csv" and settings["output_sidecar"] is None:
        sentences.append(
            "Warning: the sidecar is lost, because CSV can't carry one. Add --output-sidecar FILE."
        )
    show.say(show.console(stderr=True), sentences)


def _withheld(shares: tuple[float, float] | None) -> list[str]:
    """Return the sentence on how much of a reconstruction comes from the model."""
    if shares is None:
        return []
    withheld, noise = map(percent, shares)
    return [
        f"{withheld} of the perturbed cells were withheld and about {noise} are noise. The model drew their "
        "values from the rest of the record, so they are only as certain as the model."
    ]

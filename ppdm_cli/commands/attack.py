"""`ppdm attack`: show what an adversary can recover from a release."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ppdm_cli.commands import options
from ppdm_cli.errors import MismatchError, UsageError

NAMES = ["spectral", "pca", "bayes-linear", "posterior", "record", "known", "repeat", "order", "audit"]


@click.command(
    "attack",
    epilog="""\b
Examples:
  ppdm attack release.parquet --truth original.parquet --plot gains.svg
  ppdm attack release.csv --with posterior --with record --recovered guesses.csv

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 release, sidecar and original do not fit, or the audit
rejects the release. Memory: proportional to the number of values; record also holds a sample of the
release, a million records at most.""",
)
@options.files_argument("release")
@options.file_option(
    "--truth",
    metavar="ORIGINAL",
    help="The original, to measure what each attack gets right; its rows must be in the release's order.",
)
@click.option(
    "--with",
    "attacks",
    multiple=True,
    type=click.Choice(NAMES),
    help="""Only this attack; repeatable. spectral, pca: the two attacks on additive noise (Kargupta et al.,
Huang et al.). bayes-linear: the best linear guess. posterior: Bayes' rule on one attribute. record: Bayes'
rule on the whole record, kept columns and class too, all learnt from the release. known: where a record shows
some of its attributes, who knows one of them and looks for the others. repeat:
perturbing again. order: the order of the rows. audit: whether the release was perturbed as its sidecar
says, as far as that many records can show.""",
)
@options.file_option(
    "--recovered", help="Write the adversary's best guesses; they follow from the release and are public."
)
@options.file_option("-o", "--output", help="The table as .csv, .parquet or .arrow.")
@options.file_option(
    "--plot", help="Each attack beside the prior, attribute by attribute: .svg, .png, .pdf or .html."
)
@options.sidecar_option
@options.truth_options
@options.from_option
@options.formulas_option
@options.force_option
@options.json_option
def command(
    release: tuple[Path, ...],
    recovered: Path | None,
    output: Path | None,
    plot: Path | None,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Show what someone who holds a RELEASE and knows the method could say about a single record.

    Each attack is compared with guessing from the estimated distribution alone: the share of values (or bins)
    named exactly, the share within one bin, and the error of a guessed number, with 95% intervals and the
    gain. With --truth all this is measured; without it, it is what to expect given the sidecar and the
    estimated distributions. Several releases with one plan are one; of copies of one release each record's
    answers are taken together. The strongest belief is shown with the bound that gamma promises. The CSV
    options are for --truth; the sidecar says how to read a release.
    """
    from ppdm_cli import pictures
    from ppdm_cli.attacks import attack, fill
    from ppdm_cli.commands import show, show_attack
    from ppdm_cli.sidecar import display_json
    from ppdm_cli.tables import Output, commit

    for path in (output, recovered):
        if str(path) == "-":
            raise UsageError("results of attack go to files", "name a file")
    stack = click.get_current_context().with_resource(ExitStack())
    table = Output(stack, output, force=force) if output is not None else None
    picture = pictures.opened(stack, plot, force) if plot is not None else None
    with show.progress():
        settings |= {"recovered": recovered or False, "force": force}
        done = attack([str(r) for r in release], **settings)
    if not done.rows and done.honest is not False and (output is not None or plot is not None):
        raise UsageError(
            "none of the attacks asked for guesses values: there is no table to write or draw",
            "add --with posterior, or leave out -o and --plot",
        )
    if table is not None and done.rows:
        fill(done, table)
    if picture is not None and done.rows:
        pictures.attacks(done.rows, picture)
    commit(*(o for o in (table, picture) if o is not None and done.rows))
    if as_json:
        click.echo(display_json(show_attack.figures(done)))
    else:
        show_attack.show_all(done, tables=output is None)
    if done.honest is False:
        raise MismatchError(
            "the audit rejects the release: it was not perturbed as its sidecar says",
            "make it again, or fetch it again with its own sidecar and original",
        )

"""`ppdm predict`: add a tree's predictions to a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.command import Command, Report
from ppdm_cli.errors import UsageError, word

if TYPE_CHECKING:
    from ppdm_cli.tables import CsvOptions
    from ppdm_cli.trees import Measured


@click.command(
    "predict",
    cls=Command,
    epilog="""\b
Examples:
  ppdm predict tree.json new.parquet -o labelled.parquet
  ppdm predict tree.json new.csv -o - --to csv | head

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 not a tree, or the data do not fit it, 4 a release,
which must be reconstructed first. Memory: constant.""",
)
@click.argument("tree", type=options.FILE)
@click.argument("data", type=options.FILE)
@options.output_option("DATA with two more columns")
@click.option(
    "--heaviest",
    is_flag=True,
    help="Send missing values and unseen categories down the most common branch, as SQL and PMML exports "
    "do.  [default: split them across all branches]",
)
@options.cluster_options
@options.csv_options
@options.from_option
@options.to_option
@options.formulas_option
def predict_command(
    tree: Path,
    data: Path,
    output: Path,
    heaviest: bool,
    csv: CsvOptions,
    from_: options.StreamFormat | None,
    to: options.StreamFormat | None,
    force: bool,
) -> Report:
    """Predict the class of every record of DATA with a TREE that train-tree wrote.

    Adds the columns `predicted` and `confidence`, the share of the training records in the record's
    leaves that have the label, averaged over the trees of an ensemble. A missing value, or a category that
    training never saw, sends the record down all branches in part. If DATA has the class, the report has the
    accuracy and the confusion matrix.
    """
    from contextlib import ExitStack

    from ppdm_cli.engine import destination
    from ppdm_cli.tables import commit
    from ppdm_cli.trees import classify, load_tree, open_records

    if data.suffix.lower() == ".json" != tree.suffix.lower():
        step = f"use ppdm predict {word(str(data))} {word(str(tree))} -o {word(str(output))}"
        raise UsageError("not-a-tree-file", "the tree comes first, and then the data", step)
    loaded = load_tree(tree)
    table = open_records(data, loaded, csv, from_)
    with ExitStack() as stack:
        labelled = destination(stack, output, None, force, to)
        measured = classify(loaded, table, labelled, heaviest)
        commit(labelled)
    return Report(
        lambda: {"class": loaded.class_name, "test": measured.figures() if measured else None},
        lambda: None if measured is None else _show(measured),
    )


def _show(measured: Measured) -> None:
    from ppdm_cli.commands import show
    from ppdm_cli.commands.train_tree import show_measured

    show_measured(show.console(stderr=True), "labelled", measured)

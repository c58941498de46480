"""`ppdm predict`: add a tree's predictions to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.cluster import cluster_options
from ppdm_cli.errors import UsageError


@click.command(
    "predict",
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
    help="Missing values and unseen categories follow the branch of most training records, as in the exports "
    "of train-tree, rather than all in part.",
)
@cluster_options
@options.csv_options
@options.from_option
@options.to_option
@options.formulas_option
@options.force_option
@options.json_option
def command(
    tree: Path,
    data: Path,
    output: Path,
    heaviest: bool,
    csv: Any,
    from_: Any,
    to: Any,
    force: bool,
    as_json: bool,
) -> None:
    """Predict the class of every record of DATA with a TREE that train-tree wrote.

    Adds the columns `predicted` and `confidence`, the share of the training records in the record's
    leaves that have the label. A record with a missing value, or one that training never saw, follows all
    branches in part. If DATA has the class, accuracy and confusion matrix are reported.
    """
    from contextlib import ExitStack

    from ppdm_cli.commands import show
    from ppdm_cli.engine import destination
    from ppdm_cli.sidecar import display_json
    from ppdm_cli.tables import commit
    from ppdm_cli.trees import classify, load, open_records

    if as_json and str(output) == "-":
        raise UsageError("--json and -o - would both write to standard output", "name an output file")
    loaded = load(tree)
    table = open_records(data, loaded, csv, from_)
    with ExitStack() as stack, show.progress():
        labelled = destination(stack, output, None, force, to)
        measured = classify(loaded, table, labelled, heaviest)
        commit(labelled)
    if as_json:
        click.echo(display_json({"class": loaded.class_name, "test": measured.figures() if measured else None}))
    elif measured is not None:
        from ppdm_cli.commands.show_tree import show_measured

        show_measured(show.console(stderr=True), "labelled", measured)

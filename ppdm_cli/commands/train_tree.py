"""`ppdm train-tree`: train a decision tree and show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.cluster import cluster_options


@click.command(
    "train-tree",
    epilog="""\b
Examples:
  ppdm train-tree people.parquet --class group -o tree.json --test new.parquet
  ppdm train-tree release.parquet -o tree.json --export tree.svg --export tree.txt

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 the data do not fit. Memory: one or two bytes per cell and
some numbers per record; for a release, the codes of a million records and the joint table.""",
)
@options.files_argument("data")
@click.option("--class", "class_", metavar="COL", help="The column to predict.  [default: the sidecar's class]")
@options.file_option(
    "-o", "--output", required=True, help="The tree: .json, or its arrays as a table: .parquet, .arrow, .csv."
)
@options.file_option("--test", help="Records to measure the tree on.")
@options.file_option("--predicted", help="The test records (otherwise DATA) with the tree's predictions.")
@options.file_option(
    "--export",
    "exports",
    multiple=True,
    help="The tree as .txt (C4.5's look), .dot (Graphviz), .svg (a drawing), .sql (one CASE expression) or "
    ".pmml (4.4); repeatable.",
)
@options.file_option("--compare", metavar="OTHER", help="Another tree, a .json: how much of it this one keeps.")
@options.file_option(
    "--on", help="Records on which both trees are asked.  [default: DATA, unless it is a release]"
)
@click.option("--drop", multiple=True, metavar="COL", help="A column to leave out; repeatable.")
@click.option("--criterion", type=click.Choice(["gain-ratio", "gain"]), default="gain-ratio", show_default=True)
@click.option(
    "--min-records",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Minimum number of training records in at least two branches of every test.",
)
@click.option(
    "--max-depth",
    type=click.IntRange(0),
    help="Maximum number of tests from the root to a leaf.  [default: unlimited]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.25,
    show_default=True,
    help="Pruning confidence; smaller values prune more.",
)
@click.option("--no-prune", is_flag=True, help="Leave the tree as it was grown.")
@click.option("--no-mdl", is_flag=True, help="Do not charge numeric cuts as release 8 does.")
@click.option(
    "--cuts",
    type=click.IntRange(2, 1 << 16),
    help="Number of quantiles for a numeric column with more than 65,536 distinct values.  "
    "[default: 1,024, or a 64th of the records]",
)
@options.cells_option
@cluster_options
@options.csv_options
@options.from_option
@options.formulas_option
@options.force_option
@options.json_option
def command(
    data: tuple[Path, ...],
    class_: str | None,
    output: Path,
    test: Path | None,
    predicted: Path | None,
    exports: tuple[Path, ...],
    compare: Path | None,
    on: Path | None,
    no_prune: bool,
    no_mdl: bool,
    csv: Any,
    from_: Any,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Train a decision tree on DATA: an original, a reconstructed data set, or a release.

    On a release, the tree is grown on the joint distribution of the class and the attributes that matter,
    estimated from the release alone, with thresholds within bins where the estimate shows them; the expected
    accuracy is estimated from published records that were held out. Several releases with one plan are one;
    copies of one release are taken together, record by record.

    On other data it is C4.5, release 8: gain ratio, cuts halfway between values or at the edges of bins, a
    branch for each category, missing values as fractional records, pessimistic pruning. --no-mdl and
    --criterion gain switch parts of it off. Among equally good tests, the first column wins, and among its
    cuts the lowest.
    """
    from ppdm_cli.commands import show
    from ppdm_cli.trees import Against, Places, train

    places = Places(output, predicted, exports, force)
    with show.progress():
        settings |= {"prune": not no_prune, "mdl": not no_mdl}
        given = list(data) if len(data) > 1 else data[0]
        done = train(given, places, class_, Against(test, compare, on), csv=csv, from_=from_, **settings)
    if as_json:
        from ppdm_cli.sidecar import display_json

        click.echo(display_json(done.figures()))
    else:
        from ppdm_cli.commands.show_tree import show_trained

        show_trained(show.console(), done, output)

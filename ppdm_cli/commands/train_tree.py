"""`ppdm train-tree`: train a decision tree and show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ppdm_cli.commands.options import (
    FILE,
    cells_option,
    csv_options,
    force_option,
    from_option,
    json_option,
)
from ppdm_cli.errors import UsageError


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
@click.argument("data", type=FILE)
@click.option("--class", "class_", metavar="COL", help="The column to predict.  [default: the sidecar's class]")
@click.option(
    "-o",
    "--output",
    required=True,
    type=FILE,
    metavar="FILE",
    help="The tree: .json, or its arrays as a table: .parquet, .arrow, .csv.",
)
@click.option("--test", type=FILE, metavar="FILE", help="Records to measure the tree on.")
@click.option(
    "--predicted",
    type=FILE,
    metavar="FILE",
    help="The test records (otherwise DATA) with the tree's predictions.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="The tree as .txt (C4.5's look), .dot (Graphviz) or .svg (a drawing); repeatable.",
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
@cells_option
@csv_options
@from_option
@force_option
@json_option
def command(
    data: Path,
    class_: str | None,
    output: Path,
    test: Path | None,
    predicted: Path | None,
    exports: tuple[Path, ...],
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
    accuracy is estimated from published records that were held out.

    On other data it is C4.5, release 8: gain ratio, cuts that occur in the data, a branch for each category,
    missing values as fractional records, pessimistic pruning. --no-mdl and --criterion gain switch parts of
    it off. Among equally good tests, the first column wins, and among its cuts the lowest.
    """
    from contextlib import ExitStack

    from ppdm_cli.commands import show
    from ppdm_cli.sidecar import display_json
    from ppdm_cli.tables import Output, is_stream, open_data, publish
    from ppdm_cli.trees import (
        Export,
        Fitted,
        TreeFile,
        classify,
        figures,
        importance,
        open_records,
        plain,
        train_tree,
    )

    if "-" in map(str, (output, predicted, *exports)):
        raise UsageError("a tree goes to a file, not to standard output", "name files")
    if is_stream(data) and (str(test) == "-" or (predicted is not None and test is None)):
        raise UsageError("standard input is read once, for training", "name a file, or --test FILE")
    table, sidecar = open_data(data, None, csv, from_)
    release = sidecar is not None and sidecar.stage == "perturbed"
    if release and predicted is not None and test is None:
        raise UsageError("a release's records cannot be predicted: they are perturbed", "name --test FILE")
    with ExitStack() as stack:
        files: list[TreeFile | Export] = [Export(stack, path, force) for path in exports]
        files.append(TreeFile(stack, output, force))
        labelled = None
        if predicted is not None:
            labelled = Output(stack, predicted, force=force)
        other = open_records(test, table, csv) if test is not None else None
        with show.progress() as progress:
            done = train_tree(
                table,
                class_,
                sidecar=sidecar,
                prune=not no_prune,
                mdl=not no_mdl,
                progress=progress,
                **settings,
            )
            tree, tested = done.tree, None
            if other is not None or labelled is not None:
                source = other or (table if table.rewindable else open_records(data, tree, csv))
                tested = classify(tree, source, labelled, progress=progress)
        if test is None:
            tested = None
        for file in files:
            file.fill(tree)
        # all is written: only now is anything put in its place
        publish(*([] if labelled is None else [labelled]), *(file.into for file in files))
    worth = importance(tree)
    if as_json:
        said_of = {
            "train" if isinstance(done, Fitted) else "release": done.figures(),
            "test": None if tested is None else tested.figures(),
            **figures(tree),
            "importance": worth,
            "options": dict(tree.options),
            "remarks": done.remarks,
        }
        click.echo(display_json(said_of))
        return
    from ppdm_cli.commands.show_tree import show_measured, show_tree

    out = show.console()
    show_tree(out, tree, output)
    if isinstance(done, Fitted):
        show_measured(out, "training", done.measured)
    else:
        show.say(out, done.sentences())
    if tested is not None:
        show_measured(out, "test", tested)
    shown = [[plain(n), w] for n, w in worth.items() if w > 0][:20]
    if shown:
        show.table(out, "Importance", ["attribute", "share"], shown)
    show.say(out, done.remarks)

"""`ppdm train-tree`: train a decision tree and show it."""

from __future__ import annotations

from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ppdm_cli.commands import options
from ppdm_cli.commands.command import Command, Report
from ppdm_cli.errors import counted

if TYPE_CHECKING:
    from rich.console import Console

    from ppdm_cli.commands.options import StreamFormat
    from ppdm_cli.tables import CsvOptions
    from ppdm_cli.trees import Compared, Trained, Tree

_LINES = 40
MOST_LABELS = 12
"""The most labels of a confusion matrix that are shown."""


@click.command(
    "train-tree",
    cls=Command,
    epilog="""\b
Examples:
  ppdm train-tree people.parquet --class group -o tree.json --test new.parquet
  ppdm train-tree release.parquet -o tree.json --export tree.sql --export tree.txt
  ppdm train-tree release.parquet -o trees.json --trees 25 --test new.parquet

\b
Exit codes: 0 done, 1 unreadable, 2 usage, 3 the data do not fit. Memory: one or two bytes per cell and
some numbers per record; for a release, the codes of a million records and the joint table.""",
)
@options.files_argument("data")
@click.option("--class", "class_", metavar="COL", help="Predict this column.  [default: the sidecar's class]")
@options.file_option("-o", "--output", required=True, help="Write the tree here, as .json.")
@options.file_option("--test", help="Measure the tree on these records.")
@options.file_option("--predicted", help="Write the test records (otherwise DATA) with the tree's predictions.")
@options.file_option(
    "--export",
    "exports",
    multiple=True,
    help="Export the tree as .txt (C4.5's look), .sql (one CASE expression) or .pmml (4.4); repeatable.",
)
@options.file_option(
    "--compare", metavar="OTHER", help="Show how much of this other tree, a .json, the new one keeps."
)
@options.file_option(
    "--on",
    help="With --compare: compare the predictions of both trees on these records.  [default: DATA, "
    "unless it is a release]",
)
@click.option("--drop", multiple=True, metavar="COL", help="Leave a column out; repeatable.")
@click.option(
    "--criterion",
    type=click.Choice(["gain-ratio", "gain"]),
    default="gain-ratio",
    show_default=True,
    help="Choose a node's test by gain ratio or by information gain.",
)
@click.option(
    "--min-records",
    type=click.IntRange(1),
    metavar="N",
    default=2,
    show_default=True,
    help="Require this many training records in at least two branches of every test.",
)
@click.option(
    "--max-depth",
    type=click.IntRange(0),
    metavar="N",
    help="Limit the tests from the root to a leaf.  [default: unlimited]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 0.5, min_open=True),
    metavar="CF",
    default=0.25,
    show_default=True,
    help="Prune with this confidence; smaller values prune more.",
)
@click.option("--no-prune", is_flag=True, help="Don't prune the tree.")
@click.option("--no-mdl", is_flag=True, help="Turn off C4.5 release 8's penalty for numeric splits.")
@click.option(
    "--cuts",
    type=click.IntRange(2, 1 << 16),
    metavar="N",
    help="Use this many quantiles of a numeric column with more than 65,536 distinct values.  [default: "
    "1,024, or a 64th of the records]",
)
@click.option(
    "--trees",
    metavar="K|auto",
    default="1",
    show_default=True,
    help="Train this many trees and average their class shares: more accurate with many labels, but harder "
    "to read. auto: 25 if they are right about 1% more of the held-out records than one tree, "
    "otherwise 1.",
)
@click.option("--distil", is_flag=True, help="With --trees: write one tree that imitates all of them.")
@options.cells_option
@options.cluster_options
@options.csv_options
@options.from_option
@options.formulas_option
def train_tree_command(
    data: tuple[Path, ...],
    class_: str | None,
    output: Path,
    test: Path | None,
    predicted: Path | None,
    exports: tuple[Path, ...],
    compare: Path | None,
    on: Path | None,
    drop: tuple[str, ...],
    cuts: int | None,
    cells: int,
    trees: str,
    distil: bool,
    no_prune: bool,
    no_mdl: bool,
    csv: CsvOptions,
    from_: StreamFormat | None,
    force: bool,
    **growth: Any,
) -> Report:
    """Train a decision tree on DATA: an original, a reconstructed data set, or a release.

    On a release, the tree is grown on the estimated joint distribution of the class and the attributes that
    matter, with thresholds within bins if the estimate shows them. The expected accuracy is estimated from
    published records that were held out. Several releases with one plan count as one. Copies of one release are
    combined record by record.

    On other data it is C4.5, release 8: gain ratio, cuts halfway between values or at the edges of bins, a
    branch for each category, missing values as fractional records, pessimistic pruning. Among equally good
    tests, the first column wins, and among its cuts the lowest.
    """
    from ppdm_cli.trees import Against, Ensemble, Options, TreeFiles, TreeSettings, train

    files = TreeFiles(output, predicted, exports, force)
    grow = Options(**growth, prune=not no_prune, mdl=not no_mdl)
    wanted = Ensemble(int(trees) if trees.isdecimal() else trees, distil)  # type: ignore[arg-type]
    settings = TreeSettings(class_, cuts=cuts, drop=drop, cells=cells, growth=grow, ensemble=wanted)
    given = list(data) if len(data) > 1 else data[0]
    done = train(given, files, settings, Against(test, compare, on), csv=csv, from_=from_)
    return Report(done.figures, lambda: _show(done, output))


def _show(done: Trained, path: Path) -> None:
    """Show the tree, its accuracy, and the importance of each attribute."""
    from ppdm_cli.commands import show
    from ppdm_cli.trees import Fitted, shortened

    out, fitted = show.console(), done.fitted
    _show_tree(out, fitted.tree, path, done.compared)
    if isinstance(fitted, Fitted):
        show_measured(out, "training", fitted.measured)
    else:
        show.say(out, fitted.sentences())
    if done.tested is not None:
        show_measured(out, "test", done.tested)
    importances = [[shortened(n), w] for n, w in done.importance.items() if w > 0][:20]
    if importances:
        show.table(out, "Importance", ["attribute", "share"], importances)
    show.say(out, [*fitted.remarks, *([done.exported] if done.exported else [])])
    if done.compared is not None:
        _show_compared(out, done.compared)


def _show_tree(out: Console, tree: Tree, path: Path, compared: Compared | None = None) -> None:
    """Print where the tree is, and its first lines next to those of one that it is compared with."""
    from rich.text import Text

    from ppdm_cli.commands import show
    from ppdm_cli.trees import outlined

    leaves = "1 leaf" if tree.leaves == 1 else f"{tree.leaves} leaves"
    several = f"{tree.roots} trees, " if tree.roots > 1 else ""
    show.say(out, [f"Wrote {path}: {several}{counted(tree.size, 'node')}, {leaves}, depth {tree.depth}."])
    most = max(10, out.height - 12) if out.is_terminal else _LINES
    found = list(islice(outlined(tree), most + 1))
    if compared is not None:
        _side_by_side(out, compared, most)
    else:
        for _, line in found[:most]:
            out.print(Text(line), no_wrap=True, overflow="ellipsis", crop=True)
    if len(found) > most:
        show.say(out, ["... and more. Use --export tree.txt for all."])


def _show_compared(out: Console, compared: Any) -> None:
    """Print what two trees have in common, in numbers."""
    from ppdm_cli.commands import show
    from ppdm_cli.trees import shortened

    found, (shared, lost) = compared.figures(), compared.attributes
    rules, share = found["rules"], 100 * found["cases_under_kept_rules"]
    sentences = [
        "Both trees have the same root." if compared.same_root else "The roots test different attributes.",
        f"The tree keeps {rules['kept']} of the other tree's {rules['other']} rules, with {share:.1f}% of "
        f"its training records. It has {counted(rules['here'], 'rule')}.",
        f"Attributes of both: {', '.join(map(shortened, shared)) or 'none'}.",
    ]
    for names, whose in ((lost, "the other tree"), (compared.new, "this tree")):
        if names:
            sentences.append(f"Only in {whose}: {', '.join(map(shortened, names))}.")
    if compared.records:
        low, high = 100 * found["low"], 100 * found["high"]
        sentences.append(
            f"They agree on {100 * found['agreement']:.2f}% of {counted(compared.records, 'record')} (95% "
            f"interval {low:.2f} to {high:.2f})."
        )
    else:
        sentences.append("Add --on FILE to see on how many records they agree.")
    show.say(out, sentences)
    titles = ["attribute", "thresholds", "mean distance", "largest distance", "% of records between"]
    rows = [
        [shortened(m["attribute"]), m["thresholds"], m["mean_distance"], m["largest_distance"],
         None if m["records_between"] is None else 100 * m["records_between"]]
        for m in found["thresholds"]
    ]  # fmt: skip
    if rows:
        show.table(out, "From the other tree's thresholds to the nearest here", titles, rows)


def _side_by_side(out: Console, compared: Compared, most: int) -> None:
    """Print two trees next to each other, with a = before each rule that both have."""
    from rich.table import Table
    from rich.text import Text

    from ppdm_cli.trees import compare, outlined

    back = compare(compared.other, compared.tree)
    grid = Table(box=None, padding=(0, 1), pad_edge=False, width=out.width, header_style="bold")
    sides = []
    for title, tree, kept in (
        ("The other tree", back.tree, compared.kept),
        ("This tree", compared.tree, back.kept),
    ):
        grid.add_column(title, no_wrap=True, overflow="ellipsis", ratio=1)
        found = list(islice(outlined(tree), most + 1))
        sides.append([Text(f"{'=' if n in kept else ' '} {line}") for n, line in found[:most]])
        if len(found) > most:
            sides[-1].append(Text("  ..."))
    for pair in zip_longest(*sides, fillvalue=Text("")):
        grid.add_row(*pair)
    out.print(grid)


def show_measured(out: Console, what: str, measured: Any) -> None:
    """Print the accuracy with its interval, and the confusion matrix."""
    from ppdm_cli.commands import show
    from ppdm_cli.trees import shortened

    found = measured.figures()
    if not found["records"]:
        show.say(out, [f"No {what} records have a class."])
        return
    share, low, high = (f"{100 * found[k]:.2f}" for k in ("accuracy", "low", "high"))
    records = counted(found["records"], f"{what} record")
    sentences = [f"Accuracy on {records}: {share}% (95% interval {low} to {high})."]
    baseline = measured.confusion.sum(axis=1).max() / found["records"]
    if found["accuracy"] < baseline:
        sentences.append(
            f"Warning: the baseline, always the most common class, is right more often ({100 * baseline:.2f}%)."
        )
    if measured.unknown:
        unknown = counted(measured.unknown, "record")
        sentences.append(f"{unknown} with labels that the tree doesn't know were counted as wrong.")
    if measured.unlabelled:
        sentences.append(f"{counted(measured.unlabelled, 'record')} without a class were not counted.")
    labels = [shortened(v, 20) for v in measured.labels]
    if len(labels) > MOST_LABELS:
        show.say(out, [*sentences, f"The confusion matrix has {len(labels)} labels. Use --json to see it."])
        return
    show.say(out, sentences)
    rows = [[name, *row] for name, row in zip(labels, found["confusion"], strict=True)]
    show.table(out, "Predicted", ["true", *labels], rows)

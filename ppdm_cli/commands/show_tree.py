"""Show a tree to people: the tree cut to the terminal, its accuracy, the confusion matrix."""

from __future__ import annotations

from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from ppdm_cli.commands import show
from ppdm_cli.errors import counted

if TYPE_CHECKING:
    from ppdm_cli.trees import Trained

_LINES = 40
_LABELS = 12
"""Labels of a confusion matrix that are shown."""


def show_trained(out: Console, done: Trained, path: Path) -> None:
    """Show the tree, how good it is, and what each attribute is worth."""
    from ppdm_cli.trees import Fitted, plain

    fitted = done.fitted
    show_tree(out, fitted.tree, path, done.compared)
    if isinstance(fitted, Fitted):
        show_measured(out, "training", fitted.measured)
    else:
        show.say(out, fitted.sentences())
    if done.tested is not None:
        show_measured(out, "test", done.tested)
    shown = [[plain(n), w] for n, w in done.importance.items() if w > 0][:20]
    if shown:
        show.table(out, "Importance", ["attribute", "share"], shown)
    show.say(out, [*fitted.remarks, *([done.exported] if done.exported else [])])
    if done.compared is not None:
        show_compared(out, done.compared)


def show_tree(out: Console, tree: Any, path: Path, compared: Any = None) -> None:
    """Print the first lines of the tree, as many as fit, beside those of one that it is compared with."""
    from ppdm_cli.trees import lines

    most = max(10, out.height - 12) if out.is_terminal else _LINES
    found = list(islice(lines(tree), most + 1))
    if compared is not None:
        _side_by_side(out, compared, most)
    else:
        for line in found[:most]:
            out.print(Text(line), no_wrap=True, overflow="ellipsis", crop=True)
    if len(found) > most:
        show.say(out, ["... and more: --export tree.txt has all."])
    leaves = "1 leaf" if tree.leaves == 1 else f"{tree.leaves} leaves"
    show.say(out, [f"{counted(tree.size, 'node')}, {leaves}, depth {tree.depth}, to {path}."])


def show_compared(out: Console, compared: Any) -> None:
    """Print what two trees share, in numbers."""
    from ppdm_cli.trees import plain

    found, (shared, lost) = compared.figures(), compared.attributes
    rules, share = found["rules"], 100 * found["cases_under_kept_rules"]
    sentences = [
        "Both trees have the same root." if compared.same_root else "The roots test different attributes.",
        f"Of the other tree's {rules['other']} rules {rules['kept']} are kept, with {share:.1f} % of its "
        f"training records; this tree has {counted(rules['here'], 'rule')}.",
        f"Attributes of both: {', '.join(map(plain, shared)) or 'none'}.",
    ]
    for names, whose in ((lost, "the other tree"), (compared.new, "this tree")):
        if names:
            sentences.append(f"Only in {whose}: {', '.join(map(plain, names))}.")
    if compared.records:
        low, high = 100 * found["low"], 100 * found["high"]
        sentences.append(
            f"They agree on {100 * found['agreement']:.2f} % of {counted(compared.records, 'record')} "
            f"(95 % interval {low:.2f} to {high:.2f})."
        )
    else:
        sentences.append("Name records with --on FILE to see where they agree.")
    show.say(out, sentences)
    titles = ["attribute", "thresholds", "mean distance", "largest distance", "% of records between"]
    rows = [
        [plain(m["attribute"]), m["thresholds"], m["mean_distance"], m["largest_distance"],
         None if m["records_between"] is None else 100 * m["records_between"]]
        for m in found["thresholds"]
    ]  # fmt: skip
    if rows:
        show.table(out, "From the other tree's thresholds to the nearest here", titles, rows)


def _side_by_side(out: Console, compared: Any, most: int) -> None:
    """Print two trees next to each other, with a = before each rule that both have."""
    from rich.table import Table

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
    from ppdm_cli.trees import plain

    found = measured.figures()
    if not found["records"]:
        show.say(out, [f"No {what} records have a class."])
        return
    share, low, high = (f"{100 * found[k]:.2f}" for k in ("accuracy", "low", "high"))
    records = counted(found["records"], f"{what} record")
    sentences = [f"Accuracy on {records}: {share} % (95 % interval {low} to {high})."]
    commonest = measured.confusion.sum(axis=1).max() / found["records"]
    if found["accuracy"] < commonest:
        sentences.append(f"That is less than the commonest class alone: {100 * commonest:.2f} %.")
    if measured.unknown:
        unknown = counted(measured.unknown, "record")
        sentences.append(f"{unknown} with labels that the tree does not know: wrong.")
    if measured.unlabelled:
        sentences.append(f"{counted(measured.unlabelled, 'record')} without a class: not counted.")
    labels = [plain(v, 20) for v in measured.labels]
    if len(labels) > _LABELS:
        show.say(out, [*sentences, f"The confusion matrix has {len(labels)} labels; --json has it."])
        return
    show.say(out, sentences)
    rows = [[name, *row] for name, row in zip(labels, found["confusion"], strict=True)]
    show.table(out, "Predicted", ["true", *labels], rows)

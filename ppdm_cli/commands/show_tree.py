"""Show a tree to people: the tree cut to the terminal, its accuracy, the confusion matrix."""

from __future__ import annotations

from itertools import islice
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
    show_tree(out, fitted.tree, path)
    if isinstance(fitted, Fitted):
        show_measured(out, "training", fitted.measured)
    else:
        show.say(out, fitted.sentences())
    if done.tested is not None:
        show_measured(out, "test", done.tested)
    shown = [[plain(n), w] for n, w in done.importance.items() if w > 0][:20]
    if shown:
        show.table(out, "Importance", ["attribute", "share"], shown)
    show.say(out, fitted.remarks)


def show_tree(out: Console, tree: Any, path: Path) -> None:
    """Print the first lines of the tree, as many as fit, then its size."""
    from ppdm_cli.trees import lines

    most = max(10, out.height - 12) if out.is_terminal else _LINES
    found = list(islice(lines(tree), most + 1))
    for line in found[:most]:
        out.print(Text(line), no_wrap=True, overflow="ellipsis", crop=True)
    if len(found) > most:
        show.say(out, ["... and more: --export tree.txt has all."])
    leaves = "1 leaf" if tree.leaves == 1 else f"{tree.leaves} leaves"
    show.say(out, [f"{counted(tree.size, 'node')}, {leaves}, depth {tree.depth}, to {path}."])


def show_measured(out: Console, what: str, measured: Any) -> None:
    """Print the accuracy with its interval, and the confusion matrix."""
    from ppdm_cli.trees import plain

    found = measured.figures()
    if not found["records"]:
        show.say(out, [f"No {what} records have a class."])
        return
    share, low, high = (f"{100 * found[k]:.2f}" for k in ("accuracy", "low", "high"))
    show.say(
        out,
        [
            f"Accuracy on {counted(found['records'], f'{what} record')}: "
            f"{share} % (95 % interval {low} to {high})."
        ],
    )
    if found.get("unknown_labels"):
        show.say(
            out, [f"{counted(measured.unknown, 'record')} with labels that the tree does not know: wrong."]
        )
    if found.get("unlabelled"):
        show.say(out, [f"{counted(measured.unlabelled, 'record')} without a class: not counted."])
    labels = [plain(v, 20) for v in measured.labels]
    if len(labels) > _LABELS:
        show.say(out, [f"The confusion matrix has {len(labels)} labels; --json has it."])
        return
    rows = [[name, *row] for name, row in zip(labels, found["confusion"], strict=True)]
    show.table(out, "Predicted", ["true", *labels], rows)

"""A tree for people (C4.5's text, a graph for Graphviz, a drawing) and for other programs; by suffix.

Every name and label is quoted or escaped in the way of its format, and shortened where it is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.tables import PendingFile
from ppdm_cli.trees.labels import attribute, cases, label, outcome, plain
from ppdm_cli.trees.pmml import pmml
from ppdm_cli.trees.sql import sql
from ppdm_cli.trees.svg import svg
from ppdm_cli.trees.tree import Tree


def lines(tree: Tree) -> Iterator[str]:
    """Yield the tree as C4.5 and J48 print it, line by line, depth first."""
    return (line for _, line in outlined(tree))


def outlined(tree: Tree) -> Iterator[tuple[int, str]]:
    """Yield each line with the node that it leads to."""
    if tree.feature[0] < 0:
        yield 0, f": {label(tree, 0)} {cases(tree, 0)}"
        return
    waiting = _branches(tree, 0, 0)
    while waiting:
        node, branch, depth = waiting.pop()
        child = int(tree.first_child[node]) + branch
        line = "|   " * depth + f"{attribute(tree, node)} {outcome(tree, node, branch)}"
        if tree.feature[child] < 0:
            yield child, f"{line}: {label(tree, child)} {cases(tree, child)}"
        else:
            yield child, line
            waiting += _branches(tree, child, depth + 1)


def _branches(tree: Tree, node: int, depth: int) -> list[tuple[int, int, int]]:
    return [(node, branch, depth) for branch in reversed(range(int(tree.children[node])))]


def text(tree: Tree) -> str:
    summary = f"\nNumber of Leaves  : \t{tree.leaves}\n\nSize of the tree : \t{tree.size}\n"
    return "".join(f"{line}\n" for line in lines(tree)) + summary


def dot(tree: Tree) -> str:
    """Return a directed graph in Graphviz's language; nodes are named by number, so no name can clash."""
    out = [
        "digraph tree {",
        '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname="Helvetica"];',
        '  edge [fontname="Helvetica"];',
    ]
    for node in range(tree.size):
        if tree.feature[node] < 0:
            shown = f"{plain(tree.labels[int(tree.label[node])])}\n{cases(tree, node)}"
            out.append(f'  n{node} [label={_dot_string(shown)}, fillcolor="#ddf4ff"];')
            continue
        name = plain(tree.features[int(tree.feature[node])].name)
        out.append(f"  n{node} [label={_dot_string(name)}];")
        for branch in range(int(tree.children[node])):
            child = int(tree.first_child[node]) + branch
            out.append(f"  n{node} -> n{child} [label={_dot_string(outcome(tree, node, branch))}];")
    return "\n".join([*out, "}", ""])


def _dot_string(shown: str) -> str:
    """Return a quoted string with backslashes and `&` escaped, so that no name becomes an entity or escape."""
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;").replace("\n", "\\n")
    return f'"{escaped}"'


_WAYS = {".txt": text, ".dot": dot, ".svg": svg}
_EXACT = {".sql": sql, ".pmml": pmml}
"""For programs: what they say of missing values is noted in them."""


class Export:
    """A tree in the form of the path's suffix; checked before any work, whole or not at all."""

    def __init__(self, stack: ExitStack, path: Path, force: bool = False) -> None:
        suffix = path.suffix.lower()
        if suffix not in {**_WAYS, **_EXACT}:
            raise UsageError(
                f"the suffix of {quoted(path.name)} names no export",
                f"name a file that ends in {', '.join({**_WAYS, **_EXACT})}",
            )
        self.into = stack.enter_context(PendingFile(path, force))
        self.exact, self._suffix = suffix in _EXACT, suffix

    def fill(self, tree: Tree, note: str = "") -> None:
        made = _EXACT[self._suffix](tree, note) if self.exact else _WAYS[self._suffix](tree)
        self.into.put(made.encode())

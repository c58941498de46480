"""Trees as text: C4.5's look, whole and printable whatever names and labels hold."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from ppdm_cli.trees.text import as_text, outlined
from ppdm_cli.trees.tree import Feature, Tree
from tests.tree_strategies import chain, hostile_tree, trees


def test_the_text_is_that_of_c45() -> None:
    counts = np.array([[120, 60], [117, 3], [3, 57], [3, 0], [0, 57.0]])
    tree = Tree(
        (Feature("age", "double", True), Feature("since", "date32[day]", True)), "group", "string", ("A", "B"),
        np.array([0, -1, 1, -1, -1], np.int32), np.array([39.9, np.nan, 12_345, np.nan, np.nan]),
        np.array([1, -1, 3, -1, -1], np.int32), np.array([2, 0, 2, 0, 0], np.int32), counts,
        counts.argmax(axis=1).astype(np.int32), {},
    )  # fmt: skip
    tree.validate()
    assert as_text(tree).startswith(
        "age <= 39.9: A (120.0/3.0)\nage > 39.9\n"
        "|   since <= 2003-10-20: A (3.0)\n|   since > 2003-10-20: B (57.0)\n"
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_every_node_has_a_printable_line(tree: Tree) -> None:
    shown = list(outlined(tree))
    assert sorted(node for node, _ in shown) == list(range(min(tree.size - 1, 1), tree.size))
    assert all(line.isprintable() for _, line in shown)


def test_hostile_names_stay_inside_their_quotes() -> None:
    whole = as_text(hostile_tree())
    assert "x" * 50 not in whole
    forged = [line for line in whole.splitlines() if "a <= 3" in line]
    assert forged and all("'a <= 3: B (5.0)'" in line for line in forged)


def test_a_deep_tree_needs_no_recursion() -> None:
    assert as_text(chain(3000)).count("\n") == 6004

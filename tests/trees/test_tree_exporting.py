"""Trees as text, graph and drawing: whole and well-formed, whatever names and labels hold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from ppdm_cli.errors import UsageError
from ppdm_cli.tables import commit
from ppdm_cli.trees.exporting import Export, dot, lines, text
from ppdm_cli.trees.labels import plain
from ppdm_cli.trees.svg import DRAWN_ROWS, svg
from ppdm_cli.trees.tree import Feature, Tree
from tests.tree_strategies import hostile_tree, trees

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_STRING = r'"(?:[^"\\\n\x00-\x1f]|\\.)*"'
_STATEMENTS = (
    rf"  (?:node|edge) \[\w+={_STRING}|box.*\];",
    rf"  n(?P<node>\d+) \[label={_STRING}(?:, fillcolor={_STRING})?\];",
    rf"  n(?P<tail>\d+) -> n(?P<head>\d+) \[label={_STRING}\];",
)


def graph(source: str) -> tuple[list[int], list[tuple[int, int]]]:
    """A strict reading of the part of Graphviz's language that is used: nodes and edges."""
    first, *body, end, empty = source.split("\n")
    assert (first, end, empty) == ("digraph tree {", "}", "")
    nodes, edges = [], []
    for line in body[2:]:
        if match := re.fullmatch(_STATEMENTS[1], line):
            nodes.append(int(match["node"]))
        else:
            found = re.fullmatch(_STATEMENTS[2], line)
            assert found, line
            edges.append((int(found["tail"]), int(found["head"])))
    return nodes, edges


def chain(depth: int) -> Tree:
    """A tree that goes one way, as deep as asked."""
    n = 2 * depth + 1
    inner = np.arange(n) % 2 == 0
    inner[-1] = False
    at = np.arange(n)
    return Tree(
        (Feature("age", "double", True),), "group", "string", ("A", "B"),
        np.where(inner, 0, -1).astype(np.int32), np.where(inner, at + 0.5, np.nan),
        np.where(inner, at + 1, -1).astype(np.int32), np.where(inner, 2, 0).astype(np.int32),
        np.ones((n, 2)), np.zeros(n, np.int32), {},
    )  # fmt: skip


def test_the_text_is_that_of_c45() -> None:
    counts = np.array([[120, 60], [117, 3], [3, 57], [3, 0], [0, 57.0]])
    tree = Tree(
        (Feature("age", "double", True), Feature("since", "date32[day]", True)), "group", "string", ("A", "B"),
        np.array([0, -1, 1, -1, -1], np.int32), np.array([39.9, np.nan, 12_345, np.nan, np.nan]),
        np.array([1, -1, 3, -1, -1], np.int32), np.array([2, 0, 2, 0, 0], np.int32), counts,
        counts.argmax(axis=1).astype(np.int32), {},
    )  # fmt: skip
    tree.validate()
    assert text(tree).startswith(
        "age <= 39.9: A (120.0/3.0)\nage > 39.9\n"
        "|   since <= 2003-10-20: A (3.0)\n|   since > 2003-10-20: B (57.0)\n"
    )


@few
@given(trees())
def test_every_export_is_well_formed(tree: Tree) -> None:
    shown = list(lines(tree))
    assert len(shown) == max(1, tree.size - 1) and all(line.isprintable() for line in shown)
    nodes, edges = graph(dot(tree))
    assert nodes == list(range(tree.size))
    assert {h: t for t, h in edges} == {i: p for i, p in enumerate(tree.parent.tolist()) if i}
    root = ElementTree.fromstring(svg(tree))
    assert len([e for e in root.iter() if e.tag.endswith("path")]) == tree.size - 1


def test_hostile_names_stay_inside_their_quotes() -> None:
    tree = hostile_tree()
    tree.validate()
    assert len(graph(dot(tree))[0]) == tree.size
    drawn = svg(tree)
    ElementTree.fromstring(drawn)
    assert "<b>" not in drawn and "x" * 50 not in drawn + dot(tree) + text(tree)
    forged = [line for line in lines(tree) if "a <= 3" in line]
    assert forged and all("'a <= 3: B (5.0)'" in line for line in forged)


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed (apt install graphviz)")
def test_graphviz_reads_what_was_meant() -> None:
    """Every node and edge, and labels that show the names letter by letter."""
    for tree in (hostile_tree(), chain(40)):
        done = subprocess.run(["dot", "-Tjson"], input=dot(tree).encode(), capture_output=True, check=True)
        assert done.stderr == b""
        found = json.loads(done.stdout)
        assert len(found["objects"]) == tree.size and len(found["edges"]) == tree.size - 1
        for edge in found["edges"]:
            assert tree.parent[edge["head"]] == edge["tail"]
        drawn = subprocess.run(["dot", "-Tsvg"], input=dot(tree).encode(), capture_output=True, check=True)
        texts = "".join(ElementTree.fromstring(drawn.stdout).itertext()).replace("\xa0", " ")
        for name in {plain(tree.labels[i]) for i in tree.label[tree.is_leaf]} | {plain(tree.features[0].name)}:
            assert name.strip() in texts, name


def test_deep_and_broad_trees(tmp_path: Path) -> None:
    deep = chain(3000)
    assert len(text(deep)) > 3000 and len(graph(dot(deep))[1]) == 6000
    drawn = svg(deep)
    boxes = ElementTree.fromstring(drawn)
    assert "\u2026" in drawn and "leaves</text>" in drawn
    assert float(boxes.attrib["height"]) < (DRAWN_ROWS + 5) * 24


def export(tree: Tree, path: Path, force: bool = False) -> None:
    with ExitStack() as stack:
        file = Export(stack, path, force)
        file.fill(tree)
        commit(file.into)


def test_suffixes_and_existing_files(tmp_path: Path) -> None:
    tree = chain(3)
    for suffix in ("txt", "dot", "svg"):
        export(tree, tmp_path / f"t.{suffix}")
        with pytest.raises(UsageError, match="force=True"):
            export(tree, tmp_path / f"t.{suffix}")
        export(tree, tmp_path / f"t.{suffix}", force=True)
    with pytest.raises(UsageError, match="names no export"):
        export(tree, tmp_path / "t.gif")

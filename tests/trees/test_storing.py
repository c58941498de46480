"""Trees in files: what is written is read back the same, and what was edited is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppdm_cli import train_tree
from ppdm_cli.errors import MismatchError, PpdmError
from ppdm_cli.trees import storing
from ppdm_cli.trees.storing import decode_tree, encode_tree, load_tree
from ppdm_cli.trees.tree import Tree
from tests.tree_strategies import hostile_tree, same, trees, write
from tests.vocabulary import listing, raises

few = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@few
@given(trees())
def test_json_gives_the_same_tree(tree: Tree) -> None:
    data = encode_tree(tree)
    again = decode_tree(data, "t.json")
    assert same(tree, again) and dict(again.options) == dict(tree.options)
    assert encode_tree(again) == data, "canonical"
    lines = [line for line in data.decode().split("\n") if line.startswith('    {"label":')]
    assert len(lines) == tree.size, "one node a line"


def test_hostile_words_come_back(tmp_path: Path) -> None:
    write(hostile_tree(), tmp_path / "t.json")
    assert same(hostile_tree(), load_tree(tmp_path / "t.json"))


@few
@given(trees(), st.data())
def test_an_edited_tree_is_refused_or_valid(tree: Tree, data: st.DataObject) -> None:
    raw = json.loads(encode_tree(tree))
    node = data.draw(st.sampled_from(raw["nodes"]))
    junk = st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=3),
        st.floats(allow_nan=False, allow_infinity=False),
        st.lists(st.integers(-1, 3), max_size=3),
    )  # fmt: skip
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from([raw, raw["class"], node, *raw["features"]]))
        key = data.draw(st.sampled_from([*place, "other"]))
        if key in place and data.draw(st.booleans()):
            del place[key]
        else:
            place[key] = data.draw(junk)
        if not all(
            isinstance(raw.get(k), t) for k, t in (("class", dict), ("features", list), ("nodes", list))
        ):
            break
    try:
        decode_tree(json.dumps(raw).encode(), "t.json").validate()
    except MismatchError as error:
        assert "\n" not in str(error)


@few
@given(trees(), st.data())
def test_cut_or_changed_bytes_never_crash(tree: Tree, data: st.DataObject) -> None:
    raw = bytearray(encode_tree(tree))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    for edited in (bytes(raw), bytes(raw[:at])):
        try:
            decode_tree(edited, "t.json")
        except MismatchError as error:
            assert "\n" not in str(error)


EDITS: dict[str, Callable[[Any, Any], Any]] = {
    "child out of range": lambda t, root: root.update(child=10**9),
    "a cycle": lambda t, _: [n for n in t["nodes"] if "test" in n][-1].update(child=1),
    "the root as a child": lambda _, root: root.update(child=0),
    "no number": lambda _, root: root.update(cut=float("nan")),
    "no finite number": lambda _, root: root.update(cut=float("inf")),
    "a negative count": lambda _, root: root["counts"].__setitem__(0, -1),
    "counts that overflow": lambda t, _: [n.update(counts=[1e308, 1e308]) for n in t["nodes"]],
    "an unknown label": lambda _, root: root.update(label="zz"),
    "an unknown field": lambda _, root: root.update(more=1),
    "an unknown type": lambda t, _: t["features"][0].update(dtype="blob"),
    "a number that is text": lambda t, _: t["features"][0].update(dtype="string"),
    "labels twice": lambda t, _: t["class"].update(labels=["a", "a"]),
    "nodes left out": lambda t, _: t["nodes"].append({"label": "a", "counts": [1, 1]}),
    "more roots than there are": lambda t, _: t.update(roots=2),
    "no root": lambda t, _: t.update(roots=0),
    "another format": lambda t, _: t.update(format="other"),
    "another version": lambda t, _: t.update(version=2),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_tree_edited_by_hand_is_refused(edit: str) -> None:
    rows = range(60)
    numbers = {"x": rows, "k": ["uvw"[i % 3] for i in rows], "y": ["ab"[(i > 20) ^ (i % 3 == 0)] for i in rows]}
    grown = train_tree(pl.DataFrame(numbers), "y", mdl=False, prune=False, criterion="gain").tree
    assert grown.size > 3
    tree = json.loads(encode_tree(grown))
    EDITS[edit](tree, tree["nodes"][0])
    with pytest.raises(MismatchError):
        decode_tree(json.dumps(tree).encode(), "t.json").validate()


def test_absent_and_strange_files(tmp_path: Path) -> None:
    for name in ("no.json", "no.csv", "no.txt", "."):
        with pytest.raises(PpdmError):
            load_tree(tmp_path / name)


def test_a_tree_too_large_to_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "LARGEST_TREE", 100)
    with raises("tree-too-large"):
        write(hostile_tree(), tmp_path / "t.json")
    assert not listing(tmp_path)

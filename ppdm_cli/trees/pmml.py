"""A tree as a PMML 4.4 TreeModel, in the part of it that evaluators agree on.

Every child is written. A missing value goes to `defaultChild`, the heaviest branch, and a category that
training never saw is treated as missing; `weightedConfidence`, C4.5's own way, is refused by one evaluator and
misread by another.
"""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import quoteattr

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import UsageError
from ppdm_cli.sidecar import TOOL
from ppdm_cli.trees.portable import last_step, predictions, value_of
from ppdm_cli.trees.predicting import Descent
from ppdm_cli.trees.tree import Feature, Tree

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def pmml(tree: Tree, note: str) -> str:
    """Return the document; only attributes that the tree tests are fields."""
    tested = Descent(tree).tested
    class_ = Feature(tree.class_name, tree.class_dtype, False, tree.labels)
    fields = [*(tree.features[i] for i in tested), class_]
    active = '      <MiningField name={} usageType="active" invalidValueTreatment="asMissing"/>'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4">',
            f"  <Header description={_text(note)}><Application name={_text(TOOL)}/></Header>",
            f'  <DataDictionary numberOfFields="{len(fields)}">',
            *(line for f in fields for line in _field(f)),
            "  </DataDictionary>",
            '  <TreeModel functionName="classification" missingValueStrategy="defaultChild" '
            'noTrueChildStrategy="returnLastPrediction" splitCharacteristic="multiSplit">',
            "    <MiningSchema>",
            *(active.format(_text(f.name)) for f in fields[:-1]),
            f'      <MiningField name={_text(class_.name)} usageType="target"/>',
            "    </MiningSchema>",
            *_nodes(tree),
            "  </TreeModel>",
            "</PMML>",
            "",
        ]
    )


def _field(feature: Feature) -> list[str]:
    """Return a field's lines; numbers are doubles, as the tree compares them, whatever their type."""
    kind = dtypes.parse(feature.dtype)
    timed = "dateTime" if pa.types.is_timestamp(kind) else "date" if pa.types.is_date(kind) else ""
    if feature.numeric:
        timed = timed or ("time" if pa.types.is_time(kind) else "double")
        return [f'    <DataField name={_text(feature.name)} optype="continuous" dataType="{timed}"/>']
    name = "boolean" if pa.types.is_boolean(kind) else "integer" if pa.types.is_integer(kind) else "string"
    name = "double" if pa.types.is_floating(kind) else name
    values = [f"      <Value value={_value(v, feature.dtype)}/>" for v in feature.categories]
    head = f'    <DataField name={_text(feature.name)} optype="categorical" dataType="{name}">'
    return [head, *values, "    </DataField>"]


def _nodes(tree: Tree) -> list[str]:
    """Return all nodes, depth first, each within its parent."""
    found, heaviest, lines = predictions(tree), Descent(tree).heaviest, []
    waiting: list[tuple[int, str, int]] = [(0, "<True/>", 3)]
    while waiting:
        node, predicate, depth = waiting.pop()
        if node < 0:
            lines.append("  " * depth + "</Node>")
            continue
        first, size = int(tree.first_child[node]), int(tree.children[node])
        default = f' defaultChild="{first + int(heaviest[node])}"' if size else ""
        score = _value(tree.labels[int(found.label[node])], tree.class_dtype)
        held = float(tree.counts[node].sum())
        lines.append("  " * depth + f'<Node id="{node}" score={score} recordCount="{held!r}"{default}>')
        lines.append("  " * (depth + 1) + predicate)
        if not size:
            for value, count in zip(tree.labels, tree.counts[node].tolist(), strict=True):
                if count:
                    known = _value(value, tree.class_dtype)
                    lines.append(
                        "  " * (depth + 1) + f'<ScoreDistribution value={known} recordCount="{count!r}"/>'
                    )
        waiting.append((-1, "", depth))
        waiting += [(first + b, _predicate(tree, node, b), depth + 1) for b in reversed(range(size))]
    return lines


def _predicate(tree: Tree, node: int, branch: int) -> str:
    feature = tree.features[int(tree.feature[node])]
    if feature.numeric:
        operator, value = ("lessOrEqual", "greaterThan")[branch], _cut(feature, float(tree.threshold[node]))
    else:
        operator, value = "equal", _value(feature.categories[branch], feature.dtype)
    return f'<SimplePredicate field={_text(feature.name)} operator="{operator}" value={value}/>'


def _cut(feature: Feature, threshold: float) -> str:
    kind = dtypes.parse(feature.dtype)
    if dtypes.is_whole(kind) and not pa.types.is_integer(kind):
        return _text(str(dtypes.to_json(last_step(threshold, feature), kind)).removesuffix("Z"))
    return _text(repr(threshold))


def _value(value: Any, dtype: str) -> str:
    value = value_of(value, dtype)
    return _text(str(value).lower() if isinstance(value, bool) else str(value))


def _text(text: str) -> str:
    """Return an attribute's value in quotes."""
    if _NOT_XML.search(text):
        raise UsageError(
            "a name or a category of the tree has a character that no XML can hold", "export another form"
        )
    return quoteattr(text)

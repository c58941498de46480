"""Trees as text for people, and exports for programs of other makers: one SQL expression, PMML.

A missing value or a category that training never saw follows the heaviest branch in exports, because C4.5's
fractional records cannot travel; `predict --heaviest` does the same. Numbers are written so that they read back
exactly. Reports and notebooks show C4.5's own look: control characters are written out, long texts shortened,
and names that could be mistaken for a part of the tree's own text are put in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from math import floor, inf, nextafter
from pathlib import Path

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.errors import UsageError, argument, one_line, quoted
from ppdm_cli.sidecar import TOOL
from ppdm_cli.tables import PendingFile
from ppdm_cli.trees.predicting import Descent
from ppdm_cli.trees.tree import Feature, StoredValue, Tree, majority

EXPORTS = (".txt", ".sql", ".pmml")
MOST_SQL_LABELS = 250
"""The most labels whose sums are compared in SQL: engines nest at most 1,000 conditions."""
_DIGITS = 13
"""The digits of a share in a text of SQL."""
_LARGEST_POWER = 62
"""The largest power of two that every SQL engine's whole numbers hold."""
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class TreeExport:
    """A tree in the form of the path's suffix; checked before any work, whole or not at all."""

    def __init__(self, stack: ExitStack, path: Path, force: bool = False) -> None:
        self._suffix = path.suffix.lower()
        if self._suffix not in EXPORTS:
            raise UsageError(
                "unknown-export",
                f"{quoted(path.name)} has no suffix of an export",
                f"name a file that ends in {', '.join(EXPORTS)}",
            )
        self.into = stack.enter_context(PendingFile(path, force))
        self.has_note = self._suffix != ".txt"
        """True if it is for programs, and explains missing values."""

    def fill(self, tree: Tree, note: str = "") -> None:
        if self._suffix == ".txt":
            whole = as_text(tree)
        else:
            whole = (sql if self._suffix == ".sql" else pmml)(tree, note)
        self.into.put(whole.encode())


@dataclass(frozen=True)
class LeafCondition:
    """A condition on the path to a leaf: low < value <= high, a category, or none of some."""

    low: float = -inf
    high: float = inf
    only: tuple[StoredValue, ...] | None = None
    other_than: tuple[StoredValue, ...] = ()
    missing: bool = True
    """True if a missing value is sent there too."""


def shares_at(tree: Tree) -> Floats:
    """Return the classes' shares at each node, as `predict` gives them to a record that ends there."""
    counts, parent = tree.counts.copy(), tree.parent
    for node in np.flatnonzero(counts.sum(axis=1) <= 0).tolist():  # parents come before their children
        counts[node] = counts[parent[node]] if parent[node] >= 0 else 1
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def leaves(tree: Tree) -> dict[int, dict[int, LeafCondition]]:
    """Return each leaf's conditions by attribute, in the order in which the tree is shown.

    Every record meets them at exactly one leaf of each tree.
    """
    heaviest = Descent(tree).heaviest
    conditions: list[dict[int, LeafCondition]] = [{} for _ in range(tree.roots)]
    paths: list[tuple[int, ...]] = [(root,) for root in range(tree.roots)]
    for _, above, feature, branch in tree.branches():
        number, so_far = int(tree.feature[above]), conditions[above]
        before = so_far.get(number, LeafCondition())
        missing = before.missing and branch == heaviest[above]
        if feature.numeric:
            cut = float(tree.threshold[above])
            low, high = (max(before.low, cut), before.high) if branch else (before.low, min(before.high, cut))
            now = replace(before, missing=missing, low=low, high=high)
        elif branch == heaviest[above]:
            others = tuple(c for i, c in enumerate(feature.categories) if i != branch)
            now = replace(before, missing=missing, other_than=(*before.other_than, *others))
        else:
            category = feature.categories[branch]
            same = before.only is None or category in before.only
            now = replace(before, missing=missing, only=(category,) if same else ())
        conditions.append(so_far | {number: now})
        paths.append((*paths[above], branch))
    found = sorted(np.flatnonzero(tree.is_leaf).tolist(), key=paths.__getitem__)
    return {node: conditions[node] for node in found}


def last_step(threshold: float, feature: Feature) -> int:
    """Return the last whole step whose number, as a double, is at most a threshold."""
    low, high = dtypes.limits(dtypes.parse(feature.dtype))
    step = floor(threshold)
    if abs(step) >= 1 << 53:  # several whole numbers are one double
        step = (int(threshold) + int(nextafter(threshold, inf))) // 2
        step -= float(step) > threshold
    return min(max(step, int(low)), int(high))


def value_of(value: StoredValue, dtype: str) -> StoredValue:
    """Return a category or label, as a tree stores it, as a number, text or boolean."""
    kind = dtypes.parse(dtype)
    return float(value) if pa.types.is_floating(kind) else value


def sql(tree: Tree, note: str) -> str:
    """Return the expression, after comments on its use and on missing values."""
    several, shares, labels = tree.roots > 1, shares_at(tree), _sql_labels(tree)
    what = f"{tree.roots} decision trees whose shares are averaged" if several else "A decision tree"
    head = [f"-- {what}: SELECT *, (this expression) AS predicted FROM records", f"-- {note}"]
    if several:
        return "\n".join([*head, *_sql_average(tree, labels, [_sql_shares(s) for s in shares.tolist()]), ""])
    return "\n".join([*head, *_sql_cases(tree, leaves(tree), [labels[c] for c in majority(shares)]), ""])


def _sql_labels(tree: Tree) -> list[str]:
    return [_sql_value(v, tree.class_dtype) for v in tree.labels]


def _sql_cases(tree: Tree, ways: Mapping[int, Mapping[int, LeafCondition]], results: list[str]) -> list[str]:
    """Return the lines of an expression with the result of a record's leaf."""
    *rules, last = ways
    if not rules:
        return [results[last]]
    body = []
    for node in rules:
        tests = [_sql_condition(tree.features[f], c) for f, c in ways[node].items()]
        body.append(f"  WHEN {' AND '.join(filter(None, tests)) or '1 = 1'} THEN {results[node]}")
    return ["CASE", *body, f"  ELSE {results[last]}", "END"]


def _sql_shares(shares: list[float]) -> str:
    """Return shares as whole numbers, of so many digits each, in one text."""
    return _sql_quoted("".join(f"{round(s * 10 ** (_DIGITS - 1)):0{_DIGITS}d}" for s in shares), "'")


def _sql_average(tree: Tree, labels: list[str], shares: list[str]) -> list[str]:
    """Return the lines of an expression that adds the shares of the leaves, and has the largest sum's label.

    The innermost query has a text of shares for each tree, the next one a sum for each label.
    """
    if len(labels) > MOST_SQL_LABELS:
        what = f"the class has more than {MOST_SQL_LABELS} labels, too many to compare in one SQL expression"
        raise UsageError("too-many-labels", what, f"add {argument('distil', True)}, or export .pmml")
    if len(labels) == 1:
        return labels
    own = "ppdm"
    while any(f.name.lower().startswith(own) for f in tree.features):
        own += "_"
    ways, root, classes, trees = leaves(tree), tree.root, range(len(labels)), range(tree.roots)
    lines = ["(SELECT CASE"]
    for c in classes[:-1]:  # of equal sums the first, whatever the rounding
        best = " AND ".join(f"{own}_s{c} + {tree.roots} >= {own}_s{d}" for d in classes if d != c)
        lines.append(f"  WHEN {best} THEN {labels[c]}")
    lines += [f"  ELSE {labels[-1]}", "END FROM (SELECT"]
    for c in classes:
        parts = [f"CAST(SUBSTR({own}_t{t}, {c * _DIGITS + 1}, {_DIGITS}) AS BIGINT)" for t in trees]
        lines.append(f"  {' + '.join(parts)} AS {own}_s{c}{',' * (c < classes[-1])}")
    lines.append("FROM (SELECT")
    for t in trees:
        cases = _sql_cases(tree, {n: way for n, way in ways.items() if root[n] == t}, shares)
        lines += [*cases[:-1], f"{cases[-1]} AS {own}_t{t}{',' * (t < trees[-1])}"]
    return [*lines, f") AS {own}_trees) AS {own}_sums)"]


def _sql_condition(feature: Feature, condition: LeafCondition) -> str:
    """Return a condition that is true for records that are sent there; empty if every record is."""
    name = _sql_quoted(feature.name, '"')
    nan = f"lower(CAST({name} AS VARCHAR)) = 'nan'"  # greater than any number; SQLite has none
    floating = pa.types.is_floating(dtypes.parse(feature.dtype))
    tests = []
    if condition.high < inf:
        tests.append(name + _sql_bound(feature, condition.high, ("<=", "<")))
    if condition.low > -inf:
        tests.append(name + _sql_bound(feature, condition.low, (">", ">=")))
        if floating and not condition.missing and condition.high == inf:
            tests.append(f"NOT {nan}")
    if condition.only is not None:
        tests.append(f"{name} = {_sql_value(condition.only[0], feature.dtype)}" if condition.only else "1 = 0")
    if condition.other_than:
        others = ", ".join(_sql_value(v, feature.dtype) for v in dict.fromkeys(condition.other_than))
        tests.append(f"{name} NOT IN ({others})")
    whole = " AND ".join(tests)
    if not condition.missing or not whole:
        return whole
    missing = f"{name} IS NULL OR {nan}" if floating and condition.high < inf else f"{name} IS NULL"
    return f"({missing} OR {f'({whole})' if len(tests) > 1 else whole})"


def _sql_bound(feature: Feature, threshold: float, signs: tuple[str, str]) -> str:
    """Return a comparison with a threshold, or by the second sign with the end of a bin."""
    kind, end = dtypes.parse(feature.dtype), _end_of_bin(feature, threshold)
    if end is not None:
        return f" {signs[1]} {_sql_number(float(end))}"
    if dtypes.is_whole(kind):
        return f" {signs[0]} {_sql_value(dtypes.to_json(last_step(threshold, feature), kind), feature.dtype)}"
    return f" {signs[0]} {_sql_number(threshold)}"


def _sql_value(value: StoredValue, dtype: str) -> str:
    """Return a category or a label; dates and times are text in every engine's notation."""
    value, kind = value_of(value, dtype), dtypes.parse(dtype)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return _sql_number(value)
    if isinstance(value, int) or pa.types.is_decimal(kind):
        return str(value)
    if not pa.types.is_string(kind):
        value = value.replace("T", " ").replace("Z", "+00")
    return _sql_quoted(value, "'")


def _sql_number(number: float) -> str:
    """Return a double that every engine reads exactly."""
    text = repr(number)
    places = Decimal(text).as_tuple()
    if len(places.digits) <= 15 and int(places.exponent) >= -15 and abs(number) < 1e15:
        return text if "e" in text else f"{text.removesuffix('.0')}e0"
    whole, below = number.as_integer_ratio()  # an odd number, or 0, times a power of two
    zeros = max((whole & -whole).bit_length() - 1, 0)
    whole, power = whole >> zeros, zeros - (below.bit_length() - 1)
    out, sign = f"CAST({whole} AS DOUBLE PRECISION)", "*" if power > 0 else "/"
    for done in range(0, abs(power), _LARGEST_POWER):
        out += f" {sign} {1 << min(_LARGEST_POWER, abs(power) - done)}"
    return f"({out}) /* {text} */"


def _sql_quoted(text: str, mark: str) -> str:
    if "\0" in text:
        what = "a name or a category of the tree has a null character, which no SQL can hold"
        raise UsageError("unexportable-character", what, "use another format")
    return mark + text.replace(mark, 2 * mark) + mark


def pmml(tree: Tree, note: str) -> str:
    """Return the document; only attributes that the tree tests are fields."""
    tested = Descent(tree).tested
    class_ = Feature(tree.class_name, tree.class_dtype, False, tree.labels)
    fields = [*(tree.features[i] for i in tested), class_]
    active = '      <MiningField name={} usageType="active" invalidValueTreatment="asMissing"/>'
    schema = [
        "    <MiningSchema>",
        *(active.format(_pmml_text(f.name)) for f in fields[:-1]),
        f'      <MiningField name={_pmml_text(class_.name)} usageType="target"/>',
        "    </MiningSchema>",
    ]
    shares, heaviest = shares_at(tree), Descent(tree).heaviest
    models = [_pmml_tree(schema, _pmml_nodes(tree, root, shares, heaviest)) for root in range(tree.roots)]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4">',
            f"  <Header description={_pmml_text(note)}><Application name={_pmml_text(TOOL)}/></Header>",
            f'  <DataDictionary numberOfFields="{len(fields)}">',
            *(line for f in fields for line in _pmml_field(f)),
            "  </DataDictionary>",
            *(models[0] if len(models) == 1 else _pmml_average(models, schema)),
            "</PMML>",
            "",
        ]
    )


def _pmml_tree(schema: list[str], nodes: list[str]) -> list[str]:
    return [
        '  <TreeModel functionName="classification" missingValueStrategy="defaultChild" '
        'noTrueChildStrategy="returnLastPrediction" splitCharacteristic="multiSplit">',
        *schema,
        *nodes,
        "  </TreeModel>",
    ]


def _pmml_average(models: list[list[str]], schema: list[str]) -> list[str]:
    """Return the model that averages the probabilities of several."""
    lines = ['  <MiningModel functionName="classification">', *schema]
    lines.append('    <Segmentation multipleModelMethod="average">')
    for n, model in enumerate(models, 1):
        lines += [f'      <Segment id="{n}">', "        <True/>"]
        lines += [*(f"      {line}" for line in model), "      </Segment>"]
    return [*lines, "    </Segmentation>", "  </MiningModel>"]


def _pmml_field(feature: Feature) -> list[str]:
    """Return a field's lines; numbers are doubles, as the tree compares them, whatever their type."""
    kind = dtypes.parse(feature.dtype)
    timed = "dateTime" if pa.types.is_timestamp(kind) else "date" if pa.types.is_date(kind) else ""
    if feature.numeric:
        timed = timed or ("time" if pa.types.is_time(kind) else "double")
        return [f'    <DataField name={_pmml_text(feature.name)} optype="continuous" dataType="{timed}"/>']
    name = "boolean" if pa.types.is_boolean(kind) else "integer" if pa.types.is_integer(kind) else "string"
    name = "double" if pa.types.is_floating(kind) else name
    values = [f"      <Value value={_pmml_value(v, feature.dtype)}/>" for v in feature.categories]
    head = f'    <DataField name={_pmml_text(feature.name)} optype="categorical" dataType="{name}">'
    return [head, *values, "    </DataField>"]


def _pmml_nodes(tree: Tree, root: int, shares: Floats, heaviest: np.ndarray) -> list[str]:
    """Return the nodes below a root, depth first, each within its parent."""
    found, lines = majority(shares), []
    waiting: list[tuple[int, str, int]] = [(root, "<True/>", 3)]
    while waiting:
        node, predicate, depth = waiting.pop()
        if node < 0:
            lines.append("  " * depth + "</Node>")
            continue
        first, size = int(tree.first_child[node]), int(tree.children[node])
        default = f' defaultChild="{first + int(heaviest[node])}"' if size else ""
        score = _pmml_value(tree.labels[int(found[node])], tree.class_dtype)
        held = float(tree.counts[node].sum())
        lines.append("  " * depth + f'<Node id="{node}" score={score} recordCount="{held:.12g}"{default}>')
        lines.append("  " * (depth + 1) + predicate)
        if not size:
            counts = tree.counts[node] if held else shares[node]
            for value, count in zip(tree.labels, counts.tolist(), strict=True):
                if count or tree.roots > 1:  # a missing probability is no 0 to every evaluator
                    known = _pmml_value(value, tree.class_dtype)
                    lines.append(
                        "  " * (depth + 1) + f'<ScoreDistribution value={known} recordCount="{count:.12g}"/>'
                    )
        waiting.append((-1, "", depth))
        waiting += [(first + b, _pmml_predicate(tree, node, b), depth + 1) for b in reversed(range(size))]
    return lines


def _pmml_predicate(tree: Tree, node: int, branch: int) -> str:
    feature = tree.features[int(tree.feature[node])]
    if feature.numeric:
        operator, value = (
            ("lessOrEqual", "greaterThan")[branch],
            _pmml_cut(feature, float(tree.threshold[node])),
        )
    else:
        operator, value = "equal", _pmml_value(feature.categories[branch], feature.dtype)
    return f'<SimplePredicate field={_pmml_text(feature.name)} operator="{operator}" value={value}/>'


def _pmml_cut(feature: Feature, threshold: float) -> str:
    kind = dtypes.parse(feature.dtype)
    if dtypes.is_whole(kind) and not pa.types.is_integer(kind):
        return _pmml_text(str(dtypes.to_json(last_step(threshold, feature), kind)).removesuffix("Z"))
    return _pmml_text(repr(threshold))


def _pmml_value(value: StoredValue, dtype: str) -> str:
    value = value_of(value, dtype)
    return _pmml_text(str(value).lower() if isinstance(value, bool) else str(value))


def _pmml_text(text: str) -> str:
    """Return an attribute's value in quotes."""
    if _NOT_XML.search(text):
        what = "a name or a category of the tree has a character that no XML can hold"
        raise UsageError("unexportable-character", what, "use another format")
    from xml.sax.saxutils import quoteattr  # which imports http and ssl

    return quoteattr(text)


LONGEST_NAME = 40
"""The most characters of a name or label in a line."""
_PLAIN = re.compile(r"[^\W_][\w.+/%-]*(?: [\w.+/%-]+)*|-?\d[\w.+-]*")


def as_text(tree: Tree) -> str:
    """Return the tree as C4.5 and J48 print it."""
    summary = f"\nNumber of Leaves  : \t{tree.leaves}\n\nSize of the tree : \t{tree.size}\n"
    return "".join(f"{line}\n" for _, line in outlined(tree)) + summary


def outlined(tree: Tree) -> Iterator[tuple[int, str]]:
    """Yield each line, depth first, with its node; several trees come one after the other."""
    for root in range(tree.roots):
        if tree.roots > 1:
            yield root, f"Tree {root + 1} of {tree.roots}"
        yield from _outlined(tree, root)


def _outlined(tree: Tree, root: int) -> Iterator[tuple[int, str]]:
    if tree.feature[root] < 0:
        yield root, _leaf(tree, root)
        return
    waiting = [(root, branch, 0) for branch in reversed(range(int(tree.children[root])))]
    while waiting:
        node, branch, depth = waiting.pop()
        child = int(tree.first_child[node]) + branch
        line = "|   " * depth + _test(
            tree.features[int(tree.feature[node])], float(tree.threshold[node]), branch
        )
        if tree.feature[child] < 0:
            yield child, line + _leaf(tree, child)
        else:
            yield child, line
            waiting += [(child, b, depth + 1) for b in reversed(range(int(tree.children[child])))]


def rules_of(tree: Tree) -> dict[int, str]:
    """Return each leaf's rule in one line: the tests on its way."""
    rules = [""] * tree.roots
    for _, above, feature, branch in tree.branches():
        test = _test(feature, float(tree.threshold[above]), branch)
        rules.append(f"{rules[above]}, {test}" if rules[above] else test)
    return {node: rules[node] or "all" for node in np.flatnonzero(tree.is_leaf).tolist()}


def _leaf(tree: Tree, node: int) -> str:
    """Return `: A (120.0/3.0)`: the label, the records' weight, and that of other labels."""
    total = float(tree.counts[node].sum())
    wrong = total - float(tree.counts[node, tree.label[node]])
    held = f"({total:.1f}/{wrong:.1f})" if wrong >= 0.05 else f"({total:.1f})"
    return f": {_quoted(tree.labels[int(tree.label[node])])} {held}"


def _test(feature: Feature, threshold: float, branch: int) -> str:
    """Return the outcome that leads to a child: `age <= 39.9`, `region = north`, for bins `age < 40`."""
    name = _quoted(feature.name)
    if not feature.numeric:
        return f"{name} = {_quoted(feature.categories[branch])}"
    if (end := _end_of_bin(feature, threshold)) is not None:
        return f"{name} {('<', '>=')[branch]} {end}"
    return f"{name} {('<=', '>')[branch]} {_cut(feature, threshold)}"


def _end_of_bin(feature: Feature, threshold: float) -> int | float | str | None:
    """Return the round number at which a bin of doubles ends, if a threshold is the last double below it."""
    if feature.dtype != "double":
        return None
    above = exact_cut(feature, nextafter(threshold, inf))
    return above if len(repr(above)) + 4 < len(repr(threshold)) and above != inf else None


def _cut(feature: Feature, threshold: float) -> str:
    """Return a threshold for people; for whole steps, the last step below it."""
    kind = dtypes.parse(feature.dtype)
    low, high = dtypes.limits(kind)
    if dtypes.is_whole(kind) and low <= threshold <= high:
        return str(dtypes.to_json(floor(threshold), kind))
    return f"{threshold:.9g}" if feature.dtype == "float" else str(exact_cut(feature, threshold))


def exact_cut(feature: Feature, threshold: float) -> int | float | str:
    """Return a threshold in original units: a date, a decimal, a number; exact, so that it can be read back.

    A threshold that the column's type cannot write stays a number in units of its carrier.
    """
    kind = dtypes.parse(feature.dtype)
    low, high = dtypes.limits(kind)
    if isinstance(dtypes.to_json(0, kind), str):
        whole = float(threshold).is_integer() and low <= threshold <= high
        if whole and float(int(threshold)) == threshold:
            return dtypes.to_json(int(threshold), kind)
    number = float(threshold)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _quoted(value: object) -> str:
    """Return a name or label in one line, in quotes unless it consists of letters, digits and the like."""
    text = shortened(value)
    if _PLAIN.fullmatch(str(value)) and text:
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def shortened(value: object, longest: int = LONGEST_NAME) -> str:
    """Return a value in one line of at most `longest` characters."""
    text = one_line(str(value)[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + "\u2026"

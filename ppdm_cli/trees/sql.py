"""A tree as one CASE expression that DuckDB, SQLite and PostgreSQL run unchanged.

It has one WHEN for each leaf, because old SQLite has no room to parse tests within tests. Old SQLite does not
read every decimal right either: a threshold of many digits is a whole number times or by powers of two.
"""

from __future__ import annotations

from decimal import Decimal
from math import inf
from typing import Any

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import UsageError
from ppdm_cli.trees.portable import Condition, exact_parts, last_step, leaves, predictions, value_of
from ppdm_cli.trees.tree import Feature, Tree

_POWER = 62
"""The largest power of two that every engine's whole numbers hold."""


def sql(tree: Tree, note: str) -> str:
    """Return the expression, after comments that say how to use it and what missing values do."""
    found = predictions(tree).label
    told = {n: _value(tree.labels[int(found[n])], tree.class_dtype) for n in range(tree.size)}
    head = ["-- A decision tree: SELECT *, (this expression) AS predicted FROM records", f"-- {note}"]
    *rules, last = [(told[n], way) for n, way in leaves(tree).items()]
    if not rules:
        return "\n".join([*head, last[0], ""])
    body = []
    for label, way in rules:
        tests = [_condition(tree.features[f], c) for f, c in way.items()]
        body.append(f"  WHEN {' AND '.join(filter(None, tests)) or '1 = 1'} THEN {label}")
    return "\n".join([*head, "CASE", *body, f"  ELSE {last[0]}", "END", ""])


def _condition(feature: Feature, way: Condition) -> str:
    """Return a condition that is true where a record goes this way; empty where every record does."""
    name = _quoted(feature.name, '"')
    nan = (
        f"lower(CAST({name} AS VARCHAR)) = 'nan'"  # greater than any number, but not in SQLite, which has none
    )
    floating = pa.types.is_floating(dtypes.parse(feature.dtype))
    tests = []
    if way.high < inf:
        tests.append(f"{name} <= {_threshold(feature, way.high)}")
    if way.low > -inf:
        tests.append(f"{name} > {_threshold(feature, way.low)}")
        if floating and not way.missing and way.high == inf:
            tests.append(f"NOT {nan}")
    if way.only is not None:
        tests.append(f"{name} = {_value(way.only[0], feature.dtype)}" if way.only else "1 = 0")
    if way.other_than:
        others = ", ".join(_value(v, feature.dtype) for v in dict.fromkeys(way.other_than))
        tests.append(f"{name} NOT IN ({others})")
    whole = " AND ".join(tests)
    if not way.missing or not whole:
        return whole
    missing = f"{name} IS NULL OR {nan}" if floating and way.high < inf else f"{name} IS NULL"
    return f"({missing} OR {f'({whole})' if len(tests) > 1 else whole})"


def _threshold(feature: Feature, threshold: float) -> str:
    kind = dtypes.parse(feature.dtype)
    if dtypes.is_whole(kind):
        return _value(dtypes.to_json(last_step(threshold, feature), kind), feature.dtype)
    return _number(threshold)


def _value(value: Any, dtype: str) -> str:
    """Return a category or a label; dates and times are text in every engine's notation."""
    value, kind = value_of(value, dtype), dtypes.parse(dtype)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int) or pa.types.is_decimal(kind):
        return str(value)
    if not pa.types.is_string(kind):
        value = value.replace("T", " ").replace("Z", "+00")
    return _quoted(value, "'")


def _number(number: float) -> str:
    """Return a double that every engine reads exactly."""
    text = repr(number)
    places = Decimal(text).as_tuple()
    if len(places.digits) <= 15 and int(places.exponent) >= -15 and abs(number) < 1e15:
        return text if "e" in text else f"{text.removesuffix('.0')}e0"
    whole, power = exact_parts(number)
    out, sign = f"CAST({whole} AS DOUBLE PRECISION)", "*" if power > 0 else "/"
    for done in range(0, abs(power), _POWER):
        out += f" {sign} {1 << min(_POWER, abs(power) - done)}"
    return f"({out}) /* {text} */"


def _quoted(text: str, mark: str) -> str:
    if "\0" in text:
        raise UsageError(
            "a name or a category of the tree has a null character, which no SQL can hold",
            "export another form",
        )
    return mark + text.replace(mark, 2 * mark) + mark

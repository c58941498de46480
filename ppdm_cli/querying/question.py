"""Questions for `query`: SQL read by sqlglot as conditions, numbers, and answers that are computed from sums.

A question that cannot be answered is refused with the reason. Conditions have three values, as in SQL: a
condition on null is neither true nor false.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import sqlglot
from sqlglot import exp

from ppdm_cli.errors import UsageError, counted, near, quoted

Literals = str | int | float | bool
Sign = Literal["+", "-", "*", "/"]
TESTS = ("independent", "trend", "same", "fits")
REGRESSIONS = ("linear", "ridge")


@dataclass(frozen=True)
class Predicate:
    """A condition on one column: below a value, at most a value, among some, or null."""

    column: str
    asks: Literal["below", "up to", "among", "null"]
    values: tuple[Literals, ...] = ()


@dataclass(frozen=True)
class Not:
    of: Condition


@dataclass(frozen=True)
class Both:
    one: Condition
    other: Condition


Condition = Predicate | Not | Both


def either(one: Condition, other: Condition) -> Condition:
    return Not(Both(Not(one), Not(other)))


@dataclass(frozen=True)
class Column:
    name: str


@dataclass(frozen=True)
class Combined:
    """Two numbers, or two answers, with a sign between."""

    sign: Sign
    one: Any
    other: Any


Number = Column | Combined | float


@dataclass(frozen=True)
class Aggregate:
    """A function of all records, or of those for which a condition holds."""

    function: str
    arguments: tuple[Any, ...]
    where: Condition | None = None


Answer = Aggregate | Combined | float


@dataclass(frozen=True)
class Item:
    """One requested answer, and its name."""

    title: str
    answer: Answer


@dataclass(frozen=True)
class Question:
    items: tuple[Item, ...]
    where: Condition | None
    by: tuple[Column | Condition, ...]
    titles: tuple[str, ...]


def parts(of: object) -> Iterator[Any]:
    """Yield a question's part and all parts of it."""
    yield of
    inner: tuple[Any, ...] = ()
    if isinstance(of, (Both, Combined)):
        inner = of.one, of.other
    elif isinstance(of, Not):
        inner = (of.of,)
    elif isinstance(of, Aggregate):
        inner = (*of.arguments, of.where)
    for each in inner:
        yield from parts(each)


def columns_in(of: object) -> list[str]:
    """Return the columns that a part names, each once."""
    found = (
        p.name if isinstance(p, Column) else p.column for p in parts(of) if isinstance(p, (Column, Predicate))
    )
    return list(dict.fromkeys(found))


Node = Any
"""A part of a statement as sqlglot has it."""
LONGEST = 1 << 16
DEEPEST, MOST_ANSWERS = 100, 500
"""The deepest nesting of a question, where a sum is as deep as it is long, and its most answers."""
TAKES = {"count": (0, 1), "sum": (1, 1), "mean": (1, 1), "share": (1, 1), "variance": (1, 1), "stddev": (1, 1),
         "quantile": (2, 2), "median": (1, 1), "corr": (2, 2), "independent": (2, 2), "trend": (2, 2),
         "same": (2, 2), "linear": (2, 1 << 8), "ridge": (3, 1 << 8), "fits": (3, 1 << 8)}  # fmt: skip
"""The functions, with the least and the most arguments of each."""
_ALSO = {"avg": "mean", "var_samp": "variance", "stddev_samp": "stddev", "sd": "stddev"}
ANSWERS = ", ".join(TAKES)
_READ = {
    "Select": {"expressions", "where", "group", "from_", "from"}, "Group": {"expressions"},
    "Table": {"this", "alias"}, "Column": {"this", "table"}, "Identifier": {"this", "quoted"},
    "Alias": {"this", "alias"}, "Literal": {"this", "is_string"}, "Between": {"this", "low", "high"},
    "In": {"this", "expressions"}, "Cast": {"this", "to"}, "DataType": {"this", "nested"},
    "Div": {"this", "expression", "typed", "safe"}, "Count": {"this", "big_int"},
    "Quantile": {"this", "quantile"}, "Star": set[str](),
}  # fmt: skip
"""The fields that are read of each part of a statement, if not all are."""


def read_question(text: str) -> Question:
    tree = _parsed(text)
    if not isinstance(tree, exp.Select):
        raise UsageError("only-select", "only SELECT statements are supported", "try 'select mean(age)'")
    by = _grouped(tree)
    asked = [e for e in tree.expressions if e.unalias() not in by]
    if not asked:
        raise UsageError(
            "question-asks-nothing", "the question asks for nothing", "try 'select mean(age) group by sex'"
        )
    where, source = tree.args.get("where"), tree.args.get("from_") or tree.args.get("from")
    titles = {e.unalias(): e.alias for e in tree.expressions if e.alias}
    if source is not None and not isinstance(source.this.this, exp.Identifier):
        raise UsageError(
            "from-is-a-name", "FROM takes only a name here", "leave it out: the release is the only table"
        )
    found = Question(
        tuple(Item(e.alias or _text(e), _answer(e.unalias())) for e in asked),
        None if where is None else _condition(where.this),
        tuple(_column(e) if isinstance(e, exp.Column) else _condition(e) for e in by),
        tuple(titles.get(e) or (e.name if isinstance(e, exp.Column) else _text(e)) for e in by),
    )
    _nothing_left(tree)
    _nothing_lost(text, tree)
    if len(found.items) > MOST_ANSWERS:
        what = f"the question asks for {len(found.items):,} answers, more than {MOST_ANSWERS}"
        raise UsageError("too-many-answers", what, "ask for fewer at once")
    answers: dict[str, Answer] = {}
    for item in found.items:
        if not any(isinstance(p, Aggregate) for p in parts(item.answer)):
            what = f"{quoted(item.title)} is the same for every release"
            raise UsageError("answer-of-no-release", what, f"use one of {ANSWERS}")
        if answers.setdefault(item.title, item.answer) != item.answer:
            what = f"two answers are called {quoted(item.title)}"
            raise UsageError("two-answers-of-a-name", what, "name each differently with AS")
    return found


def _grouped(tree: Node) -> list[Node]:
    group = tree.args.get("group")
    if group is not None and not any(group.args.values()):
        raise UsageError(
            "group-by-nothing", "GROUP BY names nothing", "add columns, such as group by sex, or remove it"
        )
    return [] if group is None else list(group.expressions)


def _nothing_left(tree: Node) -> None:
    """Refuse a statement with parts that are not read here."""
    for node in tree.walk():
        read = _READ.get(type(node).__name__, {"this", "expression", "expressions"})
        for name, value in node.args.items():
            if value and name not in read:
                clause = name.strip("_").upper().replace("_", " ")
                raise _no(clause if node is tree else f"{clause} in {_written(node)}")


def _nothing_lost(text: str, tree: Node) -> None:
    """Refuse a question that the parser reads as one of other words: it may be cut off."""
    if _words(text) != _words(str(tree.sql(comments=False))):
        what = "the question is incomplete, or lacks AS before a name"
        raise UsageError("question-incomplete", what, f"check whether you meant {_written(tree)}")


def _words(text: str) -> Counter[str]:
    """Return the counts of each kind of token, whatever their order; a date's type is a cast of its text."""
    found = Counter(t.token_type.name for t in sqlglot.tokenize(text) if t.text.lower() != "cast")
    found["VAR"] += found.pop("STRING", 0) + found.pop("IDENTIFIER", 0)
    found["ALIAS"] -= sum(t.text.lower() == "cast" for t in sqlglot.tokenize(text))
    free = ("L_PAREN", "R_PAREN", "SEMICOLON", "DOT")  # .5 reads as 0.5
    return Counter({k: n for k, n in found.items() if n and k not in free})


def _parsed(text: str) -> Node:
    if len(text) > LONGEST:
        raise UsageError(
            "question-too-long", f"the question has more than {LONGEST} characters", "ask less at once"
        )
    try:
        trees = sqlglot.parse(text)
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        found = getattr(error, "errors", None) or [{}]
        line, column = found[0].get("line"), found[0].get("col")
        where = f", at character {column} of line {line}" if line else ""
        word = found[0].get("highlight") or ""
        step = "try 'select mean(age) where sex = \"F\"'"
        reserved = word.upper() in {t.token_type.name for t in sqlglot.tokenize(text)} if line else False
        before = re.search(r"(?:[(,]|by) *(\w+ )$", found[0].get("start_context") or "")
        if before and word.isidentifier() and not reserved:
            word, reserved = before[1] + word, True
        if reserved and word.lower() not in ("select", "where", "and", "or", "as"):
            step = f"if {quoted(word)} is a column, put its name in double quotes"
        raise UsageError("question-not-sql", f"can't read the question as SQL{where}", step) from None
    if len(trees) != 1:
        raise UsageError("several-statements", "the question has several statements", "ask one at a time")
    _check_depth(trees[0])
    return trees[0]


def _check_depth(tree: Node) -> None:
    """Refuse a question that is nested too deep, or has too long a chain of signs."""
    level, depth = [tree], 0
    while level:
        level = [child for node in level if node is not None for child in node.iter_expressions()]
        depth += 1
        if depth > DEEPEST:
            what = (
                f"the question is nested more than {DEEPEST} deep, or joins more than that with signs, and, or"
            )
            raise UsageError(
                "question-too-deep", what, "ask for less at once, such as `in (1, 2, 3)` instead of many or"
            )


def _no(what: str, step: str = "use only select, where and group by") -> UsageError:
    return UsageError("sql-not-supported", f"{what} isn't supported", step)


def _wrong(id: str, tree: Node, what: str, step: str) -> UsageError:
    return UsageError(id, f"{_written(tree)} {what}", step)


def _text(tree: Node) -> str:
    return str(tree.sql(normalize_functions="lower", comments=False))


def _written(tree: Node) -> str:
    """Return a part of a question for a message."""
    text = _text(tree)
    return quoted(text if len(text) <= 60 else text[:57] + "...")


# -- answers


def _answer(tree: Node, where: Condition | None = None) -> Answer:
    if isinstance(tree, exp.Paren):
        return _answer(tree.this, where)
    if where is None and isinstance(tree, exp.Filter):
        return _answer(tree.this, _condition(tree.expression.this))
    if where is None and (sign := _sign(tree)):
        return Combined(sign, _answer(tree.this), _answer(tree.expression))
    if where is None and isinstance(tree, exp.Neg):
        return Combined("-", 0.0, _answer(tree.this))
    if where is None and isinstance(tree, exp.Literal) and not tree.is_string:
        return float(tree.this)
    if isinstance(tree, exp.Func):
        return _aggregate(tree, where)
    if isinstance(tree, exp.Column) and not isinstance(tree.this, exp.Star):
        step = f"aggregate it, such as mean({_text(tree)}), or move it to group by"
        raise UsageError("column-without-a-function", f"{_written(tree)} is a column", step)
    raise _wrong("not-an-answer", tree, "can't be an answer", f"use one of {ANSWERS}")


def _aggregate(tree: Node, where: Condition | None) -> Aggregate:
    name = (tree.name if isinstance(tree, exp.Anonymous) else tree.sql_name()).lower()
    name = _ALSO.get(name, name)
    if name in ("max", "min"):
        what = f"{quoted(name)} can't be estimated: noise decides which perturbed value is extreme"
        step = f"use a quantile, such as quantile(age, {'.99' if name == 'max' else '.01'})"
        raise UsageError("extremes-not-estimated", what, step)
    if name not in TAKES:
        step = near(name, [*TAKES, *_ALSO]) or f"use one of {ANSWERS}"
        raise _no(f"the function {quoted(name)}", step)
    if isinstance(tree, exp.Anonymous):
        given = list(tree.expressions)
    else:
        given = [tree.args[n] for n in ("this", "quantile", "expression") if tree.args.get(n) is not None]
        if tree.expressions:
            given += tree.expressions
    if name == "count" and len(given) == 1 and isinstance(given[0], exp.Star):
        given = []
    least, most = TAKES[name]
    if not least <= len(given) <= most:
        problem = f"{_written(tree)}: {name} takes {counted(most, 'argument')}"
        raise UsageError("wrong-number-of-arguments", problem, f"the functions are {ANSWERS}")
    if name == "share":
        return Aggregate(name, (_condition(given[0]),), where)
    if name == "median":
        return Aggregate("quantile", (_number(given[0]), 0.5), where)
    if name == "quantile":
        share = _constant(given[1])
        if not isinstance(share, float) or not 0 < share < 1:
            raise _wrong("share-out-of-range", tree, "needs a share between 0 and 1", "try quantile(age, .9)")
        return Aggregate(name, (_number(given[0]), share), where)
    if name in REGRESSIONS:
        return Aggregate(name, _regression(name, tree, given), where)
    if name == "independent":
        return Aggregate(name, tuple(_alone(g) for g in given), where)
    if name == "same":
        return Aggregate(name, (_answer(given[0]), _alone(given[1])), where)
    if name == "fits":
        return Aggregate(name, (_alone(given[0]), *_fitted(tree, given[1:])), where)
    if name == "trend":
        return Aggregate(name, tuple(_number_or_condition(g) for g in given), where)
    return Aggregate(name, tuple(map(_number, given)), where)


def _alone(tree: Node) -> Column:
    """Return a column that is the whole argument."""
    if not isinstance(tree, exp.Column):
        raise _wrong("not-a-column", tree, "isn't a column", "name a column, such as independent(smoker, sex)")
    return _column(tree)


def _number_or_condition(tree: Node) -> Number | Condition:
    asks = (exp.Predicate, exp.Connector, exp.Not)
    return _condition(tree) if isinstance(tree.unnest(), asks) else _number(tree)


def _regression(name: str, tree: Node, given: list[Node]) -> tuple[Any, ...]:
    """Return the dependent column, for a ridge its weight, and the explanatory columns."""
    weight: list[float] = []
    if name == "ridge":
        value = _constant(given.pop(1))
        if isinstance(value, (bool, str)) or value is None or not 0 < value < float("inf"):
            raise _wrong("no-ridge-weight", tree, "has no weight above 0", "try ridge(income, 1, age, sex)")
        weight = [float(value)]
    columns = [_number_or_condition(g) for g in given]
    if any(isinstance(c, (float, Combined)) for c in columns):
        raise _wrong(
            "regression-of-columns", tree, "takes columns and conditions", "try linear(income, age, sex = 'F')"
        )
    return (columns[0], *weight, *columns[1:])


def _fitted(tree: Node, given: list[Node]) -> list[Literals]:
    """Return the values and shares of a fit, which must be shares of all."""
    found = list(map(_literal, given))
    shares = [s for s in found[1::2] if isinstance(s, (int, float)) and not isinstance(s, bool) and s > 0]
    if len(found) % 2 or 2 * len(shares) != len(found) or abs(sum(shares) - 1) > 1e-6:
        raise _wrong(
            "shares-of-a-fit",
            tree,
            "takes values, each with its share; the shares sum to 1",
            "try fits(sex, 'F', .5, 'M', .5)",
        )
    return found


def _sign(tree: Node) -> Sign | None:
    signs: dict[Any, Sign] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
    return signs.get(type(tree))


def _number(tree: Node) -> Number:
    """Return a number of each record: a column, or columns and numbers with signs between."""
    if isinstance(tree, exp.Paren):
        return _number(tree.this)
    if isinstance(tree, exp.Column):
        return _column(tree)
    if isinstance(tree, exp.Neg):
        return Combined("*", -1.0, _number(tree.this))
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return float(tree.this)
    if sign := _sign(tree):
        other = _number(tree.expression)
        if sign != "/":
            return Combined(sign, _number(tree.this), other)
        if isinstance(other, float) and other:
            return Combined("*", _number(tree.this), 1 / other)
    raise _no(f"{_written(tree)} of a record", "use columns, and numbers with + - * between them")


def _column(tree: Node) -> Column:
    if tree.table:
        raise _wrong(
            "column-of-a-table", tree, "names a table", "name the column alone: a release is one table"
        )
    return Column(tree.name)


# -- conditions


def _condition(tree: Node) -> Condition:
    if isinstance(tree, exp.Paren):
        return _condition(tree.this)
    if isinstance(tree, exp.Not):
        return Not(_condition(tree.this))
    if isinstance(tree, exp.And):
        return Both(_condition(tree.this), _condition(tree.expression))
    if isinstance(tree, exp.Or):
        return either(_condition(tree.this), _condition(tree.expression))
    if isinstance(tree, exp.Column):
        return Predicate(tree.name, "among", (True,))
    if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
        return Predicate(_asked(tree).name, "null")
    if isinstance(tree, exp.Between):
        name, low, high = _asked(tree).name, _literal(tree.args["low"]), _literal(tree.args["high"])
        return Both(Not(Predicate(name, "below", (low,))), Predicate(name, "up to", (high,)))
    if isinstance(tree, exp.In) and tree.expressions:
        return Predicate(_asked(tree).name, "among", tuple(map(_literal, tree.expressions)))
    if isinstance(tree, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return _comparison(tree)
    raise _wrong(
        "not-a-condition",
        tree,
        "is not a condition that a release can answer",
        "compare a column with a value, using = <> < <= > >=, between, in or is null, joined by and, or, not",
    )


def _comparison(tree: Node) -> Condition:
    column, value, kind = tree.this, tree.expression, type(tree)
    if not isinstance(column, exp.Column):  # the value stands first
        turned = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
        column, value, kind = value, column, turned.get(kind, kind)
    if not isinstance(column, exp.Column):
        raise _wrong("comparison-without-a-column", tree, "names no column", "compare a column with a value")
    name, literal = _column(column).name, (_literal(value),)
    if kind in (exp.EQ, exp.NEQ):
        found: Condition = Predicate(name, "among", literal)
    else:
        found = Predicate(name, "below" if kind in (exp.LT, exp.GTE) else "up to", literal)
    return Not(found) if kind in (exp.NEQ, exp.GT, exp.GTE) else found


def _asked(tree: Node) -> Column:
    if not isinstance(tree.this, exp.Column):
        raise _wrong(
            "comparison-without-a-column", tree, "doesn't begin with a column", "write the column first"
        )
    return _column(tree.this)


def _constant(tree: Node) -> Literals | None:
    if isinstance(tree, exp.Paren):
        return _constant(tree.this)
    if isinstance(tree, exp.Neg):
        value = _constant(tree.this)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Cast) and tree.to.is_type(*exp.DataType.TEMPORAL_TYPES):  # date '2026-01-01'
        return str(tree.this.this) if tree.this.is_string else None
    if isinstance(tree, exp.Literal):
        if tree.is_string:
            return str(tree.this)
        return int(tree.this) if tree.this.isdigit() and len(tree.this) < 300 else float(tree.this)
    if isinstance(tree, exp.Column) and tree.this.args.get("quoted"):  # "yes", in double quotes
        return str(tree.name)
    return None


def _literal(tree: Node) -> Literals:
    value = _constant(tree)
    if value is None:
        raise _wrong(
            "not-a-value",
            tree,
            "isn't a value",
            "write numbers as they are, text in quotes, and columns on the left",
        )
    return value

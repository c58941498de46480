"""Errors: how an argument is named in them, in Python and on the command line, and that each has its id."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest

import ppdm_cli
from ppdm_cli import CsvOptions, Plan
from ppdm_cli.errors import UsageError, argument, unknown, unknown_column, worded_by
from ppdm_cli.perturbing.plan import AttributePlan
from tests.experiments.house import ROOT, modules


@pytest.mark.parametrize(
    ("given", "in_python", "in_shell"),
    [
        (("gamma", 9), "gamma=9", "--gamma 9"),
        (("gamma", "9"), "gamma=9", "--gamma 9"),
        (("gamma", range(2, 22)), "gamma=range(2, 22)", "--gamma 2:21"),
        (("joint",), "joint=", "--joint"),
        (("joint", ["age", "sex"]), "joint=['age', 'sex']", "--joint age,sex"),
        (("drop", "x y"), "drop='x y'", "--drop 'x y'"),
        (("drop", ["x y", "z"]), "drop=['x y', 'z']", "--drop 'x y' --drop z"),
        (("output", Path("a b.csv")), "output='a b.csv'", "-o 'a b.csv'"),
        (("class_", "sex"), "class_='sex'", "--class sex"),
        (("key_file", "release.key"), "key_file='release.key'", "--key-file release.key"),
        (("shuffle", True), "shuffle=True", "--shuffle"),
        (("prune", False), "prune=False", "--no-prune"),
        (("bins", 24, "x y"), "attributes={'x y': {'bins': 24}}", "--attribute 'x y:bins=24'"),
        (("domain", "0:120", "age"), "attributes={'age': {'domain': '0:120'}}", "--domain age=0:120"),
        (("type", "string", "zip"), "csv=CsvOptions(types={'zip': 'string'})", "--type zip=string"),
        (("delimiter", ";"), "csv=CsvOptions(delimiter=';')", "--delimiter ';'"),
        (("header", False), "csv=CsvOptions(header=False)", "--no-header"),
        (("attacks", "audit"), "attacks='audit'", "--with audit"),
    ],
)  # fmt: skip
def test_an_argument_is_named_as_the_caller_writes_it(given: tuple[str], in_python: str, in_shell: str) -> None:
    assert argument(*given) == in_python
    options = {"drop": ("--drop", True), "attacks": ("--with", True), "output": ("-o", False)}
    with worded_by(options):
        assert argument(*given) == in_shell
    assert argument(*given) == in_python


def test_the_nearest_of_a_closed_list_is_offered() -> None:
    error = unknown("kind of matrix", "bnad", ["band", "block"])
    assert error.id == "unknown-kind-of-matrix" and error.next_step == "did you mean 'band'?"
    assert "drop=['age', 'sex']" in unknown_column("age,sex", ["age", "sex"], "drop").next_step
    assert unknown_column("agge", ["age", "sex"], "the question").what.startswith("the question names")
    placed = UsageError("bad-number", "not a number", "give one").at("'plan.toml'")
    assert (placed.id, placed.what) == ("bad-number", "'plan.toml': not a number") and type(
        placed
    ) is UsageError


def calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def test_no_message_is_worded_when_a_module_is_imported() -> None:
    """Whoever imports first would decide how it is worded for all."""
    for name, tree in modules(ROOT).items():
        functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))]
        inside = {id(c) for f in functions for c in calls(f, {"argument"})}
        assert not [c.lineno for c in calls(tree, {"argument"}) if id(c) not in inside], name


def test_ids_are_kebab_case_and_each_names_one_cause() -> None:
    """Two engines, or two formats, may refuse the same for the same cause: then by the same class of error."""
    classes: dict[str, set[str]] = {}
    for tree in modules(ROOT).values():
        for call in calls(tree, {"DataError", "UsageError", "MismatchError", "RefusedError"}):
            if len(call.args) == 3 and isinstance(call.args[0], ast.Constant):
                classes.setdefault(call.args[0].value, set()).add(call.func.id)  # type: ignore[attr-defined]
    assert len(classes) > 300 and not [i for i in classes if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", i)]
    assert not {i: found for i, found in classes.items() if len(found) > 1}


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings of a module that are no documentation."""
    bodies = (ast.Module, ast.FunctionDef, ast.ClassDef)
    blocks = [b for n in ast.walk(tree) if isinstance(n, bodies) for b in n.body if isinstance(b, ast.Expr)]
    quiet = {id(b.value) for b in blocks}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet:
            yield node


SHELL_OPTION = re.compile(r"(?<!\w)(?<!var\()--[a-z]+\b(?!:)")
"""An option, but no property of a style sheet."""


def test_the_library_names_no_option_of_the_shell() -> None:
    skipped = {"commands", "errors.py"}
    found = [
        f"{name}:{text.lineno}"
        for name, tree in modules(ROOT).items()
        for text in literals(tree)
        if name.split("/")[1] not in skipped and SHELL_OPTION.search(str(text.value))
    ]
    assert not found


def test_every_argument_that_a_message_names_is_one() -> None:
    """Of a function of the front door, of a plan or one of its columns, or of CsvOptions."""
    known = {*Plan.__struct_fields__, *AttributePlan.__struct_fields__}
    known |= {*CsvOptions.__dataclass_fields__, "type", "null", "date_format", "function", "records"}
    known |= {"on", "plot", "report", "test", "domain"}  # options of commands alone, or settings of a column
    for name in ppdm_cli.__all__:
        found = getattr(ppdm_cli, name)
        known |= {*signature(found).parameters} if callable(found) and not isinstance(found, type) else set()
    named = {
        str(call.args[0].value)
        for tree in modules(ROOT).values()
        for call in calls(tree, {"argument"})
        if isinstance(call.args[0], ast.Constant)
    }
    assert len(named) > 20 and named <= known, named - known

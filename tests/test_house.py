"""The house keeps its size: short modules, short functions, few parameters; and warnings stop only our own."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from grimp import ImportGraph

from tests.experiments.house import classes, modules, public_functions
from tests.front_doors import FrontDoors

ROOT = Path(__file__).parent.parent
MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS = 600, 80, 8
FRONT_DOORS = {
    "attack", "entropy", "estimate", "inspect", "perturb", "plan", "predict", "reconstruct", "state",
    "train_bayes", "train_tree",
}  # fmt: skip
"""What users call, with an argument for each option; scikit-learn's estimator has them in `__init__`."""
SOURCES = sorted([*(ROOT / "ppdm_cli").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])


def beyond(source: str, name: str = "") -> Iterator[str]:
    """Yield what is larger in a module than the house allows."""
    if (lines := len(source.splitlines())) > MOST_LINES:
        yield f"{name}: {lines} lines"
    for f in ast.walk(ast.parse(source)):
        if not isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        documented = f.name in FRONT_DOORS and len(f.body) > 1 and ast.get_docstring(f)  # each parameter is
        first = f.body[1].lineno if documented else f.lineno
        if (length := (f.end_lineno or f.lineno) - first + 1) > MOST_FUNCTION_LINES:
            yield f"{name}: {f.name} has {length} lines"
        names = [a.arg for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)]
        names += [a.arg for a in (f.args.vararg, f.args.kwarg) if a]
        parameters = len(names) - (names[:1] in (["self"], ["cls"]))
        front = f.name in FRONT_DOORS or f.name.endswith("_command")
        estimator = name == "ppdm_cli/sklearn.py" and f.name == "__init__"
        if parameters > MOST_PARAMETERS and not (front or estimator):
            yield f"{name}: {f.name} has {parameters} parameters"


def test_nothing_is_too_large() -> None:
    found = [b for p in SOURCES for b in beyond(p.read_text("utf-8"), p.relative_to(ROOT).as_posix())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "many"),
    [
        ("x = 1\n" * 600, 0),
        ("x = 1\n" * 601, 1),
        ("def f():\n" + "    x = 1\n" * 79, 0),
        ("def f():\n" + "    x = 1\n" * 80, 1),
        ("class A:\n    def f(self, a, b, c, d, *, e, f, g, h): ...", 0),
        ("def f(a, b, c, d, e, f, *g, h, **i): ...", 1),
        ("def perturb(a, b, c, d, e, f, g, h, i): ...", 0),
    ],
)
def test_the_limits_have_power(source: str, many: int) -> None:
    assert len(list(beyond(source))) == many


def test_a_public_name_says_what_it_is_without_its_module() -> None:
    trees = modules(ROOT)
    counted = classes(trees) + public_functions(trees)
    assert not [name for name, count in counted.items() if count > 1]


@pytest.mark.parametrize("module", ["ppdm_cli.trees", "tests.test_house"])
def test_a_warning_from_our_own_modules_is_an_error(module: str) -> None:
    with pytest.raises(RuntimeWarning):
        warnings.warn_explicit("divided by zero", RuntimeWarning, "f.py", 1, module)


@pytest.mark.parametrize(
    ("kind", "module"),
    [(RuntimeWarning, "polars.frame"), (DeprecationWarning, "pyarrow"), (FutureWarning, "ppdm_cli.dtypes")],
)
def test_what_a_library_warns_of_stops_nobody(kind: type[Warning], module: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.warn_explicit("will go", kind, "f.py", 1, module)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("importer", "imported", "kept"),
    [
        ("p.attacks.order", "p.perturbing", True),
        ("p.attacks.order", "p.attacks.law", True),
        ("p.attacks.order", "p.errors", True),
        ("p.attacks.order", "p.perturbing.order", False),
        ("p.pictures", "p.tables.atomic", False),
    ],
)
def test_only_an_import_past_a_front_door_breaks_the_contract(importer: str, imported: str, kept: bool) -> None:
    graph = ImportGraph()
    graph.add_import(importer=importer, imported=imported)
    contract = FrontDoors("front doors", session_options={}, contract_options={})
    assert contract.check(graph, verbose=False).kept is kept

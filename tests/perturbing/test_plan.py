"""One typed plan: keywords of `perturb`, options and TOML fill the same fields, by one reader."""

from __future__ import annotations

import ast
import inspect
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ppdm_cli.perturbing.plan as plans
from ppdm_cli import perturb
from ppdm_cli.errors import PpdmError
from ppdm_cli.perturbing import AttributePlan, Plan

WIDER = {
    "keep": "str | Sequence[str]",
    "drop": "str | Sequence[str]",
    "gamma": "Decimal | float | str | None",
    "attributes": "Mapping[str, AttributePlan | Mapping[str, object]] | None",
    "together": "Sequence[Sequence[str] | Mapping[str, object]] | None",
    "options": "Mapping[str, object] | None",
    "csv": "CsvOptions | Mapping[str, object] | None",
    "tree": "str | Path | Tree | None",
}
"""Keywords that are read before they are what a field holds."""
MOST_BESIDE = 12


def fields_of(source: str, *classes: str) -> dict[str, tuple[str, str]]:
    """Each field's type and line of meaning, as they are written."""
    found: dict[str, tuple[str, str]] = {}
    for c in (n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name in classes):
        for field, after in zip(c.body, [*c.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                said = (
                    isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and after.value.value
                )
                found[ast.unparse(field.target)] = ast.unparse(field.annotation), str(said or "")
    return found


FIELDS = fields_of(inspect.getsource(plans), "SharedSettings", "Plan")


def test_keywords_of_perturb_are_the_fields_of_a_plan() -> None:
    taken = inspect.signature(inspect.unwrap(perturb)).parameters
    beside = [n for n in taken if n not in FIELDS]
    assert {*FIELDS} == {*Plan.__struct_fields__} and {*FIELDS} <= {*taken}
    assert beside[:3] == ["data", "output", "plan"] and len(beside[3:]) <= MOST_BESIDE
    for name, (kind, _) in FIELDS.items():
        written = str(taken[name].annotation)
        fitting = {WIDER.get(name, kind), f"{kind} | None", f"str | {kind}"}
        assert written in fitting and taken[name].default in (None, ()), name


def test_perturb_explains_every_field_and_a_column_its_own() -> None:
    explained = re.findall(r"^    (\w+) : .*\n        \S.*\.$", str(perturb.__doc__), re.M)
    own = fields_of(inspect.getsource(plans), "AttributePlan")
    assert {*FIELDS} <= {*explained} and all(said.endswith(".") for _, said in own.values())


def test_options_toml_and_keywords_give_one_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        'gamma = 9\nbins = 20\nclip = true\nkeep = ["a"]\n[attributes.age]\ndomain = "0:120"\nbins = 24\n'
    )
    written: dict[str, Any] = {"attributes": {"age": {"domain": "0:120", "bins": "24"}}, "keep": "a"}
    as_options = Plan.of(None, gamma="9", bins="20", clip="true", **written)
    typed = Plan(
        gamma=Decimal(9), bins=20, clip=True, keep=("a",),
        attributes={"age": AttributePlan(interval="0:120", bins=24)},
    )  # fmt: skip
    assert Plan.of(tmp_path / "plan.toml") == as_options == typed == Plan.of(typed)


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        ({"gamma": "nine"}, "wrong-type"),
        ({"rho1": "nan", "rho2": 0.5}, "wrong-type"),
        ({"bins": True}, "wrong-type"),
        ({"clip": "perhaps"}, "wrong-type"),
        ({"bins": 1}, "bad-bins"),
        ({"rho1": 0.05}, "rho-alone"),
        ({"gamma": 9, "record_epsilon": 2}, "several-budgets"),
        ({"keep": ["a"], "drop": ["a"]}, "kept-and-dropped"),
        ({"shuffle": True, "keep_order": True}, "shuffle-and-keep-order"),
        ({"together": [["a"]]}, "bad-together"),
        ({"attributes": {"a": {"domain": "many"}}}, "bad-domain"),
        ({"innocent": "tia"}, "tree-noise-setting-alone"),
    ],
)
def test_what_cannot_be_is_refused_by_an_id(asked: dict[str, Any], id: str) -> None:
    with pytest.raises(PpdmError) as error:
        Plan.of(None, **asked)
    assert error.value.id == id

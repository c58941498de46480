"""The words of the code: each docstring of a function is a sentence of its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FRAGMENTS = re.compile(
    "(a|an|the|of|for|from|by|at|in|on|with|each|every|all|both|either|some|this|that|these|those|its?|how|what|"
    "which|who|whose|whether|where|when|why|as|so|if|such|than|to|one|two|and|or|only|not?)\\b|[`(]",
    re.IGNORECASE,
)
"""A docstring that begins with one of these needs the name before it, or is no sentence."""


def fragments(source: str) -> list[str]:
    """Return the functions with a docstring that is not a sentence by itself: verb first, full stop last."""
    functions = [f for f in ast.walk(ast.parse(source)) if isinstance(f, ast.FunctionDef)]
    told = {f.name: (ast.get_docstring(f) or "Return it.").split("\n\n")[0] for f in functions}
    return [n for n, d in told.items() if FRAGMENTS.match(d) or d[-1] not in ".:"]


def test_docstrings_of_functions_are_sentences() -> None:
    own = sorted((ROOT / "ppdm_cli").rglob("*.py"))
    assert not [f"{p.name}: {n}" for p in own for n in fragments(p.read_text("utf-8"))]
    for fragment in ("Of the bins of z.", "The same of the one fold.", "`x` is the place.", "Return the place"):
        assert fragments(f'def f() -> None:\n    """{fragment}"""') == ["f"]

"""Measures of the code for its maintainers: size, names, types, and the modules on the way of a command.

`python -m tests.experiments.house [FOLDER]` prints them for this tree, or for the one in FOLDER.
`tests/test_house.py` holds the package to those that are limits.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEVERAL = re.compile(
    r"\b(if|elif|while|and|or|not|else|assert)\b[^#]*"
    r"(\bwithholding\b|\.several\b|recipes is (not )?None|recipes\) *[<>=]|\.varies\b|plan\.design\b)"
)
ON_THE_WAY = """
import sys, threading
from contextlib import suppress
from pathlib import Path
used = set()
def note(frame, event, _):
    if event == "call":
        used.add(frame.f_code.co_filename)
from ppdm_cli.__main__ import main
with suppress(SystemExit):
    main()  # imports: only what the second run calls is on its way
sys.setprofile(note)
threading.setprofile(note)
try:
    main()
finally:
    sys.setprofile(None)
    root = str(Path(sys.modules["ppdm_cli"].__file__).parent)
    print("modules:", sum(f.startswith(root) for f in used), file=sys.stderr)
"""


@cache
def modules(root: Path) -> dict[str, ast.Module]:
    """Read every module of the package, by its path."""
    found = sorted((root / "ppdm_cli").rglob("*.py"))
    return {p.relative_to(root).as_posix(): ast.parse(p.read_text("utf-8")) for p in found}


def classes(trees: dict[str, ast.Module]) -> Counter[str]:
    """Count the definitions of each class name."""
    return Counter(n.name for t in trees.values() for n in ast.walk(t) if isinstance(n, ast.ClassDef))


def public_functions(trees: dict[str, ast.Module]) -> Counter[str]:
    """Count the modules that define a function of each public name."""
    names = ({n.name for n in t.body if isinstance(n, ast.FunctionDef)} for t in trees.values())
    return Counter(n for own in names for n in own if not n.startswith("_"))


def any_types(trees: dict[str, ast.Module]) -> int:
    """Count the uses of `Any`, imports left out."""
    return sum(isinstance(n, ast.Name) and n.id == "Any" for t in trees.values() for n in ast.walk(t))


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the number of lines of each docstring, and of each text below a field."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def on_the_way(root: Path, *arguments: str) -> int:
    """Count the modules of the package whose functions run in one command."""
    command = [sys.executable, "-c", ON_THE_WAY, *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return int(done.stderr.rpartition("modules:")[2])


def measures(root: Path) -> dict[str, object]:
    """Return every measure of a tree by its name."""
    trees = modules(root)
    texts = {p: (root / p).read_text("utf-8") for p in trees}
    lines = sum(len(t.splitlines()) for t in texts.values())
    functions = [
        n for t in trees.values() for n in ast.walk(t) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    statements = sum(isinstance(n, ast.stmt) for t in trees.values() for n in ast.walk(t))
    docs = sum(n for t in trees.values() for n in docstring_lines(t))
    tests = [p.read_text("utf-8") for p in (root / "tests").rglob("*.py")]
    return {
        "lines of the package": lines,
        "modules": len(trees),
        "packages": sum(p.count("/") == 2 and p.endswith("/__init__.py") for p in trees),
        "loose modules": sum(p.count("/") == 1 for p in trees),
        "lines of the tests": sum(len(t.splitlines()) for t in tests),
        "longest module": max(len(t.splitlines()) for t in texts.values()),
        "longest function": max((f.end_lineno or f.lineno) - f.lineno + 1 for f in functions),
        "class names in several modules": sum(n > 1 for n in classes(trees).values()),
        "public function names in several modules": sum(n > 1 for n in public_functions(trees).values()),
        "Any": any_types(trees),
        "conditions on several recipes": sum(
            bool(SEVERAL.search(line)) for t in texts.values() for line in t.splitlines()
        ),
        "statements a line": round(statements / lines, 3),
        "share of docstrings": round(docs / lines, 3),
        "mean length of a line": round(sum(map(len, texts.values())) / lines, 1),
    }


def ways(root: Path) -> dict[str, object]:
    """Return how many modules `perturb` and `estimate` run through."""
    with tempfile.TemporaryDirectory() as folder:
        people, release, tree = (f"{folder}/{name}" for name in ("people.csv", "release.parquet", "tree.json"))
        made = ["generate", "--function", "2", "--records", "3000", "--seed", "1", "-o", people, "--force"]
        perturbed = ["perturb", people, "-o", release, "--gamma", "9", "--class", "group", "--force"]
        return {
            "modules run by generate": on_the_way(root, *made),
            "modules run by perturb": on_the_way(root, *perturbed),
            "modules run by estimate": on_the_way(root, "estimate", release),
            "modules run by train-tree": on_the_way(root, "train-tree", release, "-o", tree, "--force"),
        }


if __name__ == "__main__":
    tree = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    for name, figure in (measures(tree) | ways(tree)).items():
        print(f"{name:42} {figure}")

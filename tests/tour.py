"""The notebook docs/tutorials/notebook.ipynb: its cells are run, and what they show is what it has.

`python -m tests.tour` writes today's outputs into it. A cell's last expression is shown, as in a notebook: as
text, as a table or as a picture where it has one.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.docs import DOCS, ROOT, alike

TOUR = DOCS / "tutorials" / "notebook.ipynb"


def executed(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with the outputs that its cells have today, run in a folder that has `sample_data`."""
    (folder / "sample_data").symlink_to(ROOT / "sample_data")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    before = Path.cwd()
    os.chdir(folder)
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                shown = _shown(_run("".join(cell["source"]), names))
                outputs = [] if shown is None else [_output(shown, count)]
                cell = cell | {"execution_count": count, "outputs": outputs}
            cells.append(cell)
    finally:
        os.chdir(before)
    return notebook | {"cells": cells}


def _run(source: str, names: dict[str, Any]) -> Any:
    """What the last expression of a cell gives; None where the last line is none."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(None):
        exec(compile(tree, "tour.ipynb", "exec"), names)
        return None if last is None else eval(compile(ast.Expression(last.value), "tour.ipynb", "eval"), names)


def _shown(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if hasattr(value, "_repr_png_"):
        shown = base64.b64encode(value._repr_png_()).decode()
        return {"text/plain": [f"<{type(value).__name__}>"], "image/png": shown}
    html = getattr(value, "_repr_html_", None)
    told: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    return told | ({"text/html": html().splitlines(keepends=True)} if html is not None else {})


def _output(shown: dict[str, Any], count: int) -> dict[str, Any]:
    return {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": shown}


def told(notebook: dict[str, Any]) -> list[str]:
    """The text of all outputs: pictures are drawn anew on each machine."""
    return ["".join(o["data"]["text/plain"]) for c in notebook["cells"] for o in c.get("outputs", [])]


def same(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Whether two runs showed the same, but for late digits."""
    return len(told(new)) == len(told(old)) and all(map(alike, told(new), told(old)))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        new = executed(json.loads(TOUR.read_text("utf-8")), Path(folder))
    TOUR.write_text(json.dumps(new, indent=1, ensure_ascii=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()

"""The notebook is what its cells give today."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from tests.tour import TOUR, executed, same, told


def test_the_tour_runs_and_shows_what_it_has(tmp_path: Path) -> None:
    notebook = json.loads(TOUR.read_text("utf-8"))
    assert notebook["nbformat"] == 4 and len({c["id"] for c in notebook["cells"]}) == len(notebook["cells"])
    today = executed(notebook, tmp_path)
    assert same(today, notebook), "say `make docs`, and read what it changed"
    assert sum("image/png" in o["data"] for c in today["cells"] for o in c.get("outputs", [])) == 1
    wrong = copy.deepcopy(notebook)
    first = next(c for c in wrong["cells"] if c.get("outputs"))["outputs"][0]["data"]
    first["text/plain"] = [line.replace("Female", "Male") for line in first["text/plain"]]
    assert not same(today, wrong) and len(told(today)) > 10, "the test of the test"

"""Small releases with many recipes that ask for much; see `tests.experiments.hostile`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from tests.experiments.hostile import CASES, Case, binned, category, sidecar
from tests.vocabulary import structure

Specs = list[dict[str, Any]]


def made(folder: Path, attributes: Specs, recipes: Specs, shows: Sequence[Sequence[int]], rows: int) -> None:
    """Write a release whose recipe number n publishes the attributes at the places `shows[n]`."""
    sidecar(folder, [{k: v for k, v in a.items() if k != "law"} for a in attributes], None, rows)
    place = folder / "r.csv.ppdm.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"recipes": recipes}))
    rng = np.random.default_rng(1)
    lines = [",".join([*(a["name"] for a in attributes), "ppdm_recipe"])]
    for number in rng.integers(0, len(shows), rows).tolist():
        cells = [""] * len(attributes)
        for i in shows[number]:
            code = int(rng.integers(0, attributes[i]["N"]))
            cells[i] = str(code + 0.5 if "edges" in attributes[i] else code)
        lines.append(",".join([*cells, str(number)]))
    (folder / "r.csv").write_text("\n".join([*lines, ""]))
    (folder / "net.json").write_text(structure("a0 -> a1"))


def bins(name: str, N: int, reach: int) -> dict[str, Any]:
    found = binned(name, N, {})
    if reach:
        beyond = {"below": list(range(-reach, 0)), "above": list(range(N + 1, N + 1 + reach))}
        found["beyond"] = {"dtype": "double"} | beyond
    return found


def family(
    many: int, choose: int, N: int, reach: int = 0, numbers: bool = True, rows: int = 2000, classes: int = 0
) -> Any:
    """One family of all choices of so many attributes, with a class where it is to have labels."""

    def make(folder: Path) -> None:
        names = [f"a{i}" for i in range(many)]
        own = [bins(n, N, reach) if numbers else category(n, N) for n in names]
        one = {"kind": "box", "gamma": 9, "half_width": [reach] * many + [0] * bool(classes)}
        recipe: dict[str, Any] = {"choose": choose, "of": names, "channel": one}
        if classes:
            own.append(category("c", classes))
            recipe["with"] = ["c"]
        shows = [[*places, *([many] if classes else [])] for places in combinations(range(many), choose)]
        made(folder, own, [recipe], shows, rows)

    return make


def boxes(many: int, N: int, widths: int = 0, classes: int = 0) -> Any:
    """So many boxes over the same attributes, each of another gamma, and of so many half-widths."""

    def make(folder: Path) -> None:
        own = [bins(n, N, max(widths - 1, 0)) for n in ("a0", "a1")]
        own += [category("c", classes)] if classes else []
        names, last = [a["name"] for a in own], [0] * bool(classes)
        recipes = []
        for i in range(many):
            reach = [i % widths, i * 7 % widths] if widths else [0, 0]
            law = {"kind": "box", "gamma": round(2 + i / 100, 2), "half_width": reach + last}
            recipes.append({"weight": 1, "channels": [{"attributes": names} | law]})
        made(folder, own, recipes, [range(len(own))] * many, 500)

    return make


def bands(many: int, N: int) -> Any:
    """So many recipes, each of a band of one attribute by itself."""

    def make(folder: Path) -> None:
        own = [bins(n, N, 5) for n in ("a0", "a1")]
        laws = [{"kind": "band", "gamma": round(2 + i / 100, 2), "half_width": [5]} for i in range(many)]
        recipes = [{"weight": 1, "channels": [{"attributes": [f"a{i % 2}"]} | w]} for i, w in enumerate(laws)]
        made(folder, own, recipes, [(i % 2,) for i in range(many)], 500)

    return make


RELEASES: dict[str, Callable[[Path], None]] = {
    "pairs of 91 attributes of 2048 bins": family(91, 2, 2048),
    "pairs of 8 attributes of 2048 bins": family(8, 2, 2048),
    "pairs of 8 blurred attributes of 2048 bins": family(8, 2, 2048, reach=100),
    "pairs of 8 attributes of 30000 values": family(8, 2, 30_000, numbers=False),
    "pairs of 40 attributes of 1000 values": family(40, 2, 1000, numbers=False),
    "pairs of 40 attributes of 1000 values and a class": family(40, 2, 1000, numbers=False, classes=2),
    "pairs of 60 attributes of 300 values and a class": family(60, 2, 300, numbers=False, classes=50),
    "triples of 25 attributes": family(25, 3, 20, numbers=False),
    "one of 1024 attributes": family(1024, 1, 3, numbers=False, rows=5000),
    "4095 boxes of 2048 bins": boxes(4095, 2048, 1024),
    "300 boxes of 2048 bins": boxes(300, 2048, 1024),
    "4095 boxes of 2048 bins unblurred": boxes(4095, 2048),
    "4095 boxes of 100 bins and a class": boxes(4095, 100, 50, classes=3),
    "1000 bands of 2048 bins": bands(1000, 2048),
}
COMMANDS = {
    "estimated": "estimate r.csv",
    "estimated jointly": "estimate r.csv --joint a0,a1",
    "counted": "query r.csv|select count(*)",
    "asked": "query r.csv|select mean(a0), share(a1 < 2)",
    "asked for a regression": "query r.csv|select linear(a0, a1)",
    "inspected": "inspect r.csv.ppdm.json",
    "in a statement": "inspect r.csv.ppdm.json --report s.html",
    "trained on": "train-tree r.csv -o t.json --class ",
    "attacked": "attack r.csv",
    "reconstructed": "reconstruct r.csv -o o.csv",
    "learnt": "train-bayes r.csv --network net.json -o n.json",
}


def command(make: Callable[[Path], None], words: str, label: str) -> Case:
    def case(folder: Path) -> list[str]:
        make(folder)
        first, *rest = (words + label if words.endswith("--class ") else words).split("|")
        return [*first.split(), *rest]

    return case


CASES |= {
    f"{what} {done}": command(make, words, "c" if "a class" in what else "a0")
    for what, make in RELEASES.items()
    for done, words in COMMANDS.items()
}

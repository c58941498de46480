"""Digests of releases whose records publish a few of their attributes, in one pass and in rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tests.digests import CANCER, Digests, in_file, named, of_every_result, original

DOMAINS: dict[str, dict[str, Any]] = {
    "salary": {"domain": [20000, 150000], "bins": 13},
    "commission": {"domain": [0, 75000], "bins": 8, "nulls": True},
    "age": {"domain": [20, 80], "bins": 12},
    "elevel": {"domain": "0|1|2|3|4"},
    "loan": {"domain": [0, 500000], "bins": 16},
}
"""Numbers in bins, which go by half-widths, one of them with nulls, and a column of codes."""
GRADES = {"domain": [1, 10]}
PEOPLE = {
    "means": "select count(), mean(age), sum(loan), stddev(salary)",
    "shares": "select share(elevel = 0) as none, share(age >= 50) as old, share(commission is null) as nil",
    "quantile": "select quantile(salary, .9), median(loan)",
    "difference": "select mean(age) filter (where salary < 80000)"
    " - mean(age) filter (where salary >= 80000) as gap",
    "by group": "select mean(age), share(elevel in (3, 4)) group by group",
    "tests": "select independent(age, salary), same(mean(age), group)",
}
TUMOURS = {
    "means": "select mean(mitoses), mean(bare_nuclei), count(bare_nuclei)",
    "shares": "select share(mitoses = 1), share(bare_nuclei is null)",
    "quantile": "select quantile(clump_thickness, .75)",
    "difference": "select mean(mitoses) - mean(normal_nucleoli) as gap",
    "by class": "select mean(clump_thickness) group by class",
}


def people() -> pl.DataFrame:
    """20,000 records of F2 with six of its columns, and no commission where there was none to be had."""
    frame = original(2).select(*DOMAINS, "group")
    return frame.with_columns(pl.when(pl.col("commission") > 0).then("commission").alias("commission"))


def settings(where: str, epsilon: float, rounds: int | None, class_: str, labels: str) -> dict[str, Any]:
    """Return what is asked: the class kept or inside the budget, in one pass or in rounds."""
    kept = {"keep": [class_]} if where == "kept" else {"class_in_budget": True}
    inside = {} if where == "kept" else {class_: {"domain": labels}}
    way = {"publish": 2} if rounds is None else {"rounds": rounds}
    return {"record_epsilon": epsilon, "class_": class_, "attributes": inside, "seed": 5} | kept | way


def name_of(where: str, epsilon: float, rounds: int | None) -> str:
    way = "one pass" if rounds is None else "rounds"
    return f"recipes, {way}, epsilon {epsilon}, class {where}"


def of_people(folder: Path) -> Digests:
    truth, digests = people(), {}
    about: dict[str, Any] = {"pair": ("salary", "age"), "by": "group", "questions": PEOPLE}
    for where, epsilon, rounds in (("kept", 2, None), ("kept", 4, 2), ("inside", 4, None), ("inside", 2, 3)):
        asked = settings(where, epsilon, rounds, "group", "A|B")
        asked["attributes"] |= DOMAINS
        made = in_file(folder, truth, asked, **about, attacked=where == "kept")
        digests |= named(name_of(where, epsilon, rounds), of_every_result(made))
    return digests


def of_tumours(folder: Path) -> Digests:
    """Return the digests of breast cancer, whose bare nuclei have nulls."""
    truth, digests = pl.read_csv(CANCER).drop("id"), {}
    grades = {n: GRADES | {"nulls": n == "bare_nuclei"} for n in truth.columns if n != "class"}
    about: dict[str, Any] = {"pair": ("clump_thickness", "mitoses"), "by": "class", "questions": TUMOURS}
    for where, epsilon, rounds in (("kept", 2, None), ("inside", 4, None), ("inside", 2, 2), ("kept", 4, 3)):
        asked = settings(where, epsilon, rounds, "class", "benign|malignant")
        asked["attributes"] |= grades
        made = in_file(folder, truth, asked, **about)
        digests |= named(f"breast cancer, {name_of(where, epsilon, rounds)}", of_every_result(made))
    return digests


def of_recipes(folder: Path) -> Digests:
    return of_people(folder) | of_tumours(folder)

"""Twelve monthly batches under one plan: none fails, little is moved, and the intervals cover.

Every month has 6% more records, dates that go on, dearer costs and, in time, new wards and the first nulls.
`ppdm plan --open-domains` looks at January alone; its owner adds domains that go on. FULL=1 has ten years
of each budget, not three. The first seed is an argument.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import estimate, perturb, plan
from tests.experiments.common import FULL

MONTHS, RECORDS, GROWTH = 12, 4000, 1.06
BUDGETS: dict[str, dict[str, Any]] = {"gamma 9": {"gamma": 9}, "epsilon 2": {"record_epsilon": 2}}
ANSWERS: dict[str, Any] = {
    "attributes": {
        "admitted": {"domain": "2026-01-01:2027-12-31", "scale": "month"},
        "cost": {"domain": "0:10000"},
        "age": {"domain": "0:109"},
    },
}
"""What the owner knows of all months, and January does not show."""


def month(number: int, seed: int) -> pl.DataFrame:
    """Make the visits of a month, in no order."""
    rng = np.random.default_rng([seed, number])
    n = round(RECORDS * GROWTH**number)
    days = np.datetime64("2026-01-01") + np.timedelta64(number * 365 // 12, "D") + rng.integers(0, 28, n)
    wards = list("ABCDE")[: 3 + (number >= 2) + (number >= 6)]
    dead = rng.choice(["yes", "no"], n, p=[0.05, 0.95]).astype(object)
    dead[(rng.random(n) < 0.03) & (number >= 1)] = None
    cost = np.round(rng.lognormal(7.2 + 0.03 * number, 0.7, n), 2).astype(object)
    cost[(rng.random(n) < 0.04) & (number >= 4)] = None
    columns = {
        "patient": [f"P{number:02}{i:06}" for i in rng.permutation(n)],
        "admitted": days,
        "age": rng.integers(0, 96, n),
        "cost": pl.Series(cost.tolist(), dtype=pl.Float64),
        "ward": rng.choice(wards, n),
        "dead": pl.Series(dead.tolist(), dtype=pl.String),
    }
    return pl.DataFrame(columns)


def covered(releases: list[Path], originals: list[Path]) -> np.ndarray:
    """Return how many 95% intervals miss the true count, and how many there are."""
    told = estimate(releases, truth=originals).frame
    misses = (told["true"] < told["low"]) | (told["true"] > told["high"])
    return np.array([misses.sum(), len(told)])


def year(budget: dict[str, Any], seed: int, folder: Path) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the intervals of the months and of the year, and the largest share of a column that was moved."""
    originals = [folder / f"{m:02}.csv" for m in range(MONTHS)]
    releases = [folder / f"{m:02}-release.parquet" for m in range(MONTHS)]
    for number, path in enumerate(originals):
        month(number, seed).write_csv(path)
    plan(originals[0], folder / "plan.toml", open_domains=True, **budget)
    moved = [0.0]
    for number, (original, release) in enumerate(zip(originals, releases, strict=True)):
        like = {"like": releases[number - 1]} if number else {}
        made = perturb(original, release, folder / "plan.toml", **ANSWERS, **like)
        moved += [m.share for m in made.clipped.values()]
    each = np.sum([covered([r], [o]) for r, o in zip(releases, originals, strict=True)], axis=0)
    return each, covered(releases, originals), max(moved)


def main() -> None:
    first = int(next(iter(sys.argv[1:]), 0))
    for name, budget in BUDGETS.items():
        months, years, moved = np.zeros(2, int), np.zeros(2, int), 0.0
        for seed in range(first, first + (10 if FULL else 3)):
            with tempfile.TemporaryDirectory() as folder:
                own, whole, most = year(budget, seed, Path(folder))
            months, years, moved = months + own, years + whole, max(moved, most)
        sys.stdout.write(
            f"{name}: months {months[0]} of {months[1]} intervals miss ({months[0] / months[1]:.1%}), "
            f"years {years[0]} of {years[1]} ({years[0] / years[1]:.1%}); most moved {moved:.2%}\n"
        )


if __name__ == "__main__":
    main()

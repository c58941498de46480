"""Do the intervals of `estimate` cover what they say where a record publishes a few of its attributes?

`python -m tests.experiments.record_intervals FOLDER [RELEASES]`: releases of the 32,561 records of Adult, as
tests/experiments/records.py has them: 13 columns, all of them perturbed, one or two a record under the whole budget.
Counted are all values' counts, and those of pairs of values of `PAIRS`. Hits are added up in
build/papers/record_intervals.csv, a row for every `ROUND` releases, so that a run goes on where it was.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import estimate, perturb
from tests.experiments.common import Results, say
from tests.experiments.records import EPSILONS, adult

PAIRS = (("sex", "relationship"), ("workclass", "race"), ("age", "education_num"),
         ("sex", "class"), ("marital_status", "hours_per_week"))  # fmt: skip
ROUND = 50
USUAL = 0.99
"""Cells that have an interval in so many releases are looked at one by one."""
KEY, VALUES = ("epsilon", "k", "seed", "table", "cell"), ("inside", "told", "true")


def counted(whole: pl.DataFrame, plan: Any, k: int, epsilon: int, seeds: range) -> dict[str, np.ndarray]:
    """Return for each cell of each table how many intervals hold its count, how many there were, and it."""
    found: dict[str, np.ndarray] = {}
    for seed in seeds:
        release = perturb(whole, record_epsilon=epsilon, publish=k, attributes=plan, keep_order=True, seed=seed)
        for joint in ((), *PAIRS) if k > 1 else ((),):
            done = estimate(release.frame, sidecar=release.sidecar, truth=whole, joint=joint)
            for table in done.tables:
                low, high, true = table.interval.low, table.interval.high, table.truth
                assert true is not None
                told = ~np.isnan(low)
                inside = told & (low <= true) & (true <= high)
                own = np.stack([inside, told, true], axis=-1).reshape(-1, 3).astype(np.int64)
                name = " x ".join(table.names)
                found[name] = own if name not in found else found[name] + own * [1, 1, 0]
    return found


def summed(frame: pl.DataFrame) -> pl.DataFrame:
    """Return by design the coverage of cells that nearly always have an interval, and of all intervals.

    Of a cell with a handful of records an interval is told just where chance made many of them.
    """
    inside, told, true = pl.col("inside"), pl.col("told"), pl.col("true")
    cells = frame.group_by("epsilon", "k", "table", "cell").agg(inside.sum(), told.sum(), true.first())
    cells = cells.filter(told > 0).with_columns(
        share=inside / told,
        usual=told >= USUAL * told.max(),
        pairs=pl.col("table").str.contains(" x "),
    )
    usual, share, key = pl.col("usual"), pl.col("share"), ["pairs", "epsilon", "k"]
    mean = share.filter(usual).mean().over(key)
    away = usual & ((share - mean).abs() > 3 * (mean * (1 - mean) / told).sqrt())
    rows = cells.with_columns(away=away).group_by(key)
    return rows.agg(
        releases=told.max(),
        cells=usual.sum(),
        covered=share.filter(usual).mean(),
        away=pl.col("away").sum(),
        away_of_2_or_fewer=(pl.col("away") & (true <= 2)).sum(),
        covered_all=inside.sum() / told.sum(),
    ).sort(key)


def main() -> None:
    whole, plan = adult(Path(sys.argv[1]))
    releases = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    results = Results("record_intervals", KEY, VALUES)
    keys = ((e, k, seed, "sex", 0) for seed in range(0, releases, ROUND) for k in (1, 2) for e in EPSILONS)
    for epsilon, k, first, *_ in results.missing(keys):
        found = counted(whole, plan, k, epsilon, range(1 + first, 1 + first + ROUND))
        for name, cells in sorted(found.items(), key=lambda item: item[0] == "sex"):  # the one looked for last
            for cell, row in reversed([*enumerate(cells.tolist())]):
                results.add(epsilon, k, first, name, cell, *row)
    say(summed(pl.read_csv(results.path)), digits=4)


if __name__ == "__main__":
    main()

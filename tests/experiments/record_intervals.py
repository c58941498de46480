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
from tests.experiments.common import BUILD, Results
from tests.experiments.records import EPSILONS, adult

PAIRS = (("sex", "relationship"), ("workclass", "race"), ("age", "education_num"),
         ("sex", "class"), ("marital_status", "hours_per_week"))  # fmt: skip
ROUND = 50
USUAL = 0.99
"""Cells that have an interval in so many releases are looked at one by one."""


def counted(whole: pl.DataFrame, plan: Any, k: int, epsilon: int, seeds: range) -> dict[str, np.ndarray]:
    """Return for each cell of each table how many intervals hold its count, how many there were, and it."""
    found: dict[str, np.ndarray] = {}
    for seed in seeds:
        release = perturb(whole, record_epsilon=epsilon, publish=k, attributes=plan, keep_order=True, seed=seed)
        asked: list[tuple[str, ...] | None] = [None, *PAIRS] if k > 1 else [None]
        for joint in asked:
            done = estimate(release.frame, sidecar=release.sidecar, truth=whole, joint=joint or ())
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
    """Return by design the coverage of cells that nearly always have an interval, and of all others together.

    Of a cell with a handful of records an interval is told just where chance made many of them.
    """
    cells = frame.group_by("epsilon", "k", "table", "cell").agg(
        pl.col("inside", "told").sum(), pl.col("true").first()
    )
    cells = cells.filter(pl.col("told") > 0).with_columns(
        share=pl.col("inside") / pl.col("told"),
        usual=pl.col("told") >= USUAL * pl.col("told").max(),
        kind=pl.when(pl.col("table").str.contains(" x ")).then(pl.lit("pairs")).otherwise(pl.lit("marginals")),
    )
    usual, key = pl.col("usual"), ["kind", "epsilon", "k"]
    mean = pl.col("share").filter(usual).mean().over(key)
    away = usual & ((pl.col("share") - mean).abs() > 3 * (mean * (1 - mean) / pl.col("told")).sqrt())
    others = pl.col("inside").filter(~usual).sum() / pl.col("told").filter(~usual).sum()
    return (
        cells.with_columns(away=away)
        .group_by(key)
        .agg(
            releases=pl.col("told").max(),
            cells=usual.sum(),
            covered=pl.col("share").filter(usual).mean(),
            away=pl.col("away").sum(),
            away_of_2_or_fewer=(pl.col("away") & (pl.col("true") <= 2)).sum(),
            others=(~usual).sum(),
            covered_others=others,
            covered_all=pl.col("inside").sum() / pl.col("told").sum(),
        )
        .sort(key)
    )


def main() -> None:
    whole, plan = adult(Path(sys.argv[1]))
    releases = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    results = Results(
        BUILD / "record_intervals.csv",
        ("epsilon", "k", "seed", "table", "cell"),
        ("inside", "told", "true"),
    )
    keys = ((e, k, seed, "sex", 0) for seed in range(0, releases, ROUND) for k in (1, 2) for e in EPSILONS)
    for epsilon, k, first, *_ in results.missing(keys):
        found = counted(whole, plan, k, epsilon, range(1 + first, 1 + first + ROUND))
        for name, cells in sorted(found.items(), key=lambda item: item[0] == "sex"):  # the one looked for last
            for cell, row in reversed([*enumerate(cells.tolist())]):
                results.add(epsilon, k, first, name, cell, *row)
        print(epsilon, k, first, flush=True)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, float_precision=4):
        print(summed(results.frame()))


if __name__ == "__main__":
    main()

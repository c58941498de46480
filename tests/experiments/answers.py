"""Do the intervals of answers cover what they say, and are answers unbiased? By channels and gamma.

`python -m tests.experiments.answers [RELEASES [ADULT.parquet]]`. Releases of the same 10,000 records are made as
one, of so many copies of them side by side, and are asked group by group: rows have coins of their own. The
truths are those of the records in bins, each value the middle of its bin.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, query
from tests.experiments.common import binned, say, table
from tests.experiments.testing import designs

RECORDS, ROUND, TOGETHER = 10_000, 250, 5
EPSILONS, COPY = (1, 2, 4, 6), "copy"
VALUES = ("covered", "off", "claimed", "worth")


@dataclass(frozen=True)
class Source:
    """Records, the domains that their owner declares, and what is asked of them."""

    name: str
    records: pl.DataFrame
    attributes: dict[str, Any]
    together: tuple[str, str]
    keep: tuple[str, ...]
    questions: tuple[str, ...]


def synthetic(function: int = 2) -> Source:
    attributes = {
        "salary": {"domain": [20_000, 150_000], "bins": 13}, "age": {"domain": [20, 80], "bins": 12},
        "elevel": {"domain": [0, 4]}, "commission": {"domain": [0, 75_000], "bins": 10},
    }  # fmt: skip
    records = table(function, 100_000, 7).select([*attributes, "group"])
    asked = (
        "count() filter (where age >= 50)", "count() filter (where elevel in (3, 4) and age < 30)",
        "sum(salary)", "mean(age)", "mean(salary) filter (where group = 'A')", "share(elevel = 0)",
        "share(age >= 60) filter (where elevel < 2)", "variance(age)", "stddev(salary)", "quantile(age, .5)",
        "quantile(salary, .9)", "quantile(commission, .8)",
        "mean(age) filter (where elevel < 2) - mean(age) filter (where elevel >= 2)",
        "sum(commission) / sum(salary)",
    )  # fmt: skip
    if function != 2:  # they differ in the group alone
        asked = (
            "mean(salary) filter (where group = 'A')", "share(age >= 50) filter (where group = 'A')",
            "mean(age) filter (where group = 'A') - mean(age) filter (where group = 'B')",
            "quantile(salary, .5) filter (where group = 'A')", "variance(age) filter (where group = 'B')",
        )  # fmt: skip
    return Source(f"F{function}", records, attributes, ("age", "elevel"), ("group",), asked)


def adult(path: str) -> Source:
    attributes: dict[str, Any] = {
        "age": {"domain": [0, 100], "bins": 20}, "hours_per_week": {"domain": [0, 100], "bins": 10},
        "education": {}, "sex": {}, "race": {},
    }  # fmt: skip
    records = pl.read_parquet(path).select([*attributes, "class"])
    labels = records["education"].unique().sort().to_list()
    high = ", ".join(f"'{w}'" for w in labels if w.strip() in ("Bachelors", "Masters", "Doctorate"))
    sexes = records["sex"].unique().sort().to_list()
    rich = records["class"].unique().sort().to_list()[-1]
    asked = (
        f"count() filter (where education in ({high}))", "mean(age)", "mean(hours_per_week)",
        f"mean(hours_per_week) filter (where sex = '{sexes[0]}') - "
        f"mean(hours_per_week) filter (where sex = '{sexes[1]}')",
        f"share(education in ({high})) filter (where class = '{rich}')", "variance(hours_per_week)",
        "quantile(age, .5)", "quantile(hours_per_week, .9)", f"share(sex = '{sexes[0]}')",
        f"mean(age) filter (where class = '{rich}' and education in ({high}))",
    )  # fmt: skip
    return Source("Adult", records, attributes, ("sex", "education"), ("class",), asked)


def exact(source: Source, records: pl.DataFrame) -> dict[str, float]:
    """Return the true answers of these records in their bins: a release that changes next to nothing."""
    again = perturb(records, keep=list(source.keep), attributes=source.attributes, seed=1, keep_order=True,
                    rare="publish", gamma=999_999)  # fmt: skip
    held = binned(records, again.sidecar).select(again.frame.columns).cast(dict(again.frame.schema))
    asked = {q: query(held, f"select {q}", sidecar=again.sidecar).rows[0].value for q in source.questions}
    return {q: v for q, v in asked.items() if v is not None}


def measured(source: Source, records: pl.DataFrame, plan: dict[str, Any], releases: int) -> pl.DataFrame:
    """Return for each answer of each release whether its interval holds the truth, and by how much it is off."""
    truth, rows = exact(source, records), []
    for start in range(0, releases, ROUND):
        copies = min(ROUND, releases - start)
        each = pl.Series(COPY, np.repeat(np.arange(copies), RECORDS), pl.Int32)
        made = perturb(pl.concat([records] * copies).with_columns(each), keep=[*source.keep, COPY],
                       attributes=source.attributes, seed=1000 + start, keep_order=True, rare="publish", **plan)  # fmt: skip
        for first in range(0, len(source.questions), TOGETHER):
            some = source.questions[first : first + TOGETHER]
            named = ", ".join(f"{q} as q{i}" for i, q in enumerate(some))
            for row in query(made.frame, f'select {named} group by "{COPY}"', sidecar=made.sidecar).rows:
                question = some[int(row.title[1:])]
                if row.value is None or row.low is None or row.high is None:
                    continue
                true = truth[question]
                covered = row.low - 1e-9 <= true <= row.high + 1e-9
                rows.append((question, covered, row.value - true, row.std_error or np.nan, row.worth or 0.0))
    found = pl.DataFrame(rows, ["question", *VALUES], orient="row").group_by("question", maintain_order=True)
    cells = found.agg(
        pl.len(),
        pl.col("covered").mean(),
        bias=pl.col("off").mean() / pl.col("off").std(ddof=0),
        ratio=pl.col("claimed").pow(2).mean().sqrt() / pl.col("off").std(ddof=0),
        worth=pl.col("worth").median(),
    )
    return cells.filter(pl.col("len") >= releases / 2)


def main(releases: int = 1_000, adults: str = "") -> None:
    found = []
    for source in [*([adult(adults)] if adults else []), *map(synthetic, (2, 1, 3, 4, 5))]:
        chosen = np.random.default_rng(1).choice(len(source.records), RECORDS, replace=False)
        for name, plan in designs(EPSILONS, source.together):
            cells = measured(source, source.records[chosen], plan, releases)
            found.append(cells.with_columns(source=pl.lit(source.name), design=pl.lit(name)))
            say(source.name, name, found[-1], digits=3)
    far = (pl.col("covered") - 0.95).abs() > 3 * (0.95 * 0.05 / releases) ** 0.5
    every = pl.concat(found).with_columns(pl.col("question").str.split("(").list.first())
    by = every.group_by("question").agg(
        cells=pl.len(), mean=pl.col("covered").mean(), least=pl.col("covered").min(),
        most=pl.col("covered").max(), bias=pl.col("bias").abs().max(), beyond=far.sum(),
    )  # fmt: skip
    say("By the first word of a question; beyond: 3 deviations\n", by.sort("question"), digits=4)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])

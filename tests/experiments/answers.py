"""Do the intervals of answers cover what they say, and are answers unbiased? By channels and gamma.

`python -m tests.experiments.answers [--releases R] [ADULT.parquet]`. R releases of the same 10,000 records are made
as one, of R copies of them side by side, and are asked group by group: rows have coins of their own. The truths
are those of the records in bins, each value the middle of its bin. Under --population each copy is a sample of
its own from a large table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb
from ppdm_cli.querying import Answers, answers
from tests.experiments.common import table

RECORDS, ROUND, TOGETHER = 10_000, 250, 5
GAMMAS, EPSILONS = (2, 5, 9, 21), (1, 2, 4, 6)
COPY = "copy"


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


def designs() -> list[tuple[str, float, dict[str, Any]]]:
    found: list[tuple[str, float, dict[str, Any]]] = []
    for gamma in GAMMAS:
        found += [
            ("gamma-diagonal", gamma, {"gamma": gamma}),
            ("band", gamma, {"gamma": gamma, "matrix": "band"}),
        ]
        found.append(("joint", gamma, {"gamma": gamma}))
    return found + [("recipes", e, {"record_epsilon": e, "publish": "2"}) for e in EPSILONS]


def released(source: Source, plan: dict[str, Any], joint: bool, copies: int, seed: int, sample: bool) -> Any:
    """Return a release of so many copies, and the copies with values as the middles of their bins."""
    rng, n = np.random.default_rng(seed), RECORDS
    rows = [rng.choice(len(source.records), n, replace=sample) for _ in range(copies)] if sample else []
    if not sample:
        rows = [np.random.default_rng(1).choice(len(source.records), n, replace=False)] * copies
    whole = source.records[np.concatenate(rows)].with_columns(
        pl.Series(COPY, np.repeat(np.arange(copies), n), pl.Int32)
    )
    if joint:
        plan = plan | {"together": [{"attributes": list(source.together)}]}
    made = perturb(whole, keep=[*source.keep, COPY], attributes=source.attributes, seed=seed, keep_order=True,
                   rare="publish", **plan)  # fmt: skip
    return made, source.records[rows[0]] if not sample else source.records


def exact(source: Source, records: pl.DataFrame) -> dict[str, float]:
    """Return the true answers of these records in their bins: a release that changes next to nothing."""
    again = perturb(records, keep=list(source.keep), attributes=source.attributes, seed=1, keep_order=True,
                    rare="publish", gamma=999_999)  # fmt: skip
    columns = {}
    for attribute in again.sidecar.attributes:
        column = records[attribute.name].to_arrow().cast(attribute.kind)
        if attribute.has_domain:
            column = attribute.domain.decode(attribute.domain.encode(column).codes)
        columns[attribute.name] = pl.Series(attribute.name, column)
    held = pl.DataFrame(columns).select(again.frame.columns).cast(dict(again.frame.schema))
    return {q: _one(answers(held, f"select {q}", sidecar=again.sidecar)) for q in source.questions}


def _one(done: Answers) -> float:
    value = done.rows[0].value
    assert value is not None
    return value


def measured(
    source: Source, kind: str, plan: dict[str, Any], releases: int, population: bool, truth: dict[str, float]
) -> dict[str, dict[str, float]]:
    """Return for each question how often it is covered, its bias in standard errors, and the mean worth."""
    hits: dict[str, list[tuple[bool, float, float, float]]] = {q: [] for q in source.questions}
    missing = dict.fromkeys(source.questions, 0)
    for start in range(0, releases, ROUND):
        copies = min(ROUND, releases - start)
        made, _ = released(source, plan, kind == "joint", copies, 1000 + start, population)
        for first in range(0, len(source.questions), TOGETHER):
            some = source.questions[first : first + TOGETHER]
            named = ", ".join(f"{q} as q{i}" for i, q in enumerate(some))
            text = f'select {named} group by "{COPY}"'
            for row in answers(made.frame, text, sidecar=made.sidecar, population=population).rows:
                question = some[int(row.title[1:])]
                if row.value is None or row.low is None or row.high is None:
                    missing[question] += 1
                    continue
                true = truth[question]
                covered = row.low - 1e-9 <= true <= row.high + 1e-9
                hits[question].append((covered, row.value - true, row.std_error or np.nan, row.worth or 0.0))
    found = {}
    for question, rows in hits.items():
        if len(rows) < releases / 2:
            found[question] = {"coverage": np.nan, "bias": np.nan, "ratio": np.nan, "worth": np.nan}
        else:
            covered, errors, claimed, worth = (np.array(c, float) for c in zip(*rows, strict=True))
            found[question] = {"coverage": covered.mean(), "bias": errors.mean() / errors.std(),
                               "ratio": np.sqrt((claimed**2).mean()) / errors.std(),
                               "worth": float(np.median(worth))}  # fmt: skip
        found[question]["missing"] = missing[question] / releases
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=1_000)
    parser.add_argument("--population", action="store_true")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--functions", default="21345", help="of `ppdm generate`")
    parser.add_argument("--all", action="store_true", help="each question by itself")
    parser.add_argument("adult", nargs="?")
    asked = parser.parse_args(arguments)
    sources = [adult(asked.adult)] if asked.adult else []
    sources += [synthetic(int(f)) for f in asked.functions]
    every: dict[str, list[float]] = {"all": []}
    for source in sources:
        records = source.records
        if not asked.population:
            records = records[np.random.default_rng(1).choice(len(records), RECORDS, replace=False)]
        truth = exact(source, records)
        for kind, gamma, plan in designs():
            if asked.kinds and kind not in asked.kinds.split(","):
                continue
            found = measured(source, kind, plan, asked.releases, asked.population, truth)
            cells = [f["coverage"] for f in found.values() if not np.isnan(f["coverage"])]
            for question, f in found.items():
                if not np.isnan(f["coverage"]):
                    every.setdefault(question.split("(")[0], []).append(f["coverage"])
            every["all"] += cells
            biases = [abs(f["bias"]) for f in found.values() if not np.isnan(f["bias"])]
            told = f"coverage {np.mean(cells):.4f}, from {min(cells):.3f} to {max(cells):.3f}"
            told += f"; bias at most {max(biases):.2f}; {len(cells)} cells"
            print(f"{source.name:6} {kind:15} {gamma:3}  {told}", flush=True)
            if asked.all:
                for question, f in found.items():
                    print(f"    {f['coverage']:.3f} bias {f['bias']:+.2f} ratio {f['ratio']:.2f} "
                          f"worth {f['worth']:8.0f} missing {f['missing']:.2f}  {question[:70]}")  # fmt: skip
    for kind, cells in every.items():
        far = sum(abs(c - 0.95) > 3 * np.sqrt(0.95 * 0.05 / asked.releases) for c in cells)
        print(f"{kind}: {len(cells)} cells, {np.mean(cells):.4f}, from {min(cells):.3f} to {max(cells):.3f}; "
              f"{far} beyond 3 deviations")  # fmt: skip


if __name__ == "__main__":
    main()

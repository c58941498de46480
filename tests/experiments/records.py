"""What is learnt from releases that protect whole records: trees of F1 to F5, and the marginals of Adult.

Each record publishes k of its attributes by one coin at the whole budget (perturb --record-epsilon E --publish
k), in one pass or in rounds (--rounds R). Domains are shifted by a random part of a bin, and nothing looks at
test data. Results go to build/papers/records.csv as they come; FULL=1 has five seeds, not one, and of a million
records two. Adult is read from the folder named: `python -m tests.experiments.records FOLDER`, as
adult_train.parquet; without one that part is left out.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import estimate, perturb, predict, train_tree
from ppdm_cli.releases import in_rounds, opened
from ppdm_cli.sidecar import Sidecar
from tests.experiments.common import BUILD, DOMAINS, Results, table

EPSILONS = (1, 2, 4, 8)
PUBLISH, BINS = {1: 2, 2: 2, 4: 2, 8: 3}, {1: 16, 2: 16, 4: 24, 8: 24}
ROUNDS = {1: 3, 2: 3, 4: 3, 8: 2}
FLOOR = {
    "kept, rounds": (85.3, 91, 94.3, 96.8),
    "inside, rounds": (73, 85, 92.3, 95.5),
    "kept": (80.5, 88, 93, 95.3),
    "inside": (74, 81, 92, 95),
    "kept, rounds, 1M": (91, 94, 96, 96.8),
    "marginals k=1": (0.28, 0.16, 0.075, 0.03),
    "pairs k=1": (0.53, 0.35, 0.21, 0.135),
    "pairs k=2": (0.53, 0.35, 0.21, 0.135),
}
ADULT: dict[str, Any] = {
    "age": [15, 95, 16],
    "education_num": [1, 16, 16],
    "hours_per_week": [0, 100, 16],
    "capital_gain": [0, 2000, 4000, 6000, 8000, 12000, 20000, 200000],
    "capital_loss": [0, 1000, 1500, 1700, 1900, 2200, 2600, 5000],
}
MILLION = ", 1M"
TAIL = "long tails, rounds"
TAIL_BINS, TAIL_POWER = 32, 4
LONG = {n: d for n, d in DOMAINS.items() if d[1] - d[0] >= TAIL_BINS}
KEY, VALUES = ("part", "data", "epsilon", "seed"), ("k", "figure", "told", "seconds")


def shifted(bins: int, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """Declared domains whose edges nobody chose: one bin more than the range needs, begun anywhere."""
    plan: dict[str, dict[str, Any]] = {}
    for name, (low, high) in DOMAINS.items():
        if high - low < bins:
            plan[name] = {"domain": [low, high], "bins": high - low + 1}
        elif high - low < 100:  # whole numbers
            width = -(-(high - low + 1) // (bins - 1))
            start = low - int(rng.integers(width))
            plan[name] = {"domain": [start, start + width * bins - 1], "bins": bins}
        else:
            width = (high - low) / (bins - 1)
            start = low - float(rng.random()) * width
            plan[name] = {"domain": [start, start + bins * width], "bins": bins}
    return plan


def tree(part: str, name: str, epsilon: int, seed: int) -> tuple[int, float, str, float]:
    """Percent of clean records that a tree from a release is right about, and seconds of this process."""
    records = 1_000_000 if part.endswith(MILLION) else 100_000
    tail = part == TAIL
    function, rng = int(name[1:]), np.random.default_rng([seed, int(name[1:]), epsilon])
    train = table(function, records, 3000 + 100 * function + seed)
    test = table(function, 5_000, 4000 + 100 * function + seed)
    bins = 24 if part.endswith(MILLION) else TAIL_BINS if tail else BINS[epsilon]
    attributes = shifted(bins, rng)
    if tail:
        train, test = tailed(train), tailed(test)
    way: dict[str, Any] = {"publish": PUBLISH[epsilon]}
    if "rounds" in part or tail:
        way = {"publish": "auto", "rounds": ROUNDS[epsilon]}
    if part.startswith("kept") or tail:
        way["keep"] = ["group"]
    else:
        attributes["group"] = {"domain": "A|B"}
    release = perturb(
        train, record_epsilon=epsilon, class_="group", attributes=attributes, keep_order=True, seed=seed, **way
    )
    start = time.process_time()
    learnt = train_tree(release.frame, sidecar=release.sidecar)
    seconds = time.process_time() - start
    right = float(100 * (predict(learnt, test)["predicted"] == test["group"]).mean())
    most = max(len(d.attributes) for d in opened(release.sidecar).recipes) - part.startswith("inside")
    told = learnt.model
    if tail:  # what uniting costs the miner's other questions
        [salary] = estimate(release.frame, sidecar=release.sidecar, attributes=["salary"]).tables
        told += f", salary from {salary.all_records} records"
    return most, right, told, seconds


def tailed(records: pl.DataFrame) -> pl.DataFrame:
    """Return the records with most of each long-tailed number in few of its bins."""
    return records.with_columns(
        (low + (high - low) * ((pl.col(n).cast(pl.Float64) - low) / (high - low)) ** TAIL_POWER).alias(n)
        for n, (low, high) in LONG.items()
    )


def adult(folder: Path) -> tuple[pl.DataFrame, dict[str, dict[str, Any]]]:
    """The table of the prototype: 13 columns, every one of them perturbed, over public bins."""
    whole = pl.read_parquet(folder / "adult_train.parquet").drop("fnlwgt", "education")
    plan: dict[str, dict[str, Any]] = {}
    for name in whole.columns:
        if name in ADULT and len(ADULT[name]) == 3:
            low, high, bins = ADULT[name]
            plan[name] = {"domain": [low, high], "bins": bins}
        elif name in ADULT:  # bins of unequal width: their middles stand for them
            edges = np.array([-1, 0.5, *ADULT[name][1:]])
            codes = np.clip(np.searchsorted(edges, whole[name].to_numpy(), side="right") - 1, 0, len(edges) - 2)
            whole = whole.with_columns(pl.Series(name, codes.astype(np.int64)))
            plan[name] = {"domain": [0, len(edges) - 2], "bins": len(edges) - 1}
        else:
            values = sorted(str(v) for v in whole[name].drop_nulls().unique())
            whole = whole.with_columns(pl.col(name).cast(pl.String))
            plan[name] = {"domain": "|".join(values), "nulls": bool(whole[name].null_count())}
    return whole, plan


def adult_tree(folder: Path, part: str, epsilon: int, seed: int) -> tuple[int, float, str, float]:
    """Percent of Adult's test records that a tree is right about, from a release that keeps the class."""
    train, test = (
        pl.read_parquet(folder / f"adult_{which}.parquet")
        .drop("fnlwgt", "education")
        .with_columns(pl.col("class").cast(pl.String).str.strip_chars(" ."))
        for which in ("train", "test")
    )
    ends = {n: [d[0], d[1] if len(d) == 3 else d[-1]] for n, d in ADULT.items()}
    attributes: dict[str, Any] = {n: {"domain": both} for n, both in ends.items()}
    attributes["capital_gain"] = {"domain": [0, 100_000]}
    way: dict[str, Any] = {"publish": PUBLISH[epsilon]}
    if "rounds" in part:
        way = {"publish": "auto", "rounds": ROUNDS[epsilon]}
    release = perturb(
        train, record_epsilon=epsilon, class_="class", keep=["class"], attributes=attributes, bins=16,
        rare="publish", keep_order=True, seed=seed, **way,
    )  # fmt: skip
    start = time.process_time()
    learnt = train_tree(release.frame, sidecar=release.sidecar)
    seconds = time.process_time() - start
    right = float(100 * (predict(learnt, test)["predicted"] == test["class"]).mean())
    last = dict.fromkeys(n for d in in_rounds(opened(release.sidecar).recipes)[-1] for n in d.attributes)
    told = f"{learnt.model} after {' '.join(last)}" if "rounds" in part else learnt.model
    return max(len(d.attributes) for d in opened(release.sidecar).recipes), right, told, seconds


def distances(folder: Path, part: str, epsilon: int, seed: int) -> tuple[int, float, str, float]:
    """The mean over attributes, or over pairs of them, of sum |share - true|."""
    whole, plan = adult(folder)
    k = int(part[-1])
    release = perturb(
        whole, record_epsilon=epsilon, publish=k, attributes=plan, keep_order=True, seed=seed,
    )  # fmt: skip
    start = time.process_time()
    if part.startswith("marginals"):
        done = estimate(release.frame, sidecar=release.sidecar, truth=whole)
        errors = [t.error for t in done.tables]
    else:
        errors = []
        alone = {t.names[0]: t for t in estimate(release.frame, sidecar=release.sidecar, truth=whole).tables}
        for pair in list(combinations(whole.columns, 2))[seed::6]:
            if k > 1:
                done = estimate(release.frame, sidecar=release.sidecar, truth=whole, joint=pair)
                errors += [t.error for t in done.tables]
            else:  # nothing shows two attributes: as if they were independent
                one, other = (alone[name].estimate / len(whole) for name in pair)
                true = crossed(release.sidecar, whole, pair) / len(whole)
                errors.append(float(np.abs(np.outer(one, other) - true).sum()))
    return k, float(np.mean([e for e in errors if e is not None])), "", time.process_time() - start


def crossed(sidecar: Sidecar, whole: pl.DataFrame, pair: tuple[str, str]) -> np.ndarray:
    """Return the true counts of two attributes' combinations."""
    domains = [sidecar.by_name[name].domain for name in pair]
    codes = [d.encode(whole[n].to_arrow().cast(d.kind)).codes for d, n in zip(domains, pair, strict=True)]
    table = np.zeros([d.size for d in domains])
    np.add.at(table, tuple(codes), 1)
    return table


def wanted(folder: Path | None) -> Iterator[tuple[Any, ...]]:
    full = bool(os.environ.get("FULL"))
    for seed in range(1, 6 if full else 2):
        for epsilon in EPSILONS:
            parts = ["kept", "inside", "kept, rounds", "inside, rounds"]
            parts += [f"{part}, rounds{MILLION}" for part in ("kept", "inside") if full and seed < 3]
            if full and seed < 4:
                parts += [TAIL]
            for part in parts:
                yield from ((part, f"F{f}", epsilon, seed) for f in range(1, 6))
            if folder is not None:
                yield from (
                    (f"{what} k={k}", "adult", epsilon, seed) for what in ("marginals", "pairs") for k in (1, 2)
                )
                yield from ((part, "adult", epsilon, seed) for part in ("tree", "tree, rounds"))
    if full and folder is not None:  # quickly made, and as different from seed to seed as what is asked of them
        for seed in range(6, 41):
            yield from (("marginals k=1", "adult", epsilon, seed) for epsilon in EPSILONS)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    results = Results(BUILD / "records.csv", KEY, VALUES)
    for part, name, epsilon, seed in results.missing(wanted(folder)):
        if name == "adult":
            assert folder is not None
            work = adult_tree if part.startswith("tree") else distances
            row = work(folder, part, epsilon, seed)
        else:
            row = tree(part, name, epsilon, seed)
        results.add(part, name, epsilon, seed, *row)
        print(part, name, epsilon, seed, *row, flush=True)
    frame = results.frame()
    means = frame.group_by("part", "epsilon").agg(pl.col("figure").mean(), pl.col("seconds").max(), pl.len())
    for (part,), rows in means.sort("part", "epsilon").partition_by("part", as_dict=True).items():
        figures = ", ".join(f"{r['epsilon']}: {r['figure']:.4g} ({r['len']})" for r in rows.to_dicts())
        slowest = rows["seconds"].max()
        print(f"{part}: {figures}; floor or most {FLOOR.get(str(part), '-')}; at most {slowest:.1f} s")


if __name__ == "__main__":
    main()

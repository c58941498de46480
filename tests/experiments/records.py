"""What is learnt from releases that protect whole records: trees of F1 to F5, and the marginals of Adult.

Each record publishes k of its attributes by one coin at the whole budget (perturb --record-epsilon E --publish
k), in one pass or in rounds (--rounds R). Domains are shifted by a random part of a bin, and nothing looks at
test data. FULL=1 has five seeds, not one, and of a million records two. Adult is read from the folder named:
`python -m tests.experiments.records FOLDER`, as adult_train.parquet; without one that part is left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import estimate, perturb, train_tree
from ppdm_cli.releases import in_rounds, opened
from ppdm_cli.sidecar import Sidecar
from tests.experiments.common import DOMAINS, FULL, Results, Settings, accuracy, say, table

EPSILONS = (1, 2, 4, 8)
PUBLISH, BINS = {1: 2, 2: 2, 4: 2, 8: 3}, {1: 16, 2: 16, 4: 24, 8: 24}
ROUNDS = {1: 3, 2: 3, 4: 3, 8: 2}
ADULT: dict[str, Any] = {
    "age": [15, 95, 16],
    "education_num": [1, 16, 16],
    "hours_per_week": [0, 100, 16],
    "capital_gain": [0, 2000, 4000, 6000, 8000, 12000, 20000, 200000],
    "capital_loss": [0, 1000, 1500, 1700, 1900, 2200, 2600, 5000],
}
MILLION = ", 1M"
KEY, VALUES = ("part", "data", "epsilon", "seed"), ("k", "figure", "told", "seconds")
Row = tuple[int, float, str, float]


def shifted(bins: int, rng: np.random.Generator) -> Settings:
    """Declared domains whose edges nobody chose: one bin more than the range needs, begun anywhere."""
    plan: Settings = {}
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


def recipes(part: str, epsilon: int) -> dict[str, Any]:
    """How records publish a few of their attributes: in one pass, or in rounds."""
    if "rounds" in part:
        return {"record_epsilon": epsilon, "publish": "auto", "rounds": ROUNDS[epsilon]}
    return {"record_epsilon": epsilon, "publish": PUBLISH[epsilon]}


def learnt(
    train: pl.DataFrame, test: pl.DataFrame, class_: str, inside: bool, **plan: Any
) -> tuple[Row, Sidecar]:
    """Percent of clean records that a tree from a release is right about, and seconds of this process."""
    release = perturb(train, class_=class_, keep=[] if inside else [class_], keep_order=True, **plan)
    start = time.process_time()
    tree = train_tree(release.frame, sidecar=release.sidecar)
    seconds = time.process_time() - start
    most = max(len(d.attributes) for d in opened(release.sidecar).recipes) - inside
    return (most, accuracy(tree, test, class_), tree.model, seconds), release.sidecar


def tree(part: str, name: str, epsilon: int, seed: int) -> Row:
    records = 1_000_000 if part.endswith(MILLION) else 100_000
    function, rng = int(name[1:]), np.random.default_rng([seed, int(name[1:]), epsilon])
    train = table(function, records, 3000 + 100 * function + seed)
    test = table(function, 5_000, 4000 + 100 * function + seed)
    attributes, inside = shifted(24 if part.endswith(MILLION) else BINS[epsilon], rng), "inside" in part
    if inside:
        attributes["group"] = {"domain": "A|B"}
    plan = recipes(part, epsilon)
    return learnt(train, test, "group", inside, attributes=attributes, seed=seed, **plan)[0]


def adult(folder: Path) -> tuple[pl.DataFrame, Settings]:
    """The table of the prototype: 13 columns, every one of them perturbed, over public bins."""
    whole = pl.read_parquet(folder / "adult_train.parquet").drop("fnlwgt", "education")
    plan: Settings = {}
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


def adult_tree(folder: Path, part: str, epsilon: int, seed: int) -> Row:
    """A tree of Adult, from a release that keeps the class, or perturbs it under the same budget."""
    train, test = (
        pl.read_parquet(folder / f"adult_{which}.parquet")
        .drop("fnlwgt", "education")
        .with_columns(pl.col("class").cast(pl.String).str.strip_chars(" ."))
        for which in ("train", "test")
    )
    attributes: Settings = {n: {"domain": [d[0], d[1] if len(d) == 3 else d[-1]]} for n, d in ADULT.items()}
    attributes["capital_gain"] = {"domain": [0, 100_000]}
    plan = recipes(part, epsilon) | {"attributes": attributes, "bins": 16, "rare": "publish", "seed": seed}
    (most, right, told, seconds), sidecar = learnt(train, test, "class", "inside" in part, **plan)
    if "rounds" in part:
        last = dict.fromkeys(n for d in in_rounds(opened(sidecar).recipes)[-1] for n in d.attributes)
        told = f"{told} after {' '.join(last)}"
    return most, right, told, seconds


def distances(folder: Path, part: str, epsilon: int, seed: int) -> Row:
    """The mean over attributes, or over pairs of them, of sum |share - true|."""
    whole, plan = adult(folder)
    k = int(part[-1])
    release = perturb(whole, record_epsilon=epsilon, publish=k, attributes=plan, keep_order=True, seed=seed)
    given: dict[str, Any] = {"sidecar": release.sidecar, "truth": whole}
    start = time.process_time()
    single = estimate(release.frame, **given).tables
    errors = [t.error for t in single] if part.startswith("marginals") else []
    alone = {t.names[0]: t for t in single}
    for pair in [] if errors else list(combinations(whole.columns, 2))[seed::6]:
        if k > 1:
            errors += [t.error for t in estimate(release.frame, joint=pair, **given).tables]
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
    adults = [
        "marginals k=1",
        "marginals k=2",
        "pairs k=1",
        "pairs k=2",
        "tree",
        "tree, rounds",
        "tree, inside",
    ]
    for seed, epsilon in product(range(1, 6 if FULL else 2), EPSILONS):
        parts = ["kept", "inside", "kept, rounds", "inside, rounds"]
        parts += [f"{part}, rounds{MILLION}" for part in ("kept", "inside") if FULL and seed < 3]
        yield from ((part, f"F{f}", epsilon, seed) for part in parts for f in range(1, 6))
        yield from ((part, "adult", epsilon, seed) for part in adults if folder is not None)
    if FULL and folder is not None:  # quickly made, and as different from seed to seed as what is asked of them
        yield from (("marginals k=1", "adult", e, seed) for seed in range(6, 41) for e in EPSILONS)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None

    def one(part: str, name: str, epsilon: int, seed: int) -> Row:
        if folder is None or name != "adult":
            return tree(part, name, epsilon, seed)
        return (adult_tree if part.startswith("tree") else distances)(folder, part, epsilon, seed)

    found = Results("records", KEY, VALUES).measured(wanted(folder), one)
    means = found.group_by("part", "epsilon").agg(pl.col("figure").mean(), pl.col("seconds").max(), pl.len())
    say(means.sort("part", "epsilon"), digits=3)


if __name__ == "__main__":
    main()

"""How much of the optimal tree's mutual information does a structure have that was learnt from a release?

`python -m tests.experiments.structure [FOLDER [RELEASES]]`: 40,000 records of Asia and of ALARM, and the 13 columns of
Adult in the folder, as tests/experiments/records.py has them; every column at one gamma. The optimal tree is that of
the original records in their bins. Then how often `auto` finds an edge between columns that are independent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, train_bayes
from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import tabulated
from ppdm_cli.joint import spanning
from ppdm_cli.networks import Network, load, sample
from tests.experiments.common import DATA, binned, saved
from tests.experiments.records import adult

RECORDS, GAMMAS, RELEASES = 40_000, (5, 9, 19), 3
SIZES = (2, 3, 5, 10, 20, 4)
INDEPENDENT: dict[str, dict[str, Any]] = {
    "gamma 2": {"gamma": 2},
    "gamma 9": {"gamma": 9},
    "gamma 1000": {"gamma": 1000},
    "two columns a record, epsilon 4": {"record_epsilon": 4, "publish": 2},
}


def information(table: np.ndarray) -> float:
    """Return the mutual information of two columns in nats, from their counts."""
    shares: Floats = table / table.sum()
    alone = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    there = shares > 0
    return float((shares[there] * np.log(shares[there] / alone[there])).sum())


def known(original: pl.DataFrame) -> dict[tuple[str, str], float]:
    """Return the mutual information of each two columns."""
    columns = original.select(pl.all().cast(pl.String).fill_null("null").rank("dense") - 1)
    codes = {n: columns[n].to_numpy().astype(np.uint16) for n in columns.columns}
    sizes = {n: int(c.max()) + 1 for n, c in codes.items()}
    return {
        (a, b): information(tabulated([codes[a], codes[b]], (sizes[a], sizes[b])))
        for a, b in combinations(codes, 2)
    }


def share(network: Network, names: Sequence[str], information_of: dict[tuple[str, str], float]) -> float:
    """Return what a tree has of the mutual information of the best one."""
    order = sorted(information_of, key=lambda p: -information_of[p])
    best = spanning(len(names), [(names.index(a), names.index(b)) for a, b in order])
    found = [(p, n.name) for n in network for p in n.parents]
    own = sum(information_of[p] if p in information_of else information_of[p[::-1]] for p in found)
    return own / sum(information_of[names[a], names[b]] for a, b in best)


def sources(folder: Path | None, seed: int) -> Iterator[tuple[str, pl.DataFrame, dict[str, Any]]]:
    for name in ("asia", "alarm"):
        network = load(DATA / f"{name}.bif")
        frame = pl.concat([pl.DataFrame(b) for b in sample(network, RECORDS, seed)[1]])
        yield name, frame, {n.name: {"categories": list(n.states)} for n in network}
    if folder is not None:
        yield "adult", *adult(folder)


def learnt(folder: Path | None, releases: int) -> Iterator[dict[str, Any]]:
    """Yield for each release and structure its share, its edges, and the seconds of this process."""
    for seed in range(1, 1 + releases):
        for name, original, plan in sources(folder, seed):
            names = [n for n in original.columns if n in plan]
            for gamma in GAMMAS if name == "adult" else (9,):
                release = perturb(original.select(names), gamma=gamma, attributes=plan, seed=seed,
                                  keep_order=True, rare="publish")  # fmt: skip
                truth = known(binned(original.select(names), release.sidecar))
                for how in ("tree", "auto"):
                    start = time.process_time()
                    done = train_bayes([(release.frame, release.sidecar)], learn_structure=how)
                    yield {
                        "data": name, "gamma": gamma, "seed": seed, "structure": how,
                        "share": share(done.network, names, truth),
                        "edges": sum(len(n.parents) for n in done.network),
                        "seconds": time.process_time() - start,
                    }  # fmt: skip


def edges_by_chance(plan: dict[str, Any], seed: int, records: int = 3_000) -> int:
    """Return how many edges `auto` finds between columns that are independent."""
    rng = np.random.default_rng([seed, 9])
    domains = {f"c{size}": [str(i) for i in range(size)] for size in SIZES}
    shares = {n: 1 / np.arange(1, len(d) + 1) for n, d in domains.items()}
    table = {n: rng.choice(d, records, p=shares[n] / shares[n].sum()) for n, d in domains.items()}
    release = perturb(pl.DataFrame(table), attributes={n: {"categories": d} for n, d in domains.items()},
                      seed=seed, keep_order=True, **plan)  # fmt: skip
    done = train_bayes([(release.frame, release.sidecar)], learn_structure="auto")
    return sum(len(n.parents) for n in done.network)


def main(folder: str = "", releases: int = RELEASES) -> None:
    saved("structure", pl.DataFrame(learnt(Path(folder) if folder else None, releases)))
    chance = [
        {"release": name, "with an edge": float(np.mean([edges_by_chance(p, s) > 0 for s in range(50)]))}
        for name, p in INDEPENDENT.items()
    ]
    saved("structure_by_chance", pl.DataFrame(chance))


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))

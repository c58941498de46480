"""Whose row a published record is: the limit that `entropy` and the explorer state, and what Adult gives.

The row that fits a published record best is its own in sum_y max_i P(y | row i) / n of the cases. Where records
publish a few attributes that is counted, else the mean of max_i P / sum_i P over drawn records. Adult is read from the folder named:
`python -m tests.experiments.rows_found FOLDER`, as adult_train.parquet, without fnlwgt and class.
"""

from __future__ import annotations

import sys
from itertools import combinations
from math import exp, prod
from pathlib import Path

import numpy as np
import polars as pl

from ppdm_cli.channels import best_widths
from ppdm_cli.privacy import row_found
from tests.experiments.common import say

BINS, DRAWN, SETS = 20, 1000, 80


def coded(table: pl.DataFrame) -> tuple[np.ndarray, list[tuple[int, bool]]]:
    """Codes of all columns, numbers in equal bins, and their sizes."""
    codes, sizes = [], []
    for column in table.drop("fnlwgt", "class", strict=False):
        if column.dtype.is_numeric() and column.n_unique() > BINS:
            low, high = float(column.min()), float(column.max())  # type: ignore[arg-type]
            codes.append(np.minimum((column.to_numpy() - low) / (high - low) * BINS, BINS - 1).astype(np.int64))
            sizes.append((BINS, True))
        else:
            codes.append(column.rank("dense").fill_null(0).to_numpy().astype(np.int64))
            codes[-1] -= codes[-1].min()
            sizes.append((int(codes[-1].max()) + 1, column.dtype.is_numeric()))
    return np.stack(codes, axis=1), sizes


def of_all(codes: np.ndarray, sizes: list[int], gamma: float, rng: np.random.Generator) -> tuple[float, float]:
    """The limit and the mean where every record publishes all attributes, each at gamma."""
    N, found = np.array(sizes), []
    for row in rng.choice(codes, DRAWN):
        shown = np.where(rng.random(len(N)) < (gamma - 1) / (gamma + N - 1), row, rng.integers(0, N))
        likely = gamma ** (codes == shown).sum(axis=1)
        found.append(likely.max() / likely.sum())
    return row_found(gamma, [1 / n for n in sizes], len(codes)), float(np.mean(found))


def of_some(codes: np.ndarray, sizes: list[tuple[int, bool]], gamma: float) -> tuple[float, float]:
    """The limit and the chance where the record publishes these attributes by one box."""
    widths = best_widths(gamma, sizes)
    outputs = [n + 2 * b for (n, _), b in zip(sizes, widths, strict=True)]
    near, rows = np.zeros(outputs, bool), np.unique(codes, axis=0)
    for offset in np.ndindex(*[2 * b + 1 for b in widths]):
        near[tuple((rows + offset).T)] = True
    w, T = prod(2 * b + 1 for b in widths), near.size
    chance = (gamma * near.sum() + T - near.sum()) / ((gamma - 1) * w + T) / len(codes)
    return row_found(gamma, [w / T], len(codes)), chance


def measured(codes: np.ndarray, sizes: list[tuple[int, bool]]) -> list[tuple[str, str, float, float, float]]:
    rng, q, found = np.random.default_rng(1), len(sizes), []
    for gamma in (9.0, 19.0):
        most, mean = of_all(codes, [n for n, _ in sizes], gamma, rng)
        found.append((f"gamma {gamma:g} each", "all", 100 * most, 100 * mean, most / mean))
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        for k in (1, 2, 3):
            sets = [sorted(s, key=lambda j: sizes[j], reverse=True) for s in combinations(range(q), k)]
            some = sets[:: -(-len(sets) // SETS)]
            each = [of_some(codes[:, s], [sizes[j] for j in s], exp(epsilon)) for s in some]
            most, mean = np.mean(each, axis=0)
            found.append((f"epsilon {epsilon:g}", str(k), 100 * most, 100 * mean, most / mean))
        most, mean = of_all(codes, [n for n, _ in sizes], exp(epsilon / q), rng)
        found.append((f"epsilon {epsilon:g}", "all", 100 * most, 100 * mean, most / mean))
    return found


if __name__ == "__main__":
    schema = ["budget", "publish", "at most %", "measured %", "ratio"]
    codes, sizes = coded(pl.read_parquet(Path(sys.argv[1]) / "adult_train.parquet"))
    even = np.random.default_rng(2).integers(0, [n for n, _ in sizes], codes.shape)
    for name, rows in (("Adult", codes), ("even and independent values", even)):
        say(f"{name}: {len(rows)} rows, {100 / len(rows):.2g}% by chance")
        say(pl.DataFrame(measured(rows, sizes), schema=schema, orient="row"), digits=4)

"""Marginals of Adult beside multi-freq-ldpy's SPL, SMP and RS+FD, at the same bound over the whole record.

`make peers FOLDER=...` installs the package and reads adult_train.parquet from the folder. All 13 columns are
perturbed over the same public bins; a null is a category; a figure is the mean over columns of
sum |share - true|. Each of the peer's protocols picks GRR or OUE for a column by its own variances (ADP). RS+FD
is given the nominal epsilon whose bound over whole records, ln(d (e^nominal - 1) + 1), is the epsilon of the
others: `rsfd_bound`. FULL=1 has five seeds, not one.
"""

from __future__ import annotations

import math
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import estimate, perturb
from tests.experiments.common import FULL, Results, say
from tests.experiments.records import EPSILONS, adult

WAYS = ("ppdm, publish 1", "ppdm, publish 2", "ppdm, publish all", "SPL", "SMP", "RS+FD")


def nominal(epsilon: float, d: int) -> float:
    """The epsilon that RS+FD must be given, so that a whole record of d attributes has this one."""
    return math.log((math.exp(epsilon) - 1) / d + 1)


def rsfd_bound(sizes: tuple[int, ...], epsilon: float, differ: int | None = None) -> float:
    """Enumerate the largest log ratio of RS+FD[GRR]'s law between records that differ in so many attributes.

    One attribute, of equal chance, is answered by GRR at the epsilon that the authors call amplified; the
    others are drawn uniformly.
    """
    d = len(sizes)
    e = d * (math.exp(epsilon) - 1) + 1

    def law(published: tuple[int, ...], record: tuple[int, ...]) -> float:
        same = [y == x for y, x in zip(published, record, strict=True)]
        return sum((e if s else 1) / (e + n - 1) * n for s, n in zip(same, sizes, strict=True))

    records = list(product(*map(range, sizes)))
    return max(
        math.log(law(y, a) / law(y, b))
        for y in records
        for a in records
        for b in records
        if differ is None or sum(p != q for p, q in zip(a, b, strict=True)) <= differ
    )


def ours(publish: str, whole: pl.DataFrame, plan: dict[str, Any], epsilon: int, seed: int) -> float:
    settings = {"publish": publish if publish == "all" else int(publish), "record_epsilon": epsilon}
    release = perturb(whole, attributes=plan, keep_order=True, seed=seed, **settings)
    done = estimate(release.frame, sidecar=release.sidecar, truth=whole)
    return float(np.mean([t.error for t in done.tables if t.error is not None]))


def theirs(way: str, whole: pl.DataFrame, plan: dict[str, Any], epsilon: int, seed: int) -> float:
    from multi_freq_ldpy.mdim_freq_est import RSpFD_solution, SMP_solution, SPL_solution

    ways = {
        "SPL": (SPL_solution.SPL_ADP_Client, SPL_solution.SPL_ADP_Aggregator_MI),
        "SMP": (SMP_solution.SMP_ADP_Client, SMP_solution.SMP_ADP_Aggregator_MI),
        "RS+FD": (RSpFD_solution.RSpFD_ADP_Client, RSpFD_solution.RSpFD_ADP_Aggregator_MI),
    }
    client, aggregate = ways[way]
    codes, sizes = coded(whole, plan)
    d = len(sizes)
    given = nominal(epsilon, d) if way == "RS+FD" else float(epsilon)
    np.random.seed(seed)  # the peer's coins
    reports = [client(record, sizes, d, given) for record in codes.tolist()]
    found = aggregate(reports, sizes, d, given)
    errors = []
    for i, (shares, size) in enumerate(zip(found, sizes, strict=True)):
        true = np.bincount(codes[:, i], minlength=size) / len(codes)
        errors.append(np.abs(np.asarray(shares, np.float64) - true).sum())
    return float(np.mean(errors))


def coded(whole: pl.DataFrame, plan: dict[str, Any]) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Codes of the bins and categories that the plan declares, null the last, and how many each has."""
    columns, sizes = [], []
    for name in whole.columns:
        settings, values = plan[name], whole[name]
        if isinstance(settings["domain"], str):
            order = settings["domain"].split("|")
            codes = values.replace_strict(order, range(len(order)), default=len(order), return_dtype=pl.Int64)
            sizes.append(len(order) + bool(settings.get("nulls")))
        else:
            (low, high), bins = settings["domain"], settings["bins"]
            codes = ((values - low) * bins // (high - low + 1)).clip(0, bins - 1)
            sizes.append(bins)
        columns.append(codes.to_numpy().astype(np.int64))
    return np.stack(columns, axis=1), sizes


def main() -> None:
    whole, plan = adult(Path(sys.argv[1]))

    def one(way: str, epsilon: int, seed: int) -> tuple[float, float]:
        start = time.process_time()
        if way.startswith("ppdm"):
            error = ours(way.split()[-1], whole, plan, epsilon, seed)
        else:
            error = theirs(way, whole, plan, epsilon, seed)
        return error, time.process_time() - start

    keys = product(WAYS, EPSILONS, range(1, 6 if FULL else 2))
    found = Results("peers", ("way", "epsilon", "seed"), ("error", "seconds")).measured(keys, one)
    means = found.group_by("way", "epsilon").agg(pl.col("error").mean())
    say(means.pivot("epsilon", index="way", values="error").sort("way"), digits=3)


if __name__ == "__main__":
    main()

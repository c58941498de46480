"""What is made of a class that hangs on nothing, in releases whose records show two attributes by one coin.

Numbers with long tails, towns and rare sorts, and a class that is drawn apart from them, kept or inside the
budget. Told are the releases with a model, and how much worse its tree is than the commonest class. Beside
them stand the same with a class that hangs on pay and age. A second table counts releases with kept columns in
which a law finds a dependence, although every perturbed column is independent of all others.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, predict, train_tree
from ppdm_cli.joint import GivenKept, learn, read
from ppdm_cli.releases import axis_of, open_release

RELEASES, TEST = 16, 8_000
CASES = [(False, inside, share) for inside in (False, True) for share in (0.5, 0.25, 0.05)]
CASES += [(True, inside, 0.25) for inside in (False, True)]
SORTS = [f"s{i:02}" for i in range(40)]
DOMAINS: dict[str, Any] = {
    "pay": {"domain": [0, 200_000], "bins": 16}, "gain": {"domain": [0, 50_000], "bins": 16},
    "age": {"domain": [0, 100], "bins": 16}, "sex": {"domain": "f|m|x"}, "sort": {"domain": "|".join(SORTS)},
    "town": {"domain": "|".join(f"t{i:02}" for i in range(12))}, "ill": {"domain": "yes|no"},
}  # fmt: skip


def table(records: int, seed: int, share: float, signal: bool) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    pay = np.where(rng.random(records) < 0.15, 0, np.exp(rng.normal(10, 1, records))).clip(0, 200_000)
    age = rng.normal(45, 15, records).clip(0, 99)
    rare = np.array(SORTS)[rng.integers(1, len(SORTS), records)]
    ill = (pay > 40_000) & (age > 40) if signal else rng.random(records) < share
    return pl.DataFrame(
        {
            "pay": pay,
            "gain": np.where(rng.random(records) < 0.85, 0, rng.exponential(5_000, records)).clip(0, 49_999),
            "age": age,
            "sex": rng.choice(["f", "m", "x"], records),
            "sort": np.where(rng.random(records) < 0.85, SORTS[0], rare),
            "town": [f"t{i:02}" for i in rng.integers(0, 12, records)],
            "ill": np.where(ill, "yes", "no"),
        }
    )


def measured(records: int, epsilon: float, share: float, inside: bool, signal: bool, releases: int) -> str:
    attributes = {n: d for n, d in DOMAINS.items() if inside or n != "ill"}
    found, better = 0, []
    for seed in range(releases):
        made = perturb(table(records, seed, share, signal), record_epsilon=epsilon, publish=2, class_="ill",
                       attributes=attributes, seed=seed, keep_order=True, keep=[] if inside else ["ill"])  # fmt: skip
        tree = train_tree(made.frame, sidecar=made.sidecar)
        found += tree.model != "none"
        test = table(TEST, 10_000 + seed, share, signal)
        right = (predict(tree, test)["predicted"] == test["ill"]).mean()
        better.append(100 * (right - test["ill"].value_counts(normalize=True)["proportion"].max()))
    return f"{found} of {releases} | {np.mean(better):+.1f} (least {min(better):+.1f})"


def invented(records: int, gamma: float, labels: int, inside: bool, releases: int) -> int:
    """Return in how many releases a law given kept columns depends on a column."""
    found = 0
    for seed in range(releases):
        drawn = np.random.default_rng([seed, labels]).integers(0, labels, records)
        data = table(records, seed, 0.25, False).with_columns(ill=pl.Series(np.array(SORTS)[drawn]))
        kept = ["pay", "gain", "town"] + ["ill"] * (not inside)
        attributes = {n: d for n, d in DOMAINS.items() if n not in kept} | (
            {"ill": {"domain": "|".join(SORTS[:labels])}} if inside else {}
        )
        made = perturb(
            data, gamma=gamma, keep=kept, class_="ill", attributes=attributes, seed=seed, keep_order=True
        )
        opened, sidecar = open_release(made.frame.to_arrow(), made.sidecar)  # type: ignore[union-attr]
        law = learn(read(opened, sidecar, axis_of(sidecar, "ill"))).linked
        found += not isinstance(law, GivenKept) or any(own.law.asked for own in law.laws)
    return found


def main() -> None:
    releases = int(sys.argv[1]) if len(sys.argv) > 1 else RELEASES
    print("| signal | class | labels | records | epsilon | a model | tree less commonest |")
    print("|---|---|---|---|---|---|---|")
    for (signal, inside, share), (records, epsilon) in product(CASES, ((6_000, 4), (30_000, 2), (30_000, 4))):
        row = measured(records, epsilon, share, inside, signal, releases)
        labels = "as it falls" if signal else f"{100 * (1 - share):g}:{100 * share:g}"
        which = f"{'pay and age' if signal else 'none'} | {'inside' if inside else 'kept'} | {labels}"
        print(f"| {which} | {records:,} | {epsilon} | {row} |", flush=True)
    print("\n| labels | class | records | gamma | a dependence |\n|---|---|---|---|---|")
    for labels, inside, records, gamma in product((2, 26), (False, True), (6_000, 30_000), (1.284, 2.7, 7.4)):
        row = f"{invented(records, gamma, labels, inside, releases)} of {releases}"
        print(f"| {labels} | {'inside' if inside else 'kept'} | {records:,} | {gamma:g} | {row} |", flush=True)


if __name__ == "__main__":
    main()

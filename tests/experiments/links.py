"""How often a person's row is found: by `attack --with link`, by two simple attacks, and as expected.

The attacker knows all attributes but the class: of Adult 13, numbers in 20 equal bins. The simple attacks are written
out here: `matches` ranks rows by p(row | person) alone, `ratio` by that over the product of the shares of what
the row shows. `python -m tests.experiments.links FOLDER` reads adult_train.parquet there; then budgets for the
record follow, beside e^epsilon times chance.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import attack, perturb
from ppdm_cli.attacks import FoundFigures
from tests.experiments.common import saved, table
from tests.experiments.rows_found import coded

PEOPLE = 1000
BUDGETS = [(e, k) for e in (1.0, 2.0, 4.0, 8.0) for k in (1, 2, 3, "all")]


def tables(folder: Path) -> Iterator[tuple[str, pl.DataFrame, dict[str, Any]]]:
    """Yield tables of codes, with the declared domains."""
    for name, own in {
        "Adult": pl.read_parquet(folder / "adult_train.parquet"),
        "spambase": pl.read_parquet(folder / "spambase_train.parquet"),
        "function 1": table(1, 30_000, 3).drop("group"),
    }.items():
        codes, sizes = coded(own)
        data = pl.DataFrame({f"c{i:02}": codes[:, i] for i, (n, _) in enumerate(sizes) if n > 1})
        yield name, data, {n: {"categories": list(range(data[n].max() + 1))} for n in data.columns}  # type: ignore[operator]


def simple(original: pl.DataFrame, shown: pl.DataFrame, gamma: float, ratio: bool) -> list[float]:
    """Percent of people whose row comes first, and among ten, by loops over people and columns."""
    x, y, n = original.to_numpy(), shown.to_numpy(), len(shown)
    shares = np.zeros(n)
    for j in range(y.shape[1]) if ratio else ():
        shares += np.log(np.bincount(y[:, j]) / n)[y[:, j]]
    hits = np.zeros(2)
    for i in np.random.default_rng(1).choice(n, PEOPLE, replace=False):
        scores = np.log(gamma) * (y == x[i]).sum(axis=1) - shares
        above, ties = (scores > scores[i] + 1e-6).sum(), (abs(scores - scores[i]) <= 1e-6).sum()
        hits += np.clip((np.array([1, 10]) - above) / ties, 0, 1)
    return [float(h) for h in 100 * hits / PEOPLE]


def found(
    original: pl.DataFrame, domains: dict[str, Any], **plan: Any
) -> tuple[pl.DataFrame, list[FoundFigures]]:
    """The release, and the figures of everyone: measured and expected."""
    release = perturb(original, attributes=domains, keep_order=True, **plan)
    each = [
        attack(release.frame, sidecar=release.sidecar, truth=t, attacks="link").link for t in (original, None)
    ]
    return release.frame, [e.found[0] for e in each if e is not None]


def at_gamma(data: list[tuple[str, pl.DataFrame, dict[str, Any]]]) -> pl.DataFrame:
    rows = []
    for name, original, domains in data:
        for gamma in (9, 19):
            shown, (measured, expected) = found(original, domains, gamma=gamma)
            shown = shown.select(original.columns)
            by = {"table": name, "gamma": gamma}
            for attacker, (first, ten) in {
                "matches": simple(original, shown, gamma, False),
                "ratio": simple(original, shown, gamma, True),
                "link": (100 * measured.first, 100 * measured.ten),
                "link, expected": (100 * expected.first, 100 * expected.ten),
            }.items():
                rows.append(by | {"attacker": attacker, "first %": first, "in ten %": ten})
            rows[-2] |= {"low": 100 * measured.first_low, "high": 100 * measured.first_high}
    return pl.DataFrame(rows, infer_schema_length=None)


def at_budgets(original: pl.DataFrame, domains: dict[str, Any]) -> pl.DataFrame:
    rows = []
    for epsilon, k in BUDGETS:
        _, (measured, expected) = found(original, domains, record_epsilon=epsilon, publish=k)
        rows.append({
            "epsilon": epsilon, "publish": str(k), "first %": 100 * measured.first,
            "low": 100 * measured.first_low, "high": 100 * measured.first_high,
            "expected %": 100 * expected.first, "chance %": 100 * measured.first_chance,
            "at most %": 100 * measured.first_bound, "in ten %": 100 * measured.ten,
            "ten by chance %": 100 * measured.ten_chance,
        })  # fmt: skip
    return pl.DataFrame(rows)


if __name__ == "__main__":
    data = list(tables(Path(sys.argv[1])))
    saved("links", at_gamma(data))
    saved("links_budgets", at_budgets(*data[0][1:]))

"""Releases as a black box: what the best test of two records can tell of them, beside what was promised.

`python -m tests.experiments.black_box [RECORDS]` prints the table of docs/technical/experiments.md. In the manner
of DP-Auditorium: a mechanism, a generator that searches for neighbouring records, and testers of the property.
Here the mechanism is the command `ppdm perturb` with all that it composes, and what it publishes of a record is
one outcome. Both neighbours are in one table, among others: so rounds choose alike for them.

Each tester learns on half of the outcomes and is judged on the other half. It returns a lower bound on epsilon
that holds with probability `SURE`. The attack of LDP-Auditor (Arcolezi and Gambs, PoPETs 2024) is one of them.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from ppdm_cli.channels import Channel, Substitution
from ppdm_cli.releases import read_sidecar
from tests.vocabulary import here

SURE = 0.999
FEW = 10
"""The least outcomes by which a set of them is chosen."""
ATTRIBUTES = {
    "age": (5, 35, 65, 95, None),
    "region": ("n", "s", "e", "w", None),
    "pay": (1.0, 9.0, 5.0),
    "ill": ("no", "yes"),
}
DOMAINS = ("age=0:100", "region=e|n|s|w", "pay=0:10", "ill=no|yes")
SETTINGS = ("age:nulls=true,bins=5", "region:nulls=true", "pay:bins=3")
THREE = ("--drop", "pay")
COMPOSITIONS: dict[str, tuple[str, ...]] = {
    "one attribute, with null": ("--gamma", "2", "--drop", "age", "--drop", "ill", *THREE),
    "every attribute": ("--record-epsilon", "1", "--publish", "all", *THREE),
    "bands": ("--gamma", "1.5", "--matrix", "band", *THREE),
    "together, two copies": ("--gamma", "1.6", "--together", "region,ill", "--copies", "2", "--drop", "age", *THREE),
    "recipes of a box": ("--record-epsilon", "1", "--publish", "2", *THREE),
    "recipes with the class": (
        "--record-epsilon", "1.5", "--publish", "1", "--class", "ill", "--class-in-budget", *THREE,
    ),
    "rounds with the class": ("--record-epsilon", "1.5", "--rounds", "2", "--class", "ill", "--class-in-budget"),
}  # fmt: skip
Record = tuple[Any, ...]
Test = Callable[[np.ndarray, np.ndarray, float], float]


def publish(records: list[Record], each: int, options: tuple[str, ...]) -> tuple[list[np.ndarray], float]:
    """Return what is published of so many copies of each record, a number in each file, and epsilon."""
    which = np.random.default_rng(each).permutation(np.repeat(np.arange(len(records)), each))
    kinds = {"age": pl.Int64, "region": pl.String, "pay": pl.Float64, "ill": pl.String}
    columns = {n: pl.Series(n, [r[i] for r in records], t) for i, (n, t) in enumerate(kinds.items())}
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("w+b") as log:
        folder = Path(name)
        pl.DataFrame(columns)[which].write_parquet(folder / "in.parquet")
        gone = [o for before, o in pairwise(options) if before == "--drop"]
        declared = [part for d in DOMAINS if d.split("=")[0] not in gone for part in ("--domain", d)]
        declared += [part for s in SETTINGS if s.split(":")[0] not in gone for part in ("--attribute", s)]
        arguments = ("perturb", "in.parquet", "-o", "out.parquet", "--keep-order", *declared, *options)
        code = here(folder, *arguments, out=log, err=log)
        log.seek(0)
        assert code == 0, log.read().decode()
        files = sorted(folder.glob("out*.parquet"))
        shown = [pl.read_parquet(f).select(pl.struct(pl.all().cast(pl.String)).rank("dense")) for f in files]
        sidecar = read_sidecar(files[0].with_name(files[0].name + ".ppdm.json"), None, "the sidecar")
    outcomes = np.stack([s.to_series().to_numpy().astype(np.int64) - 1 for s in shown], axis=1)
    return [outcomes[which == i] for i in range(len(records))], float(sidecar.privacy.perturbed_epsilon)


def bounded(mine: int, of_mine: int, others: int, of_others: int) -> float:
    """Return a lower bound on ln(p/q) by Clopper and Pearson's intervals of both chances."""
    doubt = (1 - SURE) / 2
    low = stats.beta.ppf(doubt, mine, of_mine - mine + 1) if mine else 0.0
    high = stats.beta.ppf(1 - doubt, others + 1, of_others - others) if others < of_others else 1.0
    return float(np.log(low / high)) if low > 0 else -np.inf


def _judged(one: np.ndarray, other: np.ndarray, chosen: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the bound by outcomes that nothing was learnt from, of which `chosen` tell for the first."""
    mine, others = chosen(one[1::2]), chosen(other[1::2])
    return bounded(int(mine.sum()), len(mine), int(others.sum()), len(others))


def _scores(one: np.ndarray, other: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Learn how much more likely outcomes are of one record than of the other; files add up."""
    tables = []
    for own, others in zip(one[::2].T, other[::2].T, strict=True):
        size = 1 + max(one.max(), other.max())
        counts = [np.bincount(part, minlength=size) + 0.5 for part in (own, others)]
        tables.append(np.log(counts[0] / counts[1]))
    return lambda outcomes: sum(t[o] for t, o in zip(tables, outcomes.T, strict=True))


def _odds(mine: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how much more often outcomes are the first's than the other's, less what may be chance."""
    return np.where(mine >= FEW, (mine - 2 * np.sqrt(mine)) / (others + 2 * np.sqrt(others) + 1), 0)


def histogram(one: np.ndarray, other: np.ndarray, _: float) -> float:
    """Test the one outcome that tells most for the first record."""
    sizes = 1 + np.maximum(one.max(axis=0), other.max(axis=0))

    def joined(outcomes: np.ndarray) -> np.ndarray:
        return np.ravel_multi_index(list(outcomes.T), list(sizes))

    mine, others = (np.bincount(joined(o[::2]), minlength=sizes.prod()) for o in (one, other))
    best = _odds(mine, others).argmax()
    return _judged(one, other, lambda outcomes: joined(outcomes) == best)


def hockey_stick(one: np.ndarray, other: np.ndarray, _: float) -> float:
    """Test a set of outcomes that tell for the first record: of those above a threshold, the best."""
    score = _scores(one, other)
    mine, others = (np.sort(score(o[::2])) for o in (one, other))

    tried = np.unique(np.quantile(mine, np.linspace(0, 1, 200), method="nearest"))
    above = (len(s) - np.searchsorted(s, tried) for s in (mine, others))
    best = tried[_odds(*above).argmax()]
    return _judged(one, other, lambda outcomes: score(outcomes) >= best)


def guess(one: np.ndarray, other: np.ndarray, promised: float) -> float:
    """Test LDP-Auditor's guess: the first record, where the outcome speaks for it and not for just any record."""
    score = _scores(one, other)
    return _judged(one, other, lambda outcomes: score(outcomes) > promised / 2)


TESTS: dict[str, Test] = {"histogram": histogram, "hockey-stick": hockey_stick, "guess": guess}


def search(options: tuple[str, ...], each: int, tried: int = 10) -> tuple[Record, Record]:
    """Return the neighbouring records, of some at random, that a small release tells apart best."""
    rng = np.random.default_rng(1)
    drawn = [tuple(v[rng.integers(len(v))] for v in ATTRIBUTES.values()) for _ in range(tried)]
    records = list(dict.fromkeys(drawn))
    outcomes, promised = publish(records, each, options)
    pairs = permutations(range(len(records)), 2)
    best = max(pairs, key=lambda pair: hockey_stick(*(outcomes[i] for i in pair), promised))
    return records[best[0]], records[best[1]]


def audited(options: tuple[str, ...], each: int) -> tuple[dict[str, float], float]:
    """Return the epsilon that each tester shows, and the one that was promised."""
    pair = search(options, max(each // 20, 2_000))
    (one, other), promised = publish(list(pair), each, options)
    return {name: test(one, other, promised) for name, test in TESTS.items()}, promised


@contextmanager
def drawn_at(percent: int) -> Iterator[None]:
    """Draw by another gamma than the sidecar says, in every channel."""
    real = Channel.drawn

    def drawn(self: Channel, codes: Any, coins: Any, addresses: Any) -> Any:
        assert isinstance(self.law, Substitution)
        gamma = Decimal(f"{float(self.law.gamma) * percent / 100:.6g}")
        law = dataclasses.replace(self.law, gamma=gamma)
        return real(dataclasses.replace(self, law=law), codes, coins, addresses)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "drawn", drawn)
        yield


def main(each: int) -> None:
    print(f"{each} records of each of two; bounds hold with {SURE:.1%}\n")
    columns = ["release", "promised epsilon", *TESTS, "drawn at 105% of gamma"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for name, options in COMPOSITIONS.items():
        found, promised = audited(options, each)
        with drawn_at(105):
            wrong = max(audited(options, each)[0].values())
        shown = [
            *(f"{bound:.3f}" for bound in found.values()),
            f"{wrong:.3f}{' (caught)' * (wrong > promised)}",
        ]
        print(f"| {name} | {promised:.4g} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3_000_000)

"""How often do tests reject what is true, and have they the power of as many originals as they say worth?

`python -m tests.experiments.testing [--releases R]`. Not files are made but the counts that a query would find in
them, by their exact law: of R releases a cell, of 10,000 records each. What is false hangs together in a random
direction, as much as originals of the size that the test names would reject in about 60 % of the cases.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import ncx2

from ppdm_cli import perturb
from ppdm_cli.estimating import StratumLaw, with_kept
from ppdm_cli.perturbing import Release
from ppdm_cli.querying import answering
from ppdm_cli.querying.moments import Counted, moments
from ppdm_cli.querying.question import read_question
from ppdm_cli.releases import open_releases, opened
from ppdm_cli.sidecar import Sidecar

Floats = np.ndarray
RECORDS, DIRECTIONS, ROUND = 10_000, 20, 1_000
FEWEST = 50
"""Of fewer originals than this the test is none, and nothing to compare with."""
GAMMAS, EPSILONS = (2, 5, 9, 21), (2, 4, 6)
SHARES: dict[str, Floats] = {
    "a": np.array([0.6, 0.3, 0.1]), "b": np.array([0.4, 0.3, 0.15, 0.1, 0.05]),
    "c": np.r_[0.3, 0.2, np.full(10, 0.05)], "k": np.array([0.8, 0.2]),
    "x": np.array([0.05, 0.16, 0.2, 0.19, 0.15, 0.11, 0.07, 0.04, 0.02, 0.01]), "y": np.full(6, 1 / 6),
}  # fmt: skip
"""Of each column the shares of its values; columns are independent of each other."""
TESTS: dict[str, tuple[str, ...]] = {
    "independent(a, b)": ("a", "b"), "independent(a, c)": ("a", "c"), "independent(k, b)": ("k", "b"),
    "trend(x, y)": ("x", "y"), "trend(x, a = 'a0')": ("x", "a"), "same(mean(x), a)": ("x", "a"),
    "same(mean(x), b)": ("x", "b"), "same(mean(x), c)": ("x", "c"),
    "same(share(b = 'b0'), a)": ("b", "a"),
    "fits(b, 'b0', .4, 'b1', .3, 'b2', .15, 'b3', .1, 'b4', .05)": ("b",),
}  # fmt: skip


def designs() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for g in GAMMAS:
        found += [(f"gamma-diagonal {g}", {"gamma": g}), (f"band {g}", {"gamma": g, "matrix": "band"})]
        found.append((f"joint {g}", {"gamma": g, "together": [{"attributes": ["a", "b"]}]}))
    return found + [(f"recipes {e}", {"record_epsilon": e, "publish": "2"}) for e in EPSILONS]


def released(plan: dict[str, Any]) -> Release:
    """Return a small release: no more than its sidecar is of use, and how its recipes are dealt."""
    rng, rows = np.random.default_rng(3), 4_000
    codes = {n: np.r_[np.arange(len(p)), rng.choice(len(p), rows - len(p), p=p)] for n, p in SHARES.items()}
    frame = pl.DataFrame({n: c * 10 if n in "xy" else np.char.add(n, c.astype(str)) for n, c in codes.items()})
    attributes = {"x": {"domain": [0, 100], "bins": 10}, "y": {"domain": [0, 60], "bins": 6}}
    return perturb(frame, keep=["k"], attributes=attributes, seed=1, keep_order=True, rare="publish", **plan)


class Simulated:
    """What a test is asked of: its tables, and the law of the counts in them."""

    def __init__(self, release: Release, test: str) -> None:
        question = read_question(f"select {test} as t")
        with ExitStack() as stack:
            table, sidecar = open_releases(release.frame, release.sidecar, None)
            table, sidecar = with_kept(table, sidecar, answering._listed(sidecar, question), None, stack)
            (self.asked,), strata = answering._asked(sidecar, question, RECORDS)
        reading = self.asked.reading
        self.columns = [n for a in reading.axes for n in a.attributes]
        column = release.frame["ppdm_recipe"] if len(strata.lam) > 1 else np.zeros(len(release.frame), int)
        recipes = np.bincount(column, minlength=len(strata.lam)) / len(release.frame)
        own = [reading.which == i for i in range(len(reading.strata))]
        self.shares = np.array([recipes[o].sum() for o in own])
        self.lam = np.array([recipes[o] @ strata.lam[o] for o in own]) / self.shares
        sizes, each = self.asked.scope.sizes, zip(reading.strata, self.lam, strict=True)
        self._laws = [StratumLaw(sizes, s, m).forward for s, m in each]
        if len(strata.lam) == 1:
            self._laws = [_independent(sidecar, reading.axes)]

    def __call__(self, shares: Floats, records: int, releases: int, rng: np.random.Generator) -> list[Any]:
        """Return the rows of so many releases of records with these shares, as a table over the columns."""
        left = max(1 - self.shares.sum(), 0.0)
        of_kind = rng.multinomial(records, np.append(self.shares, left), releases)[:, :-1]
        cells = []
        for place, law in enumerate(self._laws):
            published = np.maximum(law(shares), 0.0).ravel()
            drawn = rng.multinomial(of_kind[:, place], published / published.sum())
            cells.append(drawn.reshape(1, releases, 1, -1).astype(float))
        counted = Counted(cells, of_kind.sum(axis=0) * self.lam)
        known = moments(
            self.asked.scope, self.asked.groups, self.asked.reading, counted, np.full(releases, float(records))
        )
        (_, computed), = self.asked.items  # fmt: skip
        return [answering._row((), "t", computed, known, (i, 0), True, 1.96) for i in range(releases)]


def _independent(sidecar: Sidecar, axes: Sequence[Any]) -> Callable[[Floats], Floats]:
    """Return what makes of original shares published ones, each axis by itself."""

    def forward(table: Floats) -> Floats:
        table = table.reshape([a.domain.size if a.law else _domain(sidecar, a) for a in axes])
        for place, axis in enumerate(axes):
            law = axis.law or opened(sidecar).axis(axis.name).law
            table = table if law is None else law.forward(table, place)
        return table

    return forward


def _domain(sidecar: Sidecar, axis: Any) -> int:
    return int(opened(sidecar).axis(axis.name).domain.size)


def independent(columns: Sequence[str]) -> Floats:
    found = np.ones(1)
    for name in columns:
        found = np.multiply.outer(found, SHARES[name]).ravel()
    return found.reshape([len(SHARES[n]) for n in columns])


def leaning(columns: Sequence[str], test: str, records: float, rng: np.random.Generator) -> tuple[Floats, int]:
    """Return shares which so many originals would reject in about 60 %, and the degrees of freedom."""
    plain, freedom, lean = independent(columns), 1, np.ones(())
    for name in columns:
        p, n = SHARES[name], len(SHARES[name])
        scores = rng.standard_normal(n) / np.sqrt(p)
        if name == "x" or "trend" in test:
            scores = np.arange(n, dtype=float) if "=" not in test or name != "a" else np.eye(n)[0]
        elif "share" in test and name == "b":
            scores = np.eye(n)[0]
        else:
            freedom *= n - 1
        scores = scores - scores @ p
        lean = np.multiply.outer(lean, scores / np.sqrt(scores**2 @ p))
    power = np.linspace(0.1, 60, 600)
    wanted = power[np.argmax(ncx2.sf(_critical(freedom), freedom, power) > 0.6)]
    much = min(np.sqrt(wanted / max(records, 1.0)), 0.9 / np.abs(lean).max())
    return plain * (1 + much * lean), freedom


def _critical(freedom: int) -> float:
    from scipy.stats import chi2

    return float(chi2.isf(0.05, freedom))


def rejected(rows: Sequence[Any], level: float = 0.05) -> float:
    return float(np.mean([r.p < level for r in rows if r.p is not None]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=10_000)
    parser.add_argument("--only", default="", help="these designs, such as 'band 5,recipes 4'")
    parser.add_argument("--no-power", action="store_true")
    asked = parser.parse_args(arguments)
    sizes: dict[str, list[float]] = {t: [] for t in TESTS}
    for name, plan in designs():
        if asked.only and name not in asked.only.split(","):
            continue
        release, exact = released(plan), released({"gamma": 999_999})
        for test, columns in TESTS.items():
            if "matrix" in plan and not set(columns) & {"x", "y"}:
                continue  # words have no band
            rng, one = np.random.default_rng(7), Simulated(release, test)
            rows = []
            for start in range(0, asked.releases, ROUND):
                rows += one(independent(one.columns), RECORDS, min(ROUND, asked.releases - start), rng)
            told = [r for r in rows if r.p is not None]
            size, few = rejected(told), rejected(told, 0.01)
            worth = float(np.median([r.worth for r in told])) / min(ROUND, asked.releases)
            sizes[test].append(size)
            said = f"{name:18} {test[:28]:28} {100 * size:5.2f} % at 5 %, {100 * few:5.2f} % at 1 %, "
            said += f"missing {1 - len(told) / len(rows):.3f}, worth {worth:6.0f}"
            if not asked.no_power and worth >= FEWEST:
                originals, powers = Simulated(exact, test), []
                for _ in range(DIRECTIONS):
                    shares, _freedom = leaning(one.columns, test, worth, rng)
                    own = one(shares, RECORDS, max(asked.releases // DIRECTIONS // 4, 25), rng)
                    turned = shares.transpose([one.columns.index(c) for c in originals.columns])
                    powers.append((rejected(own), rejected(originals(turned, round(worth), len(own), rng))))
                power, beside = np.mean(powers, axis=0)
                said += f"; power {100 * power:.1f} %, of originals {100 * beside:.1f} %"
            print(said, flush=True)
    for test, found in sizes.items():
        if found:
            print(_spread(test[:30], found))
    print(_spread("all", [s for found in sizes.values() for s in found]))


def _spread(name: str, found: Sequence[float]) -> str:
    low, mean, high = (100 * f for f in (min(found), float(np.mean(found)), max(found)))
    return f"{name:30} {len(found):3} cells: {mean:.2f} % on average, {low:.2f} to {high:.2f} %"


if __name__ == "__main__":
    main()

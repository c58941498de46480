"""How often do tests reject what is true, and have they the power of as many originals as they say worth?

`python -m tests.experiments.testing [RELEASES]`. Not files are made but the counts that a query would find in
them, by their exact law: of so many releases a cell, of 10,000 records each. What is false hangs together in a
random direction, as much as originals of the size that the test names would reject in about 60 % of the cases.
Then, how near answers come to the best linear unbiased ones, where there are several: of bands and of recipes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import chi2, ncx2

from ppdm_cli import perturb
from ppdm_cli.channels import left_inverse, likeliest
from ppdm_cli.channels.band import Band, best_half_width
from ppdm_cli.estimating import StratumLaw, with_kept
from ppdm_cli.perturbing import Release
from ppdm_cli.querying import answering
from ppdm_cli.querying.moments import TableCounts, _together, moments
from ppdm_cli.querying.question import read_question
from ppdm_cli.releases import open_releases, opened
from ppdm_cli.sidecar import Sidecar
from tests.experiments.common import say

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
BINNED: dict[str, Floats] = {
    "even": np.full(20, 0.05),
    "peak": np.exp(-0.5 * ((np.arange(20) - 6) / 2.5) ** 2),
    "spike": np.r_[0.92, 0.04, 0.02, 0.01, np.full(15, 0.0004), 0.005],
}
"""Shares of 20 bins, whose mean and upper half are asked for."""
TESTS: dict[str, tuple[str, ...]] = {
    "independent(a, b)": ("a", "b"), "independent(a, c)": ("a", "c"), "independent(k, b)": ("k", "b"),
    "trend(x, y)": ("x", "y"), "trend(x, a = 'a0')": ("x", "a"), "same(mean(x), a)": ("x", "a"),
    "same(mean(x), b)": ("x", "b"), "same(mean(x), c)": ("x", "c"),
    "same(share(b = 'b0'), a)": ("b", "a"),
    "fits(b, 'b0', .4, 'b1', .3, 'b2', .15, 'b3', .1, 'b4', .05)": ("b",),
}  # fmt: skip


def designs(epsilons: Sequence[float], together: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Name the plans that are compared: each attribute by itself, two together, and two a record."""
    found: list[tuple[str, dict[str, Any]]] = []
    for g in GAMMAS:
        found += [(f"gamma-diagonal {g}", {"gamma": g}), (f"band {g}", {"gamma": g, "matrix": "band"})]
        found.append((f"joint {g}", {"gamma": g, "together": [{"attributes": list(together)}]}))
    return found + [(f"recipes {e}", {"record_epsilon": e, "publish": "2"}) for e in epsilons]


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
        for i, law in enumerate(self._laws):
            published = np.maximum(law(shares), 0.0).ravel()
            drawn = rng.multinomial(of_kind[:, i], published / published.sum())
            cells.append(drawn.reshape(1, releases, 1, -1).astype(float))
        counted, asked = TableCounts(cells, of_kind.sum(axis=0) * self.lam), self.asked
        known = moments(asked.scope, asked.groups, asked.reading, counted, np.full(releases, float(records)))
        ((_, computed),) = asked.items
        return [answering._row((), "t", computed, known, (i, 0), True, 1.96) for i in range(releases)]


def _independent(sidecar: Sidecar, axes: Sequence[Any]) -> Callable[[Floats], Floats]:
    """Return what makes of original shares published ones, each axis by itself."""
    known = [opened(sidecar).axis(a.name) for a in axes]

    def forward(table: Floats) -> Floats:
        sizes = [a.domain.size if a.law else int(k.domain.size) for a, k in zip(axes, known, strict=True)]
        table = table.reshape(sizes)
        for i, (axis, channel) in enumerate(zip(axes, known, strict=True)):
            law = axis.law or channel.law
            table = table if law is None else law.forward(table, i)
        return table

    return forward


def independent(columns: Sequence[str]) -> Floats:
    found = np.ones(1)
    for name in columns:
        found = np.multiply.outer(found, SHARES[name]).ravel()
    return found.reshape([len(SHARES[n]) for n in columns])


def leaning(columns: Sequence[str], test: str, records: float, rng: np.random.Generator) -> Floats:
    """Return shares which so many originals would reject in about 60 %."""
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
    wanted = power[np.argmax(ncx2.sf(chi2.isf(0.05, freedom), freedom, power) > 0.6)]
    much = min(np.sqrt(wanted / max(records, 1.0)), 0.9 / np.abs(lean).max())
    return plain * (1 + much * lean)


def rejected(rows: Sequence[Any], level: float = 0.05) -> float:
    return float(np.mean([r.p < level for r in rows if r.p is not None]))


def powers(
    one: Simulated, test: str, worth: float, releases: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return how often a test rejects what is false, and how often that of originals does."""
    originals, found = Simulated(released({"gamma": 999_999}), test), []
    for _ in range(DIRECTIONS):
        shares = leaning(one.columns, test, worth, rng)
        own = one(shares, RECORDS, max(releases // DIRECTIONS // 4, 25), rng)
        turned = shares.transpose([one.columns.index(c) for c in originals.columns])
        found.append((rejected(own), rejected(originals(turned, round(worth), len(own), rng))))
    return tuple(np.mean(found, axis=0).tolist())


def tested(releases: int) -> None:
    rows = []
    for (name, plan), (test, columns) in product(designs(EPSILONS, "ab"), TESTS.items()):
        if "matrix" in plan and not set(columns) & {"x", "y"}:
            continue  # words have no band
        rng, one, drawn = np.random.default_rng(7), Simulated(released(plan), test), []
        for start in range(0, releases, ROUND):
            drawn += one(independent(one.columns), RECORDS, min(ROUND, releases - start), rng)
        told = [r for r in drawn if r.p is not None]
        worth = float(np.median([r.worth for r in told])) / min(ROUND, releases)
        rows.append({"design": name, "test": test[:28], "at 5 %": rejected(told), "at 1 %": rejected(told, 0.01),
                     "missing": 1 - len(told) / len(drawn), "worth": worth, "power": None, "of originals": None})  # fmt: skip
        if worth >= FEWEST:
            both = powers(one, test, worth, releases, rng)
            rows[-1] |= dict(zip(("power", "of originals"), both, strict=True))
    found, size = pl.DataFrame(rows, infer_schema_length=None), pl.col("at 5 %")
    say(found, digits=3)
    say(found.select(pl.len(), size.mean(), least=size.min(), most=size.max()), digits=4)


# -- the best answers


def of_bands() -> None:
    rng, asked = np.random.default_rng(5), np.stack([np.arange(20) + 0.5, np.arange(20) >= 10]).astype(float)
    for (name, x), gamma in product(BINNED.items(), map(Decimal, GAMMAS)):
        M, p = Band.of(gamma, 20, best_half_width(gamma, 20)).dense(), x / x.sum()
        y = M @ p
        seen = rng.multinomial(RECORDS, y)
        best, own = (
            ((asked @ A) ** 2 @ y - (asked @ p) ** 2)
            for A in (left_inverse(M, y), left_inverse(M, M @ likeliest(M, seen)))
        )
        say(f"band {gamma:2} {name:6} mean, upper half: {np.round(best / own, 3).tolist()}")


def of_recipes() -> None:
    for epsilon, publish in product((1, 2, 4, 6), ("2", "3")):
        release = released({"record_epsilon": epsilon, "publish": publish})
        for test in ("trend(x, x >= 50)", "fits(b, 'b0', .5, 'b1', .5)", "trend(x, y)"):
            one = Simulated(release, test)
            told = np.round(of_kinds(one, independent(one.columns)), 3).tolist()
            say(f"recipes of {publish}, epsilon {epsilon}: {one.columns} {told}")


def of_kinds(one: Simulated, p: Floats) -> Floats:
    """Return the efficiency of a mean and of an upper half, or of each value's share.

    It is the variance of the best weights, which know the shares of the originals, by that of the weights
    which a query takes from the published counts.
    """
    sizes = one.asked.scope.sizes
    low, high = np.ones(1), np.ones(1)
    for size in sizes:
        low = np.multiply.outer(low, np.arange(size)).ravel()
        high = np.multiply.outer(high, np.arange(size) >= size // 2).ravel()
    asked = np.eye(len(p)) if one.columns == ["b"] else np.stack([low, high]).astype(float)
    flat, rng = p.ravel(), np.random.default_rng(5)
    information, laws, cells = np.zeros((flat.size, flat.size)), [], []
    for stratum, lam, share in zip(one.asked.reading.strata, one.lam, one.shares, strict=True):
        M = StratumLaw(sizes, stratum, lam).dense()
        y = M @ flat
        cells.append(rng.multinomial(round(RECORDS * share), y / y.sum()).astype(float))
        laws.append(StratumLaw.weighed(sizes, stratum, lam, cells[-1]))
        information += share * (M.T / y) @ M
    best = np.einsum("ij,jk,ik->i", asked, np.linalg.inv(information), asked)
    best = best - (asked @ flat) ** 2 / one.shares.sum()
    shares, told = _together(laws, cells)
    scores = [asked @ G.T for G in told] or [laws[0].scores(asked)]
    own = 0.0
    for law, g, share, weight in zip(laws, scores, one.shares, shares, strict=True):
        y = law.forward(flat)
        own = own + weight**2 / share * (g**2 @ y - (g @ y) ** 2)
    return np.asarray(best / own)


if __name__ == "__main__":
    tested(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    of_bands()
    of_recipes()

"""What the owner's audit rejects: honest releases of many designs, lies of every kind, and the stated shares.

Three tables: how many of 10,000 honest releases are rejected, beside the stated level; the least p-value of
each lie; and how often a share of unperturbed records, or a larger gamma, is detected at what the report states
and below.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import attack, perturb
from ppdm_cli.attacks import Attacked
from ppdm_cli.attacks.audit import LEVEL
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import COLUMN, Sidecar

ROWS, SIZE, NAMES = 40_000, 8, list("abcdef")
Made = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Whether each record is told, what it shows where it is not, and its recipe."""


def people(rows: int, seed: int = 5) -> pl.DataFrame:
    """Six attributes of eight words, and a class that depends on two.

    They are independent and uniform, so that most lies leave the law of every cell, coin and recipe as it is.
    """
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, SIZE, (rows, len(NAMES)))
    group = (codes[:, 0] + codes[:, 3] + rng.integers(0, 4, rows) > 8).astype(int)
    return pl.DataFrame({n: worded(codes[:, j]) for j, n in enumerate(NAMES)} | {"group": group})


def worded(codes: np.ndarray) -> list[str]:
    return np.array([*"stuvwxyz"])[codes].tolist()


@cache
def original() -> pl.DataFrame:
    return people(ROWS)


@cache
def sidecar() -> Sidecar:
    domains = {n: {"domain": "s|t|u|v|w|x|y|z"} for n in NAMES}
    return perturb(original(), record_epsilon=3, publish=2, attributes=domains, keep=["group"],
                   class_="group", keep_order=True, seed=1).sidecar  # fmt: skip


def published(told: np.ndarray, noise: np.ndarray, recipes: np.ndarray) -> pl.DataFrame:
    """The file that a tool would publish by such coins."""
    shown = np.where(told[:, None], true(), noise)
    columns: dict[str, Any] = {}
    for j, name in enumerate(NAMES):
        values = np.array(worded(shown[:, j]), object)
        values[~shows()[recipes, j]] = None
        columns[name] = pl.Series(values.tolist(), dtype=pl.String)
    return pl.DataFrame(columns | {"group": original()["group"], COLUMN: pl.Series(recipes.astype(np.uint16))})


@cache
def true() -> np.ndarray:
    return np.array([[*"stuvwxyz"].index(v) for n in NAMES for v in original()[n]]).reshape(len(NAMES), -1).T


@cache
def shows() -> np.ndarray:
    return np.array([[n in d.attributes for n in NAMES] for d in opened(sidecar()).recipes])


def lam() -> float:
    coin = opened(sidecar()).recipes[0].channels[0].matrix.coin
    assert coin is not None
    return coin[0]


def coins(seed: int = 1) -> Made:
    """Honest ones."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, SIZE, (ROWS, len(NAMES)))
    return rng.random(ROWS) < lam(), noise, rng.integers(0, len(shows()), ROWS)


def told_where(rate: Callable[[np.ndarray], np.ndarray]) -> Made:
    """Coins whose chance is so many times lam, by the record's recipe."""
    _, noise, recipes = coins()
    return np.random.default_rng(2).random(ROWS) < lam() * rate(recipes), noise, recipes


def withheld(recipes: np.ndarray) -> np.ndarray:
    """For each record the original codes of what it withholds, four of them."""
    order = np.argsort(shows()[recipes], axis=1, kind="stable")[:, :4]
    return np.take_along_axis(true(), order, 1)


def recipe_where(choose: Callable[[np.ndarray], np.ndarray]) -> Made:
    told, noise, recipes = coins()
    return told, noise, choose(recipes)


def neighbours(make: Callable[[np.ndarray], np.ndarray], what: int = 0) -> Made:
    """Coins, noise or recipes that are taken from other rows."""
    made = list(coins())
    made[what] = make(made[what])
    return made[0], made[1], made[2]


def bare(where: Callable[[np.ndarray], np.ndarray]) -> Made:
    told, noise, recipes = coins()
    return told | where(np.arange(ROWS)), noise, recipes


def some(share: float, seed: int = 7, rows: int = ROWS) -> np.ndarray:
    found = np.zeros(rows, bool)
    found[np.random.default_rng(seed).choice(rows, round(share * rows), replace=False)] = True
    return found


def slots(noise: np.ndarray, recipes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Noise of which the cells that a record shows are these values, two of them."""
    found = noise.copy()
    place = np.argsort(~shows()[recipes], axis=1, kind="stable")[:, :2]
    np.put_along_axis(found, place, values, 1)
    return found


def of_withheld(make: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Made:
    """Noise by what is withheld, the honest one, and what the record's own cells would show."""
    told, noise, recipes = coins()
    place = np.argsort(~shows()[recipes], axis=1, kind="stable")[:, :2]
    own = np.take_along_axis(true(), place, 1)
    honest = np.take_along_axis(noise, place, 1)
    return told, slots(noise, recipes, make(withheld(recipes)[:, :2], honest, own) % SIZE), recipes


def copied(values: np.ndarray, share: float, by: int = 1) -> np.ndarray:
    """Values of which a share is that of an earlier row."""
    chosen = np.random.default_rng(3).random(ROWS) < share
    return np.where(chosen if values.ndim == 1 else chosen[:, None], np.roll(values, by, axis=0), values)


ROW = np.arange(ROWS)
MIX = np.random.default_rng(11).permutation(SIZE)
TABLE = np.random.default_rng(12).permutation(SIZE**2).reshape(SIZE, SIZE)
LOW, HIGH = np.array([*range(7)] * 2 + [7]), np.array([*range(8, 15)] * 2 + [7])
"""Recipes of which both halves together have each as often."""
LIES: dict[str, Callable[[], Made]] = {
    "a: the first 23% of the rows are told": lambda: told_where(lambda r: (ROW < 0.23 * ROWS) / lam()),
    "a1: the last 23%": lambda: told_where(lambda r: (ROW >= 0.77 * ROWS) / lam()),
    "a2: twice as often in one quarter": lambda: told_where(lambda r: np.where(ROW < ROWS / 4, 2, 2 / 3)),
    "a3: more and more often": lambda: told_where(lambda r: 0.7 + 0.6 * ROW / ROWS),
    "b: row number mod 1000 < 230": lambda: told_where(lambda r: (ROW % 1000 < 230) / lam()),
    "b1: every 997 rows": lambda: told_where(lambda r: (ROW % 997 < 230) / lam()),
    "b2: twice as often in even rows": lambda: told_where(lambda r: np.where(ROW % 2, 2 / 3, 4 / 3)),
    "b3: multiples of the golden section": lambda: told_where(lambda r: (ROW * 0.618034 % 1 < 0.23) / lam()),
    "c: a withheld value decides": lambda: told_where(lambda r: 4 * (withheld(r)[:, 0] < 2)),
    "c1: the parity of two withheld ones": (
        lambda: told_where(lambda r: 2 * (withheld(r)[:, :2].sum(axis=1) % 2))
    ),
    "c2: a table of two withheld ones": (
        lambda: told_where(lambda r: 4 * (TABLE[withheld(r)[:, 0], withheld(r)[:, 1]] < 16))
    ),
    "c3: the class, a little": lambda: told_where(lambda r: np.where(original()["group"].to_numpy(), 1.2, 0.8)),
    "d: noise is two withheld values": lambda: of_withheld(lambda w, noise, own: w),
    "d1: withheld values, permuted": lambda: of_withheld(lambda w, noise, own: MIX[w]),
    "d2: the value and a withheld one": lambda: of_withheld(lambda w, noise, own: own + w),
    "d3: in a third of the records": (
        lambda: of_withheld(lambda w, noise, own: np.where(some(0.33)[:, None], w, noise))
    ),
    "e: the recipe by the parity of two values": (
        lambda: recipe_where(lambda r: np.where(true()[:, :2].sum(axis=1) % 2, LOW[r], HIGH[r]))
    ),
    "e1: by a table of two values": (
        lambda: recipe_where(lambda r: np.where(TABLE[true()[:, 1], true()[:, 4]] % 2, LOW[r], HIGH[r]))
    ),
    "e2: by the parity of two values, in a quarter": (
        lambda: recipe_where(
            lambda r: np.where(some(0.25), np.where(true()[:, 2:4].sum(axis=1) % 2, LOW[r], HIGH[r]), r)
        )
    ),
    "e3: hides a where it is 0": (
        lambda: recipe_where(lambda r: np.where((true()[:, 0] == 0) & (r < 5), 5 + r, r))
    ),
    "f: ten rows in a row share a coin": lambda: neighbours(lambda told: np.repeat(told[::10], 10)),
    "f1: a third of the coins is the last row's": lambda: neighbours(lambda told: copied(told, 0.33)),
    "f2: the coin of 5,000 rows before": lambda: neighbours(lambda told: copied(told, 0.5, 5000)),
    "f3: noise is that of the last row": lambda: neighbours(lambda noise: copied(noise, 0.5), 1),
    "f4: the recipe is that of the last row": lambda: neighbours(lambda r: copied(r, 0.33), 2),
    "g: 2% wholly unperturbed": lambda: bare(lambda row: some(0.02)),
    "g1: 3%, as often of each recipe": lambda: bare(lambda row: some(0.03, 8)),
    "g2: 300 records in a row": lambda: bare(lambda row: row // 300 == 77),
    "g3: half of those with one value": lambda: bare(lambda row: some(0.5) & (true()[:, 1] == 3)),
}


def audited(made: Made) -> Attacked:
    return attack(published(*made), sidecar=sidecar(), truth=original(), attacks=["audit"])


def overall(done: Attacked) -> float:
    """The p-value of all tests together, not above the level where one is rejected."""
    own = len(done.audit) * min(r.p for r in done.audit)
    return min(1.0, (1 + len(done.coins)) * min([own, *(r.p for r in done.coins)]))


# -- honest releases

SMALL: dict[str, Any] = {
    "age": {"domain": [0, 120], "bins": 6},
    "pay": {"domain": [0, 100], "bins": 5, "nulls": True},
    "town": {"domain": "a|b|c"},
    "level": {"domain": "0|1|2|3"},
}
PAIR = {"publish": 2, "keep": ["ill"], "class_": "ill", "attributes": SMALL}
DESIGNS: dict[str, tuple[int, dict[str, Any]]] = {
    "pairs, epsilon 1": (150, PAIR | {"record_epsilon": 1}),
    "pairs, epsilon 4": (300, PAIR | {"record_epsilon": 4}),
    "singles, epsilon 2": (80, PAIR | {"record_epsilon": 2, "publish": 1}),
    "triples, epsilon 3": (200, PAIR | {"record_epsilon": 3, "publish": 3}),
    "class inside, epsilon 3": (
        150,
        {"record_epsilon": 3, "publish": 1, "class_": "ill", "class_in_budget": True,
         "attributes": SMALL | {"ill": {"domain": "no|yes"}}},
    ),
    "two rounds, epsilon 4": (
        400, {"record_epsilon": 4, "rounds": 2, "keep": ["ill"], "class_": "ill",
              "attributes": SMALL},
    ),
    "gamma-diagonal, gamma 3": (120, {"gamma": 3, "keep": ["ill"], "class_": "ill", "attributes": SMALL}),
    "band, gamma 5": (200, {"gamma": 5, "keep": ["ill", "town"], "matrix": "band", "bins": 12, "class_": "ill",
                            "attributes": {n: SMALL[n] for n in ("age", "pay")}, "drop": ["level"]}),
    "noise": (100, {"scheme": "additive", "noise": "uniform", "sd": "10", "bins": 10,
                    "drop": ["pay", "town", "level", "ill"]}),
}  # fmt: skip


def table(rows: int, seed: int) -> pl.DataFrame:
    """Age goes with pay, the town with both; of few records many values are rare."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 121, rows)
    pay = np.clip(age * 0.6 + rng.normal(0, 15, rows), 0, 99.9)
    return pl.DataFrame({
        "age": age,
        "pay": [None if m else float(p) for m, p in zip(rng.random(rows) < 0.1, pay, strict=True)],
        "town": np.array(["a", "b", "c"])[np.where(rng.random(rows) < 0.7, age * 3 // 121, 0)],
        "level": rng.choice(["0", "1", "2", "3"], rows, p=[0.9, 0.05, 0.03, 0.02]),
        "ill": np.where((age > 80) ^ (rng.random(rows) < 0.05), "yes", "no"),
    })  # fmt: skip


def honest(releases: int, first: int = 0) -> Iterator[tuple[str, float]]:
    """Yield the design and the overall p-value of honest releases, the designs in turn."""
    for seed in range(first, first + releases):
        name = [*DESIGNS][seed % len(DESIGNS)]
        rows, plan = DESIGNS[name]
        data = table(rows, seed)
        made = perturb(data, keep_order=True, seed=seed, **plan)
        yield name, overall(attack(made.frame, sidecar=made.sidecar, truth=data, attacks=["audit"]))


# -- power


def left_bare(frame: pl.DataFrame, data: pl.DataFrame, made: Sidecar, share: float, seed: int) -> pl.DataFrame:
    """A release of which some records show their values as they are."""
    where = some(share, seed, frame.height)
    columns = {a.name: frame[a.name].to_list() for a in made.perturbed}
    recipes = frame[COLUMN].to_numpy() if opened(made).beside else np.zeros(frame.height, int)
    for dealt in opened(made).recipes:
        rows = np.flatnonzero(where & (recipes == dealt.number))
        for channel in dealt.channels:
            coin = channel.matrix.coin
            own = [channel.matrix.unchanged] if coin is None else [blur.unchanged for blur in coin[1]]
            for name, unchanged in zip(channel.attributes, own, strict=True):
                codes = made.by_name[name].domain.encode(data[name].to_arrow()).codes[rows]
                shown = channel.published_domain(name).decode(unchanged[codes].astype(np.uint16)).to_pylist()
                for row, value in zip(rows.tolist(), shown, strict=True):
                    columns[name][row] = value
    return frame.with_columns(pl.Series(n, c, dtype=frame[n].dtype) for n, c in columns.items())


def power(plan: dict[str, Any], rows: int, times: int, part: float) -> tuple[float, int]:
    """The stated share of unperturbed records, and how often so large a part of it is rejected."""
    data, seen = table(rows, 1), 0
    first = perturb(data, keep_order=True, seed=0, **plan)
    stated = attack(first.frame, sidecar=first.sidecar, truth=data, attacks=["audit"]).unseen.unperturbed
    for seed in range(1, times + 1):
        made = perturb(data, keep_order=True, seed=seed, **plan)
        frame = left_bare(made.frame, data, made.sidecar, part * stated, seed)
        seen += not attack(frame, sidecar=made.sidecar, truth=data, attacks=["audit"]).honest
    return stated, seen


def gammas(times: int, part: float) -> tuple[float, int]:
    """The stated factor on gamma of the lies' design, and how often so large a part of it is rejected."""
    stated, seen = audited(coins()).unseen.gamma_factor, 0
    others, gamma = SIZE**2 - 1, np.exp(3) * (1 + part * (stated - 1))
    for seed in range(times):
        rng = np.random.default_rng(seed)
        _, noise, recipes = coins(seed)
        seen += not audited((rng.random(ROWS) < (gamma - 1) / (gamma + others), noise, recipes)).honest
    return stated, seen


POWER: dict[str, dict[str, Any]] = {
    "pairs, epsilon 1": PAIR | {"record_epsilon": 1},
    "pairs, epsilon 2, two kept": {
        "record_epsilon": 2, "publish": 2, "keep": ["ill", "town"], "class_": "ill",
        "attributes": {n: SMALL[n] for n in ("age", "pay", "level")},
    },
    "pairs, epsilon 4": PAIR | {"record_epsilon": 4},
    "class inside, epsilon 3": DESIGNS["class inside, epsilon 3"][1],
    "two rounds, epsilon 4": DESIGNS["two rounds, epsilon 4"][1],
    "gamma-diagonal, gamma 3": DESIGNS["gamma-diagonal, gamma 3"][1],
}  # fmt: skip


def main(releases: int) -> None:
    for name, lie in {"honest": coins, **LIES}.items():
        done = audited(lie())
        tests = [r.test for r in done.coins if not r.honest]
        print(f"{name:46} {'passes' if done.honest else 'rejected'} {overall(done):.3g} {', '.join(tests)}")
    times = 100 if os.environ.get("FULL") == "1" else 40
    for name, plan in POWER.items():
        found = {part: power(plan, 20_000, times, part) for part in (1.0, 0.8, 0.67)}
        share = found[1.0][0]
        seen = ", ".join(f"{n} at {part * share:.3%}" for part, (_, n) in found.items())
        print(f"{name}: {share:.3%} stated for 20,000 records; of {times} are rejected {seen}", flush=True)
    for part in (1.0, 0.67):
        stated, seen = gammas(times, part)
        print(f"gammas: {stated:.4g} times stated; of {times} are rejected {seen} at {part:g} of the excess")
    total, low = Counter[str](), Counter[tuple[str, float]]()
    for name, p in honest(releases):
        total[name] += 1
        for level in (LEVEL, 0.001, 0.01, 0.05, 0.2):
            low["all", level] += p < level
            low[name, level] += p < level
    for level in (LEVEL, 0.001, 0.01, 0.05, 0.2):
        print(f"honest releases with p below {level:g}: {low['all', level]} of {releases}")
    for name in DESIGNS:
        print(f"{name}: {low[name, 0.2]} of {total[name]} below 0.2, {low[name, 0.01]} below 0.01")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

"""Five synthetic tables, each with one trait of real tables that is hard on learning from releases.

The populations are fixed; a seed chooses the records that are drawn from them. The class is the last column.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

CLASS = "class"
Rng = np.random.Generator


def _mixture(rng: Rng, labels: np.ndarray, means: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Mixtures by class: `means` are (classes, components, attributes), `spread` a root of the covariance."""
    part = rng.integers(means.shape[1], size=len(labels))
    noise = rng.standard_normal((len(labels), spread.shape[1])) @ spread.T
    return np.asarray(means[labels, part] + noise)


def letters(rng: Rng, records: int) -> pl.DataFrame:
    """26 labels; 16 whole numbers from 0 to 15, two shapes of each letter."""
    fixed = np.random.default_rng(26)
    means = fixed.normal(7, 2.2, (26, 1, 16)) + fixed.normal(0, 1.2, (26, 2, 16))
    spread = np.hstack([np.eye(16) * 1.5, fixed.normal(0, 0.8, (16, 3))])
    labels = rng.integers(26, size=records)
    values = np.rint(_mixture(rng, labels, means, spread)).clip(0, 15).astype(np.int64)
    columns = {f"x{i + 1}": values[:, i] for i in range(16)}
    return pl.DataFrame({**columns, CLASS: np.array([chr(65 + i) for i in range(26)])[labels]})


def digits(rng: Rng, records: int) -> pl.DataFrame:
    """10 labels; 16 smooth attributes from 0 to 100, each near its neighbours; three ways to write a digit."""
    fixed = np.random.default_rng(10)
    near = np.exp(-0.5 * ((np.arange(16)[:, None] - np.arange(16)) / 1.5) ** 2) + 1e-9 * np.eye(16)
    smooth = np.linalg.cholesky(near)
    means = 50 + 24 * fixed.standard_normal((10, 3, 16)) @ smooth.T
    labels = rng.integers(10, size=records)
    values = _mixture(rng, labels, means, np.hstack([13 * smooth, 6 * np.eye(16)])).clip(0, 100).round(1)
    columns = {f"x{i + 1}": values[:, i] for i in range(16)}
    return pl.DataFrame({**columns, CLASS: np.array([f"d{i}" for i in range(10)])[labels]})


def rare(rng: Rng, records: int) -> pl.DataFrame:
    """A class of 80, 15, 3, 1 and 1 %; nine attributes with long tails, of which three say nearly all."""
    labels = rng.choice(5, size=records, p=[0.8, 0.15, 0.03, 0.01, 0.01])
    time = rng.gamma(np.array([3.0, 9.0, 4.0, 2.0, 14.0])[labels], 6.0)
    drift = rng.standard_t(3, records) * 4 + np.array([0.0, 5.0, 22.0, -25.0, 8.0])[labels]
    flow = np.exp(rng.normal(np.array([1.0, 1.5, 1.0, 2.5, 3.0])[labels], 0.6))
    columns = {"time": time.round(), "drift": drift.round(2), "flow": flow.round(3)}
    columns |= {"both": (time - drift + rng.normal(0, 6, records)).round(1)}
    columns |= {f"tail{i}": (rng.standard_t(2, records) * (i + 1)).round(2) for i in range(3)}
    columns |= {f"level{i}": rng.poisson(2 + labels * (i == 0)).astype(float) for i in range(2)}
    names = np.array(["usual", "open", "high", "bypass", "closed"])
    return pl.DataFrame({**columns, CLASS: names[labels]})


def spikes(rng: Rng, records: int) -> pl.DataFrame:
    """Twelve attributes with 95 % of their records at zero; what little they say adds up."""
    there = rng.random((records, 12)) < 0.025
    group = rng.random(records) < 0.3
    there |= group[:, None] & (rng.random((records, 12)) < np.linspace(0.02, 0.14, 12))
    values = np.where(there, np.exp(rng.normal(3 + 0.5 * group[:, None], 1, (records, 12))), 0).round()
    score = 1.6 * there[:, 6:].sum(axis=1) - 0.9 * there[:, :3].sum(axis=1) + 0.02 * values[:, 11] - 1.4
    yes = rng.random(records) < 1 / (1 + np.exp(-2 * score))
    columns = {f"x{i + 1}": values[:, i].astype(np.int64) for i in range(12)}
    return pl.DataFrame({**columns, CLASS: np.where(yes, "yes", "no")})


def _heaped(rng: Rng, values: np.ndarray, *steps: tuple[float, float]) -> np.ndarray:
    """Values of which shares are rounded to multiples: (share, step)."""
    chance, found = rng.random(len(values)), values.copy()
    for share, step in steps:
        found = np.where(chance < share, np.rint(values / step) * step, found)
    return np.rint(found).astype(np.int64)


def heaps(rng: Rng, records: int) -> pl.DataFrame:
    """Numbers as people say them: ages in fives, hours at 40, pay in thousands; also words, and nulls."""
    skill = rng.normal(0, 1, records)
    age = rng.gamma(9, 4.6, records).clip(16, 95)
    hours = np.where(rng.random(records) < 0.45, 40, rng.normal(38 + 2 * skill, 12, records).clip(1, 99))
    pay = np.exp(rng.normal(10 + 0.35 * skill + 0.01 * (age - 40), 0.5))
    saved = np.where(rng.random(records) < 0.6, 0, np.exp(rng.normal(7 + 0.5 * skill, 1.4))).clip(0, 60_000)
    job = np.array(["craft", "desk", "field", "lead"])[
        (rng.random(records)[:, None] > np.cumsum([0.3, 0.35, 0.2])).sum(axis=1)
    ]
    lean = 0.06 * (hours - 38) + 1.3 * np.log(pay / 22_000) + 0.9 * (job == "lead") - 0.7 * (age < 27)
    yes = rng.random(records) < 1 / (1 + np.exp(-2 * (lean + 0.5 * (saved > 2_000) - 0.4)))
    hidden = pl.Series(rng.random(records) < 0.04)
    return pl.DataFrame({
        "age": _heaped(rng, age, (0.6, 5), (0.2, 10)), "hours": _heaped(rng, hours, (0.8, 5)),
        "pay": _heaped(rng, pay.clip(1_000, 200_000), (0.95, 100), (0.8, 1_000), (0.4, 5_000)),
        "saved": _heaped(rng, saved, (0.9, 50), (0.6, 500)),
        "job": pl.Series(job).set(hidden, None),
        "region": np.array(["north", "east", "south", "west"])[rng.integers(4, size=records)],
        CLASS: np.where(yes, "yes", "no"),
    })  # fmt: skip


TABLES: dict[str, Callable[[Rng, int], pl.DataFrame]] = {
    "letters": letters, "digits": digits, "rare": rare, "spikes": spikes, "heaps": heaps,
}  # fmt: skip

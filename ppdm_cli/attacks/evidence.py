"""The tests that the audit is made of, valid for every number of records and every shape of data.

None leans on a limit theorem. A table of counts is tested by an e-value: a mixture of likelihood ratios has
the mean 1 under the law tested, so that by Markov it passes 1/p with probability p at most. Sums are tested
by Chernoff's bound (1952), and sums of points on the circle by the same bound in sixteen directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, exp, inf, log, pi

import numpy as np
from scipy.special import gammaln

from ppdm_cli.arrays import Floats
from ppdm_cli.stats import binomial_at_least, clopper_pearson

POWER = 0.95
"""The probability of detection for which the smallest visible deviations are stated."""
_SPREADS = 4.0 ** np.arange(-2, 4)
"""How close to the law the alternatives of a table lie: as if it were known from so many times the counts."""
_STEPS = 1.2 ** np.arange(-50, 26)
"""The exponents tried for Chernoff's bound, in units of 1/sd; each gives a bound, so the least is one."""
_DIRECTIONS = 16


def table_p(counts: np.ndarray, chances: Floats) -> float:
    """Return a p-value of the hypothesis that every row of `counts` is multinomial with these chances.

    The alternatives are Dirichlet about the chances (Good 1967), of several spreads, alike for all rows.
    """
    counts = counts[counts.sum(axis=1) > 0].astype(np.float64)
    if not counts.size:
        return 1.0
    rows, cells = np.nonzero(counts)
    seen, n = counts[rows, cells], counts.sum(axis=1)
    logs = np.empty(len(_SPREADS))
    for i, spread in enumerate(_SPREADS):
        own = spread * n[rows] * chances[cells]
        logs[i] = (gammaln(seen + own) - gammaln(own) - seen * np.log(chances[cells])).sum()
        logs[i] += (gammaln(spread * n) - gammaln((1 + spread) * n)).sum()
    evidence = float(np.logaddexp.reduce(logs)) - log(len(logs))
    return exp(-evidence) if evidence > 0 else 1.0


def _cumulants(chances: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """Return the exponents t, and the logarithms of the means of exp(t score)."""
    chances, scores = chances[chances > 0], scores[chances > 0]
    steps = np.asarray(_STEPS / max(float(np.sqrt(chances @ scores**2)), 1e-150), np.float64)
    powers = np.outer(steps, scores)
    peak = powers.max(axis=1)
    return steps, np.asarray(np.log(np.exp(powers - peak[:, None]) @ chances) + peak, np.float64)


def sums_p(counts: np.ndarray, chances: Floats, scores: Floats) -> Floats:
    """Return for each row of `counts` a bound of the chance that its cells' scores sum to so much or more.

    The cells of a row are independent draws with these chances.
    """
    centred = scores - chances @ scores
    if not (centred[chances > 0] != 0).any():
        return np.ones(len(counts))
    steps, cumulants = _cumulants(chances, centred)
    n, found = counts.sum(axis=1, dtype=np.float64), counts @ centred
    return np.exp(np.minimum((np.outer(n, cumulants) - np.outer(found, steps)).min(axis=1), 0.0))


def circle_p(sums: np.ndarray, numbers: np.ndarray | float) -> Floats:
    """Return bounds of the chance that so many independent uniform points of the unit circle sum to so far out.

    In one direction the mean of exp(t cos) is I0(t) <= exp(t^2/4), so the sum s of n of them has
    Pr(s >= r) <= exp(-r^2/n); some of the directions is within pi/16 of the sum's own.
    """
    squares = cos(pi / _DIRECTIONS) ** 2 * np.abs(sums) ** 2 / np.maximum(numbers, 1)
    return np.minimum(_DIRECTIONS * np.exp(-squares), 1.0)


def lags_p(places: np.ndarray) -> Floats:
    """Return, for every distance between rows, a p-value of places so far apart being independent.

    `places` are whole numbers below 256 in the rows' order. Differences of independent uniform places along
    chains of rows are independent and uniform themselves, modulo 256.
    """
    n = len(places)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.fft(CIRCLE[places], size)
    return circle_p(np.fft.ifft(np.abs(spectrum) ** 2)[1:n], n - np.arange(1, n))


CIRCLE = np.exp(2j * pi * np.arange(256) / 256)


def number_law(chances: Floats) -> Floats:
    """Return the law of the number of successes in independent trials of these chances (Poisson-binomial)."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return law


def stretches(blocks: np.ndarray) -> Iterator[np.ndarray]:
    """Return the blocks, then the sums of two, of four, up to halves of all; their number is a power of two."""
    while len(blocks) > 1:
        yield blocks
        blocks = blocks[::2] + blocks[1::2]


def betraying(trials: int, chance: float, level: float) -> float:
    """Return the least chance that a test at `level` finds too large with probability `POWER`; inf if none."""
    low, high = 0, trials + 1
    while low < high:
        middle = (low + high) // 2
        if binomial_at_least(middle, trials, chance) <= level:
            high = middle
        else:
            low = middle + 1
    return inf if low > trials else clopper_pearson(low - 1, trials, 2 * (1 - POWER))[1]


def betrayed(trials: int, law: Floats, other: Floats, level: float) -> bool:
    """Return whether a test at `level` finds a sum of draws from another law of 0, 1, 2, ... too large."""
    scores = np.arange(len(law)) - law @ np.arange(len(law))
    steps, cumulants = _cumulants(law, scores)
    needed = ((trials * cumulants - log(level)) / steps).min()
    steps, cumulants = _cumulants(other, -scores)
    return bool(needed <= ((log(1 - POWER) - trials * cumulants) / steps).max())

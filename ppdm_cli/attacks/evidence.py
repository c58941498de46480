"""The tests that the audit is made of, valid for every number of records and every shape of data.

None depends on a limit theorem. Counts are tested by e-values: a mixture of likelihood ratios has the mean 1
under the law tested, so that by Markov it passes 1/p with probability p at most. A record's ratio depends on
its own law alone, so that this holds too where earlier rounds chose the recipes of later ones. Sums of points
on the circle are tested by the same means.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, log, pi

import numpy as np
from scipy.special import gammaln

from ppdm_cli.arrays import Floats, binomial_at_least, clopper_pearson

POWER = 0.95
"""The probability of detection for which the smallest visible deviations are stated."""
_SPREADS = 4.0 ** np.arange(-1, 12)
"""How close to the law the alternatives of a table lie: as if it were known from so many records."""
_TILTS = 2.0 ** np.arange(-9, 4)
"""The exponents of tilted laws, in units of 1/sd of their scores."""
_STEPS = 1.5 ** np.arange(-12, 1)
"""The exponents tried for Chernoff's bound of an e-value's power; each gives a bound, so the least is one."""
_WIDTHS = 16.0 ** np.arange(1, 6)
"""How far out the sums of points lie that are looked for, in points."""
ABSENT = 255
"""The place of a cell that is withheld; places on the circle are whole numbers below it."""
CIRCLE = np.append(np.exp(2j * pi * np.arange(ABSENT) / ABSENT), 0)


def table_p(counts: np.ndarray, chances: Floats) -> float:
    """Return a p-value of the hypothesis that every row of `counts` is multinomial with these chances.

    The alternatives are Dirichlet about the chances (Good 1967), of several spreads, alike for all rows.
    """
    counts = counts[counts.sum(axis=1) > 0].astype(np.float64)
    if not counts.size:
        return 1.0
    cells, n = np.nonzero(counts)[1], counts.sum(axis=1)
    seen = counts[counts > 0]
    logs = np.empty(len(_SPREADS))
    for i, spread in enumerate(_SPREADS):
        own = spread * chances
        logs[i] = (gammaln(seen + own[cells]) - gammaln(own)[cells] - seen * np.log(chances)[cells]).sum()
        logs[i] += (gammaln(spread) - gammaln(n + spread)).sum()
    return float(_mixed(logs))


def _logs(law: Floats) -> Floats:
    """Return logarithms of chances; too small ones count as larger, which no p-value gains from."""
    return np.asarray(np.log(np.maximum(law, 1e-300)))


def ratios(law: Floats, others: Floats) -> Floats:
    """Return the logarithms of likelihood ratios, (alternatives, cells), of alternatives to a law."""
    return _logs(others.reshape(len(others), -1)) - _logs(law.ravel())


def likelihood_p(counts: np.ndarray, law: Floats, others: Floats) -> Floats:
    """Return for each row of `counts` a p-value of its cells being independent draws by `law`.

    `others` (alternatives, cells) are laws that are thought as likely as each other. Where `law` holds several,
    along its first axis, so do `counts`, along their second, and `others`.
    """
    return _mixed(counts.reshape(len(counts), -1) @ ratios(law, others).T)


def _mixed(logs: Floats) -> Floats:
    """Return p-values of mixtures of likelihood ratios, whose logarithms are along the last axis."""
    mean = np.logaddexp.reduce(logs, axis=-1) - log(logs.shape[-1])
    return np.asarray(np.exp(-np.maximum(mean, 0.0)))


def tilted(law: Floats, scores: Floats) -> Floats:
    """Return the laws that make cells of high scores likelier, and of low ones, from hardly to much.

    Where `law` holds several, along its first axis, so do the results along their second.
    """
    centred = scores - (law * scores).sum(axis=-1, keepdims=True)
    spread = np.sqrt((law * centred**2).sum(axis=-1, keepdims=True))
    powers = np.multiply.outer(np.concatenate([_TILTS, -_TILTS]), centred / np.maximum(spread, 1e-150))
    powers += _logs(law)
    found = np.exp(powers - powers.max(axis=-1, keepdims=True))
    return np.asarray(found / found.sum(axis=-1, keepdims=True))


def tilted_p(counts: np.ndarray, laws: Floats, scores: Floats) -> Floats:
    """Return for each row a p-value of its own law, or of the only one, against laws tilted by scores."""
    others = tilted(laws, scores)
    gains = _logs(others) - _logs(laws)
    return _mixed(np.einsum("...c,a...c->...a", counts, np.broadcast_to(gains, (len(gains), *counts.shape))))


def circle_p(sums: np.ndarray, numbers: np.ndarray | float) -> Floats:
    """Return p-values of so many independent uniform points of the unit circle summing to so far out.

    In one direction the mean of exp(t cos) is I0(t) <= exp(t^2/4). So for a sum s of n of them the mean over
    exponents t, complex and normal with a variance of 4/w, of exp(Re(t* s) - n |t|^2/4) has at most the mean 1
    under the law: it is w/(w+n) exp(|s|^2/(w+n)). Of a few w the best, by their number, is below their mean.
    """
    squares = np.abs(sums) ** 2
    best = np.zeros(np.broadcast(squares, numbers).shape)
    for width in _WIDTHS:
        np.maximum(best, squares / (width + numbers) + np.log(width / (width + numbers)), out=best)
    return np.asarray(np.minimum(len(_WIDTHS) * np.exp(-best), 1.0))


def series_p(places: np.ndarray) -> Floats:
    """Return p-values of places in the rows' order: for every distance between rows, and for every period.

    Differences of independent uniform places along chains of rows are independent and uniform themselves; so
    are places to which a multiple of the row's number is added.
    """
    n = len(places)
    size = 1 << (2 * n - 1).bit_length()
    squares = np.abs(np.fft.fft(CIRCLE[places], size)) ** 2
    present = places != ABSENT
    pairs = n - np.arange(n)
    if not present.all():
        both = np.fft.irfft(np.abs(np.fft.rfft(present, size)) ** 2, size)[:n]
        pairs = np.rint(both).astype(np.int64)
    lags = circle_p(np.fft.ifft(squares)[1:n], pairs[1:])
    return np.concatenate([lags, circle_p(np.sqrt(squares), pairs[0])])


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


def betrayed(trials: int, law: Floats, others: Floats, true: Floats, level: float) -> bool:
    """Return whether `likelihood_p` is below `level` with probability `POWER` for draws by the law `true`."""
    gains, needed = ratios(law, others), log(len(others) / level)
    means = np.logaddexp.reduce(_logs(true.ravel()) - _STEPS[:, None, None] * gains, axis=-1)
    return bool((_STEPS[:, None] * needed + trials * means).min() <= log(1 - POWER))

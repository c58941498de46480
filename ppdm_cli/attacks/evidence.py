"""The tests that the audit is made of, valid for every number of records and every shape of data.

None depends on a limit theorem. Counts are tested by e-values: a mixture of likelihood ratios has the mean 1
under the law tested, so that by Markov it passes 1/p with probability p at most. A record's ratio depends on
its own law alone, so that this holds too where earlier rounds chose the recipes of later ones. Sums of points
on the circle are tested by the same means.

Each channel of a record has a level: 0 where what is published is away from the values, 1 where it is near them
without being them, and the highest where it is the values themselves. Their sum is the record's number. Records
are of kinds, by the laws of their channels' levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import exp, inf, log, pi
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ppdm_cli.arrays import Floats, binomial_at_least, clopper_pearson

_SHARES = 2.0 ** -np.arange(1, 17)
_FACTORS = np.exp(np.outer([1.0, -1.0], 2.0 ** np.arange(-9, 3))).ravel()
POWER = 0.95
"""The probability of detection for which the smallest visible deviations are stated."""
_SPREADS = 4.0 ** np.arange(-1, 12)
"""The distances of a table's alternatives from the law: as if it were known from so many records."""
_TILTS = 2.0 ** np.arange(-9, 4)
"""The exponents of tilted laws, in units of 1/sd of their scores."""
_STEPS = 1.5 ** np.arange(-12, 1)
"""The exponents tried for Chernoff's bound of an e-value's power; each gives a bound, so the least is one."""
_WIDTHS = 16.0 ** np.arange(1, 6)
"""The distances of the sums of points that are looked for, in points."""
ABSENT = 255
"""The place of a cell that is withheld; positions on the circle are whole numbers below it."""
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
    """Return the laws that make cells of high scores more likely, and of low ones, from slightly to much.

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
    """Return p-values of sums of so many independent uniform points of the unit circle.

    In one direction the mean of exp(t cos) is I0(t) <= exp(t^2/4). So for a sum s of n of them the mean over
    exponents t, complex and normal with a variance of 4/w, of exp(Re(t* s) - n |t|^2/4) has at most the mean 1
    under the law: it is w/(w+n) exp(|s|^2/(w+n)). The best of a few w, divided by their number, is below their
    mean.
    """
    squares = np.abs(sums) ** 2
    best = np.zeros(np.broadcast(squares, numbers).shape)
    for width in _WIDTHS:
        np.maximum(best, squares / (width + numbers) + np.log(width / (width + numbers)), out=best)
    return np.asarray(np.minimum(len(_WIDTHS) * np.exp(-best), 1.0))


def series_p(positions: np.ndarray) -> Floats:
    """Return p-values of positions in the rows' order: for every distance between rows, and for every period.

    Differences of independent uniform positions along chains of rows are independent and uniform themselves; so
    are positions to which a multiple of the row's number is added.
    """
    n = len(positions)
    size = 1 << (2 * n - 1).bit_length()
    squares = np.abs(np.fft.fft(CIRCLE[positions], size)) ** 2
    present = positions != ABSENT
    pairs = n - np.arange(n)
    if not present.all():
        both = np.fft.irfft(np.abs(np.fft.rfft(present, size)) ** 2, size)[:n]
        pairs = np.rint(both).astype(np.int64)
    lags = circle_p(
        np.fft.rfft(squares)[1:n] / size, pairs[1:]
    )  # the inverse but for conjugates, as they are real
    return np.concatenate([lags, circle_p(np.sqrt(squares), pairs[0])])


def stretches(blocks: np.ndarray) -> Iterator[np.ndarray]:
    """Return the blocks, then the sums of two, of four, up to halves of all; their number is a power of two."""
    while len(blocks) > 1:
        yield blocks
        blocks = blocks[::2] + blocks[1::2]


def betraying(trials: int, chance: float, level: float) -> float:
    """Return the smallest deviation that a test at `level` detects with probability `POWER` (inf if none)."""
    low, high = 0, trials + 1
    while low < high:
        middle = (low + high) // 2
        if binomial_at_least(middle, trials, chance) <= level:
            high = middle
        else:
            low = middle + 1
    return inf if low > trials else clopper_pearson(low - 1, trials, 2 * (1 - POWER))[1]


def betrayed(trials: int, law: Floats, others: Floats, true: Floats, level: float) -> bool:
    """Return whether the test would reject draws by the law `true` at `level`, with probability `POWER`."""
    gains, needed = ratios(law, others), log(len(others) / level)
    means = np.logaddexp.reduce(_logs(true.ravel()) - _STEPS[:, None, None] * gains, axis=-1)
    return bool((_STEPS[:, None] * needed + trials * means).min() <= log(1 - POWER))


# -- how much of a record was kept


class Level(NamedTuple):
    """The probabilities of one channel: to count as kept, to be near, and those at another gamma."""

    kept: float
    near: float
    chance: float
    """The chance of the outputs that gamma makes more likely."""
    declared: bool = True
    """True if the sidecar has a gamma for it."""

    def law(self, factor: float) -> Floats:
        """Return the probabilities of its levels at a gamma so many times the declared one."""
        odds = factor * self.chance
        more = odds / (odds + 1 - self.chance) / self.chance
        kept, near = self.kept * more, self.near * more
        return np.array([1 - near, near - kept, kept] if near > kept else [1 - kept, kept])


class Numbers:
    """The law of the number, (kinds, numbers)."""

    def __init__(self, kinds: Sequence[Sequence[Level]], shares: Floats, first: np.ndarray) -> None:
        """Store each kind's levels, its share of the records, and whether the first round has any of it."""
        self._kinds, self._shares, self._first = kinds, shares, first
        self.top = np.array([sum(len(one.law(1)) - 1 for one in kind) for kind in kinds])
        self.law = self._of(lambda one: one.law(1))
        self.whole = np.maximum(np.take_along_axis(self.law, self.top[:, None], 1)[:, 0], 1e-300)
        """The probability for each kind that all of a record counts as kept."""
        self.others = self._others()

    def _of(self, level: Callable[[Level], Floats]) -> Floats:
        found = np.zeros((len(self._kinds), 1 + self.top.max()))
        for kind, row in zip(self._kinds, found, strict=True):
            law = np.ones(1)
            for one in kind:
                law = np.convolve(law, level(one))
            row[: len(law)] = law
        return found

    def times(self, factor: float, declared: bool = False) -> Floats:
        """Return the law at gammas so many times as large, all of them or those that are declared."""
        return self._of(lambda one: one.law(factor if one.declared or not declared else 1))

    def bare(self, share: float, exposed: float = 1.0) -> Floats:
        """Return the law with this share of the records unperturbed; so many of those count as kept."""
        found = (1 - share * exposed) * self.law
        found[np.arange(len(found)), self.top] += share * exposed
        return found

    def _others(self) -> Floats:
        def blurred(one: Level) -> Floats:
            law = one.law(1)
            law[0] = 0
            return law / law.sum()

        numbers, found = np.arange(1 + self.top.max()), [self.bare(s) for s in _SHARES]
        near = self._of(blurred)
        if any(one.near > one.kept for kind in self._kinds for one in kind):
            found += [(1 - s) * self.law + s * near for s in _SHARES]
        found += [self.times(f) for f in _FACTORS]
        if any(len(kind) > 1 for kind in self._kinds):
            spread = [tilted(law, (numbers - law @ numbers) ** 2) for law in self.law]
            found += list(np.stack(spread, axis=1))
        return np.array(found)

    def p(self, counts: np.ndarray) -> Floats:
        """Return a p-value for each row of counts (rows, kinds, numbers)."""
        return likelihood_p(counts, self.law, self.others)

    # -- records of which everything was kept

    @property
    def _threshold(self) -> float:
        """Return the chance at which whole records of all kinds are counted as one: it shows most of them.

        It is the probability of a kind that the first round has, because nothing published influenced it.
        """
        chances = np.unique(self.whole[self._first])
        excess = np.minimum(chances[:, None] / self.whole, 1) - chances[:, None]
        seen = excess @ self._shares / np.sqrt(np.maximum(chances * (1 - chances), 1e-300))
        return float(chances[seen.argmax()])

    def whole_p(self, counts: np.ndarray, seed: int) -> float:
        """Return the chance of so many whole records, of counts (kinds, numbers); exact.

        Kinds of other chances are thinned, or filled up, to the same one.
        """
        chance, rng = self._threshold, np.random.default_rng(seed)
        whole = np.take_along_axis(counts, self.top[:, None], 1)[:, 0]
        kept = rng.binomial(whole, np.minimum(chance / self.whole, 1))
        rest = np.maximum(chance - self.whole, 0) / np.maximum(1 - self.whole, 1e-300)
        kept += rng.binomial(counts.sum(axis=1) - whole, np.minimum(rest, 1))
        return binomial_at_least(int(kept.sum()), int(counts.sum()), chance)

    def share_unseen(self, records: int, exposed: float, level: float) -> float:
        """Return the least share of unperturbed records that is rejected with probability `POWER`, at most 1.

        `exposed` is the chance that an unperturbed record counts as kept; both tests have `level`.
        """
        chance = self._threshold
        weight = float(self._shares @ np.minimum(chance / self.whole, 1)) * exposed
        one = (betraying(records, chance, level) - chance) / max(weight - chance, 1e-300)
        other = _least(lambda s: self._betrayed(records, self.bare(s, exposed), level), 0.0, 1.0)
        return min(one, other, 1.0)

    def factor_unseen(self, records: int, level: float) -> float:
        """Return the least factor on all gammas that is rejected with probability `POWER`; inf if none."""
        return exp(_least(lambda x: self._betrayed(records, self.times(exp(x), True), level), 0.0, 30.0))

    def _betrayed(self, records: int, true: Floats, level: float) -> bool:
        shares = self._shares[:, None]
        return betrayed(records, self.law * shares, self.others * shares, true * shares, level)


def _least(seen: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number between two that would be detected; inf if none would."""
    if not seen(high):
        return inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high

"""How much of a record was kept: its law by the sidecar, other laws to test it against, and what stays unseen.

Each channel of a record has a level: 0 where what is published is away from the values, 1 where it is near them
without being them, and the highest where it is the values themselves. Their sum is the record's number. Records
are of kinds, by the laws of their channels' levels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf
from typing import NamedTuple

import numpy as np

from ppdm_cli.arrays import Floats, binomial_at_least
from ppdm_cli.attacks import evidence

_SHARES = 2.0 ** -np.arange(1, 17)
_FACTORS = np.exp(np.outer([1.0, -1.0], 2.0 ** np.arange(-9, 3))).ravel()


class Level(NamedTuple):
    """One channel's chances: to count as kept, to be near, and what an amplification of gamma gives."""

    kept: float
    near: float
    chance: float
    """The chance of the outputs that gamma makes likelier."""
    declared: bool = True
    """Whether the sidecar has a gamma for it."""

    def law(self, factor: float) -> Floats:
        """Return the chances of its levels, of a gamma so many times the declared one."""
        odds = factor * self.chance
        more = odds / (odds + 1 - self.chance) / self.chance
        kept, near = self.kept * more, self.near * more
        return np.array([1 - near, near - kept, kept] if near > kept else [1 - kept, kept])


class Numbers:
    """The law of the number, (kinds, numbers)."""

    def __init__(self, kinds: Sequence[Sequence[Level]], shares: Floats, first: np.ndarray) -> None:
        """Take each kind's levels, its share of the records, and whether the first round has any of it."""
        self._kinds, self._shares, self._first = kinds, shares, first
        self.top = np.array([sum(len(one.law(1)) - 1 for one in kind) for kind in kinds])
        self.law = self._of(lambda one: one.law(1))
        self.whole = np.maximum(np.take_along_axis(self.law, self.top[:, None], 1)[:, 0], 1e-300)
        """For each kind the chance that all of a record counts as kept."""
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
        """Return the law where every gamma is so many times as large, or every one that is declared."""
        return self._of(lambda one: one.law(factor if one.declared or not declared else 1))

    def bare(self, share: float, exposed: float = 1.0) -> Floats:
        """Return the law where this share of the records is as it was; so many of those count as kept."""
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
            spread = [evidence.tilted(law, (numbers - law @ numbers) ** 2) for law in self.law]
            found += list(np.stack(spread, axis=1))
        return np.array(found)

    def p(self, counts: np.ndarray) -> Floats:
        """Return for each row of counts (rows, kinds, numbers) a p-value."""
        return evidence.likelihood_p(counts, self.law, self.others)

    # -- records of which everything was kept

    @property
    def _threshold(self) -> float:
        """Return the chance at which whole records of all kinds are counted as one: it shows most of them.

        It is the chance of a kind that the first round has, as nothing published had a say in it.
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
        one = (evidence.betraying(records, chance, level) - chance) / max(weight - chance, 1e-300)
        other = _least(lambda s: self._betrayed(records, self.bare(s, exposed), level), 0.0, 1.0)
        return min(one, other, 1.0)

    def factor_unseen(self, records: int, level: float) -> float:
        """Return the least factor on all gammas that is rejected with probability `POWER`; inf if none."""
        return exp(_least(lambda x: self._betrayed(records, self.times(exp(x), True), level), 0.0, 30.0))

    def _betrayed(self, records: int, true: Floats, level: float) -> bool:
        shares = self._shares[:, None]
        return evidence.betrayed(
            records, self.law * shares, self.others * shares, true * shares, level
        )


def _least(seen: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number between two that is seen; inf if none is."""
    if not seen(high):
        return inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high

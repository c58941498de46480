"""Screening of attributes that are informative about the class, from published records alone: quicker and surer
than models.

Published cells are projected on the few functions of the originals that a channel transmits best, and compared
between the classes. The information of two attributes together is counted without their main effects: noise has
other means, so a main effect alone would look like an interaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.joint.sample import Sample, SubTable
from ppdm_cli.releases import Exposure

COSINES = 3
FEW_VALUES = 12
"""The number of values below which, or without an order, each is compared separately."""
FEWEST_EXPECTED = 5.0
"""The least expected number of records that decide a function, in the smallest class."""
FEWEST, FEWEST_REVEALING = 20, 5.0
"""The least records of a class, and the least that aren't noise, for any statement about it."""
FEWEST_SQUARED = 10.0
"""The least n lam^2 of a pair: the part of its main effects is a product of two estimates."""
UNASKED = -1000.0
"""The score of attributes that too few records show: below that of any that was tested."""


@dataclass(frozen=True)
class AttributeScores:
    """Scores of attributes: nats by which the classes differ beyond chance, less a penalty for many tests."""

    alone: dict[str, float]
    together: dict[tuple[str, str], float]
    """The score of two attributes beyond that of each alone, if some records show both."""

    def ranked(self) -> tuple[list[str], dict[str, float]]:
        """Return the attributes, the most informative first, with the score of each, alone or with another."""
        scores = {name: max(v, 0.0) for name, v in self.alone.items()}
        for pair, v in self.together.items():
            for name in pair if v > 0 else ():
                scores[name] = max(scores[name], max(self.alone[name], 0.0) + v)
        return sorted(scores, key=lambda n: -(scores[n] + 1e-3 * self.alone[n])), scores


def screened(sample: Sample) -> AttributeScores:
    """Return the scores of a sample's attributes for the class."""
    names = [c.name for c in sample.channels]
    shares = sample.shares(sample.label_counts.sum(axis=0))
    alone, together = {}, {}
    for place, name in enumerate(names):
        tables = [s for s in sample.sub_tables([place]) if s.labelled]
        ordered = [sample.channels[place].domain.ordered > 0]
        alone[name] = _sum([_score(s, ordered, shares, 1.0) for s in tables])
    for a, b in combinations(range(len(names)), 2):
        if not sample.strata.together([a, b]):
            continue
        tables = [s for s in sample.sub_tables([a, b]) if s.labelled and len(_cells(s)) == 2]
        ordered = [sample.channels[p].domain.ordered > 0 for p in (a, b)]
        penalty = 2.0 if len(tables) == 1 else 1.4
        together[names[a], names[b]] = _sum([_score(s, ordered, shares, penalty) for s in tables])
    return AttributeScores(alone, together)


def _sum(scores: Sequence[float | None]) -> float:
    """Add up the scores of all tables; tables with too little data rank last."""
    found = [t for t in scores if t is not None]
    return sum(found) if found else UNASKED


def _cells(seen: SubTable) -> Sequence[Exposure]:
    return seen.exposures if seen.kept else seen.exposures[1:]


def _functions(exposure: Exposure, ordered: bool) -> Floats:
    """Return functions of published codes, (outputs, functions): scores of smooth effects of originals."""
    values = exposure.matrix.shape[1]
    if not ordered or values < FEW_VALUES:
        basis = np.eye(values)[:, : values - 1]
    else:
        places = (np.arange(values) + 0.5) / values
        basis = np.stack([np.cos(np.pi * f * places) for f in range(1, COSINES + 1)], axis=1)
    return np.asarray((exposure.matrix @ basis) / np.maximum(exposure.matrix.sum(axis=1), 1e-300)[:, None])


def _project(table: Floats, functions: Sequence[Floats]) -> Floats:
    """Return (labels, functions of the first, of the second ...) from (labels, cells ...)."""
    for own in functions:
        table = np.tensordot(table, own, ([1], [0]))
    return table


def _score(seen: SubTable, ordered: Sequence[bool], shares: Floats, penalty: float) -> float | None:
    """Return half of chi-square less its mean, and less a penalty of so many of its standard deviations.

    None if too few records are informative.
    """
    counts = seen.counts.sum(axis=0).astype(np.float64)
    records = counts.reshape(len(counts), -1).sum(axis=1)
    exposures, lam = _cells(seen), np.broadcast_to(seen.lam, records.shape)
    if not seen.kept and seen.exposures[0].noise is not None:  # noise is less even among published labels
        lam = np.clip(
            lam * (seen.exposures[0].matrix @ shares) * records.sum() / np.maximum(records, 1), 0.0, 1.0
        )
    enough = FEWEST_REVEALING if len(exposures) == 1 else FEWEST_SQUARED / np.maximum(lam, 1e-9)
    there = np.flatnonzero((records >= FEWEST) & (records * lam >= enough))
    if len(there) < 2:
        return None
    counts, n, lam = counts[there], records[there], lam[there]
    whole = counts.sum(axis=0, keepdims=True) / n.sum()
    functions = []
    for axis, (exposure, order) in enumerate(zip(exposures, ordered, strict=True)):
        own = _functions(exposure, order)
        marginal = whole[0].sum(axis=tuple(i for i in range(len(exposures)) if i != axis))
        functions.append(own - marginal @ own)
    means = _project(counts, functions) / n.reshape(-1, *(1,) * len(exposures))
    mean = _project(whole, functions)
    variance = np.maximum(_project(whole, [f**2 for f in functions]) - mean**2, 1e-12)[0]
    # what a handful of records decide has a law far from a normal one, and stands out by chance (Cochran 1954)
    largest = np.array(1.0)
    for own in functions:
        largest = np.multiply.outer(largest, (own**2).max(axis=0, initial=0.0))
    dense = n.min() * variance >= FEWEST_EXPECTED * largest
    effects = [_effect(counts, n, lam, i, exposures, functions) for i in range(len(exposures))]
    if len(exposures) == 2:
        means = means - _by_main_effects(lam, exposures, effects)
        variance = _of_interactions(whole, functions, [(n * lam) @ e.revealed / (n @ lam) for e in effects])
    else:  # noise is uneven among labels that may be noise, and has another mean
        effect = effects[0]
        common, left = (n * lam) @ effect.revealed / (n @ lam), effect.lam[:, None]
        means = means - (left * common + (1 - left) * effect.noise)
    deviations = means - np.tensordot(n / n.sum(), means, 1)
    squares = ((n.reshape(-1, *(1,) * len(exposures)) * deviations**2).sum(axis=0) / variance)[dense]
    free = squares.size * (len(there) - 1)
    return float(squares.sum() - free) / 2 - penalty * sqrt(free / 2) if free else None


@dataclass(frozen=True)
class _Effect:
    """The means of an attribute's functions by label if records reveal it, and those of noise."""

    revealed: Floats
    noise: Floats
    lam: Floats
    """The probability by label that a record reveals it; 1 for separately published attributes."""


def _effect(
    counts: Floats,
    n: Floats,
    lam: Floats,
    axis: int,
    exposures: Sequence[Exposure],
    functions: Sequence[Floats],
) -> _Effect:
    exposure, own = exposures[axis], functions[axis]
    others = tuple(1 + i for i in range(len(exposures)) if i != axis)
    mean = counts.sum(axis=others) @ own / n[:, None]
    noise = np.zeros(own.shape[1]) if exposure.noise is None else exposure.noise @ own
    left = np.ones_like(lam) if exposure.noise is None else lam
    return _Effect((mean - (1 - left[:, None]) * noise) / left[:, None], noise, left)


def _by_main_effects(lam: Floats, exposures: Sequence[Exposure], effects: Sequence[_Effect]) -> Floats:
    """Return the means by label that two attributes would have if they were independent within each class."""
    a, b = effects
    both = lam if exposures[0].noise is not None else np.ones_like(lam)
    return np.asarray(
        both[:, None, None] * a.revealed[:, :, None] * b.revealed[:, None, :]
        + (1 - both)[:, None, None] * np.multiply.outer(a.noise, b.noise)
    )


def _of_interactions(whole: Floats, functions: Sequence[Floats], means: Sequence[Floats]) -> Floats:
    """Return the variance of f g without the part of main effects, which are estimated from the same records.

    That is of f g - m_b f - m_a g, by the delta method; f and g have a mean of 0 over all records.
    """
    (f, g), (m_a, m_b) = functions, (means[0][:, None], means[1][None, :])

    def mean(i: int, j: int) -> Floats:
        return _project(whole, [f**i, g**j])[0]

    first = mean(1, 1)
    squares = mean(2, 2) + m_b**2 * mean(2, 0) + m_a**2 * mean(0, 2)
    crossed = 2 * (m_a * m_b * first - m_b * mean(2, 1) - m_a * mean(1, 2))
    return np.maximum(squares + crossed - first**2, 1e-12)

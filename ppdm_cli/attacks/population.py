"""People as a release describes them, for attacks on people: how common each record is, and who shows it.

The model is that of latent classes where every record publishes every attribute separately, and else one class,
in which attributes are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import logsumexp, softmax

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.adversary import LARGEST_DOMAIN, AttackedAttribute
from ppdm_cli.attacks.latent_classes import FEWEST_COLUMNS, SampleColumns, learn_classes
from ppdm_cli.attacks.likelihood import CellReader, Likelihoods, Scores, ShownCells
from ppdm_cli.estimating import TINY
from ppdm_cli.releases import Exposures, Strata
from ppdm_cli.repeatable import hashed, uniform

HELD = 0.25
"""The share of the records that judge the model."""


@dataclass(frozen=True, eq=False)
class Population:
    """The shares of classes, and p(original | class) of each attribute, (originals, classes)."""

    sizes: Floats
    laws: Sequence[Floats]
    tables: Likelihoods

    @classmethod
    def learned(cls, targets: Sequence[AttackedAttribute], strata: Strata, codes: Sequence[Codes]) -> Self:
        """Learn from a sample of records, whose codes these are."""
        sizes, laws = np.ones(1), [t.prior[:, None] for t in targets]
        small = all(t.separate and t.matrix.outputs <= LARGEST_DOMAIN for t in targets)
        if small and len(targets) >= FEWEST_COLUMNS:
            held = uniform(np.arange(len(codes[0])), hashed("judges")) < HELD
            model = learn_classes(SampleColumns([t.channel for t in targets], list(codes), held))[1]
            sizes, laws = model.sizes, list(model.laws)
        return cls(sizes, laws, Likelihoods.of(strata, laws, len(sizes)))

    def first(self, strata: Strata, many: int) -> Population:
        """Return the same of the first attributes alone."""
        laws = self.laws[:many]
        return Population(self.sizes, laws, Likelihoods.of(strata, laws, len(self.sizes)))

    def common(self, cells: ShownCells) -> Scores:
        """Return log p(record), up to what only the record decides."""
        scores = self.tables(cells)
        scores += np.log(self.sizes).astype(np.float32)
        top = scores.max(axis=1)
        chances = np.exp(np.subtract(scores, top[:, None], out=scores), out=scores)
        return np.asarray(top + np.log(chances.sum(axis=1)))

    def unusual(self, originals: Sequence[Codes], groups: Sequence[np.ndarray]) -> Floats:
        """Return how unusual people are: -log p of what is known, which `groups` number by original code."""
        logs = np.log(self.sizes)[None]
        for law, codes, group in zip(self.laws, originals, groups, strict=False):  # the first are known
            shares = np.zeros((int(group.max()) + 1, len(self.sizes)))
            np.add.at(shares, group, law)
            logs = logs + np.log(np.maximum(shares, TINY))[group[codes]]
        return np.asarray(-logsumexp(logs, axis=1))

    def drawn(self, strata: Strata, codes: Sequence[Codes], recipes: np.ndarray, purpose: str) -> list[Codes]:
        """Draw the originals of people who show these records, as the model has them."""
        cells, count = CellReader.of(strata)(codes, recipes), len(recipes)

        def pick(chances: Floats, what: object) -> np.ndarray:
            sums = chances.cumsum(axis=1)
            coins = uniform(np.arange(count), hashed([purpose, what]))
            return np.asarray((sums < coins[:, None] * sums[:, -1:]).sum(axis=1))

        classes = pick(softmax(self.tables(cells) + np.log(self.sizes), axis=1), "classes")
        revealed = np.ones(count, bool)
        if self.tables.ratios is not None:  # then there is one class
            ratio = self.tables.revealed(cells)
            revealed = pick(np.concatenate([1 - cells.lam[:, None], ratio], axis=1), "coins") > 0
        return [
            pick(law.T[classes] * _seen(exposures, code, revealed) + TINY, axis)
            for axis, (exposures, law, code) in enumerate(zip(strata.exposures, self.laws, codes, strict=True))
        ]


def _seen(exposures: Exposures, codes: Codes, revealed: np.ndarray) -> Floats:
    """Return p(code | original) of records that are revealed, or are noise, (records, originals)."""
    if len(exposures.each) > 1 or exposures.withholds or exposures.noisy.any():
        return np.where(revealed[:, None], exposures.matrix[codes], exposures.as_noise[codes])
    law = exposures.each[0].law
    answers = np.zeros((law.outputs, len(codes)))
    answers[codes, np.arange(len(codes))] = 1
    return np.asarray(law.backward(answers).T)

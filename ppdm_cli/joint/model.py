"""A learnt model of class and attributes: shares of the original classes, and a law within each.

What a record says of its class goes through the class's own channel: with a kept class that is the published
label, with a perturbed one the label is evidence like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.joint.forest import Forest
from ppdm_cli.joint.joint_table import TINY, JointTable, Uniform, normalised
from ppdm_cli.joint.recipes import Coins

COIN = -1
"""The place whose numbers decide what a record's coin said."""


@dataclass(frozen=True, eq=False)
class Model:
    """p(original class, original values)."""

    label: Floats
    """p(published label | original class)"""
    shares: Floats
    """Of the original classes."""
    within: JointTable | Forest
    temper: float = 1.0
    """Many attributes that say the same make a model too sure: its log-odds of the class are scaled."""
    coins: Coins | None = None

    @property
    def places(self) -> tuple[int, ...]:
        return self.within.places

    def said(self, codes: Sequence[Codes]) -> list[Floats]:
        """Return p(published attributes | class) up to a factor a record, (records, classes).

        Under a coin where it tells, and where it says noise.
        """
        if self.coins is None:
            return [self.within.likelihood(codes)]
        left = self.coins.blind(codes)
        if self.coins.alone:  # then nothing is left of any record where the coin says noise
            left = [c[:1] for c in left]
        told, blind = self.within.logs(codes), self.within.logs(left)
        top = np.maximum(told.max(axis=1), blind.max(axis=1))[:, None]
        lam, noise = self.coins.lam[codes[-1]], self.coins.noise(codes, self.places)
        return [lam[:, None] * np.exp(told - top), noise[:, None] * np.exp(blind - top)]

    @property
    def _labels(self) -> list[Floats]:
        """Return p(published label | class), under a coin where it tells and where it says noise."""
        if self.coins is None:
            return [self.label]
        return [self.coins.label.told, self.coins.label.blind]

    def joint(self, likelihood: Floats) -> Floats:
        """Return p(class, published attributes) up to a factor a record, from the likelihood by class."""
        if self.temper != 1:
            likelihood = (likelihood / np.maximum(likelihood.max(axis=1, keepdims=True), TINY)) ** self.temper
        return likelihood * self.shares

    def chances(self, codes: Sequence[Codes], labels: Codes) -> Floats:
        """Return p(class | published record), (records, classes)."""
        return normalised(self._own(self.said(codes), labels))

    def _own(self, said: Sequence[Floats], labels: Codes) -> Floats:
        parts = [self.joint(s) * label[labels] for s, label in zip(said, self._labels, strict=True)]
        return np.asarray(sum(parts))

    def scores(self, said: Sequence[Floats], labels: Codes) -> Floats:
        """Return log p(published label | published attributes) of each record."""
        own, joint = self._own(said, labels).sum(axis=1), sum(self.joint(s).sum(axis=1) for s in said)
        return np.asarray(np.log(np.maximum(own, TINY) / np.maximum(joint, TINY)))

    def rise(self, said: Sequence[Floats], labels: Codes) -> Floats:
        """Return by how much a record's label is likelier by what its attributes say of the class.

        What they say of the coin alone, which a class under it shares, is taken off.
        """
        if self.coins is None:
            return self.scores(said, labels) - np.log(np.maximum(self.label @ self.shares, TINY))[labels]
        unsaid = [np.repeat((s @ self.shares)[:, None], s.shape[1], axis=1) for s in said]
        return self.scores(said, labels) - self.scores(unsaid, labels)

    def telling(self, codes: Sequence[Codes], labels: Codes) -> Floats:
        """Return by class how likely the coin told, given the record: (records, classes)."""
        told, blind = (s * label[labels] for s, label in zip(self.said(codes), self._labels, strict=True))
        return np.asarray(told / np.maximum(told + blind, TINY))

    def draw(self, codes: Sequence[Codes], labels: Codes, classes: Codes, uniform: Uniform) -> list[np.ndarray]:
        """Return original codes drawn from their posterior, given the published record and its class."""
        if self.coins is not None:
            rows = np.arange(len(classes))
            told = self.telling(codes, labels)[rows, classes]
            codes = self.coins.blind(codes, uniform(COIN, rows) >= told)
        return self.within.draw(codes, classes, uniform)

    def marginals(self, codes: Sequence[Codes], labels: Codes) -> list[Floats]:
        """Return for each place the posterior of its original codes given the published record."""
        chances = self.chances(codes, labels)
        sides = [(chances, codes)]
        if self.coins is not None:
            told = self.telling(codes, labels)
            sides = [(chances * told, codes), (chances * (1 - told), self.coins.blind(codes))]
        found: list[Floats] = []
        for weights, shown in sides:
            for c in np.flatnonzero(chances.any(axis=0)).tolist():
                rows = np.flatnonzero(weights[:, c])
                own = self.within.marginals([code[rows] for code in shown], np.full(len(rows), c))
                found = found or [np.zeros((len(labels), m.shape[1])) for m in own]
                for all_, m in zip(found, own, strict=True):
                    all_[rows] += normalised(m) * weights[rows, c, None]
        return found


def unseeing(model: Model, kept: Sequence[bool], label: bool) -> Model:
    """Return the model with matrices that tell nothing but of what was kept: attributes, and the `label`."""
    within = model.within
    own = [kept[p] for p in model.places]
    matrices = tuple(m if k else np.ones_like(m) for m, k in zip(within.matrices, own, strict=True))
    told = model.label if label else np.ones_like(model.label)
    return replace(model, label=told, within=replace(within, matrices=matrices))

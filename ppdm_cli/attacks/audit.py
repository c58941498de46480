"""With the original: are the observed transitions those of the declared matrix, and what gamma do they prove?

Two tests an attribute, at `LEVEL` over the whole release: Pearson's chi-square of all transitions, small
expected counts pooled, its tail taken with the statistic's exact mean and variance; and the exact binomial
test of how many values stayed. The number that stayed gives gamma, with Clopper and Pearson's bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.targets import Rows, Target, Truth
from ppdm_cli.chances import binomial_p, chi_square_tail, clopper_pearson
from ppdm_cli.channels import Noisy

LEVEL = 1e-4
"""The chance that an honest release is called a lie, all its attributes together."""
LEAST = 25.0
"""Records that a cell of the chi-square test must be expected to have."""
GROUPS = 512
"""Codes are grouped to so many rows and columns at most; the ones that stayed are counted apart always."""


class Transitions:
    """Counts of one attribute: from each (group of) original codes to each (group of) published ones.

    The last column counts those that stayed: the values published as they were, or for a band within it.
    """

    def __init__(self, target: Target) -> None:
        self._target, matrix = target, target.matrix
        self.inputs, self.outputs = matrix.inputs, matrix.outputs
        self._per_row = -(-self.inputs // GROUPS)
        self._per_column = -(-self.outputs // GROUPS)
        self.shape = (-(-self.inputs // self._per_row), -(-self.outputs // self._per_column) + 1)

    def _stayed(self, original: np.ndarray, published: np.ndarray) -> np.ndarray:
        return published.astype(np.int64) == self._target.matrix.unchanged[original]

    def counted(self, published: Codes, original: Codes) -> list[np.ndarray]:
        column = published.astype(np.int64) // self._per_column
        column[self._stayed(original, published)] = self.shape[1] - 1
        cell = original.astype(np.int64) // self._per_row * self.shape[1] + column
        table = np.bincount(cell, minlength=int(np.prod(self.shape))).reshape(self.shape)
        around = np.array([np.count_nonzero(self._target.matrix.around(original, published))])
        return [table, np.bincount(original, minlength=self.inputs), around]

    def expected(self, originals: np.ndarray) -> Floats:
        """The same table, as the declared matrix would have it on average."""
        matrix = self._target.matrix
        row = np.arange(self.inputs) // self._per_row
        split = np.zeros((self.inputs, self.shape[0]))
        split[np.arange(self.inputs), row] = originals
        stay = self._target.matrix.stays() * originals
        moved = matrix.forward(split)  # (outputs, rows)
        moved[matrix.unchanged, row] -= stay
        table = np.zeros(self.shape)
        column = np.arange(self.outputs) // self._per_column
        np.add.at(table.T, column, moved)
        np.add.at(table[:, -1], row, stay)
        return np.maximum(table, 0.0)

    def agreement(self, state: list[np.ndarray], published: Floats) -> tuple[float, float, float]:
        """How many stayed more than chance has it, how many should have, and the variance of chance."""
        table, originals, _ = state
        n = max(float(originals.sum()), 1.0)
        alone = float(originals @ (published / max(published.sum(), 1.0))[self._target.matrix.unchanged])
        wanted = float(originals @ self._target.matrix.stays())
        return float(table[:, -1].sum()) - alone, wanted - alone, alone * (1 - alone / n)

    def verdict(self, state: list[np.ndarray], level: float) -> dict[str, Any]:
        table, originals, around = state
        n, hits = int(originals.sum()), int(around[0])
        chance, gamma_of = _gamma(self._target)
        statistic, freedom, chi = _chi_square(table, self.expected(originals))
        staying = binomial_p(hits, n, chance) if n else 1.0
        p = min(1.0, 2 * min(chi, staying))
        low, high = clopper_pearson(hits, n) if n else (0.0, 1.0)
        return {
            "attribute": self._target.name,
            "records": n,
            "declared_gamma": self._target.matrix.amplification,
            "gamma": gamma_of(hits / n) if n else None,
            "gamma_low": gamma_of(low),
            "gamma_high": gamma_of(high),
            "stayed": hits / n if n else None,
            "stayed_declared": chance,
            "stayed_p": staying,
            "chi_square": statistic,
            "freedom": freedom,
            "chi_square_p": chi,
            "p": p,
            "honest": p >= level,
        }


def pairs(audit: Audit, states: Mapping[str, list[np.ndarray]], counts: Mapping[str, Floats]) -> bool:
    """Whether release and original look as if their rows belonged together, or too little is there to say.

    Rows that do not pair agree as often as chance has it; that much is only told of a release in which
    many more were to agree.
    """
    if not audit.transitions:
        return True
    seen = wanted = variance = 0.0
    for name, transitions in audit.transitions.items():
        parts = transitions.agreement(states[name], counts[name])
        seen, wanted, variance = seen + parts[0], wanted + parts[1], variance + parts[2]
    spread = max(variance, 1.0) ** 0.5
    return wanted < 8 * spread or seen > 4 * spread


def _gamma(target: Target) -> tuple[float, Any]:
    """The declared chance to stay (or to stay in the band), and the gamma that such a share would mean.

    With w outputs of gamma/D each and T - w others of 1/D: share = w gamma / (w gamma + T - w).
    """
    matrix = target.matrix
    gamma = matrix.amplification
    own, others = matrix.own_outputs

    def gamma_of(share: float) -> float:
        return float("inf") if share >= 1 else share * others / (own * (1 - share))

    return own * gamma / (own * gamma + others), gamma_of


def _chi_square(table: np.ndarray, expected: Floats) -> tuple[float, int, float]:
    """Statistic, degrees of freedom, and p; each row's small cells are pooled to one, small rows to one row."""
    statistic, freedom, variance = 0.0, 0, 0.0
    rest_o, rest_e = np.zeros(table.shape[1]), np.zeros(table.shape[1])
    rows = []
    for observed, wanted in zip(table, expected, strict=True):
        if wanted.sum() < 4 * LEAST:
            rest_o += observed
            rest_e += wanted
        else:
            rows.append((observed.astype(np.float64), wanted))
    if rest_e.sum() > 0:
        rows.append((rest_o, rest_e))
    for observed, wanted in rows:
        o, e = _pooled(observed, wanted)
        n, k = e.sum(), len(e)
        if k < 2:
            if e[0] <= 0 < o[0]:
                return float("inf"), 1, 0.0
            continue
        statistic += float(((o - e) ** 2 / e).sum())
        freedom += k - 1
        # Pearson's statistic of a multinomial has this variance exactly
        variance += 2 * (k - 1) + float(((n / e).sum() - k**2 - 2 * k + 2) / n)
    if not freedom:
        return 0.0, 0, 1.0
    scale = variance / (2 * freedom)
    return statistic, freedom, float(chi_square_tail(statistic / scale, freedom / scale))


def _pooled(observed: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells of `LEAST` records or more, the others as one; it takes the smallest along if it is too small."""
    order = np.argsort(-expected, kind="stable")
    o, e = observed[order], expected[order]
    small = int(np.searchsorted(-e, -LEAST, side="right"))
    while 0 < small < len(e) and e[small:].sum() < LEAST:
        small -= 1
    if small >= len(e):
        return o, e
    if small == 0:
        return np.array([o.sum()]), np.array([e.sum()])
    return np.append(o[:small], o[small:].sum()), np.append(e[:small], e[small:].sum())


class Noises:
    """Of additive noise: how often the noise itself fell in each of equally likely cells, by original code."""

    CELLS = 64

    def __init__(self, target: Target, noise: Noisy) -> None:
        self._target, self._noise = target, noise
        self._per_row = -(-noise.inputs // GROUPS)
        self._rows = -(-noise.inputs // self._per_row)

    def counted(self, published: Floats, original: Truth) -> list[np.ndarray]:
        apart = published - original.numbers
        share = self._noise.share_below(apart)
        # rounding of the sum may carry noise just past its reach; more than that is a lie
        slack = 1e-9 * (1 + np.abs(published) / self._noise.reach)
        beyond = (share < -slack) | (share > 1 + slack)
        cell = np.clip((share * self.CELLS).astype(np.int64), 0, self.CELLS - 1)
        place = original.codes.astype(np.int64) // self._per_row * self.CELLS + cell
        table = np.bincount(place, minlength=self._rows * self.CELLS).reshape(self._rows, self.CELLS)
        return [table, np.array([apart.sum(), (apart**2).sum(), np.count_nonzero(beyond)])]

    def verdict(self, state: list[np.ndarray], level: float) -> dict[str, Any]:
        table, (total, squares, beyond) = state
        n = int(table.sum())
        rows = table.sum(axis=1, keepdims=True)
        statistic, freedom, p = _chi_square(table, np.broadcast_to(rows / self.CELLS, table.shape))
        p = 0.0 if beyond else p
        return {
            "attribute": self._target.name,
            "records": n,
            "declared_sd": self._noise.noise_variance**0.5,
            "sd": float(max(squares / n - (total / n) ** 2, 0.0) ** 0.5) if n else None,
            "chi_square": statistic,
            "freedom": freedom,
            "chi_square_p": p,
            "p": p,
            "honest": p >= level,
        }


class Audit:
    """The audit of every perturbed attribute, as a fold."""

    name = "audit"

    def __init__(self, targets: list[Target]) -> None:
        self.transitions = {t.name: Transitions(t) for t in targets if t.channel.noise is None}
        self.noises = {t.name: Noises(t, n) for t in targets if (n := t.channel.noise) is not None}

    def counted(self, rows: Rows) -> dict[str, list[np.ndarray]]:
        found = {n: t.counted(rows.codes[n], rows.known[n].codes) for n, t in self.transitions.items()}
        return found | {n: t.counted(rows.noisy[n], rows.known[n]) for n, t in self.noises.items()}

    def rows(self, states: Mapping[str, list[np.ndarray]]) -> list[dict[str, Any]]:
        level = LEVEL / len(states)
        return [(self.transitions.get(n) or self.noises[n]).verdict(s, level) for n, s in states.items()]


def merged(a: Mapping[str, list[np.ndarray]], b: Mapping[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
    return {n: [x + y for x, y in zip(a[n], b[n], strict=True)] for n in a}

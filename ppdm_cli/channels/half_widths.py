"""Half-widths by Fisher information: what a record says of its attributes and pairs, before any data is seen.

The Fisher information of one record about an interaction of functions of some attributes, as a share of a clean
record's, mean over the three lowest cosines of each attribute, values uniform (maths 11, e2):
lam^2 sum_y prod_i m_i(y_i)^2 / p(y), with m = U phi / N for an attribute of the interaction and U 1/N for
another, p = lam prod U 1/N + (1-lam) noise. n times it is at most the clean records that would say as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels.blur import Blur

COSINES = 3
WIDEST = 0.55
"""The largest half-width that is looked at, as a share of the values."""
MOST_CELLS = 1 << 20
Size = tuple[int, bool]
"""How many values an attribute has besides null, and whether they are in order."""


@lru_cache(maxsize=1 << 10)
def _side(values: int, half_width: int) -> tuple[Floats, Floats, Floats]:
    """Return the distinct shares u of a uniform value's outputs; by them the sums of m^2 and of u^2.

    The information depends on an output through u and, linearly, through m^2: outputs of one u are as one.
    """
    if not half_width:  # then all functions are alike
        return np.array([1 / values]), np.array([1 / values]), np.array([1 / values])
    blur = Blur(values, half_width)
    u = blur.forward(np.full(values, 1 / values))
    places = (np.arange(values) + 0.5) / values
    functions = [np.sqrt(2) * np.cos(np.pi * f * places) / values for f in range(1, min(COSINES + 1, values))]
    squares = np.mean([blur.forward(phi) ** 2 for phi in functions], axis=0)
    levels = np.rint(u * values * blur.width).astype(np.int64)
    shares = np.arange(levels.max() + 1) / (values * blur.width)
    some = np.bincount(levels) > 0
    sums: list[Floats] = [np.bincount(levels, each)[some].astype(np.float64) for each in (squares, u**2)]
    return shares[some], sums[0], sums[1]


def information(
    gamma: float, sizes: Sequence[Size], widths: Sequence[int], order: int, riding: int = 0
) -> float:
    """Return what a record of a box says of interactions of `order` of its attributes, mean over all of them.

    The last `riding` of them are labels that take part in every interaction; those do not count in `order`.
    """
    blurs = [Blur(n, b) for (n, _), b in zip(sizes, widths, strict=True)]
    T, w = float(prod(b.all_outputs for b in blurs)), float(prod(b.width for b in blurs))
    lam = (gamma - 1) * w / (T + (gamma - 1) * w)
    sides = [_side(n, b) for (n, _), b in zip(sizes, widths, strict=True)]
    p = np.ones(1)
    for u, _, _ in sides:
        p = np.multiply.outer(p, u).ravel()
    p = lam * p + (1 - lam) / T
    free = len(sizes) - riding
    found = []
    for chosen in combinations(range(free), min(order, free)):
        part = np.ones(1)
        for place, (_, squares, shares) in enumerate(sides):
            part = np.multiply.outer(part, squares if place in chosen else shares).ravel()
        found.append(lam**2 * float((part / p).sum()))
    return float(np.mean(found))


def best_widths(gamma: float, sizes: Sequence[Size], riding: int = 0) -> list[int]:
    """Return the half-widths that tell most of pairs, or of one attribute: the same share of each domain."""
    return list(_best(gamma, tuple(sizes), riding))


@lru_cache(maxsize=1 << 12)
def _best(gamma: float, sizes: tuple[Size, ...], riding: int) -> tuple[int, ...]:
    longest = max((n for n, ordered in sizes if ordered), default=0)
    best, found = -1.0, tuple(0 for _ in sizes)
    for b in range(int(WIDEST * longest) + 1):
        widths = tuple(min(round(b * n / longest), n // 2) if ordered else 0 for n, ordered in sizes)
        if prod(len(_side(n, w)[0]) for (n, _), w in zip(sizes, widths, strict=True)) > MOST_CELLS:
            break
        told = information(gamma, sizes, widths, 2, riding)
        if told > best * 1.0001:
            best, found = told, widths
    return found

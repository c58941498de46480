"""Formulas that a prover reasons about are those of the samplers: both give the same on real numbers."""

from __future__ import annotations

from decimal import Decimal
from math import prod

import numpy as np
import pytest

from ppdm_cli.channels import Blur, Box, GammaDiagonal, uniform_below, uniform_below_wide
from ppdm_cli.channels.band import Band
from ppdm_cli.channels.exact_draw import ExactDraw
from tests.channels.formulas import NUMBERS, band, band_of_null, below, below_wide, blurred, diagonal, digits
from tests.channels.test_sampler import Fed

WORDS = {"narrow": (1 << 32, below, uniform_below), "wide": (1 << 64, below_wide, uniform_below_wide)}


def numbers_of(draw: ExactDraw) -> list[int]:
    """Return the ends of its runs, and some numbers between them."""
    between = np.random.default_rng(1).integers(0, draw.range, 300)
    ends = np.append(draw.starts(0), draw.range)
    return sorted({*ends[:-1].tolist(), *(ends[1:] - 1).tolist(), *between.tolist()})


def replaced(draw: ExactDraw, code: int, numbers: list[int]) -> list[int]:
    return draw._replaced(code, np.array(numbers)).tolist()


@pytest.mark.parametrize(("gamma", "N"), [("9", 20), ("1.5", 2), ("2.00001", 8590), ("7.38905", 100)])
def test_diagonal_formula_is_the_samplers(gamma: str, N: int) -> None:
    draw = GammaDiagonal(Decimal(gamma), N)
    a, b = draw.gamma.as_integer_ratio()
    for k in (0, N // 2, N - 1):
        numbers = numbers_of(draw)
        assert replaced(draw, k, numbers) == [diagonal(u, k, a, b, NUMBERS) for u in numbers]


@pytest.mark.parametrize(
    ("gamma", "N", "b", "nulls"), [("4.5", 10, 2, True), ("1.01", 7, 3, False), ("9.99", 90, 1, True)]
)
def test_band_formula_is_the_samplers(gamma: str, N: int, b: int, nulls: bool) -> None:
    draw = Band.of(Decimal(gamma), N, b, nulls)
    (p, s), w, null = draw.ratio, draw.width, draw.sides[0].null_output
    numbers = numbers_of(draw)
    for k in (0, N // 2, N - 1):
        found = [band(u, k, p, s, w, NUMBERS) for u in numbers]
        assert replaced(draw, k, numbers) == [min(h, null) if nulls else h for h in found]
    if nulls:
        assert replaced(draw, N, numbers) == [band_of_null(u, null, p, s, w, NUMBERS) for u in numbers]


@pytest.mark.parametrize("gamma", ["2.5", "7.38905"])
def test_box_formula_is_the_samplers(gamma: str) -> None:
    sides = (Blur(9, 2), Blur(4), Blur(6, 1))
    draw = Box.of(Decimal(gamma), sides)
    p, s = draw.ratio
    for own in ((0, 0, 0), (8, 3, 5), (4, 1, 2)):
        expected, numbers = [], numbers_of(draw)
        for u in numbers:
            near, offset, anywhere = blurred(u, p, s, prod(b.width for b in sides), NUMBERS)
            found, rest = list[int](), offset if near else anywhere
            for side, code in reversed(list(zip(sides, own, strict=True))):
                rest, digit = digits(rest, side.width if near else side.all_outputs, NUMBERS)
                found.append(code + digit if near else digit)
            expected.append(int(np.ravel_multi_index(found[::-1], draw.shape_out)))
        code = int(np.ravel_multi_index(own, draw.shape_in))
        assert replaced(draw, code, numbers) == expected


@pytest.mark.parametrize("size", WORDS)
@pytest.mark.parametrize("R", [3, 18, 857_000_001, (1 << 30) - 35])
def test_formula_of_words_is_the_samplers(size: str, R: int) -> None:
    words, formula, draw = WORDS[size]
    rng, threshold = np.random.default_rng(R), words % R
    tried = [0, 1, words - 1, words - threshold - 1, words - threshold, *rng.integers(0, words, 200, np.uint64)]
    accepted = 0
    for word in map(int, tried):
        taken, u = formula(word, R, words, NUMBERS)
        other, v = formula(1 + words // R, R, words, NUMBERS)  # the word that comes next where this is rejected
        block = [word, 1 + words // R] if size == "wide" else [word, 1 + words // R, 0, 0]
        cells = np.array([block], np.uint64 if size == "wide" else np.uint32).view(np.uint32)
        assert other and int(draw(R, Fed(cells))[0]) == (u if taken else v)
        accepted += taken
    assert accepted > 0

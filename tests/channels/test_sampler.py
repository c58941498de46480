"""The sampler's arithmetic, word by word: what no number of draws can show.

Words made by hand are fed to `GammaDiagonal.sample`: all numbers below R give each code exactly its
share, words are rejected exactly below the threshold, and rejected ones give way to the next.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from ppdm_cli.arrays import code_type
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal

EXACT = [("1.5", 2), ("2", 5), ("9", 20), ("21.5", 20), ("1.25", 3), ("1000", 7), ("1.001", 4), ("3", 256)]
LARGE = [("9.00001", 3000), ("2.00001", 8590), ("9.99999", 10000)]
"""R of 3.0e8, 8.6e8 (one word in five is rejected) and 1.0e9, just below 2^30."""
WORDS = 2**32


class Fed:
    """Coins made by hand: a row of words for each cell, four to a block."""

    def __init__(self, words: np.ndarray) -> None:
        self.words = words
        self.retries: list[int] = []

    def __call__(self, retry: int, rows: np.ndarray | None = None) -> np.ndarray:
        self.retries.append(retry)
        block = self.words[:, 4 * retry : 4 * retry + 4]
        return np.array(block if rows is None else block[rows], np.uint32)


def matrix_of(gamma: str, N: int) -> tuple[GammaDiagonal, int, int, int]:
    matrix = GammaDiagonal(Decimal(gamma), N)
    a, b = matrix.gamma.as_integer_ratio()
    return matrix, a, b, a + b * (N - 1)


def sampled(matrix: GammaDiagonal, codes: np.ndarray, words: np.ndarray) -> tuple[list[int], list[int]]:
    """The perturbed codes, of whatever type codes have, and the retries asked for."""
    results = []
    for kind in (code_type(matrix.N), np.uint16, np.uint32):
        fed, out = Fed(words), np.full(len(codes) + 2, 1, kind)
        matrix.sample(codes.astype(kind), fed, out[1:-1])
        assert out[0] == out[-1] == 1
        results.append((out[1:-1].tolist(), fed.retries))
    assert results[0] == results[1] == results[2]
    return results[0]


def outcome(u: int, own: int, a: int, b: int) -> int:
    """What the uniform number u in [0, R) means: the proof's own words."""
    return own if u < a - b else (u - (a - b)) // b


def first_word(u: int, R: int) -> int:
    """The least word w with floor(w R / 2^32) = u that is not rejected."""
    word = -(-u * WORDS // R)
    return word + (word * R % WORDS < WORDS % R)


@pytest.mark.parametrize(("gamma", "N"), EXACT)
def test_of_all_numbers_below_r_the_own_code_gets_a_and_each_other_b(gamma: str, N: int) -> None:
    matrix, a, b, R = matrix_of(gamma, N)
    first = np.array([first_word(u, R) for u in range(R)])
    # every u has floor(2^32 / R) accepted words in a row: the first and the last are tried
    for words in (first, first + (WORDS // R - 1)):
        block = np.zeros((R, 4), np.int64)
        block[:, 0] = words
        for k in (0, N // 2, N - 1):
            out, retries = sampled(matrix, np.full(R, k), block)
            assert set(retries) == {0}
            assert np.bincount(out, minlength=N).tolist() == [a if h == k else b for h in range(N)]


@pytest.mark.parametrize(("gamma", "N"), [case for case in EXACT + LARGE if matrix_of(*case)[3] % 2])
def test_words_are_rejected_exactly_below_the_threshold(gamma: str, N: int) -> None:
    matrix, a, b, R = matrix_of(gamma, N)
    threshold = WORDS % R
    # an odd R has an inverse, so there is a word with any remainder w R mod 2^32 that is wanted
    inverse = pow(R, -1, WORDS)
    last = first_word(R - 1, R)
    for low in (0, threshold - 1, threshold, threshold + 1, WORDS - 1):
        word = low * inverse % WORDS
        (found,), _ = sampled(matrix, np.array([1]), np.array([[word, last, 0, 0]]))
        u = R - 1 if low < threshold else word * R // WORDS
        assert found == outcome(u, 1, a, b)


@pytest.mark.parametrize(("gamma", "N"), EXACT + LARGE)
def test_rejected_words_give_way_to_the_next_without_limit(gamma: str, N: int) -> None:
    matrix, a, b, R = matrix_of(gamma, N)
    assert WORDS % R > 0, "word 0 is rejected: its remainder is 0"
    cells = 40
    numbers = np.linspace(0, R - 1, cells).astype(np.int64).tolist()
    own = np.arange(cells) % N
    expected = [outcome(u, int(k), a, b) for u, k in zip(numbers, own, strict=True)]
    for turn in range(cells):  # a cell's word comes after 0 to 39 rejections, each number's in turn
        words = np.zeros((cells, cells), np.int64)
        for cell, u in enumerate(numbers):
            after = (cell + turn) % cells
            words[cell, after] = first_word(u, R)
            words[cell, after + 1 :] = WORDS - 1  # of another meaning, if it were looked at
        out, retries = sampled(matrix, own, words)
        assert out == expected
        assert retries == sorted(retries)
        assert set(retries) == set(range(cells // 4)), "each further block has a retry of its own"

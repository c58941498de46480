"""Lemmas on the samplers for every gamma, size and range at once, proved by z3 (`make prove` installs it).

A sampler draws by its matrix if of the numbers below its range as many as an entry says give each code. Each
lemma says which numbers these are: a run of them, whose length is the entry. z3 is asked for whole numbers
that refute it, and there are none. Formulas that are wrong by a little are refuted (`WRONG`).
`test_formulas` holds the formulas to the samplers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.channels import formulas
from tests.channels.formulas import Term, Terms, band, band_of_null, below, below_wide, diagonal, digits

z3 = pytest.importorskip("z3", reason="`make prove` installs z3")
SECONDS = 60


class Prover:
    """A question to z3: are there whole numbers that meet all assumptions and not the claim?"""

    def __init__(self) -> None:
        self.solver, self._names = z3.Solver(), iter(range(1000))
        self.solver.set("timeout", SECONDS * 1000)
        self.terms = Terms(self._divide, z3.If)
        self._divided: dict[str, tuple[Term, Term]] = {}

    def numbers(self, names: str) -> list[Term]:
        return [z3.Int(name) for name in names.split()]

    def assume(self, *facts: Term) -> None:
        self.solver.add(*facts)

    def _divide(self, number: Term, by: Term) -> tuple[Term, Term]:
        """Return the quotient and the remainder that define a division by a positive number."""
        if (key := f"{number} / {by}") not in self._divided:
            self._divided[key] = quotient, rest = self.numbers(f"q{(n := next(self._names))} r{n}")
            self.assume(number == by * quotient + rest, rest >= 0, rest < by)
        return self._divided[key]

    def compare_products(self, by: Term, *pairs: tuple[Term, Term]) -> None:
        """Point at instances of `of_products`, which z3 would not look for."""
        for x, y in pairs:
            self.assume(z3.Implies(x >= y, x * by >= y * by), z3.Implies(x < y, x * by + by <= y * by))

    def refuted(self, claim: Term) -> bool:
        self.solver.add(z3.Not(claim))
        found = self.solver.check()
        assert found != z3.unknown, "z3 gives up"
        return found == z3.sat


def run(u: Term, start: Term, length: Term, R: Term) -> tuple[Term, Term]:
    """Return whether u is in a run of numbers, and whether the whole run is below R."""
    return z3.And(start <= u, u < start + length), z3.And(start >= 0, start + length <= R)


Formula = Callable[..., Any]


def of_diagonal(ask: Prover, formula: Formula = diagonal) -> Term:
    """Code h gets b numbers, and k itself a - b more: a of them."""
    u, k, h, a, b, N = ask.numbers("u k h a b N")
    R = a + b * (N - 1)
    ask.assume(a > b, b >= 1, N >= 2, k >= 0, k < N, h >= 0, h < N, u >= 0, u < R)
    mine, whole = run(u, a - b + b * h, b, R)
    return z3.And((formula(u, k, a, b, ask.terms) == h) == z3.Or(z3.And(h == k, u < a - b), mine), whole)


def mixture(ask: Prover) -> tuple[Term, ...]:
    u, p, s, w, T = ask.numbers("u p s w T")
    R = (p - s) * w + s * T
    ask.assume(p > s, s >= 1, w >= 1, w <= T, u >= 0, u < R)
    return u, p, s, w, T, R


def of_band(ask: Prover, formula: Formula = band) -> Term:
    """Output k + o of the w that are k's own gets p - s numbers, and every output s more."""
    u, p, s, w, T, R = mixture(ask)
    k, h = ask.numbers("k h")
    ask.assume(k >= 0, k + w <= T, h >= 0, h < T)
    near, near_whole = run(u, (p - s) * (h - k), p - s, (p - s) * w)
    far, far_whole = run(u, (p - s) * w + s * h, s, R)
    own = z3.And(h >= k, h < k + w)
    claim = (formula(u, k, p, s, w, ask.terms) == h) == z3.Or(z3.And(own, near), far)
    return z3.And(claim, z3.Implies(own, near_whole), far_whole)


def of_null(ask: Prover, formula: Formula = band_of_null) -> Term:
    """Null is shown for the first (p - s) w numbers and the last s w; its w outputs come last."""
    u, p, s, w, T, R = mixture(ask)
    null = formula(u, T - w, p, s, w, ask.terms) == T - w
    return null == z3.Or(u < (p - s) * w, u >= R - s * w)


def of_digits(ask: Prover, formula: Formula = digits) -> Term:
    """Numbers below v w are the pairs of digits below v and w, each once: so for any number of digits."""
    n, v, w, first, last = ask.numbers("n v w first last")
    ask.assume(v >= 1, w >= 1, n >= 0, n < v * w, first >= 0, first < v, last >= 0, last < w)
    high, low = formula(n, w, ask.terms)
    pair = z3.And(high == first, low == last)
    return z3.And(high >= 0, high < v, low >= 0, low < w, pair == (n == first * w + last))


def words(ask: Prover, bits: int) -> tuple[Term, ...]:
    word, u, R, many = ask.numbers("word u R many")
    ask.assume(R >= 1, 1 << bits >= R, word >= 0, word < 1 << bits, u >= 0, u < R)
    quotient, _ = ask.terms.divide(z3.IntVal(1 << bits), R)
    ask.assume(many == quotient)
    return word, u, R, many


def of_words(ask: Prover, formula: Formula = below) -> Term:
    """Each number below R has 2^32 div R accepted words: those from the first multiple of R past 2^32 u + t."""
    size = 1 << 32
    word, u, R, many = words(ask, 32)
    first, over = ask.numbers("first over")  # first R = 2^32 u + t + over
    ask.assume(first * R == size * u + (size - many * R) + over, over >= 0, over < R)
    taken, found = formula(word, R, z3.IntVal(size), ask.terms)
    ask.compare_products(R, (word, first), (word, first + many), (first, 0), (first + many, size + 1))
    mine, whole = run(word, first, many, size)
    return z3.And(z3.And(taken, found == u) == mine, whole)


def of_wide_words(ask: Prover, formula: Formula = below_wide) -> Term:
    """Each number u has the accepted words u + j R, for j below 2^64 div R."""
    size = 1 << 64
    word, u, R, many = words(ask, 64)
    j, rest = ask.terms.divide(word, R)
    taken, found = formula(word, R, z3.IntVal(size), ask.terms)
    return z3.And(taken, found == u) == z3.And(rest == u, j < many)


def of_aliases(ask: Prover) -> Term:
    """A step of the alias tables fills one place to S, and changes neither the whole nor any sign."""
    S, small, large = ask.numbers("S small large")
    ask.assume(S >= 1, small >= 0, small < S, large > S)
    moved = S - small
    return z3.And(small + moved == S, (large - moved) + S == large + small, large - moved > 0)


def of_recipes(ask: Prover) -> Term:
    """A coin that is the same for both originals leaves the ratio of their chances as it is."""
    c, m, other, a, b = ask.numbers("c m other a b")
    ask.assume(c >= 1, m >= 0, other >= 0, b >= 1, a >= b, m * b <= a * other)
    return (c * m) * b <= a * (c * other)


def of_products(ask: Prover) -> Term:
    """Products with a positive number compare as what is multiplied does."""
    x, y, by = ask.numbers("x y by")
    ask.assume(by >= 1)
    return z3.And(z3.Implies(x >= y, x * by >= y * by), z3.Implies(x < y, x * by + by <= y * by))


LEMMAS = [
    of_products, of_diagonal, of_band, of_null, of_digits, of_words, of_wide_words, of_aliases, of_recipes,
]  # fmt: skip


@pytest.mark.parametrize("lemma", LEMMAS)
def test_lemma_holds_for_all_numbers(lemma: Callable[[Prover], Term]) -> None:
    ask = Prover()
    claim = lemma(ask)
    assert not ask.refuted(claim), ask.solver.model()


def changed(formula: Formula, **more: int) -> Formula:
    """Return a formula that takes some of its numbers to be other ones."""

    def wrong(*args: Term) -> Any:
        names = formula.__code__.co_varnames
        return formula(*(a + more.get(n, 0) for n, a in zip(names, args[:-1], strict=False)), args[-1])

    return wrong


def taking_all(word: Term, R: Term, size: Term, by: Terms) -> tuple[Term, Term]:
    """Accept every word: numbers whose words are one more come too often."""
    return z3.BoolVal(True), below(word, R, size, by)[1]


def one_more_wide(word: Term, R: Term, size: Term, by: Terms) -> tuple[Term, Term]:
    taken, _ = below_wide(word - 1, R, size, by)
    return z3.Or(taken, word == 0), below_wide(word, R, size, by)[1]


WRONG: list[tuple[Callable[..., Term], Formula]] = [
    (of_diagonal, changed(diagonal, u=1)),
    (of_diagonal, changed(diagonal, a=1)),
    (of_diagonal, changed(diagonal, b=1)),
    (of_diagonal, changed(diagonal, k=1)),
    (of_band, changed(band, u=1)),
    (of_band, changed(band, p=1)),
    (of_band, changed(band, s=1)),
    (of_band, changed(band, w=1)),
    (of_band, changed(band, k=1)),
    (of_null, changed(band_of_null, w=1)),
    (of_null, changed(band_of_null, first=1)),
    (of_digits, changed(digits, last=1)),
    (of_words, changed(below, word=1)),
    (of_words, taking_all),
    (of_wide_words, one_more_wide),
]


@pytest.mark.parametrize(("lemma", "wrong"), WRONG)
def test_lemma_is_refuted_when_its_formula_is_wrong(lemma: Callable[..., Term], wrong: Formula) -> None:
    ask = Prover()
    if lemma in (of_words, of_wide_words):
        ask.assume(z3.Int("R") == 3)
    else:  # small ones show it
        ask.assume(*(z3.Int(name) <= 12 for name in "uabpswTNnv"))
    assert ask.refuted(lemma(ask, wrong))


def test_every_formula_has_a_lemma_and_a_wrong_one() -> None:
    proved = {lemma for lemma, _ in WRONG}
    assert proved | {of_products, of_aliases, of_recipes} == set(LEMMAS)
    named = {
        n
        for n, f in vars(formulas).items()
        if callable(f) and getattr(f, "__module__", "") == formulas.__name__
    }
    assert named - {"Terms", "blurred"} == {
        lemma.__defaults__[0].__name__ for lemma in LEMMAS if lemma.__defaults__
    }

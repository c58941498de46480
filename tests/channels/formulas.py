"""Formulas of the samplers, one for whole numbers and for terms of a prover: what `test_lemmas` proves of them.

Each says what a number u below the range R becomes. A prover needs division as what defines it, so each takes
`divide`, which returns quotient and remainder, and `choose`, which picks one of two terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Term = Any
"""A whole number, or a prover's term for one."""


class Terms(NamedTuple):
    """How terms are divided and chosen between."""

    divide: Callable[[Term, Term], tuple[Term, Term]]
    choose: Callable[[Term, Term, Term], Term]


NUMBERS = Terms(divmod, lambda condition, one, other: one if condition else other)


def diagonal(u: Term, k: Term, a: Term, b: Term, by: Terms) -> Term:
    """Say what replaces code k in a gamma-diagonal matrix of gamma = a/b."""
    return by.choose(u < a - b, k, by.divide(u - (a - b), b)[0])


def blurred(u: Term, p: Term, s: Term, w: Term, by: Terms) -> tuple[Term, Term, Term]:
    """Say whether a mixture of gamma = p/s blurs a record, and which of its w outputs, or of all, it takes."""
    return u < (p - s) * w, by.divide(u, p - s)[0], by.divide(u - (p - s) * w, s)[0]


def band(u: Term, k: Term, p: Term, s: Term, w: Term, by: Terms) -> Term:
    """Say what an ordered code k is published as in a band of w outputs for each code."""
    near, offset, anywhere = blurred(u, p, s, w, by)
    return by.choose(near, k + offset, anywhere)


def band_of_null(u: Term, first: Term, p: Term, s: Term, w: Term, by: Terms) -> Term:
    """Say what null is published as in a band whose ordered outputs come before `first`: `first` is null."""
    found = band(u, first, p, s, w, by)
    return by.choose(found > first, first, found)


def digits(number: Term, last: Term, by: Terms) -> tuple[Term, Term]:
    """Say which output each of two attributes takes, by the number of both; the last is fastest."""
    return by.divide(number, last)


def below(word: Term, R: Term, words: Term, by: Terms) -> tuple[Term, Term]:
    """Say whether a word is accepted, and which number below R it gives: the narrow draw."""
    u, low = by.divide(word * R, words)
    return low >= by.divide(words, R)[1], u


def below_wide(word: Term, R: Term, words: Term, by: Terms) -> tuple[Term, Term]:
    """Say the same of the wide draw."""
    return word < words - by.divide(words, R)[1], by.divide(word, R)[1]

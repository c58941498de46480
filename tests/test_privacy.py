"""Promises of a gamma at their ends: what no reader may believe, and how often a row is found."""

from __future__ import annotations

from itertools import product
from math import exp, inf, log, prod

import pytest

from ppdm_cli import privacy
from tests.vocabulary import raises


@pytest.mark.parametrize(
    ("gamma", "prior", "after"), [(9, 0.05, 0.45 / 1.4), (9, 1, 1), (9, 0, 0), (1, 0.3, 0.3), (inf, 0.05, 1)]
)
def test_worst_posterior_is_that_of_bayes(gamma: float, prior: float, after: float) -> None:
    assert privacy.worst_posterior(gamma, prior) == pytest.approx(after, abs=1e-12)
    assert privacy.worst_posterior(gamma, 1) == 1


def test_no_finite_epsilon_proves_a_value() -> None:
    assert 0.999 < privacy.worst_posterior(1e300, 0.5) < 1
    for epsilon in (700.0, 1e6):
        assert 0.999 < privacy.believed_after(epsilon, 0.5) < 1
    assert privacy.believed_after(inf, 0.5) == 1
    assert privacy.believed_after(2, 0.05) == privacy.worst_posterior(exp(2), 0.05)
    odds = exp(680) * 1e-295
    assert privacy.believed_after(680, 1e-295) == pytest.approx(odds / (1 + odds))
    assert privacy.epsilon(9) == log(9)


@pytest.mark.parametrize(
    "rhos", [(0, 0.5), (-0.1, 0.5), (0.5, 0.5), (0.5, 0.4), (0.5, 1), (0.5, 1.5), (1, 1.5)]
)
def test_impossible_beliefs_are_refused(rhos: tuple[float, float]) -> None:
    with raises("bad-rhos"):
        privacy.gamma_from_rhos(*rhos)
    assert privacy.gamma_from_rhos(0.05, 0.5) == pytest.approx(19)


@pytest.mark.parametrize(
    ("gamma", "near", "records"),
    [(3.0, [0.3, 0.5], 4), (9.0, [0.1, 0.2, 0.05], 1000), (2.0, [0.5], 1), (5.0, [], 7)],
)
def test_row_is_found_as_often_as_all_outcomes_say(gamma: float, near: list[float], records: int) -> None:
    """Each outcome is near a row in some channels: a row fits it by gamma for each of these."""
    chance: dict[int, float] = {}
    for fits in product((0, 1), repeat=len(near)):
        evenly = prod(s if f else 1 - s for f, s in zip(fits, near, strict=True))
        chance[sum(fits)] = chance.get(sum(fits), 0) + evenly
    scale = prod(1 + (gamma - 1) * s for s in near)
    expected = 1.0
    for least in range(1, len(near) + 1):
        some = min(1.0, records * sum(c for many, c in chance.items() if many >= least))
        expected += (gamma**least - gamma ** (least - 1)) * some
    assert privacy.row_found(gamma, near, records) == pytest.approx(expected / scale / records)

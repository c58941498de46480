"""The bound of RS+FD over whole records (docs/technical/experiments.md), by enumeration of its law."""

from __future__ import annotations

import math

import pytest

from tests.experiments.peers import nominal, rsfd_bound


@pytest.mark.parametrize(("d", "size", "epsilon"), [(2, 2, 1.0), (2, 4, 0.5), (3, 3, 1.0), (3, 2, 2.0)])
def test_a_whole_record_has_more_than_the_nominal_epsilon(d: int, size: int, epsilon: float) -> None:
    sizes = (size,) * d
    assert rsfd_bound(sizes, epsilon) == pytest.approx(math.log(d * (math.exp(epsilon) - 1) + 1), rel=1e-12)
    for h in range(1, d + 1):
        assert rsfd_bound(sizes, epsilon, h) == pytest.approx(
            math.log(1 + h * (math.exp(epsilon) - 1)), rel=1e-12
        )
    assert rsfd_bound(sizes, nominal(epsilon, d)) == pytest.approx(epsilon, rel=1e-12)


def test_unequal_sizes_pass_it_for_one_attribute_alone() -> None:
    assert rsfd_bound((2, 8), 1.0, 1) == pytest.approx(1.18, abs=0.005)
    assert rsfd_bound((2, 8), 1.0) == pytest.approx(math.log(2 * (math.e - 1) + 1), rel=1e-12)

"""The laws of records that show a few attributes: closed forms are what dense matrices give, at no cost."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import numpy as np
import polars as pl
import pytest

from ppdm_cli import attack, estimate, train_tree
from ppdm_cli.channels import Blur, GammaDiagonal, Marginal
from ppdm_cli.errors import PpdmError, UsageError
from ppdm_cli.estimating import Kind, Mixture, Way, check_work
from ppdm_cli.estimating.recipes import Same
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import COLUMN
from tests.perturbing.test_recipes import RELEASE


@pytest.mark.parametrize("width", [0, 1])
@pytest.mark.parametrize("coin", [True, False])
def test_laws_of_kinds_are_what_their_entries_give(width: int, coin: bool) -> None:
    """Products by running sums, and inverses in closed form, against dense matrices."""
    rng, lam = np.random.default_rng(3), 0.4
    first = Blur(6, width, True)
    ways = (Way(first), Way(Blur(4)) if coin else Way(GammaDiagonal(Decimal(3), 4)), Way(Same(2)))
    kind = Kind((0, 1, 2), ways, (0, 0, 0))
    law = Mixture((7, 4, 2), kind, lam)
    told, blind = np.ones((1, 1)), np.ones((1, 1))
    for way in ways:
        told = np.kron(told, way.told)
        blind = np.kron(blind, way.told if way.noise is None else np.tile(way.noise[:, None], way.inputs))
    M = lam * told + (1 - lam) * blind
    np.testing.assert_allclose(law.dense(), M, atol=1e-12)
    X, y = rng.random(M.shape[1]), rng.random(M.shape[0])
    np.testing.assert_allclose(law.forward(X), M @ X, atol=1e-12)
    np.testing.assert_allclose(law.backward(y), M.T @ y, atol=1e-12)
    A = np.stack([law.solve_power(unit, 1) for unit in np.eye(len(y))], axis=1)
    np.testing.assert_allclose(A @ M, np.eye(len(X)), atol=1e-9)
    for power in (2, 3):
        np.testing.assert_allclose(law.solve_power(y, power), A**power @ y, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law.scores(np.stack([X, X**2])), np.stack([A.T @ X, A.T @ X**2]), atol=1e-9)
    np.testing.assert_allclose(law.own_variance(), np.einsum("ih,hi->i", A**2, M), rtol=1e-9)


@pytest.mark.parametrize("sides", [(Blur(5),), (Blur(3, 0, True), Blur(4))])
def test_a_box_that_blurs_nothing_has_closed_forms(sides: tuple[Blur, ...]) -> None:
    law = Marginal(0.3, sides)
    M, rng = law.dense(), np.random.default_rng(1)
    A, y = np.linalg.inv(M), rng.random((len(M), 2))
    assert law.condition_number == pytest.approx(np.linalg.cond(M))
    for power in (1, 2, 3):
        np.testing.assert_allclose(law.solve_power(y, power), A**power @ y, rtol=1e-9)
    np.testing.assert_allclose(law.solve(y), A @ y, rtol=1e-9)
    np.testing.assert_allclose(law.scores(y), A.T @ y, rtol=1e-9)
    np.testing.assert_allclose(law.own_variance(), np.einsum("ih,hi->i", A**2, M), rtol=1e-9)


def test_laws_too_large_to_undo_are_refused_with_their_size() -> None:
    kinds = [Kind((0,), (Way(Blur(2048, width)),), (0,)) for width in range(1, 20)]
    with pytest.raises(UsageError, match=r"estimates of 'a' need \d\.\de\+11 multiplications, more than"):
        check_work(["a"], [kinds])
    check_work(["a"], [[Kind((0,), (Way(Blur(60_000)),), (0,))]] * 4000)
    with pytest.raises(UsageError, match="records show 'a' in 257 ways, more than 256"):
        check_work(["a"], [[Kind((0,), (Way(Blur(3)),), (0,))] * 257])
    check_work(["a"], [kinds[:3]])


def test_an_attribute_that_no_record_shows_takes_part() -> None:
    """Of few records and many recipes some attributes are never shown."""
    sidecar, frame = RELEASE.sidecar, RELEASE.frame
    lacking = [d.number for d in opened(sidecar).recipes if "town" in d.attributes]
    part = frame.filter(~pl.col(COLUMN).is_in(lacking))
    shorter = msgspec.structs.replace(sidecar, records=part.height)
    assert attack(part, sidecar=shorter).rows and train_tree(part, sidecar=shorter).tree.size
    with pytest.raises(PpdmError):
        estimate(frame, sidecar=shorter)

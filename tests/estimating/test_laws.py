"""The laws of strata: closed forms are what dense matrices give, at no cost."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import numpy as np
import polars as pl
import pytest

from ppdm_cli import attack, estimate, train_tree
from ppdm_cli.channels import Blur, GammaDiagonal, Mixture
from ppdm_cli.errors import PpdmError
from ppdm_cli.estimating import StratumLaw, check_work
from ppdm_cli.releases import Exposure, Stratum, Unchanged, opened
from ppdm_cli.sidecar import COLUMN
from tests.perturbing.test_recipe_choice import RELEASE
from tests.vocabulary import raises


@pytest.mark.parametrize("width", [0, 1])
@pytest.mark.parametrize("noisy", [True, False])
def test_the_law_of_a_stratum_is_what_its_entries_give(width: int, noisy: bool) -> None:
    """Products by running sums, and inverses in closed form, against dense matrices."""
    rng, lam = np.random.default_rng(3), 0.4
    first = Blur(6, width, True)
    second = Exposure(Blur(4)) if noisy else Exposure(GammaDiagonal(Decimal(3), 4))
    exposures = (Exposure(first), second, Exposure(Unchanged(2)))
    law = StratumLaw((7, 4, 2), Stratum((0, 1, 2), exposures, (0, 0, 0)), lam)
    own, noise = np.ones((1, 1)), np.ones((1, 1))
    for one in exposures:
        own = np.kron(own, one.matrix)
        noise = np.kron(noise, one.matrix if one.noise is None else np.tile(one.noise[:, None], one.inputs))
    M = lam * own + (1 - lam) * noise
    np.testing.assert_allclose(law.dense(), M, atol=1e-12)
    X, y = rng.random(M.shape[1]), rng.random(M.shape[0])
    np.testing.assert_allclose(law.forward(X), M @ X, atol=1e-12)
    np.testing.assert_allclose(law.backward(y), M.T @ y, atol=1e-12)
    A = law.solve(np.eye(len(y))).T
    np.testing.assert_allclose(A @ M, np.eye(len(X)), atol=1e-9)
    for power in (2, 3):
        np.testing.assert_allclose(law.solve_power(y, power), A**power @ y, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law.scores(np.stack([X, X**2])), np.stack([A.T @ X, A.T @ X**2]), atol=1e-9)
    np.testing.assert_allclose(law.own_variance(), np.einsum("ih,hi->i", A**2, M), rtol=1e-9)


@pytest.mark.parametrize("sides", [(Blur(5),), (Blur(3, 0, True), Blur(4))])
def test_a_box_that_blurs_nothing_has_closed_forms(sides: tuple[Blur, ...]) -> None:
    law = Mixture(0.3, sides)
    M, rng = law.dense(), np.random.default_rng(1)
    A, y = np.linalg.inv(M), rng.random((len(M), 2))
    assert law.condition_number == pytest.approx(np.linalg.cond(M))
    for power in (1, 2, 3):
        np.testing.assert_allclose(law.solve_power(y, power), A**power @ y, rtol=1e-9)
    np.testing.assert_allclose(law.solve(y), A @ y, rtol=1e-9)
    np.testing.assert_allclose(law.scores(y), A.T @ y, rtol=1e-9)
    np.testing.assert_allclose(law.own_variance(), np.einsum("ih,hi->i", A**2, M), rtol=1e-9)


def test_laws_too_large_to_undo_are_refused_with_their_size() -> None:
    def of(*blurs: Blur) -> list[Stratum]:
        return [Stratum((0,), (Exposure(b),), (0,)) for b in blurs]

    wide = of(*(Blur(2048, width) for width in range(1, 20)))
    with raises("laws-too-large") as error:
        check_work(["a"], [wide])
    assert "e+11 multiplications" in str(error.value)
    check_work(["a"], [of(Blur(60_000))] * 4000)
    with raises("too-many-strata"):
        check_work(["a"], [of(Blur(3)) * 257])
    check_work(["a"], [wide[:3]])


def test_an_attribute_that_no_record_reveals_takes_part() -> None:
    """With few records and many recipes some attributes are never revealed."""
    sidecar, frame = RELEASE.sidecar, RELEASE.frame
    lacking = [d.number for d in opened(sidecar).recipes if "town" in d.attributes]
    part = frame.filter(~pl.col(COLUMN).is_in(lacking))
    shorter = msgspec.structs.replace(sidecar, records=part.height)
    assert attack(part, sidecar=shorter).rows and train_tree(part, sidecar=shorter).tree.size
    with pytest.raises(PpdmError):
        estimate(frame, sidecar=shorter)

"""The audit accepts honest releases and catches matrices that lie; its chances are scipy's."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from scipy import stats

from ppdm_cli import perturb
from ppdm_cli.arrays import binomial_p, chi_square_tail, clopper_pearson, wilson
from ppdm_cli.attacks import attack
from ppdm_cli.attacks.audit import LEVEL
from ppdm_cli.sidecar import Sidecar
from tests.vocabulary import raises


def test_the_chances_are_those_of_scipy() -> None:
    for n, p in ((10, 0.3), (1000, 0.02), (100_000, 0.357), (3_000_000, 0.05)):
        for k in {0, 1, int(n * p * 0.98), int(n * p), int(n * p * 1.05) + 1, n}:
            low, high = clopper_pearson(k, n)
            theirs = stats.binomtest(k, n).proportion_ci(method="exact")
            assert (low, high) == pytest.approx((theirs.low, theirs.high), rel=1e-8, abs=1e-12)
            theirs = stats.binomtest(k, n).proportion_ci(method="wilson")
            assert wilson(k, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
            law = stats.binom(n, p)
            tails = min(1.0, 2 * min(law.sf(k - 1), law.cdf(k)))
            assert binomial_p(k, n, p) == pytest.approx(tails, rel=1e-6, abs=1e-300)
    for freedom in (1, 2.5, 19, 361, 10_000, 250_000):
        for away in (-3, 0, 2, 5, 9):
            x = max(freedom + away * (2 * freedom) ** 0.5, 1e-3)
            assert chi_square_tail(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-7)


ROWS = 100_000


def table(rows: int = ROWS, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "wide": rng.gamma(2, 10, rows),
            "band": rng.normal(50, 10, rows),
            "word": rng.choice(list("abcdef"), rows, p=[0.5, 0.3, 0.1, 0.05, 0.04, 0.01]),
            "last": rng.integers(0, 8, rows),
        }
    )


SETTINGS: dict[str, Any] = {
    "wide": {"bins": 60},
    "band": {"bins": 20, "matrix": "band"},
    "last": {"categories": list(range(8))},
}


def honest(seed: int, gamma: float = 5) -> tuple[pl.DataFrame, Sidecar]:
    release = perturb(table(), gamma=gamma, attributes=SETTINGS, seed=seed)
    return release.frame, release.sidecar


def verdicts(frame: Any, sidecar: Sidecar, original: Any = None) -> dict[str, bool]:
    done = attack(frame, sidecar=sidecar, truth=table() if original is None else original, attacks=["audit"])
    return {r.attribute: r.honest for r in done.audit}


def changed(sidecar: Sidecar, name: str, **parts: Any) -> Sidecar:
    attributes = [msgspec.structs.replace(a, **parts) if a.name == name else a for a in sidecar.attributes]
    return msgspec.structs.replace(sidecar, attributes=attributes)


def test_honest_releases_are_accepted_and_prove_their_gamma() -> None:
    """False alarms: 5 releases at 1e-4 each; 100 are in `make papers`. Intervals: 20 of 95 %, 4 may miss."""
    missed = 0
    for seed in range(5):
        frame, sidecar = honest(seed)
        done = attack(frame, sidecar=sidecar, truth=table(), attacks=["audit"])
        assert done.honest and "finds nothing against" in done.sentences[0]
        for row in done.audit:
            missed += not row.gamma_low <= 5 <= row.gamma_high
            assert 4.5 < row.gamma_low < row.gamma < row.gamma_high < 5.5
    assert missed <= 4


def test_an_attribute_left_as_it_was_is_caught() -> None:
    frame, sidecar = honest(1)
    found = verdicts(frame.with_columns(table()["last"]), sidecar)
    assert found == {"wide": True, "band": True, "word": True, "last": False}


@pytest.mark.parametrize("factor", [1.1, 1 / 1.1])
@pytest.mark.parametrize("name", ["wide", "band", "word", "last"])
def test_another_gamma_than_the_declared_is_caught(name: str, factor: float) -> None:
    own = {**SETTINGS, name: {**SETTINGS.get(name, {}), "gamma": round(5 * factor, 4)}}
    release = perturb(table(), gamma=5, attributes=own, seed=3)
    _, declared = honest(3)
    assert verdicts(release.frame, declared)[name] is False


def test_a_domain_that_is_off_by_one_is_caught() -> None:
    frame, sidecar = honest(4)
    # one value more than the matrix drew from
    more = changed(sidecar, "last", categories=list(range(9)), N=9)
    assert verdicts(frame, more)["last"] is False
    # the answers one value up, all within the domain
    wide = {**SETTINGS, "last": {"categories": list(range(9))}}
    declared = perturb(table(), gamma=5, attributes=wide, seed=4).sidecar
    shifted = frame.with_columns((pl.col("last") + 1).alias("last"))
    assert verdicts(shifted, declared)["last"] is False
    # bins that begin one bin later
    edges = sidecar.perturbed[0].edges
    assert isinstance(edges, list)
    moved = changed(sidecar, "wide", edges=[*edges[1:], 2 * edges[-1] - edges[-2]])
    inside = table().with_columns((pl.col("wide") + edges[1] - edges[0]).clip(edges[1], edges[-1]))
    kept = frame.with_columns(pl.col("wide").clip(edges[1], edges[-1]))
    assert verdicts(kept, moved, inside)["wide"] is False


def test_dependence_that_the_number_of_stayers_hides_is_caught() -> None:
    """As many stay as should, but whoever moves goes to the next value."""
    original, rng = table(), np.random.default_rng(2)
    stay = rng.random(ROWS) < 5 / 12
    last = original["last"].to_numpy()
    frame, sidecar = honest(2)
    frame = frame.with_columns(pl.Series("last", np.where(stay, last, (last + 1) % 8)))
    done = attack(frame, sidecar=sidecar, truth=original, attacks=["audit"])
    row = next(r for r in done.audit if r.attribute == "last")
    assert row.stayed_p > LEVEL and not row.honest


def test_rows_that_do_not_pair_are_no_lie_but_said() -> None:
    frame, sidecar = honest(6)
    with raises("rows-do-not-pair"):
        attack(frame.sample(fraction=1, shuffle=True, seed=1), sidecar=sidecar, truth=table())
    kept = perturb(table(2000), gamma=5, keep=["word"], attributes=SETTINGS, seed=1)
    with raises("rows-do-not-pair"):
        attack(kept.frame.sample(fraction=1, shuffle=True, seed=1), sidecar=kept.sidecar, truth=table(2000))


@pytest.mark.parametrize("noise", ["uniform", "normal"])
def test_noise_is_audited_by_its_law(noise: Any) -> None:
    original = table(20_000).select("wide", "band")
    wishes: dict[str, Any] = {"scheme": "additive", "noise": noise, "bins": 20, "seed": 3}
    release = perturb(original, sd="10", **wishes)
    assert all(verdicts(release.frame, release.sidecar, original).values())
    lie = perturb(original, sd="9", **wishes)
    found = verdicts(lie.frame, release.sidecar, original)
    assert not any(found.values())

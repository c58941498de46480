"""Repeated perturbation: the closed form is the matrix's power, and the file does as it says."""

from __future__ import annotations

from decimal import Decimal
from math import log2

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.attacks import attack
from ppdm_cli.attacks.repeat import TIMES
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.channels.matrix import Matrix
from ppdm_cli.tables import base
from tests.chances import LEVEL, binomial


@pytest.mark.parametrize("N", [2, 5, 20, 100])
@pytest.mark.parametrize("gamma", [1.01, 2, 5, 19, 1000])
def test_the_closed_form_is_the_power_and_its_entropy_rises_to_the_maximum(gamma: float, N: int) -> None:
    matrix = GammaDiagonal(Decimal(str(gamma)), N)
    M, found, before = matrix.dense(), matrix.repeated(40), 0.0
    plainly = Matrix.repeated(matrix, 40)  # what a kind without a closed form does
    for ours, theirs in zip(found[:3], plainly[:3], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)
    for t, row in enumerate(found, 1):
        power = np.linalg.matrix_power(M, t)
        column = power[:, 0]
        assert row["staying"] == pytest.approx(column[0], rel=1e-9)
        assert row["gamma"] == pytest.approx(column[0] / column[1], rel=1e-6)
        assert row["entropy"] == pytest.approx(-(column * np.log2(column)).sum(), abs=1e-9)
        # strictly, as long as a double can tell it from the maximum
        assert row["entropy"] > before or row["entropy_max"] - before < 1e-13
        assert row["entropy"] <= row["entropy_max"] + 1e-15
        before = row["entropy"]
    if gamma <= 19:
        assert before == pytest.approx(log2(N), abs=1e-3)


@pytest.mark.parametrize("known", [True, False])
def test_the_file_does_as_the_closed_form_says(known: bool) -> None:
    rng = np.random.default_rng(4)
    original = pl.DataFrame({"a": rng.integers(0, 4, 60_000), "b": rng.gamma(2, 10, 60_000)})
    settings = {"a": {"gamma": 3}, "b": {"gamma": 9, "bins": 12}}
    release = perturb(original, attributes=settings, seed=5)
    rows = attack(
        release.frame, sidecar=release.sidecar, truth=original if known else None, attacks=["repeat"]
    ).repeat
    assert len(rows) == 2 * TIMES
    for row in rows:
        stayed = round(row.stayed * 60_000)
        assert binomial(stayed, 60_000, row.staying) > LEVEL, row
        assert row.entropy_seen == pytest.approx(row.entropy, abs=0.05)
    # and the test has power: t is not t + 1
    wrong = next(r for r in rows if r.t == 1)
    assert binomial(round(wrong.stayed * 60_000), 60_000, rows[1].staying) < LEVEL


def test_what_is_repeated_is_the_same_however_the_table_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    original = pl.DataFrame({"a": np.random.default_rng(4).integers(0, 4, 5_000)})
    release = perturb(original, gamma=3, seed=5)
    whole = attack(release.frame, sidecar=release.sidecar, attacks=["repeat"]).repeat
    monkeypatch.setattr(base, "LEAST_ROWS", 1)
    monkeypatch.setattr(base, "MOST_ROWS", 700)
    assert attack(release.frame, sidecar=release.sidecar, attacks=["repeat"]).repeat == whole


def test_a_band_is_not_repeated_and_that_is_said() -> None:
    original = pl.DataFrame({"x": np.random.default_rng(1).random(2000)})
    release = perturb(original, gamma=3, matrix="band", bins=10, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, attacks=["repeat"])
    assert done.repeat == [] and any("'x' cannot be perturbed again" in r for r in done.remarks)

"""Repeated perturbation: the closed form is the matrix's power, and the file does as it says."""

from __future__ import annotations

from decimal import Decimal
from math import log2

import numpy as np
import pytest

from ppdm_cli.attacks import attack
from ppdm_cli.attacks.repeat import TIMES
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.channels.matrix import Matrix
from ppdm_cli.tables import base
from tests.chances import LEVEL, binomial
from tests.vocabulary import released, table


@pytest.mark.parametrize("N", [2, 5, 100])
@pytest.mark.parametrize("gamma", [1.01, 5, 1000])
def test_the_closed_form_is_the_power_and_its_entropy_rises_to_the_maximum(gamma: float, N: int) -> None:
    matrix = GammaDiagonal(Decimal(str(gamma)), N)
    M, found, before = matrix.dense(), matrix.repeated(40), 0.0
    plainly = Matrix.repeated(matrix, 40)  # what a kind without a closed form does
    for ours, theirs in zip(found[:3], plainly[:3], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)
    for t, row in enumerate(found, 1):
        column = np.linalg.matrix_power(M, t)[:, 0]
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
def test_the_file_does_as_the_closed_form_says(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    original = table(60_000, 4, a=range(4), b=lambda rng, _: rng.gamma(2, 10, 60_000))
    release = released(original, attributes={"a": {"gamma": 3}, "b": {"gamma": 9, "bins": 12}}, seed=5)
    truth = original if known else None
    rows = attack(release.frame, sidecar=release.sidecar, truth=truth, attacks=["repeat"]).repeat
    assert len(rows) == 2 * TIMES
    for row in rows:
        assert binomial(round(row.stayed * 60_000), 60_000, row.staying) > LEVEL, row
        assert row.entropy_seen == pytest.approx(row.entropy, abs=0.05)
    wrong = next(r for r in rows if r.t == 1)
    assert binomial(round(wrong.stayed * 60_000), 60_000, rows[1].staying) < LEVEL, "t is not t + 1"
    monkeypatch.setattr(base, "LEAST_ROWS", 1)
    monkeypatch.setattr(base, "MOST_ROWS", 7_000)
    again = attack(release.frame, sidecar=release.sidecar, truth=truth, attacks=["repeat"]).repeat
    assert again == rows, "however the table is cut"


def test_a_band_is_not_repeated_and_that_is_said() -> None:
    release = released(table(2000, x=(0.0, 1.0)), gamma=3, matrix="band", bins=10)
    done = attack(release.frame, sidecar=release.sidecar, attacks=["repeat"])
    assert done.repeat == [] and any("'x' cannot be perturbed again" in r for r in done.remarks)

"""Latent classes as evidence of the attack by the whole record."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.attacks import attack, whole_record
from ppdm_cli.attacks.latent_classes import LatentClasses
from ppdm_cli.attacks.report import Attacked
from tests.experiments.hard_tables import CLASS, TABLES

SIZES, CLASSES = (3, 2, 4), 2


def shares_of(rng: np.random.Generator, *shape: int) -> np.ndarray:
    drawn = rng.random(shape) + 0.05
    return np.asarray(drawn / drawn.sum(axis=0))


@pytest.mark.parametrize("kept_only", [False, True])
@pytest.mark.parametrize("place", range(3))
def test_likely_sums_over_every_class_and_every_original(place: int, kept_only: bool) -> None:
    """The second column was kept, and the others published through random matrices."""
    rng = np.random.default_rng(place)
    matrices = [np.eye(s) if p == 1 else shares_of(rng, s, s) for p, s in enumerate(SIZES)]
    sizes, laws = shares_of(rng, CLASSES), [shares_of(rng, s, CLASSES) for s in SIZES]
    model = LatentClasses(sizes, tuple(laws), tuple(matrices), (False, True, False))
    published = np.array([*product(*(range(s) for s in SIZES))])
    found = model.likely(place, list(published.T), kept_only)
    others = [p for p in range(3) if p != place and (p == 1 or not kept_only)]
    for codes, row in zip(published, found, strict=True):
        expected = np.zeros(SIZES[place])
        for k, *originals in product(range(CLASSES), *(range(s) for s in SIZES)):
            chance = sizes[k] * np.prod([laws[p][x, k] for p, x in enumerate(originals)])
            seen = np.prod([matrices[p][codes[p], originals[p]] for p in others])
            expected[originals[place]] += chance * seen
        assert row == pytest.approx(expected / expected.sum())


def figures(original: pl.DataFrame, name: str = "record") -> Attacked:
    release = perturb(original, gamma=5, bins="auto", class_=CLASS, keep_order=True, seed=1)
    return attack(release.frame, sidecar=release.sidecar, truth=original, attacks=[name])


def test_record_names_more_of_smooth_attributes_with_latent_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TABLES["digits"](np.random.default_rng(1), 10_000)
    found = figures(original)
    monkeypatch.setattr(whole_record, "FEWEST_COLUMNS", len(original.columns) + 1)
    before = figures(original)
    assert np.mean([r.exact for r in found.rows]) > np.mean([r.exact for r in before.rows]) + 0.003
    assert all(r.largest_posterior <= r.bound + 1e-9 for r in found.rows)


def test_record_guesses_as_posterior_does_where_columns_are_independent() -> None:
    rng = np.random.default_rng(2)
    original = pl.DataFrame(
        {**{f"x{i}": rng.random(8_000) for i in range(6)}, CLASS: rng.integers(3, size=8_000)}
    )
    exact = [[r.exact for r in figures(original, name).rows] for name in ("record", "posterior")]
    assert exact[0] == exact[1]

"""Noise that keeps a tree: its laws, with wrong ones rejected; what is refused; what the sidecar says."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from ppdm_cli import (
    MismatchError,
    PpdmError,
    RefusedError,
    attack,
    estimate,
    inspect,
    perturb,
    reconstruct,
    train_tree,
)
from ppdm_cli.coins import Key
from ppdm_cli.engine import running
from ppdm_cli.perturbing.noise_laws import ClassNoise, Noise, Range, expected_changes
from ppdm_cli.releases import decode
from ppdm_cli.trees import Fitted
from tests.vocabulary import people, raises

CLASS = ["class-random", "class-probabilistic", "class-all-leaves"]
COUNTS = np.array([[206, 6, 0], [50, 20, 30], [0, 0, 40], [1, 34, 0]])
"""By leaf and class; the third leaf is homogeneous, and the second has no small minority."""
LEAF, TRUE = (np.repeat(n, COUNTS.ravel()) for n in np.indices(COUNTS.shape).reshape(2, -1))
ROWS = np.arange(len(LEAF), dtype=np.uint64)
RUNS, ALPHA = 300, 1e-4


def runs(scheme: str, counts: np.ndarray = COUNTS) -> np.ndarray:
    """What is published in each of many runs; a wrong sampler is one for other counts."""
    found = []
    for seed in range(RUNS):
        noise = ClassNoise.of(scheme, counts[None], Key.from_seed(seed), "group")
        found.append(noise(LEAF, TRUE, ROWS, 0))
    return np.array(found)


def is_as_expected(changes: np.ndarray, expected: float) -> bool:
    return bool(stats.ttest_1samp(changes, expected).pvalue > ALPHA)


def test_the_expected_number_of_changes_for_any_number_of_classes() -> None:
    assert expected_changes(np.array([[50, 20, 20, 10]])) == pytest.approx(66)
    m, n = np.array([206, 35.0]), np.array([6, 1.0])
    assert expected_changes(np.stack([m, n], axis=1)) == pytest.approx((2 * m * n / (m + n)).sum())


@pytest.mark.parametrize("scheme", CLASS)
def test_the_law_of_the_class(scheme: str) -> None:
    """Changes have the expected mean; classes of every leaf and true class the stated chances."""
    published, wanted = runs(scheme), expected_changes(COUNTS)
    changes = (published != TRUE).sum(axis=1)
    assert is_as_expected(changes, wanted) and not is_as_expected(changes, 1.05 * wanted), "power against 5 %"
    noise = ClassNoise.of(scheme, COUNTS[None], Key.from_seed(0), "group")
    for leaf in range(4):
        for true in np.unique(TRUE[leaf == LEAF]):
            here = (leaf == LEAF) & (true == TRUE)
            law = noise.law[leaf if scheme != "class-all-leaves" else true]
            seen = np.bincount(published[:, here].ravel(), minlength=3)
            assert not seen[law == 0].any()
            some = law > 0
            if some.sum() > 1 and scheme != "class-random":  # dealt cases depend on each other
                assert stats.chisquare(seen[some], law[some] * seen.sum()).pvalue > ALPHA


def test_random_keeps_the_classes_of_each_leaf_over_partitions() -> None:
    for published in runs("class-random")[:20]:
        assert np.array_equal(np.bincount(LEAF * 3 + published, minlength=12).reshape(4, 3), COUNTS)
    halves = [slice(None, 150), slice(150, None)]
    shape = (4, 3)
    parts = [np.bincount(LEAF[h] * 3 + TRUE[h], minlength=12).reshape(shape) for h in halves]
    noise = ClassNoise.of("class-random", np.stack(parts), Key.from_seed(1), "group")
    together = np.concatenate([noise(LEAF[h], TRUE[h], ROWS[h], i) for i, h in enumerate(halves)])
    assert np.array_equal(np.bincount(LEAF * 3 + together, minlength=12).reshape(shape), COUNTS)


def test_a_published_class_is_wrong_as_often_as_the_report_says() -> None:
    for scheme in CLASS:
        published = runs(scheme)
        wrong = ClassNoise.of(scheme, COUNTS[None], Key.from_seed(0), "group").wrong()
        for leaf, class_ in ((0, 1), (1, 0), (1, 2)):
            of = (published == class_) & (leaf == LEAF)
            share = float(((published != TRUE) & of).sum() / of.sum())
            assert share == pytest.approx(wrong[leaf, class_], abs=6 / np.sqrt(of.sum()) + 1e-9)


# -- innocent attributes


def noisy(values: Any, noise: Noise, seed: int = 1) -> np.ndarray:
    array = pa.array(values)
    rows = np.ones(len(array), bool)
    key = Key.from_seed(seed).derive("innocent")
    return np.array(noise.published(array, rows, key, np.arange(len(array), dtype=np.uint64)).to_pylist())


def test_continuous_noise_is_normal() -> None:
    values = np.random.default_rng(1).normal(50, 3, 20_000)
    noise = Noise(0.276, True, Range.of(pa.array(values)))
    away = (noisy(values, noise) - values) / (0.276 * np.abs(values))
    assert noise.step == 0
    assert stats.kstest(away, "norm").pvalue > ALPHA > stats.kstest(1.05 * away, "norm").pvalue


@pytest.mark.parametrize("value", [1, 3, 10])
def test_whole_numbers_are_drawn_again_inside_their_domain(value: int) -> None:
    """The law is that of redrawing: a rounded normal, cut to what occurs and scaled."""
    column = np.full(30_000, value)
    noise = Noise(0.5, False, Range(2, 5.5, 2 * 3.0**2, 1, 10))  # sd 3, so 1.5 of noise
    seen = np.bincount(noisy(column, noise), minlength=11)[1:]
    ends = np.arange(0.5, 11)
    wanted = np.diff(stats.norm.cdf(ends, value, 1.5))
    wrong = np.diff(stats.norm.cdf(ends, value, 1.5 * 1.05))
    chances = np.exp(noise.likelihood(float(value), np.arange(1.0, 11)))
    assert np.allclose(chances, wanted / wanted.sum())
    some = wanted / wanted.sum() * seen.sum() > 5
    for law, fits in ((wanted, True), (wrong, False)):
        law = law[some] / law[some].sum()
        assert (stats.chisquare(seen[some], law * seen[some].sum()).pvalue > ALPHA) == fits


def test_decimals_nulls_and_infinities_stay() -> None:
    values = [1.25, 3.5, None, float("inf"), 0.0, 100.75] * 50
    found = noisy(values, Noise(0.276, True, Range.of(pa.array(values))))
    stays = [v in (None, float("inf"), 0.0) for v in values]
    for before, after, stay in zip(values, found, stays, strict=True):
        assert after == before if stay else round(after, 2) == after
    assert sum(a != b for a, b in zip(values, found, strict=True)) > 0.9 * stays.count(False)
    whole = noisy(np.array([5, 6, 7], np.uint8), Noise(50, True, Range.of(pa.array([5, 6, 7]))))
    assert set(whole) <= {5, 6, 7}


def test_ranges_merge_to_those_of_the_whole() -> None:
    values = np.round(np.random.default_rng(2).normal(3, 2, 100), 3)
    whole, parts = Range.of(pa.array(values)), [Range.of(pa.array(v)) for v in np.split(values, [1, 40])]
    merged = parts[0] + Range() + parts[1] + parts[2]
    assert (merged.n, merged.low, merged.high, merged.decimals) == (100, values.min(), values.max(), 3)
    assert merged.squares == pytest.approx(whole.squares) and merged.mean == pytest.approx(whole.mean)


# -- whole releases


@pytest.fixture(scope="module")
def original() -> pl.DataFrame:
    frame = people(3000)
    rng = np.random.default_rng(5)
    of = np.where(frame["age"] > 50, "old", np.where(frame["income"] > 40_000, "rich", "young"))
    other = rng.choice(["old", "rich", "young"], frame.height)
    label = np.where(rng.random(frame.height) < 0.1, other, of)
    holes = pl.when(pl.Series(rng.random(frame.height) > 0.05)).then(pl.col("age"))
    return frame.with_columns(holes, group=pl.Series(label.tolist()))


@pytest.fixture(scope="module")
def trained(original: pl.DataFrame) -> Fitted:
    return train_tree(original, "group", min_records=20)


@pytest.mark.parametrize("scheme", [*CLASS, "innocent", "class-random,innocent"])
def test_a_release_is_altered_where_it_says(scheme: str, original: pl.DataFrame, trained: Fitted) -> None:
    done = perturb(original, scheme=scheme, tree=trained, seed=3)
    with running(threads=1):
        again = perturb(original, scheme=scheme, tree=trained, seed=3)
    assert done.frame.equals(again.frame) and done.frame.schema == original.schema
    altered = {a.name for a in done.sidecar.altered}
    assert altered == {n for n in original.columns if not done.frame[n].equals(original[n], null_equal=True)}
    assert ("group" in altered) == scheme.startswith("class") and not altered & {"region", "member"}
    assert done.frame["age"].null_count() == original["age"].null_count()
    sidecar = decode(done.sidecar.encode(), "here")
    assert sidecar.privacy.perturbed_gamma is None and sidecar.scheme == scheme.split(",")
    assert set(sidecar.privacy.kept) == {*original.columns} - altered and not sidecar.recipes
    assert any("promises no gamma" in s for s in inspect(sidecar).sentences)
    found = done.noise.figures()
    changed = int((done.frame["group"] != original["group"]).sum())
    assert (found["actual_changes"] or 0) == changed and sum(
        leaf["records"] for leaf in found["leaves"]
    ) == 3000
    if scheme.startswith("class-random"):
        assert done.frame["group"].value_counts(sort=True).equals(original["group"].value_counts(sort=True))
    taught = train_tree(done.frame, sidecar=done.sidecar)
    assert taught.tree.class_name == "group", "its values are learnt from as they are"


def test_only_what_a_leaf_does_not_need_is_altered(original: pl.DataFrame, trained: Fitted) -> None:
    tested = {trained.tree.features[f].name for f in trained.tree.feature if f >= 0}
    given = {"tree": trained, "seed": 3, "scheme": "innocent"}
    for which in ("tia", "lia"):
        done = perturb(original, innocent=which, percent_of="sd", **given)
        altered = {a.name for a in done.sidecar.altered}
        assert altered == ({"since"} if which == "tia" else {"income"}), "dates have noise of their own spread"
        assert (altered <= tested) == (which == "lia")
    with pytest.raises(RefusedError, match="innocent"):
        perturb(original, innocent="tia", **given)
    some = perturb(original, leaves="heterogeneous", **given).noise
    assert some.intruder is not None and 0 < some.intruder.truth < 1 and some.intruder.bits > 0


@pytest.mark.parametrize(
    ("settings", "id"),
    [
        ({"tree": None}, "no-tree"),
        ({"scheme": "class-random,class-all-leaves"}, "schemes-not-together"),
        ({"gamma": 9}, "not-for-tree-noise"),
        ({"innocent": "tia"}, "innocent-noise-alone"),
        ({"drop": "age"}, "tree-needs-column"),
        ({"keep": "group"}, "altered-class-kept"),
        ({"scheme": "innocent", "keep": "member", "drop": "member"}, "kept-and-dropped"),
        ({"scheme": "innocent", "sd_percent": 0}, "bad-sd-percent"),
        ({"scheme": None, "gamma": 9}, "tree-noise-setting-alone"),
        ({"copies": 2}, "tree-noise-again"),
    ],
)
def test_what_cannot_be_is_refused(
    settings: dict[str, Any], id: str, original: pl.DataFrame, trained: Fitted
) -> None:
    with raises(id):
        perturb(original, **{"scheme": "class-random", "tree": trained} | settings)


def test_a_tree_of_other_records_is_refused(original: pl.DataFrame, trained: Fitted) -> None:
    with raises("tree-of-other-data", MismatchError):
        perturb(original.tail(-1), scheme="class-random", tree=trained)
    with raises("strange-to-tree"):
        perturb(original.with_columns(name=pl.lit("x")), scheme="class-random", tree=trained)
    with raises("pure-leaves"):
        ClassNoise.of("class-random", np.array([[[5, 0], [0, 5]]]), Key.from_seed(0), "group")
    ordered = original.sort("income")
    with raises("order-reveals"):
        perturb(ordered, scheme="innocent", tree=trained)
    assert perturb(ordered, scheme="innocent", tree=trained, shuffle=True).shuffled


def test_its_release_is_used_as_it_is(original: pl.DataFrame, trained: Fitted) -> None:
    release = perturb(original, scheme="class-random", tree=trained)
    for function in (attack, estimate, reconstruct):
        with pytest.raises(RefusedError):
            function(release.frame, sidecar=release.sidecar)
    with pytest.raises(PpdmError):
        perturb(original, like=release.sidecar)

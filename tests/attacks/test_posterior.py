"""`posterior` and `record` against Bayes' rule written out, and against the bound that gamma promises."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.attacks import attack
from ppdm_cli.attacks.posterior import answers
from ppdm_cli.channels import Channel
from ppdm_cli.channels.band import Band
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.joint import Forest, JointTable
from ppdm_cli.joint.forest import Branch
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar
from tests.attacks.attacked import attacked

SHAPES: dict[str, dict[str, Any]] = {
    "bins": {"domain": [0, 60], "bins": 6},
    "a band": {"domain": [0, 60], "bins": 6, "matrix": "band"},
    "numbers": {"categories": list(range(0, 60, 10))},
}


def released(settings: dict[str, Any], gamma: float = 3, nulls: bool = False) -> Sidecar:
    values = pl.DataFrame({"x": list(range(0, 60, 10))})
    return perturb(values, gamma=gamma, attributes={"x": {**settings, "nulls": nulls}}, seed=1).sidecar


def attribute(settings: dict[str, Any], **wishes: Any) -> Channel:
    return opened(released(settings, **wishes)).channels[0]


PRIORS = ([1, 1, 1, 1, 1, 1], [8, 1, 0, 0, 2, 1], [0, 0, 0, 0, 1, 9], [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("shares", PRIORS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gamma", [1.5, 3, 9])
def test_the_posterior_is_bayes_rule(shape: str, gamma: float, shares: list[int]) -> None:
    prior = np.array(shares) / sum(shares)
    target = attacked(attribute(SHAPES[shape], gamma=gamma), prior)
    found = answers(target)
    M, u = target.matrix.dense(), target.values
    exact = near = error = largest = 0.0
    for h in range(M.shape[0]):
        chance = sum(M[h, k] * prior[k] for k in range(6))
        belief = [M[h, k] * prior[k] / chance for k in range(6)]
        around = [sum(belief[max(k - 1, 0) : k + 2]) for k in range(6)]
        mean = sum(b * v for b, v in zip(belief, u, strict=True))
        exact += chance * max(belief)
        near += chance * max(around)
        error += chance * sum(b * (v - mean) ** 2 for b, v in zip(belief, u, strict=True))
        largest = max(largest, *belief)
        assert belief[found.guess.exact[h]] == pytest.approx(max(belief))
        assert around[found.guess.near[h]] == pytest.approx(max(around))
        assert found.guess.value[h] == pytest.approx(mean)
        for k in range(6):
            assert belief[k] <= worst_posterior(gamma, prior[k]) + 1e-12
    assert (found.exact, found.near, found.error) == pytest.approx((exact, near, error))
    assert found.largest == pytest.approx(largest)
    assert found.largest <= found.bound(found.target.gamma) + 1e-12


def test_the_bound_is_reached_by_a_gamma_diagonal_and_by_a_band_whose_others_are_far() -> None:
    diagonal = answers(attacked(attribute(SHAPES["bins"], gamma=5), np.array([0.3, 0.2, 0.1, 0.1, 0.2, 0.1])))
    assert diagonal.largest == pytest.approx(diagonal.bound(diagonal.target.gamma))
    assert diagonal.bound(diagonal.target.gamma) == pytest.approx(5 * 0.3 / (5 * 0.3 + 0.7))
    band = attribute(SHAPES["a band"], gamma=3)
    assert isinstance(band.matrix, Band)
    far = answers(attacked(band, np.array([0.4, 0, 0, 0, 0, 0.6])))
    assert far.largest == pytest.approx(far.bound(far.target.gamma))
    even = answers(attacked(band, np.full(6, 1 / 6)))
    assert even.largest == pytest.approx(
        even.bound(even.target.gamma)
    )  # the outermost answers come from one value alone
    close = answers(attacked(band, np.array([0, 0, 0.5, 0.5, 0, 0])))
    assert close.largest == pytest.approx(close.bound(close.target.gamma))
    middle = answers(attacked(band, np.array([0, 0.01, 0.98, 0.01, 0, 0])))
    assert middle.largest < middle.bound(middle.target.gamma) - 1e-4


def test_null_is_a_value_of_its_own_and_no_number() -> None:
    own = attribute(SHAPES["bins"], gamma=3, nulls=True)
    assert own.domain.nulls and own.domain.size == 7
    found = answers(attacked(own, np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4])))
    assert found.guess.exact[6] == 6 and found.guess.near[6] == 6
    u = np.arange(4.5, 60, 10)  # bins of whole numbers: 0 to 9, ..., 50 to 59, and 60
    u[-1] = 55
    assert found.guess.value[6] == pytest.approx(u.mean())  # those who are no null are spread evenly
    assert found.error < u.var()


# -- the whole record


def matrices() -> tuple[Any, ...]:
    kinds = (GammaDiagonal(Decimal(3), 3), Band.of(Decimal(2), 4, 1), GammaDiagonal(Decimal("1.5"), 2))
    return tuple(k.dense() for k in kinds)


def brute_force(joint: np.ndarray, published: tuple[int, ...], place: int) -> np.ndarray:
    """The posterior of one attribute, over all combinations of originals."""
    M, belief = matrices(), np.zeros(joint.shape[place])
    for originals in product(*(range(s) for s in joint.shape)):
        chance = joint[originals]
        for matrix, x, y in zip(M, originals, published, strict=True):
            chance = chance * matrix[y, x]
        belief[originals[place]] += chance
    return belief / belief.sum()


def every_record() -> tuple[list[np.ndarray], np.ndarray]:
    grid = np.array(list(product(range(2), *(range(len(m)) for m in matrices()))), np.uint8)
    return list(grid[:, 1:].T), grid[:, 0]


def test_a_record_by_a_joint_table_is_bayes_rule() -> None:
    rng = np.random.default_rng(3)
    table = rng.dirichlet(np.full(24, 0.5), 2).reshape(2, 3, 4, 2)
    model = JointTable((0, 1, 2), matrices(), table)
    codes, labels = every_record()
    found = model.marginals(codes, labels)
    for row, label in enumerate(labels):
        published = tuple(int(c[row]) for c in codes)
        for place in range(3):
            belief = found[place][row] / found[place][row].sum()
            assert belief == pytest.approx(brute_force(table[label], published, place))


@pytest.mark.parametrize("parents", [(-1, 0, 1), (-1, 0, 0), (-1, -1, 1), (1, -1, 1), (-1, -1, -1)])
def test_a_record_by_a_forest_is_bayes_rule(parents: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(5)
    sizes = [3, 4, 2]
    order = sorted(range(3), key=lambda p: (parents[p] >= 0, parents[p] != -1 and parents[parents[p]] >= 0))
    classes = []
    for _ in range(2):
        branches = []
        for place in order:
            rows = 1 if parents[place] < 0 else sizes[parents[place]]
            branches.append(Branch(place, parents[place], rng.dirichlet(np.ones(sizes[place]), rows)))
        classes.append(tuple(branches))
    model = Forest(matrices(), tuple(classes))
    joints = []
    for branches in classes:
        joint = np.ones(sizes)
        for originals in product(*map(range, sizes)):
            for b in branches:
                joint[originals] *= b.chances[originals[b.parent] if b.parent >= 0 else 0, originals[b.place]]
        joints.append(joint)
    codes, labels = every_record()
    found = model.marginals(codes, labels)
    for row, label in enumerate(labels):
        published = tuple(int(c[row]) for c in codes)
        for place in range(3):
            belief = found[place][row] / found[place][row].sum()
            assert belief == pytest.approx(brute_force(joints[label], published, place))


def correlated(records: int, seed: int) -> pl.DataFrame:
    """Two attributes that follow a third, and a class that follows one."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, records)
    b = np.where(rng.random(records) < 0.8, a, rng.integers(0, 6, records))
    return pl.DataFrame({"a": a, "b": b, "label": np.where(a + rng.integers(0, 2, records) < 3, "x", "y")})


def test_the_whole_record_tells_more_and_as_much_as_was_expected() -> None:
    original = correlated(40_000, 1)
    release = perturb(original, gamma=5, keep=["label"], class_="label", seed=2)
    asked = ("posterior", "record")
    measured = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=asked)
    expected = attack(release.frame, sidecar=release.sidecar, attacks=asked)
    by = {(r.attack, r.attribute): r for r in measured.rows}
    for name in "ab":
        assert by["record", name].exact > by["posterior", name].exact + 0.05
        assert by["record", name].largest_posterior <= by["record", name].bound
    for ours, theirs in zip(measured.rows, expected.rows, strict=True):
        assert (ours.attack, ours.attribute) == (theirs.attack, theirs.attribute)
        assert theirs.exact == pytest.approx(ours.exact, abs=0.02)
        assert theirs.near == pytest.approx(ours.near, abs=0.02)
        # a model learnt by EM that ends early is less sure than it might be
        slack = 0.1 if ours.attack == "record" else 0.03
        assert theirs.rmse == pytest.approx(ours.rmse, rel=slack)
        assert theirs.exact_prior == pytest.approx(ours.exact_prior, abs=0.02)


def test_a_kept_class_is_weighed(tmp_path: Path) -> None:
    original = correlated(20_000, 3)
    release = perturb(original, gamma=2, keep=["label"], class_="label", seed=2)
    told = attack(release.frame, sidecar=release.sidecar, attacks=["posterior"]).kept
    a = next(k for k in told if k.attribute == "a")
    true = [original.filter(pl.col("label") == c)["a"].value_counts()["count"].max() for c in "xy"]
    assert a.exact_class == pytest.approx(sum(true) / 20_000, abs=0.03)  # type: ignore[type-var]
    assert a.exact_prior < a.exact_answer < a.exact_both and a.exact_class < a.exact_both


def test_fresh_coins_multiply_and_a_key_file_stops_that(tmp_path: Path) -> None:
    """k releases of the same people at gamma tell as one at gamma^k; with key and id as one at gamma."""
    k, gamma, N, records = 4, 3, 5, 20_000
    rng = np.random.default_rng(8)
    original = pl.DataFrame({"id": np.arange(records), "x": rng.integers(0, N, records)})
    M = GammaDiagonal(Decimal(gamma), N).dense()

    def recovered(frames: list[Any]) -> tuple[float, float]:
        """The share of right guesses from all answers together, and the largest posterior."""
        belief = np.ones((records, N))
        for frame in frames:
            belief *= M[frame["x"].to_numpy()]
        belief /= belief.sum(axis=1, keepdims=True)
        return float((belief.argmax(axis=1) == original["x"].to_numpy()).mean()), float(belief.max())

    domains: dict[str, Any] = {"x": {"categories": list(range(N))}}
    fresh = [perturb(original.drop("id"), gamma=gamma, seed=s, attributes=domains).frame for s in range(k)]
    wishes: dict[str, Any] = {"gamma": gamma, "attributes": domains, "key_file": tmp_path / "key", "id": "id"}
    keyed = [perturb(original, **wishes).frame for _ in range(k)]
    one, largest = recovered(fresh[:1])
    assert largest == pytest.approx(worst_posterior(gamma, 1 / N))
    together, largest = recovered(fresh)
    assert largest == pytest.approx(worst_posterior(gamma**k, 1 / N))
    exact = sum(np.prod([M[h] for h in answers_], axis=0).max() / N for answers_ in product(range(N), repeat=k))
    assert together == pytest.approx(exact, abs=0.02) and together > one + 0.1
    assert all(frame.equals(keyed[0]) for frame in keyed)
    assert recovered(keyed[:1])[0] == pytest.approx(gamma / (gamma + N - 1), abs=0.02)

"""The joint model on domains so small that everything can be enumerated.

Its steps are held against dense Kronecker products, its likelihoods and draws against sums over all
original records. Draws are tested by chi-square at level `LEVEL` with fixed seeds; draws from a
model made slightly wrong are rejected by the same test.
"""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import perturb, train_tree
from ppdm_cli.channels.band import Band
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.estimating import Part, Steps, forward, shares
from ppdm_cli.joint import MOST_CHANNELS, Forest, JointTable, Model, joint_table, marginals, read
from ppdm_cli.joint.attribute_search import STOP, class_likelihood, steps_of
from ppdm_cli.joint.forest import Branch, learn_forests
from ppdm_cli.joint.joint_table import picked
from ppdm_cli.joint.marginals import learn_marginals
from ppdm_cli.releases import axis_of, open_release, open_releases
from ppdm_cli.trees.from_release import label_of
from tests.chances import LEVEL, chi_square
from tests.vocabulary import people

GAMMA = Decimal(3)
MATRICES = [
    Band.of(GAMMA, 3, 1, True).dense(),  # null is the last of 4 codes
    GammaDiagonal(GAMMA, 2).dense(),
    Band.of(Decimal(2), 3, 1, False).dense(),
]
INPUTS = tuple(m.shape[1] for m in MATRICES)
OUTPUTS = tuple(len(m) for m in MATRICES)
CLASSES = 3
CELLS = list(product(*(range(n) for n in INPUTS)))
RECORDS = np.array(list(product(*(range(n) for n in OUTPUTS)))).T


def table(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).gamma(0.5, size=(CLASSES, *INPUTS))
    return np.asarray(shares(drawn))


def forest(seed: int, strength: float = 1.0) -> Forest:
    """For each class another shape: a chain, a star, and one that falls into two parts."""
    rng = np.random.default_rng(seed)
    parents = [{0: -1, 1: 0, 2: 1}, {2: -1, 0: 2, 1: 2}, {1: -1, 0: 1, 2: -1}]

    def chances(place: int, parent: int) -> np.ndarray:
        drawn = rng.gamma(strength, size=(1 if parent < 0 else INPUTS[parent], INPUTS[place]))
        return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))

    classes = [tuple(Branch(p, q, chances(p, q)) for p, q in of.items()) for of in parents]
    return Forest(tuple(MATRICES), tuple(classes))


def enumerated(model: JointTable | Forest) -> np.ndarray:
    """p(cell | class), (classes, cells), by the definition of either model."""
    found = np.ones((CLASSES, len(CELLS)))
    for c, (i, cell) in product(range(CLASSES), enumerate(CELLS)):
        if isinstance(model, JointTable):
            found[c, i] = model.table[(c, *cell)]
            continue
        for b in model.classes[c]:
            found[c, i] *= b.chances[cell[b.parent] if b.parent >= 0 else 0, cell[b.place]]
    return found


def said(record: np.ndarray) -> np.ndarray:
    """p(published record | cell)"""
    return np.array([np.prod([m[h, k] for m, h, k in zip(MATRICES, record, c, strict=True)]) for c in CELLS])


def models(seed: int) -> list[JointTable | Forest]:
    return [JointTable((0, 1, 2), tuple(MATRICES), table(seed)), forest(seed)]


def test_a_step_is_that_of_the_dense_em_and_the_likelihood_never_falls() -> None:
    dense = reduce(np.kron, MATRICES)
    rng = np.random.default_rng(4)
    observed = rng.poisson(3000 * forward(table(4), MATRICES)).astype(float)
    steps, found = Steps(Part(MATRICES, shares(observed))), shares(np.ones((CLASSES, *INPUTS)))
    y = shares(observed).reshape(CLASSES, -1)
    x, before = found.reshape(CLASSES, -1), -np.inf
    for _ in range(60):
        found = steps(found, 1)
        x = x * ((y / (x @ dense.T)) @ dense)
        np.testing.assert_allclose(found.reshape(CLASSES, -1), x, atol=1e-5)
        now = float((y * np.log(x @ dense.T)).sum())
        assert now >= before - 1e-12
        before = now
    np.testing.assert_allclose(found.reshape(CLASSES, -1).sum(axis=1), 1, atol=1e-4)


def test_a_class_without_records_keeps_its_table() -> None:
    observed = np.ones((2, *OUTPUTS))
    observed[1] = 0
    start = table(5)[:2].astype(np.float32)
    found = Steps(Part(MATRICES, shares(observed)))(start, 20)
    np.testing.assert_allclose(found[1], start[1], rtol=1e-4)
    assert np.abs(found[0] - start[0]).max() > 0.01


def test_stopping_keeps_the_best_table() -> None:
    """Learnt from few records and judged by many, EM must end before it has learnt the noise."""
    rng = np.random.default_rng(6)
    law = forward(table(6), MATRICES)
    judge = class_likelihood([1000 * law[None]])
    steps = Steps(Part(MATRICES, shares(rng.poisson(30 * law).astype(float))[None]))
    start, only = np.asarray(shares(np.ones((CLASSES, *INPUTS))))[None], np.zeros(1, int)
    fit = steps.stopped(start, judge, STOP)
    assert 5 <= fit.steps < 400 and fit.scores > judge(steps.expected(steps(start, 400)), only)
    assert fit.scores == pytest.approx(judge(steps.expected(fit.table), only), abs=1e-6)


def test_each_entry_stops_by_itself() -> None:
    """Two problems at once, with matrices of their own, give what each gives alone."""
    rng = np.random.default_rng(7)
    laws = [forward(np.asarray(shares(rng.gamma(0.5, size=(1, *INPUTS[:2])))), MATRICES[:2]) for _ in range(2)]
    held, seen = (rng.poisson(m * np.concatenate(laws)).astype(float) for m in (300, 100))
    start = np.full((2, *INPUTS[:2]), 1 / np.prod(INPUTS[:2]))

    def fitted(which: list[int]) -> Any:
        def judge(expected: list[np.ndarray], some: np.ndarray) -> np.ndarray:
            logs = np.log(np.maximum(expected[0], 1e-30))
            return np.asarray((held[which][some] * logs).sum(axis=(1, 2), dtype=np.float64))[:, None]

        stacked = [np.stack([m] * len(which)) for m in MATRICES[:2]]
        return Steps(Part(stacked, shares(seen[which]))).stopped(start[which], judge, STOP)

    both, alone = fitted([0, 1]), [fitted([i]) for i in (0, 1)]
    assert both.steps[0] != both.steps[1], "else nothing is tested"
    for i, one in enumerate(alone):
        assert one.steps[0] == both.steps[i]
        np.testing.assert_allclose(both.table[i], one.table[0], rtol=1e-4)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("which", [0, 1])
def test_likelihoods_are_sums_over_all_cells(which: int, seed: int) -> None:
    model = models(seed)[which]
    law = enumerated(model)
    wanted = np.array([law @ said(r) for r in RECORDS.T])
    found = model.likelihood(list(RECORDS))
    np.testing.assert_allclose(shares(found), shares(wanted), rtol=1e-6)


LABEL = GammaDiagonal(Decimal(2), CLASSES).dense()
PRIORS = np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize("which", [0, 1])
def test_a_perturbed_label_is_evidence_like_any_other(which: int) -> None:
    """Chances, scores and marginals of a model against Bayes' rule over all classes and cells."""
    model = Model(LABEL, PRIORS, models(9)[which])
    law = enumerated(model.within)
    codes, labels = list(np.repeat(RECORDS, CLASSES, axis=1)), np.tile(np.arange(CLASSES), RECORDS.shape[1])
    chances, marginals = (f(codes, labels) for f in (model.chances, model.marginals))
    scores = model.scores(model.likelihoods(codes), labels)
    for row in range(0, len(labels), 7):
        both = PRIORS[:, None] * law * said(np.array([c[row] for c in codes]))
        shown = both * LABEL[labels[row]][:, None]
        np.testing.assert_allclose(chances[row], shown.sum(axis=1) / shown.sum(), rtol=1e-6)
        assert scores[row] == pytest.approx(np.log(shown.sum() / both.sum()), rel=1e-6)
        for place in range(3):
            own = np.bincount([c[place] for c in CELLS], shown.sum(axis=0), INPUTS[place])
            np.testing.assert_allclose(marginals[place][row], own / own.sum(), rtol=1e-6, atol=1e-12)


def test_naive_bayes_deals_in_the_order_of_the_published_values() -> None:
    """Its draws have the attribute's own distribution, and never cross: more is published, no less is drawn."""
    own = np.array([0.1, 0.4, 0.2, 0.3])
    branch = Branch(0, -1, own[None])
    model = Forest((MATRICES[0],), ((branch,),), dealt=True)
    rng = np.random.default_rng(11)
    published = rng.choice(len(MATRICES[0]), 40_000, p=MATRICES[0] @ own)
    drawn = model.draw([published], np.zeros(40_000, int), lambda _, rows: rng.random(len(rows)))[0]
    assert chi_square(np.bincount(drawn, minlength=4), own) > LEVEL
    largest = [drawn[published == h].max() for h in range(len(MATRICES[0]))]
    least = [drawn[published == h].min() for h in range(len(MATRICES[0]))]
    assert all(a <= b for a, b in zip(largest, least[1:], strict=False))


def slightly_wrong(model: JointTable | Forest, other: JointTable | Forest) -> JointTable | Forest:
    """With 15 % of another model's chances."""
    if isinstance(model, JointTable):
        assert isinstance(other, JointTable)
        return JointTable(model.places, model.matrices, 0.85 * model.table + 0.15 * other.table)
    assert isinstance(other, Forest)
    classes = [
        tuple(Branch(a.place, a.parent, 0.85 * a.chances + 0.15 * b.chances) for a, b in zip(*c, strict=True))
        for c in zip(model.classes, other.classes, strict=True)
    ]
    return Forest(model.matrices, tuple(classes))


def drawn_p_value(model: JointTable | Forest, truth: JointTable | Forest, record: np.ndarray, c: int) -> float:
    """Of draws from a model's posterior, against the posterior of the truth by enumeration."""
    n = 40_000
    rng = np.random.default_rng(7)
    codes = [np.full(n, v) for v in record]
    drawn = model.draw(codes, np.full(n, c, np.uint8), lambda _, rows: rng.random(len(rows)))
    counts = np.bincount(np.ravel_multi_index(drawn, INPUTS), minlength=len(CELLS))
    law = enumerated(truth)[c] * said(record)
    law /= law.sum()
    order = np.argsort(law)
    least = int(np.searchsorted(np.cumsum(law[order]), 10 / n))  # the rarest cells are taken together
    starts = [0, *(i for i in range(least + 1, len(order)) if law[order[i]] * n >= 10)]
    return chi_square(np.add.reduceat(counts[order], starts), np.add.reduceat(law[order], starts))


@pytest.mark.parametrize("which", [0, 1])
def test_draws_follow_the_posterior_and_a_wrong_model_is_rejected(which: int) -> None:
    model = models(3)[which]
    tested = RECORDS.T[:: len(RECORDS.T) // 6]
    for c, record in product(range(CLASSES), tested):
        assert drawn_p_value(model, model, record, c) > LEVEL
    wrong = slightly_wrong(model, models(4)[which])
    rejected = [drawn_p_value(wrong, model, r, c) < LEVEL for c, r in product(range(CLASSES), tested)]
    assert np.mean(rejected) > 0.5


def test_records_of_a_forest_follow_its_law() -> None:
    model = forest(5, strength=3.0)
    for c in range(CLASSES):
        drawn = model.sampled(c, 40_000, np.random.default_rng(8))
        counts = np.bincount(np.ravel_multi_index(drawn, INPUTS), minlength=len(CELLS))
        law = enumerated(model)
        fits = [chi_square(counts[p * 40_000 >= 5], p[p * 40_000 >= 5]) for p in law]
        assert fits[c] > LEVEL and max(np.delete(fits, c)) < LEVEL


def test_picking_is_in_proportion_and_never_picks_nothing() -> None:
    weights = np.tile([0.0, 2.0, 0.0, 1.0], (30_000, 1))
    counts = np.bincount(picked(weights, np.random.default_rng(9).random(30_000)), minlength=4)
    assert counts[0] == counts[2] == 0
    assert chi_square(counts[[1, 3]], np.array([2.0, 1.0])) > LEVEL


@pytest.mark.parametrize("keep", [[], ["group"], ["region"]])
def test_attributes_of_one_matrix_are_learnt_at_once_each_as_alone(keep: list[str], monkeypatch: Any) -> None:
    """One by one, two thousand columns took minutes."""
    frame = people(400).select("region", "member", "group").with_columns(other=pl.col("region").reverse())
    release = perturb(frame, gamma=9, keep=keep, class_="group", seed=1)
    table, sidecar = open_release(release.frame, release.sidecar)
    sample = read(table, sidecar, label_of(sidecar, None))
    calls: list[int] = []
    monkeypatch.setattr(
        marginals, "steps_of", lambda s, counts: calls.append(len(counts[0][0])) or steps_of(s, counts)
    )
    found = learn_marginals(sample)
    matrices = {(m.shape, m.tobytes()) for m in sample.matrices}
    assert len(calls) == len(matrices) and sum(calls) == 5 * len(sample.matrices)
    for place in range(len(sample.channels)):
        alone = sample.only([place])
        for steps, after in zip(found, learn_marginals(alone), strict=True):
            assert all(np.array_equal(steps[out][place], after[out][0]) for out in steps)


def test_a_spike_is_no_dependence() -> None:
    """Of an attribute with 95 % at one of 30 values few steps are far from its shares: that makes no edge."""
    rng = np.random.default_rng(8)
    spike = np.where(rng.random(20_000) < 0.95, 17, rng.integers(0, 30, 20_000))
    columns = {f"x{i}": rng.integers(0, 4, 20_000) for i in range(3)}
    data = pl.DataFrame(
        {**columns, "spike": spike.astype(str), "y": np.where(rng.random(20_000) < 0.4, "a", "b")}
    )
    release = perturb(data, gamma=2, class_="y", keep=["y"], rare="publish", keep_order=True, seed=8)
    table, said = open_release(release.frame, release.sidecar)
    sample = read(table, said, axis_of(said, "y"))
    forest, _ = learn_forests(sample, range(4), learn_marginals(sample))
    assert all(branch.parent < 0 for branches in forest.classes for branch in branches)
    own = next(b for b in forest.classes[0] if sample.channels[b.place].name == "spike").chances[0]
    assert own.max() > 0.85


def test_of_very_many_attributes_those_that_say_most_are_taken() -> None:
    rng, rows = np.random.default_rng(4), 3_000
    label = rng.integers(0, 2, rows)
    columns = {f"a{i:03}": rng.integers(0, 3, rows) for i in range(MOST_CHANNELS + 40)}
    telling = [f"a{i:03}" for i in (0, 77, MOST_CHANNELS + 39)]
    columns |= {n: np.where(rng.random(rows) < 0.7, label, columns[n]) for n in telling}
    data = pl.DataFrame(columns).with_columns(label=pl.Series(label))
    release = perturb(data, gamma=9, bins=3, class_="label", keep=["label"], rare="publish", seed=1)
    table, sidecar = open_releases(release.frame, release.sidecar)
    found = read(table, sidecar, label_of(sidecar, None))
    names = [c.name for c in found.channels]
    assert len(names) == len(found.codes) == MOST_CHANNELS and names == sorted(names)
    assert set(telling) <= set(names)
    taught = train_tree(release.frame, sidecar=release.sidecar)
    assert set(taught.attributes) >= set(telling)
    assert any("128 other attributes reveal more" in r for r in taught.remarks)


@given(st.integers(0, 1 << 30), st.integers(2, 4))
@settings(max_examples=30)
def test_a_step_over_sub_tables_is_the_one_that_sums_each_from_the_whole(seed: int, axes: int) -> None:
    """Marginals are summed from one another and their rises added the same way back: whatever the sets."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, axes)
    sets = [c for k in range(1, axes + 1) for c in combinations(range(axes), k) if rng.random() < 0.5] or [(0,)]
    parts, start = [], rng.dirichlet(np.ones(int(sizes.prod())), 2).reshape(2, *sizes)
    for own in sets:
        matrices = [rng.dirichlet(np.ones(int(sizes[a]) + 1), int(sizes[a])).T for a in own]
        parts.append(Part(matrices, shares(rng.random((2, *(len(m) for m in matrices)))) / len(sets), own))
    expected = np.zeros_like(start)
    for part, own in zip(parts, sets, strict=True):
        hidden = tuple(1 + a for a in range(axes) if a not in own)
        told = forward(start.sum(axis=hidden), part.matrices)
        back = forward(part.observed / told, [m.T for m in part.matrices])
        expected += back.reshape(2, *(int(sizes[a]) if a in own else 1 for a in range(axes)))
    np.testing.assert_allclose(Steps(*parts)(start, 1), start * expected, rtol=2e-5)


def test_records_are_as_likely_as_the_whole_table_has_them_whatever_they_show() -> None:
    """Some codes tell nothing, as *withheld* does: the table of those that do tell is enough."""
    rng = np.random.default_rng(5)
    silent = [np.concatenate([m, np.ones((1, m.shape[1]))]) for m in MATRICES]
    model = JointTable((0, 1, 2), tuple(silent), table(5))
    codes = [rng.integers(0, len(m), 500).astype(np.uint8) for m in silent]
    whole = forward(table(5), silent)
    expected = whole[(slice(None), *codes)].T
    np.testing.assert_allclose(model.likelihood(codes), expected, rtol=1e-12)
    hidden = np.sum([c == len(m) - 1 for c, m in zip(codes, silent, strict=True)], axis=0)
    assert {*hidden.tolist()} == {*range(4)}


def test_a_miners_small_products_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is set outside holds again afterwards, also after an error."""
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads() -> list[int]:
        return [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]

    seen = []

    def judge(expected: Any, _: Any) -> Any:
        seen.append(threads())
        raise ValueError

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with pytest.raises(ValueError):
            Steps(Part(MATRICES, np.ones((1, *(len(m) for m in MATRICES))))).stopped(
                np.ones((1, *INPUTS)), judge, STOP
            )
        assert threads() == before and seen and all(n == 1 for n in seen[0])


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    records=st.integers(0, 50),
    seed=st.integers(0, 99),
    zeros=st.booleans(),
)
def test_held_sums_draw_what_weights_of_each_record_draw(
    shape: list[int], records: int, seed: int, zeros: bool
) -> None:
    rng, places = np.random.default_rng(seed), tuple(range(len(shape) - 1))
    table = rng.random(shape) * (rng.random(shape) > zeros / 2)
    matrices = tuple(rng.random((n + 1, n)) * (rng.random((n + 1, n)) > zeros / 2) for n in shape[1:])
    codes = [rng.integers(0, n + 1, records).astype(np.uint8) for n in shape[1:]]
    labels, numbers = rng.integers(0, shape[0], records).astype(np.uint8), rng.random((len(places), records))
    found = []
    for most in (0, joint_table.MOST_SUMS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joint_table, "MOST_SUMS", most)
            model = JointTable(places, matrices, table)
            found.append(model.draw(codes, labels, lambda place, _: numbers[place]))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))

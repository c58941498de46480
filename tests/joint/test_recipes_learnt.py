"""What is learnt from records that publish a few of their attributes: models, data sets, trees."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb, predict, reconstruct, train_tree
from ppdm_cli.errors import RefusedError
from ppdm_cli.joint import COIN, learn, read
from ppdm_cli.releases import axis_of, open_release
from ppdm_cli.tables import synthetic
from tests.estimating.test_tables import DOMAINS, released


def posterior(sample: Any, model: Any, rows: np.ndarray) -> np.ndarray:
    """p(class | record) by enumeration of the class and all values of a joint table."""
    strata, places = sample.strata, model.places
    grids = list(product(*(range(sample.matrices[p].shape[1]) for p in places)))
    found = np.zeros((len(rows), len(model.shares)))
    for i, row in enumerate(rows):
        number = sample.codes[-1][row]
        lam, label = strata.lam[number], strata.exposures[-1]
        for c in range(len(model.shares)):
            for cell in grids:
                p = model.shares[c] * model.within.table[(c, *cell)]
                told, noise = (
                    lam * label.matrix[sample.labels[row], c],
                    (1 - lam) * label.as_noise[sample.labels[row], c],
                )
                for axis, place in enumerate(places):
                    code, ways = sample.codes[place][row], strata.exposures[place]
                    told *= ways.matrix[code, cell[axis]]
                    noise *= ways.as_noise[code, cell[axis]]
                found[i, c] += p * (told + noise)
    return found / found.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("keep", [["ill"], []])
def test_what_a_model_says_of_a_record_is_bayes_rule_with_its_one_coin(keep: list[str]) -> None:
    """The class inside the box is under the same coin as the values: their evidence does not multiply."""
    attributes = DOMAINS if keep else {**DOMAINS, "ill": {"domain": "no|yes"}}
    release = released(20_000, keep=keep, record_epsilon=5, attributes=attributes)
    table_, sidecar = open_release(release.frame, release.sidecar)
    sample = read(table_, sidecar, axis_of(sidecar, "ill"))
    learnt = learn(sample)
    assert learnt.name == "joint" and learnt.model is not None
    rows = np.arange(40)
    codes = [c[rows] for c in sample.codes]
    assert np.allclose(
        learnt.model.chances(codes, sample.labels[rows]), posterior(sample, learnt.model, rows), atol=1e-6
    )
    # draws are from the posterior: by many draws of one record the marginals come out
    row = int(
        np.flatnonzero(
            np.all(
                [sample.codes[p] != sample.matrices[p].shape[0] - 1 for p in learnt.model.places[:1]], axis=0
            )
        )[0]
    )
    many = [np.full(20_000, c[row]) for c in sample.codes]
    labels = np.full(20_000, sample.labels[row])
    rng = np.random.default_rng(1)
    _, drawn = learnt.model.drawn(many, labels, lambda place, some: rng.random(len(some)))
    told = learnt.model.marginals([m[:1] for m in many], labels[:1])
    for values, want in zip(drawn, told, strict=True):
        share = np.bincount(values, minlength=want.shape[1]) / len(values)
        assert np.abs(share - want[0] / want[0].sum()).max() < 5 * 0.5 / np.sqrt(20_000)
    assert COIN not in learnt.model.places


def test_a_tree_is_learnt_from_sub_tables_and_a_data_set_made() -> None:
    original = pl.concat([pl.DataFrame(b) for b in synthetic.generate(2, 30_000, 3)])
    release = perturb(original, record_epsilon=8, publish=2, keep=["group"], class_="group", bins=12, seed=4)
    tree = train_tree(release.frame, sidecar=release.sidecar)
    test = pl.concat([pl.DataFrame(b) for b in synthetic.generate(2, 5000, 9)])
    said = predict(tree, test)
    assert float((said["predicted"] == test["group"]).mean()) > 0.88
    made = reconstruct(release.frame, sidecar=release.sidecar)
    assert made.frame is not None and made.frame.columns == original.columns
    assert (
        made.frame["group"].equals(release.frame["group"]) and made.frame.null_count().sum_horizontal()[0] == 0
    )
    assert made.withheld is not None and abs(made.withheld[0] - 7 / 9) < 0.01
    again = reconstruct(release.frame, sidecar=release.sidecar)
    assert again.frame is not None and again.frame.equals(made.frame)
    for name in ("age", "salary", "elevel"):  # each by itself, by class
        for label in ("A", "B"):
            true, mine = (f.filter(pl.col("group") == label)[name].mean() for f in (original, made.frame))
            assert abs(true - mine) < 0.1 * original[name].std()
    with pytest.raises(RefusedError):
        reconstruct(release.frame, sidecar=release.sidecar, method="by-class")

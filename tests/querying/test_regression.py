"""Regression on a release: coefficients are those of the originals, and intervals cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb, query
from ppdm_cli.arrays import clopper_pearson
from ppdm_cli.querying import Answers
from tests.experiments.regression import BINS, TRUE, sample
from tests.vocabulary import raises

ASKED = "select linear(y, age, sex, edu, kids, w)"


def asked(frame: pl.DataFrame, text: str = ASKED, **plan: Any) -> Answers:
    made = perturb(frame, **{"keep": ["w"], "attributes": BINS, "keep_order": True, "seed": 1, **plan})
    return query(made.frame, text, sidecar=made.sidecar)


def test_with_hardly_any_noise_coefficients_are_the_textbooks() -> None:
    """White's errors too: a tenth of their size apart at most, as values are middles of bins."""
    frame = sample(1)
    told = asked(frame, gamma=999_999).rows
    assert [r.title for r in told] == [f"linear: {name}" for name in TRUE]
    x = np.stack([np.ones(len(frame)), frame["age"] + 0.5, frame["sex"] == "M", frame["edu"] == "b",
                  frame["edu"] == "c", frame["kids"], frame["w"]], axis=1).astype(float)  # fmt: skip
    y = np.floor((frame["y"].to_numpy() + 40) / 4) * 4 - 38
    bread = np.linalg.inv(x.T @ x)
    wanted = bread @ x.T @ y
    left = y - x @ wanted
    errors = np.sqrt(np.diagonal(bread @ (x.T * left**2) @ x @ bread))
    assert np.allclose([r.value for r in told], wanted, atol=0.25 * errors.max())
    assert np.allclose(np.array([r.std_error for r in told], float), errors, rtol=0.15)
    assert told[1].p is not None and told[1].p < 1e-12


@pytest.mark.parametrize(
    "plan",
    [
        {"gamma": 9},
        {"gamma": 21, "matrix": "band"},
        {"gamma": 21, "together": [{"attributes": ["sex", "edu"]}]},
        {"record_epsilon": 6, "publish": "2"},
        {"record_epsilon": 6, "publish": "3", "class_": "sex"},
    ],
)
def test_intervals_of_coefficients_cover(plan: dict[str, Any]) -> None:
    """At a level of 1e-4 for each coefficient of 35; and at half their width they do not."""
    hits, halves, releases = np.zeros(len(TRUE)), np.zeros(len(TRUE)), 30
    for seed in range(releases):
        rows = asked(sample(seed), seed=seed, **plan).rows
        apart = np.abs(np.array([(r.value or 0) - TRUE[r.title.removeprefix("linear: ")] for r in rows]))
        reach = np.array([(r.high or 0) - (r.low or 0) for r in rows]) / 2
        hits, halves = hits + (apart <= reach), halves + (apart <= reach / 2)
    assert all(clopper_pearson(int(h), releases, 1e-4)[1] > 0.945 for h in hits), hits
    assert clopper_pearson(int(halves.sum()), releases * len(TRUE), 1e-4)[1] < 0.9, "the test of the test"


def test_a_ridge_holds_where_too_little_is_shown() -> None:
    frame = sample(3).with_columns(
        pl.Series("many", np.random.default_rng(1).integers(0, 50, 10_000)).cast(pl.String)
    )
    with raises("columns-not-told-apart"):
        asked(frame, "select linear(y, age, many, edu)", gamma=9, rare="publish")
    rows = asked(frame, "select ridge(y, 1, age, many, edu) as r", gamma=9, rare="publish").rows
    assert len(rows) == 1 + 1 + 49 + 2 and rows[1].title == "r: age"
    assert abs((rows[1].value or 0) - 0.5) < 4 * (rows[1].std_error or 0)
    gentle = asked(frame, "select ridge(y, .001, age, sex)", gamma=999_999).rows
    alone = asked(frame, "select linear(y, age, sex)", gamma=999_999).rows
    assert [r.value for r in gentle] == pytest.approx([r.value for r in alone]), (
        "what is shown well is not shrunk"
    )


def test_what_no_regression_can_tell_is_refused() -> None:
    frame = sample(2)
    refused = {
        "select linear(sex, age)": "not-numeric",
        "select linear(y, age), count()": "regression-with-others",
        "select linear(y, age) where kids = 1": "regression-with-others",
        "select linear(y, age, age)": "column-named-twice",
        "select linear(y)": "wrong-number-of-arguments",
        "select linear(y, 3)": "regression-of-columns",
        "select ridge(y, age, sex)": "no-ridge-weight",
        "select linear(y, age) + 1": "not-a-smooth-function",
    }
    for text, id in refused.items():
        with raises(id):
            asked(frame, text, gamma=9)
    with raises("never-published-together"):
        asked(frame, record_epsilon=4, publish="1")
    nulls = frame.with_columns(pl.when(pl.col("kids") > 2).then(None).otherwise("kids").alias("kids"))
    with raises("regression-of-nulls"):
        asked(nulls, gamma=9)
    share = asked(frame, "select linear(edu = 'c', sex)", gamma=9).rows[0]
    assert share.value == pytest.approx(0.2, abs=5 * (share.std_error or 0))

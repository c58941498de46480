"""Tests of hypotheses on a release: they reject what is true as often as they say, and what is false."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2_contingency

from ppdm_cli import perturb, query
from ppdm_cli.querying.functions import Figure, holm, tail
from tests.querying.test_answering import COPIES, DESIGNS, EXACT, ROWS, asked, middles, records, released

TESTS = (
    "independent(smoker, kids)", "independent(ward, kids)", "trend(age, kids)", "trend(age, smoker = 'yes')",
    "same(mean(age), kids)", "fits(smoker, 'yes', .3, 'no', .7)",
)  # fmt: skip


@pytest.mark.parametrize("design", DESIGNS)
def test_tests_reject_what_is_true_as_often_as_they_say(design: str) -> None:
    """And what is false nearly always: of 100 samples of 1,500 at 5 %, up to 15 may be rejected."""
    rng, rows = np.random.default_rng(11), ROWS * COPIES
    plan = {**DESIGNS[design], "rare": "publish"}
    if "record_epsilon" in plan:
        plan["record_epsilon"] = 8
    frame = pl.DataFrame(
        {
            "age": rng.integers(0, 80, rows),
            "smoker": rng.choice(["yes", "no"], rows, p=[0.3, 0.7]),
            "kids": rng.integers(0, 3, rows),
            "ward": rng.choice(["A", "B"], rows),
            "copy": np.repeat(np.arange(COPIES, dtype=np.int32), ROWS),
        }
    )
    release = released(frame, keep=["ward", "copy"], **plan)
    for test in TESTS:
        told = asked(release, f"select {test} as t group by copy").frame["p"].drop_nulls()
        assert len(told) > 0.9 * COPIES and (told < 0.05).sum() <= 15, test
    hangs = frame.with_columns(pl.when(pl.col("age") > 40).then(2).otherwise(pl.col("kids")).alias("kids"))
    hangs = hangs.with_columns(
        pl.when(pl.col("age") > 30).then(pl.lit("yes")).otherwise("smoker").alias("smoker")
    )
    release = released(hangs, keep=["ward", "copy"], **plan)
    for test in TESTS:
        if "ward" not in test:
            told = asked(release, f"select {test} as t group by copy").frame["p"].drop_nulls()
            assert (told < 0.05).mean() > 0.8, (test, "the test of the test")


def test_independence_is_tested_on_what_was_published() -> None:
    """By Pearson's test, whose level is exact; where a condition or nulls forbid it, on estimates."""
    people = records(4000).drop_nulls("smoker")
    release = released(people, gamma=5)
    both = "independent(kids, smoker), independent(kids, smoker) filter (where kids > 0)"
    told = asked(release, f"select {both}").rows
    counts = release.frame.pivot("kids", index="smoker", values="age", aggregate_function="len")
    statistic, p, *_ = chi2_contingency(counts.drop("smoker").to_numpy(), correction=False)
    assert told[0].value == pytest.approx(statistic, rel=1e-3)
    assert told[0].p == pytest.approx(p, abs=0.005)
    assert told[1].value != pytest.approx(statistic, rel=0.05)
    expected = 1.0
    for staying, N in ((5 / 8, 4), (5 / 6, 2)):  # the correlations that each channel leaves, for even shares
        expected *= (staying - (1 - staying) / (N - 1)) ** 2
    assert told[0].worth == pytest.approx(len(people) * expected, rel=0.1)


def test_the_tail_is_that_of_weighted_chi_squares() -> None:
    assert tail(3.841459, np.array([1.0])) == pytest.approx(0.05, abs=1e-6)
    assert tail(2 * 11.0705, np.full(5, 2.0)) == pytest.approx(0.05, abs=1e-5)
    weights, rng = np.array([5.0, 2, 1, 0.5]), np.random.default_rng(1)
    drawn = (rng.standard_normal((400_000, 4)) ** 2) @ weights
    for share in (0.1, 0.05, 0.01):
        assert tail(float(np.quantile(drawn, 1 - share)), weights) == pytest.approx(share, rel=0.06)


def test_several_p_values_are_holms() -> None:
    nearly = released(records(), **EXACT)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    told = asked(nearly, "select trend(age, pay), count(), independent(ward, kids) as i")
    assert told.frame["p"].is_null().to_list() == [False, True, False] and told.frame["p_holm"][0] < 1e-7
    people = records().drop_nulls("pay")
    corr = told.rows[0].value
    assert corr == pytest.approx(np.corrcoef(middles(people)["age"], people["pay"])[0, 1], abs=0.01)
    counts = records().pivot("kids", index="ward", values="age", aggregate_function="len")
    statistic, p, *_ = chi2_contingency(counts.drop("ward").to_numpy(), correction=False)
    assert told.rows[2].value == pytest.approx(statistic, rel=0.05, abs=0.05)
    assert told.rows[2].p == pytest.approx(p, rel=0.15, abs=0.02), "Pearson's, of originals"


def test_a_mean_of_a_number_of_records_below_0_is_not_given() -> None:
    sums, covariance = np.array([-900.0, -53.0]), np.diag([400.0, 49.0])
    above, below = Figure.of(sums, 0), Figure.of(sums, 1)
    assert (above / below).sure(covariance) and not (above / below.within(0, np.inf)).sure(covariance)
    rng = np.random.default_rng(0)
    data = pl.DataFrame({
        "age": rng.integers(20, 90, 3000),
        "ward": ["D"] * 30 + ["A"] * 2970,
        "days": rng.integers(0, 30, 3000),
        "sex": rng.choice(["f", "m"], 3000),
    })
    domains = {"age": "20:90", "days": "0:30", "sex": "f|m|x"}
    asked_for = {name: {"domain": domain} for name, domain in domains.items()}
    release = perturb(data, record_epsilon=2, seed=21, keep=["ward"], attributes=asked_for, keep_order=True)
    text = "select count(*), avg(age) from release where sex = 'x' group by ward"
    rows = query(release.frame, text, sidecar=release.sidecar).frame.filter(pl.col("ward") == "D")
    count, mean = rows.rows(named=True)
    assert count["value"] < -3 * count["std_error"] and mean["value"] is None


def test_an_interval_beyond_the_limits_keeps_half_its_width() -> None:
    sums, covariance = np.array([-53.0]), np.array([[49.0]])
    count = Figure.of(sums, 0).within(0, 100)
    assert count.interval(covariance, 2) == (0, 14)
    assert Figure.constant(1.0, sums).within(0, 2).interval(covariance, 2) == (1, 1)
    assert replace(count, value=153.0).interval(covariance, 2) == (86, 100)

"""`estimate` as a library: tables of counts by attribute, by class and jointly, against the truth.

Unbiasedness is checked at five standard errors; what cannot be estimated is refused with the reason.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ppdm_cli import Release, estimate, perturb, reconstruct, running
from ppdm_cli.errors import MismatchError
from ppdm_cli.tables import base, synthetic
from tests.vocabulary import raises

COLUMNS = ["attribute", "code", "label", "lower", "upper", "observed", "estimate", "std_error", "low", "high"]


@pytest.fixture(scope="module")
def original() -> pl.DataFrame:
    return pl.concat([pl.DataFrame(b) for b in synthetic.generate(2, 20_000, 4)])


@pytest.fixture(scope="module")
def kept(original: pl.DataFrame) -> Release:
    return perturb(original, gamma=5, keep=["group"], class_="group", seed=1)


@pytest.fixture(scope="module")
def hidden(original: pl.DataFrame) -> Release:
    return perturb(original, gamma=5, class_="group", seed=2)


def test_the_table_has_the_columns_of_the_design(kept: Release, original: pl.DataFrame) -> None:
    plain = estimate(kept.frame, sidecar=kept.sidecar)
    assert plain.frame.columns == COLUMNS
    assert [t.name for t in plain.tables] == [a.name for a in kept.sidecar.perturbed]
    by = estimate(kept.frame, sidecar=kept.sidecar, by="group", truth=original)
    assert by.frame.columns == ["class", *COLUMNS, "true"]
    joint = estimate(kept.frame, sidecar=kept.sidecar, joint=["age", "elevel"])
    assert joint.frame.columns[:2] == ["age", "elevel"] and len(joint.frame) == joint.tables[0].estimate.size
    one = estimate(kept.frame, sidecar=kept.sidecar, attributes=["age", "age"])
    assert [t.name for t in one.tables] == ["age"]
    ages = one.frame
    assert ages["lower"][0] == 20 and (ages["upper"][:-1] == ages["lower"][1:]).all()


@pytest.mark.parametrize("which", ["kept", "hidden"])
@pytest.mark.parametrize(
    "how", [{}, {"by": "group"}, {"joint": ["age", "elevel"]}, {"joint": ["elevel", "group"]}]
)
def test_the_inverse_is_unbiased(
    which: str, how: dict[str, object], original: pl.DataFrame, request: pytest.FixtureRequest
) -> None:
    release: Release = request.getfixturevalue(which)
    done = estimate(release.frame, sidecar=release.sidecar, truth=original, estimator="inverse", **how)  # type: ignore[arg-type]
    for table in done.tables:
        assert table.truth is not None and table.truth.sum() == 20_000
        errors = (table.estimate - table.truth) / np.maximum(table.interval.std_error, 1e-9)
        assert abs(errors).max() < 5
        assert table.estimate.sum() == pytest.approx(20_000)


def test_e_is_the_papers(kept: Release, original: pl.DataFrame) -> None:
    table = estimate(kept.frame, sidecar=kept.sidecar, truth=original, attributes=["car"]).tables[0]
    true = original["car"].value_counts(sort=False).sort("car")["count"].to_numpy()
    assert (table.truth is not None and table.truth.tolist() == true.tolist()) or table.estimate.size != 20
    assert table.error == pytest.approx(np.abs(table.estimate - table.truth).sum() / 20_000)


def test_partitions_and_threads_do_not_matter(kept: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(threads=1):
        whole = estimate(kept.frame, sidecar=kept.sidecar, by="group").frame
    monkeypatch.setattr(base, "MOST_ROWS", 1_024)
    with running(threads=2):
        assert estimate(kept.frame, sidecar=kept.sidecar, by="group").frame.equals(whole)


def test_too_few_records_are_said_to_be_too_few(original: pl.DataFrame) -> None:
    few = perturb(original.head(60), gamma=2, keep=["group"], class_="group", seed=1, rare="publish")
    said = estimate(few.frame, sidecar=few.sidecar).remarks
    assert "too few values were randomised there" in said[0] and "wider than the counts" in said[-1]
    many = perturb(original, gamma=19, keep=["group"], class_="group", seed=1)
    assert estimate(many.frame, sidecar=many.sidecar).remarks == []


@pytest.mark.parametrize(
    ("how", "id"),
    [
        ({"attributes": ["agee"]}, "unknown-column"),
        ({"attributes": ["group"]}, "nothing-to-estimate"),
        ({"joint": ["age"]}, "joint-of-two-or-three"),
        ({"joint": ["age", "age"]}, "joint-of-two-or-three"),
        ({"joint": ["age", "car"], "by": "group"}, "joint-with-others"),
        ({"estimator": "best"}, "unknown-estimator"),
        ({"by": "age", "attributes": ["age"]}, "nothing-to-estimate"),
    ],
)
def test_calls_that_mean_nothing_are_refused(kept: Release, how: dict[str, object], id: str) -> None:
    with raises(id):
        estimate(kept.frame, sidecar=kept.sidecar, **how)  # type: ignore[arg-type]


def test_another_tables_truth_and_another_stage_are_refused(kept: Release, original: pl.DataFrame) -> None:
    text = original.with_columns(pl.col("car").cast(pl.String))
    for truth in (original.head(-1), original.drop("age"), text):
        with pytest.raises(MismatchError):
            estimate(kept.frame, sidecar=kept.sidecar, truth=truth)
    done = reconstruct(kept.frame, sidecar=kept.sidecar)
    for again in (estimate, reconstruct):
        with pytest.raises(MismatchError):
            again(done.frame, sidecar=done.sidecar)  # type: ignore[operator]

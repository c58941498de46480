"""Reconstruction: totals that are exactly the estimate, ties broken repeatably, nothing else touched.

The order of the file must not matter, and attributes must be dealt independently of each other: a dealer
that shares one random order between them is run and rejected.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import Release, engine, estimate, perturb, reconstruct, running
from ppdm_cli.errors import MismatchError, UsageError
from ppdm_cli.estimating import largest_remainder
from ppdm_cli.reconstructing import dealer
from ppdm_cli.repeatable import Deal
from ppdm_cli.tables import base
from tests.vocabulary import generated


@pytest.fixture(scope="module")
def kept() -> Release:
    return perturb(generated(6_000), gamma=5, keep=["group"], class_="group", seed=1)


@pytest.fixture(scope="module")
def hidden() -> Release:
    return perturb(generated(6_000), gamma=5, class_="group", seed=1)


def counts(frame: pl.DataFrame, release: Release, name: str) -> np.ndarray:
    attribute = next(a for a in release.sidecar.attributes if a.name == name)
    codes = attribute.domain.encode(frame[name].to_arrow().cast(attribute.kind)).codes
    return np.bincount(codes, minlength=attribute.domain.size)


@pytest.mark.parametrize("estimator", ["set-scale", "simplex", "ml"])
def test_totals_are_the_estimate_in_whole_numbers_by_class(kept: Release, estimator: str) -> None:
    done = reconstruct(kept.frame, sidecar=kept.sidecar, method="by-class", estimator=estimator)
    wanted = estimate(kept.frame, sidecar=kept.sidecar, by="group", estimator=estimator)
    for table in wanted.tables:
        for label, row in zip("AB", table.estimate, strict=True):
            part = done.frame.filter(pl.col("group") == label)
            assert counts(part, kept, table.name).tolist() == largest_remainder(row, len(part)).tolist()


def test_totals_are_the_estimate_globally(kept: Release) -> None:
    done = reconstruct(kept.frame, sidecar=kept.sidecar, method="global")
    for table in estimate(kept.frame, sidecar=kept.sidecar).tables:
        wanted = largest_remainder(table.estimate, 6_000).tolist()
        assert counts(done.frame, kept, table.name).tolist() == wanted == done.totals[table.name]


def test_a_perturbed_class_is_reconstructed_first(hidden: Release) -> None:
    done = reconstruct(hidden.frame, sidecar=hidden.sidecar, method="by-class")
    labels = estimate(hidden.frame, sidecar=hidden.sidecar, attributes=["group"]).tables[0]
    assert counts(done.frame, hidden, "group").tolist() == largest_remainder(labels.estimate, 6_000).tolist()
    for name, totals in done.totals.items():
        assert counts(done.frame, hidden, name).tolist() == totals and sum(totals) == 6_000


def test_totals_do_not_depend_on_the_order(kept: Release) -> None:
    whole = reconstruct(kept.frame, sidecar=kept.sidecar, method="by-class")
    ordered = kept.frame.sort("group", "age", "salary")
    assert reconstruct(ordered, sidecar=kept.sidecar, method="by-class").totals == whole.totals


class Elsewhere(engine.Threads):
    """Runs partitions in a shuffled order, some of them twice, by copies of the task, and counts the passes."""

    def __init__(self) -> None:
        self.passes: list[Any] = []

    def map(self, table: Any, task: Any, columns: Any, advance: Any) -> Iterator[Any]:
        self.passes.append(task)
        batches = list(super().map(table, lambda batch: batch, columns, advance))
        text, found = pickle.dumps(task), {}
        for index in np.random.default_rng(1).permutation(len(batches) * 3 // 2) % len(batches):
            found[int(index)] = pickle.loads(text)(batches[index])
        return iter([found[i] for i in range(len(batches))])


@pytest.mark.parametrize(
    ("which", "method", "expected"),
    [
        ("kept", "global", 2),
        ("kept", "by-class", 2),
        ("hidden", "by-class", 3),
        ("kept", "joint", 3),
        ("hidden", "joint", 2),
    ],
)
def test_neither_the_cut_nor_the_order_of_work_matters_and_no_pass_is_made_twice(
    which: str, method: Any, expected: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = request.getfixturevalue(which)
    asked = {"sidecar": release.sidecar, "method": method, "spread": True}
    whole = reconstruct(release.frame, **asked)
    assert whole.how.method == method
    for rows in (700, 4_096):
        monkeypatch.setattr(base, "MOST_ROWS", rows)
        other = Elsewhere()
        with running(engine=other):
            again = reconstruct(release.frame, **asked)
        assert again.frame.equals(whole.frame) and again.totals == whole.totals
        assert len(other.passes) == expected


def within_a_value(shared: bool, monkeypatch: pytest.MonkeyPatch) -> float:
    """Correlation of two attributes as they are dealt to records of one published value of both."""
    rng = np.random.default_rng(3)
    rare = rng.random((2, 20_000)) < 0.1  # so that most of the published ones are to be dealt back
    release = perturb(pl.DataFrame({"a": rare[0], "b": rare[1]}), gamma=2, seed=3)
    if shared:  # one random order for all attributes
        wrong = SimpleNamespace(of=lambda parts, stairs, size, purpose: Deal.of(parts, stairs, size, "x"))
        monkeypatch.setattr(dealer, "Deal", wrong)
    frame = release.frame.with_columns(b="a")
    done = reconstruct(frame, sidecar=release.sidecar).frame.filter(frame["a"])
    assert 1_000 < done["a"].sum() < done.height - 1_000
    return float(np.corrcoef(done["a"], done["b"])[0, 1] * np.sqrt(done.height))


def test_attributes_are_dealt_independently_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abs(within_a_value(False, monkeypatch)) < 5 < abs(within_a_value(True, monkeypatch))


def test_spread_values_are_even_within_their_bins() -> None:
    rng = np.random.default_rng(5)
    release = perturb(pl.DataFrame({"x": rng.uniform(0, 10, 20_000)}), gamma=9, bins=5, seed=5)
    plain = reconstruct(release.frame, sidecar=release.sidecar).frame["x"].to_numpy()
    spread = reconstruct(release.frame, sidecar=release.sidecar, spread=True).frame["x"].to_numpy()
    assert (plain // 2 == spread // 2).all() and set(plain) == {1.0, 3.0, 5.0, 7.0, 9.0}
    within = spread % 2 / 2
    assert abs(within.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 20_000)
    assert abs(within.var() - 1 / 12) < 0.002


def test_nulls_dates_text_and_booleans() -> None:
    rng = np.random.default_rng(6)
    n = 4_000
    days = pl.Series(rng.integers(0, 3_000, n)).cast(pl.Int32).cast(pl.Date)
    data = pl.DataFrame({
        "day": days, "town": rng.choice(["x", "y", "z"], n), "yes": rng.random(n) < 0.3,
        "maybe": [None if u < 0.2 else int(10 * u) for u in rng.random(n)],
    })  # fmt: skip
    release = perturb(data, gamma=9, seed=6)
    done = reconstruct(release.frame, sidecar=release.sidecar).frame
    assert done.schema == data.schema
    assert abs(done["maybe"].null_count() - data["maybe"].null_count()) < 200
    assert abs(done["yes"].sum() - data["yes"].sum()) < 200


def test_what_is_refused(kept: Release, tmp_path: object) -> None:
    with pytest.raises(UsageError, match="must not be negative"):
        reconstruct(kept.frame, sidecar=kept.sidecar, estimator="inverse")
    with pytest.raises(UsageError, match="unknown method"):
        reconstruct(kept.frame, sidecar=kept.sidecar, method="both")  # type: ignore[arg-type]
    classless = perturb(generated(2_000), gamma=5, seed=1)
    with pytest.raises(UsageError, match="names no class"):
        reconstruct(classless.frame, sidecar=classless.sidecar, method="by-class")
    with pytest.raises(MismatchError, match="lacks the columns"):
        reconstruct(kept.frame.drop("age"), sidecar=kept.sidecar)
    with pytest.raises(MismatchError, match="records"):
        reconstruct(kept.frame.head(-1), sidecar=kept.sidecar)

"""`reconstruct --method joint`: drawn from the posterior, streamed, the same each time.

The law of the draws is held against enumeration in test_joint_models; here it is that of the label that was
perturbed, and all that surrounds the draws.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import Release, perturb, reconstruct
from ppdm_cli.engine import map_partitions
from ppdm_cli.joint import JointTable, Model, learn, read
from ppdm_cli.joint.attribute_search import fitted
from ppdm_cli.reconstructing.dealer import Drawer
from ppdm_cli.releases import decode, open_releases
from ppdm_cli.repeatable import uniform
from ppdm_cli.tables import open_table
from ppdm_cli.trees.from_release import label_of
from tests.chances import LEVEL, chi_square
from tests.vocabulary import Run, generated, table


@pytest.fixture(scope="module")
def kept() -> Release:
    return perturb(generated(), gamma=9, keep=["group", "car"], class_="group", seed=1)


def test_columns_types_order_and_kept_columns_stay(kept: Release) -> None:
    done = reconstruct(kept.frame, sidecar=kept.sidecar)
    assert done.how.method == "joint" and {"age", "salary"} <= set(done.drawn)
    assert done.frame.schema == generated().schema
    for name in ("group", "car"):
        assert done.frame[name].equals(kept.frame[name])
    assert decode(done.sidecar.encode(), "x").reconstruction.method == "joint"  # type: ignore[union-attr]


def test_totals_are_those_of_the_result(kept: Release) -> None:
    done = reconstruct(kept.frame, sidecar=kept.sidecar)
    assert set(done.totals) == {a.name for a in kept.sidecar.perturbed}
    for attribute in kept.sidecar.perturbed:
        column = done.frame[attribute.name].to_arrow().cast(attribute.kind)
        counts = np.bincount(attribute.domain.encode(column).codes, minlength=attribute.domain.size)
        assert counts.tolist() == done.totals[attribute.name]


def test_a_joint_reconstruction_has_what_attributes_say_of_each_other(kept: Release) -> None:
    """In group A of function 2 the young earn 50,000 to 100,000 and the old 25,000 to 75,000."""

    def apart(data: pl.DataFrame) -> float:
        group = data.filter(pl.col("group") == "A")
        return float(group.filter(pl.col("age") < 40)["salary"].mean()) - float(  # type: ignore[arg-type]
            group.filter(pl.col("age") >= 60)["salary"].mean()  # type: ignore[arg-type]
        )

    found = {
        m: apart(reconstruct(kept.frame, sidecar=kept.sidecar, method=m).frame)  # type: ignore[arg-type]
        for m in ("joint", "by-class")
    }
    true = apart(generated())
    assert 24_000 < true < 26_000 and abs(found["joint"] - true) < 4_000
    assert found["by-class"] < 0.8 * found["joint"]


def label_p_value(published: tuple[int, int, int], wrong: bool) -> float:
    """Of the drawn (a, b, label) given one published record, against Bayes by enumeration."""
    rng = np.random.default_rng(5)
    n = 60_000
    labels = rng.choice(["r", "s", "t"], n, p=[0.5, 0.3, 0.2])
    data = pl.DataFrame({"a": rng.integers(0, 3, n), "b": rng.random(n) < 0.4, "y": labels})
    release = perturb(data, gamma=4, class_="y", seed=5)
    opened_table, said = open_releases(release.frame, release.sidecar)
    learnt = learn(read(opened_table, said, label_of(said, None)))
    label = learnt.sample.label
    true = rng.gamma(2.0, size=(3, 3, 2))
    true /= true.sum(axis=(1, 2), keepdims=True)
    shown, shares = label.matrix.dense(), np.array([0.5, 0.3, 0.2])
    both = shares[:, None, None] * true  # p(label, a, b)
    matrices = tuple(learnt.sample.matrices)
    model = Model(shown, shares, JointTable((0, 1), matrices, true))
    drawer = Drawer(model, learnt.sample.channels, label, "a release", learnt.sample.strata)
    attributes = (*learnt.sample.channels, label)
    one = {a.name: a.domain.decode(np.full(n, v, np.uint8)) for a, v in zip(attributes, published, strict=True)}
    (labels, drawn), *rest = map_partitions(open_table(pl.DataFrame(one)), drawer)
    assert not rest
    if wrong:  # as though the published label were the original one
        labels = np.full(n, published[2])
    counts = np.bincount(np.ravel_multi_index((labels, drawn["a"], drawn["b"]), (3, 3, 2)), minlength=18)
    law = np.array([
        both[y, a, b] * shown[published[2], y] * matrices[0][published[0], a] * matrices[1][published[1], b]
        for y, a, b in product(range(3), range(3), range(2))
    ])  # fmt: skip
    return chi_square(counts, law)


@pytest.mark.parametrize("published", [(0, 0, 0), (2, 1, 1), (1, 0, 2)])
def test_a_perturbed_label_is_drawn_from_its_posterior(published: tuple[int, int, int]) -> None:
    assert label_p_value(published, False) > LEVEL
    assert label_p_value(published, True) < LEVEL


def test_a_label_of_which_the_sample_has_no_record_is_drawn_too() -> None:
    """Such labels are possible where a large release is thinned; null must not be their only value."""
    data = generated(4_000).select("age", "salary", "group").with_columns(
        age=pl.when(pl.int_range(pl.len()) % 9 == 0).then(None).otherwise(pl.col("age"))
    )  # fmt: skip
    release = perturb(data, gamma=9, keep=["group"], class_="group", seed=2, keep_order=True)
    opened_table, said = open_releases(release.frame, release.sidecar)
    sample = read(opened_table, said, label_of(said, None))
    assert sample.channels[0].name == "age"
    gone = replace(sample, labels=np.zeros_like(sample.labels))
    whole, without = learn(sample).model, learn(gone).model
    assert whole is not None and isinstance(whole.within, JointTable) and without is None
    places = whole.places
    start = np.full(whole.within.table.shape, 0.5 / whole.within.table[0].size)
    table = fitted(gone.sub_tables(places), [gone.counts(places).sum(axis=0)], start, 5)
    learnt = JointTable(places, whole.within.matrices, table)
    drawn = learnt.draw(sample.codes, np.ones(4_000, np.uint8), lambda p, rows: uniform(rows, np.uint64(p)))
    assert len(np.unique(drawn[0])) > 5


def test_kept_columns_are_evidence_while_what_the_model_lacks_is_dealt() -> None:
    def near(scale: float) -> Any:
        return lambda rng, made: np.clip(made["y"] * scale + rng.normal(0, 1.5, 3_000), 0, 11).astype(int)

    data = table(3_000, 3, y={0: 0.9, 1: 0.1}, x0=near(2.0), x1=near(3.0), x2=near(2.0), wide=range(100_000))
    plan: dict[str, Any] = {n: {"domain": [0, 11], "bins": 12} for n in ("x0", "x2")}
    plan |= {"wide": {"bins": 2_000, "domain": "0:100000"}}
    release = perturb(data, gamma=19, keep=["x1"], class_="y", attributes=plan, seed=4, rare="publish")
    done = reconstruct(release.frame, sidecar=release.sidecar)
    assert done.how.method == "joint" and done.drawn == ["x0", "x2"] and done.frame["x1"].equals(data["x1"])
    assert set(done.totals) == {"x0", "x2", "y", "wide"}


def test_the_command_says_what_was_drawn(tmp_path: Path, ppdm: Run) -> None:
    perturb(generated(8_000), tmp_path / "r.csv", gamma=9, keep=["group"], class_="group", seed=1)
    said = " ".join(ppdm("reconstruct", "r.csv", "-o", "u.csv").stderr.decode().split())
    assert "Drawn together from the joint distribution:" in said and "'age'" in said
    found = json.loads(ppdm("reconstruct", "r.csv", "-o", "v.csv", "--json").stdout)
    assert found["method"] == "joint" and {"age", "salary"} <= set(found["joint"])
    assert (tmp_path / "u.csv").read_bytes() == (tmp_path / "v.csv").read_bytes()
    plain = generated(2_000).select("age", "group").with_columns(age=pl.col("age").shuffle(seed=1))
    perturb(plain, tmp_path / "n.csv", gamma=2, keep=["group"], class_="group", seed=1)
    said = " ".join(ppdm("reconstruct", "n.csv", "-o", "w.csv", "--method", "joint").stderr.decode().split())
    assert "The release shows no joint distribution." in said

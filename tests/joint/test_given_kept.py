"""What was perturbed, drawn given what was kept: by evidence, right, and where it is the better model."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2_contingency

from ppdm_cli import perturb, reconstruct, train_tree
from ppdm_cli.joint import GivenKept, learn, read
from ppdm_cli.releases import axis_of, open_release
from ppdm_cli.tables.synthetic import generate

ROWS = 6_000
DOMAINS: dict[str, Any] = {
    "age": {"domain": [0, 100], "bins": 20},
    "town": {"domain": "|".join(f"t{i:02}" for i in range(12))},
    "sort": {"domain": "a|b|c"},
}


def table(seed: int, rows: int = ROWS) -> pl.DataFrame:
    """The class hangs on kept columns alone, and what is perturbed on nothing."""
    rng = np.random.default_rng(seed)
    pay, sex = rng.gamma(3, 100, rows).round(), rng.choice(["f", "m"], rows)
    ill = (pay > 300) ^ (sex == "m") ^ (rng.random(rows) < 0.1)
    return pl.DataFrame({
        "age": rng.normal(45, 15, rows).clip(0, 99),
        "town": [f"t{i:02}" for i in rng.integers(0, 12, rows)],
        "sort": rng.choice(["a", "b", "c"], rows, p=[0.8, 0.1, 0.1]),
        "pay": pay, "sex": sex, "ill": np.where(ill, "yes", "no"),
    })  # fmt: skip


def released(data: pl.DataFrame, gamma: float, seed: int, hidden: bool = False) -> Any:
    kept = [n for n in data.columns if n not in DOMAINS and not (hidden and n == "ill")]
    attributes = {n: d for n, d in DOMAINS.items() if n in data.columns} | (
        {"ill": {"domain": "|".join(sorted(set(data["ill"])))}} if hidden else {}
    )
    return perturb(
        data, gamma=gamma, keep=kept, class_="ill", attributes=attributes, seed=seed, keep_order=True
    )


@pytest.mark.parametrize("gamma", [1.284, 5.0])
def test_nothing_hangs_on_a_class_that_says_nothing(gamma: float) -> None:
    """Of 24 columns drawn none hangs on the class: each does with a chance of .0002, by chance alone."""
    values = []
    for seed in range(8):
        made = released(table(seed), gamma, seed)
        drawn = reconstruct(made.frame, sidecar=made.sidecar)
        assert drawn.drawn == ["age", "town", "sort"]
        for name in drawn.drawn:
            counts = drawn.frame.pivot("ill", index=name, values=name, aggregate_function=pl.len()).fill_null(0)
            values.append(chi2_contingency(counts.select("no", "yes").to_numpy() + 0.5).pvalue)
    assert min(values) > 2e-4


def test_a_class_of_many_labels_that_depends_on_nothing_is_drawn_from_its_shares() -> None:
    """A release has effects or trees at about 4%: of 8 releases more than 3 have some once in 5,000 times."""
    found = 0
    for seed in range(8):
        labels = [f"l{i:02}" for i in np.random.default_rng([seed, 26]).integers(0, 26, ROWS)]
        data = table(seed).with_columns(ill=pl.Series(labels))
        made = released(data, 2.7, seed, hidden=True)
        opened, sidecar = open_release(made.frame.to_arrow(), made.sidecar)
        law = learn(read(opened, sidecar, axis_of(sidecar, "ill"))).linked
        assert isinstance(law, GivenKept)
        found += any(own.law.asked for own in law.laws)
    assert found <= 3


def test_a_class_of_many_labels_is_drawn_given_kept_columns() -> None:
    """Nine labels of ten are noise, and each of 26 has its own mean in two kept columns."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 26, 4 * ROWS)
    noise = rng.normal(0, 2, (2, len(label)))
    data = pl.DataFrame({
        "x": (label % 6 * 4 + noise[0]).round(), "y": (label // 6 * 4 + noise[1]).round(),
        "sort": rng.choice(["a", "b", "c"], len(label)), "ill": [f"l{i:02}" for i in label],
    })  # fmt: skip
    made = released(data, 2.7, 1, hidden=True)
    drawn = reconstruct(made.frame, sidecar=made.sidecar).frame
    assert (made.frame["ill"] == data["ill"]).mean() < 0.11 and (drawn["ill"] == data["ill"]).mean() > 0.2


def test_a_tree_asks_no_column_that_says_nothing() -> None:
    made = released(table(1), 2.0, 1)
    taught = train_tree(made.frame, sidecar=made.sidecar)
    assert taught.model == "kept" and set(taught.attributes) == {"pay", "sex"}
    e = taught.expected
    assert e.how == "held-out" and e.low < 0.9 < e.high


def test_a_class_is_drawn_given_kept_columns() -> None:
    """A perturbed class, and no other perturbed column: the kept ones say what it was. By the true law .839."""
    data = table(2).select("pay", "sex", "ill")
    made = released(data, 3.0, 2, hidden=True)
    right = (made.frame["ill"] == data["ill"]).mean()
    drawn = reconstruct(made.frame, sidecar=made.sidecar).frame
    assert right < 0.78 and 0.82 < (drawn["ill"] == data["ill"]).mean() < 0.85
    assert drawn.select("pay", "sex").equals(data.select("pay", "sex"))


def test_what_perturbed_columns_say_of_each_other_is_used_where_it_says_more() -> None:
    data = pl.concat([pl.DataFrame(b) for b in generate(2, 20_000, 3)])
    made = perturb(data, gamma=9, keep=["group", "car"], class_="group", bins=10, seed=1, keep_order=True)
    opened, sidecar = open_release(made.frame.to_arrow(), made.sidecar)
    learnt = learn(read(opened, sidecar, axis_of(sidecar, "group")))
    assert learnt.name == "joint" and not isinstance(learnt.linked, GivenKept)
    taught = train_tree(made.frame, sidecar=made.sidecar)
    assert {"age", "salary", "car"} <= set(taught.attributes)


def test_the_same_release_gives_the_same_draws_however_it_is_read() -> None:
    made = released(table(4), 5.0, 4)
    once = reconstruct(made.frame, sidecar=made.sidecar).frame
    assert once.equals(reconstruct(made.frame.to_arrow(), sidecar=made.sidecar).frame)


def test_withheld_cells_are_drawn_given_kept_columns() -> None:
    """Two of three columns a record: what a kept one says of a withheld one is known."""
    data = table(5, 12_000).with_columns(
        sort=pl.when(pl.col("sex") == "f").then(pl.lit("a")).otherwise(pl.lit("c"))
    )
    kept = ["pay", "sex", "ill"]
    made = perturb(
        data, record_epsilon=4, publish=2, keep=kept, class_="ill", attributes=DOMAINS, seed=5, keep_order=True
    )
    drawn = reconstruct(made.frame, sidecar=made.sidecar).frame
    assert drawn.null_count().sum_horizontal()[0] == 0
    assert (drawn["sort"] == data["sort"]).mean() > 0.95

"""A class that hangs on nothing, in records that show a few attributes: no model, no signal, no accuracy told.

Under one coin with the class, attributes tell whether it told; on uneven labels that alone looks like a signal.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import estimate, perturb, train_tree
from ppdm_cli.joint import AttributeScores, read, screened
from ppdm_cli.releases import axis_of, open_release

ROWS, RELEASES = 6000, 6
DOMAINS: dict[str, Any] = {
    "pay": {"domain": [0, 200_000], "bins": 16},
    "age": {"domain": [0, 100], "bins": 16},
    "town": {"domain": "|".join(f"t{i:02}" for i in range(12))},
    "sort": {"domain": "a|b|c"},
    "ill": {"domain": "yes|no"},
}


def table(seed: int, signal: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    pay = np.where(rng.random(ROWS) < 0.15, 0, np.exp(rng.normal(10, 1, ROWS))).clip(0, 200_000)
    age = rng.normal(45, 15, ROWS).clip(0, 99)
    ill = (pay > 40_000) & (age > 40) if signal else rng.random(ROWS) < 0.25
    return pl.DataFrame(
        {
            "pay": pay,
            "age": age,
            "town": [f"t{i:02}" for i in rng.integers(0, 12, ROWS)],
            "sort": rng.choice(["a", "b", "c"], ROWS, p=[0.8, 0.1, 0.1]),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@cache
def released(seed: int, inside: bool, signal: bool = False, rounds: int | None = None) -> Any:
    kept: dict[str, Any] = {} if inside else {"keep": ["ill"]}
    own = {n: d for n, d in DOMAINS.items() if inside or n != "ill"}
    publish: dict[str, Any] = {"publish": 2} if rounds is None else {"rounds": rounds}
    return perturb(table(seed, signal), record_epsilon=4, class_="ill", attributes=own, seed=seed,
                   keep_order=True, **kept, **publish)  # fmt: skip


def tells(made: Any) -> AttributeScores:
    opened, sidecar = open_release(made.frame.to_arrow(), made.sidecar)
    return screened(read(opened, sidecar, axis_of(sidecar, "ill")))


@pytest.mark.parametrize("inside", [False, True])
def test_nothing_is_learnt_of_a_class_that_hangs_on_nothing(inside: bool) -> None:
    releases = [released(seed, inside) for seed in range(RELEASES)]
    models = [train_tree(made.frame, sidecar=made.sidecar) for made in releases]
    said = [any("not confirmed" in r for r in m.remarks) for m in models]
    assert sum(m.model != "none" and not s for m, s in zip(models, said, strict=True)) <= 1, "of six"
    for model, unconfirmed in zip(models, said, strict=True):
        assert model.tree.size == 1 or model.model != "none"
        assert inside or not unconfirmed
        if (e := model.expected).accuracy is not None:
            assert e.low < 0.75 < e.high


@pytest.mark.parametrize("inside", [False, True])
def test_no_attribute_stands_out_without_a_signal_and_with_one_it_does(inside: bool) -> None:
    largest, found = [], []
    for seed in range(RELEASES):
        nothing = tells(released(seed, inside))
        largest.append(max([*nothing.alone.values(), *nothing.together.values()]))
        signal = tells(released(seed, inside, signal=True))
        found.append({*signal.ranked()[0][:2]})
    assert np.median(largest) < 6 and max(largest) < 12, "nats; by the coin alone they were hundreds"
    assert sum(f == {"pay", "age"} for f in found) >= RELEASES - 1


def test_a_class_that_every_record_shows_is_estimated_from_all_rounds() -> None:
    made = released(1, inside=True, signal=True, rounds=3)
    [told] = estimate(made.frame, sidecar=made.sidecar, attributes=["ill"], estimator="inverse").tables
    assert told.all_records == ROWS
    true = table(1, signal=True)["ill"].value_counts().sort("ill")["count"].to_numpy()
    counts = told.estimate if told.domains[0].labels() == ["no", "yes"] else told.estimate[::-1]
    assert (np.abs(counts - true) < 4 * told.interval.std_error).all()

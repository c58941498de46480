"""Attacks on records that show a few of their attributes: guesses, their bounds, and the audit of recipes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import attack
from ppdm_cli.attacks import ATTACKS
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import COLUMN
from tests.estimating.test_tables import released, table
from tests.vocabulary import raises

ROWS = 12_000


@cache
def release(seed: int = 1, publish: int = 2) -> Any:
    return released(ROWS, seed, publish=publish, record_epsilon=4)


@cache
def original() -> pl.DataFrame:
    return table(ROWS)


def test_no_belief_passes_its_bound_and_who_knows_an_attribute_learns_most() -> None:
    done = attack(release().frame, truth=original(), sidecar=release().sidecar)
    assert done.measured and done.honest
    assert all(r.largest_posterior <= r.bound + 1e-6 for r in done.rows)
    by = {(r.attack, r.attribute): r for r in done.rows}
    for name in ("age", "pay", "town", "level"):
        alone, record, known = (by[a, name] for a in ("posterior", "record", "known"))
        assert record.exact_gain > alone.exact_gain - 0.02
        assert known.exact_gain > 1.5 * alone.exact_gain > 0
        assert known.records < 0.6 * alone.records
        # the guess is right as often as its adversary believes, or they are fooled by their model
        assert known.exact_high > known.exact_prior
    assert by["record", "town"].exact_gain > by["posterior", "town"].exact_gain + 0.01
    assert 1 < by["known", "age"].gamma < done.record["gamma"]


def test_what_is_expected_without_the_original_is_near_what_is_measured() -> None:
    measured = attack(
        release().frame, truth=original(), sidecar=release().sidecar, attacks=["posterior", "record"]
    )
    told = attack(release().frame, sidecar=release().sidecar)
    assert {r.attack for r in told.rows} == {"posterior", "record"}
    for a, b in zip(measured.rows, told.rows, strict=True):
        assert (a.attack, a.attribute) == (b.attack, b.attribute)
        assert abs(a.exact - b.exact) < 0.05


def test_attacks_that_need_whole_records_are_left_out_and_said() -> None:
    done = attack(release().frame, sidecar=release().sidecar, attacks=["pca", "record"])
    assert "pca" in " ".join(done.remarks) and {r.attack for r in done.rows} == {"record"}
    guessed = attack(release().frame, sidecar=release().sidecar, attacks=["record"], recovered=True).recovered
    assert guessed is not None and guessed.columns == original().columns
    right = (guessed["town"] == original()["town"]).mean()
    assert right is not None and right > 0.4
    assert "known" in ATTACKS


def test_rows_that_do_not_pair_are_refused() -> None:
    with raises("rows-do-not-pair"):
        attack(
            release().frame,
            truth=table(ROWS, seed=9).with_columns(original()["ill"]),
            sidecar=release().sidecar,
        )


def picked(mask: Callable[[pl.DataFrame], np.ndarray]) -> pl.DataFrame:
    """Two honest releases, of which some records take the one that shows their age, if one does."""
    one, other = release(1).frame, release(2).frame
    shows = [np.isin(f[COLUMN].to_numpy(), _with_age()) for f in (one, other)]
    second = mask(original()) & ~shows[0] & shows[1]
    return pl.DataFrame({n: other[n].zip_with(pl.Series(second), one[n]) for n in one.columns})


def _with_age() -> list[int]:
    return [d.number for d in opened(release().sidecar).recipes if "age" in d.attributes]


def by_two_coins(_: pl.DataFrame) -> pl.DataFrame:
    """Each cell by a coin of its own, with the law that the sidecar declares for it alone."""
    rng, frame, sidecar = np.random.default_rng(5), release().frame, release().sidecar
    numbers = frame[COLUMN].to_numpy()
    columns = {n: frame[n].to_list() for n in frame.columns}
    for dealt in opened(sidecar).recipes:
        rows = np.flatnonzero(numbers == dealt.number)
        for name in dealt.attributes:
            channel = dealt.marginal([name])
            law = channel.matrix.dense()
            codes = sidecar.by_name[name].domain.encode(original()[name].to_arrow()).codes[rows]
            drawn = (np.cumsum(law, axis=0)[:, codes] < rng.random(len(rows))).sum(axis=0)
            shown = channel.published.column(drawn.astype(np.uint8)).to_pylist()
            for row, value in zip(rows, shown, strict=True):
                columns[name][row] = value
    return pl.DataFrame({n: pl.Series(columns[n], dtype=frame[n].dtype) for n in frame.columns})


CHEATS: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], str, str]] = {
    "value": (lambda _: picked(lambda t: t["age"].to_numpy() > 90), "recipes", "age"),
    "place": (lambda _: picked(lambda t: np.arange(ROWS) < ROWS / 3), "recipes", "place"),
    "class": (lambda _: picked(lambda t: t["ill"].to_numpy() == "yes"), "recipes", "ill"),
    "coins": (by_two_coins, "record", ""),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_the_audit_rejects_recipes_that_hang_on_something_and_coins_of_their_own(cheat: str) -> None:
    make, family, where = CHEATS[cheat]
    done = attack(make(original()), truth=original(), sidecar=release().sidecar, attacks=["audit"])
    assert not done.honest
    rejected = {r.test: r.where for r in done.coins if not r.honest}
    assert where in rejected[family] and "rejects" in done.sentences[0]


def test_the_audit_rejects_another_law() -> None:
    """Half of the cells that are noise show their value after all."""
    frame, sidecar, rng = release().frame, release().sidecar, np.random.default_rng(3)
    shown = frame["town"].is_not_null() & pl.Series(rng.random(ROWS) < 0.2)
    done = attack(
        frame.with_columns(original()["town"].zip_with(shown, frame["town"])),
        truth=original(),
        sidecar=sidecar,
        attacks=["audit"],
    )
    assert [r.attribute for r in done.audit if not r.honest] == ["town"]

"""Attacks on records that publish a few of their attributes: guesses, beliefs and their bounds."""

from __future__ import annotations

from functools import cache
from typing import Any

from ppdm_cli import attack
from tests.estimating.test_tables import released, table

ROWS = 12_000


@cache
def attacked(known: bool, *attacks: str) -> Any:
    release = released(ROWS, 1, publish=2, record_epsilon=4)
    truth = table(ROWS) if known else None
    return attack(release.frame, truth=truth, sidecar=release.sidecar, attacks=attacks, recovered=not known)


def test_no_belief_passes_its_bound_and_who_knows_an_attribute_learns_most() -> None:
    done = attacked(True)
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
    measured = {(r.attack, r.attribute): r for r in attacked(True).rows}
    expected = attacked(False).rows
    assert {r.attack for r in expected} == {"posterior", "record"}
    assert all(abs(measured[r.attack, r.attribute].exact - r.exact) < 0.05 for r in expected)


def test_attacks_that_need_whole_records_are_left_out_and_said() -> None:
    done = attacked(False, "pca", "record")
    assert "pca" in " ".join(done.remarks) and {r.attack for r in done.rows} == {"record"}
    assert done.recovered.columns == table(10).columns
    assert (done.recovered["town"] == table(ROWS)["town"]).mean() > 0.4

"""Questions with numbers past what a column or a float holds: they are numbers, and answers are unknown."""

from __future__ import annotations

import polars as pl
import pytest

from ppdm_cli import Release, perturb
from tests.querying.test_answering import asked, nearly

assert nearly

LARGE = "9" * 30


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        (f"zip = {LARGE}", 0),
        (f"zip in (1, {LARGE}, -{LARGE})", 0.25),
        (f"zip <> {LARGE}", 1),
        (f"zip < {LARGE}", 1),
        (f"zip >= -{LARGE}", 1),
        (f"small between -{LARGE} and 200", 1),
        ("half < 1e300", 1),
        ("half = 1e300", 0),
    ],
)
@pytest.mark.filterwarnings("error")
def test_numbers_past_a_kept_column_are_numbers(condition: str, share: float) -> None:
    column = [1, 2, 3, 4] * 100
    kept = {"zip": pl.Int64, "small": pl.Int8, "half": pl.Float32}
    frame = pl.DataFrame({"a": [0, 1] * 200, **{n: pl.Series(column, dtype=t) for n, t in kept.items()}})
    release = perturb(frame, gamma=9, keep=[*kept], keep_order=True, seed=1)
    assert asked(release, f"select share({condition}) as x").rows[0].value == pytest.approx(share)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "what", ["sum(1e308)", "stddev(-1e999)", "mean(kids * 1e200 * 1e200)", "variance(pay * 1e300)"]
)
def test_an_answer_past_the_largest_number_is_unknown(what: str, nearly: Release) -> None:
    row = asked(nearly, f"select {what}").rows[0]
    assert (row.value, row.std_error, row.low, row.high) == (None,) * 4

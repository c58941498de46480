"""A record may not be a person: at most so many rows of each, by a coin, and the promise for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import inspection, perturb
from ppdm_cli.errors import UsageError
from tests.chances import LEVEL, chi_square
from tests.test_recipes import DOMAINS, table


def test_a_person_is_promised_all_of_their_rows(tmp_path: Path) -> None:
    frame = table(3000).with_columns(who=pl.Series([f"p{i % 700}" for i in range(3000)]))
    asked: dict[str, Any] = {"record_epsilon": 1, "publish": 2, "keep": ["ill"], "attributes": DOMAINS}
    release = perturb(frame, person="who", rows_per_person=2, keep_order=True, **asked)
    privacy = release.sidecar.privacy
    assert release.frame.height == release.sidecar.records == 1400 and release.left_out == 1600
    assert (privacy.unit, privacy.rows) == ("person", 2) and privacy.perturbed_epsilon == pytest.approx(
        2, abs=1e-4
    )
    assert "who" not in release.frame.columns
    said = " ".join(inspection.sentences(release.sidecar))
    assert "the 2 records of a person" in said and "unless --person" not in said
    plain = " ".join(inspection.sentences(perturb(frame.drop("who"), keep_order=True, **asked).sidecar))
    assert "The promise is for a record" in plain
    kept = perturb(frame, person="who", rows_per_person=2, seed=1, **asked | {"keep": ["ill", "who"]})
    assert kept.frame["who"].value_counts()["count"].max() == 2
    shuffled = frame.sample(fraction=1, shuffle=True, seed=2)
    other = perturb(shuffled, person="who", rows_per_person=2, keep_order=True, seed=1, **asked)
    assert other.frame.height == 1400
    with pytest.raises(UsageError, match="go together"):
        perturb(frame, person="who", **asked)


def test_which_rows_of_a_person_stay_is_chance(tmp_path: Path) -> None:
    """At level `LEVEL`, by the row's place among the person's; the first ones would be told."""
    frame = table(9000).with_columns(
        who=pl.Series([f"p{i % 3000}" for i in range(9000)]), place=pl.int_range(9000) // 3000
    )
    release = perturb(
        frame,
        person="who",
        rows_per_person=1,
        record_epsilon=1,
        publish=1,
        seed=1,
        attributes=DOMAINS,
        keep=["ill", "place"],
        keep_order=True,
    )
    counts = release.frame["place"].value_counts().sort("place")["count"].to_numpy()
    assert chi_square(counts, np.ones(3)) > LEVEL

"""Anonymeter's three risks: what they are of a copy and of strangers, and that the package finds the same."""

from __future__ import annotations

import json
import os
import subprocess
from math import sqrt
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import attack, perturb
from ppdm_cli.attacks import RiskFigures
from ppdm_cli.attacks.risks import measured_risks
from ppdm_cli.errors import UsageError
from ppdm_cli.reconstructing import reconstruct
from ppdm_cli.tables import open_table
from tests.experiments.common import table

PYTHON = Path(os.environ.get("ANONYMETER", "build/anonymeter/bin/python"))
"""An interpreter that has the package: it needs another numpy than `ppdm`."""
THEIRS = """
import json, sys
import numpy as np, pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
np.random.seed(1)
original, published = (pd.read_csv(p) for p in sys.argv[1:])
names = list(original.columns)
each = {"singling out": SinglingOutEvaluator(original, published, 500, 3, seed=1)}
each["linkability"] = LinkabilityEvaluator(original, published, (names[::2], names[1::2]), 1000)
for n in names:
    numeric = pd.api.types.is_numeric_dtype(original[n])
    others = [m for m in names if m != n]
    each[f"inference of {n}"] = InferenceEvaluator(original, published, others, n, numeric, 1000)
for name, one in each.items():
    each[name] = (one.evaluate() if name == "singling out" else one.evaluate(n_jobs=1)).results()
print(json.dumps({n: [int(r.n_success), int(r.n_baseline)] for n, r in each.items()}))
"""


def people(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    body = rng.normal(0, 1, n)
    return pl.DataFrame({
        "height": 170 + 8 * body + rng.normal(0, 3, n), "weight": 70 + 12 * body + rng.normal(0, 5, n),
        "income": rng.lognormal(10, 1, n), "town": rng.choice([*"abcdef"], n), "age": rng.uniform(18, 90, n),
    })  # fmt: skip


def risks(published: pl.DataFrame, original: pl.DataFrame) -> dict[str, RiskFigures]:
    found = measured_risks(open_table(published), open_table(original), original.columns, "test")
    return {r.risk: r for r in found}


def test_risks_of_a_copy_are_certain_and_of_strangers_those_of_guessing() -> None:
    """Strangers: 5 standard errors of 1,000 tries, for seven figures of which none depends on a person."""
    original = people(1500, 1).with_columns(pl.when(pl.col("age") > 30).then("age").alias("age"))
    copy = risks(original, original)
    assert copy["singling out"].share == 1 and copy["singling out"].tried == 1000
    assert copy["linkability"].share > 0.99 and copy["inference of town"].share > 0.9
    strangers = risks(people(1500, 2), original)
    assert strangers["linkability"].share < 0.02
    for name in ("inference of town", "inference of income"):
        one = strangers[name]
        assert abs(one.share - one.guess) < 5 * sqrt(2 * one.guess * (1 - one.guess) / one.tried)
    assert strangers["inference of height"].low > strangers["inference of height"].guess_high, "weight tells it"
    assert strangers["singling out"].share < 0.5


def test_risks_are_measured_on_a_release_and_on_a_reconstruction(tmp_path: Path) -> None:
    original = people(800, 3)
    release = perturb(original, gamma=9, bins=8, seed=1)
    made = reconstruct(release.frame, sidecar=release.sidecar)
    for frame, sidecar in ((release.frame, release.sidecar), (made.frame, made.sidecar)):
        done = attack(frame, sidecar=sidecar, truth=original, attacks="risks")
        named = [f"inference of {n}" for n in original.columns]
        assert [r.risk for r in done.risks] == ["singling out", "linkability", *named]
        assert all(r.low <= r.share <= r.high for r in done.risks) and done.rows == []
        assert done.sentences[0].startswith("The largest risk beyond guessing is")
    with pytest.raises(UsageError, match="risks runs alone"):
        attack(release.frame, sidecar=release.sidecar, truth=original, attacks=["risks", "link"])
    with pytest.raises(UsageError, match="Leave out recovered="):
        attack(release.frame, sidecar=release.sidecar, truth=original, attacks="risks", recovered=True)


def test_risk_beyond_guessing_is_named_only_when_there_is_one() -> None:
    original = people(200, 1)
    release = perturb(original, gamma=9, bins=8, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=original, attacks="risks")
    certain = RiskFigures("inference of town", 400, 1.0, 0.99, 1.0, 1.0, 0.99, 1.0, 0.0)
    done.risks = [certain, RiskFigures("linkability", 400, 0.1, 0.08, 0.12, 0.09, 0.07, 0.11, 0.01)]
    assert done.sentences[0].startswith("The largest risk beyond guessing is linkability")
    done.risks = [certain]
    assert done.sentences[0] == "No risk exceeds guessing."


@pytest.mark.skipif(not PYTHON.exists(), reason="anonymeter is not installed: `make peers` does")
def test_risks_agree_with_anonymeter(tmp_path: Path) -> None:
    """Of a reconstruction without ties; 4 standard errors fail in one of 1,000 runs of these figures."""
    original = table(2, 2000, 5).drop("elevel", "car", "zipcode", "commission")
    release = perturb(original, gamma=50, bins=20, keep=["group"], class_="group", seed=1)
    made = reconstruct(release.frame, sidecar=release.sidecar, spread=True).frame
    original.write_csv(tmp_path / "original.csv")
    made.select(original.columns).write_csv(tmp_path / "made.csv")
    done = subprocess.run(
        [PYTHON, "-c", THEIRS, tmp_path / "original.csv", tmp_path / "made.csv"],
        capture_output=True,
        check=True,
    )
    theirs, ours = json.loads(done.stdout), risks(made.select(original.columns), original)
    assert theirs.keys() == ours.keys()
    for name, own in ours.items():
        tried = 500 if name == "singling out" else 1000
        inference = name.startswith("inference")  # its baseline gives people their own row's value, or none
        for one, hits in zip((own.share, own.guess)[: 2 - inference], theirs[name], strict=False):
            middle = (one + hits / tried) / 2
            assert abs(one - hits / tried) < 4 * sqrt(2 * middle * (1 - middle) / tried) + 0.002, name

"""An attack takes one file: it is offered, run, measured and drawn like the package's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ppdm_cli import attack, perturb
from ppdm_cli.attacks import ATTACKS, run
from tests.vocabulary import table


def ppdm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "tests.dummy_attack", "attack", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_an_attack_is_one_file(tmp_path: Path) -> None:
    original = table(4000, 1, a=range(8), b=["x", "y", "z"])
    original.write_parquet(tmp_path / "o.parquet")
    perturb(tmp_path / "o.parquet", tmp_path / "r.parquet", gamma=9, keep_order=True, seed=1, rare="publish")
    assert "copying: The published value is the guess." in " ".join(ppdm(tmp_path, "--help").stdout.split())
    asked = ("r.parquet", "--with", "copying", "--json")
    measured = json.loads(ppdm(tmp_path, *asked, "--truth", "o.parquet", "--recovered", "g.parquet").stdout)
    expected = json.loads(ppdm(tmp_path, *asked).stdout)
    assert (
        [r["attribute"] for r in measured["attacks"]]
        == [r["attribute"] for r in expected["attacks"]]
        == ["a", "b"]
    )
    for ours, theirs in zip(measured["attacks"], expected["attacks"], strict=True):
        assert ours["exact_low"] <= theirs["exact"] <= ours["exact_high"]
    right = original["b"] == pl.read_parquet(tmp_path / "g.parquet")["b"]
    assert measured["attacks"][1]["exact"] == pytest.approx(right.mean())
    assert pl.read_parquet(tmp_path / "g.parquet").equals(pl.read_parquet(tmp_path / "r.parquet"))


def test_an_attack_says_of_which_releases_it_is_none(tmp_path: Path) -> None:
    made = table(2000, 1, a=range(8), b=["x", "y", "z"], c=range(4))
    perturb(made, tmp_path / "r.parquet", record_epsilon=4, publish=2, keep_order=True, seed=1, rare="publish")
    found = json.loads(ppdm(tmp_path, "r.parquet", "--with", "copying", "--with", "posterior", "--json").stdout)
    assert found["remarks"] == ["Not attacked, because what is withheld cannot be copied: 'copying'."]
    assert {r["attack"] for r in found["attacks"]} == {"posterior"}


def test_guesses_are_tried_on_some_of_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """They agree with those on all records, and what is counted otherwise is of all."""
    made = table(20_000, 1, a=range(8), b=["x", "y", "z"], c=range(4))
    release = perturb(made, gamma=9, keep_order=True, seed=1, rare="publish")
    every = attack(release.frame, truth=made, sidecar=release.sidecar)
    monkeypatch.setattr(run, "MOST_GUESSED", 4_000)
    some = attack(release.frame, truth=made, sidecar=release.sidecar)
    remark = "Guesses and repetitions are tried on about 4,000 of the 20,000 records, drawn at random."
    assert remark in some.remarks
    for few, all_ in zip(some.rows, every.rows, strict=True):
        assert 3_700 < few.records < 4_300
        assert few.exact_low is not None and all_.exact is not None and few.exact_high is not None
        assert few.exact_low - 0.01 < all_.exact < few.exact_high + 0.01
    for less, more in zip(some.repeat, every.repeat, strict=True):
        assert more.stayed is not None and less.stayed_low - 0.01 < more.stayed < less.stayed_high + 0.01
    assert some.audit == every.audit and some.unseen == every.unseen
    alone = attack(release.frame, sidecar=release.sidecar, attacks="posterior")
    assert not any("tried" in r for r in alone.remarks)


def test_the_order_of_rows_is_tried_on_all_of_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records drawn from it are further apart, and would show less of what it reveals."""
    made = pl.select(a=pl.int_range(20_000) // 500 % 8).to_arrow()
    release = perturb(made, gamma=9, keep_order=True, seed=1)
    every = attack(release.frame, truth=made, sidecar=release.sidecar, attacks="order")
    monkeypatch.setattr(run, "MOST_GUESSED", 400)
    some = attack(release.frame, truth=made, sidecar=release.sidecar, attacks="order")
    assert some.rows == every.rows and some.rows[0].records == 20_000
    assert not any("tried" in r for r in some.remarks)


def test_every_attack_explains_itself_in_a_sentence() -> None:
    assert list(ATTACKS) == [
        "spectral", "pca", "bayes-linear", "posterior", "record", "known", "link", "risks", "repeat", "order",
        "audit",
    ]  # fmt: skip
    assert all(a.about.endswith(".") and len(a.about.split()) < 25 for a in ATTACKS.values())

"""Designs for a whole record's budget: what is recommended, its plan, and what the figures are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.entropies import record_designs
from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing.record_design import Design, Setting, recommended
from ppdm_cli.releases import opened
from tests.vocabulary import Run

NINE = ((16, True),) * 7 + ((5, False), (9, False))


@pytest.mark.parametrize(
    ("epsilon", "labels", "k"),
    [(1, 0, 2), (2, 0, 2), (4, 0, 2), (6, 0, 3), (8, 0, 3), (2, 2, 2), (4, 2, 2), (8, 2, 3)],
)
def test_as_many_are_published_as_trees_were_best_with(epsilon: float, labels: int, k: int) -> None:
    """The best number of attributes in one pass, of the prototypes on nine attributes and 100,000 records."""
    assert recommended(Setting(epsilon, 100_000, NINE, labels)).k == k


def test_where_nothing_can_be_had_of_pairs_single_ones_are_published_and_it_is_said() -> None:
    few = record_designs(record_epsilon=0.5, records=5000, attributes="9x16")
    assert few.rows[0]["publish"] == "1" and any("Main effects" in s for s in few.sentences)
    none = record_designs(record_epsilon=1, records=300, attributes="9x16")
    assert any("Nothing can be learnt" in s for s in none.sentences)
    many = record_designs(record_epsilon=4, records=100_000, attributes="9x16")
    assert not any("Main effects" in s for s in many.sentences)


def test_what_is_told_of_a_pair_is_what_the_formula_says() -> None:
    """k = 2 without order: lam^2 and the share of the records that publish the pair (maths 11)."""
    setting = Setting(2.0, 100_000, ((10, False),) * 9)
    gamma, T = np.exp(2.0), 100
    lam = (gamma - 1) / (T + gamma - 1)
    assert Design(setting, 2).of_pair == pytest.approx(100_000 * lam**2 / 36, rel=1e-9)
    single = (gamma - 1) / (10 + gamma - 1)
    assert Design(setting, 1).of_one == pytest.approx(100_000 * single**2 / 9, rel=1e-9)
    assert Design(setting, 1).of_pair == 0 and Design(setting, 1).cell_error is None
    equal = np.exp(2.0 / 9)
    part = (equal - 1) / (10 + equal - 1)
    assert Design(setting, None).of_pair == pytest.approx(100_000 * part**4, rel=1e-9)


def test_the_error_of_a_share_is_at_least_what_is_told() -> None:
    """A thousand releases of one attribute in two halves: the unbiased share spreads as its design says."""
    setting, rng = Setting(1.5, 4000, ((2, False),) * 3), np.random.default_rng(1)
    design = Design(setting, 1)
    lam = (np.exp(1.5) - 1) / (2 + np.exp(1.5) - 1)
    m = rng.binomial(4000, 1 / 3, 1000)
    shown = rng.binomial(m, lam * 0.5 + (1 - lam) / 2) / m
    found = ((shown - (1 - lam) / 2) / lam).std()
    assert found == pytest.approx(design.share_error, rel=0.08)


def test_more_budget_and_more_records_tell_more() -> None:
    rows = record_designs(record_epsilon=2, records=50_000, attributes="6x16,2x9n", class_in_budget=True).rows
    first, (half, twice, tenth, ten) = rows[0], rows[-4:]
    assert half["clean_pair"] < first["clean_pair"] < twice["clean_pair"]
    assert tenth["clean_pair"] < first["clean_pair"] < ten["clean_pair"]
    assert (half["epsilon"], twice["epsilon"], tenth["records"], ten["records"]) == (1, 4, 5000, 500_000)


@pytest.mark.parametrize("text", ["", "x", "9x1", "0x", "9y16", "9x16,", "5000x16"])
def test_what_is_no_list_of_attributes_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        record_designs(record_epsilon=2, records=1000, attributes=text)


def test_the_recommended_design_is_a_plan_that_perturb_takes(ppdm: Run, tmp_path: Path) -> None:
    asked = ("entropy", "--record-epsilon", 4, "--records", 50_000)
    shown = json.loads(ppdm(*asked, "--attributes", "4x10", "-o", "plan.toml", "--json").stdout)
    assert shown["rows"][0]["publish"] == "2" and "publish = 2" in (tmp_path / "plan.toml").read_text()
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {n: rng.integers(0, 100, 400) for n in "abcd"} | {"ill": rng.choice(["no", "yes"], 400)}
    )
    release = perturb(frame, plan=tmp_path / "plan.toml", keep=["ill"], keep_order=True, clip=True)
    assert {len(d.attributes) for d in opened(release.sidecar).recipes} == {2}
    assert release.sidecar.by_name["a"].N <= 10 + 1
    own = 'gamma = 9\nclass = "ill"\nkeep = ["ill"]\n' + "".join(
        f"[attributes.{n}]\ndomain = [0, 99]\n" for n in "abcd"
    )
    (tmp_path / "own.toml").write_text(own)
    told = ppdm(*asked, "--plan", "own.toml", "-o", "new.toml").stdout.decode()
    assert "The first design is the one to take" in " ".join(told.split())
    new = (tmp_path / "new.toml").read_text()
    assert "gamma" not in new and new.count("[attributes.") == 4 and "record_epsilon = 4" in new
    assert opened(perturb(frame, plan=tmp_path / "new.toml", keep_order=True).sidecar).withholding
    ppdm(*asked, "--attributes", "4x10", "--plot", "p.svg", "-o", "t.csv")
    assert (tmp_path / "p.svg").stat().st_size > 1000 and pl.read_csv(tmp_path / "t.csv").height >= 5
    for strange in (("--gamma", 9), ("--error", 0.1)):
        ppdm(*asked, "--attributes", "4x10", *strange, code=2)
    settings: dict[str, Any] = {"record_epsilon": 2, "records": 100}
    with pytest.raises(UsageError, match="does not declare"):
        record_designs(plan={"attributes": {"a": {"bins": 3}}}, **settings)

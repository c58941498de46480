"""Designs for a whole record's budget: what is recommended, its plan, and what the figures are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.channels import best_widths
from ppdm_cli.channels.mixture import Blur
from ppdm_cli.entropies import record_designs
from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing.recipe_choice import Design, Setting, design_in_rounds, recommended
from ppdm_cli.privacy import row_found
from ppdm_cli.releases import opened
from tests.vocabulary import Run, raises, table

NINE = ((16, True),) * 7 + ((5, False), (9, False))


@pytest.mark.parametrize(
    ("epsilon", "labels", "k"),
    [(1, 0, 2), (2, 0, 2), (4, 0, 2), (6, 0, 3), (8, 0, 3), (2, 2, 2), (4, 2, 2), (8, 2, 3)],
)
def test_as_many_are_published_as_trees_were_best_with(epsilon: float, labels: int, k: int) -> None:
    """The best number of attributes in one pass, of the prototypes on nine attributes and 100,000 records."""
    assert recommended(Setting(epsilon, 100_000, NINE, labels)).k == k


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


def test_rounds_are_among_the_designs_and_recommended_where_a_class_is_what_matters() -> None:
    nine = ((16, True),) * 9
    for epsilon, for_class, rounds in ((1.0, True, 3), (2.0, True, 3), (6.0, True, 2), (2.0, False, 1)):
        assert recommended(Setting(epsilon, 100_000, nine, 0, for_class)).rounds == rounds
    few, many = Setting(1.0, 1000, nine, 0, True), Setting(8.0, 10_000_000, nine, 0, True)
    assert recommended(few).rounds == recommended(many).rounds == 1, "nothing to find, or nothing to gain"
    setting = Setting(2.0, 100_000, nine)
    several, one = design_in_rounds(setting), Design(setting, 3)
    assert several is not None and several.k == 3
    # 60 % of the records show the best three together, of which one pass shows a twelfth
    assert several.of_pair == pytest.approx(0.6 * 12 * one.of_pair)
    assert several.published == pytest.approx((0.15 * 1 + 0.25 * 2 + 0.6 * 3) / 9)
    assert design_in_rounds(Setting(2.0, 1000, nine[:2])) is None


def test_the_recommended_design_is_a_plan_that_perturb_takes(ppdm: Run, tmp_path: Path) -> None:
    asked = ("entropy", "--record-epsilon", 4, "--records", 50_000)
    shown = json.loads(ppdm(*asked, "--attributes", "4x10", "-o", "plan.toml", "--json").stdout)
    assert shown["rows"][0]["publish"] == "2" and "publish = 2" in (tmp_path / "plan.toml").read_text()
    frame = table(400, ill=["no", "yes"], **{n: range(100) for n in "abcd"})
    release = perturb(frame, plan=tmp_path / "plan.toml", keep=["ill"], keep_order=True, clip=True)
    assert {len(d.attributes) for d in opened(release.sidecar).recipes} == {2}
    assert release.sidecar.by_name["a"].N <= 10 + 1
    own = 'record_epsilon = 1\nclass = "ill"\nkeep = ["ill"]\nrounds = 2\n'
    own += "".join(f"[attributes.{n}]\ndomain = [0, 99]\n" for n in "abcd")
    (tmp_path / "own.toml").write_text(own)
    rows = json.loads(ppdm(*asked, "--plan", "own.toml", "-o", "new.toml", "--json").stdout)["rows"]
    new, rounds = (tmp_path / "new.toml").read_text(), rows[0]["rounds"]
    assert "record_epsilon = 4" in new and f"rounds = {rounds}" in new and new.count("[attributes.") == 4
    made = opened(perturb(frame, plan=tmp_path / "new.toml", keep_order=True).sidecar)
    assert {d.round for d in made.recipes} == {*range(1, rounds + 1)}
    with raises("sizes-not-declared"):
        record_designs(plan={"attributes": {"a": {"bins": 3}}}, record_epsilon=2, records=100)


@pytest.mark.parametrize(("epsilon", "publish"), [(1, 1), (2, 2), (4, 2), (4, "all")])
def test_rows_are_found_at_most_as_often_as_said(epsilon: float, publish: int | str) -> None:
    """Releases of 200 rows: the row that agrees best, of several any, is the record's own in so many cases."""
    rows = np.random.default_rng(3).integers(0, 5, (200, 4))
    frame = pl.DataFrame(rows.astype(str), schema=list("abcd"))
    categories = {n: {"categories": [*"01234"]} for n in frame.columns}
    found = []
    for seed in range(30):
        plan = {"record_epsilon": epsilon, "publish": publish, "attributes": categories}
        shown = perturb(frame, plan=plan, keep_order=True, seed=seed).frame
        assert shown is not None
        codes = shown.select(pl.col(*"abcd").cast(pl.Int64).fill_null(-1)).to_numpy()
        agrees = (codes[:, None] == rows[None]).sum(axis=2)
        if publish != "all":  # one coin: all of them or none
            agrees = agrees == publish
        best = agrees == agrees.max(axis=1, keepdims=True)
        found += [*(best.diagonal() / best.sum(axis=1))]
    setting = Setting(epsilon, 200, ((5, False),) * 4)
    most = Design(setting, None if publish == "all" else int(publish)).row_found
    error = np.std(found) / np.sqrt(len(found))
    assert most / 1.6 - 4 * error < np.mean(found) < most + 4 * error


def test_the_limit_on_rows_found_is_the_exact_chance_where_rows_are_near_all_outputs() -> None:
    """The exact chance sums the best row's chance over outputs, here for two attributes in order."""
    gamma, rng = np.exp(3.0), np.random.default_rng(4)
    widths = best_widths(gamma, [(12, True), (7, True)])
    blurs = [Blur(12, widths[0]).forward(np.eye(12)), Blur(7, widths[1]).forward(np.eye(7))]
    U = np.kron(*blurs)
    w, T = round(1 / U.max()), len(U)
    M = ((gamma - 1) * w * U + 1) / ((gamma - 1) * w + T)
    rows = rng.integers(0, 84, 500)
    exact = M[:, rows].max(axis=1).sum() / 500
    assert exact <= Design(Setting(3.0, 500, ((12, True), (7, True))), 2).row_found * (1 + 1e-9) < exact * 1.02
    assert row_found(1.0, [0.1, 0.2], 50) == pytest.approx(1 / 50)

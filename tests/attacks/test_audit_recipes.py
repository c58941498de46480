"""The audit of releases with several recipes: the lies that it rejects, its error rate, its stated power."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.attacks import attack, evidence
from ppdm_cli.attacks.evidence import Level, Numbers
from ppdm_cli.channels.gamma_diagonal import GammaDiagonalSpec
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Recipe
from tests.experiments.audit import LIES, PAIR, SMALL, audited, coins, gammas, honest, left_bare, power, table

FOUND = {"a": "place", "b": "rows", "c": "others", "d": "others", "e": "recipes", "f": "rows", "g": "record"}
"""The family that rejects each lie, by its first letter."""
OTHERWISE = {"g2": "place", "g3": "values", "b2": "rows", "f4": "recipes", "c3": "values"}


@pytest.mark.parametrize("lie", LIES)
def test_the_audit_rejects_a_lie_about_coins_noise_or_recipes(lie: str) -> None:
    done, name = audited(LIES[lie]()), lie.split(":")[0]
    assert not done.honest and done.sentences[0].startswith("The audit rejects the release")
    assert OTHERWISE.get(name, FOUND[name[0]]) in {r.test for r in done.coins if not r.honest}


def test_the_audit_accepts_honest_coins_and_names_what_it_tested() -> None:
    done = audited(coins())
    assert done.honest and 0.015 < done.unseen.unperturbed < 0.02
    assert "whether the coins or the recipes depend on each other" in done.sentences[0]
    assert "With 40,000 records, the audit detects (95% of the time) 1.7" in done.sentences[1]


def test_the_audit_rejects_honest_releases_no_more_often_than_stated() -> None:
    """At a raised level: of 36 releases 7.2 may have an overall p below 0.2; 17 have a chance of 2e-4."""
    assert sum(p < 0.2 for _, p in honest(36)) < 17


def test_the_audit_detects_the_stated_share_as_often_as_stated() -> None:
    """A release 19 times in 20: fewer than 7 of 10 have a chance of 1e-3. A third of it is seldom detected."""
    plan = PAIR | {"record_epsilon": 2}
    assert power(plan, 4000, 10, 1)[1] >= 7 and power(plan, 4000, 10, 1 / 3)[1] <= 3


@pytest.mark.long
def test_the_audit_detects_the_stated_gamma_as_often_as_stated() -> None:
    """19 times in 20: fewer than 15 of 20 have a chance of 3e-4."""
    assert gammas(20, 1)[1] >= 15


def test_whole_records_of_two_kinds_are_counted_at_one_chance() -> None:
    """The count of kinds that are thinned, or filled up, is binomial: its p-values are uniform or larger."""
    kinds = [[Level(0.1, 0.3, 0.3)], [Level(0.02, 0.3, 0.3)], [Level(0.4, 0.4, 0.4)]]
    numbers = Numbers(kinds, np.array([0.5, 0.3, 0.2]), np.array([True, False, False]))
    rng, found = np.random.default_rng(1), []
    for seed in range(2000):
        each = zip((300, 180, 120), numbers.law, strict=True)
        found.append(numbers.whole_p(np.stack([rng.multinomial(n, law) for n, law in each]), seed))
    assert all(np.mean(np.array(found) <= level) <= 1.3 * level + 0.002 for level in (0.01, 0.05, 0.2, 0.5))
    assert np.mean(np.array(found) <= 0.2) > 0.1, "a test that never rejects"


def test_a_mixture_detects_as_often_as_its_bound_states() -> None:
    """What `betrayed` states is a bound; just above the least share it is met, of 400 tables by 370 or more."""
    numbers = Numbers([[Level(0.2, 0.2, 0.2)]], np.ones(1), np.ones(1, bool))
    n, level, rng = 2000, 1e-4, np.random.default_rng(2)
    shares = [s / 200 for s in range(1, 100)]
    least = next(s for s in shares if evidence.betrayed(n, numbers.law, numbers.others, numbers.bare(s), level))
    counts = rng.multinomial(n, numbers.bare(least)[0], 400)[:, None]
    assert (numbers.p(counts) < level).sum() >= 370 and least < 0.1


def test_few_honest_records_that_agree_seldom_are_not_taken_for_other_rows() -> None:
    """One of 10,000: its coins told 3.5 standard errors less often than they should, and three cells each."""
    [(design, p)] = honest(1, 6537)
    assert design.startswith("triples") and p > 1e-3


def test_recipes_of_several_channels_are_audited_channel_by_channel() -> None:
    """A pair by one coin and a third attribute by its own; then a tenth of the records unperturbed."""
    data = table(6000, 1)
    pairs = perturb(data[:50], keep_order=True, seed=1, **PAIR | {"record_epsilon": 3}).sidecar
    recipes = []
    for spec in (d.channels[0].spec for d in opened(pairs).recipes):
        assert spec is not None
        third = next(n for n in SMALL if n not in spec.attributes)
        recipes.append(Recipe([spec, GammaDiagonalSpec(attributes=[third], gamma=4)], weight=1 + len(recipes)))
    made = perturb(data, like=msgspec.structs.replace(pairs, recipes=recipes), seed=2, keep_order=True)

    def tests(frame: pl.DataFrame) -> set[str]:
        done = attack(frame, sidecar=made.sidecar, truth=data, attacks=["audit"])
        return {r.test for r in done.coins if not r.honest}

    assert tests(made.frame) == set()
    assert "record" in tests(left_bare(made.frame, data, made.sidecar, 0.1, 3))

"""The search for a person's row: the likelihood itself, what is found, and how far expectations go."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import attack, perturb
from ppdm_cli.attacks import search
from ppdm_cli.attacks.likelihood import CellReader, Likelihoods
from ppdm_cli.errors import UsageError
from ppdm_cli.releases import Strata, opened

SIZES = {"a": 12, "b": 8, "c": 20}
WIDE = {n: {"categories": list(range(k))} for n, k in SIZES.items()}


def people(n: int, seed: int = 1) -> pl.DataFrame:
    """People whose attributes depend on each other, and of whom some are unusual."""
    rng = np.random.default_rng(seed)
    first = np.minimum(rng.geometric(0.3, n) - 1, 19)
    found = {c: np.where(rng.random(n) < 0.5, first, rng.integers(0, 20, n)) % k for c, k in SIZES.items()}
    return pl.DataFrame(found | {"group": rng.choice(["x", "y", "z"], n, p=[0.7, 0.2, 0.1])})


def simple(shown: pl.DataFrame, original: pl.DataFrame, gamma: float, kept: list[str]) -> np.ndarray:
    """How often each person's row is first, and in the first ten: by the matrix written out, in loops."""
    scores, n = np.zeros((len(shown), len(shown))), len(shown)
    for name, size in SIZES.items():
        if name in original.columns:
            y, x = shown[name].to_numpy(), original[name].to_numpy()
            matrix = np.where(np.eye(size), gamma, 1) / (gamma + size - 1)
            scores += np.log(matrix[y[:, None], x[None, :]] / (np.bincount(y, minlength=size) / n)[y, None])
    for name in kept:
        scores[shown[name].to_numpy()[:, None] != original[name].to_numpy()[None, :]] = -np.inf
    own = np.diagonal(scores)
    above, ties = (scores > own + 1e-3).sum(axis=0), (abs(scores - own) <= 1e-3).sum(axis=0)
    return np.array([np.mean(np.clip((k - above) / ties, 0, 1)) for k in (1, 10)])


@pytest.mark.parametrize(
    ("keep", "knows"), [([], []), (["group"], []), (["group"], ["a", "group"]), ([], ["a", "c"])]
)
def test_link_equals_a_simple_implementation(
    keep: list[str], knows: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For fewer than a thousand people all are looked for: nothing is left to chance.

    Those who have ten rows above theirs are dropped on the way, which changes no figure.
    """
    monkeypatch.setattr(search, "PAIRS_AT_ONCE", 1 << 12)
    original = people(900).select(*SIZES, *keep)
    release = perturb(original, gamma=9, keep=keep, attributes=WIDE, keep_order=True, seed=2)
    found = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=["link"], knows=knows).link
    assert found is not None and found.found[0].people == 900
    known = original.select(knows or original.columns)
    wanted = simple(release.frame, known, 9, [n for n in keep if n in known.columns])
    assert [found.found[0].first, found.found[0].ten] == pytest.approx(wanted, abs=0.004)
    assert wanted[0] > 3 * found.found[0].first_chance


def brute(strata: Strata, sidecar: Any, wrong: float = 1.0) -> float:
    """The largest error of a score, beside the recipes' matrices written out: of all originals and cells."""
    strata, sizes = replace(strata, lam=strata.lam * wrong), [a.domain.size for a in strata.axes]
    everyone = np.indices(sizes).reshape(len(sizes), -1)
    laws = [np.eye(k)[:, x] for k, x in zip(sizes, everyone, strict=True)]
    tables, most = Likelihoods.of(strata, laws, everyone.shape[1]), 0.0
    for recipe in opened(sidecar).recipes:
        codes = [np.array([e.withheld]) for e in strata.exposures]
        wanted = np.zeros((1, everyone.shape[1]))
        for channel in recipe.channels:
            places = [[a.name for a in strata.axes].index(n) for n in channel.attributes]
            matrix = channel.matrix.dense()
            several = len(places) > 1
            inputs = np.ravel_multi_index([everyone[p] for p in places], [sizes[p] for p in places])
            each = np.arange(channel.published.size, dtype=np.uint32)
            parts = channel.published.split(each) if several else [each]
            repeat, wanted = len(codes[0]), np.repeat(wanted, len(each), axis=0)
            wanted += np.tile(np.log(matrix[:, inputs]), (repeat, 1))
            codes = [np.repeat(c, len(each)) for c in codes]
            for place, part in zip(places, parts, strict=True):
                first = strata.exposures[place].first[strata.numbers[recipe.number, place] - 1]
                codes[place] = np.tile(part + first, repeat)
        found = tables(CellReader.of(strata)(codes, np.full(len(wanted), recipe.number)))  # type: ignore[arg-type]
        most = max(most, float(abs((found - found[:, :1]) - (wanted - wanted[:, :1])).max()))
    return most


@pytest.mark.parametrize(
    "plan",
    [
        {"record_epsilon": 2, "publish": 2}, {"record_epsilon": 4, "publish": 1},
        {"record_epsilon": 3, "publish": 1, "class_": "b", "class_in_budget": True}, {"gamma": 9},
        {"gamma": 5, "matrix": "band"},
    ],
)  # fmt: skip
def test_likelihood_is_that_of_the_recipes_matrices(plan: dict[str, Any]) -> None:
    plan |= {"attributes": {n: {"categories": list(range(k))} for n, k in {"a": 4, "b": 3, "c": 5}.items()}}
    original = people(200).select(pl.col("a") % 4, pl.col("b") % 3, pl.col("c") % 5)
    sidecar = perturb(original, seed=1, **plan).sidecar
    strata = Strata.of(sidecar, ["a", "b", "c"])
    assert brute(strata, sidecar) < 0.005
    if strata.noisy:
        assert brute(strata, sidecar, wrong=0.95) > 0.02, "a coin made wrong by 5% is seen"


def test_a_wrong_likelihood_finds_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    original = people(900).select(*SIZES)
    release = perturb(original, gamma=19, attributes=WIDE, keep_order=True, seed=2)

    def first() -> float:
        found = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=["link"]).link
        assert found is not None
        return found.found[0].ten

    right, of = first(), Likelihoods.of

    def shifted(strata: Strata, laws: Any, candidates: int) -> Likelihoods:
        return of(strata, [np.roll(laws[0], 1, axis=0), *laws[1:]], candidates)

    monkeypatch.setattr(Likelihoods, "of", staticmethod(shifted))
    assert first() < right - 4 * sqrt(right * (1 - right) / 900)


@pytest.mark.parametrize("plan", [{"gamma": 19}, {"record_epsilon": 6, "publish": 2}])
def test_expected_figures_hold_for_people_as_the_model_has_them(plan: dict[str, Any]) -> None:
    """Independent attributes are in the model: 4 standard errors fail in one of 10,000 runs."""
    rng, n = np.random.default_rng(5), 4000
    original = pl.DataFrame({c: rng.choice(k, n, p=rng.dirichlet(np.ones(k))) for c, k in SIZES.items()})
    release = perturb(original, attributes=WIDE, keep_order=True, seed=4, **plan)
    both = [
        attack(release.frame, sidecar=release.sidecar, truth=t, attacks=["link"]).link for t in (original, None)
    ]
    measured, expected = (b.found[0] for b in both if b is not None)
    for one, other in ((measured.first, expected.first), (measured.ten, expected.ten)):
        assert abs(one - other) < 4 * sqrt(2 * max(one, 0.001) / 1000)
    assert measured.ten > 3 * measured.ten_chance
    unusual = [f.ten for f in (both[0].found if both[0] else [])]
    assert unusual[1] < unusual[2], "the more unusual half is found more often"


def test_a_small_budget_for_the_record_leaves_chance() -> None:
    """The bound is e^epsilon times chance; the measured share may exceed it by 4 standard errors."""
    original = people(5000).select(*SIZES)
    for epsilon in (1.0, 2.0):
        release = perturb(original, record_epsilon=epsilon, publish=2, attributes=WIDE, keep_order=True, seed=6)
        found = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=["link"]).link
        assert found is not None
        everyone = found.found[0]
        assert everyone.ten_bound == pytest.approx(np.exp(epsilon) * 10 / 5000, rel=1e-3)
        assert everyone.ten < everyone.ten_bound + 4 * sqrt(everyone.ten_bound / 1000)


def test_the_row_found_names_what_was_not_known() -> None:
    """A kept diagnosis follows from the row, and a perturbed copy of what is known as well."""
    rng = np.random.default_rng(3)
    original = pl.DataFrame({c: rng.integers(0, 40, 3000) for c in "abcdef"}).with_columns(
        ill=pl.Series(rng.choice(["flu", "cold", "none"], 3000, p=[0.3, 0.2, 0.5]))
    )
    wide = {c: {"categories": list(range(40))} for c in "abcdef"}
    release = perturb(original, gamma=200, keep=["ill"], class_="ill", attributes=wide, keep_order=True, seed=1)
    found = attack(
        release.frame, sidecar=release.sidecar, truth=original, attacks=["link"], knows=[*"abcde"]
    ).link
    assert found is not None and found.found[0].first > 0.9
    learnt = {r.attribute: r for r in found.learnt}
    assert learnt.keys() == {"f", "ill"} and learnt["ill"].exact > 0.9 and learnt["f"].exact > 0.6
    assert learnt["ill"].exact_prior == pytest.approx(0.5, abs=0.05) and learnt["f"].exact_prior < 0.1


def test_link_needs_only_one_record() -> None:
    release = perturb(people(1), gamma=9, keep=["group"], attributes=WIDE, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, attacks=["link"])
    found = done.link
    assert "first in 100% of the cases" in " ".join(done.sentences)
    assert found is not None and [(r.who, r.first) for r in found.found] == [("everyone", 1.0)]


def test_an_unknown_column_and_knowledge_without_link_are_refused() -> None:
    release = perturb(people(200), gamma=9, keep=["group"], attributes=WIDE, seed=1)
    with pytest.raises(UsageError, match="Did you mean 'group'"):
        attack(release.frame, sidecar=release.sidecar, attacks=["link"], knows=["groups"])
    with pytest.raises(UsageError, match=r"Add attacks=\['link'\]"):
        attack(release.frame, sidecar=release.sidecar, attacks=["posterior"], knows=["group"])

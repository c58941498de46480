"""Records in rounds: their draws, what a round is chosen by, the whole promise, and the reading."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import attack, estimate, perturb, query, train_tree
from ppdm_cli.domain import Categories
from ppdm_cli.errors import MismatchError
from ppdm_cli.joint import AttributeScores, read, screened
from ppdm_cli.perturbing.recipe_choice import ChooseBy, RecipeMaker, Round, Rounds, scheduled
from ppdm_cli.perturbing.substitution import UNDECIDED, WeightedDraw, Withholder
from ppdm_cli.releases import RecipeInUse, axis_of, decode, in_rounds, open_release, opened, recipes_in_use
from ppdm_cli.sidecar import COLUMN, Attribute, Recipe
from tests.chances import LEVEL, chi_square, independent
from tests.channels.test_box import enumerated
from tests.perturbing.test_recipe_choice import counted
from tests.vocabulary import Run, raises

NUMBERS = ["a", "b", "c", "d"]
IN_ROUNDS: dict[str, Any] = {
    "record_epsilon": 4,
    "class_": "ill",
    "keep": ["ill"],
    "attributes": {n: {"domain": [0, 100], "bins": 10} for n in NUMBERS} | {"town": {"domain": "x|y|z"}},
    "rounds": 3,
}
ROWS = 12_000


def pairs(rows: int = ROWS, seed: int = 1) -> pl.DataFrame:
    """a and b decide of the class together, a little by themselves; the others say nothing."""
    rng = np.random.default_rng(seed)
    columns = {n: rng.uniform(0, 100, rows) for n in NUMBERS}
    ill = (columns["a"] > 45) ^ (columns["b"] > 60)
    town = rng.choice(["x", "y", "z"], rows)
    label = np.where(ill ^ (rng.random(rows) < 0.05), "yes", "no")
    return pl.DataFrame(columns | {"town": town, "ill": label})


def made_in_rounds(rows: int = ROWS, data: pl.DataFrame | None = None, **given: Any) -> Any:
    original = pairs(rows) if data is None else data
    return perturb(original, **IN_ROUNDS | {"seed": 1, "keep_order": True} | given)


@cache
def of_rounds(rounds: int = 3) -> Any:
    return made_in_rounds(rounds=rounds)


def rounds_of(made: Any) -> np.ndarray:
    return np.array([d.round for d in opened(made.sidecar).recipes])[made.frame[COLUMN].to_numpy()]


@pytest.mark.parametrize("rounds", [2, 3])
def test_rounds_and_recipes_are_drawn_by_their_weights(rounds: int) -> None:
    made = of_rounds(rounds)
    found = in_rounds(opened(made.sidecar).recipes)
    assert len(found) == rounds
    counts = np.bincount(rounds_of(made), minlength=rounds + 1)[1:]
    assert chi_square(counts, np.array([r.share for r in scheduled(rounds, 4)], float)) > LEVEL
    for number, recipes in enumerate(found, 1):
        within = made.frame[COLUMN].to_numpy()[rounds_of(made) == number]
        own = np.bincount(within, minlength=len(opened(made.sidecar).recipes))[[d.number for d in recipes]]
        assert len(recipes) == 1 or chi_square(own, np.array([d.weight for d in recipes], float)) > LEVEL
    assert {"a", "b"} <= {n for d in found[-1] for n in d.attributes}, "what decides of the class is found"
    data = made.sidecar.encode()
    assert decode(data, "x") == made.sidecar and decode(data, "x").encode() == data


def test_rounds_depend_on_no_value_and_no_row_number() -> None:
    rows, original, drawn = np.arange(ROWS), pairs(), rounds_of(of_rounds()) - 1
    ill = original["ill"].to_numpy() == "yes"
    for values in (rows * 8 // ROWS, rows % 7, original["a"].to_numpy() // 10, ill):
        assert independent(counted(values, drawn)) > LEVEL


def test_a_design_follows_from_what_earlier_rounds_published_and_from_nothing_else() -> None:
    """Other originals of the last round's records, the same design; other ones of the first, another."""
    made, original, rng = of_rounds(), pairs(), np.random.default_rng(7)
    last = pl.Series(rounds_of(made) == 3)
    other = pl.Series(rng.uniform(0, 100, ROWS))
    strange = original.with_columns(pl.when(last).then(other).otherwise(pl.col(n)).alias(n) for n in NUMBERS)
    again = made_in_rounds(data=strange)
    assert again.sidecar.recipes == made.sidecar.recipes
    assert again.frame.filter(~last).equals(made.frame.filter(~last))
    assert not again.frame.filter(last).equals(made.frame.filter(last))
    first = pl.Series(rounds_of(of_rounds(2)) == 1)
    turned = zip("cdab", "abcd", strict=True)
    swapped = original.with_columns(pl.when(first).then(b).otherwise(a).alias(a) for a, b in turned)
    for data, names in ((original, {"a", "b"}), (swapped, {"c", "d"})):
        of_last = in_rounds(opened(made_in_rounds(data=data, rounds=2).sidecar).recipes)[-1]
        assert {n for d in of_last for n in d.attributes} >= names


def test_under_a_key_file_rounds_are_remembered_and_others_refused(tmp_path: Path) -> None:
    asked = {"key_file": tmp_path / "k", "id": "who", "seed": None}
    data = pairs(6000).with_columns(who=pl.Series([f"p{i}" for i in range(6000)]))
    first = made_in_rounds(data=data, **asked)
    order = np.random.default_rng(2).permutation(data.height).tolist()
    again = made_in_rounds(data=data[order], **asked)
    assert again.sidecar.recipes == first.sidecar.recipes and again.frame.equals(first.frame[order])
    for other in ({"rounds": 2}, {"rounds": None}, {"publish": 1}, {"record_epsilon": 3}):
        with raises("other-design"):
            made_in_rounds(data=data, **asked, **other)
    frozen = perturb(data[:4000], like=first.sidecar, key_file=tmp_path / "k", id="who", keep_order=True)
    assert frozen.frame.equals(first.frame[:4000]), "--like takes the rounds with their recipes"


@cache
def honest_audit() -> bool:
    made = of_rounds()
    return bool(attack(made.frame, truth=pairs(), sidecar=made.sidecar, attacks=["audit"]).honest)


def cheating(mask: np.ndarray, wanted: Sequence[int]) -> pl.DataFrame:
    """An honest release, but that masked records mostly go through some of the recipes."""
    sidecar, one, listed = of_rounds().sidecar, of_rounds().frame, []
    for d in opened(sidecar).recipes:
        specs = [c.spec for c in d.channels if c.spec is not None]
        listed.append(Recipe(specs, weight=d.weight << 20 * (d.number in wanted), round=d.round))
    leaning = msgspec.structs.replace(sidecar, recipes=listed)
    other = perturb(pairs(), like=leaning, seed=99, keep_order=True).frame
    return pl.DataFrame({n: other[n].zip_with(pl.Series(mask), one[n]) for n in one.columns})


@pytest.mark.parametrize("cheat", ["recipe by value", "recipe by place", "round by class"])
def test_the_audit_rejects_recipes_that_depend_on_something_within_a_round(cheat: str) -> None:
    original, second, row = pairs(), rounds_of(of_rounds()) == 2, np.arange(ROWS)
    found = in_rounds(opened(of_rounds().sidecar).recipes)
    one, last = [found[1][0].number], [d.number for d in found[2]]
    mask, wanted, where = {
        # of the second round's own records, by their own value
        "recipe by value": (second & (original["c"] > 60).to_numpy(), one, "c"),
        "recipe by place": (second & (row < ROWS / 3), one, "the place in the file"),
        "round by class": ((original["ill"] == "yes").to_numpy() & (row % 4 == 0), last, "ill"),
    }[cheat]
    assert honest_audit()
    done = attack(cheating(mask, wanted), truth=original, sidecar=of_rounds().sidecar, attacks=["audit"])
    rejected = {r.test: r.where for r in done.coins if not r.honest}
    assert not done.honest and where in rejected["recipes"] and {*rejected} <= {"recipes", "rows", "place"}


def test_estimates_are_of_the_last_round_that_publishes_a_table_and_cover() -> None:
    """Of 16 releases: standardized errors of counts have mean 0 and a spread of 1, within 4 errors of each."""
    errors = []
    exact = np.histogram(pairs(2000)["a"].to_numpy(), bins=10, range=(0, 100))[0]
    for seed in range(16):
        made = made_in_rounds(2000, seed=seed, record_epsilon=6)
        done = estimate(made.frame, sidecar=made.sidecar, attributes=["a"], estimator="inverse")
        [counts] = done.tables
        of_a = [d for d in opened(made.sidecar).recipes if "a" in d.attributes]
        numbers = [d.number for d in of_a if d.round == max(d.round for d in of_a)]
        assert counts.all_records == made.frame[COLUMN].is_in(numbers).sum()
        errors.append((counts.estimate - exact) / counts.interval.std_error)
    z = np.array(errors)
    assert abs(z.mean(axis=0)).max() < 4 / np.sqrt(16)
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / z.size)


def test_the_miner_learns_more_of_rounds() -> None:
    made, one = of_rounds(), made_in_rounds(rounds=None, publish=2)
    tree = train_tree(made.frame, sidecar=made.sidecar)
    assert set(tree.attributes) >= {"a", "b"} and tree.model == "joint"
    assert tree.gain > 1.2 * train_tree(one.frame, sidecar=one.sidecar).gain
    mean = query(made.frame, "select mean(a)", sidecar=made.sidecar).frame
    assert abs(mean["value"][0] - 50) < 4 * mean["std_error"][0]


def test_screening_finds_what_is_informative_together_and_nothing_in_chance() -> None:
    made = made_in_rounds(rounds=None, publish=2, seed=3)

    def tells(frame: pl.DataFrame) -> AttributeScores:
        opened, sidecar = open_release(frame.to_arrow(), made.sidecar)
        return screened(read(opened, sidecar, axis_of(sidecar, "ill")))

    found = tells(made.frame)
    assert max(found.together, key=lambda p: found.together[p]) == ("a", "b")
    assert found.together["a", "b"] > 20 and found.ranked()[0][:2] in (["a", "b"], ["b", "a"])
    label = np.random.default_rng(1).permutation(made.frame["ill"])
    nothing = tells(made.frame.with_columns(pl.Series("ill", label)))
    assert max(nothing.alone.values()) < 6 and max(nothing.together.values()) < 6


@pytest.mark.parametrize("inside", [False, True])
def test_a_class_of_several_labels_kept_or_inside(inside: bool) -> None:
    high = pl.when(pl.col("a") < 60).then(pl.lit("mid")).otherwise(pl.lit("high"))
    data = pairs().with_columns(ill=pl.when(pl.col("a") < 30).then(pl.lit("low")).otherwise(high))
    given: dict[str, Any] = {"data": data, "record_epsilon": 5}
    if inside:
        given |= {"keep": [], "attributes": IN_ROUNDS["attributes"] | {"ill": {"domain": "low|mid|high"}}}
    made = made_in_rounds(**given)
    assert "a" in {n for d in in_rounds(opened(made.sidecar).recipes)[-1] for n in d.attributes}
    assert all(("ill" in d.attributes) == inside for d in opened(made.sidecar).recipes)
    privacy = made_in_rounds(seed=None, rounds=2, **given).sidecar.privacy
    assert 5 - 1e-4 < privacy.perturbed_epsilon <= 5


def test_persons_and_a_random_order_go_with_rounds() -> None:
    data = pairs(9000).with_columns(who=pl.Series(np.arange(9000) // 3))
    made = made_in_rounds(data=data, person="who", rows_per_person=2, keep_order=False, shuffle=True)
    assert made.left_out == 3000 and made.frame.height == 6000
    assert len(in_rounds(opened(made.sidecar).recipes)) == 3


def test_rounds_read_a_file_more_than_once_and_no_pipe(ppdm: Run, tmp_path: Path) -> None:
    pairs(3000).write_csv(tmp_path / "t.csv")
    own = [a for n in NUMBERS for a in ("--attribute", f"{n}:domain=0:100")]
    asked = ["--record-epsilon", 4, "--rounds", 2, "--class", "ill", "--keep", "ill", *own]
    asked += ["--domain", "town=x|y|z", "--keep-order"]
    ppdm("perturb", "t.csv", "-o", "r.csv", *asked)
    piped = ("perturb", "-", "--from", "csv", "-o", "p.csv", *asked, "--json")
    refused = json.loads(ppdm(*piped, stdin=(tmp_path / "t.csv").read_bytes(), code=2).stderr)
    assert refused["error"]["id"] == "rounds-of-stream" and not (tmp_path / "p.csv").exists()
    for command in (["estimate", "r.csv"], ["reconstruct", "r.csv", "-o", "back.csv"]):
        ppdm(*command)


@pytest.mark.parametrize("rounds", [[2, 2, 2], [1, 1, 3], [1, None, 2], [2, 1, 1], [0, 1, 1], [1, 1, 99]])
def test_a_sidecar_with_impossible_rounds_is_refused(rounds: list[int | None]) -> None:
    raw = json.loads(of_rounds().sidecar.encode())
    first = [d for d in opened(of_rounds().sidecar).recipes if d.round == 1][:10]
    listed = [{"weight": 1, "channels": [msgspec.to_builtins(d.channels[0].spec)]} for d in first]
    numbers = [rounds[0]] * 4 + [rounds[1]] * 3 + [rounds[2]] * 3
    raw["recipes"] = [r | ({} if n is None else {"round": n}) for r, n in zip(listed, numbers, strict=True)]
    with pytest.raises(MismatchError):
        decode(json.dumps(raw).encode(), "x")


# -- the promise of rounds, by every release of two small records and the samplers' own integers

NAMES = "abc"
DOMAIN = Categories(pa.string(), ["0", "1"], False)
KNOWN = {n: Attribute(name=n, role="perturbed", domain_from="declared", **DOMAIN.written()) for n in NAMES}
RECORDS = list(product((0, 1), repeat=3))
PUBLISHER = RecipeMaker(dict.fromkeys(NAMES, (DOMAIN, False)), None, log(3) + 1e-7)
ROUNDS = Rounds(PUBLISHER, (Round(1, 1, ChooseBy.EVERY), Round(2, 2, ChooseBy.BEST, 2)))
SHARE = [s / sum(ROUNDS.shares) for s in ROUNDS.shares]
See = Callable[[Any, Any], Any]
"""What the second round's recipes are chosen by: of what the first's record published, and both records."""


def answers(recipe: RecipeInUse) -> np.ndarray:
    """P(answer | record), by all of the sampler's draws."""
    [channel] = recipe.channels
    box: Any = channel.matrix
    where = [NAMES.index(n) for n in channel.attributes]
    at = [int(np.ravel_multi_index([r[p] for p in where], [2] * len(where))) for r in RECORDS]
    law: np.ndarray = enumerated(box)[:, at] / box.range
    return law


def with_shares(recipes: list[RecipeInUse]) -> list[tuple[RecipeInUse, float]]:
    total = sum(d.weight for d in recipes)
    return [(d, d.weight / total) for d in recipes]


class Whole:
    """All releases of two records, by a choice that is arbitrary in what it sees."""

    def __init__(self, see: See) -> None:
        self._see, self._whims, self._rng = see, dict[Any, list[float]](), np.random.default_rng(3)
        self.first = with_shares(recipes_in_use(ROUNDS.first(), [*KNOWN.values()]))

    def second(self, published: Any, records: Any) -> list[tuple[RecipeInUse, float]]:
        whim = self._whims.setdefault(self._see(published, records), self._rng.random(3).tolist())
        tells = AttributeScores(dict(zip(NAMES, whim, strict=True)), {})
        every = recipes_in_use(ROUNDS.further(ROUNDS.first(), tells), [*KNOWN.values()])
        return with_shares([d for d in every if d.round == 2])

    def law(self) -> np.ndarray:
        """P(release | both records), (releases, records, records)."""
        found = []
        for own, share in ((self.first, SHARE[0]), (self.second((), None), SHARE[1])):  # both in one round
            for (one, p), (other, q) in product(own, own):
                both = product(answers(one), answers(other))
                found += [share**2 * p * q * np.multiply.outer(a, b) for a, b in both]
        for one, p in self.first:  # one in each
            for number, a in enumerate(answers(one)):
                cells = SHARE[0] * SHARE[1] * p * self._after((one.number, number), a)
                found += [*cells, *(c.T for c in cells)]
        return np.array(found)

    def _after(self, published: Any, chances: np.ndarray) -> np.ndarray:
        cells: dict[Any, np.ndarray] = {}
        for x, y in np.ndindex(len(RECORDS), len(RECORDS)):
            for other, q in self.second(published, (RECORDS[x], RECORDS[y])):
                for answer, b in enumerate(answers(other)):
                    cell = cells.setdefault((other.attributes, answer), np.zeros((len(RECORDS), len(RECORDS))))
                    cell[x, y] += chances[x] * q * b[y]
        return np.array(list(cells.values()))


def amplification(see: See) -> float:
    whole = Whole(see).law()
    np.testing.assert_allclose(whole.sum(axis=0), 1)
    worst = 1.0
    for axis in (1, 2):
        least, most = whole.min(axis=axis), whole.max(axis=axis)
        worst = max(worst, float((most[most > 0] / np.maximum(least[most > 0], 1e-300)).max()))
    return worst


def test_the_whole_release_keeps_its_promise_whatever_a_later_round_makes_of_what_was_published() -> None:
    found = amplification(lambda published, _: published)
    assert found == pytest.approx(3, abs=1e-4) and found <= exp(PUBLISHER.epsilon)


def test_a_choice_that_sees_the_records_own_value_or_originals_is_caught() -> None:
    assert amplification(lambda published, both: (published, both and both[1][0])) > 4
    assert amplification(lambda _, both: both and both[0]) > 4


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("inside", [False, True])
def test_who_chose_a_design_is_published_as_it_was_chosen_by(
    rounds: int, epsilon: float, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would have answered twice, and the first answer would be in the design: epsilon once more."""
    seen: list[tuple[pl.Series, pl.DataFrame]] = []
    real = Withholder.published

    def heard(self: Withholder, codes: Any, batch: Any, addresses: Any) -> dict[str, pa.Array]:
        columns = real(self, codes, batch, addresses)
        seen.append((pl.Series(addresses), pl.DataFrame(pa.table(columns))))
        return columns

    monkeypatch.setattr(Withholder, "published", heard)
    given: dict[str, Any] = {"rounds": rounds, "record_epsilon": epsilon, "seed": 5}
    if inside:
        given |= {"keep": [], "attributes": IN_ROUNDS["attributes"] | {"ill": {"domain": "yes|no"}}}
    made = made_in_rounds(3000, **given)
    *choosing, (rows, final) = seen
    assert len(choosing) == rounds - 1 and all(r.equals(rows) for r, _ in choosing)
    assert made.frame.select(final.columns).equals(final.cast(dict(made.frame.select(final.columns).schema)))
    own = rounds_of(made)
    for number, (_, before) in enumerate(choosing, 1):
        decided = before[COLUMN].to_numpy() != UNDECIDED
        assert (decided == (own <= number)).all()
        names = [c for c in final.columns if c in before.columns]
        # the types may widen as later rounds reach further
        assert before.filter(decided)[names].cast(final[names].schema).equals(final.filter(decided)[names])


def test_a_draw_is_of_the_ratios_of_weights_and_a_scaled_one_the_same() -> None:
    addresses = np.arange(4000, dtype=np.uint64)
    for weights in ([3] * 5, [1, 2, 4]):
        both = (WeightedDraw(b"k" * 32, [factor * w for w in weights]) for factor in (1, 21))
        one, scaled = (draw.drawn(addresses) for draw in both)
        assert (one == scaled).all()
        assert chi_square(np.bincount(one), np.array(weights, float)) > LEVEL

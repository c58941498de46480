"""Records in rounds: dealing, what a round is chosen by, the promise, the reading, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import attack, estimate, perturb, query, train_tree
from ppdm_cli.domain import Categories
from ppdm_cli.errors import MismatchError, PpdmError, RefusedError
from ppdm_cli.joint import Tells, read, screened
from ppdm_cli.perturbing import record_design
from ppdm_cli.perturbing.recipe_choice import RecipeMaker, Rounds
from ppdm_cli.perturbing.record_design import Design, Setting, recommended, scheduled
from ppdm_cli.releases import axis_of, decode, in_rounds, open_release, opened
from ppdm_cli.sidecar import COLUMN, Recipe
from tests.chances import LEVEL, chi_square, independent
from tests.vocabulary import Run

NUMBERS = ["a", "b", "c", "d"]
DOMAINS: dict[str, Any] = {n: {"domain": [0, 100], "bins": 10} for n in NUMBERS} | {"town": {"domain": "x|y|z"}}
ASKED: dict[str, Any] = {
    "record_epsilon": 4,
    "class_": "ill",
    "keep": ["ill"],
    "attributes": DOMAINS,
    "rounds": 3,
}


ROWS = 12_000


def table(rows: int = ROWS, seed: int = 1) -> pl.DataFrame:
    """a and b decide of the class together, a little by themselves; the others say nothing."""
    rng = np.random.default_rng(seed)
    columns = {n: rng.uniform(0, 100, rows) for n in NUMBERS}
    ill = (columns["a"] > 45) ^ (columns["b"] > 60)
    return pl.DataFrame(
        columns
        | {"town": rng.choice(["x", "y", "z"], rows)}
        | {"ill": np.where(ill ^ (rng.random(rows) < 0.05), "yes", "no")}
    )


def some(*names: str) -> dict[str, Any]:
    return {n: DOMAINS[n] for n in names}


def released(rows: int = ROWS, seed: int = 1, data: pl.DataFrame | None = None, **given: Any) -> Any:
    original = table(rows) if data is None else data
    return perturb(original, **ASKED | {"seed": seed, "keep_order": True} | given)


@cache
def release(rounds: int = 3, seed: int = 1, epsilon: float = 4) -> Any:
    return released(rounds=rounds, seed=seed, record_epsilon=epsilon)


def rounds_of(made: Any) -> np.ndarray:
    return np.array([d.round for d in opened(made.sidecar).recipes])[made.frame[COLUMN].to_numpy()]


@pytest.mark.parametrize("rounds", [2, 3])
def test_records_are_dealt_to_rounds_and_recipes_by_their_weights(rounds: int) -> None:
    made = release(rounds)
    found = in_rounds(opened(made.sidecar).recipes)
    schedule = scheduled(rounds, 4)
    assert len(found) == rounds
    counts = np.bincount(rounds_of(made), minlength=rounds + 1)[1:]
    assert chi_square(counts, np.array([r.share for r in schedule], float)) > LEVEL
    for number, recipes in enumerate(found, 1):
        within = made.frame[COLUMN].to_numpy()[rounds_of(made) == number]
        own = np.bincount(within, minlength=len(opened(made.sidecar).recipes))[[d.number for d in recipes]]
        assert len(recipes) == 1 or chi_square(own, np.array([d.weight for d in recipes], float)) > LEVEL
    shown = {n for d in found[-1] for n in d.attributes}
    assert {"a", "b"} <= shown, "what decides of the class is found"
    data = made.sidecar.encode()
    assert decode(data, "x") == made.sidecar and decode(data, "x").encode() == data
    assert {r["round"] for r in json.loads(data)["recipes"]} == {*range(1, rounds + 1)}


def test_rounds_hang_on_no_value_and_no_place() -> None:
    made, original = release(), table()
    rows = original.height
    for values in (
        np.arange(rows) * 8 // rows,
        np.arange(rows) % 7,
        (original["a"].to_numpy() // 10).astype(int),
        (original["ill"].to_numpy() == "yes").astype(int),
    ):
        found = np.zeros((int(values.max()) + 1, 4))
        np.add.at(found, (values, rounds_of(made)), 1)
        assert independent(found[:, 1:]) > LEVEL


def test_a_design_follows_from_what_earlier_rounds_published_and_from_nothing_else() -> None:
    """Other originals of the last round's records, the same design; other ones of the first, another."""
    made, original, rng = release(), table(), np.random.default_rng(7)
    last = pl.Series(rounds_of(made) == 3)
    strange = original.with_columns(
        pl.when(last).then(pl.Series(rng.uniform(0, 100, original.height))).otherwise(pl.col(n)).alias(n)
        for n in NUMBERS
    )
    again = released(data=strange)
    assert again.sidecar.recipes == made.sidecar.recipes
    before = ~last
    assert again.frame.filter(before).equals(made.frame.filter(before))
    assert not again.frame.filter(last).equals(made.frame.filter(last))
    first = rounds_of(release(2)) == 1
    swapped = original.with_columns(
        pl.when(pl.Series(first)).then(pl.col(one)).otherwise(pl.col(other)).alias(other)
        for one, other in (("a", "c"), ("c", "a"), ("b", "d"), ("d", "b"))
    )
    for data, names in ((original, {"a", "b"}), (swapped, {"c", "d"})):
        of_last = in_rounds(opened(released(data=data, rounds=2).sidecar).recipes)[-1]
        assert {n for d in of_last for n in d.attributes} >= names


def key_of(folder: Path, data: pl.DataFrame, **given: Any) -> Any:
    asked = ASKED | {"key_file": folder / "k", "id": "who", "keep_order": True}
    return perturb(data, **asked | given)


def test_under_a_key_file_the_design_is_remembered_and_another_refused(tmp_path: Path) -> None:
    data = table(6000).with_columns(who=pl.Series([f"p{i}" for i in range(6000)]))
    first = key_of(tmp_path, data)
    order = np.random.default_rng(2).permutation(data.height).tolist()
    again = key_of(tmp_path, data[order])
    assert again.sidecar.recipes == first.sidecar.recipes and again.frame.equals(first.frame[order])
    fewer = data[:4000]
    for other in ({"rounds": 2}, {"rounds": None}, {"publish": 1}, {"record_epsilon": 3}):
        with pytest.raises(RefusedError, match="another design"):
            key_of(tmp_path, data, **other)
    frozen = perturb(fewer, like=first.sidecar, key_file=tmp_path / "k", id="who", keep_order=True)
    assert frozen.frame.equals(first.frame[:4000]), "--like takes the rounds with their recipes"


@cache
def honest_audit() -> bool:
    return bool(attack(release().frame, truth=table(), sidecar=release().sidecar, attacks=["audit"]).honest)


def cheating(mask: np.ndarray, wanted: Sequence[int]) -> pl.DataFrame:
    """An honest release, but that masked records mostly go through some of the recipes."""
    sidecar, one = release().sidecar, release().frame
    listed = [
        Recipe(
            [c.spec for c in d.channels if c.spec is not None],
            weight=d.weight << 20 * (d.number in wanted),
            round=d.round,
        )
        for d in opened(sidecar).recipes
    ]
    leaning = msgspec.structs.replace(sidecar, recipes=listed)
    other = perturb(table(), like=leaning, seed=99, keep_order=True).frame
    return pl.DataFrame({n: other[n].zip_with(pl.Series(mask), one[n]) for n in one.columns})


@pytest.mark.parametrize("cheat", ["recipe by value", "recipe by place", "round by class"])
def test_the_audit_rejects_recipes_that_depend_on_something_within_a_round(cheat: str) -> None:
    original, of_rounds = table(), rounds_of(release())
    found = in_rounds(opened(release().sidecar).recipes)
    second, place = of_rounds == 2, np.arange(ROWS)
    one, last = [found[1][0].number], [d.number for d in found[2]]
    mask, wanted, where = {
        # of the second round's own records, by their own value
        "recipe by value": (second & (original["c"] > 60).to_numpy(), one, "c"),
        "recipe by place": (second & (place < ROWS / 3), one, "the place in the file"),
        "round by class": ((original["ill"] == "yes").to_numpy() & (place % 4 == 0), last, "ill"),
    }[cheat]
    assert honest_audit()
    done = attack(cheating(mask, wanted), truth=original, sidecar=release().sidecar, attacks=["audit"])
    rejected = {r.test: r.where for r in done.coins if not r.honest}
    assert not done.honest and where in rejected["recipes"] and {*rejected} <= {"recipes", "rows", "place"}


def test_estimates_are_of_the_last_round_that_shows_a_table_and_cover() -> None:
    """Of 16 releases: standardized errors of counts have mean 0 and a spread of 1, within 4 errors of each."""
    errors = []
    for seed in range(16):
        made = released(2000, seed=seed, data=table(2000), record_epsilon=6)
        done = estimate(made.frame, sidecar=made.sidecar, attributes=["a"], estimator="inverse")
        [told] = done.tables
        last = max(d.round for d in opened(made.sidecar).recipes if "a" in d.attributes)
        numbers = [d.number for d in opened(made.sidecar).recipes if d.round == last and "a" in d.attributes]
        assert told.all_records == made.frame[COLUMN].is_in(numbers).sum()
        errors += [((told.estimate - true_counts()) / told.interval.std_error)]
    z = np.array(errors)
    assert abs(z.mean(axis=0)).max() < 4 / np.sqrt(16)
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / z.size)


@cache
def true_counts() -> np.ndarray:
    return np.histogram(table(2000)["a"].to_numpy(), bins=10, range=(0, 100))[0]


def test_the_miner_takes_rounds_without_being_told(tmp_path: Path) -> None:
    made = release()
    tree = train_tree(made.frame, sidecar=made.sidecar)
    assert set(tree.attributes) >= {"a", "b"} and tree.model == "joint"
    one = train_tree(released(rounds=None, publish=2).frame, sidecar=released(rounds=None, publish=2).sidecar)
    assert tree.gain > 1.2 * one.gain, "the last round's records all show what decides"


def test_screening_finds_what_tells_together_and_nothing_in_chance() -> None:
    made = released(rounds=None, publish=2, seed=3)

    def tells(frame: pl.DataFrame) -> Tells:
        opened, sidecar = open_release(frame.to_arrow(), made.sidecar)
        return screened(read(opened, sidecar, axis_of(sidecar, "ill")))

    found = tells(made.frame)
    assert max(found.together, key=lambda p: found.together[p]) == ("a", "b")
    assert found.together["a", "b"] > 20 and found.ranked()[0][:2] in (["a", "b"], ["b", "a"])
    shuffled = made.frame.with_columns(
        pl.Series("ill", np.random.default_rng(1).permutation(made.frame["ill"]))
    )
    nothing = tells(shuffled)
    assert max(nothing.alone.values()) < 6 and max(nothing.together.values()) < 6


@pytest.mark.parametrize("inside", [False, True])
def test_a_class_of_several_labels_kept_or_inside(inside: bool) -> None:
    data = table().with_columns(
        ill=pl.when(pl.col("a") < 30)
        .then(pl.lit("low"))
        .when(pl.col("a") < 60)
        .then(pl.lit("mid"))
        .otherwise(pl.lit("high"))
    )
    given: dict[str, Any] = {"data": data, "record_epsilon": 5}
    if inside:
        given |= {"keep": [], "attributes": DOMAINS | {"ill": {"domain": "low|mid|high"}}}
    made = released(**given)
    found = in_rounds(opened(made.sidecar).recipes)
    assert "a" in {n for d in found[-1] for n in d.attributes}
    assert all(("ill" in d.attributes) == inside for d in opened(made.sidecar).recipes)
    assert made.sidecar.privacy.coins == "seeded"
    promised = released(seed=None, rounds=2, **given).sidecar.privacy
    assert promised.perturbed_epsilon == pytest.approx(5, abs=1e-4) and promised.perturbed_epsilon <= 5


def test_persons_and_a_random_order_go_with_rounds() -> None:
    data = table(9000).with_columns(who=pl.Series(np.arange(9000) // 3))
    made = released(data=data, person="who", rows_per_person=2, keep_order=False, shuffle=True)
    assert (
        made.left_out == 3000
        and made.frame.height == 6000
        and len(in_rounds(opened(made.sidecar).recipes)) == 3
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rounds": 1}, "from 2 to 3"),
        ({"rounds": 4}, "from 2 to 3"),
        ({"class_": None}, "reveal most about a class"),
        ({"publish": "all"}, "reveal most about a class"),
        ({"record_epsilon": None, "gamma": 9}, "reveal most about a class"),
        ({"publish": 9}, "cannot publish 9 of 5"),
        ({"drop": list("bcd"), "attributes": some("a", "town")}, "choose among attributes"),
        ({"class_": "a", "keep": ["a", "ill"], "attributes": some(*"bcd", "town")}, "no labels that rounds"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(PpdmError, match=said):
        released(1500, **asked)


def test_more_recipes_than_a_release_may_have_are_refused_before_any_pass() -> None:
    known = {str(i): (Categories(pa.string(), ["0", "1"], False), False) for i in range(91)}
    with pytest.raises(RefusedError, match="recipes"):
        Rounds.of(RecipeMaker.of(known, None, 4.0), 3, "auto")


def test_the_command_line_reads_files_says_the_rounds_and_refuses_a_pipe(ppdm: Run, tmp_path: Path) -> None:
    table(6000).write_csv(tmp_path / "t.csv")
    domains = [a for n in NUMBERS for a in ("--attribute", f"{n}:domain=0:100")]
    asked = (
        "--record-epsilon",
        4,
        "--rounds",
        2,
        "--class",
        "ill",
        "--keep",
        "ill",
        *domains,
        "--domain",
        "town=x|y|z",
    )
    made = ppdm("perturb", "t.csv", "-o", "r.csv", *asked, "--keep-order")
    said = " ".join(made.stderr.decode().split())
    assert (
        "The records were dealt to 2 rounds by a coin (30%, 70%)." in said
        and "in the last round 'a', 'b'" in said
    )
    shown = json.loads(ppdm("inspect", "r.csv", "--json").stdout)
    assert shown["record"]["rounds"] == 2 and shown["record"]["perturbed_epsilon"] <= 4
    piped = ("perturb", "-", "--from", "csv", "-o", "p.csv")
    refused = ppdm(*piped, *asked, stdin=(tmp_path / "t.csv").read_bytes(), code=2).stderr.decode()
    assert "more than once" in refused and not (tmp_path / "p.csv").exists()
    again = ppdm("perturb", "t.csv", "-o", "s.csv", "--like", "r.csv", "--keep-order")
    assert again.returncode == 0
    ppdm("estimate", "r.csv")
    ppdm("reconstruct", "r.csv", "-o", "back.csv")


@pytest.mark.parametrize("rounds", [[2, 2, 2], [1, 1, 3], [1, None, 2], [2, 1, 1], [0, 1, 1], [1, 1, 99]])
def test_a_sidecar_with_impossible_rounds_is_refused(rounds: list[int | None]) -> None:
    raw = json.loads(release().sidecar.encode())
    listed = [
        {"weight": 1, "channels": [msgspec.to_builtins(d.channels[0].spec)]}
        for d in opened(release().sidecar).recipes
        if d.round == 1
    ][:10]
    numbers = [rounds[0]] * 4 + [rounds[1]] * 3 + [rounds[2]] * 3
    raw["recipes"] = [r | ({} if n is None else {"round": n}) for r, n in zip(listed, numbers, strict=True)]
    with pytest.raises(MismatchError):
        decode(json.dumps(raw).encode(), "x")


def test_rounds_are_among_the_designs_and_recommended_where_a_class_is_what_matters() -> None:
    nine = ((16, True),) * 9
    for epsilon, for_class, rounds in ((1.0, True, 3), (2.0, True, 3), (6.0, True, 2), (2.0, False, 1)):
        assert recommended(Setting(epsilon, 100_000, nine, 0, for_class)).rounds == rounds
    few, many = Setting(1.0, 1000, nine, 0, True), Setting(8.0, 10_000_000, nine, 0, True)
    assert recommended(few).rounds == recommended(many).rounds == 1, "nothing to find, or nothing to gain"
    setting = Setting(2.0, 100_000, nine)
    several, one = record_design.in_rounds(setting), Design(setting, 3)
    assert several is not None and several.k == 3
    # 60 % of the records show the best three together, of which one pass shows a twelfth
    assert several.of_pair == pytest.approx(0.6 * 12 * one.of_pair)
    assert several.published == pytest.approx((0.15 * 1 + 0.25 * 2 + 0.6 * 3) / 9)
    assert record_design.in_rounds(Setting(2.0, 1000, nine[:2])) is None


def test_the_plan_of_a_class_has_rounds_and_perturb_takes_it(ppdm: Run, tmp_path: Path) -> None:
    own = 'record_epsilon = 1\nclass = "ill"\nkeep = ["ill"]\nrounds = 2\n' + "".join(
        f"[attributes.{n}]\ndomain = [0, 100]\n" for n in NUMBERS
    )
    (tmp_path / "own.toml").write_text(own)
    asked = ("--record-epsilon", 3, "--records", 20_000, "--plan", "own.toml", "-o", "new.toml")
    rows = json.loads(ppdm("entropy", *asked, "--json").stdout)["rows"]
    assert rows[0]["rounds"] == 3 and 1 in {r["rounds"] for r in rows}
    plan = (tmp_path / "new.toml").read_text()
    assert plan.count("rounds") == 1 and "rounds = 3" in plan
    made = perturb(table(2000).drop("town"), plan=tmp_path / "new.toml", keep_order=True)
    assert len(in_rounds(opened(made.sidecar).recipes)) == 3


def test_a_question_is_answered_by_the_last_round_that_shows_its_columns() -> None:
    pytest.importorskip("sqlglot")
    made = release()
    told = query(made.frame, sidecar=made.sidecar).mean("a").frame
    of_last = {d.number for d in opened(made.sidecar).recipes if d.round == 3 and "a" in d.attributes}
    records = made.frame.filter(pl.col(COLUMN).is_in(of_last)).height
    alone = perturb(table(records), record_epsilon=4, publish=1, drop=["b", "c", "d", "town", "ill"], seed=1,
                    attributes=some("a"), keep_order=True)  # fmt: skip
    clean = query(alone.frame, sidecar=alone.sidecar).mean("a").frame
    assert abs(told["value"][0] - 50) < 4 * told["std_error"][0]
    assert told["std_error"][0] > clean["std_error"][0], "no more records tell it than the last round has"

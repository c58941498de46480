"""The audit: lies that leave each attribute's own law alone, how small they may be, and its chances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from ppdm_cli import perturb
from ppdm_cli.attacks import Attacked, LawVerdict, Unseen, attack, evidence
from ppdm_cli.attacks.adversary import AttackedAttribute
from ppdm_cli.attacks.audit import LEVEL, Audit
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar
from tests.attacks.attacked import attacked, positions, records

ROWS, GAMMA = 20_000, 9
SIZES = {"age": 10, "level": 5, "car": 10, "zip": 9, "years": 10, "loan": 10, "salary": 10, "group": 2}
Codes = dict[str, np.ndarray]


@cache
def original() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    return pl.DataFrame({n: rng.integers(0, size, ROWS) for n, size in SIZES.items()})


@cache
def sidecar() -> Sidecar:
    return release(GAMMA).sidecar


def release(gamma: float, table: pl.DataFrame | None = None) -> Any:
    wishes = {n: {"categories": list(range(size))} for n, size in SIZES.items()}
    return perturb(original() if table is None else table, gamma=gamma, attributes=wishes, seed=1)


def audited(codes: Codes, truth: pl.DataFrame | None = None, said: Sidecar | None = None) -> Attacked:
    frame = pl.DataFrame(codes)
    truth = original() if truth is None else truth
    return attack(frame, sidecar=said or sidecar(), truth=truth, attacks=["audit"])


def failed(done: Attacked) -> set[str]:
    laws = {"law"} if not all(r.honest for r in done.audit) else set()
    return {r.test for r in done.coins if not r.honest} | laws


def true() -> Codes:
    return {n: original()[n].to_numpy() for n in SIZES}


def honest(seed: int = 3, gamma: float = GAMMA) -> Codes:
    rng = np.random.default_rng(seed)
    return {n: moved(k, SIZES[n], rng.random(ROWS), gamma) for n, k in true().items()}


def moved(codes: np.ndarray, size: int, coins: np.ndarray, gamma: float = GAMMA) -> np.ndarray:
    """The gamma-diagonal matrix by coins in [0, 1): the first ones stay, the others go to the other codes."""
    place = coins * (gamma + size - 1)
    return np.where(place < gamma, codes, (codes + 1 + np.maximum(place - gamma, 0).astype(np.int64)) % size)


def unperturbed(where: np.ndarray) -> Codes:
    return {n: np.where(where, k, h) for (n, k), h in zip(true().items(), honest().values(), strict=True)}


def one_coin() -> Codes:
    coins = np.random.default_rng(4).random(ROWS)
    return {n: moved(k, SIZES[n], coins) for n, k in true().items()}


def kept_together() -> Codes:
    """One coin decides who stays, others where to."""
    rng = np.random.default_rng(4)
    stays, found = rng.random(ROWS), {}
    for n, k in true().items():
        share = GAMMA / (GAMMA + SIZES[n] - 1)
        found[n] = np.where(stays < share, k, (k + rng.integers(1, SIZES[n], ROWS)) % SIZES[n])
    return found


def row_numbers(step: int = 1) -> Codes:
    """No coins at all."""
    return {
        n: moved(k, SIZES[n], np.arange(ROWS) * step % (GAMMA + SIZES[n] - 1) / (GAMMA + SIZES[n] - 1))
        for n, k in true().items()
    }


def repeated(every: int) -> Codes:
    rng = np.random.default_rng(6)
    return {n: moved(k, SIZES[n], np.resize(rng.random(every), ROWS)) for n, k in true().items()}


def of_another(name: str, other: str, later: int = 0, turned: bool = False) -> Codes:
    rng = np.random.default_rng(7)
    coins = rng.random(ROWS)
    second = np.roll(1 - coins if turned else coins, later)
    codes = honest()
    codes[name] = moved(true()[name], SIZES[name], coins)
    codes[other] = moved(true()[other], SIZES[other], second)
    return codes


def gamma_by_place() -> Codes:
    """As many stay as should, more of the first half and fewer of the second."""
    low, high = honest(8, 8), honest(8, 10.1)
    return {n: np.where(np.arange(ROWS) < ROWS / 2, low[n], high[n]) for n in SIZES}


def gamma_by_another() -> Codes:
    codes = honest()
    low, high = honest(8, 5), honest(8, 17)
    for n in ("age", "car", "loan"):
        codes[n] = np.where(true()["zip"] == 3, high[n], np.where(true()["zip"] == 4, low[n], codes[n]))
    return codes


def gamma_where(where: np.ndarray) -> Codes:
    low, high = honest(8, 6.5), honest(8, 12.2)
    codes = honest()
    return codes | {n: np.where(where, high[n], low[n]) for n in ("age", "car", "loan")}


def another_value() -> Codes:
    codes, rng = honest(), np.random.default_rng(8)
    moved_away = (codes["age"] != true()["age"]) & (true()["car"] != true()["age"]) & (rng.random(ROWS) < 1 / 3)
    return codes | {"age": np.where(moved_away, true()["car"], codes["age"])}


def share(of: float) -> np.ndarray:
    where = np.zeros(ROWS, bool)
    where[np.random.default_rng(9).choice(ROWS, round(of * ROWS), replace=False)] = True
    return where


LIES: dict[str, tuple[Callable[[], Codes], set[str]]] = {
    "one coin a record": (one_coin, {"record", "pairs"}),
    "one coin a record decides who stays": (kept_together, {"record", "pairs"}),
    "the row number for coins": (row_numbers, {"rows", "record", "pairs"}),
    "seventeen times the row number": (lambda: row_numbers(17), {"rows"}),
    "coins that repeat every 1,000 rows": (lambda: repeated(1000), {"rows"}),
    "coins that repeat every 9,973 rows": (lambda: repeated(9973), {"rows"}),
    "an attribute's coins for another": (lambda: of_another("age", "car"), {"pairs"}),
    "an attribute's coins for one of two values": (lambda: of_another("age", "group"), {"pairs"}),
    "an attribute's coins upside down": (lambda: of_another("age", "zip", turned=True), {"pairs"}),
    "an attribute's coins for the next row's": (lambda: of_another("age", "zip", later=1), {"rows"}),
    "0.5 % of the records unperturbed": (lambda: unperturbed(share(0.005)), {"record"}),
    "1 % of the records unperturbed": (lambda: unperturbed(share(0.01)), {"record"}),
    "2 % of the records unperturbed": (lambda: unperturbed(share(0.02)), {"record"}),
    "40 records in a row unperturbed": (lambda: unperturbed(np.arange(ROWS) // 40 == 321), {"place"}),
    "a rare group unperturbed": (
        lambda: unperturbed((true()["age"] == 9) & (true()["level"] == 4) & (np.arange(ROWS) % 3 == 0)),
        {"record", "values"},
    ),
    "another gamma in each half of the file": (gamma_by_place, {"place"}),
    "another gamma by another attribute": (gamma_by_another, {"values"}),
    "gamma 9.5": (lambda: honest(3, 9.5), {"record"}),
    "more stay in even rows": (lambda: gamma_where(np.arange(ROWS) % 2 == 0), {"rows"}),
    "who stays is decided by two other values": (
        lambda: gamma_where((true()["zip"] + true()["years"]) % 2 == 0),
        {"others"},
    ),
    "a third of what moves shows another value": (another_value, {"others"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_leaves_the_laws_as_they_are_is_rejected(lie: str) -> None:
    made, expected = LIES[lie]
    done = audited(made())
    assert not done.honest and expected <= failed(done), (failed(done), done.sentences[0])
    assert done.sentences[0].startswith("The audit rejects the release")


def test_lies_below_the_stated_limits_pass_and_the_limits_are_said() -> None:
    for codes in (honest(), honest(3, 9.1), unperturbed(share(0.001))):
        done = audited(codes)
        assert done.honest and failed(done) == set()
    assert 0.003 < done.unseen.unperturbed < 0.005 and 9.2 / 9 < done.unseen.gamma_factor < 9.5 / 9
    assert all(9.5 < r.gamma_unseen < 11 for r in done.audit)
    verdict, limit = done.sentences[:2]
    assert "finds nothing against" in verdict and "on one or two of a record's original values" in verdict
    assert limit.startswith("With 20,000 records, the audit detects (95% of the time) 0.4")
    assert "gammas 1.0" in limit and "seed" in limit
    few = original()[:5].select("age")
    made = perturb(few, gamma=9, attributes={"age": {"domain": [0, 9]}}, seed=1)
    done = attack(made.frame, sidecar=made.sidecar, truth=few, attacks=["audit"])
    assert done.honest and done.sentences[1].startswith("With 5 records, the audit cannot detect even")


def test_null_cells_are_audited_like_others() -> None:
    rng = np.random.default_rng(1)
    rare = rng.random(ROWS) < 0.01
    truth = (
        original()
        .with_columns(
            pl.when(pl.Series(rare)).then(None).otherwise(pl.col("age")).alias("age"),
            pl.when(pl.Series(rare)).then(None).otherwise(pl.col("salary")).alias("salary"),
        )
        .select("age", "salary", "car")
    )
    wishes: dict[str, Any] = {
        "age": {"categories": list(range(10)), "nulls": True},
        "salary": {"domain": [0, 9], "bins": 10, "nulls": True, "matrix": "band"},
        "car": {"categories": list(range(10))},
    }
    made = perturb(truth, gamma=GAMMA, attributes=wishes, seed=1)
    assert attack(made.frame, sidecar=made.sidecar, truth=truth, attacks=["audit"]).honest
    for name in ("age", "salary"):
        known, shown = pl.Series(rare), made.frame[name]
        some = shown.drop_nulls()[0]
        lies = {
            "null stays null": pl.when(known).then(None).otherwise(shown),
            "null is never null": pl.when(known & shown.is_null()).then(some).otherwise(shown),
            "only null becomes null": pl.when(~known & shown.is_null()).then(some).otherwise(shown),
        }
        for what, lie in lies.items():
            frame = made.frame.with_columns(lie.alias(name))
            done = attack(frame, sidecar=made.sidecar, truth=truth, attacks=["audit"])
            assert not {r.attribute: r.honest for r in done.audit}[name], what


@pytest.mark.parametrize("noise", ["uniform", "normal"])
def test_noise_that_is_shared_or_left_out_is_rejected(noise: Any) -> None:
    rng = np.random.default_rng(2)
    truth = pl.DataFrame({n: rng.normal(50, 10, ROWS) for n in ("a", "b", "c")})
    made = perturb(truth, scheme="additive", noise=noise, sd="10", bins=10, seed=1)

    def found(frame: pl.DataFrame) -> set[str]:
        return failed(attack(frame, sidecar=made.sidecar, truth=truth, attacks=["audit"]))

    assert found(made.frame) == set()
    shared = made.frame["a"] - truth["a"]
    assert found(made.frame.with_columns((truth["b"] + shared).alias("b"))) >= {"pairs"}
    assert found(made.frame.with_columns((truth["b"] - shared).alias("b"))) >= {"pairs"}
    assert found(made.frame.with_columns((truth["c"] + shared.shift(1, fill_value=0)).alias("c"))) == {"rows"}
    bare = pl.Series(share(0.005))
    some = [pl.when(bare).then(truth[n]).otherwise(made.frame[n]).alias(n) for n in truth.columns]
    assert "record" in found(made.frame.with_columns(some))


def test_nothing_hangs_on_how_the_table_is_cut() -> None:
    truth = original()[:600]
    whole = pl.DataFrame(honest())[:600]
    cut = pl.concat([whole[:1], whole[1:2], whole[2:37], whole[37:], whole[:0]], rechunk=False)
    a, b = (attack(f, sidecar=sidecar_of(600), truth=truth, attacks=["audit"]) for f in (whole, cut))
    assert a.audit == b.audit and a.unseen == b.unseen
    for x, y in zip(a.coins, b.coins, strict=True):
        assert x.p == pytest.approx(y.p) and x.tests == y.tests


def sidecar_of(rows: int) -> Sidecar:
    wishes = {n: {"categories": list(range(size))} for n, size in SIZES.items()}
    return perturb(original()[:rows], gamma=GAMMA, attributes=wishes, seed=1).sidecar


def outcomes(n: int, chances: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """All tables of one row with n records, and the chance of each."""
    for counts in product(range(n + 1), repeat=len(chances)):
        if sum(counts) == n:
            yield np.array([counts]), float(stats.multinomial.pmf(counts, n, chances))


@pytest.mark.parametrize(
    ("n", "chances"), [(12, [0.97, 0.03]), (9, [0.5, 0.5]), (6, [0.6, 0.3, 0.1]), (1, [0.9, 0.1])]
)
def test_p_values_are_never_too_small_however_few_the_records(n: int, chances: list[float]) -> None:
    """All outcomes are enumerated: the chance of a p-value of at most p is at most p, for every p."""
    law, scores = np.array(chances), np.arange(len(chances), dtype=np.float64)
    others = np.array([(1 - s) * law + s * np.eye(len(law))[-1] for s in (0.5, 0.1)])
    tests: list[Callable[[np.ndarray], float]] = [
        lambda counts: evidence.table_p(counts, law),
        lambda counts: float(evidence.tilted_p(counts, law[None], scores)[0]),
        lambda counts: float(evidence.tilted_p(counts, law[None], (scores - law @ scores) ** 2)[0]),
        lambda counts: float(evidence.likelihood_p(counts, law, others)[0]),
    ]
    for test in tests:
        found = sorted((test(counts), chance) for counts, chance in outcomes(n, law))
        below = np.cumsum([chance for _, chance in found])
        assert all(c <= p * (1 + 1e-9) for (p, _), c in zip(found, below, strict=True) if p < 1)


@pytest.mark.parametrize("n", [100, 300])
@pytest.mark.parametrize("gamma", [2.0, 9.0, 40.0])
def test_one_code_of_two_is_rejected_no_more_often_than_stated(n: int, gamma: float) -> None:
    """The exact chance, over the number that stay, for 1, 10 and 50 attributes."""
    audit = Audit(positions(targets((("a", 2),), gamma)), n, 1)
    rejected, stays = np.zeros(3), stats.binom(n, gamma / (gamma + 1))
    for k in range(n + 1):
        if stays.pmf(k) < 1e-2:
            codes, true = np.arange(n) >= k, np.zeros(n, np.uint8)
            p = audit.laws(audit.counted(records({"a": codes.astype(np.uint8)}, {"a": true})))[0].p
            rejected += stays.pmf(k) * np.array([p < LEVEL / 7 / many for many in (1, 10, 50)])
    assert (rejected * [1, 10, 50] <= LEVEL / 7).all()


def test_points_on_the_circle_sum_as_far_out_as_they_may() -> None:
    """Of 20,000 sums, more than 1.3 times the share that p allows have a chance below 1e-3."""
    rng = np.random.default_rng(3)
    for n in (5, 400):
        p = evidence.circle_p(evidence.CIRCLE[rng.integers(0, evidence.ABSENT, (20_000, n))].sum(axis=1), n)
        assert all((p <= level).mean() <= 1.3 * level for level in (0.01, 0.05, 0.2))
    places = rng.integers(0, evidence.ABSENT, 3000)
    places[rng.random(3000) < 0.3] = evidence.ABSENT
    points = evidence.CIRCLE[places]
    both = np.count_nonzero((places[7:] < evidence.ABSENT) & (places[:-7] < evidence.ABSENT))
    found = evidence.series_p(places.astype(np.uint8))
    assert found[6] == pytest.approx(evidence.circle_p(points[7:] @ points[:-7].conj(), both))
    period = points @ np.exp(-2j * np.pi * np.arange(3000) * 5 / 8192)
    shown = np.count_nonzero(places < evidence.ABSENT)
    assert found[2999 + 5] == pytest.approx(evidence.circle_p(period, shown))


def test_an_honest_release_is_rejected_no_more_often_than_stated() -> None:
    """At a raised level: of 150 releases 30 may have an overall p of 0.2; more than 48 have a chance of 2e-4.

    The shapes are those where the approximations of a chi-square or normal law are worst.
    """
    rng, low = np.random.default_rng(1), 0
    for shape in range(150):
        wish, rows = [({"a": 2}, 300), ({"a": 3, "b": 2, "c": 70}, 40), ({"a": 12, "b": 5}, 130)][shape % 3]
        gamma = [1.5, 5.0, 30.0][shape // 3 % 3]
        low += verdicts(wish, rows, gamma, gamma, 0.0, rng, one_code=bool(shape % 2))[0] <= 0.2
    assert low <= 48


def test_the_stated_limits_are_betrayed_as_often_as_stated() -> None:
    """Each 19 times in 20: fewer than 15 of 20 have a chance of 3e-4."""
    wish, rows, gamma, rng = {"a": 5, "b": 5, "c": 4}, 2000, 5.0, np.random.default_rng(2)
    unseen = verdicts(wish, rows, gamma, gamma, 0.0, rng)[1]
    alone = verdicts({"a": 5}, rows, gamma, gamma, 0.0, rng)[2].gamma_unseen
    seen = np.zeros(3)
    for _ in range(20):
        seen[0] += verdicts(wish, rows, gamma, gamma, unseen.unperturbed + 1 / rows, rng)[0] < LEVEL
        seen[1] += verdicts(wish, rows, gamma, gamma * unseen.gamma_factor, 0.0, rng)[0] < LEVEL
        seen[2] += verdicts({"a": 5}, rows, gamma, alone, 0.0, rng)[0] < LEVEL
    assert (seen >= 15).all(), seen


@cache
def targets(sizes: tuple[tuple[str, int], ...], gamma: float) -> list[AttackedAttribute]:
    table = pl.DataFrame({n: np.random.default_rng(0).integers(0, size, 500) for n, size in sizes})
    wishes = {n: {"categories": list(range(size))} for n, size in sizes}
    made = perturb(table, gamma=gamma, attributes=wishes, seed=1, keep_order=True)
    return [attacked(c, np.full(c.matrix.inputs, 1 / c.matrix.inputs)) for c in opened(made.sidecar).channels]


def verdicts(
    sizes: dict[str, int],
    rows: int,
    declared: float,
    gamma: float,
    bare: float,
    rng: np.random.Generator,
    one_code: bool = False,
) -> tuple[float, Unseen, LawVerdict]:
    """The overall p of a release of these codes, at another gamma and partly bare; arrays only, for speed."""
    ts = targets(tuple(sizes.items()), declared)
    left = np.zeros(rows, bool)
    left[rng.choice(rows, round(bare * rows), replace=False)] = True
    codes, truths = {}, {}
    for name, size in sizes.items():
        k = np.zeros(rows, np.uint8) if one_code else rng.integers(0, size, rows, dtype=np.uint8)
        truths[name] = k
        codes[name] = np.where(left, k, moved(k.astype(np.int64), size, rng.random(rows), gamma)).astype(
            np.uint8
        )
    audit = Audit(positions(ts, int(rng.integers(1 << 62))), rows, 1)
    laws, coins, unseen = audit.verdicts(audit.counted(records(codes, truths)))
    own = min(len(ts) * r.p for r in laws)
    return 7 * min(own, *(r.p for r in coins)), unseen, laws[0]

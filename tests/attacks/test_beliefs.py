"""Every belief that a command or a page states as a limit is one: no exact posterior of a reader exceeds it."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.display import at_most, up
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.releases import inspection, opened
from ppdm_cli.sidecar import Sidecar
from tests.beliefs import Claim, check, claims, objects, plain, readers
from tests.vocabulary import Run

DOMAINS = {"town": "a|b|c", "ill": "no|yes", "level": "0:8"}
DESIGNS: dict[str, tuple[Any, ...]] = {
    "one gamma": ("--gamma", 9),
    "gammas of their own": ("--gamma", 2.5, "--attribute", "ill:gamma=7"),
    "rho": ("--rho1", 0.05, "--rho2", 0.3),
    "band": ("--gamma", 4, "--matrix", "band"),
    "not symmetric": ("--gamma", 3, "--attribute", "ill:matrix=binary,flips=0.1:0.3"),
    "together": ("--gamma", 3, "--together", "town,ill:gamma=5"),
    "kept": ("--gamma", 3, "--keep", "town"),
    "all of a budget": ("--record-epsilon", 2, "--publish", "all"),
    "one attribute": ("--gamma", 9, "--drop", "ill", "--drop", "level"),
    "two of them": ("--record-epsilon", 3, "--publish", 2),
    "one of them": ("--record-epsilon", 1, "--publish", 1),
    "class inside": ("--record-epsilon", 2, "--publish", 1, "--class", "ill"),
    "without a limit": ("--gamma", 99),
    "copies": ("--gamma", 3, "--copies", 2),
    "persons": ("--gamma", 2, "--person", "who", "--rows-per-person", 2, "--shuffle"),
    "persons of recipes": (
        *("--record-epsilon", 1, "--publish", 2, "--person", "who", "--rows-per-person", 2, "--shuffle"),
    ),
    "rounds": (
        *("--record-epsilon", 2, "--rounds", 2, "--class", "ill", "--keep", "ill", "--domain", "who=0:150"),
    ),
    "key file": ("--record-epsilon", 2, "--publish", 2, "--key-file", "k", "--id", "id"),
    "seeded": ("--record-epsilon", 2, "--publish", 2, "--seed", 1),
}


def table(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    town, level = rng.integers(0, 3, rows), rng.integers(0, 8, rows)
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "who": np.arange(rows) // 2,
            "town": np.array(["a", "b", "c"])[town],
            "ill": np.where(rng.random(rows) < 0.1 + 0.1 * town, "yes", "no"),
            "level": level,
        }
    )


def made(ppdm: Run, folder: Path, name: str) -> tuple[str, str, Sidecar]:
    """Publish the table by a design; return the file's name, the report and the sidecar."""
    asked = DESIGNS[name]
    table().write_csv(folder / "t.csv")
    dropped = [a for c in ("id", "who") if c not in " ".join(map(str, asked)) for a in ("--drop", c)]
    declared = [a for c, d in DOMAINS.items() if c not in asked for a in ("--domain", f"{c}={d}")]
    order = [] if {"--shuffle", "--key-file"} & {*asked} else ["--keep-order"]
    done = ppdm("perturb", "t.csv", "-o", "r.csv", *asked, *dropped, *declared, *order, "--bins", 4)
    file = min(p.name for p in folder.glob("r*.csv*") if not p.name.endswith(".json"))
    return file, done.stderr.decode(), inspection.inspect(folder / file).sidecar


@pytest.mark.parametrize("name", DESIGNS)
def test_no_stated_belief_is_below_what_a_reader_can_reach(ppdm: Run, tmp_path: Path, name: str) -> None:
    file, report, sidecar = made(ppdm, tmp_path, name)
    limited = sidecar.privacy.perturbed_gamma is not None and name != "without a limit"  # type: ignore[union-attr]
    assert check(claims(report), sidecar) >= limited
    for prior in (0.05, 0.3):
        asked = ("inspect", file, "--prior", prior)
        stated = claims(ppdm(*asked).stdout.decode())
        stated += objects(json.loads(ppdm(*asked, "--json").stdout))
        statement = json.loads(ppdm(*asked, "--report", "s.html", "--force", "--json").stdout)["statement"]
        stated += claims(plain((tmp_path / "s.html").read_text()))
        for row in statement["beliefs"]:
            limits = {"whole": "", "one_attribute": "one attribute alone"}
            found = [Claim(Fraction(row[k]) * 100, words) for k, words in limits.items() if row[k] is not None]
            assert check(found, sidecar, row["before"])
        assert check(stated, sidecar, prior) >= 4 if limited else check(stated, sidecar, prior) >= 0
    beside = "" if opened(sidecar).beside else "one attribute alone: "
    for row in json.loads(ppdm("entropy", file, "--json").stdout)["rows"]:
        assert check([Claim(Fraction(row["rho2"]) * 100, beside + row["attribute"])], sidecar)


@pytest.mark.parametrize("name", ["one gamma", "kept", "two of them", "seeded"])
def test_no_bound_of_an_attack_is_below_what_a_reader_can_reach(ppdm: Run, tmp_path: Path, name: str) -> None:
    file, _, sidecar = made(ppdm, tmp_path, name)
    text = ppdm("attack", file).stdout.decode()
    said = json.loads(ppdm("attack", file, "--json").stdout)
    assert check(claims(text), sidecar) >= 1 and check([*objects(said["record"])], sidecar) >= 1
    bounds = {(r["attack"], r["attribute"]): r["bound"] for r in said["attacks"] if r.get("bound")}
    alike = re.search(r"certain about ([^.]*)\. It\s+guesses them as\s+posterior", text)
    for attribute in re.findall(r"'(\w+)'", alike[1] if alike else ""):
        ratio = _odds(bounds["record", attribute]) / _odds(bounds["posterior", attribute])
        assert ratio == pytest.approx(
            said["record"]["gamma"] / opened(sidecar).through(attribute).matrix.amplification
        )
    for line in text.splitlines():
        if cells := re.match(r"(posterior|record) +(\w+) .* (?<!> )([\d.]+)$", line):
            assert float(cells[3]) >= 100 * bounds[cells[1], cells[2]] - 1e-9
    assert ("othing is promised" in text) == (name == "seeded")


def _odds(share: float) -> float:
    return share / (1 - share)


@pytest.mark.parametrize("gamma", [2, 9])
def test_a_plan_states_what_its_release_promises(ppdm: Run, tmp_path: Path, gamma: int) -> None:
    table(400).select("town", "ill", "level").write_csv(tmp_path / "t.csv")
    asked = ("plan", "t.csv", "-o", "p.toml", "--gamma", gamma, "--force")
    planned, figures = ppdm(*asked), json.loads(ppdm(*asked, "--json").stdout)
    ppdm("perturb", "t.csv", "-o", "r.csv", "--plan", "p.toml", "--keep-order")
    sidecar = inspection.inspect(tmp_path / "r.csv").sidecar
    stated = claims(planned.stdout.decode() + planned.stderr.decode())
    assert check([*stated, *objects(figures["budgets"]), *objects(figures["sentences"])], sidecar) >= 3


# -- that these tests can fail


OLD = (
    "What they believed with 5% before, one published value may turn into a belief of at most {}; a whole "
    "record into over 99.9%. That holds whatever else they know.",
    "Of one attribute a belief of 5% becomes at most {}, but who knows another may reach over 99.9%.",
    "attribute  N  stays  5% becomes\ntown  3  60%  {}\nill  2  70%  {}",
    "| attribute | 5% becomes at most |\n| --- | ---: |\n| town | {} |",
    "| belief | at most |\n| --- | ---: |\n| before the release | 5% |\n| after one value of town | {} |",
    "At gamma 9 a belief of 5% in a value becomes at most {}, over all attributes over 99.9%.",
)


@pytest.mark.parametrize("name", ["one gamma", "two of them", "class inside", "copies", "persons of recipes"])
def test_the_bound_of_one_value_is_found_wrong_where_it_is_stated_for_all_readers(
    ppdm: Run, tmp_path: Path, name: str
) -> None:
    """It was stated until readers were found who reach more."""
    sidecar = made(ppdm, tmp_path, name)[2]
    axes = [
        a
        for d in opened(sidecar).recipes
        for n in ("town", "ill")
        if n in d.attributes and (a := d.marginal([n]))
    ]
    old = worst_posterior(max(a.matrix.amplification for a in axes), 0.05)
    for form in OLD:
        found = claims(form.replace("{}", at_most(old)))
        assert found
        with pytest.raises(AssertionError):
            check(found, sidecar)
    for said in ({"record": {"posterior_alone": old}}, {"attributes": [{"attribute": "town", "becomes": old}]}):
        with pytest.raises(AssertionError):
            check([*objects(said)], sidecar)


def test_a_limit_that_is_rounded_down_is_found_wrong(ppdm: Run, tmp_path: Path) -> None:
    sidecar = made(ppdm, tmp_path, "gammas of their own")[2]
    said = inspection.sentences(sidecar)
    whole, one = (f"{100 * worst_posterior(g, 0.05) - 0.05:.3g}%" for g in (2.5 * 2.5 * 7, 7))
    assert check(claims(" ".join(said)), sidecar) == 2
    assert "was 1.2361% sure" in inspection.sentences(sidecar, 0.012361)[0], "a rounded one has another limit"
    for wrong in (f"at most {whole} sure", f"From one attribute alone it is at most {one}."):
        with pytest.raises(AssertionError):
            check(claims(wrong), sidecar)


@pytest.mark.parametrize("settings", [{"gamma": 3}, {"record_epsilon": 3, "publish": 2}])
def test_two_kinds_of_records_are_the_worst_of_all_populations(settings: dict[str, Any]) -> None:
    """All populations whose shares are twentieths, in which a fact is true of one."""
    asked = {"town": {"domain": "a|b|c"}, "ill": {"domain": "no|yes"}}
    frame = table().select("town", "ill")
    sidecar = perturb(frame, attributes=asked, keep_order=True, rare="publish", **settings).sidecar
    (reader,), found = readers(sidecar)[False], 0.0
    for fact in np.concatenate(list(reader.facts.values())):
        end = 19 + int((~fact).sum()) - 1
        bars = np.array([[-1, *b, end] for b in combinations(range(end), int((~fact).sum()) - 1)])
        for true in np.eye(fact.sum()):
            populations = np.empty((len(fact), len(bars)))
            populations[fact], populations[~fact] = true[:, None] / 20, (np.diff(bars).T - 1) / 20
            found = max(found, reader.believed(populations, fact))
    assert found == pytest.approx(reader.worst(0.05), abs=1e-12)
    record = inspection.record_figures(sidecar)
    assert record is not None and found == pytest.approx(record.worst_posterior, rel=2e-3)


def test_who_guesses_the_other_value_comes_near_the_limit_of_the_record() -> None:
    """99 and 98 of a hundred records have the common value of two attributes; cities are equally likely."""
    rng, shares = np.random.default_rng(1), (0.99, 0.98)
    columns = {f"has_{i}": np.where(rng.random(4000) < s, "no", "yes") for i, s in enumerate(shares)}
    frame = pl.DataFrame({"city": [f"c{i:02d}" for i in rng.integers(0, 20, 4000)]} | columns)
    sidecar = perturb(frame, record_epsilon=3, publish=2, rare="publish", keep_order=True).sidecar
    (reader,) = readers(sidecar)[False]
    population = reduce(np.kron, [np.full(20, 1 / 20), *(np.array([s, 1 - s]) for s in shares)])
    believed = reader.believed(population, reader.facts["city"][3])
    marginal = max(
        a.matrix.amplification for d in opened(sidecar).recipes if (a := d.marginal([d.attributes[0]]))
    )
    assert believed == pytest.approx(0.512, abs=0.002)
    record = inspection.record_figures(sidecar)
    assert record is not None and record.worst_posterior is not None
    assert worst_posterior(marginal, 0.05) < 0.36 < believed < record.worst_posterior


# -- rounding, and words


@pytest.mark.parametrize("prior", ["0.05", "0.3", "0.001", "0.9"])
def test_a_limit_is_rounded_up_and_by_little(prior: str) -> None:
    p = Fraction(prior)
    for gamma in (*map(Fraction, ("1.01", "2", "3", "7.3887", "9", "19", "54.5981", "99")), Fraction(20001, 7)):
        exact = 100 * gamma * p / (1 - p + gamma * p)
        shown = at_most(worst_posterior(float(gamma), float(p)))
        if exact > Fraction("99.9"):
            assert shown == "over 99.9%"
        else:
            assert exact <= Fraction(shown[:-1]) < exact * Fraction("1.01")


@pytest.mark.parametrize("bound", [9.0, 2.1972245773362196, 14.4814, 0.32142857, 1e-7, 387422000, 1e300])
@pytest.mark.parametrize("digits", [3, 4, 6])
def test_a_promise_is_rounded_up_and_by_less_than_a_digit(bound: float, digits: int) -> None:
    assert bound * (1 - 1e-12) <= up(bound, digits) <= bound * (1 + 10.0 ** (1 - digits))
    assert up(bound * (1 + 1e-14), digits) == up(bound, digits)


def test_gammas_epsilons_and_rho2_in_tables_are_rounded_up(ppdm: Run, tmp_path: Path) -> None:
    file, report, _ = made(ppdm, tmp_path, "gammas of their own")
    for text in (report, ppdm("inspect", file).stdout.decode()):
        for name, own in (("town", 2.5), ("ill", 7)):
            cells = re.search(rf"^{name} .* ([\d.]+) +([\d.]+) +[\d.]+%", text, re.M)
            assert cells is not None
            assert [float(c) for c in cells.groups()] == [up(own), up(float(np.log(own)))]
    table = ppdm("entropy", "--gamma", "2.3456,9", "--bins", "5").stdout.decode()
    cells = [line.split() for line in table.splitlines()[2:]]
    for own, gamma in zip(cells, (2.3456, 9), strict=True):
        assert float(own[0]) >= gamma and float(own[6]) >= np.log(gamma)
        assert worst_posterior(gamma, 0.05) <= float(own[-1]) < worst_posterior(gamma, 0.05) + 1e-3


def test_a_product_beyond_floating_point_has_an_epsilon_and_no_limit(ppdm: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({f"a{i}": rng.integers(0, 2, 60) for i in range(110)})
    frame.write_parquet(tmp_path / "t.parquet")
    made = ppdm("perturb", "t.parquet", "-o", "r.parquet", "--gamma", 999, "--rare", "publish", "--keep-order")
    said = " ".join(made.stderr.decode().split())
    assert "No meaningful protection" in said and "Epsilon is 759.8 for" in said and "gamma is inf" not in said
    shown = json.loads(ppdm("inspect", "r.parquet", "--json").stdout)["record"]
    assert shown["perturbed_gamma"] == "inf" and 0.999 < shown["worst_posterior"] < 1

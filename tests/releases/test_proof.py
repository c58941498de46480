"""Proofs of releases: they hold for every kind, the shipped script checks them, and wrong ones fail both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from ppdm_cli.channels import Blur, Box, ExactDraw, GammaDiagonal
from ppdm_cli.channels.band import Band
from ppdm_cli.channels.block import Block
from ppdm_cli.channels.dense import Weights
from ppdm_cli.releases import proof as proving
from ppdm_cli.releases import prove
from ppdm_cli.sidecar import Sidecar
from tests.vocabulary import Run, people, raises, released, table

SCRIPT = Path(__file__).parents[2] / "docs" / "technical" / "check_proof.py"
TABLE = table(
    400, 1, {"age": 0.1, "region": 0.1},
    age=range(18, 90), pay=(0.0, 100.0), region=["n", "s", "e"], ill=["no", "yes"], code=list("abcde"),
)  # fmt: skip
DOMAINS: dict[str, Any] = {
    "age": {"domain": [0, 99], "bins": 10, "nulls": True},
    "pay": {"domain": [0, 100], "bins": 6},
    "region": {"categories": ["n", "s", "e"], "nulls": True},
    "ill": {"categories": ["no", "yes"]},
    "code": {"categories": list("abcde")},
}
KINDS: dict[str, dict[str, Any]] = {
    "ill": {"matrix": "binary", "flips": [0.1, 0.25]},
    "code": {"matrix": "block", "blocks": [["a", "b"], ["c", "d", "e"]], "gamma": 9},
    "region": {"matrix": "symmetric", "each": 0.15},
    "age": {"matrix": "band", "half_width": 2, "gamma": "4.5"},
}
RELEASES: dict[str, dict[str, Any]] = {
    "gamma": {"gamma": 9},
    "a fine gamma": {"gamma": 1.491},
    "budget of every attribute": {"record_epsilon": 2, "publish": "all"},
    "kinds": {"gamma": 3},
    "together": {"together": [["age", "region"]], "gamma": 5},
    "recipes": {"record_epsilon": 2, "publish": 2},
    "class in the budget": {"record_epsilon": 3, "publish": 2, "class_": "ill"},
    "rounds": {"record_epsilon": 4, "rounds": 2, "class_": "ill"},
    "copies": {"gamma": 3, "copies": 3},
}


def made(name: str) -> Sidecar:
    own = {n: {**d, **(KINDS.get(n, {}) if name == "kinds" else {})} for n, d in DOMAINS.items()}
    return sidecar_of(TABLE, attributes=own, **RELEASES[name])


def sidecar_of(data: pl.DataFrame, **wishes: Any) -> Sidecar:
    """Publish by fresh coins, which something is promised of."""
    with TemporaryDirectory() as folder:
        release = released(data, Path(folder) / "r.parquet", seed=None, **wishes)
        first = release[0] if isinstance(release, (list, tuple)) else release
        return first.sidecar


def checked(proof: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script that is shipped, on Python alone and without its asserts."""
    (folder / "proof.json").write_text(json.dumps(proof))
    command = [sys.executable, "-IO", str(SCRIPT), "proof.json"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", RELEASES)
def test_proof_of_a_release_passes_the_shipped_script(name: str, tmp_path: Path) -> None:
    sidecar = made(name)
    proof = prove(sidecar)
    done = checked(proof, tmp_path)
    assert done.returncode == 0, done.stderr
    promised = sidecar.privacy.perturbed_epsilon
    assert f"promised: {promised}." in done.stdout
    if promised != "inf":  # and no more than the sixth digit is given away
        assert proof["epsilon"] <= promised <= proof["epsilon"] * 1.00001
    assert all(law["counted"] != proving.PROOF for law in proof["laws"])


def less(proof: dict[str, Any]) -> None:
    proof["promised"]["epsilon"] = log(9) * len(proof["recipes"][0]["laws"]) - 0.01


def moved(proof: dict[str, Any]) -> None:
    proof["laws"][0]["columns"][0][0] += 1


def swapped(proof: dict[str, Any]) -> None:
    column = proof["laws"][0]["columns"][0]
    column[1], column[0] = column[1] - 1, column[0] + 1


def widened(proof: dict[str, Any]) -> None:
    proof["recipes"][0]["laws"].append(0)


@pytest.mark.parametrize("change", [less, moved, swapped, widened])
def test_script_fails_a_proof_that_was_changed(change: Callable[[Any], None], tmp_path: Path) -> None:
    proof = json.loads(json.dumps(prove(made("gamma"))))
    change(proof)
    assert checked(proof, tmp_path).returncode == 1


DRAWS: list[ExactDraw] = [
    GammaDiagonal(Decimal("1.001"), 4),
    GammaDiagonal(Decimal("21.5"), 20),
    GammaDiagonal(Fraction(7, 3), 5),
    Band.of(Decimal("4.5"), 10, 2, True),
    Band.of(Decimal(3), 7, 3),
    Box.of(Decimal("2.5"), (Blur(5, 1, True), Blur(3))),
    Box.of(Decimal("1.1"), (Blur(4, 2), Blur(2, 0, True), Blur(3, 1))),
    Weights(np.array([[7, 0, 3], [2, 9, 3], [1, 1, 4]]), 10),
]


@pytest.mark.parametrize("draw", DRAWS, ids=repr)
def test_ends_of_runs_count_what_every_number_does(draw: ExactDraw) -> None:
    table = draw.counted(every=True)
    assert (table == draw.counted(every=False)).all() and (table.sum(axis=0) == draw.range).all()
    np.testing.assert_allclose(table / draw.range, draw.dense(), 1e-12)
    if draw.alike:
        assert sum(n * many for n, many in draw.alike) == draw.range
        assert proving.largest_ratio(table.T, [draw.range] * draw.inputs) == Fraction(
            draw.alike[0][0], draw.alike[1][0]
        )


def test_largest_ratio_compares_columns_of_different_ranges() -> None:
    columns = np.array([[1, 2], [1, 5]])
    assert proving.largest_ratio(columns, [3, 6]) == Fraction(2, 1)
    assert proving.largest_ratio(np.array([[3, 0, 0], [1, 2, 0]]), [3, 3]) == np.inf
    assert proving.largest_ratio(np.array([[3, 0], [3, 0]]), [3, 3]) == 1


def by_gamma_105(draw: Any, codes: Any, numbers: Any, out: Any, real: Any) -> None:
    """Draw as if gamma were 5 % larger: some numbers that replace a code keep it."""
    p, s = draw.gamma.as_integer_ratio()
    own = numbers < (p - s) + s * 0.45
    real(draw, codes, np.where(own, 0, numbers).astype(numbers.dtype), out)


def past_the_last(draw: Any, codes: Any, numbers: Any, out: Any, real: Any) -> None:
    """Draw as if the range were one number longer."""
    real(draw, codes, (numbers.astype(np.int64) + 1).clip(max=draw.range - 1).astype(numbers.dtype), out)


def never_the_last_code(draw: Any, codes: Any, numbers: Any, out: Any, real: Any) -> None:
    real(draw, codes, numbers, out)
    out[out == draw.outputs - 1] = 0


WRONG = {
    "gamma": (GammaDiagonal, "gamma"),
    "kinds": (Band, "kinds"),
    "weights": (Weights, "kinds"),
    "recipes": (Box, "recipes"),
    "one number of very many": (GammaDiagonal, "a fine gamma"),
}


@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        (case, wrong)
        for case in WRONG
        for wrong in (by_gamma_105, past_the_last, never_the_last_code)
        if (case, wrong) != ("weights", by_gamma_105)  # they have no gamma
    ],
)
def test_proof_fails_when_a_sampler_is_wrong(case: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, name = WRONG[case]
    real, sidecar = kind.replace, made(name)
    prove(sidecar)
    monkeypatch.setattr(kind, "replace", lambda d, c, n, o: wrong(d, c, n, o, real))
    with pytest.raises(ValueError, match=r"sampler|answer"):
        prove(sidecar)


def test_proof_fails_when_the_promise_is_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sidecar = made("gamma")
    lower = replace(sidecar.privacy, perturbed_epsilon=sidecar.privacy.perturbed_epsilon - 1e-4)
    with raises("promise-below-proof"):
        prove(replace(sidecar, privacy=lower))


def test_matrix_too_large_to_write_is_proved_by_its_closed_count(tmp_path: Path) -> None:
    many = {"many": {"categories": [f"c{i}" for i in range(3000)]}, "ill": DOMAINS["ill"]}
    data = pl.DataFrame({"many": [f"c{i}" for i in range(400)], "ill": ["no", "yes"] * 200})
    for wishes in ({"gamma": 9}, {"record_epsilon": 2, "publish": 2}):
        proof = prove(sidecar_of(data, attributes=many, **wishes))
        law = proof["laws"][0]
        assert law["counted"] == proving.PROOF and "columns" not in law
        assert checked(proof, tmp_path).returncode == 0
        law["each"][0] = (law["each"][0][0] + 1, law["each"][0][1])
        assert checked(proof, tmp_path).returncode == 1


FORGED: dict[str, dict[str, Any]] = {
    "a count below 0": {"laws": [{"range": [10, 10], "columns": [[11, -1], [-1, 11]]}]},
    "a row that one column lacks": {"laws": [{"range": [10, 10], "columns": [[5, 5], [5, 4, 1]]}]},
    "a size below 0": {"laws": [{"range": [10], "each": [[5, 4], [5, -2]]}]},
    "no answer": {"answers": 0},
    "a law in none of the recipes": {"recipes": []},
    "a law from the end": {"recipes": [{"laws": [-1]}]},
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_proof_fails_the_shipped_script(case: str, tmp_path: Path) -> None:
    uniform = {"range": [10, 10], "columns": [[5, 5], [5, 5]]}
    proof = {"laws": [uniform], "recipes": [{"laws": [0]}], "answers": 1, "promised": {"epsilon": 1}}
    assert checked(proof, tmp_path).returncode == 0
    assert checked(proof | FORGED[case], tmp_path).returncode == 1


def test_block_of_one_value_is_proved_to_be_published() -> None:
    block = Block(Decimal(9), ((0,), (1, 2), (3, 4, 5)))
    (_, none), *others = block.parts
    assert none is None and [d.range for _, d in others if d] == [10, 11]
    own = np.array([0, 0, 0], np.uint8)
    out = np.full(3, 9, np.uint8)
    block.sample(own, lambda retry, rows=None: pytest.fail("no coin is thrown"), out)
    assert (out == own).all()


def test_command_writes_the_proof_and_says_what_it_shows(tmp_path: Path, ppdm: Run) -> None:
    people().write_parquet(tmp_path / "p.parquet")
    ppdm("perturb", "p.parquet", "-o", "r.parquet", "--gamma", "9", "--drop", "since", "--keep", "group")
    done = ppdm("inspect", "r.parquet", "--prove", "-o", "proof.json")
    assert b"No original makes what a record shows more than e^8.789 times" in done.stdout
    assert b"by running the sampler. Every column sums to 1." in done.stdout
    written = json.loads((tmp_path / "proof.json").read_bytes())
    assert checked(written, tmp_path).returncode == 0
    for source in ("r.parquet", "r.parquet.ppdm.json"):
        assert json.loads(ppdm("inspect", source, "--prove", "--json").stdout) == written
    assert b"exists" in ppdm("inspect", "r.parquet", "--prove", "-o", "proof.json", code=2).stderr
    ppdm("inspect", "r.parquet", "--prove", "-o", "proof.json", "--force")
    assert (
        b"also the input"
        in ppdm("inspect", "r.parquet", "--prove", "-o", "r.parquet", "--force", code=2).stderr
    )
    assert b"--describe PLAN" in ppdm("inspect", "r.parquet", "-o", "x.json", code=2).stderr
    asked = ("inspect", "r.parquet", "--prove", "--report", "s.html")
    assert b"--describe or --prove" in ppdm(*asked, code=2).stderr


def test_seeded_coins_are_proved_and_promise_nothing() -> None:
    proof = prove(released(TABLE, attributes=DOMAINS).sidecar)
    assert "promises nothing all the same: its coins are seeded" in " ".join(proving.proof_sentences(proof))


def test_noise_without_gamma_is_not_proved() -> None:
    ages, settings = TABLE.select("age").drop_nulls(), {"domain": [0, 99], "bins": 10}
    noisy = released(ages, attributes={"age": settings}, scheme="additive", noise="normal", sd="25%").sidecar
    with raises("nothing-to-prove"):
        prove(noisy)
    with raises("no-release-to-prove"):
        prove(replace(noisy, recipes=[], scheme=["innocent"], privacy=UNSET))

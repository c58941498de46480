"""`ppdm entropy`: surfaces over gamma and N, for a prior or for a release, as tables and pictures."""

from __future__ import annotations

import json
from decimal import Decimal
from math import log2
from pathlib import Path

import numpy as np
import pytest

from ppdm_cli import perturb, pictures
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.releases import read_sidecar
from ppdm_cli.tables import PendingFile, commit
from tests.vocabulary import Run, listing, people, read_table


def rows(ppdm: Run, *args: str) -> list[dict[str, float]]:
    done = ppdm("entropy", *args, "--json")
    assert done.stderr == b""
    found: list[dict[str, float]] = json.loads(done.stdout)["rows"]
    return found


def test_the_grid_is_every_gamma_with_every_n(ppdm: Run) -> None:
    found = rows(ppdm, "--gamma", "2:4,9.5", "--bins", "5,30:50:10", "--records", "1000")
    assert [(r["gamma"], r["N"]) for r in found] == [(g, n) for g in (2, 3, 4, 9.5) for n in (5, 30, 40, 50)]
    first = found[0]
    g, N = 2, 5
    D = g + N - 1
    assert first["entropy"] == pytest.approx(-(g / D) * log2(g / D) + (N - 1) / D * log2(D))
    assert first["entropy_share"] == pytest.approx(first["entropy"] / log2(N))
    assert first["information"] == pytest.approx(log2(N) - first["entropy"])
    assert first["condition_number"] == pytest.approx((g + N - 1) / (g - 1))
    assert first["rho2"] == pytest.approx(2 * 0.05 / (0.95 + 2 * 0.05))
    assert first["expected_error"] == pytest.approx((1000 * 4 * 7) ** 0.5 / 1000)
    default = rows(ppdm)
    assert len(default) == 20 * 12 and "expected_error" not in default[0]


def test_a_prior_says_how_many_values_there_are(ppdm: Run) -> None:
    found = rows(ppdm, "--gamma", "9", "--prior", "0.7,0.2,0.1", "--rho1", "0.01")
    assert [(r["N"], r["rho1"]) for r in found] == [(3, 0.01)]
    assert 0 < found[0]["information"] < rows(ppdm, "--gamma", "9", "--bins", "3")[0]["information"]


def test_a_release_gives_a_row_an_attribute(tmp_path: Path, ppdm: Run) -> None:
    sidecar = perturb(people(), tmp_path / "r.parquet", gamma=9, keep=["group"], bins=5).sidecar
    found = rows(ppdm, "r.parquet")
    assert [(r["attribute"], r["N"], r["records"]) for r in found] == [
        (a.name, a.N, 1000) for a in sidecar.perturbed
    ]
    ppdm("entropy", "r.parquet", "-o", "e.parquet")
    assert b"no picture" in ppdm("entropy", "r.parquet", "--plot", "e.svg", code=2).stderr
    said = read_sidecar(tmp_path / "e.parquet.ppdm.json", None, "e")
    assert (said.stage, said.release) == ("evaluated", sidecar.release)
    assert said.attributes == sidecar.perturbed
    before = listing(tmp_path)
    assert b"also the input" in ppdm("entropy", "r.parquet", "-o", "r.parquet", "--force", code=2).stderr
    assert b"Leave out --gamma" in ppdm("entropy", "r.parquet", "--gamma", "9", code=2).stderr
    assert listing(tmp_path) == before


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_the_table_is_columnar_and_says_what_it_speaks_of(suffix: str, tmp_path: Path, ppdm: Run) -> None:
    name = f"e.{suffix}"
    done = ppdm("entropy", "--gamma", "2,9", "--bins", "5,10", "-o", name)
    assert done.stdout == b"", "a table in a file is not shown as well"
    assert read_table(tmp_path / name).to_pylist() == rows(ppdm, "--gamma", "2,9", "--bins", "5,10")
    said = read_sidecar(tmp_path / f"{name}.ppdm.json", None, name)
    assert (said.stage, said.evaluated.gammas, said.evaluated.N) == ("evaluated", [2, 9], [5, 10])
    assert "evaluated" in ppdm("inspect", name).stdout.decode()


def test_a_grid_says_in_json_too_that_a_whole_record_has_no_protection(ppdm: Run) -> None:
    for asked, said in ((("--gamma", "2,20000"), True), (("--gamma", "2,9"), False)):
        found = json.loads(ppdm("entropy", *asked, "--bins", "5", "--json").stdout)["sentences"]
        shown = " ".join(ppdm("entropy", *asked, "--bins", "5").stdout.decode().split())
        assert bool(found) == said == ("No meaningful protection" in shown) and all(s in shown for s in found)
    design = ("entropy", "--record-epsilon", "12", "--records", "1000", "--attributes", "3x5", "--json")
    assert json.loads(ppdm(*design).stdout)["sentences"][0].startswith("No meaningful protection")


def test_pictures_are_drawn_and_written_whole_or_not_at_all(tmp_path: Path, ppdm: Run) -> None:
    magic = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "html": b"<!DOCTYPE html>"}
    grid = rows(ppdm, "--gamma", "2,9", "--bins", "5,10")
    for suffix, begins in magic.items():
        with PendingFile(tmp_path / f"p.{suffix}", force=False) as target:
            pictures.draw_entropy(grid, target)
            commit(target)
        assert (tmp_path / f"p.{suffix}").read_bytes().startswith(begins)
    args = ("entropy", "--gamma", "2,9", "--bins", "5,10", "-o", "e.csv", "--plot")
    before = listing(tmp_path)
    for picture in ("p.png", "p.gif"):
        ppdm(*args, picture, code=2)
    assert listing(tmp_path) == before, "neither picture nor table"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ("--gamma 2:1", 2), ("--gamma 2:9:0", 2), ("--gamma 0:1e9999:1e-9999", 2),
        ("--gamma 1,2", 4), ("--gamma inf", 4), ("--bins 1e999999999", 2),
        ("--bins 100000", 2), ("--bins 1", 4), ("--prior 0.5,0.6", 2),
        ("--prior 0.5,0.5 --bins 3", 2), ("--prior=-1,2", 2), ("--rho1 1", 2),
        ("--gamma 2:9000 -o e.csv", 2),
    ],
)  # fmt: skip
def test_numbers_that_mean_nothing_are_refused(args: str, code: int, tmp_path: Path, ppdm: Run) -> None:
    done = ppdm("entropy", *args.split(), code=code)
    assert done.stdout == b"" and b"inside ppdm" not in done.stderr
    assert listing(tmp_path) == {}


def test_designs_reach_the_error_that_is_asked_for(ppdm: Run) -> None:
    """One release at gamma^k is more private than k at gamma; run, each reaches the error within 5 %."""
    found = rows(ppdm, "--error", "0.02", "--records", "20000", "--bins", "4,12", "--gamma-max", "200")
    assert [r["gamma_together"] for r in found] == sorted(r["gamma_together"] for r in found)
    assert {(r["N"], r["copies"]) for r in found} >= {(n, k) for n in (4, 12) for k in (1, 2, 4)}
    assert (found[0]["N"], found[0]["copies"]) == (4, 1)
    for r in found:
        assert r["expected_error"] <= 0.02 and r["gamma_together"] == pytest.approx(r["gamma"] ** r["copies"])
        assert r["rho2"] == pytest.approx(worst_posterior(r["gamma_together"], 0.05))
        squares, N = [], int(r["N"])
        matrix = GammaDiagonal(Decimal(repr(r["gamma"])), N)
        rng, originals = np.random.default_rng(7), np.full(N, 20000 // N)
        for _ in range(400):  # the mean of squares is off by sqrt(2 / (400 (N-1))) or so: under 5 % of the root
            copies = [
                matrix.solve(
                    sum(rng.multinomial(c, m) for c, m in zip(originals, matrix.dense().T, strict=True))
                )
                for _ in range(int(r["copies"]))
            ]
            squares.append(((np.mean(copies, axis=0) - originals) ** 2).sum())
        assert np.sqrt(np.mean(squares)) / originals.sum() == pytest.approx(r["expected_error"], rel=0.05)
    assert (
        b"no design reaches"
        in ppdm("entropy", "--error", "0.001", "--records", "99", "--gamma-max", "3", code=4).stderr
    )


def test_a_budget_without_meaningful_protection_is_named_before_the_table(ppdm: Run, tmp_path: Path) -> None:
    people(300).write_csv(tmp_path / "people.csv")
    budget = ("--gamma", 9999, "--rare", "publish", "--shuffle")
    made = ppdm("perturb", "people.csv", "-o", "r.csv", *budget).stderr
    sizes = ("--records", 1000, "--attributes", "4x10")
    for shown in (
        made,
        ppdm("entropy", "r.csv").stdout,
        ppdm("entropy", "--record-epsilon", 9.86, *sizes).stdout,
        ppdm("entropy", "--gamma", "9,20000", "--bins", 5).stdout,
    ):
        assert b"No meaningful protection for a whole record" in b"".join(shown.splitlines()[:2])
        assert shown.count(b"meaningful") == 1
    assert b"meaningful" not in ppdm("entropy", "--record-epsilon", 9.84, *sizes).stdout
    assert b"meaningful" not in ppdm("entropy", "--gamma", "9,999", "--bins", 5).stdout
    assert b"epsilon must be above 0" in ppdm("entropy", "--record-epsilon", 0, *sizes, code=2).stderr

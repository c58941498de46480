"""`--bins auto`: a rule of gamma, matrix and number of records, overruled by whatever is said of one column."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.channels import KINDS
from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing.resolve_run import LEAST_BINS, MOST_BINS, best_bins
from ppdm_cli.releases import read_sidecar
from ppdm_cli.sidecar import Sidecar
from tests.vocabulary import Run

GAMMAS = [1.01, 1.5, 2, 3, 5, 9, 19, 100, 10_000]
SIZES = [0, 1, 100, 1_000, 10_000, 100_000, 10**6, 10**8]


def table(rows: int = 10_000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    days = pl.Series(rng.integers(0, 3000, rows).astype("int32")).cast(pl.Date)
    return pl.DataFrame({
        "x": rng.uniform(0, 100, rows), "y": rng.uniform(0, 100, rows), "when": days,
        "few": rng.integers(0, 3, rows), "town": rng.choice(["n", "s"], rows),
    })  # fmt: skip


def bins(said: Sidecar) -> dict[str, int]:
    return {a.name: a.N for a in said.perturbed}


def of(path: Path) -> dict[str, int]:
    return bins(read_sidecar(Path(f"{path}.ppdm.json"), None, "r"))


@pytest.mark.parametrize("kind", ["gamma-diagonal", "band"])
def test_more_records_and_a_larger_gamma_never_mean_fewer_bins(kind: str) -> None:
    found = np.array([[best_bins(g, KINDS[kind], n) for n in SIZES] for g in GAMMAS])
    assert found.min() >= LEAST_BINS and found.max() <= MOST_BINS
    for rows in (found, found.T):
        assert all((b >= a).all() for a, b in pairwise(rows))
    assert best_bins(5, KINDS[kind], 100_000) == {"gamma-diagonal": 10, "band": 20}[kind]


def test_each_column_has_the_bins_of_its_own_gamma_and_matrix() -> None:
    domain = {"domain": [0, 100]}
    said = perturb(
        table(), gamma=5, bins="auto", seed=1,
        attributes={"x": domain, "y": domain | {"gamma": 19, "matrix": "band"}},
    ).sidecar  # fmt: skip
    found = bins(said)
    assert found["x"] == best_bins(5, KINDS["gamma-diagonal"], 10_000)
    assert found["y"] == best_bins(19, KINDS["band"], 10_000)
    assert (found["few"], found["town"]) == (3, 2), "few values stay as they are"


@pytest.mark.parametrize("matrix", ["gamma-diagonal", "band"])
def test_bins_that_fit_may_be_fewer_where_records_are_few(matrix: str) -> None:
    core = {"x": {"domain": [0, 100], "core": [0, 100]}, "y": {"domain": [0, 100], "core": [20, 80]}}
    found = bins(perturb(table(), gamma=5, bins="auto", matrix=matrix, seed=1, attributes=core).sidecar)
    equal = best_bins(5, KINDS[matrix], 10_000)
    assert found["x"] == best_bins(5, KINDS[matrix], 10_000, fits=True) < equal
    assert found["y"] == found["x"] + 1, "beyond a core there is a bin"
    assert best_bins(5, KINDS[matrix], 10**6, fits=True) == best_bins(5, KINDS[matrix], 10**6)


def test_what_is_said_of_a_column_wins(tmp_path: Path, ppdm: Run) -> None:
    table().write_csv(tmp_path / "t.csv")
    args = ("perturb", "t.csv", "--gamma", "5", "--bins", "auto", "--domain", "x=0:100", "--domain", "y=0:100")
    ppdm(*args, "-o", "r.csv", "--attribute", "y:bins=33")
    assert (of(tmp_path / "r.csv")["x"], of(tmp_path / "r.csv")["y"]) == (7, 33)
    (tmp_path / "p.toml").write_text(
        'gamma = 5\nbins = "auto"\n[attributes]\nx = { edges = [0, 10, 100] }\ny = { domain = [0, 100] }\n'
    )
    ppdm("perturb", "t.csv", "-o", "p.csv", "--plan", "p.toml")
    assert (of(tmp_path / "p.csv")["x"], of(tmp_path / "p.csv")["y"]) == (2, 7)
    ppdm("perturb", "t.csv", "-o", "like.csv", "--like", "p.csv")
    assert of(tmp_path / "like.csv") == of(tmp_path / "p.csv")


def test_a_stream_has_no_number_of_records(tmp_path: Path, ppdm: Run) -> None:
    csv = table(100).write_csv().encode()
    args = ("perturb", "-", "-o", "r.csv", "--from", "csv", "--gamma", "5", "--bins", "auto")
    said = ppdm(*args, stdin=csv, code=2).stderr.decode()
    assert "--bins auto needs the number of records" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_auto_is_for_all_columns_only() -> None:
    with pytest.raises(UsageError, match="not a whole number"):
        perturb(table(100), gamma=5, attributes={"x": {"bins": "auto"}})

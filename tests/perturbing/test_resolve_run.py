"""What a run settles first: how many bins, and one sidecar, domain and matrix of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.channels import KINDS
from ppdm_cli.domain import Bins, Categories
from ppdm_cli.perturbing import resolve_run
from ppdm_cli.perturbing.resolve_run import LEAST_BINS, MOST_BINS, best_bins
from ppdm_cli.releases import opened_release
from ppdm_cli.sidecar import Sidecar
from tests.vocabulary import Run, raises, table

DECLARED = {
    "x": {"domain": "0:100"},
    "y": {"domain": [0, 9], "bins": 5, "nulls": True},
    "z": {"domain": "a|b|c"},
}
ONCE = {
    "gamma": {"gamma": 9},
    "band": {"gamma": 9, "matrix": "band"},
    "declared": {"gamma": 3, "attributes": DECLARED},
}


@pytest.mark.parametrize("asked", ONCE.values(), ids=ONCE)
def test_one_run_builds_everything_once(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str, what: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def counting(*args: Any, **named: Any) -> Any:
            counted[what] += 1
            return real(*args, **named)

        monkeypatch.setattr(owner, name, counting)

    for kind in {k for k in KINDS.values() if "matrix" in vars(k)}:
        count(kind, "matrix", "matrices")
    count(opened_release, "_check", "checks")
    count(Bins, "__init__", "domains")
    count(Categories, "__init__", "domains")
    count(Sidecar._json, "func", "encodings")
    rng = np.random.default_rng(1)
    columns = {"x": rng.random(3000) * 100, "y": rng.integers(0, 9, 3000), "z": rng.choice([*"abc"], 3000)}
    perturb(pl.DataFrame(columns), tmp_path / "r.parquet", **asked)
    beyond = 3 * (asked.get("matrix") == "band")  # what a band publishes reaches beyond a domain
    assert counted["domains"] <= 3 + beyond
    del counted["domains"]
    assert counted == {"matrices": 3, "checks": 1, "encodings": 1}


# -- `bins="auto"`: a rule of gamma, matrix and number of records

GAMMAS = [1.01, 1.5, 2, 3, 5, 9, 19, 100, 10_000]
SIZES = [0, 1, 100, 1_000, 10_000, 100_000, 10**6, 10**8]


def bins(attributes: dict[str, Any], **asked: Any) -> dict[str, int]:
    data = table(10_000, x=(0.0, 100.0), y=(0.0, 100.0), few=range(3), town=["n", "s"])
    made = perturb(data, attributes=attributes, seed=1, **{"gamma": 5, "bins": "auto"} | asked)
    return {a.name: a.N for a in made.sidecar.perturbed}


@pytest.mark.parametrize("kind", ["gamma-diagonal", "band"])
def test_more_records_and_a_larger_gamma_never_mean_fewer_bins(kind: str) -> None:
    found = np.array([[best_bins(g, KINDS[kind], n) for n in SIZES] for g in GAMMAS])
    assert found.min() >= LEAST_BINS and found.max() <= MOST_BINS
    for rows in (found, found.T):
        assert all((b >= a).all() for a, b in pairwise(rows))
    assert best_bins(5, KINDS[kind], 100_000) == {"gamma-diagonal": 10, "band": 20}[kind]


def test_each_column_has_the_bins_of_its_own_gamma_and_matrix_or_those_asked_for_it() -> None:
    domain = {"domain": [0, 100]}
    found = bins({"x": domain, "y": domain | {"gamma": 19, "matrix": "band"}})
    assert found["x"] == best_bins(5, KINDS["gamma-diagonal"], 10_000)
    assert found["y"] == best_bins(19, KINDS["band"], 10_000)
    assert (found["few"], found["town"]) == (3, 2), "few values stay as they are"
    own = bins({"x": {"edges": [0, 10, 100]}, "y": domain | {"bins": 33}})
    assert (own["x"], own["y"]) == (2, 33)


@pytest.mark.parametrize("matrix", ["gamma-diagonal", "band"])
def test_bins_that_fit_may_be_fewer_where_records_are_few(matrix: str) -> None:
    core = {"x": {"domain": [0, 100], "core": [0, 100]}, "y": {"domain": [0, 100], "core": [20, 80]}}
    found, equal = bins(core, matrix=matrix), best_bins(5, KINDS[matrix], 10_000)
    assert found["x"] == best_bins(5, KINDS[matrix], 10_000, fits=True) < equal
    assert found["y"] == found["x"] + 1, "beyond a core there is a bin"
    assert best_bins(5, KINDS[matrix], 10**6, fits=True) == best_bins(5, KINDS[matrix], 10**6)


def test_automatic_bins_need_a_number_of_records_and_are_for_all_columns(tmp_path: Path, ppdm: Run) -> None:
    csv = table(100, x=(0.0, 100.0)).write_csv().encode()
    args = ("perturb", "-", "-o", "r.csv", "--from", "csv", "--gamma", "5", "--bins", "auto", "--json")
    assert b'"id": "records-of-stream"' in ppdm(*args, stdin=csv, code=2).stderr
    assert not list(tmp_path.iterdir())
    with raises("wrong-type"):
        bins({"x": {"bins": "auto"}})


def test_sidecar_that_promises_too_little_is_refused_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise for several copies is not that for one."""
    whole = resolve_run.privacy
    monkeypatch.setattr(resolve_run, "privacy", lambda plan, coins, copies, also: whole(plan, coins, 1, also))
    with raises("sidecar-invalid") as caught:
        perturb(pl.DataFrame({"x": [*range(100)]}), tmp_path / "r.parquet", gamma=3, copies=2, keep_order=True)
    assert "perturbed_gamma does not follow from the attributes" in str(caught.value)
    assert "larger" not in str(caught.value)


def test_sidecar_that_nobody_could_read_is_refused_for_its_size() -> None:
    with raises("sidecar-unreadable"):
        perturb(pl.DataFrame({"x" * 4097: [*range(100)]}), gamma=3, keep_order=True)

"""The Agrawal-Srikant tables: attributes, the five functions, balance and repeatability.

The classes are compared with the paper's definitions, written out row by row. The same seed gives
the same table, and a longer table begins with the whole blocks of a shorter one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ppdm_cli.errors import UsageError
from ppdm_cli.tables import synthetic
from ppdm_cli.tables.synthetic import BLOCK_ROWS, FUNCTIONS, NAMES, SYNTHETIC_SCHEMA, generate, group_a
from tests.chances import LEVEL, binomial, chi_square

RANGES: dict[str, tuple[float, float]] = {
    "salary": (20_000, 150_000),
    "age": (20, 80),
    "elevel": (0, 4),
    "car": (1, 20),
    "zipcode": (0, 8),
    "hyears": (1, 30),
    "loan": (0, 500_000),
}


def table(function: int, records: int, seed: int, balanced: bool = False) -> pa.Table:
    return pa.Table.from_batches(list(generate(function, records, seed, balanced)), SYNTHETIC_SCHEMA)


def numbers(whole: pa.Table) -> dict[str, np.ndarray]:
    return {n: whole.column(n).to_numpy() for n in whole.schema.names if n != "group"}


def is_group_a(function: int, row: dict[str, Any]) -> bool:
    """Agrawal & Srikant's functions 1 to 5 as Dowd et al. use them, for one record."""
    age, salary, elevel = row["age"], row["salary"], row["elevel"]
    if function == 1:
        return age < 40 or age >= 60
    if function == 2:
        if age < 40:
            return 50_000 <= salary <= 100_000
        return 75_000 <= salary <= 125_000 if age < 60 else 25_000 <= salary <= 75_000
    if function == 3:
        if age < 40:
            if elevel in (0, 1):
                return 25_000 <= salary <= 75_000
            return elevel in (2, 3) and 50_000 <= salary <= 100_000
        if age < 60:
            if elevel in (1, 2, 3):
                return 50_000 <= salary <= 100_000
            return elevel == 4 and 75_000 <= salary <= 125_000
        if elevel in (2, 3, 4):
            return 50_000 <= salary <= 100_000
        return elevel == 1 and 25_000 <= salary <= 75_000
    disposable = 0.67 * (salary + row["commission"]) - 0.2 * row["loan"] - 10_000
    if function == 5:
        equity = 0.1 * row["hvalue"] * max(row["hyears"] - 20, 0)
        disposable += 0.2 * equity
    return disposable > 0


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_classes_are_those_of_the_papers_functions(function: int, balanced: bool) -> None:
    whole = table(function, 20_000, 3, balanced)
    assert whole.schema == SYNTHETIC_SCHEMA
    for row in whole.to_pylist():
        assert row["group"] == ("A" if is_group_a(function, row) else "B"), row


def test_the_edges_of_the_functions_are_closed_as_the_paper_writes_them() -> None:
    ages, pays = [20.0, 39.999, 40.0, 59.999, 60.0, 80.0], [25e3, 50e3, 75e3, 100e3, 125e3]
    grid = [(a, s + d, e) for a in ages for s in pays for d in (-0.01, 0, 0.01) for e in range(5)]
    age, salary, elevel = (np.array(column) for column in zip(*grid, strict=True))
    columns = {"age": age, "salary": salary, "elevel": elevel}
    for function in (1, 2, 3):
        found = group_a(function, columns)
        rows = [{"age": a, "salary": s, "elevel": e} for a, s, e in grid]
        assert found.tolist() == [is_group_a(function, row) for row in rows]


@pytest.mark.parametrize("balanced", [False, True])
def test_attributes_have_the_papers_ranges(balanced: bool) -> None:
    columns = numbers(table(2, 50_000, 4, balanced))
    for name, (low, high) in RANGES.items():
        assert columns[name].min() >= low
        assert columns[name].max() <= high
        if columns[name].dtype.kind == "i":
            assert len(np.unique(columns[name])) == high - low + 1
    rich = columns["salary"] >= 75_000
    assert (columns["commission"][rich] == 0).all()
    assert (columns["commission"][~rich] >= 10_000).all()
    assert columns["commission"].max() <= 75_000
    k = (columns["zipcode"] + 1) * 100_000
    assert (columns["hvalue"] >= 0.5 * k).all()
    assert (columns["hvalue"] <= 1.5 * k).all()


def test_attributes_are_uniform_and_independent() -> None:
    columns = numbers(table(1, 100_000, 5))
    columns["house"] = columns["hvalue"] / ((columns["zipcode"] + 1) * 100_000)
    poor = columns["salary"] < 75_000
    for name, low, high in (
        ("salary", 20_000, 150_000),
        ("age", 20, 80),
        ("loan", 0, 500_000),
        ("house", 0.5, 1.5),
    ):
        assert stats.kstest(columns[name], "uniform", (low, high - low)).pvalue > LEVEL
    assert stats.kstest(columns["commission"][poor], "uniform", (10_000, 65_000)).pvalue > LEVEL
    for name in ("elevel", "car", "zipcode", "hyears"):
        counts = np.unique(columns[name], return_counts=True)[1]
        assert chi_square(counts, np.ones(len(counts))) > LEVEL
    listed = [columns[n] for n in ("salary", "age", "elevel", "car", "zipcode", "hyears", "loan", "house")]
    correlations = np.corrcoef(listed) - np.eye(len(listed))
    assert np.abs(correlations).max() < 6 / np.sqrt(100_000)


@pytest.mark.parametrize("records", [1, 2, 999, 1_000, BLOCK_ROWS + 1, 2 * BLOCK_ROWS + 3])
@pytest.mark.parametrize("function", [1, 4])
def test_balanced_classes_differ_by_one_at_most(function: int, records: int) -> None:
    groups = table(function, records, 6, balanced=True).column("group").to_pylist()
    assert len(groups) == records
    assert abs(groups.count("A") - groups.count("B")) <= records % 2


def test_balancing_changes_the_shares_of_the_classes_and_nothing_inside_them() -> None:
    plain, balanced = (table(2, 60_000, 7, b) for b in (False, True))
    for group in "AB":
        one, other = (
            {n: c[t.column("group").to_numpy(zero_copy_only=False) == group] for n, c in numbers(t).items()}
            for t in (plain, balanced)
        )
        for name in NAMES:
            assert stats.ks_2samp(one[name], other[name]).pvalue > LEVEL
    groups = (balanced.column("group").to_numpy(zero_copy_only=False) == "A").astype(int)
    runs = int((groups[1:] != groups[:-1]).sum())
    assert binomial(runs, len(groups) - 1, 0.5) > LEVEL, "classes come in random order"


@pytest.mark.parametrize("balanced", [False, True])
def test_the_seed_alone_decides(balanced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "BLOCK_ROWS", 1_000)
    whole = table(3, 4_500, 8, balanced)
    assert whole.num_rows == 4_500
    assert table(3, 4_500, 8, balanced).equals(whole)
    assert not table(3, 4_500, 9, balanced).equals(whole)
    # whole blocks do not depend on how many follow; the last, shorter one is drawn for itself
    assert table(3, 9_000, 8, balanced).slice(0, 4_000).equals(whole.slice(0, 4_000))
    blocks = [whole.slice(i * 1_000, 1_000).column("age").to_pylist() for i in range(4)]
    assert len({tuple(b) for b in blocks}) == 4


def test_functions_have_attributes_of_their_own_seed() -> None:
    ages = [tuple(table(f, 100, 1).column("age").to_pylist()) for f in FUNCTIONS]
    assert len(set(ages)) == len(FUNCTIONS)


def test_no_records_and_impossible_wishes() -> None:
    assert table(1, 0, 1).num_rows == 0
    for function, records in ((0, 1), (6, 1), (1, -1)):
        with pytest.raises(UsageError):
            list(generate(function, records, 1))

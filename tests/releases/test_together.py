"""Several releases with one plan, taken together; others are refused with the difference shown."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ppdm_cli import estimate, perturb, reconstruct
from ppdm_cli.errors import MismatchError, UsageError
from ppdm_cli.tables import synthetic
from tests.vocabulary import Run

KEPT = {"keep": ["group"], "class_": "group"}


def month(seed: int, n: int = 3_000) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(b) for b in synthetic.generate(2, n, seed)])


@pytest.fixture
def january(tmp_path: Path) -> Path:
    path = tmp_path / "january.parquet"
    domains = {n: {"domain": d} for n, d in (("salary", [20_000, 150_000]), ("commission", [0, 75_000]),
               ("age", [20, 80]), ("hvalue", [50_000, 1_350_000]), ("loan", [0, 500_000]))}  # fmt: skip
    perturb(month(1), path, gamma=5, attributes=domains, **KEPT)
    return path


def test_two_months_are_one_table(january: Path, tmp_path: Path) -> None:
    february = tmp_path / "february.parquet"
    perturb(month(2, 2_000), february, like=january)
    both = pl.concat([month(1), month(2, 2_000)])
    done = estimate([january, february], truth=both)
    assert done.tables[0].observed.sum() == 5_000
    assert done.sidecar.records == 5_000
    parts = [estimate(p).tables for p in (january, february)]
    for table, one, other in zip(done.tables, *parts, strict=True):
        assert (table.observed == one.observed + other.observed).all()
    usable = reconstruct([january, february], tmp_path / "both.parquet")
    assert usable.sidecar.records == 5_000 and len(usable.sidecar.history) == 2  # type: ignore[arg-type]
    frame = pl.read_parquet(tmp_path / "both.parquet")
    kept = [pl.read_parquet(p)["group"] for p in (january, february)]
    assert frame["group"].equals(pl.concat(kept))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gamma": 6}, "differs in matrix: gamma 5 and gamma 6"),
        ({"bins": 8}, "differs in"),
        ({"class_": None}, "they name different classes"),
        ({"drop": ["car"]}, "has the column 'car'"),
    ],
)
def test_other_plans_are_refused_with_the_difference(
    january: Path, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    other = tmp_path / "other.parquet"
    domains = {n: {"domain": d} for n, d in (("salary", [20_000, 150_000]), ("commission", [0, 75_000]),
               ("age", [20, 80]), ("hvalue", [50_000, 1_350_000]), ("loan", [0, 500_000]))}  # fmt: skip
    perturb(month(2), other, **{"gamma": 5, "attributes": domains, **KEPT, **change})  # type: ignore[arg-type]
    for work in (estimate, reconstruct):
        with pytest.raises(MismatchError, match=says):
            work([january, other])


def test_tables_in_memory_bring_their_sidecar(january: Path) -> None:
    with pytest.raises(UsageError, match="no sidecar beside it"):
        estimate(pl.read_parquet(january))
    with pytest.raises(UsageError, match="one sidecar is named"):
        estimate([january, january], sidecar=Path("x.json"))


@pytest.mark.parametrize("command", ["estimate", "query", "train-tree", "train-bayes", "reconstruct", "attack"])
def test_releases_of_the_same_people_are_not_counted_twice(tmp_path: Path, ppdm: Run, command: str) -> None:
    """Under one key file answers repeat: two releases of one table would look like twice the people."""
    month(1).with_columns(id=pl.int_range(3_000)).write_parquet(tmp_path / "people.parquet")
    keys = ("--key-file", "key", "--id", "id")
    first = ("--gamma", "9", "--class", "group", "--shuffle", *keys)
    ppdm("perturb", "people.parquet", "-o", "one.parquet", *first)
    ppdm("perturb", "people.parquet", "-o", "two.parquet", "--like", "one.parquet", *keys)
    rest: dict[str, tuple[str, ...]] = {
        "query": ("select mean(age)",), "train-tree": ("-o", "tree.json"), "reconstruct": ("-o", "usable.csv"),
        "train-bayes": ("--learn-structure", "tree", "-o", "net.bif"),
    }  # fmt: skip
    joins = command == "train-bayes"  # columns of parties, and adds no records
    done = ppdm(command, "one.parquet", "two.parquet", *rest.get(command, ()), code=3 if joins else 4)
    assert ("has two columns" if joins else "one key file, so people in both") in done.stderr.decode()
    ppdm(command, "two.parquet", *rest.get(command, ()))

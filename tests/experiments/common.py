"""What the experiments share: their data, releases of them, and a table of results that is added to.

The synthetic tables are those of `ppdm generate`; the others are in tests/data. A release keeps the
class and perturbs every other attribute, over domains that are declared. FULL=1 in the environment asks
for a whole grid.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from ppdm_cli import perturb, pictures
from ppdm_cli.perturbing import Release
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import PendingFile, commit, synthetic
from ppdm_cli.trees import Fitted, FromRelease, predict

FULL = os.environ.get("FULL") == "1"
BUILD = Path("build/papers")
DATA = Path(__file__).parent.parent / "data"
DOMAINS = {
    "salary": [20_000, 150_000], "commission": [0, 75_000], "age": [20, 80], "elevel": [0, 4], "car": [1, 20],
    "zipcode": [0, 8], "hvalue": [50_000, 1_350_000], "hyears": [1, 30], "loan": [0, 500_000],
}  # fmt: skip
WHOLE = {"car": 20, "zipcode": 9, "elevel": 5}
ATTRIBUTES = {n: {"domain": d, **({"bins": WHOLE[n]} if n in WHOLE else {})} for n, d in DOMAINS.items()}
TRAIN, TEST = 100_000, 5_000
SMALL = {"spambase": 3_101, "breast cancer": 466, "Boston": 400}
"""Real tables, and how many of their records are trained on."""
Settings = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Data:
    """Records to train on and to test with, and the domains that their owner declares."""

    name: str
    train: pl.DataFrame
    test: pl.DataFrame
    class_: str
    domains: dict[str, list[float]]


def table(function: int, records: int, seed: int, balanced: bool = False) -> pl.DataFrame:
    batches = synthetic.generate(function, records, seed, balanced)
    return pl.concat([pl.DataFrame(b) for b in batches])


def real(name: str) -> pl.DataFrame:
    """Read one of the real tables; the class is its last column."""
    if name == "spambase":
        return pl.concat([pl.read_parquet(DATA / f"spambase_{part}.parquet") for part in ("train", "test")])
    if name == "Boston":
        return pl.read_csv(DATA / "boston_class.csv")
    return pl.read_csv(DATA / "breast_cancer.csv", null_values="?").drop("id")


@lru_cache(maxsize=1)
def data(name: str, seed: int) -> Data:
    """F1 to F5, another table for each seed; or a real table, cut in two anew for each seed."""
    if name in SMALL:
        whole = real(name).sample(fraction=1, shuffle=True, seed=seed)
        class_ = whole.columns[-1]
        domains = {n: [whole[n].min(), whole[n].max()] for n in whole.columns if n != class_}
        return Data(name, whole[: SMALL[name]], whole[SMALL[name] :], class_, domains)
    function = int(name.removeprefix("F"))
    made = table(function, TRAIN, 100 * function + seed), table(function, TEST, 900 + function)
    return Data(name, *made, synthetic.CLASS, DOMAINS)


def published(original: Data, gamma: float, N: int | str, seed: int, **plan: Any) -> Release:
    """Every attribute perturbed over N bins, or over its own values where they are no more; the class kept.

    `plan` are further arguments of `perturb`.
    """
    nulls = {n: {"nulls": True} for n in original.domains if original.train[n].null_count()}
    attributes = {n: {"domain": d} | nulls.get(n, {}) for n, d in original.domains.items()}
    return perturb(original.train, gamma=gamma, bins=N, keep=[original.class_], class_=original.class_,
                   attributes=attributes, keep_order=True, seed=seed, **plan)  # fmt: skip


def binned(original: pl.DataFrame, sidecar: Sidecar) -> pl.DataFrame:
    """The original with each value as its bin's representative: a release that changed nothing."""
    columns: dict[str, pa.Array] = {}
    for attribute in sidecar.attributes:
        column = original[attribute.name].to_arrow().cast(attribute.kind)
        if attribute.has_domain:
            column = attribute.domain.decode(attribute.domain.encode(column).codes)
        columns[attribute.name] = column
    return pl.DataFrame(pa.table(columns))


def accuracy(fitted: Fitted | FromRelease, test: pl.DataFrame, class_: str) -> float:
    """Percent of the test records whose class the tree predicts."""
    return float(100 * (predict(fitted, test)["predicted"] == test[class_]).mean())


class Results:
    """Rows in a CSV, written as they come: a run that is interrupted goes on where it was.

    A row is known by its `key`. Who changed what is measured removes the file first.
    """

    def __init__(self, name: str, key: tuple[str, ...], values: tuple[str, ...]) -> None:
        self.path, self.key, self.columns = BUILD / f"{name}.csv", key, (*key, *values)
        BUILD.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        if not lines or lines[0] != ",".join(self.columns) + "\n":
            lines = [",".join(self.columns) + "\n"]
        self.path.write_text("".join(line for line in lines if line.endswith("\n")))
        self._known = {tuple(row[: len(key)]) for row in csv.reader(lines[1:])}
        if self._known:
            print(f"{self.path} has {len(self._known)} rows already; remove it to measure them again")

    def missing(self, keys: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [k for k in keys if tuple(map(str, k)) not in self._known]

    def add(self, *row: Any) -> None:
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(row)

    def measured(self, keys: Iterable[tuple[Any, ...]], one: Callable[..., Iterable[Any]]) -> pl.DataFrame:
        """Measure what is missing, a row for each key, and return all rows."""
        for key in self.missing(keys):
            self.add(*key, *one(*key))
        return pl.read_csv(self.path)


def say(*parts: object, digits: int = 2) -> None:
    """Print texts and whole tables."""
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, float_precision=digits, fmt_str_lengths=60,
                   tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):  # fmt: skip
        print(*parts, flush=True)


def saved(name: str, frame: pl.DataFrame, digits: int = 4) -> pl.DataFrame:
    """Write a table to a file and print it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    frame.write_csv(BUILD / f"{name}.csv")
    say(name, frame, digits=digits)
    return frame


def drawn(chart: Any, name: str) -> None:
    """Save a chart over an older one."""
    with PendingFile(BUILD / name, force=True) as target:
        pictures.charts.save(chart, target)
        commit(target)


def figure(rows: pl.DataFrame, width: int, height: int) -> Any:
    import altair as alt

    return alt.Chart(alt.Data(values=rows.to_dicts()), width=width, height=height)

"""The tables of Agrawal and Srikant: nine attributes, and a class by one of five functions.

Streamed block by block; each block has a generator of its own, so that the table depends on the
seed alone and a billion rows need no more memory than a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli.errors import UsageError, argument
from ppdm_cli.tables.base import ordered, workers

BLOCK_ROWS = 1 << 17
FUNCTIONS = (1, 2, 3, 4, 5)
_REAL = ("salary", "commission", "age", "hvalue", "loan")
NAMES = ("salary", "commission", "age", "elevel", "car", "zipcode", "hvalue", "hyears", "loan")
CLASS = "group"
SYNTHETIC_SCHEMA = pa.schema(
    [pa.field(n, pa.float64() if n in _REAL else pa.int64(), False) for n in NAMES]
    + [pa.field(CLASS, pa.string(), False)]
)

Columns = dict[str, np.ndarray[Any, Any]]


def generate(function: int, records: int, seed: int, balanced: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the table in batches of one schema; `balanced` makes both classes equally large."""
    if function not in FUNCTIONS:
        raise UsageError("unknown-function", f"unknown function {function}", "use a function from 1 to 5")
    if records < 0:
        raise UsageError(
            "negative-records", "the number of records is negative", f"try {argument('records', 100_000)}"
        )
    starts = range(0, records, BLOCK_ROWS)
    with workers() as executor:
        yield from ordered(executor, starts, partial(_block, function, records, seed, balanced))


def _block(function: int, records: int, seed: int, balanced: bool, start: int) -> pa.RecordBatch:
    rows = min(BLOCK_ROWS, records - start)
    rng = np.random.default_rng([seed, function, start // BLOCK_ROWS])
    columns = _attributes(rows, rng)
    in_a = group_a(function, columns)
    if balanced:
        columns, in_a = _balance(function, columns, in_a, rng, start)
    labels = pa.DictionaryArray.from_arrays(pa.array((~in_a).astype(np.int8)), pa.array(["A", "B"]))
    arrays = [pa.array(columns[n]) for n in NAMES] + [labels.dictionary_decode()]
    return pa.RecordBatch.from_arrays(arrays, schema=SYNTHETIC_SCHEMA)


def _attributes(rows: int, rng: np.random.Generator) -> Columns:
    """Draw Agrawal & Srikant's attributes: a commission only below a salary of 75,000, house by area."""
    salary = rng.uniform(20_000, 150_000, rows)
    commission = np.where(salary >= 75_000, 0.0, rng.uniform(10_000, 75_000, rows))
    age = rng.uniform(20, 80, rows)
    elevel, car, zipcode = rng.integers(0, 5, rows), rng.integers(1, 21, rows), rng.integers(0, 9, rows)
    hvalue = rng.uniform(0.5, 1.5, rows) * (zipcode + 1) * 100_000
    hyears, loan = rng.integers(1, 31, rows), rng.uniform(0, 500_000, rows)
    return dict(zip(NAMES, (salary, commission, age, elevel, car, zipcode, hvalue, hyears, loan), strict=True))


def group_a(function: int, columns: Columns) -> np.ndarray:
    """Return the records in group A, by the paper's function F1..F5."""
    salary, age, elevel = columns["salary"], columns["age"], columns["elevel"]
    young, old = age < 40, age >= 60
    middle = ~young & ~old

    def pay(low: float, high: float) -> np.ndarray:
        return (salary >= low) & (salary <= high)

    if function == 1:
        return young | old
    if function == 2:
        return (young & pay(50e3, 100e3)) | (middle & pay(75e3, 125e3)) | (old & pay(25e3, 75e3))
    if function == 3:
        return (
            (young & (((elevel <= 1) & pay(25e3, 75e3)) | (_in(elevel, 2, 3) & pay(50e3, 100e3))))
            | (middle & ((_in(elevel, 1, 3) & pay(50e3, 100e3)) | ((elevel == 4) & pay(75e3, 125e3))))
            | (old & ((_in(elevel, 2, 4) & pay(50e3, 100e3)) | ((elevel == 1) & pay(25e3, 75e3))))
        )
    income = 0.67 * (salary + columns["commission"]) - 0.2 * columns["loan"] - 10_000
    if function == 4:
        return np.asarray(income > 0)
    equity = 0.1 * columns["hvalue"] * np.maximum(columns["hyears"] - 20, 0)
    return np.asarray(income + 0.2 * equity > 0)


def _in(values: np.ndarray, low: int, high: int) -> np.ndarray:
    return (values >= low) & (values <= high)


def _balance(
    function: int, columns: Columns, in_a: np.ndarray, rng: np.random.Generator, start: int
) -> tuple[Columns, np.ndarray]:
    """Yield as many records of each class, by drawing more of the rarer one, in random order."""
    rows = len(in_a)
    want_a = (rows + (start // BLOCK_ROWS + 1) % 2) // 2
    taken: dict[bool, list[Columns]] = {True: [], False: []}
    missing = {True: want_a, False: rows - want_a}
    while True:
        for side in (True, False):
            here = np.flatnonzero(in_a == side)[: missing[side]]
            taken[side].append({n: c[here] for n, c in columns.items()})
            missing[side] -= len(here)
        if not any(missing.values()):
            break
        columns = _attributes(rows, rng)
        in_a = group_a(function, columns)
    mixed = rng.permutation(rows)
    parts = taken[True] + taken[False]
    columns = {n: np.concatenate([p[n] for p in parts])[mixed] for n in NAMES}
    return columns, (np.arange(rows) < want_a)[mixed]

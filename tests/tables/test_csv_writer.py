"""CSV out: the text of codes is that of polars, whose writer also formats all columns of many values."""

from __future__ import annotations

import io
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ppdm_cli.tables import stream_format

ROWS = 3_000
TEXT = ["", "plain", "a,b", 'a "quote"', "two\nlines", "carriage\rreturn", " blank ", "ü", None]
VALUES = {
    "text": pa.array(TEXT),
    "whole": pa.array([-5, 0, 7, None]),
    "byte": pa.array([1, 255], pa.uint8()),
    "number": pa.array([1.5, -0.0, 53750.0, 1e16, float("nan"), None]),
    "single": pa.array([0.1, 1e30, None], pa.float32()),
    "truth": pa.array([True, False, None]),
    "day": pa.array([date(2026, 1, 31), date(1, 1, 1), None]),
    "instant": pa.array([datetime(2026, 1, 31, 12, 30, 0, 250_000), None], pa.timestamp("us")),
    "exact": pa.array([Decimal("1.50"), None]),
}


def written(table: pa.RecordBatch) -> bytes:
    stream = io.BytesIO()
    with stream_format("csv").writer(stream, table.schema, "", None) as writer:
        writer.write(table)
        writer.close(None)
    return stream.getvalue()


def by_polars(table: pa.RecordBatch) -> bytes:
    stream = io.BytesIO()
    pl.DataFrame(pa.Table.from_batches([table])).write_csv(stream)
    return stream.getvalue()


def columns(rows: int, seed: int = 1) -> dict[str, pa.DictionaryArray]:
    """Return a column of codes for each kind of value, drawn at random."""
    rng, made = np.random.default_rng(seed), {}
    for name, values in VALUES.items():
        indices = pa.array(rng.integers(0, len(values), rows), mask=rng.random(rows) < 0.1)
        made[name] = pa.DictionaryArray.from_arrays(indices, values)
    return made


@pytest.mark.parametrize("rows", [0, 1, 100, ROWS])
@pytest.mark.parametrize("order", [1, -1])
def test_text_is_polars_for_codes_and_for_values(rows: int, order: int) -> None:
    coded = dict([*columns(rows).items()][::order])
    plain = pa.RecordBatch.from_pydict({n: c.dictionary_decode() for n, c in coded.items()})
    assert written(pa.RecordBatch.from_pydict(coded)) == written(plain) == by_polars(plain)


def test_text_is_polars_for_columns_of_many_values() -> None:
    rng = np.random.default_rng(2)
    many = {
        "id": [f"{i}\n" if i % 7 else None for i in range(ROWS)],
        "few": rng.integers(0, 3, ROWS),
        "whole": rng.integers(0, 10**6, ROWS),
        "number": rng.random(ROWS),
    }
    table = pa.RecordBatch.from_pydict(many)
    assert written(table) == by_polars(table)


@pytest.mark.parametrize("values", VALUES)
def test_text_is_polars_for_one_column(values: str) -> None:
    table = pa.RecordBatch.from_pydict({values: columns(50)[values].dictionary_decode()})
    assert written(table) == by_polars(table)


@pytest.mark.parametrize("name", ["plain", "a,b", 'a "quote"', "two\nlines", " blank "])
def test_header_is_polars(name: str) -> None:
    table = pa.RecordBatch.from_pydict({name: [1], "other": [2]})
    assert written(table) == by_polars(table)


@given(st.floats())
@example(9.999e-5)
@example(1e-5)
@example(1e-7)
@example(1e22)
def test_number_is_polars(number: float) -> None:
    table = pa.RecordBatch.from_pydict({"x": pa.array([number]).dictionary_encode()})
    assert written(table) == by_polars(pa.RecordBatch.from_pydict({"x": [number]}))


def test_times_of_day_are_text() -> None:
    table = pa.RecordBatch.from_pydict({"t": pa.array([time(12, 30, 5), None], pa.time32("s"))})
    assert written(table) == b"t\n12:30:05\n\n"

"""Column types: names, carriers and JSON of all supported types are inverses of each other.

Timestamps with time zones, times of day, dates from the year 1 to 9999 and decimals of either sign
survive the sidecar; what is no value of a type is refused and never rounded.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import dtypes
from ppdm_cli.errors import DataError, RefusedError, UsageError
from tests.strategies import KINDS, NUMBER_KINDS, carriers, column, kinds, number_kinds


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_types_name_means_that_type(kind: pa.DataType) -> None:
    assert dtypes.parse(str(kind)) == kind
    assert dtypes.normal(kind, "x") == kind
    assert dtypes.normal(pa.dictionary(pa.int32(), kind), "x") == kind
    assert dtypes.is_discrete(kind) == (kind in (pa.string(), pa.bool_()))
    assert dtypes.is_whole(kind) == (kind in NUMBER_KINDS and not pa.types.is_floating(kind))


@given(st.data(), kinds)
def test_json_and_back_gives_the_same_value(data: st.DataObject, kind: pa.DataType) -> None:
    value = data.draw(carriers(kind))
    written = json.loads(json.dumps(dtypes.to_json(value, kind)))
    again = dtypes.from_json(written, kind)
    assert again == value
    assert type(again) is type(value)
    if not pa.types.is_boolean(kind):
        assert dtypes.from_text(str(written), kind) == value


@given(st.data(), number_kinds, st.integers(0, 9))
def test_carrier_and_back_gives_the_same_column(data: st.DataObject, kind: pa.DataType, offset: int) -> None:
    values = data.draw(st.lists(carriers(kind), max_size=30))
    array = column(values, kind)
    array.validate(full=True)
    assert dtypes.carrier(array).tolist() == values
    assert dtypes.from_carrier(dtypes.carrier(array), kind).equals(array)
    part = array.slice(min(offset, len(values)))
    assert dtypes.carrier(part).tolist() == values[offset:]
    strided = np.repeat(np.array(values, dtypes.carrier_type(kind)), 2)[::2]
    assert dtypes.from_carrier(strided, kind).equals(array)


@pytest.mark.parametrize("kind", NUMBER_KINDS, ids=str)
def test_the_limits_of_a_type_can_be_written_and_read(kind: pa.DataType) -> None:
    low, high = dtypes.limits(kind)
    assert low < high
    for value in (low, high):
        assert dtypes.from_json(dtypes.to_json(value, kind), kind) == value
    column([low, high], kind).validate(full=True)


@given(st.data(), number_kinds)
def test_carriers_are_in_the_order_of_the_values(data: st.DataObject, kind: pa.DataType) -> None:
    values = data.draw(st.lists(carriers(kind), min_size=2, max_size=10, unique=True))
    by_arrow = pc.take(column(values, kind), pc.sort_indices(column(values, kind)))
    assert dtypes.carrier(by_arrow).tolist() == sorted(values)


@pytest.mark.parametrize(
    ("kind", "carrier", "written"),
    [
        (pa.date32(), 0, "1970-01-01"),
        (pa.date32(), -719_162, "0001-01-01"),
        (pa.time32("s"), 86_399, "23:59:59"),
        (pa.time32("ms"), 1, "00:00:00.001"),
        (pa.time64("us"), 3_600_000_000, "01:00:00.000000"),
        (pa.time64("ns"), 1, "00:00:00.000000001"),
        (pa.timestamp("s"), -1, "1969-12-31T23:59:59"),
        (pa.timestamp("us", "Europe/Berlin"), 1, "1970-01-01T00:00:00.000001Z"),
        (pa.timestamp("ns", "+02:00"), 0, "1970-01-01T00:00:00.000000000Z"),
        (pa.decimal128(5, 2), -5, "-0.05"),
        (pa.decimal128(5, 2), -12_345, "-123.45"),
        (pa.decimal128(18, 0), 10**17, "100000000000000000"),
        (pa.float64(), 9.0, 9),
        (pa.float64(), 0.1, 0.1),
        (pa.float32(), float(np.float32(0.1)), float(np.float32(0.1))),
        (pa.int64(), -(2**63), -(2**63)),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
    ],
)
def test_values_are_written_as_people_write_them(kind: pa.DataType, carrier: Any, written: Any) -> None:
    assert dtypes.to_json(carrier, kind) == written
    assert dtypes.from_json(written, kind) == carrier


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (pa.int8(), [128, -129, 1.0, "1", True, None]),
        (pa.uint64(), [-1, 2**64]),
        (pa.float64(), [float("nan"), float("inf"), 10**400, "1", False]),
        (pa.float32(), [3.5e38]),
        (pa.string(), [1, None, True]),
        (pa.bool_(), [1, 0, "true"]),
        (pa.date32(), ["2020-02-30", "2020-13-01", "x", 3, ""]),
        (pa.time32("s"), ["24:00:00", "12:60", "1:00", "12:00:00.5", "12:00:00\n"]),
        (pa.timestamp("s"), ["2020-01-01T00:00:00.5", "yesterday", ""]),
        (
            pa.decimal128(5, 2),
            ["1.234", "1000", "NaN", "Infinity", "1e9999999", "1e-9999999", "1." + 40 * "0" + "1", "", "x"],
        ),
    ],
    ids=lambda part: str(part) if isinstance(part, pa.DataType) else "",
)
def test_what_is_no_value_of_a_type_is_refused(kind: pa.DataType, wrong: list[Any]) -> None:
    for value in wrong:
        with pytest.raises(ValueError, match="not a"):
            dtypes.from_json(value, kind)


def test_pythons_own_dates_and_numbers_are_understood() -> None:
    assert dtypes.from_json(dt.date(1970, 1, 2), pa.date32()) == 1
    assert dtypes.from_json(dt.time(0, 0, 1), pa.time32("s")) == 1
    assert dtypes.from_json(dt.datetime(1970, 1, 1, 0, 0, 1), pa.timestamp("ms")) == 1000
    assert dtypes.from_json(1.25, pa.decimal128(5, 2)) == 125
    assert dtypes.from_json("-0.0e99999", pa.decimal128(5, 2)) == 0
    assert dtypes.from_json("00012.5e1", pa.decimal128(5, 2)) == 12_500
    assert dtypes.from_json(-3, pa.decimal128(5, 2)) == -300


def test_unknown_and_nested_types_are_refused_with_the_columns_name() -> None:
    for name in ("complex", "timestamp[min]", "decimal(19, 2)", "decimal(3, 4)", ""):
        with pytest.raises(UsageError):
            dtypes.parse(name)
    for kind in (pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.binary(), pa.duration("s"), pa.null()):
        with pytest.raises(RefusedError, match="'where'"):
            dtypes.normal(kind, "where")


def test_relatives_of_a_type_are_read_as_it() -> None:
    pairs = [
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array(["a", None], pa.string_view()), pa.string()),
        (pa.array([0, None], pa.date64()), pa.date32()),
        (pa.array([1.5, None], pa.float16()), pa.float32()),
        (pa.array([Decimal("1.25"), None], pa.decimal256(9, 2)), pa.decimal128(9, 2)),
        (pa.array([1, None, 1], pa.int16()).dictionary_encode(), pa.int16()),
    ]
    for array, kind in pairs:
        assert dtypes.normal(array.type, "x") == kind
        found = dtypes.normal_column(array, kind, "x")
        assert found.type == kind
        assert [str(v) for v in found.to_pylist()] == [str(v) for v in array.cast(kind).to_pylist()]
    text = pa.array(["a", "b", "a"]).dictionary_encode()
    assert dtypes.normal_column(text, pa.string(), "x") is text, "dictionaries of text are used as they are"


def test_a_cast_that_fails_says_the_column_and_not_the_value() -> None:
    with pytest.raises(DataError, match="'where'") as error:
        dtypes.normal_column(pa.array([1, 70_000]), pa.int16(), "where")
    assert "70000" not in str(error.value)

"""Column types: their names in a sidecar, their values as plain numbers, their values as text.

A *carrier* is the numpy array that stands for a column's values inside the tool: integers for integers, dates,
times and decimals (days, ticks, unscaled digits), floats for floats. Strings and booleans have none; they are
categories. JSON has integers and floats as numbers, and dates, times and decimals as text.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Context, Decimal, InvalidOperation
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli.errors import DataError, RefusedError, UsageError, argument, near, quoted

_SIMPLE = {
    name: pa.type_for_alias(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float", "double",
        "string", "date32[day]", "time32[s]", "time32[ms]", "time64[us]", "time64[ns]",
    )
}  # fmt: skip
_FRIENDLY = {
    "int": pa.int64(),
    "integer": pa.int64(),
    "float64": pa.float64(),
    "real": pa.float64(),
    "float32": pa.float32(),
    "str": pa.string(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "time": pa.time64("us"),
}
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+\-/:]{1,64}))?\]")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, as days from 1970-01-01."""
_DECIMAL = re.compile(r"decimal128\((\d{1,2}), (\d{1,2})\)")


def parse(name: str) -> pa.DataType:
    """Return the type that a name stands for, in a sidecar or in --type."""
    simple = _SIMPLE.get(name) or _FRIENDLY.get(name)
    if simple is not None:
        return simple
    if match := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(match[1], match[2])
    if match := _DECIMAL.fullmatch(name.replace("decimal(", "decimal128(")):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 18 and scale <= precision:
            return pa.decimal128(precision, scale)
    raise UsageError(
        "unknown-type",
        f"unknown type {quoted(name)}",
        near(name, [*_FRIENDLY, *_SIMPLE])
        or "use int, float, string, bool, date, datetime, time, decimal(10, 2), or an Arrow name such as int32",
    )


def normal(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type that a column is read as: dictionaries and views as their values."""
    if pa.types.is_dictionary(kind):
        return normal(kind.value_type, name)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_nested(kind):
        what = f"the column {quoted(name)} is nested ({kind.num_fields} fields inside)"
        step = f"flatten it into columns of its own, or add {argument('drop', name)}"
        raise RefusedError("nested-column", what, step)
    if (
        pa.types.is_decimal(kind)
        and kind.precision <= 18
        and 0 <= kind.scale <= kind.precision
        and not pa.types.is_decimal128(kind)
    ):
        return pa.decimal128(kind.precision, kind.scale)
    try:
        return parse(str(kind))
    except UsageError:
        what = f"the column {quoted(name)} has the type {kind}, which has no domain here"
        step = f"cast it to a number, a string, a date or a time, or add {argument('drop', name)}"
        raise RefusedError("type-without-domain", what, step) from None


def is_discrete(kind: pa.DataType) -> bool:
    """Return whether values of the type are always categories: strings and booleans are."""
    return bool(pa.types.is_string(kind) or pa.types.is_boolean(kind))


def is_whole(kind: pa.DataType) -> bool:
    """Return whether the carrier is made of integers: then bins hold whole steps."""
    return not is_discrete(kind) and not pa.types.is_floating(kind)


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_dated(kind: pa.DataType) -> bool:
    """Return whether values of the type have a day in the calendar."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def carrier_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return the numpy type of a column's carrier."""
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        sort = "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
        return np.dtype(f"{sort}{kind.bit_width // 8}")  # not by pyarrow, which may load pandas
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return np.dtype(np.int32)
    return np.dtype(np.int64)


def ticks(kind: pa.DataType) -> int:
    """Return the number of steps of a time's carrier in a second; 1 if it doesn't count seconds."""
    return 10 ** _DIGITS.get(getattr(kind, "unit", ""), 0)


@cache
def limits(kind: pa.DataType) -> tuple[Any, Any]:
    """Return the smallest and the largest carrier number that the type's text or JSON form can write."""
    width = carrier_type(kind)
    if width.kind == "f":
        return float(np.finfo(width).min), float(np.finfo(width).max)
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    lowest, highest = int(np.iinfo(width).min), int(np.iinfo(width).max)
    if pa.types.is_time(kind):
        return 0, 86_400 * ticks(kind) - 1
    if pa.types.is_date(kind):
        return _FIRST_DAY, _LAST_DAY
    if pa.types.is_timestamp(kind):  # whole seconds must fit on their own: Arrow reads them first
        second = ticks(kind)
        return (
            max(_FIRST_DAY * 86_400 * second, -(-lowest // second) * second),
            min((_LAST_DAY + 1) * 86_400 * second - 1, highest),
        )
    return lowest, highest


def holding(kind: pa.DataType, low: Any, high: Any) -> pa.DataType | None:
    """Return the type itself or the next wider one of its kind that can write all from low to high, if any."""
    wider = [kind]
    if pa.types.is_integer(kind):
        more = (pa.int16(), pa.int32(), pa.int64())
        wider += [t for t in more if t.bit_width > kind.bit_width or t == pa.int64()]
    elif pa.types.is_float32(kind):
        wider.append(pa.float64())
    elif pa.types.is_decimal(kind):
        wider += [pa.decimal128(p, kind.scale) for p in range(kind.precision + 1, 19)]
    for candidate in wider:
        lowest, highest = limits(candidate)
        if lowest <= low and high <= highest:
            return candidate
    return None


def carrier(array: pa.Array) -> np.ndarray:
    """Return a column's values as numbers, without a copy if possible; nulls are junk."""
    kind, width = array.type, carrier_type(array.type)
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), width)
    # a buffer may be longer than its values, by any number of bytes
    if pa.types.is_decimal128(kind):  # unscaled, below 10^18: the low half of each 128 bits
        return np.frombuffer(buffer, np.int64, 2 * len(array), 16 * array.offset)[::2]
    return np.frombuffer(buffer, width, len(array), width.itemsize * array.offset)


def from_carrier(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return the column that numbers stand for; the inverse of `carrier`."""
    values = np.ascontiguousarray(values, carrier_type(kind))
    if pa.types.is_decimal128(kind):
        wide = np.empty((len(values), 2), np.int64)
        wide[:, 0], wide[:, 1] = values, values >> 63
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(wide)])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def column(values: object, kind: pa.DataType) -> pa.Array:
    """Return the column that carrier values or categories stand for."""
    if is_discrete(kind):
        return pa.array(values, kind)
    return from_carrier(np.array(values, carrier_type(kind)), kind)


def plain(column: pa.Array) -> pa.Array:
    """Return a column's values, decoded if it is a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def uncoded(column: pa.Array) -> pa.Array:
    """Return a column of numbers as its values, and text as it is."""
    is_text = pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)
    return column if is_text else plain(column)


def to_json(value: Any, kind: pa.DataType) -> int | float | str | bool:
    """Return one carrier value (or category) as a sidecar writes it."""
    if is_discrete(kind):
        return value if isinstance(value, (str, bool)) else bool(value)
    if pa.types.is_floating(kind):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    number = int(value)
    if pa.types.is_integer(kind):
        return number
    if pa.types.is_decimal(kind):
        return str(Decimal(number).scaleb(-kind.scale))
    naive = pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
    text: str = pc.cast(from_carrier(np.array([number]), naive), pa.string())[0].as_py()
    return text.replace(" ", "T") + ("Z" if getattr(kind, "tz", None) else "")


def from_json(value: object, kind: pa.DataType) -> Any:
    """Return a carrier value (or category) from what a sidecar, plan or option wrote; ValueError if none."""
    if pa.types.is_string(kind):
        if isinstance(value, str):
            return value
    elif pa.types.is_boolean(kind):
        if isinstance(value, bool):
            return value
    elif isinstance(value, bool):
        pass
    elif pa.types.is_floating(kind):
        if isinstance(value, (int, float)) and abs(value) <= limits(kind)[1]:
            return float(value)
    elif pa.types.is_integer(kind):
        low, high = limits(kind)
        if isinstance(value, int) and low <= value <= high:
            return value
    elif isinstance(value, str):
        return _whole_from_text(value, kind)
    elif pa.types.is_decimal(kind) and isinstance(value, (int, float)):
        return _whole_from_text(repr(value), kind)
    elif hasattr(value, "isoformat"):
        return _whole_from_text(value.isoformat(), kind)
    raise ValueError(f"not a value of type {kind}")


def from_text(text: str, kind: pa.DataType) -> Any:
    """Return a carrier value (or category) from the text of an option or a CSV cell."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        known = {"true": True, "false": False, "1": True, "0": False}
        if text.strip().lower() not in known:
            raise ValueError("not a boolean")
        return known[text.strip().lower()]
    if pa.types.is_floating(kind):
        return from_json(float(text), kind)
    if pa.types.is_integer(kind):
        return from_json(int(text), kind)
    return from_json(text, kind)


def _whole_from_text(text: str, kind: pa.DataType) -> int:
    if pa.types.is_decimal(kind):
        return _unscaled(text, kind)
    if pa.types.is_time(kind):
        return _ticks(text, _DIGITS[kind.unit])
    naive = kind
    if pa.types.is_timestamp(kind):
        naive = pa.timestamp(kind.unit)
        if kind.tz:
            text = text.removesuffix("Z").removesuffix("+00:00")
    try:
        return int(carrier(pc.cast(pa.array([text], pa.string()), naive))[0])
    except pa.ArrowException:
        raise ValueError(f"not a value of type {kind}") from None


def _unscaled(text: str, kind: pa.DataType) -> int:
    """Return a decimal's digits as one integer; exactly, and however large its exponent is."""
    with suppress(InvalidOperation):
        number = Decimal(text)
        rounded = number.quantize(Decimal((0, (1,), -kind.scale)), context=Context(prec=kind.precision))
        if rounded == number:
            return int(rounded.scaleb(kind.scale))
    raise ValueError(f"not a value of type {kind}")


def _ticks(text: str, digits: int) -> int:
    """Return a time of day in units of 10^-digits seconds; Arrow casts no text to times."""
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError("not a time of day")
    hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
    fraction = (match[4] or "").rstrip("0")
    if hours > 23 or minutes > 59 or seconds > 59 or len(fraction) > digits:
        raise ValueError("not a time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * 10**digits + int(fraction.ljust(digits, "0") or 0)


def normal_column(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """Return a column as its normal type; dictionaries are kept where the caller can use them."""
    if pa.types.is_dictionary(array.type):
        if normal(array.type, name) == kind and pa.types.is_string(kind):
            if array.indices.type.bit_width >= 32:
                return array  # else dictionaries of several batches would be too large together
            return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary)
        array = array.dictionary_decode()
    if array.type == kind:
        return array
    try:
        return pc.cast(array, kind)
    except pa.ArrowException:
        what = f"the column {quoted(name)} has values that do not fit the type {kind}"
        step = f"add {argument('type', 'string', name)}, or cast the column"
        raise DataError("values-beyond-type", what, step) from None

"""How a file is damaged: its bytes, its cells, or its JSON or TOML."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

CELLS = [
    b"", b'"', b'""', b'"a', b'a"b', b'"a\nb"', b"\r", b"\x00", b"\xff\xfe", b"nan", b"inf", b"-1e999",
    b"1e308", b"-0", b"99999999999999999999", b"0x1F", b"2020-02-31", b"9999-12-31",
    b"2020-01-01T10:00:00Z", b"true", b"NULL", b"NA", b" 1 ", b"1,5", "é".encode("latin-1"),
    "\u202e\u2028".encode(), b"\x1b[31m", b"x" * 100_000, b"=1+1", b"1_000",
]  # fmt: skip
JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 65537, 2**31, 2**63, 2**64, 10**30, -(2**63), 0.5, 1e308, 5e-324,
    -1e308, "", "a", "inf", "nan", "NaN", "1E+999999", "x" * 5000, "\x00", "\u202e", "\ud83d\ude00",
    "double", "int64", "string", "date32[day]", "decimal128(38, 38)", "timestamp[us, tz=UTC]",
    "gamma-diagonal", "band", "additive", "perturbed", "kept", "tree", [], {}, [[]], [None],
    {"attributes": ["age"], "kind": "band", "gamma": 9, "half_width": [1]},
    {"kind": "additive", "noise": "normal", "sd": 1e-300}, {"kind": "gamma-diagonal", "gamma": 1e300},
    list(range(3000)), ["a", "a"],
]  # fmt: skip
FIELDS = ["kind", "nulls", "beyond", "categories", "edges", "class", "N", "sd", "copy", "blocks", "scale"]
TOKENS = [
    "nan", "inf", "-inf", "1e999", "99999999999999999999999", "true", '""', "'''", '"""', "[[", "]]",
    "{}", "=", "\n", "\t", "\x00", "1979-05-27T07:32:00Z", "07:32:00", "0x_1", "[attributes]",
    "[attributes.age]", "[attributes.'é']", "gamma = 0\n", "\ufeff", "keep = 1\n", "attributes = 3\n",
    "a.b.c = 1\n", "[" * 500, "{a=" * 300, 'matrix = "band"\n', 'noise = "normal"\nsd = "1%"\n',
]  # fmt: skip


def mutated(data: bytes, kind: str, rng: random.Random, files: dict[str, bytes]) -> bytes:
    """The damaged bytes; now and then more than once."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if kind in ("sidecar", "kinds", "copies", "tree") and rng.random() < 0.8:
            data = _json(data, rng)
        elif kind in ("plan", "described") and rng.random() < 0.8:
            data = _toml(data, rng)
        elif ("csv" in kind or kind in ("table", "runs")) and rng.random() < 0.6:
            data = _cells(data, rng)
        else:
            data = _bytes(data, rng, files)
    return data


def _bytes(data: bytes, rng: random.Random, files: dict[str, bytes]) -> bytes:
    if not data:
        return b"\x00"
    at, size = rng.randrange(len(data)), rng.choice([1, 4, 8, 64, 1000])
    if rng.random() < 0.4:  # headers and footers, where formats keep their lengths
        at = (
            rng.randrange(min(len(data), 64))
            if rng.random() < 0.3
            else max(0, len(data) - 1 - rng.randrange(800))
        )
    what = rng.choice([0, 0, 0, 0, 6, 6, 7, 7, 8, 8, 8, 1, 2, 3, 4, 5])  # most often of the same length
    if what == 0:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if what == 1:
        return data[:at] + rng.randbytes(size) + data[at + size :]
    if what == 2:
        return data[:at]
    if what == 3:
        return data[:at] + data[at + size :]
    if what == 4:
        return data[: at + size] + data[at:]
    if what == 5:
        other = files[rng.choice(sorted(files))]
        return data[:at] + other[rng.randrange(len(other)) :]
    if what == 6:
        number = rng.choice([0, 1, -1, 127, 255, 2**31 - 1, -(2**31), 2**16])
        return data[:at] + struct.pack("<i", number) + data[at + 4 :]
    if what == 7:
        number = rng.choice([0, 1, -1, 2**62, -(2**63), 2**33, 2**40])
        return data[:at] + struct.pack("<q", number) + data[at + 8 :]
    return data[:at] + bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF, 10, 13, 34, 44])]) + data[at + 1 :]


def _cells(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    cells = lines[at].split(b",")
    what = rng.randrange(7)
    if what < 3:
        cells[rng.randrange(len(cells))] = rng.choice(CELLS)
    elif what == 3:
        cells.insert(rng.randrange(len(cells) + 1), rng.choice(CELLS))
    elif what == 4:
        cells.pop(rng.randrange(len(cells)))
    elif what == 5:  # a whole column
        column, cell = rng.randrange(7), rng.choice(CELLS)
        rows = [line.split(b",") for line in lines]
        return b"\n".join(
            b",".join([*r[:column], cell, *r[column + 1 :]]) if i else lines[0] for i, r in enumerate(rows)
        )
    else:
        lines.insert(at, rng.choice([b"", b"\r", b'"', lines[at]]))
    lines[min(at, len(lines) - 1)] = b",".join(cells)
    return b"\n".join(lines)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = (
        value.items() if isinstance(value, dict) else enumerate(value[:40]) if isinstance(value, list) else ()
    )
    return [path, *(p for k, v in inside for p in _places(v, (*path, k)))]


def _json(data: bytes, rng: random.Random) -> bytes:
    try:
        whole = json.loads(data)
        path = rng.choice(_places(whole)[1:])
    except (ValueError, IndexError, RecursionError):
        return data
    owner = whole
    for key in path[:-1]:
        owner = owner[key]
    key, junk, what = path[-1], rng.choice(JUNK), rng.randrange(8)
    if what < 3:
        owner[key] = junk
    elif what == 3 and isinstance(owner, dict):
        del owner[key]
    elif what == 4 and isinstance(owner, dict):
        owner[rng.choice(FIELDS)] = junk
    elif what == 5 and isinstance(owner, list):
        owner[key:key] = [owner[key]] * rng.choice([1, 2, 300])
    elif what == 6 and isinstance(owner[key], (int, float)):
        owner[key] = owner[key] * rng.choice([-1, 0.5, 1.0000001, 10, 1e9]) + rng.choice([0, 1, -1])
    elif what == 7:
        deep = b"[" * 2000 + b"]" * 2000
        marked = "deep-mark"
        owner[key] = marked
        return (
            json.dumps(whole)
            .encode()
            .replace(b'"deep-mark"', rng.choice([deep, b"NaN", b"Infinity", b"1e999", b"\xff"]))
        )
    if rng.random() < 0.3 and isinstance(whole, dict) and isinstance(whole.get("privacy"), dict):
        # promises nothing, so that more of what is wrong is reached
        whole["privacy"] |= {"perturbed_gamma": None, "perturbed_epsilon": None, "coins": "seeded"}
    return json.dumps(whole).encode()


def _toml(data: bytes, rng: random.Random) -> bytes:
    words = data.decode("utf-8", "replace").split(" ")
    at = rng.randrange(len(words))
    what = rng.randrange(4)
    if what == 0:
        words[at] = rng.choice(TOKENS)
    elif what == 1:
        words.insert(at, rng.choice(TOKENS))
    elif what == 2:
        words[at], other = words[rng.randrange(len(words))], words[at]
        words[rng.randrange(len(words))] = other
    else:
        words.pop(at)
    return " ".join(words).encode("utf-8", "replace")

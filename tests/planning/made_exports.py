"""Made-up exports: dialects, types and troubles drawn from a seed, with what a reader should find."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

LETTERS = {"utf-8": "äöüłž", "latin-1": "äöüé", "utf-16": "äöüł"}
KINDS = (
    "int64",
    "double",
    "comma",
    "date32[day]",
    "german",
    "words",
    "codes",
    "zips",
    "bool",
    "identifier",
    "prose",
)


@dataclass(frozen=True)
class Made:
    """An export, how it is written, and the types of its columns."""

    data: bytes
    delimiter: str
    encoding: str
    types: dict[str, str]
    rows: int


def made_export(seed: int) -> Made:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(60, 400))
    delimiter = str(rng.choice([",", ";", "\t", "|"]))
    encoding = str(rng.choice([*LETTERS]))
    kinds = [str(k) for k in rng.choice(KINDS, int(rng.integers(2, 8)))]
    kinds.append("words")
    if delimiter == ",":
        kinds = ["double" if k == "comma" else k for k in kinds]
    if "comma" in kinds:
        kinds = ["comma" if k == "double" else k for k in kinds]
    letter = LETTERS[encoding][0]
    columns = {
        f"{letter}{i} {kind}"[: 3 + len(kind)]: _column(rng, kind, rows, letter) for i, kind in enumerate(kinds)
    }
    file = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
    writer = csv.writer(
        file, delimiter=delimiter, quoting=quoting, lineterminator=str(rng.choice(["\n", "\r\n"]))
    )
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    types = dict(zip(columns, (_type(k) for k in kinds), strict=True))
    return Made(file.getvalue().encode(encoding), delimiter, encoding, types, rows)


def _type(kind: str) -> str:
    known = {"comma": "double", "german": "date32[day]"}
    return known.get(kind, kind if kind in ("int64", "double", "date32[day]", "bool") else "string")


def _column(rng: np.random.Generator, kind: str, rows: int, letter: str) -> list[str]:
    words = [f"w{letter}lt", "north", "south", "east", "unknown ward"]
    days = np.datetime64("2019-01-15") + rng.integers(0, 2000, rows)
    made = {
        "int64": lambda: rng.integers(0, 1000, rows).astype(str).tolist(),
        "double": lambda: [f"{x:.2f}" for x in rng.normal(100, 30, rows)],
        "comma": lambda: [f"{x:,.2f}".translate(str.maketrans(",.", ".,")) for x in rng.gamma(2, 900, rows)],
        "date32[day]": lambda: [str(d) for d in days],
        "german": lambda: [d.astype(object).strftime("%d.%m.%Y") for d in days],
        "words": lambda: rng.choice(words, rows).tolist(),
        "codes": lambda: [
            f"{c}{n:02d}" for c, n in zip(rng.choice([*"ABC"], rows), rng.integers(0, 90, rows), strict=True)
        ],
        "zips": lambda: [f"{z:05d}" for z in rng.choice([1067, *rng.integers(100, 99999, 20)], rows)],
        "bool": lambda: rng.choice(["true", "false"], rows).tolist(),
        "identifier": lambda: [f"K{i:06d}" for i in rng.permutation(rows)],
        "prose": lambda: [" ".join(rng.choice(words, 9)) for _ in range(rows)],
    }[kind]()
    if kind != "identifier" and rng.random() < 0.5:
        token = str(rng.choice(["", "NA", "NULL", "."]))
        made = [token if rng.random() < 0.06 else cell for cell in made]
    return made

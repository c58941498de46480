"""A hospital's export with every trouble of the trial: `python -m tests.planning.messy_export FILE ROWS`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

HEADER = (
    "Fall-Nr;Patient;Name;Geschlecht;Alter;Größe;Gewicht;PLZ;ICD;Raucher;Aufnahme;Entlassen am;Labor vom;"
    "Kosten EUR;CRP;Station;Bemerkung"
)


def export(rows: int, seed: int = 1) -> bytes:
    """Semicolons, decimal commas, Latin-1, three formats of dates, NA and . and -9, identifiers that repeat,
    free text, thousands of codes, zeros before digits, Y and N, outliers."""
    rng = np.random.default_rng(seed)
    patients = rng.integers(0, max(rows * 2 // 3, 1), rows)
    letters = [f"{c}{i:02d}.{j}" for c in "ABCDEFGHIJKLMNRSTZ" for i in range(100) for j in range(3)]
    weights = rng.dirichlet(np.full(len(letters), 0.3))
    zips = [f"{i:05d}" for i in rng.integers(1000, 99999, 900)]
    words = [
        "Patient",
        "klagt",
        "über",
        "Schmerzen",
        "seit",
        "Tagen",
        "Verlauf",
        "unauffällig",
        "Kontrolle",
        "empfohlen",
        "bei",
        "Bedarf",
    ]
    made = np.column_stack(
        [
            rng.permutation(rows) + 4_000_000,
            [f"P{p:07d}" for p in patients],
            [f"Müller{p % 9973}, Änne{p % 89}" for p in patients],
            rng.choice(["m", "w"], rows),
            _numbers(rng, rng.integers(0, 100, rows)),
            rng.normal(170, 10, rows).astype(int),
            [f"{w:.1f}".replace(".", ",") for w in rng.normal(78, 12, rows)],
            rng.choice(zips, rows),
            rng.choice(letters, rows, p=weights),
            rng.choice(["Y", "N"], rows),
            [_date(rng, "%d.%m.%Y") for _ in range(rows)],
            [_date(rng, ("%d.%m.%Y", "%Y-%m-%d", "%d/%m/%Y")[rng.integers(3)]) for _ in range(rows)],
            [_date(rng, "%Y-%m-%d") for _ in range(rows)],
            [_german(c) for c in _costs(rng, rows)],
            _missing(rng, [f"{c:.2f}".replace(".", ",") for c in rng.gamma(1.0, 40, rows)], "NA"),
            _missing(rng, rng.choice(["Chirurgie", "Innere", "Geriatrie", "Pädiatrie"], rows).tolist(), "."),
            [" ".join(rng.choice(words, 7)) + "." for _ in range(rows)],
        ]
    )
    lines = [HEADER, *(";".join(row) for row in made.tolist())]
    return ("\n".join(lines) + "\n").encode("latin-1")


def _numbers(rng: np.random.Generator, values: np.ndarray) -> list[str]:
    return ["-9" if rng.random() < 0.03 else str(v) for v in values]


def _missing(rng: np.random.Generator, cells: list[str], token: str) -> list[str]:
    return [token if rng.random() < 0.05 else c for c in cells]


def _costs(rng: np.random.Generator, rows: int) -> np.ndarray:
    costs = rng.gamma(2.0, 2500, rows)
    costs[:3] = -5_000_000, 35_000_000, 9_000_000
    return rng.permutation(costs)


def _german(cost: float) -> str:
    return f"{cost:,.2f}".translate(str.maketrans(",.", ".,"))


def _date(rng: np.random.Generator, form: str) -> str:
    day = np.datetime64("2015-01-01") + int(rng.integers(0, 3200))
    return day.astype(object).strftime(form)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(export(int(sys.argv[2])))

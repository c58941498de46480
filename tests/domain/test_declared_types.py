"""The type of a CSV's column with a declared domain: declared with it, or said to be from the private data."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.releases import inspection
from ppdm_cli.tables import CsvOptions
from tests.vocabulary import Run

TYPES: dict[str, tuple[dict[str, Any], list[str], str, str]] = {
    # a declared domain, cells that are in it, a cell of another type, and the type that is declared
    "whole numbers": ({"domain": "0:120"}, ["34", "67", "5"], "34.5", "int64"),
    "numbers of a list": ({"domain": [0, 120]}, ["34", "67", "5"], "34.5", "int64"),
    "numbers with fractions": ({"domain": "0.0:120"}, ["34", "67", "5"], "34.5", "double"),
    "fractions in a list": ({"edges": [0, 20.5, 120]}, ["34", "67", "5"], "34.5", "double"),
    "days": ({"domain": "2020-01-01:2024-12-31"}, ["2021-03-04", "2022-01-01"], "2021-03-04 10:30", "date32"),
    "times": ({"domain": "2020-01-01 00:00:2024-12-31 00:00"}, ["2021-03-04 10:30", "2022-01-01 00:00"],
              "2021-03-04 10:30:00.123456", "timestamp[ms]"),
    "codes": ({"domain": "1|2|3"}, ["1", "2", "3"], "2.0", "int64"),
    "codes with zeros": ({"domain": "01|02|3"}, ["3", "3"], "01", "string"),
    "labels, some of them numbers": ({"categories": ["1", "2", "x"]}, ["1", "2"], "x", "string"),
    "truth": ({"domain": "true|false"}, ["true", "false"], "true", "bool"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
def test_a_type_is_declared_with_the_domain_or_said_to_be_from_the_data(kind: str, tmp_path: Path) -> None:
    """Of two tables that differ in one cell the sidecars are equal, or tell that they follow the data."""
    own, cells, odd, declared = TYPES[kind]
    rng = np.random.default_rng(1)
    column, sidecars = rng.choice(cells, 300), []
    for last in (cells[0], odd):
        column[-1:] = last
        values = [*column[:-1], last]
        (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{v},{i % 2}\n" for i, v in enumerate(values)))
        settings = {"x": own, "y": {"domain": "0|1"}}
        sidecar = perturb(tmp_path / "t.csv", gamma=9, seed=1, attributes=settings, keep_order=True).sidecar
        sidecars.append(sidecar)
        assert sidecar.by_name["y"].domain_from == "declared"
    plain, other = (s.by_name["x"] for s in sidecars)
    assert plain.dtype.startswith(declared) and plain.domain_from == "declared"
    if other.domain_from == "declared":
        assert sidecars[0].encode() == sidecars[1].encode()
    else:
        assert other.dtype != plain.dtype
        assert "Domains taken from the private data" in " ".join(inspection.sentences(sidecars[1]))
    types = CsvOptions(types={"x": other.dtype})
    told = perturb(tmp_path / "t.csv", gamma=9, attributes=settings, keep_order=True, csv=types).sidecar
    assert told.by_name["x"].domain_from == "declared", "a type that the owner declares is none from the data"


def test_a_type_of_a_table_that_has_types_is_none_from_the_data() -> None:
    frame = pl.DataFrame({"x": [1.5, 2.0, 30.0] * 100, "y": [0, 1, 2] * 100})
    sidecar = perturb(frame, gamma=9, attributes={"x": {"domain": "0:120"}}, keep_order=True).sidecar
    assert sidecar.by_name["x"].domain_from == "declared" and sidecar.by_name["x"].dtype == "double"


def test_the_report_says_how_to_declare_a_type_and_that_works(tmp_path: Path, ppdm: Run) -> None:
    rows = [f"{i % 90},2024-0{i % 9 + 1}-02{' 10:30' * (i == 77)}" for i in range(299)] + ["34.5,2024-01-02"]
    (tmp_path / "t.csv").write_text("age,seen\n" + "\n".join(rows))
    base = ("perturb", "t.csv", "-o", "r.csv", "--force", "--gamma", "9", "--shuffle", "--domain", "age=0:120")
    base += ("--domain", "seen=2024-01-01:2024-12-31")
    said = " ".join(ppdm(*base).stderr.decode().split())
    assert "Domains taken from the private data (now public in the sidecar): age, seen." in said
    (hint,) = re.findall(r"Add (--type [^.]*)\.", said)
    said = " ".join(ppdm(*base, *shlex.split(hint)).stderr.decode().split())
    assert "private data" not in said and "Declare it" not in said

"""Small inputs that ask for much end in an answer or one line, within a gibibyte and without a hang.

`make fuzz` runs all of `tests.experiments.hostile`; here are those that once took minutes or many gibibytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.children import child
from tests.experiments.costs import CASES

QUICK = {
    "a full tree and an empty column": 0,
    "a full tree and one column of two": 0,
    "a tree of a leaf with 60000 labels": 3,
    "forty noisy attributes of 1024 bins": 0,
    "two domains of 65536 attacked": 0,
    "a joint domain of 8000 by 8000": 2,
    "a header that opens a quote": 1,
    "a cell of 60 mib": 1,
    "a parquet string of 200 mib": 1,
    "a parquet of 10 million nulls": 1,
    "a long list of kept columns": 0,
    "a plan nested deep": 2,
    "a plan of a dotted key": 2,
    "a plan without an end": 2,
    "a domain without an end": 2,
    "a matrix without an end": 2,
    "pairs of 91 attributes of 2048 bins asked": 0,
    "4095 boxes of 2048 bins inspected": 3,
    "4095 boxes of 100 bins and a class attacked": 2,
    "a network of 40 parents": 3,
    "a chain of 3000 nodes": 0,
    "2000 answers": 2,
    "independence of two kept columns of 600 values": 2,
    "a regression on 450 labels": 2,
}


@pytest.mark.parametrize("what", QUICK)
def test_a_small_input_costs_little(what: str, tmp_path: Path) -> None:
    done = child(*CASES[what](tmp_path), cwd=tmp_path)
    assert done.code == QUICK[what], (done.code, done.seconds, done.err[-500:])
    assert done.clean and done.cheap, (done.seconds, done.busy, done.mib)


def test_a_hog_would_be_seen(tmp_path: Path) -> None:
    """The measure sees what a run takes, and a run that does not end."""
    (tmp_path / "d.csv").write_text("a\n" + "1\n2\n2\n1\n1\n" * 10)
    args = ("perturb", "d.csv", "-o", "o.csv", "--gamma", "9", "--keep-order")
    done = child(*args, cwd=tmp_path)
    assert done.code == 0 and done.clean and done.mib > 20 and done.busy > 0 and done.cheap
    assert child(*args, "--force", cwd=tmp_path, seconds=0.01).code is None

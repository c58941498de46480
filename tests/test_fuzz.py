"""A short run of the fuzzing that `make fuzz` does at length, and tests that it sees what it looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.experiments import fuzz
from tests.experiments.fuzz import planned, run_cases
from tests.experiments.fuzz_corpus import COMMANDS
from tests.vocabulary import Anything, Run

CASES = 70


def test_damaged_files_end_in_a_code_of_the_table() -> None:
    found = list(run_cases(0, CASES))
    assert [f.case for f in found] == list(range(CASES))
    assert not [(f.case, f.wrong, f.said) for f in found if f.wrong]
    assert {f.kind for f in found} == set(COMMANDS) and {0, 1, 2, 3} <= {f.code for f in found}


def test_a_case_is_a_function_of_its_number() -> None:
    kind, args, rng = planned(4321)
    again = planned(4321)
    assert (kind, args, rng.random()) == (*again[:2], again[2].random())


@pytest.mark.parametrize("said", [b"Traceback (most recent", b"an error inside ppdm", b"Exception ignored in"])
def test_stray_words_would_be_seen(said: bytes) -> None:
    assert fuzz.stray(b"x\n" + said) and not fuzz.stray(b"ppdm: data: something is wrong. Fix it")


def test_places_past_the_end_of_a_dictionary_are_damage(tmp_path: Path, ppdm: Run) -> None:
    """Found by case 175: a page of dictionary indices with a bit turned over."""
    table = pa.table({"s": pa.array(["a", "b", "c"] * 40), "n": pa.array([1, 2, 3] * 40)})
    pq.write_table(table, tmp_path / "d.parquet", compression="none")
    whole = (tmp_path / "d.parquet").read_bytes()
    packed = pq.read_metadata(tmp_path / "d.parquet").row_group(0).column(0)
    start, end = packed.data_page_offset, packed.dictionary_page_offset + packed.total_compressed_size
    refused = 0
    for place in range(start, end):
        (tmp_path / "d.parquet").write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        code: Any = Anything()
        done = ppdm("perturb", "d.parquet", "-o", "o.csv", "--gamma", "9", "--keep-order", "--force", code=code)
        assert code.code in (0, 1) and b"inside ppdm" not in done.stderr
        refused += code.code == 1
    assert refused

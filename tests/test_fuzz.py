"""A short run of the fuzzing that `make fuzz` does at length, and tests that it sees what it looks for."""

from __future__ import annotations

import pytest

from tests import fuzz
from tests.fuzz import planned, run_cases
from tests.fuzz_corpus import CANARY, COMMANDS

CASES = 280


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
    assert fuzz.stray(b"x\n" + said) and not fuzz.stray(b"ppdm: data: something is wrong; mend it")


def test_private_values_would_be_seen() -> None:
    assert CANARY.search(b"near 'CANARY-7f3a 3'") and CANARY.search(b"918,273,645")
    assert not CANARY.search(b"918273")

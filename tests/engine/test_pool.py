"""Threads: as many as a container may use, and one of BLAS while anybody takes small products."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Barrier, Thread

import pytest
from threadpoolctl import threadpool_info

from ppdm_cli.arrays import of_small_products
from ppdm_cli.tables import threads as threads_to_use


def threads() -> set[int]:
    return {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}


def test_two_callers_leave_what_they_found_whoever_ends_first() -> None:
    """The limit is the process's: restored by each as it came, it would stay with the one who came second."""
    both_in, first_out, seen = Barrier(2, timeout=60), Barrier(2, timeout=60), list[set[int]]()

    @of_small_products
    def first() -> None:
        both_in.wait()
        seen.append(threads())  # both are in, and the other stays until this one is out

    @of_small_products
    def second() -> None:
        both_in.wait()
        first_out.wait()

    def ends_first() -> None:
        first()
        first_out.wait()

    def both() -> None:
        callers = [Thread(target=ends_first), Thread(target=second)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)

    before = threads()
    for _ in range(4):
        both()
        assert threads() == before
    assert seen == [{1}] * 4


@pytest.mark.parametrize(("quota", "most"), [("50000 100000", 1), ("150000 100000", 2), ("max 100000", 99)])
def test_threads_keep_to_the_quota_of_a_container(
    quota: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    monkeypatch.setattr("ppdm_cli.tables.base.QUOTA", tmp_path / "cpu.max")
    assert threads_to_use() == min(most, len(os.sched_getaffinity(0)))

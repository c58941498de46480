"""BLAS has one thread while anybody takes small products, and what it had before when the last is done."""

from __future__ import annotations

from threading import Barrier, Thread

from threadpoolctl import threadpool_info

from ppdm_cli.arrays import of_small_products


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

"""Threads: work on items in parallel, results in the items' order, a bounded number in flight.

Cancelled cleanly: when the consumer stops, by an error or Ctrl-C, what waits is dropped and what
runs is waited for, so that no thread outlives the call.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
P = ParamSpec("P")


THREADS: ContextVar[int | None] = ContextVar("ppdm_threads", default=None)
"""The number of threads, where it is set."""


def threads() -> int:
    """Return the number of threads to use: of the cores that this process may use unless another is set."""
    return THREADS.get() or max(
        1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def of_small_products(function: Callable[P, Result]) -> Callable[P, Result]:
    """Return the function with BLAS on one thread: in small products its threads mostly wait for each other.

    On a machine that does something else they made trees take several times as long. The limit is the whole
    process's, and only who set it can lift it: so who comes while it holds leaves it alone.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Result:
        if not _LIMITED.acquire(blocking=False):
            return function(*args, **kwargs)
        try:
            with _libraries().limit(limits=1, user_api="blas"):
                return function(*args, **kwargs)
        finally:
            _LIMITED.release()

    return called


_LIMITED = Lock()


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController  # finds the libraries that are loaded: numpy's is, by now

    return ThreadpoolController()


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """Yield a pool for the length of one job."""
    executor = ThreadPoolExecutor(threads(), thread_name_prefix="ppdm")
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def ordered(
    executor: ThreadPoolExecutor, items: Iterable[Item], work: Callable[[Item], Result]
) -> Iterator[Result]:
    """Yield `work` of every item, in order; at most one item more than threads waits or runs."""
    pending: deque[Future[Result]] = deque()
    most = executor._max_workers + 1
    try:
        for item in items:
            pending.append(executor.submit(work, item))
            if len(pending) >= most:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()

"""An engine in one file, which no other file knows: a pool of processes. This is what adding one takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from ppdm_cli.engine import Advance, Batch, Engine, numbered, with_rows
from ppdm_cli.tables import Table

Result = TypeVar("Result")


class Processes(Engine):
    """Runs tasks in processes of their own."""

    def map(
        self, table: Table, task: Callable[[Batch], Result], columns: Sequence[str] | None, advance: Advance
    ) -> Iterator[Result]:
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            for rows, result in pool.map(partial(with_rows, task), numbered(table, columns)):
                yield result
                advance(rows)

"""Every command's tasks run anywhere: copied by pickle, in any order, some of them twice; the bytes are the same."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ppdm_cli.engine import ENGINE, Advance, Batch, Engine, numbered, with_rows
from ppdm_cli.tables import Table, base, csv_blocks
from tests.conftest import Run, listing, people


def copied(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


class Scattered(Engine):
    """Runs copies of all tasks on copies of all partitions, in a shuffled order, some of them twice."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.tasks = 0

    def map(
        self, table: Table, task: Callable[[Batch], Any], columns: Sequence[str] | None, advance: Advance
    ) -> Iterator[Any]:
        for rows, result in self._run(lambda b: with_rows(copied(task), b), numbered(table, columns, self._run)):
            yield result
            advance(rows)

    def fold(self, table: Table, task: Any, merge: Any, columns: Any, advance: Advance) -> Any:
        return super().fold(table, task, copied(merge), columns, advance)

    def _run(self, work: Callable[[Any], Any], items: Any) -> list[Any]:
        items = [copied(i) for i in items]
        done: list[Any] = [None] * len(items)
        order = [*range(len(items)), *self._random.choices(range(len(items)), k=len(items) // 2)]
        self._random.shuffle(order)
        for place in order:
            done[place] = copied(work(items[place]))
        self.tasks += len(items)
        return done


COMMANDS = """
perturb data.parquet -o release.parquet --gamma 9 --class group --seed 3
perturb data.csv -o auto.csv --gamma 9 --class group --keep group --bins auto --matrix band --shuffle --seed 4
perturb data.arrow -o noise.arrow --scheme additive --noise normal --sd 25% --class group --keep group --keep region --keep member --keep since --seed 5
estimate release.parquet -o estimates.csv --by group --truth data.parquet
estimate auto.csv --joint age,region --json
estimate noise.arrow --json
train-tree data.csv --class group --test data.parquet -o tree.json --predicted tested.csv
train-tree release.parquet -o released.json
predict tree.json data.parquet -o predicted.parquet
attack release.parquet --truth data.csv --recovered guessed.parquet --json
attack auto.csv --json
attack noise.arrow --truth data.arrow --json
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same records in three formats, each in several partitions: slices, row groups and blocks."""
    monkeypatch.setattr(base, "MOST_ROWS", 500)
    monkeypatch.setattr(csv_blocks, "BLOCK", 10_000)
    people(3_000).write_parquet(tmp_path / "data.parquet", row_group_size=1_200)
    people(3_000).write_csv(tmp_path / "data.csv")
    people(3_000).write_ipc(tmp_path / "data.arrow", compat_level=pl.CompatLevel.oldest())
    return tmp_path


def test_tasks_run_anywhere_in_any_order_and_twice(data: Path, here: Run) -> None:
    def outcome() -> tuple[list[bytes], dict[str, bytes]]:
        said = [here(*line.split(), "--force").stdout for line in COMMANDS.strip().splitlines()]
        return said, listing(data)

    expected, scattered = outcome(), Scattered(1)
    token = ENGINE.set(scattered)
    try:
        assert outcome() == expected
    finally:
        ENGINE.reset(token)
    assert scattered.tasks > 200

"""Tasks run anywhere: copied by pickle, in any order, some of them twice; the bytes are the same."""

from __future__ import annotations

import pickle
import random
import shlex
from collections.abc import Callable, Iterator, Sequence
from operator import add, attrgetter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import perturb
from ppdm_cli.engine import Advance, Batch, Engine, fold, map_partitions, numbered, passes, running, with_rows
from ppdm_cli.errors import DataError
from ppdm_cli.tables import Table, base, csv_records, open_table, parquet
from tests.vocabulary import Run, listing, people


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
        batches = numbered(table, columns, self._run)
        for rows, result in self._run(lambda b: with_rows(copied(task), b), batches):
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
perturb data.arrow -o noise.arrow --scheme additive --noise normal --sd 25% --class group \
    --drop region --drop member --keep since --keep group --seed 5
estimate release.parquet -o estimates.csv --by group --truth data.parquet
estimate auto.csv --joint age,region --json
perturb data.arrow -o copy.arrow --gamma 9 --class group --keep since --copies 2 --seed 6 --keep-order
estimate noise.arrow --json
estimate copy.1.arrow copy.2.arrow --by since --bins 5 --json
query release.parquet "select mean(age), quantile(income, .5) where member group by region" --json
query auto.csv "select count(), sum(income) group by age" -o answers.csv
entropy release.parquet --json
train-tree data.csv --class group --test data.parquet -o tree.json --predicted tested.csv
train-tree release.parquet -o released.json
predict tree.json data.parquet -o predicted.parquet
reconstruct release.parquet -o usable.parquet
reconstruct auto.csv -o usable.csv --spread
attack release.parquet --truth data.csv --recovered guessed.parquet --json
attack auto.csv --json
attack noise.arrow --truth data.arrow --json
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same records in three formats, each in several partitions: slices, row groups and blocks."""
    monkeypatch.setattr(base, "LEAST_ROWS", 1)
    monkeypatch.setattr(base, "MOST_ROWS", 500)
    monkeypatch.setattr(csv_records, "BLOCK", 10_000)
    people(3_000).write_parquet(tmp_path / "data.parquet", row_group_size=1_200)
    people(3_000).write_csv(tmp_path / "data.csv")
    people(3_000).write_ipc(tmp_path / "data.arrow", compat_level=pl.CompatLevel.oldest())
    return tmp_path


def test_tasks_run_anywhere_in_any_order_and_twice(data: Path, ppdm: Run) -> None:
    def outcome() -> tuple[list[bytes], dict[str, bytes]]:
        said = [ppdm(*shlex.split(line), "--force").stdout for line in COMMANDS.strip().splitlines()]
        return said, listing(data)

    expected, scattered = outcome(), Scattered(1)
    with running(engine=scattered):
        assert outcome() == expected
    assert scattered.tasks > 200


class Counting:
    """A task that remembers, as none may: how many rows it was given before."""

    before = 0

    def __call__(self, batch: Batch) -> int:
        self.before += batch.rows
        return self.before


def test_a_task_that_remembers_would_be_found(data: Path) -> None:
    table = open_table(data / "data.csv")
    with running(threads=1):
        whole = list(map_partitions(table, Counting()))
    assert whole[-1] == 3_000 and len(whole) > 10
    assert Scattered(2).scan(table, Counting(), None, print) != whole
    with pytest.raises((AttributeError, pickle.PicklingError)):
        Scattered(2).scan(table, lambda b: b.rows, None, print)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_partitions_are_loaded_in_any_order_and_again(data: Path, suffix: str, seed: int) -> None:
    """Not copied, so that the slices of a row group share what is open: some before others, some twice."""
    table = open_table(data / f"data.{suffix}")
    inorder = [p.load() for p in table.partitions()]
    assert len(inorder) > 5 and sum(b.num_rows for b in inorder) == 3_000
    parts = list(table.partitions())
    places = [*range(len(parts))] * 2
    random.Random(seed).shuffle(places)
    assert all(parts[p].load().equals(inorder[p]) for p in places)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_partitions_are_the_same_whichever_columns_are_read(
    data: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MOST_CELLS", 1_500)  # so that it is the width that decides
    monkeypatch.setattr(base, "WIDE_ROWS", 1)
    monkeypatch.setattr(base, "MOST_ROWS", 1 << 18)
    table = open_table(data / f"data.{suffix}")
    whole = [p.load().num_rows for p in table.partitions()]
    assert len(whole) > 5
    for columns in (["age"], ["group", "age"]):
        assert [p.load().num_rows for p in table.partitions(columns)] == whole


def test_a_row_group_is_decoded_once_by_threads(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    slices = parquet._RowGroup.slices

    def counted(group: parquet._RowGroup) -> Iterator[Any]:
        decoded.append(group.number)
        return slices(group)

    monkeypatch.setattr(parquet._RowGroup, "slices", counted)
    with running(threads=4):
        assert fold(open_table(data / "data.parquet"), attrgetter("rows"), add) == 3_000
    assert sorted(decoded) == [0, 1, 2] and not parquet._READERS


def test_small_parts_are_worked_on_together_and_named_apart(tmp_path: Path) -> None:
    values = [[1, 2, 3], [4, 5, 60], [7, 8, 9]]
    paths = [tmp_path / f"{n}.parquet" for n in "abc"]
    for path, some in zip(paths, values, strict=True):
        pl.DataFrame({"x": some}).write_parquet(path)
    table = open_table(paths)
    (batch,) = numbered(table, None)
    assert batch.rows == 9
    assert [batch.where(r) for r in (0, 2, 3, 5, 6, 8)] == [
        f"row {row} of '{paths[part]}'" for part, row in ((0, 1), (0, 3), (1, 1), (1, 3), (2, 1), (2, 3))
    ]
    with pytest.raises(DataError, match=r"row 3 of '.*b\.parquet'"):
        perturb(paths, gamma=9, attributes={"x": {"domain": [0, 10]}}, keep_order=True, seed=1)


def test_small_parts_with_labels_of_their_own_are_worked_on_together() -> None:
    """All labels together may be more than the numbers of each part can count."""
    labels = [[f"{part}{i}" for i in range(100)] for part in "xy"]
    chunks = [
        pa.array(some * 2).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())) for some in labels
    ]
    (batch,) = numbered(open_table(pa.table({"a": pa.chunked_array(chunks)})), None)
    assert batch.column("a").to_pylist() == labels[0] * 2 + labels[1] * 2


def test_large_partitions_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "rows_per_partition", lambda columns: 16)
    for name, rows in (("a", 3), ("b", 1), ("c", 4), ("d", 9), ("e", 1)):
        pl.DataFrame({"x": range(rows)}).write_parquet(tmp_path / f"{name}.parquet")
    batches = list(numbered(open_table(sorted(tmp_path.glob("*.parquet"))), None))
    assert [(b.index, b.first_row, b.rows) for b in batches] == [(0, 0, 4), (1, 4, 4), (2, 8, 9), (3, 17, 1)]

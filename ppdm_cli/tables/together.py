"""Several releases with one plan, read as one table: January's and February's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import msgspec
import pyarrow as pa

from ppdm_cli.errors import MismatchError, UsageError, counted, quoted
from ppdm_cli.matrices import AdditiveSpec, BandSpec, MatrixSpec
from ppdm_cli.sidecar import Attribute, Past, Sidecar
from ppdm_cli.tables.base import Partition, Table
from ppdm_cli.tables.memory import ArrowTable, from_arrow
from ppdm_cli.tables.opening import is_stream
from ppdm_cli.tables.release import check_fit, open_release
from ppdm_cli.tables.replacing import spool, writing

_COMPARED = (
    "name",
    "role",
    "type",
    "dtype",
    "N",
    "edges",
    "categories",
    "nulls",
    "representative",
    "matrix",
    "beyond",
)


class Together:
    """Tables of the same columns, one after the other."""

    rewindable = True
    sidecar: bytes | None = None

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.schema = tables[0].schema
        counts = [t.rows for t in tables]
        self.rows: int | None = None if None in counts else sum(c for c in counts if c is not None)
        self.files: tuple[Path, ...] = tuple(f for t in tables for f in t.files)
        self.name = ", ".join(t.name for t in tables)
        # Parquet alone gives all text as dictionaries, and no column may be now the one and now the other
        self._as_they_are = all(t.files and t.files[0].name.lower().endswith(".parquet") for t in tables)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        for table in self._tables:
            for partition in table.partitions(names):
                yield partition if self._as_they_are else Partition(partition.file, partial(_loaded, partition))


class Complete:
    """A table that only reading counts, held to the number of records that its sidecar says."""

    rows: int | None = None

    def __init__(self, table: Table, records: int) -> None:
        self._table, self._records = table, records
        self.schema, self.sidecar, self.files, self.name = table.schema, table.sidecar, table.files, table.name
        self.rewindable = table.rewindable

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        """Threads load ahead, so whoever comes last, a load or the end of the list, compares."""
        lock = Lock()
        given, loaded, rows, ended = 0, 0, 0, False

        def check() -> None:
            if ended and loaded == given and rows != self._records:
                raise MismatchError(
                    f"{quoted(self.name)} has {counted(rows, 'record')}, its sidecar says {self._records}",
                    "the file was cut or the sidecar is another's: fetch both again",
                )

        def load(partition: Partition) -> pa.RecordBatch:
            nonlocal loaded, rows
            batch = partition.load()
            with lock:
                loaded, rows = loaded + 1, rows + batch.num_rows
                check()
            return batch

        for partition in self._table.partitions(columns):
            given += 1
            yield Partition(partition.file, partial(load, partition))
        with lock:
            ended = True
            check()


def open_releases(
    data: Any, sidecar: Sidecar | str | Path | None = None, from_: Literal["arrow", "csv"] | None = None
) -> tuple[Table, Sidecar]:
    """One or more releases at stage "perturbed", and what holds for all of them together."""
    if not isinstance(data, (str, Path, list, tuple)):
        if not isinstance(sidecar, Sidecar):
            raise UsageError("a table in memory has no sidecar beside it", "give sidecar=release.sidecar")
        table = from_arrow(data)
        if sidecar.stage != "perturbed":
            raise MismatchError(
                f"{quoted(table.name)} is at stage {sidecar.stage!r}, not perturbed",
                "give the release that it was made from",
            )
        check_fit(table, sidecar)
        return table, sidecar
    sources = [data] if isinstance(data, (str, Path)) else list(data)
    if not sources or not all(isinstance(s, (str, Path)) for s in sources):
        raise UsageError("several releases are named by their files", "give a list of paths")
    if len(sources) > 1 and sidecar is not None:
        raise UsageError("one sidecar is named for several releases", "put each one's beside it")
    if isinstance(sidecar, Sidecar):
        raise UsageError("a sidecar in memory goes with a table in memory", "name the sidecar's file")
    places = [s if is_stream(s) else Path(s).resolve() for s in sources]
    twice = [s for i, s in enumerate(sources) if places[i] in places[:i]]
    if twice:
        raise UsageError(f"{quoted(twice[0])} is named twice", "name each release once")
    opened = [_opened(s, None if sidecar is None else Path(sidecar), from_) for s in sources]
    if len(opened) == 1:
        return opened[0]
    for source, (_, promise) in zip(sources[1:], opened[1:], strict=True):
        _check_same(sources[0], opened[0][1], source, promise)
    return Together([t for t, _ in opened]), _joined([p for _, p in opened])


def _opened(source: Any, sidecar: Path | None, from_: Literal["arrow", "csv"] | None) -> tuple[Table, Sidecar]:
    table, promise = open_release(source, sidecar, from_)
    if table.rows is None and promise.records is not None:
        return Complete(table, promise.records), promise
    return table, promise


def _joined(promises: Sequence[Sidecar]) -> Sidecar:
    """The first sidecar, of all records; the releases are its past. No gamma is promised that one lacks."""
    records = [p.records for p in promises]
    total = None if None in records else sum(r for r in records if r is not None)
    seeded = [p for p in promises if p.privacy is not msgspec.UNSET and p.privacy.coins == "seeded"]
    return msgspec.structs.replace(
        promises[0],
        records=total,
        privacy=(seeded or promises)[0].privacy,
        blake2b=msgspec.UNSET,
        history=[Past.of(p) for p in promises],
    )


def _check_same(first: Any, expected: Sidecar, other: Any, found: Sidecar) -> None:
    if expected.class_ != found.class_:  # before the attributes: a class that is kept has a domain for it
        classes = ("none" if p.class_ is msgspec.UNSET else quoted(p.class_) for p in (expected, found))
        raise _different(first, other, f"they name different classes: {' and '.join(classes)}")
    ours, theirs = ({a.name: a for a in p.attributes} for p in (expected, found))
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        if name not in ours or name not in theirs:
            where = first if name in ours else other
            raise _different(first, other, f"only {quoted(where)} has the column {quoted(name)}")
        for part in _COMPARED:
            a, b = getattr(ours[name], part), getattr(theirs[name], part)
            if a != b:
                raise _different(
                    first, other, f"{quoted(name)} differs in {part}{_shown(part, ours[name], theirs[name])}"
                )
    if list(ours) != list(theirs):
        raise _different(first, other, "their columns are in another order")


def _shown(part: str, a: Attribute, b: Attribute) -> str:
    """The difference itself, where it is short: both are published."""
    if part == "matrix" and a.matrix is not msgspec.UNSET and b.matrix is not msgspec.UNSET:
        ours, theirs = _said(a.matrix), _said(b.matrix)
        return f": {ours} and {theirs.removeprefix('gamma ') if ours.startswith('gamma ') else theirs}"
    if part in ("role", "type", "dtype", "N", "nulls", "representative"):
        values = (getattr(side, part) for side in (a, b))
        return f": {' and '.join('none' if v is msgspec.UNSET else str(v) for v in values)}"
    return ""


def _said(matrix: MatrixSpec) -> str:
    if isinstance(matrix, AdditiveSpec):
        return f"{matrix.noise} noise of sd {matrix.sd:g}"
    band = f" (band, half-width {matrix.half_width})" if isinstance(matrix, BandSpec) else ""
    return f"gamma {matrix.gamma}{band}"


def _different(first: Any, other: Any, what: str) -> MismatchError:
    return MismatchError(
        f"{quoted(first)} and {quoted(other)} were not made with the same plan: {what}",
        "make the next release with perturb --like, or take them one by one",
    )


def _loaded(partition: Partition) -> pa.RecordBatch:
    """Its columns as plain values."""
    batch = partition.load()
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def rewound(table: Table, stack: ExitStack) -> Table:
    """A table that can be read again: a release on standard input is spooled; it is public."""
    if table.rewindable:
        return table
    file = stack.enter_context(spool())
    with writing(Path("temporary file")), pa.ipc.new_stream(file, table.schema) as writer:
        for partition in table.partitions():
            writer.write_batch(pa.RecordBatch.from_arrays(_loaded(partition).columns, schema=table.schema))

    def batches() -> Iterator[pa.RecordBatch]:
        file.seek(0)
        yield from pa.ipc.open_stream(file)

    return ArrowTable(table.name, table.schema, batches, None, True)

"""Several releases with one plan, read as one table: January's and February's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from ppdm_cli.errors import MismatchError, UsageError, quoted
from ppdm_cli.sidecar import Attribute, Past, Sidecar
from ppdm_cli.tables.base import Partition, Table
from ppdm_cli.tables.memory import ArrowTable, from_arrow
from ppdm_cli.tables.release import check_fit, open_release
from ppdm_cli.tables.replacing import spool, writing

_COMPARED = ("name", "role", "type", "dtype", "N", "edges", "categories", "nulls", "representative", "matrix")


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

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        for table in self._tables:
            yield from table.partitions(names)


def open_releases(
    data: Any, sidecar: Sidecar | str | Path | None = None, from_: Literal["arrow", "csv"] | None = None
) -> tuple[Table, Sidecar]:
    """One or more releases at stage "perturbed", and what holds for all of them together."""
    if not isinstance(data, (str, Path, list, tuple)):
        if not isinstance(sidecar, Sidecar):
            raise UsageError("a table in memory has no sidecar beside it", "give sidecar=release.sidecar")
        table = from_arrow(data)
        check_fit(table, sidecar)
        return table, sidecar
    sources = [data] if isinstance(data, (str, Path)) else list(data)
    if len(sources) > 1 and sidecar is not None:
        raise UsageError("one sidecar is named for several releases", "put each one's beside it")
    if isinstance(sidecar, Sidecar):
        raise UsageError("a sidecar in memory goes with a table in memory", "name the sidecar's file")
    opened = [open_release(s, None if sidecar is None else Path(sidecar), from_) for s in sources]
    if len(opened) == 1:
        return opened[0]
    for source, (_, promise) in zip(sources[1:], opened[1:], strict=True):
        _check_same(sources[0], opened[0][1], source, promise)
    return Together([t for t, _ in opened]), _joined([p for _, p in opened])


def _joined(promises: Sequence[Sidecar]) -> Sidecar:
    """The first sidecar, of all records; the releases are its past."""
    records = [p.records for p in promises]
    total = None if None in records else sum(r for r in records if r is not None)
    return msgspec.structs.replace(
        promises[0], records=total, blake2b=msgspec.UNSET, history=[Past.of(p) for p in promises]
    )


def _check_same(first: Any, expected: Sidecar, other: Any, found: Sidecar) -> None:
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
    if expected.class_ != found.class_:
        raise _different(first, other, "they name different classes")


def _shown(part: str, a: Attribute, b: Attribute) -> str:
    """The difference itself, where it is short: both are published."""
    if part == "matrix" and a.matrix is not msgspec.UNSET and b.matrix is not msgspec.UNSET:
        return f": gamma {a.matrix.gamma} and {b.matrix.gamma}"
    if part in ("role", "type", "dtype", "N", "nulls", "representative"):
        return f": {getattr(a, part)} and {getattr(b, part)}"
    return ""


def _different(first: Any, other: Any, what: str) -> MismatchError:
    return MismatchError(
        f"{quoted(first)} and {quoted(other)} were not made with the same plan: {what}",
        "make the next release with perturb --like, or take them one by one",
    )


def rewound(table: Table, stack: ExitStack) -> Table:
    """A table that can be read again: a release on standard input is spooled; it is public."""
    if table.rewindable:
        return table
    file = stack.enter_context(spool())
    with writing(Path("temporary file")), pa.ipc.new_stream(file, table.schema) as writer:
        for partition in table.partitions():
            loaded = partition.load()
            columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in loaded.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=table.schema))

    def batches() -> Iterator[pa.RecordBatch]:
        file.seek(0)
        yield from pa.ipc.open_stream(file)

    return ArrowTable(table.name, table.schema, batches, None, True)

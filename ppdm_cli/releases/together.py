"""Several releases read as one table: months one after the other, or copies of one release side by side.

Months are releases with one plan. With copies, each perturbed column is a struct of the copies' columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from ppdm_cli import dtypes, files
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, quoted
from ppdm_cli.releases.release import CountChecked, has_sidecar_beside, open_release
from ppdm_cli.releases.strata import opened
from ppdm_cli.sidecar import UNPROMISED, Attribute, CopiesSidecar, Past, Sidecar
from ppdm_cli.tables import (
    OPENING,
    ArrowTable,
    CsvOptions,
    Partition,
    Table,
    expanded,
    format_of,
    is_stream,
    loaded,
    open_table,
    path_of,
    spool,
    writing,
)

COPIES_AGAIN = "fetch the copies again, as they were made"
_COMPARED = [f for f in Attribute.__struct_fields__ if f not in ("domain_from", "outside")]


class Concatenated(Table):
    """Tables of the same columns, one after the other."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables
        self.schema = tables[0].schema
        counts = [t.rows for t in tables]
        self.rows: int | None = None if None in counts else sum(c for c in counts if c is not None)
        self.files: tuple[Path, ...] = tuple(f for t in tables for f in t.files)
        self.name = ", ".join(t.name for t in tables)
        # no column may be now a dictionary and now plain text
        self._as_they_are = all(t.files and format_of(t.files[0]).text_as_dictionaries for t in tables)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        for table in self._tables:
            # whoever counts rows begins anew after each table
            ended = table if table.rows is None else CountChecked(table, table.rows)
            for partition in ended.partitions(names):
                yield partition if self._as_they_are else replace(partition, load=partial(_loaded, partition))


def open_releases(
    data: Any,
    sidecar: Sidecar | str | Path | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> tuple[Table, Sidecar]:
    """Open one or more releases at stage "perturbed", as one table with one sidecar."""
    data = data if OPENING.get() is not None else expanded(data)
    sources = list(data) if isinstance(data, (list, tuple)) else [data]
    if len(sources) == 1:
        return open_release(sources[0], sidecar, from_)
    if not sources or not all(isinstance(s, (str, Path)) for s in sources):
        raise UsageError(
            "releases-not-files", "several releases are named by their files", "use a list of paths"
        )
    if sidecar is not None:
        raise UsageError(
            "one-sidecar-for-several",
            "one sidecar is named for several releases",
            "put each sidecar beside its release",
        )
    places = [s if is_stream(s) else path_of(s).resolve() for s in sources]
    twice = [s for i, s in enumerate(sources) if places[i] in places[:i]]
    if twice:
        raise UsageError("release-named-twice", f"{quoted(twice[0])} is named twice", "name each release once")
    releases = [open_release(s, None, from_) for s in sources]
    for source, (_, sidecar) in zip(sources[1:], releases[1:], strict=True):
        _check_same(sources[0], releases[0][1], source, sidecar)
    _check_once(sources, releases)
    if are_copies([s for _, s in releases]):
        if OPENING.get() is not None:
            raise UsageError(
                "copies-on-cluster", "a cluster can't read copies side by side", "name one of them"
            )
        return paired([t for t, _ in releases], [s for _, s in releases])
    _check_keys(sources, [s for _, s in releases])
    return Concatenated([t for t, _ in releases]), _joined([s for _, s in releases])


def open_data(
    data: Any,
    sidecar: Sidecar | str | Path | None = None,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> tuple[Table, Sidecar | None]:
    """Open a table by its stage: releases, a reconstruction, or without a sidecar an original.

    `csv` has the options for reading an original.
    """
    data = data if OPENING.get() is not None else expanded(data)
    several = isinstance(data, (list, tuple)) and len(data) != 1
    if sidecar is None and not has_sidecar_beside(data):
        table = open_table(data, csv=csv, standard_format=from_)
        if table.sidecar is None:
            return table, None
        data = data if several else table  # standard input is opened once
    if several:
        return open_releases(data, sidecar, from_)
    source = data[0] if isinstance(data, (list, tuple)) else data
    return open_release(source, sidecar, from_, ("perturbed", "reconstructed"))


def _check_keys(sources: Sequence[Any], sidecars: Sequence[Sidecar]) -> None:
    """Check that no two releases follow from one key: those with the same people repeat the same answers.

    Only the owner knows how many they share, and identical answers would be counted as independent ones.
    """
    first: dict[Any, Any] = {}
    for source, sidecar in zip(sources, sidecars, strict=True):
        key = msgspec.UNSET if sidecar.privacy is msgspec.UNSET else sidecar.privacy.key
        if key is not msgspec.UNSET and first.setdefault(key, source) is not source:
            raise RefusedError(
                "one-key-file",
                f"{quoted(first[key])} and {quoted(source)} were made with one key file, so people in both "
                "repeat their answers and errors would be too small",
                "use them one by one, or ask the owner for one release of all records",
            )


def _joined(sidecars: Sequence[Sidecar]) -> Sidecar:
    """Return the first sidecar, for all records: with all in its history, and a gamma if all have one."""
    records = [s.records for s in sidecars]
    total = None if None in records else sum(r for r in records if r is not None)
    seeded = [s for s in sidecars if s.privacy is not msgspec.UNSET and s.privacy.coins in UNPROMISED]
    return msgspec.structs.replace(
        sidecars[0],
        records=total,
        privacy=(seeded or sidecars)[0].privacy,
        blake2b=msgspec.UNSET,
        history=[Past.of(s) for s in sidecars],
    )


def _check_once(sources: Sequence[Any], releases: Sequence[tuple[Table, Sidecar]]) -> None:
    """Refuse a release that is given twice, as one file or as a copy of it."""
    files.check_once((f, str(f)) for table, _ in releases for f in table.files)
    known: dict[str, Any] = {}
    for source, (_, sidecar) in zip(sources, releases, strict=True):
        other = known.setdefault(sidecar.release, source)
        seeded = sidecar.privacy is not msgspec.UNSET and sidecar.privacy.coins == "seeded"
        if other is not source and not seeded:  # one seed gives releases of other records the same identifier
            raise UsageError(
                "same-release",
                f"{quoted(other)} and {quoted(source)} are the same release",
                "name each release once",
            )


def _check_same(first: object, expected: Sidecar, other: object, found: Sidecar) -> None:
    if expected.class_ != found.class_:  # before the attributes: a class that is kept has a domain for it
        classes = ("none" if p.class_ is msgspec.UNSET else quoted(p.class_) for p in (expected, found))
        raise _different(first, other, f"they name different classes: {' and '.join(classes)}")
    ours, theirs = ({a.name: a for a in p.attributes} for p in (expected, found))
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        if name not in ours or name not in theirs:
            where = first if name in ours else other
            raise _different(first, other, f"only {quoted(where)} has the column {quoted(name)}")
        one, another = opened(expected).spec(name), opened(found).spec(name)
        if one is not None and another is not None and one != another:
            shown = f"{one.described()} and {another.described()}"
            raise _different(first, other, f"{quoted(name)} differs in matrix: {shown}")
        for part in _COMPARED:
            if getattr(ours[name], part) != getattr(theirs[name], part):
                raise _different(first, other, f"{quoted(name)} differs in {part}")
    if list(ours) != list(theirs):
        raise _different(first, other, "their columns are in another order")


def _different(first: object, other: object, what: str) -> MismatchError:
    return MismatchError(
        "different-plans",
        f"{quoted(first)} and {quoted(other)} were not made with one plan: {what}",
        f"use them one by one, or make the next release with {argument('like')}",
    )


def _loaded(partition: Partition) -> pa.RecordBatch:
    return _plain(partition.load())


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same columns as plain values."""
    columns = [dtypes.plain(c) for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class PairedTables(Table):
    """Tables of the same records in the same order."""

    def __init__(self, tables: Sequence[Table], perturbed: frozenset[str]) -> None:
        self._tables, self._perturbed = tables, perturbed
        self.rows: int | None = tables[0].rows
        self.files: tuple[Path, ...] = tuple(f for t in tables for f in t.files)
        self.name = ", ".join(t.name for t in tables)
        fields = []
        for field in tables[0].schema:
            answers = pa.struct([(str(i), field.type) for i in range(len(tables))])
            fields.append(field.with_type(answers) if field.name in perturbed else field)
        self.schema = pa.schema(fields)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        names = list(self.schema.names if columns is None else columns)
        parts = [list(t.partitions(names)) for t in self._tables]
        if len({len(p) for p in parts}) > 1:
            raise _apart(self.name)
        for several in zip(*parts, strict=True):
            yield replace(several[0], load=partial(_side_by_side, several, self._perturbed, self.name))


def _side_by_side(parts: Sequence[Partition], perturbed: frozenset[str], name: str) -> pa.RecordBatch:
    """Return the rows of all copies side by side: picklable, so without their tables."""
    batches = [p.load() for p in parts]
    if len({b.num_rows for b in batches}) > 1:
        raise _apart(name)
    columns = []
    for column in batches[0].schema.names:
        copies = [dtypes.plain(b.column(column)) for b in batches]
        if column in perturbed:
            columns.append(pa.StructArray.from_arrays(copies, [str(i) for i in range(len(copies))]))
        elif any(not c.equals(copies[0]) for c in copies[1:]):
            raise _apart(name)
        else:
            columns.append(copies[0])
    return pa.RecordBatch.from_arrays(columns, names=batches[0].schema.names)


def _apart(name: str) -> MismatchError:
    return MismatchError("copies-do-not-pair", f"the rows of {quoted(name)} do not pair", COPIES_AGAIN)


def are_copies(sidecars: Sequence[Sidecar]) -> bool:
    """Return whether these are copies of one release, each once; a mixture with others is refused."""
    groups = [s.group_id for s in sidecars]
    if len(set(groups)) == len(groups) or all(s.copy is msgspec.UNSET for s in sidecars):
        return False
    if len(set(groups)) > 1:
        raise MismatchError(
            "copies-and-others",
            "copies of one release can't be combined with other releases",
            "use the copies alone",
        )
    if len({s.copy for s in sidecars}) < len(sidecars):
        raise MismatchError("copy-named-twice", "a copy is named twice", "name each copy once")
    return True


def paired(tables: Sequence[Table], sidecars: Sequence[Sidecar]) -> tuple[Table, Sidecar]:
    """Return copies as one table of answers, with a sidecar for it."""
    first = sidecars[0]
    fields = {n: getattr(first, n) for n in Sidecar.__struct_fields__}
    fields |= {"blake2b": msgspec.UNSET, "history": [Past.of(s) for s in sidecars]}
    sidecar = CopiesSidecar(**fields, side_by_side=len(tables))
    return PairedTables(tables, frozenset(a.name for a in first.perturbed)), sidecar


def spooled(table: Table, stack: ExitStack) -> Table:
    """Return a table that can be read again: a release on standard input is spooled, because it is public."""
    if table.rewindable:
        return table
    file = stack.enter_context(spool())
    with writing(Path("temporary file")), pa.ipc.new_stream(file, table.schema) as writer:
        for _, _, batch in loaded(table):
            writer.write_batch(pa.RecordBatch.from_arrays(_plain(batch).columns, schema=table.schema))

    def batches() -> Iterator[pa.RecordBatch]:
        file.seek(0)
        yield from pa.ipc.open_stream(file)

    return ArrowTable(table.name, table.schema, batches, None, True)

"""Tables opened by the stage that they carry: data and sidecar together, if they fit; several as one.

Several releases are months one after the other, made with one plan, or copies of one release side by side: then
each perturbed column is a struct of the copies' columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import dtypes, files
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, counted, listed, quoted
from ppdm_cli.releases.opened_release import check_same, cut_folder, decode, opened, read_sidecar
from ppdm_cli.sidecar import UNPROMISED, Attribute, CopiesSidecar, Past, Sidecar
from ppdm_cli.tables import (
    OPENING,
    ArrowTable,
    CsvOptions,
    Groups,
    Partition,
    Table,
    WrappedTable,
    expanded,
    format_of,
    is_stream,
    like_release,
    loaded,
    open_table,
    parts_of,
    path_of,
    sidecar_path,
    spool,
    stream_format,
    writing,
)

OWN = "use the release's own original"


class CountChecked(WrappedTable):
    """A table whose records are counted as it is read, and compared with the number in its sidecar."""

    def __init__(self, table: Table, records: int) -> None:
        super().__init__(table)
        self.rows, self._records = None, records

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        check, last = partial(_check_records, self.name, self._records), None
        for partition in self._table.partitions(columns):
            if last is not None:
                yield last
            last = partition
        if last is None:
            check(0)
        else:
            yield replace(last, check=check)


def _check_records(name: str, expected: int, rows: int) -> None:
    if rows != expected:
        what = f"{quoted(name)} has {counted(rows, 'record')}, but its sidecar says {expected:,}"
        step = "fetch both again: the file was cut, or the sidecar belongs to another release"
        raise MismatchError("wrong-number-of-records", what, step)


def open_release(
    source: object,
    sidecar: Sidecar | str | Path | None = None,
    from_: Literal["arrow", "csv"] | None = None,
    stages: Sequence[str] | None = ("perturbed",),
) -> tuple[Table, Sidecar]:
    """Open a path, "-" or a table with its sidecar, whose types govern how a CSV is read."""
    table, sidecar = _with_sidecar(source, sidecar, from_)
    if stages is not None and sidecar.stage not in stages:
        what = f"{quoted(table.name)} is at stage {sidecar.stage!r}, not {' or '.join(stages)}"
        raise MismatchError("wrong-stage", what, "use the release that it was made from")
    if stages == ("perturbed",) and not sidecar.is_substituted:
        what = f"{quoted(table.name)} has noise that keeps a tree, so nothing can be estimated from it"
        raise RefusedError("tree-noise", what, "use its values as they are, for example with ppdm train-tree")
    if sidecar.stage in ("perturbed", "reconstructed"):
        check_fit(table, sidecar)
    if table.rows is None and sidecar.records is not None:
        table = CountChecked(table, sidecar.records)
    return table, sidecar


def _with_sidecar(
    source: Any, sidecar: Sidecar | str | Path | None, from_: Literal["arrow", "csv"] | None
) -> tuple[Table, Sidecar]:
    if isinstance(sidecar, (str, Path)) and not path_of(sidecar).exists():
        raise files.missing(path_of(sidecar), "the sidecar ")
    if OPENING.get() is not None or not isinstance(source, (str, Path)):
        given = sidecar if isinstance(sidecar, Sidecar) else None
        if isinstance(sidecar, (str, Path)):
            given = read_sidecar(path_of(sidecar), None, str(sidecar))
        table = open_table(source, csv=CsvOptions(known={} if given is None else dict(opened(given).columns)))
        if given is None and table.sidecar is None and not isinstance(source, (str, Path)):
            what = "a table in memory has no sidecar beside it"
            raise UsageError("no-sidecar-in-memory", what, "add sidecar=release.sidecar")
        if given is None:
            given = read_sidecar(None, table.sidecar, table.name)
            if given.records is None and getattr(table, "folder", False):
                raise cut_folder(table.name)
        elif table.sidecar is not None and not isinstance(sidecar, Sidecar):
            check_same(given, decode(table.sidecar, f"in {table.name}"), str(sidecar), table.name)
        return table, given
    if isinstance(sidecar, Sidecar):
        raise UsageError(
            "sidecar-in-memory", "a sidecar in memory can't be used for a file", "name the sidecar's file"
        )
    path = None if is_stream(source) else path_of(source)
    beside = path_of(sidecar) if sidecar is not None else sidecar_path(path) if path is not None else None
    form = stream_format(from_) if path is None else parts_of([path]).form
    if form.sidecar == "beside":
        sidecar = read_sidecar(beside, None, str(source))
        if path is not None:
            _check_digest(path, sidecar)
        known = dict(opened(sidecar).columns)
        return open_table(source, csv=CsvOptions(known=known), standard_format=from_), sidecar
    table = open_table(source, standard_format=from_)
    found = read_sidecar(beside, table.sidecar, str(source))
    if path is not None and path.is_dir() and found.records is None:
        raise cut_folder(path)
    return table, found


def has_sidecar_beside(source: object) -> bool:
    """Return whether a path, or one of several, has its sidecar beside it; other tables know it themselves."""
    if OPENING.get() is not None:
        return False
    sources = source if isinstance(source, (list, tuple)) else [source]
    paths = (path_of(s) for s in sources if isinstance(s, (str, Path)) and not is_stream(s))
    return any(sidecar_path(p).exists() for p in paths)


def is_promised(table: Table) -> bool:
    """Return whether a table carries a sidecar, or has one beside it: then it is not an original."""
    return table.sidecar is not None or has_sidecar_beside(table.files)


def other_rows(original: int, release: int) -> MismatchError:
    """Return the error of an original with another number of records than its release."""
    step = f"{OWN}; if {argument('person')} left rows out, add {argument('rows_taken', 'FILE')} of that run"
    return MismatchError(
        "original-of-other-size",
        f"the original has {counted(original, 'record')}, but the release has {release:,}",
        step if original > release else OWN,
    )


def rows_taken_text(sidecar: Sidecar, rows: int, out: np.ndarray, places: Sequence[np.ndarray]) -> bytes:
    """Return the list of a release's rows in the original, as `open_original` reads it, by `places`."""
    taken = np.delete(np.arange(1, rows + 1), out)
    taken = taken[np.argsort(np.concatenate(places), kind="stable")] if places else taken
    return f"{_TAKEN}{sidecar.group_id}\n".encode() + b"\n".join(b"%d" % n for n in taken) + b"\n"


_TAKEN, _MOST_TAKEN, _MOST_DIGITS = "rows taken by release ", 1 << 30, 16


def _listed(path: Path, sidecar: Sidecar) -> np.ndarray:
    """Return the rows of the original, from 0, that a file lists for the release of a sidecar."""
    head, _, rest = files.content(path, "the rows taken ", _MOST_TAKEN).partition(b"\n")
    numbers = rest.split()
    whole = all(n.isdigit() and len(n) < _MOST_DIGITS for n in numbers)
    rows = np.array(numbers if whole else [], np.int64) - 1
    shuffled = sidecar.privacy is not UNSET and bool(sidecar.privacy.shuffled)
    each_once = not (np.diff(np.sort(rows) if shuffled else rows, prepend=-1) < 1).any()
    if not (head.startswith(_TAKEN.encode()) and whole and each_once):
        what = f"{quoted(path)} does not list the rows that a release has"
        step = f"name the file that ppdm perturb wrote by its {argument('rows_taken')}"
        raise UsageError("not-rows-taken", what, step)
    if head != f"{_TAKEN}{sidecar.group_id}".encode():
        what = f"{quoted(path)} lists the rows of another release"
        raise MismatchError("rows-taken-by-another", what, "name the file that was written with this one")
    return rows


class _Taken(WrappedTable):
    """The rows of an original that its release has, in its order; shuffled ones are held in memory."""

    def __init__(self, table: Table, path: Path, sidecar: Sidecar) -> None:
        super().__init__(table)
        if OPENING.get() is not None:
            what = f"{argument('rows_taken')} can't be used on a cluster"
            raise UsageError("rows-taken-on-cluster", what, f"leave out {argument('engine')}")
        self._path, rows = path, _listed(path, sidecar)
        self._taken, self._order = np.sort(rows), np.argsort(np.argsort(rows))
        self._shuffled = bool((self._taken != rows).any())
        self.rows = len(rows)

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        """Yield the parts; they are loaded here, because their rows are only known then."""
        parts = self._ascending(columns)
        if not self._shuffled:
            yield from parts
            return
        held = pa.Table.from_batches([part.load() for part in parts]).take(pa.array(self._order))
        yield from (Partition(self.name, batch.slice) for batch in held.to_batches(1 << 18))

    def _ascending(self, columns: Sequence[str] | None) -> Iterator[Partition]:
        before = 0
        for file, _, batch in loaded(self._table, columns):
            first, last = np.searchsorted(self._taken, [before, before + batch.num_rows])
            yield Partition(file, batch.take(pa.array(self._taken[first:last] - before)).slice)
            before += batch.num_rows
        if (self._taken >= before).any():
            raise MismatchError(
                "rows-taken-beyond",
                f"the original has {counted(before, 'record')}, but {quoted(self._path)} lists row "
                f"{self._taken[-1] + 1:,}",
                OWN,
            )


def open_original(
    data: Any,
    attributes: Sequence[Attribute],
    csv: CsvOptions | None,
    mappings: Sequence[Groups] = (),
    rows_taken: str | Path | None = None,
    sidecar: Sidecar | None = None,
) -> Table | None:
    """Open a release's original with these columns: values grouped as for it, and only the `rows_taken`."""
    if data is None:
        if rows_taken is not None:
            what = f"{argument('rows_taken')} says which rows of the original a release has"
            raise UsageError("rows-taken-alone", what, f"add {argument('truth', 'ORIGINAL')}")
        return None
    kinds = {a.name: a.kind for a in attributes}
    original = open_table(data, csv=replace(csv or CsvOptions(), known=kinds))
    if rows_taken is not None and sidecar is not None:
        original = _Taken(original, path_of(rows_taken, "rows_taken"), sidecar)
    original = like_release(original, attributes, mappings)
    if is_promised(original):
        raise MismatchError(
            "original-has-sidecar", f"{quoted(original.name)} has a sidecar: it is not an original", OWN
        )
    missing = [n for n in kinds if n not in original.schema.names]
    if missing:
        raise MismatchError(
            "original-lacks-columns",
            f"the original lacks the columns {listed(missing)}, which the release has; it has "
            f"{listed(original.schema.names)}",
            OWN,
        )
    for name, kind in kinds.items():
        found = original.schema.field(name).type
        if found != kind:
            what = f"in the original {quoted(name)} is of type {found}, but in the release it was {kind}"
            raise MismatchError("original-of-other-type", what, OWN)
    return original


def _check_digest(path: Path, sidecar: Sidecar) -> None:
    if sidecar.blake2b is UNSET:
        return
    with files.readable(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    if digest != sidecar.blake2b:
        what = f"{quoted(path)} was changed after it was published, or its sidecar belongs to another release"
        raise MismatchError("release-changed", what, "fetch both again")


def check_fit(table: Table, sidecar: Sidecar) -> None:
    """Check that columns, types and the number of records are those of the sidecar."""
    expected, found = [n for n, _ in opened(sidecar).columns], list(table.schema.names)
    for names, what in (
        ([n for n in expected if n not in found], "lacks"),
        ([n for n in found if n not in expected], "has"),
    ):
        if names:
            other = "has" if what == "lacks" else "lacks"
            raise MismatchError(
                "columns-differ",
                f"{quoted(table.name)} {what} the columns {listed(names)}, which its sidecar {other}",
                "fetch both again: one of them belongs to another release",
            )
    for name, expected_kind in opened(sidecar).columns:
        kind = table.schema.field(name).type
        if kind != expected_kind:
            what = f"the column {quoted(name)} is of type {kind}, but in the sidecar of type {expected_kind}"
            raise MismatchError("column-of-other-type", what, "fetch the release again, unconverted")
    if table.rows is not None and sidecar.records is not None and table.rows != sidecar.records:
        what = f"{quoted(table.name)} has {table.rows:,} records, but its sidecar says {sidecar.records:,}"
        step = "fetch both again: the file was cut, or the sidecar belongs to another release"
        raise MismatchError("records-differ", what, step)


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
            # each table's rows are counted from 0
            ended = table if table.rows is None else CountChecked(table, table.rows)
            for partition in ended.partitions(names):
                yield partition if self._as_they_are else replace(partition, load=partial(_loaded, partition))


def open_releases(
    data: Any, sidecar: Sidecar | str | Path | None = None, from_: Literal["arrow", "csv"] | None = None
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
        what = "one sidecar is named for several releases"
        raise UsageError("one-sidecar-for-several", what, "put each sidecar beside its release")
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
    """Open a table by its stage: releases, a reconstruction, or without a sidecar an original, by `csv`."""
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
    """Check that no two releases follow from one key: people in both would repeat their answers."""
    first: dict[Any, Any] = {}
    for source, sidecar in zip(sources, sidecars, strict=True):
        key = UNSET if sidecar.privacy is UNSET else sidecar.privacy.key
        if key is not UNSET and first.setdefault(key, source) is not source:
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
    seeded = [s for s in sidecars if s.privacy is not UNSET and s.privacy.coins in UNPROMISED]
    return msgspec.structs.replace(
        sidecars[0],
        records=total,
        privacy=(seeded or sidecars)[0].privacy,
        blake2b=UNSET,
        history=[Past.of(s) for s in sidecars],
    )


def _check_once(sources: Sequence[Any], releases: Sequence[tuple[Table, Sidecar]]) -> None:
    """Refuse a release that is given twice, as one file or as a copy of it."""
    files.check_once((f, str(f)) for table, _ in releases for f in table.files)
    known: dict[str, Any] = {}
    for source, (_, sidecar) in zip(sources, releases, strict=True):
        other = known.setdefault(sidecar.release, source)
        seeded = sidecar.privacy is not UNSET and sidecar.privacy.coins == "seeded"
        if other is not source and not seeded:  # one seed gives releases of other records the same identifier
            what = f"{quoted(other)} and {quoted(source)} are the same release"
            raise UsageError("same-release", what, "name each release once")


def _check_same(first: object, expected: Sidecar, other: object, found: Sidecar) -> None:
    if expected.class_ != found.class_:  # before the attributes: a class that is kept has a domain for it
        classes = ("none" if p.class_ is UNSET else quoted(p.class_) for p in (expected, found))
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
    if len(set(groups)) == len(groups) or all(s.copy is UNSET for s in sidecars):
        return False
    if len(set(groups)) > 1:
        what = "copies of one release can't be combined with other releases"
        raise MismatchError("copies-and-others", what, "use the copies alone")
    if len({s.copy for s in sidecars}) < len(sidecars):
        raise MismatchError("copy-named-twice", "a copy is named twice", "name each copy once")
    return True


def paired(tables: Sequence[Table], sidecars: Sequence[Sidecar]) -> tuple[Table, Sidecar]:
    """Return copies as one table of answers, with a sidecar for it."""
    first = sidecars[0]
    fields = {n: getattr(first, n) for n in Sidecar.__struct_fields__}
    fields |= {"blake2b": UNSET, "history": [Past.of(s) for s in sidecars]}
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

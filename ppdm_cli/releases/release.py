"""Tables opened by the stage that they carry: data and sidecar together, and only if they fit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import files
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, counted, listed, quoted
from ppdm_cli.releases.sidecars import check_same, cut_folder, decode, read_sidecar
from ppdm_cli.releases.strata import opened
from ppdm_cli.sidecar import Attribute, Sidecar
from ppdm_cli.tables import (
    OPENING,
    CsvOptions,
    Groups,
    Partition,
    Table,
    WrappedTable,
    is_stream,
    like_release,
    loaded,
    open_table,
    parts_of,
    path_of,
    sidecar_path,
    stream_format,
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
        raise MismatchError(
            "wrong-number-of-records",
            f"{quoted(name)} has {counted(rows, 'record')}, but its sidecar says {expected:,}",
            "fetch both again: the file was cut, or the sidecar belongs to another release",
        )


def open_release(
    source: object,
    sidecar: Sidecar | str | Path | None = None,
    from_: Literal["arrow", "csv"] | None = None,
    stages: Sequence[str] | None = ("perturbed",),
) -> tuple[Table, Sidecar]:
    """Open a path, "-" or a table with its sidecar, whose types govern how a CSV is read."""
    table, sidecar = _with_sidecar(source, sidecar, from_)
    if stages is not None and sidecar.stage not in stages:
        raise MismatchError(
            "wrong-stage",
            f"{quoted(table.name)} is at stage {sidecar.stage!r}, not {' or '.join(stages)}",
            "use the release that it was made from",
        )
    if stages == ("perturbed",) and not sidecar.is_substituted:
        raise RefusedError(
            "tree-noise",
            f"{quoted(table.name)} has noise that keeps a tree, so nothing can be estimated from it",
            "use its values as they are, for example with ppdm train-tree",
        )
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
        given = sidecar if sidecar is None or isinstance(sidecar, Sidecar) else _read(sidecar)
        table = open_table(source, csv=CsvOptions(known={} if given is None else dict(opened(given).columns)))
        if given is None and table.sidecar is None and not isinstance(source, (str, Path)):
            raise UsageError(
                "no-sidecar-in-memory",
                "a table in memory has no sidecar beside it",
                "add sidecar=release.sidecar",
            )
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


def _read(sidecar: str | Path) -> Sidecar:
    return read_sidecar(path_of(sidecar), None, str(sidecar))


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
        f"the original has {counted(original, 'record')}, but the release {release:,}",
        step if original > release else OWN,
    )


def rows_taken_text(sidecar: Sidecar, rows: int, out: np.ndarray, places: Sequence[np.ndarray]) -> bytes:
    """Return the text that lists the rows of the original that a release has, as `open_original` reads it.

    Shuffled rows are listed in the order of their `places`.
    """
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
        raise UsageError(
            "not-rows-taken",
            f"{quoted(path)} does not list the rows that a release has",
            f"name the file that ppdm perturb wrote by its {argument('rows_taken')}",
        )
    if head != f"{_TAKEN}{sidecar.group_id}".encode():
        raise MismatchError(
            "rows-taken-by-another",
            f"{quoted(path)} lists the rows of another release",
            "name the file that was written with this one",
        )
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
            raise UsageError(
                "rows-taken-alone",
                f"{argument('rows_taken')} says which rows of the original a release has",
                f"add {argument('truth', 'ORIGINAL')}",
            )
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
            raise MismatchError(
                "original-of-other-type",
                f"in the original {quoted(name)} is of type {found}, but in the release it was {kind}",
                OWN,
            )
    return original


def _check_digest(path: Path, sidecar: Sidecar) -> None:
    if sidecar.blake2b is UNSET:
        return
    with files.readable(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()
    if digest != sidecar.blake2b:
        raise MismatchError(
            "release-changed",
            f"{quoted(path)} was changed after it was published, or its sidecar belongs to another release",
            "fetch both again",
        )


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
            raise MismatchError(
                "column-of-other-type",
                f"the column {quoted(name)} is of type {kind}, but in the sidecar of type {expected_kind}",
                "fetch the release again, unconverted",
            )
    if table.rows is not None and sidecar.records is not None and table.rows != sidecar.records:
        raise MismatchError(
            "records-differ",
            f"{quoted(table.name)} has {table.rows:,} records, but its sidecar says {sidecar.records:,}",
            "fetch both again: the file was cut, or the sidecar belongs to another release",
        )

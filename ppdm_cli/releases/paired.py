"""Several copies of one release, row by row: each perturbed column is a struct of its copies' columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.sidecar import CopiesSidecar, Past, Sidecar
from ppdm_cli.tables import Partition, Table

COPIES_AGAIN = "fetch the copies again, as they were made"


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
            yield replace(several[0], load=partial(_loaded, several, self._perturbed, self.name))


def _loaded(parts: Sequence[Partition], perturbed: frozenset[str], name: str) -> pa.RecordBatch:
    """Return the rows of all copies side by side: picklable, so without the tables that they are of."""
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
    """Return whether these are copies of one release, each once; some of them and others are refused."""
    groups = [s.copy.release if s.copy is not msgspec.UNSET else s.release for s in sidecars]
    if len(set(groups)) == len(groups) or all(s.copy is msgspec.UNSET for s in sidecars):
        return False
    if len(set(groups)) > 1:
        raise MismatchError(
            "copies-and-others", "copies of one release and others are given", "take the copies by themselves"
        )
    if len({s.copy for s in sidecars}) < len(sidecars):
        raise MismatchError("copy-named-twice", "a copy is named twice", "name each copy once")
    return True


def paired(tables: Sequence[Table], sidecars: Sequence[Sidecar]) -> tuple[Table, Sidecar]:
    """Return copies as one table of answers, and the sidecar that says so of its channels."""
    first = sidecars[0]
    fields = {n: getattr(first, n) for n in Sidecar.__struct_fields__}
    fields |= {"blake2b": msgspec.UNSET, "history": [Past.of(s) for s in sidecars]}
    sidecar = CopiesSidecar(**fields, side_by_side=len(tables))
    return PairedTables(tables, frozenset(a.name for a in first.perturbed)), sidecar

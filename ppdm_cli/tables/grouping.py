"""Groups for values before they are perturbed, and for an original that a release is compared with.

A prefix or a file of groups makes few values of many; values outside a domain move to its nearest value, to
null or to the group of all others. A sidecar records all of it as rules, with the digest of a file.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli.domain import MOST_VALUES, OTHER, Domain
from ppdm_cli.errors import DataError, MismatchError, UsageError, argument, quoted
from ppdm_cli.files import content
from ppdm_cli.sidecar import Attribute, Group
from ppdm_cli.tables.base import Partition, RowTrouble, Table, WrappedTable
from ppdm_cli.tables.stores import path_of

LARGEST_MAPPING = 64 << 20
Rule = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Groups:
    """A file of groups: the group of each value."""

    digest: str
    groups: Mapping[str, str]

    @cached_property
    def names(self) -> list[str]:
        return sorted(set(self.groups.values()))

    @cached_property
    def _columns(self) -> tuple[pa.Array, pa.Array]:
        return pa.array(self.groups.keys(), pa.string()), pa.array(self.groups.values(), pa.string())


def read_mapping(path: str | Path) -> Groups:
    """Read a CSV of a header and two columns: a value, and its group."""
    path = path_of(path)
    data = content(path, "the file of groups ", LARGEST_MAPPING)
    try:
        rows = [r for r in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True) if r][1:]
    except (UnicodeError, csv.Error):
        what = f"the file of groups {quoted(path)} is not a CSV in UTF-8"
        raise DataError("bad-groups", what, "convert it") from None
    groups = dict(r for r in rows if len(r) == 2)
    if not rows or any(len(r) != 2 for r in rows) or len(groups) < len(rows) or "" in groups.values():
        what = f"the file of groups {quoted(path)} is not a list of values, each once with its group"
        step = "write a header and two columns, such as code,chapter and A00,infections"
        raise DataError("bad-groups", what, step)
    if len(set(groups.values())) > MOST_VALUES:
        what = f"the file of groups {quoted(path)} has more than {MOST_VALUES} groups"
        raise DataError("too-many-groups", what, "use fewer")
    return Groups(hashlib.blake2b(data, digest_size=32).hexdigest(), groups)


@dataclass(frozen=True)
class Prefixed:
    """The first characters of text."""

    name: str
    characters: int

    def __call__(self, array: pa.Array) -> pa.Array:
        if not pa.types.is_string(array.type):
            what = f"the column {quoted(self.name)} is of type {array.type}, which has no prefix"
            step = f"read it as text: {argument('type', 'string', self.name)}"
            raise UsageError("prefix-of-no-text", what, step)
        return pc.utf8_slice_codeunits(array, 0, self.characters)


@dataclass(frozen=True)
class Mapped:
    """The groups of values; all others go to one group, or are errors."""

    name: str
    mapping: Groups
    other: bool

    def __call__(self, array: pa.Array) -> pa.Array:
        values, groups = self.mapping._columns
        text = array if pa.types.is_string(array.type) else pc.cast(array, pa.string())
        found = groups.take(pc.index_in(text, value_set=values))
        missing = pc.and_(pc.is_valid(text), pc.is_null(found))
        if not pc.any(missing).as_py():
            return found
        if not self.other:
            raise RowTrouble(
                int(np.flatnonzero(missing.to_numpy(zero_copy_only=False))[0]),
                "value-without-group",
                f"the column {quoted(self.name)} has a value there that its file of groups does not have",
                f"add it to the file, or add {argument('other', True, self.name)} for a group of all others",
            )
        return pc.if_else(missing, OTHER, found)


@dataclass(frozen=True)
class Inside:
    """The rule that moves values outside the domain: to the nearest value, to null, or to (other)."""

    domain: Domain
    how: str

    def __call__(self, array: pa.Array) -> pa.Array:
        if self.how != "nearest":
            values = pa.array(self.domain.marks, self.domain.kind)
            outside = pc.and_(pc.is_valid(array), pc.invert(pc.is_in(array, value_set=values)))
            return pc.if_else(outside, OTHER if self.how == "other" else None, array)
        outside = self.domain.encode(array).outside
        outside = outside[array.is_valid().to_numpy(zero_copy_only=False)[outside]]
        if not outside.size:
            return array
        values = dtypes.carrier(array).copy()
        values[outside] = self.domain.nearest_values(values[outside])
        moved = dtypes.from_carrier(values, array.type)
        return pc.if_else(array.is_valid(), moved, None) if array.null_count else moved


class GroupedTable(WrappedTable):
    def __init__(self, table: Table, rules: Mapping[str, Sequence[Rule]]) -> None:
        super().__init__(table)
        self._rules = {n: r for n, r in rules.items() if n in table.schema.names}
        texts = {n for n, r in self._rules.items() if any(isinstance(x, Mapped) for x in r)}
        self.schema = pa.schema([f.with_type(pa.string()) if f.name in texts else f for f in table.schema])

    def partitions(self, columns: Sequence[str] | None = None) -> Iterator[Partition]:
        for part in self._table.partitions(columns):
            yield replace(part, load=partial(_loaded, part, self._rules))


def _loaded(part: Partition, rules: Mapping[str, Sequence[Rule]]) -> pa.RecordBatch:
    batch = part.load()
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in rules.keys() & columns.keys():
        columns[name] = dtypes.plain(columns[name])
        for rule in rules[name]:
            columns[name] = rule(columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def rule_of(name: str, group: Group, other: bool, mappings: Sequence[Groups]) -> Rule:
    """Return the rule of a column's groups; for a file, the one among `mappings` that has the digest."""
    if group.prefix is not UNSET:
        return Prefixed(name, group.prefix)
    for mapping in mappings:
        if mapping.digest == group.mapping:
            return Mapped(name, mapping, other)
    what = f"the values of {quoted(name)} were grouped by a file, which is missing here"
    step = f"add the plan that names it: {argument('plan', 'plan.toml')}"
    raise MismatchError("groups-not-given", what, step)


def like_release(
    table: Table, attributes: Sequence[Attribute], mappings: Sequence[Groups], moved: bool = True
) -> Table:
    """Return an original grouped as for its release; with `moved`, values outside domains are moved too."""
    rules: dict[str, list[Rule]] = {}
    for a in attributes:
        own: list[Rule] = []
        if a.group is not UNSET:
            own.append(rule_of(a.name, a.group, a.outside == "other", mappings))
        if a.outside is not UNSET and moved:
            own.append(Inside(a.domain, a.outside))
        if own:
            rules[a.name] = own
    return GroupedTable(table, rules) if rules else table

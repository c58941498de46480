"""Parties' columns for `train-bayes`: the same records, joined by row order.

A party gives a release, or an original, whose columns are used as they are (Ma and Sivakumar's Model I). The
result is one table of the wanted columns, and one sidecar with each one's channel.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli import sidecar as sidecars
from ppdm_cli.domain import Domain
from ppdm_cli.errors import MismatchError, UsageError, argument, listed, quoted
from ppdm_cli.estimating import with_kept
from ppdm_cli.networks.network import NetworkSource
from ppdm_cli.releases import open_data, opened
from ppdm_cli.sidecar import Attribute, Past, Recipe, Sidecar
from ppdm_cli.tables import ArrowTable, CsvOptions, Table, TableLike, is_stream, loaded

SAME_RECORDS = "use the same records of each party, in the same order"
BY_ORDER = (
    "Warning: the parties' rows were joined in the order of their files. Only their equal number shows "
    "that they are the same people in the same order."
)
PartyLike: TypeAlias = "TableLike | tuple[TableLike, Sidecar]"
"""The input of a party: a path or a table, with its sidecar if that isn't beside it."""
_INTERVAL = re.compile(r"\[(.+), (.+)[)\]]")


@dataclass(frozen=True)
class Party:
    """The columns of one party; an original has an empty sidecar."""

    table: Table
    sidecar: Sidecar
    released: bool

    @property
    def source(self) -> NetworkSource:
        privacy = self.sidecar.privacy
        epsilon = None if privacy is UNSET else privacy.perturbed_epsilon
        return NetworkSource(self.sidecar.release, np.inf if epsilon == "inf" else epsilon)

    @property
    def usual_nodes(self) -> list[str]:
        """Return the columns that a structure is over if none are named: all perturbed ones, and the class."""
        if not self.released:
            return self.table.schema.names
        own = {a.name for a in self.sidecar.perturbed} | {self.sidecar.class_}
        return [a.name for a in self.sidecar.attributes if a.name in own]


def open_parties(data: Sequence[PartyLike], csv: CsvOptions | None, withheld: bool = False) -> list[Party]:
    """Open the input of each party; cells of one party may be `withheld`, if these shouldn't count as null."""
    if not data or any(map(is_stream, data)):
        raise UsageError(
            "no-parties", "no files are named, or standard input is named", "name a file of each party"
        )
    found = []
    for given in data:
        source, sidecar = given if isinstance(given, tuple) else (given, None)
        table, sidecar = open_data(source, sidecar, csv)
        if sidecar is not None and not (withheld and len(data) == 1):
            opened(sidecar).refuse_withheld()
        if sidecar is not None and sidecar.stage != "perturbed":
            what = f"{quoted(table.name)} is at stage {sidecar.stage!r}: its records were drawn from estimates"
            raise MismatchError("wrong-stage-of-party", what, "use the release itself, or the original")
        empty = sidecars.new("reconstructed", str(uuid.uuid4()), table.rows, [])
        found.append(Party(table, sidecar or empty, sidecar is not None))
    return found


@dataclass(frozen=True)
class Joined:
    """All columns that are wanted, about the same records, and the channel of each."""

    table: Table
    sidecar: Sidecar
    remarks: list[str]


def join(
    parties: Sequence[Party], names: Sequence[str], states: Mapping[str, Sequence[str]], stack: ExitStack
) -> Joined:
    """Join the columns of these names; `states` are those that the network gives, if it does."""
    owners = {name: _owner(name, parties) for name in names}
    if len(parties) == 1 and len(opened(parties[0].sidecar).recipes) > 1:
        table, sidecar = with_kept(parties[0].table, parties[0].sidecar, names, None, stack)
        bare: dict[str, Any] = {"privacy": UNSET, "blake2b": UNSET, "history": [Past.of(sidecar)]}
        return Joined(table, msgspec.structs.replace(sidecar, stage="estimated", **bare), [])
    for party in list(owners.values()):  # whoever was perturbed together with a node comes along
        own = (opened(p.sidecar).spec(n) for n, p in owners.items() if p is party)
        mates = [s.attributes for s in own if s is not None]
        owners |= {m: party for together in mates for m in together if m not in owners}
    used = [p for p in parties if p in owners.values()]
    columns = [[n for n, p in owners.items() if p is party] for party in used]
    attributes = [_attribute(owners[n], n, states.get(n, ())) for own in columns for n in own]
    found = (opened(p.sidecar).spec(n) for n, p in owners.items())
    specs = {s.attributes[0]: s for s in found if s is not None}
    past = [Past.of(p.sidecar) for p in parties if p.released]
    sidecar = sidecars.new(
        "estimated",
        str(uuid.uuid4()),
        None,
        attributes,
        recipes=[Recipe(list(specs.values()))] if specs else [],
        history=past or UNSET,
    )
    tables = [p.table for p in used]
    table = tables[0]
    if len(tables) > 1:
        if len({t.rows for t in tables} - {None}) > 1:
            raise _uneven(tables)
        fields = [t.schema.field(n) for t, own in zip(tables, columns, strict=True) for n in own]
        rows = partial(_side_by_side, tables, columns)
        table = ArrowTable(", ".join(t.name for t in tables), pa.schema(fields), rows, None, True)
    table, sidecar = with_kept(table, sidecar, names, None, stack)
    return Joined(table, sidecar, [BY_ORDER] * (len(tables) > 1))


def _owner(name: str, parties: Sequence[Party]) -> Party:
    """Return the one party that has a node's column."""
    having = [p for p in parties if name in p.table.schema.names]
    if not having:
        raise MismatchError(
            "node-without-column",
            f"the network has the node {quoted(name)}, but no party gives a column of that name",
            f"use one of {listed(n for p in parties for n in p.table.schema.names)}, or learn only some "
            f"nodes with {argument('nodes')}",
        )
    if len(having) > 1:
        both = " and ".join(quoted(p.table.name) for p in having[:2])
        what = f"the node {quoted(name)} has two columns, in {both}"
        raise MismatchError("node-with-two-columns", what, "drop one of them")
    return having[0]


def _attribute(party: Party, name: str, states: Sequence[str]) -> Attribute:
    """Return a column's attribute; an unperturbed one has the network's states as domain, if there are any."""
    known = party.sidecar.by_name.get(name)
    kind = dtypes.normal(party.table.schema.field(name).type, name)
    attribute = known or Attribute(name=name, role="kept", type="discrete", dtype=str(kind))
    if attribute.has_domain or not states:
        return attribute
    own = [s for s in states if s != "null"]
    parts = [_INTERVAL.fullmatch(s) for s in own]
    size: dict[str, Any] = {"N": len(states), "nulls": len(own) < len(states)}
    try:
        if all(parts) and not dtypes.is_discrete(kind):
            edges = sorted({dtypes.from_text(t, kind) for m in parts if m for t in m.groups()})
            size |= {"type": "continuous", "edges": [dtypes.to_json(e, kind) for e in edges]}
        else:
            values = sorted(dtypes.from_text(s, kind) for s in own)
            size |= {"type": "discrete", "categories": [dtypes.to_json(v, kind) for v in values]}
        return msgspec.structs.replace(attribute, **size)
    except ValueError:
        what = f"the states of {quoted(name)} in the network aren't values of its column's type, {kind}"
        step = f"add {argument('type', 'string', name)}, or use a network with the column's values as states"
        raise MismatchError("states-of-another-type", what, step) from None


def state_numbers(name: str, domain: Domain, states: Sequence[str]) -> list[int]:
    """Return the number among a node's states of each code of its column's domain."""

    def canonical(text: str) -> str:
        try:
            return str(dtypes.to_json(dtypes.from_text(text, domain.kind), domain.kind))
        except ValueError:
            return text

    known = {canonical(s): i for i, s in enumerate(states)}
    labels = [canonical(label) for label in domain.labels()]
    last = {label: code for code, label in enumerate(labels)}
    wrong = [label for code, label in enumerate(labels) if label not in known or last[label] != code]
    if wrong:
        raise MismatchError(
            "value-without-state",
            f"the column {quoted(name)} can have values that aren't states of its node, or a value twice: "
            f"{listed(wrong)}",
            f"rename values or states; the network's states are {listed(states)}",
        )
    return [known[label] for label in labels]


def _side_by_side(tables: Sequence[Table], columns: Sequence[Sequence[str]]) -> Iterator[pa.RecordBatch]:
    """Yield the tables' rows side by side, however each of them is cut."""
    streams = [loaded(t, own) for t, own in zip(tables, columns, strict=True)]
    batches = [(b for _, _, b in stream if b.num_rows) for stream in streams]
    waiting: list[pa.RecordBatch | None] = [None] * len(tables)
    while True:
        waiting = [w if w else next(b, None) for w, b in zip(waiting, batches, strict=True)]
        ready = [w for w in waiting if w is not None]
        if len(ready) < len(tables):
            if ready:
                raise _uneven(tables)
            return
        rows = min(b.num_rows for b in ready)
        parts = [c for b in ready for c in b.slice(0, rows).columns]
        yield pa.RecordBatch.from_arrays(parts, names=[n for own in columns for n in own])
        waiting = [b.slice(rows) if b.num_rows > rows else None for b in ready]


def _uneven(tables: Sequence[Table]) -> MismatchError:
    counts = ", ".join(quoted(t.name) + (f" {t.rows}" if t.rows is not None else "") for t in tables)
    what = f"the parties have different numbers of records: {counts}"
    return MismatchError("different-numbers-of-records", what, SAME_RECORDS)

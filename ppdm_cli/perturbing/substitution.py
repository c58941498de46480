"""Algorithm 1 of Dowd et al. on one batch: values to codes, codes to perturbed codes, codes to values.

A pure function of the batch and the addresses of its rows. What the checks need is counted beside
it, in a small state.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Codes
from ppdm_cli.channels import Cells, Channel
from ppdm_cli.coins import CELLS, Coins, Key, identifier_addresses
from ppdm_cli.domain import Categories, Domain
from ppdm_cli.engine import Batch
from ppdm_cli.errors import DataError, quoted
from ppdm_cli.perturbing.domain_from_data import OTHER
from ppdm_cli.perturbing.order import Sample
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.sidecar_attributes import Attribute


@dataclass
class Outside:
    """How many values of a column are outside its domain, and where the first is."""

    count: int
    first: str
    null: bool


@dataclass
class Checks:
    """What is known of the rows so far; merges in their order."""

    order: Sample | None = None
    """True codes of perturbed attributes, values of kept columns and of the identifier."""
    outside: dict[str, Outside] = field(default_factory=dict)
    identifiers: list[Addresses] = field(default_factory=list)
    rows: int = 0

    def merge(self, after: Checks) -> None:
        if self.order is None:
            self.order = after.order
        elif after.order is not None:
            self.order.merge(after.order)
        for name, outside in after.outside.items():
            if name in self.outside:
                self.outside[name].count += outside.count
            else:
                self.outside[name] = outside
        self.identifiers.extend(after.identifiers)
        self.rows += after.rows


@dataclass(frozen=True)
class Done:
    """A perturbed batch, its rows' places in a shuffled release, and what the checks need."""

    batch: pa.RecordBatch
    places: Addresses | None
    checks: Checks


@dataclass(frozen=True)
class _Ready:
    """A channel, ready to perturb."""

    channel: Channel
    keys: dict[str, bytes]


class Substituter:
    """Perturbs batches by a plan and a key; holds nothing that changes, so threads share it."""

    def __init__(
        self, plan: ResolvedPlan, key: Key, *, clip: bool, identifier: str | None, shuffle: bool
    ) -> None:
        self._plan, self._key, self._clip, self._identifier = plan, key, clip, identifier
        # under a key file too, fresh places: with the same ones two releases could be laid side by side
        places = key if key.origin == "seeded" else Key.fresh()
        self._places_key = places.derive("shuffle") if shuffle else None
        self._ready = self._all_prepared(key)
        self.schema = pa.schema(
            [
                pa.field(a.name, a.kind)
                if a.role == "kept"
                else pa.field(a.name, plan.through[a.name].shown(a.name).kind, a.nulls is True)
                for a in plan.attributes
            ]
        )

    def for_copy(self, number: int) -> Substituter:
        """Return the same with the coins of another copy; a shuffled row has one place in all of them."""
        if number == 1:
            return self
        other = copy(self)
        key = Key(self._key.derive("copy", number), self._key.origin)
        other._ready = self._all_prepared(key)
        return other

    def _all_prepared(self, key: Key) -> list[_Ready]:
        known = {a.name: a for a in self._plan.attributes}
        return [_prepared(c, [known[n] for n in c.attributes], key) for c in self._plan.channels]

    @property
    def columns(self) -> list[str]:
        """Return the columns that must be read."""
        names = self._plan.columns
        return names if self._identifier in (None, *names) else [*names, str(self._identifier)]

    def __call__(self, batch: Batch) -> Done:
        addresses = self._addresses(batch)
        checks = Checks(rows=batch.rows)
        if self._identifier is not None:
            checks.identifiers.append(addresses)
        compared: dict[str, Codes | pa.Array] = {n: batch.column(n) for n in self.columns}
        perturbed: dict[str, pa.Array] = {}
        for ready in self._ready:
            perturbed |= self._perturbed(ready, batch, addresses, checks, compared)
        columns = [perturbed[n] if n in perturbed else _used(batch.column(n)) for n in self._plan.columns]
        places = None
        if self._places_key is None:
            checks.order = Sample.of(batch.first_row, batch.rows, compared)
        else:
            places = _places(Coins(self._places_key), addresses)
        return Done(pa.RecordBatch.from_arrays(columns, schema=self._typed(columns)), places, checks)

    def _typed(self, columns: list[pa.Array]) -> pa.Schema:
        """Return the schema of a batch, where text may be a dictionary."""
        return pa.schema([f.with_type(c.type) for f, c in zip(self.schema, columns, strict=True)])

    def _addresses(self, batch: Batch) -> Addresses:
        if self._identifier is None:
            return np.arange(batch.first_row, batch.first_row + batch.rows, dtype=np.uint64)
        array = batch.column(self._identifier)
        if array.null_count:
            row = int(array.is_null().to_numpy(zero_copy_only=False).argmax())
            raise DataError(
                f"the identifier {quoted(self._identifier)} is null in {batch.where(row)}",
                "give every record an identifier",
            )
        return identifier_addresses(self._key, pc.cast(array, pa.string()))

    def _perturbed(
        self,
        ready: _Ready,
        batch: Batch,
        addresses: Addresses,
        checks: Checks,
        compared: dict[str, Codes | pa.Array],
    ) -> dict[str, pa.Array]:
        """Return the columns that a channel publishes, and note the true codes of its attributes."""
        channel, domain = ready.channel, ready.channel.domain
        own = [
            self._encoded(n, p, batch, checks) for n, p in zip(channel.attributes, domain.parts, strict=True)
        ]
        compared |= zip(channel.attributes, own, strict=True)
        cells = Cells(addresses, ready.keys.__getitem__)
        published = channel.publish(domain.joined(own), batch.column(channel.attributes[0]), cells)
        parts = [published] if len(own) == 1 else published.flatten()
        return dict(zip(channel.attributes, parts, strict=True))

    def _encoded(self, name: str, domain: Domain, batch: Batch, checks: Checks) -> Codes:
        array = batch.column(name)
        encoded = domain.encode(array, self._clip)
        codes, outside = encoded.codes, encoded.outside
        if outside.size and name in self._plan.merging:
            outside = _merge(domain, array, codes, outside)
        if outside.size:
            row = int(outside[0])
            null = bool(not array[row].is_valid)
            checks.outside[name] = Outside(len(outside), batch.where(row), null)
            codes[outside] = 0
        return codes


def _prepared(channel: Channel, attributes: list[Attribute], key: Key) -> _Ready:
    assert channel.spec is not None
    # all that the answer depends on besides the cell: other domains or matrices, other coins
    own = [(a.name, a.dtype, given(a.edges), given(a.categories), given(a.nulls)) for a in attributes]
    decides = (*own[0], channel.spec.decides) if len(own) == 1 else (own, channel.spec.decides)
    return _Ready(channel, {p: key.derive(p, *decides) for p in ("perturb", "representative")})


def given(value: Any) -> Any:
    """Return a sidecar's field, or None where it is not set."""
    return None if value is UNSET else value


def _used(array: pa.Array) -> pa.Array:
    """Return a dictionary without the entries that no row uses: they may be values of rows left out."""
    if not pa.types.is_dictionary(array.type):
        return array
    indices = array.indices.drop_null() if array.null_count else array.indices
    used = np.bincount(indices.to_numpy(), minlength=len(array.dictionary)) > 0
    if used.all():
        return array
    places = pa.array((np.cumsum(used) - 1).astype(np.int32))
    return pa.DictionaryArray.from_arrays(places.take(array.indices), array.dictionary.filter(pa.array(used)))


def _places(coins: Coins, addresses: Addresses) -> Addresses:
    """Return where each row goes in a shuffled release: 64 bits of its coins."""
    places = np.empty(len(addresses), np.uint64)
    for start in range(0, len(addresses), CELLS):
        part = slice(start, start + CELLS)
        places[part] = coins.words(addresses[part], 0).view("<u8")[:, 0]
    return places


def _merge(domain: Domain, array: pa.Array, codes: Codes, outside: np.ndarray) -> np.ndarray:
    """Merge rare values into the category for others or the nearest number; return what is left outside."""
    assert isinstance(domain, Categories)
    valid = array.is_valid().to_numpy(zero_copy_only=False)[outside]
    rows, left = outside[valid], outside[~valid]
    if OTHER in domain.values:
        codes[rows] = domain.values.index(OTHER)
        return left
    codes[rows] = domain.nearest(dtypes.carrier(array)[rows])
    return left

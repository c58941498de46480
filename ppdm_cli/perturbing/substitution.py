"""Perturbation for one batch (Algorithm 1 of Dowd et al.): values to codes, to perturbed codes, to values.

It is a pure function of the batch and the addresses of its rows; counts for the checks are collected too. If
records differ in their recipes, a record's follows from a key, the design's digest and its address or
identifier: first its round, then its recipe from the design of that round alone. A channel's coins follow from
the whole channel and the record's codes in it, never from the recipe's number (docs/technical/method.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Codes, code_type
from ppdm_cli.channels import Channel, uniform_below_wide
from ppdm_cli.coins import CELLS, Coins, Key, places_of, uniform_cells
from ppdm_cli.domain import OTHER, Categories, Domain
from ppdm_cli.engine import Batch, Made
from ppdm_cli.perturbing.recipe_choice import digested
from ppdm_cli.perturbing.record_keys import addresses, thinned
from ppdm_cli.perturbing.resolving import ResolvedPlan, attribute_facts
from ppdm_cli.perturbing.row_order import RowBlocks
from ppdm_cli.releases import WideColumn, in_rounds
from ppdm_cli.sidecar import COLUMN, Attribute

_LOOKED_AT = 1 << 12
"""The number of values of a batch that show whether nearly all are in one bin."""


@dataclass
class Outside:
    """The number of a column's values outside its domain, and the place of the first."""

    count: int
    first: str
    null: bool


@dataclass
class Checks:
    """The facts about the rows so far; merged in their order."""

    order: RowBlocks | None = None
    """True codes of perturbed attributes, values of kept columns and of the identifier."""
    outside: dict[str, Outside] = field(default_factory=dict)
    identifiers: list[Addresses] = field(default_factory=list)
    rows: int = 0
    bins: dict[str, np.ndarray] = field(default_factory=dict)
    """The number of some values in each bin that is from the data."""
    distinct: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The rows of the largest batch, and their number of values, for kept labels and whole numbers."""
    changed: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    """The number of each attribute's values outside its domain that moved to its nearest bin or to null."""
    merged: Counter[str] = field(default_factory=Counter)
    """The number of values that were merged, into a more common one or into all others."""
    values: Counter[str] = field(default_factory=Counter)
    """The number of all values without nulls."""
    pairs: RowBlocks | None = None
    """Some records before and after noise that keeps a tree."""

    def merge(self, after: Checks) -> None:
        for kept in ("order", "pairs"):
            mine, other = getattr(self, kept), getattr(after, kept)
            if mine is None:
                setattr(self, kept, other)
            elif other is not None:
                mine.merge(other)
        for name, outside in after.outside.items():
            if name in self.outside:
                self.outside[name].count += outside.count
            else:
                self.outside[name] = outside
        for name, own in after.bins.items():
            self.bins[name] = self.bins.get(name, 0) + own
        for name, found in after.distinct.items():
            self.distinct[name] = max(self.distinct.get(name, found), found)
        self.identifiers.extend(after.identifiers)
        self.rows += after.rows
        for counts in ("changed", "moved", "merged", "values"):
            getattr(self, counts).update(getattr(after, counts))


@dataclass(frozen=True)
class Drawn(Batch):
    """Published records whose addresses are random, so that nothing depends on the place of a row."""

    coins: Addresses

    @property
    def addresses(self) -> Addresses:
        return self.coins


class OwnersTask:
    """The base of an owner's tasks, which threads share: a plan, places in a random order, facts to collect."""

    schema: pa.Schema
    """The schema to write; text may be a dictionary of it."""

    def __init__(self, plan: ResolvedPlan, key: Key, shuffle: bool) -> None:
        self.plan = plan
        # under a key file too, fresh places: with the same ones two releases could be laid side by side
        places = key if key.origin == "seeded" else Key.fresh()
        self._places_key = places.derive("shuffle") if shuffle else None

    @property
    def columns(self) -> list[str]:
        """Return the columns that must be read."""
        return self.plan.columns

    def _made(
        self,
        batch: Batch,
        addresses: Addresses,
        columns: list[pa.Array],
        compared: Mapping[str, Codes | pa.Array],
        checks: Checks,
    ) -> Made[Checks]:
        """Return the output of a batch; its order is tested on the `compared` columns, unless it is random."""
        places = None
        if self._places_key is None:
            checks.order = RowBlocks.of(batch.first_row, batch.rows, compared)
        else:
            places = places_of(Coins(self._places_key), addresses)
        typed = pa.schema([f.with_type(c.type) for f, c in zip(self.schema, columns, strict=True)])
        return Made(pa.RecordBatch.from_arrays(columns, schema=typed), checks, places)


class Substituter(OwnersTask):
    """Perturbs batches by a plan and a key."""

    def __init__(
        self,
        plan: ResolvedPlan,
        key: Key,
        *,
        identifier: str | None,
        shuffle: bool,
        left_out: np.ndarray | None = None,
    ) -> None:
        """Store the numbers of rows that are `left_out`, if persons have at most so many."""
        super().__init__(plan, key, shuffle)
        self._key, self._identifier = key, identifier
        self._outside = {a.name: a.outside for a in plan.attributes}
        self._binned = {a.name for a in plan.attributes if a.domain_from == "data" and a.type == "continuous"}
        self._left_out = left_out
        self._recipes = (Withholder if plan.design else AllPublished)(plan, key)
        self.schema = pa.schema(
            [pa.field(a.name, a.kind) if a.role == "kept" else self._recipes.field(a) for a in plan.attributes]
        )
        for beside in self._recipes.beside:
            self.schema = self.schema.append(beside)

    def report(self, _: Checks) -> None:
        """Return nothing beyond what every release says."""

    def for_copy(self, number: int) -> Substituter:
        """Return the same with the coins of another copy; a shuffled row has one place in all of them."""
        if number == 1:
            return self
        other = copy(self)
        key = Key(self._key.derive("copy", number), self._key.origin)
        other._recipes = AllPublished(self.plan, key)
        return other

    @cached_property
    def _domains(self) -> dict[str, Domain]:
        return {a.name: a.domain for a in self.plan.attributes if a.role == "perturbed"}

    @cached_property
    def _kept(self) -> list[str]:
        """Return the kept columns that may be identifiers."""
        kept = {a.name: a.kind for a in self.plan.attributes if a.role == "kept"}
        return [n for n, kind in kept.items() if pa.types.is_string(kind) or pa.types.is_integer(kind)]

    @property
    def columns(self) -> list[str]:
        """Return the columns that must be read."""
        names = self.plan.columns
        return names if self._identifier in (None, *names) else [*names, str(self._identifier)]

    def __call__(self, batch: Batch) -> Made[Checks]:
        here = addresses(batch, self._identifier, self._key)
        if self._left_out is not None:
            batch = thinned(batch, self._left_out)
            here = here[batch.were]
        checks = Checks(rows=batch.rows)
        if self._identifier is not None:
            checks.identifiers.append(here)
        compared: dict[str, Codes | pa.Array] = {n: batch.column(n) for n in self.columns}
        checks.distinct = {n: _distinct(batch.column(n)) for n in self._kept}
        own = {n: self._encoded(n, d, batch, checks) for n, d in self._domains.items()}
        compared |= own
        perturbed, some = self._recipes.published(own, batch, here), self._left_out is not None
        columns = [perturbed[n] if n in perturbed else used(batch.column(n), some) for n in self.schema.names]
        return self._made(batch, here, columns, compared, checks)

    def so_far(self, batch: Batch) -> Drawn:
        """Return the published records of the rounds so far: all that a later round may use."""
        done = self(batch).rows
        there = np.flatnonzero(done.column(COLUMN).to_numpy() != UNDECIDED)
        own = addresses(batch, self._identifier, self._key)
        own = own if self._left_out is None else own[thinned(batch, self._left_out).were]
        coins = places_of(Coins(self._key.derive("fold")), own[there])
        return Drawn(done.take(pa.array(there)), batch.index, batch.first_row, batch.file, 0, coins)

    def _encoded(self, name: str, domain: Domain, batch: Batch, checks: Checks) -> Codes:
        array = batch.column(name)
        encoded, how = domain.encode(array), self._outside[name]
        codes, outside = encoded.codes, encoded.outside
        if how is not UNSET:
            found = len(outside)
            outside = (_to_other if how == "other" else _moved)(domain, array, codes, outside)
            if isinstance(domain, Categories) and how == "other":  # a file of groups has such values too
                checks.merged[name] += int((codes == domain.values.index(OTHER)).sum())
            else:
                counts = checks.merged if name in self.plan.merging else checks.moved
                counts[name] += found - len(outside)
            checks.values[name] += len(array) - array.null_count
        if outside.size:
            row = int(outside[0])
            null = bool(not array[row].is_valid)
            checks.outside[name] = Outside(len(outside), batch.where(row), null)
            codes[outside] = 0
        if name in self._binned:
            some = codes[:: len(codes) // _LOOKED_AT + 1]
            checks.bins[name] = np.bincount(some, minlength=domain.size)[: domain.ordinary]
        return codes


def _distinct(array: pa.Array) -> tuple[int, int]:
    if pa.types.is_dictionary(array.type):
        return len(array), int(_used_entries(array).sum())
    return len(array), pc.count_distinct(array).as_py()


def _used_entries(array: pa.DictionaryArray) -> np.ndarray:
    """Return which entries of a dictionary have a row; mostly the first few rows show it."""
    indices = dtypes.carrier(array.indices.drop_null() if array.null_count else array.indices)
    there = np.zeros(len(array.dictionary), bool)
    for start in range(0, len(indices), CELLS):
        there[indices[start : start + CELLS]] = True
        if there.all():
            break
    return there


def used(array: pa.Array, some: bool = False) -> pa.Array:
    """Return a dictionary without the entries that no row uses: they may be values of rows left out.

    If only `some` of the rows are here, its entries are in order: else theirs would reveal the others.
    """
    if not pa.types.is_dictionary(array.type):
        return array
    there = _used_entries(array)
    if there.all() and not some:
        return array
    entries, places = array.dictionary.filter(pa.array(there)), np.cumsum(there) - 1
    if some:
        order = pc.sort_indices(entries)
        entries, places = entries.take(order), np.argsort(order.to_numpy())[places]
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)).take(array.indices), entries)


def _moved(domain: Domain, array: pa.Array, codes: Codes, outside: np.ndarray) -> np.ndarray:
    """Give values outside a domain their nearest codes, or null's; return the rest."""
    if not outside.size:
        return outside
    again = domain.encode(array.take(pa.array(outside)), clip=True)
    codes[outside] = again.codes
    return outside[again.outside]


def _to_other(domain: Domain, array: pa.Array, codes: Codes, outside: np.ndarray) -> np.ndarray:
    """Give values outside a domain the code of all others; return the rest, which is null."""
    assert isinstance(domain, Categories)
    valid = array.is_valid().to_numpy(zero_copy_only=False)[outside]
    codes[outside[valid]] = domain.values.index(OTHER)
    return outside[~valid]


UNDECIDED = np.iinfo(np.uint16).max
"""The recipe of records in rounds to come."""


@dataclass(frozen=True, eq=False)
class WeightedDraw:
    """A draw of one of several numbers by their weights, for each record.

    It depends on the weights' ratios alone: those of a round are scaled when another round is added, and its
    records must get the recipe by which they answered when that round was chosen.
    """

    coin: bytes
    weights: Sequence[int]

    @cached_property
    def _ratios(self) -> list[int]:
        common = gcd(*self.weights)
        return [w // common for w in self.weights]

    @cached_property
    def _bounds(self) -> np.ndarray:
        """Return the ends of the draws of each number, below the sum of the weights."""
        return np.cumsum(np.array(self._ratios, np.uint64), dtype=np.uint64)

    def drawn(self, addresses: Addresses) -> np.ndarray:
        """Return the number that each of up to `CELLS` records gets."""
        coins = Coins(self.coin)

        def blocks(retry: int, rows: np.ndarray | None = None) -> np.ndarray:
            return coins.words(addresses if rows is None else addresses[rows], 0, retry)

        u = uniform_below_wide(int(self._bounds[-1]), blocks)
        if len({*self._ratios}) > 1:
            return np.searchsorted(self._bounds, u.astype(np.uint64), side="right")
        return np.asarray(u)


class AllPublished:
    """Publishes by the one recipe of all records, channel by channel."""

    beside: tuple[pa.Field, ...] = ()

    def __init__(self, plan: ResolvedPlan, key: Key) -> None:
        known = {a.name: a for a in plan.attributes}
        self._through = plan.through
        self._ready = [(c, prepared(c, known, key)) for c in plan.channels]

    def field(self, attribute: Attribute) -> pa.Field:
        name = attribute.name
        return pa.field(name, self._through[name].published_domain(name).kind, attribute.nulls is True)

    def published(self, codes: Mapping[str, Codes], batch: Batch, addresses: Addresses) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        for channel, keys in self._ready:
            names = channel.attributes
            true = channel.domain.joined([codes[n] for n in names])
            made = channel.publish(true, batch.column(names[0]), addresses, keys)
            columns |= zip(names, [made] if len(names) == 1 else made.flatten(), strict=True)
        return columns


class Withholder:
    """Publishes by each record's own recipe, which a coin chooses, and withholds the other attributes."""

    beside = (pa.field(COLUMN, pa.uint16(), False),)

    def __init__(self, plan: ResolvedPlan, key: Key) -> None:
        rounds = in_rounds(plan.in_use)
        self._firsts = [r[0].number for r in rounds]
        self._rounds, coins = None, [key.derive("recipe", plan.design)]
        if len(plan.shares) > 1:
            self._rounds = WeightedDraw(key.derive("round", plan.shares, plan.facts), plan.shares)
            bare = [msgspec.structs.replace(r, weight=UNSET) for r in plan.recipes]
            own = [[r for r in bare if r.round == n] for n in range(1, len(rounds) + 1)]
            coins = [key.derive("recipe", digested(r, plan.facts)) for r in own]
        self._lots = [WeightedDraw(c, [d.weight for d in r]) for c, r in zip(coins, rounds, strict=True)]
        known = {a.name: a for a in plan.attributes}
        wide = {n: WideColumn(known[n]) for n in plan.through}
        self._ready = [
            [(c, prepared(c, known, key)["perturb"], _column_codes(c, wide)) for c in d.channels]
            for d in plan.in_use
        ]
        self._columns = {
            n: (w.domain, key.derive("representative", *attribute_facts(w.attribute))) for n, w in wide.items()
        }

    def recipes(self, addresses: Addresses) -> np.ndarray:
        """Return the number of each record's recipe; `UNDECIDED` in rounds whose recipes are not chosen yet."""
        found = np.full(len(addresses), UNDECIDED, np.uint16)
        for start in range(0, len(addresses), CELLS):
            here = addresses[start : start + CELLS]
            rounds = np.zeros(len(here), np.intp) if self._rounds is None else self._rounds.drawn(here)
            for number, (lot, first) in enumerate(zip(self._lots, self._firsts, strict=True)):
                rows = np.flatnonzero(rounds == number) if self._rounds is not None else slice(None)
                if len(own := here[rows]):
                    found[start : start + CELLS][rows] = first + lot.drawn(own)
        return found

    def field(self, attribute: Attribute) -> pa.Field:
        return pa.field(attribute.name, self._columns[attribute.name][0].kind)

    def published(self, codes: Mapping[str, Codes], _: object, addresses: Addresses) -> dict[str, pa.Array]:
        """Return the perturbed columns, with nulls for withheld cells, and the column of recipes."""
        numbers = self.recipes(addresses)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(self._ready) + 1))
        out = {n: np.full(len(numbers), d.null_code, code_type(d.size)) for n, (d, _) in self._columns.items()}
        for number, ready in enumerate(self._ready):
            rows = order[ends[number] : ends[number + 1]]
            for channel, coins, lists in ready if len(rows) else []:
                true = channel.domain.joined([codes[n][rows] for n in channel.attributes])
                drawn = channel.published.split(channel.drawn(true, Coins(coins), addresses[rows]))
                for name, own, to in zip(channel.attributes, drawn, lists, strict=True):
                    out[name][rows] = to.take(own)
        columns = {COLUMN: pa.array(numbers)}
        for name, (domain, key) in self._columns.items():
            within = uniform_cells(Coins(key), addresses, out[name]) if domain.is_random else None
            columns[name] = domain.column(out[name], within)
        return columns


def _column_codes(channel: Channel, wide: Mapping[str, WideColumn]) -> list[np.ndarray]:
    """Return the code of each attribute's column that shows each code of the channel."""
    own = [wide[n] for n in channel.attributes]
    return [w.maps(channel)[0].astype(code_type(w.domain.size)) for w in own]


def prepared(channel: Channel, known: Mapping[str, Attribute], key: Key) -> dict[str, bytes]:
    """Return a channel's keys, by purpose: they follow from its attributes' domains and its law."""
    assert channel.spec is not None
    own = [attribute_facts(known[n]) for n in channel.attributes]
    decides = (*own[0], channel.spec.decides) if len(own) == 1 else (own, channel.spec.decides)
    return {p: key.derive(p, *decides) for p in ("perturb", "representative")}

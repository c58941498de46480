"""Records that publish a few of their attributes: which ones, by a coin that sees no value, and what of them.

A record's recipe follows from a key, the design's digest and the record's address or identifier; where there
are rounds, first its round does, and then the recipe from the design of that round alone. A channel's coins
follow from the whole channel and the record's codes in it, never from the recipe's number (maths 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli.arrays import Addresses, Codes, code_type
from ppdm_cli.channels import Channel, uniform_below_wide
from ppdm_cli.coins import CELLS, Coins, Key, uniform
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.perturbing.keys import Ready, attribute_facts, prepared
from ppdm_cli.perturbing.publishing import digested
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.releases import WideColumn, in_rounds
from ppdm_cli.sidecar import COLUMN

UNDECIDED = np.iinfo(np.uint16).max
"""The recipe of records in rounds to come."""


@dataclass(frozen=True, eq=False)
class Lot:
    """A draw of one of several things by their weights, for each record.

    It hangs on the weights' ratios alone: those of a round are scaled when another round is added, and its
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
        """Return where the numbers of each thing end, below the sum of the weights."""
        return np.cumsum(np.array(self._ratios, np.uint64), dtype=np.uint64)

    def drawn(self, addresses: Addresses) -> np.ndarray:
        """Return which thing each of up to `CELLS` records gets."""
        coins = Coins(self.coin)

        def blocks(retry: int, rows: np.ndarray | None = None) -> np.ndarray:
            return coins.words(addresses if rows is None else addresses[rows], 0, retry)

        u = uniform_below_wide(int(self._bounds[-1]), blocks)
        if len({*self._ratios}) > 1:
            return np.searchsorted(self._bounds, u.astype(np.uint64), side="right")
        return np.asarray(u)


class Withholder:
    """Deals recipes to records, and publishes by them."""

    def __init__(self, plan: ResolvedPlan, key: Key) -> None:
        rounds = in_rounds(plan.dealt)
        self._firsts = [r[0].number for r in rounds]
        self._rounds, coins = None, [key.derive("recipe", plan.digest)]
        if len(plan.shares) > 1:
            self._rounds = Lot(key.derive("round", plan.shares, plan.facts), plan.shares)
            bare = [msgspec.structs.replace(r, weight=UNSET) for r in plan.several]
            own = [[r for r in bare if r.round == n] for n in range(1, len(rounds) + 1)]
            coins = [key.derive("recipe", digested(r, plan.facts)) for r in own]
        self._lots = [Lot(c, [d.weight for d in r]) for c, r in zip(coins, rounds, strict=True)]
        known = {a.name: a for a in plan.attributes}
        wide = {n: WideColumn(known[n]) for n in plan.through}
        self._ready = [[(prepared(c, known, key), _places(c, wide)) for c in d.channels] for d in plan.dealt]
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

    def published(self, codes: Mapping[str, Codes], addresses: Addresses) -> dict[str, pa.Array]:
        """Return the perturbed columns, with nulls for what is withheld, and the column of recipes."""
        numbers = self.recipes(addresses)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(self._ready) + 1))
        out = {n: np.full(len(numbers), d.null_code, code_type(d.size)) for n, (d, _) in self._columns.items()}
        for number, ready in enumerate(self._ready):
            rows = order[ends[number] : ends[number + 1]]
            for one, places in ready if len(rows) else []:
                _publish(one, places, rows, codes, addresses, out)
        columns = {n: self._decoded(d, key, out[n], addresses) for n, (d, key) in self._columns.items()}
        return columns | {COLUMN: pa.array(numbers)}

    def _decoded(self, domain: Domain, key: bytes, codes: Codes, addresses: Addresses) -> pa.Array:
        within = None
        if isinstance(domain, Bins) and domain.representative == "random":
            within = uniform(Coins(key), addresses, codes)
        return domain.column(codes, within)


def _places(channel: Channel, wide: Mapping[str, WideColumn]) -> list[np.ndarray]:
    """Return for each attribute the code of its column that shows each code of the channel."""
    own = [wide[n] for n in channel.attributes]
    return [w.codes_of(channel).astype(code_type(w.domain.size)) for w in own]


def _publish(
    ready: Ready,
    places: Sequence[np.ndarray],
    rows: np.ndarray,
    codes: Mapping[str, Codes],
    addresses: Addresses,
    out: Mapping[str, np.ndarray],
) -> None:
    """Draw what a channel publishes of some rows into the columns' codes."""
    channel = ready.channel
    true = channel.domain.joined([codes[n][rows] for n in channel.attributes])
    drawn = channel.published.split(channel.drawn(true, Coins(ready.keys["perturb"]), addresses[rows]))
    for name, own, shown in zip(channel.attributes, drawn, places, strict=True):
        out[name][rows] = shown.take(own)

"""Records that publish a few of their attributes: which ones, by a coin that sees no value, and what of them.

A record's recipe follows from a key, the design's digest and the record's address or identifier. A channel's
coins follow from the whole channel and the record's codes in it, never from the recipe's number (maths 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Addresses, Codes, code_type
from ppdm_cli.channels import uniform_below_wide
from ppdm_cli.coins import CELLS, Coins, Key, uniform
from ppdm_cli.domain import Bins
from ppdm_cli.perturbing.keys import Ready, attribute_facts, prepared
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.sidecar_attributes import Attribute
from ppdm_cli.sidecar_recipes import COLUMN


class Withholder:
    """Deals recipes to records, and publishes by them."""

    def __init__(self, plan: ResolvedPlan, key: Key) -> None:
        self._plan = plan
        self._coin = key.derive("recipe", plan.digest)
        known = {a.name: a for a in plan.attributes}
        self._ready = [[prepared(c, known, key) for c in d.channels] for d in plan.dealt]
        self._columns = {
            n: (known[n], key.derive("representative", *attribute_facts(known[n]))) for n in plan.through
        }

    @cached_property
    def _bounds(self) -> np.ndarray:
        """Return where the numbers of each recipe end, below the sum of the weights."""
        return np.cumsum(np.array([d.weight for d in self._plan.dealt], np.uint64), dtype=np.uint64)

    def recipes(self, addresses: Addresses) -> np.ndarray:
        """Return the number of each record's recipe."""
        coins, found = Coins(self._coin), np.empty(len(addresses), np.uint16)
        for start in range(0, len(addresses), CELLS):
            here = addresses[start : start + CELLS]

            def blocks(retry: int, rows: np.ndarray | None = None, here: Addresses = here) -> np.ndarray:
                return coins.words(here if rows is None else here[rows], 0, retry)

            u = uniform_below_wide(int(self._bounds[-1]), blocks)
            found[start : start + CELLS] = self._number(u)
        return found

    def _number(self, u: np.ndarray) -> np.ndarray:
        """Return whose number below the sum of the weights each u is."""
        weights = {d.weight for d in self._plan.dealt}
        if len(weights) > 1:
            return np.searchsorted(self._bounds, u.astype(np.uint64), side="right")
        return np.asarray(u // u.dtype.type(weights.pop()))

    def published(self, codes: Mapping[str, Codes], addresses: Addresses) -> dict[str, pa.Array]:
        """Return the perturbed columns, with nulls for what is withheld, and the column of recipes."""
        numbers = self.recipes(addresses)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(self._ready) + 1))
        out = {
            n: np.full(len(numbers), a.column.null_code, code_type(a.column.size))
            for n, (a, _) in self._columns.items()
        }
        for number, ready in enumerate(self._ready):
            rows = order[ends[number] : ends[number + 1]]
            for one in ready if len(rows) else []:
                self._publish(one, rows, codes, addresses, out)
        columns = {n: self._decoded(a, key, out[n], addresses) for n, (a, key) in self._columns.items()}
        return columns | {COLUMN: pa.array(numbers)}

    def _publish(
        self,
        ready: Ready,
        rows: np.ndarray,
        codes: Mapping[str, Codes],
        addresses: Addresses,
        out: Mapping[str, np.ndarray],
    ) -> None:
        """Draw what a channel publishes of some rows into the columns' codes."""
        channel = ready.channel
        true = channel.domain.joined([codes[n][rows] for n in channel.attributes])
        drawn = channel.drawn(true, Coins(ready.keys["perturb"]), addresses[rows])
        parts = zip(channel.attributes, channel.published.parts, channel.published.split(drawn), strict=True)
        for name, shown, part in parts:
            attribute = self._columns[name][0]
            placed = part.astype(out[name].dtype) + out[name].dtype.type(attribute.offset(channel))
            if shown.nulls:
                placed[part == shown.null_code] = attribute.column.null_code
            out[name][rows] = placed

    def _decoded(self, attribute: Attribute, key: bytes, codes: Codes, addresses: Addresses) -> pa.Array:
        domain, within = attribute.column, None
        if isinstance(domain, Bins) and domain.representative == "random":
            within = uniform(Coins(key), addresses, codes)
        return domain.column(codes, within)

"""Noise that keeps a decision tree, over a whole table: one pass counts the leaves, the other alters values.

Islam and Brankovic 2004. No gamma holds for it, and the sidecar says so; the report tells what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli import sidecar as sidecars
from ppdm_cli.arrays import Addresses
from ppdm_cli.coins import Coins, Key, places_of
from ppdm_cli.engine import Batch, Made, scan
from ppdm_cli.errors import DataError, RefusedError, UsageError, quoted
from ppdm_cli.perturbing.class_noise import ClassNoise
from ppdm_cli.perturbing.innocent_noise import Noise, Range
from ppdm_cli.perturbing.order import Sample
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.perturbing.substitution import Checks, used
from ppdm_cli.perturbing.tree_schemes import NoisePlan
from ppdm_cli.releases import decode
from ppdm_cli.sidecar import Attribute, Privacy, Sidecar
from ppdm_cli.tables import Table
from ppdm_cli.trees import Membership, check_columns

RANKS = 16
"""Classes of equal width that the order of the rows is looked at by."""


@dataclass(frozen=True, eq=False)
class Counted:
    """What the first pass knows of a partition."""

    counts: np.ndarray
    """Records by (leaf, class)."""
    sure: np.ndarray
    unsure: np.ndarray
    ranges: dict[str, Range]


class Counter:
    """Counts a batch's records by leaf and class, and the ranges of the attributes to be altered."""

    def __init__(self, membership: Membership, altered: list[str]) -> None:
        self._membership, self._altered = membership, altered
        self._shape = len(membership.nodes), len(membership.tree.labels)

    def __call__(self, batch: Batch) -> Counted:
        (leaf, sure), class_ = self._membership.leaves(batch), self._membership.classes(batch)
        places, shape = leaf * self._shape[1] + class_, self._shape
        counts, certain = (
            np.bincount(p, minlength=shape[0] * shape[1]).reshape(shape) for p in (places, places[sure])
        )
        unsure = np.bincount(class_[~sure], minlength=shape[1])
        return Counted(counts, certain, unsure, {n: Range.of(batch.column(n)) for n in self._altered})


class NoiseAdder:
    """Alters batches by a plan, a tree and a key; holds nothing that changes, so threads share it."""

    def __init__(self, table: Table, plan: NoisePlan, key: Key, shuffle: bool) -> None:
        if not table.rewindable:
            raise UsageError(
                "standard input can be read only once, and leaves are counted first", "name a file"
            )
        plan.check(table.schema)
        check_columns(plan.tree, table.schema)
        self.plan, self.membership = plan, Membership(plan.tree)
        self.class_ = plan.tree.class_name
        names, self.unable = plan.innocents(table.schema)
        self.columns = [n for n in table.schema.names if n not in plan.drop]
        parts = scan(table, Counter(self.membership, names), columns=self.columns)
        if not parts or not (counts := np.stack([p.counts for p in parts])).any():
            raise DataError(f"{quoted(table.name)} has no records", "there is nothing to perturb")
        self.membership.check(sum(p.sure for p in parts), sum(p.unsure for p in parts))  # type: ignore[arg-type]
        self.counts: np.ndarray = counts.sum(axis=0)
        ranges = {n: sum((p.ranges[n] for p in parts), Range()) for n in names}
        self.noises = {
            n: Noise(plan.sd_percent / 100, plan.percent_of == "value", r) for n, r in ranges.items()
        }
        self.noised = {n: self._innocent(n) for n in names}
        scheme = plan.class_scheme
        self.class_noise = ClassNoise.of(scheme, counts, key, self.class_) if scheme else None
        if not any(rows.any() for rows in self.noised.values()) and self.class_noise is None:
            raise RefusedError(
                "no numeric attribute is innocent in any of these leaves: nothing would be altered",
                "train a smaller tree, or let attributes of all kinds be altered in all leaves",
            )
        self._keys = {n: key.derive("innocent", n, plan.sd_percent, plan.percent_of) for n in names}
        places = key if key.origin == "seeded" else Key.fresh()
        self._places_key = places.derive("shuffle") if shuffle else None
        altered = {n for n, rows in self.noised.items() if rows.any()} | ({self.class_} if scheme else set())
        self.resolved = ResolvedPlan(
            [self._attribute(table.schema, n, n in altered) for n in self.columns],
            [],
            self.class_,
            list(plan.drop),
        )
        self.schema = pa.schema([pa.field(a.name, a.kind) for a in self.resolved.attributes])

    def _innocent(self, name: str) -> np.ndarray:
        """Return in which leaves an attribute is altered."""
        tree = self.plan.tree
        tests = [f >= 0 and tree.features[f].name == name for f in tree.feature.tolist()]
        guilty = np.zeros(tree.size, bool)
        for node in range(1, tree.size):
            above = int(tree.parent[node])
            guilty[node] = guilty[above] or tests[above]
        mixed = (self.counts > 0).sum(axis=1) > 1
        found = ~guilty[self.membership.nodes]
        return np.asarray(found & mixed if self.plan.leaves == "heterogeneous" else found)

    def _attribute(self, schema: pa.Schema, name: str, altered: bool) -> Attribute:
        kind = dtypes.normal(schema.field(name).type, name)
        labels: dict[str, Any] = {}
        if name == self.class_:
            values = list(self.plan.tree.labels)
            labels = {"categories": values, "N": len(values), "nulls": False}
        type_: Any = "discrete" if labels or dtypes.is_discrete(kind) else "continuous"
        return Attribute(
            name=name, role="altered" if altered else "kept", type=type_, dtype=str(kind), **labels
        )

    def sidecar(self, key: Key, release: str, rows: int | None) -> Sidecar:
        """Return the sidecar: the schemes, what was altered, and that no gamma is promised."""
        attributes = self.resolved.attributes
        kept = [a.name for a in attributes if a.role == "kept"]
        made = sidecars.new(
            "perturbed", release, rows, attributes, class_=self.class_, scheme=list(self.plan.schemes),
            privacy=Privacy("record", None, None, kept, key.origin, shuffled=self._places_key is not None),
        )  # fmt: skip
        decode(made.encode(), "to be written")
        return made

    def __call__(self, batch: Batch) -> Made[Checks]:
        addresses: Addresses = np.arange(batch.first_row, batch.first_row + batch.rows, dtype=np.uint64)
        checks, columns = Checks(rows=batch.rows), {}
        (leaf, _), class_ = self.membership.leaves(batch), self.membership.classes(batch)
        compared: dict[str, Any] = {}
        pairs: dict[str, Any] = {"leaf": leaf}
        for name in self.columns:
            before = array = batch.column(name)
            compared[name] = array
            if name == self.class_ and self.class_noise is not None:
                codes = self.class_noise(leaf, class_, addresses, batch.index)
                array, compared[name] = self.membership.column(codes), class_
                checks.changed[name] = int((codes != class_).sum())
                pairs["class"] = codes
            elif name in self.noises and self.noised[name].any():
                noise = self.noises[name]
                array = noise.published(before, self.noised[name][leaf], self._keys[name], addresses)
                checks.changed[name] = int(pc.sum(pc.not_equal(before, array)).as_py() or 0)
                numbers = _numbers(before)
                width = max(noise.range.high - noise.range.low, 1e-300)
                ranks = (numbers - noise.range.low) / width * (RANKS - 1)
                compared[name] = np.where(np.isnan(ranks), RANKS, ranks.clip(0, RANKS)).astype(np.uint8)
                pairs[f"before {name}"], pairs[f"after {name}"] = numbers, _numbers(array)
            elif pa.types.is_dictionary(array.type):
                array = used(array)
            columns[name] = array
        pairs.setdefault("class", class_)
        checks.pairs = Sample.of(batch.first_row, batch.rows, pairs)
        places = None
        if self._places_key is None:
            checks.order = Sample.of(batch.first_row, batch.rows, compared)
        else:
            places = places_of(Coins(self._places_key), addresses)
        types = [f.with_type(columns[f.name].type) for f in self.schema]
        return Made(pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(types)), checks, places)


def _numbers(array: pa.Array) -> np.ndarray:
    """Return carriers as floats, missing ones as NaN."""
    values = dtypes.carrier(array).astype(np.float64)
    values[~array.is_valid().to_numpy(zero_copy_only=False)] = np.nan
    return values

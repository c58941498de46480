"""Noise for owners who keep a decision tree (Islam and Brankovic 2004): the plan, the task, the report.

One pass counts the leaves, the other alters values. Every column that is not altered is kept. No gamma holds,
and the sidecar says so. The report has the beliefs of an intruder who knows all altered attributes of a person
and the leaf of each published record; p(X -> Y) is the product over attributes of the probability of the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses
from ppdm_cli.coins import Key
from ppdm_cli.display import percent
from ppdm_cli.engine import Batch, Made, scan
from ppdm_cli.errors import (
    DataError,
    RefusedError,
    UsageError,
    argument,
    counted,
    listed,
    quoted,
    unknown_column,
)
from ppdm_cli.perturbing.noise_laws import ClassNoise, Noise, Range, expected_changes
from ppdm_cli.perturbing.plan import Plan
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.perturbing.row_order import RowBlocks
from ppdm_cli.perturbing.substitution import Checks, OwnersTask, used
from ppdm_cli.sidecar import Attribute, Scheme
from ppdm_cli.tables import Table
from ppdm_cli.trees import Membership, Tree, as_tree, check_tested, rules_of

RANKS = 16
"""The number of classes of equal width for the test of row order."""


def _counted(
    membership: Membership, altered: list[str], batch: Batch
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Range]]:
    """Return a batch's records by (leaf, class), those in sure leaves, the others by class, and the ranges."""
    (leaf, sure), class_ = membership.leaves(batch), membership.classes(batch)
    shape = len(membership.nodes), len(membership.tree.labels)
    places = leaf * shape[1] + class_
    counts, certain = (np.bincount(p, minlength=prod(shape)).reshape(shape) for p in (places, places[sure]))
    unsure = np.bincount(class_[~sure], minlength=shape[1])
    return counts, certain, unsure, {n: Range.of(batch.column(n)) for n in altered}


class NoiseAdder(OwnersTask):
    def __init__(self, table: Table, asked: Plan, key: Key) -> None:
        if not table.rewindable:
            what = "noise that keeps a tree needs two passes, but standard input can be read only once"
            raise UsageError("tree-noise-on-stream", what, "name a file")
        self.noise = plan = NoisePlan.of(asked)
        plan.check(table.schema)
        check_tested(plan.tree, table.schema)
        self.membership, self.class_ = Membership(plan.tree), plan.tree.class_name
        names, self.unable = plan.innocents(table.schema)
        columns = [n for n in table.schema.names if n not in plan.drop]
        parts = scan(table, partial(_counted, self.membership, names), columns=columns)
        if not parts or not (counts := np.stack([p[0] for p in parts])).any():
            raise DataError("no-records", f"{quoted(table.name)} has no records", "add records")
        _, sure, unsure, each = zip(*parts, strict=True)
        self.membership.check(np.sum(sure, axis=0), np.sum(unsure, axis=0))
        self.counts: np.ndarray = counts.sum(axis=0)
        ranges = {n: sum((r[n] for r in each), Range()) for n in names}
        self.noises = {
            n: Noise(plan.sd_percent / 100, plan.percent_of == "value", r) for n, r in ranges.items()
        }
        self.noised = {n: self._innocent(n) for n in names}
        scheme = plan.class_scheme
        self.class_noise = ClassNoise.of(scheme, counts, key, self.class_) if scheme else None
        altered = {n for n, rows in self.noised.items() if rows.any()} | ({self.class_} if scheme else set())
        if not altered:
            what = "no numeric attribute is innocent in any of these leaves: nothing would be altered"
            step = "train a smaller tree, or let attributes of all kinds be altered in all leaves"
            raise RefusedError("nothing-altered", what, step)
        self._keys = {n: key.derive("innocent", n, plan.sd_percent, plan.percent_of) for n in names}
        attributes = [self._attribute(table.schema, n, n in altered) for n in columns]
        resolved = ResolvedPlan(attributes, [], self.class_, list(plan.drop), scheme=plan.schemes)
        super().__init__(resolved, key, bool(asked.shuffle))
        self.schema = pa.schema([pa.field(a.name, a.kind) for a in attributes])

    def for_copy(self, _: int) -> NoiseAdder:
        """Return the task itself: noise is published once."""
        return self

    def report(self, checks: Checks) -> NoiseReport:
        counts, tree = self.counts, self.noise.tree
        wrong = None if self.class_noise is None else self.class_noise.wrong()
        weights = np.ones(counts.shape) if self.noise.class_scheme == "class-all-leaves" else counts
        rules, leaves = rules_of(tree), []
        for number, node in enumerate(self.membership.nodes.tolist()):
            held, most = int(counts[number].sum()), int(counts[number].argmax())
            if held:
                leaf: dict[str, Any] = {"rule": rules[node], "class": tree.labels[most], "records": held}
                leaf["others"] = held - int(counts[number, most])
                if wrong is not None:
                    own = np.flatnonzero(weights[number])
                    leaf["wrong"] = {str(tree.labels[c]): float(wrong[number, c]) for c in own}
                leaves.append(leaf)
        expected = expected_changes(counts) if wrong is not None else 0.0
        altered = [n for n, rows in self.noised.items() if rows.any()]
        return NoiseReport(
            self.noise.schemes, checks.rows, expected, dict(checks.changed), self.class_, leaves,
            _intruder(self, checks, altered), self.unable, altered,
        )  # fmt: skip

    def _innocent(self, name: str) -> np.ndarray:
        """Return the leaves in which an attribute is altered."""
        tree = self.noise.tree
        tests = [f >= 0 and tree.features[f].name == name for f in tree.feature.tolist()]
        guilty = np.zeros(tree.size, bool)
        for node in range(1, tree.size):
            above = int(tree.parent[node])
            guilty[node] = guilty[above] or tests[above]
        mixed = (self.counts > 0).sum(axis=1) > 1
        found = ~guilty[self.membership.nodes]
        return np.asarray(found & mixed if self.noise.leaves == "heterogeneous" else found)

    def _attribute(self, schema: pa.Schema, name: str, altered: bool) -> Attribute:
        kind = dtypes.normal(schema.field(name).type, name)
        labels: dict[str, Any] = {}
        if name == self.class_:
            values = list(self.noise.tree.labels)
            labels = {"categories": values, "N": len(values), "nulls": False}
        type_: Any = "discrete" if labels or dtypes.is_discrete(kind) else "continuous"
        return Attribute(
            name=name, role="altered" if altered else "kept", type=type_, dtype=str(kind), **labels
        )

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
        checks.pairs = RowBlocks.of(batch.first_row, batch.rows, pairs)
        return self._made(batch, addresses, list(columns.values()), compared, checks)


def _numbers(array: pa.Array) -> np.ndarray:
    """Return carriers as floats, missing ones as NaN."""
    values = dtypes.carrier(array).astype(np.float64)
    values[~array.is_valid().to_numpy(zero_copy_only=False)] = np.nan
    return values


SCHEMES: tuple[str, ...] = get_args(Scheme)
INNOCENT = SCHEMES[-1]
PAPER = 27.6
"""The standard deviation of the paper's noise, in per cent of the value."""


@dataclass(frozen=True)
class NoisePlan:
    schemes: tuple[Any, ...]
    tree: Tree
    innocent: str = "both"
    """`tia`: attributes that the tree tests nowhere; `lia`: those tested elsewhere than on a leaf's path."""
    leaves: str = "all"
    """The leaves whose records get other innocent attributes: all, or only heterogeneous ones."""
    sd_percent: float = PAPER
    percent_of: str = "value"
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Plan) -> NoisePlan:
        """Return the noise that a plan asks for; settings of random substitution are refused."""
        schemes = asked.schemes
        if len({*schemes}) < len(schemes) or sum(s != INNOCENT for s in schemes) > 1 or {*schemes} - {*SCHEMES}:
            what = f"{quoted(','.join(schemes))} are schemes that can't be combined"
            step = f"use one of {', '.join(SCHEMES[:-1])}, or {INNOCENT}, or one with {INNOCENT} after a comma"
            raise UsageError("schemes-not-together", what, step)
        if asked.tree is None:
            what = f"{schemes[0]} noise keeps a tree, but none is named"
            step = f"train it on this very table (ppdm train-tree), and add {argument('tree', 'tree.json')}"
            raise UsageError("no-tree", what, step)
        tree = as_tree(asked.tree)
        tree.check_single()
        settings = ("innocent", "leaves", "sd_percent", "percent_of")
        own = {k: v for k in settings if (v := getattr(asked, k)) is not None}
        if own and INNOCENT not in schemes:
            what = f"{listed(own)} need innocent noise"
            raise UsageError("innocent-noise-alone", what, f"add innocent to {argument('scheme')}")
        if not 0 < own.get("sd_percent", PAPER) <= 1e6:
            what = "the standard deviation must be above 0%"
            raise UsageError("bad-sd-percent", what, f"use a positive one, such as the paper's {PAPER}")
        if asked.class_ not in (None, tree.class_name):
            what = f"the tree's class is {quoted(tree.class_name)}"
            raise UsageError("other-class", what, f"leave out {argument('class_')}")
        known, plain = {*settings, "scheme", "tree", "class_", "keep", "drop", "shuffle", "keep_order"}, Plan()
        fields = (n for n in asked.__struct_fields__ if n not in {*known, "csv"})
        if strange := [n for n in fields if getattr(asked, n) != getattr(plain, n)]:
            what = f"{schemes[0]} noise can't be combined with {listed(strange)}, for random substitution"
            raise UsageError("not-for-tree-noise", what, "leave them out")
        return cls(schemes, tree, **own, keep=tuple(asked.keep), drop=tuple(asked.drop))

    @property
    def class_scheme(self) -> str | None:
        return next((s for s in self.schemes if s != INNOCENT), None)

    @property
    def tested(self) -> set[str]:
        return {self.tree.features[i].name for i in self.tree.feature.tolist() if i >= 0}

    def check(self, schema: pa.Schema) -> None:
        """Check that the columns are the tree's, or are kept or dropped by name."""
        tree = self.tree
        known = [f.name for f in tree.features] + [tree.class_name]
        for option, asked in (("keep", self.keep), ("drop", self.drop)):
            for name in asked:
                if name not in schema.names:
                    raise unknown_column(name, schema.names, option)
        if lost := sorted((self.tested | {tree.class_name}) & {*self.drop}):
            raise UsageError(
                "tree-needs-column", f"{listed(lost)} cannot be dropped: the tree needs them", "keep them"
            )
        if self.class_scheme and tree.class_name in self.keep:
            what = f"the class is kept, but {self.class_scheme} noise alters it"
            raise UsageError("altered-class-kept", what, f"leave out {argument('keep')}")
        if tree.class_name not in schema.names:
            raise unknown_column(tree.class_name, schema.names, "tree")
        strange = [n for n in schema.names if n not in {*known, *self.keep, *self.drop}]
        if strange:
            what = f"the tree was not trained on {listed(strange)}, so they may not be innocent"
            raise UsageError("strange-to-tree", what, "drop them, or keep them if they are public")

    def innocents(self, schema: pa.Schema) -> tuple[list[str], list[str]]:
        """Return the attributes that may be altered, and those that are innocent but cannot take noise."""
        if INNOCENT not in self.schemes:
            return [], []
        able, unable, tested = list[str](), list[str](), self.tested
        for name in (n for n in schema.names if n not in {*self.keep, *self.drop, self.tree.class_name}):
            if (self.innocent == "tia" and name in tested) or (self.innocent == "lia" and name not in tested):
                continue
            kind = dtypes.normal(schema.field(name).type, name)
            plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            takes = (plain or self.percent_of == "sd") and not dtypes.is_discrete(kind) and kind != pa.uint64()
            (able if takes else unable).append(name)
        return able, unable


MOST_CANDIDATES, MOST_SAMPLED = 10_000, 200


@dataclass(frozen=True)
class Intruder:
    """The beliefs of someone who knows a person's altered attributes, on average over some records."""

    records: int
    candidates: int
    bits: float
    """The entropy of the beliefs over the published records."""
    truth: float
    likeliest: float
    """The share of records whose most likely candidate is the right one."""
    class_bits: float
    """The entropy of the beliefs about the published class."""


@dataclass(frozen=True)
class NoiseReport:
    schemes: tuple[str, ...]
    records: int
    expected: float
    changed: dict[str, int]
    class_: str
    leaves: list[dict[str, Any]]
    intruder: Intruder | None
    unable: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        class_changes = self.changed.get(self.class_)
        whom = None if self.intruder is None else vars(self.intruder)
        return {
            "scheme": list(self.schemes),
            "expected_changes": self.expected,
            "actual_changes": class_changes,
            "changed": self.changed,
            "leaves": self.leaves,
            "intruder": whom,
        }

    def sentences(self) -> list[str]:
        """Return the sentences for the owner, also on unprotected attributes."""
        facts = []
        if self.class_ in self.changed:
            actual = self.changed[self.class_]
            facts.append(f"Classes changed: {actual} of {self.records} (expected: {self.expected:.1f}).")
        few = [n for n in self.altered if self.changed.get(n, 0) < self.records / 2]
        if few:
            facts.append(
                f"Fewer than half of the values of {', '.join(few)} changed: noise in percent of the value "
                "leaves zeros and many small numbers. Noise in percent of the attribute's own sd alters "
                "more."
            )
        if self.unable:
            facts.append(
                f"Innocent, but not altered, because noise can't be added to them: {', '.join(self.unable)}."
            )
        if self.intruder is not None:
            i = self.intruder
            facts.append(
                f"An attacker who knows {', '.join(self.altered)} of a person faces {i.bits:.2f} bits of "
                f"doubt among {counted(i.candidates, 'published record')}. The attacker is "
                f"{percent(i.truth)} sure of the right one, and picks it as the most likely in "
                f"{percent(i.likeliest)} of the cases. About its class, {i.class_bits:.2f} bits remain in "
                f"doubt ({counted(i.records, 'record')} tried)."
            )
        pure = [leaf for leaf in self.leaves if not leaf["others"]]
        if pure and "class-all-leaves" not in self.schemes:
            held = sum(leaf["records"] for leaf in pure)
            facts.append(
                f"Not protected: the classes of the {counted(held, 'record')} in {len(pure)} leaves of one "
                "class are published unchanged. Anyone who knows the attributes on the path to such a leaf "
                "knows them."
            )
        facts.append(
            "Not protected: the attributes that the tree tests on a record's own path are published "
            "unchanged, and so is every kept column."
        )
        return facts


def _intruder(work: NoiseAdder, checks: Checks, altered: list[str]) -> Intruder | None:
    if not altered or checks.pairs is None:
        return None
    _, columns = checks.pairs.columns()
    held = {n: np.asarray(c)[:MOST_CANDIDATES] for n, c in columns.items()}
    leaf, class_ = held["leaf"], held["class"]
    n, tried = len(leaf), np.unique(np.linspace(0, len(leaf) - 1, MOST_SAMPLED).astype(int))
    found = []
    for x in tried.tolist():
        logs = np.zeros(n)
        for name in altered:
            known, published = held[f"before {name}"][x], held[f"after {name}"]
            same = (published == known) | (np.isnan(published) & np.isnan(known))
            kept = np.where(same, 0.0, -np.inf)
            logs += np.where(
                work.noised[name][leaf], work.noises[name].likelihood(float(known), published), kept
            )
        weight = np.exp(logs - logs.max())  # the right record's chance is above 0
        weight /= weight.sum()
        by_class = np.bincount(class_, weight)
        best = weight >= weight.max() * (1 - 1e-9)
        found.append((_bits(weight), weight[x], best[x] / best.sum(), _bits(by_class)))
    bits, truth, likeliest, class_bits = np.mean(found, axis=0).tolist()
    return Intruder(len(tried), n, bits, truth, likeliest, class_bits)


def _bits(shares: np.ndarray) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log2(some)).sum())

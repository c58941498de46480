"""Bayesian networks for `train-bayes` and `generate`: nodes, their parameters, and distances between networks.

Parameters have a row for each configuration of the parents, where the last one's states change first, and a
column for each state. An estimate adds standard errors, records and raw columns to the node.

The distance of `train-bayes --compare` is Ma and Sivakumar's (6.2), node by node: the sum over configurations j
of P(pa = j) KL(theta0(.|j) || theta(.|j)), with P and theta0 of the reference. If a reference has no records to
count, P follows from its parameters, by elimination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Floats
from ppdm_cli.display import Displayed
from ppdm_cli.errors import MismatchError, UsageError, counted, listed, quoted
from ppdm_cli.estimating import MOST_CELLS

ROUNDED_BY = 1e-3
"""The largest difference from 1 of the sum of a file's row of parameters: published networks are rounded."""
RECORDS_AT_ONCE = 1 << 16
SAME_STRUCTURE = "compare networks of the same structure and states"


@dataclass(frozen=True, eq=False)
class Node:
    """One node; without states if only a structure is known, without parameters before they are learned."""

    name: str
    parents: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    parameters: Floats | None = None
    std_error: Floats | None = None
    """The standard errors; NaN if not valid."""
    records: Floats | None = None
    """The estimated number of records of each configuration of the parents."""
    raw: tuple[str, ...] = ()
    """The nodes of its family whose columns were not perturbed."""

    @property
    def family(self) -> tuple[str, ...]:
        return (*self.parents, self.name)

    @property
    def exact(self) -> bool:
        """Return whether the parameters were counted from original columns alone: no gamma covers them."""
        return set(self.raw) == set(self.family)


@dataclass(frozen=True)
class NetworkSource:
    """A release that parameters were learned from, with the epsilon that it promises, if it promises one."""

    release: str
    epsilon: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Network(Displayed):
    """A Bayesian network, with its nodes in the order of their file."""

    nodes: dict[str, Node]
    sources: tuple[NetworkSource, ...] = ()

    @classmethod
    def of(cls, nodes: Sequence[Node], sources: Sequence[NetworkSource] = ()) -> Network:
        found = cls({n.name: n for n in nodes}, tuple(sources))
        if len(found.nodes) < max(len(nodes), 1):
            raise ValueError("a node occurs twice" if nodes else "it has no nodes")
        for node in nodes:
            if what := found._wrong(node):
                raise ValueError(f"the node {quoted(node.name)} {what}")
        assert found.order
        return found

    def _wrong(self, node: Node) -> str:
        """Return an error about a node, if any; one with only a structure passes."""
        missing = [p for p in node.parents if p not in self.nodes]
        if missing:
            return f"has the parent {quoted(missing[0])}, which is not a node"
        if len(set(node.family)) <= len(node.parents) or len(set(node.states)) < len(node.states):
            return "has a parent or a state twice, or is its own parent"
        if node.parameters is None:
            return ""
        shape = prod(self.shape(node)[:-1]), len(node.states)
        tables = (node.parameters, node.std_error, None if node.records is None else node.records[:, None])
        if any(t is not None and t.shape not in (shape, (shape[0], 1)) for t in tables):
            return "doesn't have a row of parameters for each configuration of its parents"
        possible = ((node.parameters >= 0) & (node.parameters <= 1 + ROUNDED_BY)).all()
        whole = possible and (np.abs(node.parameters.sum(axis=1) - 1) <= ROUNDED_BY).all()
        return "" if whole else "has parameters that do not sum to 1"

    @cached_property
    def order(self) -> list[str]:
        """Return the names, generation by generation; ValueError for a cycle."""
        waits = {n.name: len(n.parents) for n in self}
        children: dict[str, list[str]] = {n: [] for n in self.nodes}
        for node in self:
            for parent in node.parents:
                children[parent].append(node.name)
        generation = {n: 0 for n, parents in waits.items() if not parents}
        done = list(generation)
        for name in done:  # which grows meanwhile
            for child in children[name]:
                waits[child] -= 1
                if not waits[child]:
                    generation[child] = generation[name] + 1
                    done.append(child)
        if len(done) < len(self.nodes):
            cycle = self._cycle({*self.nodes} - {*done})
            raise ValueError(f"it has a cycle: {' -> '.join(map(quoted, cycle))}")
        return sorted(self.nodes, key=generation.__getitem__)

    def _cycle(self, left: set[str]) -> list[str]:
        """Return the names along a cycle, the first again at the end; each that is left has a parent left."""
        name = next(n for n in self.nodes if n in left)
        walk = dict[str, None]()
        while name not in walk:
            walk[name] = None
            name = next(p for p in self[name].parents if p in left)
        names = list(walk)
        return [*names[names.index(name) :], name][::-1]

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def _words(self) -> list[str]:
        edges = sum(len(n.parents) for n in self)
        return [counted(len(self.nodes), "node"), counted(edges, "edge")]

    def _body(self) -> list[str]:
        return [f"{n.name} | {', '.join(n.parents)}" if n.parents else n.name for n in self]

    def shape(self, node: Node) -> tuple[int, ...]:
        """Return the number of states of each in the family, the node last."""
        return tuple(len(self[n].states) for n in node.family)

    def configurations(self, node: Node) -> list[tuple[str, ...]]:
        """Return the states of the parents in each row."""
        return list(product(*(self[p].states for p in node.parents)))

    def configuration(self, node: Node, row: int) -> str:
        """Return a row's states of the parents for people, such as "smoke = yes, asia = no"."""
        places = np.unravel_index(row, self.shape(node)[:-1]) if node.parents else ()
        return ", ".join(f"{p} = {self[p].states[int(i)]}" for p, i in zip(node.parents, places, strict=True))


def sample(network: Network, records: int, seed: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of the records, a text column for each node, and the records in batches."""
    missing = [n.name for n in network if n.parameters is None]
    if missing:
        what = f"the network has no parameters for {listed(missing)}"
        raise UsageError("network-without-parameters", what, "use one that has them all")
    schema = pa.schema([pa.field(n, pa.string(), False) for n in network.nodes])
    return schema, map(partial(_block, network, schema, records, seed), range(0, records, RECORDS_AT_ONCE))


def _block(network: Network, schema: pa.Schema, records: int, seed: int, start: int) -> pa.RecordBatch:
    rng, rows = np.random.default_rng([seed, start // RECORDS_AT_ONCE]), min(RECORDS_AT_ONCE, records - start)
    codes: dict[str, np.ndarray] = {}
    for name in network.order:
        node = network[name]
        assert node.parameters is not None
        row = np.zeros(rows, np.int64)
        for parent in node.parents:
            row = row * len(network[parent].states) + codes[parent]
        limits = np.cumsum(node.parameters, axis=1)[:, :-1]
        # a state of no chance is never drawn: the uniform numbers are below 1, which rounding may miss
        limits = np.where(limits > 1 - 1e-12, 1.0, limits)
        codes[name] = (rng.random(rows)[:, None] >= limits.take(row, axis=0)).sum(axis=1)
    columns = [pa.array(n.states).take(pa.array(codes[n.name])) for n in network]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class Distance:
    """The distance of one node, in nats; `where` are configurations that make it infinite."""

    node: str
    nats: float
    where: tuple[str, ...] = ()


def distances(reference: Network, learned: Network) -> list[Distance]:
    found = []
    for node in (n for n in learned if n.parameters is not None):
        other = reference.nodes.get(node.name)
        if other is None or other.parameters is None or set(other.parents) != set(node.parents):
            what = f"the reference has no parameters for {quoted(node.name)}, or gives it other parents"
            raise MismatchError("incomparable-node", what, SAME_STRUCTURE)
        order = [other.family.index(n) for n in node.family]
        states = [_codes(learned[n], reference[n]) for n in node.family]
        true, weights = np.zeros(learned.shape(node)), np.zeros(learned.shape(node)[:-1])
        true[np.ix_(*states)] = other.parameters.reshape(reference.shape(other)).transpose(order)
        weights[np.ix_(*states[:-1])] = _shares(reference, other).transpose(order[:-1])
        true = true.reshape(-1, len(node.states))
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(true > 0, true * np.log(true / np.asarray(node.parameters)), 0.0).sum(axis=1)
            each = np.where(weights.ravel() > 0, weights.ravel() * each, 0.0)
        where = (learned.configuration(node, int(j)) for j in np.flatnonzero(np.isinf(each)))
        found.append(Distance(node.name, max(float(each.sum()), 0.0), tuple(where)))
    return found


def _codes(node: Node, other: Node) -> list[int]:
    """Return the place of each state of a reference's node in the learned one's."""
    if set(other.states) - set(node.states):
        what = f"the reference gives the node {quoted(node.name)} other states"
        raise MismatchError("incomparable-states", what, SAME_STRUCTURE)
    return [node.states.index(s) for s in other.states]


def _shares(network: Network, node: Node) -> Floats:
    """Return the probability of each configuration of a node's parents, an axis for each parent."""
    if node.records is None:
        return marginal(network, node.parents)
    return (node.records / max(float(node.records.sum()), 1.0)).reshape(network.shape(node)[:-1])


def marginal(network: Network, names: Sequence[str]) -> Floats:
    """Return the joint distribution of some nodes, an axis each; their other ancestors are eliminated."""
    family: set[str] = set()
    for name in reversed(network.order):
        if name in names or any(name in network[n].parents for n in family):
            family.add(name)
    factors: list[tuple[tuple[str, ...], Floats]] = []
    for node in (network[n] for n in sorted(family)):
        if node.parameters is None:
            what = f"the reference has no parameters for {quoted(node.name)}"
            raise MismatchError("reference-without-parameters", what, SAME_STRUCTURE)
        factors.append((node.family, node.parameters.reshape(network.shape(node))))
    left = sorted(family - set(names))
    while left:
        joint = {n: {m for f, _ in factors if n in f for m in f} for n in left}
        costs = {n: prod(len(network[m].states) for m in joint[n]) for n in left}
        name = min(costs, key=costs.__getitem__)
        if costs[name] > MOST_CELLS:
            what = f"the probabilities of the parents' states would take {costs[name]} cells at {quoted(name)}"
            step = "compare with records that `ppdm generate` draws from the reference"
            raise UsageError("reference-too-wide", what, step)
        axes, own = tuple(sorted(joint[name] - {name})), [f for f in factors if name in f[0]]
        factors = [f for f in factors if name not in f[0]] + [(axes, _product(own, axes))]
        left.remove(name)
    return _product(factors, names)


def _product(factors: Sequence[tuple[Sequence[str], Floats]], axes: Sequence[str]) -> Floats:
    """Return the product of factors, summed over all other axes."""
    place = {n: i for i, n in enumerate(dict.fromkeys(m for f, _ in factors for m in f))}
    operands: list[Any] = [part for f, t in factors for part in (t, [place[n] for n in f])]
    return np.asarray(np.einsum(*operands, [place[n] for n in axes], optimize="greedy") if factors else 1.0)

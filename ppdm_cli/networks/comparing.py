"""Distances for `train-bayes --compare`: conditional Kullback-Leibler distance from a reference, node by node.

Ma and Sivakumar 6.2: sum over configurations j of P(pa = j) KL(theta0(.|j) || theta(.|j)), with P and theta0 of
the reference. Where a reference has no records to count, P follows from its parameters, by elimination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.errors import MismatchError, UsageError, quoted
from ppdm_cli.estimating import MOST_CELLS
from ppdm_cli.networks.network import Network, Node

SAME_STRUCTURE = "compare networks of the same structure and states"


@dataclass(frozen=True)
class Distance:
    """The distance of one node, in nats; `where` are configurations that make it infinite."""

    node: str
    nats: float
    where: tuple[str, ...] = ()


def distances(reference: Network, learnt: Network) -> list[Distance]:
    """Return the distance of each node that was learnt."""
    found = []
    for node in (n for n in learnt if n.parameters is not None):
        other = reference.nodes.get(node.name)
        if other is None or other.parameters is None or set(other.parents) != set(node.parents):
            raise MismatchError(
                "incomparable-node",
                f"the reference has no parameters for {quoted(node.name)}, or gives it other parents",
                SAME_STRUCTURE,
            )
        order = [other.family.index(n) for n in node.family]
        states = [_codes(learnt[n], reference[n]) for n in node.family]
        true, weights = np.zeros(learnt.shape(node)), np.zeros(learnt.shape(node)[:-1])
        true[np.ix_(*states)] = other.parameters.reshape(reference.shape(other)).transpose(order)
        weights[np.ix_(*states[:-1])] = _shares(reference, other).transpose(order[:-1])
        true = true.reshape(-1, len(node.states))
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(true > 0, true * np.log(true / np.asarray(node.parameters)), 0.0).sum(axis=1)
            each = np.where(weights.ravel() > 0, weights.ravel() * each, 0.0)
        where = (learnt.configuration(node, int(j)) for j in np.flatnonzero(np.isinf(each)))
        found.append(Distance(node.name, max(float(each.sum()), 0.0), tuple(where)))
    return found


def _codes(node: Node, other: Node) -> list[int]:
    """Return the place of each state of a reference's node in the learnt one's."""
    if set(other.states) - set(node.states):
        what = f"the reference gives the node {quoted(node.name)} other states"
        raise MismatchError("incomparable-states", what, SAME_STRUCTURE)
    return [node.states.index(s) for s in other.states]


def _shares(network: Network, node: Node) -> Floats:
    """Return how likely each configuration of a node's parents is, an axis a parent."""
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
            raise UsageError(
                "reference-too-wide",
                f"how likely the parents' states are would take {costs[name]} cells at {quoted(name)}",
                "compare with records drawn from the reference: `ppdm generate` draws them",
            )
        axes, own = tuple(sorted(joint[name] - {name})), [f for f in factors if name in f[0]]
        factors = [f for f in factors if name not in f[0]] + [(axes, _product(own, axes))]
        left.remove(name)
    return _product(factors, names)


def _product(factors: Sequence[tuple[Sequence[str], Floats]], axes: Sequence[str]) -> Floats:
    """Return the product of factors, summed over all other axes."""
    place = {n: i for i, n in enumerate(dict.fromkeys(m for f, _ in factors for m in f))}
    operands: list[Any] = [part for f, t in factors for part in (t, [place[n] for n in f])]
    return np.asarray(np.einsum(*operands, [place[n] for n in axes], optimize="greedy") if factors else 1.0)

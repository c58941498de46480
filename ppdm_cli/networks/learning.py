"""Structures and parameters for `train-bayes`, learned from what was published.

A tree over a release's columns is Chow and Liu's (1968), by the mutual information of the original values in
EM's table of each two columns, less that of as many independent records and its standard deviation. An edge is
beyond chance if the likelihood of the published pairs rises by more than a ratio test allows.

Parameters follow Ma and Sivakumar (5): their Theorem 2 inverts the published counts of a family, axis by axis.
A parameter is the ratio of two estimated counts, N_ijk / N_ij, and a row of them is moved to the nearest shares
if noise made some negative. With f = N_ijk - theta N_ij, a sum over published counts with weights c, Var(theta)
= Var(f) / N_ij^2 and Var(f) = sum y c^2 - (sum y c)^2 / n, for which three moments along the axes are enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from ppdm_cli.arrays import Floats, chi_square_tail
from ppdm_cli.channels import Channel, Law
from ppdm_cli.errors import RefusedError, UsageError, argument, counted, listed, quoted, unknown
from ppdm_cli.estimating import (
    ESTIMATORS,
    MOST_CELLS,
    TINY,
    CountedTable,
    Group,
    PooledLaw,
    by_attribute,
    count,
    counted_tables,
    likeliest_counts,
    project,
)
from ppdm_cli.joint import spanning
from ppdm_cli.networks.network import Network, Node
from ppdm_cli.networks.parties import Joined, state_numbers
from ppdm_cli.releases import Strata, axes_of, axis_of, never_together, opened
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

STRUCTURES = ("tree", "auto")
LEVEL = 0.05
"""The probability of any edge by chance alone, over all pairs together."""
DRAWS = 4
"""The number of releases of independent columns that show the effect of chance on a pair."""
STEP = 0.1
"""The gain in nats below which EM ends: the most likely table is jagged."""


@dataclass(frozen=True)
class Edge:
    """Two columns, the mutual information of their original values in nats, and its p-value."""

    names: tuple[str, ...]
    information: float
    """The information minus that of noise alone and its standard deviation, so it may be below 0."""
    p: float


def learn_structure(
    table: Table, sidecar: Sidecar, names: Sequence[str], how: str
) -> tuple[Network, list[str]]:
    """Return a tree over these columns, away from the first, with remarks; `auto` keeps edges beyond chance."""
    if how not in STRUCTURES:
        raise unknown("structure", how, STRUCTURES)
    if len(names) < 2:
        what = f"a structure needs two columns or more, not {listed(names) or 'none'}"
        raise UsageError("too-few-nodes", what, f"name more of them in {argument('nodes')}")
    pairs = list(combinations(range(len(names)), 2))
    shown = [(a, b) for a, b in pairs if _together(sidecar, names[a], names[b])]
    tables = list[CountedTable]()
    if shown:
        tables, _ = counted_tables(table, sidecar, [(names[a], names[b]) for a, b in shown])
    each = enumerate(zip(shown, tables, strict=True))
    found = {p: _edge(t, number) for number, (p, t) in each if t.whole[1].any()}
    if not found:
        raise never_together(names)
    heaviest = spanning(len(names), sorted(found, key=lambda p: -found[p].information))
    sure = [p for p in heaviest if found[p].p * len(found) < LEVEL]
    parents = _directed(names, heaviest if how == "tree" else sure)
    edges = "edge" if len(heaviest) == 1 else "edges"
    remarks = [
        f"The structure was learned: {len(sure)} of the heaviest tree's {len(heaviest)} {edges} are beyond "
        f"chance, at a level of {LEVEL:.0%} over all {counted(len(found), 'pair')}."
    ]
    if doubtful := [p for p in heaviest if p not in sure]:
        kept = "may be due to chance" if how == "tree" else "were left out"
        own = "; ".join(" - ".join(map(quoted, found[p].names)) for p in doubtful)
        remarks.append(f"These edges {kept}: {own}.")
    if len(found) < len(pairs):
        hidden = f"{len(pairs) - len(found)} of {counted(len(pairs), 'pair')}"
        remarks.append(f"No record publishes both columns of {hidden}, so there can be no edge between them.")
    return Network.of([Node(n, (parents[n],) if n in parents else ()) for n in names]), remarks


def _together(sidecar: Sidecar, *names: str) -> bool:
    strata = Strata.of(sidecar, names)
    return strata.together(range(len(strata.axes)))


def _edge(table: CountedTable, seed: int) -> Edge:
    """Return the mutual information of two columns, compared with that of independent ones."""
    (law, observed), wanted = table.whole, table.wanted
    n, rng = float(observed.sum()), np.random.default_rng([seed, len(observed)])

    def fitted(seen: Floats) -> tuple[float, float, Floats, Floats]:
        """Return the information, twice the log-likelihood ratio, the table, and that of independence."""
        likeliest = np.maximum(likeliest_counts(law, seen, STEP), TINY)
        own = by_attribute(likeliest, wanted.axes, wanted.names)
        alone = np.outer(own.sum(axis=1), own.sum(axis=0)) / own.sum()
        expected = law.forward(likeliest * _along(table, alone / own))
        rise = np.log(np.maximum(law.forward(likeliest), TINY) / np.maximum(expected, TINY))
        return float((own * np.log(own / alone)).sum()) / n, 2 * float((seen * rise).sum()), own, expected

    information, ratio, own, expected = fitted(observed)
    draws = rng.multinomial(int(n), expected / expected.sum(), DRAWS).astype(np.float64)
    chance = np.array([fitted(seen)[:2] for seen in draws])
    # tables with cells that EM leaves empty have fewer degrees of freedom than cells
    mean = max(float(chance[:, 1].mean()), 0.0)
    cells = float(np.prod([(own.sum(axis=axis) > 0.5).sum() - 1 for axis in (0, 1)]))
    freedom = min(cells, mean + 2 * (2 * mean / DRAWS) ** 0.5 + 1)
    information -= float(chance[:, 0].mean() + chance[:, 0].std(ddof=1))
    return Edge(wanted.names, information, chi_square_tail(ratio, freedom))


def _along(table: CountedTable, factors: Floats) -> Floats:
    """Return factors of two columns' values for each combination along the axes, flat."""
    known = [(n, d.size) for axis in table.wanted.axes for n, d in axis.each()]
    columns = [n for n, _ in known if n in table.wanted.names]
    own = factors if tuple(columns) == table.wanted.names else factors.T
    sizes = [size if n in columns else 1 for n, size in known]
    return np.asarray(np.broadcast_to(own.reshape(sizes), [size for _, size in known]).ravel())


def _directed(names: Sequence[str], edges: Sequence[tuple[int, int]]) -> dict[str, str]:
    """Return each column's parent: from the first column of each tree outwards."""
    neighbours: dict[int, list[int]] = {place: [] for place in range(len(names))}
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    parents, seen = dict[str, str](), set[int]()
    for root in neighbours:
        waiting = [root] if root not in seen else []
        for parent in waiting:  # which grows meanwhile
            seen.add(parent)
            children = [n for n in neighbours[parent] if n not in seen]
            parents |= {names[n]: names[parent] for n in children}
            waiting += children
    return parents


ESTIMATED = {"inverse": "inverse", "em": "ml"}
"""The estimators of counts, by the names that the paper's readers know."""
NO_STATE = "make its values states of its node, or fix the release's sidecar"
FEWEST_ERRORS = 3.0
"""The standard errors from 0 that the records of a configuration need for the delta method."""


@dataclass(frozen=True)
class Estimation:
    """The settings of an estimate; `prior` is Dirichlet's alpha, the same for every cell, 0 for none."""

    estimator: str = "inverse"
    prior: float = 0.0

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATED:
            raise unknown("estimator", self.estimator, ESTIMATED)
        if not 0 <= self.prior < float("inf"):
            step = f"try {argument('prior', 1)}"
            raise UsageError("wrong-prior", "the prior must be a number of records, 0 or more", step)


def learn_parameters(
    network: Network, names: Sequence[str], joined: Joined, asked: Estimation
) -> tuple[Network, int]:
    """Return the network with the parameters of the nodes of these names, and the number of records."""
    wanted = list(dict.fromkeys(m for n in names for m in network[n].family))
    several = len(opened(joined.sidecar).recipes) > 1
    through = axis_of if several else lambda sidecar, m: opened(sidecar).through(m)
    channels = {m: through(joined.sidecar, m) for m in wanted}
    domains = {m: dict(channels[m].each())[m] for m in wanted}
    states = {m: network[m].states or tuple(d.labels()) for m, d in domains.items()}
    at = {m: state_numbers(m, d, states[m]) for m, d in domains.items()}
    # of a parent that is not learned itself, only the states are known
    nodes = {
        n.name: Node(n.name, n.parents * (n.name in names), states[n.name]) for n in network if n.name in wanted
    }
    learned = Network(nodes)
    families = {n: axes_of(joined.sidecar, network[n].family) for n in names}
    laws = dict[str, PooledLaw]()
    if several:
        tables, records = counted_tables(joined.table, joined.sidecar, [network[n].family for n in names])
        families = {n: t.wanted.axes for n, t in zip(names, tables, strict=True)}
        whole = {n: t.whole for n, t in zip(names, tables, strict=True)}
        laws = {n: law for n, (law, _) in whole.items()}
        each: Iterable[tuple[str, Floats]] = ((n, counts) for n, (_, counts) in whole.items())
    else:
        for name, family in families.items():
            _check(name, family, asked)
        records, each = 0, _counted(families, joined)
    for name, observed in each:
        node, own = nodes[name], float(observed.sum())
        at_of, shape = [at[m] for m in node.family], learned.shape(node)
        found = _Counts(observed, families[name], node.family, at_of, shape, laws.get(name))
        theta, error, rows = _estimated(found, asked)
        records = records if several else int(own)
        raw = tuple(m for m in node.family if channels[m].kept)
        rows = rows * (records / own if own else 1.0)
        nodes[name] = replace(node, parameters=theta, std_error=error, records=rows, raw=raw)
    return Network.of(list(nodes.values())), records


def _check(name: str, family: Sequence[Channel], asked: Estimation) -> None:
    cells = max(prod(a.published.size for a in family), prod(a.domain.size for a in family))
    if cells > MOST_CELLS:
        what = f"the node {quoted(name)} and its parents have {cells} combinations, more than {MOST_CELLS}"
        raise UsageError("family-too-large", what, "use fewer parents, or parents with fewer states")
    blind = [a.name for a in family if a.law is not None and not a.law.invertible]
    if blind and asked.estimator == "inverse":
        what = f"the matrix of {quoted(blind[0])} is nearly singular, so its inverse is useless"
        step = f"use {argument('estimator', 'em')}, which gives no standard errors there"
        raise RefusedError("singular-matrix", what, step)


def _counted(families: Mapping[str, Group], joined: Joined) -> Iterator[tuple[str, Floats]]:
    """Yield the published counts of each family, in as few passes as its tables fit in."""
    left = list(families)
    while left:
        cells = np.cumsum([prod(a.published.size for a in families[n]) for n in left])
        now = left[: max(1, int((cells <= MOST_CELLS).sum()))]
        yield from zip(now, count(joined.table, [families[n] for n in now], outside=NO_STATE), strict=True)
        left = left[len(now) :]


@dataclass(frozen=True, eq=False)
class _Counts:
    """The published counts of one family, and the places of its codes among the states."""

    observed: Floats
    family: Group
    names: Sequence[str]
    at: Sequence[Sequence[int]]
    shape: Sequence[int]
    law: PooledLaw | None = None
    """The law of the records that publish the whole family, if others withhold some of it."""

    @property
    def laws(self) -> Sequence[Law | None]:
        return [c.law for c in self.family] if self.law is None else [self.law]

    def estimated(self, estimator: str) -> Floats:
        """Return the counts of the family's states by an estimator, a row for each configuration."""
        if self.law is not None and estimator == "ml":
            return self.summed(likeliest_counts(self.law, self.observed))
        return self.summed(ESTIMATORS[estimator](self.observed, self.laws))

    def rows(self, table: Floats) -> Floats:
        """Return a table by states, a row for each configuration; a table of parents alone as one column."""
        axes = table.ndim
        found = np.zeros((*self.shape[:axes], *[1] * (axes < len(self.shape))))
        found[np.ix_(*self.at[:axes])] = table.reshape(*table.shape, *[1] * (axes < len(self.shape)))
        return found.reshape(-1, found.shape[-1])

    def summed(self, table: Floats) -> Floats:
        """Return a table over channels as one over the family's states, a row for each configuration."""
        return self.rows(by_attribute(table, self.family, self.names))

    def moment(self, own: int) -> Floats:
        """Return the counts weighted by the parents' squared weights and the node's own to a power."""
        if self.law is not None:
            return self._of_law(own)
        table, shown = self.observed, self.names if own else self.names[:-1]
        for axis, channel in enumerate(self.family):
            node = self.names[-1] in channel.attributes
            if len(channel.attributes) > 1:
                weights = self._weights(channel, own if node else 2)
                table = np.moveaxis(np.tensordot(weights, table, (1, axis)), 0, axis)
            elif node and own == 0:
                table = table.sum(axis=axis, keepdims=True)
            elif channel.law is not None:
                table = channel.law.solve_power(table, own if node else 2, axis)
        return self.rows(by_attribute(table, self.family, shown, shown or [""]))

    def _of_law(self, own: int) -> Floats:
        """Return the same if one law covers the whole family."""
        assert self.law is not None
        found = np.zeros((prod(self.shape[:-1]), self.shape[-1] if own else 1))
        for seen, column in zip(self.observed, self.law.inverse.T, strict=True):
            weights = self.summed(column)
            total = weights.sum(axis=1, keepdims=True)
            found += seen * total ** (2 - own) * (weights**own if own else 1.0)
        return found

    def _weights(self, channel: Channel, own: int) -> Floats:
        """Return products of the inverse's entries for attributes perturbed together, others summed out."""
        own_names = [n for n in channel.attributes if n in self.names]
        inverse = channel.matrix.inverse.reshape(*channel.domain.sizes, -1)
        others = tuple(i for i, n in enumerate(channel.attributes) if n not in self.names)
        inverse = inverse.sum(axis=others)
        outputs = inverse.shape[-1]
        if own == 2:
            return (inverse**2).reshape(-1, outputs)
        total = inverse.sum(axis=own_names.index(self.names[-1]), keepdims=True)
        return (total**2 if own == 0 else inverse * total).reshape(-1, outputs)


def _estimated(found: _Counts, asked: Estimation) -> tuple[Floats, Floats, Floats]:
    """Return parameters, standard errors (NaN if not valid) and the records of each configuration."""
    n, states = max(float(found.observed.sum()), 1.0), found.shape[-1]
    counts = found.estimated(ESTIMATED[asked.estimator])
    records = np.maximum(counts.sum(axis=1), 0.0)
    records[records <= 1e-9 * n] = 0.0
    possible = np.zeros_like(counts)
    for j in np.flatnonzero(records):
        possible[j] = counts[j] if counts[j].min() >= 0 else project(counts[j], records[j])
    total = records + asked.prior * states
    known = total > 0
    theta = np.full_like(counts, 1 / states)
    theta[known] = (possible[known] + asked.prior) / total[known, None]
    error = np.full_like(counts, np.nan)
    if all(law is None or law.invertible for law in found.laws):
        unbiased = found.estimated("inverse")
        mass = unbiased.sum(axis=1)
        squares, cross, parents = found.moment(2), found.moment(1), found.moment(0)
        f = unbiased - theta * mass[:, None]
        variance = np.maximum(squares - 2 * theta * cross + theta**2 * parents - f**2 / n, 0.0)
        spread = np.sqrt(np.maximum(parents[:, 0] - mass**2 / n, 0.0))
        valid = (records > 0) & (mass > FEWEST_ERRORS * spread)
        error[valid] = np.sqrt(variance[valid]) / total[valid, None]
    return theta, error, records

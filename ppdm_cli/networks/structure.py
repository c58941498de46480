"""Structures for `train-bayes`: a tree over a release's columns, learned from the release itself.

Chow and Liu (1968): the tree whose edges have the most mutual information, here that of the original values. EM
makes a likely original table from the published codes of two columns. Noise alone gives such a table
information, so that of as many independent records is subtracted, and its standard deviation too. An edge is
beyond chance if the likelihood of the published pairs rises by more than a ratio test allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ppdm_cli.arrays import Floats, chi_square_tail
from ppdm_cli.errors import UsageError, argument, counted, listed, quoted, unknown
from ppdm_cli.estimating import TINY, CountedTable, by_attribute, counted_tables, likeliest_counts
from ppdm_cli.joint import spanning
from ppdm_cli.networks.network import Network, Node
from ppdm_cli.releases import Strata, never_together
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
    """Return a tree over these columns, away from the first of them, with remarks.

    With `auto` only edges beyond chance stay, with `tree` all of them.
    """
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
    """Return whether some records publish both columns."""
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

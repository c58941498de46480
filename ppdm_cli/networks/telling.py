"""What is to be said of a learnt network beside its figures."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np

from ppdm_cli.display import up
from ppdm_cli.errors import listed, quoted
from ppdm_cli.networks.comparing import Distance
from ppdm_cli.networks.network import Network

_MOST = 6
"""The most configurations that a remark names."""


def remarks(network: Network) -> list[str]:
    """Return what holds of the network wherever its parameters were learnt."""
    empty: list[str] = []
    thin: list[str] = []
    for node in network:
        if node.records is None or node.std_error is None:
            continue
        for j in np.flatnonzero(np.isnan(node.std_error).all(axis=1)).tolist():
            where = f"{quoted(node.name)} where {network.configuration(node, j) or 'always'}"
            (thin if node.records[j] else empty).append(where)
    said = []
    if empty:
        said.append(f"No records are estimated for {_several(empty)}: the parameters there are equal shares.")
    if thin:
        why = "too few records, or a matrix without an inverse"
        said.append(f"No standard errors for {_several(thin)}: {why}.")
    exact = [n.name for n in network if n.exact]
    mixed = [n.name for n in network if n.raw and not n.exact]
    if exact:
        said.append(f"Counted from original columns, so exact, and no gamma covers them: {listed(exact)}.")
    if mixed:
        said.append(f"The tables of {listed(mixed)} have original columns too, which no gamma covers.")
    return said + _amplification([s.epsilon for s in network.sources])


def _amplification(promised: Sequence[float | None]) -> list[str]:
    """Return what the releases promise together: columns of the same records add their epsilons."""
    known = [e for e in promised if e is not None]
    releases = "the release" if len(promised) == 1 else f"the {len(promised)} releases"
    if len(known) < len(promised):
        return [f"No gamma is promised over the perturbed columns of a record, in {releases}."]
    sums = f"{' + '.join(f'{up(e):.4g}' for e in known)} = " if len(known) > 1 else ""
    gamma = f" (gamma {up(exp(sum(known))):.4g})" if sum(known) < 700 else ""
    epsilon = f"{sums}{up(sum(known)):.4g}{gamma}"
    told = f"Over the perturbed columns of a record, in {releases}, epsilon is {epsilon}."
    return [told] if known else []


def of_distances(found: Sequence[Distance]) -> list[str]:
    """Return which distances are infinite, and why."""
    infinite = [f"{quoted(d.node)} where {w or 'always'}" for d in found for w in d.where]
    why = "a state that the reference has there was estimated as impossible, which --prior 1 never does"
    return [f"Infinite distances: {_several(infinite)}; {why}."] if infinite else []


def _several(named: Sequence[str]) -> str:
    more = f"; and {len(named) - _MOST} more" if len(named) > _MOST else ""
    return "; ".join(named[:_MOST]) + more

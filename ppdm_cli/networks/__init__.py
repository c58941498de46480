"""Networks for `train-bayes`: parameters of a structure, from columns of one party or of several.

The structure is known, or a tree that the release itself shows. In Ma and Sivakumar's Model II a miner gets all
columns perturbed. In Model I a party learns its own nodes from its own columns and others' perturbed ones, and
the parts of all parties are merged.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ppdm_cli import sidecar as sidecars
from ppdm_cli.display import Displayed, names, up
from ppdm_cli.errors import MismatchError, UsageError, argument, counted, listed, quoted, unknown_column
from ppdm_cli.files import one_run
from ppdm_cli.networks.files import NETWORKS, OUTPUTS, NetworkFile, load, parameter_frame
from ppdm_cli.networks.learning import Estimation, learn_parameters, learn_structure
from ppdm_cli.networks.network import Distance, Network, Node, distances, sample
from ppdm_cli.networks.parties import Party, PartyLike, join, open_parties
from ppdm_cli.releases import OWN
from ppdm_cli.sidecar import COLUMN, Sidecar
from ppdm_cli.tables import CsvOptions, TableLike

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "OUTPUTS", "Distance", "LearnedNetwork", "Network", "NetworkFile", "Node", "load", "merge_networks",
    "sample", "train_bayes",
]  # fmt: skip
MOST_NAMED_ROWS = 6


@dataclass(frozen=True, repr=False)
class LearnedNetwork(Displayed):
    network: Network
    sidecar: Sidecar
    """The sidecar of the table of parameters: the channels of all columns that were used."""
    records: int | None
    remarks: list[str]
    distances: list[Distance] = field(default_factory=list)
    """The distances from the reference, node by node, if one was given."""

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame with a row for each parameter."""
        return parameter_frame(self.network)

    @property
    def distance(self) -> float:
        """Return the sum of all nodes' distances, in nats."""
        return sum(d.nats for d in self.distances)

    def _words(self) -> list[str]:
        return [*([] if self.records is None else [counted(self.records, "record")]), *self.network._words()]


@one_run()
def train_bayes(
    data: PartyLike | list[PartyLike],
    network: Network | str | Path | None = None,
    *,
    learn_structure: str | None = None,
    nodes: str | Sequence[str] = (),
    estimator: str = "inverse",
    prior: float = 0.0,
    compare: Network | TableLike | None = None,
    csv: CsvOptions | None = None,
) -> LearnedNetwork:
    """Learn the parameters of a network from original or perturbed columns of one party or of several.

    Parties have different columns of the same records, in the same order. An original is used as it is.

    Parameters
    ----------
    data : path, table, pair of a table and its sidecar, or list of these
        The release or original of one party, or of each.
    network : Network, str or Path
        The structure, or a file of it.
    learn_structure : {"tree", "auto"}, optional
        Learn a tree instead: all edges of the heaviest, or only those beyond chance.
    nodes : str or sequence of str, default all
        The nodes to learn; for a learned tree all perturbed columns and the class, or these columns.
    estimator : {"inverse", "em"}, default "inverse"
        The estimator of counts: unbiased, as in the paper, or the most likely ones.
    prior : float, default 0
        The Dirichlet prior of every parameter, in records.
    compare : Network, path or table, optional
        Known parameters, or the original, to measure the distance from.
    csv : CsvOptions, optional
        The options for reading a CSV of an original.

    Returns
    -------
    LearntNetwork
        The network with its parameters and their standard errors.
    """
    asked, nodes = Estimation(estimator, prior), names("nodes", nodes)
    given = data if isinstance(data, list) else [data]
    if learn_structure is not None:
        if network is not None:
            what = f"{argument('network')} and {argument('learn_structure')} can't be combined"
            raise UsageError("two-structures", what, "leave one of them out")
        done = _with_structure(open_parties(given, csv, withheld=True), learn_structure, nodes, asked)
    else:
        structure = _network(network)
        _check_nodes(nodes, list(structure.nodes))
        named = [n for n in structure.nodes if not nodes or n in nodes]
        done = _learned(structure, named, open_parties(given, csv), asked)
    return done if compare is None else _compared(done, compare, csv)


@one_run()
def merge_networks(
    networks: Sequence[Network | str | Path],
    compare: Network | TableLike | None = None,
    csv: CsvOptions | None = None,
) -> LearnedNetwork:
    """Join the parts of a network that several parties learned.

    Parameters
    ----------
    networks : sequence of Network, str or Path
        The parties' networks, which have one structure, or their files.
    compare : Network, path or table, optional
        Known parameters, or the original, to measure the distance from.
    csv : CsvOptions, optional
        The options for reading a CSV of the original.

    Returns
    -------
    LearntNetwork
        The whole network.
    """
    names = [f"network {i}" if isinstance(n, Network) else str(n) for i, n in enumerate(networks, 1)]
    whole = _merged([_network(n) for n in networks], names)
    done = LearnedNetwork(whole, sidecars.new("estimated", str(uuid.uuid4()), None, []), None, _remarks(whole))
    return done if compare is None else _compared(done, compare, csv)


def _learned(
    structure: Network, names: Sequence[str], parties: Sequence[Party], asked: Estimation
) -> LearnedNetwork:
    wanted = list(dict.fromkeys(m for n in names for m in structure[n].family))
    with ExitStack() as stack:
        joined = join(parties, wanted, {n.name: n.states for n in structure}, stack)
        found, records = learn_parameters(structure, names, joined, asked)
    found = replace(found, sources=tuple(p.source for p in parties if p.released))
    return LearnedNetwork(found, joined.sidecar, records, [*joined.remarks, *_remarks(found)])


def _with_structure(
    parties: Sequence[Party], how: str, nodes: Sequence[str], asked: Estimation
) -> LearnedNetwork:
    """Return a tree over the columns, learned from the published codes of each two of them."""
    columns = [n for p in parties for n in p.table.schema.names if n != COLUMN]
    _check_nodes(nodes, columns)
    usual = [n for p in parties for n in p.usual_nodes]
    with ExitStack() as stack:
        wanted = [n for n in columns if n in (nodes or usual)]
        joined = join(parties, wanted, {}, stack)
        structure, remarks = learn_structure(joined.table, joined.sidecar, wanted, how)
    done = _learned(structure, wanted, parties, asked)
    return replace(done, remarks=[*remarks, *done.remarks])


def _compared(done: LearnedNetwork, reference: Network | TableLike, csv: CsvOptions | None) -> LearnedNetwork:
    """Return the same with its distances from a reference: a network, its file, or original records."""
    if isinstance(reference, (str, Path)) and Path(reference).suffix.lower() in NETWORKS:
        reference = load(reference)
    if not isinstance(reference, Network):
        (party,) = open_parties([reference], csv)
        if party.released:
            what = f"{quoted(party.table.name)} is a release, not an original"
            raise MismatchError("reference-is-release", what, OWN)
        names = [n.name for n in done.network if n.parameters is not None]
        reference = _learned(done.network, names, [party], Estimation()).network
    found = distances(reference, done.network)
    if named := [f"{quoted(d.node)} where {w or 'always'}" for d in found for w in d.where]:
        why = "a state that the reference has there was estimated as impossible, which"
        never = f"Infinite distances: {_first(named)}; {why} {argument('prior', 1)} never does."
        done = replace(done, remarks=[*done.remarks, never])
    return replace(done, distances=found)


def _network(given: object) -> Network:
    if not isinstance(given, (Network, str, Path)):
        what = "no network is named" if given is None else f"a {type(given).__name__} is not a network"
        step = f"use {argument('network', 'net.bif')}, or {argument('learn_structure', 'tree')} without one"
        raise UsageError("no-network", what, step)
    return given if isinstance(given, Network) else load(given)


def _check_nodes(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown_column(name, known, "nodes")


def _merged(networks: Sequence[Network], names: Sequence[str]) -> Network:
    """Return one network of all nodes, each from the party that learned it (Ma and Sivakumar, Model I)."""
    if len(networks) < 2:
        what = "one network alone has nothing to merge with"
        raise UsageError("nothing-to-merge", what, "name those of two or more parties")
    nodes: dict[str, Node] = {}
    whose: dict[str, str] = {}
    for network, name in zip(networks, names, strict=True):
        for node in network:
            known = nodes.setdefault(node.name, node)
            if what := _disagreement(known, node):
                raise MismatchError(
                    "networks-disagree",
                    f"{quoted(whose[node.name])} and {quoted(name)} differ on {quoted(node.name)}: its {what}",
                    f"give all parties one {argument('network')} that lists the states, and each its own "
                    f"{argument('nodes')}",
                )
            if known is node or known.parameters is None:
                nodes[node.name], whose[node.name] = node, name
    if without := [n.name for n in nodes.values() if n.parameters is None]:
        what = f"no party learned the parameters of {listed(without)}"
        raise MismatchError("node-not-learnt", what, "name the network of the party that did")
    try:
        return Network.of(list(nodes.values()), list(dict.fromkeys(s for n in networks for s in n.sources)))
    except ValueError as error:
        what, step = f"the parties' parts don't make a network: {error}", argument("network")
        raise MismatchError("no-network-together", what, f"give all parties one {step}") from None


def _disagreement(a: Node, b: Node) -> str:
    if a.states != b.states:
        return "states"
    if a.parameters is None or b.parameters is None:
        return ""
    same = np.array_equal(a.parameters, b.parameters)
    return "parents" if a.parents != b.parents else "" if same else "parameters"


def _remarks(network: Network) -> list[str]:
    """Return the report's remarks on a learned network: missing intervals, exact nodes, total epsilon."""
    empty, thin, sentences = list[str](), list[str](), list[str]()
    for node in network:
        if node.records is None or node.std_error is None:
            continue
        for j in np.flatnonzero(np.isnan(node.std_error).all(axis=1)).tolist():
            where = f"{quoted(node.name)} where {network.configuration(node, j) or 'always'}"
            (thin if node.records[j] else empty).append(where)
    if empty:
        sentences.append(f"No records are estimated for {_first(empty)}, so its parameters are equal shares.")
    if thin:
        why = "too few records, or a matrix without an inverse"
        sentences.append(f"No standard errors for {_first(thin)}: {why}.")
    if exact := [n.name for n in network if n.exact]:
        sentences.append(f"Exact, because counted from original columns, and not protected: {listed(exact)}.")
    if partly := [n.name for n in network if n.raw and not n.exact]:
        sentences.append(f"The tables of {listed(partly)} also have original columns, which are not protected.")
    return sentences + _promise([s.epsilon for s in network.sources])


def _promise(epsilons: Sequence[float | None]) -> list[str]:
    """Return the joint promise of the releases: columns of the same records add their epsilons."""
    known = [e for e in epsilons if e is not None]
    releases = "the release" if len(epsilons) == 1 else f"the {len(epsilons)} releases"
    if len(known) < len(epsilons):
        return [f"No limit holds over the perturbed columns of a record, in {releases}."]
    sums = f"{' + '.join(f'{up(e):.4g}' for e in known)} = " if len(known) > 1 else ""
    gamma = f" (gamma {up(exp(sum(known))):.4g})" if sum(known) < 700 else ""
    epsilon = f"{sums}{up(sum(known)):.4g}{gamma}"
    return [f"Over the perturbed columns of a record, in {releases}, epsilon is {epsilon}."] * bool(known)


def _first(named: Sequence[str]) -> str:
    more = f"; and {len(named) - MOST_NAMED_ROWS} more" if len(named) > MOST_NAMED_ROWS else ""
    return "; ".join(named[:MOST_NAMED_ROWS]) + more

"""Parameters of Bayesian networks whose structure is known, from columns of one party or of several.

Ma and Sivakumar: a miner who is sent all columns perturbed (Model II), or a party that learns its own nodes
from its own columns and others' perturbed ones (Model I), and puts together what all of them learnt.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_cli import sidecar as sidecars
from ppdm_cli.display import Displayed
from ppdm_cli.errors import MismatchError, UsageError, counted, quoted, unknown_column
from ppdm_cli.files import one_run
from ppdm_cli.networks.comparing import Distance, distances
from ppdm_cli.networks.learning import Way, learn
from ppdm_cli.networks.merging import merge
from ppdm_cli.networks.network import Network, Node
from ppdm_cli.networks.parties import Party, join, open_parties
from ppdm_cli.networks.sampling import sample
from ppdm_cli.networks.storing import DRAWINGS, NETWORKS, OUTPUTS, NetworkFile, as_frame, load
from ppdm_cli.networks.telling import of_distances, remarks
from ppdm_cli.releases import OWN
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import CsvOptions

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DRAWINGS", "OUTPUTS", "Distance", "Learnt", "Network", "NetworkFile", "Node", "load", "merge_networks",
    "needs", "sample", "train_bayes",
]  # fmt: skip


@dataclass(frozen=True, repr=False)
class Learnt(Displayed):
    """A network whose parameters were learnt."""

    network: Network
    sidecar: Sidecar
    """What the table of parameters goes with: the channels of all columns that were used."""
    records: int | None
    remarks: list[str]
    distances: list[Distance] = field(default_factory=list)
    """From the reference, node by node, where one was given."""

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame with a row for each parameter."""
        return as_frame(self.network)

    @property
    def distance(self) -> float:
        """Return the sum of all nodes' distances, in nats."""
        return sum(d.nats for d in self.distances)

    def _words(self) -> list[str]:
        return [*([] if self.records is None else [counted(self.records, "record")]), *self.network._words()]

    def _body(self) -> Any:
        return self.frame


@one_run()
def train_bayes(
    data: Any,
    network: Network | str | Path | None = None,
    *,
    nodes: Sequence[str] = (),
    on: str | None = None,
    estimator: str = "inverse",
    prior: float = 0.0,
    compare: Any = None,
    csv: CsvOptions | None = None,
) -> Learnt:
    """Learn the parameters of a network from original or perturbed columns of one party or of several.

    `data` is what a party gives, or a list of what each gives: a path, a table, or a pair of a table and its
    sidecar. Releases have different columns of the same records; originals are used as they are. They are
    joined row by row, or `on` an identifier. `network` says the structure; of its `nodes` only those named are
    learnt. `prior` is the Dirichlet prior of every parameter, in records. `compare` is a network of known
    parameters, or the original, to tell how far the parameters are from its.
    """
    way = Way(estimator, prior)
    structure = _network(network)
    names = _named(structure, nodes)
    parties = open_parties(data if isinstance(data, list) else [data], csv)
    done = _learnt(structure, names, parties, on, way)
    return done if compare is None else _compared(done, compare, csv)


@one_run()
def merge_networks(networks: Sequence[Any], compare: Any = None, csv: CsvOptions | None = None) -> Learnt:
    """Put the networks that several parties learnt together, given as such or as files."""
    names = [f"network {i}" if isinstance(n, Network) else str(n) for i, n in enumerate(networks, 1)]
    whole = merge([_network(n) for n in networks], names)
    done = Learnt(whole, sidecars.new("estimated", str(uuid.uuid4()), None, []), None, remarks(whole))
    return done if compare is None else _compared(done, compare, csv)


def _learnt(
    structure: Network, names: Sequence[str], parties: Sequence[Party], on: str | None, way: Way
) -> Learnt:
    wanted = list(dict.fromkeys(m for n in names for m in structure[n].family))
    with ExitStack() as stack:
        joined = join(parties, wanted, {n.name: n.states for n in structure}, on, stack)
        found, records = learn(structure, names, joined, way)
    found = replace(found, sources=tuple(p.source for p in parties if p.released))
    return Learnt(found, joined.sidecar, records, [*joined.remarks, *remarks(found)])


def _compared(done: Learnt, reference: Any, csv: CsvOptions | None) -> Learnt:
    """Return the same with its distances from a reference: a network, its file, or original records."""
    if isinstance(reference, (str, Path)) and Path(reference).suffix.lower() in NETWORKS:
        reference = load(reference)
    if not isinstance(reference, Network):
        (party,) = open_parties([reference], csv)
        if party.released:
            raise MismatchError(f"{quoted(party.table.name)} is a release, not an original", OWN)
        names = [n.name for n in done.network if n.parameters is not None]
        reference = _learnt(done.network, names, [party], None, Way()).network
    found = distances(reference, done.network)
    return replace(done, distances=found, remarks=[*done.remarks, *of_distances(found)])


def needs(network: Network | str | Path | None, nodes: Sequence[str]) -> dict[str, list[str]]:
    """Return the cross parents of a party's own nodes, each with the nodes that need its column."""
    structure = _network(network)
    found: dict[str, list[str]] = {}
    for name in _named(structure, nodes):
        for parent in structure[name].parents:
            if parent not in nodes:
                found.setdefault(parent, []).append(name)
    return found


def _network(given: Any) -> Network:
    if not isinstance(given, (Network, str, Path)):
        what = "no network is named" if given is None else f"a {type(given).__name__} is no network"
        raise UsageError(what, "name its file, such as --network net.bif")
    return given if isinstance(given, Network) else load(given)


def _named(structure: Network, nodes: Sequence[str]) -> list[str]:
    for name in nodes:
        if name not in structure.nodes:
            raise unknown_column(name, structure.nodes, "nodes")
    return [n for n in structure.nodes if not nodes or n in nodes]

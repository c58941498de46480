"""Parties' parameters put together, each node's from whoever learnt it (Ma and Sivakumar, Model I, step 6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ppdm_cli.errors import MismatchError, UsageError, listed, quoted
from ppdm_cli.networks.network import Network, Node


def merge(networks: Sequence[Network], names: Sequence[str]) -> Network:
    """Return one network of all nodes; `names` are those of the files, for messages."""
    if len(networks) < 2:
        raise UsageError("one network alone has nothing to merge with", "name those of two parties or more")
    nodes: dict[str, Node] = {}
    whose: dict[str, str] = {}
    for network, name in zip(networks, names, strict=True):
        for node in network:
            known = nodes.setdefault(node.name, node)
            if what := _disagreement(known, node):
                raise MismatchError(
                    f"{quoted(whose[node.name])} and {quoted(name)} differ on {quoted(node.name)}: its {what}",
                    "give all parties one --network that lists the states, and each its own --nodes",
                )
            if known is node or known.parameters is None:
                nodes[node.name], whose[node.name] = node, name
    without = [n.name for n in nodes.values() if n.parameters is None]
    if without:
        raise MismatchError(
            f"no party learnt the parameters of {listed(without)}", "name the network of the party that did"
        )
    try:
        return Network.of(list(nodes.values()), list(dict.fromkeys(s for n in networks for s in n.sources)))
    except ValueError as error:
        raise MismatchError(
            f"what the parties learnt is no network together: {error}", "give all parties one --network"
        ) from None


def _disagreement(a: Node, b: Node) -> str:
    if a.states != b.states:
        return "states"
    if a.parameters is None or b.parameters is None:
        return ""
    same = np.array_equal(a.parameters, b.parameters)
    return "parents" if a.parents != b.parents else "" if same else "parameters"

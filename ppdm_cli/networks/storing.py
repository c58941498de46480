"""Networks in files: BIF, XMLBIF, JSON with one node a line, and edge lists; and as tables of parameters.

JSON, and the comments that a BIF of ours holds, are versioned and decoded strictly. A file that is no network
is refused with one line.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from xml.etree import ElementTree

import msgspec
import numpy as np
from msgspec import Meta

from ppdm_cli import files
from ppdm_cli import sidecar as sidecars
from ppdm_cli.arrays import Floats, Z
from ppdm_cli.errors import MismatchError, UsageError, quoted
from ppdm_cli.networks import bif
from ppdm_cli.networks.drawing import dot, svg
from ppdm_cli.networks.network import Network, Node, Source
from ppdm_cli.sidecar import Sidecar, explained
from ppdm_cli.tables import Output, PendingFile, suffixes

if TYPE_CHECKING:
    import polars as pl

LARGEST = 64 << 20
"""Bytes of a network that are read at most."""
Text = Annotated[str, Meta(max_length=1 << 20)]
Rows = list[list[float | None]]


class StoredSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    release: Annotated[str, Meta(max_length=36)]
    epsilon: float | Literal["inf"] | None


class StoredNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node; rows are configurations of its parents. In a BIF, parents and parameters stand elsewhere."""

    name: Text
    states: list[Text]
    parents: list[Text] = []
    parameters: Rows = []
    std_error: Rows = []
    records: list[float] = []
    raw: list[Text] = []
    exact: bool = False


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    format: Literal["ppdm-network"]
    version: Literal[1]
    tool: Annotated[str, Meta(max_length=128)]
    sources: list[StoredSource] = []


class Whole(Head, frozen=True, forbid_unknown_fields=True, kw_only=True):
    nodes: list[StoredNode]


_COMMENT = re.compile(rf"^{bif.OURS}(?:(\w+) )?(\{{.*\}})$", re.M)


def _json(record: msgspec.Struct) -> str:
    """Return JSON in ASCII, so that nothing in it ends a line or moves a terminal."""
    return json.dumps(msgspec.to_builtins(record))


def _head(network: Network) -> Head:
    sources = [StoredSource(s.release, "inf" if s.epsilon == np.inf else s.epsilon) for s in network.sources]
    return Head("ppdm-network", 1, sidecars.TOOL, sources)


def _stored(node: Node) -> StoredNode:
    records = [] if node.records is None else [float(f"{v:.9g}") for v in node.records]
    tables = _rows(node.parameters, 17), _rows(node.std_error, 6)
    return StoredNode(
        node.name, list(node.states), list(node.parents), *tables, records, list(node.raw), node.exact
    )


def _rows(table: Floats | None, digits: int) -> Rows:
    rows = [] if table is None else table.tolist()
    return [[None if v != v else float(f"{v:.{digits}g}") for v in row] for row in rows]


def as_json(network: Network) -> str:
    nodes = ",\n    ".join(_json(_stored(n)) for n in network)
    return f'{_json(_head(network))[:-1]}, "nodes": [\n    {nodes}\n]}}\n'


def as_bif(network: Network) -> str:
    stored = {n.name: msgspec.structs.replace(_stored(n), parents=[], parameters=[]) for n in network}
    return bif.write(network, _json(_head(network)), {n: _json(s) for n, s in stored.items()})


def as_frame(network: Network) -> pl.DataFrame:
    """Return a row for each parameter; null where there is no valid standard error."""
    import polars as pl

    frames = []
    for node in network:
        if node.parameters is None:
            continue
        J, K = node.parameters.shape
        error = np.full((J, K), np.nan) if node.std_error is None else node.std_error
        records = np.full(J, np.nan) if node.records is None else node.records
        low, high = (np.clip(node.parameters + side * error, 0.0, 1.0) for side in (-Z, Z))
        tables = {"parameter": node.parameters, "std_error": error, "low": low, "high": high}
        where = [network.configuration(node, j) for j in range(J)]
        frames.append(pl.DataFrame({
            "node": [node.name] * (J * K), "configuration": np.repeat(np.arange(J), K),
            "parents": [w for w in where for _ in range(K)], "state": list(node.states) * J,
            **{n: pl.Series(t.ravel(), nan_to_null=True) for n, t in tables.items()},
            "records": pl.Series(np.repeat(records, K), nan_to_null=True), "exact": [node.exact] * (J * K),
        }))  # fmt: skip
    return pl.concat(frames)


_WAYS = {".bif": as_bif, ".json": as_json, ".dot": dot, ".svg": svg}
OUTPUTS, DRAWINGS = (".bif", ".json", *suffixes()), (".dot", ".svg")


class NetworkFile:
    """Where a network goes, in the format of the suffix; checked before any work, whole or not at all."""

    def __init__(self, stack: ExitStack, path: Path, force: bool, among: tuple[str, ...]) -> None:
        if not path.name.lower().endswith(among):
            raise UsageError(
                f"the suffix of {quoted(path.name)} names no format of a network",
                f"name a file that ends in {', '.join(among)}",
            )
        self._way = _WAYS.get(path.suffix.lower())
        self.into: Output | PendingFile = (
            stack.enter_context(PendingFile(path, force)) if self._way else Output(stack, path, force=force)
        )

    def fill(self, network: Network, sidecar: Sidecar) -> None:
        if isinstance(self.into, Output):
            frame = as_frame(network)
            self.into.fill_frame(frame, msgspec.structs.replace(sidecar, records=len(frame)))
        elif self._way:
            self.into.put(self._way(network).encode())


def load(path: str | Path) -> Network:
    """Read a network; of an edge list only the structure is known."""
    path = Path(path)
    data = files.content(path, "the network ", LARGEST)
    try:
        read = NETWORKS.get(path.suffix.lower(), _of_edges)(data.decode("utf-8-sig"))
    except (ValueError, ArithmeticError, ElementTree.ParseError, RecursionError) as error:
        what = "it is not in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:300]
        if isinstance(error, msgspec.MsgspecError) and path.suffix.lower() == ".json":
            what = explained(data, error, "ppdm-network")
        raise MismatchError(
            f"{quoted(path)} is not a valid network: {what}",
            "fix it, or name another: .bif, .xml (XMLBIF), .json of train-bayes, or lines of A -> B",
        ) from None
    parts = {n.name: n.parameters for n in read if n.parameters is not None}
    sums = {n: replace(read[n], parameters=p / p.sum(axis=1, keepdims=True)) for n, p in parts.items()}
    return replace(read, nodes=read.nodes | sums)


def _of_edges(text: str) -> Network:
    """Read `A -> B`, a line each; a name alone is a node, and a line may go on: `A -> B -> C`."""
    parents: dict[str, dict[str, None]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        names = [n.strip() for n in line.split("->")]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not all(names) or any(other in line for other in ("<-", "--", "{", "\u2192")):
            raise ValueError(f"line {number} is not of the form A -> B")
        for name in names:
            parents.setdefault(name, {})
        for parent, child in pairwise(names):
            parents[child][parent] = None
    return Network.of([Node(n, tuple(p)) for n, p in parents.items()])


def _of_xml(text: str) -> Network:
    """Read XMLBIF 0.3, in whose tables the node's own state changes first."""
    if "<!ENTITY" in text:
        raise ValueError("it declares entities, which no network needs")
    root, nodes = ElementTree.fromstring(text), list[Node]()
    tables = {_text(d.find("FOR")): d for d in root.iter("DEFINITION")}
    for variable in root.iter("VARIABLE"):
        name, states = _text(variable.find("NAME")), tuple(map(_text, variable.findall("OUTCOME")))
        nodes.append(Node(name, states=states))
        if name in tables:
            values = np.array(_text(tables[name].find("TABLE")).split(), np.float64)
            rows, parents = values.reshape(-1, len(states)), tuple(map(_text, tables[name].findall("GIVEN")))
            nodes[-1] = Node(name, parents, states, rows)
    return Network.of(nodes)


def _text(element: ElementTree.Element | None) -> str:
    found = "" if element is None else (element.text or "").strip()
    if not found:
        raise ValueError("a name, an outcome or a table is missing")
    return found


def _of_bif(text: str) -> Network:
    """Read BIF; what a comment of ours says of a node goes before what the format can say."""
    comments, nodes = dict(_COMMENT.findall(text)), bif.read(text)
    heads = [msgspec.json.decode(c, type=Head) for i, c in comments.items() if not i]
    said = {i: msgspec.json.decode(c, type=StoredNode) for i, c in comments.items() if i}
    for i, node in enumerate(nodes):
        own = said.get(node.name)
        names = tuple(said[p].name if p in said else p for p in node.parents)
        nodes[i] = replace(node, parents=names) if own is None else _node(own, names, node.parameters)
    return Network.of(nodes, [s for h in heads for s in _sources(h)])


def _of_json(text: str) -> Network:
    whole = msgspec.json.decode(text, type=Whole)
    nodes = [_node(n, tuple(n.parents), _table(n.parameters)) for n in whole.nodes]
    return Network.of(nodes, _sources(whole))


def _sources(head: Head) -> list[Source]:
    return [Source(s.release, np.inf if s.epsilon == "inf" else s.epsilon) for s in head.sources]


def _node(stored: StoredNode, parents: tuple[str, ...], parameters: Floats | None) -> Node:
    records, tables = (
        np.array(stored.records) if stored.records else None,
        (parameters, _table(stored.std_error)),
    )
    return Node(stored.name, parents, tuple(stored.states), *tables, records, tuple(stored.raw))


def _table(rows: Rows) -> Floats | None:
    return np.array([[np.nan if v is None else v for v in row] for row in rows]) if rows else None


NETWORKS = {".bif": _of_bif, ".json": _of_json, ".xml": _of_xml, ".xmlbif": _of_xml, ".bifxml": _of_xml}
"""The readers of formats that hold parameters, by their suffixes; other files are lists of edges."""

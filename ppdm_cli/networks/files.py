"""Files of networks for `train-bayes`: BIF, JSON with one node a line, and tables of parameters.

JSON, and the comments in a BIF of ours, are versioned and decoded strictly; a file that isn't a network is
refused with one line. Readers of BIF (0.15) break on labels with spaces, commas, quotes or brackets, on names
that differ in case alone, and on the words of the format itself. So a label that is not a plain identifier is
written as `s0, s1, ...` (`n0, ...` for nodes), and comments that begin with `// ppdm` hold the true labels, and
other data without a place in the format. Parameters are whole multiples of 2^-24 that sum to 1: a reader of
single precision (pyAgrum) and one of double precision (pgmpy) then have the same numbers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from ppdm_cli import files
from ppdm_cli import sidecar as sidecars
from ppdm_cli.arrays import Floats, Z
from ppdm_cli.errors import MismatchError, UsageError, quoted
from ppdm_cli.estimating import largest_remainder
from ppdm_cli.networks.network import Network, NetworkSource, Node
from ppdm_cli.sidecar import Sidecar, by_line, explained
from ppdm_cli.tables import Output, PendingFile, path_of, suffixes

if TYPE_CHECKING:
    import polars as pl

LARGEST_NETWORK = 64 << 20
_OURS = "// ppdm "
GRID = 1 << 24
MOST_PARAMETERS = 1 << 20
"""The most parameters of a whole network: a line that says `default` stands for any number of them."""
_COMMENT = re.compile(rf"^{_OURS}(?:(\w+) )?(\{{.*\}})$", re.M)
_QUOTE_OR_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?P<quoted>[^"\n]*)"', re.S)
_BLOCK = re.compile(r"\s*(?P<kind>\w+)(?P<head>[^{}]*)\{(?P<body>(?:[^{}]++|\{[^{}]*\})*+)\}\s*;?")
_STATES = re.compile(r"\btype\s+discrete\s*\[\s*(?P<count>\d{1,9})\s*\]\s*\{(?P<states>[^{}]*)\}\s*;")
_ROW = re.compile(r"(?:(?P<kind>table|default)\b|\((?P<labels>[^()]*)\))(?P<values>[^()]*)", re.S)
_PLAIN = re.compile(
    r"(?i)(?!(?:network|type|discrete|table|default|property)$)(?!.*(?:variable|probability))[a-z_][a-z0-9_]*"
)
Text = Annotated[str, Meta(max_length=1 << 20)]
NumberRows = list[list[float | None]]


class StoredSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    release: Annotated[str, Meta(max_length=36)]
    epsilon: float | Literal["inf"] | None


class StoredNetworkNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node; rows are configurations of its parents. In a BIF, parents and parameters are elsewhere."""

    name: Text
    states: list[Text]
    parents: list[Text] = []
    parameters: NumberRows = []
    std_error: NumberRows = []
    records: list[float] = []
    raw: list[Text] = []
    exact: bool = False


class NetworkHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    format: Literal["ppdm-network"]
    version: Literal[1]
    tool: Annotated[str, Meta(max_length=128)]
    sources: list[StoredSource] = []


class StoredNetwork(NetworkHead, frozen=True, forbid_unknown_fields=True, kw_only=True):
    nodes: list[StoredNetworkNode]


def _json(record: msgspec.Struct) -> str:
    """Return JSON in ASCII, without characters that end a line or control a terminal."""
    return json.dumps(msgspec.to_builtins(record))


def _head(network: Network) -> NetworkHead:
    sources = [StoredSource(s.release, "inf" if s.epsilon == np.inf else s.epsilon) for s in network.sources]
    return NetworkHead("ppdm-network", 1, sidecars.TOOL, sources)


def _stored(node: Node) -> StoredNetworkNode:
    records = [] if node.records is None else [float(f"{v:.9g}") for v in node.records]
    tables = _rows(node.parameters, 17), _rows(node.std_error, 6)
    return StoredNetworkNode(
        node.name, list(node.states), list(node.parents), *tables, records, list(node.raw), node.exact
    )


def _rows(table: Floats | None, digits: int) -> NumberRows:
    rows = [] if table is None else table.tolist()
    return [[None if v != v else float(f"{v:.{digits}g}") for v in row] for row in rows]


def as_json(network: Network) -> str:
    nodes = by_line((_json(_stored(n)).encode() for n in network), b"\n").decode()
    return f'{_json(_head(network))[:-1]}, "nodes": {nodes}}}\n'


def parameter_frame(network: Network) -> pl.DataFrame:
    """Return a row for each parameter; null if it has no valid standard error."""
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


def load(path: str | Path) -> Network:
    """Read a network, or only a structure: a file may leave out parameters, and JSON also states."""
    path = path_of(path)
    data = files.content(path, "the network ", LARGEST_NETWORK)
    try:
        if path.suffix.lower() not in NETWORKS:
            raise ValueError("it has no suffix of a network")
        read = NETWORKS[path.suffix.lower()](data.decode("utf-8-sig"))
    except (ValueError, ArithmeticError, RecursionError) as error:
        what = "it is not in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:300]
        if isinstance(error, msgspec.MsgspecError) and path.suffix.lower() == ".json":
            what = explained(data, error, "ppdm-network")
        raise MismatchError(
            "invalid-network",
            f"{quoted(path)} is not a valid network: {what}",
            "fix it, or name another .bif, or .json of train-bayes",
        ) from None
    parts = {n.name: n.parameters for n in read if n.parameters is not None}
    sums = {n: replace(read[n], parameters=p / p.sum(axis=1, keepdims=True)) for n, p in parts.items()}
    return replace(read, nodes=read.nodes | sums)


def _of_bif(text: str) -> Network:
    """Read BIF; our comments about a node take precedence over the format's own statements."""
    comments, nodes = dict(_COMMENT.findall(text)), read_bif(text)
    heads = [msgspec.json.decode(c, type=NetworkHead) for i, c in comments.items() if not i]
    decoded = {i: msgspec.json.decode(c, type=StoredNetworkNode) for i, c in comments.items() if i}
    for i, node in enumerate(nodes):
        own = decoded.get(node.name)
        names = tuple(decoded[p].name if p in decoded else p for p in node.parents)
        nodes[i] = replace(node, parents=names) if own is None else _node(own, names, node.parameters)
    return Network.of(nodes, [s for h in heads for s in _sources(h)])


def _of_json(text: str) -> Network:
    whole = msgspec.json.decode(text, type=StoredNetwork)
    nodes = [_node(n, tuple(n.parents), _table(n.parameters)) for n in whole.nodes]
    return Network.of(nodes, _sources(whole))


def _sources(head: NetworkHead) -> list[NetworkSource]:
    return [NetworkSource(s.release, np.inf if s.epsilon == "inf" else s.epsilon) for s in head.sources]


def _node(stored: StoredNetworkNode, parents: tuple[str, ...], parameters: Floats | None) -> Node:
    records, tables = (
        np.array(stored.records) if stored.records else None,
        (parameters, _table(stored.std_error)),
    )
    return Node(stored.name, parents, tuple(stored.states), *tables, records, tuple(stored.raw))


def _table(rows: NumberRows) -> Floats | None:
    return np.array([[np.nan if v is None else v for v in row] for row in rows]) if rows else None


NETWORKS = {".bif": _of_bif, ".json": _of_json}


# -- BIF


def read_bif(text: str) -> list[Node]:
    """Return the nodes of a file, with their statements; ValueError if it is broken."""
    quotes = list[str]()

    def numbered(found: re.Match[str]) -> str:
        if found["quoted"] is None:
            return " "
        quotes.append(found["quoted"])
        return f' "{len(quotes) - 1}" '

    text, end = _QUOTE_OR_COMMENT.sub(numbered, text), 0
    if '"' in re.sub(r'"\d+"', "", text):
        raise ValueError("a quote is not closed on its line")
    nodes, rows = dict[str, Node](), dict[str, list[str]]()
    while block := _BLOCK.match(text, end):
        end = block.end()
        names = _labels(re.sub(r"[(),|]", " ", block["head"]), quotes)
        if block["kind"] == "variable" and len(names) == 1 and names[0] not in nodes:
            nodes[names[0]] = Node(names[0], states=_states(names[0], block["body"], quotes))
        elif block["kind"] == "probability" and names and names[0] in nodes and names[0] not in rows:
            nodes[names[0]] = replace(nodes[names[0]], parents=tuple(names[1:]))
            rows[names[0]] = _rows_of(block["body"])
        elif block["kind"] != "network":
            start = quoted(" ".join([block["kind"], *names])[:40])
            raise ValueError(f"{start} doesn't begin a block, or begins one a second time")
    if text[end:].strip():
        raise ValueError("a block has no braces, or isn't closed")
    sizes = {n: [len(nodes[p].states) for p in nodes[n].family if p in nodes] for n in rows}
    if sum(map(prod, sizes.values())) > MOST_PARAMETERS:
        raise ValueError(f"it has more than {MOST_PARAMETERS:,} parameters")
    return [_filled(n, nodes, rows.get(n.name, []), quotes) for n in nodes.values()]


def _rows_of(body: str) -> list[str]:
    *rows, rest = (r.strip() for r in body.split(";"))
    if rest:
        raise ValueError("a statement does not end in ;")
    return [r for r in rows if not r.startswith("property")]


def _labels(text: str, quotes: Sequence[str]) -> list[str]:
    """Return the items of a list, with a comma between any two or without commas."""
    parts = [p.split() for p in text.split(",")]
    if re.search(r"[][(){}|]", text) or (len(parts) > 1 and any(len(p) != 1 for p in parts)):
        raise ValueError("a list is broken: labels with spaces, commas or brackets must be in quotes")
    return [quotes[int(w[1:-1])] if w[0] == '"' else w for part in parts for w in part]


def _states(name: str, body: str, quotes: Sequence[str]) -> tuple[str, ...]:
    found = _STATES.search(body)
    states = _labels(found["states"], quotes) if found else []
    if not found or not states or len(states) != int(found["count"]):
        raise ValueError(f"{quoted(name)} lacks a line of its states such as type discrete [ 2 ] {{ a, b }};")
    return tuple(states)


def _filled(node: Node, nodes: dict[str, Node], rows: list[str], quotes: Sequence[str]) -> Node:
    if not rows or any(p not in nodes for p in node.parents):
        return node
    parents, own = [nodes[p].states for p in node.parents], len(node.states)
    table = np.full((*map(len, parents), own), np.nan)
    for row in sorted(rows, key=lambda r: not r.startswith("default")):
        found = _ROW.fullmatch(row)
        labels = _labels(found["labels"] or "", quotes) if found else []
        values = np.array([float(v) for v in _labels(found["values"], quotes)]) if found else np.zeros(0)
        if found and found["labels"] is None and found["kind"] == "table" and len(values) == table.size:
            # in the format's own order: the node's state changes last
            table = np.moveaxis(values.reshape(own, *table.shape[:-1]), 0, -1)
        elif found and found["kind"] == "default" and len(values) == own:
            table[:] = values
        elif len(values) == own and len(labels) == len(parents):
            table[tuple(p.index(s) for s, p in zip(labels, parents, strict=True))] = values
        else:
            raise ValueError(f"a row of {quoted(node.name)} does not fit its states and its parents'")
    if np.isnan(table).any():
        raise ValueError(f"the table of {quoted(node.name)} lacks a row")
    return replace(node, parameters=table.reshape(-1, own))


def as_bif(network: Network) -> str:
    """Return a file that every reader reads, with a comment of its own and one for each node."""
    names = _identifiers(list(network.nodes))
    states = {n.name: [s if all(map(_PLAIN.fullmatch, n.states)) else f"s{i}" for i, s in enumerate(n.states)]
              for n in network}  # fmt: skip
    bare = (msgspec.structs.replace(_stored(n), parents=[], parameters=[]) for n in network)
    out = [f"{_OURS}{_json(_head(network))}", *(f"{_OURS}{names[n.name]} {_json(n)}" for n in bare)]
    out += ["network learned {", "}"]
    for node in network:
        own = states[node.name]
        declared = f"  type discrete [ {len(own)} ] {{ {', '.join(own)} }};"
        out += [f"variable {names[node.name]} {{", declared, "}"]
    for node in (n for n in network if n.parameters is not None):
        given = f" | {', '.join(names[p] for p in node.parents)}" if node.parents else ""
        out.append(f"probability ( {names[node.name]}{given} ) {{")
        places = np.ndindex(network.shape(node)[:-1])
        for where, row in zip(places, node.parameters, strict=True):  # type: ignore[arg-type]
            labels = ", ".join(states[p][i] for p, i in zip(node.parents, where, strict=True))
            out.append(f"  {f'({labels})' if where else 'table'} {', '.join(map(repr, on_grid(row)))};")
        out.append("}")
    return "\n".join([*out, ""])


def on_grid(shares: Floats) -> list[float]:
    """Return the nearest multiples of 2^-24 that sum to 1; positive ones stay positive."""
    whole = largest_remainder(shares, GRID)
    lost = (whole == 0) & (shares > 0)
    whole[lost] = 1
    whole[whole.argmax()] -= int(lost.sum())
    return [float(w) for w in whole / GRID]


def _identifiers(names: list[str]) -> dict[str, str]:
    """Return each node's name if it is an identifier, whatever the case of its letters, else a number."""
    low = Counter(n.lower() for n in names)
    free = (n for n in (f"n{i}" for i in range(2 * len(names))) if n not in low)
    return {n: n if _PLAIN.fullmatch(n) and low[n.lower()] == 1 else next(free) for n in names}


_WRITERS = {".bif": as_bif, ".json": as_json}
OUTPUTS = (*_WRITERS, *suffixes())


class NetworkFile:
    """Destination of a network, in the format of the suffix; checked before any work, written whole."""

    def __init__(self, stack: ExitStack, path: Path, force: bool) -> None:
        if not path.name.lower().endswith(OUTPUTS):
            what = f"{quoted(path.name)} has no suffix of a network"
            raise UsageError("unknown-network-format", what, f"name a file that ends in {', '.join(OUTPUTS)}")
        self._write = _WRITERS.get(path.suffix.lower())
        self.into: Output | PendingFile = (
            stack.enter_context(PendingFile(path, force)) if self._write else Output(stack, path, force=force)
        )

    def fill(self, network: Network, sidecar: Sidecar) -> None:
        if isinstance(self.into, Output):
            frame = parameter_frame(network)
            self.into.fill_frame(frame, msgspec.structs.replace(sidecar, records=len(frame)))
        elif self._write:
            self.into.put(self._write(network).encode())

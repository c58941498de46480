"""The Bayesian Interchange Format (BIF 0.15), read and written.

Readers break on labels with spaces, commas, quotes or brackets, on names that differ in case alone, and on
the words of the format itself. So what is no plain identifier is written as `s0, s1, ...` (`n0, ...` for
nodes), and comments that begin with `// ppdm` hold the true labels, with what else the format has no place
for. Parameters are whole multiples of 2^-24 that sum to 1: a reader of single precision (pyAgrum) and one of
double precision (pgmpy) then have the same numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.errors import quoted
from ppdm_cli.estimating import largest_remainder
from ppdm_cli.networks.network import Network, Node

OURS, GRID = "// ppdm ", 1 << 24
MOST_PARAMETERS = 1 << 20
"""The most parameters of a whole network: a line that says `default` stands for any number of them."""
_TOKEN = re.compile(
    r'(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|"(?P<text>[^"\n]*)"|(?P<mark>[{}()\[\],;|])|[^\s{}()\[\],;|"]+', re.S
)
_PLAIN = re.compile(
    r"(?i)(?!(?:network|type|discrete|table|default|property)$)(?!.*(?:variable|probability))[a-z_][a-z0-9_]*"
)


@dataclass(frozen=True)
class Token:
    text: str
    line: int
    mark: str | None
    """What it marks, if it is a brace or the like and not a word."""

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"line {self.line}: {what}")


def _tokens(text: str) -> Iterator[Token]:
    place, line = 0, 1
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"line {line}: a quote is not closed on its line")
        if found["skip"] is None:
            yield Token(found[0] if found["text"] is None else found["text"], line, found["mark"])
        line += found[0].count("\n")
        place = found.end()


def _blocks(text: str) -> Iterator[tuple[list[Token], list[list[Token]]]]:
    """Yield what stands before each pair of braces, and the statements between them."""
    head: list[Token] = []
    statements: list[list[Token]] = [head]
    depth = 0
    for token in _tokens(text):
        depth += {"{": 1, "}": -1}.get(token.mark or "", 0)
        if (depth, token.mark) in ((1, "{"), (1, ";")):
            statements.append([])
        elif (depth, token.mark) == (0, "}"):
            if statements[-1]:
                raise statements[-1][0].wrong("a statement does not end in ;")
            yield head, [s for s in statements[1:] if s]
            head = []
            statements = [head]
        else:
            statements[-1].append(token)
    if head:
        raise head[0].wrong("a block has no braces, or is not closed")


def _items(listed: Sequence[Token]) -> list[Token]:
    """Return what is listed, with a comma between any two or none at all."""
    words = [t for t in listed if not t.mark]
    commas = len(listed) - len(words)
    if commas and [t.mark for t in listed] != [None, *[",", None] * commas]:
        raise listed[0].wrong("a list is broken: labels with spaces, commas or brackets must be in quotes")
    return words


def read(text: str) -> list[Node]:
    """Return the nodes of a file, with what it says of them; ValueError with the line where it is broken."""
    nodes: dict[str, Node] = {}
    tables: dict[str, list[list[Token]]] = {}
    for head, statements in _blocks(text):
        kind, marks = head[0].text if head else "", [t.mark for t in head]
        if kind == "variable" and len(head) == 2:
            if head[1].text in nodes:
                raise head[1].wrong(f"the node {quoted(head[1].text)} is there twice")
            nodes[head[1].text] = Node(head[1].text, states=_states(head[1], statements))
        elif kind == "probability" and len(head) > 3 and (marks[1], marks[-1]) == ("(", ")"):
            name = head[2]
            if name.text not in nodes or name.text in tables:
                raise name.wrong(f"the node {quoted(name.text)} is not declared before, or has two tables")
            parents = _items(head[4:-1] if marks[3] in ("|", ",") else head[3:-1])
            nodes[name.text] = replace(nodes[name.text], parents=tuple(t.text for t in parents))
            tables[name.text] = [s for s in statements if s[0].text != "property"]
        elif kind != "network":
            raise ValueError(f"line {head[0].line if head else 1}: {quoted(kind[:40])} begins no block")
    _check_size(nodes, tables)
    return [_filled(n, nodes, tables.get(n.name, [])) for n in nodes.values()]


def _check_size(nodes: dict[str, Node], tables: dict[str, list[list[Token]]]) -> None:
    """Refuse more parameters than are read, before any table is made."""
    total = 0
    for name, rows in tables.items():
        parents = nodes[name].parents
        if rows and all(p in nodes for p in parents):
            own = prod(len(nodes[n].states) for n in (*parents, name))
            total += own
            if total > MOST_PARAMETERS:
                raise rows[0][0].wrong(
                    f"with the {own:.4g} parameters of {quoted(name)} there are more than {MOST_PARAMETERS:,}"
                )


def _states(name: Token, statements: list[list[Token]]) -> tuple[str, ...]:
    for one in statements:
        kind, marks = [t.text for t in one[:2]], [t.mark for t in one]
        if kind == ["type", "discrete"] and (marks[2:6:2], marks[5:6], marks[-1]) == (["[", "]"], ["{"], "}"):
            states = tuple(t.text for t in _items(one[6:-1]))
            if one[3].text == str(len(states)) and states:
                return states
            what = f"{quoted(name.text)} says {one[3].text[:20]} states and lists {len(states)}"
            raise one[3].wrong(f"{what}: labels with spaces or commas must be in quotes")
    raise name.wrong(f"{quoted(name.text)} lacks a line such as type discrete [ 2 ] {{ a, b }}")


def _filled(node: Node, nodes: dict[str, Node], rows: list[list[Token]]) -> Node:
    """Return the node with the parameters that its rows say."""
    if not rows or any(p not in nodes for p in node.parents):
        return node
    parents, own, which = [nodes[p].states for p in node.parents], len(node.states), quoted(node.name)
    table = np.full((*map(len, parents), own), np.nan)
    codes = [{s: i for i, s in reversed(list(enumerate(p)))} for p in parents]
    defaults = 0
    for row in rows:
        end = next((i for i, t in enumerate(row) if t.mark == ")"), 0)
        labels = _items(row[1:end]) if row[0].mark else []
        try:
            values = [float(t.text) for t in _items(row[end + 1 :])]
        except ValueError:
            raise row[0].wrong(f"a row of {which} has something else than numbers") from None
        if len(values) == prod(table.shape) and row[0].text == "table" and len(rows) == 1:
            # in the format's own order: the node's state changes last
            table = np.moveaxis(np.reshape(values, (own, *table.shape[:-1])), 0, -1)
        elif len(values) != own:
            raise row[0].wrong(f"a row of {which} has {len(values)} numbers for {own} states")
        elif row[0].text == "default" and not row[0].mark:
            defaults += 1
            if defaults > 1:
                raise row[0].wrong(f"the table of {which} has two default rows")
            table[np.isnan(table[..., 0])] = values
        elif len(labels) != len(parents) or any(t.text not in s for t, s in zip(labels, codes, strict=True)):
            raise row[0].wrong(f"a row of {which} names something else than one state of each parent")
        else:
            table[tuple(s[t.text] for t, s in zip(labels, codes, strict=True))] = values
    if np.isnan(table).any():
        raise rows[0][0].wrong(f"the table of {which} lacks a row")
    return replace(node, parameters=table.reshape(-1, own))


def write(network: Network, head: str, comments: dict[str, str]) -> str:
    """Return a file that every reader reads, with a comment of its own and one for each node."""
    names = _identifiers(list(network.nodes))
    states = {n.name: [s if all(map(_PLAIN.fullmatch, n.states)) else f"s{i}" for i, s in enumerate(n.states)]
              for n in network}  # fmt: skip
    out = [f"{OURS}{head}", *(f"{OURS}{names[n]} {comments[n]}" for n in network.nodes)]
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
    """Return the nearest multiples of 2^-24 that sum to 1; what is positive stays so."""
    whole = largest_remainder(shares, GRID)
    lost = (whole == 0) & (shares > 0)
    whole[lost] = 1
    whole[whole.argmax()] -= int(lost.sum())
    return [float(w) for w in whole / GRID]


def _identifiers(names: list[str]) -> dict[str, str]:
    """Return each node's name where it is an identifier, whatever the case of its letters, else a number."""
    low = Counter(n.lower() for n in names)
    free = (n for n in (f"n{i}" for i in range(2 * len(names))) if n not in low)
    return {n: n if _PLAIN.fullmatch(n) and low[n.lower()] == 1 else next(free) for n in names}

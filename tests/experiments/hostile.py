"""Small inputs that ask for much: each is a folder's files and a command, made by a function of the folder.

`make fuzz` runs them all (`tests.experiments.costs`), the quick tests those that once took minutes or gibibytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.vocabulary import structure

Case = Callable[[Path], list[str]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__.replace("_", " ")] = make
    return make


# -- trees


def full(depth: int, tests: list[str]) -> list[dict[str, Any]]:
    """A full tree; level d tests the d-th attribute, counted round."""
    inner = [
        {"label": "A", "counts": [1, 1], "test": tests[((i + 1).bit_length() - 1) % len(tests)], "cut": i,
         "child": 2 * i + 1}
        for i in range(2**depth - 1)
    ]  # fmt: skip
    return inner + [LEAF] * 2**depth


def chain(length: int) -> list[dict[str, Any]]:
    """Each test has a leaf and the next test below it."""
    inner = [
        {"label": "A", "counts": [length - i, 1], "test": "x", "cut": i, "child": 2 * i + 1}
        for i in range(length)
    ]
    return [inner[0], *(n for node in inner[1:] for n in (LEAF, node)), LEAF, LEAF]


LEAF = {"label": "A", "counts": [1, 0]}


def predicted(
    nodes: list[dict[str, Any]], records: str, names: tuple[str, ...] = ("x",), labels: int = 2
) -> Case:
    """Records to be predicted by a tree of doubles."""

    def make(folder: Path) -> list[str]:
        features = [{"name": n, "dtype": "double", "numeric": True} for n in names]
        class_ = {
            "name": "c",
            "dtype": "string",
            "labels": [chr(65 + i) if labels == 2 else f"l{i}" for i in range(labels)],
        }
        whole = {"format": "ppdm-tree", "version": 1, "tool": "ppdm 0.1.0", "options": {}, "class": class_}
        (folder / "t.json").write_text(json.dumps(whole | {"features": features, "nodes": nodes}))
        (folder / "d.csv").write_text(records)
        return ["predict", "t.json", "d.csv", "-o", "o.csv"]

    return make


def leaf_of(labels: int) -> list[dict[str, Any]]:
    return [{"label": "l0", "counts": [1] * labels}]


@case
def a_tree_of_many_attributes(folder: Path) -> list[str]:
    names = tuple(f"x{i}" for i in range(2000))
    nodes = [n | ({"test": names[i % 2000]} if "test" in n else {}) for i, n in enumerate(full(12, ["x0"]))]
    return predicted(nodes, ",".join(names) + "\n" + (",".join(["1"] * 2000) + "\n") * 500, names)(folder)


CASES |= {
    "a full tree and an empty column": lambda f: predicted(full(16, ["x"]), "x,y\n" + ",1\n" * 1000)(f),
    "a full tree and one column of two": lambda f: predicted(  # no subtree is without the column that is there
        full(14, ["x"] * 13 + ["y"]), "x,y\n" + "".join(f",{i}\n" for i in range(1000)), ("x", "y")
    )(f),
    "a tree like a chain": lambda f: predicted(chain(20_000), "x,y\n" + "1e9,1\n" * 500 + ",1\n" * 500)(f),
    "a tree 100000 deep": lambda f: predicted(chain(100_000), "x,y\n" + "1e9,1\n" * 50 + ",1\n" * 50)(f),
    "a tree of a leaf with 60000 labels": predicted(leaf_of(60_000), "x,c\n" + "1,l5\n" * 1000, labels=60_000),
    "a tree of many labels and many records": predicted(
        leaf_of(1000), "x,c\n" + "1,l5\n" * 300_000, labels=1000
    ),
}


# -- sidecars and releases


def sidecar(folder: Path, attributes: list[dict[str, Any]], epsilon: float | None, records: int = 10) -> None:
    """Seeded where `epsilon` is None: nothing is promised, so nothing must be right.

    Perturbed attributes come with their channels, as "law".
    """
    promise = {"perturbed_gamma": None, "perturbed_epsilon": None, "kept": [], "coins": "seeded"}
    promise["unit"] = "record"
    if epsilon is not None:
        promise |= {"perturbed_gamma": "inf", "perturbed_epsilon": "inf", "coins": "system"}
    promise["kept"] = [a["name"] for a in attributes if a["role"] == "kept"]
    said = {"format": "ppdm-sidecar", "version": 1, "tool": "ppdm 0.1.0", "stage": "perturbed"}
    said |= {"release": "12345678-1234-4234-8234-123456789abc", "records": records, "privacy": promise}
    channels = [{"attributes": [a["name"]], **a["law"]} for a in attributes if "law" in a]
    said |= {"attributes": [{k: v for k, v in a.items() if k != "law"} for a in attributes]}
    (folder / "r.csv.ppdm.json").write_text(json.dumps(said | {"recipes": [{"channels": channels}]}))


ALIKE = {"role": "perturbed", "nulls": False, "domain_from": "declared"}


def category(name: str, N: int) -> dict[str, Any]:
    own = {"name": name, "N": N, "categories": list(range(N)), "type": "discrete", "dtype": "int64"}
    return own | ALIKE | {"law": {"kind": "gamma-diagonal", "gamma": 9}}


def binned(name: str, N: int, law: dict[str, Any]) -> dict[str, Any]:
    own = {"name": name, "N": N, "edges": list(range(N + 1)), "type": "continuous", "dtype": "double"}
    return own | ALIKE | {"representative": "center", "law": law}


def release(folder: Path, attributes: list[dict[str, Any]], rows: int = 10, seed: int = 1) -> None:
    sidecar(folder, attributes, None, rows)
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, a["N"], rows) + (0.5 if "edges" in a else 0) for a in attributes]
    lines = [[a["name"] for a in attributes], *zip(*columns, strict=True)]
    (folder / "r.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))


def released(words: str, *attributes: dict[str, Any], rows: int = 10) -> Case:
    """What a command does with a release of these attributes."""

    def make(folder: Path) -> list[str]:
        release(folder, list(attributes), rows)
        return words.split()

    return make


def sizes(words: str, *domains: int) -> Case:
    return released(words, *(category(f"a{i}", n) for i, n in enumerate(domains)))


def inspected(*attributes: dict[str, Any], words: str = "inspect r.csv.ppdm.json") -> Case:
    def make(folder: Path) -> list[str]:
        sidecar(folder, list(attributes), None)
        return words.split()

    return make


def noisy(many: int, N: int, sd: float, apart: float = 1.0) -> list[dict[str, Any]]:
    law = {"kind": "additive", "noise": "normal", "dtype": "double"}
    return [binned(f"a{i}", N, law | {"sd": sd + i * apart}) for i in range(many)]


def blurred(name: str, N: int, reach: int) -> dict[str, Any]:
    own = binned(name, N, {"kind": "band", "gamma": 9, "half_width": [reach]})
    beyond = {"dtype": "double", "below": list(range(-reach, 0)), "above": list(range(N + 1, N + 1 + reach))}
    return own | {"beyond": beyond}


@case
def a_long_list_of_kept_columns(folder: Path) -> list[str]:
    kept = [{"name": f"k{i}" * 20, "role": "kept", "type": "discrete", "dtype": "int64"} for i in range(30_000)]
    return inspected(category("a", 2), *kept)(folder)


@case
def two_domains_of_65536_attacked_with_the_original(folder: Path) -> list[str]:
    words = sizes("attack r.csv --truth truth.csv", 65_536, 65_536)(folder)
    (folder / "truth.csv").write_bytes((folder / "r.csv").read_bytes())
    return words


TRAIN, ESTIMATE = "train-tree r.csv -o t.json --class", "estimate r.csv --joint"
BROAD = [category(f"a{i}", 3) for i in range(2000)]
MANY = [category(f"a{i}", 2) for i in range(60_000)]
CASES |= {
    "forty noisy attributes of 1024 bins": inspected(*noisy(40, 1024, 100.0)),
    "many noisy attributes of 64 bins": inspected(*noisy(5000, 64, 9.0, 0.01)),
    "forty bands of 2048 bins": lambda f: inspected(*(blurred(f"a{i}", 2048, 3 + i) for i in range(40)))(f),
    "sixty thousand attributes": inspected(*MANY),
    "sixty thousand attributes as json": inspected(*MANY, words="inspect r.csv.ppdm.json --json"),
    "two domains of 65536 attacked": sizes("attack r.csv", 65_536, 65_536),
    "two domains of 65536 estimated": sizes("estimate r.csv", 65_536, 65_536),
    "two domains of 65536 reconstructed": sizes("reconstruct r.csv -o o.csv", 65_536, 65_536),
    "two domains of 65536 trained on": sizes(f"{TRAIN} a2", 65_536, 65_536, 2),
    "a class of 65536 labels trained on": sizes(f"{TRAIN} a0", 65_536, 65_536, 2),
    "a class of 65536 labels estimated by": sizes("estimate r.csv --by a0", 65_536, 60, 60, 60),
    "the entropy of two domains of 65536": sizes("entropy r.csv", 65_536, 65_536),
    "a joint domain of 8000 by 8000": sizes(f"{ESTIMATE} a0,a1", 8000, 8000),
    "a joint domain of 1400 by 1400": sizes(f"{ESTIMATE} a0,a1", 1400, 1400),
    "a joint domain of three": sizes(f"{ESTIMATE} a0,a1,a2", 120, 120, 120),
    "two thousand columns attacked": released("attack r.csv", *BROAD, rows=50),
    "two thousand columns estimated": released("estimate r.csv", *BROAD, rows=50),
    "two thousand columns reconstructed": released("reconstruct r.csv -o o.csv", *BROAD, rows=50),
    "two thousand columns trained on": released(f"{TRAIN} a0", *BROAD, rows=50),
    "noise of 1024 bins attacked": released("attack r.csv", *noisy(4, 1024, 100.0)),
    "noise of 1024 bins estimated": released("estimate r.csv", *noisy(4, 1024, 100.0)),
    "forty attributes of 1000 values trained on": released(
        f"{TRAIN} c", *(category(f"a{i}", 1000) for i in range(40)), category("c", 2), rows=500
    ),
    "a hundred and fifty attributes of 1000 values attacked": released(
        "attack r.csv", *(category(f"a{i}", 1000) for i in range(150)), rows=100
    ),
}


# -- networks


def bif(folder: Path, parents: int, states: int, rows: str = "default .5, .5;") -> list[str]:
    names = [f"p{i}" for i in range(parents)]
    own = ", ".join(f"s{i}" for i in range(states))
    lines = [f"variable {n} {{ type discrete [ {states} ] {{ {own} }}; }}" for n in [*names, "x"]]
    even = ", ".join([str(1 / states)] * states)
    lines += [f"probability ( {n} ) {{ table {even}; }}" for n in names]
    lines.append(f"probability ( x | {', '.join(names)} ) {{ {rows.replace('.5, .5', even)} }}")
    (folder / "n.bif").write_text("\n".join(lines))
    return ["generate", "--network", "n.bif", "-o", "o.csv", "--records", "100", "--seed", "1"]


def chained(folder: Path, length: int, backwards: bool = False, rows: int = 2) -> list[str]:
    nodes = []
    for i in range(length):
        before = [f"n{i - 1}"] * (i > 0)
        nodes.append({"name": f"n{i}", "states": ["a", "b"], "parents": before})
        nodes[-1]["parameters"] = [[0.5, 0.5]] * 2 ** len(before)
    said = {"format": "ppdm-network", "version": 1, "tool": "x"}
    (folder / "n.json").write_text(json.dumps(said | {"nodes": nodes[::-1] if backwards else nodes}))
    return ["generate", "--network", "n.json", "-o", "o.parquet", "--records", str(rows), "--seed", "1"]


CASES |= {
    "a network of 26 parents": lambda f: bif(f, 26, 2),
    "a network of 40 parents": lambda f: bif(f, 40, 2),
    "a network of 19 parents": lambda f: bif(f, 19, 2),
    "a network of many default rows": lambda f: bif(f, 16, 2, "default .5, .5; " * 20_000),
    "a network of 20000 states": lambda f: bif(f, 1, 20_000, "default .5, .5;"),
    "a network of 1000 states and rows": lambda f: bif(
        f, 1, 1000, "".join(f"(s{i}) .5, .5; " for i in range(1000))
    ),
    "a chain of 3000 nodes": lambda f: chained(f, 3000),
    "a chain of 30000 nodes": lambda f: chained(f, 30_000, True),
    "a network of large numbers": lambda f: bif(f, 1, 2, "(s0) inf, 1e308; (s1) 1e308, 1e308;"),
}


@case
def a_network_of_many_nodes_of_20_parents(folder: Path) -> list[str]:
    """Each node is a few hundred bytes and has two million parameters."""
    names = [f"p{i}" for i in range(19)]
    lines = [f"variable {n} {{ type discrete [ 2 ] {{ a, b }}; }}" for n in names]
    lines += [f"probability ( {n} ) {{ table .5, .5; }}" for n in names]
    for i in range(500):
        lines.append(f"variable x{i} {{ type discrete [ 2 ] {{ a, b }}; }}")
        lines.append(f"probability ( x{i} | {', '.join(names)} ) {{ default .5, .5; }}")
    (folder / "n.bif").write_text("\n".join(lines))
    return ["generate", "--network", "n.bif", "-o", "o.csv", "--records", "10", "--seed", "1"]


@case
def a_structure_of_40_parents_learnt(folder: Path) -> list[str]:
    (folder / "net.json").write_text(structure(*(f"a{i} -> a40" for i in range(40))))
    columns = (category(f"a{i}", 2) for i in range(41))
    return released("train-bayes r.csv --network net.json -o n.json", *columns, rows=50)(folder)


# -- questions


def asked(question: str, columns: int = 4) -> Case:
    def make(folder: Path) -> list[str]:
        release(folder, [category(f"a{i}", 3) for i in range(columns)], 50)
        return ["query", "r.csv", question]

    return make


CASES |= {
    "2000 answers": asked("select " + ", ".join(f"share(a0 < {i}) as s{i}" for i in range(2000))),
    "2000 answers of as many columns": asked("select " + ", ".join(f"mean(a{i})" for i in range(2000)), 2000),
    "five hundred answers": asked("select " + ", ".join(f"mean(a{i % 4} * {i + 2})" for i in range(500))),
    "2000 means": asked("select " + ", ".join(f"mean(a{i % 4} * {i + 2}) as s{i}" for i in range(2000))),
    "a sum of 5000 answers": asked("select " + " + ".join(["mean(a0)"] * 5000)),
    "a sum of 300 answers": asked("select " + " + ".join(f"mean(a{i % 4})" for i in range(300))),
    "a product of 3000 columns": asked("select mean(" + "*".join(["a0"] * 3000) + ")"),
    "a product of 60 columns": asked("select mean(" + "*".join(f"a{i % 4}" for i in range(60)) + ")"),
    "brackets 3000 deep": asked("select " + "(" * 3000 + "mean(a0)" + ")" * 3000),
    "signs 5000 deep": asked("select " + "- " * 5000 + "mean(a0)"),
    "conditions 3000 deep": asked("select count() where " + "not " * 3000 + "a0 = 1"),
    "an or of 3000 conditions": asked("select count() where " + " or ".join(f"a0 = {i}" for i in range(3000))),
    "a list of 9000 values": asked(
        "select count() where a0 in (" + ", ".join(str(i) for i in range(9000)) + ")"
    ),
    "a long union": asked("select count() " + "union all select count() " * 2000),
    "subqueries 500 deep": asked("select count() from (" * 500 + "r" + ")" * 500),
    "groups by 40 columns": asked("select count() group by " + ", ".join(f"a{i}" for i in range(40)), 40),
    "a regression on 30 columns": asked("select linear(" + ", ".join(f"a{i}" for i in range(30)) + ")", 30),
}


@case
def a_regression_on_450_labels(folder: Path) -> list[str]:
    own = category("b", 450) | {"categories": [f"l{i:03}" for i in range(450)], "dtype": "string"}
    release(folder, [category("a", 3), own], 50)
    lines = [line.split(",") for line in (folder / "r.csv").read_text().split()]
    texts = [f"{a},{b if i == 0 else 'l' + b.zfill(3)}\n" for i, (a, b) in enumerate(lines)]
    (folder / "r.csv").write_text("".join(texts))
    return ["query", "r.csv", "select linear(a, b)"]


def kept(folder: Path, question: str, labels: int = 60_000) -> list[str]:
    """A question about a kept column of as many labels as records."""
    own = {"name": "k", "role": "kept", "type": "discrete", "dtype": "string"}
    texts = [f"l{i:05}" for i in range(labels)]
    made = category("a", 3)
    release(folder, [made], labels)
    sidecar(folder, [made, own | {"categories": texts, "N": labels, "nulls": False}], None, labels)
    codes = (folder / "r.csv").read_text().split()[1:]
    rows = [f"{a},{k}\n" for a, k in zip(codes, texts, strict=True)]
    (folder / "r.csv").write_text("a,k\n" + "".join(rows))
    return ["query", "r.csv", question]


def two_kept(question: str, values: int) -> Case:
    """A question about two kept columns of so many values each."""

    def make(folder: Path) -> list[str]:
        own = {"role": "kept", "type": "discrete", "dtype": "int64"}
        made = category("a", 3)
        sidecar(folder, [made, own | {"name": "k"}, own | {"name": "l"}], None, values)
        rows = [f"{i % 3},{i},{values - i}\n" for i in range(values)]
        (folder / "r.csv").write_text("a,k,l\n" + "".join(rows))
        return ["query", "r.csv", question]

    return make


CASES |= {
    "groups by a kept column of 60000 labels": lambda f: kept(
        f, "select mean(a), share(a = 1), count() group by k"
    ),
    "five hundred answers by 500 kept labels": lambda f: kept(
        f, "select " + ", ".join(f"mean(a * {i + 2})" for i in range(500)) + " group by k", 500
    ),
    "independence of two kept columns of 600 values": two_kept("select independent(k, l)", 600),
    "independence of two kept columns of 70 values": two_kept("select independent(k, l)", 70),
    "independence of two kept columns of 999 values": two_kept("select independent(a, k)", 999),
    "a mean that is the same over 999 values": two_kept("select same(mean(a), k)", 999),
    "a quantile by 999 values": two_kept("select quantile(k, .5), mean(a) group by l", 999),
}

"""Small networks, questions, mappings and tables that ask for much; see `tests.hostile`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile import CASES, Case, case, category, chain, release, sidecar, tree
from tests.hostile_tables import PERTURB
from tests.vocabulary import structure

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


NETWORKS: dict[str, Case] = {
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
}
CASES |= NETWORKS


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
def a_network_of_large_numbers(folder: Path) -> list[str]:
    return bif(folder, 1, 2, "(s0) inf, 1e308; (s1) 1e308, 1e308;")


@case
def a_structure_of_40_parents_learnt(folder: Path) -> list[str]:
    release(folder, [category(f"a{i}", 2) for i in range(41)], 50)
    (folder / "net.json").write_text(structure(*(f"a{i} -> a40" for i in range(40))))
    return ["train-bayes", "r.csv", "--network", "net.json", "-o", "n.json"]


# -- questions


def asked(question: str, columns: int = 4, rows: int = 50) -> Case:
    def make(folder: Path) -> list[str]:
        release(folder, [category(f"a{i}", 3) for i in range(columns)], rows)
        return ["query", "r.csv", question]

    return make


CASES |= {
    "2000 answers": asked("select " + ", ".join(f"share(a0 < {i}) as s{i}" for i in range(2000))),
    "2000 answers of as many columns": asked("select " + ", ".join(f"mean(a{i})" for i in range(2000)), 2000),
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


@case
def groups_by_a_kept_column_of_60000_labels(folder: Path) -> list[str]:
    return kept(folder, "select mean(a), share(a = 1), count() group by k")


@case
def five_hundred_answers_by_500_kept_labels(folder: Path) -> list[str]:
    return kept(folder, "select " + ", ".join(f"mean(a * {i + 2})" for i in range(500)) + " group by k", 500)


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
    "independence of two kept columns of 600 values": two_kept("select independent(k, l)", 600),
    "independence of two kept columns of 70 values": two_kept("select independent(k, l)", 70),
    "independence of two kept columns of 999 values": two_kept("select independent(a, k)", 999),
    "a mean that is the same over 999 values": two_kept("select same(mean(a), k)", 999),
    "a quantile by 999 values": two_kept("select quantile(k, .5), mean(a) group by l", 999),
}


@case
def five_hundred_answers(folder: Path) -> list[str]:
    return asked("select " + ", ".join(f"mean(a{i % 4} * {i + 2})" for i in range(500)))(folder)


# -- plans, mappings, trees, tables


@case
def a_plan_of_10000_attributes(folder: Path) -> list[str]:
    names = [f"a{i}" for i in range(10_000)]
    (folder / "d.csv").write_text(",".join(names) + "\n" + (",".join(["1"] * 10_000) + "\n") * 2)
    (folder / "p.toml").write_text("".join(f"[attributes.{n}]\ngamma = 5\ndomain = '0:3'\n" for n in names))
    return ["perturb", "-o", "o.parquet", "d.csv", "--plan", "p.toml"]


@case
def a_mapping_of_2_million_lines(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("a\n" + "v1\nv2\n" * 99)
    (folder / "m.csv").write_text("a,group\n" + "".join(f"v{i},g{i % 5}\n" for i in range(2_000_000)))
    (folder / "p.toml").write_text("[attributes.a]\nmapping = \"m.csv\"\n")
    return [*PERTURB, "d.csv", "--plan", "p.toml", "--shuffle"]


@case
def a_mapping_of_one_line(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("a\n" + "v1\nv2\n" * 99)
    (folder / "m.csv").write_text("a,group\n" + "v" * (80 << 20))
    (folder / "p.toml").write_text("[attributes.a]\nmapping = \"m.csv\"\n")
    return [*PERTURB, "d.csv", "--plan", "p.toml", "--shuffle"]


@case
def a_tree_100000_deep(folder: Path) -> list[str]:
    tree(folder, chain(100_000), ["x"])
    (folder / "d.csv").write_text("x,y\n" + "1e9,1\n" * 50 + ",1\n" * 50)
    return ["predict", "t.json", "d.csv", "-o", "o.csv"]


@case
def a_csv_of_one_huge_line(folder: Path) -> list[str]:
    (folder / "d.csv").write_bytes(b"a,b\n" + b"1" * (60 << 20))
    return [*PERTURB, "d.csv"]


@case
def an_arrow_file_of_empty_batches(folder: Path) -> list[str]:
    batch = pa.RecordBatch.from_arrays([pa.array([], pa.int64())], ["a"])
    with pa.ipc.new_file(folder / "d.arrow", batch.schema) as writer:
        for _ in range(150_000):
            writer.write_batch(batch)
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array([1, 2, 3] * 40)], ["a"]))
    return [*PERTURB, "d.arrow"]


@case
def a_parquet_of_many_row_groups(folder: Path) -> list[str]:
    with pq.ParquetWriter(folder / "d.parquet", pa.schema([("a", pa.int64())])) as writer:
        for i in range(20_000):
            writer.write_table(pa.table({"a": [i % 3]}))
    return [*PERTURB, "d.parquet", "--keep-order"]


@case
def a_bomb_of_gzip_in_gzip(folder: Path) -> list[str]:
    (folder / "d.csv.gz").write_bytes(gzip.compress(gzip.compress(b"a\n" + b"1\n2\n" * (40 << 20), 9), 9))
    return [*PERTURB, "d.csv.gz"]


@case
def a_bomb_of_zeros_as_a_release(folder: Path) -> list[str]:
    release(folder, [category("a", 3)], 10)
    (folder / "r.csv.gz").write_bytes(gzip.compress(b"a\n" + b"\0" * (400 << 20), 9))
    (folder / "r.csv.gz.ppdm.json").write_bytes((folder / "r.csv.ppdm.json").read_bytes())
    return ["estimate", "r.csv.gz"]


@case
def forty_attributes_of_1000_values_trained_on(folder: Path) -> list[str]:
    release(folder, [category(f"a{i}", 1000) for i in range(40)] + [category("c", 2)], 500)
    return ["train-tree", "r.csv", "--class", "c", "-o", "t.json"]


@case
def a_hundred_and_fifty_attributes_of_1000_values_attacked(folder: Path) -> list[str]:
    release(folder, [category(f"a{i}", 1000) for i in range(150)], 100)
    return ["attack", "r.csv"]


@case
def rows_of_one_person_without_end(folder: Path) -> list[str]:
    (folder / "d.csv").write_text("p,a\n" + "".join(f"1,{i % 3}\n" for i in range(400_000)))
    return [*PERTURB, "d.csv", "--person", "p", "--rows-per-person", "1"]



"""Small inputs that ask for much: each is a folder's files and a command, made by a function of its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Case = Callable[[Path], list[str]]
CASES: dict[str, Case] = {}


def case(make: Case) -> Case:
    CASES[make.__name__.replace("_", " ")] = make
    return make


# -- trees


def leaf() -> dict[str, Any]:
    return {"label": "A", "counts": [1, 0]}


def full(depth: int, tests: list[str]) -> list[dict[str, Any]]:
    """A full tree; level d tests the d-th attribute, counted round."""
    inner = [
        {
            "label": "A",
            "counts": [1, 1],
            "test": tests[((i + 1).bit_length() - 1) % len(tests)],
            "cut": i,
            "child": 2 * i + 1,
        }
        for i in range(2**depth - 1)
    ]
    return inner + [leaf() for _ in range(2**depth)]


def chain(length: int) -> list[dict[str, Any]]:
    """Each test has a leaf and the next test below it."""
    nodes: list[dict[str, Any]] = []
    for i in range(length):
        nodes.append({"label": "A", "counts": [length - i, 1], "test": "x", "cut": i, "child": 2 * i + 1})
        nodes.append(leaf())
    return [nodes[0], *(n for i in range(1, length) for n in (leaf(), nodes[2 * i])), leaf(), leaf()]


def tree(folder: Path, nodes: list[Any], names: list[str], labels: list[str] | None = None) -> None:
    features = [{"name": n, "dtype": "double", "numeric": True} for n in names]
    said = {"format": "ppdm-tree", "version": 1, "tool": "ppdm 0.1.0", "options": {}}
    said["class"] = {"name": "c", "dtype": "string", "labels": labels or ["A", "B"]}
    (folder / "t.json").write_text(json.dumps(said | {"features": features, "nodes": nodes}))


PREDICT = ["predict", "t.json", "d.csv", "-o", "o.csv"]


@case
def a_full_tree_and_an_empty_column(folder: Path) -> list[str]:
    tree(folder, full(16, ["x"]), ["x"])
    (folder / "d.csv").write_text("x,y\n" + ",1\n" * 1000)
    return PREDICT


@case
def a_full_tree_and_one_column_of_two(folder: Path) -> list[str]:
    """No subtree is without the column that is there."""
    tree(folder, full(14, ["x"] * 13 + ["y"]), ["x", "y"])
    (folder / "d.csv").write_text("x,y\n" + "".join(f",{i}\n" for i in range(1000)))
    return PREDICT


@case
def a_tree_like_a_chain(folder: Path) -> list[str]:
    tree(folder, chain(20_000), ["x"])
    (folder / "d.csv").write_text("x,y\n" + "1e9,1\n" * 500 + ",1\n" * 500)
    return PREDICT


@case
def a_tree_of_a_leaf_with_60000_labels(folder: Path) -> list[str]:
    labels = [f"l{i}" for i in range(60_000)]
    tree(folder, [{"label": "l0", "counts": [1] * 60_000}], ["x"], labels)
    (folder / "d.csv").write_text("x,c\n" + "1,l5\n" * 1000)
    return PREDICT


@case
def a_tree_of_many_labels_and_many_records(folder: Path) -> list[str]:
    labels = [f"l{i}" for i in range(1000)]
    tree(folder, [{"label": "l0", "counts": [1] * 1000}], ["x"], labels)
    (folder / "d.csv").write_text("x,c\n" + "1,l5\n" * 300_000)
    return PREDICT


@case
def a_tree_of_many_attributes(folder: Path) -> list[str]:
    names = [f"x{i}" for i in range(2000)]
    nodes = full(12, ["x0"])
    for i, node in enumerate(nodes):
        if "test" in node:
            node["test"] = names[i % 2000]
    tree(folder, nodes, names)
    (folder / "d.csv").write_text(",".join(names) + "\n" + (",".join(["1"] * 2000) + "\n") * 500)
    return PREDICT


# -- sidecars


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


@case
def forty_noisy_attributes_of_1024_bins(folder: Path) -> list[str]:
    noise = {"kind": "additive", "noise": "normal", "sd": 100.0, "dtype": "double"}
    sidecar(folder, [binned(f"a{i}", 1024, noise | {"sd": 100.0 + i}) for i in range(40)], None)
    return ["inspect", "r.csv.ppdm.json"]


@case
def many_noisy_attributes_of_64_bins(folder: Path) -> list[str]:
    noise = {"kind": "additive", "noise": "normal", "dtype": "double"}
    sidecar(folder, [binned(f"a{i}", 64, noise | {"sd": 9.0 + i / 100}) for i in range(5000)], None)
    return ["inspect", "r.csv.ppdm.json"]


@case
def forty_bands_of_2048_bins(folder: Path) -> list[str]:
    bands = [binned(f"a{i}", 2048, {"kind": "band", "gamma": 9, "half_width": [3 + i]}) for i in range(40)]
    for a in bands:
        reach = a["law"]["half_width"][0]
        below, above = list(range(-reach, 0)), list(range(2049, 2049 + reach))
        a["beyond"] = {"dtype": "double", "below": below, "above": above}
    sidecar(folder, bands, None)
    return ["inspect", "r.csv.ppdm.json"]


@case
def sixty_thousand_attributes(folder: Path) -> list[str]:
    sidecar(folder, [category(f"a{i}", 2) for i in range(60_000)], None)
    return ["inspect", "r.csv.ppdm.json"]


@case
def sixty_thousand_attributes_as_json(folder: Path) -> list[str]:
    return [*sixty_thousand_attributes(folder), "--json"]


@case
def a_long_list_of_kept_columns(folder: Path) -> list[str]:
    kept = [{"name": f"k{i}" * 20, "role": "kept", "type": "discrete", "dtype": "int64"} for i in range(30_000)]
    sidecar(folder, [category("a", 2), *kept], None)
    return ["inspect", "r.csv.ppdm.json"]


# -- releases of large domains


def large(folder: Path, *sizes: int) -> None:
    release(folder, [category(f"a{i}", n) for i, n in enumerate(sizes)])


@case
def two_domains_of_65536_attacked(folder: Path) -> list[str]:
    large(folder, 65_536, 65_536)
    return ["attack", "r.csv"]


@case
def two_domains_of_65536_attacked_with_the_original(folder: Path) -> list[str]:
    large(folder, 65_536, 65_536)
    (folder / "truth.csv").write_bytes((folder / "r.csv").read_bytes())
    return ["attack", "r.csv", "--truth", "truth.csv"]


@case
def two_domains_of_65536_estimated(folder: Path) -> list[str]:
    large(folder, 65_536, 65_536)
    return ["estimate", "r.csv"]


@case
def two_domains_of_65536_reconstructed(folder: Path) -> list[str]:
    large(folder, 65_536, 65_536)
    return ["reconstruct", "r.csv", "-o", "o.csv"]


@case
def two_domains_of_65536_trained_on(folder: Path) -> list[str]:
    large(folder, 65_536, 65_536, 2)
    return ["train-tree", "r.csv", "--class", "a2", "-o", "t.json"]


@case
def a_class_of_65536_labels_trained_on(folder: Path) -> list[str]:
    large(folder, 65_536, 65_536, 2)
    return ["train-tree", "r.csv", "--class", "a0", "-o", "t.json"]


@case
def a_class_of_65536_labels_estimated_by(folder: Path) -> list[str]:
    large(folder, 65_536, 60, 60, 60)
    return ["estimate", "r.csv", "--by", "a0"]


@case
def the_entropy_of_two_domains_of_65536(folder: Path) -> list[str]:
    large(folder, 65_536, 65_536)
    return ["entropy", "r.csv"]


@case
def a_joint_domain_of_8000_by_8000(folder: Path) -> list[str]:
    large(folder, 8000, 8000)
    return ["estimate", "r.csv", "--joint", "a0,a1"]


@case
def a_joint_domain_of_1400_by_1400(folder: Path) -> list[str]:
    large(folder, 1400, 1400)
    return ["estimate", "r.csv", "--joint", "a0,a1"]


@case
def a_joint_domain_of_three(folder: Path) -> list[str]:
    large(folder, 120, 120, 120)
    return ["estimate", "r.csv", "--joint", "a0,a1,a2"]


@case
def two_thousand_columns_attacked(folder: Path) -> list[str]:
    release(folder, [category(f"a{i}", 3) for i in range(2000)], 50)
    return ["attack", "r.csv"]


@case
def two_thousand_columns_estimated(folder: Path) -> list[str]:
    release(folder, [category(f"a{i}", 3) for i in range(2000)], 50)
    return ["estimate", "r.csv"]


@case
def two_thousand_columns_reconstructed(folder: Path) -> list[str]:
    release(folder, [category(f"a{i}", 3) for i in range(2000)], 50)
    return ["reconstruct", "r.csv", "-o", "o.csv"]


@case
def two_thousand_columns_trained_on(folder: Path) -> list[str]:
    release(folder, [category(f"a{i}", 3) for i in range(2000)], 50)
    return ["train-tree", "r.csv", "--class", "a0", "-o", "t.json"]


@case
def noise_of_1024_bins_attacked(folder: Path) -> list[str]:
    noise = {"kind": "additive", "noise": "normal", "sd": 100.0, "dtype": "double"}
    release(folder, [binned(f"a{i}", 1024, noise | {"sd": 100.0 + i}) for i in range(4)])
    return ["attack", "r.csv"]


@case
def noise_of_1024_bins_estimated(folder: Path) -> list[str]:
    noise = {"kind": "additive", "noise": "normal", "sd": 100.0, "dtype": "double"}
    release(folder, [binned(f"a{i}", 1024, noise | {"sd": 100.0 + i}) for i in range(4)])
    return ["estimate", "r.csv"]

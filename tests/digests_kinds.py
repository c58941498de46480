"""Digests of small releases, most of whose records publish everything: every kind of channel and result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import designs, entropy, estimate, perturb, reconstruct, record_designs, train_bayes, train_tree
from ppdm_cli.networks import Network, Node
from tests.digests import (
    ITERATED,
    Digests,
    digest,
    in_file,
    named,
    of_csv,
    of_every_result,
    of_release,
    of_sidecar,
    of_table,
    original,
)

RECORDS = 3000
COLUMNS = ["salary", "age", "elevel", "car", "loan", "group"]
DOMAINS: dict[str, dict[str, Any]] = {
    "salary": {"domain": [20000, 150000], "bins": 10},
    "age": {"domain": [20, 80], "bins": 12},
    "elevel": {"domain": "0|1|2|3|4"},
    "loan": {"domain": [0, 500000], "bins": 10},
}
QUESTIONS = {
    "means": "select count(), mean(age), sum(loan), stddev(salary)",
    "shares": "select share(elevel = 0) as none, share(age >= 50) as old",
    "quantile": "select quantile(salary, .9), median(loan)",
    "difference": "select mean(age) filter (where elevel = 0) - mean(age) filter (where elevel = 4) as gap",
    "by group": "select mean(age), share(elevel in (3, 4)) group by group",
    "tests": "select independent(age, elevel), corr(age, salary)",
}
MIXED = {
    "shares": "select count(), share(smoker = 'yes'), share(region in ('n', 'e'))",
    "by group": "select share(smoker = 'yes') group by group",
}
REGION = ",n,e,s,w\nn,.8,.1,.1,.05\ne,.1,.8,.1,.05\ns,.05,.05,.7,.1\nw,.05,.05,.1,.8\n"
SINGLE: dict[str, dict[str, Any]] = {
    "gamma": {"gamma": 9, "attributes": DOMAINS, "bins": 10},
    "kept class": {"gamma": 5, "bins": 12, "matrix": "band", "keep": ["group"]},
    "budget for all": {"record_epsilon": 6, "publish": "all", "attributes": DOMAINS, "bins": 10},
    "together": {"gamma": 9, "attributes": DOMAINS, "bins": 10, "together": [["age", "elevel"]]},
    "additive noise": {"scheme": "additive", "noise": "normal", "sd": "25%", "keep": ["group"]},
}
SCHEMES = ("class-random", "class-probabilistic", "class-all-leaves", "innocent", "class-random,innocent")


def people(records: int = RECORDS) -> pl.DataFrame:
    return original(2, records).select(COLUMNS)


def of_single(folder: Path) -> Digests:
    truth, digests = people(), {}
    about: dict[str, Any] = {"pair": ("age", "elevel"), "by": "group", "questions": QUESTIONS}
    for name, asked in SINGLE.items():
        made = in_file(folder, truth, asked | {"class_": "group", "seed": 6, "rare": "publish"}, **about)
        digests |= named(f"one recipe, {name}", of_every_result(made))
    return digests


def mixed() -> pl.DataFrame:
    """Records with a column for each kind that is given whole."""
    rng = np.random.default_rng(3)
    group = rng.choice(["a", "b"], RECORDS, p=[0.7, 0.3])
    region = np.where(group == "a", rng.choice(list("nesw"), RECORDS, p=[0.5, 0.2, 0.2, 0.1]), "w")
    smoker = np.where(rng.random(RECORDS) < np.where(group == "a", 0.2, 0.6), "yes", "no")
    code = rng.choice(["x1", "x2", "y1", "y2", "y3"], RECORDS)
    return pl.DataFrame({"region": region, "smoker": smoker, "code": code, "group": group})


def of_given_whole(folder: Path) -> Digests:
    (folder / "region.csv").write_text(REGION)
    attributes = {
        "region": {"matrix": "dense", "table": str(folder / "region.csv")},
        "smoker": {"matrix": "binary", "flips": [0.1, 0.25]},
        "code": {"matrix": "block", "blocks": [["x1", "x2"], ["y1", "y2", "y3"]]},
        "group": {"matrix": "symmetric", "each": 0.1},
    }
    asked = {"gamma": 9, "class_": "group", "attributes": attributes, "seed": 7}
    made = in_file(folder, mixed(), asked, pair=("code", "smoker"), by="group", questions=MIXED)
    return named("one recipe, dense, binary, block and symmetric", of_every_result(made))


def of_copies(folder: Path) -> Digests:
    """Return the digests of two copies, and of what both tell together."""
    asked: dict[str, Any] = {"gamma": 9, "attributes": DOMAINS, "bins": 10, "class_": "group", "seed": 8}
    perturb(people(), folder / "copy.csv", copies=2, **asked)
    paths = sorted(folder.glob("copy*.csv"))
    assert len(paths) == 2
    digests = {f"release {i}": digest(p.read_bytes()) for i, p in enumerate(paths, 1)}
    digests |= {f"sidecar {i}": of_sidecar(p.with_name(f"{p.name}.ppdm.json")) for i, p in enumerate(paths, 1)}
    digests["estimate"] = of_table(estimate(paths).frame, ITERATED)
    digests["reconstruction"] = of_csv(reconstruct(paths).frame)
    return named("copies", digests)


def of_persons(folder: Path) -> Digests:
    truth, digests = people().with_columns(who=pl.int_range(RECORDS) % 700), {}
    ways: dict[str, dict[str, Any]] = {"gamma 9": {"gamma": 9}}
    ways["recipes, epsilon 2"] = {"record_epsilon": 2, "publish": 2}
    for name, way in ways.items():
        asked = way | {"person": "who", "rows_per_person": 2, "keep": ["group"], "class_": "group", "seed": 9}
        asked |= {"attributes": DOMAINS, "bins": 10}
        made = in_file(folder, truth, asked, pair=("age", "elevel"), by="group")
        digests |= named(f"persons, {name}", of_release(made))
    return digests


def of_tree_noise(folder: Path) -> Digests:
    truth, digests = people(), {}
    tree = train_tree(truth, "group", min_records=20)
    for scheme in SCHEMES:
        asked = {"scheme": scheme, "tree": tree, "seed": 3}
        made = in_file(folder, truth, asked, pair=("age", "elevel"), by="group")
        digests |= named(f"tree noise, {scheme}", of_release(made))
    return digests


def of_networks(folder: Path) -> Digests:
    values = {"group": ("a", "b"), "smoker": ("no", "yes"), "region": tuple("nesw")}
    shape = Network.of(
        [
            Node("group", (), values["group"]),
            Node("smoker", ("group",), values["smoker"]),
            Node("region", ("group",), tuple(sorted(values["region"]))),
        ]
    )
    release = perturb(mixed(), gamma=9, seed=4, drop=["code"], keep_order=True)
    digests = {}
    for estimator in ("inverse", "em"):
        learnt = train_bayes([(release.frame, release.sidecar)], shape, estimator=estimator, compare=mixed())
        digests[estimator] = of_table(learnt.frame, ITERATED)
    return named("networks", digests)


def of_figures(folder: Path) -> Digests:
    release = perturb(people(), gamma=9, attributes=DOMAINS, bins=10, seed=4)
    few = perturb(people(), record_epsilon=2, publish=2, attributes=DOMAINS, bins=10, seed=4)
    tables = {
        "grid": entropy(gamma=[2, 9], bins=[5, 20], matrix="band", records=RECORDS),
        "release": entropy(release.frame, sidecar=release.sidecar),
        "release of recipes": entropy(few.frame, sidecar=few.sidecar),
        "designs": designs(error=0.1, records=RECORDS, bins=[5, 10]),
        "record designs": record_designs(record_epsilon=2, records=RECORDS, attributes="6x16,2x9n"),
    }
    return named("entropy", {name: of_table(done.frame, ITERATED) for name, done in tables.items()})


def of_kinds(folder: Path) -> Digests:
    parts = (of_single, of_given_whole, of_copies, of_persons, of_tree_noise, of_networks, of_figures)
    return {name: held for part in parts for name, held in part(folder).items()}

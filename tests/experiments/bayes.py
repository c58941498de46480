"""Ma and Sivakumar's experiments, their Model I beside Model II, and two networks of the literature.

Figures 2 and 3 of the paper say the parameters and how many parents each node has, not which: those are
assumed below. Records of experiments 6.2 and 6.3 are counted, not kept: the perturbed joint counts of seven
binary nodes are drawn exactly, axis by axis. Writes tables and pictures to build/papers; FULL=1 makes 100 runs
where it makes 25.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, train_bayes
from ppdm_cli.arrays import Floats
from ppdm_cli.channels import BinarySpec, Channel
from ppdm_cli.domain import Categories
from ppdm_cli.networks import Network, Node, load, sample
from ppdm_cli.networks.learning import Estimation, _Counts, _estimated
from ppdm_cli.networks.network import distances, marginal
from tests.experiments.common import DATA, FULL, drawn, figure, saved, say

SIZES = [2500 * 2**k for k in range(1, 9)]
RUNS = 100 if FULL else 25


def node(name: str, parents: str, *shares: float, states: int = 2) -> Node:
    """A node as the paper prints it: for each state in turn its probability in every configuration."""
    table = np.reshape(shares, (states, -1)) if len(shares) % states == 0 and states > 2 else None
    if table is None:
        table = np.array([shares, [1 - s for s in shares]])
    return Node(name, tuple(parents), tuple("012"[:states]), table.T)


ASSUMED_2 = Network.of([
    node("A", "", 0.7), node("S", "", 0.5), node("T", "A", 0.1, 0.9),
    node("L", "S", 0.3, 0.7, 0.4, 0.15, 0.3, 0.15, states=3),
    node("B", "S", 0.8, 0.15, 0.1, 0.5, 0.1, 0.35, states=3), node("E", "TL", 0.25, 0.8, 0.15, 0.5, 0.3, 0.4),
    node("X", "E", 0.2, 0.6), node("D", "EB", 0.7, 0.65, 0.1, 0.4, 0.8, 0.35),
    node("C", "XD", 0.9, 0.4, 0.6, 0.25),
    node("F", "E", 0.25, 0.9), node("G", "D", 0.2, 0.4),
])  # fmt: skip
PRINTED = {  # Table 2's standard deviations, in hundredths, of the first states
    "A": [0.70], "T": [0.50, 0.77], "S": [0.00], "X": [0.80, 1.1], "L": [0.49, 0.57, 0.64, 0.55],
    "B": [0.77, 0.41, 0.71, 0.73], "E": [0.20, 0.90, 2.7, 1.2, 2.6, 2.34],
    "D": [2.2, 1.3, 3.3, 0.77, 1.7, 5.65], "C": [2.0, 1.6, 2.6, 2.1], "F": [0.73, 1.1], "G": [0.30, 0.29],
}  # fmt: skip
TABLE_1: dict[str, dict[str, Any]] = {
    **{n: {"matrix": "binary", "flips": [0.25, 0.25]} for n in "AD"},
    **{n: {"matrix": "symmetric", "each": 0.15} for n in "LB"},
    **{n: {"matrix": "binary", "flips": [0.2, 0.2]} for n in "EX"},
    **{n: {"matrix": "binary", "flips": [0.1, 0.25]} for n in "CF"},
}
ASSUMED_3 = Network.of([
    node("A", "", 0.5), node("G", "", 0.3), node("B", "A", 0.8, 0.2), node("E", "G", 0.8, 0.2),
    node("C", "BE", 0.5, 0.9, 0.7, 0.35), node("D", "CE", 0.95, 0.15, 0.75, 0.1), node("F", "E", 0.8, 0.2),
])  # fmt: skip
SITES_3 = ("ABC", "GEDF")


def records(network: Network, n: int, seed: int) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(b) for b in sample(network, n, seed)[1]])


def released(
    original: pl.DataFrame, plan: Mapping[str, dict[str, Any]], seed: int, keep: str = ""
) -> tuple[Any, Any]:
    whole = {n: s | {"categories": sorted(set(original[n].unique()))} for n, s in plan.items()}
    done = perturb(original, attributes=whole, keep=list(keep), seed=seed, keep_order=True)
    return done.frame, done.sidecar


def apart(network: Network, true: Network) -> Floats:
    """How far every parameter is from the true one."""
    return np.concatenate(
        [(np.asarray(n.parameters) - np.asarray(true[n.name].parameters)).ravel() for n in network]
    )


def experiment_61() -> pl.DataFrame:
    """Table 2 again: the mean over 5 runs of 20,000 samples, and by how many standard deviations it is off."""
    rows = []
    runs = []
    for seed in range(5):
        original = records(ASSUMED_2, 20_000, seed)
        runs.append(train_bayes([released(original, TABLE_1, 100 + seed, keep="TSG")], ASSUMED_2).network)
    for name, printed in PRINTED.items():
        true = np.asarray(ASSUMED_2[name].parameters)
        found = np.stack([np.asarray(r[name].parameters) for r in runs])
        error = np.mean([np.asarray(r[name].std_error) for r in runs], axis=0)
        spread = np.reshape(printed, (-1, len(true))).T / 100
        for (j, k), sd in np.ndenumerate(spread):
            allowed = max(sd, float(error[j, k]))
            rows.append({
                "node": name, "parents": ASSUMED_2.configuration(ASSUMED_2[name], j), "state": k,
                "true": true[j, k], "mean": found[:, j, k].mean(), "sd": found[:, j, k].std(ddof=1),
                "printed_sd": sd, "delta_sd": error[j, k],
                "off": abs(found[:, j, k].mean() - true[j, k]) / allowed,
                "furthest": (abs(found[:, j, k] - true[j, k]) / allowed).max(),
            })  # fmt: skip
    return pl.DataFrame(rows)


@cache
def joint(network: Network) -> Floats:
    return marginal(network, list(network.nodes))


def counts(
    network: Network, n: int, flips: Mapping[str, float], rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Original and published joint counts of n records of a network of binary nodes, exactly drawn."""
    shares = joint(network)
    original = rng.multinomial(n, shares.ravel()).reshape(shares.shape)
    published = original
    for axis, name in enumerate(network.nodes):
        moved = np.moveaxis(published, axis, 0)
        gone = rng.binomial(moved, flips.get(name, 0.0))
        published = np.moveaxis(moved - gone + gone[::-1], 0, axis)
    return original.astype(float), published.astype(float)


@cache
def channel(name: str, flip: float) -> Channel:
    import pyarrow as pa

    domain = Categories(pa.string(), ["0", "1"], False)
    if not flip:
        return Channel(name, domain, domain)
    spec = BinarySpec(attributes=[name], flips=[flip, flip])
    return Channel(name, domain, domain, spec, spec.matrix(domain))


def learnt(network: Network, published: Floats, flips: Mapping[str, float], prior: float = 0) -> Network:
    """The network's parameters from joint counts."""
    names, nodes = list(network.nodes), []
    for one in network:
        places = [names.index(n) for n in one.family]
        rest = tuple(i for i in range(len(names)) if i not in places)
        table = published.sum(axis=rest).transpose(np.argsort(np.argsort(places)))
        family = tuple(channel(n, flips.get(n, 0.0)) for n in one.family)
        published_counts = _Counts(table, family, one.family, [[0, 1]] * table.ndim, table.shape)
        found = _estimated(published_counts, Estimation(prior=prior))
        nodes.append(Node(one.name, one.parents, one.states, *found))
    return Network(dict(zip(names, nodes, strict=True)))


def distance_of(n: int, p: float, seed: int, priors: Sequence[float] = (0,)) -> list[dict[str, float]]:
    """The paper's distance of each node: between parameters of randomised and of the same, plain records."""
    flips = dict.fromkeys(ASSUMED_3.nodes, p)
    original, published = counts(ASSUMED_3, n, flips, np.random.default_rng([seed, n, int(100 * p)]))
    plain = learnt(ASSUMED_3, original, {})
    found = [distances(plain, learnt(ASSUMED_3, published, flips, prior)) for prior in priors]
    return [{d.node: d.nats for d in each} for each in found]


def experiment_62() -> pl.DataFrame:
    """Fig. 4: distance of C, D and F against p, 10,000 samples, 10 runs; with a prior it is always finite."""
    rows = []
    for p in [round(0.05 * i, 2) for i in range(1, 10)]:
        found = [distance_of(10_000, p, seed, (0, 1)) for seed in range(10)]
        for name in "CDF":
            ml, nats = (np.array([f[way][name] for f in found]) for way in (0, 1))
            rows.append({"node": name, "p": p, "mean": nats.mean(), "sd": nats.std(ddof=1),
                         "infinite_ml": float(np.mean(np.isinf(ml)))})  # fmt: skip
    return pl.DataFrame(rows)


def experiment_63() -> pl.DataFrame:
    """Fig. 5: total distance against n; with maximum likelihood the share of runs where it is infinite."""
    rows = []
    for p in (0.1, 0.2, 0.3, 0.4):
        for n in SIZES:
            both = [[sum(d.values()) for d in distance_of(n, p, s, (0, 1))] for s in range(RUNS)]
            ml, prior = zip(*both, strict=True)
            rows.append({"p": p, "n": n, "mean": np.mean(prior), "sd": np.std(prior, ddof=1),
                         "infinite_ml": float(np.mean(np.isinf(ml)))})  # fmt: skip
    return pl.DataFrame(rows)


def slopes(fig5: pl.DataFrame) -> dict[float, float]:
    """The log-log slope of the mean distance, from k = 1, 3 and 5 on for the three p."""
    found = {}
    for p, first in ((0.1, 1), (0.2, 3), (0.3, 5)):
        rows = fig5.filter((pl.col("p") == p) & (pl.col("n") >= 2500 * 2**first))
        found[p] = float(np.polyfit(np.log(rows["n"]), np.log(rows["mean"]), 1)[0])
    return found


def models(n: int = 10_000, runs: int = RUNS) -> pl.DataFrame:
    """Model I beside Model II on the same records: root mean square errors of all parameters of Fig. 3."""
    rows, names = [], list(ASSUMED_3.nodes)

    def table(columns: np.ndarray) -> Floats:
        return np.bincount(columns @ (1 << np.arange(7)[::-1]), minlength=128).reshape([2] * 7).astype(float)

    for p in (0.1, 0.2, 0.3):
        flips, one, two = dict.fromkeys(names, p), [], []
        for seed in range(runs):
            rng = np.random.default_rng([seed, int(100 * p)])
            drawn_codes = rng.choice(128, n, p=joint(ASSUMED_3).ravel())
            plain = drawn_codes[:, None] >> np.arange(7)[::-1] & 1
            noisy = plain ^ (rng.random(plain.shape) < p)
            two.append(apart(learnt(ASSUMED_3, table(noisy), flips), ASSUMED_3))
            nodes: dict[str, Node] = {}
            for own in SITES_3:  # a party's own columns as they are, the others' as in that release
                raw = np.isin(names, list(own))
                found = learnt(
                    ASSUMED_3, table(np.where(raw, plain, noisy)), {m: p for m in names if m not in own}
                )
                nodes |= {m: found[m] for m in own}
            one.append(apart(Network({m: nodes[m] for m in names}), ASSUMED_3))
        errors = {f"model_{m}": float(np.sqrt(np.mean(np.square(e)))) for m, e in (("I", one), ("II", two))}
        rows.append({"p": p, **errors})
    return pl.DataFrame(rows)


def literature(name: str, n: int = 100_000) -> dict[str, Any]:
    """A network of the literature at gamma 9 a column: how many parameters are in joint intervals."""
    network = load(DATA / f"{name}.bif")
    original = records(network, n, 1)
    frame, sidecar = released(original, {m: {"gamma": 9} for m in network.nodes}, 2)
    found = train_bayes([(frame, sidecar)], network).network
    z, certain = [], 0
    for one in found:
        true = np.asarray(network[one.name].parameters)
        sure = ~np.isnan(np.asarray(one.std_error))
        z += (abs(np.asarray(one.parameters) - true) / np.asarray(one.std_error))[sure].tolist()
        certain += int(sure.sum())
    within = NormalDist().inv_cdf(1 - 0.01 / 2 / certain)
    return {
        "network": name, "records": n, "parameters": sum(np.size(m.parameters) for m in network),
        "with an interval": certain, "furthest": max(z), "together 99 %": within,
        "inside": float(np.mean(np.array(z) <= within)), "within 1.96": float(np.mean(np.array(z) <= 1.96)),
    }  # fmt: skip


def pictures(fig4: pl.DataFrame, fig5: pl.DataFrame) -> None:
    import altair as alt

    x, y = alt.X("p:Q", title="p"), alt.Y("mean:Q", title="distance, nats")
    drawn(figure(fig4, 420, 300).mark_line(point=True).encode(x=x, y=y, color="node:N"), "bayes_fig4.svg")
    log = alt.Scale(type="log")
    x, y = alt.X("n:Q", title="samples", scale=log), alt.Y("mean:Q", title="distance, nats", scale=log)
    drawn(figure(fig5, 420, 300).mark_line(point=True).encode(x=x, y=y, color="p:N"), "bayes_fig5.svg")


def main() -> None:
    made: dict[str, Callable[[], pl.DataFrame]] = {
        "table2": experiment_61, "fig4": experiment_62, "models": models, "fig5": experiment_63,
        "literature": lambda: pl.DataFrame([literature("asia"), literature("alarm")]),
    }  # fmt: skip
    tables = {name: saved(f"bayes_{name}", make()) for name, make in made.items()}
    say("slopes", slopes(tables["fig5"]))
    pictures(tables["fig4"], tables["fig5"])


if __name__ == "__main__":
    main()

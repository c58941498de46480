"""What adversaries get back: published attacks on noise and on random substitution, the audit, Bayes' rule.

Four tables: the errors of the three linear attacks beside Bayes' rule on one attribute; how often the audit
accepts honest releases and rejects lies, with what `audit` measures; the share of exact bins by one attribute
and by the whole record, beside Bayes' rule with the joint distribution of a million clean records; what a kept
column tells.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import numpy as np
import polars as pl

from ppdm_cli import attack, perturb
from ppdm_cli.joint import JointTable
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar
from tests.attacks.test_whole_record import people
from tests.experiments import audit
from tests.experiments.bins import digits
from tests.experiments.common import ATTRIBUTES, FULL, saved, say, table

LINEAR = ("spectral", "pca", "bayes-linear")
PAIRS = {
    (2, "salary"): ("salary", "commission", "age"),
    (2, "age"): ("age", "salary", "commission"),
    (2, "hvalue"): ("hvalue", "zipcode"),
    (4, "salary"): ("salary", "commission", "loan"),
    (4, "loan"): ("loan", "salary", "commission"),
    (1, "age"): ("age",),
}
"""Function and attribute, and the attributes that tell of it, with the class."""


def components(records: int, attributes: int = 30, count: int = 3, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((count, attributes))
    X = rng.standard_normal((records, count)) @ loadings + 0.1 * rng.standard_normal((records, attributes))
    X *= 10 / X.std(axis=0)
    return pl.DataFrame({f"a{j:02}": X[:, j] for j in range(attributes)})


def linear() -> pl.DataFrame:
    """Errors as shares of the standard deviation, and exact bins, mean of 30 attributes."""
    rows = []
    for records in (10_000, 100_000, 1_000_000) if FULL else (10_000, 100_000):
        original = components(records)
        made: dict[str, dict[str, Any]] = {
            "uniform noise, sd half": {"scheme": "additive", "noise": "uniform", "sd": "5", "bins": 20},
            "normal noise, sd half": {"scheme": "additive", "noise": "normal", "sd": "5", "bins": 20},
            "gamma 5, N 10": {"gamma": 5, "bins": 10},
            "gamma 5, N 20": {"gamma": 5, "bins": 20},
            "gamma 5, N 20, band": {"gamma": 5, "bins": 20, "matrix": "band"},
        }
        for name, wishes in made.items():
            release = perturb(original, seed=1, **wishes)
            attacks = (*LINEAR, "posterior")
            done = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=attacks)
            means = done.frame.group_by("attack", maintain_order=True).agg(
                pl.col("rmse_share", "exact", "near", "exact_prior").mean()
            )
            rows += [{"release": name, "records": records} | r for r in means.to_dicts()]
    return pl.DataFrame(rows)


def _renumbered(sidecar: Sidecar, name: str, categories: list[Any]) -> Sidecar:
    attributes = [
        msgspec.structs.replace(a, categories=categories, N=len(categories)) if a.name == name else a
        for a in sidecar.attributes
    ]
    return msgspec.structs.replace(sidecar, attributes=attributes)


def audits(releases: int = 100, records: int = 100_000) -> dict[str, str]:
    """Verdicts on F2's table: every attribute at gamma 5, N 20; the class is the last and perturbed too."""
    accepted = {"honest": 0, "last as it was": 0, "gamma 5.5 for 5": 0, "a value more declared": 0}
    for seed in range(releases):
        original = table(2, records, 1000 + seed)
        release = perturb(original, gamma=5, bins=20, attributes=ATTRIBUTES, seed=seed)
        higher = {n: {**s, **({"gamma": 5.5} if n == "hvalue" else {})} for n, s in ATTRIBUTES.items()}
        lie = perturb(original, gamma=5, bins=20, attributes=higher, seed=seed)
        last = release.frame.with_columns(original["group"])
        cases = {
            "honest": (release.frame, release.sidecar),
            "last as it was": (last, release.sidecar),
            "gamma 5.5 for 5": (lie.frame, release.sidecar),
            "a value more declared": (release.frame, _renumbered(release.sidecar, "group", ["A", "B", "C"])),
        }
        for case, (frame, sidecar) in cases.items():
            accepted[case] += attack(frame, sidecar=sidecar, truth=original, attacks=["audit"]).honest is True
    return {case: f"{count} of {releases} accepted" for case, count in accepted.items()}


def exact_bayes(release: Any, original: pl.DataFrame, function: int, names: tuple[str, ...]) -> float:
    """The share of exact bins of the first attribute, by Bayes' rule with clean records' joint distribution."""
    known = {n: opened(release.sidecar).axis(n) for n in names}
    clean = table(function, 1_000_000, 31 + function)
    domains = [known[n].domain for n in names]

    def codes(frame: pl.DataFrame) -> list[np.ndarray]:
        arrow = frame.to_arrow()
        return [d.encode(arrow.column(n).combine_chunks()).codes for n, d in zip(names, domains, strict=True)]

    labels = (clean["group"] == "B").to_numpy().astype(np.uint8)
    shape = (2, *(d.size for d in domains))
    cells = np.ravel_multi_index((labels, *codes(clean)), shape)
    joint = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)
    joint /= joint.sum(axis=tuple(range(1, len(shape))), keepdims=True)
    matrices = tuple(known[n].matrix.dense() for n in names)
    model = JointTable(tuple(range(len(names))), matrices, joint)
    told = (release.frame["group"] == "B").to_numpy().astype(np.uint8)
    belief = model.marginals(codes(release.frame), told)[0]
    return float((belief.argmax(axis=1) == codes(original)[0]).mean())


def bins() -> pl.DataFrame:
    """Shares of exact bins at N 20: prior, one attribute, whole record, and exact Bayes."""
    rows = []
    for gamma in (2, 5, 9):
        for function in sorted({f for f, _ in PAIRS}):
            original = table(function, 100_000, 77 + function)
            release = perturb(original, gamma=gamma, bins=20, keep=["group"], class_="group",
                              attributes=ATTRIBUTES, seed=gamma)  # fmt: skip
            attacks = ["posterior", "record"]
            done = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=attacks)
            by = {(r.attack, r.attribute): r for r in done.rows}
            for (own, name), names in PAIRS.items():
                if own != function:
                    continue
                one, record = by["posterior", name], by["record", name]
                rows.append({"gamma": gamma, "function": function, "attribute": name,
                             "prior": one.exact_prior, "one attribute": one.exact,
                             "whole record": record.exact,
                             "exact Bayes": exact_bayes(release, original, function, names),
                             "one, near": one.near, "whole, near": record.near})  # fmt: skip
    return pl.DataFrame(rows)


def evidence() -> pl.DataFrame:
    """What other columns give away: a digit its strokes, schooling the kept years of it."""
    strokes, domains = digits(10_000, 0)
    rows = []
    plain = {"attributes": {n: {"domain": d["domain"]} for n, d in domains.items()}}
    cases: list[tuple[str, pl.DataFrame, float, str, dict[str, Any]]] = [
        ("group", strokes, gamma, matrix, plain)
        for gamma, matrix in product((2, 5, 19), ("gamma-diagonal", "band"))
    ]
    cases.append(("school", people(20_000, 1), 2, "gamma-diagonal", {"keep": ["years"], "class_": "label"}))
    for name, original, gamma, matrix, plan in cases:
        release = perturb(original, gamma=gamma, bins="auto", matrix=matrix, keep_order=True, seed=1,
                          **{"class_": "group", **plan})  # fmt: skip
        done = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=["posterior", "record"])
        exact = {r.attack: r.exact for r in done.rows if r.attribute == name}
        rows.append({"what": name, "gamma": gamma, "matrix": matrix, **exact})
    return pl.DataFrame(rows)


def main() -> None:
    found = saved("attack_bins", bins(), digits=3)
    say("Mean of the six", found.group_by("gamma", maintain_order=True).mean(), digits=3)
    saved("attack_evidence", evidence(), digits=3)
    saved("attack_linear", linear(), digits=3)
    for case, verdict in audits().items():
        say(f"audit, {case}: {verdict}")
    audit.main(10_000)


if __name__ == "__main__":
    main()

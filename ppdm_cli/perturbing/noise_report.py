"""What noise that keeps a tree did, for its owner: changes, each leaf's chances, and what an intruder faces.

The intruder of Islam and Brankovic (3.2) knows all altered attributes of a person and which leaf each published
record is in. p(X -> Y) is the product over attributes of the chance of that noise; where a leaf keeps the
attribute, the published value must be the known one. Weighed over the published records, these are the beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ppdm_cli.display import percent
from ppdm_cli.errors import counted
from ppdm_cli.perturbing.class_noise import expected_changes
from ppdm_cli.perturbing.substitution import Checks
from ppdm_cli.perturbing.tree_noise import NoiseAdder
from ppdm_cli.trees import rules_of

MOST_CANDIDATES, MOST_SAMPLED = 10_000, 200


@dataclass(frozen=True)
class Intruder:
    """What someone who knows a person's altered attributes believes, on average over some records."""

    records: int
    candidates: int
    bits: float
    """The entropy of the beliefs over the published records."""
    truth: float
    """The belief in the right record."""
    likeliest: float
    """The share of records whose likeliest candidate is the right one."""
    class_bits: float
    """The entropy of the beliefs about the published class."""


@dataclass(frozen=True)
class NoiseReport:
    """The figures of a release with noise that keeps a tree."""

    schemes: tuple[str, ...]
    records: int
    expected: float
    changed: dict[str, int]
    """How many values of each altered attribute are others now."""
    class_: str
    leaves: list[dict[str, Any]]
    intruder: Intruder | None
    unable: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return what --json says of the noise."""
        class_changes = self.changed.get(self.class_)
        whom = None if self.intruder is None else vars(self.intruder)
        return {
            "scheme": list(self.schemes),
            "expected_changes": self.expected,
            "actual_changes": class_changes,
            "changed": self.changed,
            "leaves": self.leaves,
            "intruder": whom,
        }

    def sentences(self) -> list[str]:
        """Return what to tell the owner, and what stays unprotected."""
        said = []
        if self.class_ in self.changed:
            actual = self.changed[self.class_]
            said.append(
                f"Classes changed: {actual} of {self.records}; {self.expected:.1f} were to be expected."
            )
        few = [n for n in self.altered if self.changed.get(n, 0) < self.records / 2]
        if few:
            said.append(
                f"Fewer than half of the values of {', '.join(few)} are others now: a share of the value "
                "leaves zeros, and often numbers near. A share of the attribute's own sd alters more."
            )
        if self.unable:
            said.append(
                f"Innocent, but not altered, as no noise can be added to them: {', '.join(self.unable)}."
            )
        if self.intruder is not None:
            i = self.intruder
            said.append(
                f"An intruder who knows {', '.join(self.altered)} of a person faces {i.bits:.2f} bits of doubt "
                f"among {counted(i.candidates, 'published record')}, "
                f"believes in the right one with {percent(i.truth)}, and would take it for the likeliest in "
                f"{percent(i.likeliest)} of the cases; of its class {i.class_bits:.2f} bits are in doubt "
                f"({counted(i.records, 'record')} tried)."
            )
        pure = [leaf for leaf in self.leaves if not leaf["others"]]
        if pure and "class-all-leaves" not in self.schemes:
            held = sum(leaf["records"] for leaf in pure)
            said.append(
                f"Unprotected: the classes of the {counted(held, 'record')} in {len(pure)} leaves of one class "
                "are published as they are; whoever knows the attributes on the way to such a leaf knows them."
            )
        said.append(
            "Unprotected: the attributes that the tree tests on a record's own way are published as they are, "
            "and so is every column that is kept."
        )
        return said


def report(work: NoiseAdder, checks: Checks) -> NoiseReport:
    """Return the report of what was published."""
    counts, tree = work.counts, work.plan.tree
    wrong = None if work.class_noise is None else work.class_noise.wrong()
    told = np.ones(counts.shape) if work.plan.class_scheme == "class-all-leaves" else counts
    rules, leaves = rules_of(tree), []
    for number, node in enumerate(work.membership.nodes.tolist()):
        held, most = int(counts[number].sum()), int(counts[number].argmax())
        if held:
            leaf: dict[str, Any] = {"rule": rules[node], "class": tree.labels[most], "records": held}
            leaf["others"] = held - int(counts[number, most])
            if wrong is not None:
                leaf["wrong"] = {
                    str(tree.labels[c]): float(wrong[number, c]) for c in np.flatnonzero(told[number])
                }
            leaves.append(leaf)
    expected = expected_changes(counts) if wrong is not None else 0.0
    altered = [n for n, rows in work.noised.items() if rows.any()]
    return NoiseReport(
        work.plan.schemes, checks.rows, expected, dict(checks.changed), work.class_, leaves,
        _intruder(work, checks, altered), work.unable, altered,
    )  # fmt: skip


def _intruder(work: NoiseAdder, checks: Checks, altered: list[str]) -> Intruder | None:
    if not altered or checks.pairs is None:
        return None
    _, columns = checks.pairs.columns()
    held = {n: np.asarray(c)[:MOST_CANDIDATES] for n, c in columns.items()}
    leaf, class_ = held["leaf"], held["class"]
    n, tried = len(leaf), np.unique(np.linspace(0, len(leaf) - 1, MOST_SAMPLED).astype(int))
    found = []
    for x in tried.tolist():
        logs = np.zeros(n)
        for name in altered:
            known, published = held[f"before {name}"][x], held[f"after {name}"]
            same = (published == known) | (np.isnan(published) & np.isnan(known))
            kept = np.where(same, 0.0, -np.inf)
            logs += np.where(
                work.noised[name][leaf], work.noises[name].likelihood(float(known), published), kept
            )
        weight = np.exp(logs - logs.max())  # the right record's chance is above 0
        weight /= weight.sum()
        by_class = np.bincount(class_, weight)
        best = weight >= weight.max() * (1 - 1e-9)
        found.append((_bits(weight), weight[x], best[x] / best.sum(), _bits(by_class)))
    bits, truth, likeliest, class_bits = np.mean(found, axis=0).tolist()
    return Intruder(len(tried), n, bits, truth, likeliest, class_bits)


def _bits(shares: np.ndarray) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log2(some)).sum())

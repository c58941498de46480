"""`train-tree` on a release: read, learn the joint distribution, make the tree, say what to expect of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli.channels import Channel
from ppdm_cli.domain import Bins
from ppdm_cli.engine import Progress, step
from ppdm_cli.errors import UsageError, counted, listed, quoted, unknown_column
from ppdm_cli.joint import CELLS, JointTable, Learnt, learn, read
from ppdm_cli.shown import Shown
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table
from ppdm_cli.trees.expected_accuracy import Expected, expected, rightness
from ppdm_cli.trees.from_model import ModelTrees
from ppdm_cli.trees.packing import packed
from ppdm_cli.trees.tree import Tree


@dataclass(frozen=True, eq=False, repr=False)
class FromRelease(Shown):
    """A tree from a release, and what was learnt on the way."""

    tree: Tree
    records: int
    expected: Expected
    model: str
    attributes: tuple[str, ...]
    """The attributes that the model has."""
    gain: float
    """Bits per record by which the model makes the class likelier, on held-out records."""
    remarks: list[str] = field(default_factory=list)

    def _words(self) -> list[str]:
        return [*self.tree._words(), *self.sentences(), *self.remarks]

    def _body(self) -> list[str]:
        return [*self.sentences(), *self.tree._body()]

    def figures(self) -> dict[str, Any]:
        """Return the figures for programs."""
        e = self.expected
        expected = {"accuracy": e.accuracy, "low": e.low, "high": e.high, "how": e.how}
        return {
            "records": self.records,
            "model": self.model,
            "attributes": list(self.attributes),
            "gain_bits": self.gain,
            "expected": expected,
        }

    def sentences(self) -> list[str]:
        """Return what to tell people."""
        said = []
        if self.model == "joint":
            said.append(
                f"Learnt from {counted(self.records, 'perturbed record')}: the joint distribution of "
                f"{listed(self.attributes)} within each class."
            )
        elif self.model == "bayes":
            said.append(
                f"Learnt from {counted(self.records, 'perturbed record')}: each of "
                f"{counted(len(self.attributes), 'attribute')} by itself within each class."
            )
        elif self.model == "forest":
            said.append(
                f"Learnt from {counted(self.records, 'perturbed record')}: pairs among "
                f"{counted(len(self.attributes), 'attribute')} within each class."
            )
        e, counts = self.expected, self.tree.counts[0]
        share = f"Expected accuracy on records like the original ones: {100 * e.accuracy:.1f} %"
        if e.low is None or e.high is None:
            said.append(
                f"{share}, as the model itself estimates, usually too high for small releases; the "
                "held-out records are too few for an interval within 10 points either way."
            )
        else:
            within = f"95 % interval {100 * e.low:.1f} to {100 * e.high:.1f}"
            said.append(f"{share} ({within}, from published records that were held out).")
        commonest = 100 * float(counts.max() / max(counts.sum(), 1e-300))
        return [*said, f"The commonest class alone would be right on {commonest:.1f} %."]


def named_class(class_: str | None, sidecar: Sidecar | None) -> str:
    """Return the class as asked for, else the sidecar's."""
    if class_ is not None:
        return class_
    if sidecar is None or sidecar.class_ is UNSET:
        raise UsageError("no class is named, and no sidecar names one", "say --class COL")
    return sidecar.class_


def label_of(sidecar: Sidecar, class_: str | None) -> Channel:
    """Return the axis of the class: as named, else the sidecar's."""
    name = named_class(class_, sidecar)
    if name not in sidecar.by_name:
        raise unknown_column(name, list(sidecar.by_name), "--class")
    label = sidecar.by_name[name]
    if not label.has_domain or label.N == 1:
        raise UsageError(
            f"the sidecar lists no labels of {quoted(name)}", "name a column that was perturbed, or the class"
        )
    if isinstance(label.domain, Bins) or pa.types.is_floating(label.kind):
        raise UsageError(
            f"{quoted(name)} is not a class: its labels are bins, or numbers with fractions",
            "name a column of labels",
        )
    return sidecar.axis(name)


def from_release(
    table: Table,
    sidecar: Sidecar,
    class_: str | None = None,
    *,
    cells: int = CELLS,
    threads: int | None = None,
    progress: Progress | None = None,
) -> FromRelease:
    """Train a tree on a release itself, by the estimated joint distribution of class and attributes.

    `cells` bounds the joint tables.
    """
    label = label_of(sidecar, class_)
    sample = read(table, sidecar, label, threads, progress)
    with step(progress, "learning"):
        learnt = learn(sample, cells)
    remarks = []
    used = {c.name for c in [*sample.channels, label]}
    large = [a.name for a in sidecar.attributes if a.name not in used]
    if large:
        remarks.append(f"Not used, because of too many values: {listed(large)}.")
    with step(progress, "growing"):
        return _taught(learnt, label.name, remarks)


def _taught(learnt: Learnt, class_name: str, remarks: list[str]) -> FromRelease:
    sample, teacher = learnt.sample, ModelTrees(learnt, class_name)
    bits = learnt.gain / float(np.log(2))
    model = learnt.model
    if model is None:
        remarks.append("The release shows nothing about the class that held-out records confirm: one leaf.")
        tree = teacher.leaf()
        share = float(tree.counts.max() / max(tree.counts.sum(), 1e-300))
        return FromRelease(tree, sample.total, Expected(share, "model"), "none", (), 0.0, remarks)
    records, grown = teacher.tree(model)
    right = []
    tested = [sample.channels[p] for p in model.places]
    told = all(c.kept or c.matrix.invertible for c in tested)
    table = isinstance(model.within, JointTable)
    for fold, held in (list(learnt.held.items())[: None if table else 1]) if told else ():
        right.append(rightness(sample, fold, *teacher.tree(held, fold), model.places))
    tree, gap = packed(records, grown, teacher.options), 0.0
    if table:
        tree, gap = teacher.refined(tree, model)
        share = float(tree.counts[tree.is_leaf].max(axis=1).sum() / tree.counts[0].sum())
    else:
        share = teacher.opinion(model, grown)
    return FromRelease(
        tree,
        sample.total,
        expected(right, share, gap),
        learnt.name,
        tuple(c.name for c in tested),
        bits,
        remarks,
    )

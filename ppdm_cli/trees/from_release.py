"""Trees from releases, for train-tree: learn the joint distribution, make the tree, estimate its accuracy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli.channels import Channel
from ppdm_cli.display import Displayed
from ppdm_cli.domain import Bins
from ppdm_cli.engine import step
from ppdm_cli.errors import UsageError, argument, counted, listed, quoted, unknown_column
from ppdm_cli.joint import CELLS, MOST_CHANNELS, GivenKept, Law, LearnedModel, Model, Sample, alone, learn, read
from ppdm_cli.releases import axis_of, opened
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table
from ppdm_cli.trees.ensembles import ONE, SEVERAL, Ensemble, decided
from ppdm_cli.trees.expected_accuracy import (
    FEWEST_JUDGES,
    MOST_JUDGED_LABELS,
    OF_A_TABLE,
    OF_DRAWN_RECORDS,
    WEAKEST_JUDGED,
    AccuracyEvidence,
    ExpectedAccuracy,
    expected_accuracy,
    expected_of_leaf,
    rightness,
    rightness_of_baseline,
)
from ppdm_cli.trees.from_model import ModelTrees
from ppdm_cli.trees.tree import Tree


class ReleaseFigures(TypedDict):
    """The figures of a training on a release for --json."""

    records: int
    model: str
    attributes: list[str]
    gain_bits: float
    expected: dict[str, float | str | None]


@dataclass(frozen=True, eq=False, repr=False)
class FromRelease(Displayed):
    """A tree from a release, with the facts about its model."""

    tree: Tree
    records: int
    expected: ExpectedAccuracy
    model: str
    attributes: tuple[str, ...]
    """The attributes of the model."""
    gain: float
    """The gain of the class from the model in bits per record, on held-out records."""
    remarks: list[str] = field(default_factory=list)

    def _words(self) -> list[str]:
        return [*self.tree._words(), *self.sentences(), *self.remarks]

    def _body(self) -> list[str]:
        return [*self.sentences(), *self.tree._body()]

    def figures(self) -> ReleaseFigures:
        """Return the figures of the training for --json."""
        e = self.expected
        return {
            "records": self.records,
            "model": self.model,
            "attributes": list(self.attributes),
            "gain_bits": self.gain,
            "expected": {n: getattr(e, n) for n in ("accuracy", "low", "high", "how", "baseline")},
        }

    def sentences(self) -> list[str]:
        """Return the sentences of the report."""
        many = counted(len(self.attributes), "attribute")
        learned = {
            "joint": f"the joint distribution of {listed(self.attributes)}",
            "bayes": f"each of {many} separately",
            "forest": f"pairs among {many}",
        }.get(self.model)
        records = counted(self.records, "perturbed record")
        sentences = [] if learned is None else [f"Learned from {records}: {learned} within each class."]
        if self.model == "kept":
            sentences = [f"Values of {records} were drawn given the kept columns."]
        e = self.expected
        if e.accuracy is None or e.low is None or e.high is None:
            sentences.append("There is too little data to estimate this tree's accuracy.")
        else:
            source = "published records that were held out"
            if e.how == "judged":
                source = f"a model learned only from {source}"
            sentences.append(
                f"Expected accuracy on records like the original ones: {100 * e.accuracy:.1f}% (95% "
                f"interval {100 * e.low:.1f} to {100 * e.high:.1f}, from {source})."
            )
        return [*sentences, f"Baseline (always the most common class): {100 * e.baseline:.1f}%."]


def named_class(class_: str | None, sidecar: Sidecar | None) -> str:
    """Return the class as asked for, else the sidecar's."""
    if class_ is not None:
        return class_
    if sidecar is None or sidecar.class_ is UNSET:
        raise UsageError(
            "class-needed", "no class is named, in a sidecar or otherwise", f"add {argument('class_', 'COL')}"
        )
    return sidecar.class_


def label_of(sidecar: Sidecar, class_: str | None) -> Channel:
    """Return the axis of the class: as named, else the sidecar's."""
    name = named_class(class_, sidecar)
    if name not in sidecar.by_name:
        raise unknown_column(name, list(sidecar.by_name), "class_")
    label = sidecar.by_name[name]
    if not label.has_domain or label.N == 1:
        what = f"the sidecar lists no labels of {quoted(name)}"
        raise UsageError("not-a-class", what, "name a column that was perturbed, or the class")
    if isinstance(label.domain, Bins) or pa.types.is_floating(label.kind):
        what = f"{quoted(name)} is not a class: its labels are bins, or numbers with fractions"
        raise UsageError("not-a-class", what, "name a column of labels")
    return axis_of(sidecar, name)


def from_release(
    table: Table, sidecar: Sidecar, class_: str | None = None, cells: int = CELLS, wanted: Ensemble = ONE
) -> FromRelease:
    """Train a tree on a release itself, or an ensemble, by the estimated joint distribution.

    `cells` bounds the joint tables.
    """
    label = label_of(sidecar, class_)
    sample = read(table, sidecar, label)
    with step("learning"):
        learned = learn(sample, cells)
    remarks = []
    used = {n for c in [*sample.channels, label] for n in c.attributes}
    beside = [n for n in opened(sidecar).through(label.name).attributes if n not in used]
    left = [a.name for a in sidecar.attributes if a.name not in used and a.name not in beside]
    if left:
        why = "they have too many values"
        if len(sample.channels) == MOST_CHANNELS:
            why += f", or {MOST_CHANNELS} other attributes reveal more about the class"
        remarks.append(f"Not used, because {why}: {listed(left)}.")
    if beside:
        remarks.append(f"Not used, because perturbed together with the class: {listed(beside)}.")
    with step("growing"):
        return _taught(learned, label.name, remarks, wanted)


def _taught(learned: LearnedModel, class_name: str, remarks: list[str], wanted: Ensemble = ONE) -> FromRelease:
    sample = learned.sample
    if learned.careful is not None:
        learned = learned.careful
        remarks.append(
            "Warning: not confirmed. Held-out records don't show that the class depends on the attributes."
        )
    if wanted.trees == "auto":
        wanted, why = _chosen(learned, class_name, wanted)
        remarks += why
    maker = ModelTrees(learned, class_name, wanted)
    baseline = _baseline(sample, maker.leaf())
    bits = learned.gain / float(np.log(2))
    model = learned.model
    if model is None:
        remarks.append("Held-out records confirm nothing about the class, so the tree has one leaf.")
        tree = maker.leaf()
        return FromRelease(tree, sample.total, expected_of_leaf(sample, baseline), "none", (), 0.0, remarks)
    if isinstance(model, GivenKept) and (
        silent := [sample.channels[p].name for p in model.places if p not in maker.places(model)]
    ):
        remarks.append(f"Not used, because the class doesn't seem to depend on them: {listed(silent)}.")
    tree, gap = maker.packed(*maker.trees(model)), 0.0
    if tree.size == 1:
        remarks.append(
            "No test separates the classes beyond the model's own uncertainty, so the tree has one leaf."
        )
    whole = tree
    if isinstance(model, Model) and maker.on_cells(model) and wanted == ONE:
        tree, gap = maker.refined(tree, model)
    evidence = _evidence(learned, maker, model, whole, gap)
    expected = expected_accuracy(evidence, baseline)
    if expected.accuracy is not None and expected.accuracy < expected.baseline and tree.size > 1:
        remarks.append("On held-out records the tree was worse than the baseline, so it has one leaf.")
        tree = maker.leaf()
        expected = expected_of_leaf(sample, baseline)
    if expected.accuracy is None and tree.size > 1 and sample.varies:
        remarks.append("Warning: most cells are withheld, so the tree may be worse than the baseline.")
    return FromRelease(
        tree,
        sample.total,
        expected,
        learned.name,
        tuple(n for p in maker.places(model) for n in sample.channels[p].attributes),
        bits,
        remarks,
    )


def _baseline(sample: Sample, leaf: Tree) -> float:
    """Return the share of the most common class, chosen by other records if possible."""
    right = rightness_of_baseline(sample)
    if right.size:
        return float(np.clip(right.mean(), 0, 1))
    return float(leaf.counts[0].max() / max(leaf.counts[0].sum(), 1e-300))


def _chosen(learned: LearnedModel, class_name: str, wanted: Ensemble) -> tuple[Ensemble, list[str]]:
    """Return the choice of `auto`: one tree, or an ensemble, by a model that learned from one fold alone."""
    if learned.model is None:
        return ONE, []
    if not _can_judge(learned, learned.model):
        return decided(wanted, None)
    fold, held = next(iter(learned.held.items()))
    makers = [ModelTrees(learned, class_name, each) for each in (ONE, Ensemble(SEVERAL))]
    if makers[0].kept:
        return decided(wanted, [m.right_about_held(held, fold) for m in makers])
    assert isinstance(held, Model)
    judge = alone(held, learned.sample, fold)
    right = [m.right(judge, m.packed(*m.trees(held, fold))) for m in makers]
    return decided(wanted, right)


def _can_judge(learned: LearnedModel, model: Law) -> bool:
    """Return whether a model that learns from one fold alone can judge trees."""
    fold = next(iter(learned.held))
    channels = (*(learned.sample.channels[p] for p in model.places), learned.sample.label)
    informative = all(c.kept or c.matrix.amplification >= WEAKEST_JUDGED for c in channels)
    return informative and int((learned.sample.folds == fold).sum()) >= FEWEST_JUDGES


def _evidence(learned: LearnedModel, maker: ModelTrees, model: Law, tree: Tree, gap: float) -> AccuracyEvidence:
    """Return the evidence of held-back folds about trees that were grown without them."""
    sample = learned.sample
    fold, held = next(iter(learned.held.items()))
    if maker.kept:
        drawn = maker.right_about_held(held, fold).astype(np.float64)
        return AccuracyEvidence(drawn, np.nan, np.nan, len(drawn), OF_DRAWN_RECORDS, gap)
    assert isinstance(model, Model) and isinstance(held, Model)
    tested = [sample.channels[p] for p in model.places]
    table = model.table is not None
    every = table and not sample.varies and maker.wanted == ONE
    folds = list(learned.held.items())[: None if every else 1]
    # what a record shows of a leaf isn't evidence of several trees, whose leaves meet anew for each record
    unbiased = tree.roots == 1 and not sample.varies and all(c.matrix.invertible for c in tested)
    judging = _can_judge(learned, model) and sample.label.domain.ordinary <= MOST_JUDGED_LABELS
    trees = {fold: maker.trees(held, fold) for fold, held in folds if unbiased or judging}
    right = []
    if unbiased:
        right = [rightness(sample, f, records, own[0], model.places) for f, (records, own) in trees.items()]
    judges, own, judged = int((sample.folds == fold).sum()), np.nan, np.nan
    if judging:
        own = float(maker.right(model, tree).mean())
        judged = float(maker.right(alone(held, sample, fold), maker.packed(*trees[fold])).mean())
    trusted = OF_A_TABLE if table else OF_DRAWN_RECORDS
    return AccuracyEvidence(np.concatenate([*right, np.zeros(0)]), own, judged, judges, trusted, gap)

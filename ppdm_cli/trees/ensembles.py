"""Ensembles for `train-tree --trees`: trees that differ, whose shares are averaged, and one that imitates them.

Each tree is grown from a part of the records or of their draws, and sees half of the attributes. It isn't
pruned: averaging does what pruning is for. `auto` takes an ensemble only if held-out records show that it is
right about more of them (docs/how-to/train-a-tree.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ppdm_cli.errors import UsageError, argument, quoted
from ppdm_cli.trees.growing import Grown, Options, grow, packed
from ppdm_cli.trees.predicting import Descent, coded
from ppdm_cli.trees.pruning import c45
from ppdm_cli.trees.records import CodedRecords
from ppdm_cli.trees.tree import Tree

SEVERAL, MOST_TREES = 25, 500
"""The number of trees that `auto` takes if it doesn't take one, and the most that may be requested."""
LEAST_GAIN = 0.01
"""The share by which an ensemble must be right about more held-out records than one tree."""
FEWEST_ATTRIBUTES = 9
"""The number of attributes that each tree sees at least, if there are so many."""
FEWEST_HELD = 500
"""The number of records without which held-out records show nothing."""
SEED = 20062
"""The seed of what is drawn, fixed so that a table has one ensemble."""


@dataclass(frozen=True)
class Ensemble:
    """The number of trees to train, and whether one that imitates them replaces them."""

    trees: int | Literal["auto"] = 1
    distil: bool = False

    def check(self) -> None:
        """Raise a UsageError for a number out of range, or one tree to imitate."""
        if self.trees != "auto" and not (isinstance(self.trees, int) and 1 <= self.trees <= MOST_TREES):
            what = f"{argument('trees', self.trees)} is not a number of trees"
            raise UsageError("trees-out-of-range", what, f"use 1 to {MOST_TREES}, or {quoted('auto')}")
        if self.distil and self.trees == 1:
            what = f"{argument('distil', True)} needs several trees to imitate"
            raise UsageError("nothing-to-distil", what, f"add {argument('trees', SEVERAL)}")

    def check_compared(self) -> None:
        """Raise a UsageError unless the result is one tree, whose rules can be compared."""
        if self.trees != 1 and not self.distil:
            what = f"{argument('compare')} compares the rules of one tree, not of several"
            raise UsageError("several-trees", what, f"add {argument('distil', True)}, or leave it out")


ONE = Ensemble()


def generator() -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(SEED))


def part(records: CodedRecords, rows: np.ndarray) -> CodedRecords:
    """Return some of the records."""
    return replace(
        records,
        columns=tuple(replace(c, codes=c.codes[rows]) for c in records.columns),
        classes=records.classes[rows],
        weights=None if records.weights is None else records.weights[rows],
    )


def ensemble(records: CodedRecords, parts: Iterable[np.ndarray], options: Options) -> list[Grown]:
    """Grow a tree from each part of the records, unpruned, with attributes drawn at random."""
    rng, every = generator(), len(records.columns)
    size = max(-(-every // 2), min(every, FEWEST_ATTRIBUTES))
    trees = []
    for rows in parts:
        some = np.sort(rng.permutation(every)[:size])
        own = part(replace(records, columns=tuple(records.columns[c] for c in some.tolist())), rows)
        grown = grow(own, replace(options, prune=False), False)
        grown.feature = np.where(grown.feature >= 0, np.append(some, -1)[grown.feature], -1)
        trees.append(grown)
    return trees


def distilled(records: CodedRecords, tree: Tree, options: Options) -> Grown:
    """Grow one tree that imitates an ensemble on some records."""
    labels = Descent(tree).predicted(coded(records, tree), records.rows).label
    return c45(replace(records, classes=labels), options)


def of_records(records: CodedRecords, options: Options, wanted: Ensemble) -> tuple[Tree, list[str]]:
    """Train a tree or an ensemble on records in memory, and say why `auto` took which.

    Each tree of an ensemble is grown from half of the records: as good as a bootstrap, and half the work.
    """
    remarks: list[str] = []
    if wanted.trees == "auto":
        wanted, remarks = _chosen(records, options, wanted)
    if wanted.trees == 1:
        return packed(records, options, c45(records, options)), remarks
    rng, half = generator(), -(-records.rows // 2)
    parts = (rng.permutation(records.rows)[:half] for _ in range(int(wanted.trees)))
    grown = ensemble(records, parts, options)
    if wanted.distil:
        grown = [distilled(records, packed(records, options, *grown), options)]
    return packed(records, options, *grown), remarks


def _chosen(records: CodedRecords, options: Options, wanted: Ensemble) -> tuple[Ensemble, list[str]]:
    """Return the results of a tree and an ensemble from three quarters of the records, on the others."""
    order, kept = generator().permutation(records.rows), records.rows // 4
    if kept < FEWEST_HELD:
        return decided(wanted, None)
    held, rest = part(records, order[:kept]), part(records, order[kept:])
    trees = (of_records(rest, options, e)[0] for e in (ONE, Ensemble(SEVERAL)))
    return decided(wanted, [rightly(held, t) for t in trees])


def rightly(records: CodedRecords, tree: Tree) -> np.ndarray:
    """Return whether a tree is right about each of some records."""
    label = Descent(tree).predicted(coded(records, tree), records.rows).label
    return np.asarray(label == records.classes)


def decided(wanted: Ensemble, right: list[np.ndarray] | None) -> tuple[Ensemble, list[str]]:
    """Return the choice of `auto` from the records that one tree and an ensemble are right about, if any.

    An ensemble must be right about 1% more of the held-out records, and by two standard errors.
    """
    one = replace(wanted, trees=1, distil=False)
    if right is None:
        return one, [
            "Held-out records are too few or too perturbed to decide on several trees, so one is trained."
        ]
    apart = right[1].astype(float) - right[0]
    gain = float(apart.mean())
    points = f"{100 * abs(gain):.1f} points {'more' if gain > 0 else 'less'} often"
    remark = f"On held-out records, {SEVERAL} trees are right {points} than one tree"
    if gain < max(LEAST_GAIN * float(right[0].mean()), 2 * float(apart.std()) / len(apart) ** 0.5):
        return one, [f"{remark}, so one is trained."]
    return replace(wanted, trees=SEVERAL), [f"{remark}."]

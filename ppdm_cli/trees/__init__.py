"""Decision trees: C4.5 release 8 on original or reconstructed data, and trees learnt from releases.

Dowd et al. 5.2 and 5.3 measure releases by the trees that they still teach; this is that learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
from msgspec import UNSET

from ppdm_cli.display import Displayed
from ppdm_cli.engine import ENGINE, destination, step
from ppdm_cli.errors import UsageError, counted, listed
from ppdm_cli.files import one_run
from ppdm_cli.joint import CELLS
from ppdm_cli.releases import open_data
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import CsvOptions, Table, commit, is_stream
from ppdm_cli.trees.bin_edges import at_edges
from ppdm_cli.trees.classifying import classify, figures, open_records
from ppdm_cli.trees.comparing import Compared, as_tree, compare, compared
from ppdm_cli.trees.exporting import Export, lines, outlined
from ppdm_cli.trees.from_release import FromRelease, from_release, named_class
from ppdm_cli.trees.growing import Options, grow
from ppdm_cli.trees.labels import plain, rules_of
from ppdm_cli.trees.measuring import Measured, importance
from ppdm_cli.trees.membership import Membership
from ppdm_cli.trees.packing import packed
from ppdm_cli.trees.predicting import Descent, Predicted, as_columns, check_columns, predict_table
from ppdm_cli.trees.pruning import Pruner, collapse
from ppdm_cli.trees.records import Records, read
from ppdm_cli.trees.storing import TreeFile, load
from ppdm_cli.trees.tree import Feature, Tree, majority

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Against", "Compared", "Feature", "Fitted", "FromRelease", "Measured", "Membership", "Options", "Places",
    "Predicted", "Records", "Trained", "Tree", "as_tree", "check_columns", "classify", "compare",
    "importance", "lines", "load", "majority", "open_records", "outlined", "plain", "predict", "read",
    "rules_of", "train", "train_tree",
]  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Displayed):
    """A tree and how it does on its own training records."""

    tree: Tree
    records: int
    accuracy: float
    confusion: np.ndarray
    """(true class, predicted class) weights."""
    elsewhere: int = 0
    """How many training records get another label where missing values follow the heaviest branch."""
    remarks: list[str] = field(default_factory=list)

    @property
    def measured(self) -> Measured:
        return Measured(self.tree.labels, self.confusion)

    def _words(self) -> list[str]:
        right = f"right on {100 * self.accuracy:.1f} % of its training records"
        return [*self.tree._words(), counted(self.records, "record"), right, *self.remarks]

    def _body(self) -> list[str]:
        return self.tree._body()

    def figures(self) -> dict[str, Any]:
        """Return what --json says of the training."""
        return self.measured.figures()


Taught = TypeVar("Taught", Fitted, FromRelease)


@one_run()
def train_tree(
    data: Any,
    class_: str | None = None,
    *,
    sidecar: Sidecar | str | Path | None = None,
    weights: str | np.ndarray | None = None,
    cuts: int | None = None,
    criterion: Literal["gain-ratio", "gain"] = "gain-ratio",
    min_records: float = 2,
    max_depth: int | None = None,
    confidence: float = 0.25,
    prune: bool = True,
    mdl: bool = True,
    drop: Sequence[str] = (),
    nominal: Sequence[str] = (),
    cells: int = CELLS,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Fitted | FromRelease:
    """Train a decision tree on an original, a reconstruction or a release, whichever the sidecar says it is.

    Without a sidecar it is an original: a frame says nothing of itself, so a release's or a reconstruction's
    goes with its `sidecar`. A release is learnt by the estimated joint distribution, whose tables have at most
    `cells` cells; `class_` is the sidecar's unless named. Other data are for C4.5, with all records in memory.
    Thresholds lie halfway between two values; with a reconstruction's `sidecar`, at the edges of bins.

    `weights` names a column or is an array; `nominal` names numbers that are categories. Of equally good
    tests (within 1e-6) the first column's is taken, and of its cuts the lowest.
    """
    options = Options(criterion, min_records, max_depth, confidence, prune, mdl)
    _check(options)
    table, sidecar = open_data(data, sidecar, csv, from_, withholding=True)
    if sidecar is not None and sidecar.is_substituted:
        given = {"drop": bool(drop), "nominal": bool(nominal), "cuts": cuts is not None}
        given |= {"weights": weights is not None}
        given |= {f.name: getattr(options, f.name) != f.default for f in fields(Options)}
        for name in (n for n in given if given[n]):
            option = {"prune": "no-prune", "mdl": "no-mdl"}.get(name, name.replace("_", "-"))
            raise UsageError(
                f"--{option} is for data, and this is a release", "leave it out, or reconstruct first"
            )
        learnt = from_release(table, sidecar, class_, cells=cells)
        return _of_groups(learnt, sidecar)
    if cells != CELLS:
        raise UsageError("--cells is for releases, and this is not one", "leave it out")
    label = named_class(class_, sidecar)
    records = read(table, label, weights=weights, cuts=cuts, drop=drop, nominal=nominal)
    if sidecar is not None:
        records = at_edges(records, sidecar)
    with step("growing"):
        return _of_groups(fit_records(records, options), sidecar)


def _of_groups(done: Taught, sidecar: Sidecar | None) -> Taught:
    """Return what was trained on groups of values with a tree that makes them, as far as a rule does."""
    groups = {a.name: a.group for a in sidecar.attributes if a.group is not UNSET} if sidecar else {}
    by_file = [f.name for f in done.tree.features if f.name in groups and groups[f.name].prefix is UNSET]
    prefixes = {n: g.prefix for n, g in groups.items() if g.prefix is not UNSET}
    features = tuple(replace(f, prefix=prefixes.get(f.name, 0)) for f in done.tree.features)
    remarks = list(done.remarks)
    if by_file:
        remarks.append(f"The tree knows {listed(by_file)} by a file's groups: so must records to predict.")
    return replace(done, tree=replace(done.tree, features=features), remarks=remarks)


@dataclass(frozen=True)
class Places:
    """Where the results of a training go: whole files, all of them or none."""

    tree: Path
    predicted: Path | None = None
    exports: Sequence[Path] = ()
    force: bool = False


@dataclass(frozen=True)
class Against:
    """What a tree is measured with: test records, and another tree, compared on records of their own."""

    test: Path | None = None
    compare: Path | None = None
    on: Path | None = None


@dataclass(frozen=True, eq=False)
class Trained:
    """A tree that was trained and written, with what it got right on test records."""

    fitted: Fitted | FromRelease
    tested: Measured | None
    importance: dict[str, float]
    compared: Compared | None = None
    exported: str | None = None
    """What exports for other programs say of missing values, where there are any."""

    def figures(self) -> dict[str, Any]:
        """Return what --json says."""
        tree = self.fitted.tree
        return {
            "train" if isinstance(self.fitted, Fitted) else "release": self.fitted.figures(),
            "test": None if self.tested is None else self.tested.figures(),
            **figures(tree),
            **({} if self.compared is None else {"compared": self.compared.figures()}),
            "importance": self.importance,
            "options": dict(tree.options),
            "remarks": self.fitted.remarks,
        }


@one_run()
def train(
    data: Any,
    places: Places,
    class_: str | None = None,
    against: Against = Against(),
    *,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
    **settings: Any,
) -> Trained:
    """Train a tree, measure it, and write it, what it predicts and its exports to their places.

    The settings are those of `train_tree`. Every place is checked before the work, and filled after it.
    """
    predicted, test = places.predicted, against.test
    if against.on is not None and against.compare is None:
        raise UsageError("--on names records to compare two trees on", "name the other tree too: --compare")
    if "-" in map(str, (places.tree, predicted, *places.exports)):
        raise UsageError("a tree goes to a file, not to standard output", "name files")
    if is_stream(data) and (str(test) == "-" or (predicted is not None and test is None)):
        raise UsageError("standard input is read once, for training", "name a file, or --test FILE")
    table, sidecar = open_data(data, None, csv, from_, withholding=True)
    if sidecar is not None and sidecar.is_substituted and predicted is not None and test is None:
        raise UsageError("a release's records are not to be predicted: they are perturbed", "name --test FILE")
    with ExitStack() as stack:
        exports = [Export(stack, path, places.force) for path in places.exports]
        tree_file = TreeFile(stack, places.tree, places.force)
        labelled = None if predicted is None else destination(stack, predicted, None, places.force)
        tests = None if test is None else open_records(test, table, csv)
        other = None if against.compare is None else load(against.compare)
        done = train_tree(table, class_, sidecar=sidecar, **settings)
        tested = None
        if tests is not None or labelled is not None:
            source = tests or (table if table.rewindable else open_records(data, done.tree, csv))
            tested = classify(done.tree, source, labelled)
        likeness = None
        if other is not None:
            if against.on is not None:
                on: Table | None = open_records(against.on, done.tree, csv)
            else:
                on = table if table.rewindable and isinstance(done, Fitted) else None
            likeness = compared(done.tree, other, on)
        note = _note(done)
        tree_file.fill(done.tree)
        for export in exports:
            export.fill(done.tree, note)
        # all is written: only now is anything put in its place
        commit(*([] if labelled is None else [labelled]), *(e.into for e in exports), tree_file.into)
    said = note if any(e.exact for e in exports) else None
    return Trained(done, None if test is None else tested, importance(done.tree), likeness, said)


def _note(done: Fitted | FromRelease) -> str:
    """Return what an export for other programs does with missing values, and how many records that changes."""
    says = "A missing value or an unseen category follows the heaviest branch, as in ppdm predict --heaviest"
    short = [f"{f.name} by {f.prefix}" for f in done.tree.features if f.prefix]
    if short:
        says += f". Text is compared by its first characters: {', '.join(short)}"
    if isinstance(done, FromRelease):
        return f"{says}."
    return f"{says}: of {counted(done.records, 'training record')} {done.elsewhere} get another label by that."


def _check(options: Options) -> None:
    if options.criterion not in ("gain-ratio", "gain"):
        raise UsageError("unknown criterion", "gain-ratio or gain")
    if not 0 < options.confidence <= 0.5:
        raise UsageError("the confidence is out of range", "above 0, at most 0.5; C4.5 takes 0.25")
    if not 1 <= options.min_records < float("inf"):
        raise UsageError("the minimum number of records is out of range", "1 or more; C4.5 takes 2")
    if options.max_depth is not None and options.max_depth < 0:
        raise UsageError("the depth is negative", "0 or more")


def fit_records(records: Records, options: Options | None = None) -> Fitted:
    """Train a tree on records in memory."""
    options = options or Options()
    grown = grow(records, options, options.prune)
    collapse(grown)
    if options.prune:
        Pruner(records, grown, options.confidence).run()
        grown.entries.clear()
    tree = packed(records, grown, options)
    confusion, elsewhere = _confusion(records, tree)
    cut = [c.feature.name for c in records.columns if c.cut]
    remarks = []
    if cut:
        remarks.append(
            f"{listed(cut)} had more than 65536 distinct values: "
            "thresholds are quantiles (--cuts changes how many)."
        )
    right = float(np.trace(confusion) / confusion.sum())
    return Fitted(tree, records.rows, right, confusion, elsewhere, remarks)


def _confusion(records: Records, tree: Tree) -> tuple[np.ndarray, int]:
    """Return the (true, predicted) weights of the training records, from the leaves or record by record.

    And the number of records that are predicted otherwise by the heaviest branches.
    """
    classes = len(records.labels)
    if not records.has_missing:
        sums = np.zeros((classes, classes))
        np.add.at(sums, tree.label[tree.is_leaf], tree.counts[tree.is_leaf])
        return sums.T, 0
    columns = {}
    for number in np.unique(tree.feature[tree.feature >= 0]).tolist():
        column = records.columns[number]
        if column.feature.numeric:
            columns[number] = np.append(column.values, np.nan)[column.codes]
        else:
            columns[number] = np.where(column.codes == column.size, -1, column.codes.astype(np.int64))
    label, other = (Descent(tree, way).predicted(columns, records.rows).label for way in (False, True))
    counts = np.bincount(records.classes * classes + label, records.weights, classes * classes)
    return counts.reshape(classes, classes).astype(np.float64), int((label != other).sum())


@overload
def predict(
    tree: Tree | Fitted | FromRelease | str | Path,
    data: Any,
    output: None = None,
    *,
    heaviest: bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> pl.DataFrame: ...
@overload
def predict(
    tree: Tree | Fitted | FromRelease | str | Path,
    data: Any,
    output: str | Path,
    *,
    heaviest: bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> None: ...
@one_run()
def predict(
    tree: Tree | Fitted | FromRelease | str | Path,
    data: Any,
    output: str | Path | None = None,
    *,
    heaviest: bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> pl.DataFrame | None:
    """Predict each record's class, by a tree or the file that it is in.

    The frame has the columns `predicted` and `confidence`, and each class's chance. An `output` gets the
    records with the first two, as `ppdm predict` writes them, and nothing is returned; Spark needs one.
    `heaviest`: a missing value follows the branch of most training records, as in a tree's exports, not all
    branches in part.
    """
    import polars as pl
    import pyarrow as pa

    tree = as_tree(tree)
    table = open_records(data, tree, csv, from_)
    if output is not None:
        with ExitStack() as stack:
            labelled = destination(stack, output, None, force)
            classify(tree, table, labelled, heaviest)
            commit(labelled)
        return None
    if ENGINE.get().keeps(table):
        raise UsageError(
            "the records are on a cluster, and their predictions stay there",
            "name a folder for them, such as output='labelled'",
        )
    found = predict_table(tree, table, heaviest)
    chances = {f"chance of {v}": found[:, i] for i, v in enumerate(tree.labels)}
    columns = as_columns(tree, Predicted.of(found)) | {n: pa.array(c) for n, c in chances.items()}
    return pl.DataFrame(pa.table(columns))

"""Decision trees: C4.5 release 8 on original or reconstructed data, and trees learned from releases.

Dowd et al. 5.2 and 5.3 measure releases by the trees that can be learned from them; this is that learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast, overload

import msgspec
import numpy as np
from msgspec import UNSET

from ppdm_cli.display import Displayed, names
from ppdm_cli.engine import ENGINE, destination, step
from ppdm_cli.errors import UsageError, argument, counted, listed
from ppdm_cli.files import one_run
from ppdm_cli.joint import CELLS
from ppdm_cli.releases import open_data
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import CsvOptions, PendingFile, Table, TableLike, commit, is_stream
from ppdm_cli.trees.comparing import Compared, TreeLike, as_tree, compare, compared
from ppdm_cli.trees.ensembles import ONE, Ensemble, of_records
from ppdm_cli.trees.exporting import TreeExport, outlined, rules_of, shortened
from ppdm_cli.trees.from_release import FromRelease, from_release, named_class
from ppdm_cli.trees.growing import Options
from ppdm_cli.trees.predicting import (
    AddedLabels,
    Descent,
    Membership,
    Predicted,
    check_tested,
    classify,
    coded,
    open_records,
    predict_table,
)
from ppdm_cli.trees.records import CodedRecords, at_edges, coded_records
from ppdm_cli.trees.storing import check_suffix, encode_tree, load_tree
from ppdm_cli.trees.tree import AccuracyFigures, Measured, Tree, importance, majority

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Against", "Compared", "Ensemble", "Fitted", "FromRelease", "Measured", "Membership", "Options",
    "Predicted", "Trained", "Tree", "TreeFiles", "TreeSettings", "as_tree", "check_tested", "classify",
    "compare", "fit_records", "importance", "load_tree", "majority", "open_records", "outlined", "predict",
    "rules_of", "shortened", "train", "train_tree",
]  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Displayed):
    """A tree, and its results on its own training records."""

    tree: Tree
    records: int
    accuracy: float
    confusion: np.ndarray
    """(true class, predicted class) weights."""
    elsewhere: int = 0
    """The number of training records whose label changes if missing values follow the heaviest branch."""
    remarks: list[str] = field(default_factory=list)

    @property
    def measured(self) -> Measured:
        return Measured(self.tree.labels, self.confusion)

    def _words(self) -> list[str]:
        right = f"right on {100 * self.accuracy:.1f} % of its training records"
        return [*self.tree._words(), counted(self.records, "record"), right, *self.remarks]

    def _body(self) -> list[str]:
        return self.tree._body()

    def figures(self) -> AccuracyFigures:
        """Return the figures of the training for --json."""
        return self.measured.figures()


@dataclass(frozen=True)
class TreeSettings:
    """The settings of training: the parameters of `train_tree` that are about the tree."""

    class_: str | None = None
    weights: str | np.ndarray | None = None
    cuts: int | None = None
    drop: Sequence[str] = ()
    nominal: Sequence[str] = ()
    cells: int = CELLS
    growth: Options = field(default_factory=Options)
    ensemble: Ensemble = ONE


@one_run()
def train_tree(
    data: TableLike,
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
    drop: str | Sequence[str] = (),
    nominal: str | Sequence[str] = (),
    cells: int = CELLS,
    trees: int | Literal["auto"] = 1,
    distil: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Fitted | FromRelease:
    """Train a decision tree on an original, a reconstruction or a release, as its sidecar says.

    A release is learned by the estimated joint distribution. Other data are for C4.5, with all records in
    memory; thresholds lie halfway between two values, with a reconstruction's sidecar at the edges of bins.
    Among equally good tests (within 1e-6) the first column wins, and among its cuts the lowest.

    Parameters
    ----------
    data : table, str or Path
        A frame, an Arrow table or a file. A release's frame needs its `sidecar`.
    class_ : str, optional
        The column to predict; by default the sidecar's class.
    sidecar : Sidecar, str or Path, optional
        The sidecar of a release or a reconstruction, by default the one beside the file.
    weights : str or array, optional
        The weight of each record, or the column that has it; by default each has 1. For data only.
    cuts : int, optional
        Quantiles of a number with more than 65,536 distinct values; by default 1,024, or a 64th of the records.
    criterion : {"gain-ratio", "gain"}
        The criterion of a test.
    min_records : float, default 2
        The least weight of training records in at least two branches of every test.
    max_depth : int, optional
        The most tests from the root to a leaf; by default any number.
    confidence : float, default 0.25
        The confidence of pruning, at most 0.5; smaller values prune more.
    prune : bool, default True
        False to leave the tree unpruned.
    mdl : bool, default True
        False to turn off release 8's penalty for numeric splits.
    drop : sequence of str
        Columns to leave out.
    nominal : sequence of str
        Numbers that are categories.
    cells : int, default 400,000
        The most cells of a joint table; more admit more attributes. For releases only.
    trees : int or "auto", default 1
        The number of trees, whose shares of the classes are averaged; "auto" takes 25 if they are right about
        1% more of the held-out records than one, and by two standard errors, else 1.
    distil : bool, default False
        True to replace several trees by one that imitates them.
    csv : CsvOptions, optional
        The options for reading a CSV.
    from_ : {"arrow", "csv"}, optional
        The format of standard input, where `data` is "-".

    Returns
    -------
    Fitted or FromRelease
        The tree and its results; for a release, its expected accuracy.
    """
    growth = Options(criterion, min_records, max_depth, confidence, prune, mdl)
    columns = names("drop", drop), names("nominal", nominal)
    settings = TreeSettings(class_, weights, cuts, *columns, cells, growth, Ensemble(trees, distil))
    return _trained(*open_data(data, sidecar, csv, from_), settings)


def _trained(table: Table, sidecar: Sidecar | None, settings: TreeSettings) -> Fitted | FromRelease:
    """Train on an opened table."""
    growth = settings.growth
    growth.check()
    settings.ensemble.check()
    if sidecar is not None and sidecar.is_substituted:
        _check_for_release(settings)
        found = from_release(table, sidecar, settings.class_, settings.cells, settings.ensemble)
        return _of_groups(found, sidecar)
    if settings.cells != CELLS:
        what = f"{argument('cells')} is for releases, and this isn't one"
        raise UsageError("option-for-releases", what, "leave it out")
    label = named_class(settings.class_, sidecar)
    records = coded_records(
        table, label, weights=settings.weights, cuts=settings.cuts, drop=settings.drop, nominal=settings.nominal
    )
    if sidecar is not None:
        records = at_edges(records, sidecar)
    with step("growing"):
        return _of_groups(fit_records(records, growth, settings.ensemble), sidecar)


def _check_for_release(settings: TreeSettings) -> None:
    """Raise a UsageError for a setting that has no meaning for a release."""
    given: dict[str, object] = {n: "" for n in ("drop", "nominal") if getattr(settings, n)}
    given |= {n: "" for n in ("cuts", "weights") if getattr(settings, n) is not None}
    growth = {f.name: (getattr(settings.growth, f.name), f.default) for f in fields(Options)}
    given |= {name: value for name, (value, default) in growth.items() if value != default}
    for name, value in given.items():
        what = f"{argument(name, value if isinstance(value, bool) else '')} is for data, and this is a release"
        raise UsageError("option-for-data", what, "leave it out, or reconstruct first")


Trainee = TypeVar("Trainee", Fitted, FromRelease)


def _of_groups(done: Trainee, sidecar: Sidecar | None) -> Trainee:
    """Return the result of training on groups of values, with a tree that makes these groups if a rule does."""
    groups = {a.name: a.group for a in sidecar.attributes if a.group is not UNSET} if sidecar else {}
    by_file = [f.name for f in done.tree.features if f.name in groups and groups[f.name].prefix is UNSET]
    prefixes = {n: g.prefix for n, g in groups.items() if g.prefix is not UNSET}
    features = tuple(msgspec.structs.replace(f, prefix=prefixes.get(f.name, 0)) for f in done.tree.features)
    remarks = list(done.remarks)
    if by_file:
        remarks.append(
            f"The tree uses {listed(by_file)} grouped by a file. Group the records to predict in the same way."
        )
    return replace(done, tree=replace(done.tree, features=features), remarks=remarks)


def fit_records(records: CodedRecords, options: Options, wanted: Ensemble = ONE) -> Fitted:
    """Train a tree or an ensemble on records in memory."""
    tree, remarks = of_records(records, options, wanted)
    confusion, elsewhere = _confusion(records, tree)
    cut = [c.feature.name for c in records.columns if c.cut]
    if cut:
        remarks.append(
            f"{listed(cut)} had more than 65,536 distinct values, so thresholds are quantiles "
            f"({argument('cuts')} changes how many)."
        )
    right = float(np.trace(confusion) / confusion.sum())
    return Fitted(tree, records.rows, right, confusion, elsewhere, remarks)


def _confusion(records: CodedRecords, tree: Tree) -> tuple[np.ndarray, int]:
    """Return the (true, predicted) weights of the training records, from the leaves or record by record.

    Also return the number of records that are predicted otherwise by the heaviest branches.
    """
    classes = len(records.labels)
    if tree.roots == 1 and not records.has_missing:
        sums = np.zeros((classes, classes))
        np.add.at(sums, tree.label[tree.is_leaf], tree.counts[tree.is_leaf])
        return sums.T, 0
    outcomes = coded(records, tree)
    label, other = (Descent(tree, only).predicted(outcomes, records.rows).label for only in (False, True))
    counts = np.bincount(records.classes * classes + label, records.weights, classes * classes)
    return counts.reshape(classes, classes).astype(np.float64), int((label != other).sum())


@dataclass(frozen=True)
class TreeFiles:
    """The files of a training's results: all of them or none are written."""

    tree: Path
    predicted: Path | None = None
    exports: Sequence[Path] = ()
    force: bool = False


@dataclass(frozen=True)
class Against:
    """The inputs for measuring a tree: test records, and another tree, compared on records of their own."""

    test: Path | None = None
    compare: Path | None = None
    on: Path | None = None


@dataclass(frozen=True, eq=False)
class Trained:
    """A tree that was trained and written, with its accuracy on test records."""

    fitted: Fitted | FromRelease
    tested: Measured | None
    importance: dict[str, float]
    compared: Compared | None = None
    exported: str | None = None
    """The sentence about missing values in exports for other programs, if there are any."""

    def figures(self) -> dict[str, object]:
        """Return the figures for --json."""
        tree = self.fitted.tree
        return {
            "train" if isinstance(self.fitted, Fitted) else "release": self.fitted.figures(),
            "test": None if self.tested is None else self.tested.figures(),
            **{"trees": tree.roots, "size": tree.size, "leaves": tree.leaves, "depth": tree.depth},
            "class": tree.class_name,
            **({} if self.compared is None else {"compared": self.compared.figures()}),
            "importance": self.importance,
            "options": dict(tree.options),
            "remarks": self.fitted.remarks,
        }


@one_run()
def train(
    data: TableLike,
    files: TreeFiles,
    settings: TreeSettings = TreeSettings(),
    against: Against = Against(),
    *,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Trained:
    """Train a tree, measure it, and write it, its predictions and its exports to their files.

    Every file is checked before the work, and written after it.
    """
    predicted, test = files.predicted, against.test
    if against.on is not None and against.compare is None:
        what = f"{argument('on')} names records to compare two trees on"
        raise UsageError("nothing-to-compare", what, f"add the other too: {argument('compare', 'other.json')}")
    if "-" in map(str, (files.tree, predicted, *files.exports)):
        what = "a tree can't be written to standard output"
        raise UsageError("tree-to-standard-output", what, "name files")
    if is_stream(data) and (str(test) == "-" or (predicted is not None and test is None)):
        step_ = f"name a file, or add {argument('test', 'new.parquet')}"
        raise UsageError("standard-input-twice", "standard input can be read only once, for training", step_)
    table, sidecar = open_data(data, None, csv, from_)
    if sidecar is not None and sidecar.is_substituted and predicted is not None and test is None:
        what = "a release's records can't be predicted, because they are perturbed"
        raise UsageError("predictions-of-a-release", what, f"add {argument('test', 'new.parquet')}")
    check_suffix(files.tree)
    with ExitStack() as stack:
        exports = [TreeExport(stack, path, files.force) for path in files.exports]
        tree_file = stack.enter_context(PendingFile(files.tree, files.force))
        labelled = None if predicted is None else destination(stack, predicted, None, files.force)
        tests = None if test is None else open_records(test, table, csv)
        other = None if against.compare is None else load_tree(against.compare)
        if other is not None:
            other.check_single()
            settings.ensemble.check_compared()
        done = _trained(table, sidecar, settings)
        tested = None
        if tests is not None or labelled is not None:
            source = tests or (table if table.rewindable else open_records(data, done.tree, csv))
            tested = classify(done.tree, source, labelled)
        likeness = None
        if other is not None:
            on = table if table.rewindable and isinstance(done, Fitted) else None
            if against.on is not None:
                on = open_records(against.on, done.tree, csv)
            likeness = compared(done.tree, other, on)
        note = _note(done)
        tree_file.put(encode_tree(done.tree))
        for export in exports:
            export.fill(done.tree, note)
        # all is written: only now is anything renamed
        commit(*([] if labelled is None else [labelled]), *(e.into for e in exports), tree_file)
    elsewhere_note = note if any(e.has_note for e in exports) else None
    return Trained(done, None if test is None else tested, importance(done.tree), likeness, elsewhere_note)


def _note(done: Fitted | FromRelease) -> str:
    """Return the sentence on missing values in exports, and the records that they change."""
    alike = argument("heaviest", True)
    sentence = (
        "In the export, a missing value or an unseen category follows the most common branch, as in predict "
        f"{alike}"
    )
    short = [f"{f.name} by {f.prefix}" for f in done.tree.features if f.prefix]
    if short:
        sentence += f". Text is compared by its first characters: {', '.join(short)}"
    if isinstance(done, FromRelease):
        return f"{sentence}."
    return (
        f"{sentence}. This changes the label of {done.elsewhere} of {counted(done.records, 'training record')}."
    )


@overload
def predict(
    tree: TreeLike,
    data: TableLike,
    output: None = None,
    *,
    heaviest: bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> pl.DataFrame: ...
@overload
def predict(
    tree: TreeLike,
    data: TableLike,
    output: str | Path,
    *,
    heaviest: bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> None: ...
@one_run()
def predict(
    tree: TreeLike,
    data: TableLike,
    output: str | Path | None = None,
    *,
    heaviest: bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> pl.DataFrame | None:
    """Predict each record's class, with a tree or its file.

    Parameters
    ----------
    tree : Tree, Fitted, FromRelease, str or Path
        The tree, the result of training, or the file of a tree.
    data : table, str or Path
        Records with the columns that the tree tests: an original or a reconstruction.
    output : str or Path, optional
        A file for the records with their predictions, as `ppdm predict` writes it.
    heaviest : bool, default False
        True to send a missing value down the most common branch, as in a tree's exports, rather than all
        branches in part.
    force : bool, default False
        True to replace an existing output.
    csv : CsvOptions, optional
        The options for reading a CSV.
    from_ : {"arrow", "csv"}, optional
        The format of standard input, where `data` is "-".

    Returns
    -------
    polars.DataFrame or None
        The columns `predicted` and `confidence`, and each class's probability; None with an `output`.
        For a DataFrame of Spark, that DataFrame with the columns `predicted` and `confidence` added.
    """
    import polars as pl
    import pyarrow as pa

    tree = as_tree(tree)
    table = open_records(data, tree, csv, from_)
    added = None
    if ENGINE.get().keeps(table):
        labels = AddedLabels(tree, table, heaviest)
        added = ENGINE.get().adding(table, labels, labels.columns, labels.schema)
    if output is not None:
        with ExitStack() as stack:
            labelled = destination(stack, output, None, force)
            if added is None:
                classify(tree, table, labelled, heaviest)
            else:
                labelled.fill_frame(added)
            commit(labelled)
        return None
    if added is not None:
        return cast("pl.DataFrame", added)
    if ENGINE.get().keeps(table):
        what = "the predictions of records on a cluster must be written there"
        raise UsageError("output-needed", what, f"name a folder for them: {argument('output', 'labelled')}")
    found = predict_table(tree, table, heaviest)
    chances = {f"chance of {v}": found[:, i] for i, v in enumerate(tree.labels)}
    columns = Predicted.of(found).columns(tree) | {n: pa.array(c) for n, c in chances.items()}
    return pl.DataFrame(pa.table(columns))

"""A classifier for scikit-learn: `train_tree` and `predict` as an estimator, for pipelines and searches.

It learns from originals and reconstructions as C4.5 does, and from releases as `train-tree` does. Needs the
extra `sklearn`; nothing imports it unless it is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.display import names
from ppdm_cli.errors import RefusedError, UsageError, missing_package
from ppdm_cli.releases import decode
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import from_arrow, loaded
from ppdm_cli.trees import Tree, importance, majority, predict, train_tree

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_sample_weight,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError:
    raise missing_package("PpdmTreeClassifier needs a library", "scikit-learn") from None

_NUMBERS = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""The checks of an array: numbers, NaN if missing. Categories come in frames, or are named as `nominal`."""


class PpdmTreeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A decision tree or ensemble by C4.5, or from a release by the estimated joint distribution: `tree_`.

    The parameters are those of `train_tree`; `trees` and `distil` are for all tables, the others for
    data: a release is learned with their defaults.
    A frame's strings, booleans and the numbers named in `nominal` are categories; an array's columns are
    named x0, x1, ... Null and NaN are missing values.
    """

    def __init__(
        self,
        *,
        criterion: str = "gain-ratio",
        min_records: float = 2,
        max_depth: int | None = None,
        confidence: float = 0.25,
        prune: bool = True,
        mdl: bool = True,
        cuts: int | None = None,
        nominal: object = (),
        trees: object = 1,
        distil: bool = False,
    ) -> None:
        self.criterion = criterion
        self.min_records = min_records
        self.max_depth = max_depth
        self.confidence = confidence
        self.prune = prune
        self.mdl = mdl
        self.cuts = cuts
        self.nominal = nominal
        self.trees = trees
        self.distil = distil

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, sidecar: Sidecar | str | Path | None = None
    ) -> PpdmTreeClassifier:
        """Learn from records and their labels, or from a table that holds the class, as `train_tree` opens it.

        A release or a path comes without `y`, or with the class's name as `y`. A frame of a release or
        reconstruction needs its `sidecar`. A record of weight 0 counts as absent.
        """
        if not _is_array(X) and (y is None or isinstance(y, str)):
            return self._taught(_unindexed(X), y, sample_weight, sidecar)
        if sidecar is not None or _is_path(X):
            what = "y can't be given for a file or a table with a sidecar, which holds its class"
            raise UsageError("class-in-the-table", what, "leave out y, or name the class's column")
        name = getattr(y, "name", None)
        if _is_array(X):
            X, y = validate_data(self, X, y, **_NUMBERS)
            table = _table(X, [f"x{i}" for i in range(X.shape[1])])
        else:
            table = _original(X)
            validate_data(self, table, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(table, y)
        kind = _kind(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, table, dtype=np.float64, ensure_non_negative=True)
            counted = weights > 0
            table, codes, weights = table.filter(pa.array(counted)), codes[counted], weights[counted]
        name = name if isinstance(name, str) and name else "class"
        while name in table.column_names:
            name += "_"
        table = table.append_column(name, pa.array(codes.astype(np.int64)))
        tree = train_tree(table, name, weights=weights, **self._settings()).tree
        self.tree_ = _relabelled(tree, pa.array(self.classes_).cast(kind), kind)
        self._by_name = False
        return self

    def _taught(self, data: Any, class_: str | None, weights: Any, sidecar: Any) -> PpdmTreeClassifier:
        """Learn from a table that holds the class; afterwards the attributes have their names."""
        weights = None if weights is None else np.asarray(weights, np.float64)
        tree = train_tree(data, class_, sidecar=sidecar, weights=weights, **self._settings()).tree
        kind = dtypes.parse(tree.class_dtype)
        labels = dtypes.column([dtypes.from_json(v, kind) for v in tree.labels], kind)
        self.classes_ = labels.to_numpy(zero_copy_only=False)  # in order, as domains are
        self.feature_names_in_ = np.array([f.name for f in tree.features], object)
        self.n_features_in_ = len(tree.features)
        self.tree_ = tree
        self._by_name = True
        return self

    def _settings(self) -> dict[str, Any]:
        return {**self.get_params(deep=False), "nominal": names("nominal", self.nominal)}

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the chances of the classes for each record, in the order of `classes_`."""
        check_is_fitted(self)
        known = [f.name for f in self.tree_.features]
        if _is_array(X):
            X = _table(validate_data(self, X, reset=False, **_NUMBERS), known)
        elif not (self._by_name or _is_path(X)):
            X = _original(X)
            validate_data(self, X, reset=False, skip_check_array=True)
            X = X.rename_columns(known)
        return predict(self.tree_, X)[:, 2:].to_numpy()

    def predict(self, X: object) -> np.ndarray:
        """Return the most likely class of each record; of equally likely ones the first."""
        likeliest = majority(self.predict_proba(X))
        return np.asarray(self.classes_[likeliest])

    @property
    def feature_importances_(self) -> np.ndarray:
        """Return each attribute's share of the information that the tests gained on the training records."""
        check_is_fitted(self)
        found = importance(self.tree_)
        return np.array([found[f.name] for f in self.tree_.features])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _is_path(X: object) -> bool:
    several = X if isinstance(X, (list, tuple)) else [X]
    return bool(several) and all(isinstance(x, (str, Path)) for x in several)


def _is_array(X: object) -> bool:
    """Return whether scikit-learn must read it: it is neither a file nor a frame, lazy or not."""
    return not (_is_path(X) or hasattr(X, "__arrow_c_stream__") or hasattr(X, "collect_schema"))


def _unindexed(X: object) -> Any:
    """Return a frame without pandas' index, which Arrow reads as a column unless it just counts."""
    return X.reset_index(drop=True) if hasattr(X, "reset_index") else X


def _original(X: object) -> pa.Table:
    """Return a frame in memory, of an original or a reconstruction."""
    table = from_arrow(_unindexed(X))
    if table.sidecar is not None and decode(table.sidecar, "in X").is_substituted:
        what = "X is a release: its single values are not the original ones"
        step = "learn from all of it, fit(release) without y, or reconstruct first"
        raise RefusedError("release-as-features", what, step)
    batches = [batch for _, _, batch in loaded(table)]
    return pa.Table.from_batches(batches) if batches else table.schema.empty_table()


def _table(array: np.ndarray, names: list[str]) -> pa.Table:
    return pa.table({name: array[:, i] for i, name in enumerate(names)})


def _kind(y: np.ndarray) -> pa.DataType:
    """Return the type of labels; refuse missing ones, and values that aren't labels."""
    try:
        labels = pa.array(y, from_pandas=True)
    except (pa.ArrowException, TypeError):
        raise ValueError("Unknown label type: y holds values of several types, or of an unknown one") from None
    if labels.null_count:
        raise ValueError("y contains NaN or null. Remove the records without a class, or give them one")
    check_classification_targets(y)
    return dtypes.normal(labels.type, "y")


def _relabelled(tree: Tree, labels: pa.Array, kind: pa.DataType) -> Tree:
    """Return a tree of codes with the labels that they stand for, also those whose records have no weight."""
    place = np.array(tree.labels, np.int32)
    counts = np.zeros((tree.size, len(labels)))
    counts[:, place] = tree.counts
    values = labels.to_pylist() if dtypes.is_discrete(kind) else dtypes.carrier(labels).tolist()
    words = tuple(dtypes.to_json(v, kind) for v in values)
    return replace(tree, counts=counts, label=place[tree.label], labels=words, class_dtype=str(kind))

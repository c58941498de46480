"""The classifier for scikit-learn: its own checks pass, and it learns and predicts what `train_tree` does."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import ppdm_cli
from ppdm_cli import MismatchError, PpdmTreeClassifier, RefusedError, UsageError
from tests.vocabulary import people


def labelled(rows: int = 600) -> pl.DataFrame:
    """Records whose class follows from age and region, but for one in eight."""
    frame = people(rows).drop("since", "group")
    right = np.random.default_rng(2).random(rows) < 0.875
    young = ((pl.col("age") < 45) & (pl.col("region") != "east")) == pl.Series(right)
    return frame.with_columns(
        pl.when(young).then(pl.lit("young")).otherwise(pl.lit("a grown-up")).alias("group")
    )


DATA = labelled()
X, Y = DATA.drop("group"), DATA["group"]
NUMBERS = X.select("age", "income").to_numpy()
AS_FRAME: dict[str, Any] = {
    "polars": lambda f: f,
    "lazy": lambda f: f.lazy(),
    "arrow": lambda f: f.to_arrow(),
    "pandas": lambda f: f.to_pandas(),
    "pandas with an index": lambda f: f.to_pandas().set_index(np.arange(f.height)[::-1]),
    "pandas with categories": lambda f: f.to_pandas().astype({"region": "category"}),
}


def same(one: Any, other: Any) -> bool:
    """Whether two trees test the same and count the same."""
    names = ("feature", "threshold", "counts", "label", "first_child")
    arrays = all(np.array_equal(getattr(one, n), getattr(other, n), equal_nan=True) for n in names)
    return arrays and (one.labels, one.class_dtype) == (other.labels, other.class_dtype)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release and its reconstruction."""
    at = tmp_path_factory.mktemp("sklearn")
    ppdm_cli.perturb(labelled(6000), at / "r.parquet", gamma=99, class_="group", seed=1)
    ppdm_cli.reconstruct(at / "r.parquet", at / "usable.parquet")
    return at


@pytest.mark.parametrize("trees", [1, 3])
def test_the_checks_of_scikit_learn_pass(trees: int) -> None:
    """None is expected to fail of a tree; the array API is tried only where SCIPY_ARRAY_API is set.

    The trees of an ensemble are from half of the records, and two records are not one of weight 2.
    """
    with pytest.warns(match="SCIPY_ARRAY_API"):
        found = check_estimator(PpdmTreeClassifier(trees=trees), on_fail=None)
    assert len(found) > 50
    told = [(f["check_name"], f["exception"]) for f in found if f["status"] != "passed"]
    by_weight = ["check_sample_weight_equivalence_on_dense_data"] * (trees > 1)
    assert [name for name, _ in told] == [*by_weight, "check_array_api_input"], told


@pytest.mark.parametrize("kind", AS_FRAME)
def test_every_kind_of_frame_teaches_what_train_tree_learns(kind: str) -> None:
    taught = PpdmTreeClassifier().fit(AS_FRAME[kind](X), Y)
    made = ppdm_cli.train_tree(DATA, "group").tree
    assert same(taught.tree_, made) and made.size > 3 and taught.tree_.class_name == "group"
    assert taught.classes_.tolist() == ["a grown-up", "young"]
    assert taught.feature_names_in_.tolist() == X.columns and taught.n_features_in_ == 4
    there = AS_FRAME[kind](X)
    told = ppdm_cli.predict(made, X)
    assert taught.predict(there).tolist() == told["predicted"].to_list()
    assert np.array_equal(taught.predict_proba(there), told[:, 2:].to_numpy())
    taught.tree_.validate()
    assert ppdm_cli.predict(taught.tree_, X).equals(told)


def test_an_array_is_a_frame_of_numbers() -> None:
    by_array = PpdmTreeClassifier().fit(NUMBERS, Y.to_numpy())
    by_frame = PpdmTreeClassifier().fit(X.select("age", "income"), Y)
    assert np.array_equal(by_array.predict_proba(NUMBERS), by_frame.predict_proba(X.select("age", "income")))
    with pytest.warns(UserWarning, match="valid feature names"):
        assert np.array_equal(by_frame.predict(NUMBERS), by_array.predict(NUMBERS))
    holed = np.where(np.random.default_rng(1).random(NUMBERS.shape) < 0.1, np.nan, NUMBERS)
    as_nulls = pl.DataFrame(holed, ["x0", "x1"]).fill_nan(None)
    assert same(PpdmTreeClassifier().fit(holed, Y).tree_, PpdmTreeClassifier().fit(as_nulls, Y).tree_)
    assert not PpdmTreeClassifier(nominal="x0").fit(NUMBERS, Y).tree_.features[0].numeric
    with pytest.raises(ValueError, match="could not convert string"):
        PpdmTreeClassifier().fit(X.to_numpy(), Y)


@pytest.mark.parametrize("labels", [[3, 7], [0.5, 2.0], [False, True], ["no", "yes"]])
def test_labels_come_back_as_they_were(labels: list[Any]) -> None:
    y = np.array(labels)[(Y == "young").to_numpy().astype(int)]
    if labels == [0.5, 2.0]:
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            PpdmTreeClassifier().fit(NUMBERS, y)
        y = np.floor(y)
    taught = PpdmTreeClassifier().fit(NUMBERS, y)
    assert taught.predict(NUMBERS).dtype == taught.classes_.dtype == y.dtype
    assert taught.score(NUMBERS, y) > 0.7
    taught.tree_.validate()
    assert ppdm_cli.predict(taught.tree_, pl.DataFrame(NUMBERS, ["x0", "x1"]))["predicted"].to_list() == list(
        taught.predict(NUMBERS)
    )


def test_a_release_is_learnt_as_a_release(folder: Path) -> None:
    path, frame = folder / "r.parquet", pl.read_parquet(folder / "r.parquet")
    made = ppdm_cli.train_tree(path).tree
    told = ppdm_cli.predict(made, X)
    assert made.size > 3
    sidecar = ppdm_cli.inspect(path).sidecar
    for taught in (
        PpdmTreeClassifier().fit(path),
        PpdmTreeClassifier().fit(str(path), "group"),
        PpdmTreeClassifier().fit(pq.read_table(path)),
        PpdmTreeClassifier().fit(frame, sidecar=sidecar),
    ):
        assert taught.classes_.tolist() == ["a grown-up", "young"]
        assert taught.predict(X).tolist() == told["predicted"].to_list()
        assert np.array_equal(taught.predict_proba(X), told[:, 2:].to_numpy())
        assert np.array_equal(taught.predict(DATA.select(sorted(DATA.columns))), taught.predict(X))  # by name
        assert taught.score(X, Y) > 0.8
        taught.tree_.validate()
    with pytest.raises(RefusedError, match=r"X is a release: .*without y"):
        PpdmTreeClassifier().fit(pq.read_table(path).drop(["group"]), frame["group"])
    with pytest.raises(RefusedError, match="is a release"):
        taught.predict(path)
    with pytest.raises(UsageError, match="max_depth= is for data, and this is a release"):
        PpdmTreeClassifier(max_depth=2).fit(path)
    with pytest.raises(MismatchError, match="the data has no column"):
        taught.predict(X.drop("age"))


def test_a_reconstruction_is_learnt_with_its_edges_or_as_a_frame(folder: Path) -> None:
    usable = pl.read_parquet(folder / "usable.parquet")
    made = ppdm_cli.train_tree(folder / "usable.parquet").tree
    by_file = PpdmTreeClassifier().fit(folder / "usable.parquet")
    assert np.array_equal(by_file.tree_.threshold, made.threshold, equal_nan=True) and made.size > 3
    given = pq.read_table(folder / "usable.parquet")
    for y in (usable["group"], usable["group"].to_pandas(), given["group"]):
        by_frame = PpdmTreeClassifier().fit(given.drop(["group"]), y)
        assert same(by_frame.tree_, ppdm_cli.train_tree(usable, "group").tree)
        assert by_frame.score(X, Y) > 0.8


def test_it_works_in_pipelines_and_searches(folder: Path) -> None:
    numbers = ColumnTransformer([("scaled", StandardScaler(), ["age", "income"])])
    pipe = Pipeline([("numbers", numbers), ("tree", PpdmTreeClassifier())])
    for frame, y in ((X, Y), (X.to_pandas(), Y.to_pandas())):
        whole = cross_val_score(PpdmTreeClassifier(), frame, y, cv=3, error_score="raise")
        assert whole.mean() > 0.8
        assert cross_val_score(pipe, frame, y, cv=3, error_score="raise").mean() > 0.7
    chances = cross_val_score(PpdmTreeClassifier(), X, Y, scoring="roc_auc", cv=3, error_score="raise")
    assert chances.mean() > 0.75
    grid = {"max_depth": [0, 3], "criterion": ["gain", "gain-ratio"]}
    search = GridSearchCV(PpdmTreeClassifier(), grid, cv=3, error_score="raise").fit(X, Y)
    assert search.best_params_["max_depth"] == 3 and search.score(X, Y) > 0.8
    for taught in (search.best_estimator_, PpdmTreeClassifier().fit(folder / "r.parquet")):
        again = pickle.loads(pickle.dumps(taught))
        assert np.array_equal(again.predict_proba(X), taught.predict_proba(X))
    with pytest.raises(NotFittedError):
        clone(search.best_estimator_).predict(X)


def test_weights_count_records_and_a_weight_of_nothing_leaves_one_out() -> None:
    times = np.random.default_rng(3).integers(0, 4, DATA.height)
    weighted = PpdmTreeClassifier(min_records=5).fit(X, Y, times)
    repeated = DATA.select(pl.all().repeat_by(pl.Series(times)).explode(empty_as_null=False))
    counted = PpdmTreeClassifier(min_records=5).fit(repeated.drop("group"), repeated["group"])
    assert same(weighted.tree_, counted.tree_) and weighted.tree_.size > 3
    alone = PpdmTreeClassifier().fit(X, Y, (Y == "young").to_numpy() * 1.0)
    assert alone.classes_.tolist() == ["a grown-up", "young"] and set(alone.predict(X)) == {"young"}
    assert np.array_equal(alone.predict_proba(X), np.tile([0.0, 1.0], (X.height, 1)))
    alone.tree_.validate()
    named = PpdmTreeClassifier(min_records=5).fit(DATA, "group", times + 1.0)
    assert same(named.tree_, PpdmTreeClassifier(min_records=5).fit(X, Y, times + 1.0).tree_)


def test_several_trees_are_those_of_train_tree(folder: Path) -> None:
    several = PpdmTreeClassifier(trees=3)
    assert same(several.fit(X, Y).tree_, ppdm_cli.train_tree(DATA, "group", trees=3).tree)
    assert several.fit(folder / "r.parquet").tree_.roots == 3
    assert PpdmTreeClassifier(trees=3, distil=True).fit(X, Y).tree_.roots == 1


def test_importances_are_in_the_order_of_the_attributes() -> None:
    taught = PpdmTreeClassifier().fit(X, Y)
    shares = dict(zip(X.columns, taught.feature_importances_, strict=True))
    assert sum(shares.values()) == pytest.approx(1) and min(shares["age"], shares["region"]) > 0.2
    assert PpdmTreeClassifier(max_depth=0).fit(X, Y).feature_importances_.tolist() == [0] * 4
    assert not hasattr(PpdmTreeClassifier(), "feature_importances_")


def test_what_does_not_fit_is_said_in_one_line(folder: Path) -> None:
    taught = PpdmTreeClassifier().fit(X, Y)
    wrong: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "null", lambda: PpdmTreeClassifier().fit(X, [None, *Y[1:]])),
        (ValueError, "NaN", lambda: PpdmTreeClassifier().fit(NUMBERS, Y.replace("young", None).to_pandas())),
        (ValueError, "several types", lambda: PpdmTreeClassifier().fit(X, np.array([1, *Y[1:]], object))),
        (ValueError, "inconsistent numbers", lambda: PpdmTreeClassifier().fit(X, Y[1:])),
        (ValueError, "Sample weights", lambda: PpdmTreeClassifier().fit(X, Y, np.zeros(600))),
        (UsageError, "no class is named", lambda: PpdmTreeClassifier().fit(X)),
        (UsageError, "holds its class. Leave out y", lambda: PpdmTreeClassifier().fit(folder / "r.parquet", Y)),
        (UsageError, "unknown criterion", lambda: PpdmTreeClassifier(criterion="gini").fit(X, Y)),
        (UsageError, "nominal=", lambda: PpdmTreeClassifier(nominal=["ag"]).fit(X, Y)),
        (ValueError, "feature names should match", lambda: taught.predict(DATA)),
        (MismatchError, "'region' is of type int32", lambda: taught.predict(X.with_columns(region=pl.lit(1)))),
    ]  # fmt: skip
    for kind, said, call in wrong:
        with pytest.raises(kind, match=said) as caught:
            call()
        assert "young" not in str(caught.value)


def test_without_scikit_learn_the_extra_is_named_and_all_else_works() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from ppdm_cli import *\n"
        "import ppdm_cli\n"
        "try: ppdm_cli.PpdmTreeClassifier\n"
        "except UsageError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    what = "usage: PpdmTreeClassifier needs a library that isn't installed"
    assert said == f"{what}. Install it: {sys.executable} -m pip install scikit-learn\n"

"""The library's front door as a notebook uses it: every function, with whatever may be given to it.

What is no table is one usage error, a release is never taken for data, errors name arguments, a string is
one name, and no result prints more than 300 characters.
"""

from __future__ import annotations

import inspect as inspection
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ppdm_cli
from ppdm_cli import CsvOptions, MismatchError, Plan, PpdmError, RefusedError, Release, Sidecar, UsageError
from ppdm_cli.display import MOST_CHARACTERS, Displayed
from ppdm_cli.estimating import fill_estimated
from ppdm_cli.networks import Network, Node
from ppdm_cli.sidecar import CopiesSidecar
from ppdm_cli.tables import Output, commit
from ppdm_cli.trees import FromRelease
from tests.vocabulary import Run, people

FUNCTIONS = [n for n in ppdm_cli.__all__ if n[0].islower() and n not in ("on_spark", "running")]
MARK = "PLANTED-CELL"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An original, its release in each format, and a reconstruction."""
    at = tmp_path_factory.mktemp("door")
    people(600).write_parquet(at / "original.parquet")
    for suffix in ("parquet", "csv", "arrow"):
        given = {"gamma": 9, "class_": "group", "keep": "group", "seed": 1, "drop": "since"}
        ppdm_cli.perturb(people(600), at / f"r.{suffix}", **given)
    ppdm_cli.reconstruct(at / "r.parquet", at / "usable.parquet")
    return at


@pytest.fixture(scope="module")
def release() -> Release:
    return ppdm_cli.perturb(people(600), gamma=9, class_="group", keep="group", drop="since", seed=1)


@pytest.fixture(scope="module")
def tree() -> Any:
    return ppdm_cli.train_tree(people(600), "group", drop="since")


def calls(tree: Any, sidecar: Sidecar) -> dict[str, Callable[[Any], Any]]:
    """Every function and parameter of the front door that takes a table."""
    given: dict[str, Any] = {"class_": "group", "keep": "group", "drop": "since", "seed": 1}
    release, age = ppdm_cli.perturb(people(600), gamma=9, **given), Network.of([Node("age")])
    return {
        "perturb": lambda t: ppdm_cli.perturb(t, gamma=9),
        "plan": lambda t: ppdm_cli.plan(t),
        "estimate": lambda t: ppdm_cli.estimate(t, sidecar=sidecar),
        "estimate truth": lambda t: ppdm_cli.estimate(release.frame, sidecar=sidecar, truth=t),
        "query": lambda t: ppdm_cli.query(t, "select count()", sidecar=sidecar),
        "query truth": lambda t: ppdm_cli.query(release.frame, "select count()", sidecar=sidecar, against=t),
        "reconstruct": lambda t: ppdm_cli.reconstruct(t, sidecar=sidecar),
        "train_tree": lambda t: ppdm_cli.train_tree(t, "group"),
        "train_tree release": lambda t: ppdm_cli.train_tree(t, sidecar=sidecar),
        "predict": lambda t: ppdm_cli.predict(tree, t),
        "attack": lambda t: ppdm_cli.attack(t, sidecar=sidecar),
        "attack truth": lambda t: ppdm_cli.attack(release.frame, sidecar=sidecar, truth=t),
        "entropy": lambda t: ppdm_cli.entropy(t, sidecar=sidecar),
        "inspect": lambda t: ppdm_cli.inspect(t, sidecar=sidecar),
        "compare": lambda t: ppdm_cli.compare(tree, tree, t),
        "describe": lambda t: ppdm_cli.describe(t, {"attributes": {"age": {"gamma": 9, "domain": [0, 9]}}}),
        "merge_networks": lambda t: ppdm_cli.merge_networks([t, t]),
        "train_bayes": lambda t: ppdm_cli.train_bayes(t, age),
        "train_bayes truth": lambda t: ppdm_cli.train_bayes(people(60), age, compare=t),
    }


ODD: dict[str, Any] = {
    "None": None,
    "a number": 5,
    "a dict": {"age": [1, 2]},
    "a list of dicts": [{"age": MARK}, {"age": 2}],
    "a list of numbers": [1, 2],
    "an empty list": [],
    "bytes": b"age\n1\n",
    "a polars Series": pl.Series("age", [1, 2]),
    "a pandas Series": pd.Series([1, 2], name="age"),
    "pandas with mixed objects": pd.DataFrame({"age": [1, MARK, 2.5], "b": [1, 2, 3]}),
    "pandas with a dict and a list": pd.DataFrame({"age": [{}, [MARK]]}),
    "numpy": np.zeros((2, 2)),
    "an Arrow array": pa.array([1, 2]),
    "a class": pl.DataFrame,
    "a LazyFrame that fails": pl.LazyFrame({"age": [MARK]}).select(pl.col("age").cast(pl.Int64)),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_table_is_one_clean_error(name: str, tree: Any, release: Release) -> None:
    """A truth, or no release for entropy, may be None: then there is none; so for records to compare on."""
    for function, call in calls(tree, release.sidecar).items():
        if name == "None" and ("truth" in function or function in ("entropy", "compare")):
            continue
        with pytest.raises(PpdmError) as caught:
            call(ODD[name])
        error = caught.value
        assert isinstance(error, UsageError) or "LazyFrame" in name, (function, error)
        assert MARK not in str(error) and "\n" not in str(error) and error.__cause__ is None
        assert error.__suppress_context__ or error.__context__ is None, function
    if name == "pandas with mixed objects":
        assert "its column 'age' holds values of several types" in str(error)


def test_every_function_and_table_parameter_is_tried(tree: Any, release: Release) -> None:
    tried = {name.split()[0] for name in calls(tree, release.sidecar)}
    assert tried | {"designs", "record_designs", "state"} == set(FUNCTIONS)  # they read no table in memory


@pytest.mark.parametrize(
    "as_table",
    [
        lambda f: f.lazy(),
        lambda f: f.lazy().filter(pl.col("age") >= 0),
        lambda f: f.to_pandas(),
        lambda f: f.to_arrow(),
    ],
    ids=["LazyFrame", "filtered LazyFrame", "pandas", "pyarrow"],
)
def test_every_kind_of_table_gives_the_same(as_table: Any, tree: Any, release: Release) -> None:
    data, sidecar = people(600).drop("since"), release.sidecar
    given = {"gamma": 9, "class_": "group", "keep": "group", "seed": 1}
    assert ppdm_cli.perturb(as_table(data), **given).frame.equals(release.frame)  # fmt: skip
    assert ppdm_cli.predict(tree, as_table(data)).equals(ppdm_cli.predict(tree, data))
    whole = ppdm_cli.estimate(release.frame, sidecar=sidecar, truth=data).frame
    assert ppdm_cli.estimate(as_table(release.frame), sidecar=sidecar, truth=as_table(data)).frame.equals(whole)


# -- the stage that a table carries


@pytest.mark.parametrize("how", ["parquet", "csv", "arrow", "lost sidecar", "pyarrow", "sidecar given"])
def test_a_release_is_learnt_as_a_release_or_refused(
    how: str, folder: Path, release: Release, tree: Any, tmp_path: Path
) -> None:
    more: dict[str, Any] = {}
    data: Any = str(folder / f"r.{how}")
    if how == "lost sidecar":
        data = tmp_path / "alone.parquet"
        data.write_bytes((folder / "r.parquet").read_bytes())
    elif how == "pyarrow":
        data = pq.read_table(folder / "r.parquet")
    elif how == "sidecar given":
        data, more = release.frame, {"sidecar": release.sidecar}
    taught = ppdm_cli.train_tree(data, "group", **more)
    assert isinstance(taught, FromRelease) and taught.records == 600
    with pytest.raises(UsageError, match="max_depth= is for data, and this is a release"):
        ppdm_cli.train_tree(data, max_depth=2, **more)
    if more:
        return
    with pytest.raises(RefusedError, match=r"is a release: .*Reconstruct"):
        ppdm_cli.predict(tree, data)
    with pytest.raises(RefusedError, match="already a release"):
        ppdm_cli.perturb(data, gamma=9)
    for function in (ppdm_cli.estimate, ppdm_cli.attack):
        with pytest.raises(MismatchError, match="has a sidecar: it is not an original"):
            function(release.frame, sidecar=release.sidecar, truth=data)


def test_a_reconstruction_is_data_with_its_edges_and_results_are_not(folder: Path, tmp_path: Path) -> None:
    usable = ppdm_cli.reconstruct(folder / "r.parquet")
    by_file = ppdm_cli.train_tree(folder / "usable.parquet")
    by_frame = ppdm_cli.train_tree(usable.frame, sidecar=usable.sidecar)
    assert by_file.tree.size == by_frame.tree.size > 1 and by_file.tree.class_name == "group"
    assert np.array_equal(by_file.tree.threshold, by_frame.tree.threshold, equal_nan=True)
    with pytest.raises(UsageError, match="cells= is for releases"):
        ppdm_cli.train_tree(usable.frame, sidecar=usable.sidecar, cells=1000)

    with ExitStack() as stack:
        results = Output(stack, tmp_path / "e.parquet")
        done = ppdm_cli.estimate(folder / "r.parquet")
        fill_estimated(done.frame, done.sidecar, results)
        commit(results)
    for call in (ppdm_cli.train_tree, lambda d: ppdm_cli.predict(by_file, d), ppdm_cli.estimate):
        with pytest.raises(MismatchError, match="is at stage 'estimated'"):
            call(tmp_path / "e.parquet")
    with pytest.raises(UsageError, match="no class is named"):
        ppdm_cli.train_tree(people(600))


def test_command_and_library_train_the_same_tree(folder: Path, ppdm: Run, tmp_path: Path) -> None:
    for name in ("r.csv", "r.parquet", "usable.parquet"):
        ppdm("train-tree", folder / name, "-o", "t.json", "--force")
        made = ppdm_cli.train_tree(folder / name).tree
        from ppdm_cli.trees.storing import encode_tree

        assert (tmp_path / "t.json").read_bytes() == encode_tree(made)
        found = ppdm_cli.predict(tmp_path / "t.json", people(600))
        assert found.equals(ppdm_cli.predict(made, people(600)))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_truth_without_a_column_does_not_fit_in_any_format(suffix: str, folder: Path, ppdm: Run) -> None:
    lacking = folder / f"lacking.{suffix}"
    getattr(people(600).drop("age"), f"write_{suffix}")(lacking)
    for command in ("estimate", "attack"):
        said = ppdm(command, folder / "r.parquet", "--truth", lacking, code=3).stderr.decode()
        assert "the original lacks the columns 'age'" in said


# -- names and words


def parameters(function: str) -> list[inspection.Parameter]:
    return list(inspection.signature(getattr(ppdm_cli, function)).parameters.values())


def test_a_string_is_one_name_wherever_names_are_expected(release: Release, folder: Path) -> None:
    listed = {(f, p.name) for f in FUNCTIONS for p in parameters(f) if p.annotation == "str | Sequence[str]"}
    assert listed == {
        ("estimate", "attributes"), ("estimate", "joint"),
        ("attack", "attacks"), ("attack", "knows"), ("perturb", "drop"), ("perturb", "keep"),
        ("train_bayes", "nodes"), ("train_tree", "drop"), ("train_tree", "nominal"),
    }  # fmt: skip
    assert "age" not in ppdm_cli.perturb(people(), gamma=9, drop="age").frame.columns
    sidecar, data = release.sidecar, release.frame
    assert len(ppdm_cli.estimate(data, sidecar=sidecar, attributes="age").tables) == 1
    attacked = ppdm_cli.attack(data, sidecar=sidecar, attacks="posterior")
    assert {r.attack for r in attacked.rows} == {"posterior"}
    fitted = ppdm_cli.train_tree(people(), "group", drop="since", nominal="age")
    assert [f.name for f in fitted.tree.features if not f.numeric] == ["age", "region", "member"]
    with pytest.raises(UsageError, match="joint= takes two or three"):
        ppdm_cli.estimate(data, sidecar=sidecar, joint="age")
    for function, name in sorted(listed):
        for wrong in (5, [1, 2], [None], b"age"):
            with pytest.raises(UsageError, match=f"{name} takes one name or a list of names"):
                getattr(ppdm_cli, function)(data, **{name: wrong})
    (folder / "odd.csv").write_text("zip,x\n01234,NA\n00001,2\n" * 50)
    options = CsvOptions(types={"zip": "string"}, nulls="NA")
    assert options == CsvOptions(types={"zip": pa.string()}, nulls=["NA"])
    with pytest.raises(UsageError) as caught:
        CsvOptions(delimiter="ab")
    assert "--" not in str(caught.value)


def test_errors_name_the_argument_and_the_commands_the_option(folder: Path, ppdm: Run) -> None:
    with pytest.raises(UsageError, match=r"class_= names the column 'grup'.*Did you mean 'group'"):
        ppdm_cli.perturb(people(), gamma=9, class_="grup")
    asked = ("--gamma", "9", "--class", "grup")
    said = ppdm("perturb", folder / "original.parquet", "-o", "x.csv", *asked, code=2)
    assert b"--class names the column 'grup'" in said.stderr
    with pytest.raises(UsageError, match="drop= names") as caught:
        ppdm_cli.train_tree(people(), "group", drop="x")
    assert "--" not in str(caught.value)
    with pytest.raises(TypeError, match="nosuch"):
        ppdm_cli.perturb(people(), nosuch=1)


# -- what is shown


def shortened(longest: str) -> pl.DataFrame:
    """Many columns with long names, many categories."""
    rng = np.random.default_rng(1)
    wide = {f"{longest}{i}": rng.integers(0, 300, 3_000) for i in range(30)}
    return pl.DataFrame({**wide, "group": rng.choice(["<b>A</b>", "B"], 3_000)})


@pytest.fixture(scope="module")
def results() -> list[Any]:
    """A result of every kind."""
    data = shortened("<script>x\x1b[31m</script>" * 5)
    release = ppdm_cli.perturb(data, gamma=9, bins=300, class_="group", keep="group", rare="publish", seed=1)
    frame, sidecar = release.frame, release.sidecar
    estimated = ppdm_cli.estimate(frame, sidecar=sidecar, truth=data)
    usable = ppdm_cli.reconstruct(frame, sidecar=sidecar, method="global")
    fitted = ppdm_cli.train_tree(data, "group", prune=False, mdl=False)
    taught = ppdm_cli.train_tree(frame, sidecar=sidecar)
    learnt = ppdm_cli.train_bayes(data, Network.of([Node(data.columns[0])]))
    attacked = ppdm_cli.attack(frame, sidecar=sidecar, attacks="posterior")
    asked = ppdm_cli.query(frame, f'select count() group by "{data.columns[0]}"', sidecar=sidecar)
    inspected, grid = ppdm_cli.inspect(sidecar), ppdm_cli.entropy()
    designs = ppdm_cli.record_designs(record_epsilon=2, records=9, attributes="3x5")
    results = [release, sidecar, *sidecar.attributes, estimated, *estimated.tables, usable, fitted,
               fitted.tree, taught, attacked, inspected, grid, fitted.measured, estimated.tables[0].interval,
               ppdm_cli.plan(data), asked, ppdm_cli.compare(fitted, taught),
               learnt, learnt.network, designs]  # fmt: skip
    assert fitted.tree.size > 10
    return results


def test_no_result_prints_over_300_characters(results: list[Any]) -> None:
    assert {type(r) for r in results} == {*subclasses(Displayed)} - {Displayed, CopiesSidecar}
    for result in results:
        text, html = repr(result), result._repr_html_()
        assert 10 < len(text) <= MOST_CHARACTERS and text.isprintable() and type(result).__name__ in text
        assert "<script>" not in html and "<b>A" not in html and "\x1b" not in html
    release, estimated = results[0], next(r for r in results if isinstance(r, ppdm_cli.Estimate))
    assert "salary" not in repr(release) and len(estimated._repr_html_()) > 500


def subclasses(kind: type) -> Iterator[type]:
    yield kind
    for one in kind.__subclasses__():
        yield from subclasses(one)


@pytest.mark.parametrize("function", [n for n in ppdm_cli.__all__ if n[0].islower()])
def test_a_function_lists_its_parameters_and_their_types(function: str) -> None:
    found = parameters(function)
    listed = (inspection.getdoc(getattr(ppdm_cli, function)) or "").partition("Parameters\n----")[2]
    heads = re.findall(r"^([a-z_0-9, ]+) : \S", listed, re.MULTILINE)
    assert [p.name for p in found] == [name for head in heads for name in head.split(", ")]
    untyped = [p.name for p in found if re.search(r"\bAny\b", p.annotation)]
    assert not untyped or function in WITHOUT_TYPES
    own = [p for p in found if function not in ("perturb", "plan") or p.name not in Plan.__struct_fields__]
    assert len(own) <= MOST_PARAMETERS.get(function, 12)


MOST_PARAMETERS = {"perturb": 15, "train_tree": 18, "estimate": 15}
WITHOUT_TYPES = {"estimate", "inspect", "query", "reconstruct"}


def test_the_names_of_the_front_door() -> None:
    wanted = {"Sidecar", "PpdmError", "UsageError", "DataError", "MismatchError", "RefusedError", "CsvOptions"}
    wanted |= {"inspect", "entropy", "train_tree", "predict"}
    assert wanted <= set(ppdm_cli.__all__) == set(dir(ppdm_cli))
    for name in set(ppdm_cli.__all__) - {"__version__"}:
        found = getattr(ppdm_cli, name)
        assert found is getattr(ppdm_cli, name) and pickle.loads(pickle.dumps(found)) is found, name
    for function in FUNCTIONS:
        assert getattr(ppdm_cli, function).__doc__ and "self" not in [p.name for p in parameters(function)]
    assert all(k.__annotations__["frame"] == "pl.DataFrame | None" for k in (Release, ppdm_cli.Reconstructed))
    assert inspection.signature(ppdm_cli.predict).return_annotation == "pl.DataFrame | None"

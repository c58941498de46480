"""The library between other programs: Spark, outputs, wrong calls."""

from __future__ import annotations

import io
import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ppdm_cli
from ppdm_cli import UsageError, estimate, perturb
from ppdm_cli.engine import ON_SPARK
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import COLUMN
from tests.perturbing.test_recipe_choice import DOMAINS, table
from tests.test_front_door import FUNCTIONS, folder, results, tree
from tests.vocabulary import people

assert folder and results and tree


class OfSpark:
    """What looks like a DataFrame of Spark; a session of it would be asked for nothing but a clone."""

    @property
    def sparkSession(self) -> Any:  # noqa: N802
        return self


OfSpark.__module__ = "pyspark.sql.dataframe"


def test_a_frame_of_spark_is_refused_by_name_where_spark_does_not_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "spark.md").read_text()
    for function in FUNCTIONS:
        called = getattr(ppdm_cli, function)
        if function in ON_SPARK:
            assert f"`{function.replace('_', '-')}`" in page
            continue
        for given in ((OfSpark(),), ("r.csv", OfSpark())):
            with pytest.raises(UsageError, match=f"{function} does not run on Spark") as error:
                called(*given)
            assert f"{function}('release.parquet')" in error.value.next_step


def test_an_output_that_is_no_path_is_one_clean_error(tree: Any, folder: Path) -> None:
    release = folder / "r.csv"
    for output in (io.BytesIO(), 5, people(9)):
        for call in (
            lambda o: ppdm_cli.perturb(people(99), o, gamma=9),
            lambda o: ppdm_cli.reconstruct(release, o),
            lambda o: ppdm_cli.predict(tree, people(99), o),
            lambda o: ppdm_cli.attack(release, attacks="posterior", recovered=o),
        ):
            with pytest.raises(UsageError, match=f"{type(output).__name__} is not the name of a file"):
                call(output)


def test_a_wrong_call_names_the_function() -> None:
    for function in FUNCTIONS:
        with pytest.raises(TypeError, match=rf"^{function}\(\) "):
            getattr(ppdm_cli, function)(*range(40))
    with pytest.raises(TypeError, match=r"^attack\(\) .*'nosuch'"):
        ppdm_cli.attack("r.csv", nosuch=1)


def test_a_column_may_be_named_as_the_recipes_one_where_there_are_none() -> None:
    frame = table(900).with_columns(pl.Series(COLUMN, [0, 1, 2] * 300))
    settings: dict[str, Any] = {"drop": ["who"], "attributes": DOMAINS, "keep_order": True, "seed": 1}
    release = perturb(frame, gamma=9, **settings)
    assert release.frame.columns.count(COLUMN) == 1 and COLUMN in [a.name for a in release.sidecar.attributes]
    assert estimate(release.frame, sidecar=release.sidecar, attributes=[COLUMN]).records == 900
    with pytest.raises(UsageError, match=f"the reserved name '{COLUMN}'"):
        perturb(frame, record_epsilon=2, publish=2, **settings)
    dropped = settings | {"drop": ["who", COLUMN]}
    assert opened(perturb(frame, record_epsilon=2, publish=2, **dropped).sidecar).beside


def test_every_result_goes_to_another_process_and_back(results: list[Any]) -> None:
    """Pools pickle what their workers return."""
    for result in results:
        for again in (pickle.loads(pickle.dumps(result)), deepcopy(result)):
            assert type(again) is type(result) and again._repr_html_() == result._repr_html_()

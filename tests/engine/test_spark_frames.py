"""DataFrames of Spark as people have them: mined from anywhere, and a DataFrame for a DataFrame."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import estimate, perturb, predict, query, reconstruct, train_tree
from ppdm_cli.errors import MismatchError, RefusedError
from ppdm_cli.tables import generate
from tests.engine.cluster import needs_spark
from tests.engine.connect import QUERY
from tests.engine.test_spark import near, whole
from tests.engine.test_spark_rows import session
from tests.vocabulary import raises

assert session
pytestmark = needs_spark
SETTINGS: Any = {"gamma": 19, "class_": "group", "keep": ["car", "at"], "shuffle": True, "seed": 1}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three parts, with a column that Spark has in a wider type, and times in nanoseconds."""
    (tmp_path / "data").mkdir()
    (batch,) = generate(2, 1_500, 7)
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(batch).drop("loan", "hyears", "hvalue").with_columns(
        pl.col("elevel").cast(pl.UInt8),
        at=pl.Series(rng.integers(0, 99, 1_500) * 10**9).cast(pl.Datetime("ns")),
    )  # fmt: skip
    for number in range(3):
        frame[number * 500 : (number + 1) * 500].write_parquet(tmp_path / f"data/p{number}.parquet")
    return tmp_path


def test_any_frame_of_a_release_is_mined_with_its_sidecar(data: Path, session: Any) -> None:
    released = data / "release.parquet"
    sidecar = perturb(data / "data", released, **SETTINGS).sidecar
    other = data / "s.json"
    session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    plain = session.read.parquet(str(released))
    other.write_bytes(sidecar.encode())
    one = estimate(released), query(released, QUERY), train_tree(released, "group")
    same = plain.repartition(3).select(*reversed(plain.columns))
    for frame, said in ((plain, sidecar), (same, sidecar), (plain.where("age is not null"), str(other))):
        assert estimate(frame, sidecar=said).frame.equals(one[0].frame)
        found = query(frame, QUERY, sidecar=said)
        assert near([*map(asdict, found.rows)], [*map(asdict, one[1].rows)])
    tree = train_tree(
        plain.where("age is not null"), "group", sidecar=sidecar
    ).tree  # one split: the same order
    assert np.array_equal(tree.counts, one[2].tree.counts) and train_tree(same, "group", sidecar=sidecar).tree
    with pytest.raises(MismatchError, match=r"'the DataFrame' has [\d,]+ records, but its sidecar says 1,500"):
        estimate(same.where("car > 3"), sidecar=sidecar)
    with raises("no-sidecar-in-memory"):
        estimate(same)


def test_a_frame_is_perturbed_where_each_row_is_one_of_a_file(data: Path, session: Any) -> None:
    """Columns of its own and rows that are left out are fine; rows that are moved or repeated are not."""
    session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    people = session.read.parquet(str(data / "data")).drop("at")
    more = people.selectExpr("*", "array(age) as `an array`")
    settings: Any = {"gamma": 9, "class_": "group", "seed": 1}
    here = pl.read_parquet(data / "data" / "*.parquet").drop("at").cast({"elevel": pl.Int16})
    one: Any = perturb(here, **settings).frame
    made = perturb(more, **settings, drop="an array")
    frame: Any = made.frame
    assert made.sidecar.records == 1_500
    assert pl.DataFrame(frame.toArrow()).sort(one.columns).equals(one.sort(one.columns))
    perturb(more, data / "many", **settings, drop="an array")
    assert whole(data / "many").sort(one.columns).equals(one.sort(one.columns))
    shuffled: Any = perturb(more, **settings, drop="an array", shuffle=True).frame
    rows = pl.DataFrame(shuffled.toArrow())
    assert rows.sort(one.columns).equals(one.sort(one.columns)) and not rows.equals(one)
    usable: Any = reconstruct(frame).frame
    assert usable.count() == 1_500
    some: Any = perturb(people.where("age > 30"), **settings).frame
    here = perturb(here.filter(pl.col("age") > 30), **settings).frame  # type: ignore[assignment]
    assert pl.DataFrame(some.toArrow()).sort(one.columns).equals(here.sort(one.columns))
    for refused in (
        people.orderBy("car"),
        people.repartition(3),
        people.union(people),
        people.selectExpr("*", "explode(sequence(1, 2))"),
        session.createDataFrame(one[:9].rows(), one.columns),
    ):
        with raises("dataframe-of-no-files"):
            perturb(refused, gamma=9)


def test_a_frame_of_a_copy_is_mined_with_its_sidecar(data: Path, session: Any) -> None:
    """Spark's copy of a cluster's release has no sidecar of its own, and its columns carry the release's."""
    people = session.read.parquet(str(data / "data")).drop("at")
    made = perturb(people, data / "many", gamma=19, shuffle=True)
    session.read.parquet(str(data / "many")).repartition(2).write.parquet(str(data / "copy"))
    copy = session.read.parquet(str(data / "copy"))
    one = estimate(data / "many").frame
    for frame in (copy, copy.where("car > 0 or car is null or car <= 0")):
        assert estimate(frame, sidecar=made.sidecar).frame.equals(one)
    with raises("cut-folder"):
        estimate(copy)
    tree = train_tree(data / "data", "group", drop="at")
    with pytest.raises(RefusedError, match="'the DataFrame' is a release"):
        predict(tree, copy.where("car > 0"))


def test_a_frame_for_a_frame(data: Path, session: Any) -> None:
    """The release comes back once all checks have passed, from a folder of the session's warehouse."""
    warehouse = Path(session.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
    before = set(warehouse.glob("ppdm-*"))
    people = session.read.parquet(str(data / "data")).drop("at")
    with raises("outside-domain"):
        perturb(people, gamma=9, attributes={"age": {"domain": "20:30"}})
    assert set(warehouse.glob("*")) <= before and not list(warehouse.glob(".*"))
    made = perturb(people, gamma=9, class_="group", seed=1)
    (folder,) = set(warehouse.glob("ppdm-*")) - before
    one = perturb(data / "data", gamma=9, class_="group", drop="at", seed=1).frame
    assert one is not None and whole(folder).equals(one)
    frame: Any = made.frame
    assert frame.count() == 1_500 and estimate(frame).frame.height and "DataFrame[salary: double" in str(made)
    assert "DataFrame[salary: double" in made._repr_html_()
    name = f"released_{secrets.token_hex(6)}"
    frame.write.saveAsTable(name)
    try:
        assert estimate(session.table(name), sidecar=made.sidecar).frame.equals(estimate(frame).frame)
    finally:
        session.sql(f"drop table {name}")
    usable: Any = reconstruct(frame).frame
    assert usable.columns == frame.columns and usable.count() == 1_500


def test_predictions_stay_where_the_rows_are(data: Path, session: Any) -> None:
    tree = train_tree(data / "data", "group", drop="at")
    ages = pl.read_parquet(data / "data" / "*.parquet", columns=["age"])
    one = ages.with_columns(predict(tree, data / "data").select("predicted"))
    people = session.read.parquet(str(data / "data")).drop("at")
    some = people.where("age > 30").selectExpr("*", "array(age) as `an array`", "car as `a.b`")
    expected = one.filter(pl.col("age") > 30).group_by("predicted").len().sort("predicted").rows()
    labelled: Any = predict(tree, some)
    counts = labelled.groupBy("predicted").count().orderBy("predicted").collect()
    assert [tuple(r) for r in counts] == expected
    assert labelled.columns == [*some.columns, "predicted", "confidence"]
    assert labelled.schema["an array"] == some.schema["an array"]
    predict(tree, some, data / "labelled")
    assert whole(data / "labelled").height == sum(n for _, n in expected)
    assert whole(data / "labelled").columns == labelled.columns
    with raises("output-exists"):
        predict(tree, some, data / "labelled")
    with raises("predictions-there-already"):
        predict(tree, labelled)
    with raises("tested-column-missing"):
        predict(tree, some.drop("age"))


@pytest.mark.long
@pytest.mark.skipif(
    not find_spec("grpc"), reason="only Connect needs grpcio; `make long` installs it and runs this"
)
def test_spark_connect_gives_what_threads_give(data: Path) -> None:
    people = pl.read_parquet(data / "data" / "*.parquet").drop("at").cast({"elevel": pl.Int16})
    for part in (data / "data").iterdir():
        part.unlink()
    people.write_parquet(data / "data" / "p.parquet")
    released = data / "release.parquet"
    made = perturb(data / "data", released, gamma=19, class_="group", seed=1)
    (data / "release.parquet.ppdm.json").write_bytes(made.sidecar.encode())
    line = [sys.executable, "-m", "tests.engine.connect", str(data)]
    done = subprocess.run(
        line, capture_output=True, check=True, env=os.environ | {"PYSPARK_PYTHON": sys.executable}
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["said"] == {
        "again": "output-exists", "force": "force-on-connect", "sorted": "dataframe-of-no-files",
        "fewer": "wrong-number-of-records", "path": "path-on-connect",
    }  # fmt: skip
    order = people.columns
    one = pl.read_parquet(released).sort(order)
    for name in ("perturbed/*.parquet", "shuffled.parquet"):
        assert pl.read_parquet(data / name).sort(order).equals(one)
    assert estimate(data / "perturbed").frame.equals(estimate(released).frame)
    usable: Any = reconstruct(released).frame
    assert pl.read_parquet(data / "usable" / "*.parquet").sort(order).equals(usable.sort(order))
    assert near(found["estimate"], estimate(released).frame.fill_nan(None).to_dicts())
    assert near(found["query"], json.loads(json.dumps([*map(asdict, query(released, QUERY).rows)])))
    assert near(found["leaves"], train_tree(released, "group").tree.counts.tolist())
    labels = people.with_columns(predict(train_tree(data / "data", "group"), people).select("predicted"))
    counts = labels.filter(pl.col("age") > 30).group_by("predicted").len().sort("predicted").rows()
    assert found["predicted"] == [list(r) for r in counts]
    assert pl.read_parquet(data / "labelled" / "*.parquet").height == 1_500
    assert found["replaced"] is True
    secret = (data / "my.key").read_text().strip().encode()
    events = [p.read_bytes() for p in (data / "events").rglob("*") if p.is_file()]
    assert max(map(len, events)) > 1 << 16
    assert not any(secret in e or bytes.fromhex(secret.decode()) in e or b"canary12" in e for e in events)

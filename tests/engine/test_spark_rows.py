"""Which rows a name or a DataFrame means to Spark: its own list of files, each once, none that has changed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from ppdm_cli import estimate, perturb, query, reconstruct, train_tree
from ppdm_cli.engine import on_spark, running
from ppdm_cli.errors import DataError, MismatchError, RefusedError, UsageError
from ppdm_cli.tables import generate, open_table
from tests.engine.cluster import needs_spark
from tests.engine.test_spark import near, whole
from tests.vocabulary import Meanwhile, Run

pytestmark = needs_spark


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of this process alone; the one of a cluster, where other tests have one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    own = SparkContext._active_spark_context is None
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    made = builder.config("spark.log.level", "ERROR").getOrCreate()
    yield made
    if own:
        made.stop()


@pytest.fixture
def spark(ppdm: Run, session: Any) -> Callable[..., Any]:
    """The command line, whose passes Spark runs."""

    def run(line: str, code: int = 0) -> Any:
        with running(engine=on_spark(session)):
            return ppdm(*shlex.split(line), code=code)

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the folder `data`, of six parts of different sizes."""
    (tmp_path / "data").mkdir()
    (batch,) = generate(2, 6_000, 7)
    start = 0
    for number in range(6):
        rows = 500 + 100 * number
        pl.DataFrame(batch.slice(start, rows)).write_parquet(tmp_path / f"data/p{number:02}.parquet")
        start += rows
    return tmp_path


def test_a_frame_has_the_rows_of_its_own_list_of_files(data: Path, session: Any) -> None:
    """Whatever chose the files when it was made, and whatever has come to their folder since."""
    people = data / "people"

    def read(path: Path, **options: str) -> Any:
        return session.read.options(**options).parquet(str(path))

    for year in (2023, 2024):
        shutil.copytree(data / "data", people / f"year={year}", ignore=shutil.ignore_patterns("p0[2-9]*"))
    for file in (people / "year=2023").iterdir():
        os.utime(file, (1e9, 1e9))
    flat = shutil.copytree(people / "year=2024", data / "flat")
    shutil.copytree(flat, flat / "deeper")
    footers = [pq.read_metadata(p) for p in sorted(flat.glob("*.parquet"))]
    pq.write_metadata(pq.read_schema(flat / "p00.parquet"), flat / "_metadata", footers)
    frames = {
        "glob": read(people, pathGlobFilter="p00*"),
        "after": read(people, modifiedAfter="2010-01-01T00:00:00"),
        "before": read(people, modifiedBefore="2010-01-01T00:00:00"),
        "base": read(people / "year=2024", basePath=str(people)),
        "base, files": read(people / "year=2024" / "p0*", basePath=str(people)),
        "no base": read(people / "year=2024"),
        "flat": read(flat),
        "recursive": read(flat, recursiveFileLookup="true"),
        "all": read(people),
    }
    (flat / "odd").write_bytes((flat / "p00.parquet").read_bytes())
    frames["no suffix"] = read(flat)
    counts = {name: frame.count() for name, frame in frames.items()}
    for folder in (people / "year=2024", flat, flat / "deeper"):
        shutil.copy(data / "data" / "p05.parquet", folder)
    with running(engine=on_spark(session)):
        for name, frame in frames.items():
            table = open_table(frame)
            assert table.rows == counts[name] and table.schema.names == frame.columns, name
    (flat / "p00.parquet").write_bytes((data / "data" / "p03.parquet").read_bytes())
    with pytest.raises(DataError, match="flat' changed since the DataFrame was made"):
        perturb(frames["flat"], data / "no", gamma=9)


@pytest.mark.long
def test_a_release_has_the_rows_of_its_frame(data: Path, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ppdm_cli.engine.spark._PARTITIONS_TOGETHER", 0)  # each file is a part
    people = data / "people"
    for year in (2023, 2024):
        shutil.copytree(data / "data", people / f"year={year}")

    def read(glob: str, folder: str = "people") -> Any:
        return session.read.option("pathGlobFilter", glob).parquet(str(data / folder))

    frame = read("p00*")
    made = perturb(frame, data / "many", gamma=9, keep=["group", "year"], seed=3)
    assert made.sidecar.records == len(whole(data / "many")) == frame.count() == 1_000
    alone = sorted(people.glob("*/p00.parquet"))
    one = perturb([str(p) for p in alone], gamma=9, keep=["group"], seed=3).frame
    assert one is not None and whole(data / "many").drop("year").equals(one)
    for call in (estimate, reconstruct, train_tree, lambda frame: query(frame, "select count()")):
        with pytest.raises(MismatchError, match="has 500 records, its sidecar says 1000"):
            call(read("part-00000*", "many"))


def test_on_a_cluster_too_each_file_is_read_once_and_is_no_lakehouse_s(
    data: Path, session: Any, spark: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    people = shutil.copytree(data / "data", data / "people")
    (people / "z.parquet").symlink_to("p00.parquet")
    os.link(people / "p01.parquet", data / "hard.parquet")
    line = "perturb {} -o many --gamma 9"
    for named in ("people", "people/p00.parquet people/z.parquet", "people/p01.parquet hard.parquet"):
        assert "are the same file. " in spark(line.format(named), code=2).stderr.decode()
    with pytest.raises(UsageError, match="are the same file"):
        perturb(session.read.parquet(str(people)), data / "many", gamma=9)
    (people / "z.parquet").unlink()
    away = tmp_path_factory.mktemp("away") / "soft"
    away.symlink_to(people)
    for log, kind in (("_delta_log/0", "a Delta table"), ("metadata/v1.metadata.json", "an Iceberg table")):
        (data / log).parent.mkdir()
        (data / log).write_text("")
        for named in ("people", "people/p00.parquet", ".", str(away)):
            said = spark(line.format(named), code=4).stderr.decode()
            assert f"'{named}' belongs to {kind}, whose files also hold rows" in said and said.count("\n") == 1
        with pytest.raises(RefusedError, match=kind):
            estimate(session.read.parquet(str(people)))
        shutil.rmtree((data / log).parent)
    assert not (data / "many").exists()


@pytest.mark.long
def test_a_table_that_changes_while_a_cluster_reads_it_is_refused(data: Path, session: Any) -> None:
    """A new part, and a part that is written again."""
    people = data / "people"
    people.mkdir()
    shutil.copy(data / "data" / "p00.parquet", people)
    cases: list[tuple[Any, Callable[[], object]]] = [
        (str(people), lambda: shutil.copy(people / "p00.parquet", people / "p01.parquet")),
        (session.read.parquet(str(people)), lambda: os.utime(people / "p00.parquet")),
    ]
    for table, change in cases:
        meanwhile = Meanwhile(change, 2)
        on = running(engine=on_spark(session), progress=meanwhile)
        with on, pytest.raises(DataError, match=r"people' changed while it was read"):
            perturb(table, str(data / "no"), gamma=9)
        assert len(meanwhile.passes) == 2 and not list(data.glob("*no*"))


@pytest.mark.long
def test_columns_that_differ_in_case_are_two(data: Path, spark: Callable[..., Any], ppdm: Run) -> None:
    frame = pl.read_parquet(data / "data" / "p00.parquet").select(A="age", a="salary", group="group")
    frame.write_parquet(data / "two.parquet")
    line = "perturb two.parquet -o {} --gamma 9 --seed 3"
    spark(line.format("many"))
    ppdm(*shlex.split(line.format("one.parquet")))
    assert whole(data / "many").equals(whole(data / "one.parquet"))
    ours, theirs = ppdm("estimate", "one.parquet", "--json"), spark("estimate many --json")
    assert near(json.loads(ours.stdout), json.loads(theirs.stdout))

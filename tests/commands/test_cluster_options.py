"""The options for a cluster: what is said where they make no sense, or where something is missing for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.engine.cluster import needs_spark
from tests.vocabulary import Run, people

FOR_SPARK = "--master and --conf need --engine spark. Add --engine spark"
QUICK = {"SPARK_LOCAL_IP": "127.0.0.1", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
LINE = ["perturb", "p.parquet", "-o", "release", "--gamma", "9", "--engine", "spark"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    people(500).write_parquet(tmp_path / "p.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--engine", "threads", "--master", "yarn"], FOR_SPARK),
        (["--engine", "threads", "--conf", "a=b"], FOR_SPARK),
        (
            ["--conf", "spark.x"],
            "--conf takes NAME=VALUE. Try --conf spark.executor.memory=4g, in quotes if it has spaces",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(more: list[str], said: str, folder: Path, ppdm: Run) -> None:
    assert ppdm(*LINE, *more, code=2).stderr.decode().startswith(f"ppdm: usage: {said} (ppdm explain ")


def test_what_is_missing_is_named(folder: Path, process: Run) -> None:
    (folder / "empty").mkdir()
    (folder / "without" / "pyspark").mkdir(parents=True)
    (folder / "without" / "pyspark" / "__init__.py").write_text("import no_such_module")
    said = process(*LINE, code=2, PYTHONPATH=str(folder / "without")).stderr.decode()
    adds = f"{sys.executable} -m pip install pyspark pandas (ppdm explain missing-package)\n"
    assert said.endswith(f" isn't installed. Install it: {adds}")
    (folder / "with" / "pyspark" / "sql").mkdir(parents=True)
    (folder / "with" / "pyspark" / "__init__.py").touch()
    (folder / "with" / "pyspark" / "sql" / "__init__.py").write_text("SparkSession = None")
    said = process(
        *LINE, code=2, PYTHONPATH=str(folder / "with"), PATH=str(folder / "empty"), JAVA_HOME=""
    ).stderr.decode()
    java = "Spark needs Java, which isn't installed. Install Java 17, or set JAVA_HOME"
    assert said == f"ppdm: usage: {java} (ppdm explain java-missing)\n"
    assert not (folder / "release").exists()


@needs_spark
@pytest.mark.long
def test_a_command_starts_a_session_of_its_own_and_is_silent(folder: Path, process: Run) -> None:
    said = process(*LINE, "--master", "local[1]", "--conf", "spark.ui.enabled=false", **QUICK).stderr.decode()
    assert "Wrote 500 records to release.\n" in said and "WARN" not in said
    assert "500 records" in process("estimate", "release").stdout.decode()
    said = process(*LINE, "--force", "--master", "spark:nowhere", code=1, **QUICK).stderr.decode()
    assert said.startswith("ppdm: data: Spark cannot be started at 'spark:nowhere'. ") and said.count("\n") == 1

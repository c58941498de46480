"""The options that run a command on a cluster, and the session of Spark that it runs by."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from ppdm_cli.commands.options import pair
from ppdm_cli.errors import DataError, UsageError, quoted

_LOG = "spark.log.level"


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what runs the command; what it names is then what Spark can read."""

    @wraps(function)
    def command(*args: Any, engine: str, master: str | None, conf: tuple[str, ...], **settings: Any) -> Any:
        if engine == "spark":
            with _on_cluster(master, conf):
                return function(*args, **settings)
        if master is not None or conf:
            raise UsageError("--master and --conf are for Spark", "add --engine spark")
        return function(*args, **settings)

    wrapped: Callable[..., Any] = command
    for option in (
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="With --engine spark: a setting of Spark, such as spark.executor.memory=4g; repeatable.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="With --engine spark: the cluster, such as yarn or spark://host:7077.  [default: what Spark's "
            "own files say, or all cores of this machine]",
        ),
        click.option(
            "--engine",
            type=click.Choice(["threads", "spark"]),
            default="threads",
            show_default=True,
            help="What does the work: threads of this machine, or a cluster. Then records are read from "
            "Parquet files and folders, and written to folders, at any URI that Spark knows.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


@contextmanager
def _on_cluster(master: str | None, conf: Sequence[str]) -> Iterator[None]:
    from ppdm_cli.engine import on_spark, running

    settings = dict(pair(c, "--conf", "spark.executor.memory=4g") for c in conf)
    session = _session(master, settings)
    try:
        with running(engine=on_spark(session)):
            yield
    finally:
        session.stop()


def _session(master: str | None, settings: dict[str, str]) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", "pip install 'ppdm-cli[spark]'") from None
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise UsageError("Spark needs Java, and there is none", "install Java 17, or set JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", "PySpark does not yet", FutureWarning)
    if _LOG not in settings:
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it prints pages where a run is interrupted
    builder = SparkSession.builder.appName("ppdm").config("spark.ui.showConsoleProgress", "false")
    for key, value in ({_LOG: "OFF"} | settings).items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    try:
        with _silenced(_LOG not in settings):
            return builder.getOrCreate()
    except Exception:  # of Spark, of the JVM, of the way between
        where = "" if master is None else f" at {quoted(master)}"
        raise DataError(
            f"Spark cannot be started{where}",
            f"check --master and --conf; --conf {_LOG}=WARN shows what Spark says",
        ) from None


@contextmanager
def _silenced(silent: bool) -> Iterator[None]:
    """Give what starts meanwhile no standard error: the JVM would mix pages into a report."""
    if not silent:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)

"""A real cluster on this machine's loopback: a master and two workers, from pyspark's own scripts."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""For short lives: less is compiled, and nothing by threads of their own."""
MISSING = " and ".join(
    [n for n, there in (("Java", shutil.which("java")), ("pyspark", find_spec("pyspark"))) if not there]
)
needs_spark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"Spark runs on Java 17 and pyspark, which users install themselves: no {MISSING} here",
)


@dataclass
class Cluster:
    """Processes of Spark, what they wrote, and the session of the driver."""

    folder: Path
    master: str
    session: Any = None
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> None:
        """Start a process of the cluster; its log goes into the folder."""
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = os.environ | {"SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": _QUICK}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments], env=environment, stdout=log, stderr=log
            )

    def worker(self, name: str) -> None:
        """Start a worker of one core."""
        work = self.folder / name
        kind = "org.apache.spark.deploy.worker.Worker"
        self.start(name, kind, "-c", "1", "-m", "1g", "--host", "127.0.0.1", "--webui-port", "0",
                   "-d", str(work), self.master)  # fmt: skip

    def told(self) -> Iterator[tuple[str, bytes]]:
        """Yield all that the cluster tells: logs, events, what executors said, settings, pages."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.suffix not in (".jar", ".crc"):
                yield path.relative_to(self.folder).as_posix(), path.read_bytes()
        context = self.session.sparkContext
        yield "settings", repr(context.getConf().getAll()).encode()
        data = f"/api/v1/applications/{context.applicationId}/"
        pages = ["/environment/", "/jobs/", "/stages/", "/SQL/", "/executors/", "/storage/"]
        pages += [data + n for n in ("environment", "jobs", "stages", "storage/rdd")]
        for page in [*pages, f"{data}sql?details=true&planDescription=true&length=99"]:
            with urllib.request.urlopen(context.uiWebUrl + page, timeout=60) as answer:
                yield page, answer.read()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait_for(what: str, ready: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.1)


@contextmanager
def running_cluster(folder: Path, **settings: str) -> Iterator[Cluster]:
    """Run a cluster, and a session of which nothing is told on standard error."""
    from pyspark.sql import SparkSession

    port, page = _free_port(), _free_port()
    cluster = Cluster(folder, f"spark://127.0.0.1:{port}")

    def alive() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):  # not up yet, or half up
            return -1

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    (folder / "events").mkdir()
    try:
        cluster.start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
                      "--port", str(port), "--webui-port", str(page))  # fmt: skip
        for name in ("one", "two"):
            cluster.worker(name)
        wait_for("two workers", lambda: alive() == 2)
        builder = SparkSession.builder.appName("tests of ppdm").master(cluster.master)
        for name, value in {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _QUICK,
            "spark.driver.extraJavaOptions": _QUICK,
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.task.maxFailures": "2",
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.3",
            "spark.speculation.multiplier": "1.1",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.log.level": "WARN",
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.port": str(_free_port()),
            **settings,
        }.items():
            builder = builder.config(name, value)
        cluster.session = builder.getOrCreate()
        yield cluster
    finally:
        if cluster.session is not None:
            cluster.session.stop()
        for process in cluster.processes.values():
            process.terminate()
        for process in cluster.processes.values():
            process.wait(60)

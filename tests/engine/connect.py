"""A notebook's work by Spark Connect, in a process of its own: `python -m tests.engine.connect FOLDER`.

A process has classic sessions or those of Spark Connect. The folder has `data`, and `release.parquet` of it.
Writes what the functions gave, as JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ppdm_cli import PpdmError, estimate, perturb, predict, query, reconstruct, train_tree
from ppdm_cli.engine import on_spark, running
from ppdm_cli.engine.spark_tasks import CHANGED

QUERY = "select mean(age), count() where elevel >= 2 group by group"


def main() -> None:
    from pyspark.sql import SparkSession

    folder, said = Path(sys.argv[1]), dict[str, str]()
    sidecar = folder / "release.parquet.ppdm.json"
    (folder / "events").mkdir()
    builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.compress", "false")
    builder = builder.config("spark.eventLog.dir", (folder / "events").as_uri())
    spark = builder.config("spark.driver.memory", "1g").getOrCreate()
    people, release = (spark.read.parquet(str(folder / n)) for n in ("data", "release.parquet"))
    tree = train_tree(folder / "data", "group")
    labelled: Any = predict(tree, people.where("age > 30"))
    predict(tree, people, folder / "labelled")
    settings: Any = {"gamma": 19, "class_": "group", "seed": 1}
    perturb(people, folder / "perturbed", **settings)
    shuffled: Any = perturb(people, **settings, shuffle=True).frame
    pq.write_table(shuffled.toArrow(), folder / "shuffled.parquet")
    reconstruct(spark.read.parquet(str(folder / "perturbed")), folder / "usable")
    named = people.selectExpr("*", "concat('canary', monotonically_increasing_id()) as name")
    keyed: Any = perturb(named, gamma=19, key_file=folder / "my.key", id="name", shuffle=True).frame
    keyed.count()
    calls: dict[str, Any] = {
        "again": lambda: perturb(people, folder / "perturbed", **settings),
        "force": lambda: perturb(people, folder / "perturbed", **settings, force=True),
        "sorted": lambda: perturb(people.orderBy("age"), **settings),
        "fewer": lambda: estimate(release.where("age > 30"), sidecar=sidecar),
    }
    for name, call in calls.items():
        try:
            call()
        except PpdmError as error:
            said[name] = error.id
    with running(engine=on_spark(spark)):
        try:
            estimate("release.parquet")
        except PpdmError as error:
            said["path"] = error.id
    found = {
        "estimate": estimate(release, sidecar=sidecar).frame.fill_nan(None).to_dicts(),
        "query": [asdict(r) for r in query(release.repartition(3), QUERY, sidecar=sidecar).rows],
        "leaves": train_tree(release, "group", sidecar=sidecar).tree.counts.tolist(),
        "predicted": [list(r) for r in labelled.groupBy("predicted").count().orderBy("predicted").collect()],
        "said": said,
    }
    part = folder / "data" / "p.parquet"
    before = part.read_bytes()
    part.write_bytes((folder / "shuffled.parquet").read_bytes())
    try:
        found["replaced"] = keyed.count()
    except Exception as error:
        found["replaced"] = CHANGED.what in str(error)
    part.write_bytes(before)
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()

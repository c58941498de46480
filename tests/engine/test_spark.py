"""The same commands on a real cluster: the same cells, the same figures, the same trees as on one machine."""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import estimate, perturb, query
from ppdm_cli.coins import Key
from ppdm_cli.engine import Batch, map_partitions, on_spark, running
from ppdm_cli.errors import PpdmError
from ppdm_cli.releases import opened
from ppdm_cli.tables import generate, open_table
from tests.engine.cluster import Cluster, needs_spark, running_cluster, wait_for
from tests.perturbing.test_persons import visits
from tests.vocabulary import Run, listing, raises, read_table

pytestmark = needs_spark


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def spark(ppdm: Run, cluster: Cluster) -> Callable[..., Any]:
    """The command line, whose passes the cluster runs."""

    def run(line: str, code: int = 0, **settings: str) -> Any:
        session = cluster.session.newSession()
        for name, value in settings.items():
            session.conf.set(f"spark.sql.files.{name}", value)
        with running(engine=on_spark(session)):
            return ppdm(*shlex.split(line), code=code)

    return run


def whole(path: Path) -> pl.DataFrame:
    """Return a file, or the parts of a folder in the order of their names."""
    parts = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    return pl.concat([pl.read_parquet(p, hive_partitioning=False) for p in parts])


def sidecar(path: Path) -> Any:
    inside = path / "_ppdm.json"
    return json.loads((inside if path.is_dir() else path.with_name(path.name + ".ppdm.json")).read_bytes())


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six parts of several row groups and different sizes, whose order by size is not that by name."""
    folder = tmp_path_factory.mktemp("data") / "data"
    folder.mkdir()
    (batch,) = generate(2, 24_000, 7)
    start = 0
    for number in range(6):
        rows = 2_000 + 800 * (number * 5 % 6)
        part = pl.DataFrame(batch.slice(start, rows))
        part.write_parquet(folder / f"p{number:02}.parquet", row_group_size=700)
        start += rows
    return folder


@pytest.fixture
def data(tmp_path: Path, original: Path) -> Path:
    (tmp_path / "data").symlink_to(original)
    return tmp_path


PERTURB = "perturb data -o {} --gamma 9 --class group --keep group --seed 3"


def test_every_command_gives_what_threads_give(
    data: Path, ppdm: Run, spark: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six files in two tasks, neither of which reads them in their order."""
    monkeypatch.setattr("ppdm_cli.engine.spark._LEAST_SPLIT", 1)
    ppdm(*shlex.split(PERTURB.format("one.parquet")))
    spark(PERTURB.format("many"))
    assert whole(data / "one.parquet").equals(whole(data / "many"))
    assert sidecar(data / "one.parquet") == sidecar(data / "many")
    assert len(list((data / "many").glob("part-*"))) == 2
    for line in (
        "estimate {} --by group --json",
        "query {} 'select mean(age), quantile(salary, .5), count() where elevel >= 2 group by group' --json",
        "train-tree {} -o tree.json --json --force",
        "inspect {} --json",
    ):
        ours, here_too, theirs = (
            json.loads(run(*([text] if run is spark else shlex.split(text))).stdout)
            for run, text in (
                (ppdm, line.format("one.parquet")), (ppdm, line.format("many")), (spark, line.format("many"))
            )
        )  # fmt: skip
        assert ours == here_too
        assert near(ours, theirs), line
    ppdm(*shlex.split("reconstruct one.parquet -o usable.parquet"))
    spark("reconstruct many -o usable")
    assert whole(data / "usable.parquet").equals(whole(data / "usable"))
    assert sidecar(data / "usable.parquet") == sidecar(data / "usable")
    ppdm(*shlex.split("predict tree.json usable.parquet -o labelled.parquet"))
    spark("predict tree.json usable -o labelled")
    assert whole(data / "labelled.parquet").equals(whole(data / "labelled"))
    assert not (data / "labelled" / "_ppdm.json").exists()


def near(one: Any, other: Any) -> bool:
    """Return whether figures are the same but for the order in which floats were added."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(near, one, other))
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) <= 1e-12 * max(1.0, abs(one))
    return bool(one == other)


def test_the_cells_do_not_hang_on_how_spark_splits(data: Path, ppdm: Run, spark: Callable[..., Any]) -> None:
    """One file of 35 row groups, as three tasks, as nine, and with ranges that begin inside row groups."""
    pl.concat(pl.read_parquet(p) for p in sorted((data / "data").iterdir())).write_parquet(
        data / "file.parquet", row_group_size=700
    )
    size = (data / "file.parquet").stat().st_size
    line = PERTURB.replace("perturb data", "perturb file.parquet")
    ppdm(*shlex.split(line.format("one.parquet")))
    for parts in (3, 9):
        # the engine splits no finer than _LEAST_SPLIT, which is far above this file
        least = size // parts + 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ppdm_cli.engine.spark._LEAST_SPLIT", least)
            spark(line.format(f"in{parts}"), maxPartitionBytes=str(least))
        assert len(list((data / f"in{parts}").glob("part-*"))) == parts
        assert whole(data / "one.parquet").equals(whole(data / f"in{parts}"))
        said = spark(f"estimate in{parts} --json", maxPartitionBytes="3000", openCostInBytes="0").stdout
        assert near(json.loads(said), json.loads(ppdm(*shlex.split("estimate one.parquet --json")).stdout))


def test_shuffled_rows_are_the_same_in_another_order(data: Path, ppdm: Run, spark: Callable[..., Any]) -> None:
    ppdm(*shlex.split(PERTURB.format("one.parquet")))
    spark(PERTURB.format("many") + " --shuffle")
    one, many = whole(data / "one.parquet"), whole(data / "many")
    assert not one.equals(many) and one.sort(one.columns).equals(many.sort(many.columns))
    first = pl.read_parquet(min((data / "many").glob("part-*"))).height
    places = one.with_row_index().join(many[:first], on=one.columns, how="semi")["index"]
    assert places.min() < 2_000 and places.max() > 22_000  # type: ignore[operator]
    spark("reconstruct many -o usable --shuffle")
    assert whole(data / "usable").height == 24_000


def test_columns_of_all_types_and_names(tmp_path: Path, ppdm: Run, spark: Callable[..., Any]) -> None:
    """What Spark has no type for, or another; names with points, quotes and blanks; keys in folders' names."""
    rows = 4_000
    rng = np.random.default_rng(3)
    days = rng.integers(0, 900, rows)
    frame = pl.DataFrame(
        {
            "a.b": rng.integers(0, 9, rows).astype("uint8"),
            "c `d`": pl.Series(rng.integers(0, 5, rows)).cast(pl.UInt64) + 2**63,
            "day": pl.Series(days).cast(pl.Int32).cast(pl.Date),
            "at": pl.Series(days * 10**9).cast(pl.Datetime("ns")),
            "zoned": pl.Series(days * 10**3).cast(pl.Datetime("ms", "Europe/Berlin")),
            "_metadata": rng.choice(["x", "y, z", "ü\n"], rows).tolist(),
            "flag": pl.Series(rng.random(rows) < 0.5),
            "small": rng.random(rows).astype("float32"),
            "price": pl.Series(rng.integers(0, 99, rows)).cast(pl.Decimal(9, 2)),
        }
    ).with_columns(pl.when(pl.col("flag")).then("small").alias("small"))
    for number, key in enumerate(["q=1", "q=__HIVE_DEFAULT_PARTITION__", "q=2/r=a b", "q=2/r=c%25[d]"]):
        (tmp_path / "data" / key).mkdir(parents=True)
        part = frame[number * 1_000 : (number + 1) * 1_000]
        part.write_parquet(tmp_path / "data" / key / f"a {number}.parquet", row_group_size=300)
    line = "perturb data -o {} --gamma 9 --keep at --keep zoned --keep 'c `d`' --keep r --keep-order --seed 3"
    ppdm(*shlex.split(line.format("one.parquet")))
    spark(line.format("many"))
    ppdm(*shlex.split("reconstruct one.parquet -o usable.parquet"))
    ppdm(*shlex.split("reconstruct many -o usable2.parquet"))
    spark("reconstruct many -o usable")
    assert sidecar(tmp_path / "one.parquet") == sidecar(tmp_path / "many")
    expected = read_table(tmp_path / "one.parquet")
    assert expected.equals(read_table(tmp_path / "many"))
    assert read_table(tmp_path / "usable.parquet").equals(read_table(tmp_path / "usable"))
    assert read_table(tmp_path / "usable.parquet").equals(read_table(tmp_path / "usable2.parquet"))
    frame.with_columns(clock=pl.Series(days).cast(pl.Time)).write_parquet(tmp_path / "clock.parquet")
    said = spark("perturb clock.parquet -o no --gamma 9", code=4).stderr
    assert b"'clock' is of type time64[ns], which Spark does not have" in said
    spark("perturb clock.parquet -o dropped --gamma 9 --drop clock --bins 5")


REFUSED = {
    "perturb data -o data --gamma 9": (2, "the output 'data' is also the input"),
    "perturb data -o data/more --gamma 9": (2, "is also the input"),
    "perturb data -o there --gamma 9": (2, "the output 'there' exists"),
    "perturb data -o there --gamma 9 --force": (2, "is not a folder that Spark and ppdm wrote"),
    "perturb data -o - --gamma 9": (2, "Spark writes to a folder"),
    "perturb data -o no --gamma 9 --sidecar s.json": (2, "a folder has its sidecar in it"),
    "perturb data data -o no --gamma 9": (2, "is named twice"),
    "perturb - -o no --gamma 9": (2, "a cluster cannot read standard input"),
    "perturb table.csv -o no --gamma 9": (2, "the only format whose rows a cluster can number"),
    "perturb nothing -o no --gamma 9": (1, "'nothing' does not exist"),
    "perturb broken.parquet -o no --gamma 9": (1, "is not a readable Parquet file"),
    "perturb nowhere://host/data -o no --gamma 9": (2, "Spark knows no file system for 'nowhere://host/data'"),
    "perturb data -o no --gamma 9 --domain age=20:30": (1, "values outside its domain, first in row"),
    "perturb sorted -o no --gamma 9": (4, "the order of the rows reveals 'age'"),
    "perturb many -o no --gamma 9": (4, "'many' is already a release"),
    "estimate data": (3, "'data' has no sidecar"),
    "estimate cut": (3, "the folder 'cut' has parts of a release but not its sidecar"),
    "estimate short": (3, "its sidecar says"),
    "estimate mixed": (3, "differs from the one inside"),
}


@pytest.fixture(scope="module")
def faulty(original: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what must be refused, and what another run left."""
    folder = tmp_path_factory.mktemp("faulty")
    shutil.copytree(original, folder / "data")
    (folder / "there").mkdir()
    (folder / "there" / "mine.txt").write_text("mine")
    (folder / "table.csv").write_text("a\n1\n")
    (folder / "broken.parquet").write_bytes(b"PAR1" + bytes(100))
    (folder / "sorted").mkdir()
    ages = pl.concat(pl.read_parquet(p) for p in original.iterdir()).sort("age")
    for number in range(4):
        ages[number * 6_000 : (number + 1) * 6_000].sample(fraction=1, shuffle=True, seed=number).write_parquet(
            folder / "sorted" / f"{number}.parquet"
        )
    with running(engine=on_spark(cluster.session)), pytest.MonkeyPatch.context() as patch:
        patch.setattr("ppdm_cli.engine.spark._PARTITIONS_TOGETHER", 0)  # each file is a part
        perturb(str(folder / "data"), str(folder / "many"), gamma=9, keep=["group"])
    for name in ("cut", "short", "mixed"):
        shutil.copytree(folder / "many", folder / name)
    (folder / "cut" / "_ppdm.json").unlink()
    (folder / "short" / "part-00003.parquet").unlink()
    other = perturb(str(folder / "data"), gamma=9, keep=["group"])
    (folder / "mixed" / "_ppdm.json").write_bytes(other.sidecar.encode())
    return folder


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused_leaves_nothing_behind(
    line: str, faulty: Path, tmp_path: Path, spark: Callable[..., Any], ppdm: Run
) -> None:
    for path in faulty.iterdir():
        (tmp_path / path.name).symlink_to(path)
    before = listing(faulty), sorted(p.name for p in tmp_path.iterdir())
    code, what = REFUSED[line]
    said = spark(line, code=code).stderr.decode()
    assert what in said and said.count("\n") == 1
    assert (listing(faulty), sorted(p.name for p in tmp_path.iterdir())) == before
    if line.startswith("estimate"):  # one machine reads what a cluster wrote, and refuses what it does
        assert what in ppdm(*shlex.split(line), code=code).stderr.decode()


def test_what_is_there_is_overwritten_only_as_a_whole(
    original: Path, tmp_path: Path, spark: Callable[..., Any]
) -> None:
    (tmp_path / "few").mkdir()
    for part in ("p00.parquet", "p01.parquet"):
        shutil.copy(original / part, tmp_path / "few")
    spark("perturb few -o many --gamma 9")
    first = listing(tmp_path / "many")
    spark("perturb few -o many --gamma 5 --force --domain age=20:30", code=1)
    assert listing(tmp_path / "many") == first
    spark("perturb few -o many --gamma 5 --shuffle --force")
    assert sidecar(tmp_path / "many")["privacy"]["perturbed_gamma"] == 9_765_650
    assert sorted(p.name for p in tmp_path.iterdir()) == ["few", "many"]
    spark("perturb few -o later --like many")
    later, many = sidecar(tmp_path / "later"), sidecar(tmp_path / "many")
    assert later["attributes"] == many["attributes"]
    assert later["privacy"] == many["privacy"] and many["privacy"]["shuffled"] is True


def test_no_key_and_no_value_is_told_by_the_cluster(
    data: Path, cluster: Cluster, spark: Callable[..., Any], ppdm: Run
) -> None:
    """Not in settings, events, plans, pages or logs: not the key, nor one that follows from it, nor a cell."""
    frame = pl.concat(pl.read_parquet(p) for p in sorted((data / "data").iterdir()))[:2_000]
    words = [f"canary{n:05}" for n in range(2_000)]
    (data / "named").mkdir()
    frame.with_columns(word=pl.Series(words)).write_parquet(data / "named" / "p.parquet")
    line = "perturb named -o {} --gamma 9 --key-file my.key --id word --keep-order"
    spark(line.format("many"))
    ppdm(*shlex.split(line.format("one.parquet")))
    assert whole(data / "one.parquet").equals(whole(data / "many"))
    with pytest.raises(PpdmError) as failed, running(engine=on_spark(cluster.session)):
        list(map_partitions(open_table(str(data / "named")), _complain))
    assert "inside ppdm, on an executor (ValueError at ppdm_cli" in failed.value.what
    secret = bytes.fromhex((data / "my.key").read_text())
    key = Key(secret, "key-file")
    keys = [secret, key.derive("row"), key.derive("identifier")]
    forms = [
        form
        for k in keys
        for form in (k, *(s.encode() for s in (k.hex(), repr(k)[2:-1], str([*k])[1:-1])), base64.b64encode(k))
    ]
    told = dict(cluster.told())
    for place, text in told.items():
        assert not any(f in text for f in forms) and b"canary" not in text, place
    # the search finds what is there: the plan and the failure are among what is told
    everything = b"".join(told.values())
    assert b"MapInArrow" in everything and b"ppdm task: ValueError" in everything
    assert {"settings", "/SQL/"} < set(told) and sum("/stderr" in p or "events/" in p for p in told) > 2


def _complain(batch: Batch) -> None:
    raise ValueError(batch.column("word")[0].as_py())


def test_a_notebook_gives_its_own_frames(data: Path, cluster: Cluster, ppdm: Run) -> None:
    frame = cluster.session.read.parquet(str(data / "data"))
    ppdm(*shlex.split(PERTURB.format("one.parquet")))
    made = perturb(frame, data / "many", gamma=9, class_="group", keep=["group"], seed=3)
    assert whole(data / "one.parquet").equals(whole(data / "many"))
    assert json.loads(made.sidecar.encode()) == sidecar(data / "one.parquet") and made.frame is None
    released = cluster.session.read.parquet(str(data / "many"))
    one = estimate(data / "one.parquet").frame
    assert estimate(released).frame["observed"].equals(one["observed"])
    assert query(released, "select count()").rows == query(data / "one.parquet", "select count()").rows
    few = frame.select("group", "age")
    assert opened(perturb(few, data / "few", gamma=9, seed=3).sidecar).columns[0][0] == "group"
    for other in (frame.orderBy("age"), frame.dropDuplicates(["age"]), frame.union(frame)):
        with raises("dataframe-of-no-files"):
            perturb(other, data / "no", gamma=9)
        with raises("no-sidecar-in-memory"):
            estimate(other)
    assert not (data / "no").exists()


def test_what_is_lost_is_done_again_and_is_the_same(
    data: Path, cluster: Cluster, spark: Callable[..., Any], ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is killed while the release is written, and others run some of its tasks a second time."""
    monkeypatch.setattr("ppdm_cli.engine.spark._PARTITIONS_TOGETHER", 0)  # a task for each file
    (data / "forty").mkdir()
    frame = pl.concat(pl.read_parquet(p) for p in sorted((data / "data").iterdir()))
    for number in range(40):
        frame[number * 600 : (number + 1) * 600].write_parquet(data / "forty" / f"{number:02}.parquet")
    line = PERTURB.replace("perturb data", "perturb forty")
    ppdm(*shlex.split(line.format("one.parquet")))
    tracker, killed = cluster.session.sparkContext.statusTracker(), []

    def kill() -> None:
        def under_way() -> bool:
            stages = [tracker.getStageInfo(s) for s in tracker.getActiveStageIds()]
            return any(s is not None and s.numTasks == 40 and 3 <= s.numCompletedTasks < 30 for s in stages)

        wait_for("the writing", under_way)
        cluster.processes["two"].kill()
        killed.append(True)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        spark(line.format("many"))
    finally:
        killer.join()
    assert killed and whole(data / "one.parquet").equals(whole(data / "many"))
    assert sidecar(data / "one.parquet") == sidecar(data / "many")
    assert sorted(p.name for p in data.iterdir() if p.name.startswith(".")) == []
    events = b"".join(text for place, text in cluster.told() if place.startswith("events"))
    assert b"SparkListenerExecutorRemoved" in events


def test_what_is_rare_is_counted_in_persons(tmp_path: Path, ppdm: Run, spark: Callable[..., Any]) -> None:
    """A code of one person in many parts is rare; rows that are left out of ten persons' say nothing."""
    (tmp_path / "visits").mkdir()
    frame = visits().filter(pl.col("who") != "p0")
    for i in range(4):
        frame[i * 503 : (i + 1) * 503].write_parquet(tmp_path / "visits" / f"{i}.parquet", row_group_size=100)
    line = "perturb visits -o {} --gamma 9 --person who --rows-per-person 2 --seed 1 --keep-order"
    assert "fewer than 10 persons: 'code' (1 of 4)" in spark(line.format("r"), code=4).stderr.decode()
    spark(f"{line.format('many')} --rare merge")
    ppdm(*shlex.split(f"{line.format('one.parquet')} --rare merge"))
    assert whole(tmp_path / "one.parquet").equals(whole(tmp_path / "many"))
    assert sidecar(tmp_path / "one.parquet") == sidecar(tmp_path / "many")

"""The whole files that fuzzing damages, and the commands that read each kind of them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ppdm_cli import perturb, train_tree
from ppdm_cli.trees.storing import encode_tree
from tests import vocabulary
from tests.vocabulary import NUMBER, WORD

CANARY = re.compile(rb"CANARY|918[,.]?273[,.]?645")

_RELEASE = (
    "inspect {0}",
    "estimate {0}",
    "estimate {0} --by group -o e.csv",
    "estimate {0} --joint region,member --json",
    "reconstruct {0} -o out.parquet",
    "reconstruct {0} -o out.csv --method joint",
    "train-tree {0} --class group -o t.json",
    "attack {0}",
    "entropy {0}",
)


def _original(file: str) -> list[str]:
    return [
        f"perturb {file} -o out.parquet --gamma 9 --rare merge --drop word",
        f"perturb {file} -o out.csv --gamma 9 --domain age=0:120 --domain income=0:1000000000 "
        "--drop word --rare publish",
        f"perturb {file} -o out.arrow --gamma 9 --keep word --clip --domain age=0:120 --shuffle",
        f"perturb {file} -o out.parquet --gamma 9 --class group --bins auto --drop word",
        f"train-tree {file} --class group -o t.json",
        f"predict tree.json {file} -o p.csv",
        f"inspect {file} --describe whole.toml -o s.json",
        f"estimate r.csv --truth {file}",
        f"attack r.csv --truth {file} --with audit --with posterior",
    ]


COMMANDS: dict[str, list[str]] = {
    "csv": _original("d.csv"),
    "parquet": _original("d.parquet"),
    "arrow": _original("d.arrow"),
    "sidecar": [c.format("r.csv") for c in _RELEASE]
    + ["inspect r.csv.ppdm.json --json", "perturb n.csv -o out.csv --like r.csv"],
    "plan": [f"perturb d.csv -o out.{s} --plan p.toml --drop word" for s in ("csv", "parquet")],
    "tree": ["predict tree.json d.csv -o p.csv", "predict tree.json d.parquet -o p.parquet --json"],
    "release csv": [c.format("r.csv") for c in _RELEASE],
    "release parquet": [c.format("r.parquet") for c in _RELEASE],
    "release arrow": [c.format("r.arrow") for c in _RELEASE],
    "kinds": [c.format("k.csv") for c in _RELEASE] + ["inspect k.csv.ppdm.json --json"],
    "copies": [
        *("estimate c.1.csv c.2.csv", "reconstruct c.1.csv c.2.csv -o out.csv", "attack c.1.csv"),
        *(
            "train-tree c.1.csv c.2.csv --class group -o t.json",
            "estimate c.2.csv c.1.csv --joint region,group",
        ),
    ],
    "table": [
        "perturb d.csv -o out.csv --gamma 9 --drop word --attribute region:matrix=dense,table=table.csv",
        "inspect d.csv --describe whole.toml -o s.json",
    ],
    "described": ["inspect d.csv --describe whole.toml -o s.json"],
    "stream": ["estimate -", "reconstruct - -o out.csv", "train-tree - --class group -o t.json"],
    "csv stream": [
        "perturb - --from csv -o out.csv --gamma 9 --domain age=0:120 "
        "--keep word --keep income --keep region --keep member --keep since --keep group",
        "predict tree.json - --from csv -o p.csv",
    ],
    "hive": [
        "perturb h -o out.parquet --gamma 9 --rare publish --drop word --shuffle",
        "train-tree h --class group -o t.json",
    ],
}
DAMAGED = {
    "csv": "d.csv", "parquet": "d.parquet", "arrow": "d.arrow", "sidecar": "r.csv.ppdm.json", "plan": "p.toml",
    "tree": "tree.json", "release csv": "r.csv", "release parquet": "r.parquet", "release arrow": "r.arrow",
    "kinds": "k.csv.ppdm.json", "copies": "c.1.csv.ppdm.json", "table": "table.csv", "described": "whole.toml",
    "stream": "stdin", "csv stream": "stdin",
    "hive": "h/patient=CANARY-7f3a/p.parquet",
}  # fmt: skip
_BESIDE = {
    *("r.csv", "r.csv.ppdm.json", "r.parquet", "r.arrow", "d.csv", "d.parquet", "tree.json", "h", "n.csv"),
    *("k.csv", "k.csv.ppdm.json", "c.1.csv", "c.1.csv.ppdm.json", "c.2.csv", "c.2.csv.ppdm.json"),
    *("table.csv", "whole.toml"),
}


def people(rows: int = 120) -> pl.DataFrame:
    """Make records with a canary in each cell of a column, and one among the incomes."""
    words = pl.Series("word", [f"{WORD} {i}" for i in range(rows)])
    outlier = pl.when(pl.int_range(pl.len()) == 50).then(float(NUMBER)).otherwise(pl.col("income"))
    return vocabulary.people(rows).with_columns(words, income=outlier)


PLAN = """gamma = 9
bins = 10
keep = ["group"]
[attributes.age]
gamma = 5
domain = "0:120"
[attributes.region]
domain = "east|north|south"
[attributes.income]
edges = [0, 1000, 50000, 1e9]
representative = "random"
[attributes.since]
domain = "1970-01-01:1980-01-01"
"""
TABLE = ",east,north,south\neast,.8,.1,.1\nnorth,.1,.8,.1\nsouth,.1,.1,.8\n"
KINDS: dict[str, dict[str, Any]] = {
    "member": {"matrix": "binary", "flips": [0.1, 0.2]},
    "group": {"matrix": "symmetric", "each": 0.1},
    "age": {"bins": 4, "domain": [0, 120]},
    "since": {"matrix": "band", "bins": 12},
    "income": {"domain": [0, 10**9]},
}
WHOLE = """gamma = 9
keep = ["word"]
[attributes]
region = {matrix = "dense", table = "table.csv"}
member = {matrix = "binary", flips = [0.1, 0.2]}
group = {matrix = "block", blocks = [["A", "B"]]}
age = {domain = "0:120", bins = 12}
since = {domain = "1970-01-01:1980-01-01"}
income = {domain = "0:1000000000"}
"""


def corpus(folder: Path) -> dict[str, bytes]:
    """Every whole file by its name."""
    place = folder / "whole"
    (place / "h").mkdir(parents=True)
    frame = people()
    frame.write_csv(place / "d.csv")
    frame.drop("word").with_columns(pl.col("income").clip(upper_bound=9e8)).write_csv(place / "n.csv")
    pq.write_table(frame.to_arrow(), place / "d.parquet", compression="none", row_group_size=50)
    with pa.ipc.new_file(place / "d.arrow", frame.to_arrow().schema) as writer:
        writer.write_table(frame.to_arrow())
    for suffix in ("csv", "parquet", "arrow"):
        wishes = {"income": {"domain": [0, 10**9]}, "age": {"domain": [0, 120], "matrix": "band"}}
        release = str(place / f"r.{suffix}")
        perturb(frame.drop("word"), release, gamma=9, class_="group", attributes=wishes, seed=1)
    (place / "table.csv").write_text(TABLE)
    (place / "whole.toml").write_text(WHOLE)
    kinds = KINDS | {"region": {"matrix": "dense", "table": place / "table.csv"}}
    perturb(frame, place / "k.csv", gamma=9, keep=["word"], attributes=kinds, class_="group", seed=1)
    perturb(frame.drop("word"), place / "c.csv", gamma=9, copies=2, attributes=wishes, class_="group", seed=1)
    tree = train_tree(frame.drop("word"), "group", prune=False, mdl=False).tree
    (place / "tree.json").write_bytes(encode_tree(tree))
    (place / "p.toml").write_text(PLAN)
    for name, part in (("CANARY-7f3a", frame.head(60)), ("b", frame.tail(60))):
        (place / "h" / f"patient={name}").mkdir()
        pq.write_table(part.to_arrow(), place / "h" / f"patient={name}" / "p.parquet")
    with pa.ipc.open_file(place / "r.arrow") as file, pa.ipc.new_stream(place / "stdin", file.schema) as stream:
        stream.write_table(file.read_all())
    files = {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}
    for name in ("r.csv", "k.csv", "c.1.csv", "c.2.csv"):
        said = json.loads(files[f"{name}.ppdm.json"])
        said.pop("blake2b", None)  # so that damaged bytes are read at all
        files[f"{name}.ppdm.json"] = json.dumps(said).encode()
    shutil.rmtree(place)
    return files


def set_up(files: dict[str, bytes], kind: str, place: Path) -> tuple[str, bytes]:
    """The files around a case, and the name and bytes of the one to damage."""
    damaged = DAMAGED[kind]
    for name, data in files.items():
        wanted = name.split("/")[0] in _BESIDE or name.startswith(damaged)
        if wanted and name.startswith("h/") == (kind == "hive"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
    place.mkdir(exist_ok=True)
    return damaged, files["d.csv"] if kind == "csv stream" else files[damaged]

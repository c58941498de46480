"""`ppdm perturb` as a person types it: every option of the design, through the real command line."""

from __future__ import annotations

import json
import math
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from ppdm_cli import inspection, perturb
from ppdm_cli.releases import decode, open_release, opened
from ppdm_cli.sidecar import Attribute
from tests.vocabulary import Run, listing, people, read_table

PPDM = f"{sys.executable} -m ppdm_cli"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    people().write_csv(tmp_path / "data.csv")
    return tmp_path


def attributes(folder: Path, name: str) -> dict[str, Attribute]:
    return {a.name: a for a in open_release(folder / name)[1].attributes}


def gammas(folder: Path, name: str) -> dict[str, Any]:
    return {c.name: c.spec.gamma for c in opened(open_release(folder / name)[1]).channels}


def report(done: subprocess.CompletedProcess[bytes]) -> str:
    """What people read: all of it on stderr, without escapes where there is no terminal."""
    assert done.stdout == b"" and b"\x1b" not in done.stderr
    return " ".join(done.stderr.decode().split())


def test_every_column_is_perturbed_unless_named_otherwise(data: Path, ppdm: Run) -> None:
    args = ["data.csv", "-o", "r.parquet", "--gamma", "9", "--drop", "since", "--class", "group"]
    said = report(ppdm("perturb", *args, "--keep", "group"))
    found = attributes(data, "r.parquet")
    assert {n: a.role for n, a in found.items()} == dict.fromkeys(
        ["age", "income", "region", "member"], "perturbed"
    ) | {"group": "kept"}
    assert found["group"].categories == ["A", "B"]
    sidecar = open_release(data / "r.parquet")[1]
    assert sidecar.class_ == "group" and sidecar.records == 1000
    assert sidecar.privacy.perturbed_gamma == 9**4 and sidecar.privacy.coins == "system"
    for words in ("gamma is 6561", "Published unchanged, so not protected: group", "Dropped: since"):
        assert words in said
    assert "taken from the private data" in said and "at most" in said
    original, release = people(), pl.from_arrow(read_table(data / "r.parquet"))
    assert release["group"].equals(original["group"]) and not release["region"].equals(original["region"])
    report(ppdm("perturb", *args, "--force"))
    assert attributes(data, "r.parquet")["group"].role == "perturbed", "--class only names the label"


def test_json_is_one_object_on_standard_output_and_nothing_else(data: Path, ppdm: Run) -> None:
    done = ppdm("perturb", "data.csv", "-o", "r.csv", "--gamma", "9", "--drop", "since", "--json")
    said = json.loads(done.stdout)
    assert done.stderr == b"" and said["dropped"] == ["since"] and said["telling_order"] == []
    sidecar = open_release(data / "r.csv")[1]
    assert {k: said[k] for k in inspection.figures(sidecar)} == json.loads(
        json.dumps(inspection.figures(sidecar))
    )
    assert json.loads(ppdm("inspect", "r.csv", "--json").stdout)["record"] == said["record"]


def test_gamma_is_given_derived_from_rhos_or_from_a_budget(data: Path, ppdm: Run) -> None:
    base = ("perturb", "data.csv", "--force", "-o", "r.csv")
    ppdm(*base, "--gamma", "4.5", "--attribute", "age:gamma=5,bins=24")
    found, gamma = attributes(data, "r.csv"), gammas(data, "r.csv")
    assert [gamma[n] for n in ("age", "income")] == [5, 4.5]
    assert found["age"].N <= 24 and found["income"].N <= 10
    ppdm(*base, "--rho1", "0.05", "--rho2", "0.5", "--attribute", "income:rho1=0.1,rho2=0.5")
    found, gamma = attributes(data, "r.csv"), gammas(data, "r.csv")
    assert [gamma[n] for n in ("age", "income")] == pytest.approx([19, 9], rel=1e-5)
    assert gamma["age"] <= 19 and gamma["income"] <= 9
    ppdm(*base, "--record-epsilon", "8", "--attribute", "age:gamma=5")
    gamma = gammas(data, "r.csv")
    own = {g for n, g in gamma.items() if n != "age"}
    assert len(own) == 1 and gamma["age"] == 5
    assert own.pop() == pytest.approx(math.exp((8 - math.log(5)) / 5), rel=1e-5)
    epsilon = sum(math.log(g) for g in gamma.values())
    assert 7.9999 < epsilon <= 8


def test_without_a_gamma_safe_budgets_are_offered_with_what_they_mean(data: Path, ppdm: Run) -> None:
    said = report(ppdm("perturb", "data.csv", "-o", "r.csv", "--attribute", "age:gamma=5", code=2))
    assert "no gamma is given for 'income', 'region', 'member', 'since', 'group'" in said
    ways = re.findall(r"--record-epsilon (\S+) \(.*?at most ([\d.]+)%\)", said)
    assert [e for e, _ in ways] == ["1", "2"] and "--gamma" not in said
    for epsilon, shown in ways:
        done = ppdm("perturb", "data.csv", "-o", "r.csv", "--force", "--record-epsilon", epsilon, "--json")
        promise = json.loads(done.stdout)["record"]["worst_posterior"]
        assert promise <= float(shown) / 100 < promise + 0.005


def test_domains_bins_and_representatives_are_what_was_declared(data: Path, ppdm: Run) -> None:
    (data / "regions.txt").write_text("north\nsouth\neast\nwest\n")
    settings = (
        *("--attribute", "age:gamma=5,bins=24,domain=0:120,representative=right"),
        *("--domain", "region=@regions.txt", "--domain", "group=B|A", "--domain", "income=0.0:1000000"),
        *("--attribute", "since:domain=1970-01-01:1972-12-31,bins=3,nulls=true", "--bins", "50"),
    )
    ppdm("perturb", "data.csv", "-o", "r.parquet", "--gamma", "9", "--representative", "left", *settings)
    found = attributes(data, "r.parquet")
    assert found["age"].edges == [121 * i // 24 for i in range(24)] + [120], "on integers 120 is included"
    assert found["region"].categories == ["east", "north", "south", "west"], "sorted, not first seen"
    assert found["group"].categories == ["A", "B"]
    assert found["income"].N == 50 and found["income"].edges[1] == 20_000
    assert (found["since"].N, found["since"].nulls) == (4, True)
    assert {n: a.domain_from for n, a in found.items()} == dict.fromkeys(found, "declared") | {"member": "data"}
    release = read_table(data / "r.parquet")
    assert set(release.column("age").to_pylist()) <= {*(121 * i // 24 - 1 for i in range(1, 24)), 120}
    assert set(release.column("income").to_pylist()) <= set(found["income"].edges)
    random = ("--attribute", "income:representative=random,domain=0:1000000", "--force")
    ppdm("perturb", "data.csv", "-o", "r.parquet", "--gamma", "9", *random)
    assert len(set(read_table(data / "r.parquet").column("income").to_pylist())) > 900


PLAN = """
gamma = 9
bins = 20
keep = ["group"]
drop = ["since"]
class = "group"
representative = "left"
rare = "merge"
[attributes.age]
gamma = 4.5
domain = [0, 120]
[attributes.region]
categories = ["north", "south", "east"]
nulls = true
[attributes.income]
edges = [0, 10000, 50000.5, 1e6]
"""


def test_a_plan_says_all_of_it_and_the_command_line_is_laid_over_it(data: Path, ppdm: Run) -> None:
    (data / "plan.toml").write_text(PLAN)
    ppdm("perturb", "data.csv", "-o", "a.csv", "--plan", "plan.toml", "--seed", "3")
    options = {
        "gamma": 9,
        "bins": 20,
        "keep": ["group"],
        "drop": ["since"],
        "class_": "group",
        "representative": "left",
        "rare": "merge",
        "attributes": {
            "age": {"gamma": 4.5, "domain": [0, 120]},
            "region": {"categories": ["north", "south", "east"], "nulls": True},
            "income": {"edges": [0, 10000, 50000.5, 1e6]},
        },
        "seed": 3,
    }
    perturb(data / "data.csv", data / "b.csv", **options)  # type: ignore[arg-type]
    assert (data / "a.csv").read_bytes() == (data / "b.csv").read_bytes()
    over = ("--gamma", "2", "--bins", "10", "--attribute", "income:bins=5")
    ppdm("perturb", "data.csv", "-o", "a.csv", "--plan", "plan.toml", "--force", *over)
    found, gamma = attributes(data, "a.csv"), gammas(data, "a.csv")
    assert [gamma[n] for n in ("age", "region", "income")] == [4.5, 2, 2]
    assert found["age"].N == 10 and "since" not in found


def test_like_takes_the_plan_of_an_earlier_release(data: Path, ppdm: Run) -> None:
    ppdm("perturb", "data.csv", "-o", "january.csv", "--gamma", "9", "--class", "group", "--bins", "7")
    people(500, seed=8).with_columns(extra=pl.lit(1)).write_csv(data / "february.csv")
    narrow = people(50).select("age", "income")
    narrow.write_csv(data / "narrow.csv")
    for like in ("january.csv", "january.csv.ppdm.json"):
        done = ppdm("perturb", "february.csv", "-o", "f.parquet", "--like", like, "--force", "--clip")
        assert "Dropped: extra" in report(done)
        made = {n: replace(a, outside=UNSET) for n, a in attributes(data, "f.parquet").items()}
        assert made == attributes(data, "january.csv")
    assert b"gamma 9 in the earlier release, and cannot be gamma 3" in (
        ppdm("perturb", "data.csv", "-o", "x.csv", "--like", "january.csv", "--gamma", "3", code=2).stderr
    )
    done = ppdm("perturb", "narrow.csv", "-o", "x.csv", "--like", "january.csv", code=3)
    assert b"which the data does not have" in done.stderr


def test_values_outside_are_counted_or_clipped(data: Path, ppdm: Run) -> None:
    pl.DataFrame(
        {"age": [5, 30, 200, 60, 300] * 9, "level": ["low", "odd", "high", None, "low"] * 9}
    ).write_csv(data / "o.csv")
    args = ("perturb", "o.csv", "-o", "r.csv", "--gamma", "9", "--domain", "age=0:120", "--keep-order")
    level = ("--attribute", "level:domain=low|high,nulls=true")
    said = ppdm(*args, *level, code=1).stderr.decode()
    assert "'age' has 18 values outside its domain, first in row 3 of 'o.csv'" in said and "--clip" in said
    assert not (data / "r.csv").exists()
    ppdm(*args, *level, "--clip", "--seed", "1")
    release = read_table(data / "r.csv")
    assert release.column("age").null_count == 0 and max(release.column("age").to_pylist()) <= 120
    assert set(release.column("level").to_pylist()) == {"low", "high", None}
    said = ppdm(*args, "--domain", "level=low|high", "--clip", "--force", code=1).stderr.decode()
    assert "'level' has 18 values outside its domain, first in row 2 of" in said


def test_a_rare_category_is_refused_merged_or_published(data: Path, ppdm: Run) -> None:
    rare = people().with_columns(
        region=pl.when(pl.int_range(pl.len()) % 250 == 3).then(pl.lit("atlantis")).otherwise("region")
    )
    rare.write_csv(data / "rare.csv")
    args = ("perturb", "rare.csv", "-o", "r.csv", "--gamma", "9")
    said = ppdm(*args, code=4).stderr.decode()
    assert "'region' (1 of 4)" in said and "atlantis" not in said and "--rare merge" in said
    ppdm(*args, "--rare", "publish")
    assert "atlantis" in attributes(data, "r.csv")["region"].categories
    said = report(ppdm(*args, "--rare", "merge", "--force"))
    assert "(other)" in attributes(data, "r.csv")["region"].categories
    assert "atlantis" not in said and all(
        b"atlantis" not in b for n, b in listing(data).items() if n != "rare.csv"
    )


def test_a_telling_order_is_refused_shuffled_or_kept_on_request(data: Path, ppdm: Run) -> None:
    people().sort("age").with_row_index("row").write_csv(data / "sorted.csv")
    args = ("perturb", "sorted.csv", "-o", "r.csv", "--gamma", "9", "--keep", "row")
    said = ppdm(*args, code=4).stderr.decode()
    assert "gives away 'age'" in said and "--shuffle" in said and "--keep-order" in said
    assert "The order of the rows gives away age" in report(ppdm(*args, "--keep-order"))
    rows = read_table(data / "r.csv").column("row").to_pylist()
    assert rows == list(range(1000)), "the same rows in the same order"
    ppdm(*args, "--shuffle", "--force")
    mixed = read_table(data / "r.csv").column("row").to_pylist()
    assert mixed != rows and sorted(mixed) == rows
    assert b"contradict" in ppdm(*args, "--shuffle", "--keep-order", code=2).stderr


def test_a_seed_repeats_the_release_and_promises_nothing(data: Path, ppdm: Run) -> None:
    args = ("perturb", "data.csv", "--gamma", "9")
    said = report(ppdm(*args, "-o", "a.parquet", "--seed", "918273645"))
    assert "The coins came from a seed" in said and "nothing is promised" in said and "918273645" not in said
    ppdm(*args, "-o", "b.parquet", "--seed", "918273645")
    ppdm(*args, "-o", "c.parquet")
    ppdm(*args, "-o", "d.parquet")
    files = listing(data)
    assert files["a.parquet"] == files["b.parquet"] and files["c.parquet"] != files["d.parquet"]
    sidecar = decode(files["a.parquet.ppdm.json"], "a")
    assert sidecar.privacy.coins == "seeded" and sidecar.privacy.perturbed_gamma is None
    assert not any(b"918273645" in content for content in files.values())
    assert read_table(data / "c.parquet") != read_table(data / "d.parquet")


def test_a_key_file_gives_an_unchanged_value_the_same_answer(data: Path, ppdm: Run) -> None:
    first = people().with_row_index("patient").with_columns(pl.col("patient").cast(pl.String))
    more = first.tail(100).with_columns(patient=pl.col("patient") + "x")
    second = pl.concat([first, more]).sample(fraction=1, shuffle=True, seed=5)
    first.write_csv(data / "one.csv")
    second.write_parquet(data / "two.parquet")
    plan = ("--gamma", "9", "--key-file", "k.key", "--id", "patient", "--domain", "income=0:1000000")
    said = report(ppdm("perturb", "one.csv", "-o", "r1.csv", *plan, "--keep", "patient"))
    assert "follow from a key and an identifier" in said
    assert stat.S_IMODE((data / "k.key").stat().st_mode) == 0o600
    key = (data / "k.key").read_text()
    assert len(bytes.fromhex(key)) == 32
    ppdm("perturb", "two.parquet", "-o", "r2.csv", "--like", "r1.csv", "--key-file", "k.key", "--id", "patient")
    one, two = (pl.from_arrow(read_table(data / f"r{i}.csv", types={"patient": _text()})) for i in (1, 2))
    joined = one.join(two, on="patient", suffix="_2")
    assert joined.height == 1000
    for name in ("age", "income", "region", "member", "group"):
        assert joined[name].equals(joined[f"{name}_2"]), name
    ppdm("perturb", "one.csv", "-o", "r3.csv", *plan)
    assert "patient" not in attributes(data, "r3.csv"), "identifiers are dropped unless kept"
    assert not any(key.strip().encode() in b for n, b in listing(data).items() if n != "k.key")


def _text() -> Any:
    import pyarrow as pa

    return pa.string()


def test_csv_options_say_how_the_input_is_read(data: Path, ppdm: Run) -> None:
    rows = "".join(f"0123{i % 5};{'ä' if i % 3 else 'n/a'};{i % 7}\n" for i in range(700))
    (data / "l.csv").write_bytes(("zip;größe;x\n" + rows).encode("latin-1"))
    reading = ["--delimiter", ";", "--encoding", "latin-1", "--null", "n/a", "--type", "zip=string"]
    ppdm("perturb", "l.csv", "-o", "r.csv.gz", "--gamma", "9", "--keep-order", *reading)
    found = attributes(data, "r.csv.gz")
    assert found["zip"].categories == [f"0123{i}" for i in range(5)]
    assert (found["größe"].categories, found["größe"].nulls) == (["ä"], True)
    (release, _) = open_release(data / "r.csv.gz")
    assert str(release.schema.field("zip").type) == "string", "the sidecar governs how a miner reads"


def test_several_parts_are_one_release(data: Path, ppdm: Run) -> None:
    frame = people()
    (data / "parts").mkdir()
    for i in range(3):
        frame[i * 300 : i * 300 + 300].write_parquet(data / "parts" / f"{i}.parquet")
        frame[i * 300 : i * 300 + 300].write_csv(data / f"{i}.csv")
    ppdm("perturb", "parts", "-o", "a.parquet", "--gamma", "9", "--seed", "1")
    ppdm("perturb", "0.csv", "1.csv", "2.csv", "-o", "b.parquet", "--gamma", "9", "--seed", "1")
    whole = perturb(frame[:900], gamma=9, seed=1).frame
    for name in ("a.parquet", "b.parquet"):
        assert pl.from_arrow(read_table(data / name)).equals(whole)


def test_a_hint_is_typed_as_it_stands_whatever_the_column_is_called(tmp_path: Path, ppdm: Run) -> None:
    table = {"Kosten & so": [f"v{i % 40}" for i in range(300)], "x": [i * 7 % 3 for i in range(300)]}
    pl.DataFrame(table).write_csv(tmp_path / "data.csv")
    base = ("perturb", "data.csv", "-o", "r.csv", "--gamma", "9", "--shuffle")
    said = ppdm(*base, code=4).stderr.decode()
    (hint,) = re.findall(r"domain: (--domain .*=@file\S*)", said)
    (tmp_path / "file").write_text("\n".join(f"v{i}" for i in range(40)))
    ppdm(*base, *shlex.split(hint))


@pytest.mark.parametrize("name", ["a=b", "=", "x:y", "a = b"])
def test_a_column_of_any_name_has_settings(name: str, tmp_path: Path, ppdm: Run) -> None:
    pl.DataFrame({name: [1, 2] * 200, "b": [0, 1] * 200}).write_csv(tmp_path / "d.csv")
    setting = f"{name}:gamma=5,domain=1:2"
    ppdm("perturb", "d.csv", "-o", "o.csv", "--gamma", "9", "--attribute", setting, "--shuffle")
    assert gammas(tmp_path, "o.csv") == {name: 5, "b": 9}

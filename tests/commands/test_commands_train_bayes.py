"""`ppdm train-bayes` as a miner and as parties call it, and `ppdm generate --network`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb, train_bayes
from ppdm_cli.errors import MismatchError
from ppdm_cli.networks import Network, Node, load
from ppdm_cli.networks.files import as_bif
from tests.networks.test_learning import PLAN, THREE, drawn, truth
from tests.vocabulary import Run, listing, structure

ROWS = 6000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records of three nodes: one release of all, and one of each party's columns, all with identifiers."""
    original = drawn(THREE, ROWS, 1).with_columns(who=pl.int_range(ROWS) + 1000)
    original.write_csv(tmp_path / "original.csv")
    original.select("who", "a").write_csv(tmp_path / "own.csv")
    (tmp_path / "net.bif").write_text(as_bif(THREE))
    key = tmp_path / "key"
    key.write_text("1" * 64)
    key.chmod(0o600)
    (tmp_path / "net.json").write_text(structure("a -> b", "a -> c", "b -> c"))
    for name, columns, order in (("r", "abc", 1), ("ra", "a", 1), ("rbc", "bc", 1), ("mixed", "bc", -1)):
        part = original.select("who", *columns)[::order]
        plan = {"attributes": {n: PLAN[n] for n in columns}, "keep": ["who"]}
        perturb(part, tmp_path / f"{name}.parquet", plan, key_file=key, id="who", keep_order=True)
    return tmp_path


def near(network: Network, frame: pl.DataFrame) -> bool:
    """Return whether all parameters are where a sample of this size has them, but once in 1,000 times."""
    known = frame.with_columns(true=truth(Network.of([THREE[n] for n in network.nodes])))
    z = ((known["parameter"] - known["true"]) / known["std_error"]).drop_nulls()
    return bool(z.abs().max() < 4.2)  # type: ignore[operator]


@pytest.mark.parametrize("network", ["net.bif", "net.json"])
def test_a_miner_learns_a_release(network: str, folder: Path, ppdm: Run) -> None:
    said = ppdm(
        *("train-bayes", "r.parquet", "--network", network, "-o", "l.bif", "-o", "l.json", "-o", "p.csv"),
        *("--compare", "net.bif"),
    ).stdout.decode()
    assert f"{ROWS:,} records, 3 nodes" in said and "nats in total" in said
    assert f"epsilon is {np.log(4 * 6 * 7.5):.4g} (gamma 180.1)" in said
    frame = pl.read_csv(folder / "p.csv")
    assert near(load(folder / "l.bif"), frame)
    np.testing.assert_allclose(truth(load(folder / "l.json")), frame["parameter"].to_numpy())
    np.testing.assert_allclose(truth(load(folder / "l.bif")), frame["parameter"].to_numpy(), atol=2e-7)


def test_a_structure_is_learnt_beside_its_parameters(folder: Path, ppdm: Run) -> None:
    """The columns a, b and c hang together: the tree has the two heaviest of three edges."""
    asked = ("train-bayes", "r.parquet", "--learn-structure", "auto")
    said = ppdm(*asked, "-o", "t.bif", "-o", "t.csv").stdout.decode()
    assert "2 of the heaviest tree's 2 edges are beyond chance" in said
    done = train_bayes(folder / "r.parquet", learn_structure="auto")
    assert [n.parents for n in load(folder / "t.bif")] == [n.parents for n in done.network]
    assert sum(len(n.parents) for n in done.network) == 2
    again = ppdm("train-bayes", "r.parquet", "--network", "t.bif", "-o", "u.csv")
    assert (folder / "t.csv").read_bytes() == (folder / "u.csv").read_bytes() and again.returncode == 0
    ppdm(*asked, "--network", "net.bif", code=2)
    assert b"--learn-structure is for training" in ppdm("train-bayes", "--merge", *asked[1:], code=2).stderr


def test_json_is_one_object_with_the_library_s_figures(folder: Path, ppdm: Run) -> None:
    args = ("train-bayes", "r.parquet", "--network", "net.bif", "--prior", "1", "--compare", "original.csv")
    said = json.loads(ppdm(*args, "--json").stdout)
    done = train_bayes(folder / "r.parquet", folder / "net.bif", prior=1, compare=folder / "original.csv")
    assert said["records"] == ROWS and said["remarks"] == done.remarks
    assert said["parameters"] == done.frame.to_dicts()
    assert said["compared"]["total"] == pytest.approx(done.distance) and 0 < done.distance < 0.05


def test_parties_are_joined_by_row_order(folder: Path, ppdm: Run) -> None:
    """Model II: two parties' releases, in the same order."""
    done = ppdm("train-bayes", "ra.parquet", "rbc.parquet", "--network", "net.bif", "-o", "p.csv")
    assert near(THREE, pl.read_csv(folder / "p.csv"))
    assert b"in the 2 releases, epsilon is 1.387 + 3.807 = 5.193" in done.stdout
    done = ppdm("train-bayes", "ra.parquet", "mixed.parquet", "--network", "net.bif", "-o", "q.csv")
    assert not near(THREE, pl.read_csv(folder / "q.csv")), "the rows were not of the same people"
    assert b"joined in the order of their files" in done.stdout


def test_a_party_learns_its_own_nodes_and_they_are_merged(folder: Path, ppdm: Run) -> None:
    """Model I: a is counted exactly by its owner, b and c with a's perturbed column."""
    done = ppdm("train-bayes", "own.csv", "--network", "net.bif", "--nodes", "a", "-o", "a.bif")
    assert b"1 node to a.bif" in done.stdout
    assert b"and not protected: 'a'" in done.stdout
    pl.read_csv(folder / "original.csv").select("b", "c").write_csv(folder / "others.csv")
    args = ("train-bayes", "others.csv", "ra.parquet", "--network", "net.bif", "--nodes", "b,c", "-o", "bc.bif")
    assert b"The tables of 'b', 'c' also have original columns, which are not protected" in ppdm(*args).stdout
    done = ppdm(
        "train-bayes", "--merge", "a.bif", "bc.bif", "-o", "all.bif", "-o", "p.csv", "--compare", "net.bif"
    )
    whole = load(folder / "all.bif")
    assert near(whole, pl.read_csv(folder / "p.csv")) and [n.exact for n in whole] == [True, False, False]
    assert b"and not protected: 'a'" in done.stdout and b"epsilon is 1.387" in done.stdout
    counted = pl.read_csv(folder / "original.csv")["a"].value_counts(sort=True)["count"][0] / ROWS
    assert np.asarray(whole["a"].parameters)[0, 0] == pytest.approx(counted, abs=1e-7)
    assert '"exact": true' in (folder / "all.bif").read_text()


def test_generated_records_have_the_network_s_distribution(folder: Path, ppdm: Run) -> None:
    for name in ("g.parquet", "h.parquet"):
        ppdm("generate", "--network", "net.bif", "--records", "70000", "--seed", "2", "-o", name)
    assert (folder / "g.parquet").read_bytes() == (folder / "h.parquet").read_bytes()
    done = train_bayes(folder / "g.parquet", folder / "net.bif")
    assert near(done.network, done.frame)
    for args in ((), ("--network", "net.bif", "--function", "1"), ("--network", "net.bif", "--balanced")):
        ppdm("generate", *args, "--records", "5", "-o", "x.csv", code=2)
    assert (
        b"no parameters for 'a', 'b', 'c'"
        in ppdm("generate", "--network", "net.json", "--records", "5", "-o", "x.csv", code=2).stderr
    )


def test_numbers_bins_and_nulls_are_states(tmp_path: Path, ppdm: Run) -> None:
    rng = np.random.default_rng(1)
    age, flu = rng.integers(0, 80, 4000), rng.random(4000) < 0.3
    original = pl.DataFrame({"age": age, "flu": flu}).with_columns(
        flu=pl.when(pl.col("age") < 5).then(None).otherwise("flu")
    )
    original.write_parquet(tmp_path / "o.parquet")
    (tmp_path / "net.json").write_text(structure("age -> flu"))
    settings: Any = {"age": {"domain": [0, 80], "bins": 4}, "flu": {"categories": [False, True], "nulls": True}}
    perturb(original, tmp_path / "r.parquet", gamma=19, attributes=settings, keep_order=True)
    ppdm("train-bayes", "r.parquet", "--network", "net.json", "-o", "l.bif", "--compare", "o.parquet")
    network = load(tmp_path / "l.bif")
    assert network["age"].states == ("[0, 20)", "[20, 40)", "[40, 60)", "[60, 80]")
    assert network["flu"].states == ("False", "True", "null")
    assert "{ s0, s1, s2, s3 }" in (tmp_path / "l.bif").read_text()
    named = original.select(flu=pl.when("flu").then(pl.lit("null")).otherwise(pl.col("flu").cast(str)))
    domain = {"flu": {"categories": ["false", "null"], "nulls": True}}
    done = perturb(named, gamma=9, attributes=domain, keep_order=True)
    with pytest.raises(MismatchError, match="or a value twice: 'null'"):
        train_bayes([(done.frame, done.sidecar)], Network.of([Node("flu", (), ())]))
    raw = train_bayes(tmp_path / "o.parquet", tmp_path / "l.bif").network
    assert np.asarray(raw["flu"].parameters)[0, 2] == pytest.approx((age < 5).sum() / (age < 20).sum())


WRONG: dict[str, tuple[str, int, str]] = {
    "no structure": ("r.parquet", 2, "no network is named"),
    "no data": ("--network net.bif", 2, "no files are named"),
    "no such node": ("r.parquet --network net.bif --nodes a,d", 2, "--nodes names the column 'd'"),
    "a node missing": (
        "rbc.parquet --network net.bif", 3, "the node 'a', but no party gives a column of that name",
    ),
    "two columns": ("ra.parquet r.parquet --network net.bif", 3, "'a' has two columns, in 'ra.parquet'"),
    "a cycle": ("r.parquet --network cycle.json", 3, "has a cycle: 'a' -> 'b' -> 'a'"),
    "unknown states": ("r.parquet --network other.bif", 3, "aren't states of its node, or"),
    "values outside": ("original.csv --network other.bif", 3, "'a' has a value outside its domain in row"),
    "too few records": (
        "ra.parquet short.csv --network net.bif", 3, "different numbers of records: 'ra.parquet'",
    ),
    "a reconstruction": ("d.parquet --network net.bif", 3, "its records were drawn from estimates"),
    "too large": ("wide.csv --network wide.json", 2, "'z' and its parents have 4100625 combinations"),
    "a release to compare": (
        "r.parquet --network net.bif --compare r.parquet", 3, "is a release, not an original",
    ),
    "another structure": ("r.parquet --network net.bif --compare chain.bif", 3, "or gives it other parents"),
    "a suffix": ("r.parquet --network net.bif -o l.txt", 2, "'l.txt' has no suffix of a network"),
    "merge of one": ("--merge net.bif", 2, "nothing to merge with"),
    "merge and train": ("--merge net.bif net.bif --network net.bif", 2, "--network is for training"),
    "parameters differ": ("--merge net.bif shifted.bif", 3, "differ on 'a': its parameters"),
    "states differ": ("--merge net.bif other.bif", 3, "differ on 'a': its states"),
    "nobody's node": ("--merge net.json net.json", 3, "no party learned the parameters of 'a', 'b', 'c'"),
    "standard input": ("- --network net.bif", 2, "standard input"),
    "absent": ("r.parquet --network absent.bif", 1, "the network 'absent.bif' does not exist"),
}  # fmt: skip


@pytest.fixture
def troubles(folder: Path) -> Path:
    (folder / "cycle.json").write_text(structure("a -> b", "b -> a", "a -> c"))
    text = (folder / "net.bif").read_text()
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    (folder / "other.bif").write_text(plain.replace("variable a {\n  type discrete [ 2 ] { no, yes }",
                                                    "variable a {\n  type discrete [ 2 ] { no, maybe }")
                                      .replace("(yes", "(maybe"))  # fmt: skip
    shifted = drawn(THREE, 50, 3)
    (folder / "shifted.bif").write_text(as_bif(train_bayes(shifted, THREE).network))
    chain = Network.of([THREE["a"], THREE["b"], Node("c", ("b",), ("no", "yes"))])
    (folder / "chain.bif").write_text(as_bif(train_bayes(shifted, chain).network))
    original = pl.read_csv(folder / "original.csv")
    rest = original.select("who", "b", "c")
    rest[1:].write_csv(folder / "short.csv")
    wide = pl.DataFrame({n: [f"v{(7 * i + 3 * k) % 45:02}" for i in range(90)] for k, n in enumerate("wxyz")})
    wide.write_csv(folder / "wide.csv")
    (folder / "wide.json").write_text(structure("w -> z", "x -> z", "y -> z"))
    return folder


def test_what_is_wrong_is_told_in_a_line(troubles: Path, ppdm: Run) -> None:
    ppdm("reconstruct", "r.parquet", "--method", "global", "-o", "d.parquet")
    before = listing(troubles)
    for name, (args, code, said) in WRONG.items():
        done = ppdm("train-bayes", *args.split(), *([] if "-o" in args else ["-o", "l.json"]), code=code)
        lines = done.stderr.decode().splitlines()
        assert len(lines) == 1 and said in lines[0], (name, lines)
        assert listing(troubles) == before, name


def test_a_singular_matrix_is_refused_unless_em_is_asked_for(tmp_path: Path, ppdm: Run) -> None:
    rng = np.random.default_rng(1)
    original = pl.DataFrame({"x": rng.normal(50, 10, 3000), "y": rng.integers(0, 2, 3000)})
    wide, narrow = {"domain": [0, 100], "bins": 50, "sd": "40%"}, {"categories": [0, 1], "sd": "1%"}
    asked: Any = {"scheme": "additive", "noise": "normal", "attributes": {"x": wide, "y": narrow}}
    perturb(original, tmp_path / "r.parquet", keep_order=True, **asked)
    (tmp_path / "net.json").write_text(structure("y -> x"))
    done = ppdm("train-bayes", "r.parquet", "--network", "net.json", "-o", "l.bif", code=4)
    assert b"the matrix of 'x' is nearly singular" in done.stderr and b"--estimator em" in done.stderr
    said = ppdm("train-bayes", "r.parquet", "--network", "net.json", "-o", "l.bif", "--estimator", "em").stdout
    assert b"No standard errors for 'x' where y = 0" in said

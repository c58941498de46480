"""Training and predicting on any data: laws on random tables, odd input, faults that tell no value."""

from __future__ import annotations

import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import predict, train_tree
from ppdm_cli.errors import PpdmError
from ppdm_cli.trees import Tree, load_tree
from tests.commands.test_killed import STEPS
from tests.strategies import tables
from tests.test_canary import CSVS, ROWS
from tests.vocabulary import Anything, Run, listing, people, raises, seen


@st.composite
def records(draw: st.DrawFn) -> pl.DataFrame:
    """Few values, many ties, sometimes missing, sometimes one record, one class or 255."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.sampled_from([1, 2, 7, 40, 400]))
    classes = draw(st.sampled_from([1, 2, 3, 255]))
    gone = draw(st.sampled_from([0.0, 0.2, 1.0]))
    frame = {
        "few": rng.integers(0, 4, n),
        "many": rng.integers(0, 300, n).astype(float),
        "one": np.zeros(n),
        "kind": [f"k{v}" for v in rng.integers(0, 300, n)],
        "flag": rng.random(n) < 0.5,
    }
    columns = [pl.Series(k, v) for k, v in frame.items()]
    holes = [pl.Series("h", rng.random(n) < gone) for _ in columns]
    data = pl.DataFrame(columns).with_columns(
        pl.when(h).then(None).otherwise(c).alias(c.name) for c, h in zip(columns, holes, strict=True)
    )
    return data.with_columns(pl.Series("y", rng.integers(0, classes, n)))


def same(one: Tree, other: Tree) -> None:
    for name in ("feature", "threshold", "first_child", "children", "label"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.counts, other.counts, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(records(), st.booleans(), st.booleans(), st.sampled_from(["gain", "gain-ratio"]))
def test_never_a_crash_and_the_tree_is_valid(
    data: pl.DataFrame, prune: bool, mdl: bool, criterion: str
) -> None:
    fitted = train_tree(data, "y", prune=prune, mdl=mdl, criterion=criterion)  # type: ignore[arg-type]
    fitted.tree.validate()
    found = predict(fitted, data)
    assert (found["predicted"] == data["y"]).mean() == pytest.approx(fitted.accuracy)
    assert np.allclose(found.select(pl.sum_horizontal(pl.selectors.starts_with("chance of"))), 1)


@settings(max_examples=30, deadline=None)
@given(tables())
def test_any_type_of_column(data: object) -> None:
    with suppress(PpdmError):
        train_tree(data, data.column_names[0]).tree.validate()  # type: ignore[attr-defined]


@settings(max_examples=15, deadline=None)
@given(records(), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(data: pl.DataFrame, random: object) -> None:
    order = list(range(data.height))
    random.shuffle(order)  # type: ignore[attr-defined]
    same(train_tree(data, "y").tree, train_tree(data[order], "y").tree)


@settings(max_examples=15, deadline=None)
@given(records(), st.integers(0, 99), st.booleans())
def test_weights_are_copies(data: pl.DataFrame, seed: int, prune: bool) -> None:
    copies = np.random.default_rng(seed).integers(1, 4, data.height)
    repeated = data[np.repeat(np.arange(data.height), copies)]
    weighted = data.with_columns(pl.Series("w", copies))
    one = train_tree(weighted, "y", weights="w", drop=["kind"], prune=prune)
    other = train_tree(repeated, "y", drop=["kind"], prune=prune)
    same(one.tree, other.tree)
    assert one.accuracy == pytest.approx(other.accuracy)


OK = "x,k,d,y\n" + "".join(
    f"{i},{'uvw'[i % 3]},2020-01-0{1 + i % 9},{'ab'[(i > 20) ^ (i % 3 == 0)]}\n" for i in range(60)
)
ESCAPES = ("\x1b[31mred", "\u202eright", "\u2066iso", "\x9b31m", "\u2028line", "new\nline", "a\tb", 'q"', "e")


@pytest.fixture
def ok(tmp_path: Path) -> Path:
    (tmp_path / "ok.csv").write_text(OK)
    return tmp_path


TRAINING = {
    "": 1,
    "x,y\n": 1,
    "x,y\n1,\n2,\n": 1,
    "x,y\n1,a\n2,\n": 1,
    "x,y\n1,1.5\n2,2.5\n": 2,
    "x,y\n" + "".join(f"1,{i}\n" for i in range(5000)): 2,
    "x,y\n1,a\n2,a\n": 0,
    "y\na\nb\nb\n": 0,
    "x,y\n" + "".join(f"{i % 7},{i}\n" for i in range(300)): 0,
    "\ufeffx,y\r\n1,a\r\n2,b\r\n": 0,
}
TEST = {
    "x,k,d,y\n1,u,2020-01-01,5\n": 0,
    "x,k,d,y\n1,new,2020-01-01,a\n": 0,
    "x,k,d,y\n": 0,
    "x,k,d\n1,u,2020-01-01\n": 0,
    "x,k,d,y\nfoo,u,2020-01-01,a\n": 1,
    "k,d,y\nu,2020-01-01,a\n": 3,
}
"""Odd files, with how a command that reads them ends."""


@pytest.mark.parametrize("text", [*TRAINING, *TEST])
def test_odd_data_is_learnt_from_or_refused_in_a_line(text: str, ok: Path, ppdm: Run) -> None:
    """A CSV to test with has the types of the training's, so that both commands say the same."""
    (ok / "odd.csv").write_bytes(text.encode())
    runs = [("train-tree", "odd.csv", "--class", "y", "-o", "t.json")]
    if text in TEST:
        ppdm("train-tree", "ok.csv", "--class", "y", "-o", "ok.json")
        runs = [("train-tree", "ok.csv", "--class", "y", "-o", "t.json", "--test", "odd.csv")]
        runs.append(("predict", "ok.json", "odd.csv", "-o", "p.csv"))
    before = listing(ok)
    code = (TRAINING | TEST)[text]
    for args in runs:
        said = ppdm(*args, code=code).stderr
        assert b"inside ppdm" not in said
        assert not code or (said.count(b"\n") == 1 and listing(ok) == before)


def test_calls_that_cannot_be_meant(ok: Path, ppdm: Run) -> None:
    (ok / "none").mkdir()
    before = listing(ok)
    for args, code in (
        ("train-tree ok.csv --class y -o -", 2),
        ("train-tree - --class y -o t.json --test -", 2),
        ("train-tree - --class y -o t.json --predicted p.csv", 2),
        ("train-tree none --class y -o t.json", 1),
        ("predict ok.csv ok.csv -o p.csv", 2),
        ("predict . ok.csv -o p.csv", 2),
    ):
        ppdm(*args.split(), code=code)
        assert listing(ok) == before, args


def test_names_that_would_drive_a_terminal(tmp_path: Path, ppdm: Run) -> None:
    """In the report, every export and the stored tree; few labels, so that the confusion matrix is shown."""
    rng = np.random.default_rng(1)
    data = {name: [ESCAPES[i] for i in rng.integers(0, len(ESCAPES), 90)] for name in ESCAPES}
    frame = pl.DataFrame(data).with_columns(
        pl.Series("\x1b]0;c\x07", [ESCAPES[i] for i in rng.integers(0, 9, 90)])
    )
    frame.write_csv(tmp_path / "h.csv")
    grown = ("--no-prune", "--no-mdl", "--min-records", "1", "--export", "t.txt")
    said = ppdm("train-tree", "h.csv", "--header", "--class", frame.columns[-1], "-o", "t.json", *grown)
    texts = [said.stdout.decode(), *((tmp_path / f"t.{s}").read_text() for s in ("txt", "json"))]
    assert "Predicted" in texts[0] and "Importance" in texts[0]
    for text in texts:
        assert all(c.isprintable() or c in "\n\t\u2026" for c in text)
    assert set(load_tree(tmp_path / "t.json").labels) <= set(ESCAPES)
    again = ppdm("predict", "t.json", "h.csv", "--header", "-o", "p.csv")
    assert all(c.isprintable() or c == "\n" for c in again.stderr.decode())


def test_weights_as_an_array_and_too_heavy_ones() -> None:
    data = pl.DataFrame({"x": [1, 2, 3, 4], "y": ["a", "a", "b", "b"]})
    assert train_tree(data, "y", weights=np.array([1, 1, 1, 9.0])).tree.counts[0].tolist() == [2, 10]
    for wrong in ([1e308] * 4, [np.nan] * 4, [-1.0, 1, 1, 1], [0.0] * 4, [1.0] * 3):
        with raises("invalid-weights"):
            train_tree(data, "y", weights=np.array(wrong))


def test_a_tree_says_nothing_to_standard_error() -> None:
    """No warning of a library about odd counts."""
    frame = "pl.DataFrame({'x': [1], 'y': [1]})"
    code = f"from ppdm_cli import train_tree; import polars as pl; train_tree({frame}, 'y')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert done.returncode == 0 and done.stderr == b""


TRAIN = ("train-tree", "in.parquet", "--class", "group", "--no-prune", "--no-mdl", "--min-records", "1")
OUTPUTS = ("r.parquet.json", "r.parquet.txt", "r.parquet.csv")


@pytest.fixture
def noise(tmp_path: Path) -> Path:
    """Records whose tree is large, and two to predict."""
    people(6000).write_parquet(tmp_path / "in.parquet")
    people(2).write_parquet(tmp_path / "two.parquet")
    return tmp_path


def limited(folder: Path, most: int, *args: str) -> subprocess.CompletedProcess[bytes]:
    """A limit on the size of files stands for a full disk: the kernel's refusal is as real."""
    return subprocess.run(
        [sys.executable, "-m", "ppdm_cli", *args],
        cwd=folder,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )


def test_what_is_written_last_fails_and_nothing_is_there(noise: Path) -> None:
    outputs = ("-o", "t.json", "--test", "two.parquet", "--predicted", "p.csv", "--export", "t.txt")
    (noise / "p.csv").write_text("mine")
    before = listing(noise)
    done = limited(noise, 10_000, *TRAIN, *outputs, "--force")
    message = done.stderr.decode()
    assert done.returncode == 1 and message.count("\n") == 1 and "File too large" in message, message
    assert listing(noise) == before


@pytest.mark.long
def test_a_kill_at_each_step_leaves_whole_files(noise: Path, ppdm: Run) -> None:
    args = (*TRAIN, "-o", OUTPUTS[0], "--export", OUTPUTS[1], "--predicted", OUTPUTS[2], "--force")
    ppdm(*TRAIN[:4], "--class", "member", "-o", OUTPUTS[0], "--export", OUTPUTS[1], "--predicted", OUTPUTS[2])
    old = {n: (noise / n).read_bytes() for n in OUTPUTS}
    ppdm(*args)
    new = {n: (noise / n).read_bytes() for n in OUTPUTS}
    states = []
    for step in range(1, 20):
        for name in OUTPUTS:
            (noise / name).write_bytes(old[name])
        done = subprocess.run([sys.executable, "-c", STEPS, str(step), *args], cwd=noise, capture_output=True)
        for path in noise.iterdir():
            if path.name.endswith(".ppdm-part"):  # killed between two system calls
                path.unlink()
        assert set(listing(noise)) == {"in.parquet", "two.parquet", *OUTPUTS}
        now = {n: (noise / n).read_bytes() for n in OUTPUTS}
        assert all(now[n] in (old[n], new[n]) for n in OUTPUTS)
        states.append(sum(now[n] == new[n] for n in OUTPUTS))
        if done.returncode == 0:
            break
    assert states[0] == 0 and states[-1] == 3 and states == sorted(states)


def test_ctrl_c_while_predicting_leaves_what_was_there(noise: Path, ppdm: Run) -> None:
    ppdm("train-tree", "in.parquet", "--class", "group", "-o", "t.json")
    (noise / "o.csv").write_text("mine")
    before = listing(noise)
    for args in (
        ("predict", "t.json", "-", "-o", "o.csv"),
        ("train-tree", "-", "--class", "y", "-o", "o.json"),
    ):
        command = [sys.executable, "-m", "ppdm_cli", *args, "--from", "csv", "--force"]
        running = subprocess.Popen(command, cwd=noise, stdin=-1, stdout=-1, stderr=-1)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(4)
        running.send_signal(2)
        out, err = running.communicate(timeout=20)
        assert (running.returncode, out) == (130, b"")
        assert err.strip() == b"ppdm: interrupted: nothing was written"
        assert listing(noise) == before


@pytest.mark.parametrize("fault", CSVS)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("types", [(), ("--type", "n=int64", "--type", "s=string", "--type", "d=date")])
def test_a_faulty_csv_tells_no_cell(
    fault: str, first: bool, types: tuple[str, ...], tmp_path: Path, ppdm: Run
) -> None:
    """A tree itself says what values the records have; a message never does."""
    (tmp_path / "clean.csv").write_text("n,s,d\n" + ROWS)
    ppdm("train-tree", "clean.csv", "--class", "s", "-o", "t.json", "--no-prune", *types)
    rows = CSVS[fault] + ROWS if first else ROWS + CSVS[fault]
    (tmp_path / "in.csv").write_bytes(b"n,s,d\n" + rows.encode("latin-1"))
    before = listing(tmp_path)
    for args in (
        ("train-tree", "in.csv", "--class", "s", "-o", "x.json"),
        ("train-tree", "in.csv", "--class", "n", "-o", "y.json"),
        ("predict", "t.json", "in.csv", "-o", "p.csv"),
    ):
        code = Anything()
        done = ppdm(*args, *types, code=code)  # type: ignore[arg-type]
        assert b"inside ppdm" not in done.stderr
        if code.code:
            assert not seen(done.stdout + done.stderr), done.stderr
            assert listing(tmp_path) == before
        before = listing(tmp_path)


def test_the_class_tells_no_cell(tmp_path: Path, ppdm: Run) -> None:
    """A class of a wrong kind, and labels that are unknown or missing."""
    canary = "CANARY-7f3a"
    frame = people(300)
    frame.write_parquet(tmp_path / "d.parquet")
    ppdm("train-tree", "d.parquet", "--class", "group", "-o", "t.json", "--force")
    for wrong in (
        frame.with_columns(group=pl.lit(918273645)),
        frame.with_columns(age=pl.lit(canary)),
        frame.with_columns(group=pl.Series(np.full(300, 918273645.5))),
    ):
        wrong.write_parquet(tmp_path / "w.parquet")
        for args in (
            ("predict", "t.json", "w.parquet", "-o", "p.csv", "--force"),
            ("train-tree", "d.parquet", "--class", "group", "-o", "x.json", "--test", "w.parquet", "--force"),
        ):
            done = ppdm(*args, code=Anything())  # type: ignore[arg-type]
            assert not seen(done.stdout) and b"918273645" not in done.stderr and b"inside" not in done.stderr

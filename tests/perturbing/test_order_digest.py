"""Parties that share a key see whether their rows are of the same records in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ppdm_cli import MismatchError, UsageError, perturb, train_bayes
from ppdm_cli.coins import Key
from ppdm_cli.engine import running
from ppdm_cli.networks import Network, Node
from ppdm_cli.perturbing.order_digest import order_digest
from ppdm_cli.tables import from_arrow, open_table
from tests.conftest import Run, listing

PAIR = Network.of([Node("a"), Node("b", ("a",))])


def two(rows: int = 400, first: int = 0) -> pl.DataFrame:
    numbers = pl.int_range(first, first + rows, eager=True)
    columns = {"a": (numbers % 3 == 0).cast(pl.String), "b": (numbers % 2).cast(pl.String)}
    return pl.DataFrame({"who": numbers} | columns)


def given(frame: pl.DataFrame, column: str, folder: Path, key: str = "shared") -> Any:
    wishes: Any = {"gamma": 9, "id": "who", "order_key": folder / key, "keep_order": True}
    done = perturb(frame.select("who", column), **wishes)
    return done.frame, done.sidecar


def test_the_same_order_is_confirmed_and_another_is_refused(tmp_path: Path) -> None:
    ours = given(two(), "a", tmp_path)
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o600
    theirs = given(two(), "b", tmp_path)
    assert ours[1].order == theirs[1].order and "who" not in ours[0].columns
    remarks = " ".join(train_bayes([ours, theirs], PAIR).remarks)
    assert "the keyed digests in their sidecars agree" in remarks
    for other in (two()[::-1], two(first=1), pl.concat([two()[1:2], two()[:1], two()[2:]])):
        with pytest.raises(MismatchError, match="keyed digests differ"):
            train_bayes([ours, given(other, "b", tmp_path)], PAIR)
    with pytest.raises(MismatchError, match="or the parties' keys are not the same"):
        train_bayes([ours, given(two(), "b", tmp_path, "another")], PAIR)
    remarks = " ".join(train_bayes([ours, two().select("b")], PAIR).remarks)
    assert "nothing else shows" in remarks


def test_the_digest_hangs_on_the_key_and_on_no_cut_of_the_table(tmp_path: Path) -> None:
    key, frame = Key.from_seed(1), two(5000)
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=700)
    whole = order_digest(from_arrow(frame), "who", key)
    for threads in (1, 4):
        with running(threads=threads):
            assert order_digest(open_table(tmp_path / "a.parquet"), "who", key) == whole
    assert order_digest(from_arrow(frame), "who", Key.from_seed(2)) != whole
    assert order_digest(from_arrow(frame[:-1]), "who", key) != whole


def test_the_command_checks_what_goes_together(tmp_path: Path, ppdm: Run) -> None:
    two().write_csv(tmp_path / "p.csv")
    args = ("perturb", "p.csv", "--gamma", "9", "--keep-order", "-o", "r.csv")
    ppdm(*args, "--id", "who", "--order-key", "k")
    before = listing(tmp_path)
    for more, said in (
        (("--order-key", "k"), "--order-key and --id go together"),
        (("--order-key", "k", "--id", "nobody"), "'nobody'"),
    ):
        assert said in ppdm(*args, "--force", *more, code=2).stderr.decode()
    shuffled = (*args[:4], "--shuffle", "--id", "who", "--order-key", "k", "-o", "s.csv")
    assert b"rows of a file in their order" in ppdm(*shuffled, code=2).stderr
    both = ppdm(*args, "--force", "--id", "who", "--order-key", "k", "--key-file", "k", code=4).stderr
    assert b"could undo the release" in both and listing(tmp_path) == before
    with pytest.raises(UsageError, match="order_key="):
        perturb(two(), gamma=9, order_key=tmp_path / "k")

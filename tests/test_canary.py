"""No private value in any message, output or sidecar: a canary is planted where each fault can find it.

Whatever goes wrong, and whatever is dropped, hidden or perturbed away, the canary must not be seen in
stdout, stderr or any file that was written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ppdm_cli import perturb
from tests.vocabulary import NUMBER, WORD, Anything, Run, listing, people, seen

ROWS = "".join(f"{i % 7},{'ab'[i % 2]},2020-01-0{1 + i * 5 % 9}\n" for i in range(300))


def test_the_canary_is_seen_where_it_is() -> None:
    for content in (WORD.encode(), str(NUMBER).encode(), b"918,273,645", np.int64(NUMBER).tobytes()):
        assert seen(content)
    assert seen(np.float64(NUMBER).tobytes()) and not seen(ROWS.encode())


CSVS = {
    "ragged short": f"{WORD}\n",
    "ragged long": f"1,a,2020-01-01,{WORD}\n",
    "a word among numbers": f"{WORD},a,2020-01-01\n",
    "a word among dates": f"1,a,{WORD}\n",
    "a number among dates": f"1,a,{NUMBER}\n",
    "a date that is none": "1,a,2020-02-31CANARY\n",
    "an unclosed quote": f'1,"{WORD},2020-01-01\n',
    "a stray quote": f'1,x"{WORD},2020-01-01\n',
    "a bad byte": f"1,\xff{WORD},2020-01-01\n",
    "a NUL": f"1\x00{WORD},a,2020-01-01\n",
    "a rare category": f"1,{WORD},2020-01-01\n",
    "an outlier": f"{NUMBER},{WORD},2020-01-01\n",
}
OPTIONS = {
    "inferred": (),
    "declared": (
        *("--domain", "n=0:9", "--domain", "s=a|b", "--domain", "d=2020-01-01:2020-01-31"),
        *("--type", "n=int64", "--type", "s=string", "--type", "d=date"),
    ),
    "decimals": ("--type", "n=decimal(4, 2)", "--type", "s=bool", "--type", "d=timestamp[s]"),
    "other types": ("--type", "n=uint8", "--type", "s=time", "--type", "d=float32"),
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("fault", CSVS)
@pytest.mark.parametrize("first", [True, False])
def test_a_faulty_csv_tells_no_cell(fault: str, options: str, first: bool, tmp_path: Path, ppdm: Run) -> None:
    rows = CSVS[fault] + ROWS if first else ROWS + CSVS[fault]
    (tmp_path / "in.csv").write_bytes(b"n,s,d\n" + rows.encode("latin-1"))
    args = ("perturb", "in.csv", "-o", "r.csv", "--gamma", "9", *OPTIONS[options])
    expected_code: Any = Anything()
    done = ppdm(*args, code=expected_code)
    assert not seen(done.stdout + done.stderr), done.stderr
    assert b"inside ppdm" not in done.stderr
    if expected_code.code:
        assert set(listing(tmp_path)) == {"in.csv"}


def frame(**columns: Any) -> pl.DataFrame:
    return people(400).select("age", "region").with_columns(**columns)


def once(value: Any, otherwise: Any) -> pl.Expr:
    rest = otherwise if isinstance(otherwise, pl.Expr) else pl.lit(otherwise)
    return pl.when(pl.int_range(pl.len()) == 200).then(pl.lit(value)).otherwise(rest)


TABLES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "a rare category": (lambda: frame(s=once(WORD, "x")), {}),
    "a rare category merged": (lambda: frame(s=once(WORD, pl.col("region"))), {"rare": "merge"}),
    "a rare number merged": (lambda: frame(n=once(NUMBER, pl.col("age") % 5)), {"rare": "merge"}),
    "an outlier": (lambda: frame(n=once(NUMBER, pl.col("age"))), {"attributes": {"n": {"domain": [0, 120]}}}),
    "an outlier clipped": (
        lambda: frame(n=once(NUMBER, pl.col("age"))),
        {"attributes": {"n": {"domain": [0, 120]}}, "clip": True},
    ),
    "an outlier in bins from the data": (lambda: frame(n=once(NUMBER, pl.col("age"))), {}),
    "a float in bins from the data": (lambda: frame(n=once(float(NUMBER), pl.col("age") * 1.5)), {}),
    "an infinite neighbour": (lambda: frame(n=pl.lit(float(NUMBER)), m=once(float("inf"), 1.0)), {}),
    "an unknown category": (
        lambda: frame(s=once(WORD, "x")),
        {"attributes": {"s": {"categories": ["x", "y"]}}},
    ),
    "a dropped column": (lambda: frame(s=pl.lit(WORD), n=pl.lit(NUMBER)), {"drop": ["s", "n"]}),
    "identifiers": (
        lambda: frame(s=pl.lit(WORD) + pl.int_range(pl.len()).cast(pl.String)),
        {"id": "s", "key_file": "k.key"},
    ),
    "repeated identifiers": (lambda: frame(s=pl.lit(WORD)), {"id": "s", "key_file": "k.key"}),
    "more values than can be": (
        lambda: pl.DataFrame({"s": [f"{WORD}{i}" for i in range(70_000)]}),
        {},
    ),
    "a constant": (lambda: frame(s=pl.lit(WORD)), {}),
    "a nested column": (lambda: frame(s=pl.lit([WORD])), {}),
    "a binary column": (lambda: frame(s=pl.lit(WORD.encode())), {}),
    "bad UTF-8": (lambda: badly_encoded(), {}),
    "unused labels": (lambda: labelled([0, 1]), {"keep": ["kept"], "keep_order": True}),
    "labels under nulls": (lambda: labelled([0, None]), {"keep": ["kept"], "keep_order": True}),
    "values under nulls": (lambda: masked(), {"keep": ["n", "f", "s"]}),
    "values under nulls, perturbed": (lambda: masked(), {}),
    "metadata": (lambda: noted(), {"keep": ["region"]}),
    "text of a wrong type": (lambda: frame(s=pl.lit(WORD)), {"attributes": {"s": {"domain": [0, 9]}}}),
    "a sorted column": (lambda: frame(n=NUMBER + pl.int_range(pl.len())).sort("n"), {}),
}


def badly_encoded() -> pa.Table:
    data = (b"\xff" + WORD.encode()) * 400
    ends = np.arange(401, dtype=np.int32) * (1 + len(WORD))
    column = pa.Array.from_buffers(pa.string(), 400, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return pa.table({"s": column})


def labelled(indices: list[int | None]) -> pa.Table:
    data = np.array([2 if i is None else i for i in indices * 200], np.int8)
    valid = np.array([i is not None for i in indices * 200])
    mask = pa.array(valid).buffers()[1]
    codes = pa.Array.from_buffers(pa.int8(), 400, [mask, pa.py_buffer(data)])
    column = pa.DictionaryArray.from_arrays(codes, pa.array(["x", "y", WORD]))
    return pa.table({"kept": column, "perturbed": column})


def masked() -> pa.Table:
    hidden = np.arange(400) % 3 == 0
    numbers = pa.array(np.where(hidden, NUMBER, np.arange(400) % 7), mask=hidden)
    floats = pa.array(np.where(hidden, float(NUMBER), np.arange(400) % 5), mask=hidden)
    texts = pa.array([WORD if h else "x" for h in hidden])
    valid = pa.array(~hidden).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 400, [valid, *texts.buffers()[1:]])
    free = np.random.default_rng(1).permutation(400)
    return pa.table({"n": numbers, "f": floats, "s": texts, "age": free}).take(pa.array(free))


def noted() -> pa.Table:
    table = people(400).select("age", "region").to_arrow()
    return table.replace_schema_metadata({"pandas": WORD, WORD: "x"})


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("source", ["parquet", "memory"])
@pytest.mark.parametrize("what", TABLES)
def test_a_private_value_is_in_no_output_and_no_message(
    what: str,
    source: str,
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    make, wishes = TABLES[what]
    table = make()
    monkeypatch.chdir(tmp_path)
    if source == "parquet":
        pq.write_table(table if isinstance(table, pa.Table) else table.to_arrow(), "in.parquet")
        table = "in.parquet"
    message = ""
    try:
        said = perturb(table, f"r.{suffix}", gamma=9, **wishes)
        if source == "memory":
            frame = perturb(table, gamma=9, **wishes).frame
            frame.write_ipc("frame.arrow", compression="uncompressed", compat_level=pl.CompatLevel.oldest())
        message = repr(said)
    except Exception as error:
        assert type(error).__module__ == "ppdm_cli.errors", repr(error)
        message = repr(error)
        assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__), "no chain"
    out, err = capfd.readouterr()
    assert not seen((message + out + err).encode()), message
    for name, content in listing(tmp_path).items():
        assert name == "in.parquet" or not seen(content), name


def test_neither_seed_nor_key_is_in_any_output(tmp_path: Path, ppdm: Run) -> None:
    people(400).with_row_index("id").write_csv(tmp_path / "in.csv")
    (tmp_path / "k.key").write_text(WORD.encode().hex().ljust(64, "a"))
    (tmp_path / "k.key").chmod(0o600)
    key = bytes.fromhex((tmp_path / "k.key").read_text())
    for suffix in ("csv", "arrow", "parquet"):
        for options in (("--key-file", "k.key", "--id", "id"), ("--seed", str(NUMBER), "--drop", "id")):
            done = ppdm("perturb", "in.csv", "-o", f"r.{suffix}", "--gamma", "9", "--force", *options)
            done = ppdm("inspect", f"r.{suffix}", "--json")
            for name, content in listing(tmp_path).items():
                if name.startswith("r."):
                    assert not seen(content) and key not in content and key.hex().encode() not in content
            assert not seen(done.stdout + done.stderr) and key.hex().encode() not in done.stdout

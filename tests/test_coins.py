"""The randomness: coins are what they are said to be, and a function of all that decides an answer.

Blocks are recomputed with `cryptography` alone. The same key and identifiers give the same release
whatever the threads, partitions and order of rows; anything else gives other coins; and the key is
in nothing that is written.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import struct
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import perturb, running
from ppdm_cli.coins import CELLS, Coins, Key, identifier_addresses, key_from_file, uniform_cells
from ppdm_cli.errors import PpdmError
from ppdm_cli.tables import base
from tests.chances import LEVEL, chi_square, independent
from tests.strategies import texts

KEY = bytes(range(32))
PLAN: dict[str, Any] = {
    "gamma": 5,
    "keep": ["kept"],
    "attributes": {
        "age": {"domain": [0, 120], "bins": 24, "representative": "random"},
        "level": {"domain": [0, 4], "gamma": 2},
        "town": {"categories": ["here", "there", "elsewhere"], "nulls": True},
    },
}


def people(rows: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    town = rng.choice(np.array(["here", "there", "elsewhere"]), rows)
    return pl.DataFrame(
        {
            "id": [f"person {i}" for i in range(rows)],
            "age": rng.uniform(0, 120, rows),
            "level": rng.integers(0, 5, rows),
            "town": [None if lost else str(t) for lost, t in zip(rng.random(rows) < 0.15, town, strict=True)],
            "kept": rng.integers(0, 2**60, rows),
        }
    )


def aes(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


@given(
    st.binary(min_size=32, max_size=32),
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**16)), min_size=1, max_size=30),
    st.integers(0, 2**31),
)
def test_coins_are_aes_of_address_code_and_retry(key: bytes, cells: list[tuple[int, int]], retry: int) -> None:
    addresses = np.array([a for a, _ in cells], np.uint64)
    codes = np.array([c for _, c in cells], np.uint32)
    words = Coins(key).words(addresses, codes, retry)
    assert words.shape == (len(cells), 4)
    for row, (address, code) in zip(words, cells, strict=True):
        assert row.astype("<u4").tobytes() == aes(key, struct.pack("<QII", address, code, retry))


def test_keys_are_keyed_blake2b_of_an_unambiguous_text() -> None:
    key = Key(KEY, "system")
    parts = ("age", "double", [0, 1.5], None, True, {"kind": "gamma-diagonal", "gamma": 9})
    text = json.dumps(["perturb", *parts], separators=(",", ":")).encode()
    assert key.derive("perturb", *parts) == hashlib.blake2b(text, key=KEY, digest_size=32).digest()
    assert key.derive("perturb", "ab", "c") != key.derive("perturb", "a", "bc")
    assert key.derive("perturb", '","') != key.derive("perturb", "", "")
    assert key.derive("perturb", "1") != key.derive("perturb", 1)


def test_a_long_column_is_drawn_as_its_cells_are() -> None:
    rows = 2 * CELLS + 5
    codes = (np.arange(rows) % 7).astype(np.uint8)
    addresses = np.arange(rows, dtype=np.uint64)
    drawn = uniform_cells(Coins(KEY), addresses, codes)
    for i in (0, CELLS - 1, CELLS, 2 * CELLS, rows - 1):
        first = struct.unpack("<Q", aes(KEY, struct.pack("<QII", i, i % 7, 0))[:8])[0]
        assert drawn[i] == (first >> 11) / 2**53
    assert chi_square(np.histogram(drawn, 100, (0, 1))[0], np.ones(100)) > LEVEL


@given(st.lists(texts | st.text(min_size=30, max_size=80), min_size=1, max_size=20), st.integers(0, 5))
def test_an_identifiers_address_is_a_keyed_function_of_its_text(listed: list[str], offset: int) -> None:
    array = pa.array(["left out"] * offset + listed, pa.string()).slice(offset)
    found = identifier_addresses(Key(KEY, "system"), array)
    cipher = Key(KEY, "system").derive("identifier")
    for text, address in zip(listed, found.tolist(), strict=True):
        data = text.encode()
        state = aes(cipher, struct.pack("<QQ", len(data), 0))
        for start in range(0, len(data), 16):
            block = data[start : start + 16].ljust(16, b"\0")
            state = aes(cipher, bytes(x ^ y for x, y in zip(state, block, strict=True)))
        assert address == struct.unpack("<Q", state[:8])[0]
    assert len(set(found.tolist())) == len(set(listed))


def answers(columns: dict[str, Any], seed: int = 1, **settings: Any) -> pl.DataFrame:
    return perturb(pl.DataFrame(columns), seed=seed, keep_order=True, **settings).frame


BASE: dict[str, Any] = {"gamma": 3, "attributes": {"x": {"domain": "a|b|c|d"}}}


@pytest.mark.parametrize(
    ("what", "name", "change"),
    [
        ("another attribute", "y", {"attributes": {"y": {"domain": "a|b|c|d"}}}),
        ("another gamma", "x", {"gamma": "3.00001"}),
        ("another domain", "x", {"attributes": {"x": {"domain": "a|b|c|d|e"}}}),
        ("nulls as well", "x", {"attributes": {"x": {"domain": "a|b|c|d", "nulls": True}}}),
        ("another key", "x", {"seed": 2}),
    ],
)
def test_whatever_decides_an_answer_has_coins_of_its_own(what: str, name: str, change: dict[str, Any]) -> None:
    rows = 40_000
    true = ["a"] * rows  # for one true value, answers from independent coins are independent
    one = answers({"x": true}, **BASE)["x"]
    other = answers({name: true}, **(BASE | change))[name].fill_null("null")
    table = pl.DataFrame({"one": one, "other": other}).pivot(
        "other", index="one", aggregate_function="len", values="other"
    )
    assert independent(table.drop("one").fill_null(0).to_numpy()) > LEVEL, what


def test_rows_and_true_codes_have_coins_of_their_own() -> None:
    rows = 200_000
    same = answers({"x": ["a"] * rows}, **BASE)["x"]
    codes = same.replace_strict({"a": 0, "b": 1, "c": 2, "d": 3}).to_numpy()
    for lag in (1, 2, 1024, CELLS):
        pairs = np.bincount(4 * codes[lag:] + codes[:-lag], minlength=16).reshape(4, 4)
        assert independent(pairs) > LEVEL
    other = answers({"x": ["b"] * rows}, **BASE)["x"].replace_strict({"a": 0, "b": 1, "c": 2, "d": 3})
    assert independent(np.bincount(4 * codes + other.to_numpy(), minlength=16).reshape(4, 4)) > LEVEL


def pieces(frame: pl.DataFrame, rows: int) -> pa.Table:
    """The same table in chunks of so many rows."""
    return pa.Table.from_batches(frame.to_arrow().combine_chunks().to_batches(max_chunksize=rows))


@pytest.mark.parametrize("shuffle", [False, True])
def test_threads_and_partitions_do_not_show(monkeypatch: pytest.MonkeyPatch, shuffle: bool) -> None:
    data = people(9_000).drop("id")
    asked = PLAN | {"seed": 4, "shuffle": shuffle}
    with running(threads=1):
        whole = perturb(data, **asked)
    for threads, rows, cells in (
        (1, 1500, 1 << 22),
        (2, 1024, 1 << 22),
        (3, 1 << 18, 5000),
        (3, 4096, 1 << 22),
    ):
        monkeypatch.setattr(base, "MOST_ROWS", rows)
        monkeypatch.setattr(base, "MOST_CELLS", cells)
        monkeypatch.setattr(base, "WIDE_ROWS", 1)
        for source in (data, pieces(data, 700)):
            with running(threads=threads):
                again = perturb(source, **asked)
            assert again.frame.equals(whole.frame)
            assert again.sidecar.encode() == whole.sidecar.encode()


def test_with_identifiers_the_order_and_newcomers_change_nobodys_answer(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    data = people(3_000)
    asked = PLAN | {"key_file": key_file, "id": "id", "keep": ["id", "kept"]}
    first = perturb(data, **asked).frame
    rng = np.random.default_rng(1)
    more = people(4_000, seed=9).tail(1_000)
    for changed in (data.reverse(), data[rng.permutation(3_000)], pl.concat([more, data]), data.head(1_500)):
        mixed = changed[rng.permutation(changed.height)]
        again = perturb(mixed, **asked).frame
        both = first.join(again, on="id", suffix=" again")
        assert both.height == min(3_000, changed.height)
        for name in ("age", "level", "town", "kept"):
            assert both[name].equals(both[f"{name} again"], null_equal=True), name


def test_an_identifier_is_its_text_whatever_its_type(tmp_path: Path) -> None:
    data = people(1_000).with_columns(id=pl.int_range(1_000))
    asked = PLAN | {"key_file": tmp_path / "key", "id": "id"}
    as_text = perturb(data.with_columns(pl.col("id").cast(pl.String)), **asked).frame
    assert perturb(data, **asked).frame.equals(as_text)


def test_without_a_key_two_runs_differ() -> None:
    data = people(2_000).drop("id")
    one, two = perturb(data, **PLAN), perturb(data, **PLAN)
    assert one.sidecar.release != two.sidecar.release
    for name in ("age", "level", "town"):
        assert not one.frame[name].equals(two.frame[name])


def written_forms(secret: bytes) -> list[bytes]:
    """The ways in which a key could lie in a file; base64 at its three alignments."""
    hexadecimal = secret.hex().encode()
    coded = [encode(b"\0" * i + secret)[-(-8 * i // 6) : -4] for i in range(3) for encode in _BASE64]
    return [secret, secret[::-1], hexadecimal, hexadecimal.upper(), repr(secret).encode()[2:-1], *coded]


_BASE64 = (base64.b64encode, base64.urlsafe_b64encode)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("with_file", [False, True])
def test_the_key_is_in_nothing_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, suffix: str, shuffle: bool, with_file: bool
) -> None:
    derived = []
    derive = Key.derive
    monkeypatch.setattr(secrets, "token_bytes", lambda n: KEY[:n])
    monkeypatch.setattr(Key, "derive", lambda *args: derived.append(derive(*args)) or derived[-1])
    key_file, out = tmp_path / "key", tmp_path / f"out.{suffix}"
    asked = PLAN | ({"key_file": key_file, "id": "id"} if with_file else {"drop": ["id"]})
    release = perturb(people(3_000), out, shuffle=shuffle, **asked)
    if with_file:
        assert key_file.read_text() == KEY.hex() + "\n"
        assert key_file.stat().st_mode & 0o777 == 0o600
        key_file.unlink()
    assert sorted(f.name for f in tmp_path.iterdir()) == [out.name, f"{out.name}.ppdm.json"]
    everything = [f.read_bytes() for f in tmp_path.iterdir()]
    everything += [repr(release).encode(), *(part.encode() for part in capfd.readouterr())]
    assert len(derived) >= 6
    for secret in (KEY, *set(derived)):
        for form in written_forms(secret):
            assert not any(form in data for data in everything)


def test_a_key_does_not_show_itself(tmp_path: Path) -> None:
    key = Key(KEY, "system")
    for form in written_forms(KEY):
        assert form not in repr(key).encode()
    broken = tmp_path / "key"
    broken.write_text(KEY.hex()[:-1] + "g")
    broken.chmod(0o600)
    with pytest.raises(PpdmError) as error:
        key_from_file(broken)
    assert KEY.hex()[:8] not in str(error.value)

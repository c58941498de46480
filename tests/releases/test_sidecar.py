"""The sidecar as a contract: it survives every round trip, and whatever is no sidecar is refused.

A sidecar may come from anyone, so a broken one gives one clear error: never another exception, and
never memory out of proportion to its bytes.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppdm_cli import perturb
from ppdm_cli.errors import MismatchError, PpdmError
from ppdm_cli.releases import decode, inspection, open_release
from ppdm_cli.sidecar import LARGEST_SIDECAR, Sidecar, json_schema
from tests.strategies import sidecars
from tests.vocabulary import people

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
SCHEMA = json.loads(json_schema())
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["", "1E+99999999", "1E+999990", "NaN", "9999-99-99", "inf", "decimal128(18, 18)", "int8"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WHOLE = perturb(
    people(),
    gamma=9,
    keep=["group"],
    class_="group",
    attributes={"income": {"domain": [0, 1000000]}, "since": {"bins": 5}},
).sidecar


def read(data: bytes) -> Sidecar | None:
    """What `decode` makes of bytes: a usable sidecar, or None where it is refused as it should be."""
    try:
        sidecar = decode(data, "x.ppdm.json")
    except MismatchError as error:
        assert "\n" not in str(error) and len(str(error)) < 2000
        return None
    inspection.promise_figures(sidecar)  # what is accepted can be shown ...
    inspection.sentences(sidecar)
    for attribute in sidecar.perturbed:
        assert attribute.domain.size == attribute.N  # ... and used
    assert decode(sidecar.encode(), "again") == sidecar
    return sidecar


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(sidecar=sidecars())
def test_a_valid_sidecar_survives_a_round_trip_and_fits_the_schema(sidecar: Sidecar) -> None:
    data = sidecar.encode()
    assert read(data) == sidecar
    assert decode(data, "x").encode() == data, "the bytes are canonical"
    jsonschema.validate(json.loads(data), SCHEMA)


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = resources.files("ppdm_cli").joinpath("sidecar.schema.json").read_bytes()
    assert shipped == json_schema()
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    good = json.loads(WHOLE.encode())
    jsonschema.validate(good, SCHEMA)
    for change in (
        {"format": "other"},
        {"version": 2},
        {"stage": "nosuch"},
        {"records": -1},
        {"blake2b": "xyz"},
        {"surplus": 1},
        {"attributes": [{"name": "x"}]},
        {"attributes": [good["attributes"][0] | {"N": 10**6}]},
        {"privacy": good["privacy"] | {"key": "secret"}},
    ):
        assert read(json.dumps(good | change).encode()) is None, change
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(good | change, SCHEMA)


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), sidecar=st.just(WHOLE) | sidecars())
def test_random_bytes_changed_are_still_valid_or_refused(data: st.DataObject, sidecar: Sidecar) -> None:
    broken = bytearray(sidecar.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(broken) - 1))
        cut = data.draw(st.integers(0, 3))
        broken[place : place + cut] = data.draw(st.binary(max_size=3))
        if not broken:
            break
    read(bytes(broken))


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a JSON tree."""
    inner: list[Any] = []
    if isinstance(tree, dict):
        inner = list(tree.items())
    elif isinstance(tree, list):
        inner = list(enumerate(tree))
    return [path, *(p for key, value in inner for p in places(value, (*path, key)))]


@settings(max_examples=300, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), sidecar=st.just(WHOLE) | sidecars())
def test_random_fields_changed_are_still_valid_or_refused(data: st.DataObject, sidecar: Sidecar) -> None:
    tree = json.loads(sidecar.encode())
    *path, last = data.draw(st.sampled_from(places(tree)[1:]))
    inside = tree
    for key in path:
        inside = inside[key]
    what = data.draw(st.sampled_from(["remove", "replace", "add", "huge", "long", "repeat"]))
    if what == "remove":
        del inside[last]
    elif what == "replace":
        inside[last] = data.draw(JSON)
    elif what == "huge":
        inside[last] = data.draw(st.sampled_from([2**31, 2**63, 2**64, 10**30, 1e308, -1e308, -1, 0]))
    elif what == "long":
        inside[last] = [0] * 70_000
    elif isinstance(inside, list):
        inside.append(inside[last] if what == "repeat" else data.draw(JSON))
    else:
        inside[data.draw(st.text(max_size=6))] = data.draw(JSON)
    read(json.dumps(tree).encode())


def test_no_number_in_a_sidecar_decides_how_much_is_allocated() -> None:
    good = json.loads(WHOLE.encode())
    first, channel = good["attributes"][0], good["recipes"][0]["channels"][0]
    hostile = [
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b'{"format":"ppdm-sidecar","version":1,"attributes":' + b"[" * 500_000,
        json.dumps(good | {"records": 10**4000}).encode(),
        json.dumps(good | {"attributes": [first | {"N": 2**40}]}).encode(),
        json.dumps(good | {"recipes": [{"channels": [channel | {"gamma": 10**300}]}]}).encode(),
        json.dumps(good | {"attributes": [first | {"edges": [0, 1e308, 1.7e308]}]}).encode(),
    ]
    decimal = first | {"dtype": "decimal128(5, 2)", "edges": ["0", "1E+9999999", "2E+99999999"]}
    hostile.append(json.dumps(good | {"attributes": [decimal]}).encode())
    for data in hostile:
        tracemalloc.start()
        began = time.monotonic()
        assert read(data) is None, data[:80]
        took, peak = time.monotonic() - began, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert took < 2 and peak < 20 * len(data) + (1 << 20), (data[:80], took, peak)
    assert read(b" " * (LARGEST_SIDECAR + 1)) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "another major version"),
        ({"version": "1"}, "another major version"),
        ({"format": "frictionless"}, "does not say"),
        ({"privacy": None}, "privacy"),
        ({"class": "nosuch"}, "class is not among"),
        ({"release": "not-a-uuid"}, "UUID"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], said: str) -> None:
    with pytest.raises(MismatchError, match=said):
        decode(json.dumps(json.loads(WHOLE.encode()) | change).encode(), "x")


def test_a_promise_better_than_the_matrices_is_refused() -> None:
    good = json.loads(WHOLE.encode())
    for change in (
        {"perturbed_gamma": 2},
        {"perturbed_gamma": -19},
        {"perturbed_epsilon": 0.5},
        {"perturbed_gamma": None},
        {"perturbed_epsilon": None},
        {"kept": []},
        {"coins": "seeded"},
    ):
        assert read(json.dumps(good | {"privacy": good["privacy"] | change}).encode()) is None, change
    assert read(json.dumps(good | {"privacy": good["privacy"] | {"perturbed_gamma": "inf"}}).encode())


def test_the_sidecar_is_mirrored_in_the_data_and_must_agree(tmp_path: Path) -> None:
    for suffix in ("parquet", "arrow"):
        out = tmp_path / f"r.{suffix}"
        beside = tmp_path / f"r.{suffix}.ppdm.json"
        made = perturb(people(), out, gamma=9)
        assert open_release(out)[1] == made.sidecar
        kept = beside.read_bytes()
        beside.unlink()
        assert open_release(out)[1] == made.sidecar, "a lost sidecar is still in the file"
        beside.write_bytes(kept.replace(b'"tool": "ppdm ', b'"tool": "ppdm 0.'))
        with pytest.raises(MismatchError, match="differs from the one inside"):
            open_release(out)
        perturb(people(), tmp_path / f"other.{suffix}", gamma=9)
        with pytest.raises(MismatchError, match="differs from the one inside"):
            open_release(out, tmp_path / f"other.{suffix}.ppdm.json")


def test_a_changed_csv_does_not_fit_its_sidecar(tmp_path: Path) -> None:
    out, beside = tmp_path / "r.csv", tmp_path / "r.csv.ppdm.json"
    perturb(people(), out, gamma=9)
    open_release(out)
    whole, said = out.read_bytes(), beside.read_bytes()
    for changed in (whole[:-1], whole + b"\n", whole.replace(b"north", b"south", 1)):
        out.write_bytes(changed)
        with pytest.raises(MismatchError, match="was changed after it was published"):
            open_release(out)
    plain = json.loads(said)
    del plain["blake2b"]
    beside.write_text(json.dumps(plain))
    for changed in (whole.replace(b"age", b"aged", 1), whole.replace(b",group", b"", 1)):
        out.write_bytes(changed)
        with pytest.raises(MismatchError, match="columns"):
            open_release(out)
    out.write_bytes(whole)
    beside.unlink()
    with pytest.raises(MismatchError, match="no sidecar"):
        open_release(out)
    beside.write_bytes(said)
    out.unlink()
    with pytest.raises(PpdmError, match="does not exist"):
        open_release(out)

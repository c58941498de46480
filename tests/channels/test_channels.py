"""What every kind of channel must do, whichever it is: the law, its inverse, its promise, its words.

A kind that a test adds, in one file, goes through the same and works in every command.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli.channels import DEFAULT_KIND, FIGURES, KINDS, Request, Spec, Substitution, register_kind
from ppdm_cli.channels.additive import Sd
from ppdm_cli.channels.base import GammaSpec
from ppdm_cli.domain import Bins, Categories, Domain
from ppdm_cli.sidecar import Attribute
from tests.chances import LEVEL, chi_square
from tests.channels.dummy_kind import LeaningSpec
from tests.experiments.house import ROOT, modules
from tests.vocabulary import Run, people

SIDECARS = ROOT / "docs" / "reference" / "sidecar.md"
DOMAINS: dict[str, Domain] = {
    "bins": Bins(pa.float64(), np.linspace(0, 100, 13).tolist(), False),
    "numbers": Categories(pa.int64(), list(range(7)), False),
    "with null": Categories(pa.int16(), list(range(0, 50, 10)), True),
}
DOMAINS["two"] = Categories(pa.string(), ["no", "yes"], False)
IMPOSSIBLE = [("additive", "with null"), *((k, "two") for k in ("additive", "band", "block", "leaning"))]
IMPOSSIBLE += [("binary", d) for d in DOMAINS if d != "two"]


def table(N: int, shift: float) -> list[list[Decimal]]:
    """A matrix by column, of nine decimals, with a zero: N = 2 has none."""
    rng = np.random.default_rng(N)
    entries = np.eye(N) * (2 + shift) + rng.random((N, N))
    entries[0, 1] *= N == 2
    whole = np.floor(entries / entries.sum(axis=0) * 10**9)
    whole[-1] += 10**9 - whole.sum(axis=0)
    return [[Decimal(int(w)) / 10**9 for w in column] for column in whole.T]


def requested(kind: str, domain: Domain, shift: float = 0.0) -> dict[str, Any]:
    """What an owner asks of a kind besides gamma; `shift` makes it another law."""
    labels = [*domain.labels()[: domain.ordinary], *[""] * domain.nulls]
    every: dict[str, dict[str, Any]] = {
        "additive": {"noise": "normal", "sd": Sd(0.08 + shift / 100, True)},
        "band": {"half_width": 1},
        "box": {"half_width": int(domain.ordered > 0)},
        "binary": {"flips": [round(0.1 + shift / 50, 6), 0.25]},
        "symmetric": {"each": round(0.05 + shift / 50, 6)},
        "block": {"blocks": (tuple(domain.labels()[::2]), tuple(domain.labels()[1::2]))},
        "dense": {
            "table": {
                (h, k): entry
                for k, column in zip(labels, table(len(labels), shift), strict=True)
                for h, entry in zip(labels, column, strict=True)
            }
        },
    }
    return every.get(kind, {})


@pytest.fixture(autouse=True, scope="module")
def only_here() -> Iterator[None]:
    """The kind that these tests add is no other test's."""
    register_kind(LeaningSpec)
    yield
    del KINDS[LeaningSpec.kind]


def made(kind: str, domain: Domain, gamma: int = 9, shift: float = 0.0) -> tuple[Spec, Any]:
    spec, beyond = KINDS[kind].asked("x", domain, Request(Decimal(gamma), requested(kind, domain, shift)))
    return spec, beyond


def cases() -> list[Any]:
    names = ["additive", "band", "binary", "block", "box", "dense", "gamma-diagonal", "leaning", "symmetric"]
    return [pytest.param(k, d, id=f"{k}, {d}") for k, d in product(names, DOMAINS) if (k, d) not in IMPOSSIBLE]


every = pytest.mark.parametrize(("kind", "domain"), cases())


def test_every_kind_is_tried_here() -> None:
    assert {c.values[0] for c in cases()} == set(KINDS)


@every
def test_the_products_are_those_of_the_matrix(kind: str, domain: str) -> None:
    matrix = made(kind, DOMAINS[domain])[0].matrix(DOMAINS[domain])
    M = matrix.dense()
    assert M.shape == (matrix.outputs, matrix.inputs) and (M >= 0).all()
    np.testing.assert_allclose(M.sum(axis=0), 1, atol=1e-12)
    rng = np.random.default_rng(1)
    for axis in (0, 1, 2):
        shape = [3, 4, 5]
        shape[axis] = matrix.inputs
        x = rng.random(shape)
        y = np.moveaxis(np.tensordot(M, x, (1, axis)), 0, axis)
        np.testing.assert_allclose(matrix.forward(x, axis), y, rtol=1e-9)
        np.testing.assert_allclose(matrix.solve(y, axis), x, atol=1e-6)
        back = np.moveaxis(np.tensordot(M.T, y, (1, axis)), 0, axis)
        np.testing.assert_allclose(matrix.backward(y, axis), back, rtol=1e-9)
    A = matrix.solve(np.eye(matrix.outputs))
    np.testing.assert_allclose(A @ M, np.eye(matrix.inputs), atol=1e-6)
    np.testing.assert_allclose(A.sum(axis=0), 1, atol=1e-6)
    for power in (2, 3):
        found = matrix.solve_power(np.eye(matrix.outputs), power)
        np.testing.assert_allclose(found, A**power, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(matrix.own_variance(), np.einsum("ih,hi->i", A**2, M), rtol=1e-6)
    u = rng.random(matrix.inputs)
    np.testing.assert_allclose(M.T @ matrix.scores(u), u, atol=1e-6)


@every
def test_the_promise_is_what_the_matrix_gives(kind: str, domain: str) -> None:
    spec, beyond = made(kind, DOMAINS[domain])
    matrix = spec.matrix(DOMAINS[domain])
    M = matrix.dense()
    if np.isfinite(matrix.amplification):
        assert (M.max(axis=1) / M.min(axis=1)).max() == pytest.approx(matrix.amplification)
    else:
        assert (M.min(axis=1) < 1e-9 * M.max(axis=1)).any()
    columns = np.arange(matrix.inputs)
    np.testing.assert_allclose(matrix.stays(), M[matrix.unchanged, columns], rtol=1e-9)
    assert matrix.staying == pytest.approx(matrix.stays()[: DOMAINS[domain].ordinary].mean(), rel=0.25)
    assert spec.published(DOMAINS[domain], matrix, beyond).size == matrix.outputs
    bits = -(M * np.log2(np.where(M > 0, M, 1))).sum(axis=0)
    assert matrix.entropy() == pytest.approx(bits.mean(), rel=1e-6)
    prior = np.arange(1, matrix.inputs + 1) / np.arange(1, matrix.inputs + 1).sum()
    assert matrix.entropy(prior) == pytest.approx(bits @ prior, rel=1e-6)
    assert matrix.candidates == (M > 0).sum(axis=1).min()
    if matrix.own_outputs is not None:  # around: what gamma is for, at the odds that it promises
        h, k = np.divmod(np.arange(M.size), matrix.inputs)
        inside = np.where(matrix.around(k, h), M[h, k], 0).reshape(M.shape).sum(axis=0)
        own, others = matrix.own_outputs
        gamma = matrix.amplification
        np.testing.assert_allclose(inside, own * gamma / (own * gamma + others), rtol=1e-9)


def drawn(matrix: Substitution, codes: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)

    def blocks(retry: int, rows: np.ndarray | None = None) -> np.ndarray:
        return rng.integers(0, 1 << 32, (len(codes) if rows is None else len(rows), 4), dtype=np.uint32)

    out = np.empty(len(codes), np.uint16)
    matrix.sample(codes, blocks, out)
    return out


@every
def test_the_law_of_the_sampler_is_the_matrix(kind: str, domain: str) -> None:
    """At level `LEVEL`; a gamma that is 5 % off is rejected."""
    if KINDS[kind].everywhere:
        return  # numbers: their law is tested in test_additive
    gamma = 20
    matrix = made(kind, DOMAINS[domain], gamma)[0].matrix(DOMAINS[domain])
    wrong = made(kind, DOMAINS[domain], gamma + 1, 0.1)[0].matrix(DOMAINS[domain])
    assert isinstance(matrix, Substitution)
    codes = np.repeat(np.arange(matrix.inputs, dtype=np.uint8), 600_000)
    found = drawn(matrix, codes, 5)
    counts = np.bincount(found.astype(np.int64) * matrix.inputs + codes, minlength=matrix.dense().size)
    counts = counts.reshape(matrix.dense().shape)
    possible = matrix.dense() > 0
    assert (counts[~possible] == 0).all(), "never what the matrix rules out"
    assert chi_square(counts[possible], matrix.dense()[possible], matrix.inputs) > LEVEL
    assert chi_square(counts[possible], wrong.dense()[possible], matrix.inputs) < LEVEL


@every
def test_it_is_said_what_it_is(kind: str, domain: str) -> None:
    spec, _beyond = made(kind, DOMAINS[domain])
    attribute = Attribute(name="x", role="kept", type="discrete", dtype="string")
    assert spec.about.endswith(".") and spec.described() and spec.short() and attribute.name in spec.attributes
    matrix = spec.matrix(DOMAINS[domain])
    figures = spec.figures(matrix, DOMAINS[domain])
    assert set(figures) <= set(FIGURES)
    differs = made(kind, DOMAINS[domain], 10, 1.0)[0]
    assert differs.decides != spec.decides, "other laws have other coins"
    if kind != LeaningSpec.kind:
        assert spec.about in SIDECARS.read_text(), "the page on sidecars has every kind"


def test_nothing_outside_asks_which_kind_a_channel_is() -> None:
    classes = {c.__name__ for k in KINDS.values() for c in (k, k.__mro__[0])}
    classes |= {"GammaDiagonal", "Band", "Additive", "Noisy", "Substitution"}
    for name, tree in modules(ROOT).items():
        path = name.removeprefix("ppdm_cli/")
        if path.startswith("channels/"):
            continue
        for node in ast.walk(tree):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node.value == "dense" and where.startswith(("perturbing/row_order", "planning/advice")):
                    continue  # the word of pyarrow and polars for ranks without gaps
                assert node.value not in KINDS, f"{where} names a kind"
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                asked = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                assert not asked & classes, f"{where} asks for a kind"


def test_a_kind_of_ones_own_works_in_every_command(ppdm: Run, tmp_path: Path) -> None:
    people(3000).write_parquet(tmp_path / "o.parquet")

    def said(*arguments: str) -> str:
        done = ppdm(*arguments)
        return (done.stdout + done.stderr).decode()

    asked = ("--matrix", "leaning", "--gamma", "9", "--class", "group", "--keep", "group", "--rare", "publish")
    assert "leaning" in said("perturb", "o.parquet", "-o", "r.parquet", *asked, "--keep-order")
    assert '"kind":"leaning"' in (tmp_path / "r.parquet.ppdm.json").read_text()
    assert "leaning" in said("inspect", "r.parquet")
    assert "region" in said("estimate", "r.parquet", "--attribute", "region", "--by", "group")
    ppdm("reconstruct", "r.parquet", "-o", "u.parquet")
    assert pl.read_parquet(tmp_path / "u.parquet").height == 3000
    ppdm("train-tree", "r.parquet", "-o", "t.json")
    ppdm("predict", "t.json", "o.parquet", "-o", "p.csv")
    assert "income" in said("entropy", "r.parquet")
    assert "of max" in said("entropy", "--matrix", "leaning", "--gamma", "9", "--bins", "5,10")
    assert "rejected" not in said("attack", "r.parquet", "--truth", "o.parquet")
    ppdm("perturb", "o.parquet", "-o", "r2.parquet", "--like", "r.parquet", "--keep-order")
    ppdm("estimate", "r.parquet", "r2.parquet", "--attribute", "region")


def test_a_kind_that_leaves_something_open_is_not_registered() -> None:
    class Half(GammaSpec, frozen=True, tag="half", tag_field="kind", kw_only=True):
        about = "It has no law."

    with pytest.raises(TypeError, match="Half lacks asked, described, matrix"):
        register_kind(Half)
    assert "half" not in KINDS


def test_the_default_is_the_papers() -> None:
    assert DEFAULT_KIND == "gamma-diagonal"

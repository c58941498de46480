"""Several copies of a release: their coins, their promise, and what they tell together."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import attack, estimate, inspection, perturb, reconstruct, train_tree
from ppdm_cli.channels import KINDS, Channel, Request, together
from ppdm_cli.channels.copies import Copies
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.domain import Categories
from ppdm_cli.errors import MismatchError, RefusedError
from ppdm_cli.releases import open_data, opened, read_sidecar
from tests.chances import LEVEL, chi_square
from tests.vocabulary import Run, listing, people


def channel(kind: str, N: int, gamma: int, copies: int) -> Channel:
    domain = Categories(pa.int64(), list(range(N)), False)
    spec, beyond = KINDS[kind].asked("x", domain, Request(Decimal(gamma), {}))
    matrix = spec.matrix(domain)
    return together(Channel("x", domain, spec.published(domain, matrix, beyond), spec, matrix), copies)


@pytest.mark.parametrize(
    ("kind", "N", "copies"), [("gamma-diagonal", 3, 2), ("gamma-diagonal", 4, 3), ("band", 12, 2)]
)
def test_the_law_of_several_answers_is_the_product_of_their_laws(kind: str, N: int, copies: int) -> None:
    matrix = channel(kind, N, 3, copies).matrix
    assert isinstance(matrix, Copies)
    M, one = matrix.dense(), matrix.one.dense()
    np.testing.assert_allclose(M.sum(axis=0), 1)
    direct = np.zeros_like(M)
    for codes in product(range(len(one)), repeat=copies):
        direct[matrix.numbered([np.array([c]) for c in codes])[0]] += np.prod(one[list(codes)], axis=0)
    np.testing.assert_allclose(M, direct)
    assert (M.max(axis=1) / M.min(axis=1)).max() <= matrix.amplification * (1 + 1e-9)
    np.testing.assert_allclose(matrix.solve(M), np.eye(N), atol=1e-9)
    shown = matrix.seen(M @ np.ones(N))
    np.testing.assert_allclose(shown, one[matrix.one.unchanged].sum(axis=1))


def test_errors_shrink_by_the_root_of_the_copies() -> None:
    """Kang's mean of k estimates, by 1/sqrt k within 3 %; the answers of each record together do no worse."""
    rng, records, gamma, N = np.random.default_rng(2), 20_000, 3, 5
    originals = np.full(N, records // N)
    bound = channel("gamma-diagonal", N, gamma, 2).matrix.one.kang_bound(records)  # type: ignore[attr-defined]
    for k in (1, 2, 4, 8):
        one = channel("gamma-diagonal", N, gamma, 2).matrix.one  # type: ignore[attr-defined]
        squares = []
        for _ in range(1500):
            answers = [sum(rng.multinomial(originals[0], m) for m in one.dense().T) for _ in range(k)]
            squares.append(((np.mean([one.solve(a) for a in answers], axis=0) - originals) ** 2).sum())
        measured = np.sqrt(np.mean(squares)) / np.linalg.norm(originals)
        assert measured == pytest.approx(bound / np.sqrt(k), rel=0.03), "equality at equal shares"
        if k > 1:
            assert channel("gamma-diagonal", N, gamma, k).matrix.expected_error(records) <= (
                one.expected_error(records) / np.sqrt(k) * (1 + 1e-9)
            )


SETTINGS: dict[str, Any] = {
    "gamma": 3,
    "keep": ["group"],
    "class_": "group",
    "rare": "publish",
    "shuffle": True,
}
KEPT_ORDER = {**SETTINGS, "shuffle": False, "keep_order": True}


@pytest.mark.parametrize(("N", "copies"), [(10, 20), (2, 63), (3, 40)])
def test_more_combinations_than_can_be_numbered_are_refused(N: int, copies: int) -> None:
    with pytest.raises(RefusedError, match="too many combinations"):
        channel("gamma-diagonal", N, 3, copies)
    most = channel("gamma-diagonal", 2, 3, 62).matrix
    assert isinstance(most, Copies) and (np.diff(most._keys) > 0).all()


def test_one_release_at_the_same_price_is_better() -> None:
    """What help and documents say."""
    for N in range(4, 11):
        two = GammaDiagonal(Decimal(3), N).expected_error(1) / np.sqrt(2)
        one = GammaDiagonal(Decimal(9), N).expected_error(1)
        assert two**2 / one**2 > 3


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    people(6000).write_parquet(tmp_path / "o.parquet")
    perturb(tmp_path / "o.parquet", tmp_path / "r.parquet", copies=3, seed=8, **SETTINGS)
    return [tmp_path / f"r.{i}.parquet" for i in (1, 2, 3)]


def test_copies_are_independent_and_each_says_which_it_is(files: list[Path], tmp_path: Path) -> None:
    """At level `LEVEL` for each pair, given the original; a copy beside itself fails."""
    sidecars = [read_sidecar(Path(f"{f}.ppdm.json"), None, "r") for f in files]
    assert [s.copy.number for s in sidecars] == [1, 2, 3] and {s.copy.of for s in sidecars} == {3}
    assert len({s.copy.release for s in sidecars}) == 1 and len({s.release for s in sidecars}) == 3
    perturb(tmp_path / "o.parquet", tmp_path / "k.parquet", copies=2, **KEPT_ORDER)
    found = [pl.read_parquet(tmp_path / f"k.{i}.parquet") for i in (1, 2)]
    promised = read_sidecar(tmp_path / "k.1.parquet.ppdm.json", None, "k")
    perturbed = [c.name for c in opened(promised).channels]
    assert promised.privacy.perturbed_gamma == 3 ** (2 * len(perturbed))
    original = pl.read_parquet(tmp_path / "o.parquet")
    for first, second, honest in ((0, 1, True), (0, 0, False)):
        kept = [(f["region"] == original["region"]).fill_null(True) for f in (found[first], found[second])]
        both, one, other = (kept[0] & kept[1]).sum(), kept[0].sum(), kept[1].sum()
        n, p = len(original), opened(promised).axis("region").matrix.staying
        counts = np.array([both, one - both, other - both, n - one - other + both])
        law = np.array([p * p, p * (1 - p), p * (1 - p), (1 - p) ** 2])
        assert (chi_square(counts, law) > LEVEL) == honest


def test_the_limit_for_an_attribute_counts_each_copy_once(files: list[Path]) -> None:
    """Copies that are read together state what each of them states."""
    one = inspection.one_attribute_limit(read_sidecar(Path(f"{files[0]}.ppdm.json"), None, "r"))
    assert one is not None and inspection.one_attribute_limit(open_data(files)[1]) == one


def test_copies_are_used_together_record_by_record(files: list[Path], tmp_path: Path, ppdm: Run) -> None:
    alone, three = estimate(files[0], attributes=["region"]), estimate(files, attributes=["region"])
    assert three.tables[0].observed.sum() == 6000
    errors = three.frame["std_error"] / alone.frame["std_error"]
    assert errors.max() < 1.02 / np.sqrt(3)
    truth = pl.read_parquet(tmp_path / "o.parquet")["region"].fill_null("null").value_counts()
    exact = dict(truth.iter_rows())
    for row in three.frame.iter_rows(named=True):
        assert abs(row["estimate"] - exact.get(row["label"], 0)) < 5 * row["std_error"]
    back = reconstruct(files)
    assert len(back.frame) == 6000 and back.frame.columns == pl.read_parquet(files[0]).columns
    assert train_tree(files).tree.size >= 1
    for call in (["estimate"], ["train-tree", "-o", "tree.json"]):
        ppdm(*call, *(f.name for f in files))
    perturb(tmp_path / "o.parquet", tmp_path / "real.csv", copies=2, **SETTINGS | {"class_": "region"})
    real = [tmp_path / "real.1.csv", tmp_path / "real.2.csv"]  # with coins of the system, and a hidden class
    assert len(reconstruct(real).frame) == 6000 and train_tree(real).tree.size >= 1
    assert estimate(real, joint=["region", "group"]).tables[0].observed.sum() == 6000
    perturb(tmp_path / "o.parquet", tmp_path / "z.parquet", **SETTINGS)
    with pytest.raises(MismatchError, match="copies of one release and others"):
        estimate([*files[:2], tmp_path / "z.parquet"])


def test_what_copies_cannot_do_is_said(files: list[Path], tmp_path: Path, ppdm: Run) -> None:
    common = ["--gamma", "3", "--rare", "publish", "--keep-order"]
    before = listing(tmp_path)
    for told, output, copies in (
        (b"files of their own", "-", "2"),
        (b"from 1 to 64", "q.parquet", "0"),
        (b"exists", "r.parquet", "2"),
    ):
        assert told in ppdm("perturb", "o.parquet", "-o", output, "--copies", copies, *common, code=2).stderr
    assert listing(tmp_path) == before, "nothing is left behind"
    shorter = pl.read_parquet(files[1]).head(10)
    shorter.write_parquet(files[1])
    with pytest.raises(MismatchError):
        estimate(files)
    assert attack(files[0]).audit == []

"""Bands from end to end: which attributes get one, every column type there and back, and the miner's side."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import Release, dtypes, estimate, inspection, perturb, reconstruct
from ppdm_cli.channels.band import Band, best_half_width, bits_revealed
from ppdm_cli.domain import Bins, Categories
from ppdm_cli.errors import MismatchError, PpdmError, RefusedError, UsageError
from ppdm_cli.estimating import largest_remainder, maximum_likelihood
from ppdm_cli.releases import decode, open_release, opened
from ppdm_cli.sidecar import Attribute, Sidecar
from tests.estimating.test_intervals import holds, off_by_five_hundredths, skewed, uncut
from tests.strategies import NUMBER_KINDS, column
from tests.vocabulary import Run, read_table

ROWS = 400


def people(n: int = 20_000, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    income = pl.Series(rng.gamma(3, 12, n).clip(0, 119.9))
    return pl.DataFrame(
        {
            "age": rng.normal(50, 15, n).clip(0, 99.9),
            "income": income.set(pl.Series(rng.random(n) < 0.1), None),
            "children": rng.poisson(2, n).clip(0, 9).astype(np.uint8),
            "town": rng.choice(["a", "b", "c"], n),
            "group": np.where(rng.random(n) < 0.4, "A", "B"),
        }
    )


PLAN: dict[str, Any] = {
    "age": {"domain": [0, 100]},
    "income": {"domain": [0, 120], "nulls": True},
    "children": {"domain": [0, 9], "half_width": 2},
    "town": {"categories": ["a", "b", "c"]},
}


@pytest.fixture(scope="module")
def release() -> Release:
    return perturb(
        people(), gamma=5, matrix="band", bins=20, class_="group", keep=["group"], attributes=PLAN, seed=1
    )


def of(sidecar: Sidecar, name: str) -> Attribute:
    return next(a for a in sidecar.attributes if a.name == name)


# -- the owner's side


def test_bins_and_intervals_get_bands_and_labels_do_not(release: Release) -> None:
    assert msgspec.to_builtins(release.sidecar.recipes[0].channels) == [
        {"attributes": ["age"], "kind": "band", "gamma": 5, "half_width": [2]},
        {"attributes": ["income"], "kind": "band", "gamma": 5, "half_width": [2]},
        {"attributes": ["children"], "kind": "band", "gamma": 5, "half_width": [2]},
        {"attributes": ["town"], "kind": "gamma-diagonal", "gamma": 5},
    ]
    age = of(release.sidecar, "age").beyond
    assert msgspec.to_builtins(age) == {"dtype": "double", "below": [-10, -5], "above": [105, 110]}
    children = of(release.sidecar, "children").beyond
    assert msgspec.to_builtins(children) == {"dtype": "int16", "below": [-2, -1], "above": [10, 11]}
    assert sorted(release.frame["children"].unique()) == list(range(-2, 12))
    assert release.frame["age"].min() == -7.5 and release.frame["age"].max() == 107.5
    assert decode(release.sidecar.encode(), "x") == release.sidecar
    assert release.frame["income"].null_count() > 0 and release.frame["age"].null_count() == 0


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({}, "gamma-diagonal"),  # single numbers from the data may be codes
        ({"matrix": "band"}, "band"),
        ({"categories": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "half_width": 1}, "band"),
        ({"half_width": 0}, "gamma-diagonal"),
        ({"domain": "0:9"}, "band"),
        ({"domain": "0:9", "gamma": 30}, "gamma-diagonal"),  # the best half-width is 0
        ({"domain": "0:9", "matrix": "gamma-diagonal"}, "gamma-diagonal"),
    ],
)
def test_single_numbers_get_a_band_where_they_are_said_to_be_in_order(
    wish: dict[str, Any], expected: str
) -> None:
    data = people(4000).select("children")
    sidecar = perturb(
        data, gamma=2, bins=10, matrix="band", rare="publish", attributes={"children": wish}
    ).sidecar
    assert opened(sidecar).channels[0].spec.kind == expected  # type: ignore[union-attr]
    assert (sidecar.perturbed[0].beyond is msgspec.UNSET) == (expected != "band")


def test_derived_gammas_and_budgets_give_bands_too() -> None:
    data = people().select("age", "income")
    sidecar = perturb(data, record_epsilon=2, matrix="band", bins=30, attributes={}).sidecar
    for channel in opened(sidecar).channels:
        matrix = channel.matrix
        assert isinstance(matrix, Band)
        assert matrix.half_width == best_half_width(matrix.gamma, matrix.sides[0].ordered)
        assert 2.71 < matrix.amplification < np.e
    assert sidecar.privacy.perturbed_epsilon == pytest.approx(2, abs=1e-4)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "wish", "error", "says"),
    [
        ("town", {"matrix": "band"}, UsageError, "'town': values of type string have no order"),
        ("age", {"half_width": 11}, UsageError, "'age': the half-width of a band must be from 1 to"),
        ("age", {"half_width": -1}, UsageError, "a half-width must be a number"),
        ("age", {"matrix": "gamma-diagonal", "half_width": 2}, UsageError, "has no half-width"),
        ("age", {"matrix": "nosuch"}, UsageError, "unknown kind of matrix 'nosuch'"),
        ("age", {"bins": 5000, "matrix": "band"}, RefusedError, "'age': a band needs 2 to 2048"),
        (
            "age",
            {"gamma": 9.00001, "bins": 2000, "half_width": 900},
            UsageError,
            "'age': gamma 9.00001 has too",
        ),
    ],
)
def test_what_can_have_no_band_is_said_in_one_line(
    name: str, wish: dict[str, Any], error: type[PpdmError], says: str
) -> None:
    plan = {**PLAN, name: PLAN[name] | wish}
    with pytest.raises(error, match=says) as raised:
        perturb(people(100), gamma=5, bins=20, attributes=plan, seed=1)
    assert "\n" not in str(raised.value)


def test_asked_for_all_a_band_goes_where_it_can() -> None:
    at = pl.Series("at", np.arange(ROWS) % 1440).cast(pl.Int64) * 60_000_000_000
    data = pl.DataFrame({"at": at.cast(pl.Time), "age": people(ROWS)["age"]})
    plan = {"at": {"domain": ["00:00", "23:59"]}, "age": {"domain": [0, 100]}}
    kept = {"gamma": 5, "bins": 20, "keep_order": True}
    sidecar = perturb(data, matrix="band", attributes=plan, **kept).sidecar  # type: ignore[arg-type]
    kinds = [c.spec.kind for c in opened(sidecar).channels]  # type: ignore[union-attr]
    assert kinds == ["gamma-diagonal", "band"]
    plan["at"]["matrix"] = "band"  # type: ignore[assignment]
    with pytest.raises(RefusedError, match=r"the type time64\[\w+\] has none"):
        perturb(data, attributes=plan, **kept)  # type: ignore[arg-type]


def test_a_plan_file_and_options_say_it(ppdm: Run, tmp_path: Path) -> None:
    people(2000).select("age", "income").write_parquet(tmp_path / "p.parquet")
    (tmp_path / "plan.toml").write_text(
        'gamma = 5\nbins = 20\nmatrix = "band"\n[attributes.income]\nhalf_width = 1\n'
    )
    said = json.loads(ppdm("perturb", "p.parquet", "-o", "r.parquet", "--plan", "plan.toml", "--json").stdout)
    assert [a["half_width"] for a in said["attributes"]] == [2, 1]
    options = ["--attribute", "income:matrix=gamma-diagonal", "--matrix", "band"]
    done = ppdm("perturb", "p.parquet", "-o", "s.csv", "--plan", "plan.toml", *options)
    assert b"band +-2" in done.stderr and b"gamma-diagonal" in done.stderr
    ppdm("perturb", "p.parquet", "-o", "t.parquet", "--like", "r.parquet")
    said = [open_release(tmp_path / f"{n}.parquet")[1].perturbed for n in "rt"]
    assert said[0] == said[1]
    assert b"1 (band, half-width 1)" not in ppdm("estimate", "r.parquet", "t.parquet").stderr
    ppdm("perturb", "p.parquet", "-o", "u.parquet", "--plan", "plan.toml", "--attribute", "income:half_width=3")
    stderr = ppdm("estimate", "r.parquet", "u.parquet", code=3).stderr.decode()
    assert "differs in matrix: gamma 5 (band, half-width 1) and gamma 5 (band, half-width 3)" in stderr


# -- every type, there and back


def ends(kind: pa.DataType) -> dict[str, list[Any]]:
    """Edges away from the type's limits, and edges at its lower and upper one."""
    low, high = dtypes.limits(kind)
    whole = dtypes.is_whole(kind)
    step = max(1, (int(high) - int(low)) // 100) if whole else 1.5
    middle = int(low) + (int(high) - int(low)) // 3 if whole else 0.0
    found = {"inside": [middle + i * step for i in range(7)]}
    if whole:
        found |= {
            "lowest": [low + i * step for i in range(7)],
            "highest": [high - i * step for i in range(6, -1, -1)],
        }
    return {n: e for n, e in found.items() if e[-1] <= high}


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("kind", NUMBER_KINDS, ids=str)
def test_every_type_goes_there_and_back(kind: pa.DataType, discrete: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for place, edges in ends(kind).items():
        values = [dtypes.from_json(dtypes.to_json(e, kind), kind) for e in edges]
        table = pa.table({"x": column([None if v == 7 else values[v] for v in rng.integers(0, 8, ROWS)], kind)})
        texts = [dtypes.to_json(v, kind) for v in values]
        wish = {"categories" if discrete else "edges": texts, "nulls": True, "half_width": 2}
        frames = []
        for suffix in ("csv", "parquet", "arrow"):
            target = tmp_path / f"{place}.{suffix}"
            try:
                sidecar = perturb(
                    table, target, gamma=3, attributes={"x": wish}, seed=7, keep_order=True
                ).sidecar
            except RefusedError as error:
                assert place != "inside" and "has none" in str(error)
                wider = pa.types.is_decimal(kind) and kind.precision < 18
                assert not wider and kind not in (pa.int8(), pa.uint8(), pa.int32(), pa.uint32())
                continue
            attribute, channel = sidecar.perturbed[0], opened(sidecar).channels[0]
            promised = open_release(target)[1]
            assert promised.perturbed == [attribute]
            seen = read_table(target)["x"].combine_chunks() if suffix != "csv" else None
            if seen is not None:
                assert seen.type == channel.published.kind
            domain = channel.published
            assert isinstance(domain, Categories if discrete else Bins)
            assert domain.size == channel.matrix.outputs == len(domain.labels())
            counts = estimate(target).tables[0].observed
            assert counts.sum() == ROWS and (counts > 0).mean() > 0.5
            frames.append(counts.tolist())
            back = tmp_path / f"back-{place}-{suffix}.arrow"
            reconstruct(target, back)
            again = read_table(back)["x"].combine_chunks()
            assert again.type == attribute.kind and attribute.domain.encode(again).outside.size == 0
        assert all(f == frames[0] for f in frames)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"beyond": {"dtype": "double", "below": [-5], "above": [105]}}, "the ones that its matrix publishes"),
        (
            {"beyond": {"dtype": "double", "below": [-10, -5], "above": [105]}},
            "as much is published below the domain as above",
        ),
        (
            {"beyond": {"dtype": "double", "below": [], "above": []}},
            "as much is published below the domain as above",
        ),
        ({"beyond": {"dtype": "double", "below": [-5, -10], "above": [105, 110]}}, "strictly increasing"),
        ({"beyond": {"dtype": "int64", "below": [-10, -5], "above": [105, 110]}}, "has not the type int64"),
        ({"beyond": msgspec.UNSET}, "a band needs 'beyond'"),
        ({"matrix": {"kind": "band", "gamma": 5, "half_width": [3]}}, "the ones that its matrix publishes"),
        ({"matrix": {"kind": "band", "gamma": 5, "half_width": [0]}}, "half_width"),
        ({"matrix": {"kind": "band", "gamma": 6, "half_width": [2]}}, "perturbed_gamma is not what"),
        ({"matrix": {"kind": "gamma-diagonal", "gamma": 5}}, "no channel publishes anything beyond its domain"),
    ],
)
def test_a_sidecar_that_cannot_be_is_refused(change: dict[str, Any], says: str) -> None:
    sidecar = perturb(people(1000), gamma=5, matrix="band", bins=20, keep=["group"], attributes=PLAN).sidecar
    said = json.loads(sidecar.encode())
    if matrix := change.pop("matrix", None):
        said["recipes"][0]["channels"][0] = {"attributes": ["age"]} | matrix
    said["attributes"][0] |= change
    said["attributes"][0] = {k: v for k, v in said["attributes"][0].items() if v is not msgspec.UNSET}
    with pytest.raises(MismatchError, match=says):
        decode(json.dumps(said).encode(), "x")


# -- what is said


def test_the_report_says_what_a_band_tells_more_and_less(release: Release) -> None:
    (said,) = [s for s in inspection.sentences(release.sidecar) if s.startswith("A band tells more")]
    rng = np.random.default_rng(1)
    k = rng.integers(0, 20, 400_000)
    h = np.where(rng.random(len(k)) < 4 / 24, k, rng.integers(0, 20, len(k)))  # gamma-diagonal: lam = 4/24
    near, at = (np.abs(h - k) <= 2).mean(), (h == k).mean()
    M = Band.of(Decimal(5), 20, 2).dense()
    figures = re.search(
        r"age within 2 of the true one with (\S+)% \((\S+)%\), at the true one with (\S+)% \((\S+)%\)",
        said,
    )
    assert figures is not None, said
    found = [float(f) for f in figures.groups()]
    np.testing.assert_allclose(found, [100 * M[:5, 0].sum(), 100 * near, 100 * M[2, 0], 100 * at], atol=0.4)
    plain = perturb(people(1000).select("town"), gamma=5, attributes={"town": PLAN["town"]})
    assert not any("band" in s for s in inspection.sentences(plain.sidecar))


def test_entropy_speaks_of_bands_by_the_grid_and_of_a_release(
    release: Release, ppdm: Run, tmp_path: Path
) -> None:
    asked = ("entropy", "--matrix", "band", "--gamma", "5,30", "--bins", "10,20", "--records", "1000")
    found = json.loads(ppdm(*asked, "--json").stdout)["rows"]
    assert [(r["matrix"], r["N"], r["half_width"]) for r in found] == [
        ("band", 10, 1),
        ("band", 20, 2),
        ("gamma-diagonal", 10, None),
        ("band", 20, 1),
    ]
    band = Band.of(Decimal(5), 20, 2)
    M, rng = band.dense(), np.random.default_rng(1)
    assert found[1]["information"] == pytest.approx(bits_revealed(5, 20, 2))
    assert (found[1]["neighbourhood"], found[1]["kang_bound"]) == (band.neighbourhood, None)
    y = sum(rng.multinomial(50, M[:, k] / M[:, k].sum(), 20_000) for k in range(20))
    errors = ((band.solve(y.astype(float), 1) - 50) ** 2).sum(axis=1).mean()
    assert found[1]["expected_error"] == pytest.approx(np.sqrt(errors) / 1000, rel=0.02)
    perturb(people(2000), tmp_path / "r.parquet", gamma=5, matrix="band", bins=20, attributes=PLAN)
    ppdm("entropy", "r.parquet", "-o", "figures.parquet")
    told = pl.read_parquet(tmp_path / "figures.parquet")
    assert told["half_width"].to_list() == [2, 2, 2, None, None]
    assert ppdm("inspect", "r.parquet").stdout.count(b"band +-2") == 3


# -- the miner's side


def test_estimates_are_unbiased_by_class_and_jointly(release: Release) -> None:
    for how in ({}, {"by": "group"}, {"joint": ["age", "children"]}, {"joint": ["income", "town"]}):
        done = estimate(release.frame, sidecar=release.sidecar, truth=people(), estimator="inverse", **how)  # type: ignore[arg-type]
        for table in done.tables:
            assert table.truth is not None
            away = np.abs(table.estimate - table.truth) / np.maximum(table.interval.std_error, 1e-9)
            assert away.max() < 5, (how, table.name)
            assert table.estimate.sum() == pytest.approx(20_000)
            assert (table.published.sum() < table.observed.sum()) == (table.name != "town")
        assert len(done.frame) == sum(t.estimate.size for t in done.tables)


def test_a_reconstruction_has_the_estimated_totals_and_the_original_types(release: Release) -> None:
    done = reconstruct(release.frame, sidecar=release.sidecar)
    wanted = estimate(release.frame, sidecar=release.sidecar, by="group")
    assert done.frame.schema == people().schema
    for table in wanted.tables:
        domain = of(release.sidecar, table.name).domain
        for label, row in zip("AB", table.estimate, strict=True):
            part = done.frame.filter(pl.col("group") == label)[table.name].to_arrow()
            codes = domain.encode(part.cast(domain.kind)).codes
            found = np.bincount(codes, minlength=domain.size)
            assert found.tolist() == largest_remainder(row, len(part)).tolist()


def test_a_class_under_a_band_is_reconstructed_first() -> None:
    data = people(4000).select("age", income=(pl.col("income") // 25_000).clip(0, 7).cast(pl.Int64))
    plan = {"age": PLAN["age"] | {"bins": 8, "half_width": 1}}
    plan["income"] = {"domain": [0, 7], "nulls": True, "half_width": 1}
    hidden = perturb(data, gamma=5, class_="income", attributes=plan, seed=1)
    done = reconstruct(hidden.frame, sidecar=hidden.sidecar, method="by-class")
    labels = estimate(hidden.frame, sidecar=hidden.sidecar, attributes=["income"]).tables[0]
    assert done.totals["income"] == largest_remainder(labels.estimate, 4000).tolist()
    assert done.frame.schema == data.schema and len(done.frame) == 4000
    assert {n: sum(t) for n, t in done.totals.items()} == {"age": 4000, "income": 4000}


def simulated(band: Band, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The originals, and what so many releases show that ten thousand cells are judged at least."""
    original, M, times = skewed(band.inputs, n), band.dense(), 400 if band.inputs > 20 else 2000
    rng = np.random.default_rng([band.sides[0].ordered, n])
    observed = np.zeros((times, band.outputs))
    for k, count in enumerate(original):
        observed += rng.multinomial(count, M[:, k] / M[:, k].sum(), times)
    return original, observed


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("N", [5, 20, pytest.param(100, marks=pytest.mark.long)])
def test_intervals_cover_the_true_counts(N: int, nulls: bool) -> None:
    """Pooled over n and gamma 94 to 96 %, as for the gamma-diagonal; a coverage's own sd is below 0.004."""
    right, wrong = [], []
    for n in (1_000, 100_000):
        for gamma in (2, 5, 9):
            ordered = N - nulls
            b = min(max(1, best_half_width(Decimal(gamma), ordered)), ordered // 2)
            band = Band.of(Decimal(gamma), ordered, b, nulls)
            original, observed = simulated(band, n)
            likeliest = maximum_likelihood(observed, [None, band])
            for found, intervals in ((right, uncut), (wrong, off_by_five_hundredths)):
                interval = intervals(observed, [None, band], likeliest)
                covered = (interval.low <= original) & (original <= interval.high)
                found.append(covered.mean())
    assert holds(np.array([np.mean(right)])), right
    assert min(right) > 0.94 and max(right) < 0.96, right
    assert np.mean(wrong) < np.mean(right) - 0.005

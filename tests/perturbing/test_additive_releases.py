"""Additive noise from end to end: what is published, what is refused, what is said, and the miner's side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import Release, estimate, inspection, perturb, reconstruct
from ppdm_cli.channels.additive import Additive
from ppdm_cli.errors import DataError, MismatchError, PpdmError, RefusedError, UsageError
from ppdm_cli.estimating import largest_remainder
from ppdm_cli.releases import decode, open_release, opened
from ppdm_cli.sidecar import Sidecar
from tests.vocabulary import Run, read_table

NOISE: dict[str, Any] = {"scheme": "additive", "noise": "normal", "sd": "25%"}
PLAN: dict[str, Any] = {
    "age": {"domain": [0, 100]},
    "visits": {"domain": [0, 399], "sd": 50},
    "children": {"domain": [0, 9]},
}


def people(n: int = 20_000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    label = np.where(rng.random(n) < 0.4, "A", "B")
    return pl.DataFrame(
        {
            "age": rng.normal(np.where(label == "A", 35, 60), 12).clip(0, 100),
            "visits": rng.integers(0, 400, n),
            "children": rng.poisson(2, n).clip(0, 9).astype(np.uint8),
            "group": label,
        }
    )


SETTINGS: dict[str, Any] = NOISE | {"bins": 20, "class_": "group", "keep": ["group"], "attributes": PLAN}


@pytest.fixture(scope="module")
def release() -> Release:
    return perturb(people(), **SETTINGS, seed=1)


@pytest.fixture(scope="module")
def promised() -> Sidecar:
    """Of a release that has a promise, as its coins had no seed."""
    return perturb(people(1000), **SETTINGS).sidecar


# -- the owner's side


def test_every_number_is_published_as_a_double_with_noise(release: Release) -> None:
    said = msgspec.to_builtins(release.sidecar.recipes[0].channels)
    shared = {"kind": "additive", "noise": "normal", "dtype": "double"}
    expected = {"age": 25.0, "visits": 50.0, "children": 2.25}
    assert said == [shared | {"attributes": [n], "sd": sd} for n, sd in expected.items()]
    assert release.frame.schema == dict.fromkeys(PLAN, pl.Float64) | {"group": pl.String}
    for name, sd in (("age", 25), ("visits", 50), ("children", 2.25)):
        noise = (release.frame[name] - people()[name].cast(pl.Float64)).to_numpy()
        assert abs(noise.mean()) < 5 * sd / np.sqrt(20_000) and noise.std() == pytest.approx(sd, rel=0.03)
    columns = [release.frame[n] - people()[n].cast(pl.Float64) for n in PLAN]
    assert np.abs(np.corrcoef(columns) - np.eye(3)).max() < 5 / np.sqrt(20_000)
    assert (release.frame["group"] == people()["group"]).all()
    assert decode(release.sidecar.encode(), "x") == release.sidecar


def test_no_gamma_is_promised_and_the_report_says_so(promised: Sidecar) -> None:
    assert promised.privacy.perturbed_gamma == "inf"  # type: ignore[union-attr]
    assert promised.privacy.perturbed_epsilon == "inf"  # type: ignore[union-attr]
    first = inspection.sentences(promised)[0]
    assert first.startswith("Additive noise promises nothing: no finite gamma or epsilon holds")
    assert "can make one original arbitrarily more likely than another" in first
    figures = json.loads(json.dumps(inspection.figures(promised)))
    assert [a["interval_share"] for a in figures["attributes"]] == pytest.approx([0.98, 3.92 * 50 / 399, 0.98])
    assert (
        {a["gamma"] for a in figures["attributes"]} == {a["epsilon"] for a in figures["attributes"]} == {"inf"}
    )
    seeded = perturb(
        people(100), **NOISE | {"noise": "uniform"}, keep=["group"], attributes=PLAN, seed=1
    ).sidecar
    assert seeded.privacy.perturbed_gamma is None  # type: ignore[union-attr]
    warned = inspection.sentences(seeded)
    assert "rules out every original further from it" in warned[0] and "The coins came from a seed" in warned[1]
    ages = inspection.of_attributes(seeded)[0]
    assert ages.interval == pytest.approx(0.95 * 2 * np.sqrt(3) * 25)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"gamma": 9}, UsageError, "no gamma, rho or epsilon holds for it"),
        ({"rho1": 0.05, "rho2": 0.5}, UsageError, "no gamma, rho or epsilon"),
        ({"record_epsilon": 2}, UsageError, "no gamma, rho or epsilon"),
        ({"matrix": "gamma-diagonal"}, UsageError, "no matrix to choose"),
        ({"attributes": PLAN | {"age": {"gamma": 5}}}, UsageError, "no gamma, rho or epsilon"),
        ({"attributes": PLAN | {"age": {"half_width": 0}}}, UsageError, "no matrix to choose"),
        ({"noise": None}, UsageError, "add noise='uniform' or noise='normal'"),
        ({"noise": "cauchy"}, UsageError, "the law of the noise is missing or unknown"),
        ({"sd": None}, UsageError, "no standard deviation is given for 'age'"),
        ({"sd": "0"}, UsageError, "'0' is not a standard deviation"),
        ({"sd": "-5%"}, UsageError, "is not a standard deviation"),
        ({"sd": "inf"}, UsageError, "is not a standard deviation"),
        ({"sd": "wide"}, UsageError, "is not a standard deviation"),
        ({"sd": 1e9}, UsageError, "'age': the standard deviation is below a millionth or above a million"),
        ({"scheme": "multiplicative"}, UsageError, "unknown scheme"),
        ({"scheme": None, "gamma": 9}, UsageError, "add scheme='additive'"),
        ({"keep": []}, RefusedError, "'group' is of type string: noise is added to"),
        (
            {"attributes": PLAN | {"age": {"domain": [0, 100], "nulls": True}}},
            RefusedError,
            "'age': it has nulls",
        ),
        ({"bins": 2000}, RefusedError, "'age': additive noise needs a domain of 2 to 1024"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(
    settings: dict[str, Any], error: type[PpdmError], says: str
) -> None:
    asked = NOISE | {"keep": ["group"], "attributes": PLAN} | settings
    with pytest.raises(error, match=says) as raised:
        perturb(people(100), **asked)
    assert "\n" not in str(raised.value)


def test_nulls_and_values_outside_are_never_published() -> None:
    data = people(200).with_columns(age=pl.when(pl.int_range(pl.len()) < 20).then(None).otherwise("age"))
    with pytest.raises(RefusedError, match="'age': it has nulls, which noise leaves unchanged"):
        perturb(data.select("age"), **NOISE)
    with pytest.raises(DataError, match=r"first a null in row 1.*fill them, leave out their records"):
        perturb(data.select("age"), **NOISE, attributes={"age": {"domain": [0, 100]}})
    narrow: dict[str, Any] = {"attributes": {"visits": {"domain": [100, 199]}}, "keep_order": True}
    with pytest.raises(DataError, match=r"'visits' has .* values outside its domain"):
        perturb(people(4000).select("visits"), **NOISE | {"sd": 0.01}, **narrow)
    clipped = perturb(people(4000).select("visits"), **NOISE | {"sd": 0.01}, **narrow, clip=True)
    assert 99.9 < clipped.frame["visits"].min() < clipped.frame["visits"].max() < 199.1  # type: ignore[operator]
    assert estimate(clipped.frame, sidecar=clipped.sidecar).tables[0].estimate.sum() == pytest.approx(4000)


def test_rows_in_a_telling_order_are_refused() -> None:
    with pytest.raises(RefusedError, match="the order of the rows gives away 'age'"):
        perturb(people(4000).select("age").sort("age"), **NOISE)


def test_a_key_file_gives_an_unchanged_value_the_same_answer(tmp_path: Path) -> None:
    data = people(500).select("age").with_columns(id=pl.int_range(pl.len()))
    moved = data.with_columns(
        age=pl.when(pl.col("id") % 2 == 0).then(pl.col("age") * 0.999 + 0.05).otherwise("age")
    )
    settings: dict[str, Any] = NOISE | {
        "key_file": tmp_path / "key",
        "id": "id",
        "attributes": {"age": PLAN["age"]},
    }
    first, again = (perturb(d, **settings).frame["age"].to_numpy() for d in (data, moved[::-1]))
    same = first == again[::-1]
    assert same[1::2].all() and not same[::2].any()
    noise, other = (f - d["age"].to_numpy() for f, d in ((first, data), (again[::-1], moved)))
    assert abs(np.corrcoef(noise[::2], other[::2])[0, 1]) < 0.3  # in one bin, and yet with noise of its own


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"matrix": {"kind": "additive", "noise": "cauchy", "sd": 5}}, "cauchy"),
        ({"matrix": {"kind": "additive", "noise": "normal", "sd": 0}}, "sd"),
        (
            {"matrix": {"kind": "additive", "noise": "normal", "sd": 1e12}},
            "'age': the standard deviation is below",
        ),
        ({"matrix": {"kind": "additive", "noise": "normal", "sd": 5, "dtype": "int64"}}, "dtype"),
        ({"matrix": {"kind": "gamma-diagonal", "gamma": 5}}, "on all perturbed attributes or on none"),
        ({"matrix": {"kind": "additive", "noise": "uniform", "sd": 5}}, "additive channels of one law"),
        ({"nulls": True, "N": 21}, "noise goes with neither nulls nor"),
        (
            {"dtype": "date32[day]", "edges": ["2020-01-01", "2021-01-01", "2022-01-01"], "N": 2},
            "take no noise",
        ),
    ],
)
def test_a_sidecar_that_cannot_be_is_refused(release: Release, change: dict[str, Any], says: str) -> None:
    said = json.loads(release.sidecar.encode())
    if matrix := change.get("matrix"):
        said["recipes"][0]["channels"][0] = {"attributes": ["age"]} | matrix
    said["attributes"][0] |= {k: v for k, v in change.items() if k != "matrix"}
    with pytest.raises(MismatchError, match=says):
        decode(json.dumps(said).encode(), "x")


def test_a_sidecar_that_promises_a_gamma_all_the_same_is_refused(promised: Sidecar) -> None:
    for part in ("perturbed_gamma", "perturbed_epsilon"):
        said = json.loads(promised.encode())
        said["privacy"][part] = 9
        with pytest.raises(MismatchError, match=f"{part} is not what the attributes give"):
            decode(json.dumps(said).encode(), "x")


# -- files and the miner's side


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "arrow"])
def test_every_format_goes_there_and_back(suffix: str, tmp_path: Path) -> None:
    target, back = tmp_path / f"r.{suffix}", tmp_path / f"back.{suffix}"
    kinds = [pa.int8(), pa.uint16(), pa.int64(), pa.float32(), pa.float64()]
    numbers = np.random.default_rng(2).integers(0, 100, 300)
    table = pa.table({str(k): pa.array(numbers).cast(k) for k in kinds})
    plan: dict[str, Any] = {str(k): {"domain": [0, 99]} for k in kinds}
    made = perturb(table, target, **NOISE, attributes=plan, seed=5, keep_order=True)
    whole = perturb(table, **NOISE, attributes=plan, seed=5, keep_order=True)
    there, promised = open_release(target)
    assert promised == made.sidecar and set(there.schema.types) == {pa.float64()}
    found, expected = estimate(target), estimate(whole.frame, sidecar=whole.sidecar)
    for ours, theirs in zip(found.tables, expected.tables, strict=True):
        assert (ours.observed == theirs.observed).all() and (ours.estimate == theirs.estimate).all()
    reconstruct(target, back)
    if suffix in ("parquet", "arrow"):
        assert read_table(back).schema.types == kinds
    for channel in opened(made.sidecar).channels:
        assert channel.published.size == channel.matrix.outputs


def test_estimates_come_near_and_have_no_intervals_where_there_are_none(release: Release) -> None:
    done = estimate(release.frame, sidecar=release.sidecar, truth=people())
    for table, most in zip(done.tables, (0.15, 0.12, 0.12), strict=True):
        raw = np.abs(table.published - table.truth).sum() / 20_000
        assert table.error is not None and table.error < min(most, raw / 1.5), (table.name, table.error, raw)
    assert done.remarks[0].startswith("No intervals where age, visits takes part")
    known = done.frame.filter(pl.col("low").is_not_null())["attribute"].unique().to_list()
    assert known == ["children"]
    with pytest.raises(RefusedError, match="use estimator='ml'"):
        estimate(release.frame, sidecar=release.sidecar, estimator="simplex")


def test_bounded_noise_has_unbiased_estimates_by_class_and_jointly() -> None:
    bounded: dict[str, Any] = NOISE | {"noise": "uniform", "bins": 8, "class_": "group", "keep": ["group"]}
    data = people().with_columns(age=pl.Series(np.random.default_rng(3).random(20_000) * 100))
    release = perturb(data, **bounded, attributes=PLAN | {"visits": {"domain": [0, 399]}}, seed=1)
    for how in ({}, {"by": "group"}, {"joint": ["age", "visits"]}):
        done = estimate(release.frame, sidecar=release.sidecar, truth=data, estimator="inverse", **how)  # type: ignore[arg-type]
        for table in done.tables:
            assert table.truth is not None and table.estimate.sum() == pytest.approx(20_000)
            away = np.abs(table.estimate - table.truth) / np.nan_to_num(table.interval.std_error, nan=np.inf)
            assert away.max() < 5, (how, table.name)


def test_a_reconstruction_has_the_estimated_totals_and_the_original_types(release: Release) -> None:
    done = reconstruct(release.frame, sidecar=release.sidecar, method="by-class")
    wanted = estimate(release.frame, sidecar=release.sidecar, by="group")
    assert done.frame.schema == people().schema and done.how.method == "by-class"
    known = {a.name: a for a in release.sidecar.attributes}
    for table in wanted.tables:
        domain = known[table.name].domain
        for label, row in zip("AB", table.estimate, strict=True):
            part = done.frame.filter(pl.col("group") == label)[table.name].to_arrow()
            found = np.bincount(domain.encode(part).codes, minlength=domain.size)
            assert found.tolist() == largest_remainder(row, len(part)).tolist()


def test_a_class_under_noise_is_reconstructed_first() -> None:
    data = people(4000).select("age", "children")
    hidden = perturb(data, **NOISE, class_="children", attributes={n: PLAN[n] for n in data.columns}, seed=1)
    done = reconstruct(hidden.frame, sidecar=hidden.sidecar)
    labels = estimate(hidden.frame, sidecar=hidden.sidecar, attributes=["children"]).tables[0]
    assert done.totals["children"] == largest_remainder(labels.estimate, 4000).tolist()
    assert done.frame.schema == data.schema and len(done.frame) == 4000


@pytest.mark.parametrize("method", ["by-class", "global"])
@pytest.mark.parametrize("noise", ["uniform", "normal"])
def test_the_papers_comparison_runs_end_to_end(noise: str, method: str, ppdm: Run, tmp_path: Path) -> None:
    ppdm("generate", "--function", "2", "--records", "20000", "--seed", "7", "-o", "t.parquet")
    ppdm("generate", "--function", "2", "--records", "5000", "--seed", "8", "-o", "test.parquet")
    wanted = ["--scheme", "additive", "--noise", noise, "--sd", "25%", "--bins", "20", "--seed", "3"]
    done = ppdm("perturb", "t.parquet", "-o", "r.parquet", *wanted, "--class", "group", "--keep", "group")
    assert b"Additive noise promises nothing" in done.stderr and b"of the domain" in done.stderr
    assert b"Additive noise promises nothing" in ppdm("inspect", "r.parquet").stdout
    assert b"E, the paper's error" in ppdm("estimate", "r.parquet", "--truth", "t.parquet").stdout
    ppdm("reconstruct", "r.parquet", "-o", "back.parquet", "--method", method)
    tree = [
        "train-tree",
        "back.parquet",
        "--class",
        "group",
        "--test",
        "test.parquet",
        "--json",
        "-o",
        "t.json",
    ]
    accuracy = json.loads(ppdm(*tree).stdout)["test"]["accuracy"]
    test = pl.read_parquet(tmp_path / "test.parquet")["group"]
    guessing = max((test == label).mean() for label in "AB")  # type: ignore[type-var]
    assert accuracy > guessing + (0.05 if method == "by-class" else -0.05), (accuracy, guessing)


def test_a_plan_file_and_options_and_the_next_batch(ppdm: Run, tmp_path: Path) -> None:
    people(2000).write_parquet(tmp_path / "p.parquet")
    (tmp_path / "plan.toml").write_text(
        'scheme = "additive"\nnoise = "uniform"\nsd = "20%"\nbins = 20\nkeep = ["group"]\nrare = "publish"\n'
        "[attributes.age]\ndomain = [0, 100]\nsd = 7\n"
    )
    said = json.loads(ppdm("perturb", "p.parquet", "-o", "r.parquet", "--plan", "plan.toml", "--json").stdout)
    assert [a["sd"] for a in said["attributes"]][:2] == [7, 80] and said["record"]["perturbed_gamma"] == "inf"
    ppdm("perturb", "p.parquet", "-o", "s.parquet", "--like", "r.parquet")
    assert (
        open_release(tmp_path / "s.parquet")[1].perturbed == open_release(tmp_path / "r.parquet")[1].perturbed
    )
    assert b"4000 records" in ppdm("estimate", "r.parquet", "s.parquet").stdout
    ppdm("perturb", "p.parquet", "-o", "u.parquet", "--plan", "plan.toml", "--attribute", "age:sd=8")
    stderr = ppdm("estimate", "r.parquet", "u.parquet", code=3).stderr
    assert b"differs in matrix: uniform noise of sd 7 and uniform noise of sd 8" in stderr
    stderr = ppdm("entropy", "r.parquet", code=2).stderr
    assert b"it has no H(M)" in stderr
    ppdm("estimate", "r.parquet", "--attribute", "age", "--plot", "age.html")
    assert "estimate" in (tmp_path / "age.html").read_text()


def test_the_matrix_of_a_sidecar_is_that_of_its_domain(release: Release) -> None:
    extents = {
        c.name: c.matrix.extents for c in opened(release.sidecar).channels if isinstance(c.matrix, Additive)
    }
    assert extents["age"][0] == (0, 5) and extents["age"][-1] == (95, 100)
    assert extents["visits"][0] == (-0.5, 19.5) and extents["visits"][-1] == (379.5, 399.5)
    assert extents["children"] == tuple((float(i), float(i)) for i in range(10))

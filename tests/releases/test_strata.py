"""Strata: what is read is what was published, by the exposures of each recipe; anything else is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.channels import blended
from ppdm_cli.engine import map_partitions
from ppdm_cli.errors import MismatchError
from ppdm_cli.releases import Strata, never_together, open_release, opened
from ppdm_cli.sidecar import COLUMN
from tests.chances import LEVEL, chi_square
from tests.perturbing.test_recipe_choice import DOMAINS, released, table
from tests.releases.dummy_miner import commonest
from tests.vocabulary import table as make

RELEASE = released()
NAMES = ["age", "pay", "town", "level", "ill"]


def read(release: Any, names: Sequence[str], frame: pl.DataFrame | None = None) -> tuple[Strata, Any]:
    arrow = release.frame.to_arrow()
    data = arrow if frame is None else frame.to_arrow().cast(arrow.schema)
    opened, sidecar = open_release(data, release.sidecar)
    strata = Strata.of(sidecar, names)
    [found] = map_partitions(opened, strata.read)
    return strata, found


def test_what_is_read_is_what_was_published() -> None:
    frame, sidecar = RELEASE.frame, RELEASE.sidecar
    strata, (numbers, codes) = read(RELEASE, NAMES)
    assert strata.columns == [*NAMES, COLUMN] and strata.withholds and strata.noisy
    assert (numbers == frame[COLUMN].to_numpy()).all()
    for recipe in opened(sidecar).recipes:
        rows = np.flatnonzero(numbers == recipe.number)
        for axis, exposures, own, of in zip(
            strata.axes, strata.exposures, codes, strata.numbers[recipe.number], strict=True
        ):
            revealed = own[rows]
            if of == 0:
                assert (revealed == exposures.withheld).all() and axis.name not in recipe.attributes
                continue
            revealed = revealed - exposures.first[of - 1]
            domain = axis.domain if axis.kept else recipe.through[axis.name].published_domain(axis.name)
            values = domain.decode(revealed.astype(np.uint32)).to_pylist()
            assert values == frame[rows.tolist()][axis.name].to_list()


def test_strata_are_records_of_one_list_of_exposures() -> None:
    strata, (numbers, codes) = read(RELEASE, ["age", "town", "ill"])
    grouped = strata.grouped([0, 1, 2], 1.02)
    assert {s.axes for s in grouped.strata} == {(0, 1, 2), (0, 2), (1, 2), (2,)}
    assert [grouped.strata[i].axes for i in grouped.complete(3)] == [(0, 1, 2)]
    assert strata.together([0, 1]) and len(grouped.complete(4)) == 0
    rows = [grouped.rows(numbers, i) for i in range(len(grouped.strata))]
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(len(numbers)))
    for stratum, own in zip(grouped.strata, rows, strict=True):
        cells = stratum.codes(codes, own)
        assert all((c < size).all() for c, size in zip(cells, stratum.shape, strict=True))


@pytest.mark.parametrize("given", [{}, {"attributes": {"age": {"domain": [0, 120], "matrix": "band"}}}])
def test_one_recipe_is_one_stratum_without_noise(given: dict[str, Any]) -> None:
    asked: dict[str, Any] = {
        "gamma": 9,
        "class_": "ill",
        "drop": ["who"],
        "keep": ["ill"],
        "attributes": DOMAINS,
        "seed": 1,
    }
    release = perturb(table(500), keep_order=True, **asked | given)
    strata, (numbers, codes) = read(release, NAMES)
    grouped = strata.grouped(range(5), 1.02)
    [stratum] = grouped.strata
    assert stratum.axes == (0, 1, 2, 3, 4) and not stratum.noisy and grouped.complete(5) == [0]
    assert not strata.withholds and not strata.noisy and strata.columns == NAMES and not numbers.any()
    assert grouped.rows(numbers, 0) == slice(None)
    for axis, own in zip(strata.axes, stratum.codes(codes), strict=True):
        assert axis.published.decode(own).to_pylist() == release.frame[axis.name].to_list()


def test_the_codes_follow_the_law_of_the_box() -> None:
    """At level `LEVEL`, of one recipe over its two attributes; the law of another gamma is told."""
    same = table(60_000).with_columns(age=pl.lit(47), level=pl.lit(2))
    asked: dict[str, Any] = {"record_epsilon": 2, "publish": 2, "drop": ["who"], "keep": ["ill"]}
    release = perturb(same, attributes=DOMAINS, keep_order=True, seed=3, **asked)
    [recipe] = [d for d in opened(release.sidecar).recipes if set(d.attributes) == {"age", "level"}]
    [channel] = recipe.channels
    strata, (numbers, codes) = read(release, channel.attributes)
    [stratum] = [s for s in strata.grouped([0, 1], 1.02).strata if len(s.axes) == 2]
    cells = stratum.codes(codes, numbers == recipe.number)
    found = channel.published.joined([c.astype(np.uint32) for c in cells])
    true = channel.domain.joined([np.array([4], np.uint8), np.array([2], np.uint8)])[0]
    counts, spec = np.bincount(found, minlength=channel.published.size), channel.spec
    assert spec is not None and chi_square(counts, channel.matrix.dense()[:, true]) > LEVEL
    revealed = np.multiply.outer(*(e.matrix[:, c] for e, c in zip(stratum.exposures, (4, 2), strict=True)))
    law = blended(strata.lam[recipe.number], revealed, np.multiply.outer(*(e.noise for e in stratum.exposures)))
    np.testing.assert_allclose(law.ravel(), channel.matrix.dense()[:, true], atol=1e-12)
    stronger = msgspec.structs.replace(spec, gamma=9).matrix(channel.domain)
    assert chi_square(counts, stronger.dense()[:, true]) < LEVEL


def test_reading_refuses_what_no_recipe_publishes() -> None:
    frame, sidecar = RELEASE.frame, RELEASE.sidecar
    numbers = {d.attributes: d.number for d in opened(sidecar).recipes}
    at = pl.int_range(pl.len())
    row = {key: int(np.flatnonzero(frame[COLUMN].to_numpy() == n)[0]) for key, n in numbers.items()}
    wrong = [
        (pl.when(at == row["age", "pay"]).then(pl.lit("a")).otherwise("town").alias("town"), "withholds"),
        (pl.when(at == row["town", "level"]).then(None).otherwise("town").alias("town"), "no value"),
        (pl.when(at == 5).then(pl.lit(6, pl.UInt16)).otherwise(COLUMN).alias(COLUMN), "does not list"),
        (pl.when(at == row["age", "level"]).then(pl.lit(500)).otherwise("age").alias("age"), "never publishes"),
    ]
    for change, said in wrong:
        with pytest.raises(MismatchError) as error:
            read(RELEASE, NAMES, frame.with_columns(change))
        assert said in str(error.value) and "row" in str(error.value) and "500" not in str(error.value)


@pytest.mark.parametrize("wanted", [{"gamma": 5}, {"record_epsilon": 4, "publish": "2"}])
def test_a_miner_is_one_file(wanted: dict[str, Any]) -> None:
    people = make(4_000, age=range(20, 60), town={"n": 0.2, "s": 0.2, "e": 0.6}, ill={"no": 0.8, "yes": 0.2})
    made = perturb(people, seed=1, attributes={"age": {"bins": 4}}, rare="publish", **wanted)
    assert [commonest(made.frame, n, made.sidecar) for n in ("town", "ill")] == ["e", "no"]


def test_attributes_that_no_record_shows_are_named_alone_or_together() -> None:
    assert never_together(["a"]).what == "'a' was never published"
    assert never_together(["a", "b"]).what == "'a', 'b' were never published together in one record"

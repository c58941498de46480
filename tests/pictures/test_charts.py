"""Pictures stay legible at the width of a page: many attributes, thousands of categories, dates, nulls."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import attack, estimate, perturb
from ppdm_cli.pictures import charts, distributions, draw_attacks
from ppdm_cli.tables import PendingFile, commit
from tests.vocabulary import Run

pytest.importorskip("vl_convert")
PAGE = 1000
"""Pixels of a page's width, at which a picture's letters are about as large as the text's."""


def drawn(folder: Path, draw: Any, *args: Any) -> tuple[str, float, float]:
    """What a picture is as SVG, and its width and height."""
    path = folder / "p.svg"
    with PendingFile(path, force=True) as target:
        draw(args[0], target, *args[1:])
        commit(target)
    svg = path.read_text()
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert size
    return svg, float(size[1]), float(size[2])


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def turned(svg: str) -> list[str]:
    """The labels that do not stand upright, but for titles of the axes of records."""
    found = re.findall(r"<text[^>]*rotate\((?!0[,)])[^>]*>([^<]+)</text>", svg)
    return [t for t in found if t != "records"]


def draw_distributions(frame: pl.DataFrame, target: PendingFile) -> None:
    distributions(frame).save(target)


@pytest.fixture(scope="module")
def wide() -> Any:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({f"attribute {i}": rng.integers(0, 2 + i % 8, 2000) for i in range(50)})
    return perturb(frame, gamma=9, rare="publish", seed=1)


def test_fifty_attributes_are_legible_at_the_width_of_a_page(wide: Any, tmp_path: Path) -> None:
    done = attack(wide.frame, sidecar=wide.sidecar, attacks=["posterior"])
    svg, width, height = drawn(tmp_path, draw_attacks, done.rows)
    assert width < PAGE and height < 1200 and not turned(svg)
    assert "the 30 of 50 attributes with the largest leaks" in texts(svg)
    assert "the other 20, on average" in texts(svg) and texts(svg).count("named exactly") == 2, (
        "an axis at both ends"
    )
    gains = {r.attribute: r.exact - r.exact_prior for r in done.rows}
    largest = sorted(gains, key=lambda n: -gains[n])[:30]
    assert [t for t in texts(svg) if t.startswith("attribute ")] == largest
    rows = estimate(wide.frame, sidecar=wide.sidecar).frame
    svg, width, height = drawn(tmp_path, draw_distributions, rows)
    assert width < PAGE and height < 4000 and not turned(svg)
    assert len({t for t in texts(svg) if t.startswith("attribute ")}) == 50


def test_of_more_distributions_the_first_are_drawn(
    wide: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "MOST_PANELS", 3)
    rows = estimate(wide.frame, sidecar=wide.sidecar).frame
    svg, _, _ = drawn(tmp_path, draw_distributions, rows)
    assert any("The first 3 of 50 distributions" in t for t in texts(svg)) and "attribute 3" not in texts(svg)


def rows(labels: list[str], estimates: dict[str, float]) -> pl.DataFrame:
    """A table of estimates; of values that are not named each is of one record."""
    each = [estimates.get(label, 1.0) for label in labels]
    ends = [{"low": e - 1, "high": e + 1} for e in each]
    found = [{"label": n, "estimate": e, **end} for n, e, end in zip(labels, each, ends, strict=True)]
    return pl.DataFrame(found).with_columns(attribute=pl.lit("x"), observed=10.0)


def test_of_four_thousand_categories_the_thirty_largest_and_the_rest(tmp_path: Path) -> None:
    largest = [f"a code {i:04d}" for i in range(7, 3000, 100)]
    labels = [*(f"a code {i:04d}" for i in range(4000)), "null"]
    every = rows(labels, dict.fromkeys(largest, 100.0) | {"null": 0.5})
    svg, width, height = drawn(tmp_path, draw_distributions, every)
    assert [t for t in texts(svg) if t.startswith("a code ")] == largest and "null" in texts(svg)
    share = 3970 / (3970 + 3000.5)
    assert f"the 30 most common of 4,000 values (the rest have {100 * share:.3g}%)" in texts(svg)
    assert width < PAGE and height < 700 and not turned(svg) and texts(svg).count("records") == 2


DAYS = [f"[2021-{1 + i // 28:02d}-{1 + i % 28:02d}, 2022-01-01)" for i in range(90)]
MONTHS = [f"[2021-{i:02d}-01, 2021-{i + 1:02d}-01)" for i in range(1, 12)]
YEARS = [f"[{y}-01-01, {y + 1}-01-01)" for y in range(2021, 2030)]
HOURS = [f"[2021-01-01T{i:02d}:00:00, 2021-01-02T00:00:00)" for i in range(24)]
NUMBERS = [f"[{i}, {i + 10})" for i in range(1000, 3000, 10)]


@pytest.mark.parametrize(
    ("bins", "first", "letters"),
    [
        (DAYS, "2021-01-01", 10),
        (HOURS, "2021-01-01T00:00:00", 19),
        (MONTHS, "2021-01", 7),
        (YEARS, "2021", 4),
        (NUMBERS, "1000", 4),
    ],
)
def test_bins_show_their_beginnings_upright_and_null_apart(
    bins: list[str], first: str, letters: int, tmp_path: Path
) -> None:
    svg, _, _ = drawn(tmp_path, draw_distributions, rows([*bins, "null"], {}))
    shown = [t for t in texts(svg) if len(t) >= len(first) and any(b.startswith(f"[{t}") for b in bins)]
    assert not turned(svg) and shown[0] == first and 2 <= len(shown) <= 480 // (letters * 6.5)
    few = [str(i) for i in range(1, 7)]
    numbered, _, _ = drawn(tmp_path, draw_distributions, rows([*few, "null"], {}))
    assert "1 2 3 4 5 6 null" in " ".join(texts(numbered))
    assert "null" in texts(svg)


def test_a_column_is_named_with_its_label(tmp_path: Path, ppdm: Run) -> None:
    rng = np.random.default_rng(1)
    made = pl.DataFrame({"x": rng.integers(0, 3, 300), "smoker": rng.random(300) < 0.5})
    perturb(made, tmp_path / "r.parquet", gamma=9)
    ppdm("estimate", "r.parquet", "--by", "smoker", "--attribute", "x", "--plot", "p.svg")
    assert "x where smoker is False" in texts((tmp_path / "p.svg").read_text())


def test_a_picture_shows_itself_in_a_notebook_with_observed_counts_of_all_records(wide: Any) -> None:
    """Where each record shows a few attributes, bars of observed counts would lie on the floor."""
    frame = pl.DataFrame({"a": [0, 1, 2, 3] * 500, "b": [0, 1] * 1000})
    release = perturb(frame, record_epsilon=4, publish="1", rare="publish", seed=1, keep_order=True)
    rows = estimate(release.frame, sidecar=release.sidecar).frame
    picture = distributions(rows)
    assert picture._repr_png_().startswith(b"\x89PNG")
    text = str(picture.chart.to_dict())
    assert "observed, scaled to all records" in text
    found = [float(n) for n in re.findall(r"'observed': ([0-9.]+)", text)]
    assert rows["observed"].sum() == pytest.approx(2000) and sum(found) == pytest.approx(4000)
    whole = str(distributions(estimate(wide.frame, sidecar=wide.sidecar, attributes="attribute 0").frame).chart)
    assert "scaled" not in whole

"""Pictures stay legible at the width of a page: many attributes, thousands of categories, dates, nulls."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import attack, estimate, perturb
from ppdm_cli.pictures import attacks, charts, distributions
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


@pytest.fixture(scope="module")
def wide() -> Any:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({f"attribute {i}": rng.integers(0, 2 + i % 8, 2000) for i in range(50)})
    return perturb(frame, gamma=9, rare="publish", seed=1)


def test_fifty_attributes_are_legible_at_the_width_of_a_page(wide: Any, tmp_path: Path) -> None:
    done = attack(wide.frame, sidecar=wide.sidecar, attacks=["posterior"])
    svg, width, height = drawn(tmp_path, attacks, done.rows)
    assert width < PAGE and height < 1200 and not turned(svg)
    assert "the 30 of 50 attributes of which most is learnt" in texts(svg)
    assert "the other 20, on average" in texts(svg) and texts(svg).count("named exactly") == 2, (
        "an axis at both ends"
    )
    gains = {r.attribute: r.exact - r.exact_prior for r in done.rows}
    largest = sorted(gains, key=lambda n: -gains[n])[:30]
    assert [t for t in texts(svg) if t.startswith("attribute ")] == largest
    rows = estimate(wide.frame, sidecar=wide.sidecar).frame.to_dicts()
    svg, width, height = drawn(tmp_path, distributions, rows)
    assert width < PAGE and height < 4000 and not turned(svg)
    assert len({t for t in texts(svg) if t.startswith("attribute ")}) == 50


def test_of_more_distributions_the_first_are_drawn(
    wide: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "MOST_PANELS", 3)
    rows = estimate(wide.frame, sidecar=wide.sidecar).frame.to_dicts()
    svg, _, _ = drawn(tmp_path, distributions, rows)
    assert any("The first 3 of 50 distributions" in t for t in texts(svg)) and "attribute 3" not in texts(svg)


def row(
    label: str, estimated: float, lower: float = float("nan"), upper: float = float("nan")
) -> dict[str, Any]:
    place = {"attribute": "x", "label": label, "lower": lower, "upper": upper}
    return place | {"observed": 10.0, "estimate": estimated, "low": estimated - 1, "high": estimated + 1}


def test_of_four_thousand_categories_the_thirty_largest_and_the_rest(tmp_path: Path) -> None:
    rows = [row(f"a code {i:04d}", 100.0 if i % 100 == 7 and i < 3000 else 1.0) for i in range(4000)]
    svg, width, height = drawn(tmp_path, distributions, [*rows, row("null", 0.5)])
    labels = [t for t in texts(svg) if t.startswith("a code ")]
    assert labels == [f"a code {i:04d}" for i in range(7, 3000, 100)] and "null" in texts(svg)
    share = 3970 / (3970 + 3000.5)
    assert f"the 30 commonest of 4,000 values; the rest have {100 * share:.3g}%" in texts(svg)
    assert width < PAGE and height < 700 and not turned(svg) and texts(svg).count("records") == 2


def test_dates_are_upright_and_do_not_touch(tmp_path: Path) -> None:
    bins = [row(f"[2021-{1 + i // 28:02d}-{1 + i % 28:02d}, 2022-01-01)", 5.0) for i in range(90)]
    svg, _, _ = drawn(tmp_path, distributions, bins)
    shown = [t for t in texts(svg) if t.startswith("2021-")]
    assert not turned(svg) and shown[0] == "2021-01-01" and 3 <= len(shown) <= 480 // (10 * 6.5)
    hours = [row(f"[2021-01-01T{i:02d}:00:00, 2021-01-02T00:00:00)", 5.0) for i in range(24)]
    assert "2021-01-01T00:00:00" in texts(drawn(tmp_path, distributions, hours)[0])


def test_null_stands_apart_and_no_number_under_it(tmp_path: Path) -> None:
    bins = [row(f"[{i}, {i + 10})", 5.0, i, i + 10.0) for i in range(0, 120, 10)]
    svg, _, _ = drawn(tmp_path, distributions, [*bins, row("null", 7.0)])
    numbers = [int(t) for t in texts(svg) if re.fullmatch(r"\d+", t)]
    assert "null" in texts(svg) and max(n for n in numbers if n > 12) == 120
    few = [row(str(i), 5.0) for i in range(1, 7)]
    svg, _, _ = drawn(tmp_path, distributions, [*few, row("null", 7.0)])
    assert "1 2 3 4 5 6 null" in " ".join(texts(svg))


@pytest.mark.parametrize(
    ("low", "high", "most", "ticks"),
    [
        (0, 120, 8, [0, 20, 40, 60, 80, 100, 120]),
        (3, 97, 5, [20, 40, 60, 80]),
        (-1, 1, 4, [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, most: int, ticks: list[float]) -> None:
    assert charts._ticks(low, high, most) == ticks


def test_a_column_is_named_with_its_label(tmp_path: Path, ppdm: Run) -> None:
    rng = np.random.default_rng(1)
    made = pl.DataFrame({"x": rng.integers(0, 3, 300), "smoker": rng.random(300) < 0.5})
    perturb(made, tmp_path / "r.parquet", gamma=9)
    ppdm("estimate", "r.parquet", "--by", "smoker", "--attribute", "x", "--plot", "p.svg")
    assert "x where smoker is False" in texts((tmp_path / "p.svg").read_text())

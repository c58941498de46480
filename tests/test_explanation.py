"""The figures of docs/explanation and docs/technical are those of the code."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from ppdm_cli.channels.exact_draw import DIGITS
from ppdm_cli.display import at_most
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.perturbing.row_order import FALSE_ALARM, LAGS, REVEALING
from ppdm_cli.privacy import believed_after
from ppdm_cli.sidecar import LARGEST_SIDECAR

DOCS = Path(__file__).resolve().parents[1] / "docs"


def text_of(page: str) -> str:
    """Return a page's text with single spaces."""
    return " ".join((DOCS / f"{page}.md").read_text("utf-8").split())


@pytest.mark.parametrize("epsilon", [1, 2, 4, 8])
def test_the_page_on_promises_has_the_odds_of_the_code(epsilon: int) -> None:
    odds, rare, even = re.findall(
        rf"\| {epsilon} \| ([\d.,]+) times \| (.*?) \| (.*?) \|", text_of("explanation/promises")
    )[0]
    assert float(odds.replace(",", "")) == pytest.approx(math.exp(epsilon), rel=2e-3)
    assert (rare, even) == tuple(at_most(believed_after(epsilon, prior)) for prior in (0.01, 0.5))


def test_the_page_on_limits_has_the_errors_of_small_tables() -> None:
    limits = text_of("explanation/limits")
    for records, share in ((100, "19% of 100"), (10_000, "1.9% of 10,000"), (1_000_000, "0.19% of a million")):
        gamma, values = 9, 10
        error = math.sqrt((values - 1) * (values + 2 * (gamma - 1)) / records) / (gamma - 1)
        assert error == pytest.approx(float(share.split("%")[0]) / 100, rel=0.01)
        assert share in limits


def test_the_method_has_the_thresholds_of_the_check_of_the_order() -> None:
    method = text_of("technical/method")
    assert f"by at least {REVEALING:g} of what is possible" in method
    assert f"at most once in {1 / FALSE_ALARM:,.0f}" in method
    assert f"1 to 12, {', '.join(map(str, LAGS[12:-1]))} and {LAGS[-1]} rows apart" in method
    assert DIGITS == 6 and "at most six significant digits" in method


def test_the_page_on_files_has_the_sizes_of_the_code() -> None:
    files = text_of("reference/files")
    assert f"more than {MOST_VALUES:,} different texts" in files
    assert f"a sidecar, a tree in JSON | {LARGEST_SIDECAR >> 20} MiB" in files


def test_the_page_on_alternatives_has_the_errors_of_a_central_and_of_a_local_count() -> None:
    alternatives, n, epsilon = text_of("explanation/alternatives"), 100_000, 1
    gamma = math.exp(epsilon)
    local = math.sqrt(n * gamma) / (gamma - 1)
    assert (
        f"about {math.sqrt(2) / epsilon:.1f} records. A local release has one of about {local:.0f}."
        in alternatives
    )


def test_every_table_of_results_is_linked_from_a_page() -> None:
    results = {p.name for p in (DOCS.parent / "tests" / "experiments" / "results").iterdir()}
    pages = "".join(p.read_text("utf-8") for p in DOCS.rglob("*.md"))
    assert results == set(re.findall(r"tests/experiments/results/(\w+\.csv)\)", pages))


def test_accuracies_for_whole_records_are_those_of_the_results() -> None:
    results, page = DOCS.parent / "tests" / "experiments" / "results", text_of("technical/experiments")
    rows = list(csv.reader((results / "records.csv").read_text("utf-8").splitlines()))
    shown = [row for row in rows if row[0].startswith(("one pass", "rounds"))]
    assert len(shown) == 4 and all(f"| {' | '.join(row)} |" in page for row in shown)

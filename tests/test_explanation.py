"""The figures of docs/explanation and docs/technical are those of the code."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from ppdm_cli.display import at_most
from ppdm_cli.privacy import believed_after

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

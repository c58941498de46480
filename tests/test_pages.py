"""The order of the documentation: each page has its budget of words, and is two clicks away from the README."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.docs import DOCS, ROOT

BUDGETS = {
    "README": 800, "CHANGELOG": 360, "CONTRIBUTING": 600, "docs/SECURITY": 150, "docs/README": 450,
    "docs/faq": 750, "docs/glossary": 600, "docs/tutorials/miner": 850, "docs/tutorials/owner": 1250,
    "docs/how-to/check-and-sign": 700, "docs/how-to/choose-a-budget": 600,
    "docs/how-to/count-values": 400, "docs/how-to/experiments": 450,
    "docs/how-to/data-for-other-tools": 310, "docs/how-to/dataframes": 380,
    "docs/how-to/fix-a-mistake": 400, "docs/how-to/pram": 180, "docs/how-to/prepare-an-export": 550,
    "docs/how-to/publish-again": 700, "docs/how-to/rare-and-long-columns": 550,
    "docs/how-to/send-a-release": 320, "docs/how-to/several-parties": 600,
    "docs/how-to/several-rows-per-person": 300, "docs/how-to/spark": 550, "docs/how-to/sql": 450,
    "docs/how-to/stores": 550, "docs/how-to/train-a-tree": 500, "docs/reference/commands": 4700,
    "docs/reference/errors": 2500, "docs/reference/files": 650, "docs/reference/plan": 1200,
    "docs/reference/python": 800, "docs/reference/reports": 450, "docs/reference/query": 700,
    "docs/reference/shell": 300,
    "docs/reference/sidecar": 1400, "docs/explanation/alternatives": 600,
    "docs/explanation/attackers": 1150, "docs/explanation/how-it-works": 850,
    "docs/explanation/learning": 800, "docs/explanation/limits": 1450, "docs/explanation/promises": 850,
    "docs/technical/architecture": 800, "docs/technical/experiments": 2500, "docs/technical/method": 6500,
}  # fmt: skip
"""Words of each page, with tables and code; a page may have a tenth more or fewer."""
PARTS = {
    "Tutorials": "tutorials", "How-to guides": "how-to", "Reference": "reference", "Explanation": "explanation",
    "Technical notes": "technical",
}  # fmt: skip
"""The headings of the index, each with the folder of its pages."""
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)")


def words(text: str) -> int:
    return sum(any(c.isalnum() for c in word) for word in text.split())


def linked(text: str, folder: Path) -> set[Path]:
    """The files that a page in a folder links."""
    return {Path(os.path.normpath(folder / link)) for link in _LINK.findall(text)}


def pages() -> set[Path]:
    return {*ROOT.glob("*.md"), *DOCS.rglob("*.md")}


def test_every_page_has_a_budget() -> None:
    assert {str(p.relative_to(ROOT).with_suffix("")) for p in pages()} == BUDGETS.keys()


@pytest.mark.parametrize(("page", "budget"), BUDGETS.items())
def test_a_page_keeps_to_its_budget(page: str, budget: int) -> None:
    count = words((ROOT / f"{page}.md").read_text("utf-8"))
    assert abs(count - budget) <= budget / 10, f"{count} words"


def test_every_page_is_two_clicks_from_the_readme() -> None:
    first = linked((ROOT / "README.md").read_text("utf-8"), ROOT)
    texts = [(p.read_text("utf-8"), p.parent) for p in first if p.suffix == ".md"]
    assert pages() - {ROOT / "README.md"} <= first.union(*(linked(text, folder) for text, folder in texts))


def test_the_index_has_each_part_with_its_pages() -> None:
    _, *sections = re.split(r"^## ", (DOCS / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    found = {s.partition("\n")[0]: linked(s, DOCS) for s in sections}
    assert list(found) == list(PARTS)
    for title, folder in PARTS.items():
        own = {p for p in pages() if p.parent == DOCS / folder}
        assert own and own <= found[title], title
    home = {ROOT / "README.md", DOCS / "README.md"}
    assert pages() - home <= set().union(*found.values()), "a page outside the index is none of the site's"


def test_the_site_has_pinned_tools_and_fetches_nothing_when_read() -> None:
    pins, *settings = (
        (DOCS / "site" / n).read_text("utf-8") for n in ("requirements.txt", "mkdocs.yml", "site.css")
    )
    lines = pins.replace(" \\\n", "").splitlines()[1:]
    assert len(lines) > 20
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    assert "font: false" in settings[0] and "http" not in "".join(settings)

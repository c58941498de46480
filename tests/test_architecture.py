"""The page on the architecture shows the tree: its packages, their layers, and files that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "technical" / "architecture.md").read_text("utf-8")
PACKAGE = ROOT / "ppdm_cli"
NOT_SHOWN = {"__init__", "__main__"}


def on_the_page() -> list[str]:
    """Return the packages and modules of the page's first table, from the top."""
    table = PAGE.partition("## Packages")[2].partition("## Words")[0]
    return re.findall(r"^\| `(\w+)(?:/|\.py)` \|", table, re.MULTILINE)


def layers() -> list[list[str]]:
    """Return the layers that the import linter holds, from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layered = next(c for c in settings["contracts"] if c["type"] == "layers")["layers"]
    return [[name.strip().removeprefix("ppdm_cli.") for name in layer.split("|")] for layer in layered]


def test_every_package_and_module_is_on_the_page_once() -> None:
    there = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert sorted(on_the_page()) == sorted(there - NOT_SHOWN)


def test_the_page_has_the_order_of_the_layers() -> None:
    layer_of = {name: number for number, layer in enumerate(layers()) for name in layer}
    numbers = [layer_of[name] for name in on_the_page()]
    assert numbers == sorted(numbers)


def test_the_files_that_the_page_names_are_there() -> None:
    named = [p for p in re.findall(r"`([\w/]+\.(?:py|toml))`", PAGE) if "/" in p]
    assert len(named) > 5
    assert not [p for p in named if not (ROOT / p).exists() and not (PACKAGE / p).exists()]

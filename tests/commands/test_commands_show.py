"""Tables on terminals of any width, and what a report says of bands that were asked for in vain."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ppdm_cli.commands import show


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_no_cell_is_broken(width: int) -> None:
    stream = io.StringIO()
    out = Console(file=stream, width=width)
    rows = [["uniformity_cell_size", "continuous double", 1234.5], ["age", "discrete int64", None]]
    show.table(out, "figures", ["attribute", "what type", "a long title"], rows)
    lines = stream.getvalue().splitlines()
    assert lines[0].rstrip() == "figures" and out.width == width
    assert [line.split() for line in lines[-2:]] == [
        ["uniformity_cell_size", "continuous", "double", "1234"],
        ["age", "discrete", "int64", "-"],
    ]

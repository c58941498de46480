"""Charts from result tables, each legible at the width of a page, whatever the number of attributes."""

from __future__ import annotations

from ppdm_cli.pictures.beliefs import attacks
from ppdm_cli.pictures.counts import distributions
from ppdm_cli.pictures.drawing import opened
from ppdm_cli.pictures.matrices import MOST_LINES, designs, entropy

__all__ = ["MOST_LINES", "attacks", "designs", "distributions", "entropy", "opened"]

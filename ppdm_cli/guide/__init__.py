"""Choosing gamma and N: what a matrix costs and gives (Dowd et al. sections 4 and 6)."""

from __future__ import annotations

from ppdm_cli.guide.surfaces import of_grid, of_release
from ppdm_cli.guide.writing import fill

__all__ = ["fill", "of_grid", "of_release"]

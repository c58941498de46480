"""Domains for all packages: the values or bins of an attribute, in order, and their codes.

A domain turns a column into codes and codes into a column, and answers for its own numbers, limits and
widths. It is what an owner declares or derives and what a sidecar publishes. Null, where it takes part,
is the last code.
"""

from __future__ import annotations

from ppdm_cli.domain.base import (
    MOST_COMBINATIONS,
    MOST_VALUES,
    Domain,
    Encoded,
    Extents,
    Product,
    Representative,
    unit,
)
from ppdm_cli.domain.bins import CALENDAR, Bins, calendar_edges, nice_edges, starts
from ppdm_cli.domain.categories import OTHER, Categories

__all__ = [
    "CALENDAR", "MOST_COMBINATIONS", "MOST_VALUES", "OTHER", "Bins", "Categories", "Domain", "Encoded",
    "Extents", "Product", "Representative", "calendar_edges", "nice_edges", "starts", "unit",
]  # fmt: skip

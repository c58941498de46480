"""Releases in: data and sidecar opened together by the stage that they carry, and only if they fit.

Several releases with one plan are one table; a release from a stream, which is public, is spooled where it
is read again.
"""

from __future__ import annotations

from ppdm_cli.releases.concatenated import open_data, open_releases, spooled
from ppdm_cli.releases.release import OWN, is_promised, open_original, open_release, other_rows
from ppdm_cli.releases.sidecars import check_same, cut, read_sidecar
from ppdm_cli.releases.strata import (
    Exposure,
    Exposures,
    Grouped,
    Strata,
    Stratum,
    Unchanged,
    axes_of,
    axis_of,
    encoded,
    mixed,
    never_together,
)

__all__ = [
    "OWN", "Exposure", "Exposures", "Grouped", "Strata", "Stratum", "Unchanged", "axes_of", "axis_of",
    "check_same", "cut", "encoded", "is_promised", "mixed", "never_together", "open_data", "open_original",
    "open_release", "open_releases", "other_rows", "read_sidecar", "spooled",
]  # fmt: skip

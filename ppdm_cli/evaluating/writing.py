"""Entropy tables as columnar files, with a sidecar that says which matrices they speak of."""

from __future__ import annotations

import uuid
from typing import Any

from ppdm_cli import sidecar as sidecars
from ppdm_cli.sidecar import Evaluated, Sidecar
from ppdm_cli.tables import Output


def fill(rows: list[dict[str, Any]], release: Sidecar | None, output: Output) -> None:
    """Write the rows, and a sidecar at stage "evaluated"."""
    import polars as pl

    sidecar = Sidecar(
        format="ppdm-sidecar",
        version=1,
        tool=sidecars.tool(),
        stage="evaluated",
        release=release.release if release is not None else str(uuid.uuid4()),
        records=len(rows),
        attributes=release.perturbed if release is not None else [],
        recipes=release.recipes if release is not None else [],
        evaluated=Evaluated(sorted({r["gamma"] for r in rows}), sorted({r["N"] for r in rows})),
    )
    output.fill_frame(pl.DataFrame(rows, infer_schema_length=None), sidecar)

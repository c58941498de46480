"""Entropy tables as columnar files, with a sidecar that says which matrices they speak of."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from ppdm_cli import sidecar as sidecars
from ppdm_cli.sidecar import Evaluated, Sidecar
from ppdm_cli.tables import Target, format_of, open_writer, sidecar_path
from ppdm_cli.tables.replacing import check_sidecar, writing


def write(
    rows: list[dict[str, Any]],
    release: Sidecar | None,
    path: Path,
    force: bool,
    inputs: Sequence[Path] = (),
) -> None:
    """The rows, and a sidecar at stage "evaluated"."""
    form = format_of(path)
    check_sidecar(sidecar_path(path), path, force, inputs)
    table = pl.DataFrame(rows).to_arrow()
    said = Sidecar(
        format="ppdm-sidecar",
        version=1,
        tool=sidecars.tool(),
        stage="evaluated",
        release=release.release if release is not None else str(uuid.uuid4()),
        records=len(rows),
        attributes=release.perturbed if release is not None else [],
        evaluated=Evaluated(sorted({r["gamma"] for r in rows}), sorted({r["N"] for r in rows})),
    )
    with (
        Target(path, force, inputs) as target,
        open_writer(target.file, form, table.schema, said.encode()) as writer,
    ):
        with writing(path):
            for batch in table.to_batches():
                writer.write(batch)
            writer.close(said.encode())
        digest = writer.digest()
        if digest is not None:
            said = msgspec.structs.replace(said, blake2b=digest)
        target.publish(said.encode(), sidecar_path(path))

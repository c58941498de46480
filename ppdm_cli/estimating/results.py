"""Estimates as a table: one row a value, or a combination of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np

from ppdm_cli import sidecar as sidecars
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Output

if TYPE_CHECKING:
    import polars as pl

    from ppdm_cli.estimating import Estimated


def as_frame(tables: Sequence[Estimated]) -> pl.DataFrame:
    """Return all tables below each other; jointly estimated attributes have a column of their own."""
    import polars as pl

    frames = [pl.DataFrame(_columns(t)) for t in tables]
    return pl.concat(frames, how="vertical_relaxed")


def _columns(table: Estimated) -> dict[str, Any]:
    import polars as pl

    domains = table.domains
    shape = table.estimate.shape
    places = [p.ravel() for p in np.indices(shape)]
    labels = [np.array(d.labels(), object)[p] for d, p in zip(domains, places, strict=True)]
    columns: dict[str, Any] = {}
    if len(table.names) > 1 + table.by:
        columns |= {n: label.tolist() for n, label in zip(table.names, labels, strict=True)}
    else:
        if table.by:
            columns["class"] = labels[0].tolist()
        lower, upper = domains[-1].limits()
        columns |= {
            "attribute": [table.names[-1]] * table.estimate.size,
            "code": places[-1],
            "label": labels[-1].tolist(),
            "lower": lower[places[-1]],
            "upper": upper[places[-1]],
        }
    interval = table.interval
    columns |= {"observed": table.unchanged.ravel(), "estimate": table.estimate.ravel()}
    for name in ("std_error", "low", "high"):  # null where there is no interval
        columns[name] = pl.Series(getattr(interval, name).ravel(), nan_to_null=True)
    if table.records is not None:
        columns["records"] = table.records.ravel().astype(np.int64)
    if table.truth is not None:
        columns["true"] = table.truth.ravel()
    return columns


class Result(Protocol):
    """What was estimated of a release, as a table."""

    @property
    def frame(self) -> pl.DataFrame: ...

    @property
    def sidecar(self) -> Sidecar: ...


def fill(done: Result, output: Output) -> None:
    """Write the table with a sidecar at stage "estimated", which says what domains and matrices it speaks of.

    Its records are the table's rows; how many the release has is in the history.
    """
    past = done.sidecar.history
    sidecar = msgspec.structs.replace(
        done.sidecar,
        stage="estimated",
        records=len(done.frame),
        tool=sidecars.TOOL,
        privacy=msgspec.UNSET,
        blake2b=msgspec.UNSET,
        history=past if past is not msgspec.UNSET else [sidecars.Past.of(done.sidecar)],
    )
    output.fill_frame(done.frame, sidecar)

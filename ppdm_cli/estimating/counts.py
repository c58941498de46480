"""How often each code occurs in a release: one fold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.engine import Batch, Progress, fold
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.sidecar import Attribute
from ppdm_cli.tables import Table

Counts = dict[str, np.ndarray]


def observed_counts(
    table: Table,
    attributes: Sequence[Attribute],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Floats]:
    """Counts of each attribute's output codes."""
    domains = {a.name: a.domain for a in attributes}

    def work(batch: Batch) -> Counts:
        counts = {}
        for name, domain in domains.items():
            encoded = domain.encode(batch.column(name))
            if encoded.outside.size:
                raise MismatchError(
                    f"the column {quoted(name)} has a value outside the sidecar's domain in "
                    f"{batch.where(int(encoded.outside[0]))}",
                    "the data or the sidecar was changed: fetch both again",
                )
            counts[name] = np.bincount(encoded.codes, minlength=domain.size)
        return counts

    def merge(a: Counts, b: Counts) -> Counts:
        return {name: a[name] + b[name] for name in a}

    found = fold(table, work, merge, columns=list(domains), threads=threads, progress=progress)
    if found is None:
        return {name: np.zeros(d.size) for name, d in domains.items()}
    return {name: counts.astype(np.float64) for name, counts in found.items()}

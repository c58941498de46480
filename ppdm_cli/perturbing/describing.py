"""A sidecar for a file that another tool perturbed, from a plan that says how; it is mined like a release."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ppdm_cli import files
from ppdm_cli.domain import Domain
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, quoted
from ppdm_cli.perturbing.plan import Plan
from ppdm_cli.perturbing.planning import check, csv_options, resolved, sidecar_of
from ppdm_cli.sidecar import SUFFIX, Sidecar
from ppdm_cli.tables import CsvOptions, PendingFile, commit, open_table, sidecar_path


@files.one_run()
def describe(
    data: Any,
    plan: Plan | Mapping[str, Any] | str | Path,
    output: str | Path | None = None,
    *,
    force: bool = False,
    csv: CsvOptions | None = None,
) -> Sidecar:
    """Say in a sidecar how a table was perturbed by another tool; `output` names its file.

    The plan says of each column its kind of matrix and domain, as for `perturb`, and drops none. Nothing is
    known of the coins, so nothing is promised.
    """
    asked = Plan.of(plan)
    table = open_table(data, csv=csv_options(csv, asked, None, None))
    if table.sidecar is not None:
        raise RefusedError(f"{quoted(table.name)} carries a sidecar already", "see ppdm inspect")
    if output is not None and isinstance(data, (str, Path)):
        files.rewriting(sidecar_path(Path(data)), f"{Path(data)}{SUFFIX}")
    with ExitStack() as stack:
        target = None if output is None else stack.enter_context(PendingFile(Path(output), force))
        check(table, asked, None, None)
        settled = resolved(table, asked, None, None)
        if settled.dropped:
            raise UsageError(
                f"the plan drops {quoted(settled.dropped[0])}, which the table has",
                "describe every column of it",
            )
        if settled.several:
            raise UsageError(
                "a plan by which each record publishes a few attributes describes no file of another tool: "
                "nothing there says which ones",
                'say publish = "all", or gamma instead of record_epsilon',
            )
        if any(c.noise is not None for c in settled.channels):
            raise UsageError("only random substitution can be described", "leave out --scheme")
        published = {n: c.shown(n) for n, c in settled.through.items()}
        rows = fold(table, partial(_checked, published), int.__add__, columns=list(published)) or 0
        sidecar = sidecar_of(settled, "unknown", str(uuid.uuid4()), rows)
        if target is not None:
            target.put(sidecar.encode())
            commit(target)
    return sidecar


def _checked(published: Mapping[str, Domain], batch: Batch) -> int:
    """Return the number of rows, if every value is one that the plan's channels publish."""
    for name, domain in published.items():
        outside = domain.encode(batch.column(name)).outside
        if outside.size:
            raise MismatchError(
                f"the column {quoted(name)} has a value in {batch.where(int(outside[0]))} that the plan's "
                "matrix never publishes",
                "declare the domain that it was perturbed with",
            )
    return batch.rows

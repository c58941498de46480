"""`--bins auto`: how many bins a miner profits from, given gamma and the number of records.

More bins place a threshold better, by about 1/N; fewer are estimated better, and the less noise a matrix
makes the more are worth having. The smallest N among the best was measured on five functions at five
gammas and two sizes (docs/papers.md). With gamma-diagonal matrices it is near 10 ((gamma-1)/4)^0.2
(n/100,000)^0.15. A band keeps neighbours together, so that more bins cost little: 20 (n/100,000)^0.1, whatever
gamma is. How many attributes there are matters through gamma only. Few records are better off with fewer bins
still, if those fit: where equal widths may leave most values in one bin, only more of them tell values apart.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from operator import add, attrgetter

from ppdm_cli import dtypes
from ppdm_cli.channels import SUBSTITUTION, Spec
from ppdm_cli.engine import fold
from ppdm_cli.errors import UsageError
from ppdm_cli.perturbing.channel_choice import kind_for
from ppdm_cli.perturbing.plan import Plan
from ppdm_cli.perturbing.resolving import gammas_of, perturbed_columns
from ppdm_cli.tables import Table

LEAST, MOST = 4, 60


def sized(plan: Plan, table: Table, identifier: str | None, left_out: int = 0) -> Plan:
    """Return the plan with a number of bins for each column of numbers that has none of its own.

    As many records are not published as are `left_out`.
    """
    if plan.bins != "auto":
        return plan
    if plan.scheme != SUBSTITUTION:
        raise UsageError("--bins auto is for random substitution", "say how many bins, such as --bins 20")
    perturbed = perturbed_columns(table.schema, plan, identifier)
    gammas = gammas_of(perturbed, plan)
    records = number_of_records(table, "--bins auto") - left_out
    attributes = dict(plan.attributes)
    for name, own in perturbed.items():
        binned = name != plan.class_ and not dtypes.is_discrete(table.schema.field(name).type)
        if own.bins is None and binned and (name,) in gammas:
            fits, has_ends = own.cut != (None, None), own.core not in (None, own.interval)
            bins = best_bins(gammas[(name,)], kind_for(own, plan), records, fits) + has_ends
            attributes[name] = replace(own, bins=bins)
    return replace(plan, bins=None, attributes=attributes)


def best_bins(gamma: Decimal | float, kind: type[Spec], records: int, fits: bool = False) -> int:
    """Return the smallest number of bins among the best; `fits`: the owner declared where values lie."""
    size = max(records, 1) / 100_000
    best = kind.best_bins(float(gamma), size) * (min(size, 1.0) ** 0.1 if fits else 1.0)
    return min(max(round(best), LEAST), MOST)


def number_of_records(table: Table, option: str) -> int:
    if table.rows is not None:
        return table.rows
    if not table.rewindable:
        raise UsageError(
            f"{option} needs the number of records, and standard input can be read only once",
            f"say a number, such as {option.replace('auto', '2' if 'publish' in option else '20')}",
        )
    columns = table.schema.names[:1]
    return fold(table, attrgetter("rows"), add, columns=columns) or 0

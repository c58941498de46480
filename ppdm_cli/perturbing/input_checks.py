"""Checks for `perturb` that only the whole data allow: values outside, repeated identifiers, row order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli.domain import Domain
from ppdm_cli.engine import ENGINE
from ppdm_cli.errors import DataError, RefusedError, argument, counted, listed, quoted
from ppdm_cli.files import changed
from ppdm_cli.perturbing.count_errors import Expected, expected_errors, refuse_useless, unchanged, unlearnable
from ppdm_cli.perturbing.plan import Plan
from ppdm_cli.perturbing.resolving import ResolvedPlan, clipped
from ppdm_cli.perturbing.row_order import in_order, revealed_columns
from ppdm_cli.perturbing.substitution import Checks
from ppdm_cli.privacy import FEW
from ppdm_cli.tables import Table, loaded

MOST_MOVED = 0.5
"""The largest share of a column's values that are moved into its domain because of a plan or --like alone."""
CROWDED = 0.95
"""The share of the values in one bin above which the others are wasted."""
ALONE = 3
"""A kept column with a value for fewer rows than this looks like an identifier."""


@dataclass(frozen=True)
class MovedValues:
    """The number of an attribute's values that were published as others, and their share."""

    count: int
    share: float


@dataclass
class InputChecks:
    """The facts that are collected about a table while it is perturbed, and judged before it is published."""

    table: Table
    plan: ResolvedPlan
    asked: Plan
    left_out: int = 0
    """The number of rows that are not published, because their person has enough."""
    clip: bool = False
    """True if this run, not just a plan, asks for values outside domains to be moved."""
    like: bool = False
    """True if the domains are an earlier release's."""
    copies: int = 1
    checks: Checks = field(default_factory=Checks)
    revealed: list[str] = field(default_factory=list)
    """Attributes whose values the order of the rows reveals; none if it is not the data's."""

    @cached_property
    def expected(self) -> dict[str, Expected | None]:
        """Return the expected errors of each attribute's counts, once all rows are read."""
        return expected_errors(self.plan.in_use, self.checks.rows, self.copies)

    def judge(self) -> int:
        """Return the number of rows, or refuse."""
        if self.checks.rows == 0:
            raise DataError("empty-table", "the table has no records", "add records")
        self._check_outside()
        self._check_moved()
        self._check_identifiers()
        if self.asked.strict:
            refuse_useless(self.expected, unchanged(self.plan.in_use))
        if self.checks.order is not None:
            kept = [a.name for a in self.plan.attributes if a.role == "kept"]
            hidden = [a.name for a in self.plan.attributes if a.role != "kept"]
            self.revealed = revealed_columns(self.checks.order, hidden, kept)
        if self.revealed and not self.asked.keep_order:
            raise RefusedError(
                "order-reveals",
                f"the order of the rows reveals {listed(self.revealed)}: rows near each other are too "
                "similar, or too different",
                self._unordered(),
            )
        if self.table.rows is not None and self.checks.rows != self.table.rows - self.left_out:
            raise changed(self.table.name)
        return self.checks.rows

    def found(self, identifier: str | None) -> dict[str, Any]:
        """Return the facts for the owner: values that were dropped, merged, moved, or revealed by the order."""
        order, dropped = self.checks.order, self.plan.dropped
        ordered = order is not None and identifier in dropped and in_order(order, str(identifier))
        looked_at = self.checks.distinct.items()
        return {
            "dropped": dropped,
            "left_out": self.left_out,
            "merged": self._moved(self.checks.merged),
            "telling_order": self.revealed,
            "in_order_of": identifier if ordered else None,
            "clipped": self._moved(self.checks.moved),
            "errors": {n: None if e is None else e.value for n, e in self.expected.items()},
            "unlearnable": unlearnable(self.expected),
            "in_ranges": [n for n, e in self.expected.items() if e is not None and e.range <= 1 < e.value],
            "unchanged": unchanged(self.plan.in_use),
            "crowded": [n for n, c in self.checks.bins.items() if c.max() > CROWDED * c.sum()],
            "identifying": [n for n, (rows, values) in looked_at if rows > FEW and ALONE * values > rows],
            "typed": list(self.plan.typed),
            "padded": list(self.table.padded),
        }

    def _unordered(self) -> str:
        """Return what to do about the order: leave out numbers of people first, if there may be some."""
        steps = f"add {argument('shuffle', True)}, or {argument('keep_order', True)} if it must stay"
        for one in self.plan.attributes:
            whole = (
                one.dtype.startswith(("int", "uint")) and one.domain_from == "data" and one.edges is not UNSET
            )
            if whole and one.name in self.revealed:
                drop = argument("drop", [one.name])
                return f"add {drop} if {quoted(one.name)} numbers people or cases; otherwise {steps}"
        return steps

    def _moved(self, counts: Mapping[str, int]) -> dict[str, MovedValues]:
        return {n: MovedValues(c, c / self.checks.values[n]) for n, c in sorted(counts.items()) if c}

    def _check_outside(self) -> None:
        for name, outside in self.checks.outside.items():
            rest = [n for n in self.checks.outside if n != name]
            trouble = f"the column {quoted(name)} has {counted(outside.count, 'value')} outside its domain"
            trouble += f" (so have {listed(rest)})" * bool(rest)
            first = f"first a null in {outside.first}" if outside.null else f"first in {outside.first}"
            few = 2 * outside.count <= self.checks.rows
            raise DataError("outside-domain", f"{trouble}, {first}", self._way_out(name, outside.null, few))

    def _way_out(self, name: str, null: bool, few: bool) -> str:
        """Return the next step for a value outside a domain."""
        attribute = next(a for a in self.plan.attributes if a.name == name)
        new = (
            f"leave out {argument('like')} and add {argument('open_domains', True)}, so that later batches fit"
        )
        if null:
            own = f"add {argument('nulls', 'true', name)}, or fill them"
            return new if self.like else self.plan.through[name].no_nulls or own
        if attribute.outside is UNSET and (where := clipped(attribute.domain)) is not UNSET:
            place = "null" if where == "null" else "its nearest bin"
            ways = f"add {argument('clip', True)} to move them to {place}"
            return ways if self.like else f"{self._wider(name)}, or {ways}"
        if attribute.type == "continuous" or attribute.dtype != "string":
            return "fix the data, or make these values null"
        if self.like:
            return new
        never, other = self._never(name, attribute.domain), argument("other", "true", name)
        if never:
            way = other if few else argument("domain", "data", name)
            return f"fix the domain, or use {way}. Declared values that never occur: {listed(never)}"
        return f"add them to the domain, or use {other} to publish them as one"

    def _never(self, name: str, domain: Domain) -> list[str]:
        """Return the values of a text's domain that no record has, by another look at the data."""
        if not self.table.rewindable or ENGINE.get().keeps(self.table):
            return []
        found: set[Any] = set()
        for _, _, batch in loaded(self.table, [name]):
            found |= set(pc.unique(dtypes.plain(batch.column(0))).to_pylist()) & set(domain.marks)
        return [str(v) for v in domain.marks if v not in found]

    def _check_moved(self) -> None:
        """Refuse a column if most of its values would move to the ends of its domain, unless asked for."""
        far = [n for n, moved in self._moved(self.checks.moved).items() if moved.share > MOST_MOVED]
        if far and not self.clip:
            raise RefusedError(
                "most-moved",
                f"more than half of the values of {listed(far)} are outside the domain and would be moved "
                "into it",
                f"{self._wider(far[0])}, or add {argument('clip', True)} to move them",
            )

    def _wider(self, name: str) -> str:
        """Return the step to widen a domain; that of dates continues until the end of next year."""
        domain, way = next(a.domain for a in self.plan.attributes if a.name == name), "widen the domain"
        if dtypes.is_dated(domain.kind):
            first, last = dtypes.to_json(domain.marks[0], domain.kind), f"{datetime.now(UTC).year + 1}-12-31"
            way += f", such as {argument('domain', f'{first}:{last}', name)}"
        return f"leave out {argument('like')} and {way}" if self.like else way

    def _check_identifiers(self) -> None:
        if not self.checks.identifiers:
            return
        addresses = np.sort(np.concatenate(self.checks.identifiers))
        repeated = int((addresses[1:] == addresses[:-1]).sum())
        if repeated:
            raise RefusedError(
                "repeated-identifiers",
                f"{counted(repeated, 'record')} repeat an earlier record's identifier, so their equal "
                "values would get equal answers",
                "use an identifier that is different in every record",
            )

"""What only the whole data can show: values outside a domain, repeated identifiers, a row order that tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ppdm_cli.errors import DataError, RefusedError, counted, listed, quoted
from ppdm_cli.perturbing.costs import expected_errors, refuse_unlearnable, unlearnable
from ppdm_cli.perturbing.order import in_order, telling
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.perturbing.substitution import Checks
from ppdm_cli.tables import Table


@dataclass
class Review:
    """What is noted of a table while it is perturbed; nothing is published before it is judged."""

    table: Table
    plan: ResolvedPlan
    clip: bool
    keep_order: bool
    strict: bool = False
    left_out: int = 0
    """How many rows are not published, because their person has enough."""
    checks: Checks = field(default_factory=Checks)
    telling: list[str] = field(default_factory=list)
    """Attributes whose values the order of the rows gives away; none where it is not the data's."""

    @property
    def errors(self) -> dict[str, float | None]:
        """Return the error to expect of each channel's counts; none where records differ in their channels."""
        return {} if self.plan.several else expected_errors(self.plan.channels, self.checks.rows)

    def judge(self) -> int:
        """Return the number of rows, or refuse."""
        if self.checks.rows == 0:
            raise DataError("the table has no records", "there is nothing to perturb")
        self._check_outside()
        self._check_identifiers()
        if self.strict:
            refuse_unlearnable(self.errors)
        if self.checks.order is not None:
            kept = [a.name for a in self.plan.attributes if a.role == "kept"]
            hidden = [a.name for a in self.plan.attributes if a.role != "kept"]
            self.telling = telling(self.checks.order, hidden, kept)
        if self.telling and not self.keep_order:
            raise RefusedError(
                f"the order of the rows gives away {listed(self.telling)}: records next to each other, or "
                "some rows apart, are too much alike, or too little",
                "say --shuffle, or --keep-order if it must stay",
            )
        if self.table.rows is not None and self.checks.rows != self.table.rows - self.left_out:
            raise DataError(
                f"{quoted(self.table.name)} changed while it was read", "run this again when it is finished"
            )
        return self.checks.rows

    def found(self, identifier: str | None) -> dict[str, Any]:
        """Return what to tell the owner: what was dropped, merged and moved, and what the row order tells."""
        order, dropped = self.checks.order, self.plan.dropped
        ordered = order is not None and identifier in dropped and in_order(order, str(identifier))
        return {
            "dropped": dropped,
            "left_out": self.left_out,
            "merged": sorted(self.plan.merging),
            "telling_order": self.telling,
            "in_order_of": identifier if ordered else None,
            "clipped": self.clip,
            "errors": self.errors,
            "unlearnable": unlearnable(self.errors),
            "padded": list(getattr(self.table, "padded", ())),
        }

    def _check_outside(self) -> None:
        for name, outside in self.checks.outside.items():
            trouble = f"the column {quoted(name)} has {counted(outside.count, 'value')} outside its domain"
            if outside.null:
                raise DataError(f"{trouble}, first a null in {outside.first}", self.plan.through[name].no_nulls)
            raise DataError(
                f"{trouble}, first in {outside.first}",
                "widen the domain or mend the data"
                if self.clip
                else "widen the domain, or say --clip to move them to its nearest bin",
            )

    def _check_identifiers(self) -> None:
        if not self.checks.identifiers:
            return
        addresses = np.sort(np.concatenate(self.checks.identifiers))
        repeated = int((addresses[1:] == addresses[:-1]).sum())
        if repeated:
            raise RefusedError(
                f"{counted(repeated, 'record')} with an earlier record's identifier: their equal values "
                "would get equal answers",
                "give every record an identifier of its own",
            )

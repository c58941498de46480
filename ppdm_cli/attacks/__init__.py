"""What an adversary gets back from a release, who knows the method and has plenty of time.

Every attack is set against what its adversary could have guessed from the estimated distribution alone.
A few passes over the release, beside the original where there is one; covariances and counts, not
records, are in memory (a joint model has a sample of its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ppdm_cli.attacks.audit import TESTED
from ppdm_cli.attacks.pairing import Paired
from ppdm_cli.attacks.report import fill, sentences
from ppdm_cli.attacks.run import ATTACKS, Passes
from ppdm_cli.errors import UsageError, counted, quoted
from ppdm_cli.files import one_run
from ppdm_cli.inspection import PRIOR, of_record
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.releases import open_original, open_releases, spooled
from ppdm_cli.shown import Shown
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import CsvOptions, Output, is_stream

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ATTACKS", "TESTED", "Attacked", "attack", "fill", "sentences"]


@dataclass(frozen=True, repr=False)
class Attacked(Shown):
    """What `attack` gives."""

    sidecar: Sidecar
    measured: bool
    """Whether the figures were measured against the original; otherwise they are expected values."""
    rows: list[dict[str, Any]]
    """One row for each attack and attribute."""
    record: dict[str, Any]
    """The product bound over a record."""
    kept: list[dict[str, Any]]
    audit: list[dict[str, Any]]
    """One row for each attribute: its transitions compared with its matrix."""
    coins: list[dict[str, Any]]
    """One row for each family of tests: whether the coins depend on anything."""
    unseen: dict[str, Any]
    """The largest deviations that so many records would not reveal."""
    repeat: list[dict[str, Any]]
    order: list[dict[str, Any]]
    remarks: list[str]
    recovered: pl.DataFrame | None = None
    """The best guesses as a polars DataFrame, if they were requested without a file."""

    @property
    def honest(self) -> bool | None:
        """Return whether the audit found nothing; None without one."""
        return all(r["honest"] for r in (*self.audit, *self.coins)) if self.audit else None

    @property
    def sentences(self) -> list[str]:
        """Return what was learnt beyond the prior, and from which attack, in plain words."""
        return sentences(self)

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def _words(self) -> list[str]:
        return ["measured" if self.measured else "expected", counted(len(self.rows), "row"), *self.sentences]

    def _body(self) -> Any:
        return self.frame if self.rows else self.sentences


@one_run()
def attack(
    data: Any,
    *,
    truth: Any = None,
    attacks: Sequence[str] = (),
    sidecar: Sidecar | str | Path | None = None,
    recovered: str | Path | bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Attacked:
    """Attack a release: a path, "-", or a table that speaks Arrow with its sidecar.

    `truth` is the original, to measure; without it the gains are those to expect. `attacks` names some of
    `ATTACKS`, all that apply without. `recovered` names a file for the adversary's best guesses, or is True
    for a frame of them.
    """
    for name in attacks:
        if name not in ATTACKS:
            raise UsageError(f"unknown attack {quoted(name)}", f"one of {', '.join(ATTACKS)}")
    if "audit" in attacks and truth is None:
        raise UsageError("the audit compares the release with the original", "give it with --truth ORIGINAL")
    if truth is not None and is_stream(truth):
        raise UsageError(
            "the original is read more than once, and private data is never spooled", "give it as a file"
        )
    with ExitStack() as stack:
        table, sidecar = open_releases(data, sidecar, from_)
        if not sidecar.perturbed:
            raise UsageError(
                "the release has no perturbed attribute: there is nothing to attack", "perturb one"
            )
        kinds = {a.name: a.kind for a in sidecar.attributes}
        original = None if truth is None else open_original(truth, kinds, csv)
        target = None
        if recovered is not False:
            target = Output(stack, None if recovered is True else recovered, force=force)
        table = spooled(table, stack)
        asked = tuple(n for n in ATTACKS if n in attacks or not attacks)
        passes = Passes(table, Paired(table, original, sidecar), sidecar, asked, original is not None)
        passes.run()
        if target is not None:
            passes.write_recovered(target)
    return Attacked(
        sidecar=sidecar,
        measured=original is not None,
        rows=passes.rows,
        record=_bound(sidecar, passes.adversary.gamma),
        kept=passes.adversary.kept,
        audit=passes.audit_rows,
        coins=passes.coins_rows,
        unseen=passes.unseen,
        repeat=passes.repeat_rows,
        order=passes.order_rows,
        remarks=passes.adversary.remarks,
        recovered=None if target is None else target.frame,
    )


def _bound(sidecar: Sidecar, gamma: float) -> dict[str, Any]:
    """Return the bound over a record that follows from the matrices, whatever the coins promise."""
    told = gamma if isfinite(gamma) else "inf"  # JSON has no infinity
    return of_record(sidecar) | {"gamma": told, "bound": worst_posterior(gamma, PRIOR)}

"""Choosing gamma and N: what a matrix costs and gives (Dowd et al. sections 4 and 6)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_cli import sidecar as sidecars
from ppdm_cli.channels import DEFAULT_KIND, checked_kind
from ppdm_cli.display import Displayed
from ppdm_cli.entropies.reaching import best, measured, reaching
from ppdm_cli.entropies.surfaces import of_grid, of_release
from ppdm_cli.entropies.whole_records import curve, plan_text, remarks, rows_of, setting_of
from ppdm_cli.errors import UsageError, counted, quoted
from ppdm_cli.files import one_run
from ppdm_cli.perturbing import Plan, Setting, read_toml, without_questions
from ppdm_cli.releases import open_release
from ppdm_cli.sidecar import Evaluated, Sidecar
from ppdm_cli.tables import Output

if TYPE_CHECKING:
    import polars as pl

__all__ = ["BINS", "GAMMAS", "REASONABLE", "Entropy", "designs", "entropy", "fill", "record_designs"]

REASONABLE = tuple(range(5, 13))
"""The gammas among which the paper chooses (Dowd et al. section 7)."""
GAMMAS, BINS = tuple(range(2, 22)), (5, 10, 15, 20, *range(30, 101, 10))
Number = int | float | str | Decimal


@dataclass(frozen=True, repr=False)
class Entropy(Displayed):
    """What `entropy` gives: a row for every matrix."""

    rows: list[dict[str, Any]]
    sidecar: Sidecar | None
    """The release's, where the matrices are a release's."""

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def _words(self) -> list[str]:
        return [counted(len(self.rows), "row"), *(self.rows[0] if self.rows else ())]

    def _body(self) -> Any:
        return self.frame


@dataclass(frozen=True, repr=False)
class RecordDesigns(Entropy):
    """Designs for a record's budget, the recommended one first."""

    setting: Setting
    plan: str
    """The recommended one, as the text of a plan."""

    @property
    def sentences(self) -> list[str]:
        return remarks(self.rows)

    @property
    def curve(self) -> list[dict[str, Any]]:
        return curve(self.setting)


@one_run()
def entropy(
    release: Any = None,
    *,
    gamma: Number | Iterable[Number] | None = None,
    bins: int | Iterable[int] | None = None,
    matrix: str | None = None,
    records: int | None = None,
    prior: Sequence[float] | None = None,
    rho1: float = 0.05,
    sidecar: Sidecar | str | Path | None = None,
) -> Entropy:
    """Say what matrices cost and give: for every gamma and number of bins, or for a release's attributes.

    `records` adds the error to expect; a `prior` has as many shares as there are bins. A release has its own
    matrices, and its priors are estimated.
    """
    if not 0 < rho1 < 1:
        raise UsageError("rho1 must lie between 0 and 1", "such as --rho1 0.05")
    if release is not None:
        if (gamma, bins, matrix, prior, records) != (None,) * 5:
            raise UsageError(
                "a release has its own gammas, bins, matrices, prior and records",
                "leave out --gamma, --bins, --matrix, --prior and --records",
            )
        table, sidecar = open_release(release, sidecar, withholding=True)
        return Entropy(of_release(table, sidecar, rho1=rho1), sidecar)
    sizes = BINS if bins is None and prior is None else () if bins is None else _several(bins)
    rows = of_grid(
        [_decimal(g) for g in (GAMMAS if gamma is None else _several(gamma))],
        [int(n) for n in sizes],
        rho1=rho1,
        records=records,
        prior=prior,
        kind=DEFAULT_KIND if matrix is None else checked_kind(matrix),
    )
    return Entropy(rows, None)


@one_run()
def designs(
    *,
    error: float | None = None,
    records: int | None = None,
    bins: int | Iterable[int] | None = None,
    accuracy: Any = None,
    at_least: float | None = None,
    gamma: Number | Iterable[Number] | None = None,
    gamma_max: float | None = None,
    rho1: float = 0.05,
) -> Entropy:
    """Say which gamma, N and number of copies reach an `error`, or a measured accuracy.

    For an error of so many `records`, with these numbers of `bins`: the most private design first. For a table
    of runs (`accuracy`: its columns are gamma, N and accuracy): the best N of each `gamma`, or all that are
    accurate `at_least` so much; the paper's choice first. `gamma_max` bounds what is given away.
    """
    if not 0 < rho1 < 1:
        raise UsageError("rho1 must lie between 0 and 1", "such as --rho1 0.05")
    strange = (records, bins) if error is None else (accuracy, at_least, gamma)
    if (error is None) == (accuracy is None) or any(s is not None for s in strange):
        raise UsageError(
            "a design reaches either an error or a measured accuracy",
            "use --error with --records, --bins and --gamma-max, or --accuracy with --at-least, --gamma and "
            "--gamma-max",
        )
    if error is None:
        gammas = None if at_least is not None else REASONABLE
        wanted = gammas if gamma is None else [float(_decimal(g)) for g in _several(gamma)]
        return Entropy(best(measured(accuracy), wanted, at_least, gamma_max), None)
    if records is None:
        raise UsageError("an error depends on the number of records", "add --records n")
    sizes = BINS if bins is None else [int(n) for n in _several(bins)]
    return Entropy(reaching(error, records, sizes, gamma_max, rho1), None)


@one_run()
def record_designs(
    *,
    record_epsilon: float,
    records: int,
    attributes: str | None = None,
    plan: Any = None,
    class_in_budget: bool = False,
) -> RecordDesigns:
    """Say how many attributes to publish of each record, for a budget over all of it, before any data is seen.

    The `attributes` are text such as "9x16" (nine of 16 values in order) or "6x16,2x9n" (n: in no order), or
    those that a `plan` declares; with both, the text has the sizes of the plan's. The recommended design comes
    first.
    """
    if attributes is None and plan is None:
        raise UsageError("no attributes are given", "add --attributes 9x16, or --plan plan.toml")
    source = Path(plan) if isinstance(plan, (str, Path)) else None
    read = plan if source is None else read_toml(source)
    asked = None if read is None else Plan.of(without_questions(read) if isinstance(read, Mapping) else read)
    setting = setting_of(record_epsilon, records, attributes, asked, class_in_budget)
    rows = rows_of(setting)
    return RecordDesigns(rows, None, setting, plan_text(rows[0], setting, source))


def fill(rows: list[dict[str, Any]], release: Sidecar | None, output: Output) -> None:
    """Write the rows, and a sidecar at stage "evaluated"."""
    import polars as pl

    sidecar = sidecars.new(
        "evaluated",
        release.release if release is not None else str(uuid.uuid4()),
        len(rows),
        release.perturbed if release is not None else [],
        recipes=release.recipes if release is not None else [],
        evaluated=Evaluated(
            sorted({r["gamma"] for r in rows if "gamma" in r}), sorted({r["N"] for r in rows if "N" in r})
        ),
    )
    output.fill_frame(pl.DataFrame(rows, infer_schema_length=None), sidecar)


def _several(numbers: Any) -> tuple[Any, ...]:
    """Return one number or several as a tuple."""
    return tuple(numbers) if isinstance(numbers, Iterable) and not isinstance(numbers, str) else (numbers,)


def _decimal(number: Number) -> Decimal:
    try:
        return Decimal(str(number))
    except InvalidOperation:
        raise UsageError(f"{quoted(number)} is not a number", "such as --gamma 9") from None

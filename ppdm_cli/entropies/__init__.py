"""Comparisons for `entropy`: of gammas and N by privacy and accuracy, and of designs for a record's epsilon.

Dowd et al. 4 and 6. Designs are compared before any data is touched: each has its figures, and the best a plan.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_cli import sidecar as sidecars
from ppdm_cli.channels import DEFAULT_KIND, checked_kind
from ppdm_cli.display import UNLIMITED, Displayed, up, whole
from ppdm_cli.entropies.surfaces import of_grid, of_release, reaching
from ppdm_cli.errors import UsageError, argument, counted, listed, quoted
from ppdm_cli.files import one_run
from ppdm_cli.perturbing import FEW_CLEAN, AttributePlan, Design, Plan, Setting, ranked, recommended
from ppdm_cli.privacy import PRIOR, believed_after, limit_sentence, proposed
from ppdm_cli.releases import open_release, unprotected
from ppdm_cli.sidecar import Evaluated, Sidecar
from ppdm_cli.tables import Output, TableLike, path_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["BINS", "GAMMAS", "Entropy", "designs", "entropy", "fill_entropies", "record_designs", "setting_of"]

GAMMAS, BINS = tuple(range(2, 22)), (5, 10, 15, 20, *range(30, 101, 10))
Number = int | float | str | Decimal


@dataclass(frozen=True, repr=False)
class Entropy(Displayed):
    """The result of `entropy`: a row for every matrix."""

    rows: list[dict[str, Any]]
    sidecar: Sidecar | None
    """The sidecar of the release, if the matrices are a release's."""

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    @property
    def unprotected(self) -> list[str]:
        """Return the sentence that a whole record has no meaningful protection, if so."""
        if self.sidecar is not None:
            return unprotected(self.sidecar, self.rows[0]["rho1"]) if self.rows else []
        over = [r for r in self.rows if r["rho2"] > UNLIMITED]
        if not over:
            return []
        least = min(over, key=lambda r: r["rho2"])
        gamma = up(least.get("gamma_together", least["gamma"]), 6)
        whole = f"a whole record at gamma {gamma:,.6g} or more"
        return [limit_sentence(least["rho2"], least["rho1"], whole)]

    def _words(self) -> list[str]:
        return [counted(len(self.rows), "row"), *(self.rows[0] if self.rows else ())]


@dataclass(frozen=True, repr=False)
class RecordDesigns(Entropy):
    """Designs for a record's budget, the recommended one first."""

    plan: str
    """The recommended one, as the text of a plan."""

    @property
    def unprotected(self) -> list[str]:
        """Return the same sentence for the budget of the recommended design."""
        posterior = believed_after(self.rows[0]["epsilon"], PRIOR)
        return [limit_sentence(posterior, PRIOR, "a whole record")] if posterior > UNLIMITED else []

    @property
    def sentences(self) -> list[str]:
        return design_remarks(self.rows)


@one_run()
def entropy(
    release: TableLike | None = None,
    *,
    gamma: Number | Iterable[Number] | None = None,
    bins: int | Iterable[int] | None = None,
    matrix: str | None = None,
    records: int | None = None,
    prior: Sequence[float] | None = None,
    rho1: float = 0.05,
    sidecar: Sidecar | str | Path | None = None,
) -> Entropy:
    """Compare the privacy and accuracy of matrices: for every gamma and number of bins, or for a release's
    attributes.

    Parameters
    ----------
    release : path, table or None, default None
        A release, which has its own matrices; its priors are estimated.
    gamma : number or several, default 2 to 21
        The gammas.
    bins : int or several, default 5 to 100
        The numbers of values or bins.
    matrix : str or None, default None
        The kind of matrix; None takes gamma-diagonal.
    records : int or None, default None
        The number of records: adds the expected error.
    prior : sequence of float or None, default None
        The shares of the values, as many as there are bins, instead of equal ones.
    rho1 : float, default 0.05
        The probability with which a reader believed a value before.
    sidecar : Sidecar, path or None, default None
        The sidecar of a release in memory.
    """
    _check_rho1(rho1)
    if release is not None:
        if (gamma, bins, matrix, prior, records) != (None,) * 5:
            names = map(argument, ("gamma", "bins", "matrix", "prior", "records"))
            what = "a release has its own gammas, bins, matrices, prior and records"
            raise UsageError("release-has-its-own", what, f"leave out {', '.join(names)}")
        table, sidecar = open_release(release, sidecar)
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
    error: float,
    records: int | None = None,
    bins: int | Iterable[int] | None = None,
    gamma_max: float | None = None,
    rho1: float = 0.05,
) -> Entropy:
    """Find the gammas, numbers of bins and of copies that reach an error, the most private first.

    Parameters
    ----------
    error : float
        The largest expected error, E|Xhat - X|/n.
    records : int
        The number of records.
    bins : int or several, default 5 to 100
        The numbers of values or bins to try.
    gamma_max : float, optional
        The largest gamma, all copies included.
    rho1 : float, default 0.05
        The probability with which a reader believed a value before.
    """
    _check_rho1(rho1)
    if records is None:
        what = "an error depends on the number of records"
        raise UsageError("error-needs-records", what, f"add {argument('records', 100000)}")
    sizes = BINS if bins is None else [int(n) for n in _several(bins)]
    return Entropy(reaching(error, records, sizes, gamma_max, rho1), None)


@one_run()
def record_designs(
    *,
    record_epsilon: float,
    records: int,
    attributes: str | None = None,
    plan: Plan | Mapping[str, object] | str | Path | None = None,
    class_in_budget: bool = False,
) -> RecordDesigns:
    """Compare designs for a budget over a whole record, the recommended one first.

    Parameters
    ----------
    record_epsilon : float
        The budget over a whole record.
    records : int
        The number of records.
    attributes : str or None, default None
        Their sizes, such as "9x16" for nine of 16 values in order, or "6x16,2x9n", where n has no order.
    plan : path, Plan, mapping or None, default None
        A plan that declares the attributes; where it leaves sizes open, `attributes` has them.
    class_in_budget : bool, default False
        True to perturb a class of two labels too, if attributes are given by their sizes.
    """
    if attributes is None and plan is None:
        what = "no attributes are given"
        step = f"add {argument('attributes', '9x16')}, or {argument('plan', 'plan.toml')}"
        raise UsageError("no-attributes", what, step)
    source = path_of(plan) if isinstance(plan, (str, Path)) else None
    asked = None if plan is None else Plan.known(plan)
    setting = setting_of(record_epsilon, records, attributes, asked, class_in_budget)
    rows = design_rows(setting)
    return RecordDesigns(rows, None, plan_text(rows[0], setting, source))


def fill_entropies(rows: list[dict[str, Any]], release: Sidecar | None, output: Output) -> None:
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


def _check_rho1(rho1: float) -> None:
    if not 0 < rho1 < 1:
        raise UsageError("rho1-out-of-range", "rho1 must lie between 0 and 1", f"try {argument('rho1', 0.05)}")


def _several(numbers: object) -> tuple[Any, ...]:
    return tuple(numbers) if isinstance(numbers, Iterable) and not isinstance(numbers, str) else (numbers,)


def _decimal(number: Number) -> Decimal:
    try:
        return Decimal(str(number))
    except InvalidOperation:
        raise UsageError(
            "not-a-number", f"{quoted(number)} is not a number", f"try {argument('gamma', 9)}"
        ) from None


FEWEST = 4.0
"""The least effective number of records: with fewer, half a domain's share has an error above a quarter."""
_SIZES = re.compile(r"(?:(\d{1,4})x)?(\d{1,6})(n?)")
_SHARED = re.compile(r"^\s*(gamma|rho1|rho2|record_epsilon|publish|rounds)\s*=.*\n?", re.M)
OTHERS = ((0.5, 1.0), (2.0, 1.0), (1.0, 0.1), (1.0, 10.0))
"""The factors of budget and records at which the best design is also shown."""


def setting_of(
    epsilon: float, records: int, attributes: str | None, plan: Plan | None, class_in_budget: bool
) -> Setting:
    """Return the setting to protect: from text such as "9x16" or "6x16,2x9n", or from a plan's declarations."""
    if not 0 < epsilon < 100:
        raise UsageError("epsilon-out-of-range", "the record's epsilon must be above 0", f"try {proposed(2)}")
    sizes = () if attributes is None else _sizes(attributes)
    if plan is None:
        return Setting(epsilon, records, sizes, 2 * class_in_budget, class_in_budget)
    aside = {*plan.keep, *plan.drop}
    own = {n: w for n, w in plan.attributes.items() if n not in aside}
    label = own.pop(plan.class_ or "", None)
    open_ones = [n for n, w in own.items() if not (w.declares_domain or w.N)]
    if sizes and own and len(sizes) != len(own):
        what = f"the plan has {counted(len(own), 'attribute')}, and {argument('attributes')} {len(sizes)}"
        raise UsageError("sizes-of-another-plan", what, f"leave out {argument('attributes')}")
    if not sizes and (open_ones or not own):
        what = f"the plan does not declare the domain of {listed(open_ones) or 'any attribute'}"
        step = f"write a plan with `ppdm plan`, which has N, or add {argument('attributes', '7x10,5n')}"
        raise UsageError("sizes-not-declared", what, step)
    sizes = sizes or tuple(_size(w, plan) for w in own.values())
    inside = plan.class_ is not None and plan.class_ not in aside
    labels = (_size(label, plan)[0] if label is not None and label.declares_domain else 2) if inside else 0
    return Setting(epsilon, records, sizes, labels, plan.class_ is not None)


def _sizes(text: str) -> tuple[tuple[int, bool], ...]:
    found: list[tuple[int, bool]] = []
    for part in text.split(","):
        match = _SIZES.fullmatch(part.strip())
        if match is None or not whole(match[2]) >= 2 or len(found) + whole(match[1] or 1) > 1000:
            what = f"can't read {argument('attributes')} {quoted(text)}"
            step = f"try {argument('attributes', '9x16')}, or 6x16,2x9n: n has no order"
            raise UsageError("bad-sizes", what, step)
        found += [(whole(match[2]), not match[3])] * whole(match[1] or 1)
    return tuple(found)


def _size(own: AttributePlan, plan: Plan) -> tuple[int, bool]:
    """Return the most codes that an attribute has, and whether they are in order."""
    if own.N is not None and not own.declares_domain:
        return _sizes(own.N)[0]
    if own.categories is not None:
        return len(own.categories) + own.nulls, False
    if own.edges is not None:
        return len(own.edges) - 1 + own.nulls, True
    return (own.bins or plan.bins_for_all) + own.nulls, True


def design_rows(setting: Setting) -> list[dict[str, Any]]:
    """Return a row for each design, the recommended one first, then the best at other budgets and sizes."""
    rows = [_row(d) for d in ranked(setting)]
    for budget, size in OTHERS:
        other = replace(
            setting, epsilon=setting.epsilon * budget, records=max(1, round(setting.records * size))
        )
        rows.append(_row(recommended(other)))
    return rows


def _row(design: Design) -> dict[str, Any]:
    setting, widths = design.setting, design.widths
    return {
        "epsilon": setting.epsilon,
        "records": setting.records,
        "publish": "all" if design.k is None else str(design.k),
        "rounds": design.rounds,
        "half_width": f"{widths[0]}-{widths[1]}" if widths[0] < widths[1] else str(widths[0]),
        "published": design.published,
        "clean_single": design.of_one,
        "clean_pair": design.of_pair,
        "share_error": design.share_error,
        "difference_error": design.difference_error,
        "cell_error": design.cell_error,
        "row_found": design.row_found,
    }


def design_remarks(rows: list[dict[str, Any]]) -> list[str]:
    """Return sentences that explain the figures, and warn about too few records."""
    first = rows[0]
    lines = [
        "Take the first design. Effective records: all records together reveal at most as much about one "
        "attribute, or a pair, as this many unperturbed ones. The standard errors are lower limits: for "
        "the share of half a domain (twice that for its difference between two halves of the records), and "
        "for a quarter of a pair's table. They follow from Fisher information with evenly spread values. "
        "Which design is best for trees was measured on synthetic functions."
    ]
    if any(r["rounds"] > 1 for r in rows):
        lines.append(
            "Use rounds when you want a tree for one class. They spend the budget on the attributes that "
            "predict it, if early rounds find them. You learn almost nothing about the rest."
        )
    if first["clean_single"] < FEWEST:
        lines.append(
            "Warning: nothing can be learned here. With so few records at this budget you can't even "
            "estimate the share of half a domain. Use a larger budget, drop or keep some attributes, or "
            "wait for more records."
        )
    elif first["clean_pair"] < FEW_CLEAN:
        lines.append(
            "With so few records at this budget you can estimate single attributes, but not how two of "
            "them interact."
        )
    return lines


def plan_text(first: dict[str, Any], setting: Setting, source: Path | None) -> str:
    """Return the recommended design as a plan: the source's with its privacy replaced, or a new one."""
    head = f"record_epsilon = {first['epsilon']:g}\npublish = {first['publish']}\n"
    head += f"rounds = {first['rounds']}\n" * (first["rounds"] > 1)
    if source is None:
        sizes = [n for n, _ in setting.sizes]
        head += "class_in_budget = true\n" * (setting.labels > 0)
        if setting.for_class or setting.labels:
            keep = "" if setting.labels else "; keep it if it is to be published"
            head += f'# class = "..."  # name it{keep}\n'
        return f"{head}bins = {max(sizes, key=sizes.count)}\n"
    top, table, rest = source.read_bytes().decode().partition("\n[")
    return head + _SHARED.sub("", top) + table + rest

"""Answers to a question about a release: read in one pass, and computed from its counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from math import hypot, prod, sqrt

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats, chi_square_tail, normal_quantile
from ppdm_cli.channels import Channel
from ppdm_cli.engine import fold
from ppdm_cli.errors import RefusedError, UsageError, quoted, unknown_column
from ppdm_cli.estimating import FEWEST, Coverage, check_work, with_kept
from ppdm_cli.querying.functions import Compiler, Computed, Quantile, Test, corrected, finite
from ppdm_cli.querying.moments import CountTask, Reading, SumMoments, merged_counts, moments
from ppdm_cli.querying.question import (
    REGRESSIONS,
    Aggregate,
    Column,
    Condition,
    Item,
    Predicate,
    Question,
    columns_in,
    parts,
)
from ppdm_cli.querying.regression import regressed
from ppdm_cli.querying.scope import MOST_NUMBERS, OUTCOMES, Scope, groups_over, resolved_predicate, too_large
from ppdm_cli.releases import Exposure, Strata, axes_of, never_together, opened
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

MOST_CELLS = 1 << 21
"""The most cells of a table, of originals or published, and of all counts together."""
MOST_GROUPS = 1 << 10
MOST_ROWS = 1 << 16
"""The most answers in all groups together."""
ALIKE = 1.02
"""The factor of lam within which records belong to one stratum."""

_BY_VALUE = ("quantile", "independent", "same", "fits")
"""The functions that take columns value by value."""


@dataclass(frozen=True)
class Row:
    """One answer about one group; None if it can't be computed."""

    group: tuple[str, ...]
    title: str
    value: float | None
    std_error: float | None
    low: float | None
    high: float | None
    worth: float | None
    """The effective number of records: so many originals would make the answer as certain."""
    p: float | None = None


def difference(own: Row, other: Row | None) -> tuple[float | None, ...]:
    """Return the other answer, the difference and its interval, by both's (MOVER; Zou and Donner 2008)."""
    if other is None or own.value is None or other.value is None:
        return None if other is None else other.value, None, None, None
    apart = own.value - other.value
    if own.low is None or own.high is None or other.low is None or other.high is None:
        return other.value, apart if own.p is None else None, None, None
    low = apart - hypot(own.value - own.low, other.high - other.value)
    return other.value, apart, low, apart + hypot(own.high - own.value, other.value - other.low)


@dataclass(eq=False)
class Asked:
    scope: Scope
    items: list[tuple[int, Computed | Quantile | Test]]
    """The computed answers, by their places in the question."""
    groups: list[np.ndarray]
    labels: list[list[str]]
    reading: Reading


@np.errstate(over="ignore", invalid="ignore")  # an answer past the largest float is unknown
def answers_in(
    table: Table, sidecar: Sidecar, question: Question, coverage: Coverage, bins: int | None
) -> tuple[list[Row], Sidecar, int]:
    """Return the answers by group, the sidecar with a domain for each grouped column, and the records."""
    with ExitStack() as stack:
        _check(sidecar, question)
        table, sidecar = with_kept(table, sidecar, _listed(sidecar, question), bins, stack)
        if regression := _regression(question):
            return _coefficients(table, sidecar, question, regression, coverage), sidecar, sidecar.records or 0
        kept = [b.name for b in question.by if isinstance(b, Column) and _kept(sidecar, b.name)]
        outer = tuple(opened(sidecar).axis(n) for n in kept)
        records = float(sidecar.records) if sidecar.records is not None else np.inf
        asked, strata = _asked(sidecar, question, records)
        tally = CountTask(strata, outer, tuple(a.reading for a in asked))
        _check_size(tally, asked)
        columns = tally.columns or table.schema.names[:1]  # rows are counted by some column
        found = fold(table, tally, merged_counts, columns=columns)
        sizes, counted = found if found is not None else tally(None)
    rows: list[Row] = []
    z = normal_quantile((1 + coverage.level) / 2)
    known = [moments(a.scope, a.groups, a.reading, c, sizes) for a, c in zip(asked, counted, strict=True)]
    for place, own in enumerate(product(*(c.domain.labels() for c in outer))):
        if outer and not sizes[place]:
            continue
        for inner in range(len(asked[0].groups)):
            left, right = iter(own), iter(asked[0].labels[inner])
            outside = (isinstance(b, Column) and b.name in kept for b in question.by)
            group = tuple(next(left if is_kept else right) for is_kept in outside)
            answers = {n: (computed, m) for a, m in zip(asked, known, strict=True) for n, computed in a.items}
            for number in sorted(answers):
                title = question.items[number].title
                rows.append(_row(group, title, *answers[number], (place, inner), coverage.population, z))
    return rows, sidecar, int(sizes.sum())


def _regression(question: Question) -> Aggregate | None:
    """Return the requested regression, which must be the only answer."""
    answer = question.items[0].answer
    if not isinstance(answer, Aggregate) or answer.function not in REGRESSIONS:
        return None
    if len(question.items) > 1 or question.by or question.where is not None or answer.where is not None:
        what = "a regression can't be combined with other answers, conditions or groups"
        raise UsageError("regression-with-others", what, "leave out the rest of the question")
    return answer


def _coefficients(
    table: Table, sidecar: Sidecar, question: Question, asked: Aggregate, coverage: Coverage
) -> list[Row]:
    z, rows = normal_quantile((1 + coverage.level) / 2), list[Row]()
    name = (
        asked.function if question.items[0].title.startswith(f"{asked.function}(") else question.items[0].title
    )
    for label, value, std_error in regressed(table, sidecar, asked):
        p = chi_square_tail((value / std_error) ** 2, 1) if std_error > 0 else None
        reach = z * std_error
        rows.append(Row((), f"{name}: {label}", value, std_error, value - reach, value + reach, None, p))
    return rows


def _kept(sidecar: Sidecar, name: str) -> bool:
    return sidecar.by_name[name].role == "kept"


def _check(sidecar: Sidecar, question: Question) -> None:
    """Check that all columns exist, and can be estimated."""
    wanted = [*question.items, *question.by, question.where]
    for each in wanted:
        for name in columns_in(each.answer if isinstance(each, Item) else each):
            if name not in sidecar.by_name:
                raise unknown_column(name, sidecar.by_name, "the question")
            channel = None if _kept(sidecar, name) else opened(sidecar).spec(name)
            if channel is None:
                continue
            through = opened(sidecar).through(name)
            if through.noise is not None or not through.matrix.invertible:
                what = f"the noise of {quoted(name)} is too wide for an unbiased estimate"
                step = "use `ppdm estimate`, which has the most likely counts"
                raise RefusedError("no-unbiased-estimate", what, step)


def _listed(sidecar: Sidecar, question: Question) -> list[str]:
    """Return the kept columns whose values are taken one by one: those of groups and quantiles."""
    found = [b.name for b in question.by if isinstance(b, Column)]
    if regression := _regression(question):
        words = (n for n in columns_in(regression) if dtypes.is_discrete(sidecar.by_name[n].kind))
        conditions = (n for a in regression.arguments if not isinstance(a, Column) for n in columns_in(a))
        found = [*words, *conditions]
    return [n for n in dict.fromkeys([*found, *_quantiles(question.items)]) if _kept(sidecar, n)]


def _quantiles(items: Iterable[Item]) -> list[str]:
    """Return the columns whose values quantiles and tests take one by one."""
    return [
        a.name
        for item in items
        for p in parts(item.answer)
        if isinstance(p, Aggregate) and p.function in _BY_VALUE
        for a in p.arguments
        if isinstance(a, Column)
    ]


def _asked(sidecar: Sidecar, question: Question, records: float) -> tuple[list[Asked], Strata]:
    """Return the scopes of a question, one for all answers that touch the same columns, and their strata."""
    together: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
    shared = [n for part in (question.where, *question.by) for n in columns_in(part)]
    for number, item in enumerate(question.items):
        own = [n for n in dict.fromkeys([*shared, *columns_in(item.answer)]) if not _kept(sidecar, n)]
        own += [n for n in _quantiles([item]) if _kept(sidecar, n)]
        names = tuple(dict.fromkeys(own))
        together.setdefault((_plain(sidecar, item, shared, names), names), []).append(number)
    axes = {a.name: a for _, names in together for a in axes_of(sidecar, names)}
    strata = Strata.of_axes(sidecar, list(axes.values()))
    each = together.items()
    return [_scoped(sidecar, strata, question, *key, numbers, records) for key, numbers in each], strata


def _plain(sidecar: Sidecar, item: Item, shared: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a test of independence can use the published codes themselves.

    Each column must have its own channel, so that published codes are independent if the originals are. Nulls,
    which are left out, would have to be known, and so would conditions on perturbed columns.
    """
    answer = item.answer
    if not isinstance(answer, Aggregate) or answer.function != "independent":
        return False
    conditions, strata = [*shared, *columns_in(answer.where)], Strata.of(sidecar, names)
    axes = strata.axes
    return (
        not (strata.withholds or strata.noisy)
        and all(_kept(sidecar, n) for n in conditions)
        and all(a.kept or (len(a.attributes) == 1 and a.domain.size == a.domain.ordinary) for a in axes)
    )


def _scoped(
    sidecar: Sidecar,
    strata: Strata,
    question: Question,
    plain: bool,
    names: Sequence[str],
    numbers: Sequence[int],
    records: float,
) -> Asked:
    items = [question.items[i] for i in numbers]
    axes = axes_of(sidecar, names)
    known = [a.name for a in strata.axes]
    places = tuple(known.index(a.name) for a in axes)
    grouped = strata.grouped(places, ALIKE, by_round=True)
    whole = grouped.complete(len(axes))
    if not whole:
        raise never_together(names)
    which = np.full(len(grouped.strata), -1)
    which[whole] = np.arange(len(whole))
    revealed = tuple(grouped.strata[i] for i in whole)
    published = {a.name: a for a in axes} if plain else {}
    if plain:
        axes = tuple(Channel(a.name, a.published, a.published) for a in axes)
        revealed = (replace(revealed[0], exposures=tuple(Exposure.of(a) for a in axes)),)
    atoms = _atoms(sidecar, [question.where, *question.by, *(i.answer for i in items)])
    kinds = {a.name: a.kind for a in sidecar.attributes}
    _check_cells(axes, atoms, question)
    scope = Scope(kinds, {n: d for a in axes for n, d in a.each()}, atoms)
    compiler = Compiler(scope, question.where, records, published)
    computed = [(number, compiler.answer(question.items[number].answer)) for number in numbers]
    over: list[Column | Condition] = [
        b for b in question.by if not isinstance(b, Column) or not _kept(sidecar, b.name)
    ]
    groups, labels = groups_over(scope, over)
    factors = {f for f, _ in scope.sums} | {()}
    products = {tuple(sorted(a + b)) for a in factors for b in factors}
    reading = Reading(axes, places, revealed, which[grouped.which], tuple(atoms), tuple(sorted(products)))
    return Asked(scope, computed, groups, labels, reading)


def _atoms(sidecar: Sidecar, asked: Iterable[object]) -> list[Predicate]:
    found: dict[Predicate, None] = {}
    for part in (p for each in asked for p in parts(each)):
        if isinstance(part, Predicate) and _kept(sidecar, part.column):
            found[resolved_predicate(part, sidecar.by_name[part.column].kind)] = None
        elif isinstance(part, Aggregate) and part.function not in _BY_VALUE:
            numbers = (p for argument in part.arguments for p in parts(argument))
            names = [p.name for p in numbers if isinstance(p, Column) and _kept(sidecar, p.name)]
            found |= {Predicate(n, "null"): None for n in names}
    return list(found)


def _check_cells(axes: Sequence[Channel], atoms: Sequence[Predicate], question: Question) -> None:
    """Check the size of a table, and the number of groups over it, before either is made."""
    cells = prod(max(a.domain.size, a.published.size) for a in axes) * OUTCOMES ** len(atoms)
    if cells > MOST_CELLS:
        raise too_large(f"a table of {cells:,} cells, more than {MOST_CELLS:,}")
    known = {n: d.size for a in axes for n, d in a.each()}
    groups = prod(known.get(b.name, 1) if isinstance(b, Column) else 2 for b in question.by)
    if groups > MOST_GROUPS:
        raise too_large(f"{groups:,} groups, more than {MOST_GROUPS:,}")


def _check_size(tally: CountTask, asked: Sequence[Asked]) -> None:
    cells = sum(r.cells(tally.groups) for r in tally.readings)
    sums = [len(a.scope.sums) * len(a.groups) for a in asked]
    published = [a.scope.patterns * max(*a.reading.outputs, int(np.prod(a.scope.sizes))) for a in asked]
    numbers = max(s * max(p, s * tally.groups) for s, p in zip(sums, published, strict=True))
    rows = sum(tally.groups * len(a.groups) * len(a.items) for a in asked)
    if rows > MOST_ROWS:
        raise too_large(f"{rows:,} answers, more than {MOST_ROWS:,}")
    if cells > MOST_CELLS or numbers > MOST_NUMBERS:
        what = f"{cells:,} cells, more than {MOST_CELLS:,}"
        if cells <= MOST_CELLS:
            what = f"tables of {numbers:,} numbers, more than {MOST_NUMBERS:,}"
        raise too_large(what)
    for reading in tally.readings:
        check_work([a.name for a in reading.axes], [reading.strata])


def _row(
    group: tuple[str, ...],
    title: str,
    computed: Computed | Quantile | Test,
    known: SumMoments,
    where: tuple[int, int],
    population: bool,
    z: float,
) -> Row:
    place, inner = where
    many = known.sums.shape[1] // known.groups
    some = slice(inner * many, (inner + 1) * many)
    sums, covariance = known.sums[place, some], known.within(place, some, population)
    sampled, clean = known.within(place, some, True), known.clean_within(place, some)
    if isinstance(computed, Test):
        value, p, share = computed.of(sums, sampled, clean)
        figures = [value, np.nan, np.nan, np.nan, known.n * share]
        if computed.effect is not None and np.isfinite(p):
            figure = computed.effect(sums)
            figures[:4] = figure.value, sqrt(figure.variance(covariance)), *figure.interval(covariance, z)
        return Row(group, title, *(finite(float(v)) for v in (*figures, p)))
    if isinstance(computed, Quantile):
        value, low, high, moves = computed.of(sums, covariance, z)
        std_error, sure = np.nan, True
    else:
        figure = corrected(computed, sums, covariance)
        sure = figure.sure(covariance)
        value, moves = figure.value if sure else np.nan, (figure.square or figure).gradient
        low, high = figure.interval(covariance, z) if sure else (np.nan, np.nan)
        std_error = sqrt(figure.variance(covariance)) if sure and (figure.square is None or low > 0) else np.nan
    worth = np.nan
    if _coarse(known, place, some, moves):
        std_error = low = high = np.nan
    elif np.isfinite(value) and (whole := _variance(moves, sampled)) > 0:
        worth = known.n * min(max(_variance(moves, clean) / whole, 0.0), 1.0)
    elif np.isfinite(value):
        worth = known.n
    return Row(group, title, *(finite(float(v)) for v in (value, std_error, low, high, worth)))


def _variance(moves: Floats, covariance: Floats) -> float:
    return float(moves @ covariance @ moves)


def _coarse(known: SumMoments, place: int, some: slice, moves: Floats) -> bool:
    """Return whether an error is made of too few changed records for a reliable interval."""
    perturbed = np.diagonal(known.within(place, some, False)) > 1e-9
    return bool(((known.steps[place, some] < FEWEST) & perturbed & (moves != 0)).any())

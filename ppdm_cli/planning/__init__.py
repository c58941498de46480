"""Looks at a table with its owner, before anything is published, and writes a plan for `perturb`.

The plan has names of columns and choices out of fixed lists: no value and no count of the data. What was
counted is private and stays with whoever asked, and holds no cell. A CSV is read twice, another table once.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from math import log, sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.channels import rounded_down
from ppdm_cli.display import Displayed, at_most, up
from ppdm_cli.errors import DataError, PpdmError, RefusedError, UsageError, counted, listed, quoted
from ppdm_cli.files import one_run
from ppdm_cli.perturbing import Design, Plan, Setting, chosen_number, questions, relative_error
from ppdm_cli.planning.advice import BINS, Advice, TableSketch, advised, determined, left_open, written_plan
from ppdm_cli.planning.csv_reading import TOKENS, Dialect, Written, cells_of, sniff, written
from ppdm_cli.privacy import believed_after, limit, worst_posterior
from ppdm_cli.releases import PRIOR, is_promised
from ppdm_cli.tables import (
    CsvOptions,
    PendingFile,
    TableLike,
    commit,
    format_of,
    is_stream,
    open_table,
    parts_of,
)

__all__ = ["Proposal", "plan"]

BUDGETS = (3.0, 9.0, 19.0)
"""The gammas that are compared where none is given: one value makes 14, 33 or 50 % of a belief of 5 %."""


@dataclass(frozen=True)
class ProposedColumn:
    """What was counted of a column, and what is proposed for it."""

    column: str
    type: str
    values: int | None
    values_exact: bool
    without_value: int | None
    rare_values: int | None
    largest_share: float | None
    fullest_bin: float | None
    records_each: float | None
    proposal: str
    notes: list[str]
    N: int | None
    errors: dict[str, float | None]
    """The expected error of a count, by budget."""


@dataclass(frozen=True)
class ProposedBudget:
    """What a gamma or an epsilon promises, and what it leaves to be learnt."""

    at: str
    gamma: float | None
    alone_becomes: float | None
    """How sure a reader may become of a value from one attribute alone."""
    record_epsilon: float
    record_becomes: float
    errors: dict[str, float]
    unlearnable: list[str]
    publish: int | None = None
    """How many attributes each record publishes, where not all."""
    clean_single: float | None = None
    """How many unperturbed records all records are worth at most, for one attribute."""


@dataclass(frozen=True, repr=False)
class Proposal(Displayed):
    """What `plan` gives: the plan, and what it was made from, which is private."""

    text: str
    columns: list[ProposedColumn]
    budgets: list[ProposedBudget]
    sentences: list[str]
    records: int
    dialect: Dialect | None = None
    attributes: str = ""
    """The sizes of what the plan publishes, as `entropy` takes them: private, as they were counted."""

    @property
    def questions(self) -> list[str]:
        """Return what only the owner can answer."""
        return questions(tomllib.loads(self.text))

    def _words(self) -> list[str]:
        return [counted(len(self.columns), "column"), *self.sentences]

    def _body(self) -> list[str]:
        return self.sentences


@one_run()
def plan(
    data: TableLike,
    output: str | Path | None = None,
    *,
    gamma: str | float | Decimal | None = None,
    rho1: float | None = None,
    rho2: float | None = None,
    record_epsilon: float | None = None,
    csv: CsvOptions | None = None,
    force: bool = False,
) -> Proposal:
    """Propose a plan for a table.

    Parameters
    ----------
    data : path, list of paths, or table
        The original, which is read more than once: no standard input.
    output : path, optional
        The plan's file, a .toml.
    gamma : number, optional
        The amplification of each attribute. Privacy that is not given is a question in the plan.
    rho1, rho2 : float, optional
        Instead of gamma: the largest gamma that keeps a belief of rho1 at or below rho2.
    record_epsilon : float, optional
        Instead of gamma: a budget for the whole record.
    csv : CsvOptions, optional
        How a CSV is read, and the types of columns; the rest is found out.
    force : bool, default False
        Whether to overwrite an existing file.
    """
    given = {"gamma": gamma, "rho1": rho1, "rho2": rho2, "record_epsilon": record_epsilon}
    asked = Plan.of(None, **given)
    privacy = {k: getattr(asked, k) for k, v in given.items() if v is not None}
    csv = csv or CsvOptions()
    with ExitStack() as stack:
        target = None if output is None else stack.enter_context(PendingFile(Path(output), force))
        done = _proposed(data, csv, privacy, asked)
        if target is not None:
            target.put(done.text.encode())
            commit(target)
    return done


def _proposed(data: TableLike, csv: CsvOptions, privacy: Mapping[str, Any], asked: Plan) -> Proposal:
    paths = [data] if isinstance(data, (str, Path)) else list(data) if isinstance(data, (list, tuple)) else []
    if any(map(is_stream, paths)):
        raise UsageError("stream-in-plan", "a plan needs to read the table more than once", "give it as a file")
    dialect, types, options = None, dict[str, Written](), csv
    named = bool(paths) and all(isinstance(p, (str, Path)) for p in paths)
    if named and all(Path(p).exists() for p in paths):  # what does not is told of by whoever opens it
        parts = parts_of([Path(p) for p in paths]).paths
        if format_of(parts[0]).sniffed:
            dialect, types, options = _read_as_text(paths, parts, csv)
    table = open_table(data, csv=options)
    if is_promised(table):
        raise RefusedError(
            "release-not-original", f"{quoted(table.name)} is a release already", "plan for its original"
        )
    unreadable = [f.name for f in table.schema if not _readable(f)]
    names = [n for n in table.schema.names if n not in unreadable]
    looks = TableSketch.of(table, names) if names else None
    if looks is None:
        raise DataError(
            "no-records", f"{quoted(table.name)} has no records, or no column that can be read", "see the table"
        )
    found, order = advised(table.schema, looks, asked.own_gamma(), unreadable)
    for one in found:
        read = types.get(one.name, Written(""))
        if read.type == "string" and read.doubt:
            left_open(one)
    text = written_plan(found, privacy, bool(order), {} if dialect is None else _written_as(options), types)
    records = looks.sample.seen
    budgets = budgets_of(found, records, asked)
    pairs = determined(found, looks)
    return Proposal(
        text,
        [_figures(a, types.get(a.name), budgets) for a in found],
        budgets,
        _sentences(found, types, dialect, order, pairs, budgets, records),
        records,
        dialect,
        _sizes(found),
    )


def _written_as(options: CsvOptions) -> dict[str, Any]:
    """Return how a CSV is read, as a plan writes it; the spellings of null come last."""
    found: dict[str, Any] = {"delimiter": options.separator, "encoding": options.encoding}
    found |= {"decimal": ","} if options.decimal == "," else {}
    found |= {"header": options.header} if options.header is not None else {}
    return found | {"null": [n for n in options.nulls if n]}


def _read_as_text(
    paths: Sequence[str | Path], parts: Sequence[Path], csv: CsvOptions
) -> tuple[Dialect, dict[str, Written], CsvOptions]:
    """Return how a CSV is written and how its columns are, and the options that say so."""
    dialect = sniff(parts, csv)
    found: dict[str, Any] = {"delimiter": dialect.delimiter, "encoding": dialect.encoding}
    if not dialect.header:
        found["header"] = False
    options = csv.laid_over(found | {"nulls": TOKENS})
    nulls, header = options.nulls, options.header
    plain = CsvOptions(options.delimiter, options.encoding, nulls, header=header, only=frozenset())
    cells = cells_of(open_table(list(paths), csv=plain), nulls)
    comma = options.decimal == "," or any(
        2 * c.counts["comma"] > c.counts["cells"] + c.counts["point"] for c in cells.values()
    )
    declared = _typed(csv)
    types = {n: written(c, comma, nulls, declared.get(n), csv.formats.get(n, ())) for n, c in cells.items()}
    options = options.laid_over(
        {
            "types": {n: w.type for n, w in types.items()},
            "formats": {n: w.formats for n, w in types.items() if w.formats},
            "decimal": "," if comma else ".",
            "nulls_of": {n: w.nulls for n, w in types.items() if w.nulls},
            "odd": {n: "null" for n, w in types.items() if w.odd},
        }
    )
    return dialect, types, options


def _typed(csv: CsvOptions) -> dict[str, pa.DataType]:
    return {n: t for n, t in csv.types.items() if isinstance(t, pa.DataType)}


def _readable(column: pa.Field) -> bool:
    try:
        dtypes.normal(column.type, column.name)
    except PpdmError:
        return False
    return True


def _figures(one: Advice, read: Written | None, budgets: list[ProposedBudget]) -> ProposedColumn:
    look = one.look
    return ProposedColumn(
        column=one.name,
        type=one.kind,
        values=None if look is None else look.values,
        values_exact=look is not None and look.exact,
        without_value=None if look is None else look.nulls,
        rare_values=None if look is None else look.values - look.common,
        largest_share=None if look is None else look.largest_share,
        fullest_bin=one.full,
        records_each=None if look is None else look.records_each,
        proposal=f"drop: {one.drop}" if one.drop else ", ".join(f"{k}={v}" for k, v in one.settings.items()),
        notes=[*one.notes, *([read.doubt] if read is not None and read.doubt else [])],
        N=None if one.drop else one.N,
        errors={b.at: b.errors.get(one.name) for b in budgets},
    )


def _taking_part(found: Sequence[Advice]) -> list[Advice]:
    return [a for a in found if not a.drop and a.N is not None and a.N >= 2]


def budgets_of(found: list[Advice], records: int, asked: Plan) -> list[ProposedBudget]:
    """Return what gammas promise and leave to be learned: the one that is given, or three; or a budget."""
    taking_part = _taking_part(found)
    sizes = {a.name: _size(a)[0] for a in taking_part}
    if asked.record_epsilon is not None:
        return [_budget_of_record(taking_part, sizes, records, asked.record_epsilon)]
    gamma = asked.own_gamma()
    rows = []
    attributes = sum(not a.drop and (a.N is None or a.N >= 2) for a in found)
    for g in BUDGETS if gamma is None else (gamma,):
        shown = float(rounded_down(g, 2))
        errors = {n: relative_error(g, N, records) for n, N in sizes.items()}
        rows.append(_row(f"{shown:g}", shown, log(shown) * attributes, errors))
    return rows


def _budget_of_record(
    found: Sequence[Advice], sizes: Mapping[str, int], records: int, epsilon: float
) -> ProposedBudget:
    """Return what a budget for the record leaves to be learned, as `--publish auto` would spend it."""
    at = f"epsilon {epsilon:g}"
    if not sizes:
        return _row(at, None, epsilon, {})
    setting = Setting(epsilon, max(records, 1), tuple(map(_size, found)))
    design = Design(setting, chosen_number(setting))
    errors = {n: sqrt((N - 1) / design.of_one) for n, N in sizes.items()}
    return replace(_row(at, None, epsilon, errors), publish=design.k, clean_single=design.of_one)


def _size(one: Advice) -> tuple[int, bool]:
    """Return how many values a column has in the plan, and whether they are in order."""
    return one.N or 0, one.look is not None and one.look.values > BINS and "other" not in one.settings


def _sizes(found: Sequence[Advice]) -> str:
    """Return the sizes of all columns that take part, such as 7x10,5n."""
    sizes = Counter(map(_size, _taking_part(found)))
    return ",".join(f"{k}x{N}{'' if o else 'n'}" for (N, o), k in sorted(sizes.items(), reverse=True))


def _row(at: str, gamma: float | None, epsilon: float, errors: dict[str, float]) -> ProposedBudget:
    alone = None if gamma is None else worst_posterior(gamma, PRIOR)
    useless = [n for n, e in errors.items() if e > 1]
    return ProposedBudget(at, gamma, alone, epsilon, believed_after(epsilon, PRIOR), errors, useless)


def _sentences(
    found: list[Advice],
    types: Mapping[str, Written],
    dialect: Dialect | None,
    order: list[str],
    pairs: list[tuple[str, str]],
    budgets: list[ProposedBudget],
    records: int,
) -> list[str]:
    lines = [f"{d[0].upper()}{d[1:]}." for d in (dialect.doubts if dialect else ())]
    lines += [f"{n}: {w.doubt}." for n, w in types.items() if w.doubt]
    padded = [n for n, w in types.items() if w.padded]
    if padded:
        lines.append(f"Digits that begin with zeros stay text: {', '.join(padded)}.")
    for one in (a for a in found if a.repeats):
        lines.append(
            f"{one.name} repeats: {one.repeats:.3g} records for each value on average. Gamma protects one "
            f"record. If {one.name} identifies persons, answer person in the plan with {quoted(one.name)}."
        )
    skewed = [a.name for a in found if a.full is not None and "domain" in a.settings]
    if skewed:
        lines.append(
            f"Nearly all records would be in one of ten equal bins of {', '.join(skewed)}: declare a domain."
        )
    if order:
        lines.append(f"The order of the rows reveals {listed(order)}, so the plan shuffles them.")
    if pairs:
        shown = "; ".join(f"{quoted(a)} gives away {quoted(b)}" for a, b in pairs[:12])
        more = f", and {len(pairs) - 12} pairs more" if len(pairs) > 12 else ""
        lines.append(f"Columns that determine others, so that keeping one reveals the other: {shown}{more}.")
    return lines + [_promise(row, records) for row in budgets]


def _promise(row: ProposedBudget, records: int) -> str:
    """Return what a budget promises, and what it leaves to be learned."""
    epsilon, one = f"epsilon {up(row.record_epsilon):.4g} for a record", row.alone_becomes
    at = epsilon if row.gamma is None else f"gamma {up(row.gamma):.4g} ({epsilon})"
    alone = "" if one is None else f", and at most {at_most(one)} sure after one attribute alone"
    spent = ""
    if row.publish is not None:
        spent = (
            f". Each record publishes {row.publish} of its {counted(len(row.errors), 'attribute')}: for "
            f"one attribute, {records:,} records are worth at most {row.clean_single:,.0f} unperturbed ones"
        )
    useless = f"; nothing can be learnt about {listed(row.unlearnable)}" if row.unlearnable else ""
    return f"At {at}: {limit(row.record_becomes, PRIOR, 'the whole record')}{alone}{spent}{useless}."

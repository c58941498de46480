"""Plans for owners: a look at a table, before anything is published, and a plan for `perturb`.

The plan has names of columns and choices out of fixed lists, but no value and no count of the data. The counts
are private, stay with the caller, and contain no cell. A table is read once, and a CSV twice if the type of a
column is in doubt: it has dates or odd cells, or its type changes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes, files
from ppdm_cli.channels import rounded_down
from ppdm_cli.display import Displayed, at_most, up
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import (
    DataError,
    PpdmError,
    RefusedError,
    UsageError,
    argument,
    counted,
    listed,
    quoted,
    unknown_column,
)
from ppdm_cli.files import one_run
from ppdm_cli.perturbing import (
    QUESTION,
    Design,
    Plan,
    Setting,
    chosen_number,
    csv_settings,
    locating,
    questions,
    read_toml,
    relative_error,
    settled_plan,
)
from ppdm_cli.planning.advice import Advice, TableSketch, advised, as_toml, determined, left_open, written_plan
from ppdm_cli.planning.csv_reading import Cells, Dialect, Written, read_block, sniff, written
from ppdm_cli.privacy import PRIOR, believed_after, limit, worst_posterior
from ppdm_cli.releases import is_promised
from ppdm_cli.tables import (
    NULL,
    CsvOptions,
    PendingFile,
    TableLike,
    commit,
    expanded,
    is_stream,
    open_table,
    parts_of,
    path_of,
)

__all__ = ["Proposal", "plan"]

BUDGETS = (1.0, 2.0, 4.0, 8.0)
"""The epsilons of a record that are compared if none is given: 5% becomes 12.5%, 28%, 74.2% or 99.4%."""


@dataclass(frozen=True)
class ProposedColumn:
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
    """The promise of a gamma or an epsilon, and the accuracy that it leaves."""

    at: str
    gamma: float | None
    alone_becomes: float | None
    """The most that a reader may come to believe a value from one attribute alone."""
    record_epsilon: float
    """The epsilon of a record, or of all records of a person."""
    record_becomes: float
    errors: dict[str, float]
    unlearnable: list[str]
    rows: int | None = None
    """The most records of a person that are published, if the budget is for persons."""
    publish: int | None = None
    """The number of attributes that each record publishes, if not all."""
    clean_single: float | None = None
    """The most unperturbed records that all records are worth, for one attribute."""


@dataclass(frozen=True, repr=False)
class Proposal(Displayed):
    """The result of `plan`: the plan, and its basis, which is private."""

    text: str
    columns: list[ProposedColumn]
    budgets: list[ProposedBudget]
    sentences: list[str]
    records: int
    dialect: Dialect | None = None
    look: TableLook | None = None
    settled: Mapping[str, Any] = field(default_factory=dict)
    """The owner's decisions so far, as a plan file has them."""

    @property
    def questions(self) -> list[str]:
        return questions(tomllib.loads(self.text))

    @property
    def explained(self) -> dict[str, str]:
        lines = [line.partition("  # ") for line in self.text.splitlines()]
        asked = [why for setting, _, why in lines if setting.endswith(f"= {as_toml(QUESTION)}")]
        return dict(zip(self.questions, asked, strict=True))

    @property
    def promises(self) -> list[str]:
        """Return the sentences about each budget's promise and accuracy."""
        return self.sentences[-len(self.budgets) :]

    def answered(self, question: str, answer: str) -> Proposal:
        """Answer a question as the plan's line for it takes it, or drop its column; nothing is read again."""
        assert self.look is not None
        kind, _, name = question.removeprefix("csv.").partition(".")
        name = name.removesuffix(".domain")
        given: dict[str, Any] = {kind: answer}
        if name and answer == "drop":
            given = {"drop": [name]}
        elif kind == "attributes":
            given = {"attributes": {name: {"domain": answer}}}
        elif name:
            given = {"csv": {kind: {name: answer}}}
        elif kind == "record_epsilon" and "=" in answer:
            given = {answer.partition("=")[0].strip(): answer.partition("=")[2].strip()}
        return self.look.proposal(settled_plan(self.settled, given))

    def _words(self) -> list[str]:
        return [counted(len(self.columns), "column"), *self.sentences]

    def _body(self) -> list[str]:
        return self.sentences


@one_run()
def plan(
    data: TableLike,
    output: str | Path | None = None,
    *,
    plan: Mapping[str, object] | str | Path | None = None,
    gamma: str | float | Decimal | None = None,
    rho1: float | None = None,
    rho2: float | None = None,
    record_epsilon: float | None = None,
    person: str | None = None,
    rows_per_person: int | None = None,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    attributes: Mapping[str, Mapping[str, object]] | None = None,
    open_domains: bool | None = None,
    csv: CsvOptions | None = None,
    ask: Callable[[Proposal], Proposal] | None = None,
    force: bool = False,
) -> Proposal:
    """Propose a plan for a table.

    Parameters
    ----------
    data : path, list of paths, or table
        The original, which is read more than once: no standard input.
    output : path, optional
        The plan's file, a .toml.
    plan : path or mapping, optional
        An earlier plan: its settings and answers stay, and the rest is proposed anew.
    gamma : number, optional
        The amplification of each attribute. Privacy that is not given is a question in the plan.
    rho1, rho2 : float, optional
        Instead of gamma: the largest gamma that keeps a belief of rho1 at or below rho2.
    record_epsilon : float, optional
        Instead of gamma: a budget for the whole record.
    person : str, optional
        The column that identifies persons, "" for none.
    rows_per_person : int, optional
        The most records of a person that are published; 1 if a person is given.
    keep, drop : sequence of str, optional
        Columns to publish unchanged, and to leave out.
    attributes : mapping, optional
        Settings of single columns, such as {"cost": {"domain": "0:5000"}}.
    open_domains : bool, optional
        True to leave room in domains for later batches; those of dates become questions.
    csv : CsvOptions, optional
        The options for reading a CSV, and the types of columns; the rest is detected.
    ask : function, optional
        Called with the proposal; returns it with questions answered.
    force : bool, default False
        True to overwrite an existing file.
    """
    own: dict[str, Any] = {"gamma": gamma, "rho1": rho1, "rho2": rho2, "record_epsilon": record_epsilon}
    own |= {"person": person, "rows_per_person": rows_per_person}
    own |= {"keep": list(keep), "drop": list(drop), "attributes": attributes, "open_domains": open_domains}
    given = {k: v for k, v in own.items() if v not in (None, [])}
    earlier = dict(plan) if isinstance(plan, Mapping) else {} if plan is None else read_toml(path_of(plan))
    if isinstance(plan, (str, Path)):
        with locating(path_of(plan)):
            Plan.known(earlier)
        if output is not None and path_of(output).exists() and path_of(plan).samefile(path_of(output)):
            files.rewriting(path_of(plan), str(plan))
            force = True
    settled = settled_plan(earlier, given)
    csv = (csv or CsvOptions()).laid_over(read := csv_settings(settled.get("csv", {})))
    csv = replace(csv, given=csv.given | set(read))
    if output is not None and path_of(output).suffix.lower() != ".toml":
        what = f"{quoted(output)} doesn't end in .toml, the only format of plans"
        raise UsageError("not-a-plan-file", what, "name a .toml file, such as plan.toml")
    with ExitStack() as stack:
        target = None if output is None else stack.enter_context(PendingFile(path_of(output), force))
        Plan.known(settled)
        done = _looked(data, csv).proposal(settled)
        done = done if ask is None else ask(done)
        if target is not None:
            target.put(done.text.encode())
            commit(target)
    return done


def _looked(data: TableLike, csv: CsvOptions) -> TableLook:
    """Look at a table: how it is written, if it is a CSV, and the contents of its columns."""
    data = expanded(data)
    paths = [data] if isinstance(data, (str, Path)) else list(data) if isinstance(data, (list, tuple)) else []
    if any(map(is_stream, paths)):
        raise UsageError("stream-in-plan", "a plan needs to read the table more than once", "name a file")
    dialect, types, options, sketch = None, dict[str, Written](), csv, None
    named = bool(paths) and all(isinstance(p, (str, Path)) for p in paths)
    if named and all(path_of(p).exists() for p in paths):  # what doesn't is reported where it is opened
        found = parts_of([path_of(p) for p in paths])
        if found.form.sniffed:
            dialect, types, options, sketch = _read_as_text(paths, found.paths, csv)
    table = open_table(data, csv=options)
    if is_promised(table):
        raise RefusedError(
            "release-not-original", f"{quoted(table.name)} is a release already", "plan for its original"
        )
    unreadable = [f.name for f in table.schema if not _readable(f)]
    names = [n for n in table.schema.names if n not in unreadable]
    sketch = sketch or (TableSketch.of(table, names) if names else None)
    if sketch is None:
        raise DataError(
            "no-records", f"{quoted(table.name)} has no records, or no column that can be read", "see the table"
        )
    return TableLook(table.schema, sketch, unreadable, types, dialect, _written_as(options) if dialect else {})


@dataclass(frozen=True)
class TableLook:
    """The contents of a table and how it is written: a proposal is made from this and its owner's answers."""

    schema: pa.Schema
    sketch: TableSketch
    unreadable: list[str]
    written: dict[str, Written]
    dialect: Dialect | None
    csv: Mapping[str, Any]
    """The settings for reading a CSV, as a plan writes them."""

    def proposal(self, settled: Mapping[str, Any]) -> Proposal:
        """Propose a plan with all that its owner has settled; columns named there must exist."""
        asked = Plan.known(settled)
        for option in ("person", "keep", "drop", "attributes"):
            own = settled.get(option) or ()
            for name in [own] if isinstance(own, str) else own:
                if name not in self.schema.names:
                    raise unknown_column(name, self.schema.names, option)
        found, order = advised(self.schema, self.sketch, settled, asked.own_gamma(), self.unreadable)
        types = {n: w.settled(settled.get("csv", {}), n) for n, w in self.written.items()}
        for one in found:
            if (read := types.get(one.name)) is not None and read.type == "string" and read.doubt:
                left_open(one)
        records = self.sketch.sample.seen
        if asked.person and asked.rows_per_person:
            look = self.sketch.columns[asked.person]
            records = int(np.minimum(look.counts, asked.rows_per_person).sum() << look.level)
        budgets = budgets_of(found, records, asked)
        return Proposal(
            written_plan(found, settled, bool(order), self.csv, types),
            [_figures(a, types.get(a.name), budgets) for a in found],
            budgets,
            _sentences(found, types, self.dialect, order, determined(found, self.sketch), budgets, records),
            records,
            self.dialect,
            self,
            settled,
        )


def _written_as(options: CsvOptions) -> dict[str, Any]:
    """Return the settings for reading a CSV, as a plan writes them; the spellings of null come last."""
    found: dict[str, Any] = {"delimiter": options.separator, "encoding": options.encoding}
    found |= {"decimal": ","} if options.decimal == "," else {}
    found |= {"header": options.header} if options.header is not None else {}
    return found | {"null": [n for n in options.nulls if n]}


def _read_as_text(
    paths: Sequence[str | Path], parts: Sequence[Path], csv: CsvOptions
) -> tuple[Dialect, dict[str, Written], CsvOptions, TableSketch | None]:
    """Return the forms of a CSV and its columns, the options for reading them, and a sketch if all are sure."""
    dialect = sniff(parts, csv)
    found: dict[str, Any] = {"delimiter": dialect.delimiter, "encoding": dialect.encoding}
    if not dialect.header:
        found["header"] = False
    options = csv.laid_over(found | {"nulls": ("",)})
    nulls, header = options.nulls, options.header
    own: dict[str, Any] = {"types": dict.fromkeys(csv.nulls_of, pa.string()), "nulls_of": csv.nulls_of}
    plain = CsvOptions(options.delimiter, options.encoding, nulls, header=header, only=frozenset(), **own)
    table = open_table(list(paths), csv=plain)
    read = fold(table, partial(_TextBlocks.of, nulls), _TextBlocks.merge, doing="reading")
    cells = {n: Cells() for n in table.schema.names} if read is None else read.cells
    comma = options.decimal == "," or any(
        2 * c.counts["comma"] > c.counts["cells"] + c.counts["point"] for c in cells.values()
    )
    declared: Mapping[str, Any] = csv.types
    types = {n: written(c, comma, nulls, declared.get(n), csv.formats.get(n, ())) for n, c in cells.items()}
    types |= {n: replace(types[n], nulls=(*types[n].nulls, *v)) for n, v in csv.nulls_of.items() if n in types}
    types |= {n: w.answered(csv.odd_cells(n)) for n, w in types.items() if w.odd or n in csv.odd}
    options = options.laid_over(
        {
            "types": {n: w.type for n, w in types.items()},
            "formats": {n: w.formats for n, w in types.items() if w.formats},
            "decimal": "," if comma else ".",
            "nulls_of": {n: w.nulls for n, w in types.items() if w.nulls},
            "odd": {n: NULL if w.odd == QUESTION else w.odd for n, w in types.items() if w.odd},
        }
    )
    if read is None or any(options.types[n] != k or options.is_odd(n, k) for n, k in read.kinds.items()):
        return dialect, types, options, None
    return dialect, types, options, read.sketch


@dataclass
class _TextBlocks:
    """Rows of a CSV as text: how each column is written, and what all hold if their types are sure; adds up."""

    cells: dict[str, Cells]
    kinds: dict[str, pa.DataType]
    """The types of the columns in the sketch."""
    sketch: TableSketch | None

    @classmethod
    def of(cls, nulls: Sequence[str], batch: Batch) -> _TextBlocks:
        names = batch.columns.schema.names
        found = {n: read_block(batch.column(n), nulls, batch.first_row) for n in names}
        columns = {n: values for n, (_, values) in found.items() if values is not None}
        sketch = TableSketch.of_batch(batch, columns) if len(columns) == len(names) else None
        return cls({n: c for n, (c, _) in found.items()}, {n: c.type for n, c in columns.items()}, sketch)

    def merge(self, after: _TextBlocks) -> _TextBlocks:
        for name, cells in after.cells.items():
            self.cells[name].merge(cells)
        if self.sketch is None or after.sketch is None or self.kinds != after.kinds:
            self.sketch = None
        else:
            self.sketch.merge(after.sketch)
        return self


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
        proposal=one.words,
        notes=[*one.notes, *(read.doubts if read is not None else [])],
        N=one.N if one.perturbed else None,
        errors={b.at: b.errors.get(one.name) for b in budgets},
    )


def budgets_of(found: list[Advice], records: int, asked: Plan) -> list[ProposedBudget]:
    """Return the promise and accuracy of budgets: the given one, or several for a record."""
    taking_part = [a for a in found if a.perturbed and a.N is not None and a.N >= 2]
    gamma = asked.own_gamma()
    rows = (asked.rows_per_person or 1) if asked.person else None
    if gamma is None:
        several = BUDGETS if asked.record_epsilon is None else (asked.record_epsilon,)
        return [_budget_of_record(taking_part, records, e, rows) for e in several]
    attributes = sum(a.perturbed and (a.N is None or a.N >= 2) for a in found)
    rounded = float(rounded_down(gamma, 2))
    errors = {a.name: relative_error(gamma, a.size[0], records) for a in taking_part}
    return [_row(f"{rounded:g}", rounded, log(rounded) * attributes, errors, rows)]


def _budget_of_record(
    found: Sequence[Advice], records: int, epsilon: float, rows: int | None
) -> ProposedBudget:
    """Return the accuracy of a budget for the record, as `--publish auto` would spend it."""
    at = f"epsilon {epsilon:g}"
    if not found:
        return _row(at, None, epsilon, {}, rows)
    setting = Setting(epsilon, max(records, 1), tuple(a.size for a in found))
    design = Design(setting, chosen_number(setting))
    errors = {a.name: design.count_error(a.size[0]) for a in found}
    return replace(_row(at, None, epsilon, errors, rows), publish=design.k, clean_single=design.of_one)


def _row(
    at: str, gamma: float | None, epsilon: float, errors: dict[str, float], rows: int | None
) -> ProposedBudget:
    alone = None if gamma is None else worst_posterior(gamma, PRIOR)
    useless = [n for n, e in errors.items() if e > 1]
    epsilon *= rows or 1
    return ProposedBudget(at, gamma, alone, epsilon, believed_after(epsilon, PRIOR), errors, useless, rows)


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
    dropped = {a.name for a in found if a.drop}
    lines += [f"{n}: {doubt}." for n, w in types.items() if n not in dropped for doubt in w.doubts]
    padded = [n for n, w in types.items() if w.padded]
    if padded:
        lines.append(f"Digits that begin with zeros stay text: {', '.join(padded)}.")
    for one in (a for a in found if a.repeats):
        lines.append(
            f"{one.name} repeats: {one.repeats:.3g} records for each value on average. The budget protects "
            f"one record. If {one.name} identifies persons, answer person in the plan with "
            f"{quoted(one.name)}."
        )
    skewed = [a.name for a in found if a.full is not None and a.settings.get("domain") == QUESTION]
    if skewed:
        lines.append(
            f"Nearly all records would be in one of ten equal bins of {', '.join(skewed)}. Declare a domain."
        )
    if order:
        lines.append(
            f"The file looks sorted by {listed(order)}, so the plan shuffles the rows. To check the release "
            f"with {argument('truth')} later, add {argument('rows_taken', 'FILE')} when you perturb."
        )
    if pairs:
        revealed = "; ".join(f"{quoted(a)} reveals {quoted(b)}" for a, b in pairs[:12])
        more = f", and {len(pairs) - 12} more pairs" if len(pairs) > 12 else ""
        lines.append(f"Columns that determine others, so that keeping one reveals the other: {revealed}{more}.")
    return lines + [_promise(row, records) for row in budgets]


def _promise(row: ProposedBudget, records: int) -> str:
    whom, whole = ("a record", "a whole record") if row.rows is None else ("a person", "all of their records")
    epsilon, one = f"epsilon {up(row.record_epsilon):.4g} for {whom}", row.alone_becomes
    at = epsilon if row.gamma is None else f"gamma {up(row.gamma):.4g} ({epsilon})"
    alone = "" if one is None else f", and at most {at_most(one)} sure after one attribute alone"
    spent = ""
    if row.publish is not None:
        spent = (
            f". Each record publishes {row.publish} of its {counted(len(row.errors), 'attribute')}: for "
            f"one attribute, {records:,} records are worth at most {row.clean_single:,.0f} unperturbed ones"
        )
    useless = f". Too noisy to use: {listed(row.unlearnable)}" if row.unlearnable else ""
    return f"At {at}, {limit(row.record_becomes, PRIOR, whole)}{alone}{spent}{useless}."

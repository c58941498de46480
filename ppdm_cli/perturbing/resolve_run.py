"""Steps for `perturb` and `describe`: from what an owner asks of a table to a resolved plan and its sidecar.

`bins="auto"` takes the most accurate number for gamma and the number of records, as measured
(docs/technical/experiments.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from functools import partial
from operator import add, attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import dtypes, files
from ppdm_cli import sidecar as sidecars
from ppdm_cli.channels import SUBSTITUTION, Spec
from ppdm_cli.coins import Key
from ppdm_cli.domain import Domain
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, listed, quoted, unknown_column
from ppdm_cli.perturbing.domain_choice import declared_type, profile
from ppdm_cli.perturbing.next_batch import carried, check_identifier, copies_of, like
from ppdm_cli.perturbing.plan import Plan
from ppdm_cli.perturbing.record_keys import Published, left_out
from ppdm_cli.perturbing.resolving import (
    MOST_LABELS,
    ResolvedPlan,
    check_columns,
    gammas_of,
    kind_for,
    perturbed_columns,
    privacy,
    resolve,
    undeclared,
)
from ppdm_cli.perturbing.substitution import Substituter
from ppdm_cli.releases import axis_of, check_made, in_rounds, read_sidecar
from ppdm_cli.sidecar import SUFFIX, CoinsOrigin, Copy, Sidecar
from ppdm_cli.tables import (
    OPENING,
    CsvOptions,
    GroupedTable,
    PendingFile,
    Table,
    TableLike,
    commit,
    is_sidecar,
    like_release,
    open_table,
    path_of,
    sidecar_path,
)

if TYPE_CHECKING:
    from ppdm_cli.perturbing.tree_noise import NoiseAdder


def earlier_sidecar(like: str | Path | Sidecar | None) -> Sidecar | None:
    """Return the sidecar of an earlier release, from its own file or its data file."""
    if isinstance(like, (str, Path)) and OPENING.get() is not None and not str(like).endswith(".json"):
        table = open_table(like)
        return read_sidecar(None, table.sidecar, table.name)
    if isinstance(like, (str, Path)):
        path = path_of(like)
        files.reading(path)
        beside = path if is_sidecar(path) else sidecar_path(path)
        carried = None if beside.exists() else open_table(path).sidecar
        like = read_sidecar(beside, carried, str(path), "name a release that ppdm perturb made")
    return like


def typed_csv_options(
    csv: CsvOptions | None, asked: Plan, earlier: Sidecar | None, identifier: str | None
) -> CsvOptions:
    """Return CSV options with an earlier release's types, so that none are inferred in a pass of its own."""
    csv = (csv or CsvOptions()).laid_over(asked.csv)
    known: dict[str, pa.DataType] = {}
    only: frozenset[str] | None = None
    for name, own in asked.attributes.items():
        kind = pa.string() if own.group is not UNSET else declared_type(own)
        if kind in (pa.string(), pa.float64()):  # which hold whatever cells of other types hold
            known[name] = kind
    known |= dict.fromkeys({identifier, asked.person} - {None}, pa.string())  # type: ignore[arg-type]
    if earlier is not None:
        known |= {a.name: a.kind for a in earlier.attributes}
        only = frozenset(known)
    return replace(csv, known=known, unread=frozenset(asked.drop) - {identifier, asked.person}, only=only)


def asked_of(
    plan: Plan | Mapping[str, object] | str | Path | None,
    earlier: Sidecar | None,
    given: Mapping[str, Any],
    key: Key,
    copies: int,
    identifier: str | None,
) -> tuple[Plan, CsvOptions]:
    """Return the plan of each copy, protected as an earlier release was, and the settings for reading a CSV."""
    csv = given.get("csv")
    read = csv if isinstance(csv, CsvOptions) else CsvOptions()
    if read is csv:
        types = {n: str(t) for n, t in read.types.items()}
        answers = {"formats": read.formats, "odd": read.odd, "types": types}
        given = {**given, "csv": {n: v for n, v in answers.items() if v}}
    asked = Plan.of(plan, **given)
    if asked.keeps_tree:
        if earlier is not None or copies > 1 or identifier is not None:
            what = f"{asked.schemes[0]} noise can't be used for copies, a next batch or a key"
            step = f"leave out {argument('like')}, {argument('copies')} and {argument('id')}"
            raise UsageError("tree-noise-again", what, step)
        known: dict[str, pa.DataType] = {}
        if asked.tree is not None:
            from ppdm_cli.trees import as_tree

            tree = as_tree(asked.tree)
            asked = msgspec.structs.replace(asked, tree=tree)
            known = {f.name: dtypes.parse(f.dtype) for f in tree.features}  # the types that columns had then
            known[tree.class_name] = dtypes.parse(tree.class_dtype)
        return asked, replace(read.laid_over(asked.csv), known=known)
    if earlier is None:
        asked = for_each_of(asked, copies)
    else:
        if given.get("person") == "":
            asked = msgspec.structs.replace(asked, person="")  # which an earlier release may contradict
        asked = carried(earlier, for_each_of(asked, copies_of(earlier)), key, copies)
    return asked, typed_csv_options(read, asked, earlier, identifier)


def task_of(
    table: Table, asked: Plan, key: Key, earlier: Sidecar | None, identifier: str | None
) -> tuple[Substituter | NoiseAdder, np.ndarray]:
    """Return the task that perturbs a table's batches, and the rows left out because persons have enough."""
    if asked.keeps_tree:
        from ppdm_cli.perturbing.tree_noise import NoiseAdder

        return NoiseAdder(table, asked, key), np.empty(0, np.int64)
    check(table, asked, earlier, identifier)
    stays, out = None, None
    if asked.person is not None and asked.rows_per_person is not None:
        out = left_out(table, key, asked.person, asked.rows_per_person, identifier)
        stays = Published(key, asked.person, asked.rows_per_person, out)
    settled = resolved(table, asked, earlier, identifier, stays)
    publishing = partial(Substituter, key=key, identifier=identifier, shuffle=bool(asked.shuffle), left_out=out)
    left = np.empty(0, np.int64) if out is None else out
    return publishing(in_all_rounds(table, settled, key, publishing)), left


def for_each_of(asked: Plan, copies: int) -> Plan:
    """Return the plan of one of several copies, which share the budget for a record."""
    if asked.record_epsilon is None or copies < 2:
        return asked
    return msgspec.structs.replace(asked, record_epsilon=asked.record_epsilon / copies)


def grouped(table: Table, asked: Plan, earlier: Sidecar | None) -> Table:
    """Return the table with the values of columns grouped as in the plan, or as before."""
    if earlier is not None:
        mappings = [w.mapping for w in asked.attributes.values() if w.mapping is not None]
        return like_release(table, earlier.attributes, mappings, moved=False)
    rules = {n: [r] for n in asked.attributes if (r := asked.settings_of(n).rule(n)) is not None}
    return GroupedTable(table, rules) if rules else table


def check(table: Table, asked: Plan, earlier: Sidecar | None, identifier: str | None) -> None:
    """Check the plan for a table, without a look at the data."""
    asked.check_recipes()  # of a plan file and the options together
    if identifier is not None and identifier not in table.schema.names:
        raise unknown_column(identifier, table.schema.names, "id")
    if earlier is None:
        check_columns(table.schema, asked, identifier)
    else:
        check_identifier(earlier, identifier)
        like(earlier, table.schema, asked)


def resolved(
    table: Table,
    asked: Plan,
    earlier: Sidecar | None,
    identifier: str | None,
    published: Published | None = None,
) -> ResolvedPlan:
    """Return the resolved plan for a table; open domains come from the rows to be `published`."""
    if earlier is not None:
        return like(earlier, table.schema, asked)
    out = 0 if published is None else len(published.out)
    asked = sized(asked, table, identifier, out)
    unknown = undeclared(table.schema, asked, identifier)
    if unknown and not table.rewindable:
        what = f"the domain of {listed(unknown)} is not declared, and standard input can be read only once"
        step = f"declare it, such as {argument('domain', '0:120', next(iter(unknown)))}, or add a plan"
        raise UsageError("undeclared-domains", what, step)
    if asked.class_ in asked.keep and table.rewindable:
        unknown[str(asked.class_)] = MOST_LABELS
    facts = profile(table, unknown, published) if unknown else {}
    counts = asked.few == "auto" and asked.rounds is None
    records = number_of_records(table, "publish", 2) - out if counts else 0
    return _typed(resolve(table.schema, asked, identifier, facts, records), table, asked)


def _typed(plan: ResolvedPlan, table: Table, asked: Plan) -> ResolvedPlan:
    """Return the plan, in which a declared domain counts as from the data if a cell may decide its type."""
    inferred = {n: asked.attributes[n] for n in getattr(table, "inferred", ()) if n in asked.attributes}
    perturbed = {n: own for n, own in inferred.items() if n in plan.through and own.group is UNSET}
    kinds = {n: declared_type(own) for n, own in perturbed.items()}
    typed = tuple(n for n, kind in kinds.items() if kind not in (None, table.schema.field(n).type))
    attributes = [a.changed(domain_from="data") if a.name in typed else a for a in plan.attributes]
    return replace(plan, attributes=attributes, typed=typed)


def in_all_rounds(
    table: Table, plan: ResolvedPlan, key: Key, publishing: Callable[[ResolvedPlan], Substituter]
) -> ResolvedPlan:
    """Return the plan with the recipes of all rounds, each from the published records of earlier ones alone."""
    while plan.rounds is not None and len(in_rounds(plan.in_use)) < len(plan.shares):
        if not table.rewindable:
            what = "rounds read the data more than once, and standard input can be read only once"
            step = f"name a file, or use the plan of an earlier release with {argument('like')}"
            raise UsageError("rounds-of-stream", what, step)
        sidecar = sidecar_of(plan, "system", str(uuid.uuid4()), None)  # for the miner within, and gone
        if not sidecar.by_name[str(plan.class_)].has_domain:
            what = f"the class {quoted(plan.class_)} has no labels for rounds to distinguish"
            raise UsageError("class-without-labels", what, f"name a column of labels with {argument('class_')}")
        from ppdm_cli.joint import read, screened  # the miner within, where rounds choose by it

        work, label = publishing(plan), axis_of(sidecar, str(plan.class_))
        sample = read(table, sidecar, label, (work.so_far, work.columns))
        plan = plan.with_round(screened(sample))
    return plan


def sidecars_of(
    plan: ResolvedPlan, asked: Plan, key: Key, identifier: str | None, copies: int, rows: int | None
) -> list[Sidecar]:
    """Return the sidecar of each copy, of so many rows."""
    if plan.design and copies > 1:
        what = "copies are not possible if records publish different attributes"
        raise UsageError("copies-of-recipes", what, f"use {argument('publish', 'all')}")
    also: dict[str, Any] = {"shuffled": bool(asked.shuffle)}
    if asked.person is not None:
        also |= {"person": asked.person, "rows": asked.rows_per_person}
    if key.origin == "key-file":
        also |= {"key": key.mark, "id": identifier}
    group, made = release_id(key, plan), []
    for number in range(1, copies + 1):
        copy, name = Copy(copies, number, group) if copies > 1 else None, release_id(key, plan, number)
        made.append(sidecar_of(plan, key.origin, name, rows, copy, also))
    return made


def sidecar_of(
    plan: ResolvedPlan,
    coins: CoinsOrigin,
    release: str,
    rows: int | None,
    copy: Copy | None = None,
    also: Mapping[str, Any] | None = None,
) -> Sidecar:
    """Return the sidecar of a release; `also` has the fields of its promise beyond the plan."""
    sidecar = sidecars.new(
        "perturbed",
        release,
        rows,
        plan.attributes,
        recipes=plan.recipes,
        privacy=privacy(plan, coins, 1 if copy is None else copy.of, also),
        copy=copy or UNSET,
        class_=plan.class_ or UNSET,
        scheme=list(plan.scheme) or UNSET,
    )
    check_made(sidecar)
    return sidecar


def release_id(key: Key, plan: ResolvedPlan, number: int = 1) -> str:
    """Return a random UUID; for a seeded release one that follows from the seed, so that bytes repeat."""
    if key.origin != "seeded":
        return str(uuid.uuid4())
    which = ([number] if number > 1 else []) + ([plan.design] if plan.design else [])
    return str(uuid.UUID(bytes=key.derive("release", plan.attributes, *which)[:16], version=4))


@files.one_run()
def describe(
    data: TableLike,
    plan: Plan | Mapping[str, object] | str | Path,
    output: str | Path | None = None,
    *,
    force: bool = False,
    csv: CsvOptions | None = None,
) -> Sidecar:
    """Describe in a sidecar how another tool perturbed a table, so that a miner can use it.

    The other tool's random numbers are unknown, so the sidecar promises nothing.

    Parameters
    ----------
    data : path, table or list of paths
        The perturbed table, which has no sidecar yet.
    plan : Plan, mapping, str or Path
        The kind of matrix and the domain of every column, as for `perturb`; it drops none.
    output : str or Path, optional
        A file for the sidecar.
    force : bool, default False
        True to replace that file.
    csv : CsvOptions, optional
        The options for reading a CSV.

    Returns
    -------
    Sidecar
        The description, whether or not it was written to a file.
    """
    asked = Plan.of(plan)
    table = open_table(data, csv=typed_csv_options(csv, asked, None, None))
    if table.sidecar is not None:
        raise RefusedError("has-sidecar", f"{quoted(table.name)} carries a sidecar already", "see ppdm inspect")
    if output is not None and isinstance(data, (str, Path)):
        files.rewriting(sidecar_path(path_of(data)), f"{path_of(data)}{SUFFIX}")
    with ExitStack() as stack:
        target = None if output is None else stack.enter_context(PendingFile(path_of(output), force))
        check(table, asked, None, None)
        settled = resolved(table, asked, None, None)
        if settled.dropped:
            what = f"the plan drops {quoted(settled.dropped[0])}, which the table has"
            raise UsageError("described-column-dropped", what, "describe every column of it")
        if settled.design:
            what = "another tool's file doesn't show which attributes a record publishes"
            step = 'use publish = "all", or gamma instead of record_epsilon'
            raise UsageError("described-recipes", what, step)
        if any(c.noise is not None for c in settled.channels):
            what = "only random substitution can be described"
            raise UsageError("described-noise", what, f"leave out {argument('scheme')}")
        published = {n: c.published_domain(n) for n, c in settled.through.items()}
        rows = fold(table, partial(_checked, published), int.__add__, columns=list(published)) or 0
        sidecar = sidecar_of(settled, "unknown", str(uuid.uuid4()), rows)
        if target is not None:
            target.put(sidecar.encode())
            commit(target)
    return sidecar


def _checked(published: Mapping[str, Domain], batch: Batch) -> int:
    """Return the number of rows, if the plan's channels publish every value."""
    for name, domain in published.items():
        outside = domain.encode(batch.column(name)).outside
        if outside.size:
            raise MismatchError(
                "never-published",
                f"the column {quoted(name)} has a value in {batch.where(int(outside[0]))} that the plan's "
                "matrix never publishes",
                "declare the domain that it was perturbed with",
            )
    return batch.rows


LEAST_BINS, MOST_BINS = 4, 60


def sized(plan: Plan, table: Table, identifier: str | None, left_out: int = 0) -> Plan:
    """Return the plan with a number of bins for each column without one; some records are left out."""
    if plan.bins != "auto":
        return plan
    if plan.scheme != SUBSTITUTION:
        what = f"{argument('bins', 'auto')} is for random substitution"
        raise UsageError("auto-bins-of-noise", what, f"use a number of bins, such as {argument('bins', 20)}")
    perturbed = perturbed_columns(table.schema, plan, identifier)
    gammas = gammas_of(perturbed, plan)
    records = number_of_records(table, "bins", 20) - left_out
    attributes = dict(plan.attributes)
    for name, own in perturbed.items():
        binned = name != plan.class_ and not dtypes.is_discrete(table.schema.field(name).type)
        if own.bins is None and binned and (name,) in gammas:
            fits, has_ends = own.cut != (None, None), own.core not in (None, own.interval)
            bins = best_bins(gammas[(name,)], kind_for(own, plan), records, fits) + has_ends
            attributes[name] = msgspec.structs.replace(own, bins=bins)
    return msgspec.structs.replace(plan, bins=None, attributes=attributes)


def best_bins(gamma: Decimal | float, kind: type[Spec], records: int, fits: bool = False) -> int:
    """Return the smallest number of bins among the best; `fits`: the owner declared where values lie."""
    size = max(records, 1) / 100_000
    best = kind.best_bins(float(gamma), size) * (min(size, 1.0) ** 0.1 if fits else 1.0)
    return min(max(round(best), LEAST_BINS), MOST_BINS)


def number_of_records(table: Table, option: str, example: int) -> int:
    if table.rows is not None:
        return table.rows
    if not table.rewindable:
        raise UsageError(
            "records-of-stream",
            f"{argument(option, 'auto')} needs the number of records, and standard input can be read only once",
            f"use a number, such as {argument(option, example)}",
        )
    columns = table.schema.names[:1]
    return fold(table, attrgetter("rows"), add, columns=columns) or 0

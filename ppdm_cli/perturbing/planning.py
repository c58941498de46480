"""From what an owner asks of a table to the resolved plan, profiling what must be, and to the sidecar."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import files
from ppdm_cli import sidecar as sidecars
from ppdm_cli.coins import Key
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, listed, quoted, unknown_column
from ppdm_cli.estimating import axis_of
from ppdm_cli.joint import read, screened
from ppdm_cli.perturbing.bin_count import number_of_records, sized
from ppdm_cli.perturbing.domain_from_data import declared_type
from ppdm_cli.perturbing.next_batch import carried, check_identifier, copies_of, like
from ppdm_cli.perturbing.persons import Published
from ppdm_cli.perturbing.plan import Plan
from ppdm_cli.perturbing.profile import profile
from ppdm_cli.perturbing.publishing import check_publishing, few
from ppdm_cli.perturbing.resolving import (
    MOST_LABELS,
    ResolvedPlan,
    check_columns,
    privacy,
    resolve,
    undeclared,
)
from ppdm_cli.perturbing.substitution import Substituter
from ppdm_cli.releases import decode, in_rounds, read_sidecar
from ppdm_cli.sidecar import CoinsOrigin, Copy, Sidecar
from ppdm_cli.tables import OPENING, CsvOptions, GroupedTable, Table, like_release, open_table, sidecar_path


def earlier_sidecar(like: str | Path | Sidecar | None) -> Sidecar | None:
    """Return the sidecar of an earlier release, named by itself or by its data file."""
    if isinstance(like, (str, Path)) and OPENING.get() is not None and not str(like).endswith(".json"):
        table = open_table(like)
        return read_sidecar(None, table.sidecar, table.name)
    if isinstance(like, (str, Path)):
        path = Path(like)
        files.reading(path)
        beside = path if path.name.endswith(".json") else sidecar_path(path)
        if not (path.exists() or beside.exists()):
            raise files.missing(path)
        like = read_sidecar(beside, None, str(path), "use --like with a release that ppdm perturb made")
    return like


def csv_options(
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
    plan: Any,
    earlier: Sidecar | None,
    settings: Mapping[str, Any],
    key: Key,
    copies: int,
    keep_order: bool,
    csv: CsvOptions | None = None,
) -> Plan:
    """Return what is asked for, for each copy; beside an earlier release with all that protected that one."""
    read = {"csv": {"formats": csv.formats}} if csv is not None and csv.formats else {}
    asked = Plan.of(plan, **read, **settings)
    if earlier is None:
        return asked.for_each_of(copies)
    if settings.get("person") == "":
        asked = replace(asked, person="")  # nobody's, which an earlier release may contradict
    return carried(earlier, asked.for_each_of(copies_of(earlier)), key, copies, keep_order)


def grouped(table: Table, asked: Plan, earlier: Sidecar | None) -> Table:
    """Return the table with the values of columns grouped as they are asked for, or were before."""
    if earlier is not None:
        mappings = [w.mapping for w in asked.attributes.values() if w.mapping is not None]
        return like_release(table, earlier.attributes, mappings, moved=False)
    rules = {n: [r] for n, w in asked.attributes.items() if (r := w.rule(n)) is not None}
    return GroupedTable(table, rules) if rules else table


def check(table: Table, asked: Plan, earlier: Sidecar | None, identifier: str | None) -> None:
    """Check what is asked of a table, as far as no look at the data is needed."""
    check_publishing(asked)  # of a plan file and the options together
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
    """Return what is asked of a table, resolved by the rows to be `published` as far as domains are open."""
    if earlier is not None:
        return like(earlier, table.schema, asked)
    out = 0 if published is None else len(published.out)
    asked = sized(asked, table, identifier, out)
    unknown = undeclared(table.schema, asked, identifier)
    if unknown and not table.rewindable:
        raise UsageError(
            f"the domain of {listed(unknown)} is not declared, and standard input can be read "
            "only once: private data is never stored on the way",
            "declare it with --domain, or give a --plan or --like",
        )
    if asked.class_ in asked.keep and table.rewindable:
        unknown[str(asked.class_)] = MOST_LABELS
    facts = profile(table, unknown, published) if unknown else {}
    counts = few(asked) == "auto" and asked.rounds is None
    records = number_of_records(table, "--publish auto") - out if counts else 0
    return _typed(resolve(table.schema, asked, identifier, facts, records), table, asked)


def _typed(plan: ResolvedPlan, table: Table, asked: Plan) -> ResolvedPlan:
    """Return the plan, in which a declared domain is from the data where its type is: a cell may decide it."""
    inferred = {n: asked.attributes[n] for n in getattr(table, "inferred", ()) if n in asked.attributes}
    perturbed = {n: own for n, own in inferred.items() if n in plan.through and own.group is UNSET}
    kinds = {n: declared_type(own) for n, own in perturbed.items()}
    typed = tuple(n for n, kind in kinds.items() if kind not in (None, table.schema.field(n).type))
    attributes = [
        msgspec.structs.replace(a, domain_from="data") if a.name in typed else a for a in plan.attributes
    ]
    return replace(plan, attributes=attributes, typed=typed)


def in_all_rounds(
    table: Table, plan: ResolvedPlan, key: Key, publishing: Callable[[ResolvedPlan], Substituter]
) -> ResolvedPlan:
    """Return the plan with the recipes of all rounds: a pass over the table for each but the last.

    A round's recipes follow from what the records of earlier rounds publish, and from nothing else of them.
    """
    while plan.rounds is not None and len(in_rounds(plan.dealt)) < len(plan.shares):
        if not table.rewindable:
            raise UsageError(
                "rounds read the data more than once, and standard input can be read only once",
                "name a file, or take the plan of an earlier release with --like",
            )
        sidecar = sidecar_of(plan, "system", str(uuid.uuid4()), None)  # for the miner within, and gone
        if not sidecar.by_name[str(plan.class_)].has_domain:
            raise UsageError(
                f"the class {quoted(plan.class_)} has no labels that rounds could tell apart",
                "name a column of labels with --class",
            )
        work, label = publishing(plan), axis_of(sidecar, str(plan.class_))
        sample = read(table, sidecar, label, (work.so_far, work.columns))
        plan = plan.with_round(screened(sample))
    return plan


def sidecar_of(
    plan: ResolvedPlan,
    coins: CoinsOrigin,
    release: str,
    rows: int | None,
    copy: Copy | None = None,
    also: Mapping[str, Any] | None = None,
) -> Sidecar:
    """Return the sidecar of a release; `also` has what its promise says beyond the plan."""
    sidecar = sidecars.new(
        "perturbed",
        release,
        rows,
        plan.attributes,
        recipes=plan.recipes,
        privacy=privacy(plan, coins, 1 if copy is None else copy.of, also),
        copy=copy or UNSET,
        class_=plan.class_ or UNSET,
    )
    _check_readable(sidecar)
    return sidecar


def _check_readable(release: Sidecar) -> None:
    """Refuse to publish a release whose sidecar could not be read."""
    try:
        decode(release.encode(), "to be written")
    except MismatchError:
        raise RefusedError(
            "the sidecar would be larger than any that ppdm reads: a column's name is longer than 4,096 "
            "characters, a category longer than 16,384, or there are too many of them",
            "shorten or --drop them",
        ) from None


def release_id(key: Key, plan: ResolvedPlan, number: int = 1) -> str:
    """Return a random UUID; of a seeded release one that follows from the seed, so that bytes repeat."""
    if key.origin != "seeded":
        return str(uuid.uuid4())
    return str(
        uuid.UUID(
            bytes=key.derive(
                "release", plan.attributes, *[number][: number > 1], *[plan.digest] * bool(plan.several)
            )[:16],
            version=4,
        )
    )

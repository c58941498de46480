"""The owner's half: Algorithm 1 of Dowd et al. over a whole table, safe unless told otherwise.

`perturb` is the one entry, for the command and for notebooks: plan and data in, a release and its
sidecar out, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ppdm_cli import dtypes, files
from ppdm_cli.coins import Key
from ppdm_cli.display import Displayed
from ppdm_cli.engine import Writing, destination, write
from ppdm_cli.errors import RefusedError, UsageError, quoted
from ppdm_cli.ledger import Account, Entering
from ppdm_cli.perturbing.count_errors import relative_error, remarks
from ppdm_cli.perturbing.input_checks import InputChecks
from ppdm_cli.perturbing.plan import AttributePlan, Plan
from ppdm_cli.perturbing.plan_file import QUESTION, questions, read_reading, read_toml, without_questions
from ppdm_cli.perturbing.recipe_choice import chosen_number
from ppdm_cli.perturbing.record_design import FEW_CLEAN, Design, Setting, possible, ranked, recommended
from ppdm_cli.perturbing.record_keys import KeyFile, Published, left_out
from ppdm_cli.perturbing.resolve_run import (
    asked_of,
    check,
    csv_options,
    describe,
    earlier_sidecar,
    grouped,
    in_all_rounds,
    release_id,
    resolved,
    sidecar_of,
)
from ppdm_cli.perturbing.resolving import ResolvedPlan
from ppdm_cli.perturbing.row_order import RowBlocks, in_order, telling
from ppdm_cli.perturbing.substitution import Substituter
from ppdm_cli.perturbing.tree_noise import NoiseAdder, NoisePlan, NoiseReport, named, report
from ppdm_cli.releases import is_promised, opened
from ppdm_cli.sidecar import MOST_COPIES, Copy, Sidecar
from ppdm_cli.tables import CsvOptions, Output, Table, commit, open_table, suffixes
from ppdm_cli.trees import Tree

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "FEW_CLEAN",
    "QUESTION",
    "AttributePlan",
    "Design",
    "Plan",
    "Release",
    "RowBlocks",
    "Setting",
    "chosen_number",
    "describe",
    "in_order",
    "perturb",
    "possible",
    "questions",
    "ranked",
    "read_reading",
    "read_toml",
    "recommended",
    "relative_error",
    "remarks",
    "telling",
    "without_questions",
]


@dataclass(frozen=True, repr=False)
class Release(Displayed):
    """What `perturb` gives: the sidecar, the table where no output was named, and what was done."""

    sidecar: Sidecar
    frame: pl.DataFrame | None
    """A polars DataFrame, or None where the release was written to a file."""
    dropped: list[str]
    left_out: int
    """How many rows were not published, because their person has as many as allowed."""
    merged: dict[str, float]
    """Attributes of whose values this share, rare ones or new ones, went to a more common one."""
    telling_order: list[str]
    """Attributes whose row order tells, published all the same (--keep-order)."""
    in_order_of: str | None
    """The dropped identifier that the rows are in the order of."""
    clipped: dict[str, float]
    """Attributes of whose values this share was outside the domain, and moved to its nearest bin or to null."""
    errors: dict[str, float | None]
    """The standard error to expect of a value's count, over the mean count, by attribute; of all copies."""
    unlearnable: list[str]
    """Attributes of which nothing can be told: that is above 1, and ranges are no better."""
    in_ranges: list[str]
    """Attributes of which ranges can be told, and single values cannot."""
    unchanged: list[str]
    """Attributes of which over 95% of the values are published as they were."""
    crowded: list[str]
    """Attributes of which nearly all values are in one bin from the data."""
    identifying: list[str]
    """Kept columns that look like identifiers."""
    typed: list[str]
    """Attributes with a declared domain, whose types the cells of a CSV decide."""
    padded: list[str]
    """Columns of digits that were read as text, because of their leading zeros."""
    shuffled: bool
    sized: bool
    """The number of bins was chosen (--bins auto)."""
    noise: NoiseReport | None = None
    """What noise that keeps a tree did."""
    account: Account | None = None
    """What the ledger says of these people, with this release."""

    def error(self, name: str) -> float | None:
        """Return the error of an attribute, or of several in one channel: the largest of theirs."""
        if name in self.errors or opened(self.sidecar).withholding:
            return self.errors.get(name)
        parts = [n for c in opened(self.sidecar).channels if c.name == name for n in c.attributes]
        return max((e for n in parts if (e := self.errors.get(n)) is not None), default=None)

    def _words(self) -> list[str]:
        return self.sidecar._words()

    def _body(self) -> Any:
        return self.sidecar._body() if self.frame is None else self.frame


@files.one_run()
def perturb(
    data: Any,
    output: str | Path | None = None,
    plan: Plan | Mapping[str, Any] | str | Path | None = None,
    *,
    like: str | Path | Sidecar | None = None,
    clip: bool = False,
    shuffle: bool = False,
    keep_order: bool = False,
    strict: bool = False,
    copies: int = 1,
    tree: Any = None,
    seed: int | None = None,
    key_file: str | Path | None = None,
    id: str | None = None,
    ledger: str | Path | None = None,
    people: str | None = None,
    sidecar: str | Path | None = None,
    force: bool = False,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
    to: Literal["arrow", "csv"] | None = None,
    **settings: Any,
) -> Release:
    """Perturb a table, a path, several, "-", or anything that speaks Arrow, into `output`, or else a frame.

    `plan` is a `Plan`, a mapping or a TOML file; settings are laid over it, such as
    attributes={"age": {"gamma": 5}}. Of `copies` the first comes back. A `ledger` gets its entry before.
    """
    entering = Entering(ledger, people)
    _check_ways(shuffle and keep_order, str(output) == "-" and to == "csv" and sidecar is None)
    with ExitStack() as stack:
        key = (keys := KeyFile.of(stack, seed, key_file, id)).key
        if tree is not None or named(settings.get("scheme")):
            settings |= {"plan": plan, "like": like, "clip": clip, "copies": copies > 1, "id": id}
            noise, where = NoisePlan.of(tree, settings), Where(output, sidecar, force, to, entering)
            return _noisy(data, noise, key, where, shuffle, keep_order, csv, from_)
        earlier, settings["clip"] = earlier_sidecar(like), clip or None
        asked = asked_of(plan, earlier, settings, key, copies, keep_order, csv)
        shuffle, keep_order = _order(asked, shuffle, keep_order)
        csv = csv_options(csv, asked, earlier, id)
        table = _grouped(data, csv, from_, asked, earlier, bool(id and shuffle))
        targets = [destination(stack, n, sidecar, force, to) for n in _names(output, copies, sidecar, table)]
        stays, out, left = _published(table, key, asked, earlier, id)
        settled = resolved(table, asked, earlier, id, stays)
        publishing = partial(Substituter, key=key, identifier=id, shuffle=shuffle, left_out=out)
        settled = in_all_rounds(table, settled, key, publishing)
        kept = keys.kept(stack, settled)
        promised = _sidecars(settled, key, table, left, _also(asked, key, shuffle, id), copies)
        entering.check(promised[0])
        work, filled = publishing(settled), []
        for number, (target, made) in enumerate(zip(targets, promised, strict=True), 1):
            review = InputChecks(table, settled, keep_order, strict, left, clip, earlier is not None, copies)
            filled.append(_fill(target, work.for_copy(number), made, review, shuffle))
        entering.enter(filled[0])
        commit(*kept, *targets)
    found = review.found(id) | {"sized": asked.bins == "auto", "account": entering.account, "shuffled": shuffle}
    return Release(filled[0], targets[0].frame, **found)


def _also(asked: Plan, key: Key, shuffle: bool, identifier: str | None) -> dict[str, Any]:
    """Return what the sidecar says of the promise beyond the plan's laws, as fields of `Privacy`."""
    found: dict[str, Any] = {"shuffled": shuffle}
    if asked.person is not None:
        found |= {"person": asked.person, "rows": asked.rows_per_person}
    return found | ({"key": key.mark, "id": identifier} if key.origin == "key-file" else {})


def _sidecars(
    plan: ResolvedPlan,
    key: Key,
    table: Table,
    left: int,
    also: dict[str, Any],
    copies: int,
) -> list[Sidecar]:
    """Return the sidecar of each copy, of a table of which so many rows are left out."""
    if plan.several and copies > 1:
        raise UsageError("copies of a release with several recipes are not made", "use --publish all")
    group, rows = release_id(key, plan), None if table.rows is None else table.rows - left
    made = []
    for number in range(1, copies + 1):
        copy, name = Copy(copies, number, group) if copies > 1 else None, release_id(key, plan, number)
        made.append(sidecar_of(plan, key.origin, name, rows, copy, also))
    return made


def _published(
    table: Table, key: Key, asked: Plan, earlier: Sidecar | None, identifier: str | None
) -> tuple[Published | None, Any, int]:
    """Check what is asked; return which rows are published, if not all are, the others, and their number."""
    check(table, asked, earlier, identifier)
    if asked.person is None or asked.rows_per_person is None:
        return None, None, 0
    out = left_out(table, key, asked.person, asked.rows_per_person, identifier)
    return Published(key, asked.person, asked.rows_per_person, out), out, len(out)


@dataclass(frozen=True)
class Where:
    """Where a release goes, and its sidecar."""

    output: str | Path | None
    sidecar: str | Path | None
    force: bool
    to: Literal["arrow", "csv"] | None
    ledger: Entering


def _noisy(
    data: Any,
    plan: NoisePlan,
    key: Key,
    where: Where,
    shuffle: bool,
    keep_order: bool,
    csv: CsvOptions | None,
    from_: Literal["arrow", "csv"] | None,
) -> Release:
    """Publish a table with noise that keeps a tree."""
    table = _original(data, replace(csv or CsvOptions(), known=_types(plan.tree)), from_)
    with ExitStack() as stack:
        target = destination(stack, where.output, where.sidecar, where.force, where.to)
        work = NoiseAdder(table, plan, key, shuffle)
        review = InputChecks(table, work.resolved, keep_order)
        made = work.sidecar(key, release_id(key, work.resolved), table.rows)
        where.ledger.check(made)
        filled = _fill(target, work, made, review, shuffle)
        where.ledger.enter(filled)
        commit(target)
    told, account = report(work, review.checks), where.ledger.account
    found = review.found(None)
    return Release(filled, target.frame, **found, shuffled=shuffle, sized=False, noise=told, account=account)


def _types(tree: Tree) -> dict[str, pa.DataType]:
    """Return the types that a CSV's columns had when the tree was trained."""
    return {f.name: dtypes.parse(f.dtype) for f in tree.features} | {
        tree.class_name: dtypes.parse(tree.class_dtype)
    }


def _names(
    output: str | Path | None, copies: int, sidecar: str | Path | None, table: Table
) -> list[str | Path | None]:
    """Return where each copy goes: r.1.parquet, r.2.parquet, ..."""
    if copies == 1:
        return [output]
    if not 2 <= copies <= MOST_COPIES:
        raise UsageError(f"the number of copies must be from 1 to {MOST_COPIES}", "such as --copies 2")
    if output is None or str(output) == "-" or sidecar is not None:
        raise UsageError("copies go to files of their own, each with its sidecar beside it", "name one with -o")
    if not table.rewindable:
        raise UsageError("standard input can be read only once", "name a file to make copies of")
    name = str(output)  # not a path: that of a cluster may be a URI
    suffix = next((s for s in suffixes() if name.lower().endswith(s)), Path(name).suffix)
    stem = name[: len(name) - len(suffix)]
    return [f"{stem}.{i}{name[len(stem) :]}" for i in range(1, copies + 1)]


def _check_ways(both_orders: bool, no_place_for_sidecar: bool) -> None:
    if both_orders:
        raise UsageError("--shuffle and --keep-order contradict each other", "say one of them")
    if no_place_for_sidecar:
        raise UsageError("CSV on standard output carries no sidecar", "say where it goes: --sidecar FILE")


def _order(asked: Plan, shuffle: bool, keep_order: bool) -> tuple[bool, bool]:
    """Return whether rows are shuffled, or their order kept: as said here, else as the plan says."""
    shuffle, keep_order = shuffle or (asked.shuffle and not keep_order), keep_order or asked.keep_order
    _check_ways(shuffle and keep_order, False)
    return shuffle, keep_order


def _grouped(
    data: Any,
    csv: CsvOptions,
    from_: Literal["arrow", "csv"] | None,
    asked: Plan,
    earlier: Sidecar | None,
    by_identifier: bool,
) -> Table:
    """Open an original, with its values grouped as they are asked for."""
    table = _original(data, csv, from_, by_identifier and asked.person is None)
    return grouped(table, asked, earlier)


def _original(
    data: Any, csv: CsvOptions, from_: Literal["arrow", "csv"] | None, by_identifier: bool = False
) -> Table:
    """Open an original, whose rows have numbers unless coins and places hang on identifiers alone."""
    table = open_table(data, csv=csv, standard_format=from_)
    if not by_identifier and not table.numbered:
        raise UsageError(
            "the rows of a DataFrame that is not just Parquet files have no numbers and no order",
            "add --key-file and --id and --shuffle, or write it as Parquet and give that",
        )
    digest = getattr(table, "digest", None)  # of rows that are computed anew in each pass
    if digest is not None:
        files.watching(table.name, digest)
    if is_promised(table):
        raise RefusedError(
            f"{quoted(table.name)} is already a release: perturbing it again would leave "
            "a sidecar that describes the second time only",
            "perturb the original",
        )
    return table


def _fill(
    target: Output, work: Substituter | NoiseAdder, sidecar: Sidecar, review: InputChecks, shuffle: bool
) -> Sidecar:
    """Perturb the table into the output, unless the review finds against it."""
    writing = Writing(target, work.schema, sidecar, review.checks.merge, review.judge, shuffle)
    filled = write(review.table, work, writing, columns=work.columns, doing="perturbing")
    assert filled is not None
    return filled

"""Perturbation for owners: Algorithm 1 of Dowd et al. over a whole table, safe unless asked otherwise.

`perturb` is the one entry, for the command and for notebooks: plan and data in, a release and its sidecar out,
whole or not at all. Noise that keeps a tree is another task in the same pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ppdm_cli import files
from ppdm_cli.display import Displayed
from ppdm_cli.domain import Representative
from ppdm_cli.engine import Writing, destination, write
from ppdm_cli.errors import RefusedError, UsageError, argument, quoted
from ppdm_cli.perturbing.count_errors import expected_errors, relative_error, release_remarks
from ppdm_cli.perturbing.input_checks import InputChecks, MovedValues
from ppdm_cli.perturbing.plan import AttributePlan, Plan, Rare
from ppdm_cli.perturbing.plan_file import (
    QUESTION,
    csv_settings,
    locating,
    questions,
    read_reading,
    read_toml,
    settled_plan,
)
from ppdm_cli.perturbing.recipe_choice import (
    FEW_CLEAN,
    Design,
    Setting,
    chosen_number,
    possible,
    ranked,
    recommended,
)
from ppdm_cli.perturbing.record_keys import KeyFile
from ppdm_cli.perturbing.resolve_run import asked_of, describe, earlier_sidecar, grouped, sidecars_of, task_of
from ppdm_cli.perturbing.row_order import RowBlocks, in_order, revealed_columns
from ppdm_cli.releases import Account, Entering, is_promised, opened, rows_taken_text, sentences
from ppdm_cli.sidecar import MOST_COPIES, Sidecar
from ppdm_cli.tables import (
    OPENING,
    CsvOptions,
    PendingFile,
    Table,
    TableLike,
    commit,
    open_table,
    path_of,
    suffixes,
)

if TYPE_CHECKING:
    import polars as pl

    from ppdm_cli.perturbing.tree_noise import NoiseReport as NoiseReport  # for the command
    from ppdm_cli.trees import Tree

__all__ = [
    "FEW_CLEAN", "QUESTION", "AttributePlan", "Design", "Plan", "Release", "RowBlocks", "Setting",
    "chosen_number", "csv_settings", "describe", "expected_errors", "in_order", "locating", "perturb",
    "possible", "questions", "ranked", "read_reading", "read_toml", "recommended", "relative_error",
    "revealed_columns", "settled_plan",
]  # fmt: skip


@dataclass(frozen=True, repr=False)
class Release(Displayed):
    """The result of `perturb`: the sidecar, the table if no output was named, and facts about the run."""

    sidecar: Sidecar
    frame: pl.DataFrame | None
    """A polars DataFrame, or None if the release was written to a file."""
    dropped: list[str]
    left_out: int
    """The number of rows that were not published, because their person has as many as allowed."""
    merged: dict[str, MovedValues]
    """The numbers of rare or new values, by attribute, that were merged into a more common one."""
    telling_order: list[str]
    """Attributes that the row order reveals, but that were published (--keep-order)."""
    in_order_of: str | None
    """The dropped identifier by which the rows are sorted."""
    clipped: dict[str, MovedValues]
    """The numbers of values outside the domain, by attribute, that moved to its nearest bin or to null."""
    errors: dict[str, float | None]
    """The expected standard error of a value's count, over the mean count, by attribute; of all copies."""
    unlearnable: list[str]
    """Attributes that can't be estimated: the error is above 1, and ranges are no better."""
    in_ranges: list[str]
    """Attributes of which only ranges can be estimated, not single values."""
    unchanged: list[str]
    """Attributes of which over 95% of the values are published unchanged."""
    crowded: list[str]
    """Attributes with nearly all values in one bin from the data."""
    identifying: list[str]
    typed: list[str]
    """Attributes with a declared domain, whose types the cells of a CSV decide."""
    padded: list[str]
    """Columns of digits that were read as text, because of their leading zeros."""
    shuffled: bool
    sized: bool
    """True if the number of bins was chosen (--bins auto)."""
    noise: NoiseReport | None = None
    account: Account | None = None
    """The ledger's account of these people, with this release."""

    def error(self, name: str) -> float | None:
        """Return the error of an attribute, or of several in one channel: the largest of theirs."""
        if name in self.errors:
            return self.errors[name]
        parts = [n for c in opened(self.sidecar).channels if c.name == name for n in c.attributes]
        return max((e for n in parts if (e := self.errors.get(n)) is not None), default=None)

    @property
    def sentences(self) -> list[str]:
        return [*sentences(self.sidecar), *release_remarks(self)]

    def _words(self) -> list[str]:
        return self.sidecar._words()

    def _body(self) -> object:
        return self.sidecar._body() if self.frame is None else self.frame


@files.one_run()
def perturb(
    data: TableLike,
    output: str | Path | None = None,
    plan: Plan | Mapping[str, object] | str | Path | None = None,
    *,
    record_epsilon: float | None = None,
    publish: int | Literal["all", "auto"] | None = None,
    rounds: int | None = None,
    gamma: Decimal | float | str | None = None,
    rho1: float | None = None,
    rho2: float | None = None,
    class_: str | None = None,
    class_in_budget: bool | None = None,
    keep: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    person: str | None = None,
    rows_per_person: int | None = None,
    bins: int | Literal["auto"] | None = None,
    attributes: Mapping[str, AttributePlan | Mapping[str, object]] | None = None,
    together: Sequence[Sequence[str] | Mapping[str, object]] | None = None,
    representative: Representative | None = None,
    matrix: str | None = None,
    options: Mapping[str, object] | None = None,
    rare: Rare | None = None,
    open_domains: bool | None = None,
    clip: bool | None = None,
    strict: bool | None = None,
    shuffle: bool | None = None,
    keep_order: bool | None = None,
    csv: CsvOptions | Mapping[str, object] | None = None,
    scheme: str | None = None,
    noise: str | None = None,
    sd: float | str | None = None,
    tree: str | Path | Tree | None = None,
    innocent: Literal["both", "tia", "lia"] | None = None,
    leaves: Literal["all", "heterogeneous"] | None = None,
    sd_percent: float | None = None,
    percent_of: Literal["value", "sd"] | None = None,
    like: str | Path | Sidecar | None = None,
    copies: int = 1,
    seed: int | None = None,
    key_file: str | Path | None = None,
    id: str | None = None,
    ledger: str | Path | None = None,
    people: str | None = None,
    rows_taken: str | Path | None = None,
    sidecar: str | Path | None = None,
    force: bool = False,
    from_: Literal["arrow", "csv"] | None = None,
    to: Literal["arrow", "csv"] | None = None,
) -> Release:
    """Perturb a table and publish it with a sidecar.

    The fields of `Plan` are keywords: they are laid over `plan`, and one that is not given is the plan's.

    Parameters
    ----------
    data : TableLike
        A path, several, "-", or anything that speaks Arrow.
    output : str or Path, optional
        The file of the release; without it the release has a polars DataFrame.
    plan : Plan, mapping, str or Path, optional
        All of the settings below, or a TOML file of them.
    record_epsilon : float, optional
        A budget for the whole record, spent as `publish` says.
    publish : int, "all" or "auto", optional
        The number of attributes that a record publishes under that budget; all: each with an equal part.
    rounds : int, optional
        The number of rounds in which the attributes that a record publishes are chosen.
    gamma : Decimal, float or str, optional
        The amplification of an attribute: the largest ratio of an answer's probabilities under two values.
    rho1 : float, optional
        With rho2, instead of gamma: the probability with which a reader may believe a value before.
    rho2 : float, optional
        The most that rho1 becomes after seeing one attribute alone.
    class_ : str, optional
        The label; it is perturbed like the rest unless kept.
    class_in_budget : bool, optional
        True to publish the class of every record, perturbed under the same budget.
    keep : str or sequence of str, optional
        Columns that are published unchanged.
    drop : str or sequence of str, optional
        Columns that are left out.
    person : str, optional
        The column that identifies persons.
    rows_per_person : int, optional
        The most records of a person that are published.
    bins : int or "auto", optional
        The number of bins that an interval is cut into; auto: the most accurate number.
    attributes : mapping of AttributePlan or of settings, optional
        Settings of single columns.
    together : sequence of lists of names, optional
        Attributes that are perturbed together, with the settings of their channel.
    representative : {"center", "left", "right", "random"}, optional
        The value that represents a bin: center, left, right or random.
    matrix : str, optional
        The kind of channel: for an attribute, or for all that it suits.
    options : mapping, optional
        Settings that a kind of channel or a scheme has alone.
    rare : {"refuse", "merge", "publish"}, optional
        The treatment of categories of fewer than ten records: refuse, merge or publish.
    open_domains : bool, optional
        True to give every domain null, and text a group for new values, for later batches.
    clip : bool, optional
        True to move values outside a domain to its nearest bin, or to null.
    strict : bool, optional
        True to refuse attributes that cannot be estimated, or are hardly perturbed.
    shuffle : bool, optional
        True to publish the rows in a random order.
    keep_order : bool, optional
        True to keep the order of the rows even if it reveals values.
    csv : CsvOptions or mapping, optional
        The options for reading a CSV, as fields of `CsvOptions`.
    scheme : str, optional
        substitution, a kind that all attributes have or none, or noise that keeps a tree.
    noise : str, optional
        The law of additive noise: uniform or normal.
    sd : float or str, optional
        The standard deviation of additive noise: a share of each domain such as 25%, or a number.
    tree : str, Path or Tree, optional
        The tree that noise keeps, trained on this very table.
    innocent : {"both", "tia", "lia"}, optional
        The innocent attributes that get noise: those the tree tests nowhere (tia), or elsewhere (lia).
    leaves : {"all", "heterogeneous"}, optional
        Records whose innocent attributes get noise: all, or those in leaves of several classes.
    sd_percent : float, optional
        The standard deviation of their noise, in percent.
    percent_of : {"value", "sd"}, optional
        The basis of that percentage: the value, or the attribute's standard deviation.
    like : str, Path or Sidecar, optional
        An earlier release of the same table, whose protections the next batch gets.
    copies : int, default 1
        The number of independent answers to each value, in files OUTPUT.1 ...; the first is returned.
    seed : int, optional
        A seed of repeatable random numbers, for tests; such a release promises nothing.
    key_file : str or Path, optional
        A secret key, created if absent, so that an unchanged value gets the same answer again.
    id : str, optional
        With `key_file`: the column that identifies a record; dropped unless kept.
    ledger : str or Path, optional
        A file that the release is entered into before it appears; goes with `people`.
    people : str, optional
        The name of the people whom the release is about, in words of your own.
    rows_taken : str or Path, optional
        With `person` or `shuffle`: a private file of the rows that are published, in the release's order, by
        which `truth` finds them.
    sidecar : str or Path, optional
        The file of the sidecar; by default beside the output.
    force : bool, default False
        True to replace an output that exists.
    from_, to : {"arrow", "csv"}, optional
        The format of standard input and output.

    Returns
    -------
    Release
        The sidecar, the table if no output is named, and facts about the run.
    """
    own = {n: v for n, v in locals().items() if n in Plan.__struct_fields__}
    given = {n: v for n, v in own.items() if v is not None and v != ()}
    if str(output) == "-" and to == "csv" and sidecar is None:
        what = "CSV on standard output carries no sidecar"
        raise UsageError("no-place-for-sidecar", what, f"add {argument('sidecar', 'FILE')}")
    entering = Entering(ledger, people)
    with ExitStack() as stack:
        key = (keys := KeyFile.of(stack, seed, key_file, id)).key
        earlier = earlier_sidecar(like)
        asked, reading = asked_of(plan, earlier, given, key, copies, id)
        table = open_table(data, csv=reading, standard_format=from_)
        if is_promised(table):
            again = "a second perturbation would not be in its sidecar"
            what = f"{quoted(table.name)} is already a release, and {again}"
            raise RefusedError("already-a-release", what, "perturb the original")
        table = grouped(table, asked, earlier)
        targets = [destination(stack, n, sidecar, force, to) for n in _names(output, copies, sidecar, table)]
        if rows_taken is not None and (not (asked.person or asked.shuffle) or OPENING.get() is not None):
            those = f"{argument('person')} or {argument('shuffle', True)}"
            what = f"{argument('rows_taken')} lists rows as {those} publishes them, on one machine"
            raise UsageError("rows-taken-without-person", what, f"remove {argument('rows_taken')}")
        listing = None
        if rows_taken is not None:
            listing = stack.enter_context(PendingFile(path_of(rows_taken, "rows_taken"), force, mode=0o600))
        task, out = task_of(table, asked, key, earlier, id)
        kept, left_out = keys.kept(stack, task.plan), len(out)
        rows = None if table.rows is None else table.rows - left_out
        made = sidecars_of(task.plan, asked, key, id, copies, rows)
        entering.check(made[0])
        filled, places = [], list[np.ndarray]()
        for number, (target, one) in enumerate(zip(targets, made, strict=True), 1):
            work = task.for_copy(number)
            checks = InputChecks(table, work.plan, asked, left_out, bool(clip), earlier is not None, copies)
            places = []
            noted, merge = None if listing is None else places, checks.checks.merge
            writing = Writing(target, work.schema, one, merge, checks.judge, bool(asked.shuffle), noted)
            done = write(table, work, writing, columns=work.columns, doing="perturbing")
            assert done is not None
            filled.append(done)
        if listing is not None:
            listing.put(rows_taken_text(filled[0], checks.checks.rows + left_out, out, places))
            kept.append(listing)
        entering.enter(filled[0])
        commit(*kept, *targets)
    report = task.report(checks.checks)
    found = checks.found(id) | {"sized": asked.bins == "auto", "account": entering.account, "noise": report}
    return Release(filled[0], targets[0].frame, **found, shuffled=bool(asked.shuffle))


def _names(
    output: str | Path | None, copies: int, sidecar: str | Path | None, table: Table
) -> list[str | Path | None]:
    """Return the file of each copy: r.1.parquet, r.2.parquet, ..."""
    if copies == 1:
        return [output]
    if not 2 <= copies <= MOST_COPIES:
        what = f"the number of copies must be from 1 to {MOST_COPIES}"
        raise UsageError("bad-copies", what, f"try {argument('copies', 2)}")
    if output is None or str(output) == "-" or sidecar is not None:
        what = "copies need files of their own, each with its sidecar beside it"
        raise UsageError("copies-without-files", what, f"name one with {argument('output', 'FILE')}")
    if not table.rewindable:
        raise UsageError(
            "copies-of-stream", "standard input can be read only once", "name a file to make copies of"
        )
    name = str(output)  # not a path: that of a cluster may be a URI
    suffix = next((s for s in suffixes() if name.lower().endswith(s)), Path(name).suffix)
    stem = name[: len(name) - len(suffix)]
    return [f"{stem}.{i}{name[len(stem) :]}" for i in range(1, copies + 1)]

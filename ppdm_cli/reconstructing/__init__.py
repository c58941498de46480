"""Reconstruction for miners: a data set that any mining tool can read (Algorithm 2 of Dowd et al.).

Passes that count (and learn a joint model, if there is one) come first, then one that deals. The totals of
dealt values are exactly the estimated distribution in whole numbers. The original value of each record is
random but repeatable: it follows from the release's id, the attribute and the row, and not from how the table
is cut. By class, every label is a table of its own; a label that was perturbed is reconstructed first.
Attributes of a joint model are drawn record by record instead.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import sidecar as sidecars
from ppdm_cli.channels import Channel
from ppdm_cli.coins import Key
from ppdm_cli.display import Displayed
from ppdm_cli.engine import Writing, destination, step, write
from ppdm_cli.errors import RefusedError, UsageError, argument, listed, quoted, unknown
from ppdm_cli.estimating import DEFAULT, ESTIMATORS
from ppdm_cli.files import one_run
from ppdm_cli.joint import CELLS, LARGEST_DOMAIN, LearnedModel, class_of, learn, read, usable
from ppdm_cli.reconstructing.dealer import Dealer, DealtBatch, Drawer, Planner
from ppdm_cli.releases import Strata, axis_of, open_releases, opened, spooled
from ppdm_cli.sidecar import Past, Reconstruction, Sidecar
from ppdm_cli.tables import Table, TableLike, commit

if TYPE_CHECKING:
    import polars as pl

Method = Literal["joint", "by-class", "global"]
__all__ = ["Reconstructed", "reconstruct"]


@dataclass(frozen=True, repr=False)
class Reconstructed(Displayed):
    """The result of `reconstruct`: the sidecar, the table if no output was named, and the totals."""

    sidecar: Sidecar
    frame: pl.DataFrame | None
    how: Reconstruction
    totals: dict[str, list[int]]
    """The number of records with each value now, by perturbed attribute."""
    drawn: list[str]
    """The attributes that were drawn from the joint model; the others were dealt."""
    withheld: tuple[float, float] | None = None
    """The shares of cells that were withheld, and were noise, if records differ in their recipes."""

    def _words(self) -> list[str]:
        shuffled = ["shuffled"] if self.how.shuffled else []
        return [
            f"method {self.how.method}",
            f"estimator {self.how.estimator}",
            *shuffled,
            *self.sidecar._words(),
        ]

    def _body(self) -> Any:
        return self.sidecar._body() if self.frame is None else self.frame


@one_run()
def reconstruct(
    data: TableLike,
    output: str | Path | None = None,
    *,
    method: Method | None = None,
    estimator: str = DEFAULT,
    spread: bool = False,
    shuffle: bool = False,
    cells: int = CELLS,
    sidecar: Sidecar | str | Path | None = None,
    output_sidecar: str | Path | None = None,
    force: bool = False,
    from_: Literal["arrow", "csv"] | None = None,
    to: Literal["arrow", "csv"] | None = None,
) -> Reconstructed:
    """Reconstruct a usable data set from a release, or from several with the same plan.

    Row i is a guess about row i of the release.

    Parameters
    ----------
    data : path, table or list of them
        The release, or several with one plan.
    output : path, optional
        The file of the data set; without it, it is the result's `frame`.
    method : {"joint", "by-class", "global"}, optional
        By default "joint" where the sidecar names a class, as far as the release reveals the joint
        distribution, else "by-class"; without a class "global", the paper's literal reading.
    estimator : str, default "ml"
        The estimator of the totals of attributes outside the joint model.
    spread : bool, default False
        True to spread values evenly within their bins.
    shuffle : bool, default False
        True for rows in a fresh random order, which hides nothing from anyone who has the release.
    cells : int, default 400000
        The most cells of a joint table.
    sidecar : Sidecar or path, optional
        The sidecar, if it is not beside the release.
    output_sidecar : path, optional
        The file of the data set's own sidecar.
    force : bool, default False
        True to replace existing files.
    from_, to : {"arrow", "csv"}, optional
        The formats of standard input and output.
    """
    _check_estimator(estimator)
    with ExitStack() as stack:
        table, sidecar = open_releases(data, sidecar, from_)
        label = _label(sidecar, method)
        target = destination(stack, output, output_sidecar, force, to)
        table = spooled(table, stack)
        drawer, withheld = None, None
        proven = method in (None, "joint")
        learned = _learned(table, sidecar, label, cells) if label is not None and proven else None
        if learned is not None and learned.linked is not None:
            drawer, withheld = Drawer.of(learned, sidecar), learned.sample.withheld
        planned = Planner(table, sidecar, estimator, proven).planned(label, drawer)
        method = "global" if label is None else "by-class" if drawer is None else "joint"
        how = Reconstruction(method, estimator, spread, shuffle)  # type: ignore[arg-type]
        schema = pa.schema([pa.field(a.name, a.kind) for a in sidecar.attributes])
        rows, totals = 0, dict(planned.totals)

        def hear(dealt: DealtBatch) -> None:
            nonlocal rows
            rows += dealt.rows
            for name, counts in dealt.drawn.items():
                totals[name] = (np.array(totals.get(name, 0)) + counts).tolist()

        # places from the operating system's coins: nothing repeats the order
        dealer = Dealer(sidecar, planned, drawer, spread, Key.fresh().derive("shuffle") if shuffle else None)
        writing = Writing(target, schema, _described(sidecar, how), hear, lambda: rows, shuffle)
        done = write(table, dealer, writing, doing="reconstructing")
        commit(target)
    assert done is not None
    drawn = [n for name in (drawer.names if drawer else []) for n in axis_of(sidecar, name).attributes]
    return Reconstructed(done, target.frame, how, totals, drawn, withheld)


def _learned(table: Table, sidecar: Sidecar, label: Channel, cells: int) -> LearnedModel | None:
    """Return the learned joint distribution of the release; None if no column is small enough."""
    if not usable(sidecar, label) and (label.kept or label.published.size > LARGEST_DOMAIN):
        return None
    try:
        sample = read(table, sidecar, label)
    except UsageError:  # a perturbed class, and no column that says anything of it
        return None
    with step("learning"):
        return learn(sample, cells)


def _check_estimator(estimator: str) -> None:
    if estimator not in ESTIMATORS or estimator == "inverse":
        raise UsageError(
            "estimator-not-for-reconstruction",
            f"a reconstruction cannot use the estimator {quoted(estimator)}: counts must not be negative",
            f"use one of {', '.join(e for e in ESTIMATORS if e != 'inverse')}",
        )


def _label(sidecar: Sidecar, method: Method | None) -> Channel | None:
    """Return the class to reconstruct by, or None for the global method."""
    if method not in (None, "joint", "by-class", "global"):
        raise unknown("method", method, ("joint", "by-class", "global"))
    if Strata.of(sidecar, [a.name for a in sidecar.perturbed]).withholds:
        return _stand_in(sidecar, method)
    if method == "global":
        return None
    if sidecar.class_ is UNSET:
        if method is not None:
            raise UsageError(
                "no-class-named", "the sidecar names no class", f"use {argument('method', 'global')}"
            )
        return None
    label = sidecar.by_name[sidecar.class_]
    if not label.has_domain:
        if method is not None:
            raise UsageError(
                "class-without-values",
                f"the sidecar lists no values of the class {quoted(label.name)}",
                f"use {argument('method', 'global')}",
            )
        return None
    return opened(sidecar).through(label.name)


def _stand_in(sidecar: Sidecar, method: Method | None) -> Channel:
    """Return the class by which withheld cells are drawn, or the attribute with the fewest values."""
    if method not in (None, "joint"):
        raise RefusedError(
            "method-needs-every-cell",
            f"{argument('method', method)} can't be used, because most of this release is withheld",
            f"leave out {argument('method')}: then withheld values are drawn from the joint model",
        )
    label = class_of(sidecar)
    known = {c.name for c in usable(sidecar, label)} | {label.name}
    if large := [a.name for a in sidecar.perturbed if a.name not in known]:
        raise RefusedError(
            "withheld-values-too-many",
            f"{listed(large)} has too many values for the joint model, and most of them are withheld",
            "ask the owner for fewer bins",
        )
    return label


def _described(sidecar: Sidecar, how: Reconstruction) -> Sidecar:
    past = sidecar.history if sidecar.history is not UNSET else [Past.of(sidecar)]
    return msgspec.structs.replace(
        sidecar,
        stage="reconstructed",
        tool=sidecars.TOOL,
        blake2b=UNSET,
        history=past,
        reconstruction=how,
    )

"""The miner's second half: a data set that any mining tool can read (Algorithm 2 of Dowd et al.).

Passes that count (and learn, where there is a joint model) come first, then one that deals. The totals of
what is dealt are exactly the estimated distribution in whole numbers; which record of a published value gets
which original one is random but repeatable: it follows from the release's id, the attribute and the row, and
not from how the table is cut. By class, every label is a table of its own; a label that was perturbed is
reconstructed first. Attributes that a joint model has are drawn record by record instead.
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
from ppdm_cli.errors import UsageError, quoted, unknown
from ppdm_cli.estimating import DEFAULT, ESTIMATORS, axis_of
from ppdm_cli.files import one_run
from ppdm_cli.joint import CELLS, learn, read, usable
from ppdm_cli.reconstructing.dealer import Dealer, RecipeInUse
from ppdm_cli.reconstructing.planner import NOTHING, Planner
from ppdm_cli.reconstructing.posterior_draws import Drawer
from ppdm_cli.reconstructing.withheld import stand_in
from ppdm_cli.releases import open_releases, opened, spooled
from ppdm_cli.sidecar import Past, Reconstruction, Sidecar
from ppdm_cli.tables import commit

if TYPE_CHECKING:
    import polars as pl

Method = Literal["joint", "by-class", "global"]
__all__ = ["Reconstructed", "reconstruct"]


@dataclass(frozen=True, repr=False)
class Reconstructed(Displayed):
    """What `reconstruct` gives: the sidecar, the table where no output was named, and the totals."""

    sidecar: Sidecar
    frame: pl.DataFrame | None
    how: Reconstruction
    totals: dict[str, list[int]]
    """Of each perturbed attribute, how many records have each value now."""
    drawn: list[str]
    """The attributes that were drawn from the joint model; the others were dealt."""
    withheld: tuple[float, float] | None = None
    """Where records differ in their recipes, the shares of their cells that were withheld, and were noise."""

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
    data: Any,
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

    Where the sidecar names a class by the joint distribution ("joint"), as far as the release tells it, else
    or as `method` "by-class"; without a class "global": the paper's literal reading. `cells` bounds the joint
    table. Row i is a guess about row i of the release; `shuffle` puts the rows in a fresh random order, which
    hides nothing from whoever holds the release.
    """
    _check_estimator(estimator)
    with ExitStack() as stack:
        table, sidecar = open_releases(data, sidecar, from_, withholding=True)
        label = _label(sidecar, method) if not opened(sidecar).withholding else stand_in(sidecar, method)
        target = destination(stack, output, output_sidecar, force, to)
        table = spooled(table, stack)
        drawer, withheld = None, None
        if label is not None and method in (None, "joint") and usable(sidecar, label):
            sample = read(table, sidecar, label)
            with step("learning"):
                learnt = learn(sample, cells)
            if learnt.linked is not None:
                drawer, withheld = Drawer.of(learnt, sidecar), sample.withheld
        planned = (
            NOTHING
            if opened(sidecar).withholding
            else Planner(table, sidecar, estimator).planned(label, drawer)
        )
        method = "global" if label is None else "by-class" if drawer is None else "joint"
        how = Reconstruction(method, estimator, spread, shuffle)  # type: ignore[arg-type]
        schema = pa.schema([pa.field(a.name, a.kind) for a in sidecar.attributes])
        rows, totals = 0, dict(planned.totals)

        def hear(told: RecipeInUse) -> None:
            nonlocal rows
            rows += told.rows
            for name, counts in told.drawn.items():
                totals[name] = (np.array(totals.get(name, 0)) + counts).tolist()

        # places from the operating system's coins: nothing repeats the order
        dealer = Dealer(sidecar, planned, drawer, spread, Key.fresh().derive("shuffle") if shuffle else None)
        writing = Writing(target, schema, _described(sidecar, how), hear, lambda: rows, shuffle)
        done = write(table, dealer, writing, doing="reconstructing")
        commit(target)
    assert done is not None
    drawn = [n for name in (drawer.names if drawer else []) for n in axis_of(sidecar, name).attributes]
    return Reconstructed(done, target.frame, how, totals, drawn, withheld)


def _check_estimator(estimator: str) -> None:
    if estimator not in ESTIMATORS or estimator == "inverse":
        raise UsageError(
            f"a reconstruction cannot use the estimator {quoted(estimator)}: counts must not be negative",
            f"one of {', '.join(e for e in ESTIMATORS if e != 'inverse')}",
        )


def _label(sidecar: Sidecar, method: Method | None) -> Channel | None:
    """Return the class to reconstruct by, or None for the global method."""
    if method not in (None, "joint", "by-class", "global"):
        raise unknown("method", method, ("joint", "by-class", "global"))
    if method == "global":
        return None
    if sidecar.class_ is UNSET:
        if method is not None:
            raise UsageError("the sidecar names no class", "use --method global")
        return None
    label = sidecar.by_name[sidecar.class_]
    if not label.has_domain:
        if method is not None:
            raise UsageError(
                f"the sidecar lists no values of the class {quoted(label.name)}", "use --method global"
            )
        return None
    return opened(sidecar).through(label.name)


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

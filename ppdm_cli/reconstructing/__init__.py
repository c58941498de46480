"""The miner's second half: a data set that any mining tool can read (Algorithm 2 of Dowd et al.).

Passes that count (and learn, where there is a joint model) come first, then one that deals. The totals of
what is dealt are exactly the estimated distribution in whole numbers; which record of a published value gets
which original one is decided by coins, attribute by attribute. By class, every label is a table of its own; a
label that was perturbed is reconstructed first. Attributes that a joint model has are drawn record by record
instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET

from ppdm_cli import sidecar as sidecars
from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.domain import Bins
from ppdm_cli.engine import Batch, Progress, map_partitions, scan, step
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.estimating import (
    DEFAULT,
    ESTIMATORS,
    encoded,
    joint_codes,
    largest_remainder,
    matrices_of,
)
from ppdm_cli.files import one_run
from ppdm_cli.joint import CELLS, learn, read, usable
from ppdm_cli.reconstructing.dealing import coins, deal
from ppdm_cli.reconstructing.drawing import Drawer
from ppdm_cli.reconstructing.plan import monotone, split
from ppdm_cli.releases import open_releases, rewound
from ppdm_cli.shown import Shown
from ppdm_cli.sidecar import Past, Reconstruction, Sidecar
from ppdm_cli.tables import Output, Shuffler, Table, rows_per_partition

if TYPE_CHECKING:
    import polars as pl

Method = Literal["joint", "by-class", "global"]
__all__ = ["Reconstructed", "reconstruct"]


@dataclass(frozen=True, repr=False)
class Reconstructed(Shown):
    """What `reconstruct` gives: the sidecar, the table where no output was named, and the totals."""

    sidecar: Sidecar
    frame: pl.DataFrame | None
    how: Reconstruction
    totals: dict[str, list[int]]
    """Of each perturbed attribute, how many records have each value now."""
    drawn: list[str]
    """The attributes that were drawn from the joint model; the others were dealt."""

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
    threads: int | None = None,
    progress: Progress | None = None,
) -> Reconstructed:
    """Reconstruct a usable data set from a release, or from several with the same plan.

    Where the sidecar names a class by the joint distribution ("joint"), as far as the release tells it, else
    or as `method` "by-class"; without a class "global": the paper's literal reading. `cells` bounds the joint
    table. Row i is a guess about row i of the release; `shuffle` puts the rows in a fresh random order, which
    hides nothing from whoever holds the release.
    """
    if estimator not in ESTIMATORS or estimator == "inverse":
        raise UsageError(
            f"a reconstruction cannot use the estimator {quoted(estimator)}: counts must not be negative",
            f"one of {', '.join(e for e in ESTIMATORS if e != 'inverse')}",
        )
    with ExitStack() as stack:
        table, promise = open_releases(data, sidecar, from_)
        label = _label(promise, method)
        target = Output(stack, output, output_sidecar, force, to)
        table = rewound(table, stack)
        drawer = None
        if label is not None and method in (None, "joint") and usable(promise, label):
            sample = read(table, promise, label, threads, progress)
            with step(progress, "learning"):
                learnt = learn(sample, cells)
            drawer = Drawer(learnt, promise.release) if learnt.model is not None else None
        dealer = Dealer(table, promise, label, drawer, estimator, spread, threads, progress)
        method = "global" if label is None else "by-class" if drawer is None else "joint"
        how = Reconstruction(method, estimator, spread, shuffle)  # type: ignore[arg-type]
        done = _described(promise, how)
        rows = 0

        def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in batches:
                rows += batch.num_rows
                yield batch

        batches = map_partitions(table, dealer, threads=threads, progress=progress, doing="reconstructing")
        batches = counted(batches)
        if shuffle:
            batches = _shuffled(stack, batches, dealer.schema, table.rows, target.folder)
        done = target.write(batches, dealer.schema, done, lambda: rows)
    return Reconstructed(done, target.frame, how, dealer.totals, drawer.names if drawer else [])


def _shuffled(
    stack: ExitStack,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    rows: int | None,
    folder: Path | None,
) -> Iterator[pa.RecordBatch]:
    """The rows in an order from the operating system's coins: nothing repeats it."""
    shuffler = stack.enter_context(Shuffler(schema, rows, folder))
    for batch in batches:
        places = np.frombuffer(secrets.token_bytes(8 * batch.num_rows), np.uint64)
        shuffler.add(batch.cast(schema), places)
    yield from shuffler.batches()


def _label(promise: Sidecar, method: Method | None) -> Channel | None:
    """The class to reconstruct by, or None for the global method."""
    if method not in (None, "joint", "by-class", "global"):
        raise UsageError(f"unknown method {quoted(method)}", "joint, by-class or global")
    if method == "global":
        return None
    if promise.class_ is UNSET:
        if method is not None:
            raise UsageError("the sidecar names no class", "say --method global")
        return None
    label = promise.by_name[promise.class_]
    if not label.has_domain:
        if method is not None:
            raise UsageError(
                f"the sidecar lists no values of the class {quoted(label.name)}", "say --method global"
            )
        return None
    return promise.axis(label.name)


def _described(promise: Sidecar, how: Reconstruction) -> Sidecar:
    past = promise.history if promise.history is not UNSET else [Past.of(promise)]
    return msgspec.structs.replace(
        promise,
        stage="reconstructed",
        tool=sidecars.tool(),
        blake2b=UNSET,
        history=past,
        reconstruction=how,
    )


@dataclass(frozen=True)
class _Deal:
    """How to deal one attribute: the steps of its plan by joint published code, and each partition's share."""

    targets: np.ndarray
    amounts: np.ndarray


class Dealer:
    """Both passes: counts when made, deals when called with a batch."""

    def __init__(
        self,
        table: Table,
        promise: Sidecar,
        label: Channel | None,
        drawer: Drawer | None,
        estimator: str,
        spread: bool,
        threads: int | None,
        progress: Progress | None,
    ) -> None:
        self._release = promise.release
        self._attributes = promise.attributes
        self._domains = {a.name: a.domain for a in promise.attributes if a.role == "perturbed"}
        self._label = label
        if label is not None:
            self._domains[label.name] = label.domain
        self._published = {n: promise.axis(n).published for n in self._domains}
        self._written = {n: d.spread() if spread else d for n, d in self._domains.items()}
        self._drawer, drawn = drawer, [] if drawer is None else drawer.names
        self._others = [
            c for c in promise.channels if c.name not in drawn and (label is None or c.name != label.name)
        ]
        self._label_deal: _Deal | None = None
        self.totals: dict[str, list[int]] = {}
        self._lock = Lock()
        self.schema = pa.schema([pa.field(a.name, a.kind) for a in promise.attributes])
        self._deals = self._planned(table, estimator, threads, progress)

    # -- first pass: counts and plans

    def _planned(
        self, table: Table, estimator: str, threads: int | None, progress: Progress | None
    ) -> dict[str, _Deal]:
        # a partition must be the same records in every pass, and wide tables are cut by the columns read
        columns = list(self._domains)
        if rows_per_partition(len(columns)) != rows_per_partition(len(self._attributes)):
            columns = [a.name for a in self._attributes]
        if self._drawer is not None and self._label is not None and not self._label.kept:
            self._drawer.rake(table, columns, estimator, threads, progress)
        if not self._others and (self._label is None or self._label.kept or self._drawer is not None):
            return {}

        def counted(work: Callable[[Batch], list[np.ndarray]]) -> list[np.ndarray]:
            """One pass: for each table that `work` counts, its counts by partition."""
            parts = scan(table, work, columns=columns, threads=threads, progress=progress, doing="counting")
            return [np.stack(p) for p in zip(*parts, strict=True)]

        published = counted(lambda b: self._counts(b, self._published_label(b), self._published_labels))
        estimates = {
            a.name: self._estimate(a, counts.sum(axis=0), estimator)
            for a, counts in zip(self._others, published, strict=False)
        }
        if self._label is not None and not self._label.kept:
            if self._drawer is None:
                self._label_deal = self._label_plan(counted(self._label_counts), estimator)
            # the other attributes are dealt within the labels as they are reconstructed now
            published = counted(lambda b: self._counts(b, self._labels(b), self._label_size))
        return {
            a.name: self._plan(a.name, counts, estimates[a.name])
            for a, counts in zip(self._others, published, strict=False)
        }

    def _label_plan(self, labels: list[np.ndarray], estimator: str) -> _Deal:
        assert self._label is not None
        counts = labels[0] if labels else np.zeros((0, self._published_labels), np.int64)
        wanted = ESTIMATORS[estimator](counts.sum(axis=0).astype(float), matrices_of((self._label,)))
        return self._plan(self._label.name, counts[:, None, :], wanted[None, :])

    @property
    def _label_size(self) -> int:
        return 1 if self._label is None else self._domains[self._label.name].size

    @property
    def _published_labels(self) -> int:
        return 1 if self._label is None else self._published[self._label.name].size

    def _published_label(self, batch: Batch) -> Codes | None:
        if self._label is None:
            return None
        return encoded(batch, self._label.name, self._published[self._label.name])

    def _label_counts(self, batch: Batch) -> list[np.ndarray]:
        label = self._published_label(batch)
        assert label is not None
        return [np.bincount(label, minlength=self._published_labels)]

    def _counts(self, batch: Batch, label: Codes | None, labels: int) -> list[np.ndarray]:
        """Counts of each attribute's published codes by label: arrays of shape (labels, codes)."""
        return [
            np.bincount(codes, minlength=labels * size).reshape(labels, size)
            for codes, size in (
                (self._joint(batch, a, label, labels), self._published[a.name].size) for a in self._others
            )
        ]

    def _joint(self, batch: Batch, attribute: Channel, label: Codes | None, labels: int) -> np.ndarray:
        """The published codes, or one for each combination with a label."""
        domain = self._published[attribute.name]
        codes = encoded(batch, attribute.name, domain)
        return codes if label is None else joint_codes([label, codes], (labels, domain.size))

    def _estimate(self, attribute: Channel, counts: np.ndarray, estimator: str) -> Floats:
        """Original counts by original label; without a label, of one row."""
        table = counts.astype(np.float64)
        if self._label is None:
            return ESTIMATORS[estimator](table[0], matrices_of((attribute,)))[None, :]
        return ESTIMATORS[estimator](table, matrices_of((self._label, attribute)))

    def _plan(self, name: str, parts: np.ndarray, wanted: Floats) -> _Deal:
        """`parts` are counts by (partition, label, published code), `wanted` by (label, original code)."""
        rng = coins(self._release, "split", name)
        published = parts.sum(axis=0)
        targets, amounts = [], []
        totals = np.zeros(wanted.shape[1], np.int64)
        for label in range(len(published)):
            original = largest_remainder(wanted[label], int(published[label].sum()))
            totals += original
            stairs = monotone(published[label], original)
            targets.append(stairs.target)
            amounts.append(split(stairs, parts[:, label], rng))
        self.totals[name] = totals.tolist()
        return _Deal(np.concatenate(targets), np.concatenate(amounts, axis=1))

    # -- second pass: dealing

    def __call__(self, batch: Batch) -> pa.RecordBatch:
        dealt: dict[str, pa.Array] = {}
        if self._drawer is None:
            label = self._labels(batch)
        else:
            label, drawn = self._drawer(batch)
            for name, codes in drawn.items():
                dealt[name] = self._decoded(name, codes, batch)
            self._count(drawn)
        if self._label is not None and not self._label.kept and self._drawer is None:
            dealt[self._label.name] = self._decoded(self._label.name, label, batch)
        for attribute in self._others:
            codes = self._dealt(
                self._deals[attribute.name],
                attribute.name,
                batch,
                self._joint(batch, attribute, label, self._label_size),
            )
            dealt[attribute.name] = self._decoded(attribute.name, codes, batch)
        columns = [dealt[a.name] if a.name in dealt else batch.column(a.name) for a in self._attributes]
        return pa.RecordBatch.from_arrays(columns, names=[a.name for a in self._attributes])

    def _count(self, drawn: Mapping[str, Codes]) -> None:
        counts = {n: np.bincount(c, minlength=self._domains[n].size).tolist() for n, c in drawn.items()}
        with self._lock:
            for name, found in counts.items():
                before = self.totals.get(name, [0] * len(found))
                self.totals[name] = [a + b for a, b in zip(before, found, strict=True)]

    def _labels(self, batch: Batch) -> Codes | None:
        """The labels to deal by: as kept, or as reconstructed."""
        if self._drawer is not None:
            return self._drawer(batch)[0]
        published = self._published_label(batch)
        if self._label_deal is None or self._label is None or published is None:
            return published
        return self._dealt(self._label_deal, self._label.name, batch, published)

    def _dealt(self, how: _Deal, name: str, batch: Batch, joint: np.ndarray) -> Codes:
        out = np.empty(batch.rows, code_type(self._domains[name].size))
        deal(joint, how.targets, how.amounts[batch.index], coins(self._release, "deal", name, batch.index), out)
        return out

    def _decoded(self, name: str, codes: Codes | None, batch: Batch) -> pa.Array:
        assert codes is not None
        domain = self._written[name]
        within = None
        if isinstance(domain, Bins) and domain.representative == "random":
            within = coins(self._release, "spread", name, batch.index).random(batch.rows)
        return domain.column(codes, within)

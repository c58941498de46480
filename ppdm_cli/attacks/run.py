"""The passes over a release: what the attacks learn from it first, then their guesses, row by row."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ppdm_cli.attacks import audit
from ppdm_cli.attacks.adversary import LINEAR, Adversary
from ppdm_cli.attacks.attacked_attribute import Guess, Rows, Target, Truth
from ppdm_cli.attacks.audit import Agreement, Audit, merged, untested
from ppdm_cli.attacks.law import PlacesOfAll
from ppdm_cli.attacks.pairing import PUBLISHED, UNPAIRED, Paired
from ppdm_cli.attacks.reading import Reader
from ppdm_cli.attacks.repeat import Repeat
from ppdm_cli.attacks.report import Attacked, described, evaluated, of_whole_record
from ppdm_cli.attacks.row_order import Order, State
from ppdm_cli.attacks.scoring import Tally
from ppdm_cli.attacks.whole_record import Beliefs
from ppdm_cli.engine import Batch, fold, map_partitions
from ppdm_cli.errors import MismatchError, UsageError, listed
from ppdm_cli.inspection import noisy
from ppdm_cli.joint import LARGEST_DOMAIN, kept_channels
from ppdm_cli.releases import OWN
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Output, Table

ATTACKS = (*LINEAR, "posterior", "record", "repeat", "order", "audit")
STRONGEST = ("record", "posterior", "bayes-linear", "pca", "spectral")
"""Attacks by strength: the first that ran writes its guesses; with additive noise, linear ones come first."""
Key = tuple[str, str]
Addable = TypeVar("Addable", Tally, Beliefs, State)


@dataclass
class Seen:
    """What a pass has seen so far; adds up over partitions, in the rows' order."""

    tallies: dict[Key, Tally] = field(default_factory=dict)
    beliefs: dict[str, Beliefs] = field(default_factory=dict)
    agreement: dict[str, list[np.ndarray]] = field(default_factory=dict)
    audit: audit.State | None = None
    repeat: dict[str, list[np.ndarray]] = field(default_factory=dict)
    order: dict[str, State] = field(default_factory=dict)

    def __add__(self, other: Seen) -> Seen:
        return Seen(
            _summed(self.tallies, other.tallies),
            _summed(self.beliefs, other.beliefs),
            merged(self.agreement, other.agreement),
            None if self.audit is None or other.audit is None else self.audit + other.audit,
            merged(self.repeat, other.repeat),
            _summed(self.order, other.order),
        )


def _summed(a: Mapping[Any, Addable], b: Mapping[Any, Addable]) -> dict[Any, Addable]:
    return {k: a[k] + b[k] for k in a}


@dataclass(frozen=True, eq=False)
class _Guessing:
    """The task of the pass that guesses."""

    reader: Reader
    known: bool
    """Whether the originals are there to compare with."""
    targets: Mapping[str, Target]
    guessers: Mapping[str, Any]
    agreement: Agreement | None
    audit: Audit | None
    repeat: Repeat | None
    order: Order | None

    def __call__(self, batch: Batch) -> Seen:
        rows, seen = self._read(batch), Seen()
        for attack, guesser in self.guessers.items():
            if rows.truths is None and attack != "record":
                continue
            guesses = guesser.guesses(rows)
            if rows.truths is not None:
                seen.tallies |= self._tallied(attack, guesses, rows.truths)
            if attack == "record":
                seen.beliefs = guesser.believed(guesses, rows)
        if self.agreement is not None:
            seen.agreement = self.agreement.counted(rows)
        if self.audit is not None:
            seen.audit = self.audit.counted(self.audit.places.placed(rows))
        if self.repeat is not None:
            seen.repeat = self.repeat.counted(rows)
        if self.order is not None:
            seen.order = self.order.counted(rows)
        return seen

    def by_order(self, batch: Batch) -> Seen:
        assert self.order is not None
        rows = self._read(batch)
        return Seen(self._tallied("order", self.order.guesses(rows), rows.known))

    def _read(self, batch: Batch) -> Rows:
        return self.reader.both(batch) if self.known else self.reader.published(batch)

    def _tallied(
        self, attack: str, guesses: Mapping[str, Guess], truths: Mapping[str, Truth]
    ) -> dict[Key, Tally]:
        return {(attack, n): Tally.of(self.targets[n], g, truths[n]) for n, g in guesses.items()}


@dataclass(frozen=True, eq=False)
class _Recovering:
    """The task that writes what the strongest attacks guess, in the original's columns."""

    reader: Reader
    targets: Mapping[str, Target]
    guessers: Sequence[Any]
    names: list[str]

    def __call__(self, batch: Batch) -> pa.RecordBatch:
        seen = self.reader.published(batch)
        guesses: dict[str, Guess] = {}
        for guesser in reversed(self.guessers):
            guesses |= guesser.guesses(seen)
        found = {}
        for name, guess in guesses.items():
            channel = self.targets[name].channel
            codes = channel.domain.split(guess.exact.astype(seen.codes[name].dtype))
            for (own, domain), part in zip(channel.each(), codes, strict=True):
                found[own] = domain.column(part, np.full(len(part), 0.5))
        columns = [found[n] if n in found else batch.column(PUBLISHED + n) for n in self.names]
        return pa.RecordBatch.from_arrays(columns, names=self.names)


class Passes:
    """All of one run."""

    def __init__(
        self, table: Table, paired: Paired, sidecar: Sidecar, asked: Sequence[str], known: bool
    ) -> None:
        self._table, self._paired, self._sidecar = table, paired, sidecar
        self._asked, self._known = asked, known
        self.adversary = Adversary(table, sidecar, asked, known)

    def run(self) -> Attacked:
        self.adversary.learn()
        targets, asked = list(self.adversary.targets.values()), self._asked
        repeated, ordered = "repeat" in asked, "order" in asked
        checked = self._audit(targets) if self._known and "audit" in asked else None
        self._task = _Guessing(
            self.adversary.reader,
            self._known,
            self.adversary.targets,
            self.adversary.guessers,
            Agreement(targets) if self._known else None,
            checked,
            Repeat(targets, self._sidecar.release) if repeated else None,
            Order(targets, self.adversary.counts) if ordered else None,
        )
        if self._task.repeat is not None and self._task.repeat.left_out:
            self.adversary.remarks.append(
                f"repeat: {listed(self._task.repeat.left_out)} cannot be perturbed again: what is published "
                "goes beyond the domain, or is several answers."
            )
        seen = fold(self._paired, self._task, Seen.__add__, doing="attacking")
        assert seen is not None
        self._check_paired(seen)
        return self._concluded(seen)

    def _audit(self, targets: Sequence[Target]) -> Audit:
        names = [a.name for a in self._sidecar.kept]
        kept = kept_channels(self._table, names, LARGEST_DOMAIN)
        self.adversary.remarks += untested(names, kept)
        self.adversary.reader = replace(self.adversary.reader, kept=tuple(kept))
        release = uuid.UUID(self._sidecar.release)
        return Audit(PlacesOfAll(targets, release, kept), self.adversary.records, release.int)

    def _check_paired(self, seen: Seen) -> None:
        """Check that the rows pair: rows that do not belong together would look like perfect privacy."""
        agreement = self._task.agreement
        if agreement is not None and agreement.identical(seen.agreement):
            raise MismatchError("--truth names the release itself: its values are the published ones", OWN)
        if agreement is not None and not agreement.pairs(seen.agreement, self.adversary.counts):
            raise MismatchError("the release agrees with the original's rows no more than by chance", UNPAIRED)

    # -- what comes out

    def _concluded(self, seen: Seen) -> Attacked:
        adversary, record = self.adversary, of_whole_record(self._sidecar)
        done = Attacked(sidecar=self._sidecar, measured=self._known, record=record)
        done.kept, done.remarks = adversary.kept, adversary.remarks
        if self._task.order is not None:
            done.order = self._task.order.rows(seen.order, self._known)
            if self._known and self._task.order.targets:
                by_order = self._task.by_order
                found = fold(self._paired, by_order, Seen.__add__)
                assert found is not None
                seen.tallies |= found.tallies
        targets, guessers = self._task.targets, self._task.guessers
        if self._known:
            figures = {k: t.figures(targets[k[1]]) for k, t in seen.tallies.items()}
        else:
            expected = {a: g.expected(seen.beliefs) for a, g in guessers.items()}
            figures = {(a, n): f for a, found in expected.items() for n, f in found.items()}
        beliefs = {a: g.largest(seen.beliefs) for a, g in guessers.items()}
        places = {n: i for i, n in enumerate(targets)}
        for attack, name in sorted(figures, key=lambda k: (ATTACKS.index(k[0]), places[k[1]])):
            about = described(attack, targets[name], adversary.records, self._known)
            done.rows.append(about | figures[attack, name] | beliefs.get(attack, {}).get(name, {}))
        if self._task.audit is not None and seen.audit is not None:
            done.audit, done.coins, done.unseen = self._task.audit.verdicts(seen.audit)
        if self._task.repeat is not None:
            done.repeat = self._task.repeat.rows(seen.repeat)
        return done

    # -- the guesses themselves

    def write_recovered(self, target: Output) -> None:
        """Write the best guesses of the strongest attack that ran, in the original's columns and types."""
        linear_first = STRONGEST[2:] + STRONGEST[:2]
        strongest = linear_first if noisy(self._sidecar) else STRONGEST
        made = [self._task.guessers[n] for n in strongest if n in self._task.guessers]
        if not made:
            raise UsageError("none of the attacks asked for guesses values", "add --with posterior")
        attributes = self._sidecar.attributes
        schema = pa.schema([pa.field(a.name, a.kind) for a in attributes])
        task = _Recovering(self.adversary.reader, self._task.targets, made, schema.names)
        batches, records = map_partitions(self._paired, task, doing="guessing"), self.adversary.records
        target.write(batches, schema, evaluated(self._sidecar, records), lambda: records)

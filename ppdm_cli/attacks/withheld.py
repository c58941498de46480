"""Attacks on a release of which most cells are withheld: each record shows a few of its attributes by one coin.

`posterior` guesses an attribute by its own cell, where it is shown; `record` by all that the record shows,
through the joint model; `known` is an adversary who knows one of the attributes that a record shows, and sees
by it whether the coin told (maths 11). Everything is learnt from the release alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import exp

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.attacked_attribute import Target, Truth, as_numbers
from ppdm_cli.attacks.audit import Audit, State, untested
from ppdm_cli.attacks.pairing import ORIGINAL, PUBLISHED, UNPAIRED, Paired
from ppdm_cli.attacks.recipes_law import PlacesByRecipe
from ppdm_cli.attacks.report import Attacked, described, evaluated, of_whole_record
from ppdm_cli.attacks.scoring import Tally, expected
from ppdm_cli.engine import Batch, fold, map_partitions, step
from ppdm_cli.errors import DataError, MismatchError, UsageError, listed, quoted
from ppdm_cli.estimating import Coverage, Showing, estimated_tables
from ppdm_cli.joint import Model, Sample, class_of, learn, read, unseeing
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.releases import OWN, opened
from ppdm_cli.repeatable import hashed
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Output, Table

ATTACKS = ("posterior", "record", "known", "audit")
ROWS, MOST_BELIEFS = 1 << 13, 1 << 22
"""The most records that are processed at a time, and the most beliefs about all of their values."""
MOST_WORK = 1 << 24
"""The most multiplications by which the model guesses a record, about."""


@dataclass(frozen=True, eq=False)
class Records:
    """Some records: what they show, class last, and their originals where those are known."""

    numbers: np.ndarray
    codes: list[Codes]
    truths: list[Truth | None] | None
    first_row: int

    def part(self, which: slice | np.ndarray) -> Records:
        def some(truth: Truth | None) -> Truth | None:
            return None if truth is None else Truth(truth.codes[which], truth.numbers[which])

        truths = None if self.truths is None else [some(t) for t in self.truths]
        return Records(self.numbers[which], [c[which] for c in self.codes], truths, self.first_row)


@dataclass
class Seen:
    """What a pass has seen so far; adds up over partitions."""

    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    beliefs: dict[tuple[str, str], Floats] = field(default_factory=dict)
    """By attack and attribute the sums of 1, of beliefs in value and neighbourhood, and of variances."""
    largest: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """The largest belief, and the bound for it."""
    near: Floats = field(default_factory=lambda: np.zeros(3))
    """How many cells show their value or its neighbourhood, how many by chance, and are to be expected to."""
    audit: State | None = None

    def __add__(self, other: Seen) -> Seen:
        tallies = {k: self.tallies[k] + other.tallies[k] for k in self.tallies}
        beliefs = {k: self.beliefs[k] + other.beliefs[k] for k in self.beliefs}
        largest = {k: max(self.largest[k], other.largest[k]) for k in self.largest}
        audit = None if self.audit is None or other.audit is None else self.audit + other.audit
        return Seen(tallies, beliefs, largest, self.near + other.near, audit)


class Withheld:
    """All of one run."""

    def __init__(
        self, table: Table, original: Table | None, sidecar: Sidecar, asked: Sequence[str], named: Sequence[str]
    ) -> None:
        self._paired, self._sidecar, self._known = (
            Paired(table, original, sidecar),
            sidecar,
            original is not None,
        )
        self._asked = [a for a in ATTACKS if a in asked and (self._known or a not in ("known", "audit"))]
        out = [n for n in named if n not in ATTACKS]
        self._remarks = [f"Left out, because most cells are withheld: {listed(out)}."] if out else []
        label = class_of(sidecar)
        sample = read(table, sidecar, label)
        if not sample.records:
            raise DataError("the release has no records: there is nothing to attack", "give one that has")
        self._model = self._learnt(sample, named)
        self._axes = (*sample.channels, label)
        self._reader = Showing.of(sidecar, self._axes)
        self._recipes = self._reader.recipes
        self.gamma = exp(max(d.epsilon for d in opened(sidecar).recipes))
        perturbed = [c.name for c in self._axes if not c.kept]
        done, self.records = estimated_tables(table, sidecar, [(n,) for n in perturbed], "ml", Coverage())
        priors = {n: np.maximum(d.estimate, 0) + 1e-9 for n, d in zip(perturbed, done, strict=True)}
        self._targets = {
            place: Target(c, priors[c.name] / priors[c.name].sum())
            for place, c in enumerate(self._axes)
            if not c.kept
        }
        values = sum(t.domain.size for t in self._axes)
        self._rows = max(1, min(ROWS, MOST_BELIEFS // values))
        self._audit = None
        if "audit" in self._asked:
            places = PlacesByRecipe(self._recipes, opened(sidecar).recipes, self._axes, sidecar.release)
            self._remarks += untested([a.name for a in sidecar.kept], self._axes)
            self._audit = Audit(places, self.records, int(hashed(sidecar.release)))
        left = [a.name for a in sidecar.perturbed if a.name not in perturbed]
        if left:
            self._remarks.append(f"Left out, because of too many values: {listed(left)}.")

    def _learnt(self, sample: Sample, named: Sequence[str]) -> Model | None:
        """Return the model that the whole record is guessed by, where that is asked for and affordable."""
        work = sample.label.domain.size * sum(c.domain.size * c.published.size for c in sample.channels)
        if work > MOST_WORK and "record" in self._asked:
            if "record" in named:
                raise UsageError(
                    f"the attack record needs {work:.1e} multiplications a record, more than {MOST_WORK:.1e}",
                    "leave it out: --with posterior",
                )
            self._asked.remove("record")
            self._remarks.append("Left out, because the attributes and the class have too many values: record.")
        if "record" not in self._asked:
            return None
        with step("learning"):
            return learn(sample).linked

    # -- reading

    def _read(self, batch: Batch) -> Records:
        own = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
        released = {n.removeprefix(PUBLISHED): c for n, c in own.items() if n.startswith(PUBLISHED)}
        columns = pa.RecordBatch.from_arrays(list(released.values()), names=list(released))
        numbers, (*codes, labels) = self._reader(replace(batch, columns=columns))
        truths = None
        if self._known:
            truths = [
                self._truth(batch, place) if place in self._targets else None
                for place in range(len(self._axes))
            ]
        return Records(numbers, [*codes, labels], truths, batch.first_row)

    def _truth(self, batch: Batch, place: int) -> Truth:
        name, domain = self._axes[place].name, self._axes[place].domain
        column = batch.column(ORIGINAL + name)
        found = domain.encode(column)
        if found.outside.size:
            raise MismatchError(
                f"the column {quoted(name)} of the original has a value outside the sidecar's domain in row "
                f"{batch.first_row + int(found.outside[0]) + 1}",
                OWN,
            )
        numbers = (
            as_numbers(column, domain.kind) if self._targets[place].ordered else np.full(batch.rows, np.nan)
        )
        return Truth(found.codes, numbers)

    # -- guesses

    def _cell(self, place: int, records: Records, lam: Floats | None = None) -> Floats:
        """Return how likely each original makes what is shown of an attribute; 1 where it is withheld."""
        ways, codes = self._recipes.attributes[place], records.codes[place]
        lam = self._recipes.lam[records.numbers] if lam is None else lam
        return np.asarray(lam[:, None] * ways.told[codes] + (1 - lam[:, None]) * ways.blind[codes])

    def _beliefs(self, attack: str, records: Records) -> Iterator[tuple[int, Floats, np.ndarray]]:
        """Yield for each attribute the beliefs over its values, and which records they are about."""
        every = np.arange(len(records.numbers))
        if attack == "posterior":
            for place, target in self._targets.items():
                yield place, self._cell(place, records) * target.prior, every
        elif attack == "known":
            for place, target in self._targets.items():
                lam, rows = self._confirmed(place, records)
                yield place, (self._cell(place, records, lam) * target.prior)[rows], rows
        else:
            *codes, labels = records.codes
            found = self._through(codes, records.numbers, labels)
            yield from ((place, found[place], every) for place in self._targets)

    def _through(
        self, codes: Sequence[Codes], numbers: np.ndarray, labels: Codes, model: Model | None = None
    ) -> dict[int, Floats]:
        """Return by place the posterior of each record, by the joint model."""
        model = model or self._model
        assert model is not None
        shown = [*codes, numbers]
        found = dict(zip(model.places, model.marginals(shown, labels), strict=True))
        return found | {len(self._axes) - 1: model.chances(shown, labels)}

    def _confirmed(self, place: int, records: Records) -> tuple[Floats, np.ndarray]:
        """Return how likely the coin told, by another attribute that a record shows and who asks knows.

        With the records that show both; of several others the first is the one that is known.
        """
        assert records.truths is not None
        lam = self._recipes.lam[records.numbers]
        after, open_ = lam.copy(), self._recipes.attributes[place].coin[records.codes[place]]
        rows = np.zeros(len(lam), bool)
        for other, truth in enumerate(records.truths):
            ways = self._recipes.attributes[other]
            here = open_ & ~rows & ways.coin[records.codes[other]]
            if other == place or truth is None or not here.any():
                continue
            code = records.codes[other][here]
            told = lam[here] * ways.told[code, truth.codes[here]]
            after[here] = told / (told + (1 - lam[here]) * ways.noise[code])
            rows |= here
        return after, np.flatnonzero(rows)

    def __call__(self, batch: Batch) -> Seen:
        whole, seen = self._read(batch), None
        for start in range(0, max(len(whole.numbers), 1), self._rows):
            found = self._guessed(whole.part(slice(start, start + self._rows)))
            seen = found if seen is None else seen + found
        assert seen is not None
        if self._audit is not None and whole.truths is not None:
            placed = self._audit.places.placed(whole.numbers, whole.codes, whole.truths, whole.first_row)
            seen.audit = self._audit.counted(placed)
        return seen

    def _guessed(self, records: Records) -> Seen:
        seen = Seen()
        for attack in self._asked:
            if attack == "audit":
                continue
            tops = dict[int, tuple[int, float, int]]()
            for place, beliefs, rows in self._beliefs(attack, records):
                target = self._targets[place]
                key, guess = (attack, target.name), target.guessed(beliefs)
                assert guess.belief is not None and guess.near_belief is not None and guess.variance is not None
                sums = [len(rows), guess.belief.sum(), guess.near_belief.sum(), np.nansum(guess.variance)]
                seen.beliefs[key] = np.array(sums, np.float64)
                seen.largest[key] = 0.0, 1.0
                if len(rows):
                    top = int(guess.belief.argmax())
                    tops[place] = int(rows[top]), float(guess.belief[top]), int(guess.exact[top])
                if records.truths is not None and (truth := records.truths[place]) is not None:
                    own = Truth(truth.codes[rows], truth.numbers[rows])
                    seen.tallies[key] = Tally.of(target, guess, own)
            seen.largest |= self._largest(attack, records, tops)
        if records.truths is not None:
            seen.near = sum((self._near(place, records) for place in self._targets), np.zeros(3))
        return seen

    def _largest(
        self, attack: str, records: Records, tops: dict[int, tuple[int, float, int]]
    ) -> dict[tuple[str, str], tuple[float, float]]:
        """Return by attribute the largest belief, and what gamma allows for what was believed of it before."""
        found = {}
        places = list(tops)
        for start in range(0, len(places), self._rows):
            some = places[start : start + self._rows]
            priors = {p: self._targets[p].prior for p in some}
            if attack == "record":  # what was kept is known beforehand
                priors = self._before(records.part(np.array([tops[p][0] for p in some])), some)
            for place in some:
                _, belief, code = tops[place]
                bound = worst_posterior(self.gamma, float(priors[place][code]))
                found[attack, self._targets[place].name] = belief, bound
        return found

    def _before(self, records: Records, places: Sequence[int]) -> dict[int, Floats]:
        """Return what was believed of an attribute of each record before anything perturbed was published."""
        assert self._model is not None
        kept = [c.kept for c in self._axes]
        blind = unseeing(replace(self._model, coin=None), kept[:-1], kept[-1])
        *codes, labels = records.codes
        found = self._through(codes, records.numbers, labels, blind)
        return {p: found[p][row] / found[p][row].sum() for row, p in enumerate(places)}

    def _near(self, place: int, records: Records) -> Floats:
        """Return of an attribute how many cells show their value, how many would in other rows, or should."""
        assert records.truths is not None
        truth, ways = records.truths[place], self._recipes.attributes[place]
        rows = np.flatnonzero(self._recipes.ways[records.numbers, place])
        assert truth is not None
        codes, lam = records.codes[place][rows], self._recipes.lam[records.numbers[rows]]
        around = ways.told[codes] > ways.told[codes].min(axis=1, keepdims=True)
        chance = around @ self._targets[place].prior
        shown = around[np.arange(len(rows)), truth.codes[rows]]
        told = (ways.told[:-1] * (ways.told[:-1] > ways.told[:-1].min(axis=1, keepdims=True))).sum(axis=0)
        wanted = lam * np.minimum(told / len(ways.each), 1)[truth.codes[rows]] + (1 - lam) * chance
        return np.array([shown.sum(), chance.sum(), wanted.sum()])

    # -- what comes out

    def run(self) -> Attacked:
        seen = fold(self._paired, self, Seen.__add__, doing="attacking")
        assert seen is not None
        shown, chance, wanted = (float(x) for x in seen.near)
        # a record's cells agree together: as many as are shown by one coin
        together = (self._recipes.ways[:, list(self._targets)] > 0).sum(axis=1).max()
        spread, honest = max(chance, 1.0) ** 0.5, (together * wanted) ** 0.5
        if self._known and wanted - chance >= 4 * spread + 6 * honest and shown - chance <= 4 * spread:
            raise MismatchError("the release agrees with the original's rows no more than by chance", UNPAIRED)
        record = of_whole_record(self._sidecar)
        done = Attacked(sidecar=self._sidecar, measured=self._known, record=record, remarks=self._remarks)
        targets = {t.name: t for t in self._targets.values()}
        for (attack, name), sums in seen.beliefs.items():
            n, target = max(float(sums[0]), 1.0), targets[name]
            row = described(attack, target, int(sums[0]), self._known)
            if (attack, name) in seen.tallies:
                row |= seen.tallies[attack, name].figures(target)
            else:
                exact, near, variance = (float(s) / n for s in sums[1:])
                row |= expected(target, exact, near, variance if target.ordered else None)
            largest, bound = seen.largest[attack, name]
            done.rows.append(row | {"largest_posterior": largest, "bound": bound})
        if self._audit is not None and seen.audit is not None:
            done.audit, done.coins, done.unseen = self._audit.verdicts(seen.audit)
        return done

    def write_recovered(self, target: Output) -> None:
        """Write the best guesses of the strongest attack that ran, in the original's columns and types."""
        made = [a for a in ("record", "posterior") if a in self._asked]
        if not made:
            raise UsageError("none of the attacks asked for guesses values", "add --with posterior")
        schema = pa.schema([pa.field(a.name, a.kind) for a in self._sidecar.attributes])
        rows = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in map_partitions(self._paired, partial(self._recovered, made[0]), doing="guessing"):
                rows += batch.num_rows
                yield batch

        target.write(counted(), schema, evaluated(self._sidecar, self.records), lambda: rows)

    def _recovered(self, attack: str, batch: Batch) -> pa.RecordBatch:
        records, found = self._read(batch), dict[str, list[np.ndarray]]()
        for start in range(0, max(batch.rows, 1), self._rows):
            for place, beliefs, _ in self._beliefs(attack, records.part(slice(start, start + self._rows))):
                found.setdefault(self._axes[place].name, []).append(self._targets[place].guessed(beliefs).exact)
        columns = []
        for attribute in self._sidecar.attributes:
            if attribute.name in found:
                codes = np.concatenate(found[attribute.name])
                columns.append(attribute.domain.column(codes, np.full(len(codes), 0.5)))
            elif attribute.role == "kept":
                columns.append(batch.column(PUBLISHED + attribute.name))
            else:
                columns.append(pa.nulls(batch.rows, attribute.kind))
        return pa.RecordBatch.from_arrays(columns, names=[a.name for a in self._sidecar.attributes])

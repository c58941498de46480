"""The protocol of attacks, their registry and the pass over a release, for `attack` and for authors of attacks.

An attack is a class in one file, which it registers: `ppdm attack` then offers it. Each learns from the release
first; then one pass reads the release, beside its original where that is known, and asks each for its guesses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.adversary import Adversary, AttackedAttribute, Guess, Records
from ppdm_cli.attacks.pairing import PUBLISHED, Agreement, Paired
from ppdm_cli.attacks.report import Attacked, Belief, GuessFigures, evaluated, of_whole_record
from ppdm_cli.attacks.scoring import Beliefs, Measures, Tally
from ppdm_cli.engine import Batch, fold, map_partitions
from ppdm_cli.errors import UsageError, argument, listed
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.repeatable import hashed, uniform
from ppdm_cli.tables import Output

Key = tuple[str, str]
"""An attack and an attribute."""
MOST_GUESSED = 1 << 21
"""About the most records that are guessed: no interval of a share is then wider than 0.07 points a side."""


class Addable(Protocol):
    """Counts of rows, which add up over partitions, in the rows' order."""

    def __add__(self, other: Self, /) -> Self: ...


@dataclass(frozen=True, eq=False)
class SumsByAttribute:
    """Sums for each attribute, which add up over partitions."""

    sums: dict[str, np.ndarray]

    def __add__(self, other: SumsByAttribute) -> SumsByAttribute:
        return SumsByAttribute({n: s + other.sums[n] for n, s in self.sums.items()})


class Attack(Protocol):
    """An adversary. A class needs `name`, `about`, `learn` and, if it names values, `guesses`."""

    name: ClassVar[str]
    about: ClassVar[str]
    """The sentence about it in the command's help."""
    needs_original: ClassVar[bool] = False
    of_tables: ClassVar[bool] = False
    """True if it compares two tables whose rows need not pair, and so runs only if it alone is named."""
    needs_every_attribute: ClassVar[bool] = False
    """True if every record has to publish every attribute, separately from the others."""
    needs_every_record: ClassVar[bool] = False
    """True if it gets all records, however many there are, and not a few million that are drawn at random."""
    strength: int = 0
    """The rank by which the guesses of the strongest attack that ran are written; those of rank 0 never are."""
    closed: Collection[str] = ()
    """Attributes whose expected figures and beliefs depend on no pass over the records."""

    @classmethod
    def why_not(cls, adversary: Adversary) -> str | None:
        """Return why the attack does not apply to such a release; None if it does."""
        return "most cells are withheld" if cls.needs_every_attribute and not adversary.separate else None

    @classmethod
    def learn(cls, adversary: Adversary) -> Self | None:
        """Learn from the release alone; None, with a remark, if it has nothing to learn from."""
        ...

    def guesses(self, records: Records) -> Mapping[str, Guess]:
        """Return the best guesses for some records, by attribute."""
        return {}

    def before(self, records: Records, names: Sequence[str]) -> Mapping[str, Floats]:
        """Return the beliefs about attributes before anything perturbed was published: (records, values)."""
        return {}

    def gamma(self, attribute: AttackedAttribute) -> float:
        """Return the gamma that bounds its beliefs."""
        return attribute.gamma

    def expected(self, beliefs: Mapping[str, Beliefs]) -> Mapping[str, Measures]:
        """Return the expected scores of the guesses by attribute, as their adversary believes them."""
        return {n: b.measures() for n, b in beliefs.items()}

    def largest(self, beliefs: Mapping[str, Beliefs]) -> Mapping[str, Belief]:
        """Return the largest belief in a guess, the one before, and its bound, by attribute."""
        return {n: Belief(b.largest, b.before, b.bound) for n, b in beliefs.items()}

    def counted(self, records: Records) -> Addable | None:
        """Return further counts of some records."""
        return None

    def conclude(self, counted: Addable | None, done: Attacked) -> None:
        """Add the results that follow from the counts of all records."""


ATTACKS: dict[str, type[Attack]] = {}
"""All attacks, in the order in which they are shown."""


def register_attack(attack: type[Attack]) -> None:
    """Register an attack: the command offers it, and runs it unless others are named."""
    ATTACKS[attack.name] = attack


@dataclass
class AttackSums:
    """The counts of a pass so far, which add up over partitions, in the rows' order."""

    tallies: dict[Key, Tally] = field(default_factory=dict)
    beliefs: dict[Key, Beliefs] = field(default_factory=dict)
    counted: dict[str, Addable] = field(default_factory=dict)
    agreement: Agreement | None = None

    def __add__(self, other: AttackSums) -> AttackSums:
        agreement = None
        if self.agreement is not None and other.agreement is not None:
            agreement = self.agreement + other.agreement
        return AttackSums(
            {k: v + other.tallies[k] for k, v in self.tallies.items()},
            {k: v + other.beliefs[k] for k, v in self.beliefs.items()},
            {k: v + other.counted[k] for k, v in self.counted.items()},
            agreement,
        )


class AttackRun:
    """One run of some attacks; as a task, the pass in which they guess."""

    def __init__(self, adversary: Adversary, paired: Paired, asked: Sequence[str]) -> None:
        self.adversary, self._paired = adversary, paired
        out = dict[str, list[str]]()
        self.attacks = list[Attack]()
        for name in asked:
            kind = ATTACKS[name]
            if kind.needs_original and not adversary.known:
                continue
            if why := kind.why_not(adversary):
                out.setdefault(why, []).append(name)
            elif (attack := kind.learn(adversary)) is not None:
                self.attacks.append(attack)
        for why, names in out.items():
            if some := [n for n in names if n in adversary.named]:
                adversary.remarks.append(f"Not attacked, because {why}: {listed(some)}.")
        self._reader = adversary.reader()
        self._share = min(1.0, MOST_GUESSED / adversary.records)
        self._drawn_by = hashed([adversary.sidecar.release, "guessed"])
        if self._share < 1 and any(self._tries(a) and not a.needs_every_record for a in self.attacks):
            adversary.remarks.append(
                f"Guesses and repetitions are tried on about {MOST_GUESSED:,} of the "
                f"{adversary.records:,} records, drawn at random."
            )

    def __getstate__(self) -> dict[str, object]:
        return {n: v for n, v in vars(self).items() if n != "_paired"}

    def __call__(self, batch: Batch) -> AttackSums:
        records, seen = self._reader(batch), AttackSums()
        some = records
        if self._share < 1:
            some = records.part(np.flatnonzero(uniform(records.addresses, self._drawn_by) < self._share))
        for attack in self.attacks:
            own = records if attack.needs_every_record else some
            if self._tries(attack):
                self._guess(attack, own, seen)
            if (counted := attack.counted(own)) is not None:
                seen.counted[attack.name] = counted
        if records.truths is not None:
            seen.agreement = Agreement.of(self.adversary.targets.values(), records)
        return seen

    def _tries(self, attack: Attack) -> bool:
        """Return whether its figures depend on a pass over the records."""
        return self.adversary.known or not self.adversary.targets.keys() <= set(attack.closed)

    def _guess(self, attack: Attack, records: Records, seen: AttackSums) -> None:
        tops = dict[str, int]()
        for name, guess in (guesses := attack.guesses(records)).items():
            if records.truths is not None:
                target, truth = self.adversary.targets[name], records.truths[name]
                seen.tallies[attack.name, name] = Tally.of(target, guess, truth.part(guess.rows))
            if guess.belief is not None and name not in attack.closed:
                seen.beliefs[attack.name, name] = Beliefs.of(self.adversary.targets[name], guess)
                if len(guess.belief):
                    tops[name] = int(guess.belief.argmax())
        rows = np.array([t if (r := guesses[n].rows) is None else r[t] for n, t in tops.items()], np.int64)
        before = attack.before(records.part(rows), list(tops)) if tops else {}
        for row, (name, top) in enumerate(tops.items()):
            target, guess = self.adversary.targets[name], guesses[name]
            prior = float(before[name][row, guess.exact[top]])
            assert guess.belief is not None
            sums = seen.beliefs[attack.name, name]
            sums.largest, sums.before = float(guess.belief[top]), prior
            sums.bound = worst_posterior(attack.gamma(target), prior)

    def run(self) -> Attacked:
        """Pass over the release, and return the attacks' results."""
        adversary = self.adversary
        seen = fold(self._paired, self, AttackSums.__add__, doing="attacking")
        assert seen is not None
        if seen.agreement is not None:
            seen.agreement.check(adversary.sidecar)
        done = Attacked(
            sidecar=adversary.sidecar,
            measured=adversary.known,
            record=of_whole_record(adversary.sidecar),
            kept=adversary.class_figures,
            remarks=adversary.remarks,
        )
        for attack in self.attacks:
            own = {n: b for (a, n), b in seen.beliefs.items() if a == attack.name}
            if adversary.known:
                tallies = {n: t for (a, n), t in seen.tallies.items() if a == attack.name}
                figures = {n: t.figures(adversary.targets[n]) for n, t in tallies.items()}
                records = {n: t.records for n, t in tallies.items()}
            else:
                figures = dict(attack.expected(own))
                records = dict.fromkeys(figures, adversary.records)
            largest = attack.largest(own)
            for name, target in adversary.targets.items():
                if name in figures:
                    about = GuessFigures.about(attack.name, target, records[name], adversary.known)
                    done.rows.append(about.with_figures(figures[name], largest.get(name)))
            attack.conclude(seen.counted.get(attack.name), done)
        return done

    def write_recovered(self, target: Output) -> None:
        """Write the best guesses of the strongest attack that ran, in the original's columns and types."""
        self._strongest = sorted((a for a in self.attacks if a.strength), key=lambda a: a.strength)
        if not self._strongest:
            raise UsageError(
                "no-guesses",
                "none of the chosen attacks guesses values",
                f"add {argument('attacks', ['posterior'])}",
            )
        attributes, records = self.adversary.sidecar.attributes, self.adversary.records
        schema = pa.schema([pa.field(a.name, a.kind) for a in attributes])
        batches = map_partitions(self._paired, self._recovered, doing="guessing")
        target.write(batches, schema, evaluated(self.adversary.sidecar, records), lambda: records)

    def _recovered(self, batch: Batch) -> pa.RecordBatch:
        records, guesses = self._reader.published(batch), dict[str, Guess]()
        for attack in self._strongest:
            guesses |= attack.guesses(records)
        found = {}
        for name, guess in guesses.items():
            channel = self.adversary.targets[name].channel
            codes = channel.domain.split(guess.exact.astype(records.codes[name].dtype))
            for (own, domain), part in zip(channel.each(), codes, strict=True):
                found[own] = domain.column(part, np.full(len(part), 0.5))
        attributes = self.adversary.sidecar.attributes
        columns = [found[a.name] if a.name in found else batch.column(PUBLISHED + a.name) for a in attributes]
        return pa.RecordBatch.from_arrays(columns, names=[a.name for a in attributes])

"""Reports of attacks as typed records, for `ppdm attack` and programs, with their file and sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, prod
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ppdm_cli import sidecar as sidecars
from ppdm_cli.attacks.adversary import AttackedAttribute
from ppdm_cli.attacks.scoring import Measures
from ppdm_cli.display import Displayed, percent
from ppdm_cli.errors import argument, counted, listed
from ppdm_cli.privacy import PRIOR, believed_after
from ppdm_cli.releases import opened, record_figures
from ppdm_cli.sidecar import Evaluated, Past, Sidecar
from ppdm_cli.tables import Output

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Belief:
    """The largest belief in a guess, the belief in it before, and the bound that a gamma promises for it."""

    largest: float
    before: float
    bound: float


class GuessFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scores of an attack on an attribute; None for a figure that it doesn't have.

    Shares of exact guesses, of guesses at most one bin away and the root mean square error, each beside a guess
    from the estimated distribution alone (prior); low and high are the ends of 95% intervals.
    """

    attack: str
    attribute: str
    gamma: float | None
    N: int
    records: int
    measured: bool
    exact: float | None = None
    exact_low: float | None = None
    exact_high: float | None = None
    exact_prior: float | None = None
    exact_gain: float | None = None
    exact_gain_low: float | None = None
    exact_gain_high: float | None = None
    near: float | None = None
    near_low: float | None = None
    near_high: float | None = None
    near_prior: float | None = None
    near_gain: float | None = None
    near_gain_low: float | None = None
    near_gain_high: float | None = None
    rmse: float | None = None
    rmse_low: float | None = None
    rmse_high: float | None = None
    rmse_share: float | None = None
    """The RMSE as a share of the standard deviation."""
    rmse_prior: float | None = None
    rmse_gain: float | None = None
    rmse_gain_low: float | None = None
    rmse_gain_high: float | None = None
    largest_posterior: float | None = None
    largest_prior: float | None = None
    """The belief in that value before."""
    bound: float | None = None

    @classmethod
    def about(cls, attack: str, target: AttackedAttribute, records: int, measured: bool) -> Self:
        """Return the subject of the figures, without any."""
        gamma = target.matrix.amplification if target.channel.noise is None else None
        N = target.matrix.inputs
        return cls(attack=attack, attribute=target.name, gamma=gamma, N=N, records=records, measured=measured)

    def with_figures(self, measures: Measures, belief: Belief | None) -> Self:
        found = msgspec.structs.replace(self, **measures)
        if belief is None:
            return found
        return msgspec.structs.replace(
            found, largest_posterior=belief.largest, largest_prior=belief.before, bound=belief.bound
        )


class ClassFigures(msgspec.Struct, frozen=True):
    """The leak of a kept class about an attribute: shares of exact guesses, as expected."""

    attribute: str
    kept: str
    exact_prior: float
    exact_class: float
    exact_answer: float
    exact_both: float


class RepeatFigures(msgspec.Struct, frozen=True):
    """An attribute that was perturbed t times: the shares that are unchanged, as computed and as measured."""

    attribute: str
    N: int
    t: int
    gamma: float
    staying: float
    entropy: float
    entropy_max: float
    stayed: float | None
    stayed_low: float
    stayed_high: float
    entropy_seen: float | None


class OrderFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """The test whether the order of the rows reveals an attribute's values."""

    attribute: str
    blocks_p: float
    published_tells: bool
    neighbours_tell: bool | None = None
    """True if neighbouring rows of the original are alike."""


class FoundFigures(msgspec.Struct, frozen=True):
    """The shares of people whose rows are found: as the first, or among the first ten, with 95% intervals.

    Beside each is the chance of a blind guess among the rows whose known kept columns fit, and the bound.
    """

    who: str
    people: int
    first: float
    first_low: float
    first_high: float
    first_chance: float
    first_bound: float
    ten: float
    ten_low: float
    ten_high: float
    ten_chance: float
    ten_bound: float


class ReadFigures(msgspec.Struct, frozen=True):
    """The share of right guesses of an unknown attribute by someone who looks for a person's row."""

    attribute: str
    exact: float
    exact_low: float
    exact_high: float
    exact_prior: float
    """The share that has the most common value."""


class LinkReport(msgspec.Struct, frozen=True):
    """The results of the search for people's rows."""

    knows: list[str]
    records: int
    found: list[FoundFigures]
    """Everyone first, then people by how unusual they are."""
    learnt: list[ReadFigures]

    def sentence(self, measured: bool = False) -> str:
        """Return how often a person's row is found, in words."""
        everyone, unusual = self.found[0], self.found[-1]
        ranks = "ranks" if measured else "can be expected to rank"
        bound = everyone.first_bound
        limit = f", and no attack is in more than {percent(bound)} on average" if bound < 1 else ""
        return (
            f"Someone who knows {listed(self.knows)} of a person {ranks} the person's row first in "
            f"{percent(everyone.first)} of the cases, and among the first ten in {percent(everyone.ten)}. For "
            f"the most unusual tenth of people it is {percent(unusual.first)} and {percent(unusual.ten)}. A "
            f"blind guess is right in {percent(everyone.first_chance)}{limit}."
        )


class RiskFigures(msgspec.Struct, frozen=True):
    """The success of a risk, next to guesses without a look at the person, with 95% intervals."""

    risk: str
    tried: int
    share: float
    low: float
    high: float
    guess: float
    guess_low: float
    guess_high: float
    excess: float
    """The share beyond guessing, of those that guessing gets wrong."""


class LawVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The audit of an attribute's own law: p-values, and the gamma that its values prove."""

    attribute: str
    records: int
    transitions_p: float
    p: float
    honest: bool
    codes_p: float | None = None
    stayed_p: float | None = None
    declared_sd: float | None = None
    declared_gamma: float | None = None
    gamma: float | None = None
    gamma_low: float | None = None
    gamma_high: float | None = None
    gamma_unseen: float | None = None
    """The least gamma that so many records would reveal."""
    stayed: float | None = None
    stayed_declared: float | None = None


class CoinVerdict(msgspec.Struct, frozen=True):
    """The audit of one family of tests: whether the random numbers depend on anything."""

    test: str
    tests: int
    where: str
    p: float
    honest: bool


class Unseen(msgspec.Struct, frozen=True):
    """The largest deviations that so many records would not reveal."""

    records: int
    power: float
    unperturbed: float
    gamma_factor: float
    pairs: int
    all_pairs: int
    """The number of pairs of original values, of which `pairs` were tested."""


@dataclass(repr=False, kw_only=True)
class Attacked(Displayed):
    """The result of `attack`."""

    sidecar: Sidecar
    measured: bool
    """True if the figures were measured against the original; otherwise they are expected values."""
    record: dict[str, Any]
    """The product bound over a record."""
    rows: list[GuessFigures] = field(default_factory=list)
    """One row for each attack and attribute."""
    kept: list[ClassFigures] = field(default_factory=list)
    audit: list[LawVerdict] = field(default_factory=list)
    """One row for each attribute: its transitions compared with its matrix."""
    coins: list[CoinVerdict] = field(default_factory=list)
    """One row for each family of tests: whether the random numbers depend on anything."""
    unseen: Unseen | None = None
    repeat: list[RepeatFigures] = field(default_factory=list)
    order: list[OrderFigures] = field(default_factory=list)
    link: LinkReport | None = None
    """The results of the search for people's rows, if that was requested."""
    risks: list[RiskFigures] = field(default_factory=list)
    """Anonymeter's three risks, if they were asked for."""
    remarks: list[str] = field(default_factory=list)
    recovered: pl.DataFrame | None = None
    """The best guesses as a polars DataFrame, if they were requested without a file."""

    @property
    def honest(self) -> bool | None:
        """Return whether the audit found nothing; None without one."""
        return all(r.honest for r in self.audit) and all(r.honest for r in self.coins) if self.audit else None

    @property
    def sentences(self) -> list[str]:
        """Return the audit's verdict, then what the order reveals, and last the largest leak."""
        found = audited(self) if self.audit else []
        order = [r.attribute for r in self.order if r.published_tells or r.neighbours_tell]
        if order:
            found.append(f"The order of the rows reveals values of {', '.join(order)}: shuffle it.")
        found += [] if self.link is None else [self.link.sentence(self.measured)]
        if self.risks:
            beyond = [r for r in self.risks if r.excess > 0]
            worst = max(beyond, key=lambda r: r.low - r.guess_high, default=None)
            largest = "No risk exceeds guessing."
            if worst is not None:
                share, guess = percent(worst.share), percent(worst.guess)
                largest = f"The largest risk beyond guessing is {worst.risk}: {share} of the tries succeed, "
                largest += f"and {guess} of the guesses."
            fails = (
                "Tries succeed less often than guesses where they end at values that are withheld or replaced."
            )
            return [
                largest,
                *[fails] * any(r.high < r.guess for r in self.risks),
                "Facts about people in general count here too. Measure people who are not in the release "
                f"as well, with {argument('truth', 'OTHERS')}: only the difference is about a person.",
            ]
        return [*found, *[biggest_leak(self)] * bool(self.rows or self.link is None)]

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        return pl.DataFrame(msgspec.to_builtins(self.rows), infer_schema_length=None)

    def _words(self) -> list[str]:
        return ["measured" if self.measured else "expected", counted(len(self.rows), "row"), *self.sentences]

    def _body(self) -> object:
        return self.frame if self.rows else self.sentences


def of_whole_record(sidecar: Sidecar) -> dict[str, Any]:
    """Return the promise over a record, as if its random numbers were secret."""
    worst, times = max(opened(sidecar).recipes, key=lambda d: d.epsilon), sidecar.times
    gamma = prod([c.matrix.amplification for c in worst.channels] * times)
    bound = believed_after(times * worst.epsilon, PRIOR)
    whole = {"gamma": gamma if gamma < inf else "inf", "bound": bound}
    return msgspec.to_builtins(record_figures(sidecar)) | whole


def evaluated(sidecar: Sidecar, rows: int) -> Sidecar:
    """Return a sidecar at stage "evaluated" with the same attributes."""
    matrices = [c.matrix for c in opened(sidecar).channels]
    return sidecars.new(
        "evaluated",
        sidecar.release,
        rows,
        sidecar.perturbed,
        recipes=sidecar.recipes,
        evaluated=Evaluated(
            sorted({m.amplification for m in matrices} - {inf}), sorted({m.inputs for m in matrices})
        ),
        history=[Past.of(sidecar)],
    )


def fill_attacked(done: Attacked, output: Output) -> None:
    """Write the rows of all guessing attacks."""
    output.fill_frame(done.frame, evaluated(done.sidecar, len(done.rows)))


_DEPEND = {
    "record": "records keep more or fewer values than the declared random choices keep",
    "pairs": "{where} depend on each other within a record",
    "values": "the random numbers depend on {where}",
    "others": "the random numbers depend on {where} together",
    "place": "the random numbers depend on the place in the file",
    "rows": "{where} depends on other rows, or on the row's number",
    "recipes": "the recipe depends on {where}",
}


def audited(done: Attacked) -> list[str]:
    """Return the audit's verdict, what it tested, and the deviations that it could not have detected."""
    lies = [r.attribute for r in done.audit if not r.honest]
    found = [f"{', '.join(lies)} did not go through the matrix that the sidecar declares"] if lies else []
    found += [_DEPEND[r.test].format(where=r.where) for r in done.coins if not r.honest]
    if found:
        return [f"The audit rejects the release: {'; '.join(found)}."]
    unseen, visible = done.unseen, list[str]()
    assert unseen is not None
    if unseen.unperturbed < 1:
        visible.append(f"{percent(unseen.unperturbed)} unperturbed records")
    if unseen.gamma_factor < inf:
        visible.append(f"gammas {unseen.gamma_factor:.4g} times too large")
    limit = f"With {unseen.records:,} record{'s' * (unseen.records != 1)}, the audit "
    if visible:
        limit += f"detects (95% of the time) {', or '.join(visible)}"
    else:
        limit += "cannot detect even a release that is not perturbed at all"
    drawn = (
        "the random numbers or the recipes"
        if any(r.test == "recipes" for r in done.coins)
        else "the random numbers"
    )
    few = unseen.pairs < unseen.all_pairs
    two = f"one, or on {unseen.pairs:,} of the {unseen.all_pairs:,} pairs," if few else "one or two"
    return [
        "The audit finds nothing against the release. It tested the law of each attribute. It also tested "
        f"whether {drawn} depend on each other, on {two} of a record's original values (withheld and kept ones "
        "too), on the place in the file, or on another row.",
        f"{limit}. It detects smaller deviations less often. It cannot detect random numbers that depend on "
        "three values at once, or that someone else can compute from a seed.",
    ]


def biggest_leak(done: Attacked) -> str:
    """Return a sentence about the largest leak, and the attack that found it."""
    least = [(r, r.exact_gain if r.exact_gain_low is None else r.exact_gain_low) for r in done.rows]
    gained = [r for r, gain in least if gain is not None and gain > 1e-9]
    how = "learned" if done.measured else "can be expected to learn"
    if not gained:
        if not done.rows:
            return "None of these attacks guesses single values."
        return f"These attacks {how} nothing about single values beyond the prior."
    best = max(gained, key=lambda r: r.exact_gain or 0.0)
    verb = "guesses" if done.measured else "can be expected to guess"
    return (
        f"Biggest leak: {best.attribute}. The attack {best.attack} {verb} its value right for "
        f"{percent(best.exact or 0.0)} of the records. A guess from the estimated distribution alone is "
        f"right for {percent(best.exact_prior or 0.0)}."
    )

"""Turn the figures of attacks into rows, a file with its sidecar, and sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, prod
from typing import TYPE_CHECKING, Any

import msgspec

from ppdm_cli import sidecar as sidecars
from ppdm_cli.attacks.attacked_attribute import Target
from ppdm_cli.display import Displayed, percent
from ppdm_cli.errors import counted
from ppdm_cli.inspection import PRIOR, of_record
from ppdm_cli.privacy import believed_after
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Evaluated, Past, Sidecar
from ppdm_cli.tables import Output

if TYPE_CHECKING:
    import polars as pl


@dataclass(repr=False, kw_only=True)
class Attacked(Displayed):
    """What `attack` gives."""

    sidecar: Sidecar
    measured: bool
    """Whether the figures were measured against the original; otherwise they are expected values."""
    record: dict[str, Any]
    """The product bound over a record."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One row for each attack and attribute."""
    kept: list[dict[str, Any]] = field(default_factory=list)
    audit: list[dict[str, Any]] = field(default_factory=list)
    """One row for each attribute: its transitions compared with its matrix."""
    coins: list[dict[str, Any]] = field(default_factory=list)
    """One row for each family of tests: whether the coins depend on anything."""
    unseen: dict[str, Any] = field(default_factory=dict)
    """The largest deviations that so many records would not reveal."""
    repeat: list[dict[str, Any]] = field(default_factory=list)
    order: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    recovered: pl.DataFrame | None = None
    """The best guesses as a polars DataFrame, if they were requested without a file."""

    @property
    def honest(self) -> bool | None:
        """Return whether the audit found nothing; None without one."""
        return all(r["honest"] for r in (*self.audit, *self.coins)) if self.audit else None

    @property
    def sentences(self) -> list[str]:
        """Return what was learnt beyond the prior, and from which attack, in plain words."""
        return sentences(self)

    @property
    def frame(self) -> pl.DataFrame:
        """Return a polars DataFrame, as `-o` writes it."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def _words(self) -> list[str]:
        return ["measured" if self.measured else "expected", counted(len(self.rows), "row"), *self.sentences]

    def _body(self) -> Any:
        return self.frame if self.rows else self.sentences


def described(attack: str, target: Target, records: int, measured: bool) -> dict[str, Any]:
    """Return the cells that say what a row is about."""
    return {
        "attack": attack,
        "attribute": target.name,
        "gamma": target.matrix.amplification if target.channel.noise is None else None,
        "N": target.matrix.inputs,
        "records": records,
        "measured": measured,
    }


def of_whole_record(sidecar: Sidecar) -> dict[str, Any]:
    """Return the promise over a record, with the gamma and bound of its matrices, whatever the coins were."""
    worst, times = max(opened(sidecar).recipes, key=lambda d: d.epsilon), sidecar.times
    gamma = prod([c.matrix.amplification for c in worst.channels] * times)
    bound = believed_after(times * worst.epsilon, PRIOR)
    return msgspec.to_builtins(of_record(sidecar)) | {"gamma": gamma if gamma < inf else "inf", "bound": bound}


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


def fill(done: Attacked, output: Output) -> None:
    """Write the rows of all guessing attacks."""
    output.fill_frame(done.frame, evaluated(done.sidecar, len(done.rows)))


def sentences(done: Attacked) -> list[str]:
    """Return the audit's verdict, what the order reveals, and last what was learnt beyond the prior."""
    found = audited(done) if done.audit else []
    order = [r["attribute"] for r in done.order if r["published_tells"] or r.get("neighbours_tell")]
    if order:
        found.append(f"The order of the rows reveals values of {', '.join(order)}: use perturb --shuffle.")
    return [*found, learnt(done)]


_DEPEND = {
    "record": "more or less of the records was kept than the declared coins keep",
    "pairs": "{where} depend on each other within a record",
    "values": "the coins depend on {where}",
    "others": "the coins depend on {where} together",
    "place": "the coins depend on the place in the file",
    "rows": "{where} depends on other rows, or on the row's number",
    "recipes": "the recipe depends on {where}",
}


def audited(done: Attacked) -> list[str]:
    """Return the audit's verdict, what it tested, and what it could not have detected."""
    lies = [r["attribute"] for r in done.audit if not r["honest"]]
    found = [f"{', '.join(lies)} did not go through the matrix that the sidecar declares"] if lies else []
    found += [_DEPEND[r["test"]].format(where=r["where"]) for r in done.coins if not r["honest"]]
    if found:
        return [f"The audit rejects the release: {'; '.join(found)}."]
    unseen, visible = done.unseen, []
    if unseen["unperturbed"] < 1:
        visible.append(f"{percent(unseen['unperturbed'])} unperturbed records")
    if unseen["gamma_factor"] < inf:
        visible.append(f"gammas {unseen['gamma_factor']:.4g} times too large")
    limit = f"With {unseen['records']:,} record{'s' * (unseen['records'] != 1)}, the audit "
    if visible:
        limit += f"detects (95% of the time) {', or '.join(visible)}"
    else:
        limit += "cannot detect even a release that is not perturbed at all"
    drawn = "the coins or the recipes" if opened(done.sidecar).withholding else "the coins"
    few = unseen["pairs"] < unseen["all_pairs"]
    two = f"one, or on {unseen['pairs']:,} of the {unseen['all_pairs']:,} pairs," if few else "one or two"
    return [
        "The audit finds nothing against the release. It tested the law of each attribute. It also tested "
        f"whether {drawn} depend on each other, on {two} of a record's original values (withheld and kept ones "
        "too), on the place in the file, or on another row.",
        f"{limit}. It detects smaller deviations less often. It cannot detect coins that depend on three "
        "values at once, or that someone else can compute, such as from a seed.",
    ]


def learnt(done: Attacked) -> str:
    """Return a sentence that says what was learnt beyond the prior, and from which attack."""
    certain = (r for r in done.rows if r.get("exact_gain") is not None)
    gained = [r for r in certain if r.get("exact_gain_low", r["exact_gain"]) > 1e-9]
    how = "learnt" if done.measured else "can be expected to learn"
    if not gained:
        if not done.rows:
            return "None of these attacks guesses single values."
        return f"These attacks {how} nothing about single values beyond the prior."
    best = max(gained, key=lambda r: r["exact_gain"])
    verb = "names" if done.measured else "can be expected to name"
    return (
        f"Most is learnt about {best['attribute']}, by the attack {best['attack']}: it {verb} the value of "
        f"{percent(best['exact'])} of the records exactly, where the estimated distribution alone names "
        f"{percent(best['exact_prior'])}."
    )

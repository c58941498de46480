"""The figures of attacks as rows, as a file with its sidecar, and as sentences."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from ppdm_cli import sidecar as sidecars
from ppdm_cli.attacks.targets import Target
from ppdm_cli.promise import percent
from ppdm_cli.sidecar import Evaluated, Past, Sidecar
from ppdm_cli.tables import Output

if TYPE_CHECKING:
    from ppdm_cli.attacks import Attacked


def described(attack: str, target: Target, records: int, measured: bool) -> dict[str, Any]:
    """What a row speaks of."""
    return {
        "attack": attack,
        "attribute": target.name,
        "gamma": target.matrix.amplification if target.noise is None else None,
        "N": target.matrix.inputs,
        "records": records,
        "measured": measured,
    }


def evaluated(promise: Sidecar, rows: int) -> Sidecar:
    """A sidecar at stage "evaluated", of the same attributes."""
    matrices = [a.built_matrix for a in promise.perturbed]
    return Sidecar(
        format="ppdm-sidecar",
        version=1,
        tool=sidecars.tool(),
        stage="evaluated",
        release=promise.release,
        records=rows,
        attributes=promise.perturbed,
        evaluated=Evaluated(
            sorted({m.amplification for m in matrices} - {inf}), sorted({m.inputs for m in matrices})
        ),
        history=[Past.of(promise)],
    )


def fill(done: Attacked, output: Output) -> None:
    """Write the rows of all guessing attacks."""
    output.fill_frame(done.frame, evaluated(done.sidecar, len(done.rows)))


def sentences(done: Attacked) -> list[str]:
    """The audit's verdict, what the order tells, and last what was learnt beyond the prior."""
    said = []
    lies = [r["attribute"] for r in done.audit if not r["honest"]]
    if lies:
        said.append(
            f"The audit rejects the release: {', '.join(lies)} did not go through the matrix that the sidecar "
            "declares."
        )
    elif done.audit:
        said.append("The audit finds nothing wrong: the release is what its sidecar declares.")
    order = [r["attribute"] for r in done.order if r["published_tells"] or r.get("neighbours_tell")]
    if order:
        said.append(f"The order of the rows tells values of {', '.join(order)}: publish with --shuffle.")
    return [*said, learnt(done)]


def learnt(done: Attacked) -> str:
    """One sentence: what was learnt beyond the prior, and from which attack."""
    gained = [r for r in done.rows if r.get("exact_gain") is not None and _certain(r)]
    how = "was" if done.measured else "is to be expected"
    if not gained:
        return (
            f"Nothing beyond the prior {how} to be learnt of single values by these attacks."
            if (done.rows)
            else "None of these attacks guesses single values."
        )
    best = max(gained, key=lambda r: r["exact_gain"])
    verb = "names" if done.measured else "can be expected to name"
    return (
        f"Most is learnt of {best['attribute']}, by the attack {best['attack']}: it {verb} the value of "
        f"{percent(best['exact'])} of the records exactly, where the estimated distribution alone names "
        f"{percent(best['exact_prior'])}."
    )


def _certain(row: dict[str, Any]) -> bool:
    return bool(row.get("exact_gain_low", row["exact_gain"]) > 1e-9)

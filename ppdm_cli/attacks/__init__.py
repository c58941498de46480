"""What an adversary gets back from a release, who knows the method and has plenty of time.

Every attack is set against what its adversary could have guessed from the estimated distribution alone.
A few passes over the release, beside the original where there is one; covariances and counts, not
records, are in memory (a joint model has a sample of its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from ppdm_cli.attacks.audit import OF_RECIPES, TESTED
from ppdm_cli.attacks.pairing import Paired
from ppdm_cli.attacks.report import Attacked, fill, sentences
from ppdm_cli.attacks.run import ATTACKS, Passes
from ppdm_cli.attacks.withheld import Withheld
from ppdm_cli.errors import UsageError, unknown
from ppdm_cli.files import one_run
from ppdm_cli.releases import open_original, open_releases, opened, spooled
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import OPENING, CsvOptions, Groups, Output, is_stream

__all__ = ["EVERY", "OF_RECIPES", "TESTED", "Attacked", "attack", "fill", "sentences"]

EVERY = (*ATTACKS[: ATTACKS.index("repeat")], "known", *ATTACKS[ATTACKS.index("repeat") :])
"""All attacks; `known` is for releases with several recipes."""


@one_run()
def attack(
    data: Any,
    *,
    truth: Any = None,
    attacks: Sequence[str] = (),
    sidecar: Sidecar | str | Path | None = None,
    recovered: str | Path | bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    mappings: Sequence[Groups] = (),
    from_: Literal["arrow", "csv"] | None = None,
) -> Attacked:
    """Attack a release: a path, "-", or a table that speaks Arrow with its sidecar.

    `truth` is the original, to measure; without it the gains are those to expect. `attacks` names some of
    `EVERY`, all that apply without. `recovered` names a file for the adversary's best guesses, or is True
    for a frame of them.
    """
    for name in attacks:
        if name not in EVERY:
            raise unknown("attack", name, EVERY)
    if "audit" in attacks and truth is None:
        raise UsageError("the audit compares the release with the original", "give it with --truth ORIGINAL")
    if truth is not None and is_stream(truth):
        raise UsageError(
            "the original is read more than once, and private data is never spooled", "give it as a file"
        )
    if OPENING.get() is not None:
        raise UsageError("attack does not run on Spark", "call it outside of running(engine=...)")
    with ExitStack() as stack:
        table, sidecar = open_releases(data, sidecar, from_, withholding=True)
        if not sidecar.perturbed:
            raise UsageError(
                "the release has no perturbed attribute: there is nothing to attack", "perturb one"
            )
        original = None if truth is None else open_original(truth, sidecar.attributes, csv, mappings)
        target = None
        if recovered is not False:
            target = Output(stack, None if recovered is True else recovered, force=force)
        table = spooled(table, stack)
        asked = tuple(n for n in EVERY if n in attacks or not attacks)
        passes: Passes | Withheld
        if opened(sidecar).withholding:
            passes = Withheld(table, original, sidecar, asked, attacks)
        else:
            asked = tuple(n for n in ATTACKS if n in asked)
            passes = Passes(table, Paired(table, original, sidecar), sidecar, asked, original is not None)
        done = passes.run()
        if target is not None:
            passes.write_recovered(target)
            done.recovered = target.frame
    return done

"""Attacks on a release: what someone who knows the method could recover.

Every attack is compared with what its adversary could have guessed from the estimated distribution alone. A few
passes over the release, beside the original where there is one; covariances and counts, not records, are in
memory (a joint model has a sample of its own).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from ppdm_cli.arrays import of_small_products
from ppdm_cli.attacks.adversary import Adversary, AttackedAttribute, Guess, Records
from ppdm_cli.attacks.audit import TESTED, Audit
from ppdm_cli.attacks.linear import BayesLinear, Pca, Spectral
from ppdm_cli.attacks.link import Link
from ppdm_cli.attacks.pairing import Paired, check_order
from ppdm_cli.attacks.posterior import KnownAttribute, Posterior
from ppdm_cli.attacks.repeat import Repeat
from ppdm_cli.attacks.report import (
    Attacked,
    Belief,
    ClassFigures,
    CoinVerdict,
    FoundFigures,
    GuessFigures,
    LawVerdict,
    LinkReport,
    OrderFigures,
    ReadFigures,
    RepeatFigures,
    RiskFigures,
    Unseen,
    fill_attacked,
    of_whole_record,
)
from ppdm_cli.attacks.risks import Risks, measured_risks
from ppdm_cli.attacks.row_order import Order
from ppdm_cli.attacks.run import ATTACKS, Attack, AttackRun, register_attack
from ppdm_cli.attacks.scoring import Beliefs, Measures, expected
from ppdm_cli.attacks.whole_record import Record
from ppdm_cli.display import names
from ppdm_cli.errors import UsageError, argument, unknown, unknown_column
from ppdm_cli.files import one_run
from ppdm_cli.releases import open_data, open_original, open_releases, spooled
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import OPENING, CsvOptions, Groups, Output, TableLike, is_stream

__all__ = [
    "ATTACKS", "TESTED", "Adversary", "Attack", "Attacked", "AttackedAttribute", "Belief", "Beliefs",
    "ClassFigures", "CoinVerdict", "FoundFigures", "Guess", "GuessFigures", "LawVerdict", "LinkReport",
    "Measures", "OrderFigures", "ReadFigures", "Records", "RepeatFigures", "RiskFigures", "Unseen", "attack",
    "expected", "fill_attacked", "register_attack",
]  # fmt: skip

for _attack in (
    Spectral,
    Pca,
    BayesLinear,
    Posterior,
    Record,
    KnownAttribute,
    Link,
    Risks,
    Repeat,
    Order,
    Audit,
):
    register_attack(_attack)


@one_run()
@of_small_products
def attack(
    data: TableLike,
    *,
    truth: TableLike | None = None,
    attacks: str | Sequence[str] = (),
    knows: str | Sequence[str] = (),
    sidecar: Sidecar | str | Path | None = None,
    recovered: str | Path | bool = False,
    force: bool = False,
    csv: CsvOptions | None = None,
    mappings: Sequence[Groups] = (),
    rows_taken: str | Path | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Attacked:
    """Find out what someone who has a release and knows the method can say about single records.

    Parameters
    ----------
    data : path, table or list of paths
        The release, several releases made with the same plan, or copies of one release.
    truth : path, table or None, default None
        The original, to measure what each attack gets right; otherwise the figures are those to expect.
    attacks : sequence of str, default all that apply
        The names of attacks, of `ATTACKS`.
    knows : sequence of str, default all
        The attributes of a person that the attack link knows.
    sidecar : Sidecar, path or None, default None
        The sidecar of a table in memory, or of a file without its own beside it.
    recovered : path or bool, default False
        The file for the best guesses; True returns them as a frame.
    force : bool, default False
        True to replace an existing file.
    csv : CsvOptions or None, default None
        The options for reading a CSV file of the original.
    mappings : sequence of Groups, default ()
        The files by which text was grouped before it was perturbed, for the original.
    rows_taken : path or None, default None
        The file of rows of the original that the release has, as `perturb` wrote it.
    from_ : {"arrow", "csv"} or None, default None
        The format of a release on standard input.
    """
    attacks, knows = names("attacks", attacks), names("knows", knows)
    for name in attacks:
        if name not in ATTACKS:
            raise unknown("attack", name, tuple(ATTACKS))
    for name in attacks if truth is None else ():
        if ATTACKS[name].needs_original:
            raise UsageError(
                "attack-needs-original",
                f"the attack {name} needs the original",
                f"add {argument('truth', 'ORIGINAL')}",
            )
    if knows and attacks and Link.name not in attacks:
        raise UsageError(
            "knows-without-link",
            f"{argument('knows')} is for the attack link, which is not asked for",
            f"add {argument('attacks', [Link.name])}",
        )
    if truth is not None and is_stream(truth):
        raise UsageError(
            "original-from-stream",
            "the original is read more than once, and private data is never stored on the way",
            "give it as a file",
        )
    if OPENING.get() is not None:
        raise UsageError(
            "attack-on-spark", "attack does not run on Spark", "call it outside of running(engine=...)"
        )
    if any(ATTACKS[n].of_tables for n in attacks):
        if len(attacks) > 1:
            raise UsageError(
                "risks-beside-attacks", "risks runs alone", f"leave out the other {argument('attacks')}"
            )
        if recovered is not False:
            raise UsageError("no-guesses", "risks guesses no values", f"leave out {argument('recovered')}")
        return _risks(data, truth, sidecar, csv, mappings, from_)
    with ExitStack() as stack:
        table, sidecar = open_releases(data, sidecar, from_)
        if not sidecar.perturbed:
            raise UsageError(
                "nothing-to-attack",
                "the release has no perturbed attribute: there is nothing to attack",
                "perturb one",
            )
        for name in knows:
            if name not in sidecar.by_name:
                raise unknown_column(name, sidecar.by_name, "knows")
        if truth is not None:
            check_order(sidecar, rows_taken)
        original = open_original(truth, sidecar.attributes, csv, mappings, rows_taken, sidecar)
        target = None
        if recovered is not False:
            target = Output(stack, None if recovered is True else recovered, force=force)
        table = spooled(table, stack)
        asked = tuple(n for n, a in ATTACKS.items() if n in attacks or not (attacks or a.of_tables))
        adversary = Adversary(table, sidecar, asked, attacks, original is not None, knows)
        run = AttackRun(adversary, Paired(table, original, sidecar), asked)
        done = run.run()
        if target is not None:
            run.write_recovered(target)
            done.recovered = target.frame
    return done


def _risks(
    data: TableLike,
    truth: TableLike | None,
    sidecar: Sidecar | str | Path | None,
    csv: CsvOptions | None,
    mappings: Sequence[Groups],
    from_: Literal["arrow", "csv"] | None,
) -> Attacked:
    """Measure the risks of a release, or of a reconstruction, whose rows need not be the original's."""
    table, found = open_data(data, sidecar, from_=from_)
    if found is None:
        raise UsageError(
            "no-release", "risks are those of a release or a reconstruction", "name one with its sidecar"
        )
    original = open_original(truth, found.attributes, csv, mappings)
    assert original is not None
    names = [a.name for a in found.attributes]
    risks = measured_risks(table, original, names, found.release)
    return Attacked(sidecar=found, measured=True, record=of_whole_record(found), risks=risks)

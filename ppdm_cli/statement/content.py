"""The sections of a statement, from its material. Plain words come first, figures in tables."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

from msgspec import UNSET

from ppdm_cli.channels import KINDS
from ppdm_cli.display import at_most, percent, up
from ppdm_cli.errors import counted, some
from ppdm_cli.inspection import alone, limits
from ppdm_cli.ledger import told
from ppdm_cli.releases import opened
from ppdm_cli.statement.material import Material
from ppdm_cli.statement.sections import Belief, Items, Part, Section, Table

MOST_ROWS = 1000
"""The most rows of a table; the sidecar has all attributes."""
_UNTOLD = "not stated"
_COINS = {
    "system": "The coins came from the operating system for this release alone; their key was never written "
    "down.",
    "key-file": "The coins follow from a secret key in a file and from each record's identifier. Whoever has "
    "the key can undo the perturbation.",
    "seeded": "The coins came from a seed. Seeds can be guessed: nothing is promised.",
    "unknown": "Another tool drew the coins, and nothing is known of them: nothing is promised.",
}


def sections(m: Material) -> list[Section]:
    """Return the whole statement."""
    return [
        Section("In plain words", _plain(m)),
        Section("Who publishes what, and why", _who(m)),
        Section("Privacy loss (epsilon)", _loss(m)),
        Section("Unit of privacy", unit(m)),
        Section("Algorithm and utility", [*mechanism(m), *_utility(m)]),
        Section("Trust, keys and side channels", _trust(m)),
        Section("What attacks can be expected to achieve", _attacks(m)),
        Section("Exposure of the collected data", [m.about.exposure or f"{_UNTOLD.capitalize()}."]),
        Section("Residual risks and review", _risks(m)),
        Section("Files, version and tests", _files(m)),
    ]


def _plain(m: Material) -> list[Part]:
    perturbed = counted(len(m.sidecar.altered or m.sidecar.perturbed), "attribute")
    parts: list[Part] = [
        f"This release has {_records(m)}. Of each record, the values of {perturbed} were replaced at random, "
        "record by record, with probabilities that are published with the data. No published value says for "
        "certain what the original was, yet counts and distributions can be corrected for the replacement."
    ]
    if m.epsilon is None:
        return [*parts, "Nothing is promised of this release. " + " ".join(m.sentences[:2])]
    said = " ".join(limits(m.sidecar, m.record["worst_posterior"], m.prior))
    open_ones = ["columns published unchanged"] * bool(m.privacy.kept)
    open_ones += ["domains taken from the data"] * any(a.domain_from == "data" for a in m.sidecar.perturbed)
    known = f", including from {' and '.join(open_ones)}" if open_ones else ""
    if "at most" in said:
        said += f" This holds whatever the reader knew before{known}."
    parts += [said, Belief(_bars(m))]
    return [*parts, "What this does not cover is listed under residual risks."]


def _bars(m: Material) -> list[tuple[str, float]]:
    """Return what the belief becomes after one attribute, where that is less, and after all of them."""
    one = alone(m.sidecar, m.prior)
    bars = [("before the release", m.prior), *([] if one is None else [("after one attribute alone", one)])]
    of_all = "all records of a person" if m.privacy.unit == "person" else "a whole record"
    return [*bars, (f"after {of_all}", m.record["worst_posterior"])]


def _records(m: Material) -> str:
    number = m.sidecar.records
    return "an unknown number of records" if number is None else counted(number, "record")


def _who(m: Material) -> list[Part]:
    a = m.about
    rows = [
        ["name of the data", a.name],
        ["curator", "; ".join(a.curators)],
        ["purpose", a.purpose],
        ["region", a.region],
        ["sector", a.sector or ""],
        ["description", a.description],
        ["whose data", a.population],
        ["published on", _date(a.published)],
        ["further releases", {"one": "none is planned", "many": "there will be more", None: ""}[a.releases]],
        ["", a.later],
        ["sources", a.sources],
        ["notes", a.notes],
        ["this statement by", "; ".join(a.authors)],
        ["this statement of", m.today],
    ]
    optional = ("", "sector", "sources", "notes")
    return [Table(["", ""], [[k, v or _UNTOLD] for k, v in rows if v or k not in optional], words=2)]


def _date(date: Any) -> str:
    return "" if date is None else str(date.isoformat())


def _loss(m: Material) -> list[Part]:
    parts: list[Part] = list(_promise(m))
    if m.attributes:
        columns = ["attribute", "values", "gamma", "epsilon", "stays"]
        rows = [
            [r["attribute"], f"{r['N']}", _number(r["gamma"]), _number(r["epsilon"]),
             "-" if r.get("staying") is None else percent(r["staying"])]
            for r in m.attributes
        ]  # fmt: skip
        rows.insert(0, ["all together", "", *_together(m), ""])
        parts.append(_cut(columns, rows))
        parts.append("Stays: the chance that a published value is the original one. Epsilon is ln gamma.")
    parts.append(composition(m))
    if m.account is not None:
        rows = [
            [e.entered, e.release, e.unit, "none" if e.epsilon is None else told(e.epsilon)]
            for e in m.account.entries
        ]
        parts += [
            Items(m.account.sentences),
            _cut(["entered", "release", "unit", "epsilon"], rows, words=3),
        ]
    return parts


def _promise(m: Material) -> list[str]:
    """Return what the sidecar says in words, but what is said elsewhere."""
    aside = ("Published unchanged", "Domains taken from")
    return [s for s in m.sentences if not s.startswith(aside)]


def _together(m: Material) -> list[str]:
    if m.epsilon is None:
        return ["none", "none"]
    return [_number(m.privacy.perturbed_gamma), _number(m.epsilon)]


def _number(value: Any) -> str:
    return f"{up(float(value)):.4g}" if isfinite(float(value)) else "unbounded"


def composition(m: Material) -> str:
    """Say how the epsilons add up within the release."""
    times = [] if m.sidecar.copy is UNSET else [f"{m.sidecar.copy.of} copies"]
    times += [] if m.privacy.rows is UNSET else [f"{counted(m.privacy.rows, 'row')} of a person"]
    also = f", and count for each of {' and '.join(times)}" if times else ""
    if not opened(m.sidecar).withholding:
        return f"The epsilons of the attributes add up (sequential composition){also}."
    rounds = m.record["rounds"]
    how = " What later rounds publish was chosen by what earlier ones had published." if rounds > 1 else ""
    return (
        f"Each record went through one of {m.record['recipes']} recipes, dealt by a coin that sees no "
        f"value.{how} The epsilon is the largest that any recipe has for its attributes at "
        f"once{also.replace('count', 'counts')}."
    )


def _cut(columns: list[str], rows: list[list[str]], words: int = 1) -> Table:
    return Table(columns, rows[:MOST_ROWS], words, max(0, len(rows) - MOST_ROWS))


def unit(m: Material) -> list[Part]:
    """Say what is protected, and from which difference."""
    if m.privacy.unit == "person":
        rows = counted(m.privacy.rows or 1, "row")
        first = f"The promise is for a person. At most {rows} of each person are published, chosen by a coin."
        differ = "all published rows of one person"
    else:
        first = (
            "The promise is for one record. Of a person with several records it is their product: the epsilons "
            "add up."
        )
        differ = "one record"
    return [
        first,
        f"Two tables are neighbours if they differ in the perturbed attributes of {differ}, in any way. The "
        "number of records, and that a record is in the file, are the same in both and are not hidden.",
    ]


def mechanism(m: Material) -> list[Part]:
    """Say how values were replaced, and what the data decided."""
    kinds = dict.fromkeys(c.spec.kind for c in opened(m.sidecar).channels if c.spec is not None)
    named = ", ".join(k for k in kinds if k in KINDS) or ", ".join(m.sidecar.scheme or [])
    data = [a.name for a in m.sidecar.perturbed if a.domain_from == "data"]
    declared = len(m.sidecar.perturbed) - len(data)
    parts: list[Part] = [
        f"Randomised response: each value goes through a matrix of known probabilities ({named}). Draws are "
        "made with whole numbers, exactly: no rounding, and no floating point, changes a probability."
    ]
    if m.sidecar.perturbed:
        origins = [
            f"The possible values of {counted(declared, 'attribute')} were declared from public knowledge."
        ]
        origins += [f"Taken from the private data, and thereby published: the possible values of {some(data)}."]
        parts.append(" ".join(origins[declared == 0 : 1 + bool(data)]))
    return [
        *parts,
        f"Preparation before the perturbation: {(m.about.preparation or _UNTOLD).rstrip('.')}.",
        post_processing(m),
    ]


def post_processing(m: Material) -> str:
    """Say what was done to the published values after the draw."""
    binned = [a.name for a in m.sidecar.perturbed if a.edges is not UNSET]
    shown = f" A bin is shown as one value of it ({some(binned)})." if binned else ""
    return f"Nothing was done to the published values after the draw.{shown}"


def _utility(m: Material) -> list[Part]:
    """Say how far an estimated share of a value is off, by the matrix and the number of records alone."""
    records, parts = m.sidecar.records, list[Part]()
    if opened(m.sidecar).withholding:
        rows = [[r["attribute"], percent(r["published"])] for r in m.attributes]
        parts.append(_cut(["attribute", "records that show it"], rows))
    elif records:
        known = {r["attribute"] for r in m.attributes if r.get("condition_number") is not None}
        rows = []
        for channel in opened(m.sidecar).channels:
            if channel.name in known and channel.noise is None and channel.matrix.invertible:
                N, error = channel.domain.size, channel.matrix.expected_error(records) / records
                rows.append([channel.name, percent(1 / N), f"{100 * error / sqrt(N):.2g} points"])
        if rows:
            parts.append(_cut(["attribute", "an average share", "its standard error"], rows))
            parts.append(
                "The standard error of a value's share among all records, as a miner can estimate it. Where it "
                "is as large as the share, little can be learnt of single values."
            )
    return parts


def _trust(m: Material) -> list[Part]:
    a = m.about
    rows = [
        ["model", "Local: each record is perturbed by itself. But the curator holds the originals and runs the "
                  "perturbation, so the persons in the data trust the curator."],
        ["coins", _COINS[m.privacy.coins]],
        ["custody of keys", a.custody or _UNTOLD],
        ["who has what", a.actors or _UNTOLD],
        ["order of the rows", _order(m)],
        ["access", "Non-interactive: the release is a file, and answers no queries. Nothing can be learnt from "
                   "timing."],
        ["metadata", "The files have the release's own schema and metadata only, none of the original's."],
    ]  # fmt: skip
    return [Table(["", ""], rows, words=2)]


def _order(m: Material) -> str:
    told_by = [] if m.attack is None else [o.attribute for o in m.attack.order if o.published_tells]
    if told_by:
        return f"It reveals values of {some(told_by)}. {m.about.order}".strip()
    checked = " An attack on it found nothing." if m.attack is not None and m.attack.order else ""
    made = "The rows are in the order of the original; perturb refuses an order that reveals values."
    if m.privacy.coins == "unknown":
        made = "Whether another tool shuffled the rows is not known."
    if m.privacy.shuffled:
        made = "The rows were shuffled: they are in a random order."
    return f"{made} {m.about.order}".strip() + checked


def _attacks(m: Material) -> list[Part]:
    if m.attack is None:
        return ["Not stated: no report of ppdm attack was given."]
    how = "measured against the original" if m.attack.measured else "expected from the release alone"
    named = [r for r in m.attack.attacks if r.exact is not None]
    if named:
        columns = ["attribute", "attack", "named exactly", "by the distribution alone", "strongest belief"]
        rows = [
            [r.attribute, r.attack, _interval(r), _share(r.exact_prior), _share(r.largest_posterior)]
            for r in named
        ]
        said = "Shares of records"
    else:
        columns = ["attribute", "attack", "error of a guess"]
        rows = [[r.attribute, r.attack, _share(r.rmse_share)] for r in m.attack.attacks]
        said = "Errors as a share of the attribute's standard deviation"
    said += f", {how}. An attack tells of a record only what goes beyond the distribution alone."
    if any(r.largest_posterior is not None for r in m.attack.attacks):
        said += " The strongest belief may be in a value that was likely before."
    return [said, _cut(columns, rows, words=2), Items(m.attack.sentences)]


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _interval(row: Any) -> str:
    if row.exact_low is None or row.exact_high is None:
        return _share(row.exact)
    return f"{_share(row.exact)} ({percent(row.exact_low)} to {percent(row.exact_high)})"


def unprotected(m: Material) -> list[str]:
    """Return what the release shows without any protection."""
    data = [a.name for a in m.sidecar.perturbed if a.domain_from == "data"]
    found = ["The number of records, and that each of them is in the file."]
    if m.privacy.kept:
        found.append(
            f"Columns published unchanged: {some(m.privacy.kept)}. No gamma covers them, nor what they "
            "reveal about the others."
        )
    if data:
        found.append(f"The domains that were taken from the data: {some(data)}.")
    return found


def _risks(m: Material) -> list[Part]:
    risks = unprotected(m)
    if m.epsilon is None:
        risks.insert(0, "No gamma and no epsilon holds for this release.")
    elif at_most(m.record["worst_posterior"]).startswith("over"):
        risks.append(
            "Over a whole record the bound is so weak that it promises nothing in practice: what protects a "
            "record against someone who compares whole records is only what attacks show."
        )
    if m.account is None:
        risks.append(
            "Other releases about the same people are not known to this statement; each adds its epsilon."
        )
    risks.append("What is true of many people is published, and may be held against each of them.")
    review = _date(m.about.review) or _UNTOLD
    return [Items([*risks, *m.about.risks]), f"To be reviewed by: {review}.", f"Choices: {_choices(m)}"]


def _choices(m: Material) -> str:
    return m.about.choices or f"{_UNTOLD}."


def _files(m: Material) -> list[Part]:
    rows = [[f.name, f.sha256, f"{f.size:,}"] for f in m.files]
    return [
        Table(["file", "SHA-256", "bytes"], rows, words=2),
        f"Release {m.sidecar.release}, made by {m.sidecar.tool}. The tool's tests compare each sampler's draws "
        "with its stated law, and check that a sampler that is off by a few per cent is rejected. ppdm attack "
        "--truth lets the owner audit this release.",
    ]

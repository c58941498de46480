"""The sections of a statement and its page of HTML: plain words come first, figures in tables.

The headings follow the layers of NIST SP 800-226, from epsilon and the unit of privacy down to what the
collected data are exposed to. What the release promises is said by the facts of `releases`.

The page is one file that holds all it needs, prints well, and runs nothing: it forbids scripts to itself. All
text is escaped here, whatever it comes from: names in a release may hold markup, control characters and
changes of the writing direction.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite, sqrt
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from ppdm_cli.channels import KINDS
from ppdm_cli.display import at_most, exactly, percent, up
from ppdm_cli.errors import counted, one_line, some
from ppdm_cli.releases import (
    Account,
    Fact,
    RecordFigures,
    attribute_figures,
    limit_sentences,
    one_attribute_limit,
    opened,
    record_figures,
    release_facts,
)
from ppdm_cli.sidecar import Privacy, Sidecar

MOST_ROWS = 1000
"""The most rows of a table; the sidecar has all attributes."""
_UNSAID = "not stated"
_COINS = {
    "system": "The coins came from the operating system for this release alone; their key was never written "
    "down.",
    "key-file": "The coins follow from a secret key in a file and from each record's identifier. Anyone who "
    "has the key can undo the perturbation.",
    "seeded": "The coins came from a seed. Seeds can be guessed: nothing is promised.",
    "unknown": "Another tool drew the coins, and nothing is known of them: nothing is promised.",
}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
@page { size: A4; margin: 18mm 16mm; }
body { font: 11pt/1.45 Georgia, 'Times New Roman', serif; color: #1f2328; max-width: 46em; margin: 2em auto;
  padding: 0 1.5em; overflow-wrap: anywhere; }
h1, h2 { font-family: Helvetica, Arial, sans-serif; line-height: 1.2; break-after: avoid; }
h1 { font-size: 20pt; margin-bottom: .2em; } h2 { font-size: 13pt; margin: 1.6em 0 .4em;
  border-bottom: 1px solid #8c959f; }
.under { color: #57606a; margin-top: 0; } .internal { border: 2px solid #c8102e; padding: .5em .8em; }
table { border-collapse: collapse; width: 100%; font: 9pt/1.35 Helvetica, Arial, sans-serif; margin: .8em 0; }
th { text-align: left; border-bottom: 1px solid #57606a; vertical-align: bottom; overflow-wrap: normal; }
th, td { padding: .25em .7em .25em 0; } td { border-bottom: 1px solid #d8dee4; vertical-align: top; }
tr { break-inside: avoid; } thead { display: table-header-group; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.w { white-space: nowrap; }
td:first-child { min-width: 8em; } td.k { color: #57606a; width: 11em; }
.bar { display: grid; grid-template-columns: 14em 1fr 8em; gap: 1em; margin: .2em 0; font-size: 9pt; }
meter { width: 100%; height: 1.2em; }
li { margin: .25em 0; }
@media print { body { margin: 0; padding: 0; max-width: none; } }
"""


@dataclass(frozen=True)
class TextTable:
    """Rows of text; the first columns are words, the others figures."""

    columns: list[str]
    rows: list[list[str]]
    words: int = 1
    more: int = 0
    """How many further rows there are."""


class Bars(NamedTuple):
    """Shares of 1 as bars, each with what it is of: a belief before, and what it becomes at most."""

    shares: list[tuple[str, float]]


Part = str | list[str] | TextTable | Bars
"""A paragraph, a list of sentences, a table or bars."""


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What only the curator can say of a release; all may be left out, and the statement then says so."""

    name: str = ""
    curators: list[str] = []
    purpose: str = ""
    description: str = ""
    population: str = ""
    published: dt.date | None = None
    later: str = ""
    actors: str = ""
    custody: str = ""
    exposure: str = ""
    choices: str = ""
    risks: list[str] = []
    review: dt.date | None = None
    authors: list[str] = []


class AttackRow(msgspec.Struct, frozen=True):
    """How one attack does on one attribute; other figures of the report are passed over."""

    attack: str
    attribute: str
    exact: float | None = None
    exact_prior: float | None = None
    rmse_share: float | None = None
    largest_posterior: float | None = None


class OrderedAttribute(msgspec.Struct, frozen=True):
    """Whether the published order of the rows reveals values of an attribute."""

    attribute: str
    published_tells: bool


class AttackReport(msgspec.Struct, frozen=True):
    """What `ppdm attack --json` printed."""

    release: str
    measured: bool
    attacks: list[AttackRow]
    sentences: list[str]
    order: list[OrderedAttribute] = []


@dataclass(frozen=True)
class ReleaseFile:
    """One of the release's files."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Material:
    """What a statement is made of."""

    sidecar: Sidecar
    privacy: Privacy
    record: RecordFigures
    facts: list[Fact]
    files: list[ReleaseFile]
    about: About
    attack: AttackReport | None
    account: Account | None
    prior: float

    @property
    def epsilon(self) -> float | None:
        """Return the promise over a record or a person; None where there is none."""
        stated = self.record.perturbed_epsilon
        return None if stated is None or not isfinite(float(stated)) else float(stated)

    @property
    def posterior(self) -> float:
        """Return how sure of a value a reader of the whole record may become."""
        return 1.0 if self.record.worst_posterior is None else self.record.worst_posterior

    def sentences(self, *topics: str) -> list[str]:
        return [f.sentence for f in self.facts if f.topic in topics]


def material(
    sidecar: Sidecar,
    files: list[ReleaseFile],
    about: About,
    attack: AttackReport | None,
    account: Account | None,
    prior: float,
) -> Material:
    """Return what the statement about a release is made of."""
    record, privacy = record_figures(sidecar, prior), sidecar.privacy
    assert record is not None and privacy is not UNSET
    facts = release_facts(sidecar, prior)
    return Material(sidecar, privacy, record, facts, files, about, attack, account, prior)


def sections(m: Material) -> list[tuple[str, list[Part]]]:
    """Return the whole statement: headings, and what stands below each."""
    return [
        ("In plain words", _plain(m)),
        ("Who publishes what, and why", _who(m)),
        ("Privacy loss (epsilon)", _loss(m)),
        ("Unit of privacy", _unit(m)),
        ("Algorithm and utility", _algorithm(m)),
        ("Trust, keys and side channels", _trust(m)),
        ("What attacks can be expected to achieve", _attacks(m)),
        ("Residual risks and review", _risks(m)),
        ("Files, version and tests", _files(m)),
    ]


def _plain(m: Material) -> list[Part]:
    number = m.sidecar.records
    records = "an unknown number of records" if number is None else counted(number, "record")
    perturbed = counted(len(m.sidecar.altered or m.sidecar.perturbed), "attribute")
    parts: list[Part] = [
        f"This release has {records}. Of each record, the values of {perturbed} were replaced at random, "
        "record by record, with probabilities that are published with the data. No published value says for "
        "certain what the original was, yet counts and distributions can be corrected for the replacement."
    ]
    if m.epsilon is None:
        return [*parts, "Nothing is promised of this release. " + " ".join(f.sentence for f in m.facts[:2])]
    limits = " ".join(limit_sentences(m.sidecar, m.posterior, m.prior))
    one = one_attribute_limit(m.sidecar, m.prior)
    open_ones = ["columns published unchanged"] * bool(m.sentences("kept"))
    open_ones += ["domains taken from the data"] * bool(m.sentences("domains"))
    if "at most" in limits:
        known = f", including from {' and '.join(open_ones)}" if open_ones else ""
        limits += f" This holds whatever the reader knew before{known}."
    of_all = "all records of a person" if m.privacy.unit == "person" else "a whole record"
    bars = [("before the release", m.prior), *([] if one is None else [("after one attribute alone", one)])]
    parts += [limits, Bars([*bars, (f"after {of_all}", m.posterior)])]
    return [*parts, "What this does not cover is listed under residual risks."]


def _who(m: Material) -> list[Part]:
    a = m.about
    rows = {
        "name of the data": a.name,
        "curator": "; ".join(a.curators),
        "purpose": a.purpose,
        "description": a.description,
        "whose data": a.population,
        "published on": _date(a.published),
        "further releases": a.later,
        "this statement by": "; ".join(a.authors),
    }
    return [_named(rows)]


def _date(date: dt.date | None) -> str:
    return "" if date is None else date.isoformat()


def _named(rows: dict[str, str]) -> TextTable:
    return TextTable(["", ""], [[k, v or _UNSAID] for k, v in rows.items()], words=2)


def _loss(m: Material) -> list[Part]:
    parts: list[Part] = list(m.sentences("promise"))
    rows = [
        [r.attribute, f"{r.N}", _number(r.gamma), _number(r.epsilon), _share(r.staying)]
        for r in attribute_figures(m.sidecar)
    ]
    if rows:
        rows.insert(0, ["all together", "", _number(m.record.perturbed_gamma), _number(m.epsilon), ""])
        parts.append(_cut(["attribute", "values", "gamma", "epsilon", "stays"], rows))
        parts.append("Stays: the chance that a published value is the original one. Epsilon is ln gamma.")
    times = [] if m.sidecar.copy is UNSET else [f"{m.sidecar.copy.of} copies"]
    times += [] if m.record.rows is None else [f"{counted(m.record.rows, 'row')} of a person"]
    also = f", and count for each of {' and '.join(times)}" if times else ""
    if m.record.recipes is UNSET:
        parts.append(f"The epsilons of the attributes add up (sequential composition){also}.")
    else:
        parts.append(
            f"Each record went through one of {m.record.recipes} recipes, dealt by a coin that sees no value. "
            f"The epsilon is the largest of any recipe, for its attributes at once{also}."
        )
    if m.account is not None:
        rows = [[e.entered, e.release, e.unit, _number(e.epsilon)] for e in m.account.entries]
        parts += [m.account.sentences, _cut(["entered", "release", "unit", "epsilon"], rows, words=3)]
    return parts


def _number(value: float | str | None) -> str:
    if value is None:
        return "none"
    return f"{up(float(value)):.4g}" if isfinite(float(value)) else "unbounded"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _cut(columns: list[str], rows: list[list[str]], words: int = 1) -> TextTable:
    return TextTable(columns, rows[:MOST_ROWS], words, max(0, len(rows) - MOST_ROWS))


def _unit(m: Material) -> list[Part]:
    """Say what is protected, and from which difference."""
    first, differ = "The promise is for one record. ", "one record"
    first += "Of a person with several records it is their product: the epsilons add up."
    if m.privacy.unit == "person":
        rows = counted(m.record.rows or 1, "row")
        first = f"The promise is for a person. At most {rows} of each person are published, chosen by a coin."
        differ = "all published rows of one person"
    return [
        first,
        f"Two tables are neighbours if they differ in the perturbed attributes of {differ}, in any way. The "
        "number of records, and that a record is in the file, are the same in both and are not hidden.",
    ]


def _algorithm(m: Material) -> list[Part]:
    """Say how values were replaced, and how far an estimated share is off, by matrix and records alone."""
    kinds = dict.fromkeys(c.spec.kind for c in opened(m.sidecar).channels if c.spec is not None)
    named = ", ".join(k for k in kinds if k in KINDS) or ", ".join(m.sidecar.scheme or [])
    binned = [a.name for a in m.sidecar.perturbed if a.edges is not UNSET]
    parts: list[Part] = [
        f"Randomised response: each value goes through a matrix of known probabilities ({named}). Draws are "
        "made with whole numbers, exactly: no rounding, and no floating point, changes a probability.",
        *m.sentences("grouped"),
        "Nothing was done to the published values after the draw."
        + f" A bin is shown as one value of it ({some(binned)})." * bool(binned),
    ]
    figures = attribute_figures(m.sidecar)
    if rows := [[r.attribute, percent(r.published)] for r in figures if r.published is not UNSET]:
        parts.append(_cut(["attribute", "records that show it"], rows))
    known, rows = {r.attribute for r in figures if r.condition_number}, []
    for channel in opened(m.sidecar).channels if m.sidecar.records else ():
        if channel.name in known and channel.noise is None and channel.matrix.invertible:
            N, records = channel.domain.size, m.sidecar.records or 1
            error = channel.matrix.expected_error(records) / records
            rows.append([channel.name, percent(1 / N), f"{100 * error / sqrt(N):.2g} points"])
    if rows:
        parts.append(_cut(["attribute", "an average share", "its standard error"], rows))
        parts.append(
            "The standard error of a value's share among all records, as a miner can estimate it. Where it is "
            "as large as the share, little can be learnt of single values."
        )
    return parts


def _trust(m: Material) -> list[Part]:
    rows = {
        "model": "Local: each record is perturbed by itself. But the curator holds the originals and runs the "
        "perturbation, so the persons in the data trust the curator.",
        "coins": _COINS[m.privacy.coins],
        "custody of keys": m.about.custody,
        "who has what": m.about.actors,
        "exposure of the originals": m.about.exposure,
        "order of the rows": _order(m),
        "access": "Non-interactive: the release is a file, and answers no queries. Nothing can be learnt from "
        "timing.",
        "metadata": "The files have the release's own schema and metadata only, none of the original's.",
    }
    return [_named(rows)]


def _order(m: Material) -> str:
    attacked = [] if m.attack is None else m.attack.order
    if revealed := [o.attribute for o in attacked if o.published_tells]:
        return f"It reveals values of {some(revealed)}."
    made = "The rows are in the order of the original; perturb refuses an order that reveals values."
    if m.privacy.coins == "unknown":
        made = "Whether another tool shuffled the rows is not known."
    if m.privacy.shuffled:
        made = "The rows were shuffled: they are in a random order."
    return made + " An attack on it found nothing." * bool(attacked)


def _attacks(m: Material) -> list[Part]:
    if m.attack is None:
        return ["Not stated: no report of ppdm attack was given."]
    columns = ["attribute", "attack", "error of a guess"]
    rows = [[r.attribute, r.attack, _share(r.rmse_share)] for r in m.attack.attacks]
    shares = "Errors as a share of the attribute's standard deviation"
    if named := [r for r in m.attack.attacks if r.exact is not None]:
        columns = ["attribute", "attack", "named exactly", "by the distribution alone", "strongest belief"]
        rows = [
            [r.attribute, r.attack, _share(r.exact), _share(r.exact_prior), _share(r.largest_posterior)]
            for r in named
        ]
        shares = "Shares of records"
    return [
        f"{shares}, expected from the release alone. An attack reveals of a record only what goes beyond the "
        "distribution alone.",
        _cut(columns, rows, words=2),
        m.attack.sentences,
    ]


def _risks(m: Material) -> list[Part]:
    risks = ["The number of records, and that each of them is in the file.", *m.sentences("kept", "domains")]
    if m.epsilon is None:
        risks.insert(0, "No gamma and no epsilon holds for this release.")
    elif at_most(m.posterior).startswith("over"):
        risks.append(
            "Over a whole record the bound is so weak that it promises nothing in practice: what protects a "
            "record against someone who compares whole records is only what attacks show."
        )
    if m.account is None:
        risks.append(
            "Other releases about the same people are not known to this statement; each adds its epsilon."
        )
    risks.append("What is true of many people is published, and may be held against each of them.")
    review, choices = _date(m.about.review) or _UNSAID, m.about.choices or f"{_UNSAID}."
    return [[*risks, *m.about.risks], f"To be reviewed by: {review}.", f"Choices: {choices}"]


def _files(m: Material) -> list[Part]:
    rows = [[f.name, f.sha256, f"{f.size:,}"] for f in m.files]
    return [
        TextTable(["file", "SHA-256", "bytes"], rows, words=2),
        f"Release {m.sidecar.release}, made by {m.sidecar.tool}. The tool's tests compare each sampler's draws "
        "with its stated law, and check that a sampler that is off by a few per cent is rejected. With "
        "`ppdm attack` and the original the owner audits this release.",
    ]


def html(title: str, under: str, banners: Sequence[str], sections: Sequence[tuple[str, list[Part]]]) -> str:
    """Return the whole page."""
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{_safe(title)}</title>'
        f"<style>{_STYLE}</style>"
    )
    body = [f"<h1>{_safe(title)}</h1>", f'<p class="under">{_safe(under)}</p>']
    body += [f'<p class="internal">{_safe(b)}</p>' for b in banners]
    for heading, parts in sections:
        body.append(f"<h2>{_safe(heading)}</h2>")
        body += [_part(p) for p in parts]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"
    )


def _safe(text: str) -> str:
    return escape(one_line(text))


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{_safe(part)}</p>"
    if isinstance(part, list):
        return "<ul>" + "".join(f"<li>{_safe(s)}</li>" for s in part) + "</ul>"
    return _bars(part) if isinstance(part, Bars) else _table(part)


def _table(table: TextTable) -> str:
    head, named = "", ["k", ""]
    if any(table.columns):
        named = ["", *("w" if i < table.words else "n" for i in range(1, len(table.columns)))]
        head = f"<thead>{_row('th', table.columns, named)}</thead>"
    rows = "".join(_row("td", r, named) for r in table.rows)
    below = f"<p>{table.more:,} further rows are left out; the sidecar has them.</p>" if table.more else ""
    return f"<table>{head}<tbody>{rows}</tbody></table>{below}"


def _row(tag: str, cells: Sequence[str], named: Sequence[str]) -> str:
    cells = [f'<{tag} class="{c}">{_safe(cell)}</{tag}>' for c, cell in zip(named, cells, strict=True)]
    return f"<tr>{''.join(cells)}</tr>"


def _bars(bars: Bars) -> str:
    rows = []
    for i, (name, share) in enumerate(bars.shares):
        words = at_most(share) if i else exactly(share)
        words = f"at most {words}" if i and not words.startswith("over") else words
        bar = f'<meter value="{share:.3f}"></meter>'
        rows.append(f'<p class="bar">{_safe(name)} {bar} {_safe(words)}</p>')
    return "\n".join(rows)

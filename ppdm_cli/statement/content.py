"""Contents of statements: the promise of a release, its published values, and questions for its owner.

The verdict comes first, in words. The promise is stated by the facts of `releases`. Programs get the figures of
the page. Neither has counts that depend on the data (docs/explanation/limits.md).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from ppdm_cli.attacks import GuessFigures, LinkReport, OrderFigures
from ppdm_cli.channels import KINDS
from ppdm_cli.display import UNLIMITED, at_most, exactly, percent, up
from ppdm_cli.errors import argument, counted, some
from ppdm_cli.perturbing import expected_errors
from ppdm_cli.releases import (
    Account,
    Fact,
    RecordFigures,
    attribute_figures,
    has_noise,
    limit_sentences,
    one_attribute_limit,
    opened,
    record_figures,
    release_facts,
)
from ppdm_cli.sidecar import TOOL, Attribute, Outside, Privacy, Sidecar
from ppdm_cli.statement.page import Cell, Notice, Part, TextTable, html

GRADES = ((1.0, "strong"), (2.0, "good"), (4.0, "limited"))
"""The most epsilon over a record, or over a person, for each word of a verdict; above the last it is weak."""
BEFORE = (0.01, 0.2, 0.5)
"""The beliefs that are compared with those after the release, beside the one that was asked for."""
MOST_LISTED, LONGEST_VALUE = 100, 60
"""The most values of an attribute that the page lists, and the most characters of one; the sidecar has all."""
_COINS = {
    "system": "They came from the operating system, for this release alone, and were never written down.",
    "key-file": "They follow from a secret key in a file and from each record's identifier.",
    "seeded": "They came from a seed. Seeds can be guessed, so nothing is promised.",
    "unknown": "Another tool drew them, and they are unknown, so nothing is promised.",
}
_SHOWN_AS = {
    "center": "the middle of its range",
    "left": "the lower end of its range",
    "right": "the upper end of its range",
    "random": "a random value of its range",
}
_MOVED: dict[Outside, str] = {
    "nearest": "Rare values, or values outside the list or ranges, went to the nearest one: {}.",
    "null": "Values outside the list were left blank: {}.",
    "other": "Rare or unlisted values were pooled as (other): {}.",
}
_FROM_DATA = "the private data"
_MIDNIGHT = re.compile(r"T00:00:00(\.0+)?$")
_ATTACKERS = {"posterior": "the published value alone", "record": "all that is published of the record"}


QUESTIONS = {
    "name": "What are the data called?",
    "owner": "Who publishes them?",
    "purpose": "What are they published for?",
    "population": "Whose data are in the file, and what is a record?",
    "recipients": "Who receives the release, and what may they do with it?",
    "published": "When was it published?",
    "later": "Will there be more releases about the same people?",
    "choices": "Who chose the privacy budget, and why this one?",
    "originals": "Who can read the originals?",
    "custody": "If there is a key file: who keeps it, and where?",
    "status": "Under data protection law, what are the originals, and what is the release: personal data?",
    "retention": "When are the originals, the key file and private reports deleted?",
    "erasure": "What do you do if a person asks to be erased?",
    "mistake": "What do you do if too much was published?",
    "risks": "Which other risks do you know of?",
    "review": "When will you review this statement?",
}
"""Questions that only the owner can answer, by setting; without an answer the page has a line to write on."""


class AttackReport(msgspec.Struct, frozen=True):
    """The figures that `ppdm attack --json` prints; others are skipped."""

    release: str
    measured: bool
    attacks: list[GuessFigures]
    order: list[OrderFigures] = []
    link: LinkReport | None = None


class BeliefLimit(NamedTuple):
    """The belief of a reader in a value, and its limits after one attribute, and after all of a record."""

    before: float
    one_attribute: float | None
    whole: float


@dataclass(frozen=True)
class PublishedAttribute:
    """One attribute as a reader of the release finds it."""

    attribute: str
    role: str
    values: list[str]
    """All values, or the ends of all ranges; empty if any value is possible."""
    ranges: bool
    blank: bool
    shown_as: str
    listed_from: str


@dataclass(frozen=True)
class Statement:
    sidecar: Sidecar
    privacy: Privacy
    files: Mapping[str, str]
    answers: Mapping[str, str]
    attack: AttackReport | None
    account: Account | None
    prior: float

    @cached_property
    def record(self) -> RecordFigures:
        found = record_figures(self.sidecar, self.prior)
        assert found is not None
        return found

    @cached_property
    def facts(self) -> list[Fact]:
        return release_facts(self.sidecar, self.prior)

    def sentences(self, *topics: str) -> list[str]:
        return [f.sentence for f in self.facts if f.topic in topics]

    @property
    def epsilon(self) -> float | None:
        """Return the promised epsilon over a record or a person; None without a promise."""
        stated = self.record.perturbed_epsilon
        return None if stated is None or not isfinite(float(stated)) else float(stated)

    @property
    def has_counts(self) -> bool:
        """Return whether records may have been left out, moved or pooled."""
        return self.record.rows is not None or bool(self.moved)

    @property
    def protection(self) -> str:
        """Return the level of protection, in a word that choose-a-budget.md explains."""
        if self.epsilon is None or (self.record.worst_posterior or 1.0) > UNLIMITED:
            return "none"
        return next((word for most, word in GRADES if self.epsilon <= most), "weak")

    @property
    def whole(self) -> str:
        return "all records of a person" if self.privacy.unit == "person" else "a whole record"

    @property
    def verdict(self) -> Notice:
        """Return the page's first notice; it is red if nothing protects a whole record."""
        kept, protected = self.sentences("kept"), self.protection != "none"
        if self.epsilon is None:
            why = self.sentences("kind", "limit")[:2]
            return Notice("This release promises nothing.", why, kept, True)
        word = self.protection if protected else "no meaningful"
        rest = ", except for what is published unchanged." if kept and protected else "."
        limits = limit_sentences(self.sidecar, self.record.worst_posterior or 1.0, self.prior)
        lines = [s[0].upper() + s[1:] for s in (limit.rpartition(": ")[2] for limit in limits)]
        if protected:
            lines.append("This holds whatever else the reader knows.")
        lines.append(f"The privacy loss (epsilon) of {self.whole} is {_number(self.epsilon)}.")
        return Notice(f"This release gives {self.whole} {word} protection{rest}", lines, kept, not protected)

    @property
    def beliefs(self) -> list[BeliefLimit]:
        if self.epsilon is None:
            return []
        found = []
        for before in sorted({*BEFORE, self.prior}):
            record = record_figures(self.sidecar, before)
            whole = 1.0 if record is None or record.worst_posterior is None else record.worst_posterior
            found.append(BeliefLimit(before, one_attribute_limit(self.sidecar, before), whole))
        return found

    @property
    def published(self) -> list[PublishedAttribute]:
        return [_published(a) for a in self.sidecar.attributes]

    @property
    def moved(self) -> dict[str, Outside]:
        """Return the targets of values outside their lists, by attribute; their numbers are private."""
        return {a.name: a.outside for a in self.sidecar.attributes if a.outside is not UNSET}

    @property
    def figures(self) -> dict[str, object]:
        """Return the statement for programs, without the figures of `inspect`."""
        verdict, account = self.verdict, self.account
        total = None if account is None or not isfinite(account.total) else account.total
        return {
            "stated": today(),
            "verdict": {"protection": self.protection, **verdict._asdict()},
            "beliefs": [b._asdict() for b in self.beliefs],
            "published": [asdict(p) for p in self.published],
            "moved": self.moved,
            "shuffled": None if self.privacy.coins == "unknown" else self.privacy.shuffled,
            "attack": self.attack,
            "ledger": account and {"total": total, **asdict(account)},
            "about": self.answers,
            "files": self.files,
        }

    @property
    def page(self) -> str:
        release = self.sidecar.release
        title = f"Privacy statement: {self.answers.get('name') or f'release {release}'}"
        under = f"Release {release}, made by {self.sidecar.tool}. Stated by {TOOL} on {today()}."
        return html(title, under, self.verdict, sections(self))


def today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def about_template() -> str:
    """Return the file for the owner's answers, with all questions and no answers."""
    lines = [
        f"# Answers for the statement, for {argument('about', 'FILE')} of ppdm inspect.",
        "# What you leave empty becomes a line to write on.",
    ]
    lines += [f'\n# {question}\n{name} = ""' for name, question in QUESTIONS.items()]
    return "\n".join(lines) + "\n"


def sections(s: Statement) -> dict[str, list[Part]]:
    """Return the whole statement below its verdict, by heading."""
    return {
        "How sure a reader can become": _beliefs(s),
        "What remains at risk": [_risks(s)],
        "What attacks can be expected to find out": _attacks(s),
        "What is published": _published_parts(s),
        "How the records were prepared": [_preparation(s)],
        "How values were replaced": _replaced(s),
        "Questions for the owner and the officer": _questions(s),
        "Files and signatures": _signatures(s),
    }


def _beliefs(s: Statement) -> list[Part]:
    if s.epsilon is None:
        return ["No limit holds. A reader may become certain of any value."]
    one = s.beliefs[0].one_attribute is not None
    columns = ["sure before", *["after one attribute (at most)"] * one, f"after {s.whole} (at most)"]
    rows = [
        [
            Cell(exactly(b.before), b.before, "before"),
            *(_belief(after) for after in (b.one_attribute, b.whole) if after is not None),
        ]
        for b in s.beliefs
    ]
    below = ["Columns that are published unchanged count as known before."] * bool(s.sentences("kept"))
    below += ["The limit after one attribute is for a reader who ignores the rest. Few readers do."] * one
    return [
        "Suppose that a reader suspects something about a person in the data. The release can make the reader "
        "more sure of it. Each line shows how sure the reader was before, and the most that the reader can "
        "become.",
        TextTable(columns, rows),
        below,
    ]


def _belief(share: float) -> Cell:
    return Cell(at_most(share), share, "alarm" if share > UNLIMITED else "after")


def _number(value: float | str | None) -> str:
    if value is None:
        return "none"
    return f"{up(float(value)):.4g}" if isfinite(float(value)) else "unbounded"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _attacks(s: Statement) -> list[Part]:
    """Return the strongest attack on each attribute, the worst first."""
    if s.attack is None:
        return [f"Not known: add a report of ppdm attack with {argument('attack', 'attack.json')}."]
    best: dict[str, GuessFigures] = {}
    for row in s.attack.attacks:
        if row.exact is not None and row.exact > (getattr(best.get(row.attribute), "exact", None) or -1.0):
            best[row.attribute] = row
    found: list[Part] = [] if s.attack.link is None else [s.attack.link.sentence()]
    if not best:
        return found or ["None of these attacks names single values."]
    rows = sorted(best.values(), key=lambda r: (r.exact_prior or 0.0) - (r.exact or 0.0))
    columns = ["attribute", "guessed right before", "guessed right after", "from", "strongest belief"]
    return [
        "Attacks play a reader who guesses each value. Before the release, the reader names the most common "
        "value. After it, the reader also uses what is published. The shares of right guesses are expected "
        "from the release alone, for the strongest attack on each attribute.",
        TextTable(columns, [_attacked(r) for r in rows]),
        "The strongest belief is the one about the record of which the reader is most sure. The limits above "
        "hold for it too: what counts is how sure the reader was before.",
        *found,
    ]


def _attacked(row: GuessFigures) -> list[str | Cell]:
    before, after = row.exact_prior or 0.0, row.exact or 0.0
    shares = [Cell(percent(before), before, "before"), Cell(percent(after), after, "after")]
    belief = Cell(f"{_share(row.largest_prior)} before, {_share(row.largest_posterior)} after")
    return [row.attribute, *shares, _ATTACKERS.get(row.attack, row.attack), belief]


def _published(a: Attribute) -> PublishedAttribute:
    ranges = a.edges is not UNSET
    stored = a.edges if a.edges is not UNSET else [] if a.categories is UNSET else a.categories
    values = [str(v) for v in stored]
    if a.dtype.startswith("timestamp") and all(_MIDNIGHT.search(v) for v in values):
        values = [_MIDNIGHT.sub("", v) for v in values]
    published_as = "the value itself" if a.representative is UNSET else _SHOWN_AS[a.representative]
    if a.role != "perturbed":
        published_as = "the original, unchanged" if a.role == "kept" else "the original, or another value"
    source = {"data": _FROM_DATA, "declared": "the owner"}.get(str(a.domain_from), "-")
    return PublishedAttribute(a.name, a.role, values, ranges, a.nulls is True, published_as, source)


def _published_parts(s: Statement) -> list[Part]:
    number = s.sidecar.records
    records = "an unknown number of records" if number is None else f"{number:,} record{'s' * (number != 1)}"
    noise = {c.name for c in opened(s.sidecar).channels if c.noise is not None}
    rows: list[list[str | Cell]] = []
    for p in s.published:
        published_as = Cell("the original plus random noise" if p.attribute in noise else p.shown_as)
        if p.role == "kept":
            published_as = Cell(f"{p.shown_as}: not protected", None, "alarm")
        rows.append([p.attribute, _values(p, s.sidecar.by_name[p.attribute]), published_as, p.listed_from])
    numbered = " The column ppdm_recipe says which attributes a record shows."
    return [
        f"The release has {records} with {counted(len(rows), 'attribute')}. No other column of the original is "
        "in it." + numbered * (s.record.recipes is not UNSET),
        TextTable(["attribute", "values or groups", "a cell shows", "list from"], rows),
    ]


def _values(p: PublishedAttribute, attribute: Attribute) -> str:
    """Return all values of an attribute in words, or the first ones of very many."""
    if not p.values:
        return "any value of the original"
    many, cut = len(p.values), [v if len(v) <= LONGEST_VALUE else f"{v[:LONGEST_VALUE]}..." for v in p.values]
    listed = ", ".join(cut[:MOST_LISTED]) + f" and {many - MOST_LISTED:,} more" * (many > MOST_LISTED)
    words = f"{many - 1} ranges, with ends at {listed}" if p.ranges else f"{counted(many, 'value')}: {listed}"
    if attribute.beyond is not UNSET:
        words += f", and up to {len(attribute.beyond.below)} more that noise adds at either end"
    return words + "; or blank" * p.blank


def _preparation(s: Statement) -> list[str]:
    if s.privacy.coins == "unknown":
        return ["Another tool prepared the file. It is not known which values it left out, moved or shuffled."]
    lines = ["No record was left out by ppdm."]
    if s.record.rows is not None:
        most = counted(s.record.rows, "record")
        lines = [f"At most {most} of each person, drawn at random, may be published. All others were left out."]
    for how, words in _MOVED.items():
        if names := [n for n, moved in s.moved.items() if moved == how]:
            lines.append(words.format(some(names)))
    if not s.moved:
        lines.append("No value was moved or pooled: a value outside its list would have stopped the run.")
    lines += s.sentences("grouped")
    if s.has_counts:
        lines.append(
            "How many records this concerned is not in the release. An exact number depends on single people, "
            "and no limit would cover it. The report of ppdm perturb shows it to the owner."
        )
    return [*lines, _order(s)]


def _order(s: Statement) -> str:
    attacked = [] if s.attack is None else s.attack.order
    if revealed := [o.attribute for o in attacked if o.published_tells]:
        return f"Row order: it reveals values of {some(revealed)}."
    kept = (
        "the rows are in the original's order. ppdm refuses one that reveals values, unless the owner asks "
        "to keep it."
    )
    made = "the rows were shuffled." if s.privacy.shuffled else kept
    return f"Row order: {made}" + " An attack on the order found nothing." * bool(attacked)


def _replaced(s: Statement) -> list[Part]:
    """Return how values were replaced, with the epsilon and the error of counts of each attribute."""
    if not (figures := attribute_figures(s.sidecar)):
        return [s.sentences("limit")]
    release = opened(s.sidecar)
    copies = s.sidecar.times // (s.record.rows or 1)
    errors = expected_errors(release.recipes, s.sidecar.records or 0, copies)
    how = dict.fromkeys(KINDS[c.spec.kind].about for c in release.channels if c.spec is not None)
    published_as = [] if all(r.published is UNSET for r in figures) else ["records that show it"]
    rows: list[list[str | Cell]] = []
    for r in figures:
        expected = errors.get(r.attribute)
        error = Cell(_share(None if expected is None else expected.value))
        if expected is not None and expected.value > 1:
            error = Cell("over 100%", None, "alarm")
        published = "all" if r.published is UNSET else percent(r.published)
        cost = "none" if s.epsilon is None else _number(r.epsilon)
        rows.append([r.attribute, *[published] * bool(published_as), _share(r.staying), cost, error])
    response = (
        "Randomised response: each value was kept or replaced at random. The odds are published with the data, "
        "so counts and averages can be corrected for it. Draws are exact: no rounding changes the odds."
    )
    parts: list[Part] = [
        *[response] * (not has_noise(s.sidecar)),
        [*how, *s.sentences("withheld"), f"Random numbers: {_COINS[s.privacy.coins]}", *s.sentences("keys")],
        TextTable(["attribute", *published_as, "stays as it was", "epsilon", "error of a count"], rows),
        "Stays as it was: the chance that a published value is the original one. Epsilon: how much is "
        "revealed, where 0 is nothing. The odds of a suspicion grow at most e^epsilon times. This factor is "
        "gamma, and N is the number of values or ranges. Error of a count: the standard error for a value of "
        "average frequency. Above 100% the count cannot be estimated.",
        [*_unit(s, copies), *(x for x in s.sentences("kind", "times") if x not in s.verdict.sentences)],
    ]
    if s.account is not None:
        entries = [[e.entered, e.release, e.unit, _number(e.epsilon)] for e in s.account.entries]
        parts += [s.account.sentences, TextTable(["entered", "release", "unit", "epsilon"], entries)]
    return parts


def _unit(s: Statement, copies: int) -> list[str]:
    """Return whom the promise protects, and how epsilons add up; empty if nothing is promised."""
    rows = s.record.rows
    who = "one record" if rows is None else f"a person with at most {counted(rows, 'record')} in the release"
    how = "the sum over its attributes" if s.record.recipes is UNSET else "for all that it shows together"
    lines = [f"The promise is for {who}. The epsilon of a record is {how}."]
    if copies > 1:
        lines.append(f"There are {copies} copies with separate random numbers. The epsilon is for all of them.")
    return lines if s.epsilon is not None else []


def _risks(s: Statement) -> list[str]:
    risks = [
        "The owner holds the originals and runs the perturbation, so people must trust the owner.",
        "The number of records is published. That a person is in the file is not hidden.",
    ]
    risks += ["Anyone who has the key file can recover every value."] * (s.privacy.coins == "key-file")
    if listed := [p.attribute for p in s.published if p.listed_from == _FROM_DATA]:
        risks.append(
            f"These lists of values come from {_FROM_DATA}: {some(listed)}. No limit covers the lists."
        )
    if s.record.rows is None:
        risks.append("A person with several records is less protected than a record: the epsilons add up.")
    if s.account is None:
        risks.append("Other releases about the same people add their epsilon. This statement includes none.")
    risks.append("Facts about groups are published, and could be used against members of the group.")
    return [*risks, *([s.answers["risks"]] if s.answers.get("risks") else [])]


def _questions(s: Statement) -> list[Part]:
    """Return the questions that ppdm cannot answer, with advice for the answers."""
    asked = {q: s.answers.get(name, "") for name, q in QUESTIONS.items()}
    if s.privacy.coins != "key-file" and not asked[QUESTIONS["custody"]]:
        del asked[QUESTIONS["custody"]]
    return [
        "ppdm cannot answer these questions. The owner answers them before the release is handed out.",
        [
            "Status: a perturbed copy does not change what the originals are. The release may still be "
            "personal data, if somebody can single out a person, link records or infer facts about a person by "
            "means reasonably likely to be used (in the EU: GDPR, recital 26).",
            "Erasure: copies that recipients have cannot be changed. You can delete the person's originals, "
            "leave the person out of later releases, and ask recipients to delete this one.",
            "Mistakes: a second release does not undo the first, because readers may compare both. Stop the "
            "distribution, ask recipients to delete the files, and decide whether you must report a breach (in "
            "the EU within 72 hours: GDPR, article 33).",
        ],
        TextTable([], list(asked.items())),
    ]


def _signatures(s: Statement) -> list[Part]:
    """Return the files that the statement is about, and the lines to sign beside them: on one page."""
    lines = ["I have read this statement, and every question in it is answered."]
    if s.has_counts:
        lines.append("I have read the owner's report of how many records were left out, moved or pooled.")
    rows = [["Owner", "", "", ""], ["Data protection officer", "", "", ""]]
    return [
        "This statement is about these files. The SHA-256 shows whether a file is the same. With ppdm attack, "
        "the owner can test whether the release was made as it says. The result is private.",
        TextTable(["file", "SHA-256"], list(s.files.items())),
        lines,
        TextTable(["", "name", "date", "signature"], rows),
    ]

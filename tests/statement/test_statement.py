"""The statement that an officer signs: what it says, what it must not say, and that nothing in it runs."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from ppdm_cli import perturb
from ppdm_cli.display import at_most, exactly, percent
from ppdm_cli.errors import one_line
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.statement import content, page
from tests.commands.test_shown import HOSTILE, printable
from tests.strategies import sidecars, texts
from tests.vocabulary import Run, listing, people

ABOUT = """
name = "Admissions 2025"
owner = "Example Hospital"
recipients = "universities"
published = 2026-12-01
originals = "three readers"
custody = "a safe"
risks = ["several admissions", "two wards"]
review = "2027-12-01"
"""
OWN = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "section", "p", "strong", "ul", "li", "table",
    "thead", "tbody", "tr", "th", "td", "svg", "rect",
}  # fmt: skip
"""The elements that a statement is made of: none loads or runs anything."""


class Tags(HTMLParser):
    """A page as a browser reads it: its elements with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.text += " " * (tag not in ("strong", "svg", "rect"))

    def handle_data(self, data: str) -> None:
        self.text += data * (self.elements[-1:] != [("style", {})])

    def find(self, kind: str) -> list[str]:
        """Return the elements of a class."""
        return [tag for tag, found in self.elements if kind in (found.get("class") or "").split()]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    frame = people(800)
    frame.write_parquet(tmp_path / "truth.parquet")
    perturb(frame, tmp_path / "r.parquet", gamma=9, keep=["group"], drop=["since"])
    (tmp_path / "about.toml").write_text(ABOUT)
    return tmp_path


@pytest.fixture
def state(ppdm: Run, tmp_path: Path) -> Callable[..., tuple[Tags, dict[str, Any]]]:
    """Write a statement by the command line, and return what it shows and its figures."""

    def write(*options: str) -> tuple[Tags, dict[str, Any]]:
        done = ppdm("inspect", "r.parquet", "--report", "s.html", *options, "--force", "--json")
        return Tags((tmp_path / "s.html").read_text()), json.loads(done.stdout)["statement"]

    return write


State = Callable[..., tuple[Tags, dict[str, Any]]]


@pytest.mark.parametrize(
    ("asked", "protection", "headline"),
    [
        ({"record_epsilon": 1}, "strong", "gives a whole record strong protection."),
        ({"record_epsilon": 2}, "good", "gives a whole record good protection."),
        ({"record_epsilon": 4}, "limited", "gives a whole record limited protection."),
        ({"record_epsilon": 5}, "weak", "gives a whole record weak protection."),
        ({"gamma": 9}, "none", "gives a whole record no meaningful protection."),
        ({"gamma": 9, "seed": 1}, "none", "This release promises nothing."),
        ({"record_epsilon": 2, "keep": ["group"]}, "good", "good protection, except for what is published un"),
    ],
)  # fmt: skip
def test_the_verdict_comes_first_and_is_red_without_protection(
    tmp_path: Path, state: State, asked: dict[str, Any], protection: str, headline: str
) -> None:
    perturb(people(800), tmp_path / "r.parquet", drop=["since"], **asked)
    shown, figures = state()
    assert figures["verdict"]["protection"] == protection
    assert headline in figures["verdict"]["headline"] and headline in shown.text
    sections = [found.get("class") for tag, found in shown.elements if tag == "section"]
    assert sections[0] == ("verdict none" if protection == "none" else "verdict")
    assert figures["verdict"]["red"] == (protection == "none")
    assert ["not protected: group" in s for s in figures["verdict"]["unprotected"]] == [True] * (
        "keep" in asked
    )
    assert shown.find("alarm").count("p") == ("keep" in asked)
    assert bool(figures["beliefs"]) == ("seed" not in asked)


def test_the_page_and_the_json_have_the_same_figures(release: Path, ppdm: Run, state: State) -> None:
    (release / "attack.json").write_bytes(ppdm("attack", "r.parquet", "--json").stdout)
    shown, figures = state("--about", "about.toml", "--attack", "attack.json", "--prior", "0.3")
    assert [b["before"] for b in figures["beliefs"]] == [0.01, 0.2, 0.3, 0.5]
    for row in figures["beliefs"]:
        cells = [exactly(row["before"]), at_most(row["one_attribute"]), at_most(row["whole"])]
        assert " ".join(cells) in shown.text
    for one in [p for p in figures["published"] if p["role"] == "perturbed"]:
        listed = re.search(rf" {one['attribute']} (\d+) (ranges, with ends at|values?:) (.*?) ", shown.text)
        assert listed and int(listed[1]) == len(one["values"]) - one["ranges"]
        assert ", ".join(one["values"]) in shown.text
    everyone = figures["attack"]["link"]["found"][0]
    assert f"person's row first in {percent(everyone['first'])} of the cases" in shown.text
    best = {r["attribute"]: r for r in sorted(figures["attack"]["attacks"], key=lambda r: r.get("exact") or 0)}
    assert len(best) == 4
    for row in best.values():
        cells = [row["attribute"], percent(row["exact_prior"]), percent(row["exact"])]
        assert " ".join(cells) in shown.text
        assert (
            f"{percent(row['largest_prior'])} before, {percent(row['largest_posterior'])} after" in shown.text
        )
    for name, digest in figures["files"].items():
        assert f" {name} {digest} " in shown.text
    for answer in figures["about"].values():
        assert answer in shown.text
    kept = next(p for p in figures["published"] if p["attribute"] == "group")
    assert kept["values"] == [] and "any value of the original" in shown.text
    for words in ("operating system", "in the original's order", "come from the private data: age"):
        assert words in shown.text


def test_a_promise_for_persons_is_said_in_words(tmp_path: Path, state: State) -> None:
    frame = people(800).with_columns(id=pl.Series(np.arange(800) // 2))
    settings = {"person": "id", "rows_per_person": 2, "record_epsilon": 4, "publish": 2, "drop": ["since"]}
    perturb(frame, tmp_path / "r.parquet", shuffle=True, **settings)  # type: ignore[arg-type]
    shown, figures = state()
    for words in ("all records of a person weak protection", "2 of 5 attributes (40% of the cells), chosen",
                  "records that show it", "a person with at most 2 records", "the rows were shuffled",
                  "At most 2 records of each person", "The column ppdm_recipe",
                  "I have read the owner's report of how many records"):  # fmt: skip
        assert words in shown.text, words
    assert figures["shuffled"] is True
    for word in ("recipes", "box", "posterior", "coin"):
        assert word not in shown.text.replace("ppdm_recipe", ""), word


def odd_people(rich: int, odd: int, extra: int) -> pl.DataFrame:
    """Make 900 persons of whom so many have values outside the domain, rare ones and rows in excess."""
    rng = np.random.default_rng(3)
    pay, town = rng.integers(0, 100, 900), rng.choice(["a", "b"], 900).tolist()
    pay[:rich], town[-odd:] = 500, [f"town {i}" for i in range(odd)]
    frame = pl.DataFrame({"who": np.arange(900), "pay": pay, "town": town})
    return frame.vstack(frame[:extra]).sample(fraction=1, shuffle=True, seed=1)


def test_neither_sidecar_nor_statement_counts_what_was_left_out_moved_or_pooled(
    tmp_path: Path, state: State
) -> None:
    found = []
    domains = {"pay": {"domain": "0:100"}, "town": {"domain": "a|b", "other": True}}
    for counts in ((2, 3, 4), (17, 9, 30)):
        asked = {"person": "who", "rows_per_person": 1, "record_epsilon": 2, "clip": True, "shuffle": True}
        done = perturb(odd_people(*counts), tmp_path / "r.parquet", force=True, attributes=domains, **asked)  # type: ignore[arg-type]
        assert (done.clipped["pay"].count, done.merged["town"].count, done.left_out) == counts
        shown, figures = state()
        sidecar = json.loads((tmp_path / "r.parquet.ppdm.json").read_text())
        found.append((sidecar | {"release": ""}, shown.text, figures | {"files": {}}))
        assert "pooled as (other): town" in shown.text and "went to the nearest one: pay" in shown.text
        assert "not in the release" in shown.text and figures["moved"] == {"pay": "nearest", "town": "other"}
    (one, text, figures), (other, other_text, others) = found
    varies = r"[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    assert one == other and figures == others
    assert re.sub(varies, "", text) == re.sub(varies, "", other_text)


def test_the_template_asks_all_questions_and_takes_all_answers(release: Path, ppdm: Run, state: State) -> None:
    template = ppdm("inspect", "--about-template").stdout.decode()
    assert list(tomllib.loads(template)) == list(content.QUESTIONS)
    (release / "about.toml").write_text(template)
    shown, figures = state("--about", "about.toml")
    signing, lines = 6, len(shown.find("open"))
    assert lines == len(content.QUESTIONS) - 1 + signing, "nobody asks for the key file of this release"
    assert not any(figures["about"].values())
    answers = {name: f"answer {i} {HOSTILE}" for i, name in enumerate(content.QUESTIONS)}
    (release / "about.toml").write_text("".join(f"{n} = {json.dumps(a)}\n" for n, a in answers.items()))
    shown, figures = state("--about", "about.toml")
    assert len(shown.find("open")) == signing and "key file: who" in shown.text
    for name, question in content.QUESTIONS.items():
        assert f"{question} {one_line(answers[name].strip())}" in shown.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmae = 'x'\n", "Did you mean 'name'"),
        ("name = 1\n", "'name' in 'about.toml' isn't text"),
        ("risks = ['x', 2]\n", "'risks'"),
        ("name = \n", "not valid TOML (line 1)"),
        ("\xff", "not in UTF-8"),
    ],
)
def test_what_the_owner_says_is_read_strictly(release: Path, ppdm: Run, text: str, said: str) -> None:
    (release / "about.toml").write_bytes(text.encode("latin-1"))
    done = ppdm("inspect", "r.parquet", "--report", "s.html", "--about", "about.toml", code=2)
    assert said in done.stderr.decode() and not (release / "s.html").exists()


def test_only_files_of_the_release_are_hashed(release: Path, ppdm: Run, state: State) -> None:
    key = ("--id", "id", "--key-file", "my.key", "--ledger", "l", "--people", "all")
    people(800).with_row_index("id").write_parquet(release / "in.parquet")
    ppdm("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9", "--force", *key)
    secret = [hashlib.sha256(b).hexdigest() for n, b in listing(release).items() if not n.startswith("r.")]
    secret.append((release / "my.key").read_text().split()[0])
    shown, figures = state("--ledger", "l", "--people", "all", "--about", "about.toml")
    names = ("r.parquet", "r.parquet.ppdm.json")
    assert figures["files"] == {n: hashlib.sha256((release / n).read_bytes()).hexdigest() for n in names}
    assert figures["ledger"]["total"] > 0 and "epsilon adds up to" in shown.text
    for text in (shown.text, json.dumps(figures)):
        assert not [s for s in secret if s in text]


def test_what_was_measured_is_refused(release: Path, ppdm: Run) -> None:
    measured = ppdm("attack", "r.parquet", "--truth", "truth.parquet", "--json").stdout
    (release / "attack.json").write_bytes(measured)
    said = ppdm("inspect", "r.parquet", "--report", "s.html", "--attack", "attack.json", code=4).stderr
    assert b"without --truth" in said and not (release / "s.html").exists()


def test_a_report_of_another_release_is_refused(release: Path, ppdm: Run) -> None:
    perturb(people(800, 3), release / "other.parquet", gamma=9, drop=["since"])
    (release / "attack.json").write_bytes(ppdm("attack", "other.parquet", "--json").stdout)
    ppdm("inspect", "r.parquet", "--report", "s.html", "--attack", "attack.json", code=3)
    (release / "attack.json").write_text('{"release": 1}')
    ppdm("inspect", "r.parquet", "--report", "s.html", "--attack", "attack.json", code=2)


@pytest.mark.parametrize(
    "args",
    [
        "inspect r.parquet --about about.toml",
        "inspect r.parquet --report s.md",
        "inspect r.parquet --report s.json",
        "inspect r.parquet --report -",
        "inspect r.parquet --report s.html --people all",
        "inspect u.parquet --report s.html",
    ],
)
def test_calls_that_make_no_sense(release: Path, ppdm: Run, args: str) -> None:
    ppdm("reconstruct", "r.parquet", "-o", "u.parquet")
    before = listing(release)
    ppdm(*args.split(), code=2)
    assert listing(release) == before


def harmless(shown: Tags) -> None:
    """Check that a page has our own elements only, and that none of them loads, runs or is styled apart."""
    assert {t for t, _ in shown.elements} <= OWN
    attributes = {a for _, found in shown.elements for a in found}
    assert not [a for a in attributes if a.startswith("on") or a in ("href", "src", "style", "id")]
    policy = next(a for t, a in shown.elements if t == "meta" and "http-equiv" in a)["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


ATTACK = (
    "</td></svg></style><script>PWNED()</script><img src=x onerror=PWNED()>&lt;|[x](javascript:PWNED())`\" a='"
)


def test_nothing_that_a_name_holds_becomes_markup(tmp_path: Path, ppdm: Run, state: State) -> None:
    rng = np.random.default_rng(1)
    names = [f"{c} {ATTACK}{HOSTILE}" for c in "abc"]
    values = [f"x {ATTACK}{HOSTILE}", "y"]
    pl.DataFrame({n: rng.choice(values, 300).tolist() for n in names}).write_parquet(tmp_path / "in.parquet")
    kept = ("--keep", names[2], "--ledger", "l", "--people", f"all {ATTACK}")
    ppdm("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9", *kept)
    (tmp_path / "about.toml").write_text("".join(f"{n} = {json.dumps(ATTACK)}\n" for n in content.QUESTIONS))
    report = json.loads(ppdm("attack", "r.parquet", "--json").stdout)
    report["attacks"][0]["attack"] = ATTACK
    report["order"][0] |= {"attribute": ATTACK, "published_tells": True}
    (tmp_path / "attack.json").write_text(json.dumps(report))
    options = ("--about", "about.toml", "--attack", "attack.json", "--ledger", "l", "--people", f"all {ATTACK}")
    shown, _ = state(*options)
    harmless(shown)
    printable((tmp_path / "s.html").read_bytes().replace(b"\n", b" "))
    assert shown.text.count("<script>PWNED()</script>") > len(content.QUESTIONS) + 10


@settings(max_examples=60)
@given(sidecars(), st.dictionaries(st.sampled_from(sorted(content.QUESTIONS)), texts))
def test_a_statement_of_any_release_is_harmless_and_lists_every_attribute(
    sidecar: Sidecar, answers: dict[str, str]
) -> None:
    assert sidecar.privacy is not UNSET
    statement = content.Statement(sidecar, sidecar.privacy, {}, answers, None, None, 0.05)
    text, shown = statement.page, Tags(statement.page)
    harmless(shown)
    assert all(c.isprintable() for c in text.replace("\n", ""))
    for name in [a.name for a in sidecar.attributes] + list(answers.values()):
        assert re.sub(" +", " ", one_line(name)) in shown.text
    json.dumps(statement.figures, default=str)
    assert shown.find("none") == ["section"] * (statement.protection == "none")


def test_of_very_many_attributes_and_values_the_page_stays_a_page(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    monkeypatch.setattr(page, "MOST_ROWS", 10)
    frame = pl.DataFrame({f"attribute number {i}": rng.integers(0, 2, 60) for i in range(40)})
    many = {"attribute number 3": {"domain": "@values.txt"}}
    (tmp_path / "values.txt").write_text("\n".join(map(str, range(150))))
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        perturb(frame, "r.parquet", gamma=99, rare="publish", attributes=many)
    shown, figures = state()
    assert "30 further rows are left out" in shown.text and len(figures["published"]) == 40
    assert "150 values: 0, 1, 2" in shown.text and "99 and 50 more" in shown.text


def test_a_page_suits_paper_and_phones(release: Path, state: State) -> None:
    state()
    style = re.sub(
        r"\s+", " ", (release / "s.html").read_text().partition("<style>")[2].partition("</style>")[0]
    )
    paper = style.partition("@media print {")[2]
    assert "section, tr, li, p { break-inside: avoid; }" in paper and "h1, h2 { break-after: avoid; }" in paper
    phone = style.partition("@media screen and (max-width: 40em) {")[2].partition("@media print")[0]
    assert "td { display: block;" in phone and "url(" not in style and "@import" not in style

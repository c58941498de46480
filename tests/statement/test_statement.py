"""The statement for a data protection officer: what it says, what it must not, and that nothing in it runs."""

from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.statement import content
from tests.commands.test_shown import HOSTILE, printable
from tests.vocabulary import Run, listing, people

ABOUT = """
name = "Admissions 2025"
curators = ["Example Hospital"]
purpose = "Research"
description = "Admissions, perturbed"
population = "all admissions"
published = 2026-12-01
later = "one a year"
authors = ["A. Person"]
actors = "universities"
choices = "by the office"
risks = ["several admissions"]
review = "2027-12-01"
custody = "a safe"
exposure = "three readers"
"""


@pytest.fixture
def release(tmp_path: Path) -> Path:
    frame = people(800)
    frame.write_parquet(tmp_path / "truth.parquet")
    perturb(frame, tmp_path / "r.parquet", gamma=9, keep=["group"], drop=["since"])
    (tmp_path / "about.toml").write_text(ABOUT)
    return tmp_path


def text_of(page: Path) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.read_text()))


def test_recipes_and_persons_are_told(release: Path, ppdm: Run) -> None:
    frame = people(800).with_columns(id=pl.Series(np.arange(800) // 2))
    settings = {"person": "id", "rows_per_person": 2, "record_epsilon": 4, "publish": 2, "drop": ["since"]}
    perturb(frame, release / "r.parquet", force=True, shuffle=True, **settings)  # type: ignore[arg-type]
    ppdm("inspect", "r.parquet", "--report", "s.html", "--about", "about.toml")
    text = text_of(release / "s.html")
    for words in ("one of 10 recipes", "for each of 2 rows of a person", "attribute records that show it",
                  "The promise is for a person", "in a random order"):  # fmt: skip
        assert words in text, words


def test_a_release_without_a_promise_says_so_first(release: Path, ppdm: Run) -> None:
    perturb(people(800), release / "r.parquet", gamma=9, drop=["since"], seed=1, force=True)
    ppdm("inspect", "r.parquet", "--report", "s.html", "--about", "about.toml")
    assert "Nothing is promised of this release." in (release / "s.html").read_text()


def test_the_page_says_what_an_officer_asks(release: Path, ppdm: Run) -> None:
    (release / "attack.json").write_bytes(ppdm("attack", "r.parquet", "--json").stdout)
    ppdm("inspect", "r.parquet", "--report", "s.html", "--about", "about.toml", "--attack", "attack.json")
    text = text_of(release / "s.html")
    for words in (
        "Example Hospital", "at most 99.8%", "at most 32.2%", "The promise is for one record",
        "sequential composition", "Local:", "Published unchanged, so not protected: group", "operating system",
        "Domains taken from the private data", "order of the original", "expected from the release alone",
        "posterior", "2027-12-01",
        "several admissions", "three readers", "a safe", "standard error", "SHA-256", "whole numbers, exactly",
    ):  # fmt: skip
        assert words in text, words


def test_only_files_of_the_release_are_hashed(release: Path, ppdm: Run) -> None:
    key = ("--id", "id", "--key-file", "my.key", "--ledger", "l", "--people", "all")
    people(800).with_row_index("id").write_parquet(release / "in.parquet")
    ppdm("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9", "--force", *key)
    secret = [hashlib.sha256(b).hexdigest() for n, b in listing(release).items() if not n.startswith("r.")]
    secret.append((release / "my.key").read_text().split()[0])
    for form in ("html", "json"):
        options = ("--ledger", "l", "--people", "all", "--about", "about.toml", "--force")
        ppdm("inspect", "r.parquet", "--report", f"s.{form}", *options)
        stated = (release / f"s.{form}").read_text()
        for name in ("r.parquet", "r.parquet.ppdm.json"):
            assert hashlib.sha256((release / name).read_bytes()).hexdigest() in stated
        assert not [s for s in secret if s in stated]


def test_what_was_measured_is_refused(release: Path, ppdm: Run) -> None:
    measured = ppdm("attack", "r.parquet", "--truth", "truth.parquet", "--json").stdout
    (release / "attack.json").write_bytes(measured)
    for form in ("html", "json"):
        said = ppdm("inspect", "r.parquet", "--report", f"s.{form}", "--attack", "attack.json", code=4).stderr
        assert b"without --truth" in said and not (release / f"s.{form}").exists()


def test_a_report_of_another_release_is_refused(release: Path, ppdm: Run) -> None:
    perturb(people(800, 3), release / "other.parquet", gamma=9, drop=["since"])
    (release / "attack.json").write_bytes(ppdm("attack", "other.parquet", "--json").stdout)
    ppdm("inspect", "r.parquet", "--report", "s.html", "--attack", "attack.json", code=3)
    (release / "attack.json").write_text('{"release": 1}')
    ppdm("inspect", "r.parquet", "--report", "s.html", "--attack", "attack.json", code=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmae = 'x'\n", "its settings are name"),
        ("name = 1\n", "$.name"),
        ("published = 'soon'\n", "$.published"),
        ("name = \n", "not valid TOML (line 1)"),
        ("\xff", "not in UTF-8"),
    ],
)
def test_what_the_curator_says_is_read_strictly(release: Path, ppdm: Run, text: str, said: str) -> None:
    (release / "about.toml").write_bytes(text.encode("latin-1"))
    done = ppdm("inspect", "r.parquet", "--report", "s.html", "--about", "about.toml", code=2)
    assert said in done.stderr.decode() and not (release / "s.html").exists()


@pytest.mark.parametrize(
    "args",
    [
        "inspect r.parquet --about about.toml",
        "inspect r.parquet --report s.md",
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


class Tags(HTMLParser):
    """What a browser would make of a page: its elements with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


ATTACK = "</td></svg></style><script>PWNED()</script><img src=x onerror=PWNED()>&lt;|[x](javascript:PWNED())`"


def test_nothing_that_a_name_holds_becomes_markup(tmp_path: Path, ppdm: Run) -> None:
    rng = np.random.default_rng(1)
    names = [f"{c} {ATTACK}{HOSTILE}" for c in "abc"]
    pl.DataFrame({n: rng.choice(["x", "y"], 300).tolist() for n in names}).write_parquet(
        tmp_path / "in.parquet"
    )
    kept = ("--keep", names[2], "--ledger", "l", "--people", f"all {ATTACK}")
    ppdm("perturb", "in.parquet", "-o", "r.parquet", "--gamma", "9", *kept)
    said = json.dumps(ATTACK)
    (tmp_path / "about.toml").write_text(ABOUT.replace('"several admissions"', said).replace('"a safe"', said))
    report = json.loads(ppdm("attack", "r.parquet", "--json").stdout)
    report["sentences"].append(ATTACK)
    (tmp_path / "attack.json").write_text(json.dumps(report))
    options = ("--about", "about.toml", "--attack", "attack.json", "--ledger", "l", "--people", f"all {ATTACK}")
    for form in ("html", "json"):
        ppdm("inspect", "r.parquet", "--report", f"s.{form}", *options)
        stated = (tmp_path / f"s.{form}").read_bytes()
        printable(stated.replace(b"\n", b" "))
        assert b"PWNED" in stated
    page = Tags((tmp_path / "s.html").read_text())
    own = "html head meta title style body h1 h2 p ul li table thead tbody tr th td meter"
    assert {t for t, _ in page.elements} <= set(own.split())
    attributes = {a for _, found in page.elements for a in found}
    assert not [a for a in attributes if a.startswith("on") or a in ("href", "src", "style")]
    policy = next(a for t, a in page.elements if t == "meta" and "http-equiv" in a)["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert page.text.count("<script>PWNED()</script>") > 10


def test_of_very_many_attributes_the_page_stays_a_page(
    tmp_path: Path, ppdm: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    monkeypatch.setattr(content, "MOST_ROWS", 10)
    frame = pl.DataFrame({f"attribute number {i}": rng.integers(0, 2, 60) for i in range(40)})
    gammas = {f"attribute number {i}": {"gamma": 3 + i} for i in range(20)}
    perturb(frame, tmp_path / "r.parquet", gamma=99, rare="publish", attributes=gammas)
    ppdm("inspect", "r.parquet", "--report", "s.html")
    stated = (tmp_path / "s.html").read_text()
    assert "31 further rows are left out" in stated and "after one attribute alone" in stated
    assert stated.count("<meter") == 3

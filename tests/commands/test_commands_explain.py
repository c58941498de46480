"""`ppdm explain` finds whatever it has an entry for, however it is typed."""

from __future__ import annotations

import json

import pytest

from ppdm_cli.channels import KINDS
from ppdm_cli.commands import SUBCOMMANDS
from ppdm_cli.commands.attack import _GUESSES
from ppdm_cli.commands.entropy import _DESIGN, _TITLES
from ppdm_cli.commands.explain import explanations
from ppdm_cli.commands.show import _CELLS
from tests.docs import DOCS
from tests.reference import exit_codes
from tests.vocabulary import Run


@pytest.mark.parametrize(
    ("typed", "name", "sort"),
    [
        ("epsilon", "epsilon", "term"),
        ("Clean  records", "effective sample size", "term"),
        ("record-epsilon", "ppdm plan --record-epsilon", "option"),
        ("half_width", "half_width", "setting"),
        ("gamma-diagonal", "gamma-diagonal", "matrix"),
        ("train_tree", "train-tree", "command"),
        ("no-gamma", "a privacy budget", "error"),
        ("std error", "std error", "column"),
    ],
)
def test_explain_finds_each_sort_of_entry(typed: str, name: str, sort: str, ppdm: Run) -> None:
    found = json.loads(ppdm("explain", *typed.split(), "--json").stdout)["entries"]
    assert (name, sort) in [(e["name"], e["sort"]) for e in found]
    assert f"{name} ({sort}): " in ppdm("explain", *typed.split()).stdout.decode()


def test_explain_offers_the_nearest_entry_for_an_unknown_word(ppdm: Run) -> None:
    for typed, step in (("epsilom", b"Did you mean 'epsilon'?"), ("qqqq", b"See docs/glossary.md")):
        assert step in ppdm("explain", typed, code=2).stderr


def test_every_column_of_the_reports_on_privacy_is_explained() -> None:
    known = {name for e in explanations() for name in (e.name, *e.also)}
    printed = {*_CELLS, *_GUESSES, *_DESIGN.values(), *_TITLES.values()}
    plain = {"type", "domain", "attribute", "attack", "records", "rounds", "publish"}
    assert printed - plain <= known


def test_every_error_belongs_to_one_topic_with_a_page() -> None:
    topics = [e for e in explanations() if e.sort == "error"]
    assert sorted(id for e in topics for id in e.also) == sorted(exit_codes())
    assert all(e.see for e in topics)


def test_every_entry_names_what_the_code_has_and_a_page_that_exists() -> None:
    found = list(explanations())
    known = {"command": set(SUBCOMMANDS), "matrix": set(KINDS)}
    for e in found:
        assert e.sort not in known or e.name in known[e.sort], e.name
        assert not e.see or (DOCS / e.see.partition("#")[0]).is_file(), e.see
        assert e.text.strip().endswith((".", "]")) and e.text.isascii(), e.name

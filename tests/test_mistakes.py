"""Mistakes that people make on the command line: what each is told, and that the advice is of use.

A message has at most 30 words, names the mistake itself, and never suggests publishing what it should not.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.experiments.mistakes import CLICKS, MISTAKES, ended, followed, make, published, split
from tests.reference import exit_codes
from tests.vocabulary import Run, listing


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    make(folder)
    return folder


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_named_with_a_fix_that_ends_it(line: str, made: Path, tmp_path: Path) -> None:
    code, words = MISTAKES[line]
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    before = listing(tmp_path)
    left, message = ended(tmp_path, split(line))
    assert left == code and words in message, message
    if code:
        message, _, id = message.rpartition(" (ppdm explain ")
        assert id.removesuffix(")") in exit_codes()
        assert message.startswith("ppdm: ") and message.count("ppdm: ") == 1, "one line"
        assert len(message.split()) <= 32, f"{len(message.split()) - 2} words"
        assert not re.search(r"\b(mend|say|told|is no [a-z])\b|\bP\d{5}\b", message), message
        assert not re.search(r"--rare publish|--keep patient", message), "no hint leads to publishing more"
        assert listing(tmp_path) == before
    for release in tmp_path.glob("new.csv*"):
        release.unlink()
    followed(tmp_path, line)
    assert not published(tmp_path)


@pytest.mark.parametrize("line", CLICKS)
def test_what_click_refuses_has_a_fix_to_paste(line: str, made: Path, tmp_path: Path, ppdm: Run) -> None:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (last,) = ppdm(*split(line), code=2).stderr.decode().splitlines()
    assert CLICKS[line] in last and len(last.split()) <= 32 and last.startswith("ppdm: usage: "), last
    for fix in re.findall(r"Add it: ppdm (.*)", last):
        ppdm(*split(fix), *["--drop", "patient"] * ("perturb" in fix), *["--shuffle"] * ("perturb" in fix))


def test_a_single_column_with_such_a_name_can_be_read(tmp_path: Path, ppdm: Run) -> None:
    """What looks like another separator may be a name: the option says so, and a release's sidecar does."""
    pl.DataFrame({"a;b": ["x", "y"] * 50}).write_csv(tmp_path / "one.csv")
    perturbs = ("perturb", "one.csv", "-o", "r.csv", "--gamma", "9", "--keep-order")
    assert b"Add --delimiter" in ppdm(*perturbs, code=1).stderr
    ppdm(*perturbs, "--delimiter", ",")
    ppdm("estimate", "r.csv")

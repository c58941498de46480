"""Words: banned forms in docs and in all that users see, and docstrings that are sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OWN = sorted((ROOT / "ppdm_cli").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "sample_data" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BANNED = re.compile(
    r"\bis no (?!longer)[a-z]|\bhangs? on\b"
    r"|\btells? of\b|\btold\b|\b(?:be|is|are|was|were|had) had\b|\bhad again\b"
    r"|\bcommonest\b|\blikeliest\b|\blearnt\b|\bleave away\b|\bmend(?:s|ed)?\b|\btroubles?\b|\bas far as\b"
    r"|\bgoes by\b|\bstands in\b|\bis said\b|\bnobody's\b|\d %(?!\w)",
    re.IGNORECASE,
)
"""Forms that a reader has to read twice."""
BARE = re.compile(r"(?:^|[.!?:] )(?:Of|What|Who|Whoever) [a-z][^.?]*\.")
"""A sentence without a subject of its own in front; questions may begin so."""
FRAGMENT = re.compile(
    r"(?:Of|What|Who|Whoever|Whose|Whom|Which|Whether|How|Where|When|Why"
    r"|By|As|So|And|Or|But|That|Than|`\w+` is)\b"
)
"""A docstring that begins with one of these needs the name before it, or is not a sentence."""


def wrong(text: str) -> list[str]:
    """Return the banned forms in a text."""
    return [m.group() for rule in (BANNED, BARE) for m in rule.finditer(re.sub(r"\s+", " ", text.strip()))]


def text_of(node: ast.expr) -> str | None:
    """Return the text of a string, with a mark for each value that is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
    return None


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstrings of modules, classes, functions and variables."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            for line in node.body:
                if (
                    isinstance(line, ast.Expr)
                    and isinstance(line.value, ast.Constant)
                    and line.value.value is not ...
                ):
                    yield line.value


def shown_to_users(source: str) -> list[str]:
    """Return the texts in a module's strings: messages, help and reports, but neither scripts nor styles."""
    tree = ast.parse(source)
    aside = {id(d) for d in docstrings(tree)}
    commands = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name.endswith("_command")]
    found = [ast.get_docstring(c) or "" for c in commands]
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            aside |= {id(part) for part in ast.walk(node) if part is not node}
        text = (
            text_of(node) if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in aside else None
        )
        if text and " " in text.strip() and not re.search(r"document\.|\{ |\(\?|\\[bd]", text):
            found.append(text)
    return found


def prose(page: str) -> str:
    """Return a page without its code, its output, its HTML and its headings."""
    page = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "X", re.sub(r"<[^>]*>|^#.*$", "", page, flags=re.M))


def test_no_string_that_users_see_has_a_banned_form() -> None:
    found = {p.relative_to(ROOT).as_posix(): shown_to_users(p.read_text("utf-8")) for p in OWN}
    assert not [
        f"{name}: {text} <- {w}" for name, texts in found.items() for text in texts for w in wrong(text)
    ]


@pytest.mark.parametrize("page", [p.relative_to(ROOT).as_posix() for p in PAGES])
def test_no_page_has_a_banned_form(page: str) -> None:
    paragraphs = re.split(r"\n\s*\n|\n(?=[-*|] )", prose((ROOT / page).read_text("utf-8")))
    found = [f"{w}: {p.strip()[:80]}" for p in paragraphs for w in wrong(p)]
    assert not found, "\n".join(found)


def test_docstrings_are_no_fragments() -> None:
    found = []
    for path in OWN:
        for node in docstrings(ast.parse(path.read_text("utf-8"))):
            first = str(node.value).strip().split("\n\n")[0]
            if FRAGMENT.match(first) or BANNED.search(first) or first[-1:] not in ".:":
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {first}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "many"),
    [
        ("Null is no value.", 1),
        ("It hangs on the key. What is told of it: nothing.", 3),
        ("Of bins the first is used.", 1),
        ("Use 95% of them. Who publishes them?", 0),
        ("A level of 95 % or so", 1),
        ("The most common value depends on gamma.", 0),
    ],
)
def test_the_forms_have_power(text: str, many: int) -> None:
    assert len(wrong(text)) == many
    assert FRAGMENT.match("What it does.") and not FRAGMENT.match("Return what it does.")

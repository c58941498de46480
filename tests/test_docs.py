"""The documentation says what the tool does: every page is rebuilt and compared, every example is run.

What a page states as a number or a name is held against the code that decides it.
"""

from __future__ import annotations

import copy
import doctest
import json
import re
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from ppdm_cli.channels.exact_draw import DIGITS
from ppdm_cli.commands import SUBCOMMANDS
from ppdm_cli.commands.command import QUIET
from ppdm_cli.commands.shell import FOLDER, THREADS, WRITER
from ppdm_cli.display import UNLIMITED, at_most
from ppdm_cli.errors import Exit, UsageError
from ppdm_cli.perturbing.domain_choice import FEW, OTHER
from ppdm_cli.perturbing.plan import AttributePlan, Plan
from ppdm_cli.privacy import PRIOR, believed_after
from ppdm_cli.releases import decode
from ppdm_cli.sidecar import json_schema
from ppdm_cli.statement.content import GRADES
from tests.docs import PAGES, ROOT, commands, page_name, rebuilt
from tests.readme import PICTURE, measured, picture, written
from tests.reference import GENERATED, subcommands
from tests.tour import TOUR, executed, same, told

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")

pages = pytest.mark.parametrize("page", PAGES, ids=page_name)
GUIDES = [p for p in PAGES if p.parent.name in ("tutorials", "how-to") or p.name == "faq.md"]
_NOT_PROSE = re.compile(r"^<!--.*?-->\n|^ *```.*?^ *```$|^\|.*?$|^#.*?$|\]\([^)]*\)|[\[`*]", re.M | re.S)


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def grade(text: str) -> float:
    """Return the Flesch-Kincaid grade of a page's prose; paragraphs and list items end sentences."""
    prose = re.sub(r"\n(?=\n| *(?:-|\d+\.) )", ".\n", _NOT_PROSE.sub("", text))
    sentences = [s for s in re.split(r"[.!?:]+\s", prose) if re.search("[a-z]", s)]
    words = [re.sub(r"(?<!l)e$|es$|ed$", "", w.lower()) for w in re.findall("[A-Za-z']+", prose)]
    syllables = sum(max(1, len(re.findall("[aeiouy]+", word))) for word in words)
    return 0.39 * len(words) / len(sentences) + 11.8 * syllables / len(words) - 15.59


def blocks(text: str, kind: str) -> list[str]:
    return [body for found, body in _FENCE.findall(text) if found == kind]


@pages
def test_output_is_that_of_today(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    assert rebuilt(text, tmp_path) == text, "say `make docs`, and read what it changed"


@pytest.mark.parametrize("page", GENERATED, ids=page_name)
def test_generated_pages_are_those_of_the_code(page: Path) -> None:
    assert GENERATED[page]() == page.read_text("utf-8"), "run `make docs`"


@pages
def test_python_examples_hold(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page.read_text("utf-8"), "pycon"))
    example = doctest.DocTestParser().get_doctest(code, {}, page_name(page), str(page), 0)
    said: list[str] = []
    failed = doctest.DocTestRunner().run(example, out=said.append).failed
    assert not failed, "".join(said)


@pages
def test_every_command_shown_is_run(page: Path) -> None:
    """Only console blocks are run, so no other block may show the command line of ppdm."""
    for kind, body in _FENCE.findall(page.read_text("utf-8")):
        shown = [line for line in body.splitlines() if re.match(r"(\$ )?ppdm ", line)]
        assert kind in ("console", "text") or not shown, shown


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text("utf-8")):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.is_file(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", there.read_text("utf-8"), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", t).lower().replace(" ", "-") for t in titles}
            assert anchor in anchors, target


@pages
def test_pages_name_no_machine(page: Path) -> None:
    text = page.read_text("utf-8")
    assert not [folder for folder in (str(ROOT), str(Path.home()), "/tmp/") if folder in text]
    assert text.isascii(), [c for c in text if not c.isascii()]


def test_the_checks_have_power(tmp_path: Path) -> None:
    """A page with another output or another exit code is not what a rebuild gives."""
    for number, (wrong, right) in enumerate(
        [
            ("```console\n$ ppdm --version\nppdm 0.0.0\n```", f"ppdm {version('ppdm-cli')}\n"),
            ("```console\n$ ppdm inspect absent.parquet | head -0; (exit 3)\n$ echo $?\n0\n```", "\n3\n"),
            ("<!-- file: a -->\n```csv\nx\n```\n\n```console\n$ cat \\\n    a\n```", "\nx\n```"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        new = rebuilt(wrong, folder)
        assert new != wrong
        assert right in new


def test_changing_numbers_are_left_alone(tmp_path: Path) -> None:
    text = f"```console\n$ echo {'-'.join(['0' * 8, *['0' * 4] * 3, '0' * 12])}\n{{}}\n```"
    page = text.replace("{}", "01234567-0123-4567-89ab-0123456789ab")
    assert rebuilt(page, tmp_path) == page


_TREE = "age <= 59.9562: A (1,612.0)\nage > 59.9562: B (388.0)\nRight:  96.5 %, 1.2e-05\n"


@pytest.mark.parametrize(
    ("command", "old", "new", "kept"),
    [
        ("ppdm train-tree", "59.9562", "59.9571", True),
        ("ppdm predict", "1,612.0", "1,609.0", True),
        ("ppdm train-tree", "Right:  96.5", "Right: 96.45", True),
        ("ppdm train-tree", "96.5", "90.5", False),
        ("ppdm train-tree", "1.2e-05", "1.2e-04", False),
        ("ppdm train-tree", "age > 59.9562", "pay > 59.9562", False),
        ("ppdm train-tree", "age > 59.9562: B (388.0)\n", "", False),
        ("ppdm train-tree", "A (1,612.0)", "B (1,612.0)", False),
        ("ppdm estimate", "59.9562", "59.9571", False),
    ],
)
def test_learnt_trees_are_compared_by_structure_and_rounded_figures(
    command: str, old: str, new: str, kept: bool, tmp_path: Path
) -> None:
    today = f"$ : {command}; printf {_TREE!r}\n".replace("%", "%%")
    page = f"```console\n{today}{_TREE.replace(old, new)}```"
    assert rebuilt(page, tmp_path) == (page if kept else f"```console\n{today}{_TREE}```")


def test_every_command_is_run_on_some_page() -> None:
    run = [c for page in PAGES for body in blocks(page.read_text("utf-8"), "console") for c in commands(body)]
    assert not [name for name in SUBCOMMANDS if not any(f"ppdm {name} " in command for command in run)]


def test_the_readme_is_short_and_its_table_and_picture_are_those_of_today() -> None:
    readme = text_of("README.md")
    assert len(readme.split()) <= 900
    assert written() == readme and picture() == PICTURE.read_text("utf-8"), "say `make docs`"
    assert len(picture()) < 10_000 and "<script" not in picture()
    assert all(a.low < a.truth < a.high and not a.low < a.naive < a.high for a in measured()[2])


def test_the_budgets_of_the_readme_are_those_of_the_code_and_of_the_experiments() -> None:
    epsilons, readme = (1, 2, 4, 8), text_of("README.md")
    experiments = text_of("docs/technical/experiments.md")
    found = re.findall(r"^\| one pass, class inside \| (.+) \|$", experiments, re.M)
    for e, made, right in zip(epsilons, *(row.split(" | ") for row in found), strict=True):
        word = next((word for most, word in GRADES if e <= most), "weak")
        assert f"| {e} | {word} | {at_most(believed_after(e, PRIOR))} | {right}% | {made}% |" in readme
        assert re.search(rf"^\| {e} \| .* \| {right}% \|$", text_of("docs/how-to/choose-a-budget.md"), re.M)


@pytest.mark.parametrize("page", GUIDES, ids=page_name)
def test_guides_are_easy_to_read(page: Path) -> None:
    assert grade(page.read_text("utf-8")) <= 10


def test_the_grade_of_a_text_rises_with_its_sentences_and_words() -> None:
    short, long = "The cat sat on the mat. It sat.", "Administrative considerations invalidate anonymisation."
    assert grade(short) < 2 < 10 < grade(long)


def test_every_exit_code_is_listed() -> None:
    codes = {int(c) for c in re.findall(r"^\| (\d+) \|", text_of("docs/reference/shell.md"), re.M)}
    assert codes == {int(code) for code in Exit}


def test_every_variable_of_the_environment_is_listed() -> None:
    listed = re.findall(r"^\| `([A-Z_]+)` \|", text_of("docs/reference/shell.md"), re.M)
    assert listed == [QUIET, THREADS, FOLDER, WRITER, "NO_COLOR"]


def test_the_sidecar_of_the_page_is_valid_and_canonical() -> None:
    (example,) = blocks(text_of("docs/reference/sidecar.md"), "json")
    sidecar = decode(example.encode(), "docs/reference/sidecar.md")
    assert sidecar.encode().decode() == example


def test_every_field_of_a_sidecar_is_described() -> None:
    page = text_of("docs/reference/sidecar.md")
    schema = json.loads(json_schema())
    for definition in schema["$defs"].values():
        for field, described in definition["properties"].items():
            assert f"`{field}`" in page, field
            for value in described.get("enum", []):
                assert f"`{value}`" in page or f'"{value}"' in page or value == 1, (field, value)


def test_every_setting_of_a_plan_is_described(tmp_path: Path) -> None:
    page = text_of("docs/reference/plan.md")
    (example,) = blocks(page, "toml")
    plan = tmp_path / "plan.toml"
    plan.write_text(example, "utf-8")
    assert Plan.of(plan).attributes["commission"].edges == (0, 10000, 25000, 50000, 75000)
    plan.write_text("unknown = 1", "utf-8")
    with pytest.raises(UsageError) as whole:
        Plan.of(plan)
    with pytest.raises(UsageError) as one:
        AttributePlan.of({"unknown": 1})
    known = re.findall(r"'(\w+)'", whole.value.next_step + one.value.next_step)
    assert len(known) > 15
    assert not [setting for setting in known if f"`{setting}`" not in page]


def test_the_defaults_of_a_plan_are_those_of_the_options() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| `([^`]+)`[^|]* \|$", text_of("docs/reference/plan.md"), re.M)
    perturb = subcommands()["perturb"]
    helps = {o.name: o.get_help_record(click.Context(perturb)) for o in perturb.params}
    found = {n: re.findall(r"\[default: (.+?)\]$", (helps.get(n) or ("", ""))[1]) for n, _ in rows}
    assert {n: d.strip('"') for n, d in rows if found[n]} == {n: d[0] for n, d in found.items() if d}
    assert {"bins", "publish", "matrix", "rare", "scheme", "delimiter"} <= {n for n, d in found.items() if d}


def test_numbers_in_the_text_are_those_of_the_code() -> None:
    pages = ("reference/plan", "how-to/rare-and-long-columns")
    plan, rare = (" ".join(text_of(f"docs/{page}.md").split()) for page in pages)
    assert f"in fewer than {FEW} records is rare" in rare and f"`{OTHER}`" in rare
    assert DIGITS == 6 and "at most six significant digits" in plan


def test_the_beliefs_of_the_page_on_budgets_are_those_of_the_code() -> None:
    page = text_of("docs/how-to/choose-a-budget.md")
    assert all(f"| {e} | {at_most(believed_after(e, PRIOR))} |" in page for e in (1, 2, 4, 8))
    (limit,) = re.findall(r"^Above ([\d.]+) a belief of 5% may become more than 99.9%", page, re.M)
    assert believed_after(float(limit) - 0.01, PRIOR) < UNLIMITED < believed_after(float(limit) + 0.01, PRIOR)


def test_the_changelog_names_this_version() -> None:
    assert text_of("CHANGELOG.md").startswith(f"# Changelog\n\n## {version('ppdm-cli')} ")


def test_the_tour_runs_and_shows_what_it_has(tmp_path: Path) -> None:
    notebook = json.loads(TOUR.read_text("utf-8"))
    assert notebook["nbformat"] == 4 and len({c["id"] for c in notebook["cells"]}) == len(notebook["cells"])
    today = executed(notebook, tmp_path)
    assert same(today, notebook), "say `make docs`, and read what it changed"
    assert sum("image/png" in o["data"] for c in today["cells"] for o in c.get("outputs", [])) == 1
    wrong = copy.deepcopy(notebook)
    first = next(c for c in wrong["cells"] if c.get("outputs"))["outputs"][0]["data"]
    first["text/plain"] = [line.replace("Female", "Male") for line in first["text/plain"]]
    assert not same(today, wrong) and len(told(today)) > 5, "the test of the test"

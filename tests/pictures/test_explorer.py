"""The page of `plan --explore`: its figures are those of `entropy`, and no name in it is markup.

Node runs the page's own script over a small model of a document, and a browser runs it where there is one.
Tests move sliders and read the figures.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import product
from math import exp
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ppdm_cli.entropies import entropy, record_designs
from ppdm_cli.pictures import explorer_page
from ppdm_cli.planning import Proposal, plan
from tests.vocabulary import Run, people, raises

NODE = pytest.mark.skipif(not shutil.which("node"), reason="the page's script is run by node (no node here)")
HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"quoted\" & 'so'", "x" * 300,
    "עמודה של ערכים", "a\u202egnp.exe", "line\nbreak", "__proto__", "{data}", "<!--", "{script}",
]  # fmt: skip
MODEL = """
const fs = require('fs'), vm = require('vm');
const [page, moves] = JSON.parse(fs.readFileSync(0, 'utf8'));
class Element {
  constructor(tag) {
    Object.assign(this, { tag, own: '', children: [], style: {}, heard: {}, attributes: {} });
  }
  set innerHTML(text) { throw Error('markup'); }
  get textContent() { return this.own + this.children.map(c => c.textContent).join(''); }
  set textContent(text) { this.own = String(text); this.children = []; }
  append(...more) { this.children.push(...more); }
  replaceChildren(...more) { this.own = ''; this.children = more; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, heard) { this.heard[name] = heard; }
  select() {}
}
const ids = {};
for (const [, tag, id] of page.matchAll(/<(\\w+)[^>]* id="([\\w-]+)"/g)) ids[id] = new Element(tag);
ids.data.textContent = page.match(/<script type="application\\/json" id="data">(.*?)<\\/script>/s)[1];
let copied = null;
const navigator = { clipboard: { writeText: async text => { copied = text; } } };
const document = {
  getElementById: id => { if (!ids[id]) throw Error('no ' + id); return ids[id]; },
  createElement: tag => new Element(tag),
};
vm.runInNewContext(page.match(/<script>(.*?)<\\/script>/s)[1], { document, navigator });
const cells = row => row.children.map(c => c.textContent);
async function read() {
  await ids.copy.heard.click();
  const found = {};
  for (const id in ids) found[id] = ids[id].textContent;
  for (const id of ['odds', 'columns']) found[id] = ids[id].children.map(cells);
  found.clipboard = copied;
  found.bars = ids.columns.children.map(r => r.children[2].children[2].children[0].style.width);
  found.kinds = ids.columns.children.map(r => r.children[0].children[0].tag);
  found.valuetext = ids.epsilon.attributes['aria-valuetext'];
  return found;
}
(async () => {
  const shown = [await read()];
  for (const move of moves) {
    for (const [id, position] of Object.entries(move)) {
      ids[id].value = String(position);
      ids[id].heard.input();
    }
    shown.push(await read());
  }
  console.log(JSON.stringify(shown));
})();
"""


def moved(page: bytes, *moves: dict[str, int]) -> list[dict[str, Any]]:
    """Return what the page shows at first, and after each move of its sliders."""
    given = json.dumps([page.decode(), moves])
    done = subprocess.run(["node", "-e", MODEL], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def data_of(page: bytes) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.decode(), re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def near(words: str, figure: float) -> bool:
    """Return whether what is shown is a figure to three digits, or all digits before the point."""
    number = float(words.rstrip("%").replace(",", "")) / (100 if words.endswith("%") else 1)
    return number == pytest.approx(figure, rel=5.1e-3)


@pytest.fixture(scope="module")
def proposal() -> Proposal:
    return plan(people(4000), record_epsilon=2, drop=["group"])


@NODE
def test_sliders_show_the_figures_of_entropy(proposal: Proposal) -> None:
    page = explorer_page(proposal)
    data = data_of(page)
    grid = list(product(range(len(data["epsilons"])), range(4), range(len(data["bins"]))))[::7]
    shown = moved(page, *({"epsilon": e, "publish": p, "bins": b} for e, p, b in grid))
    first, *others = shown
    assert (first["epsilon-now"], first["bins-now"]) == ("2", "10") and "recommends this" in first["advice"]
    for (e, p, b), now in zip(grid, others, strict=True):
        written = tomllib.loads(now["clipboard"])
        epsilon, publish = float(data["epsilons"][e]), data["publish"][p]
        assert now["epsilon-now"] == now["valuetext"] == data["epsilons"][e]
        assert (written["record_epsilon"], str(written["publish"])) == (epsilon, publish)
        assert written["bins"] == int(data["bins"][b])
        rows = record_designs(record_epsilon=epsilon, records=proposal.records, plan=written).rows
        row = next(r for r in rows if r["publish"] == publish and r["epsilon"] == epsilon and r["rounds"] == 1)
        once = re.fullmatch(r"1 in ([\d,]+)|(\d+) in 100", now["row_found"])
        assert once is not None
        found = 1 / int(once[1].replace(",", "")) if once[1] else int(once[2]) / 100
        assert row["row_found"] <= found * (1 + 1e-9) < row["row_found"] * 1.11
        for figure in ("clean_single", "clean_pair", "share_error"):
            assert near(now[figure], row[figure]) or (now[figure] == "over 999%" and row[figure] > 9.99)
        gamma = f"{exp(epsilon):.6g}"
        believed = [entropy(gamma=gamma, bins=5, rho1=r).rows[0]["rho2"] for r in (0.01, 0.05)]
        for (_, words), rho2 in zip(now["odds"], believed, strict=False):
            assert words == "over 99.9%" or 0.9999 * rho2 <= float(words[:-1]) / 100 <= rho2 * 1.01


@NODE
def test_columns_have_the_errors_of_plan_by_bar_figure_and_word(proposal: Proposal) -> None:
    first = moved(explorer_page(proposal))[0]
    (at,) = (b.at for b in proposal.budgets)
    expected = {c.column: (c.N, c.errors[at]) for c in proposal.columns if c.N}
    assert [name for name, *_ in first["columns"]] == list(expected)
    for (name, size, cell), bar in zip(first["columns"], first["bars"], strict=True):
        (verdict, words), (N, error) = cell.split(), expected[name]
        assert error is not None and int(size) == N and near(words, error) and bar == words
        assert verdict == ("good" if error <= 0.2 else "fair" if error <= 1 else "nothing")


@NODE
def test_all_columns_at_once_have_the_errors_of_an_equal_part(proposal: Proposal) -> None:
    data = data_of(page := explorer_page(proposal))
    _, now = moved(page, {"epsilon": data["epsilons"].index("10"), "publish": 3})
    written = tomllib.loads(now["clipboard"])
    alone = plan(people(4000), gamma=f"{exp(10 / len(now['columns'])):.6g}", drop=["group"])
    errors = {c.column: next(iter(c.errors.values())) for c in alone.columns}
    assert written["publish"] == "all"
    assert all(near(cell.split()[1], errors[name] or 0) for name, _, cell in now["columns"])


@NODE
def test_hostile_names_are_text(tmp_path: Path) -> None:
    table = pl.DataFrame({name: people(500, seed)["age"] for seed, name in enumerate(HOSTILE)})
    page = explorer_page(plan(table))
    text = page.decode()
    assert text.count("<script") == 2 and text.count("</script>") == 2 and "<img" not in text
    assert text.count("<!--") == 0 and "\u202e" not in text
    now = moved(page)[0]
    names = [name for name, *_ in now["columns"]]
    assert names == [n.replace("\u202e", "\\u202e").replace("\n", "\\n") for n in HOSTILE]
    assert set(now["kinds"]) == {"bdi"}
    assert {*tomllib.loads(now["clipboard"])["attributes"]} == {*HOSTILE}


@pytest.fixture
def chromium() -> Callable[..., list[Any]]:
    """A browser, where PySide6 is installed, as tests/pictures/browser.py has it."""
    pytest.importorskip("PySide6.QtWebEngineWidgets")

    def driven(page: Path, *steps: tuple[str, object]) -> list[Any]:
        given = {"input": json.dumps(steps), "capture_output": True, "text": True, "timeout": 120}
        done = subprocess.run([sys.executable, "-m", "tests.pictures.browser", page], check=False, **given)
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    return driven


def test_keys_in_a_browser_show_and_copy_what_entropy_says(
    tmp_path: Path, ppdm: Run, chromium: Callable[..., list[Any]]
) -> None:
    people(4000).drop("group").write_csv(tmp_path / "in.csv")
    ppdm("plan", "in.csv", "-o", "plan.toml", "--record-epsilon", "2", "--explore", "page.html")
    shown = ["epsilon-now", "publish-now", "bins-now", "clean_single", "clean_pair", "share_error", "row_found"]
    keys = ["Tab", "Right", "Right", "Tab", "End", "Left", "Tab", "Left", "Tab", "Space"]
    read = "[document.activeElement.id, document.getElementById('epsilon').getAttribute('aria-valuetext')]"
    seen, (focus, spoken), copied = chromium(
        tmp_path / "page.html", *(("key", k) for k in keys),
        ("js", f"{shown}.map(id => document.getElementById(id).textContent)"), ("js", read), ("clipboard", 0),
    )  # fmt: skip
    assert seen[:3] == ["3", "3", "5"] and (focus, spoken) == ("copy", "3")
    (tmp_path / "copied.toml").write_text(copied)
    said = ppdm("entropy", "--record-epsilon", "3", "--records", "4000", "--plan", "copied.toml", "--json")
    row = next(r for r in json.loads(said.stdout)["rows"] if (r["publish"], r["rounds"]) == ("3", 1))
    for words, figure in zip(seen[3:6], ("clean_single", "clean_pair", "share_error"), strict=True):
        assert near(words, row[figure])
    assert int(seen[6].removeprefix("1 in ").replace(",", "")) == int(1 / row["row_found"])


def test_hostile_names_fit_a_browser_of_80_mm(tmp_path: Path, chromium: Callable[..., list[Any]]) -> None:
    table = pl.DataFrame({name: people(500, seed)["age"] for seed, name in enumerate(HOSTILE)})
    (tmp_path / "page.html").write_bytes(explorer_page(plan(table)))
    fits = "document.documentElement.scrollWidth <= innerWidth"
    size = f"[{fits}, document.images.length, document.scripts.length]"
    steps = [step for width in (302, 800, 1600) for step in (("width", width), ("js", size))]
    assert chromium(tmp_path / "page.html", *steps) == [[True, 0, 2]] * 3


def test_page_loads_nothing_and_allows_its_own_script_alone(proposal: Proposal) -> None:
    text = explorer_page(proposal).decode()
    script = re.search(r"<script>(.*?)</script>", text, re.S)
    assert script is not None and "Private." in text
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert not re.search(r"https?:|src=|href=|url\(|@import| on\w+=", text.replace(json.dumps(script[1]), ""))
    labelled = re.findall(r'<label for="(\w+)"', text)
    assert labelled == re.findall(r'<input id="(\w+)"', text) == ["epsilon", "publish", "bins"]


def test_bins_of_an_earlier_plan_are_those_of_its_columns() -> None:
    many = plan(people(), plan={"bins": 20, "record_epsilon": 2})
    assert {c.column: c.N for c in many.columns}["income"] == 20 and "\nbins = 20" in many.text


def test_a_persons_belief_is_after_all_records() -> None:
    table = people(2000).with_columns(whose=pl.int_range(2000) // 4)
    done = plan(table, person="whose", rows_per_person=3, record_epsilon=1)
    data = data_of(explorer_page(done))
    sentence = data["odds"][data["epsilons"].index("1")]["sentence"]
    assert sentence.casefold().rstrip(".") in done.sentences[-1].casefold()
    assert "all of their records" in data["odds"][0]["sentence"]


def test_page_without_columns_says_so() -> None:
    done = plan(people(300), keep=["age", "income", "region", "member", "since", "group"])
    assert data_of(explorer_page(done))["by_bins"][0]["cells"] == []


def test_other_matrices_are_refused() -> None:
    with raises("explorer-of-plain-plans"):
        explorer_page(plan(people(300), plan={"gamma": 9, "matrix": "band"}))


def test_command_writes_the_page_beside_the_plan_or_neither(tmp_path: Path, ppdm: Run) -> None:
    people(400).write_csv(tmp_path / "in.csv")
    ppdm("plan", "in.csv", "-o", "plan.toml", "--explore", "page.html")
    assert data_of((tmp_path / "page.html").read_bytes())["publish"] == ["1", "2", "3", "all"]
    ppdm("plan", "in.csv", "-o", "new.toml", "--explore", "page.html", code=2)
    (tmp_path / "band.toml").write_text('gamma = 9\nmatrix = "band"\n')
    ppdm("plan", "in.csv", "--plan", "band.toml", "-o", "new.toml", "--explore", "new.html", code=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["band.toml", "in.csv", "page.html", "plan.toml"]

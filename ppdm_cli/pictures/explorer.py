"""Explorer for `plan --explore`: a private page on which an owner compares budgets before publishing anything.

Every figure is computed here for a grid of settings, by the functions of `plan` and `entropy`, and travels as
JSON; the page's script only looks it up. The page loads nothing, and its policy allows no other script. Names
of columns reach it as text, never as markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from math import ceil, comb, exp
from typing import Any

from ppdm_cli.display import at_most, exactly, up
from ppdm_cli.entropies import setting_of
from ppdm_cli.errors import UsageError, listed, one_line
from ppdm_cli.perturbing import Design, Plan, Setting, chosen_number, possible, settled_plan
from ppdm_cli.planning import Proposal
from ppdm_cli.privacy import PRIOR, believed_after, limit_sentence
from ppdm_cli.sidecar import MOST_RECIPES

EPSILONS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
USUAL_EPSILON, USUAL_BINS = 2.0, 10
SIZES = (5, 10, 15, 20)
PRIORS = (0.01, PRIOR, 0.2, 0.5)
GOOD = 0.2
"""The largest expected error of a count, over the mean count, that is called good; above 1 is nothing."""
_WORDS = ("nothing", "fair", "good")
_SPENT = {"gamma", "rho1", "rho2", "record_epsilon", "publish", "rounds"}
"""Settings of a plan that the page chooses."""


def page_of(done: Proposal) -> bytes:
    data = json.dumps(_explored(done), separators=(",", ":")).replace("<", "\\u003c")
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    page = _PAGE.replace("{policy}", policy).replace("{style}", _STYLE)
    page = page.replace("{records}", f"{done.records:,}").replace("{good}", exactly(GOOD))
    page = page.replace("{guess}", _once(1 / max(done.records, 1)))
    return page.replace("{script}", _SCRIPT).replace("{data}", data).encode()


def _explored(done: Proposal) -> dict[str, Any]:
    """Return all that the page can show, by bins, epsilon and the number of columns that a record publishes."""
    asked = Plan.known(done.settled)
    if not asked.is_plain:
        what = "the page compares plans of the default matrices"
        raise UsageError("explorer-of-plain-plans", what, "leave out matrix, scheme and together")
    rows = (asked.rows_per_person or 1) if asked.person else 1
    bins = asked.bins if isinstance(asked.bins, int) else USUAL_BINS
    epsilon = asked.record_epsilon or USUAL_EPSILON
    epsilons, sizes = sorted({*EPSILONS, epsilon}), sorted({*SIZES, bins})
    by_bins = [_with_bins(done, n, epsilons) for n in sizes]
    e, b = epsilons.index(epsilon), sizes.index(bins)
    return {
        "epsilons": [f"{x:.12g}" for x in epsilons],
        "publish": ["1", "2", "3", "all"],
        "bins": [str(n) for n in sizes],
        "start": [e, by_bins[b]["best"][e], b],
        "priors": [exactly(p) for p in PRIORS],
        "odds": [_odds(x, rows, asked, max(done.records, 1)) for x in epsilons],
        "by_bins": by_bins,
        "notes": _notes(done, asked),
    }


def _odds(record_epsilon: float, rows: int, asked: Plan, records: int) -> dict[str, Any]:
    """Return what an attacker may believe after seeing all records of whom the budget protects."""
    seen, epsilon = "all of their records" if asked.person else "a whole record", record_epsilon * rows
    return {
        "sentence": limit_sentence(believed_after(epsilon, PRIOR), PRIOR, seen),
        "times": f"{up(exp(epsilon)):,.4g}" if epsilon < 20 else "over 100 million",
        "after": [at_most(believed_after(epsilon, p)) for p in PRIORS],
        "sure": _once(believed_after(record_epsilon, 1 / records)),
    }


def _with_bins(done: Proposal, bins: int, epsilons: list[float]) -> dict[str, Any]:
    """Return the plan, the columns and the figures for so many bins."""
    assert done.look is not None
    settled = {k: v for k, v in done.settled.items() if k not in _SPENT}
    text = done.look.proposal(settled_plan(settled, {"record_epsilon": 1, "bins": bins})).text
    before, _, after = text.partition("record_epsilon = 1\n")
    plan = tomllib.loads(text)
    sized = {n: w for n, w in plan.get("attributes", {}).items() if "N" in w}
    own = [n for n in sized if n != plan.get("class")]
    known = Plan.known(plan | {"attributes": sized})
    cells, best = [], []
    for epsilon in epsilons if own else ():
        setting = setting_of(epsilon, max(done.records, 1), None, known, False)
        cells.append(_designs(setting))
        best.append(chosen_number(setting) - 1)
    return {
        "plan": [before, after],
        "columns": [one_line(n) for n in own],
        "N": [n for n, _ in setting.sizes] if own else [],
        "cells": cells,
        "best": best or [0] * len(epsilons),
    }


def _designs(setting: Setting) -> list[dict[str, Any] | None]:
    """Return the figures of 1, 2, 3 and all columns a record; None where a plan of so many can't be run."""
    q = len(setting.sizes)
    found = {d.k: d for d in possible(setting) if d.k is None or comb(q, d.k) <= MOST_RECIPES}
    return [_figures(found[k]) if k in found else None for k in (1, 2, 3, None)]


def _figures(design: Design) -> dict[str, Any]:
    errors, pair = {n: design.count_error(n) for n, _ in design.setting.sizes}, design.cell_error
    return {
        "row_found": _once(design.row_found),
        "clean_single": _number(design.of_one),
        "clean_pair": _number(design.of_pair),
        "share_error": _share(design.share_error),
        "cell_error": "no pairs" if pair is None else _share(pair),
        "errors": {n: (_share(e), _WORDS[(e <= 1) + (e <= GOOD)]) for n, e in errors.items()},
    }


def _number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _once(chance: float) -> str:
    """Return a limit on a chance, rounded up."""
    return f"1 in {int(1 / chance + 1e-6):,}" if chance <= 0.1 else f"{ceil(100 * chance)} in 100"


def _share(share: float) -> str:
    return f"{100 * share:.3g}%" if share < 9.995 else "over 999%"


def _notes(done: Proposal, asked: Plan) -> list[str]:
    """Return notes on columns without a bar."""
    kept = [c.column for c in done.columns if c.proposal.startswith("keep")]
    dropped = [c.column for c in done.columns if c.proposal.startswith("drop")]
    left = [c.column for c in done.columns if c.N is None and c.column not in (*kept, *dropped, asked.class_)]
    unchanged = f"Not protected, because the plan publishes them unchanged: {listed(kept)}."
    lines = [f"{unchanged} They may single out a row."] if kept else []
    lines += [f"Left out of the release: {listed(dropped)}."] if dropped else []
    lines += [f"Open questions, without figures here: {listed(left)}."] if left else []
    others = [q for q in done.questions if q != "record_epsilon"]
    return lines + [f"The copied plan leaves open {listed(others)}."] * bool(others)


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Explore a plan (private)</title><style>{style}</style></head><body><main>
<h1>Explore a plan</h1>
<p class="private"><strong>Private.</strong> These figures were counted from {records} records. Don't publish
this page.</p>
<noscript><p>This page needs scripts.</p></noscript><div class="settings">
<div><label for="epsilon">Epsilon for a record</label> <span id="epsilon-now"></span>
<input id="epsilon" type="range" min="0" step="1"></div>
<div><label for="publish">Columns that each record publishes</label> <span id="publish-now"></span>
<input id="publish" type="range" min="0" step="1"></div>
<div><label for="bins">Bins of a column of numbers</label> <span id="bins-now"></span>
<input id="bins" type="range" min="0" step="1"></div></div>
<p id="advice" role="status"></p><div id="notes"></div>
<h2>What an attacker may believe</h2><p id="limit"></p>
<table><thead><tr><th scope="col">Sure of a value before</th><th scope="col">At most, after</th></tr></thead>
<tbody id="odds"></tbody></table><p>The odds of any belief grow at most <span id="times"></span> times.
A larger epsilon reveals more.</p>
<h2>The risk that a row is found</h2>
<p>Suppose an attacker has all original rows of these columns, without their order, and picks the row that fits
a published record best. At most <strong id="row_found"></strong> such picks are right. A blind guess is right
{guess} times. However well a row fits a record, the chance that it is the right one is at most
<strong id="sure"></strong>.</p>
<h2>What you can learn</h2><table><tbody>
<tr><th scope="row">Unperturbed records worth as much, for one column</th><td id="clean_single"></td></tr>
<tr><th scope="row">The same, for a pair of columns</th><td id="clean_pair"></td></tr>
<tr><th scope="row">Standard error of the share of half a column's values</th><td id="share_error"></td></tr>
<tr><th scope="row">Standard error of a quarter of a pair's table</th><td id="cell_error"></td></tr>
</tbody></table>
<p>The line in the middle is the mean share of a column's values. The bar around it shows the standard error of
a share, relative to the mean share. <b class="good">good</b> means at most {good}, <b class="fair">fair</b>
at most 100%. Above that the bar reaches zero, its left end, and you learn <b class="nothing">nothing</b>.</p>
<table id="expected"><thead><tr><th scope="col">Column</th><th scope="col">Values</th>
<th scope="col">Expected error</th></tr></thead><tbody id="columns"></tbody></table><h2>The plan</h2>
<p><button id="copy" type="button">Copy as plan.toml</button> <span id="copied" role="status"></span></p>
<pre id="plan" tabindex="0" role="region" aria-label="plan.toml"></pre>
</main><script type="application/json" id="data">{data}</script><script>{script}</script></body></html>
"""
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --paper: #fff; --line: #d0d7de; --track: #eaeef2;
  --good: #00704f; --fair: #8a5a00; --nothing: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d;
  --track: #21262d; --good: #3ecf9f; --fair: #f0b040; --nothing: #ff8a94; } }
* { box-sizing: border-box; } main { max-width: 54em; margin: 0 auto; padding: 1em; }
body { margin: 0; font: 16px/1.5 Helvetica, Arial, sans-serif; color: var(--ink); background: var(--paper);
  overflow-wrap: anywhere; } h1 { font-size: 1.6em; margin: .2em 0; }
h2 { font-size: 1.2em; margin: 1.4em 0 .3em; break-after: avoid; } strong { white-space: nowrap; }
.private { border: 2px solid var(--nothing); padding: .4em .7em; }
.settings { display: grid; grid-template-columns: repeat(auto-fit, minmax(15em, 1fr)); gap: .4em 2em;
  align-items: end; } label { font-weight: bold; } label + span { float: right; }
input { width: 100%; height: 2em; margin: 0; accent-color: var(--good); }
input:focus-visible, button:focus-visible, pre:focus-visible { outline: 3px solid var(--fair); }
table { width: 100%; border-collapse: collapse; table-layout: fixed; } tr { break-inside: avoid; }
th, td { text-align: left; vertical-align: top; padding: .3em .6em .3em 0; overflow-wrap: anywhere;
  border-bottom: 1px solid var(--line); } tbody th { font-weight: normal; }
#expected th:nth-child(2) { width: 4.5em; } #expected th:nth-child(3) { width: 36%; }
@media (max-width: 32em) { table { font-size: .88em; } }
bdi { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden; }
.track { position: relative; height: .8em; background: var(--track); border: 1px solid var(--line); }
.track::after { content: ''; position: absolute; inset: -3px auto -3px 50%; border-left: 2px solid var(--ink); }
.bar { height: 100%; background: currentColor; } .track, .bar { print-color-adjust: exact; }
.good { color: var(--good); } .fair { color: var(--fair); } .nothing { color: var(--nothing); }
b.good::before { content: '\\2713\\a0'; } b.fair::before { content: '~\\a0'; }
b.nothing::before { content: '\\2717\\a0'; } button { font: inherit; padding: .4em 1em; }
pre { max-height: 24em; overflow: auto; margin: 0; padding: .6em; background: var(--track);
  font: 13px/1.4 monospace; white-space: pre-wrap; }
@media print { @page { margin: 16mm; } :root { --ink: #000; --paper: #fff; --line: #999; --track: #eee;
  --good: #00704f; --fair: #8a5a00; --nothing: #b00020; } input, button { display: none; }
  pre { max-height: none; } }
"""
_SCRIPT = """
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const at = id => document.getElementById(id);
const names = ['epsilon', 'publish', 'bins'], choices = [data.epsilons, data.publish, data.bins];
function made(tag, text, kind) {
  return Object.assign(document.createElement(tag), { textContent: text, className: kind || '' });
}
const holding = (found, ...parts) => (found.append(...parts), found);
const row = (...cells) => holding(made('tr', ''), ...cells);
function expected(name, size, [error, verdict]) {
  const head = holding(made('th', ''), made('bdi', name)), bar = made('div', '', 'bar ' + verdict);
  const width = error.startsWith('over') ? 100 : Math.min(100, parseFloat(error));
  head.setAttribute('scope', 'row');
  head.setAttribute('title', name);
  Object.assign(bar.style, { width: width + '%', marginLeft: 50 - width / 2 + '%' });
  return row(head, made('td', size), holding(made('td', ''), made('b', verdict, verdict),
    made('span', ' ' + error), holding(made('div', '', 'track'), bar)));
}
function show() {
  const [e, p, b] = names.map(name => Number(at(name).value));
  names.forEach((name, i) => {
    const now = choices[i][at(name).value];
    at(name + '-now').textContent = now;
    at(name).setAttribute('aria-valuetext', now);
  });
  const here = data.by_bins[b], cell = here.cells.length ? here.cells[e][p] : null, odds = data.odds[e];
  at('limit').textContent = odds.sentence;
  at('times').textContent = odds.times;
  at('sure').textContent = odds.sure;
  at('odds').replaceChildren(...data.priors.map((x, i) => row(made('td', x), made('td', odds.after[i]))));
  at('advice').textContent = !here.cells.length ? 'The plan has no column to perturb.'
    : !cell ? 'A record can\\u2019t publish so many of these columns. Choose another number.'
    : here.best[e] === p ? 'ppdm recommends this number of columns.'
    : 'For this epsilon, ppdm recommends ' + data.publish[here.best[e]] + '.';
  for (const figure of ['row_found', 'clean_single', 'clean_pair', 'share_error', 'cell_error'])
    at(figure).textContent = cell ? cell[figure] : '\\u2013';
  at('columns').replaceChildren(...(cell ? here.columns.map((name, i) =>
    expected(name, here.N[i], cell.errors[here.N[i]])) : []));
  const publish = p === 3 ? '"all"' : data.publish[p];
  const head = 'record_epsilon = ' + data.epsilons[e] + '\\npublish = ' + publish + '\\n';
  at('plan').textContent = cell ? here.plan[0] + head + here.plan[1] : '';
  at('copy').disabled = !cell;
  at('copied').textContent = '';
}
async function copy() {
  let done = false;
  try { await navigator.clipboard.writeText(at('plan').textContent); done = true; }
  catch { getSelection().selectAllChildren(at('plan')); done = document.execCommand('copy'); }
  at('copied').textContent = done ? 'Copied.' : 'Press Ctrl-C to copy the selected plan.';
}
names.forEach((name, i) => {
  Object.assign(at(name), { max: choices[i].length - 1, value: data.start[i] });
  at(name).addEventListener('input', show);
});
at('copy').addEventListener('click', copy);
at('notes').replaceChildren(...data.notes.map(note => made('p', note)));
show();
"""

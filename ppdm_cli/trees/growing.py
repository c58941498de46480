"""Growing level by level: C4.5's choice of a test at every open node of a level at once.

Open nodes have slots; an entry is a record at a slot, with its weight there. Where an attribute's
value is missing its record goes to all children, in parts (Quinlan 1993, 3.1). Ties are broken so:
the first attribute in the order of the columns, the lowest threshold; equal means within 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ppdm_cli.pool import ordered, workers
from ppdm_cli.trees.histograms import Counter, Entries
from ppdm_cli.trees.records import Records
from ppdm_cli.trees.splitting import SMALL, Best, best


@dataclass(frozen=True)
class Options:
    """How to grow and prune."""

    criterion: str = "gain-ratio"
    min_records: float = 2
    max_depth: int | None = None
    confidence: float = 0.25
    prune: bool = True
    mdl: bool = True


@dataclass
class Grown:
    """The nodes while they are made; `cut` is the last code of a numeric test's first child."""

    feature: np.ndarray
    cut: np.ndarray
    first_child: np.ndarray
    children: np.ndarray
    counts: np.ndarray
    entries: dict[int, Entries] = field(default_factory=dict)
    """The entries of every inner node, where pruning needs them: record order, slots of no meaning."""


def class_counts(records: Records, entries: Entries, slots: int) -> np.ndarray:
    """(slots, classes) weights."""
    classes = len(records.labels)
    key = entries.slot * classes + records.classes[entries.record]
    return np.bincount(key, entries.weight, slots * classes).reshape(slots, classes).astype(np.float64)


def step(
    records: Records,
    entries: Entries,
    feature: np.ndarray,
    cut: np.ndarray,
    first: np.ndarray,
    kids: np.ndarray,
) -> Entries:
    """Every entry at the child its slot's test sends it to; missing values to all, in parts."""
    tested = feature[entries.slot]
    code = records.codes.ravel().take(tested * np.intp(records.rows) + entries.record).astype(np.int64)
    numeric = records.numeric[tested]
    down = np.where(numeric, (code > cut[entries.slot]).astype(np.int64), code) + first[entries.slot]
    if not records.has_missing:
        return Entries(entries.record, down, entries.weight)
    lost = code == records.sizes[tested]
    if not lost.any():
        return Entries(entries.record, down, entries.weight)
    weight = entries.weights()
    known = ~lost
    size = int((first + kids).max())
    branch = np.bincount(down[known], weight[known], size)
    parent = np.zeros(size, np.int64)
    spread = np.repeat(np.arange(len(first)), kids)
    offsets = np.arange(len(spread)) - np.repeat(np.cumsum(kids) - kids, kids)
    parent[first[spread] + offsets] = spread
    total = np.bincount(spread, branch[first[spread] + offsets], len(first))
    gone = np.flatnonzero(lost)
    parts = kids[entries.slot[gone]]
    which = np.repeat(gone, parts)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
    slot = entries.slot[which]
    target = first[slot] + nth
    share = np.where(total[slot] > 0, branch[target] / np.maximum(total[slot], 1e-300), 1.0 / kids[slot])
    keep = share > SMALL
    return Entries(
        np.concatenate([entries.record[known], entries.record[which[keep]]]),
        np.concatenate([down[known], target[keep]]),
        np.concatenate([weight[known], weight[which[keep]] * share[keep]]),
    )


def grow(records: Records, options: Options, keep: bool) -> Grown:
    """The whole tree, unpruned; `keep` remembers the entries of the inner nodes."""
    entries = Entries(np.arange(records.rows), np.zeros(records.rows, np.int64), records.weights)
    if entries.weight is not None:
        entries = entries.at(np.flatnonzero(entries.weight > 0))
    counts = class_counts(records, entries, 1)
    nodes, levels, depth = np.zeros(1, np.int64), [], 0
    remembered: dict[int, Entries] = {}
    counter, next_node = Counter(records), 1
    while True:
        size = len(nodes)
        feature, cut = np.full(size, -1, np.int64), np.zeros(size, np.int64)
        total, most = counts.sum(axis=1), counts.max(axis=1)
        open_ = (total >= 2 * options.min_records - SMALL) & (total - most >= SMALL)
        if options.max_depth is not None and depth >= options.max_depth:
            open_[:] = False
        slots = np.flatnonzero(open_)
        if slots.size:
            entries = entries.only(open_)
            chosen, cuts = _choose(records, options, counter, entries, total[slots])
            feature[slots], cut[slots] = chosen, cuts
        split = feature >= 0
        kids = (
            np.where(split, np.where(records.numeric[feature], 2, records.sizes[feature]), 0)
            if (len(records.columns))
            else np.zeros(size, np.int64)
        )
        first = np.cumsum(kids) - kids
        levels.append((feature, cut, np.where(split, first + next_node, -1), kids, counts))
        if not split.any():
            break
        entries = entries.only(split[slots])
        inner = np.flatnonzero(split)
        if keep:
            remembered.update(zip((nodes[0] + inner).tolist(), entries.divided(len(inner)), strict=True))
        entries = step(records, entries, feature[inner], cut[inner], first[inner], kids[inner])
        made = int(kids.sum())
        nodes = next_node + np.arange(made)
        next_node, depth = next_node + made, depth + 1
        counts = class_counts(records, entries, made)
    feature, cut, first, kids, counts = (np.concatenate(part) for part in zip(*levels, strict=True))
    return Grown(feature, cut, first, kids, counts, remembered)


def _choose(
    records: Records, options: Options, counter: Counter, entries: Entries, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The attribute and the cut at every slot, -1 where no test is any good."""
    slots = len(total)

    def judged(place: int) -> Best:
        whole = Best(np.zeros(slots), np.zeros(slots), np.zeros(slots, np.int64))
        column = records.columns[place]
        if column.size < 2:  # constant: no test at all
            whole.gain[:] = -1
            return whole
        for where, rows in counter.rows(place, entries, slots):
            part = best(column, rows, total[where], options.min_records, options.mdl)
            whole.gain[where], whole.ratio[where], whole.cut[where] = part.gain, part.ratio, part.cut
        return whole

    places = range(len(records.columns))
    if len(entries.record) < 1 << 14:  # threads cost more than they give
        found = [judged(p) for p in places]
    else:
        with workers(None) as executor:
            found = list(ordered(executor, places, judged))
    feature, cut = np.full(slots, -1, np.int64), np.zeros(slots, np.int64)
    if not found:
        return feature, cut
    gains, ratios = np.array([f.gain for f in found]), np.array([f.ratio for f in found])
    usual = records.numeric | (records.sizes < 0.3 * records.rows)
    if not usual.any():
        usual[:] = True  # all are nominal with many values: then they count as well
    nominal = ~records.numeric[:, None]
    valid = np.where(nominal, gains >= 0, gains > 0)
    counted = valid & usual[:, None]
    if options.criterion == "gain":
        score, enough = gains, valid
    else:
        average = np.where(counted, gains, 0).sum(axis=0) / np.maximum(counted.sum(axis=0), 1)
        score, enough = ratios, valid & (gains >= average - 1e-3) & counted.any(axis=0)
    highest = np.zeros(slots)
    for place, one in enumerate(found):
        better = enough[place] & (score[place] > highest + SMALL)
        feature[better], cut[better] = place, one.cut[better]
        highest[better] = score[place][better]
    return feature, cut

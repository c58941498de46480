"""Growing for every training, level by level: C4.5's choice of a test at every open node of a level at once.

Open nodes have slots; an entry is a record at a slot, with its weight there. Where an attribute's
value is missing its record goes to all children, in parts (Quinlan 1993, 3.1). Ties are broken so:
the first attribute in the order of the columns, the lowest threshold; equal means within 1e-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.engine import ordered, workers
from ppdm_cli.errors import UsageError, unknown
from ppdm_cli.trees.histograms import TINY, BestTests, Entries, LevelCounter, OpenLevel, Task, best_tests
from ppdm_cli.trees.records import CodedRecords
from ppdm_cli.trees.tree import Tree, majority, spans


@dataclass(frozen=True)
class Options:
    """The options of growing and pruning."""

    criterion: str = "gain-ratio"
    min_records: float = 2
    max_depth: int | None = None
    confidence: float = 0.25
    prune: bool = True
    mdl: bool = True

    def check(self) -> None:
        """Raise a UsageError for a setting out of range."""
        if self.criterion not in ("gain-ratio", "gain"):
            raise unknown("criterion", self.criterion, ("gain-ratio", "gain"))
        if not 0 < self.confidence <= 0.5:
            what = "the confidence is out of range"
            raise UsageError(
                "confidence-out-of-range", what, "use a number above 0 and at most 0.5, such as C4.5's 0.25"
            )
        if not 1 <= self.min_records < float("inf"):
            what = "the minimum number of records is out of range"
            raise UsageError("min-records-out-of-range", what, "use 1 or more, such as C4.5's 2")
        if self.max_depth is not None and self.max_depth < 0:
            raise UsageError("depth-out-of-range", "the depth is negative", "use 0 or more")


@dataclass
class Grown:
    """The nodes while they are made; `cut` is the last code of a numeric test's first child."""

    feature: np.ndarray
    cut: np.ndarray
    first_child: np.ndarray
    children: np.ndarray
    counts: np.ndarray
    entries: dict[int, Entries] = field(default_factory=dict)
    """The entries of every inner node, if pruning needs them, in record order; their slots have no meaning."""


def class_counts(records: CodedRecords, entries: Entries, slots: int) -> np.ndarray:
    """Return the weights, of shape (slots, classes)."""
    classes = len(records.labels)
    key = entries.slot * classes + records.classes[entries.record]
    return np.bincount(key, entries.weight, slots * classes).reshape(slots, classes).astype(np.float64)


def send_down(
    records: CodedRecords,
    entries: Entries,
    feature: np.ndarray,
    cut: np.ndarray,
    first: np.ndarray,
    kids: np.ndarray,
) -> Entries:
    """Return every entry at the child that its slot's test sends it to; missing values to all, in parts."""
    slot = entries.slot
    code = records.codes.ravel().take((feature * records.rows).take(slot) + entries.record)
    down = code > cut.take(slot)
    numeric = records.numeric[feature]
    if not numeric.all():
        down = np.where(numeric.take(slot), down, code)
    down = down + first.take(slot)
    if not records.has_missing:
        return Entries(entries.record, down, entries.weight)
    lost = code == records.sizes[feature].take(slot)
    if not lost.any():
        return Entries(entries.record, down, entries.weight)
    weight = entries.weights()
    known = ~lost
    size = int((first + kids).max())
    branch = np.bincount(down[known], weight[known], size)
    total = np.bincount(np.repeat(np.arange(len(first)), kids), branch[spans(first, kids)], len(first))
    gone = np.flatnonzero(lost)
    parts = kids[entries.slot[gone]]
    which = np.repeat(gone, parts)
    slot, target = entries.slot[which], spans(first[entries.slot[gone]], parts)
    share = np.where(total[slot] > 0, branch[target] / np.maximum(total[slot], 1e-300), 1.0 / kids[slot])
    keep = share > TINY
    return Entries(
        np.concatenate([entries.record[known], entries.record[which[keep]]]),
        np.concatenate([down[known], target[keep]]),
        np.concatenate([weight[known], weight[which[keep]] * share[keep]]),
    )


def descended(records: CodedRecords, grown: Grown, weight: Floats) -> Iterator[Entries]:
    """Yield the entries of weighted records on their way down, level by level; slots are nodes."""
    kids = np.where(grown.feature >= 0, grown.children, 0)
    entries = Entries(np.arange(records.rows), np.zeros(records.rows, np.int64), weight)
    while entries.record.size:
        yield entries
        entries = entries.at(np.flatnonzero(grown.feature[entries.slot] >= 0))
        if entries.record.size:
            entries = send_down(records, entries, grown.feature, grown.cut, grown.first_child, kids)


def grow(records: CodedRecords, options: Options, keep: bool) -> Grown:
    """Return the whole tree, unpruned; `keep` remembers the entries of the inner nodes."""
    entries = Entries(np.arange(records.rows), np.zeros(records.rows, np.int64), records.weights)
    if entries.weight is not None:
        entries = entries.at(np.flatnonzero(entries.weight > 0))
    counts = class_counts(records, entries, 1)
    first_node, levels, depth = 0, [], 0
    parent = np.zeros(1, np.int64)
    remembered: dict[int, Entries] = {}
    counter = LevelCounter(records)
    with workers() as executor:
        while True:
            size = len(parent)
            total, most = counts.sum(axis=1), counts.max(axis=1)
            open_ = (total >= 2 * options.min_records - TINY) & (total - most >= TINY)
            if options.max_depth is not None and depth >= options.max_depth:
                open_[:] = False
            feature, cut = np.full(size, -1, np.int64), np.zeros(size, np.int64)
            if open_.any() and records.columns:
                level = OpenLevel(entries, open_, parent)
                feature, cut = _choose(records, options, counter, level, total, executor)
            split = feature >= 0
            kids = np.zeros(size, np.int64)
            kids[split] = np.where(records.numeric[feature[split]], 2, records.sizes[feature[split]])
            first, made = np.cumsum(kids) - kids, int(kids.sum())
            levels.append((feature, cut, np.where(split, first + first_node + size, -1), kids, counts))
            if not made:
                break
            inner = np.flatnonzero(split)
            entries = entries.only(split)
            if keep:
                parts = entries.divided(len(inner))
                remembered.update(zip((first_node + inner).tolist(), parts, strict=True))
            entries = send_down(records, entries, feature[inner], cut[inner], first[inner], kids[inner])
            counts = class_counts(records, entries, made)
            parent = np.repeat(inner, kids[inner])
            first_node, depth = first_node + size, depth + 1
    feature, cut, first, kids, counts = (np.concatenate(part) for part in zip(*levels, strict=True))
    return Grown(feature, cut, first, kids, counts, remembered)


def _choose(
    records: CodedRecords,
    options: Options,
    counter: LevelCounter,
    level: OpenLevel,
    total: np.ndarray,
    executor: ThreadPoolExecutor,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the attribute and the cut at every slot, -1 if no test has a gain."""
    slots, numeric = len(total), records.numeric
    # an attribute without a test has a gain of 0 if numeric, as J48, which counts it, and -1 if nominal
    gains = np.repeat(np.where(numeric & (records.sizes > 1), 0.0, -1.0), slots).reshape(-1, slots)
    ratios = np.zeros(gains.shape)
    low, high = np.zeros(gains.shape, np.int32), np.zeros(gains.shape, np.int32)

    def judged(task: Task) -> tuple[Task, BestTests]:
        several = np.tile(total[task.slots], len(task.attributes))
        are_numeric, classes = bool(numeric[task.attributes[0]]), len(records.labels)
        return task, best_tests(are_numeric, task.rows(), several, classes, options.min_records, options.mdl)

    tasks = counter.tasks(level)
    found: Iterable[tuple[Task, BestTests]] = map(judged, tasks)
    if len(level.entries.record) >= 1 << 14:  # with fewer, threads cost more than they give
        found = ordered(executor, tasks, judged)
    for task, one in found:
        at = np.ix_(np.array(task.attributes), task.slots)
        for into, own in ((gains, one.gain), (ratios, one.ratio), (low, one.low), (high, one.high)):
            into[at] = own.reshape(len(task.attributes), -1)
    usual = numeric | (records.sizes < 0.3 * records.rows)
    if not usual.any():
        usual[:] = True  # all are nominal with many values: then they count as well
    valid = np.where(numeric[:, None], gains > 0, gains >= 0)
    counted = valid & usual[:, None]
    if options.criterion == "gain":
        score, enough = gains, valid
    else:
        average = np.where(counted, gains, 0).sum(axis=0) / np.maximum(counted.sum(axis=0), 1)
        score, enough = ratios, valid & (gains >= average - 1e-3) & counted.any(axis=0)
    feature, cut = np.full(slots, -1, np.int64), np.zeros(slots, np.int64)
    highest = np.zeros(slots)
    for attribute in range(len(gains)):
        better = enough[attribute] & (score[attribute] > highest + TINY) & level.open_
        feature[better] = attribute
        highest[better] = score[attribute][better]
    for attribute in np.unique(feature[feature >= 0]).tolist():
        if numeric[attribute]:
            here = np.flatnonzero(feature == attribute)
            cut[here] = _between(records.columns[attribute].values, low[attribute, here], high[attribute, here])
    return feature, cut


def _between(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the last code of the first child: C4.5 takes the largest value of the data up to the middle."""
    middle = values[low] / 2 + values[high] / 2
    return np.clip(np.searchsorted(values, middle, side="right") - 1, low, high - 1)


def packed(records: CodedRecords, options: Options, *trees: Grown) -> Tree:
    """Return the nodes of one tree, or of several, that can be reached, numbered level by level."""
    roots = np.cumsum([0, *(len(t.feature) for t in trees)])[:-1]
    grown = Grown(
        np.concatenate([t.feature for t in trees]),
        np.concatenate([t.cut for t in trees]),
        np.concatenate([t.first_child + r for t, r in zip(trees, roots, strict=True)]),
        np.concatenate([t.children for t in trees]),
        np.concatenate([t.counts for t in trees]),
    )
    levels, nodes = [], roots
    while nodes.size:
        levels.append(nodes)
        nodes = nodes[grown.feature[nodes] >= 0]
        nodes = spans(grown.first_child[nodes], grown.children[nodes])
    kept = np.concatenate(levels)
    feature = grown.feature[kept]
    inner = feature >= 0
    children = np.where(inner, grown.children[kept], 0)
    first = np.where(inner, len(roots) + np.cumsum(children) - children, -1)
    threshold = np.full(len(kept), np.nan)
    for number, column in enumerate(records.columns):
        if column.feature.numeric:
            here = feature == number
            threshold[here] = column.thresholds(grown.cut[kept[here]])
    counts = grown.counts[kept]
    label = majority(counts)
    parent = np.concatenate([np.arange(len(roots)), np.repeat(np.arange(len(kept)), children)])
    for node in np.flatnonzero(counts.sum(axis=1) <= 0):
        label[node] = label[parent[node]]
    return Tree(
        tuple(c.feature for c in records.columns),
        records.class_name,
        records.class_dtype,
        records.labels,
        feature.astype(np.int32),
        threshold,
        first.astype(np.int32),
        children.astype(np.int32),
        counts,
        label.astype(np.int32),
        asdict(options),
        len(roots),
    )

"""The joint distributions of pairs in a release with several recipes: EM over what records show of the two.

Pairs of one law, such as all those of attributes with as many bins, are estimated at once, each without each
fold: of fifty attributes there are more than a thousand pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import TINY, Stop, Tables
from ppdm_cli.joint.attribute_search import steps_of
from ppdm_cli.joint.recipes import FOLDS, Seen
from ppdm_cli.joint.sample import Sample

CELLS = 1 << 20
"""Cells of all tables that are estimated at once."""
Pair = tuple[int, int]
Fitted = tuple[dict[Pair, Floats], dict[Pair, Tables], dict[Pair, Tables]]
"""By pair what it gains over independence within each class, its table, and that of all records."""


def of_sub_tables(
    sample: Sample, marginals: Mapping[int | None, list[Floats]], pairs: Sequence[Pair], stop: Stop
) -> list[Fitted]:
    """Return what is found of pairs without each fold; the gains are those of records that show both."""
    found: list[Fitted] = [({}, {}, {}) for _ in range(FOLDS)]
    for some, seen in _alike(sample, pairs):
        gains, tables, wholes = _fitted(sample, marginals, some, seen, stop)
        for n, pair in enumerate(some):
            for fold, (own, fitted, whole) in enumerate(found):
                own[pair], fitted[pair], whole[pair] = gains[n, fold], tables[n, fold], wholes[n]
    return found


def _alike(sample: Sample, pairs: Sequence[Pair]) -> Iterator[tuple[list[Pair], list[list[Seen]]]]:
    """Yield pairs that were shown by the same laws, and what was seen of each."""
    waiting: dict[object, tuple[list[Pair], list[list[Seen]]]] = {}
    for pair in pairs:
        seen = sample.seen(pair)
        laws = [[w.key for w in s.ways] for s in seen]
        key = tuple((s.axes, *own) for s, own in zip(seen, laws, strict=True))
        some, own = waiting.setdefault(key, ([], []))
        some.append(pair)
        own.append(seen)
        if len(some) * FOLDS * sample.classes * prod(sample.matrices[p].shape[1] for p in pair) > CELLS:
            yield waiting.pop(key)
    yield from waiting.values()


def _fitted(
    sample: Sample,
    marginals: Mapping[int | None, list[Floats]],
    pairs: Sequence[Pair],
    seen: Sequence[Sequence[Seen]],
    stop: Stop,
) -> tuple[Floats, Tables, Tables]:
    """Return gains and tables by (pair, fold), and tables of all records by pair."""
    counts = sample.label_counts
    known = np.stack([sample.shares(counts.sum(axis=0) - counts[f]) for f in range(FOLDS)])
    start = np.stack(
        [
            marginals[f][a][:, :, None] * marginals[f][b][:, None, :] * known[f][:, None, None]
            for a, b in pairs
            for f in range(FOLDS)
        ]
    )[:, None]
    kinds = [_stacked([own[i] for own in seen]) for i in range(len(seen[0]))]
    held = [k.counts.reshape(-1, 1, *k.counts.shape[2:]) for k in kinds]
    every = [np.repeat(k.counts.sum(axis=1), FOLDS, axis=0)[:, None] for k in kinds]

    def judge(expected: Sequence[Tables], which: np.ndarray) -> Floats:
        each = zip(held, expected, strict=True)
        said = [(h[which] * np.log(np.maximum(e, TINY))).reshape(len(which), -1).sum(axis=1) for h, e in each]
        return np.asarray(np.sum(said, axis=0)[:, None], np.float64)

    steps = steps_of(kinds, [e - h for e, h in zip(every, held, strict=True)])
    fit = steps.stopped(start, judge, stop)
    gains = np.zeros((len(start), known.shape[1]))
    now, before = (steps.expected(t.astype(np.float32)) for t in (fit.table, start))
    for own, after, first in zip(held, now, before, strict=True):
        rise = own * np.log(np.maximum(after, TINY) / np.maximum(first, TINY))
        if sample.label.kept:
            gains += rise.reshape(*gains.shape, -1).sum(axis=2)
        else:
            gains += np.tile(known, (len(pairs), 1)) * rise.reshape(len(rise), -1).sum(axis=1)[:, None]
    shape = (len(pairs), FOLDS, *fit.table.shape[2:])
    tables = fit.table.reshape(shape)
    more = max(3, int(np.median(fit.steps)) // 4)
    once = [replace(k, lam=np.asarray(k.lam)[::FOLDS]) for k in kinds]
    whole = steps_of(once, [e[::FOLDS] for e in every])(tables[:, :1], more)
    return gains.reshape(len(pairs), FOLDS, -1), tables, whole[:, 0]


def _stacked(seen: Sequence[Seen]) -> Seen:
    """Return what was seen of several pairs, by (pair, fold, label, cells), each with its own lam by fold."""
    counts = np.stack([s.counts for s in seen])
    lam = np.repeat(np.stack([np.asarray(s.lam, np.float64) for s in seen]), FOLDS, axis=0)[:, None]
    return replace(seen[0], counts=counts, lam=lam)

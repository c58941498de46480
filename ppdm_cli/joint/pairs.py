"""The joint distribution of a pair in a release with several recipes: EM over what records show of the two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import TINY, Stop, Tables
from ppdm_cli.joint.attribute_search import steps_of
from ppdm_cli.joint.sample import Sample


def of_sub_tables(
    sample: Sample, marginals: list[Floats], pair: tuple[int, int], fold: int, stop: Stop, whole: bool
) -> tuple[Floats, Tables, Tables]:
    """EM for a pair of a release with several recipes; the gain is that of the records that show both."""
    counts = sample.label_counts
    known = sample.shares(counts.sum(axis=0) - counts[fold])
    a, b = pair
    start = (marginals[a][:, :, None] * marginals[b][:, None, :] * known[:, None, None])[None, None]
    seen = sample.seen(pair)
    held = [s.counts[fold][None, None] for s in seen]
    every = [s.counts.sum(axis=0)[None, None] for s in seen]

    def judge(expected: Sequence[Tables], _: np.ndarray) -> Floats:
        each = zip(held, expected, strict=True)
        return np.array([[sum(float((h * np.log(np.maximum(e, TINY))).sum()) for h, e in each)]])

    steps = steps_of(seen, [e - h for e, h in zip(every, held, strict=True)])
    fit = steps.stopped(start, judge, stop)
    gain = np.zeros(len(known))
    now, before = (steps.expected(t.astype(np.float32)) for t in (fit.table, start))
    for own, after, first in zip(held, now, before, strict=True):
        rise = own * np.log(np.maximum(after, TINY) / np.maximum(first, TINY))
        by_class = rise[0, 0].reshape(len(known), -1).sum(axis=1) if sample.label.kept else known * rise.sum()
        gain += by_class
    more = steps_of(seen, every)(fit.table, max(3, int(fit.steps[0]) // 4)) if whole else fit.table
    return gain, fit.table[0, 0], more[0, 0]

"""How often each combination of codes occurs in a release: one fold, whatever is asked together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import MismatchError, UsageError, listed
from ppdm_cli.estimating.groups import Group
from ppdm_cli.tables import Table

MOST_CELLS = 1 << 21
"""Cells of all tables of several attributes: estimates take 150 bytes each, and would be noise long before."""

FETCH_AGAIN = "the data or the sidecar was changed: fetch both again"


def count(
    table: Table, groups: Sequence[Group], *, original: bool = False, outside: str = FETCH_AGAIN
) -> list[Floats]:
    """Return a table of counts for each group of channels, an axis a channel.

    Of a release, so by what was published, or of `original` data. `outside` is the next step that is told
    where a value is outside its domain.
    """
    channels = {a.name: a for group in groups for a in group}
    shapes = [tuple((a.domain if original else a.published).size for a in group) for group in groups]
    cells = sum(prod(shape) for shape in shapes if len(shape) > 1)
    if cells > MOST_CELLS:
        of = listed(dict.fromkeys(a.name for group in groups for a in group))
        raise UsageError(
            f"the values of {of} together make {cells} cells, more than {MOST_CELLS}",
            "name fewer attributes, or ones of fewer values",
        )
    names = [[a.name for a in group] for group in groups]
    task = partial(_count, channels, original, names, shapes, outside)
    found = fold(table, task, _added, columns=columns_of(channels.values()))
    if found is None:
        return [np.zeros(shape) for shape in shapes]
    return [counts.astype(np.float64) for counts in found]


def columns_of(channels: Iterable[Channel]) -> list[str]:
    """Return the columns that have these channels' codes, each once."""
    return list(dict.fromkeys(n for c in channels for n in c.attributes))


def _count(
    channels: Mapping[str, Channel],
    original: bool,
    groups: Sequence[Sequence[str]],
    shapes: Sequence[tuple[int, ...]],
    outside: str,
    batch: Batch,
) -> list[np.ndarray]:
    codes = {n: encoded(batch, c, outside, original=original) for n, c in channels.items()}
    return [tabulated([codes[n] for n in group], shape) for group, shape in zip(groups, shapes, strict=True)]


def _added(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    for ours, theirs in zip(a, b, strict=True):
        ours += theirs
    return a


def encoded(batch: Batch, channel: Channel, outside: str = FETCH_AGAIN, *, original: bool = False) -> Codes:
    """Return a channel's codes in a release; what the sidecar's domain lacks does not belong to it."""
    domain = channel.domain if original else channel.published
    found = domain.encode(channel.column(batch.column))
    if found.outside.size:
        raise _outside(channel.attributes, batch, found.outside, outside)
    return found.codes


def kept_codes(batch: Batch, channel: Channel) -> Codes:
    """Return the codes of a column that was kept: of numbers that its domain lacks the nearest."""
    found = channel.domain.encode(batch.column(channel.name), clip=True)
    if found.outside.size and dtypes.is_discrete(channel.kind):
        raise _outside([channel.name], batch, found.outside, FETCH_AGAIN)
    return found.codes


def _outside(names: Sequence[str], batch: Batch, rows: np.ndarray, next_step: str) -> MismatchError:
    return MismatchError(
        f"the column {listed(names)} has a value outside its domain in {batch.where(int(rows[0]))}", next_step
    )


def tabulated(codes: Sequence[Codes], shape: Sequence[int]) -> np.ndarray:
    """Return how many rows have each combination of codes, with an axis for each."""
    return np.bincount(joint_codes(codes, shape), minlength=int(np.prod(shape))).reshape(shape)


def joint_codes(codes: Sequence[Codes], shape: Sequence[int]) -> np.ndarray:
    """Return one code for each combination, in the narrowest type that holds them."""
    joint: np.ndarray = codes[0]
    if len(codes) > 1:
        cells = int(np.prod(shape))
        joint = codes[0].astype(np.uint16 if cells < 1 << 16 else np.uint32)
        for more, size in zip(codes[1:], shape[1:], strict=True):
            joint *= joint.dtype.type(size)
            joint += more
    return joint

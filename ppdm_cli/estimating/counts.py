"""How often each combination of codes occurs in a release: one fold, whatever is asked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.domain import Domain
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import MismatchError, UsageError, listed, quoted
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
    domains = {a.name: a.domain if original else a.published for group in groups for a in group}
    shapes = [tuple(domains[a.name].size for a in group) for group in groups]
    cells = sum(prod(shape) for shape in shapes if len(shape) > 1)
    if cells > MOST_CELLS:
        of = listed(dict.fromkeys(a.name for group in groups for a in group))
        raise UsageError(
            f"the values of {of} together make {cells} cells, more than {MOST_CELLS}",
            "name fewer attributes, or ones of fewer values",
        )
    names = [[a.name for a in group] for group in groups]
    task = partial(_count, domains=domains, groups=names, shapes=shapes, outside=outside)
    found = fold(table, task, _added, columns=list(domains))
    if found is None:
        return [np.zeros(shape) for shape in shapes]
    return [counts.astype(np.float64) for counts in found]


def _count(
    batch: Batch,
    domains: Mapping[str, Domain],
    groups: Sequence[Sequence[str]],
    shapes: Sequence[tuple[int, ...]],
    outside: str,
) -> list[np.ndarray]:
    codes = {n: encoded(batch, n, d, outside) for n, d in domains.items()}
    return [tabulated([codes[n] for n in group], shape) for group, shape in zip(groups, shapes, strict=True)]


def _added(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    for ours, theirs in zip(a, b, strict=True):
        ours += theirs
    return a


def encoded(batch: Batch, name: str, domain: Domain, outside: str = FETCH_AGAIN) -> Codes:
    """Return the codes of a release's column; what the sidecar's domain lacks does not belong to it."""
    found = domain.encode(batch.column(name))
    if found.outside.size:
        raise MismatchError(
            f"the column {quoted(name)} has a value outside its domain in {batch.where(int(found.outside[0]))}",
            outside,
        )
    return found.codes


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

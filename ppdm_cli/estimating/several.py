"""Tables over channels as tables over attributes, where some were perturbed together (Ma and Sivakumar 5).

Attributes that share a channel are estimated as one; what is not asked for is summed out.
Where the others have a law without it (their case d) it never takes part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Channel, Law, Written
from ppdm_cli.estimating.estimators import Matrices
from ppdm_cli.releases import opened
from ppdm_cli.sidecar import Sidecar


def axes_of(sidecar: Sidecar, names: Iterable[str]) -> tuple[Channel, ...]:
    """Return the axes of a table of these attributes: those that were perturbed together have one."""
    names, found = list(names), dict[str, Channel]()
    for name in names:
        channel = opened(sidecar).through(name)
        if channel.name not in found:
            own = [n for n in channel.attributes if n in names]
            found[channel.name] = channel if channel.kept else opened(sidecar).marginal(own) or channel
    return tuple(found.values())


def by_attribute(
    table: np.ndarray, group: Sequence[Channel], names: Sequence[str], shown: Sequence[str] = ()
) -> np.ndarray:
    """Return a table over channels, or over what is `shown` of them, as one over these of their attributes."""
    known = [(n, p.size) for c in group for n, p in c.each() if n in (shown or c.attributes)]
    places = [[n for n, _ in known].index(name) for name in names]
    table = np.moveaxis(table.reshape([size for _, size in known]), places, range(len(places)))
    return np.asarray(table.sum(axis=tuple(range(len(places), table.ndim))))


@dataclass(frozen=True, eq=False)
class Summed(Written):
    """The law of some attributes of a channel, with the others as they are shared; it estimates by sums."""

    one: Law
    members: np.ndarray
    """By code of the channel, the code of the attributes' combination."""
    within: Floats
    """By code of the channel, its share of its combination."""

    @cached_property
    def entries(self) -> Floats:
        return (self.one.dense() * self.within) @ self._sums.T

    @cached_property
    def _sums(self) -> Floats:
        return np.asarray(self.members == np.arange(self.members.max() + 1)[:, None], np.float64)

    @cached_property
    def inverse(self) -> Floats:
        return self._sums @ self.one.inverse

    @property
    def invertible(self) -> bool:  # type: ignore[override]
        return self.one.invertible


def summed(group: Sequence[Channel], names: Sequence[str], likeliest: Floats) -> tuple[Matrices, Floats]:
    """Return the laws and the likeliest counts of what is asked for of each channel; the rest is summed out.

    Only variances hang on how that is shared, which is taken to be alike in all slices of the other axes.
    """
    matrices: list[Law | None] = []
    for axis, channel in enumerate(group):
        sizes = channel.domain.sizes
        places = [i for i, n in enumerate(channel.attributes) if n in names]
        if channel.law is None or len(places) == len(sizes):
            matrices.append(channel.law)
            continue
        codes = np.unravel_index(np.arange(channel.domain.size), sizes)
        members = np.ravel_multi_index([codes[i] for i in places], [sizes[i] for i in places])
        counts = np.moveaxis(likeliest, axis, 0).reshape(len(members), -1).sum(axis=1) + 1e-9
        matrices.append(Summed(channel.law, members, counts / np.bincount(members, counts)[members]))
    kept = [n for c in group for n in c.attributes if n in names]
    shape = [prod(p.size for n, p in c.each() if n in names) for c in group]
    return matrices, by_attribute(likeliest, group, kept).reshape(shape)
